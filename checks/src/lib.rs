//! Setup for checks against real peers: packages, servers, browsers, clusters, virtual machines.
//!
//! The checks are the tests in `tests/`, one program per group. They are built with the feature
//! `real`, because they need root and the packages installed by [`setup`]; `cargo xtask real GROUP
//! [FILTER]` builds and runs them. [`check`] has their time limits and fixtures.
//!
//! No crate of the layers is linked: the checks run the `dfsbench` binary like a user. Every
//! process that is started is ended by its own id; nothing listens off loopback, except in its own
//! network namespace.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "for developers' tools: they print, wait, read the environment, and panic for bugs"
)]

pub mod axe;
pub mod browser;
pub mod capture;
pub mod capture_tls;
pub mod check;
pub mod cluster;
pub mod durability;
pub mod freshness;
pub mod ganesha;
pub mod guard;
pub mod hosts;
pub mod interop;
pub mod lab_real;
pub mod libnfs;
pub mod lost_server;
pub mod made_paths;
pub mod native;
pub mod noise;
pub mod ours;
pub mod proc;
pub mod repo;
pub mod secret_search;
pub mod setup;
pub mod strace;
pub mod systems;
pub mod test_programs;
pub mod traces;
pub mod vm;
