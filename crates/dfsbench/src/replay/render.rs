//! A replay as text or Markdown, and two of them side by side.

use std::fmt::Write as _;

use model::units::{Nanos, Size};
use replay::{KindOutcome, Outcome, Pace};
use trace::Quantiles;

use super::{DIRECTORY, Document};
use crate::output::aligned;

/// Forms of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// With aligned columns.
    Text,
    /// A table in Markdown.
    Markdown,
}

/// Says how fast a replay is.
pub fn pace_text(pace: Pace) -> String {
    match pace {
        Pace::Open { speed } => speed_text(Some(speed)),
        Pace::Closed => speed_text(None),
    }
}

fn speed_text(speed: Option<f64>) -> String {
    match speed {
        Some(speed) => format!("{speed} times as fast as the trace"),
        None => "as fast as the order allows".to_owned(),
    }
}

/// Writes a replay.
pub fn document(document: &Document, layout: Layout) -> String {
    let mut text = String::new();
    for outcome in &document.outcomes {
        write_outcome(&mut text, document, outcome, layout);
    }
    write_left_out(&mut text, document);
    text
}

fn write_outcome(text: &mut String, document: &Document, outcome: &Outcome, layout: Layout) {
    let Outcome { ops, clients, issued, accounted, skipped, not_started, .. } = outcome;
    // Writing to a String never fails.
    let _ = writeln!(
        text,
        "{} on {} ({}), {}: {}",
        document.trace,
        document.target,
        version_text(document),
        speed_text(outcome.speed),
        verdict_text(outcome)
    );
    let _ = writeln!(
        text,
        "{ops} operations of {clients} clients on a tree of {} objects: {issued} issued, \
         {accounted} ended, {skipped} could not be issued, {not_started} not started.",
        document.tree_objects
    );
    let planned = match outcome.speed {
        Some(_) => format!(" (planned {})", Nanos(outcome.planned_ns)),
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "Took {}{planned}; {}.",
        Nanos(outcome.took_ns),
        calls_text(document, outcome)
    );
    let Quantiles { p50, p99, max, .. } = outcome.own_lateness;
    let waits = outcome.start_wait;
    let _ = writeln!(
        text,
        "Starts were late by p50 {}, p99 {}, maximum {} by this client's own fault, and by p50 {}, \
         p99 {}, maximum {} because they waited for replies.\n",
        Nanos(p50),
        Nanos(p99),
        Nanos(max),
        Nanos(waits.p50),
        Nanos(waits.p99),
        Nanos(waits.max)
    );
    let mut rows = vec![head(&[
        "operation",
        "count",
        "errors expected",
        "not expected",
        "missing",
        "data",
        "p50",
        "p99",
        "origin p50",
        "origin p99",
        "ratio p50",
        "ratio p99",
    ])];
    for kind in &outcome.kinds {
        rows.push(kind_row(kind));
    }
    text.push_str(&table(&rows, layout));
    text.push('\n');
    if !outcome.problems.is_empty() {
        let mut rows = vec![head(&["operation", "in the trace", "here", "count"])];
        for problem in &outcome.problems {
            rows.push(vec![
                problem.kind.clone(),
                problem.origin.clone(),
                problem.ended.clone(),
                problem.count.to_string(),
            ]);
        }
        text.push_str("Failures that are not in the trace:\n");
        text.push_str(&table(&rows, layout));
        text.push('\n');
    }
}

fn version_text(document: &Document) -> String {
    match document.version.as_str() {
        DIRECTORY => "a directory".to_owned(),
        version => format!("NFS v{version}"),
    }
}

fn calls_text(document: &Document, outcome: &Outcome) -> String {
    let Outcome { calls_sent, own_calls, retransmissions, reconnects, .. } = outcome;
    if document.version == DIRECTORY {
        return format!("{calls_sent} system calls, {own_calls} of them to open and close files");
    }
    format!(
        "{calls_sent} calls sent, {own_calls} of them for the client's own sake; {retransmissions} \
         sent again, {reconnects} connections made again"
    )
}

fn verdict_text(outcome: &Outcome) -> String {
    if outcome.not_started > 0 {
        return "interrupted".to_owned();
    }
    match (outcome.speed, outcome.behind) {
        (None, _) => "done".to_owned(),
        (Some(_), None) => "the server kept up".to_owned(),
        (Some(_), Some(behind)) => {
            format!("the server fell behind from {} on", Nanos(behind.from_ns))
        }
    }
}

