//! `dfsbench contenders`: the systems of a stored campaign side by side.
//!
//! Offline, as `dfsbench report` is. What contenders differ in is known before they are measured:
//! it is described here for the dry run and for the start of a campaign, too.

use std::fmt::Write as _;
use std::process::ExitCode;

use model::contender::{compares_systems, contenders, differences};
use plan::Plan;
use report::{UnknownContender, render_contenders};

use crate::args::ContendersArgs;
use crate::exit::{End, Failure};
use crate::output::aligned;
use crate::{joined, memory_guard, output};

/// Writes the comparison of a campaign's contenders.
///
/// # Errors
/// When there is no such campaign, or no such contender.
pub fn run(args: &ContendersArgs) -> Result<ExitCode, Failure> {
    let (store, id) = joined::find_campaign(&args.campaign, &args.results)?;
    let campaign = memory_guard::load(&store, id)?;
    if campaign.runs.is_empty() {
        let what = format!("campaign {id} has no runs that could be compared");
        return Err(Failure::Usage(format!("{what} (hint: `dfsbench list` shows others)")));
    }
    let (baseline, screen) = (args.baseline.as_deref(), output::screen(report::Extent::Whole));
    let compared = match render_contenders(&campaign, baseline, args.format, screen) {
        Ok(compared) => compared,
        Err(UnknownContender { name, known }) => {
            return Err(unknown_contender("--baseline", &name, &known));
        }
    };
    output::data(compared.text.as_bytes())?;
    Ok(if compared.has_failed { End::Invalid } else { End::Ok }.into())
}

/// Refuses a name that no contender of a campaign has.
pub fn unknown_contender(flag: &str, name: &str, known: &[String]) -> Failure {
    let known = known.join("`, `");
    Failure::Usage(format!("{flag}: there is no contender `{name}` (hint: there are `{known}`)"))
}

/// Describes in what the contenders of a plan differ besides the system, as a table; empty for
/// plans that compare no systems.
pub fn describe_differences(plan: &Plan) -> String {
    if !compares_systems(&plan.runs) {
        return String::new();
    }
    let differences = differences(&plan.runs);
    if differences.is_empty() {
        return "\ncontenders differ in nothing but the system\n".to_owned();
    }
    let mut head = vec!["contenders differ in".to_owned()];
    head.extend(contenders(&plan.runs));
    let mut rows = vec![head];
    for difference in differences {
        let mut row = vec![difference.what.clone()];
        row.extend(difference.shown());
        rows.push(row);
    }
    format!("\n{}", aligned(&rows))
}

/// Says in a line in what the contenders of a plan differ besides the system; `None` where that is
/// nothing.
pub fn note_differences(plan: &Plan) -> Option<String> {
    if !compares_systems(&plan.runs) {
        return None;
    }
    let mut names = String::new();
    for difference in differences(&plan.runs) {
        let comma = if names.is_empty() { "" } else { ", " };
        // Writing to a String can't fail.
        let _ = write!(names, "{comma}{}", difference.what);
    }
    if names.is_empty() {
        return None;
    }
    Some(format!("contenders differ in more than the system: {names} (--dry-run shows how)"))
}
