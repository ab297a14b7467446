//! `dfsbench view` in a browser: campaigns appear while the page is open, and two are compared.
//!
//! Selection and focus must survive updates of the page; its console is silent.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::OURS;
use checks::axe;
use checks::browser::Browser;
use checks::ours::Run;
use checks::proc::Background;

const PATIENCE: Duration = Duration::from_secs(20);
const ROWS: &str = "document.querySelectorAll('#campaigns tbody tr').length";

/// Follows a second campaign live, and compares it with the first.
pub fn is_live(results: &Path) -> Result<()> {
    let flags = ["--trials", "3", "--quiet", "--workload", "stream"];
    let another = || OURS.try_run(&Run { target: "null", results, flags: &flags });
    // With two campaigns, there is something to filter.
    another()?;
    let mut view = OURS.command();
    view.args(["view", "--no-open", "--results"]).arg(results);
    let (_view, url) = Background::start_with_first_line(&mut view, PATIENCE)?;
    let mut browser = Browser::start()?;
    let mut tab = browser.open_tab()?;
    tab.open(&url)?;
    let before = tab.eval(ROWS)?.as_u64().unwrap_or(0);
    ensure!(before > 1, "{before} campaigns are listed");
    axe::expect_no_findings(&mut tab, "the list of campaigns")?;
    tab.eval("document.querySelector('input[name=before]').checked = true")?;
    tab.eval("document.querySelector('.filters input').focus()")?;
    another()?;
    tab.wait_for(&format!("{ROWS} === {}", before + 1))?;
    tab.wait_for("document.querySelector('#campaigns tbody tr').textContent.includes('complete')")?;
    // Selection and focus have survived the update.
    tab.expect("document.querySelectorAll('input[name=before]:checked').length", &json!(1))?;
    tab.expect("document.activeElement.type", &json!("search"))?;

    tab.eval("document.querySelector('input[name=after]').checked = true")?;
    tab.eval("document.querySelector('form button[type=submit]').click()")?;
    tab.wait_for("document.querySelector('h1').textContent.startsWith('Before and after: ')")?;
    axe::expect_no_findings(&mut tab, "two campaigns compared in a view")?;
    tab.eval("document.querySelector('nav a').click()")?;
    tab.wait_for(&format!("{ROWS} === {}", before + 1))?;
    tab.eval("document.querySelector('#campaigns a').click()")?;
    tab.wait_for(
        "document.querySelector('h1 ~ .meta') !== null && !!document.querySelector('#answer')",
    )?;
    tab.wait_for("document.querySelectorAll('svg.chart').length > 0")?;
    tab.expect_silent_console()
}
