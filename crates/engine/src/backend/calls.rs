//! How many calls of each kind of operation a backend started: what our server must have seen.
//!
//! The counts are kept where calls are started, apart from the recorder, so that the two can be
//! held against each other and against the server's own. A call that was sent again counts once.

use std::cell::Cell;

pub use nfs_client::proto::client::OperationKind;

const KINDS: usize = OperationKind::ALL.len();

/// Calls by kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls([u64; KINDS]);

impl Default for Calls {
    fn default() -> Self {
        Self([0; KINDS])
    }
}

impl Calls {
    /// Adopts the counts of each kind that were made elsewhere.
    pub fn from_counts(count: impl Fn(OperationKind) -> u64) -> Self {
        let mut calls = Self::default();
        for kind in OperationKind::ALL {
            calls.count(*kind, count(*kind));
        }
        calls
    }

    /// How many of one kind.
    pub const fn of(&self, kind: OperationKind) -> u64 {
        self.0[kind as usize]
    }

    /// Counts so many more of a kind.
    pub const fn count(&mut self, kind: OperationKind, more: u64) {
        self.0[kind as usize] += more;
    }

    /// Adds what another backend counted.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Returns the counts since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_sub(earlier.0[at])))
    }
}

/// [`Calls`] that are being counted, each in a cell of its own.
#[derive(Debug)]
pub(super) struct CallCounts([Cell<u64>; KINDS]);

impl Default for CallCounts {
    fn default() -> Self {
        Self([const { Cell::new(0) }; KINDS])
    }
}

impl CallCounts {
    /// Counts a call.
    #[inline]
    pub(super) fn add(&self, kind: OperationKind) {
        let count = &self.0[kind as usize];
        count.set(count.get() + 1);
    }

    pub(super) fn get(&self) -> Calls {
        Calls(std::array::from_fn(|at| self.0[at].get()))
    }
}
