//! Loads stored campaigns from a results file or a bundle.

pub(crate) mod bundle_file;
pub(crate) mod joined;
pub(crate) mod memory_guard;
pub(crate) mod plan_check;
