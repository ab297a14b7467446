//! Which op comes next, and what its bytes are.
//!
//! Pure: an [`OpStream`] is a function of the run, the pass, the worker and the seed, and a
//! [`Pattern`] a function of the seed alone. Which file and offset a random op draws depends on
//! (seed, op number, file set) and never on the number of workers: with four workers the same ops
//! are drawn as with one, and only spread differently. SPEC withdrew 133 results over that.

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
