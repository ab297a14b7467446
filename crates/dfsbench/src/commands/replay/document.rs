//! A replay as a document.
//!
//! It is rendered as tables, text, Markdown or pages like any other report; this module only
//! provides the contents.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::units::{Nanos, Size, three_digits};
use replay::{
    HostOutcome, KindOutcome, Outcome, Pace, PartSums, SPEEDS_MAX, SlowKind, StoredReplay, Verdict,
};
use report::counted;
use report::document::{Block, Cell, Column, Document, Role, Section, Table, TableRow};
use stats::{PartSum, SumRatio, ratio_of_sums};
use trace::Quantiles;

use super::pictures;

/// Anchors of the sections, one per speed.
pub(super) const IDS: [&str; SPEEDS_MAX] = [
    "figures", "speed-2", "speed-3", "speed-4", "speed-5", "speed-6", "speed-7", "speed-8",
    "speed-9", "speed-10", "speed-11", "speed-12", "speed-13", "speed-14", "speed-15", "speed-16",
];

/// Columns to drop if a terminal is too narrow, in this order.
pub(super) const LEAVING: [&str; 9] = [
    "data",
    "ratio p99",
    "errors expected",
    "errors missing",
    "origin p99",
    "ratio p50",
    "B/A p99",
    // A replay has the same operations as its trace, so the counts of two replays are usually
    // equal.
    "count B",
    "count A",
];

/// Describes the speed of a replay.
pub(super) fn pace_text(pace: Pace) -> String {
    match pace {
        Pace::Open { speed: 1.0 } => "at the speed of the trace".to_owned(),
        Pace::Open { speed } => format!("{speed} times as fast as the trace"),
        Pace::Closed => "as fast as the order allows".to_owned(),
        Pace::Thinking => "as fast as the order and think times allow".to_owned(),
    }
}

/// Returns the pace of a finished replay.
pub(super) fn pace_of(outcome: &Outcome) -> Pace {
    match outcome.speed {
        Some(speed) => Pace::Open { speed },
        None if outcome.has_think_times => Pace::Thinking,
        None => Pace::Closed,
    }
}

/// Builds the document of a replay.
pub(super) fn describe_replay(stored: &StoredReplay) -> Document {
    let mut document = Document {
        tool: "dfsbench replay",
        title: identify(stored),
        about: Vec::new(),
        parts: Vec::new(),
    };
    if let Some(gaps) = &stored.trace_gaps {
        document.about.push(format!("Incomplete trace: {gaps}. The missing load is not replayed."));
    }
    document.about.extend(stored.found.clone());
    if stored.outcomes.len() > 1 {
        document.push(speeds_section(&stored.outcomes));
    }
    for (outcome, id) in std::iter::zip(&stored.outcomes, IDS) {
        document.push(outcome_section(stored, outcome, id));
    }
    document.push_list("left-out", "Not replayed", left_out(stored));
    document
}

/// Identifies a replay: trace, target with version, and time.
pub(super) fn identify(stored: &StoredReplay) -> String {
    let what = format!("{} on {} ({})", stored.trace, stored.target, version_text(stored));
    format!("{what}, {}", report::utc_minute(stored.made_unix_ms))
}

/// Lists all speeds in one table.
fn speeds_section(outcomes: &[Outcome]) -> Section {
    let mut rows = Vec::new();
    for outcome in outcomes {
        let per_second = |ops: u64, time_ns: u64| {
            if time_ns == 0 {
                return "-".to_owned();
            }
            three_digits(ops as f64 * 1e9 / time_ns as f64)
        };
        let offered = match outcome.speed {
            Some(_) => per_second(outcome.ops, outcome.planned_ns),
            None => "-".to_owned(),
        };
        rows.push(vec![
            outcome.speed.map_or_else(|| "closed".to_owned(), |speed| speed.to_string()),
            offered,
            per_second(outcome.accounted, outcome.took_ns),
            time(&outcome.response, outcome.response.p50),
            time(&outcome.response, outcome.response.p99),
            outcome.unexpected_errors().to_string(),
            verdict_text(outcome),
        ]);
    }
    let table = Table {
        caption: "Offered and achieved, by speed".to_owned(),
        columns: Column::all(&[
            ("speed", Role::Number),
            ("offered op/s", Role::Number),
            ("achieved op/s", Role::Rate),
            ("p50", Role::Number),
            ("p99", Role::Number),
            ("errors", Role::Number),
            ("outcome", Role::Prose),
        ]),
        rows: TableRow::all(rows.into_iter()),
        ..Table::default()
    };
    let heading = "Loads".to_owned();
    Section { id: "loads", heading, is_answer: true, blocks: vec![Block::Table(table)] }
}

