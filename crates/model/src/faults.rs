//! Failures and disturbances: faults of our server, faults that a soak injects, and interference.
//!
//! The first two are requests, from a plan or the command line; interference is recorded, and comes
//! from the hypervisor, other programs or heat. Only `text` is used.

pub(crate) mod interference;
pub mod server_fault;
pub mod soak;
