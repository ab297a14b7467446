//! Throughput with NFS versions and transfer sizes in rows, and transports and other settings in
//! columns.
//!
//! There is one table for each pass and file size, in KiB per second: `Read Throughput of 20MB File
//! in KB/s`. A cell is the mean of the trials used, as in the original report.

use model::Pass;

use super::{NOT_SUPPORTED, OneRun};
use crate::export::legacy_tables::KIB;
use crate::export::legacy_tables::best_by_size::BestCells;
use crate::export::legacy_tables::in_mib;
use crate::table::{NOT_APPLICABLE, Sheet};
use crate::text_grid::{Align, Grid};

/// Settings in rows.
const DOWN: [&str; 2] = ["nfsvers", "transfer_size"];

/// Settings in the title.
const TITLE: [&str; 2] = ["file_size", "files"];

/// Maximum number of columns after the first.
const ACROSS_MAX: usize = 8;

/// Width of the terminal.
const WIDTH_MAX: usize = 140;

/// Renders the tables; empty unless the transport varies together with the version or transfer
/// size.
pub(super) fn render(sheet: &Sheet<'_>, runs: &[OneRun<'_>], best: &BestCells) -> String {
    let varies = |name: &str| sheet.columns.contains(&name);
    if !varies("proto") || !DOWN.iter().any(|name| varies(name)) {
        return String::new();
    }
    let mut tables = Vec::new();
    for (pass, name) in [(Pass::Read, "Read"), (Pass::Write, "Write")] {
        let mut of_pass: Vec<&OneRun<'_>> = runs.iter().collect();
        of_pass.retain(|run| run.rows.iter().any(|row| row.judged.pass == pass));
        let across = choose_across(sheet, &of_pass);
        // Runs of the same size get separate tables if they differ in settings without room for a
        // column.
        let mut parts: Vec<(u64, String, Vec<&OneRun<'_>>)> = Vec::new();
        for run in of_pass {
            let bytes = run.file_bytes();
            let settings = name_rest(sheet, run, &across);
            match parts.iter_mut().find(|part| part.0 == bytes && part.1 == settings) {
                Some((.., runs)) => runs.push(run),
                None => parts.push((bytes, settings, vec![run])),
            }
        }
        for (bytes, settings, runs) in parts {
            let mib = in_mib(bytes as f64);
            let comma = if settings.is_empty() { "" } else { ", " };
            let title = format!("{name} Throughput of {mib}MB File in KB/s{comma}{settings}");
            tables.extend(table(sheet, &title, &Cells { pass, runs, across: &across, best }));
        }
    }
    tables.join("\n")
}

/// Chooses the settings for the columns: the transport, then others as space allows.
fn choose_across<'a>(sheet: &Sheet<'a>, runs: &[&OneRun<'_>]) -> Vec<&'a str> {
    let mut across = vec!["proto"];
    let mut columns = count_levels(sheet, runs, "proto");
    for name in &sheet.columns {
        if across.contains(name) || DOWN.contains(name) || TITLE.contains(name) {
            continue;
        }
        let wider = columns * count_levels(sheet, runs, name).max(1);
        if wider <= ACROSS_MAX {
            across.push(name);
            columns = wider;
        }
    }
    across
}

fn count_levels(sheet: &Sheet<'_>, runs: &[&OneRun<'_>], name: &str) -> usize {
    let mut levels = Vec::new();
    for run in runs {
        let value = sheet.value(run.first(), name);
        if !levels.contains(&value) {
            levels.push(value);
        }
    }
    levels.len()
}

/// Settings of a run that are in neither rows nor columns.
fn name_rest(sheet: &Sheet<'_>, run: &OneRun<'_>, across: &[&str]) -> String {
    let mut parts = Vec::new();
    for (name, value) in sheet.columns.iter().zip(&run.first().values) {
        let is_placed = across.contains(name) || DOWN.contains(name) || TITLE.contains(name);
        if !is_placed && value != NOT_APPLICABLE && !follows_transfer(sheet, run, name) {
            parts.push(format!("{name} {value}"));
        }
    }
    parts.join(", ")
}

/// Returns true if the setting is an I/O size equal to the transfer size.
fn follows_transfer(sheet: &Sheet<'_>, run: &OneRun<'_>, name: &str) -> bool {
    name == "io_size" && sheet.value(run.first(), name) == sheet.value(run.first(), "transfer_size")
}

/// Runs of a table, and the settings that distinguish its cells.
struct Cells<'c> {
    pass: Pass,
    runs: Vec<&'c OneRun<'c>>,
    across: &'c [&'c str],
    best: &'c BestCells,
}

/// Renders a table; `None` if its columns do not fit or two runs share a cell.
fn table(sheet: &Sheet<'_>, title: &str, cells: &Cells<'_>) -> Option<String> {
    let mut downs: Vec<String> = Vec::new();
    let mut across: Vec<String> = Vec::new();
    let mut placed: Vec<([String; 2], String)> = Vec::new();
    for run in &cells.runs {
        let key = [name_down(sheet, run), name_across(sheet, run, cells.across)];
        if !downs.contains(&key[0]) {
            downs.push(key[0].clone());
        }
        if !across.contains(&key[1]) {
            across.push(key[1].clone());
        }
        if placed.iter().any(|(known, _)| *known == key) {
            return None;
        }
        placed.push((key, cell(run, cells.pass, cells.best)));
    }
    if across.len() > ACROSS_MAX || downs.len() < 2 {
        return None;
    }
    let mut columns = vec![("", Align::Left)];
    for name in &across {
        columns.push((name, Align::Right));
    }
    let mut grid = Grid::new(&columns);
    for down in &downs {
        let mut cells = vec![down.clone()];
        for column in &across {
            let found = placed.iter().find(|(key, _)| key[0] == *down && key[1] == *column);
            cells.push(found.map_or_else(String::new, |(_, cell)| cell.clone()));
        }
        grid.row(&cells);
    }
    Some(format!("{title}\n{}", grid.render(WIDTH_MAX)))
}

/// Names the row of a run: `NFS V3 32KB`.
fn name_down(sheet: &Sheet<'_>, run: &OneRun<'_>) -> String {
    let row = run.first();
    let version = sheet.value(row, "nfsvers");
    let mut name = if version == NOT_APPLICABLE {
        row.run.spec.target_name.clone()
    } else {
        format!("NFS V{version}")
    };
    let size = sheet.value(row, "transfer_size");
    if size != NOT_APPLICABLE {
        let size = size.split(" (").next().unwrap_or_default().replace(" KiB", "KB");
        name = format!("{name} {}", size.replace(" MiB", "MB"));
    }
    name
}

/// Names the column of a run by its transport and the other settings in columns.
fn name_across(sheet: &Sheet<'_>, run: &OneRun<'_>, across: &[&str]) -> String {
    let mut parts = Vec::new();
    for name in across {
        let value = sheet.value(run.first(), name);
        match *name {
            _ if value == NOT_APPLICABLE || follows_transfer(sheet, run, name) => {}
            "proto" => parts.insert(0, value.to_uppercase()),
            name => parts.push(format!("{name} {value}")),
        }
    }
    parts.join(" ")
}

/// Mean of the trials, with the mark of the best.
fn cell(run: &OneRun<'_>, pass: Pass, best: &BestCells) -> String {
    if run.is_impossible() {
        return NOT_SUPPORTED.to_owned();
    }
    match run.row_of(pass).and_then(|row| row.judged.rate.as_ref()) {
        Some(rate) => format!("{}{:.0}", best.mark(run, pass, ""), rate.mean / KIB),
        None => "-".to_owned(),
    }
}
