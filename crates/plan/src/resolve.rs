//! The third layer: from what was written to what is meant, with nothing left open.
//!
//! Fills in defaults and surroundings, multiplies the matrix, refuses what does not go together,
//! and writes a whole plan. It uses `syntax` and `parse`, and neither of them uses it.

pub(crate) mod checks;
pub mod defaults;
pub(crate) mod destroy;
pub(crate) mod estimate;
pub(crate) mod idle;
pub(crate) mod lab;
pub(crate) mod ladder;
pub(crate) mod matrix;
pub(crate) mod order;
pub(crate) mod pace;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod programs;
pub(crate) mod repetition;
pub(crate) mod server;
pub(crate) mod surroundings;
pub(crate) mod target;
pub(crate) mod thin;
pub(crate) mod write;
