//! A small table of rates for each kind of pass: some factors down, the others across.
//!
//! Where the settings of a run don't fit beside its figures, the long table shows each run with a
//! line of settings above it, and comparing becomes turning pages. [`tables`] then puts the
//! medians side by side, as reports of such experiments do: two factors across, the last ones that
//! fit, and one row for each combination of the others.

use std::collections::HashMap;

use model::Pass;

use crate::document::text::fits;
use crate::document::{Column, Role, Table, TableRow};
use crate::sheet::{NOT_APPLICABLE, Row, Sheet};

/// Factors whose levels stand side by side.
const ACROSS: usize = 2;

/// Stands between two levels above one column.
const BETWEEN: &str = " / ";

/// Columns of figures that fit beside the factors.
const ACROSS_MAX: usize = 8;

/// The tables of all kinds of pass; none where they would say nothing new.
pub fn tables(sheet: &Sheet<'_>) -> Vec<Table> {
    if sheet.columns.len() <= ACROSS {
        return Vec::new();
    }
    let tables = sheet.groups().into_iter().filter_map(|(name, pass, mut rows)| {
        rows.retain(|row| row.judged.rate.is_some());
        let mut tables = factor_pairs(&varying_factors(sheet, &rows)).into_iter().filter_map(
            |(down, across)| Some((pivot_table(sheet, &rows, &down, &across)?, across)),
        );
        let (mut table, across) = tables.find(|(table, _)| fits(table))?;
        let across: Vec<&str> = across.iter().map(|&column| sheet.columns[column]).collect();
        table.caption =
            format!("{name}, {}; across: {}", describe_unit(pass, &rows), across.join(BETWEEN));
        Some(table)
    });
    tables.collect()
}

/// Every way to put two factors across and the others down, the last two first.
fn factor_pairs(varying: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut pairs = Vec::new();
    for (second, &right) in varying.iter().enumerate().rev() {
        for &left in varying[..second].iter().rev() {
            let down = varying.iter().copied().filter(|c| ![left, right].contains(c)).collect();
            pairs.push((down, vec![left, right]));
        }
    }
    pairs
}

/// The levels that lead a row of the table, or stand above a column of it.
type Levels<'s> = Vec<&'s str>;

/// One table; `None` where it would have one row or one column, or too many.
fn pivot_table(
    sheet: &Sheet<'_>,
    rows: &[&Row<'_>],
    down: &[usize],
    across: &[usize],
) -> Option<Table> {
    let (mut leads, mut heads) = (Places::default(), Places::default());
    let mut cells: HashMap<(usize, usize), &Row<'_>> = HashMap::new();
    for row in rows {
        let levels =
            |of: &[usize]| of.iter().map(|&c| row.values[c].as_str()).collect::<Levels<'_>>();
        let mut lead = levels(down);
        lead.insert(0, row.run.spec.target_name.as_str());
        let place = (leads.of(lead), heads.of(levels(across)));
        if heads.all.len() > ACROSS_MAX {
            return None;
        }
        cells.entry(place).or_insert(row);
    }
    if leads.all.len() < 2 || heads.all.len() < 2 {
        return None;
    }
    let titles: Vec<String> = heads.all.iter().map(|head| head.join(BETWEEN)).collect();
    let mut columns = vec![Column::new("target", Role::Words)];
    columns.extend(down.iter().map(|&column| Column::new(sheet.columns[column], Role::Number)));
    columns.extend(titles.into_iter().map(|title| Column::new(title, Role::Number)));
    let mut rows = Vec::new();
    for (number, lead) in leads.all.iter().enumerate() {
        let figure = |head| {
            let row = cells.get(&(number, head));
            row.map_or_else(|| NOT_APPLICABLE.to_owned(), |row| median_cell(row))
        };
        let figures = (0..heads.all.len()).map(figure);
        let lead = lead.iter().map(|level| (*level).to_owned());
        rows.push(lead.chain(figures).collect::<Vec<_>>());
    }
    Some(Table { columns, rows: TableRow::all(rows.into_iter()), ..Table::default() })
}

/// Levels in their order of appearance, each with its place.
#[derive(Default)]
struct Places<'s> {
    all: Vec<Levels<'s>>,
    known: HashMap<Levels<'s>, usize>,
}

impl<'s> Places<'s> {
    fn of(&mut self, levels: Levels<'s>) -> usize {
        *self.known.entry(levels).or_insert_with_key(|levels| {
            self.all.push(levels.clone());
            self.all.len() - 1
        })
    }
}

/// The factors that differ among some rows.
fn varying_factors(sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> Vec<usize> {
    let differs = |column: &usize| {
        let mut values = rows.iter().map(|row| &row.values[*column]);
        values.next().is_some_and(|first| values.any(|value| value != first))
    };
    (0..sheet.columns.len()).filter(differs).collect()
}

/// The median, marked where it must not be used or is doubted.
fn median_cell(row: &Row<'_>) -> String {
    let Some(rate) = &row.judged.rate else { return NOT_APPLICABLE.to_owned() };
    let shown = row.judged.shown(rate.median).to_string();
    if row.counts() { shown } else { format!("x {shown}") }
}

/// Describes the figures of a table: the median of so many trials.
fn describe_unit(pass: Pass, rows: &[&Row<'_>]) -> String {
    let trials = rows.iter().map(|row| row.judged.trials_used).max().unwrap_or(0);
    let what = if pass.is_byte_rate() { "bytes" } else { "ops" };
    format!("median rate of {what}, {trials} trials")
}
