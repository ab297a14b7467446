//! Compact table of rates for each kind of pass, with some factors in rows and others in columns.
//!
//! If the settings of a run do not fit next to its results, the long table shows them on a line
//! above, which makes runs hard to compare. In that case, [`tables`] puts the medians side by side,
//! as experiment reports do: two factors in columns, the last ones that fit, and one row for each
//! combination of the others.

use std::collections::HashMap;

use model::Pass;

use super::{NOT_APPLICABLE, Row, Sheet};
use crate::document::text::fits;
use crate::document::{Column, Role, Table, TableRow};

/// Number of factors in columns.
const ACROSS: usize = 2;

/// Separator between two levels above a column.
const BETWEEN: &str = " / ";

/// Maximum number of result columns next to the factors.
const ACROSS_MAX: usize = 8;

/// Builds the tables of all kinds of pass; empty if they would not add anything.
pub(crate) fn tables(sheet: &Sheet<'_>, width_max: usize) -> Vec<Table> {
    if sheet.columns.len() <= ACROSS {
        return Vec::new();
    }
    let mut tables = Vec::new();
    for (name, pass, mut rows) in sheet.groups() {
        rows.retain(|row| row.judged.rate.is_some());
        // Use the first pair of factors whose table is narrow enough.
        for (down, across) in factor_pairs(&varying_factors(sheet, &rows)) {
            let Some(mut table) = pivot_table(sheet, &rows, &down, &across) else { continue };
            if !fits(&table, width_max) {
                continue;
            }
            let names = across.map(|column| sheet.columns[column]);
            table.caption =
                format!("{name}, {}; across: {}", describe_unit(pass, &rows), names.join(BETWEEN));
            tables.push(table);
            break;
        }
    }
    tables
}

/// All ways to put two factors in columns and the others in rows, last two first.
fn factor_pairs(varying: &[usize]) -> Vec<(Vec<usize>, [usize; ACROSS])> {
    let mut pairs = Vec::new();
    for (second, &right) in varying.iter().enumerate().rev() {
        for &left in varying[..second].iter().rev() {
            let mut down = varying.to_vec();
            down.retain(|column| ![left, right].contains(column));
            pairs.push((down, [left, right]));
        }
    }
    pairs
}

/// Levels at the start of a row or above a column.
type Levels<'s> = Vec<&'s str>;

/// Builds one table; `None` if it would have only one row or column, or too many.
fn pivot_table(
    sheet: &Sheet<'_>,
    rows: &[&Row<'_>],
    down: &[usize],
    across: &[usize; ACROSS],
) -> Option<Table> {
    let mut leads = Places::default();
    let mut heads = Places::default();
    let mut cells: HashMap<(usize, usize), &Row<'_>> = HashMap::new();
    for row in rows {
        // Rows of the table are combinations of the target and the factors in rows, columns those
        // of the other two factors, both in order of appearance.
        let mut lead = vec![row.run.spec.target_name.as_str()];
        for column in down {
            lead.push(&row.values[*column]);
        }
        let head = across.map(|column| row.values[column].as_str()).to_vec();
        let place = (leads.index_of(lead), heads.index_of(head));
        if heads.all.len() > ACROSS_MAX {
            return None;
        }
        cells.entry(place).or_insert(row);
    }
    if leads.all.len() < 2 || heads.all.len() < 2 {
        return None;
    }
    let mut columns = vec![Column::new("target", Role::Words)];
    for column in down {
        columns.push(Column::new(sheet.columns[*column], Role::Number));
    }
    columns.extend(heads.all.iter().map(|head| Column::new(head.join(BETWEEN), Role::Number)));
    let mut rows = Vec::new();
    for (number, lead) in leads.all.iter().enumerate() {
        let mut line: Vec<_> = lead.iter().map(|level| (*level).to_owned()).collect();
        for head in 0..heads.all.len() {
            // A matrix with impossible or missing runs lacks some pairs of levels.
            line.push(match cells.get(&(number, head)) {
                Some(row) => median_cell(row),
                None => NOT_APPLICABLE.to_owned(),
            });
        }
        rows.push(line);
    }
    Some(Table { columns, rows: TableRow::all(rows.into_iter()), ..Table::default() })
}

/// Levels in order of appearance, each with its index.
#[derive(Default)]
struct Places<'s> {
    all: Vec<Levels<'s>>,
    known: HashMap<Levels<'s>, usize>,
}

impl<'s> Places<'s> {
    fn index_of(&mut self, levels: Levels<'s>) -> usize {
        *self.known.entry(levels).or_insert_with_key(|levels| {
            self.all.push(levels.clone());
            self.all.len() - 1
        })
    }
}

/// Factors that differ among the rows.
fn varying_factors(sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> Vec<usize> {
    let mut varying = Vec::new();
    for column in 0..sheet.columns.len() {
        // Values differ somewhere exactly if two neighbors differ.
        if rows.windows(2).any(|pair| pair[0].values[column] != pair[1].values[column]) {
            varying.push(column);
        }
    }
    varying
}

/// Formats the median, marked if it must not be used.
fn median_cell(row: &Row<'_>) -> String {
    let Some(rate) = &row.judged.rate else { return NOT_APPLICABLE.to_owned() };
    let shown = row.judged.shown(rate.median).to_string();
    if row.counts() { shown } else { format!("x {shown}") }
}

/// Describes the results of a table, including the number of trials.
fn describe_unit(pass: Pass, rows: &[&Row<'_>]) -> String {
    let mut trials = 0;
    for row in rows {
        trials = trials.max(row.judged.trials_used);
    }
    let what = if pass.is_byte_rate() { "bytes" } else { "ops" };
    format!("median rate of {what}, {trials} trials")
}
