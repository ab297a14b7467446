//! Every kind of page is examined by axe, on a screen and on a phone, light and dark; and texts in
//! charts must not overlap.
//!
//! The pages are those written by tests of `report`, and that of a real ladder.

use anyhow::{Result, ensure};
use checks::browser::{Browser, Tab};
use checks::{axe, proc, repo, test_programs};
use serde_json::json;
use tempfile::TempDir;

use super::OURS;

/// Pages written by tests of `report` whose names mark them for examination.
const PAGES: [&str; 12] = [
    "quick",
    "sweep",
    "programs",
    "panels",
    "curve",
    "ramp",
    "soak",
    "comparison",
    "contenders",
    "contenders-only",
    "durability",
    "bundles",
];

/// Opens everything that is folded on a page, up to a limit per kind.
const UNFOLD: &str = "document.querySelectorAll('details').forEach((fold, number) => {
    if (number < 12) fold.open = true;
})";

/// Pairs of overlapping texts in a chart: more than one pixel wide and four high.
const OVERLAPS: &str = "(() => {
    const found = [];
    for (const svg of document.querySelectorAll('svg.chart')) {
        const texts = [...svg.querySelectorAll('text')]
            .map((one) => [one.textContent, one.getBoundingClientRect()])
            .filter(([, box]) => box.width > 0);
        texts.forEach(([text, a], number) => {
            for (const [other, b] of texts.slice(number + 1)) {
                const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                if (wide > 1 && high > 4) found.push(`${text} / ${other}`);
            }
        });
    }
    return found.slice(0, 5);
})()";
/// Widths of a phone and of a screen, in pixels.
const WIDTHS: [u32; 2] = [400, 1_400];

/// Checks that texts in charts don't overlap on a phone and on a screen.
fn expect_texts_apart(tab: &mut Tab<'_>, page: &str) -> Result<()> {
    for width in WIDTHS {
        tab.resize(width)?;
        // Elements out of sight have no position until they are laid out.
        tab.eval(
            "document.querySelectorAll('figure, details').forEach((one) => {
                one.style.contentVisibility = 'visible';
            })",
        )?;
        let found = tab.eval(OVERLAPS)?;
        ensure!(found == json!([]), "{page}, {width} px wide: texts overlap: {found}");
    }
    Ok(())
}

/// Examines every kind of page; an error reports the findings.
pub fn finds_nothing() -> Result<()> {
    let test = test_programs::find_test_program("report", "reports")?;
    proc::capture_stdout(test.command().arg("to_look_at"))?;
    let folder = TempDir::new()?;
    let mut ladder = OURS.command();
    ladder.args(["ladder", "--trials", "2", "--file-size", "1MiB", "--quiet"]);
    proc::capture_output(ladder.current_dir(folder.path()))?;
    let mut pages = vec![folder.path().join("dfsbench.html")];
    pages.extend(
        PAGES.iter().map(|name| repo::target_folder().join("tmp").join(format!("{name}.html"))),
    );
    let mut browser = Browser::start()?;
    for page in &pages {
        ensure!(page.exists(), "{} was not written", page.display());
        let mut tab = browser.open_tab()?;
        tab.open(&format!("file://{}", page.display()))?;
        tab.eval(UNFOLD)?;
        let name = page.display().to_string();
        axe::expect_no_findings(&mut tab, &name)?;
        expect_texts_apart(&mut tab, &name)?;
        tab.expect_silent_console()?;
    }
    Ok(())
}

/// Shows that axe runs, and finds planted problems.
pub fn finds_what_is_planted() -> Result<()> {
    let folder = TempDir::new()?;
    let page = folder.path().join("planted.html");
    std::fs::write(
        &page,
        "<!doctype html><html lang=en><title>x</title>
        <meta name=viewport content=\"width=device-width\"><main><h1>x</h1><input>
        <svg class=chart width=100% height=40><text x=45% y=20>one text</text>
        <text x=55% y=20>another</text></svg></main>",
    )?;
    let mut browser = Browser::start()?;
    let mut tab = browser.open_tab()?;
    tab.open(&format!("file://{}", page.display()))?;
    let Err(error) = axe::expect_no_findings(&mut tab, "the page") else {
        anyhow::bail!("an input without a label isn't found");
    };
    let text = error.to_string();
    ensure!(text.contains("label (critical): input"), "{text}");
    // A tenth of a phone is narrower than the text, a tenth of a screen is not.
    let Err(error) = expect_texts_apart(&mut tab, "the page") else {
        anyhow::bail!("texts over each other aren't found");
    };
    ensure!(
        error.to_string().contains("400 px wide: texts overlap: [\"one text / another\"]"),
        "{error}"
    );
    Ok(())
}
