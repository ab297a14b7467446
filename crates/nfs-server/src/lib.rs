//! The perfect server.

mod clock;
mod config;
mod counters;
mod fault;
pub mod fs;
mod limits;
mod outbox;
mod service;
