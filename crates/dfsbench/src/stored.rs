//! Loads stored campaigns from a results file.

pub(crate) mod joined;
pub(crate) mod memory_guard;
