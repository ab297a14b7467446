//! Every kind of page is examined by axe: on a screen and on a phone, light and dark.
//!
//! The pages are those that tests of `report` write, and that of a ladder, which is really made.

use std::process::Command;

use anyhow::{Result, ensure};
use checks::browser::Browser;
use checks::{axe, proc, repo};
use tempfile::TempDir;

use super::OURS;

/// Pages that the tests of `report` write whose names say that they are to be looked at.
const PAGES: [&str; 8] =
    ["quick", "sweep", "programs", "panels", "curve", "ramp", "soak", "comparison"];
/// Test programs that write them.
const WRITERS: [&str; 4] = ["report", "many", "question_pages", "compared"];

/// Opens all that is folded away on a page, up to so many of each kind.
const UNFOLD: &str = "document.querySelectorAll('details').forEach((fold, number) => {
    if (number < 12) fold.open = true;
})";

/// Examines every kind of page; an error says where axe finds something.
pub fn finds_nothing() -> Result<()> {
    let mut write = Command::new("cargo");
    write.args(["test", "-q", "--workspace"]);
    for program in WRITERS {
        write.args(["--test", program]);
    }
    proc::capture_stdout(write.arg("to_look_at").current_dir(repo::root()))?;
    let folder = TempDir::new()?;
    let mut ladder = OURS.command();
    ladder.args(["ladder", "--trials", "2", "--file-size", "1MiB", "--quiet"]);
    proc::capture_output(ladder.current_dir(folder.path()))?;
    let mut pages = vec![folder.path().join("dfsbench.html")];
    for name in PAGES {
        pages.push(repo::target_folder().join("tmp").join(format!("{name}.html")));
    }
    let mut browser = Browser::start()?;
    for page in &pages {
        ensure!(page.exists(), "{} was not written", page.display());
        let mut tab = browser.open_tab()?;
        tab.open(&format!("file://{}", page.display()))?;
        tab.eval(UNFOLD)?;
        axe::expect_no_findings(&mut tab, &page.display().to_string())?;
        tab.expect_silent_console()?;
    }
    Ok(())
}

/// Shows that axe runs, and finds what is planted.
pub fn finds_what_is_planted() -> Result<()> {
    let folder = TempDir::new()?;
    let page = folder.path().join("planted.html");
    std::fs::write(
        &page,
        "<!doctype html><html lang=en><title>x</title><main><h1>x</h1><input></main>",
    )?;
    let mut browser = Browser::start()?;
    let mut tab = browser.open_tab()?;
    tab.open(&format!("file://{}", page.display()))?;
    let Err(error) = axe::expect_no_findings(&mut tab, "the page") else {
        anyhow::bail!("an input without a label isn't found");
    };
    let text = error.to_string();
    ensure!(text.contains("label (critical): input"), "{text}");
    Ok(())
}