fn outcome_section(stored: &StoredReplay, outcome: &Outcome, id: &'static str) -> Section {
    let mut blocks: Vec<Block> = times_text(outcome).map(Block::Paragraph).into_iter().collect();
    blocks.extend([
        Block::Paragraph(counts_text(stored, outcome)),
        Block::Paragraph(lateness_text(outcome)),
        Block::Pictures(pictures::draw_outcome(outcome, id)),
    ]);
    blocks.push(Block::Table(kinds_table(outcome)));
    if !outcome.hosts.is_empty() {
        blocks.push(Block::Table(hosts_table(&outcome.hosts)));
    }
    if !outcome.problems.is_empty() {
        let mut rows = Vec::new();
        for problem in &outcome.problems {
            rows.push(vec![
                problem.kind.clone(),
                problem.origin.clone(),
                problem.ended.clone(),
                problem.count.to_string(),
            ]);
        }
        blocks.push(Block::Table(Table {
            caption: "Failures that are not in the trace".to_owned(),
            columns: Column::all(&[
                ("operation", Role::Words),
                ("in the trace", Role::Words),
                ("here", Role::Words),
                ("count", Role::Number),
            ]),
            rows: TableRow::all(rows.into_iter()),
            ..Table::default()
        }));
    }
    let heading = format!("{}: {}", pace_text(pace_of(outcome)), verdict_text(outcome));
    Section { id, heading, blocks, ..Section::default() }
}

/// Lists what each of several hosts did.
fn hosts_table(hosts: &[HostOutcome]) -> Table {
    let mut rows = Vec::new();
    for host in hosts {
        rows.push(vec![
            host.name.clone(),
            host.clients.to_string(),
            host.issued.to_string(),
            host.notices.to_string(),
            time(&host.own_lateness, host.own_lateness.p50),
            time(&host.own_lateness, host.own_lateness.p99),
            Nanos(host.clock_error_ns).to_string(),
        ]);
    }
    Table {
        caption: "Hosts; a notice lets an operation of another host start".to_owned(),
        columns: Column::all(&[
            ("host", Role::Words),
            ("clients", Role::Number),
            ("operations", Role::Number),
            ("notices", Role::Number),
            ("late p50", Role::Number),
            ("late p99", Role::Number),
            ("clock +-", Role::Number),
        ]),
        rows: TableRow::all(rows.into_iter()),
        ..Table::default()
    }
}

fn counts_text(stored: &StoredReplay, outcome: &Outcome) -> String {
    let Outcome { ops, clients, issued, accounted, skipped, not_started, rounds, .. } = outcome;
    let planned = match outcome.speed {
        Some(_) => format!(" (planned {})", Nanos(outcome.planned_ns)),
        None => String::new(),
    };
    let plural = if *clients == 1 { "" } else { "s" };
    let objects = if stored.tree_objects == 1 { "object" } else { "objects" };
    let rounds = if *rounds > 1 { format!(" in {rounds} rounds") } else { String::new() };
    format!(
        "{ops} operations of {clients} client{plural}{rounds} on a tree of {} {objects}: {issued} \
         issued, {accounted} ended, {skipped} could not be issued, {not_started} not started. \
         Took {}{planned}; {}.",
        stored.tree_objects,
        Nanos(outcome.took_ns),
        calls_text(stored, outcome)
    )
}

fn lateness_text(outcome: &Outcome) -> String {
    let Quantiles { p50, p99, max, .. } = outcome.own_lateness;
    let waits = outcome.start_wait;
    format!(
        "Ops started late: {} (median; p99 {}, maximum {}) because this client was busy, and {} \
         (median; p99 {}, maximum {}) because of earlier replies.",
        Nanos(p50),
        Nanos(p99),
        Nanos(max),
        Nanos(waits.p50),
        Nanos(waits.p99),
        Nanos(waits.max)
    )
}

/// Describes what a replay ran on.
pub(super) fn version_text(stored: &StoredReplay) -> String {
    match stored.version.as_str() {
        StoredReplay::DIRECTORY => "a directory".to_owned(),
        version => format!("NFS v{version}"),
    }
}

