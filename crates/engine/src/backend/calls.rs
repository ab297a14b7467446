//! Number of calls a backend started for each kind of operation. Our server must have seen the same
//! numbers.
//!
//! They are counted where calls are started, independently of the recorder, so that the two can be
//! compared with each other and with the server's counts. A retransmitted call counts once.

use std::cell::Cell;

pub use nfs_client::proto::client::OperationKind;

const KINDS: usize = OperationKind::ALL.len();

/// Number of calls by kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls([u64; KINDS]);

impl Default for Calls {
    fn default() -> Self {
        Self([0; KINDS])
    }
}

impl Calls {
    /// Creates the counts from `count`, which returns the number for each kind.
    pub fn from_counts(count: impl Fn(OperationKind) -> u64) -> Self {
        let mut calls = Self::default();
        for kind in OperationKind::ALL {
            calls.count(*kind, count(*kind));
        }
        calls
    }

    /// Returns the number of calls of one kind.
    pub const fn get(&self, kind: OperationKind) -> u64 {
        self.0[kind as usize]
    }

    /// Adds `more` calls of a kind.
    pub const fn count(&mut self, kind: OperationKind, more: u64) {
        self.0[kind as usize] += more;
    }

    /// Adds the counts of another backend.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Returns the difference from an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_sub(earlier.0[at])))
    }
}

/// Counters for [`Calls`], one cell per kind.
#[derive(Debug)]
pub(super) struct CallCounts([Cell<u64>; KINDS]);

impl Default for CallCounts {
    fn default() -> Self {
        Self([const { Cell::new(0) }; KINDS])
    }
}

impl CallCounts {
    #[inline]
    pub(super) fn add(&self, kind: OperationKind) {
        let count = &self.0[kind as usize];
        count.set(count.get() + 1);
    }

    pub(super) fn get(&self) -> Calls {
        Calls(std::array::from_fn(|at| self.0[at].get()))
    }
}
