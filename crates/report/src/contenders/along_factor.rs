//! The figures of contenders along the values of one factor: more clients, colder caches.
//!
//! [`FactorSeries`] is one pass, with all other factors, whose figures are arranged by the values.

use model::contender::contender_of;

use super::work::OmittedFactors;
use crate::table::row::Row;
use crate::table::{NOT_APPLICABLE, Sheet};

/// Factors that say how many clients work, the one that shows scaling best first.
const NUMBERS_OF_CLIENTS: [&str; 3] = ["client_hosts", "clients", "workers"];

/// The factor that says how cold caches are, and its value that leaves them warm.
const COLDNESS: &str = "invalidation";
const WARM: &str = "none";

/// The figures of one pass along the values of a factor.
pub(super) struct FactorSeries<'a> {
    /// Name of the pass: `stream write`.
    pub pass: String,
    /// The factors beside this one and the system; often empty.
    pub factors: String,
    /// Name of the factor.
    pub factor: &'static str,
    /// Its values, numbers in their order.
    pub values: Vec<String>,
    /// The rows of each contender, in their order, at each value.
    pub rows: Vec<Vec<Option<&'a Row<'a>>>>,
}

/// Arranges the figures by the number of clients; empty where the campaign has but one number.
pub(super) fn by_clients<'a>(
    sheet: &'a Sheet<'a>,
    names: &[String],
    omitted: &OmittedFactors,
) -> Vec<FactorSeries<'a>> {
    for factor in NUMBERS_OF_CLIENTS {
        let found = arrange(sheet, names, omitted, factor);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Arranges the figures of passes that read by how cold caches were, warm ones first; empty where
/// the campaign has no warm ones.
pub(super) fn by_coldness<'a>(
    sheet: &'a Sheet<'a>,
    names: &[String],
    omitted: &OmittedFactors,
) -> Vec<FactorSeries<'a>> {
    let mut found = arrange(sheet, names, omitted, COLDNESS);
    found.retain(|along| along.values.iter().any(|value| value == WARM) && !along.writes());
    for along in &mut found {
        let warm = along.values.iter().position(|value| value == WARM).unwrap_or(0);
        along.values[..=warm].rotate_right(1);
        for rows in &mut along.rows {
            rows[..=warm].rotate_right(1);
        }
    }
    found
}

/// Arranges the rows of a sheet along a factor; only passes with several values of it.
fn arrange<'a>(
    sheet: &'a Sheet<'a>,
    names: &[String],
    omitted: &OmittedFactors,
    factor: &'static str,
) -> Vec<FactorSeries<'a>> {
    let mut found: Vec<FactorSeries<'a>> = Vec::new();
    for row in &sheet.rows {
        let value = sheet.value(row, factor).into_owned();
        let name = contender_of(&row.run.spec);
        let number = names.iter().position(|known| *known == name);
        let Some(number) = number.filter(|_| value != NOT_APPLICABLE) else { continue };
        let mut without = omitted.for_row(row);
        without.push(factor);
        let (pass, factors) = (row.pass_name(), sheet.factors_without(row, &without));
        let known = found.iter().position(|along| along.pass == pass && along.factors == factors);
        let at = known.unwrap_or(found.len());
        if known.is_none() {
            let rows = vec![Vec::new(); names.len()];
            found.push(FactorSeries { pass, factors, factor, values: Vec::new(), rows });
        }
        found[at].add(number, value, row);
    }
    // Where each contender has but one value, the factor tells contenders apart and nothing else.
    let has_several = |rows: &Vec<Option<&Row<'_>>>| rows.iter().flatten().count() > 1;
    found.retain(|along| along.rows.iter().any(has_several));
    found
}

impl<'a> FactorSeries<'a> {
    fn add(&mut self, number: usize, value: String, row: &'a Row<'a>) {
        let at = match self.values.iter().position(|known| *known == value) {
            Some(at) => at,
            None => self.insert(value),
        };
        self.rows[number][at].get_or_insert(row);
    }

    /// Makes room for a value, a number among the others in its order; returns its place.
    fn insert(&mut self, value: String) -> usize {
        let mut at = self.values.len();
        if let Ok(own) = value.parse::<u64>() {
            let is_greater = |known: &String| known.parse::<u64>().is_ok_and(|known| known > own);
            at = self.values.iter().position(is_greater).unwrap_or(at);
        }
        self.values.insert(at, value);
        for rows in &mut self.rows {
            rows.insert(at, None);
        }
        at
    }

    /// Its whole name: `stream write, io_size 64 KiB`.
    pub(super) fn name(&self) -> String {
        let comma = if self.factors.is_empty() { "" } else { ", " };
        format!("{}{comma}{}", self.pass, self.factors)
    }

    /// Returns the figure of a contender at a value, with its row.
    pub(super) fn median(&self, number: usize, at: usize) -> Option<(&'a Row<'a>, f64)> {
        let row = self.rows[number][at]?;
        Some((row, row.judged.rate.as_ref()?.median))
    }

    /// Says whether the pass writes or changes names: how warm caches were is nothing to it.
    fn writes(&self) -> bool {
        let row = self.rows.iter().flatten().flatten().next();
        row.is_some_and(|row| row.judged.pass.writes())
    }
}