fn kind_row(kind: &KindOutcome) -> Vec<String> {
    let KindOutcome { response, origin, .. } = kind;
    let data = if kind.bytes > 0 { Size(kind.bytes).to_string() } else { "-".to_owned() };
    vec![
        kind.kind.clone(),
        kind.ops.to_string(),
        kind.expected_errors.to_string(),
        kind.unexpected_errors.to_string(),
        kind.missing_errors.to_string(),
        data,
        time(response, response.p50),
        time(response, response.p99),
        time(origin, origin.p50),
        time(origin, origin.p99),
        ratio(response.p50, origin.p50),
        ratio(response.p99, origin.p99),
    ]
}

/// Writes what of the trace was not replayed.
fn write_left_out(text: &mut String, document: &Document) {
    if !document.without_counterpart.is_empty() {
        let _ = writeln!(text, "No counterpart: {}.", counts(&document.without_counterpart));
    }
    if !document.by_client.is_empty() {
        let _ =
            writeln!(text, "Done by the client in its own way: {}.", counts(&document.by_client));
    }
    if document.put_off > 0 {
        let _ = writeln!(
            text,
            "Left out, since the origin put them off or refused them for the state of its server: \
             {} operations.",
            document.put_off
        );
    }
    if document.incomplete > 0 {
        let _ = writeln!(
            text,
            "Left out, since the capture did not see their arguments: {} operations.",
            document.incomplete
        );
    }
    if document.split > 0 {
        let _ = writeln!(
            text,
            "Made in several calls, since the target's transfers are smaller: {} reads and writes.",
            document.split
        );
    }
}

fn counts(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let mut parts = Vec::new();
    for (name, count) in counts {
        parts.push(format!("{count} {name}"));
    }
    parts.join(", ")
}

/// Writes two replays side by side, kind by kind, for each speed that both have; `None` where there
/// is none.
pub fn comparison(before: &Document, after: &Document) -> Option<String> {
    let mut text = format!(
        "A: {} on {} ({})\nB: {} on {} ({})\n",
        before.trace,
        before.target,
        version_text(before),
        after.trace,
        after.target,
        version_text(after)
    );
    let mut has_pair = false;
    for first in &before.outcomes {
        let Some(second) = after.outcomes.iter().find(|other| other.speed == first.speed) else {
            continue;
        };
        has_pair = true;
        let _ = writeln!(
            text,
            "\n{}: A: {}; B: {}",
            speed_text(first.speed),
            verdict_text(first),
            verdict_text(second)
        );
        let mut rows = vec![head(&[
            "operation",
            "count A",
            "count B",
            "p50 A",
            "p50 B",
            "B/A",
            "p99 A",
            "p99 B",
            "B/A",
            "errors A",
            "errors B",
        ])];
        for kind in &first.kinds {
            let same = second.kinds.iter().find(|other| other.kind == kind.kind);
            let Some(other) = same else { continue };
            let (one, two) = (&kind.response, &other.response);
            rows.push(vec![
                kind.kind.clone(),
                kind.ops.to_string(),
                other.ops.to_string(),
                time(one, one.p50),
                time(two, two.p50),
                ratio(two.p50, one.p50),
                time(one, one.p99),
                time(two, two.p99),
                ratio(two.p99, one.p99),
                kind.unexpected_errors.to_string(),
                other.unexpected_errors.to_string(),
            ]);
        }
        text.push_str(&table(&rows, Layout::Text));
    }
    has_pair.then_some(text)
}

fn head(words: &[&str]) -> Vec<String> {
    let mut row = Vec::new();
    for word in words {
        row.push((*word).to_owned());
    }
    row
}

fn time(of: &Quantiles, time_ns: u64) -> String {
    if of.count == 0 { "-".to_owned() } else { Nanos(time_ns).to_string() }
}

fn ratio(here: u64, there: u64) -> String {
    if here == 0 || there == 0 {
        return "-".to_owned();
    }
    format!("{:.2}", here as f64 / there as f64)
}

fn table(rows: &[Vec<String>], layout: Layout) -> String {
    if layout == Layout::Text {
        return aligned(rows);
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
        }
    }
    text
}
