//! A description as a document: a few lines, then one table per question.
//!
//! It is rendered as tables, text, Markdown or pages like any other report. All tables print units.

use model::units::{Nanos, Size};
use report::counted;
use report::document::{Block, Column, Document, Role, Section, Table, TableRow};
use report::over_time::{OverTime, Scale, TimeLine, TimePoint};
use trace::{AccessDescription, Counters, Description, Quantiles};

use crate::commands::capture::gaps;

/// Maximum number of rows in a table.
const ROWS_MAX: usize = 20;

/// A table with its title. The first column contains words, all others contain numbers.
pub(super) struct Rows {
    title: &'static str,
    head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    /// Number of rows left out.
    left_out: usize,
}

/// Builds the document for a description.
pub(super) fn describe_trace(description: &Description, name: &str) -> Document {
    let mut document = Document {
        tool: "dfsbench describe",
        title: name.to_owned(),
        about: summarize(description),
        parts: Vec::new(),
    };
    for (id, heading, table) in [
        ("figures", "Operations", tabulate_kinds(description)),
        ("over-time", "Over time", tabulate_timeline(description)),
        ("data", "Data", tabulate_access(description)),
        ("files", "Files", tabulate_files(description)),
        ("hot-files", "Busiest files", tabulate_hot(description)),
        ("clients", "Clients", tabulate_clients(description)),
        ("arrivals", "Arrivals", tabulate_arrivals(description)),
        ("completeness", "Completeness", tabulate_completeness(description)),
    ] {
        if table.rows.is_empty() {
            continue;
        }
        let mut blocks = Vec::new();
        if id == "over-time" {
            blocks.push(Block::Pictures(draw_timeline(description)));
        }
        blocks.push(Block::Table(table.into_table()));
        let heading = heading.to_owned();
        document.push(Section { id, heading, blocks, ..Section::default() });
    }
    document
}

fn summarize(description: &Description) -> Vec<String> {
    let Description { header, calls, end, arrivals, response, depth, .. } = description;
    let mut lines = Vec::new();
    if let Some(gaps) = gaps::describe(&end.counters) {
        let hint = gaps::cut_hint(&end.counters);
        let hint = hint.map_or_else(String::new, |hint| format!(" (hint: {hint})"));
        lines.push(format!("Incomplete: {gaps}{hint}."));
    }
    // A few calls in a millisecond are not a meaningful rate.
    let rate = if end.duration_ns < 1_000_000_000 {
        String::new()
    } else {
        format!(
            " ({:.1} calls/s, at most {} in a second)",
            description.calls_per_second, arrivals.peak_calls_per_second
        )
    };
    lines.extend([
        format!(
            "{} in {} from {}{rate} of {}.",
            counted(*calls as usize, "call"),
            Nanos(end.duration_ns),
            report::utc(header.begin_ns / 1_000_000),
            counted(description.clients.len(), "client"),
        ),
        format!(
            "Response time: p50 {}, p99 {}, maximum {}; calls in flight: p50 {}, maximum {}.",
            Nanos(response.p50),
            Nanos(response.p99),
            Nanos(response.max),
            depth.p50,
            depth.max
        ),
    ]);
    lines
}

/// Plots calls and data over time.
fn draw_timeline(description: &Description) -> Vec<report::Picture> {
    let mut calls = Vec::new();
    let mut read = Vec::new();
    let mut written = Vec::new();
    for slice in &description.timeline {
        let per_second = |count: u64| (count as f64 * 1e9 / slice.duration_ns.max(1) as f64) as u64;
        let at_ns = slice.start_ns;
        calls.push(TimePoint { at_ns, value: per_second(slice.calls) });
        read.push(TimePoint { at_ns, value: per_second(slice.read_bytes) / 1000 });
        written.push(TimePoint { at_ns, value: per_second(slice.written_bytes) / 1000 });
    }
    let mut pictures = Vec::new();
    for (id, title, lines) in [
        ("calls-over-time", "Calls per second", vec![("calls", calls)]),
        ("data-over-time", "Data, kB/s", vec![("read", read), ("written", written)]),
    ] {
        let named: Vec<_> = lines
            .into_iter()
            .map(|(name, points)| TimeLine { name: name.to_owned(), points })
            .collect();
        let drawn = OverTime {
            id: id.to_owned(),
            title: title.to_owned(),
            scale: Scale::Counts,
            lines: named,
            event: None,
            notes: Vec::new(),
        };
        pictures.extend(drawn.picture());
    }
    pictures
}

