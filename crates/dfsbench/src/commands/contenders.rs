//! `dfsbench contenders`: the systems of a stored campaign side by side.
//!
//! Like `dfsbench report`, this works offline. The differences between contenders are known before
//! they are measured, so they are also described here for dry runs and at the start of a campaign.

use std::fmt::Write as _;
use std::process::ExitCode;

use model::Question;
use model::contender::{compares_systems, contenders, differences};
use plan::Plan;
use report::document::text::{fits, push_beside, push_table};
use report::document::{Column, Role, Table, TableRow};
use report::{UnknownContender, render_contenders};

use crate::args::ContendersArgs;
use crate::exit::{End, Failure};
use crate::files::output_file;
use crate::stored::joined;
use crate::terminal::output::{self, Printable};

/// Prints or writes the comparison of a campaign's contenders.
///
/// # Errors
/// If there is no such campaign or no such contender.
pub(crate) fn run(args: &ContendersArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.output {
        output_file::check(path, Some(&args.results))?;
    }
    let campaign = joined::load_campaign(&args.campaign, &args.results)?.campaign;
    let id = campaign.id;
    if campaign.question == Question::Durability {
        let what = format!("campaign {id} measured durability and has no contenders to compare");
        return Err(Failure::Usage(format!("{what} (hint: `dfsbench report {id}`)")));
    }
    if campaign.runs.is_empty() {
        let what = format!("campaign {id} has no runs to compare");
        return Err(Failure::Usage(format!("{what} (hint: `dfsbench list` shows others)")));
    }
    let baseline = args.baseline.as_deref();
    let screen = output::screen(report::ReportDetail::Whole);
    let compared = match render_contenders(&campaign, baseline, args.format, screen) {
        Ok(compared) => compared,
        Err(UnknownContender { name, known }) => {
            return Err(unknown_contender("--baseline", &name, &known));
        }
    };
    let text = Printable::report(&compared.text, args.format);
    match &args.output {
        None => output::print(&text)?,
        Some(path) => output_file::write(path, text.as_bytes(), Some(&args.results))?,
    }
    Ok(if compared.has_failed { End::Invalid } else { End::Ok }.into())
}

/// Builds the error for a contender that a campaign doesn't have.
pub(crate) fn unknown_contender(flag: &str, name: &str, known: &[String]) -> Failure {
    let known = known.join("`, `");
    Failure::Usage(format!("{flag}: there is no contender `{name}` (hint: available: `{known}`)"))
}

/// Describes how the contenders of a plan differ besides the system; empty for plans that don't
/// compare systems.
///
/// The result is a table with a column per contender. If that is too wide for a terminal with this
/// many columns, each value is followed by its contenders instead.
pub(crate) fn describe_differences(plan: &Plan, columns: usize) -> String {
    if !compares_systems(&plan.runs) {
        return String::new();
    }
    let differences = differences(&plan.runs);
    if differences.is_empty() {
        return "\ncontenders differ only in the system\n".to_owned();
    }
    let contenders = contenders(&plan.runs);
    let mut heads = vec![Column::new("contenders differ in", Role::Words)];
    heads.extend(contenders.iter().map(|contender| Column::new(contender.clone(), Role::Words)));
    let mut rows = Vec::new();
    for difference in &differences {
        let mut row = vec![difference.what.clone()];
        row.extend(difference.shown());
        rows.push(row);
    }
    let mut text = "\n".to_owned();
    let table =
        Table { columns: heads, rows: TableRow::all(rows.iter().cloned()), ..Table::default() };
    if fits(&table, columns) {
        push_table(&mut text, &table, columns);
        return text;
    }
    text.push_str("contenders differ in\n");
    for row in &rows {
        let _ = writeln!(text, "  {}", row[0]);
        for group in group_by_value(&contenders, &row[1..]) {
            let words = format!("{}: {}", group.value, group.contenders.join(", "));
            push_beside(&mut text, "", 4, &words, columns);
        }
    }
    text
}

/// Contenders that share a value.
struct SameValue<'a> {
    value: &'a str,
    contenders: Vec<&'a str>,
}

/// Groups contenders by their values, in order of first appearance.
fn group_by_value<'a>(contenders: &'a [String], values: &'a [String]) -> Vec<SameValue<'a>> {
    let mut groups: Vec<SameValue<'a>> = Vec::new();
    for (contender, value) in std::iter::zip(contenders, values) {
        match groups.iter_mut().find(|group| group.value == value) {
            Some(group) => group.contenders.push(contender),
            None => groups.push(SameValue { value, contenders: vec![contender] }),
        }
    }
    groups
}

/// Describes in one line how the contenders of a plan differ besides the system; `None` if they
/// don't.
pub(crate) fn note_differences(plan: &Plan) -> Option<String> {
    if !compares_systems(&plan.runs) {
        return None;
    }
    let mut names = String::new();
    for difference in differences(&plan.runs) {
        let comma = if names.is_empty() { "" } else { ", " };
        // Writing to a `String` never fails.
        let _ = write!(names, "{comma}{}", difference.what);
    }
    if names.is_empty() {
        return None;
    }
    Some(format!("contenders differ in more than the system: {names} (--dry-run shows how)"))
}
