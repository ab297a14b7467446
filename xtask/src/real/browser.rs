//! A real browser opens the HTML page of a report.
//!
//! Chromium runs without a window; what its console says comes on stderr. A page that is fine says
//! nothing there, and has a table and a chart in its document once its script has run.

mod cdp;
mod page;
mod view;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::ours::Ours;
use super::{Checks, libnfs};
use crate::proc::{self, Background};
use crate::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);
const PATIENCE: Duration = Duration::from_secs(90);
/// A blank page of this size packs to a fifth of it.
const SCREENSHOT_BYTES_MIN: u64 = 20_000;

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    checks.run("Chromium's console is heard", heard);
    let Some(page) = checks.get("bare dfsbench leaves a page, the same when reported again", left)
    else {
        return;
    };
    checks.run("the page opens: table, chart, silent console", || opens(&page));
    checks.run("the page is no blank picture", || picture(&page));
    checks.run("the page is sorted and filtered by keys", || page::is_used(&page.path));
    checks.run("a page of ten thousand runs opens at once", page::of_ten_thousand_runs);
    let results = page.path.with_extension("db");
    checks.run("a view shows campaigns while they are made", || view::is_live(&results));
}

/// A page on disk, in a folder that goes with it.
struct Page {
    _folder: TempDir,
    path: PathBuf,
}

/// Runs bare `dfsbench`, as somebody tries it first, and takes the page that it leaves.
fn left() -> Result<Page> {
    let folder = TempDir::new()?;
    proc::capture(OURS.command().current_dir(folder.path()))?;
    let path = folder.path().join("dfsbench.html");
    let written = fs::read(&path).context("no page was left")?;
    let again = OURS.report(&folder.path().join("dfsbench.db"), "html")?;
    libnfs::same("the page, reported again", &again, &written)?;
    Ok(Page { _folder: folder, path })
}

fn heard() -> Result<()> {
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

struct Seen {
    document: String,
    console: Vec<String>,
}

fn chromium(page: &Path, action: &str) -> Result<Seen> {
    let folder = TempDir::with_prefix("dfsbench-chromium-")?;
    let (stdout, stderr) = (folder.path().join("stdout"), folder.path().join("stderr"));
    let mut command = Command::new("chromium");
    // As root, which is who runs these checks, Chromium refuses its sandbox.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"]);
    command.args(["--window-size=1280,1600", "--virtual-time-budget=5000", action]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    command.arg(format!("file://{}", page.display()));
    command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    let code = Background::start(&mut command)?.await_end(PATIENCE)?;
    let said = String::from_utf8_lossy(&fs::read(&stderr)?).into_owned();
    ensure!(code == Some(0), "Chromium ended with {code:?}:\n{said}");
    let console = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
    let document = String::from_utf8_lossy(&fs::read(&stdout)?).into_owned();
    Ok(Seen { document, console: console.collect() })
}
