//! What people see while the program runs: messages, data on stdout, and live progress.

pub(crate) mod copies;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod wrap;
