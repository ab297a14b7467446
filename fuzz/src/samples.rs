//! Real messages to start from: those that the tests of `nfs-proto` share.
//!
//! The file stays where the tests have it; here is only its door. A message that is added there
//! is a seed here.

#![allow(missing_docs, unreachable_pub, clippy::pedantic, reason = "written as a test's module")]

#[path = "../../crates/nfs-proto/tests/common/mod.rs"]
mod common;

pub use common::*;
