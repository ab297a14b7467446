//! The wall clock, and what is made unique by it.
//!
//! The only file of the program that reads the wall clock: everything else gets its instants as
//! arguments. What is measured never depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the wall clock in nanoseconds since 1970 UTC.
fn wall_clock_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// Reads the wall clock in milliseconds since 1970 UTC.
pub fn now_unix_ms() -> u64 {
    wall_clock_ns() / 1_000_000
}

/// Makes a number that no other campaign has, from the time and the process.
pub fn token() -> u64 {
    model::random::draw(wall_clock_ns(), u64::from(std::process::id()))
}
