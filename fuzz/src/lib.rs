//! Checks of the fuzz targets, one module for each kind of input.
//!
//! A check takes bytes or a list of operations and panics if an invariant is violated: no input
//! makes a decoder panic or allocate, decoded messages round-trip, a state machine agrees with a
//! simple model, and its counters add up. The targets in `fuzz_targets/` only pass input on, so
//! everything here can also be called from a test.
//!
//! Invariant: no check keeps state between two inputs, so a failing input fails by itself.

pub mod client;
pub mod compound;
pub mod memory;
pub mod messages;
pub mod record;
pub mod server;
pub mod traces;
