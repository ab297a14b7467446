//! Sums up the activity of hosts: the columns that the table of sar and the page share.
//!
//! [`Watched`] sums up counters over a span of readings, or over several spans, and tells them as
//! shares of processor time and as rates.
//!
//! **Source:** sar(1) of sysstat for the names of the columns.

use model::{Metric, Telemetry};

/// Processor time of a host that was neither idle nor waiting for a disk, in percent of all its
/// processors; `None` where it was read only once.
pub fn busy_percent(host: &Telemetry) -> Option<f64> {
    let mut watched = Watched::default();
    let last = host.times_ns.len().checked_sub(1).filter(|last| *last > 0)?;
    watched.add(host, 0, last);
    Some(watched.busy_percent())
}

/// A column: its head, and the counters that are added up in it.
struct Column {
    head: &'static str,
    counts: fn(&str) -> bool,
    /// The factor from the metric's unit to the shown one.
    unit: f64,
}

const MB: f64 = 1e6;

/// States of the processors, as their counters end.
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

/// The increase of counters over one span or several.
#[derive(Default)]
pub struct Watched {
    span_ns: u64,
    states: [u64; STATES.len()],
    sums: [u64; COLUMNS.len()],
}

impl Watched {
    /// Adds what rose from one reading to another.
    pub fn add(&mut self, host: &Telemetry, from: usize, to: usize) {
        let risen = |counts: &dyn Fn(&str) -> bool| -> u64 {
            let counted = host.metrics.iter().filter(|metric| counts(&metric.name));
            counted.map(|metric| counted_between(metric, from, to)).sum()
        };
        self.span_ns += host.times_ns[to] - host.times_ns[from];
        for (sum, (_, ends)) in self.states.iter_mut().zip(STATES) {
            let counts = |name: &str| ends.iter().any(|end| name.strip_prefix("cpu.") == Some(end));
            *sum += risen(&counts);
        }
        for (sum, column) in self.sums.iter_mut().zip(&COLUMNS) {
            *sum += risen(&column.counts);
        }
    }

    /// Processor time that was neither idle nor waiting for a disk, in percent of all.
    pub fn busy_percent(&self) -> f64 {
        let all: u64 = self.states.iter().sum();
        let idle = |(index, _): &(usize, &u64)| matches!(STATES[*index].0, "%iowait" | "%idle");
        let rest: u64 = self.states.iter().enumerate().filter(idle).map(|(_, part)| part).sum();
        (all - rest) as f64 * 100.0 / all.max(1) as f64
    }

    /// The columns with these heads together, as cells would tell them.
    pub fn sum_of(&self, heads: &[&str]) -> f64 {
        let columns = COLUMNS.iter().zip(&self.sums).filter(|(c, _)| heads.contains(&c.head));
        let seconds = self.span_ns as f64 / 1e9;
        columns.map(|(column, sum)| *sum as f64 / column.unit / seconds.max(1e-9)).sum()
    }

    /// Says which of the columns after the states have something to tell.
    pub fn told<'a>(hosts: impl Iterator<Item = &'a Telemetry>) -> Vec<usize> {
        let mut told: Vec<usize> = Vec::new();
        for metric in hosts.flat_map(|host| &host.metrics) {
            let counted = COLUMNS.iter().position(|column| (column.counts)(&metric.name));
            told.extend(counted.filter(|index| !told.contains(index)));
        }
        told.sort_unstable();
        told
    }

    /// Heads of the columns.
    pub fn heads(told: &[usize]) -> Vec<&'static str> {
        let states = STATES.iter().map(|(head, _)| *head);
        states.chain(told.iter().map(|index| COLUMNS[*index].head)).collect()
    }

    /// One cell for each head; a dash where the span was too short to tell.
    pub fn cells(&self, told: &[usize]) -> Vec<String> {
        let all: u64 = self.states.iter().sum();
        let share = |part: &u64| format_ratio(*part as f64 * 100.0, all as f64);
        let seconds = self.span_ns as f64 / 1e9;
        let rate =
            |index: &usize| format_ratio(self.sums[*index] as f64 / COLUMNS[*index].unit, seconds);
        self.states.iter().map(share).chain(told.iter().map(rate)).collect()
    }
}

fn counted_between(metric: &Metric, from: usize, to: usize) -> u64 {
    let values = metric.values[from..=to].to_vec();
    Metric { values, ..metric.clone() }.risen()
}

fn format_ratio(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}", part / whole) } else { "-".to_owned() }
}
