//! Times as reported by time(1) or a stopwatch: elapsed, discarded extremes, user, sys and CPU
//! share.
//!
//! MB and MB/s are MiB. Elapsed is the mean of the trials used, as in those reports. Highest and
//! lowest are those of all trials, in parentheses if the plan's rule discarded them.

use model::{Pass, Workload};

use super::{NOT_SUPPORTED, OneRun, name_machine};
use crate::export::legacy_tables::{MIB, in_mib};
use crate::table::{Row, Sheet};
use crate::text_grid::{Align, Grid};

/// Width of the table, which is wider than those of the reports.
const WIDTH_MAX: usize = 140;

/// Renders the times of every command and of every pass that writes or reads whole files; empty if
/// there are none.
pub(super) fn render(sheet: &Sheet<'_>, runs: &[OneRun<'_>]) -> String {
    let mut grid = Grid::new(&[
        ("Machine", Align::Left),
        ("command", Align::Left),
        ("MB", Align::Right),
        ("MB/s", Align::Right),
        ("CPU %", Align::Right),
        ("highest (s)", Align::Right),
        ("lowest (s)", Align::Right),
        ("elapsed (s)", Align::Right),
        ("user (s)", Align::Right),
        ("sys (s)", Align::Right),
    ]);
    let mut any = false;
    for run in runs {
        for row in &run.rows {
            if is_timed(row) {
                grid.row(&time_cells(sheet, run, row));
                any = true;
            }
        }
    }
    if any { grid.render(WIDTH_MAX) } else { String::new() }
}

/// Returns true if the duration of the pass is meaningful because its amount of work is fixed.
fn is_timed(row: &Row<'_>) -> bool {
    match row.judged.pass {
        Pass::App => true,
        // Bonnie has its own table.
        Pass::Write | Pass::Read => row.run.spec.workload != Workload::Bonnie,
        _ => row.judged.program.is_some(),
    }
}

fn time_cells(sheet: &Sheet<'_>, run: &OneRun<'_>, row: &Row<'_>) -> [String; 10] {
    let judged = &row.judged;
    let spec = &row.run.spec;
    // A command timed as a whole has a rate of commands, other passes have a byte rate.
    let (name, work) = match judged.pass {
        Pass::App => (spec.workload.name().to_owned(), 1.0),
        pass => (format!("{} {}", spec.workload.name(), pass.name()), spec.set_bytes() as f64),
    };
    let mib = match judged.pass {
        Pass::App => "-".to_owned(),
        _ => in_mib(work),
    };
    let mut cells = ["-"; 10].map(str::to_owned);
    cells[0] = name_machine(sheet, run);
    cells[1] = name;
    cells[2] = mib;
    if run.is_impossible() {
        NOT_SUPPORTED.clone_into(&mut cells[7]);
        return cells;
    }
    if let Some(elapsed_s) = mean_elapsed_s(row, work) {
        cells[7] = show_seconds(elapsed_s);
        if judged.pass != Pass::App {
            cells[3] = format!("{:.2}", work / MIB as f64 / elapsed_s);
        }
    }
    [cells[5], cells[6]] = extreme_cells(row, work);
    if let Some(used) = &judged.program {
        [cells[8], cells[9]] =
            [used.user_ns, used.system_ns].map(|ns| show_seconds(ns as f64 / 1e9));
    }
    if let Some(percent) = judged.cpu_percent {
        cells[4] = format!("{percent:.1}");
    }
    cells
}

/// Mean duration of the trials used; `None` if the result must not be used.
fn mean_elapsed_s(row: &Row<'_>, work: f64) -> Option<f64> {
    let mut sum = 0.0;
    let mut count = 0;
    for point in &row.judged.points {
        if point.used && point.per_s > 0.0 {
            sum += work / point.per_s;
            count += 1;
        }
    }
    if count == 0 || !row.counts() { None } else { Some(sum / f64::from(count)) }
}

/// Longest and shortest duration of all trials, in parentheses if the trial was not used.
fn extreme_cells(row: &Row<'_>, work: f64) -> [String; 2] {
    let mut points = row.judged.points.clone();
    points.retain(|point| point.per_s > 0.0);
    points.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
    [points.first(), points.last()].map(|point| match point {
        None => "-".to_owned(),
        Some(point) if point.used => show_seconds(work / point.per_s),
        Some(point) => format!("({})", show_seconds(work / point.per_s)),
    })
}

/// Formats seconds with as many digits as the reports had: `27.00`, `0.0535`.
fn show_seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{seconds:.4}") } else { format!("{seconds:.2}") }
}
