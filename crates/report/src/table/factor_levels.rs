//! Levels of a numeric factor along a horizontal axis, and which factors have one.
//!
//! [`FactorLevels`] is the main type: each level with its position, on a logarithmic axis if
//! the largest is many times the smallest. A value chosen by the server ("server's") is at the end.
//! [`FactorLevels::lines`] groups the rows that differ only in the factor.

use std::collections::{BTreeSet, HashMap};

use crate::chart::Tick;
use crate::table::setting_number::quantity;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// Number of data servers of a pNFS cluster.
pub(crate) const DATA_SERVERS: &str = "data_servers";

/// Minimum number of levels; fewer are compared by bars.
const LEVELS_MIN: usize = 3;
/// Factors that count machines, of which each should add as much as the first. Two levels show
/// whether they do.
const MACHINES: [&str; 2] = [DATA_SERVERS, "client_hosts"];
/// Maximum number of levels; more are a continuum.
const LEVELS_MAX: usize = 64;
/// Maximum number of ticks that fit next to each other on a phone.
const TICKS_MAX: usize = 7;
/// Ratio of the largest to the smallest level from which the axis is logarithmic.
const RATIO_LOG: f64 = 8.0;

/// Factors that readers look at first, in this order.
const FIRST: [&str; 9] = [
    DATA_SERVERS,
    "clients",
    "client_hosts",
    "workers",
    "file_size",
    "io_size",
    "transfer_size",
    "queue_depth",
    "nconnect",
];

/// Factor with numeric levels.
pub(crate) struct FactorLevels {
    /// Column of the sheet.
    pub column: usize,
    pub name: String,
    /// Levels with their displayed form, smallest first.
    levels: Vec<(f64, String)>,
    is_log: bool,
}

impl FactorLevels {
    /// Returns the numeric factors of these rows, with those that readers look at first in front.
    pub(crate) fn all(sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (column, name) in sheet.columns.iter().enumerate() {
            all.extend(Self::new(column, name, rows));
        }
        all.sort_by_key(|levels| {
            FIRST.iter().position(|name| *name == levels.name).unwrap_or(FIRST.len())
        });
        all
    }

    fn new(column: usize, name: &str, rows: &[&Row<'_>]) -> Option<Self> {
        let mut levels: Vec<(f64, String)> = Vec::new();
        for row in rows {
            let shown = &row.values[column];
            if shown != NOT_APPLICABLE && !levels.iter().any(|(_, known)| known == shown) {
                levels.push((quantity(name, shown)?, shown.clone()));
            }
            if levels.len() > LEVELS_MAX {
                return None;
            }
        }
        levels.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let all = Self { column, name: name.to_owned(), levels, is_log: false };
        let (first, last) = all.finite_ends()?;
        let is_log = first > 0.0 && last / first >= RATIO_LOG;
        let levels_min = if all.counts_machines() { 2 } else { LEVELS_MIN };
        let is_axis = all.levels.len() >= levels_min && last > first;
        if is_axis { Some(Self { is_log, ..all }) } else { None }
    }

    /// Smallest and largest finite level.
    fn finite_ends(&self) -> Option<(f64, f64)> {
        let mut ends = None;
        for (value, _) in &self.levels {
            if value.is_finite() {
                let (first, _) = ends.unwrap_or((*value, *value));
                ends = Some((first, *value));
            }
        }
        ends
    }

    /// Returns true if each level is a number of machines.
    pub(crate) fn counts_machines(&self) -> bool {
        MACHINES.contains(&self.name.as_str())
    }

    /// Level of a row; `None` if the factor does not apply to it.
    pub(crate) fn level(&self, row: &Row<'_>) -> Option<f64> {
        let shown = &row.values[self.column];
        self.levels.iter().find(|(_, known)| known == shown).map(|(value, _)| *value)
    }

    /// Position of a row in percent; `None` if the factor does not apply to it.
    pub(crate) fn at(&self, row: &Row<'_>) -> Option<f64> {
        self.level(row).map(|value| self.place(value))
    }

    /// Groups rows that differ only in this factor, sorted by level, with at least two rows each.
    pub(crate) fn lines<'a, 'b>(
        &self,
        sheet: &Sheet<'_>,
        rows: &[&'a Row<'b>],
    ) -> Vec<(String, Vec<&'a Row<'b>>)> {
        let mut lines: Vec<(String, Vec<&Row<'_>>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let others: Vec<_> = (0..sheet.columns.len())
            .filter(|&column| column != self.column)
            .filter(|&column| rows.iter().any(|row| row.values[column] != rows[0].values[column]))
            .collect();
        let joins_targets = self.has_target_per_level(rows);
        for row in rows {
            if self.level(row).is_none() {
                continue;
            }
            let target = &row.run.spec.target_name;
            let mut parts = if joins_targets { Vec::new() } else { vec![target.clone()] };
            for &column in &others {
                if row.values[column] != NOT_APPLICABLE {
                    parts.push(format!("{} {}", sheet.columns[column], row.values[column]));
                }
            }
            if parts.is_empty() {
                parts.push("all targets".to_owned());
            }
            let name = parts.join(", ");
            let place = *places.entry(name.clone()).or_insert(lines.len());
            if place == lines.len() {
                lines.push((name, Vec::new()));
            }
            lines[place].1.push(row);
        }
        lines.retain(|(_, rows)| rows.len() > 1);
        for (_, rows) in &mut lines {
            rows.sort_by(|a, b| {
                let [a, b] = [a, b].map(|row| self.at(row).unwrap_or_default());
                a.total_cmp(&b)
            });
        }
        lines
    }

    /// Returns true if each number of machines is a target of its own, such as clusters of
    /// different size, so that a line has to join them.
    fn has_target_per_level(&self, rows: &[&Row<'_>]) -> bool {
        if !self.counts_machines() {
            return false;
        }
        let mut pairs = BTreeSet::new();
        let mut targets = BTreeSet::new();
        for row in rows {
            let shown = &row.values[self.column];
            if shown != NOT_APPLICABLE {
                pairs.insert((shown, &row.run.spec.target_name));
                targets.insert(&row.run.spec.target_name);
            }
        }
        targets.len() == self.levels.len() && pairs.len() == targets.len()
    }

    /// Position of a level in percent.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let Some((first, last)) = self.finite_ends() else { return 100.0 };
        if !value.is_finite() {
            return 100.0;
        }
        // A level that is not a number is placed after all others.
        let has_end = self.levels.iter().any(|(level, _)| !level.is_finite());
        let all = if has_end { 85.0 } else { 100.0 };
        // Levels usually double, so on a linear axis all but the largest would be crowded together.
        if self.is_log {
            (value.log2() - first.log2()) / (last.log2() - first.log2()) * all
        } else {
            (value - first) / (last - first) * all
        }
    }

    /// Ticks for the levels, thinned out so that they do not overlap. The first and last always
    /// stay.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        let apart = 100.0 / TICKS_MAX as f64;
        let mut ticks: Vec<Tick> = Vec::new();
        for (value, shown) in &self.levels {
            let at = self.place(*value);
            let is_free = ticks.last().is_none_or(|(before, _)| at - before >= apart);
            if is_free && 100.0 - at >= apart {
                ticks.push((at, shown.clone()));
            }
        }
        if let Some((value, shown)) = self.levels.last() {
            ticks.push((self.place(*value), shown.clone()));
        }
        ticks
    }

    /// Name on the axis.
    pub(crate) fn title(&self) -> String {
        if self.is_log { format!("{} (logarithmic)", self.name) } else { self.name.clone() }
    }
}
