//! Summarizes the activity of hosts in the columns shared by the sar table and the page.
//!
//! [`HostActivity`] sums counters over one or more spans of readings and reports them as rates and
//! as percentages of CPU time.
//!
//! **Source:** sar(1) of sysstat for the column names.

use model::{Metric, Telemetry};

/// CPU time that a host was neither idle nor waiting for a disk, in percent of all its CPUs; `None`
/// if it was read only once.
pub fn busy_percent(host: &Telemetry) -> Option<f64> {
    let mut watched = HostActivity::default();
    let last = host.times_ns.len().checked_sub(1).filter(|last| *last > 0)?;
    watched.add(host, 0, last);
    Some(watched.busy_percent())
}

/// Column with its heading and the counters that are summed up in it.
struct Column {
    head: &'static str,
    counts: fn(&str) -> bool,
    /// Divisor from the metric's unit to the displayed unit.
    unit: f64,
}

const MB: f64 = 1e6;

/// CPU states, with the suffixes of their counters.
const STATES: [(&str, &[&str]); 5] = [
    ("%user", &["user_ns", "nice_ns"]),
    ("%system", &["system_ns", "irq_ns"]),
    ("%iowait", &["iowait_ns"]),
    ("%steal", &["steal_ns"]),
    ("%idle", &["idle_ns"]),
];

const COLUMNS: [Column; 10] = [
    Column { head: "cswch/s", counts: |name| name == "kernel.context_switches", unit: 1.0 },
    Column { head: "dkrdMB/s", counts: |name| has_ends(name, "disk.", ".read_bytes"), unit: MB },
    Column { head: "dkwrMB/s", counts: |name| has_ends(name, "disk.", ".write_bytes"), unit: MB },
    Column { head: "rxMB/s", counts: |name| has_ends(name, "net.", ".received_bytes"), unit: MB },
    Column { head: "txMB/s", counts: |name| has_ends(name, "net.", ".sent_bytes"), unit: MB },
    Column { head: "retrans/s", counts: |name| name == "tcp.segments_retransmitted", unit: 1.0 },
    Column {
        head: "nfsrdMB/s",
        counts: |name| has_ends(name, "nfs.", ".server_read_bytes"),
        unit: MB,
    },
    Column {
        head: "nfswrMB/s",
        counts: |name| has_ends(name, "nfs.", ".server_write_bytes"),
        unit: MB,
    },
    Column { head: "nfsdrdMB/s", counts: |name| name == "nfsd.read_bytes", unit: MB },
    Column { head: "nfsdwrMB/s", counts: |name| name == "nfsd.write_bytes", unit: MB },
];

fn has_ends(name: &str, start: &str, end: &str) -> bool {
    name.starts_with(start) && name.ends_with(end)
}

/// Increase of counters over one or more spans.
#[derive(Default)]
pub(crate) struct HostActivity {
    span_ns: u64,
    states: [u64; STATES.len()],
    sums: [u64; COLUMNS.len()],
}

impl HostActivity {
    /// Adds the increase from one reading to another.
    pub(crate) fn add(&mut self, host: &Telemetry, from: usize, to: usize) {
        self.span_ns += host.times_ns[to] - host.times_ns[from];
        for metric in &host.metrics {
            // Skip counters that are not displayed, because summing one copies its values.
            let state = metric.name.strip_prefix("cpu.");
            for (number, (_, ends)) in STATES.iter().enumerate() {
                if state.is_some_and(|state| ends.contains(&state)) {
                    self.states[number] += counted_between(metric, from, to);
                }
            }
            for (number, column) in COLUMNS.iter().enumerate() {
                if (column.counts)(&metric.name) {
                    self.sums[number] += counted_between(metric, from, to);
                }
            }
        }
    }

    /// CPU time that was neither idle nor waiting for a disk, in percent.
    pub(crate) fn busy_percent(&self) -> f64 {
        let mut all = 0;
        let mut busy = 0;
        for (number, (head, _)) in STATES.iter().enumerate() {
            all += self.states[number];
            // A CPU that waits for a disk could do other work, so it is idle.
            if !matches!(*head, "%iowait" | "%idle") {
                busy += self.states[number];
            }
        }
        busy as f64 * 100.0 / all.max(1) as f64
    }

    /// Sum of the columns with these headings, in the units of the cells.
    pub(crate) fn sum_of(&self, heads: &[&str]) -> f64 {
        let seconds = (self.span_ns as f64 / 1e9).max(1e-9);
        let mut per_s = 0.0;
        for (number, column) in COLUMNS.iter().enumerate() {
            if heads.contains(&column.head) {
                per_s += self.sums[number] as f64 / column.unit / seconds;
            }
        }
        per_s
    }

    /// Lists the columns, apart from CPU states, for which some host has a counter.
    pub(crate) fn columns_of<'a>(hosts: impl Iterator<Item = &'a Telemetry>) -> Vec<usize> {
        let mut columns: Vec<usize> = Vec::new();
        for host in hosts {
            columns.extend(host.metrics.iter().filter_map(|metric| {
                COLUMNS.iter().position(|column| (column.counts)(&metric.name))
            }));
        }
        // Several counters are summed up in one column; list each column once, in table order.
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    pub(crate) fn headings(columns: &[usize]) -> Vec<&'static str> {
        let mut heads: Vec<_> = STATES.into_iter().map(|(head, _)| head).collect();
        for column in columns {
            heads.push(COLUMNS[*column].head);
        }
        heads
    }

    /// One cell for each heading; a dash if the span was too short for a rate.
    pub(crate) fn cells(&self, columns: &[usize]) -> Vec<String> {
        let all: u64 = self.states.iter().sum();
        let seconds = self.span_ns as f64 / 1e9;
        let mut cells: Vec<_> = self
            .states
            .into_iter()
            .map(|state| format_ratio(state as f64 * 100.0, all as f64))
            .collect();
        for column in columns {
            let amount = self.sums[*column] as f64 / COLUMNS[*column].unit;
            cells.push(format_ratio(amount, seconds));
        }
        cells
    }
}

fn counted_between(metric: &Metric, from: usize, to: usize) -> u64 {
    // Counters may wrap, or restart with their device. `Metric::increase` handles both.
    let values = metric.values[from..=to].to_vec();
    Metric { values, ..metric.clone() }.increase()
}

fn format_ratio(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}", part / whole) } else { "-".to_owned() }
}
