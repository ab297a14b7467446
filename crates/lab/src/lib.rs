//! What is read from and done to a host: facts, counters, caches.
//!
//! Everything here names its source, so that a reader can look for himself. Nothing here changes
//! a host except [`cache::drop_file`], which drops clean pages of our own files.

pub mod cache;
pub mod counters;
pub mod facts;
pub mod mounts;
pub mod telemetry;
