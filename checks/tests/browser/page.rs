//! Uses the page of a report in a browser: sorting, filters, keys, and ten thousand runs.
//!
//! The page is used like by a person without a mouse; console messages are failures.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use checks::browser::{Browser, Tab};
use checks::{proc, repo, test_programs};

/// Maximum number of elements of a page, which determines its loading time.
const PAGE_ELEMENTS_MAX: u64 = 100_000;
/// Maximum height of the charts of a matrix, in screens.
const SCREENS_MAX: u64 = 6;
const SCREEN_PX: u64 = 900;
const PAGE_BYTES_MAX: u64 = 5_000_000;
/// Maximum number of elements laid out when the page of a matrix is opened; with the folded tables
/// it would be 63,000.
const ELEMENTS_MAX: u64 = 30_000;

/// The rates in the order of the rows, as numbers.
const RATES: &str = "[...document.querySelectorAll('.sortable td.rate')].map((cell) => {
    const [, number, unit] = /([0-9.]+) ([kM]?op\\/s|MB\\/s)/.exec(cell.textContent);
    return Number(number) * { 'op/s': 1, 'kop/s': 1e3, 'Mop/s': 1e6, 'MB/s': 1e6 }[unit];
})";

/// Sorts by a header using only the keyboard, filters, and leaves a silent console.
pub fn is_used(page: &Path) -> Result<()> {
    let mut browser = Browser::start()?;
    let mut tab = browser.open_tab()?;
    tab.open(&format!("file://{}", page.display()))?;
    sorts(&mut tab)?;
    filters(&mut tab)?;
    reads(&mut tab)?;
    tab.expect_silent_console()
}

/// Tabs from the start of the page to the header "rate", and presses it.
fn sorts(tab: &mut Tab<'_>) -> Result<()> {
    tab.press_keys(&["Tab"])?;
    tab.expect("document.activeElement.className", &json!("skip"))?;
    tab.press_keys(&["Enter"])?;
    for _ in 0..60 {
        tab.press_keys(&["Tab"])?;
        if tab.eval("document.activeElement.textContent")? == "rate" {
            break;
        }
    }
    tab.expect("document.activeElement.textContent", &json!("rate"))?;
    let head = "document.activeElement.parentElement.getAttribute('aria-sort')";
    let order = |way: &str| {
        format!("((rates) => rates.every((rate, n) => !n || rate {way}= rates[n - 1]))({RATES})")
    };
    tab.press_keys(&["Enter"])?;
    tab.expect(head, &json!("ascending"))?;
    tab.expect(&order(">"), &json!(true))?;
    tab.press_keys(&["Space"])?;
    tab.expect(head, &json!("descending"))?;
    tab.expect(&order("<"), &json!(true))?;
    tab.press_keys(&["Enter"])?;
    tab.expect(head, &json!("none"))
}

/// Chooses a value in the list with this label, in the filter bar or the chooser bar.
fn choose(tab: &mut Tab<'_>, bar: &str, label: &str, value: &str) -> Result<()> {
    tab.eval(&format!(
        "(() => {{
            const select = [...document.querySelectorAll('{bar} label')]
                .find((label) => label.textContent.startsWith('{label} ')).firstElementChild;
            select.value = '{value}';
            select.dispatchEvent(new Event('change'));
        }})()"
    ))?;
    Ok(())
}

/// Filters by a factor and by a word, and checks the number of rows left.
fn filters(tab: &mut Tab<'_>) -> Result<()> {
    let rows = "document.querySelectorAll('.sortable tbody tr').length";
    let all = tab.eval(rows)?;
    choose(tab, ".filters", "target", "nfs")?;
    let names = "[...new Set([...document.querySelectorAll('.sortable tbody th')]
        .map((cell) => cell.textContent))].join()";
    tab.expect(names, &json!("nfs"))?;
    let left = tab.eval(rows)?;
    ensure!(left.as_u64() < all.as_u64(), "{left} of {all} rows are left");
    let status = format!("{left} of {all} rows");
    tab.expect(
        "document.querySelector('[role=status]:not(.explore *)').textContent",
        &json!(status),
    )?;
    choose(tab, ".filters", "target", "")?;
    tab.expect(rows, &all)
}

