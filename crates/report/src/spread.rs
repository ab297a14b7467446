//! How the trials of each row lie: every mean, the deviation, the extremes, and each trial.
//!
//! [`Spread`] is a row of it, in cells that the terminal's table and the page share. A trial that
//! was left out is listed with the reason: nothing that was measured is hidden.

use model::Discard;
use stats::{Rate, Summary};

use crate::document::text::{WIDTH_MAX, push};
use crate::document::{Column, Role, Table, TableRow};
use crate::grid::{Align, Grid};
use crate::sheet::{Row, Sheet};

/// The columns beside the name.
const COLUMNS: [&str; 8] =
    ["n", "median", "95 %", "trimmed", "mean", "deviation", "lowest", "highest"];

/// The explanation of the columns.
const READING: [&str; 3] = [
    "n: trials behind the figures. Those that were left out, by the plan's rule or as invalid, are \
     in parentheses.",
    "median, with its 95 % interval; trimmed: the mean without the highest and the \
     lowest trial; deviation: standard deviation of the trials (divisor n - 1).",
    "lowest, highest: of the trials behind the figures.",
];

/// The trials of one row.
struct Spread {
    /// Target, workload, pass and factors.
    pub name: String,
    /// One for each of [`COLUMNS`]; `None` where there is no figure.
    pub cells: Option<[String; 8]>,
    /// Every trial in its order: `356 MB/s, (828 MB/s), 361 MB/s`.
    pub trials: String,
    /// Why some are left out, in a few words; empty where none is.
    pub left_out: &'static str,
}

impl Spread {
    /// Arranges a row.
    fn of(sheet: &Sheet<'_>, row: &Row<'_>) -> Self {
        let judged = &row.judged;
        let shown = |per_s: f64| match judged.shown(per_s) {
            // The deviation of a rate is no time.
            Rate::Commands(per_s) => Rate::Ops(per_s).to_string(),
            rate => rate.to_string(),
        };
        let cells = |rate: &Summary| {
            [
                rate.n.to_string(),
                shown(rate.median),
                match rate.confidence_interval() {
                    Some((lo, hi)) => format!("{} to {}", shown(lo), shown(hi)),
                    None => "–".to_owned(),
                },
                rate.trimmed_mean.map_or_else(|| "–".to_owned(), shown),
                shown(rate.mean),
                if rate.n > 1 { shown(rate.standard_deviation) } else { "–".to_owned() },
                shown(rate.min),
                shown(rate.max),
            ]
        };
        let trial = |point: &stats::Point| {
            let rate = shown(point.per_s);
            if point.used { rate } else { format!("({rate})") }
        };
        let all_used = judged.points.iter().all(|point| point.used);
        Self {
            name: sheet.name(row),
            cells: judged.rate.as_ref().map(cells),
            trials: judged.points.iter().map(trial).collect::<Vec<_>>().join(", "),
            left_out: match row.run.spec.repetition.discard {
                _ if all_used => "",
                Discard::None => "invalid",
                Discard::Extremes => "the highest and the lowest, or invalid",
                Discard::Outliers => "far from the others, or invalid",
                Discard::Cached => "cached, or invalid",
            },
        }
    }

    /// The trials with what the parentheses mean.
    fn trials_line(&self) -> String {
        match self.left_out {
            "" => self.trials.clone(),
            why => format!("{}; in parentheses, left out: {why}", self.trials),
        }
    }
}

/// The rows that have a figure, up to so many of them, with their trials: for pages.
pub fn table(sheet: &Sheet<'_>, rows_max: usize) -> Table {
    let mut columns = vec![Column::new("run and pass", Role::Words)];
    columns.extend(COLUMNS.map(|name| Column::new(name, Role::Number)));
    columns.push(Column::new("trials", Role::Prose));
    let mut rows = Vec::new();
    for row in sheet.rows.iter().take(rows_max) {
        let spread = Spread::of(sheet, row);
        if let Some(cells) = &spread.cells {
            let (name, trials) = (spread.name.clone(), spread.trials_line());
            rows.push([vec![name], cells.to_vec(), vec![trials]].concat());
        }
    }
    Table {
        caption: "How the trials of each figure lie.".to_owned(),
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: READING.map(str::to_owned).to_vec(),
        ..Table::default()
    }
}

/// Writes a table for a terminal, each trial below its row.
pub fn render(sheet: &Sheet<'_>) -> String {
    let mut out = format!("{}: {}\n\n", sheet.campaign.name, crate::notes::title(sheet.campaign));
    let columns: Vec<(&str, Align)> = COLUMNS.map(|name| (name, Align::Right)).to_vec();
    let mut grid = Grid::new(&columns);
    for row in &sheet.rows {
        let spread = Spread::of(sheet, row);
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
        push(&mut out, "  ", sentence);
    }
    out
}
