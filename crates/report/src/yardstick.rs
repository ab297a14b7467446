//! By which rate the rows of a kind of pass are held against each other.
//!
//! A mix is told in ops per second. Where its rows move ops of different sizes, more ops per second
//! are not better: such rows are compared, ranked and drawn by the bytes that they move.

use model::Pass;
use stats::{Judged, Rate, Summary};

use crate::picture::Counted;
use crate::row::Row;

/// The quantity compared among the rows of one kind of pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yardstick {
    pass: Pass,
    by_bytes: bool,
}

impl Yardstick {
    /// The one for some rows of a kind of pass.
    pub fn of<'r, 'a: 'r>(pass: Pass, rows: impl Iterator<Item = &'r Row<'a>> + Clone) -> Self {
        let figures = rows.filter(|row| row.judged.rate.is_some());
        let mut sizes = figures.clone().map(|row| row.run.spec.io_size_bytes);
        let first = sizes.next();
        let differ = sizes.any(|size| Some(size) != first);
        let moves = |row: &Row<'_>| row.judged.bytes_per_s.is_some_and(|bytes| bytes.median > 0.0);
        let by_bytes = pass == Pass::Mix && differ && figures.clone().all(moves);
        Self { pass, by_bytes }
    }

    /// Whether it is another one than that of the table.
    pub const fn is_other(self) -> bool {
        self.by_bytes
    }

    /// Returns the unit that its rates count.
    pub const fn counted(self) -> Counted {
        if self.by_bytes { Counted::Bytes } else { Counted::of_pass(self.pass) }
    }

    /// The figure of a row.
    pub const fn figure(self, judged: &Judged) -> Option<&Summary> {
        if self.by_bytes { judged.bytes_per_s.as_ref() } else { judged.rate.as_ref() }
    }

    /// The median of a row; 0 where it has no figure.
    pub fn median(self, judged: &Judged) -> f64 {
        self.figure(judged).map_or(0.0, |figure| figure.median)
    }

    /// The rate of a trial, which is known in the unit of the pass: all ops of a row are as large.
    pub fn point(self, judged: &Judged, per_s: f64) -> f64 {
        match (&judged.bytes_per_s, &judged.rate) {
            (Some(bytes), Some(rate)) if self.by_bytes && rate.median > 0.0 => {
                per_s * bytes.median / rate.median
            }
            _ => per_s,
        }
    }

    /// Gives a number per second its unit.
    pub const fn rate(self, per_s: f64) -> Rate {
        if self.by_bytes { Rate::Bytes(per_s) } else { Rate::of_pass(self.pass, per_s) }
    }
}
