//! What each of a server's addresses did, for targets with several, and each data server of a pNFS
//! cluster: work, times, retransmissions, and lost connections.

use model::units::{Nanos, Size, three_digits};
use model::{PathWork, PnfsWork, Scope};

use crate::document::{Block, Cell, Column, Form, Role, Section, Table, TableRow};
use crate::humanize::{counted, grouped, percent};
use crate::table::factor_levels::DATA_SERVERS;
use crate::table::{Row, Sheet};

/// Maximum number of lines on a page, and in a terminal; JSON has all of them.
const LINES_MAX: usize = 200;
const TEXT_LINES_MAX: usize = 12;

/// How many times as long half of the calls to a data server may take as those to the fastest, and
/// the calls per data server before they are compared. The caveat `paths-uneven` has these limits,
/// too.
const SLOWER_MAX: f64 = 3.0;
const OPS_MIN: u64 = 100;

const COLUMNS: [(&str, Role); 11] = [
    ("target", Role::Words),
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

/// An address in a pass: both names of the row, the other cells of [`COLUMNS`], and whether another
/// address of the same row is above it.
struct AddressLine {
    row: [String; 2],
    cells: [String; COLUMNS.len() - 2],
    continues: bool,
}

/// Builds the section; `None` if no server has several addresses.
pub(crate) fn section(sheet: &Sheet<'_>, form: Form) -> Option<Section> {
    let mut rows = Vec::new();
    for row in &sheet.rows {
        let mut paths = Vec::new();
        for scope in scopes_of(row) {
            PathWork::merge_all(&mut paths, &scope.paths);
        }
        rows.extend(address_lines(&name_row(sheet, row, &[]), &paths));
    }
    if rows.is_empty() {
        return None;
    }
    let blocks = if form == Form::Text { vec![lines(&rows)] } else { vec![table(rows)] };
    let heading = "Addresses of the server".to_owned();
    Some(Section { id: "addresses", heading, blocks, ..Section::default() })
}

/// Builds the section about the data servers of pNFS clusters; `None` if no layouts were used. A
/// terminal only shows how even they were.
pub(crate) fn data_servers(sheet: &Sheet<'_>, form: Form) -> Option<Section> {
    let mut balances = Vec::new();
    let mut addresses = Vec::new();
    for row in &sheet.rows {
        let Some(work) = merge_data_servers(row) else { continue };
        let name = name_row(sheet, row, &[DATA_SERVERS]);
        addresses.extend(address_lines(&name, &work.data_servers));
        balances.push(name.into_iter().chain(balance_cells(&work)).collect::<Vec<_>>());
    }
    if balances.is_empty() {
        return None;
    }
    let most = if form == Form::Text { TEXT_LINES_MAX } else { LINES_MAX };
    let more = balances.len().saturating_sub(most);
    balances.truncate(most);
    let columns = [
        ("target", Role::Words),
        ("pass", Role::Words),
        ("data servers", Role::Number),
        ("past metadata server", Role::Number),
        ("busiest/mean", Role::Number),
        ("slow", Role::Words),
    ];
    let mut blocks = vec![Block::Table(Table {
        columns: Column::all(&columns),
        rows: TableRow::all(balances.into_iter()),
        reading: vec![format!(
            "past metadata server: share of the bytes. busiest/mean: bytes of the busiest data \
             server, divided by the mean (1: even). slow: more than {SLOWER_MAX} times the median \
             time of the fastest."
        )],
        ..Table::default()
    })];
    if more > 0 {
        blocks.push(Block::Paragraph(format!("{more} more are in the output of --format json.")));
    }
    if form != Form::Text && !addresses.is_empty() {
        blocks.push(table(addresses));
    }
    let heading = "Data servers".to_owned();
    Some(Section { id: "data-servers", heading, blocks, ..Section::default() })
}

/// Returns the cells about the balance of a row, without its names.
fn balance_cells(work: &PnfsWork) -> [String; 4] {
    let none = || "–".to_owned();
    let Balance { busiest_over_mean, slow } = Balance::from_work(work);
    let slow: Vec<_> = slow
        .iter()
        .map(|(address, times)| format!("{address} ({} times)", three_digits(*times)))
        .collect();
    [
        work.data_servers.len().to_string(),
        work.direct_share().map_or_else(none, percent),
        busiest_over_mean.map_or_else(none, three_digits),
        if slow.is_empty() { none() } else { slow.join(", ") },
    ]
}

/// How even the data servers of a cluster were.
pub(crate) struct Balance<'w> {
    /// Bytes of the busiest data server, divided by the mean; `None` without data.
    pub busiest_over_mean: Option<f64>,
    /// Data servers that were much slower than the fastest, with how many times its median time.
    pub slow: Vec<(&'w str, f64)>,
}

impl<'w> Balance<'w> {
    pub(crate) fn from_work(work: &'w PnfsWork) -> Self {
        let servers = &work.data_servers;
        let mean = work.data_bytes() as f64 / servers.len() as f64;
        let most = servers.iter().map(|server| server.bytes).max().unwrap_or(0) as f64;
        let middle = |server: &PathWork| server.times.quantile(0.5) as f64;
        let ops: u64 = servers.iter().map(|server| server.ops).sum();
        let is_enough = ops >= OPS_MIN * servers.len() as u64;
        let active = || servers.iter().filter(|server| is_enough && server.ops > 0);
        let fastest = active().map(middle).fold(f64::INFINITY, f64::min);
        let times = active().map(|server| (server.address.as_str(), middle(server) / fastest));
        Self {
            busiest_over_mean: (mean > 0.0).then(|| most / mean),
            slow: times.filter(|(_, times)| *times > SLOWER_MAX).collect(),
        }
    }
}

/// Adds up what the servers of a cluster did in all trials that count; `None` if the row was not to
/// use layouts.
pub(crate) fn merge_data_servers(row: &Row<'_>) -> Option<PnfsWork> {
    let mut all = None::<PnfsWork>;
    for work in scopes_of(row).filter_map(|scope| scope.pnfs.as_ref()) {
        all.get_or_insert_default().add(work);
    }
    all
}

/// Returns the scopes of a row's pass in all trials that count.
fn scopes_of<'r>(row: &'r Row<'_>) -> impl Iterator<Item = &'r Scope> {
    let counts = |index| row.judged.points.iter().any(|at| at.used && at.trial_index == index);
    let trials = row.run.trials.iter().filter(move |trial| counts(trial.index));
    let passes = trials.flat_map(|trial| &trial.passes);
    passes.filter(|pass| pass.pass == row.judged.pass).map(|pass| &pass.scope)
}

/// Returns the target of a row, and its pass with the settings that distinguish it.
fn name_row(sheet: &Sheet<'_>, row: &Row<'_>, omitted: &[&str]) -> [String; 2] {
    let factors = sheet.factors_without(row, omitted);
    let comma = if factors.is_empty() { "" } else { ", " };
    [row.run.spec.target_name.clone(), format!("{}{comma}{factors}", row.pass_name())]
}

fn address_lines(row: &[String; 2], paths: &[PathWork]) -> Vec<AddressLine> {
    let sum = |of: fn(&PathWork) -> u64| paths.iter().map(of).sum::<u64>();
    let whole = (sum(|path| path.bytes), sum(|path| path.ops));
    let line = |(number, path): (usize, &PathWork)| AddressLine {
        row: row.clone(),
        cells: cells(path, whole),
        continues: number > 0,
    };
    paths.iter().enumerate().map(line).collect()
}

/// Returns the cells of an address, without the names of its row. `whole` has the bytes and ops of all.
fn cells(path: &PathWork, whole: (u64, u64)) -> [String; COLUMNS.len() - 2] {
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

fn lines(rows: &[AddressLine]) -> Block {
    let mut lines = Vec::new();
    for AddressLine { row: [target, pass], cells, .. } in rows.iter().take(TEXT_LINES_MAX) {
        let [address, ops, bytes, share, mean, p50, p99, retransmits, lost] = cells;
        let lost = if lost == "–" { String::new() } else { format!("; lost {lost}") };
        lines.push(format!(
            "{target} {pass}: {address} {ops} ops, {bytes} ({share}), mean {mean}, p50 {p50}, \
             p99 {p99}, TCP retransmits {retransmits}{lost}"
        ));
    }
    if rows.len() > TEXT_LINES_MAX {
        let more = rows.len() - TEXT_LINES_MAX;
        lines.push(format!("{more} more are in the output of --format json."));
    }
    Block::List(lines)
}

fn table(mut rows: Vec<AddressLine>) -> Block {
    rows.truncate(LINES_MAX);
    let row = |line: AddressLine| TableRow {
        continues: line.continues,
        cells: line.row.into_iter().chain(line.cells).map(Cell::text).collect(),
        ..TableRow::default()
    };
    Block::Table(Table {
        caption: "All trials that count, including their warm-up. Retransmits are TCP segments \
                  that the client sent again."
            .to_owned(),
        columns: Column::all(&COLUMNS),
        rows: rows.into_iter().map(row).collect(),
        ..Table::default()
    })
}
