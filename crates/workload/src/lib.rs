//! Determines the sequence of ops and their content.
//!
//! This crate is pure: an [`OpStream`] is a function of run, pass, worker and seed, and a
//! [`Pattern`] is a function of the seed. File and offset of a random op depend on (seed, op
//! number, file set), but never on the number of workers. Four workers execute the same ops as one,
//! just distributed differently. SPEC withdrew 133 results because of a violation of this rule.
#![warn(unreachable_pub)]

mod arrivals;
mod developer;
mod file_set;
pub mod journal;
mod kv_cache;
mod mismatch;
mod moved_bytes;
pub mod names;
pub mod opmix;
mod pattern;
pub mod places;
mod pool;
mod rewrites;
pub mod stamp;
pub mod stream;
mod transactions;
mod zipf;

pub use developer::{DeveloperSet, Trees};
pub use file_set::FileSet;
pub use journal::Journal;
pub use mismatch::Mismatch;
pub use mismatch::Mismatches;
pub use mismatch::WrongContent;
pub use moved_bytes::MovedBytes;
pub use names::Name;
pub use pattern::Pattern;
pub use places::Places;
pub use rewrites::Rewrites;
pub use stream::PassSize;
pub use stream::{
    OpStream, TrainingSteps, has_find_text, listed_directories, mean_bytes, pass_size,
};
