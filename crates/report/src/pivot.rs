//! A small table of rates for each kind of pass: some factors down, the others across.
//!
//! Where the settings of a run don't fit beside its figures, the long table shows each run with a
//! line of settings above it, and comparing becomes turning pages. [`render`] then puts the
//! medians side by side, as reports of such experiments do: two factors across, the last ones that
//! fit, and one row for each combination of the others.

use model::Pass;

use crate::grid::{Align, Grid};
use crate::sheet::{NOT_APPLICABLE, Row, Sheet};

/// Factors whose levels stand side by side.
const ACROSS: usize = 2;

/// Stands between two levels above one column.
const BETWEEN: &str = " / ";

/// Columns of figures that fit beside the factors.
const ACROSS_MAX: usize = 8;

/// Writes the tables of all kinds of pass; empty where they would say nothing new.
pub fn render(sheet: &Sheet<'_>, width_max: usize) -> String {
    if sheet.columns.len() <= ACROSS {
        return String::new();
    }
    let tables = sheet.groups().into_iter().filter_map(|(name, pass, mut rows)| {
        rows.retain(|row| row.judged.rate.is_some());
        let mut grids = pairs(&varying(sheet, &rows))
            .into_iter()
            .filter_map(|(down, across)| Some((table(sheet, &rows, &down, &across)?, across)));
        let (grid, across) = grids.find(|(grid, _)| grid.width() <= width_max)?;
        let across: Vec<&str> = across.iter().map(|&column| sheet.columns[column]).collect();
        let heading = format!("{name}, {}; across: {}", unit(pass, &rows), across.join(BETWEEN));
        Some(format!("{heading}\n{}", grid.render(width_max)))
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// Every way to put two factors across and the others down, the last two first.
fn pairs(varying: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut pairs = Vec::new();
    for (second, &right) in varying.iter().enumerate().rev() {
        for &left in varying[..second].iter().rev() {
            let down = varying.iter().copied().filter(|c| ![left, right].contains(c)).collect();
            pairs.push((down, vec![left, right]));
        }
    }
    pairs
}

/// One table; `None` where it would have one row or one column, or too many.
fn table(sheet: &Sheet<'_>, rows: &[&Row<'_>], down: &[usize], across: &[usize]) -> Option<Grid> {
    let key = |row: &Row<'_>, of: &[usize]| -> Vec<String> {
        let mut key: Vec<String> = of.iter().map(|&column| row.values[column].clone()).collect();
        key.insert(0, row.run.spec.target_name.clone());
        key
    };
    let (mut leads, mut heads): (Vec<Vec<String>>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    for row in rows {
        let (lead, head) = (key(row, down), key(row, across)[1..].to_vec());
        if !leads.contains(&lead) {
            leads.push(lead);
        }
        if !heads.contains(&head) {
            heads.push(head);
        }
    }
    if leads.len() < 2 || !(2..=ACROSS_MAX).contains(&heads.len()) {
        return None;
    }
    let titles: Vec<String> = heads.iter().map(|head| head.join(BETWEEN)).collect();
    let mut columns = vec![("target", Align::Left)];
    columns.extend(down.iter().map(|&column| (sheet.columns[column], Align::Right)));
    columns.extend(titles.iter().map(|title| (title.as_str(), Align::Right)));
    let mut grid = Grid::new(&columns);
    for lead in &leads {
        let figure = |head: &Vec<String>| {
            let same = |row: &&&Row<'_>| key(row, down) == *lead && key(row, across)[1..] == **head;
            rows.iter().find(same).map_or_else(|| NOT_APPLICABLE.to_owned(), |row| cell(row))
        };
        let figures = heads.iter().map(figure);
        grid.row(&lead.iter().cloned().chain(figures).collect::<Vec<_>>());
    }
    Some(grid)
}

/// The factors that differ among some rows.
fn varying(sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> Vec<usize> {
    let differs = |column: &usize| {
        let mut values = rows.iter().map(|row| &row.values[*column]);
        values.next().is_some_and(|first| values.any(|value| value != first))
    };
    (0..sheet.columns.len()).filter(differs).collect()
}

/// The median, marked where it must not be used or is doubted.
fn cell(row: &Row<'_>) -> String {
    let Some(rate) = &row.judged.rate else { return NOT_APPLICABLE.to_owned() };
    let shown = row.judged.shown(rate.median).to_string();
    if row.counts() { shown } else { format!("x {shown}") }
}

/// What the figures are: the median of so many trials.
fn unit(pass: Pass, rows: &[&Row<'_>]) -> String {
    let trials = rows.iter().map(|row| row.judged.trials_used).max().unwrap_or(0);
    let what = if pass.is_byte_rate() { "bytes" } else { "ops" };
    format!("median rate of {what}, {trials} trials")
}
