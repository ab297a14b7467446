//! Runs: their work, and how they are repeated and sampled.
//!
//! A run is one point of the matrix: a workload, whose passes consist of ops, on a target. The
//! settings of a run are in `setting`. Uses `text`, `permute`, `faults`, `targets` and
//! `systems`.

pub mod checkpoint;
pub mod file_sizes;
pub(crate) mod fio_option;
pub(crate) mod impossible;
pub mod io500;
pub mod kv_cache;
pub mod media;
pub(crate) mod named_load;
pub(crate) mod op;
pub(crate) mod pass;
pub(crate) mod placement;
pub(crate) mod repetition;
pub(crate) mod sampling;
pub(crate) mod spec;
pub mod training;
pub mod work;
pub(crate) mod workload;
