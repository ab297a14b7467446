//! Checks against real peers: nfs-ganesha as a server, libnfs as a client, Chromium as a reader.
//!
//! Principal type: [`Checks`], which runs named checks, prints each with its time and counts.
//! None of our crates is linked: the checks use the `dfsbench` binary as its users do. Every
//! server that is started here listens on loopback and is ended by its handle.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::fuzz;
use crate::steps::Count;

mod against_ganesha;
mod against_us;
mod browser;
mod capture;
mod capture_tls;
mod cluster;
mod disk;
pub mod ganesha;
mod hosts;
mod interop;
mod lab;
mod ladder;
pub mod libnfs;
mod loss;
pub mod ours;
mod ramp;
mod strace;
mod vm;

/// The pauses before a check that failed is repeated, as often as there are pauses.
#[cfg(not(test))]
const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_secs(20)];
#[cfg(test)]
const PAUSES: [Duration; 2] = [Duration::ZERO; 2];

/// Runs one group of checks.
type Group = fn(&mut Checks);

/// Groups that run one after the other.
type Track = &'static [(&'static str, Group)];

/// The tracks of a stage run at once, and the stages one after the other.
///
/// In the first stage nothing is judged by its pace: the virtual machines wait most of their time,
/// and leave it to what asks servers and browsers, and to the fuzz targets, which yield to all
/// others. The groups of the second stage have the machine to themselves, for they start hosts at
/// one moment, lose packets or look for the slowest layer.
const STAGES: [&[Track]; 2] = [
    &[
        &[("vm", vm::run)],
        &[
            ("interop", interop::run),
            ("ganesha", against_ganesha::run),
            ("server", against_us::run),
            ("disk", disk::run),
            ("strace", strace::run),
            ("lab", lab::run),
        ],
        &[("browser", browser::run), ("fuzz", fuzz)],
    ],
    &[&[
        ("loss", loss::run),
        ("ladder", ladder::run),
        ("hosts", hosts::run),
        ("cluster", cluster::run),
    ]],
];

/// Runs the groups whose name contains `filter`: `interop`, `ganesha`, `server`, `disk`, `loss`,
/// `strace`, `browser`, `lab`, `ladder`, `vm`, `hosts`, `cluster`, `fuzz`.
pub fn run(filter: Option<&str>) -> Count {
    let mut count = Count::default();
    for stage in STAGES {
        thread::scope(|scope| {
            let tracks = stage.iter().map(|track| scope.spawn(move || run_track(track, filter)));
            for track in tracks.collect::<Vec<_>>() {
                count.add(track.join().expect("a check fails, and doesn't panic"));
            }
        });
    }
    count
}

/// Runs those groups of a track whose name contains `filter`.
fn run_track(track: Track, filter: Option<&str>) -> Count {
    let mut count = Count::default();
    for &(group, run) in track {
        if filter.is_none_or(|filter| group.contains(filter)) {
            count.add(Checks::made(group, run));
        }
    }
    count
}

/// Runs the fuzz targets, which count by themselves.
fn fuzz(checks: &mut Checks) {
    match fuzz::everything() {
        Ok(count) => checks.count.add(count),
        Err(error) => {
            println!("fuzz: FAILED\n{error:#}");
            checks.count.add(Count::FAILED);
        }
    }
}

/// The checks of one group so far.
pub struct Checks {
    group: &'static str,
    count: Count,
}

impl Checks {
    /// Makes all checks of a group, or of a part of it.
    fn made(group: &'static str, run: impl FnOnce(&mut Self)) -> Count {
        let mut checks = Self { group, count: Count::default() };
        run(&mut checks);
        checks.count
    }

    /// Runs one check, prints and counts it. One that fails is repeated, twice at most.
    pub fn run(&mut self, name: &str, check: impl Fn() -> Result<()>) {
        self.get(name, check);
    }

    /// Runs a check as [`Checks::run`] does, for one that makes something for later checks.
    pub fn get<T>(&mut self, name: &str, check: impl Fn() -> Result<T>) -> Option<T> {
        self.get_restoring(name, check, || ())
    }

    /// Runs a check as [`Checks::get`] does, and calls `restore` after each failure.
    pub fn get_restoring<T>(
        &mut self,
        name: &str,
        check: impl Fn() -> Result<T>,
        restore: impl Fn(),
    ) -> Option<T> {
        if let Ok(made) = self.attempt(name, &check) {
            self.count.add(Count::PASSED);
            return Some(made);
        }
        restore();
        // The peers are whole systems: what fails once in a hundred runs must not cost a landing,
        // and must not go unseen. What is truly broken fails each time. What disturbed the machine
        // may last for a while, so the last repetition waits.
        for pause in PAUSES {
            thread::sleep(pause);
            if let Ok(made) = self.attempt(name, &check) {
                self.count.add(Count::flaky(format!("real: {}: {name}", self.group)));
                return Some(made);
            }
            restore();
        }
        self.count.add(Count::FAILED);
        None
    }

    /// Runs a check and prints what came of it.
    fn attempt<T>(&self, name: &str, check: impl Fn() -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        let outcome = check();
        let seconds = begin.elapsed().as_secs_f64();
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("real: {}: {name} ... {word} ({seconds:.1} s)", self.group);
        if let Err(error) = &outcome {
            println!("{error:#}");
        }
        outcome
    }

    /// Runs two parts of the group at once, which have nothing to do with each other.
    pub fn beside(&mut self, one: impl FnOnce(&mut Self), other: impl FnOnce(&mut Self) + Send) {
        let group = self.group;
        let count = thread::scope(|scope| {
            let other = scope.spawn(move || Self::made(group, other));
            one(self);
            other.join().expect("a check fails, and doesn't panic")
        });
        self.count.add(count);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use anyhow::ensure;

    use super::{Checks, Count};

    #[test]
    fn a_check_that_fails_is_repeated_and_named() {
        let attempts = Cell::new(0);
        let fails_until = |passing: u32| {
            attempts.set(attempts.get() + 1);
            ensure!(attempts.get() >= passing, "planted");
            Ok(())
        };
        let restored = Cell::new(0);
        let restore = || restored.set(restored.get() + 1);
        let count = Checks::made("group", |checks| {
            checks.run("passes", || fails_until(1));
            attempts.set(0);
            assert!(checks.get_restoring("second", || fails_until(2), restore).is_some());
            attempts.set(0);
            assert!(checks.get_restoring("never", || fails_until(9), restore).is_none());
        });
        assert_eq!((attempts.get(), restored.get()), (3, 4));
        let flaky = vec!["real: group: second".to_owned()];
        assert_eq!(count, Count { passed: 2, failed: 1, flaky });
    }
}
