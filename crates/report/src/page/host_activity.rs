//! Activity of the hosts during the passes: a line for each pass of a run and host.
//!
//! The values are averages over all trials with recorded activity. The results file has every
//! second of every trial, and `--format sar` prints it.

use maud::{Markup, html};
use model::Telemetry;

use crate::campaign::host_activity::HostActivity;
use crate::document::{self, Column, Role, Table, TableRow};
use crate::table::{Row, Sheet};

/// Maximum number of lines; the results file has all of them.
const LINES_MAX: usize = 500;

/// Renders the table; empty if no activity was recorded.
pub(super) fn part(sheet: &Sheet<'_>) -> Markup {
    let mut lines = Vec::new();
    let mut watched = Vec::new();
    for row in &sheet.rows {
        lines.extend(host_lines(row));
        watched.extend(watched_hosts(row));
    }
    lines.truncate(LINES_MAX);
    let counters = HostActivity::columns_of(watched.into_iter());
    let mut columns = Column::all(&[("pass", Role::Words), ("host", Role::Words)]);
    columns.extend(
        HostActivity::headings(&counters).into_iter().map(|head| Column::new(head, Role::Number)),
    );
    let mut rows = Vec::new();
    for (row, host, watched) in &lines {
        rows.push([vec![sheet.name(row), (*host).to_owned()], watched.cells(&counters)].concat());
    }
    let table = Table {
        caption:
            "CPU time in percent of all CPUs of the host; sums of disks and interfaces, including \
             loopback."
                .to_owned(),
        columns,
        rows: TableRow::all(rows.into_iter()),
        ..Table::default()
    };
    html! {
        @if !lines.is_empty() { (document::html::table(&table)) }
    }
}

/// All recorded activity of one row.
fn watched_hosts<'a>(row: &'a Row<'_>) -> Vec<&'a Telemetry> {
    let mut watched = Vec::new();
    for trial in &row.run.trials {
        for pass in &trial.passes {
            if pass.pass == row.judged.pass {
                watched.extend(&pass.telemetry);
            }
        }
    }
    watched
}

/// Hosts of one row with their activity.
fn host_lines<'a>(row: &'a Row<'a>) -> Vec<(&'a Row<'a>, &'a str, HostActivity)> {
    let mut hosts: Vec<(&Row<'_>, &str, HostActivity)> = Vec::new();
    for telemetry in watched_hosts(row) {
        let Some(last) = telemetry.times_ns.len().checked_sub(1) else { continue };
        // Add up the trials of each host, so that the cells are averages over all of them.
        let known = hosts.iter().position(|(_, host, _)| *host == telemetry.host);
        if known.is_none() {
            hosts.push((row, &telemetry.host, HostActivity::default()));
        }
        let number = known.unwrap_or(hosts.len() - 1);
        hosts[number].2.add(telemetry, 0, last);
    }
    hosts
}
