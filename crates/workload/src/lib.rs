//! Determines the sequence of ops and their content.
//!
//! This crate is pure: an [`OpStream`] is a function of run, pass, worker and seed, and a
//! [`Pattern`] is a function of the seed. File and offset of a random op depend on (seed, op
//! number, file set), but never on the number of workers. Four workers execute the same ops as one,
//! just distributed differently. SPEC withdrew 133 results because of a violation of this rule.

pub mod arrivals;
pub mod file_set;
pub mod journal;
pub mod mismatch;
mod moved;
pub mod names;
pub mod opmix;
pub mod pattern;
pub mod permute;
pub mod places;
mod pool;
pub mod rewrites;
pub mod stamp;
pub mod stream;
mod transactions;
pub mod zipf;

pub use file_set::FileSet;
pub use journal::Journal;
pub use mismatch::{Mismatch, Mismatches};
pub use moved::MovedBytes;
pub use names::Name;
pub use pattern::Pattern;
pub use places::Places;
pub use rewrites::Rewrites;
pub use stream::{OpStream, PassSize, mean_bytes, pass_size};