/// Checks the needs of screen readers and phones: names, captions, no horizontal overflow.
fn reads(tab: &mut Tab<'_>) -> Result<()> {
    let nameless = "[...document.querySelectorAll('button, select, input, svg[role=img]')]
        .filter((one) => !(one.textContent.trim() || one.labels?.length
            || one.getAttribute('aria-label'))).length";
    tab.expect(nameless, &json!(0))?;
    let bare = "[...document.querySelectorAll('table')].filter((one) => !one.caption).length";
    tab.expect(bare, &json!(0))?;
    // On a phone each result is visible without scrolling sideways.
    tab.resize(390)?;
    let out_of_sight = "[...document.querySelectorAll('.sortable td.rate')].filter((cell) => {
        const { left, right } = cell.getBoundingClientRect();
        return left < 0 || right > 390;
    }).length";
    tab.expect(out_of_sight, &json!(0))?;
    for width in [360, 1_280] {
        tab.resize(width)?;
        let beside = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        tab.expect(beside, &json!(0))?;
    }
    Ok(())
}

/// Opens the page of ten thousand runs, sorts it, and goes to its second part.
pub fn open_ten_thousand_runs() -> Result<()> {
    let page = written_by_test("keeps_page_of_many_runs_small", "ten-thousand.html")?;
    let bytes = std::fs::metadata(&page)?.len();
    ensure!(bytes < PAGE_BYTES_MAX, "the page has {bytes} bytes");
    let mut browser = Browser::start()?;
    let mut tab = browser.open_tab()?;
    tab.open(&format!("file://{}", page.display()))?;
    let elements = count_elements(&mut tab)?;
    println!("    10,000 runs: {bytes} bytes, {elements} elements");
    tab.expect("document.querySelectorAll('.sortable tbody tr').length", &json!(200))?;
    tab.eval(
        "[...document.querySelectorAll('button')].find((b) => b.textContent === 'rate').click()",
    )?;
    tab.eval("document.querySelectorAll('.pages button')[1].click()")?;
    tab.expect(
        "document.querySelector('[role=status]:not(.explore *)').textContent",
        &json!("rows 201 to 400 of 10,000 rows, by rate, ascending"),
    )?;
    tab.expect_silent_console()
}

/// Filters the page of many bundles by verdict and by text, and sorts it by day.
pub fn look_at_bundles() -> Result<()> {
    let page = written_by_test("page_of_bundles", "bundles.html")?;
    let mut browser = Browser::start()?;
    let mut tab = browser.open_tab()?;
    tab.open(&format!("file://{}", page.display()))?;
    let status = "document.querySelector('[role=status]').textContent";
    tab.expect(status, &json!("rows 1 to 200 of 604 rows"))?;
    choose(&mut tab, ".filters", "bundle", "bad.dfsb")?;
    tab.expect(status, &json!("4 of 604 rows"))?;
    choose(&mut tab, ".filters", "verdict", "valid")?;
    tab.expect(status, &json!("4 of 604 rows"))?;
    choose(&mut tab, ".filters", "bundle", "")?;
    choose(&mut tab, ".filters", "verdict", "")?;
    // Sorted by day: the rows of the bad bundle are a day older.
    let press = "[...document.querySelectorAll('button')]
        .find((button) => button.textContent === 'measured').click()";
    let first = "document.querySelector('.sortable tbody tr').cells[8].textContent";
    tab.eval(press)?;
    tab.expect(first, &json!("bad.dfsb"))?;
    tab.eval(press)?;
    tab.expect(first, &json!("large.dfsb"))?;
    tab.eval(
        "(() => {
            const search = document.querySelector('input[type=search]');
            search.value = 'workers 8';
            search.dispatchEvent(new Event('input'));
        })()",
    )?;
    let words = "[...document.querySelectorAll('#bundle-results tbody tr')]
        .every((row) => row.textContent.includes('workers 8'))";
    tab.expect(words, &json!(true))?;
    reads(&mut tab)?;
    tab.expect_silent_console()
}

/// Counts the elements of a page, and refuses more than a phone opens with ease.
fn count_elements(tab: &mut Tab<'_>) -> Result<u64> {
    let elements = tab.eval("document.querySelectorAll('*').length")?;
    let elements = elements.as_u64().context("no number")?;
    ensure!(elements <= PAGE_ELEMENTS_MAX, "the page has {elements} elements");
    Ok(elements)
}

