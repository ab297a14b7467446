//! Tests from the text of a plan to its runs, through the public interface.

mod advice;
mod cluster;
mod common;
mod fio_jobs;
mod fleet;
mod lab;
mod ladder;
mod large;
mod layers;
mod loads;
mod matrix;
mod overrides;
mod reference;
mod refused;
mod round_trip;
