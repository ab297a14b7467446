//! What was measured, as it is stored: campaigns, trials and passes.
//!
//! With the histograms, the shares of hosts and clients, the telemetry, and what a crash left of
//! the data. Uses all other groups, and none of them uses it.

pub(crate) mod campaign;
pub mod client;
pub mod durability;
pub(crate) mod held_ops;
pub mod histogram;
pub(crate) mod scope;
pub(crate) mod share;
pub mod telemetry;