/// Opens the page of a matrix of 240 runs: charts within a few screens above all results, a chooser
/// that redraws them, map cells with names.
pub fn look_at_a_matrix() -> Result<()> {
    let page = written_by_test("keeps_matrix_page_small", "matrix.html")?;
    let bytes = std::fs::metadata(&page)?.len();
    let mut browser = Browser::start()?;
    let mut tab = browser.open_tab()?;
    tab.resize(1_400)?;
    tab.open(&format!("file://{}", page.display()))?;
    let elements = count_elements(&mut tab)?;
    // Elements out of sight are laid out when they become visible, and only then have their height.
    tab.eval(
        "document.querySelectorAll('figure').forEach((one) => {
        one.style.contentVisibility = 'visible';
    })",
    )?;
    let top = "Math.ceil(document.querySelector('#figures').getBoundingClientRect().top + scrollY)";
    let top = tab.eval(top)?.as_u64().context("no position")?;
    println!("    240 runs: {bytes} bytes, {elements} elements, {top} px above all figures");
    ensure!(top <= SCREENS_MAX * SCREEN_PX, "{top} px lie above all figures");
    unfolds(&mut tab)?;
    chooses(&mut tab)?;
    names_cells(&mut tab)?;
    reads(&mut tab)?;
    tab.expect_silent_console()?;
    // Without a script nothing unfolds a table later, so each is there from the beginning.
    let mut plain = browser.open_tab()?;
    plain.forbid_scripts()?;
    plain.open(&format!("file://{}", page.display()))?;
    plain.expect("document.querySelectorAll('table.trials').length", &json!(240))
}

/// Counts the elements laid out at first, and opens the trials of a run.
fn unfolds(tab: &mut Tab<'_>) -> Result<()> {
    let elements = tab.eval("document.querySelectorAll('*').length")?;
    let elements = elements.as_u64().context("no count")?;
    println!("    240 runs: {elements} elements");
    ensure!(elements <= ELEMENTS_MAX, "{elements} elements are laid out");
    let tables = "document.querySelectorAll('table.trials').length";
    tab.expect(tables, &json!(0))?;
    tab.eval(
        "document.querySelector('.folded').parentElement.open = true;
        document.querySelector('.folded details').open = true",
    )?;
    tab.wait_for("document.querySelectorAll('table.trials tbody tr').length === 6")?;
    tab.expect(tables, &json!(1))?;
    tab.expect("document.querySelectorAll('.folded details[open] noscript').length", &json!(0))
}

/// Chooses what the panels show, by keys and by value.
fn chooses(tab: &mut Tab<'_>) -> Result<()> {
    let panels = "document.querySelectorAll('.facets .chart').length";
    tab.expect(panels, &json!(20))?;
    // The first list is for the vertical axis: one key further is the median response time.
    tab.eval("document.querySelector('.chooser select').focus()")?;
    tab.press_keys(&["ArrowDown"])?;
    tab.expect("document.querySelector('.chooser select').value", &json!("p50"))?;
    tab.expect(
        "document.querySelector('.facets title').textContent",
        &json!("stream write: p50 by workers, durability none, io_size 4 KiB"),
    )?;
    for (name, value) in [("y", "rate"), ("x", "io_size"), ("columns", "workers"), ("rows", "")] {
        choose(tab, ".chooser", name, value)?;
    }
    tab.expect(panels, &json!(8))?;
    let status = "document.querySelector('.explore [role=status]').textContent";
    tab.expect(
        status,
        &json!("stream write: 4 panels of 240 results; stream read: 4 panels of 240 results"),
    )?;
    // With the response time each result is a point, and points are not connected.
    choose(tab, ".chooser", "x", "p99")?;
    tab.expect("document.querySelectorAll('.facets .point').length", &json!(480))?;
    tab.expect("document.querySelectorAll('.facets .line').length", &json!(0))?;
    choose(tab, ".chooser", "x", "queue_depth")?;
    let without = tab.eval(status)?;
    let without = without.as_str().context("no status")?;
    ensure!(without.contains("120 have no value of a chosen setting"), "{without}");
    Ok(())
}

/// Steps through a map by keys; the line below it names the combination of a cell.
fn names_cells(tab: &mut Tab<'_>) -> Result<()> {
    tab.eval("document.querySelector('.map .pick').focus()")?;
    tab.press_keys(&["ArrowRight", "ArrowDown"])?;
    let name = "posix stream write, workers 2, io_size 16 KiB, durability none: ";
    for text in [
        "document.activeElement.getAttribute('aria-label')",
        "document.querySelector('.readout').textContent",
    ] {
        let found = tab.eval(text)?;
        ensure!(found.as_str().is_some_and(|found| found.starts_with(name)), "{text} is {found}");
    }
    tab.expect("document.querySelectorAll('.map [tabindex=\"0\"]').length", &json!(2))
}

/// Returns a page written by a test of `report`.
fn written_by_test(test_name: &str, file: &str) -> Result<PathBuf> {
    let test = test_programs::find_test_program("report", "reports")?;
    proc::capture_stdout(test.command().arg(test_name))?;
    Ok(repo::target_folder().join("tmp").join(file))
}