fn calls_text(stored: &StoredReplay, outcome: &Outcome) -> String {
    let Outcome { calls_sent, own_calls, retransmissions, reconnects, .. } = outcome;
    if stored.version == StoredReplay::DIRECTORY {
        return format!("{calls_sent} system calls, {own_calls} of them to open and close files");
    }
    format!(
        "{calls_sent} calls sent, {own_calls} beyond those of the trace; {retransmissions} sent \
         again, {reconnects} reconnects"
    )
}

/// Describes the outcome of a replay: failures first, then the schedule, then response times
/// compared with those of the trace.
pub(super) fn verdict_text(outcome: &Outcome) -> String {
    let mut parts = match outcome.verdict() {
        Verdict::Interrupted => {
            return format!(
                "interrupted before {} of {} operations",
                outcome.not_started, outcome.ops
            );
        }
        Verdict::Failed => failures_text(outcome),
        Verdict::Done => vec!["done".to_owned()],
        Verdict::Slower => vec!["on schedule, but slower than the trace".to_owned()],
        Verdict::KeptUp => vec!["the server kept up".to_owned()],
        Verdict::ClientLate | Verdict::FellBehind => Vec::new(),
    };
    if let Some(behind) = outcome.behind {
        let from = Nanos(behind.from_ns);
        parts.push(if behind.is_own_fault {
            format!("inconclusive: this client fell behind at {from} (hint: use a faster host)")
        } else {
            format!("the server fell behind at {from}")
        });
    }
    if let Some(SumRatio { ratio, .. }) = mean_ratio(outcome) {
        parts.push(format!("response times {}x those of the trace", three_digits(ratio)));
    }
    parts.join("; ")
}

/// Counts operations whose outcome differs from the trace.
pub(super) fn failures_text(outcome: &Outcome) -> Vec<String> {
    let failed = outcome.unexpected_errors();
    let skipped = outcome.skipped;
    let unanswered = outcome.ops.saturating_sub(outcome.accounted + skipped);
    let mut parts = Vec::new();
    for (count, what) in [
        (failed, "failed that did not fail in the trace"),
        (skipped, "could not be issued"),
        (unanswered, "never ended"),
    ] {
        if count > 0 {
            let ops = if parts.is_empty() {
                counted(outcome.ops as usize, "operation")
            } else {
                outcome.ops.to_string()
            };
            parts.push(format!("{count} of {ops} {what}"));
        }
    }
    parts
}

/// Returns the ratio of the mean response time to that of the trace, over all kinds.
fn mean_ratio(outcome: &Outcome) -> Option<SumRatio> {
    let mut sums: Vec<PartSum> = Vec::new();
    for kind in &outcome.kinds {
        for (at, part) in beside_origin(&kind.parts).into_iter().enumerate() {
            match sums.get_mut(at) {
                Some(sum) => {
                    sum.here += part.here;
                    sum.there += part.there;
                }
                None => sums.push(part),
            }
        }
    }
    ratio_of_sums(&sums)
}

/// Compares response times with those of the trace; `None` if the trace has none.
fn times_text(outcome: &Outcome) -> Option<String> {
    let SumRatio { ratio, interval } = mean_ratio(outcome)?;
    let mut text = format!("Mean response time: {}x that of the trace", three_digits(ratio));
    if let Some((low, high)) = interval {
        let _ = write!(text, " (95 % interval {}x to {}x)", three_digits(low), three_digits(high));
    }
    if let Some(SlowKind { name, ratio }) = outcome.slowest_kind() {
        let _ = write!(text, "; the median of {name} grew most, to {}x", three_digits(ratio));
    }
    Some(text + ".")
}

fn kinds_table(outcome: &Outcome) -> Table {
    let mut columns = Column::all(&[
        ("operation", Role::Words),
        ("count", Role::Number),
        ("errors expected", Role::Number),
        ("not expected", Role::Number),
        ("errors missing", Role::Number),
        ("data", Role::Number),
        ("p50", Role::Number),
        ("p99", Role::Number),
        ("origin p50", Role::Number),
        ("origin p99", Role::Number),
        ("ratio p50", Role::Number),
        ("ratio p99", Role::Number),
        ("ratio of means, 95 %", Role::Rate),
    ]);
    Column::leave_in_order(&mut columns, &LEAVING);
    let rows: Vec<_> = outcome.kinds.iter().map(kind_row).collect();
    Table {
        caption: "Response times here and in the trace".to_owned(),
        has_page_caption: true,
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: vec![
            "Response times are measured from the scheduled start; the ratio of means excludes \
             delays caused by this client. Above 1 is slower than the trace. The interval comes \
             from the variation between twentieths of the trace."
                .to_owned(),
        ],
        ..Table::default()
    }
}

