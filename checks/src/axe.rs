//! axe-core, which finds accessibility problems in pages: missing names, low contrast, keys that
//! lead nowhere.
//!
//! The script is in `checks/axe-core`, and is injected into the examined pages.
//!
//! **Source:** <https://github.com/dequelabs/axe-core/blob/develop/doc/API.md>.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::browser::{Colours, Tab};

const SCRIPT: &str = include_str!("../axe-core/axe.min.js");

/// The widths at which pages are examined, in pixels: a screen and a phone.
const WIDTHS: [u32; 2] = [1_400, 400];
/// Maximum number of elements listed per finding.
const NAMED_MAX: usize = 4;

/// Runs axe on the document; returns a line for each element of each finding.
const RUN: &str = "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.flatMap(({ id, impact, nodes }) => nodes.map(({ target, failureSummary }) =>
        `${id} (${impact}): ${target.join(' ')}: ${failureSummary.replace(/\\s+/g, ' ')}`)))";

/// Examines a page as it is, on a screen and on a phone, light and dark.
pub fn expect_no_findings(tab: &mut Tab<'_>, page: &str) -> Result<()> {
    tab.eval(SCRIPT)?;
    for width in WIDTHS {
        tab.resize(width)?;
        for colours in [Colours::Light, Colours::Dark] {
            tab.set_colours(colours)?;
            let found = find(tab)?;
            ensure!(
                found.is_empty(),
                "{page} at {width} px, {colours:?}: axe has {} findings:\n{}",
                found.len(),
                found[..found.len().min(NAMED_MAX)].join("\n")
            );
        }
    }
    Ok(())
}

/// Returns a line for each element with a finding.
fn find(tab: &mut Tab<'_>) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for line in tab.eval(RUN)?.as_array().context("axe returns a list")? {
        lines.push(line.as_str().map_or_else(|| Value::to_string(line), str::to_owned));
    }
    Ok(lines)
}