fn tabulate_kinds(description: &Description) -> Rows {
    let mut table = Rows::new(
        "Operations, and response times of calls by their main operation",
        &["operation", "count", "share", "errors", "calls", "p50", "p90", "p99", "maximum"],
    );
    let all: u64 = description.kinds.iter().map(|kind| kind.ops).sum();
    for kind in &description.kinds {
        let mut row = vec![
            format!("{} {}", kind.version, kind.kind),
            kind.ops.to_string(),
            percent(kind.ops, all),
            kind.errors.to_string(),
            kind.response.count.to_string(),
        ];
        let Quantiles { p50, p90, p99, max, .. } = kind.response;
        for time_ns in [p50, p90, p99, max] {
            let is_empty = kind.response.count == 0;
            row.push(if is_empty { "-".to_owned() } else { Nanos(time_ns).to_string() });
        }
        table.rows.push(row);
    }
    table
}

fn tabulate_access(description: &Description) -> Rows {
    let mut table = Rows::new(
        "Reads and writes",
        &[
            "access",
            "count",
            "share",
            "bytes",
            "sequential",
            "durable",
            "size p50",
            "size p90",
            "size max",
        ],
    );
    let all = description.reads.ops + description.writes.ops;
    for (name, access) in [("read", &description.reads), ("write", &description.writes)] {
        let AccessDescription { ops, bytes, sequential_ops, stable_ops, sizes, .. } = *access;
        table.rows.push(vec![
            name.to_owned(),
            ops.to_string(),
            percent(ops, all),
            Size(bytes).to_string(),
            percent(sequential_ops, ops),
            percent(stable_ops, ops),
            Size(sizes.p50).to_string(),
            Size(sizes.p90).to_string(),
            Size(sizes.max).to_string(),
        ]);
    }
    table
}

fn tabulate_files(description: &Description) -> Rows {
    let files = &description.files;
    let mut table = Rows::new("Files, their sizes, and the working set", &["files", "value"]);
    let Quantiles { p50, p90, max, count, .. } = files.sizes;
    let working_set = description.timeline.last().map_or(0, |slice| slice.working_set_bytes);
    for (name, value) in [
        ("known", files.known.to_string()),
        ("used by an operation", files.accessed.to_string()),
        ("data read from", files.read.to_string()),
        ("data written to", files.written.to_string()),
        ("directories", files.directories.to_string()),
        ("created", files.created.to_string()),
        ("removed", files.removed.to_string()),
        ("regular, of known size", count.to_string()),
        ("their bytes", Size(files.bytes).to_string()),
        ("their size p50", Size(p50).to_string()),
        ("their size p90", Size(p90).to_string()),
        ("their size max", Size(max).to_string()),
        ("working set in blocks of 4 KiB", Size(working_set).to_string()),
        ("data accesses to the busiest tenth", format!("{} %", files.hot_tenth_percent)),
    ] {
        table.rows.push(vec![name.to_owned(), value]);
    }
    table
}

fn tabulate_hot(description: &Description) -> Rows {
    let head = &["file", "data accesses", "share", "bytes", "size"];
    let mut table = Rows::new("Files with the most data accesses", head);
    let all = description.reads.ops + description.writes.ops;
    for hot in &description.files.hot {
        table.rows.push(vec![
            hot.file.to_string(),
            hot.data_ops.to_string(),
            percent(hot.data_ops, all),
            Size(hot.bytes).to_string(),
            hot.size.map_or("-".to_owned(), |size| Size(size).to_string()),
        ]);
    }
    table
}

fn tabulate_clients(description: &Description) -> Rows {
    let mut table = Rows::new(
        "Calls and data by client",
        &["client", "calls", "share", "read", "written", "in flight p50", "in flight max"],
    );
    for client in description.clients.iter().take(ROWS_MAX) {
        table.rows.push(vec![
            format!("{} ({})", client.client, client.address),
            client.calls.to_string(),
            percent(client.calls, description.calls),
            Size(client.read_bytes).to_string(),
            Size(client.written_bytes).to_string(),
            client.depth.p50.to_string(),
            client.depth.max.to_string(),
        ]);
    }
    table.left_out = description.clients.len().saturating_sub(ROWS_MAX);
    table
}

fn tabulate_arrivals(description: &Description) -> Rows {
    let mut table = Rows::new("Arrivals (1.00 for a Poisson process)", &["measure", "value"]);
    let arrivals = &description.arrivals;
    if arrivals.gaps.count > 0 {
        table.rows.push(vec![
            "coefficient of variation of times between calls".to_owned(),
            format!("{:.2}", arrivals.gap_variation),
        ]);
    }
    for dispersion in &arrivals.dispersions {
        table.rows.push(vec![
            format!("index of dispersion in {}", Nanos(dispersion.interval_ns)),
            format!("{:.2}", dispersion.index),
        ]);
    }
    table
}

