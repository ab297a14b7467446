//! A description as text or Markdown: a few lines, then a table for each question.
//!
//! Tables are made once and laid out by [`Form`]. All of them print units.

use std::fmt::Write as _;

use model::units::{Nanos, Size};

use super::{AccessDescription, Description, Form, Quantiles};
use crate::counters::Counters;

/// Rows of a table that has more of them.
const ROWS_MAX: usize = 20;

/// A table with its title; the first column is of words, all others are of numbers.
struct Table {
    title: &'static str,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Rows that are left out.
    left_out: usize,
}

impl Description {
    /// Returns the description for people.
    pub fn render(&self, form: Form) -> String {
        let mut text = self.summary();
        for table in [
            self.kinds_table(),
            self.access_table(),
            self.files_table(),
            self.hot_table(),
            self.clients_table(),
            self.arrivals_table(),
            self.timeline_table(),
            self.completeness_table(),
        ] {
            if !table.rows.is_empty() {
                text.push('\n');
                text.push_str(&table.render(form));
            }
        }
        text
    }

    fn summary(&self) -> String {
        let Self { calls, end, arrivals, response, depth, .. } = self;
        let mut text = String::new();
        // Writing to a String never fails.
        let _ = writeln!(
            text,
            "{calls} calls in {} ({:.1} calls/s, at most {} in a second) of {} clients.",
            Nanos(end.duration_ns),
            self.calls_per_second,
            arrivals.peak_calls_per_second,
            self.clients.len()
        );
        let _ = writeln!(
            text,
            "Response time: p50 {}, p99 {}, maximum {}; calls in flight: p50 {}, maximum {}.",
            Nanos(response.p50),
            Nanos(response.p99),
            Nanos(response.max),
            depth.p50,
            depth.max
        );
        text
    }

    fn kinds_table(&self) -> Table {
        let mut table = Table::new(
            "Operations, and response times of calls by their principal operation",
            &["operation", "count", "share", "errors", "calls", "p50", "p90", "p99", "maximum"],
        );
        let mut all = 0;
        for kind in &self.kinds {
            all += kind.ops;
        }
        for kind in &self.kinds {
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

    fn access_table(&self) -> Table {
        let mut table = Table::new(
            "Data",
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
        let all = self.reads.ops + self.writes.ops;
        for (name, access) in [("read", &self.reads), ("write", &self.writes)] {
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

    fn files_table(&self) -> Table {
        let files = &self.files;
        let mut table = Table::new("Files", &["files", "value"]);
        let Quantiles { p50, p90, max, count, .. } = files.sizes;
        let working_set = self.timeline.last().map_or(0, |slice| slice.working_set_bytes);
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

    fn hot_table(&self) -> Table {
        let head = &["file", "data accesses", "share", "bytes", "size"];
        let mut table = Table::new("Files with most accesses to data", head);
        let all = self.reads.ops + self.writes.ops;
        for hot in &self.files.hot {
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

    fn clients_table(&self) -> Table {
        let mut table = Table::new(
            "Clients",
            &["client", "calls", "share", "read", "written", "in flight p50", "in flight max"],
        );
        for client in self.clients.iter().take(ROWS_MAX) {
            table.rows.push(vec![
                format!("{} ({})", client.client, client.address),
                client.calls.to_string(),
                percent(client.calls, self.calls),
                Size(client.read_bytes).to_string(),
                Size(client.written_bytes).to_string(),
                client.depth.p50.to_string(),
                client.depth.max.to_string(),
            ]);
        }
        table.left_out = self.clients.len().saturating_sub(ROWS_MAX);
        table
    }

    fn arrivals_table(&self) -> Table {
        let mut table = Table::new("Arrivals (1.00 for a Poisson process)", &["measure", "value"]);
        let arrivals = &self.arrivals;
        if arrivals.gaps.count > 0 {
            table.rows.push(vec![
                "variation of times between calls".to_owned(),
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

    fn timeline_table(&self) -> Table {
        let mut table = Table::new(
            "Over time",
            &["from", "calls/s", "read/s", "written/s", "files so far", "working set so far"],
        );
        for slice in &self.timeline {
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

    fn completeness_table(&self) -> Table {
        let mut table = Table::new("Completeness", &["count", "value"]);
        for (name, count) in completeness(&self.end.counters) {
            if count > 0 {
                table.rows.push(vec![name.to_owned(), count.to_string()]);
            }
        }
        table
    }
}

/// Returns the counts that say what was seen, and what was not.
fn completeness(counters: &Counters) -> [(&'static str, u64); 22] {
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
        ("missing: IP packets in parts", counters.fragments_incomplete),
        ("missing: ends of captures", counters.captures_cut),
        ("missing: gaps in TCP streams", counters.segments_lost),
        ("missing: bytes in gaps", counters.bytes_lost),
        ("missing: bytes beyond the snap length", counters.bytes_cut),
        ("missing: bytes without a known record", counters.bytes_unsynchronized),
        ("missing: messages cut short", counters.messages_cut),
        ("missing: messages that can't be decoded", counters.messages_malformed),
        ("missing: files forgotten for others", counters.files_forgotten),
    ]
}

fn percent(part: u64, all: u64) -> String {
    if all == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / all as f64)
}

impl Table {
    fn new(title: &'static str, head: &[&'static str]) -> Self {
        Self { title, head: head.to_vec(), rows: Vec::new(), left_out: 0 }
    }

    fn render(&self, form: Form) -> String {
        let mut text = match form {
            Form::Text => format!("{}\n", self.title),
            Form::Markdown => format!("## {}\n\n", self.title),
        };
        let mut widths = Vec::new();
        for (column, head) in self.head.iter().enumerate() {
            let mut width = head.chars().count();
            for row in &self.rows {
                width = width.max(row[column].chars().count());
            }
            widths.push(width);
        }
        let mut head = Vec::new();
        for word in &self.head {
            head.push((*word).to_owned());
        }
        push_row(&mut text, &head, &widths, form);
        if form == Form::Markdown {
            text.push_str("|---");
            text.push_str(&"|---:".repeat(self.head.len() - 1));
            text.push_str("|\n");
        }
        for row in &self.rows {
            push_row(&mut text, row, &widths, form);
        }
        if self.left_out > 0 {
            let _ = writeln!(text, "\n{} more are in JSON (--format json).", self.left_out);
        }
        text
    }
}

fn push_row(text: &mut String, row: &[String], widths: &[usize], form: Form) {
    let mut line = String::new();
    for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
        let _ = match (form, column) {
            (Form::Markdown, 0) => write!(line, "| {cell} |"),
            (Form::Markdown, _) => write!(line, " {cell} |"),
            (Form::Text, 0) => write!(line, "  {cell:<width$}"),
            (Form::Text, _) => write!(line, "  {cell:>width$}"),
        };
    }
    text.push_str(line.trim_end());
    text.push('\n');
}
