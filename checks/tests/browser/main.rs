//! A real browser opens the HTML page of a report.
//!
//! Chromium runs headless; its console is written to stderr. A page without errors writes nothing
//! there, and its document has a table and a chart once its script has run.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

mod axe;
mod page;
mod view;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::check::Fixture;
use checks::checks;
use tempfile::TempDir;

use checks::guard::{self, Ticket};
use checks::libnfs;
use checks::ours::Ours;
use checks::proc::{self, Background};
use checks::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);
const PATIENCE: Duration = Duration::from_secs(90);
/// A blank page of this size compresses to a fifth of it.
const SCREENSHOT_BYTES_MIN: u64 = 20_000;

/// The main job with few trials, whose page has the same parts.
const FEW_TRIALS: [&str; 6] = ["run", "quick", "--trials", "2", "--warmup-trials", "0"];

static PAGE: Fixture<Page> = Fixture::new(|| Page::make(&FEW_TRIALS));

checks! {
    errors_on_the_console_are_seen: 120 s, check_console();
    #[ignore = "takes a minute and a half: runs every night"]
    command_without_arguments_leaves_page: 300 s, {
        opens(&Page::make(&[])?)
    };
    reports_same_page_again: 120 s, {
        let page = PAGE.get()?;
        let again = OURS.report(&page.path.with_extension("db"), "html")?;
        libnfs::compare_bytes("the page, reported again", &again, &fs::read(&page.path)?)
    };
    shows_page_with_silent_console: 120 s, opens(PAGE.get()?);
    the_page_is_no_blank_picture: 120 s, picture(PAGE.get()?);
    sorts_and_filters_by_keyboard: 240 s, page::is_used(&PAGE.get()?.path);
    shows_page_of_matrix: 400 s, page::look_at_a_matrix();
    axe_finds_what_is_planted: 60 s, axe::finds_what_is_planted();
    #[ignore = "takes two minutes: runs every night"]
    finds_no_accessibility_problems: 400 s, axe::finds_nothing();
    opens_page_of_ten_thousand_runs: 400 s, page::open_ten_thousand_runs();
    sorts_and_filters_page_of_bundles: 120 s, page::look_at_bundles();
    shows_campaigns_live: 300 s, {
        // Its campaigns must not be those of the page.
        let folder = TempDir::new()?;
        let results = folder.path().join("results.db");
        fs::copy(PAGE.get()?.path.with_extension("db"), &results)?;
        view::is_live(&results)
    };
}

/// A page on disk, in a directory that is removed with it.
struct Page {
    _folder: TempDir,
    _ticket: Ticket,
    path: PathBuf,
}

impl Page {
    /// Runs `dfsbench` with these arguments and takes the page it leaves.
    fn make(arguments: &[&str]) -> Result<Self> {
        let folder = TempDir::new()?;
        let ticket = guard::remove_folder(folder.path());
        proc::capture_stdout(OURS.command().args(arguments).current_dir(folder.path()))?;
        let path = folder.path().join("dfsbench.html");
        ensure!(path.exists(), "no page was left");
        Ok(Self { _folder: folder, _ticket: ticket, path })
    }
}

fn check_console() -> Result<()> {
    let folder = TempDir::new()?;
    let path = folder.path().join("planted.html");
    fs::write(&path, "<!doctype html><p>x<script>console.error('planted')</script>")?;
    let seen = chromium(&path, "--dump-dom")?;
    ensure!(seen.console.iter().any(|line| line.contains("planted")), "a planted error isn't seen");
    Ok(())
}

fn opens(page: &Page) -> Result<()> {
    let seen = chromium(&page.path, "--dump-dom")?;
    ensure!(seen.console.is_empty(), "the console says:\n{}", seen.console.join("\n"));
    for element in ["<table", "<svg", "</html>"] {
        ensure!(seen.document.contains(element), "the document has no {element}");
    }
    Ok(())
}

fn picture(page: &Page) -> Result<()> {
    let file = page.path.with_extension("png");
    chromium(&page.path, &format!("--screenshot={}", file.display()))?;
    let bytes = fs::metadata(&file).context("no screenshot was written")?.len();
    ensure!(bytes >= SCREENSHOT_BYTES_MIN, "the screenshot has {bytes} bytes: a blank page");
    Ok(())
}

struct PageOutput {
    document: String,
    console: Vec<String>,
}

fn chromium(page: &Path, action: &str) -> Result<PageOutput> {
    let folder = TempDir::with_prefix("dfsbench-chromium-")?;
    let stdout = folder.path().join("stdout");
    let stderr = folder.path().join("stderr");
    let mut command = Command::new("chromium");
    // These checks run as root, and then Chromium refuses its sandbox.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"]);
    command.args(["--window-size=1280,1600", "--virtual-time-budget=5000", action]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    command.arg(format!("file://{}", page.display()));
    command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    let code = Background::start(&mut command)?.await_end(PATIENCE)?;
    let log = String::from_utf8_lossy(&fs::read(&stderr)?).into_owned();
    ensure!(code == Some(0), "Chromium exited with {code:?}:\n{log}");
    let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
    let document = String::from_utf8_lossy(&fs::read(&stdout)?).into_owned();
    Ok(PageOutput { document, console: console.collect() })
}