fn tabulate_timeline(description: &Description) -> Rows {
    let mut table = Rows::new(
        "Rates, and resources used so far",
        &["from", "calls/s", "read/s", "written/s", "files so far", "working set so far"],
    );
    for slice in &description.timeline {
        let per_second = |count: u64| count as f64 * 1e9 / slice.duration_ns as f64;
        table.rows.push(vec![
            Nanos(slice.start_ns).to_string(),
            format!("{:.1}", per_second(slice.calls)),
            Size(per_second(slice.read_bytes) as u64).to_string(),
            Size(per_second(slice.written_bytes) as u64).to_string(),
            slice.files.to_string(),
            Size(slice.working_set_bytes).to_string(),
        ]);
    }
    table
}

fn tabulate_completeness(description: &Description) -> Rows {
    let mut table = Rows::new("Captured and missing", &["count", "value"]);
    for (name, count) in completeness(&description.end.counters) {
        if count > 0 {
            table.rows.push(vec![name.to_owned(), count.to_string()]);
        }
    }
    table
}

/// Returns the counters for what was seen and what was missed.
fn completeness(counters: &Counters) -> [(&'static str, u64); 24] {
    [
        ("packets", counters.packets),
        ("calls", counters.calls),
        ("replies", counters.replies),
        ("calls sent again", counters.calls_again),
        ("calls sent again after their reply", counters.calls_after_reply),
        ("replies sent again", counters.replies_again),
        ("calls of other programs", counters.calls_other),
        ("TCP segments sent again", counters.segments_again),
        ("TCP segments out of order", counters.segments_out_of_order),
        ("missing: replies", counters.calls_without_reply),
        ("missing: calls of replies", counters.replies_without_call),
        ("missing: packets dropped by the kernel", counters.packets_dropped),
        ("missing: packets with unreadable headers", counters.packets_unreadable),
        ("missing: incomplete IP packets", counters.fragments_incomplete),
        ("missing: ends of truncated captures", counters.captures_cut),
        ("missing: gaps in TCP streams", counters.segments_lost),
        ("missing: bytes in gaps", counters.bytes_lost),
        ("missing: bytes beyond the snap length", counters.bytes_cut),
        ("missing: bytes without an RPC record", counters.bytes_unsynchronized),
        ("missing: messages cut short", counters.messages_cut),
        ("missing: messages that can't be decoded", counters.messages_malformed),
        ("missing: files evicted from the table of files", counters.files_forgotten),
        ("missing: files whose mappings were used", counters.files_mapped),
        ("missing: system calls without a counterpart", counters.calls_not_imported),
    ]
}

fn percent(part: u64, all: u64) -> String {
    if all == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / all as f64)
}

impl Rows {
    pub(super) fn new(title: &'static str, head: &[&'static str]) -> Self {
        Self { title, head: head.to_vec(), rows: Vec::new(), left_out: 0 }
    }

    pub(super) fn into_table(self) -> Table {
        let mut columns = Vec::new();
        for (number, name) in self.head.iter().enumerate() {
            let role = if number == 0 { Role::Words } else { Role::Number };
            columns.push(Column::new(*name, role));
        }
        let mut reading = Vec::new();
        if self.left_out > 0 {
            reading.push(format!("{} more are in the JSON output (--format json).", self.left_out));
        }
        Table {
            caption: self.title.to_owned(),
            columns,
            rows: TableRow::all(self.rows.into_iter()),
            reading,
            ..Table::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use report::document::Form;
    use trace::{Describer, Header};

    use super::*;

    #[test]
    fn names_only_missing_parts() {
        let mut description = Describer::new(Header::default()).finish();
        description.end.counters.calls_without_reply = 1;
        let document = describe_trace(&description, "nfs.dfst");
        let text = document.render(Form::Text);
        assert!(text.contains("missing: replies") && text.contains("nfs.dfst"), "{text}");
        insta::assert_snapshot!(
            document.about[0],
            @"Incomplete: 100 % of the traffic is missing: 1 call without its reply."
        );
        let whole = describe_trace(&Describer::new(Header::default()).finish(), "nfs.dfst");
        assert!(!whole.render(Form::Text).contains("Incomplete"));
        assert!(!text.contains("missing: packets"), "{text}");
        let markdown = document.render(Form::Markdown);
        assert!(markdown.contains("| missing: replies | 1 |"), "{markdown}");
        let page = document.page("made by a test");
        assert!(page.contains("id=\"completeness\"") && page.contains("made by a test"), "{page}");
    }
}
