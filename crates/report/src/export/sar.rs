//! Activity of the hosts during each pass, interval by interval, in the format of sar.
//!
//! There is a table for each trial, pass and host: CPU time by state in percent of all CPUs,
//! context switches, disks and network interfaces (each kind summed up, including loopback),
//! retransmitted TCP segments, and bytes transferred by NFS mounts and the kernel's server. The
//! last line is the whole pass.

use std::fmt::Write as _;

use model::Telemetry;

use crate::campaign::host_activity::HostActivity;
use crate::table::Sheet;
use crate::text_grid::{Align, Grid, clean};

/// Wider than any of these tables, so nothing is wrapped.
const WIDTH_MAX: usize = 200;

/// Renders the tables of all passes with recorded activity.
pub(crate) fn render(sheet: &Sheet<'_>) -> String {
    let mut out = String::new();
    for row in &sheet.rows {
        for trial in &row.run.trials {
            for pass in trial.passes.iter().filter(|pass| pass.pass == row.judged.pass) {
                for host in &pass.telemetry {
                    let name = format!("{}, trial {}", sheet.name(row), trial.index + 1);
                    // Writing to a String cannot fail.
                    let _ = writeln!(out, "{}, host {}", clean(&name), clean(&host.host));
                    out.push_str(&sar_table(host));
                    out.push('\n');
                }
            }
        }
    }
    if out.is_empty() {
        return "No host activity was recorded in this campaign.\n".to_owned();
    }
    out
}

fn sar_table(host: &Telemetry) -> String {
    let columns = HostActivity::columns_of(std::iter::once(host));
    let heads = std::iter::once("seconds").chain(HostActivity::headings(&columns));
    let aligned: Vec<_> = heads.map(|head| (head, Align::Right)).collect();
    let mut grid = Grid::new(&aligned);
    let mut line = |first: String, from, to| {
        let mut watched = HostActivity::default();
        watched.add(host, from, to);
        grid.row(&[vec![first], watched.cells(&columns)].concat());
    };
    let last = host.times_ns.len().saturating_sub(1);
    for to in 1..=last {
        line(format!("{:.2}", host.times_ns[to] as f64 / 1e9), to - 1, to);
    }
    if last > 1 {
        line("all".to_owned(), 0, last);
    }
    grid.render(WIDTH_MAX)
}

#[cfg(test)]
mod tests {
    use model::{Metric, MetricKind};

    use super::*;

    #[test]
    fn prints_differences_and_total() {
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
        assert_eq!(sar_table(&host), expected);
        let short = Telemetry { times_ns: vec![0, 0, 0], metrics: Vec::new(), ..host };
        assert!(sar_table(&short).contains("   0.00      -"));
    }
}