fn kind_row(kind: &KindOutcome) -> Vec<Cell> {
    let KindOutcome { response, origin, .. } = kind;
    let data = if kind.bytes > 0 { Size(kind.bytes).to_string() } else { "-".to_owned() };
    [
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
        ratio_text(ratio_of_sums(&beside_origin(&kind.parts))),
    ]
    .into_iter()
    .map(Cell::text)
    .collect()
}

/// Pairs the response times of the replay with those of the trace.
fn beside_origin(parts: &[PartSums]) -> Vec<PartSum> {
    parts
        .iter()
        .map(|part| PartSum { here: part.paired_ns as f64, there: part.origin_ns as f64 })
        .collect()
}

pub(super) fn ratio_text(found: Option<SumRatio>) -> String {
    match found {
        None => "-".to_owned(),
        Some(SumRatio { ratio, interval: None }) => three_digits(ratio),
        Some(SumRatio { ratio, interval: Some((low, high)) }) => {
            let [ratio, low, high] = [ratio, low, high].map(three_digits);
            format!("{ratio} ({low} to {high})")
        }
    }
}

/// Lists the parts of the trace that were not replayed.
fn left_out(stored: &StoredReplay) -> Vec<String> {
    let mut lines = Vec::new();
    if !stored.without_counterpart.is_empty() {
        lines.push(format!("No counterpart: {}.", counts(&stored.without_counterpart)));
    }
    if !stored.by_client.is_empty() {
        lines.push(format!("Done by the client in its own way: {}.", counts(&stored.by_client)));
    }
    for (count, what) in [
        (
            stored.put_off,
            "operations that the original server delayed or refused because of its state",
        ),
        (stored.incomplete, "operations whose arguments were not captured"),
    ] {
        if count > 0 {
            lines.push(format!("Left out: {count} {what}."));
        }
    }
    if stored.split > 0 {
        lines.push(format!(
            "Split into several calls, because the target's transfers are smaller: {} reads and \
             writes.",
            stored.split
        ));
    }
    lines
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    parts.join(", ")
}

pub(super) fn time(of: &Quantiles, time_ns: u64) -> String {
    if of.count == 0 { "-".to_owned() } else { Nanos(time_ns).to_string() }
}

