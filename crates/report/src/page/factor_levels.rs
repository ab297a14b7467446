//! The levels of a numeric factor along a horizontal axis, and which factors have one.
//!
//! [`FactorLevels`] is the principal type: each level in its place, on a logarithmic axis where the
//! largest is many times the smallest. What the server chose ("server's") stands at the end.

use crate::chart::Tick;
use crate::table::setting_number::quantity;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// Fewer are a comparison of bars.
const LEVELS_MIN: usize = 3;
/// More are no levels.
const LEVELS_MAX: usize = 64;
/// Ticks that stay apart on a phone.
const TICKS_MAX: usize = 7;
/// From this ratio of the largest level to the smallest the axis is logarithmic.
const RATIO_LOG: f64 = 8.0;

/// The factors that readers look at first, in this order.
const FIRST: [&str; 8] = [
    "clients",
    "client_hosts",
    "workers",
    "file_size",
    "io_size",
    "transfer_size",
    "queue_depth",
    "nconnect",
];

/// A factor whose levels are numbers.
pub(super) struct FactorLevels {
    /// Its place among the columns of the sheet.
    pub column: usize,
    /// The name of the factor.
    pub name: String,
    /// The levels with how they are shown, the smallest first.
    levels: Vec<(f64, String)>,
    is_log: bool,
}

impl FactorLevels {
    /// The numeric factors of these rows, those that people look at first in front.
    pub(super) fn all(sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> Vec<Self> {
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
        let is_axis = all.levels.len() >= LEVELS_MIN && last > first;
        if is_axis { Some(Self { is_log, ..all }) } else { None }
    }

    /// The smallest and the largest level that are numbers.
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

    /// Returns a row's position in percent; `None` where the factor does not apply to it.
    pub(super) fn at(&self, row: &Row<'_>) -> Option<f64> {
        let shown = &row.values[self.column];
        let (value, _) = self.levels.iter().find(|(_, known)| known == shown)?;
        Some(self.place(*value))
    }

    fn place(&self, value: f64) -> f64 {
        let Some((first, last)) = self.finite_ends() else { return 100.0 };
        if !value.is_finite() {
            return 100.0;
        }
        // A level that is no number has its place behind the others.
        let has_end = self.levels.iter().any(|(level, _)| !level.is_finite());
        let all = if has_end { 85.0 } else { 100.0 };
        // Levels double as a rule; on a linear axis all but the largest would lie together.
        if self.is_log {
            (value.log2() - first.log2()) / (last.log2() - first.log2()) * all
        } else {
            (value - first) / (last - first) * all
        }
    }

    /// The levels as ticks, thinned so that they stay apart; the first and the last are there.
    pub(super) fn ticks(&self) -> Vec<Tick> {
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

    /// The name as the axis says it.
    pub(super) fn title(&self) -> String {
        if self.is_log { format!("{} (logarithmic)", self.name) } else { self.name.clone() }
    }
}
