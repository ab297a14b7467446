//! What each of a server's addresses did, for targets with several: work, times, retransmissions,
//! and lost connections.

use model::PathWork;
use model::units::{Nanos, Size};

use crate::document::{Block, Column, Form, Role, Section, Table, TableRow};
use crate::humanize::{counted, grouped, percent};
use crate::table::{Row, Sheet};

/// Maximum number of lines on a page, and in a terminal; JSON has all of them.
const LINES_MAX: usize = 200;
const TEXT_LINES_MAX: usize = 12;

const COLUMNS: [(&str, Role); 10] = [
    ("pass", Role::Words),
    ("address", Role::Words),
    ("ops", Role::Number),
    ("bytes", Role::Number),
    ("share", Role::Number),
    ("mean", Role::Number),
    ("p50", Role::Number),
    ("p99", Role::Number),
    ("retransmits", Role::Number),
    ("lost", Role::Number),
];

/// Builds the section; `None` if no server has several addresses.
pub(crate) fn section(sheet: &Sheet<'_>, form: Form) -> Option<Section> {
    let mut rows = Vec::new();
    for row in &sheet.rows {
        let paths = paths_of(row);
        let sum = |of: fn(&PathWork) -> u64| paths.iter().map(of).sum::<u64>();
        let whole = (sum(|path| path.bytes), sum(|path| path.ops));
        rows.extend(paths.iter().map(|path| (sheet.name(row), cells(path, whole))));
    }
    if rows.is_empty() {
        return None;
    }
    let blocks = if form == Form::Text { vec![lines(&rows)] } else { vec![table(rows)] };
    let heading = "Addresses of the server".to_owned();
    Some(Section { id: "addresses", heading, blocks, ..Section::default() })
}

/// Adds up the work over each address in all trials that count.
fn paths_of(row: &Row<'_>) -> Vec<PathWork> {
    let mut all = Vec::new();
    for trial in &row.run.trials {
        let counts =
            row.judged.points.iter().any(|point| point.used && point.trial_index == trial.index);
        for pass in trial.passes.iter().filter(|pass| counts && pass.pass == row.judged.pass) {
            PathWork::merge_all(&mut all, &pass.scope.paths);
        }
    }
    all
}

/// Returns the cells of an address, without the pass. `whole` has the bytes and ops of all.
fn cells(path: &PathWork, whole: (u64, u64)) -> [String; COLUMNS.len() - 1] {
    let (bytes, ops) = whole;
    let share = if bytes > 0 {
        path.bytes as f64 / bytes as f64
    } else {
        path.ops as f64 / ops.max(1) as f64
    };
    let time = |ns: u64| if path.ops == 0 { "–".to_owned() } else { Nanos(ns).to_string() };
    let lost = match path.lost_connections {
        0 => "–".to_owned(),
        lost => format!("{lost} of {}", counted(path.connections as usize, "connection")),
    };
    [
        path.address.clone(),
        grouped(path.ops),
        Size(path.bytes).to_string(),
        percent(share),
        time(path.times.mean()),
        time(path.times.quantile(0.5)),
        time(path.times.quantile(0.99)),
        grouped(path.segments_retransmitted),
        lost,
    ]
}

fn lines(rows: &[(String, [String; COLUMNS.len() - 1])]) -> Block {
    let mut lines = Vec::new();
    for (name, [address, ops, bytes, share, mean, p50, p99, retransmits, lost]) in
        rows.iter().take(TEXT_LINES_MAX)
    {
        let lost = if lost == "–" { String::new() } else { format!("; lost {lost}") };
        lines.push(format!(
            "{name}: {address} {ops} ops, {bytes} ({share}), mean {mean}, p50 {p50}, p99 {p99}, \
             TCP retransmits {retransmits}{lost}"
        ));
    }
    if rows.len() > TEXT_LINES_MAX {
        let more = rows.len() - TEXT_LINES_MAX;
        lines.push(format!("{more} more are in the output of --format json."));
    }
    Block::List(lines)
}

fn table(mut rows: Vec<(String, [String; COLUMNS.len() - 1])>) -> Block {
    rows.truncate(LINES_MAX);
    let cells = rows.into_iter().map(|(name, cells)| {
        let mut row = vec![name];
        row.extend(cells);
        row
    });
    Block::Table(Table {
        caption: "All trials that count, including their warm-up. Retransmits are TCP segments \
                  that the client sent again."
            .to_owned(),
        columns: Column::all(&COLUMNS),
        rows: TableRow::all(cells),
        ..Table::default()
    })
}
