//! Measurements as they are stored: campaigns, trials and passes.
//!
//! This includes histograms, the shares of hosts and clients, telemetry, and the data that survived
//! a crash. Uses all other groups, and none of them uses it.

pub(crate) mod campaign;
pub mod client;
pub mod durability;
pub(crate) mod held_ops;
pub mod histogram;
pub(crate) mod path;
pub(crate) mod scope;
pub(crate) mod share;
pub mod telemetry;
