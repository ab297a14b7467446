//! Tests from the text of a plan to its runs, through the public interface.

mod cluster;
mod common;
mod fleet;
mod lab;
mod ladder;
mod loads;
mod matrix;
mod overrides;
mod refused;
mod round_trip;
