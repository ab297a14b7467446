//! Checks of the fuzz targets, one module for each kind of input.
//!
//! A check takes bytes or a list of operations and panics where an invariant breaks: no bytes make
//! a decoder panic or allocate, what was decoded comes back when it is encoded, a state machine
//! agrees with a simple model of it and its counters add up. The targets in `fuzz_targets/` only
//! hand input over, so that everything here can be called from a test as well.
//!
//! Invariant: no check keeps state between two inputs, so that a failing input fails alone.

pub mod client;
pub mod compound;
pub mod memory;
pub mod messages;
pub mod record;
pub mod server;
pub mod traces;