pub(super) fn ratio(here: u64, there: u64) -> String {
    if here == 0 || there == 0 {
        return "-".to_owned();
    }
    three_digits(here as f64 / there as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use report::document::Form;
    use serde_json::{Value, json};

    use super::*;

    fn quantiles(p50: u64) -> Value {
        json!({"count": 20, "mean": p50, "p50": p50, "p90": p50, "p99": 2 * p50, "max": 3 * p50})
    }

    fn host(name: &str, issued: u64) -> Value {
        json!({"name": name, "clients": 1, "issued": issued, "notices": 2,
            "own_lateness": quantiles(10), "clock_error_ns": 40_000})
    }

    /// Builds a replay at one speed, with this response time in each of its twenty parts.
    fn outcome(speed: f64, response_ns: u64) -> Value {
        let mut parts = Vec::new();
        let mut timeline = Vec::new();
        for number in 0..20 {
            parts.push(json!({"ops": 1, "response_ns": response_ns + number, "paired_ops": 1,
                "paired_ns": response_ns + number, "origin_ns": 1_000_000}));
            timeline.push(json!({"from_ns": number * 50_000_000, "started": 1, "done": 1,
                "response_ns": response_ns, "origin_ns": 1_000_000, "start_wait_max_ns": 0}));
        }
        json!({"speed": speed, "clients": 1, "ops": 20, "issued": 20, "accounted": 20,
            "skipped": 0, "not_started": 0, "calls_sent": 20, "own_calls": 0,
            "retransmissions": 0, "reconnects": 0, "planned_ns": 1_000_000_000,
            "took_ns": 1_000_000_000, "own_lateness": quantiles(10), "start_wait": quantiles(0),
            "problems": [{"kind": "READ", "origin": "success", "ended": "NFS3ERR_IO", "count": 2}],
            "kinds": [{"kind": "READ", "ops": 20, "ended": 20, "skipped": 0,
                "expected_errors": 0, "unexpected_errors": 2, "missing_errors": 0, "bytes": 4096,
                "response": quantiles(response_ns), "service": quantiles(response_ns),
                "origin": quantiles(1_000_000), "parts": parts}],
            "hosts": [host("h1", 12), host("h2", 8)], "timeline": timeline})
    }

    /// Builds a replay at two speeds.
    pub(in crate::commands::replay) fn stored(response_ns: u64) -> StoredReplay {
        let made = json!({"dfsbench_replay": 1, "made_by": "dfsbench",
            "made_unix_ms": 951_782_399_000_u64, "trace": "nfs.dfst",
            "target": "nfs://server/export", "version": "3", "tree_objects": 3,
            "without_counterpart": {"v4.1 LOCK": 7}, "by_client": {}, "put_off": 0,
            "incomplete": 0, "split": 0,
            "outcomes": [outcome(1.0, response_ns), outcome(2.0, response_ns)]});
        serde_json::from_value(made).unwrap()
    }

    #[test]
    fn reports_ratio_failures_and_omissions() {
        let document = describe_replay(&stored(3_000_000));
        let text = document.render(Form::Markdown);
        assert_eq!(document.about, Vec::<String>::new());
        let gaps = Some("41 % of the traffic is missing".to_owned());
        let cut = describe_replay(&StoredReplay { trace_gaps: gaps, ..stored(3_000_000) });
        assert!(cut.about[0].starts_with("Incomplete trace: 41 % of the"), "{:?}", cut.about);
        for part in [
            "3.00 (3.00 to 3.00)",
            "NFS3ERR_IO | 2 |",
            "7 v4.1 LOCK",
            "| h2 | 1 | 8 | 2 |",
            "at the speed of the trace: 2 of 20 operations failed",
            "achieved op/s",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("kept up"), "{text}");
        let page = document.page("");
        let title = "<h1>nfs.dfst on nfs://server/export (NFS v3), 2000-02-28 23:59 UTC</h1>";
        assert!(page.contains(title));
        for part in ["in the trace", "Operations scheduled and done", "id=\"speed-2\"", "<svg"] {
            assert!(page.contains(part), "{part}");
        }
    }

    /// Returns the verdict on a replay whose reads took this long, compared with 1 ms in the trace.
    fn verdict(response_ns: u64, change: impl Fn(&mut Value)) -> String {
        let mut made = outcome(1.0, response_ns);
        for field in ["unexpected_errors", "skipped"] {
            made["kinds"][0][field] = 0.into();
        }
        change(&mut made);
        verdict_text(&serde_json::from_value(made).unwrap())
    }

    #[test]
    fn says_kept_up_only_without_failures() {
        assert_eq!(
            verdict(1_000_000, |_| ()),
            "the server kept up; response times 1.00x those of the trace"
        );
        let failed = verdict(1_000_000, |made| {
            made["kinds"][0]["unexpected_errors"] = 7.into();
            made["skipped"] = 3.into();
            made["accounted"] = 16.into();
        });
        assert_eq!(
            failed,
            "7 of 20 operations failed that did not fail in the trace; 3 of 20 could not be \
             issued; 1 of 20 never ended; response times 1.00x those of the trace"
        );
        let behind = |own: bool| {
            move |made: &mut Value| made["behind"] = json!({"from_ns": 5, "is_own_fault": own})
        };
        assert!(verdict(1_000_000, behind(false)).starts_with("the server fell behind at 5 ns; "));
        assert!(verdict(1_000_000, behind(true)).starts_with("inconclusive: this client fell"));
        assert_eq!(
            verdict(1_000_000, |made| made["not_started"] = 4.into()),
            "interrupted before 4 of 20 operations"
        );
        assert!(verdict(1_000_000, |made| made["speed"] = Value::Null).starts_with("done; resp"));
    }

    #[test]
    fn says_kept_up_only_near_trace() {
        assert!(verdict(1_900_000, |_| ()).starts_with("the server kept up; "));
        assert_eq!(
            verdict(1_129_000_000, |_| ()),
            "on schedule, but slower than the trace; response times 1129x those of the trace"
        );
        // A slow median of a single kind is enough, unless this client was late itself.
        let rare = |made: &mut Value| made["kinds"][0]["response"]["p50"] = 9_000_000.into();
        assert!(verdict(1_000_000, rare).starts_with("on schedule, but slower"));
        let late = |made: &mut Value| {
            rare(made);
            made["own_lateness"]["p50"] = 8_000_000.into();
        };
        assert!(verdict(1_000_000, late).starts_with("the server kept up; "));
        let mut made = outcome(1.0, 3_000_000);
        rare(&mut made);
        assert_eq!(
            times_text(&serde_json::from_value(made).unwrap()).unwrap(),
            "Mean response time: 3.00x that of the trace (95 % interval 3.00x to 3.00x); the \
              median of READ grew most, to 9.00x."
        );
    }
}
