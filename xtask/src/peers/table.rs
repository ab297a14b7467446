//! Writes the comparisons as a Markdown page.
//!
//! Every result has its unit; the row of a claim that wasn't measured contains the reason.

use std::fmt::Write as _;

use super::Setting;
use super::case::{Row, Spread, Unit};
use super::host;

/// Returns the page up to the first row of its table.
pub fn head(setting: &Setting) -> String {
    let mut page = String::from("# dfsbench and its peers\n\n");
    let Setting { seconds, rounds, .. } = setting;
    let rounds_made = format!("{rounds} alternating rounds of {seconds} s; ");
    page.push_str(&rounds_made);
    page.push_str("median (minimum to maximum). A ratio above 1 is in our favor.\n");
    page.push_str("A tie: missed by less than the spread of the rounds.\n\n");
    for fact in host::collect_facts() {
        let _ = writeln!(page, "- {fact}");
    }
    page.push_str("\n| claim | ours | peer | ratio | target | ok |\n|---|---|---|---|---|---|\n");
    page
}

/// Returns one row as a line of the table.
pub fn line(row: &Row) -> String {
    let Row { claim, peer, unit, target, outcome } = row;
    let ok = match (row.is_met(), row.is_tie()) {
        (true, _) => "yes",
        (false, true) => "tie",
        (false, false) => "NO",
    };
    match outcome {
        Ok(outcome) => {
            let ours = figure(*unit, outcome.ours);
            let theirs = figure(*unit, outcome.peer);
            let Spread { median, min, max } = outcome.ratio;
            let ratio = format!("{median:.2} ({min:.2} to {max:.2})");
            format!("| {claim} | {ours} | {peer}: {theirs} | {ratio} | {target:.2} | {ok} |\n")
        }
        Err(reason) => {
            let reason = reason.replace(['\n', '|'], " ");
            format!("| {claim} | not measured | {peer} | {reason} | {target:.2} | {ok} |\n")
        }
    }
}

fn figure(unit: Unit, spread: Spread) -> String {
    let (scale, digits, name) = match unit {
        Unit::Ops => (1e3, 1, "kops/s"),
        Unit::Bytes => (1e6, 0, "MB/s"),
        Unit::CpuPerOp => (1.0, 0, "ns/op"),
        Unit::CpuPerByte => (1.0, 3, "s/GB"),
        Unit::Memory => (1_048_576.0, 0, "MiB"),
        Unit::SmallMemory => (1024.0, 1, "KiB"),
    };
    let Spread { median, min, max } = spread;
    let [median, min, max] = [median, min, max].map(|value| value / scale);
    format!("{median:.digits$} {name} ({min:.digits$} to {max:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::super::case::Outcome;
    use super::*;

    #[test]
    fn formats_units_and_failures() {
        let outcome = Outcome {
            ours: Spread::from_value(2_000_000.0),
            peer: Spread::from_value(1_000_000.0),
            ratio: Spread::from_value(2.0),
        };
        let row = |outcome| Row {
            claim: "null".to_owned(),
            peer: "fio".to_owned(),
            unit: Unit::Ops,
            target: 2.0,
            outcome,
        };
        let lines = [line(&row(Ok(outcome))), line(&row(Err("no\nsuch|file".to_owned())))];
        let measured = "| null | 2000.0 kops/s (2000.0 to 2000.0) | fio: 1000.0 kops/s \
                        (1000.0 to 1000.0) | 2.00 (2.00 to 2.00) | 2.00 | yes |\n";
        assert_eq!(lines[0], measured);
        assert_eq!(lines[1], "| null | not measured | fio | no such file | 2.00 | NO |\n");
    }
}
