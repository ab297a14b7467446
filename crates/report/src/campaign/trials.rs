//! Distribution of the trials of each row: mean, deviation, extremes and every trial.
//!
//! [`Spread`] is a row, as cells shared by the terminal table and the page. Trials that were left
//! out are listed with the reason; nothing that was measured is hidden.

use model::Discard;
use stats::{DisturbedTrial, Rate, Summary};

use crate::document::text::{WIDTH_MAX, push};
use crate::document::{Column, Role, Table, TableRow};
use crate::table::{Row, Sheet};
use crate::text_grid::{Align, Grid};

/// Columns after the name.
const COLUMNS: [&str; 8] =
    ["n", "median", "95 %", "trimmed", "mean", "deviation", "lowest", "highest"];

/// Explanation of the columns.
const READING: [&str; 3] = [
    "n: trials used for the figures. Excluded trials (by the plan's rule, invalid or disturbed \
     from outside) are in parentheses.",
    "median, with its 95 % interval; trimmed: the mean without the highest and the \
     lowest trial; deviation: standard deviation of the trials (divisor n - 1).",
    "lowest, highest: of the trials used for the figures.",
];

/// Trials of one row.
struct Spread {
    /// Target, workload, pass and factors.
    pub name: String,
    /// One cell for each of [`COLUMNS`]; `None` if there is no result.
    pub cells: Option<[String; 8]>,
    /// Every trial in order: `356 MB/s, (828 MB/s), 361 MB/s`.
    pub trials: String,
    /// Why some trials were left out; empty if none were.
    pub left_out: String,
}

impl Spread {
    fn from_row(sheet: &Sheet<'_>, row: &Row<'_>) -> Self {
        let judged = &row.judged;
        // List every trial, so that readers can check what the plan's rule left out.
        let mut trials = Vec::new();
        let mut reasons = Vec::new();
        for DisturbedTrial { trial_index, disturbance } in &judged.set_aside {
            reasons.push(format!("trial {}, {}", trial_index + 1, disturbance.describe()));
        }
        let mut others = 0;
        for point in &judged.points {
            let rate = shown(row, point.per_s);
            trials.push(if point.used { rate } else { format!("({rate})") });
            others += usize::from(!point.used);
        }
        if others > judged.set_aside.len() {
            reasons.push(rule_of(row.run.spec.repetition.discard).to_owned());
        }
        Self {
            name: sheet.name(row),
            cells: judged.rate.as_ref().map(|rate| summary_cells(row, rate)),
            trials: trials.join(", "),
            left_out: reasons.join("; "),
        }
    }

    /// The trials, with an explanation of the parentheses.
    fn trials_line(&self) -> String {
        match self.left_out.as_str() {
            "" => self.trials.clone(),
            why => format!("{}; in parentheses, excluded: {why}", self.trials),
        }
    }
}

/// Why a rule of the plan leaves trials out.
const fn rule_of(discard: Discard) -> &'static str {
    match discard {
        Discard::None => "invalid",
        Discard::Extremes => "the highest, the lowest, or invalid",
        Discard::Outliers => "outlying or invalid",
        Discard::Cached => "cached or invalid",
    }
}

/// Cells for [`COLUMNS`]; a dash if there are too few trials for a statistic.
fn summary_cells(row: &Row<'_>, rate: &Summary) -> [String; 8] {
    let mut cells = [const { String::new() }; 8];
    cells[0] = rate.n.to_string();
    cells[1] = shown(row, rate.median);
    cells[2] = match rate.confidence_interval() {
        Some((lo, hi)) => format!("{} to {}", shown(row, lo), shown(row, hi)),
        None => "–".to_owned(),
    };
    cells[3] = rate.trimmed_mean.map_or_else(|| "–".to_owned(), |mean| shown(row, mean));
    cells[4] = shown(row, rate.mean);
    cells[5] = if rate.n > 1 { shown(row, rate.standard_deviation) } else { "–".to_owned() };
    cells[6] = shown(row, rate.min);
    cells[7] = shown(row, rate.max);
    cells
}

/// Formats a rate with its unit. Rates of commands are shown as rates here, not as wall times as in
/// other tables, because the deviation of a rate is not a time.
fn shown(row: &Row<'_>, per_s: f64) -> String {
    match row.judged.shown(per_s) {
        Rate::Commands(per_s) => Rate::Ops(per_s).to_string(),
        rate => rate.to_string(),
    }
}

/// Builds the table for pages: up to `rows_max` rows with a result, with their trials.
pub(crate) fn table(sheet: &Sheet<'_>, rows_max: usize) -> Table {
    let mut columns = vec![Column::new("run and pass", Role::Words)];
    columns.extend(COLUMNS.map(|name| Column::new(name, Role::Number)));
    columns.push(Column::new("trials", Role::Prose));
    let mut rows = Vec::new();
    for row in sheet.rows.iter().take(rows_max) {
        let spread = Spread::from_row(sheet, row);
        if let Some(cells) = &spread.cells {
            let name = spread.name.clone();
            let trials = spread.trials_line();
            rows.push([vec![name], cells.to_vec(), vec![trials]].concat());
        }
    }
    Table {
        caption: "Distribution of the trials of each figure.".to_owned(),
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: READING.map(str::to_owned).to_vec(),
        ..Table::default()
    }
}

/// Renders the table for a terminal, with the trials below each row.
pub(crate) fn render(sheet: &Sheet<'_>) -> String {
    let mut out =
        format!("{}: {}\n\n", sheet.campaign.name, crate::table::title::describe(sheet.campaign));
    let columns: Vec<(&str, Align)> = COLUMNS.map(|name| (name, Align::Right)).to_vec();
    let mut grid = Grid::new(&columns);
    for row in &sheet.rows {
        let spread = Spread::from_row(sheet, row);
        grid.title(&spread.name);
        match &spread.cells {
            Some(cells) => {
                grid.row(cells);
                grid.text(&format!("trials: {}", spread.trials_line()));
            }
            None => grid.text(&row.missing()),
        }
    }
    out.push_str(&grid.render(WIDTH_MAX));
    out.push_str("\nHow to read it\n");
    for sentence in READING {
        push(&mut out, "  ", sentence, WIDTH_MAX);
    }
    out
}
