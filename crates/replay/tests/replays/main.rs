//! Traces replayed on our servers: plans, shares, faults, and recordings of the replays.

mod common;
mod directories;
mod faults;
mod fixed_point;
mod mixed_versions;
mod plans;
mod shares;
