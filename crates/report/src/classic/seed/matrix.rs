//! Throughput by version and transfer size down, and transport and other settings across.
//!
//! One table for each pass and size of files, in KiB per second: `Read Throughput of 20MB File in
//! KB/s`. A cell is the mean of the samples behind the figure, as there.

use model::Pass;

use super::{NOT_SUPPORTED, OneRun};
use crate::classic::KIB;
use crate::classic::best::Best;
use crate::grid::{Align, Grid};
use crate::sheet::{NOT_APPLICABLE, Sheet};

/// Settings that stand down the table.
const DOWN: [&str; 2] = ["nfsvers", "transfer_size"];

/// Settings that a table has in its title.
const TITLE: [&str; 2] = ["file_size", "files"];

/// Columns beside the first.
const ACROSS_MAX: usize = 8;

/// Columns of a terminal.
const WIDTH_MAX: usize = 140;

/// The tables; empty where versions or transfer sizes don't vary together with a transport.
pub(super) fn render(sheet: &Sheet<'_>, runs: &[OneRun<'_>], best: &Best) -> String {
    let varies = |name: &str| sheet.columns.contains(&name);
    if !varies("proto") || !DOWN.iter().any(|name| varies(name)) {
        return String::new();
    }
    let mut tables = Vec::new();
    for (pass, name) in [(Pass::Read, "Read"), (Pass::Write, "Write")] {
        let mut sizes: Vec<u64> = Vec::new();
        for run in runs {
            if !sizes.contains(&run.mib()) {
                sizes.push(run.mib());
            }
        }
        for mib in sizes {
            let mut of_size: Vec<&OneRun<'_>> = Vec::new();
            for run in runs {
                if run.mib() == mib && run.rows.iter().any(|row| row.judged.pass == pass) {
                    of_size.push(run);
                }
            }
            let title = format!("{name} Throughput of {mib}MB File in KB/s");
            tables.extend(table(sheet, &title, pass, &of_size, best));
        }
    }
    tables.join("\n")
}

/// A table, where its columns have room and no two runs have one cell.
fn table(
    sheet: &Sheet<'_>,
    title: &str,
    pass: Pass,
    runs: &[&OneRun<'_>],
    best: &Best,
) -> Option<String> {
    let (mut downs, mut across): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut placed: Vec<([String; 2], String)> = Vec::new();
    for run in runs {
        let key = [name_down(sheet, run), name_across(sheet, run)];
        if !downs.contains(&key[0]) {
            downs.push(key[0].clone());
        }
        if !across.contains(&key[1]) {
            across.push(key[1].clone());
        }
        if placed.iter().any(|(known, _)| *known == key) {
            return None;
        }
        placed.push((key, cell(run, pass, best)));
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

/// Names the line of a run: `NFS V3 32KB`.
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

/// Names the column of a run by its transport and all other settings that vary.
fn name_across(sheet: &Sheet<'_>, run: &OneRun<'_>) -> String {
    let mut parts = Vec::new();
    for (name, value) in sheet.columns.iter().zip(&run.first().values) {
        match *name {
            _ if value == NOT_APPLICABLE || DOWN.contains(name) || TITLE.contains(name) => {}
            // The size of an op follows the transfer there.
            "io_size" if sheet.value(run.first(), "transfer_size") == *value => {}
            "proto" => parts.insert(0, value.to_uppercase()),
            name => parts.push(format!("{name} {value}")),
        }
    }
    parts.join(" ")
}

/// The mean of the samples, with the mark of the best.
fn cell(run: &OneRun<'_>, pass: Pass, best: &Best) -> String {
    if run.is_impossible() {
        return NOT_SUPPORTED.to_owned();
    }
    match run.of(pass).and_then(|row| row.judged.rate.as_ref()) {
        Some(rate) => format!("{}{:.0}", best.mark(run, pass, ""), rate.mean / KIB),
        None => "-".to_owned(),
    }
}
