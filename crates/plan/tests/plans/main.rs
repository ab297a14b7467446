//! Plans from the text to the runs, as the rest of the program sees them.

mod common;
mod fleet;
mod lab;
mod ladder;
mod matrix;
mod overrides;
mod refused;
mod round_trip;
