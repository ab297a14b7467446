//! Mixes of reads and writes, with I/O sizes in columns and other settings in rows.
//!
//! There is one table for each block order and number of threads, like the figures in the report:
//! `Sequential Single Threaded Tests`. MB/s are MiB per second, reads and writes combined.
//!
//! **Source:** "A Comparison of Various NFS Configurations" (2009), for titles and settings.

use std::cmp::Reverse;

use model::{Pass, Workload};

use super::{OneRun, Unit, rate_cell};
use crate::export::legacy_tables::best_by_size::BestCells;
use crate::table::{NOT_APPLICABLE, Sheet};
use crate::text_grid::{Align, Grid, clean};

/// Settings in the title, first column or other columns.
const PLACED: [&str; 4] = ["random_percent", "workers", "read_percent", "io_size"];

/// Maximum number of I/O sizes in the columns of one table.
const ACROSS_MAX: usize = 9;

/// Width of the nine I/O sizes in the report, with names of settings before them.
const WIDTH_MAX: usize = 160;

/// Renders the tables; empty if no run is a mix.
pub(super) fn render(sheet: &Sheet<'_>, runs: &[OneRun<'_>], best: &BestCells) -> String {
    let mut titles: Vec<(String, Vec<&OneRun<'_>>)> = Vec::new();
    for run in runs {
        if run.first().run.spec.workload != Workload::Mixed {
            continue;
        }
        let title = title(run);
        match titles.iter_mut().find(|(known, _)| *known == title) {
            Some((_, of_title)) => of_title.push(run),
            None => titles.push((title, vec![run])),
        }
    }
    let mut tables = Vec::new();
    for (title, of_title) in titles {
        let mut sizes: Vec<(u32, String)> = Vec::new();
        for run in &of_title {
            let row = run.first();
            let size = (row.run.spec.io_size_bytes, sheet.value(row, "io_size").into_owned());
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        sizes.sort_unstable();
        // A table that is too wide is continued below.
        for some in sizes.chunks(ACROSS_MAX) {
            tables.push(format!("{title}, MB/s\n{}", table(sheet, &of_title, some, best)));
        }
    }
    tables.join("\n")
}

/// Names the table of a run: `Random Multi-Threaded Tests (20 threads)`.
fn title(run: &OneRun<'_>) -> String {
    let spec = &run.first().run.spec;
    let order = match spec.layout.random_percent {
        0 => "Sequential".to_owned(),
        100 => "Random".to_owned(),
        percent => format!("{percent} % Random"),
    };
    match spec.workers {
        1 => format!("{order} Single Threaded Tests"),
        threads => format!("{order} Multi-Threaded Tests ({threads} threads)"),
    }
}

/// Renders one table, with a row for each share of reads and combination of other settings.
fn table(
    sheet: &Sheet<'_>,
    runs: &[&OneRun<'_>],
    sizes: &[(u32, String)],
    best: &BestCells,
) -> String {
    let mut columns = vec![("read %", Align::Right)];
    let has_settings = runs.iter().any(|run| !name_rest(sheet, run).is_empty());
    if has_settings {
        columns.push(("settings", Align::Left));
    }
    for (_, name) in sizes {
        columns.push((name, Align::Right));
    }
    // Rows by share of reads and other settings.
    let mut lines: Vec<((u32, String), Vec<String>)> = Vec::new();
    for run in runs {
        let row = run.first();
        let size = sheet.value(row, "io_size");
        let Some(at) = sizes.iter().position(|(_, name)| *name == size) else { continue };
        let key = (row.run.spec.read_percent, name_rest(sheet, run));
        let known = lines.iter().position(|(known, _)| *known == key);
        let line = known.unwrap_or(lines.len());
        if known.is_none() {
            lines.push((key, vec![String::new(); sizes.len()]));
        }
        let unit = Unit::MibOfOps(row.run.spec.io_size_bytes);
        lines[line].1[at] = rate_cell(run, Pass::Mix, unit, best);
    }
    // Keep comparable rows together, in plan order within each group.
    lines.sort_by_key(|((read_percent, _), _)| Reverse(*read_percent));
    let mut grid = Grid::new(&columns);
    for ((read_percent, settings), line) in lines {
        let mut cells = vec![read_percent.to_string()];
        if has_settings {
            cells.push(settings);
        }
        cells.extend(line);
        grid.row(&cells);
    }
    grid.render(WIDTH_MAX)
}

/// Settings of a run without a place of their own.
fn name_rest(sheet: &Sheet<'_>, run: &OneRun<'_>) -> String {
    let row = run.first();
    let mut parts = Vec::new();
    if sheet.campaign.runs.iter().any(|other| other.spec.target_name != row.run.spec.target_name) {
        parts.push(row.run.spec.target_name.clone());
    }
    for (name, value) in sheet.columns.iter().zip(&row.values) {
        if !PLACED.contains(name) && value != NOT_APPLICABLE {
            parts.push(format!("{name} {value}"));
        }
    }
    clean(&parts.join(", ")).replace('\n', " ")
}
