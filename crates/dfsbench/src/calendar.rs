//! The wall clock, and unique numbers derived from it.
//!
//! This is the only file of the program that reads the wall clock; everything else gets times as
//! arguments. Measurements never depend on it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the wall-clock time in nanoseconds since 1970 UTC.
fn wall_clock_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// Returns the wall-clock time in milliseconds since 1970 UTC.
pub(crate) fn now_unix_ms() -> u64 {
    wall_clock_ns() / 1_000_000
}

/// Returns a number unique to this campaign, derived from the time and the process ID.
pub(crate) fn token() -> u64 {
    model::random::draw(wall_clock_ns(), u64::from(std::process::id()))
}
