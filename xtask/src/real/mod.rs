//! Checks against real peers: nfs-ganesha as a server, libnfs as a client, Chromium as a reader.
//!
//! Principal type: [`Checks`], which runs named checks, prints each with its time and counts. Nothing of the
//! house is linked: the checks use the `dfsbench` binary as its users do. Every server that is
//! started here listens on loopback and is ended by its handle.

use std::time::Instant;

use anyhow::Result;

use crate::steps::Count;

mod against_ganesha;
mod against_us;
mod browser;
mod ganesha;
pub mod libnfs;
pub mod ours;

/// Runs the checks whose name contains `filter`.
///
/// # Errors
/// Never today; a check that can't run is a failed check.
pub fn run(filter: Option<&str>) -> Result<Count> {
    let mut checks = Checks { filter: filter.map(str::to_owned), count: Count::default() };
    against_ganesha::run(&mut checks);
    against_us::run(&mut checks);
    browser::run(&mut checks);
    Ok(checks.count)
}

/// The checks so far, and which are wanted.
pub struct Checks {
    filter: Option<String>,
    count: Count,
}

impl Checks {
    /// Runs one check, where it is wanted, prints and counts it.
    pub fn run(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        self.get(name, check);
    }

    /// As [`Checks::run`], for one that makes what later checks need.
    pub fn get<T>(&mut self, name: &str, check: impl FnOnce() -> Result<T>) -> Option<T> {
        if !self.wants(name) {
            return None;
        }
        let begin = Instant::now();
        let outcome = check();
        let seconds = begin.elapsed().as_secs_f64();
        match &outcome {
            Ok(_) => println!("real: {name} ... ok ({seconds:.1} s)"),
            Err(error) => println!("real: {name} ... FAILED ({seconds:.1} s)\n{error:#}"),
        }
        self.count.add(Count::one(outcome.is_ok()));
        outcome.ok()
    }

    /// Tells whether any check whose name starts with one of these is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }
}
