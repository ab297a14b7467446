//! Results of contenders along the values of one factor, such as more clients or colder caches.
//!
//! [`FactorSeries`] has the results of one pass, with all other factors fixed, sorted by the
//! values.

use model::contender::contender_of;

use super::work::OmittedFactors;
use crate::table::row::Row;
use crate::table::{NOT_APPLICABLE, Sheet};

/// Factors that determine the number of clients; the one that shows scaling best comes first.
const NUMBERS_OF_CLIENTS: [&str; 3] = ["client_hosts", "clients", "workers"];

/// Factor that determines how cold caches are, and its value for warm caches.
const COLDNESS: &str = "invalidation";
const WARM: &str = "none";

/// Results of one pass along the values of a factor.
pub(super) struct FactorSeries<'a> {
    /// Name of the pass, such as `stream write`.
    pub pass: String,
    /// Factors other than this one and the system; often empty.
    pub factors: String,
    pub factor: &'static str,
    /// Values of the factor; numbers are sorted.
    pub values: Vec<String>,
    /// Row of each contender at each value.
    pub rows: Vec<Vec<Option<&'a Row<'a>>>>,
}

/// Arranges the results by the number of clients; empty if the campaign has only one.
pub(super) fn arrange_by_clients<'a>(
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

/// Arranges the results of passes that read by how cold caches were, warm ones first; empty if the
/// campaign has no warm ones.
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

/// Arranges the rows of a sheet along a factor, for passes with several values of it.
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
        let pass = row.pass_name();
        let factors = sheet.factors_without(row, &without);
        let known = found.iter().position(|along| along.pass == pass && along.factors == factors);
        let at = known.unwrap_or(found.len());
        if known.is_none() {
            let rows = vec![Vec::new(); names.len()];
            found.push(FactorSeries { pass, factors, factor, values: Vec::new(), rows });
        }
        found[at].add(number, value, row);
    }
    // If each contender has only one value, the factor just distinguishes contenders.
    let has_several = |rows: &Vec<Option<&Row<'_>>>| rows.iter().flatten().count() > 1;
    found.retain(|along| along.rows.iter().any(has_several));
    found
}

impl<'a> FactorSeries<'a> {
    fn add(&mut self, number: usize, value: String, row: &'a Row<'a>) {
        let at = self
            .values
            .iter()
            .position(|known| *known == value)
            .unwrap_or_else(|| self.insert(value));
        self.rows[number][at].get_or_insert(row);
    }

    /// Inserts a value, in numeric order if it is a number, and returns its index.
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

    /// Full name: `stream write, io_size 64 KiB`.
    pub(super) fn name(&self) -> String {
        let comma = if self.factors.is_empty() { "" } else { ", " };
        format!("{}{comma}{}", self.pass, self.factors)
    }

    /// Returns the result of a contender at a value, with its row.
    pub(super) fn median(&self, number: usize, at: usize) -> Option<(&'a Row<'a>, f64)> {
        let row = self.rows[number][at]?;
        Some((row, row.judged.rate.as_ref()?.median))
    }

    /// Returns true if the pass writes or changes names, because then warm caches do not matter.
    fn writes(&self) -> bool {
        let row = self.rows.iter().flatten().flatten().next();
        row.is_some_and(|row| row.judged.pass.writes())
    }
}
