//! The headline of a developer's passes: seconds, and how many times as long as on the local disk.
//! Commands have one, too, if they were run on the local disk as well.

use model::units::three_digits;

use super::lead::qualify_judged;
use super::ranks::name_run;
use crate::humanize::seconds;
use crate::table::{Row, Sheet, is_on_local_disk};

/// Maximum number of runs to describe; the table has the others.
const RUNS_MAX: usize = 6;

/// Describes each run; the local disk only if there is nothing else.
pub(super) fn headlines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut runs: Vec<Vec<&Row<'_>>> = Vec::new();
    for row in &sheet.rows {
        let is_compared = row.is_program() && row.times_local.is_some();
        if !(row.judged.pass.is_of_developer() || is_compared) || !row.counts() {
            continue;
        }
        match runs.last_mut() {
            Some(rows) if rows[0].run.index == row.run.index => rows.push(row),
            _ => runs.push(vec![row]),
        }
    }
    if runs.iter().any(|rows| !is_on_local_disk(rows[0].run)) {
        runs.retain(|rows| !is_on_local_disk(rows[0].run));
    }
    let mut sentences = Vec::new();
    for rows in runs.iter().take(RUNS_MAX) {
        let mut parts = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            parts.push(describe_pass(row, number == 0));
        }
        sentences.push(format!("{}: {}.", name_run(sheet, rows[0]), parts.join(", ")));
    }
    if let more @ 1.. = runs.len().saturating_sub(RUNS_MAX) {
        sentences.push(format!("The table has {more} more."));
    }
    sentences
}

/// Describes a pass: `git_clone takes 41.0 s instead of 6.01 s on the local disk (6.82 times; 95 %:
/// 6.50 to 7.10)`.
fn describe_pass(row: &Row<'_>, is_first: bool) -> String {
    let time = row.judged.rate.map_or(0.0, |rate| 1.0 / rate.median);
    let verb = if is_first { " takes" } else { "" };
    let name = if row.is_program() {
        format!("`{}`", row.run.spec.command.run.join(" "))
    } else {
        row.judged.pass.to_string()
    };
    let compared = row.times_local.as_ref().map(|local| {
        let place =
            if is_first { format!(" on the local disk ({})", local.target) } else { String::new() };
        let interval = local
            .interval
            .map(|(low, high)| format!("; 95 %: {} to {}", three_digits(low), three_digits(high)));
        let interval = interval.unwrap_or_default();
        let (there, times) = (seconds(local.seconds), three_digits(local.ratio));
        format!(" instead of {there}{place} ({times} times{interval})")
    });
    let compared = compared.unwrap_or_default();
    format!("{name}{verb} {}{compared}{}", seconds(time), qualify_judged(&row.judged))
}
