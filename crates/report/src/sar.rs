//! What the hosts did during each pass, interval by interval, as sar prints it.
//!
//! A table for each trial, pass and host: processor time by state in percent of all processors,
//! context switches, disks and interfaces all together (loopback apart from neither), TCP segments
//! sent again, and what mounts of NFS and the kernel's server moved. The last line is the whole
//! pass. A dash stands where the host does not count that, or an interval was too short to tell.
//!
//! **Source:** sar(1) of sysstat for the names of its columns.

use std::fmt::Write as _;

use model::{Metric, Telemetry};

use crate::grid::{Align, Grid, clean};
use crate::sheet::Sheet;

/// Wider than any of these tables: nothing in them is wrapped.
const WIDTH_MAX: usize = 200;

/// A column: its head, and the counters that are added up in it.
struct Column {
    head: &'static str,
    counts: fn(&str) -> bool,
    /// What one of its unit holds.
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
    Column { head: "dkrdMB/s", counts: |name| of(name, "disk.", ".read_bytes"), unit: MB },
    Column { head: "dkwrMB/s", counts: |name| of(name, "disk.", ".write_bytes"), unit: MB },
    Column { head: "rxMB/s", counts: |name| of(name, "net.", ".received_bytes"), unit: MB },
    Column { head: "txMB/s", counts: |name| of(name, "net.", ".sent_bytes"), unit: MB },
    Column { head: "retrans/s", counts: |name| name == "tcp.segments_retransmitted", unit: 1.0 },
    Column { head: "nfsrdMB/s", counts: |name| of(name, "nfs.", ".server_read_bytes"), unit: MB },
    Column { head: "nfswrMB/s", counts: |name| of(name, "nfs.", ".server_write_bytes"), unit: MB },
    Column { head: "nfsdrdMB/s", counts: |name| name == "nfsd.read_bytes", unit: MB },
    Column { head: "nfsdwrMB/s", counts: |name| name == "nfsd.write_bytes", unit: MB },
];

fn of(name: &str, start: &str, end: &str) -> bool {
    name.starts_with(start) && name.ends_with(end)
}

/// Writes the tables of all passes that were watched.
pub fn render(sheet: &Sheet<'_>) -> String {
    let mut out = String::new();
    for row in &sheet.rows {
        for trial in &row.run.trials {
            for pass in trial.passes.iter().filter(|pass| pass.pass == row.judged.pass) {
                for host in &pass.telemetry {
                    let name = format!("{}, trial {}", sheet.name(row), trial.index + 1);
                    // Writing to a String can't fail.
                    let _ = writeln!(out, "{}, host {}", clean(&name), clean(&host.host));
                    out.push_str(&table(host));
                    out.push('\n');
                }
            }
        }
    }
    if out.is_empty() {
        return "No pass of this campaign was watched.\n".to_owned();
    }
    out
}

fn table(host: &Telemetry) -> String {
    let told: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| host.metrics.iter().any(|metric| (column.counts)(&metric.name)))
        .collect();
    let heads = STATES.iter().map(|(head, _)| *head);
    let heads = heads.chain(told.iter().map(|column| column.head));
    let columns: Vec<_> =
        std::iter::once("seconds").chain(heads).map(|head| (head, Align::Right)).collect();
    let mut grid = Grid::new(&columns);
    let last = host.times_ns.len().saturating_sub(1);
    for to in 1..=last {
        grid.row(&line(host, &told, (to - 1, to)));
    }
    if last > 1 {
        let mut whole = line(host, &told, (0, last));
        "all".clone_into(&mut whole[0]);
        grid.row(&whole);
    }
    grid.render(WIDTH_MAX)
}

/// One line: what rose from one reading to another.
fn line(host: &Telemetry, told: &[&Column], (from, to): (usize, usize)) -> Vec<String> {
    let seconds = (host.times_ns[to] - host.times_ns[from]) as f64 / 1e9;
    let risen = |counts: &dyn Fn(&str) -> bool| -> f64 {
        let counted = host.metrics.iter().filter(|metric| counts(&metric.name));
        counted.map(|metric| between(metric, from, to)).sum::<u64>() as f64
    };
    let state = |ends: &[&str]| {
        risen(&|name| ends.iter().any(|end| name.strip_prefix("cpu.") == Some(end)))
    };
    let states: Vec<f64> = STATES.iter().map(|(_, ends)| state(ends)).collect();
    let all: f64 = states.iter().sum();
    let mut cells = vec![format!("{:.2}", host.times_ns[to] as f64 / 1e9)];
    cells.extend(states.iter().map(|state| share(*state, all)));
    cells.extend(told.iter().map(|column| {
        if seconds > 0.0 {
            format!("{:.1}", risen(&column.counts) / column.unit / seconds)
        } else {
            "-".to_owned()
        }
    }));
    cells
}

fn between(metric: &Metric, from: usize, to: usize) -> u64 {
    let values = metric.values[from..=to].to_vec();
    Metric { values, ..metric.clone() }.risen()
}

fn share(part: f64, all: f64) -> String {
    if all > 0.0 { format!("{:.1}", part * 100.0 / all) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use model::MetricKind;

    use super::*;

    #[test]
    fn lines_are_differences_and_the_last_is_the_whole() {
        let counter = |name: &str, values: [u64; 3]| Metric {
            name: name.to_owned(),
            kind: MetricKind::Counter,
            values: values.to_vec(),
        };
        let host = Telemetry {
            host: "h".to_owned(),
            times_ns: vec![0, 1_000_000_000, 3_000_000_000],
            metrics: vec![
                counter("cpu.user_ns", [0, 500_000_000, 500_000_000]),
                counter("cpu.idle_ns", [7, 500_000_007, 2_500_000_007]),
                counter("cpu0.user_ns", [0, 9, 9]),
                counter("net.eth0.received_bytes", [0, 4_000_000, 4_000_000]),
                counter("net.lo.received_bytes", [0, 1_000_000, 3_000_000]),
            ],
        };
        let expected = "\
seconds  %user  %system  %iowait  %steal  %idle  rxMB/s
───────  ─────  ───────  ───────  ──────  ─────  ──────
   1.00   50.0      0.0      0.0     0.0   50.0     5.0
   3.00    0.0      0.0      0.0     0.0  100.0     1.0
    all   16.7      0.0      0.0     0.0   83.3     2.3
";
        assert_eq!(table(&host), expected);
        let short = Telemetry { times_ns: vec![0, 0, 0], metrics: Vec::new(), ..host };
        assert!(table(&short).contains("   0.00      -"));
    }
}
