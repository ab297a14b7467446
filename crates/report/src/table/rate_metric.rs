//! Chooses the rate by which the rows of a kind of pass are compared.
//!
//! A mix is reported in ops per second. If its rows have ops of different sizes, more ops per
//! second are not better, so such rows are compared, ranked and drawn by bytes per second.

use model::Pass;
use stats::{Judged, Rate, Summary};

use super::row::Row;
use crate::chart::RateUnit;

/// Quantity by which the rows of one kind of pass are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateMetric {
    pass: Pass,
    by_bytes: bool,
}

impl RateMetric {
    /// Chooses the metric for the rows of a kind of pass.
    ///
    /// Only a mix is ever compared by bytes, and only if all of its rows transfer some. Otherwise a
    /// rate of 0 for a row without data would rank it below rows it cannot be compared with.
    pub(crate) fn for_rows<'r, 'a: 'r>(
        pass: Pass,
        rows: impl Iterator<Item = &'r Row<'a>>,
    ) -> Self {
        let mut first_size = None;
        let mut sizes_differ = false;
        let mut all_move_bytes = true;
        for row in rows {
            if row.judged.rate.is_none() {
                continue;
            }
            let size = row.run.spec.io_size_bytes;
            sizes_differ |= *first_size.get_or_insert(size) != size;
            all_move_bytes &= moves_bytes(row);
        }
        Self { pass, by_bytes: pass == Pass::Mix && sizes_differ && all_move_bytes }
    }

    /// Returns true if tables show a different metric than this one.
    pub(crate) const fn is_other(self) -> bool {
        self.by_bytes
    }

    /// Returns the unit of its rates.
    pub(crate) const fn counted(self) -> RateUnit {
        if self.by_bytes { RateUnit::Bytes } else { RateUnit::from_pass(self.pass) }
    }

    pub(crate) const fn figure(self, judged: &Judged) -> Option<&Summary> {
        if self.by_bytes { judged.bytes_per_s.as_ref() } else { judged.rate.as_ref() }
    }

    /// Returns the median of a row; 0 if it has no result.
    pub(crate) fn median(self, judged: &Judged) -> f64 {
        self.figure(judged).map_or(0.0, |figure| figure.median)
    }

    /// Converts the rate of a trial from the unit of the pass. All ops of a row have the same size.
    pub(crate) fn point(self, judged: &Judged, per_s: f64) -> f64 {
        match (&judged.bytes_per_s, &judged.rate) {
            (Some(bytes), Some(rate)) if self.by_bytes && rate.median > 0.0 => {
                per_s * bytes.median / rate.median
            }
            _ => per_s,
        }
    }

    /// Adds the unit to a number per second.
    pub(crate) const fn rate(self, per_s: f64) -> Rate {
        if self.by_bytes { Rate::Bytes(per_s) } else { Rate::for_pass(self.pass, per_s) }
    }
}

fn moves_bytes(row: &Row<'_>) -> bool {
    row.judged.bytes_per_s.as_ref().is_some_and(|bytes| bytes.median > 0.0)
}
