//! Runs of `dfsbench durability` with events that the check itself causes.
//!
//! See [`measure`]. dfsbench causes an event with a command, but only the check can end the server
//! and restart it such that everything ends with the check. So the command signals that dfsbench is
//! waiting for the event, and waits until the check has caused it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{check, proc};

/// Timeout until dfsbench requests its event.
const EVENT_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// The file that a command creates when run, and the one that it waits for.
struct Signals {
    wanted: PathBuf,
    made: PathBuf,
}

impl Signals {
    fn new(folder: &Path, number: usize) -> Self {
        let [wanted, made] = ["wanted", "made"].map(|name| folder.join(format!("{number}-{name}")));
        Self { wanted, made }
    }

    /// Returns the command that requests the event and waits for it; it may be run again.
    fn command(&self) -> String {
        let wanted = self.wanted.display();
        let made = self.made.display();
        format!("touch '{wanted}'; until [ -e '{made}' ]; do sleep 0.05; done; rm -f '{made}'")
    }

    /// Lets the command end.
    fn answer(&self) -> Result<()> {
        if self.wanted.exists() {
            fs::remove_file(&self.wanted)?;
        }
        Ok(fs::write(&self.made, "")?)
    }
}

/// Measures several targets at once, with the same events for all of them, as often as they request
/// one; returns the results of each. `command` makes the command for a target, given the command
/// that makes its event.
///
/// # Errors
/// If one of them ends before the event, can't make it, or finds nothing.
pub fn measure(
    folder: &Path,
    count: usize,
    command: &dyn Fn(usize, &str) -> Command,
    event: &dyn Fn() -> Result<()>,
) -> Result<Vec<Value>> {
    let signals: Vec<Signals> = (0..count).map(|number| Signals::new(folder, number)).collect();
    thread::scope(|scope| {
        let mut runs = Vec::new();
        for (number, signals) in signals.iter().enumerate() {
            let mut command = command(number, &signals.command());
            runs.push(scope.spawn(move || proc::capture_output(&mut command)));
        }
        check::note_wait("dfsbench durability to request its event");
        let mut deadline = Instant::now() + EVENT_WITHIN;
        let mut made = Ok(());
        let mut events = 0;
        while !runs.iter().all(ScopedJoinHandle::is_finished) {
            let wants = |(run, signals): (&ScopedJoinHandle<'_, _>, &Signals)| {
                run.is_finished() || signals.wanted.exists()
            };
            if runs.iter().zip(&signals).all(wants)
                && signals.iter().any(|signals| signals.wanted.exists())
            {
                made = made.and_then(|()| event());
                events += 1;
                deadline = Instant::now() + EVENT_WITHIN;
                for (run, signals) in runs.iter().zip(&signals) {
                    if !run.is_finished() {
                        signals.answer()?;
                    }
                }
            }
            if Instant::now() > deadline {
                // Whatever happened, nothing must wait forever.
                signals.iter().try_for_each(Signals::answer)?;
                made = made.and(Err(anyhow::anyhow!("no event was requested")));
            }
            thread::sleep(POLL);
        }
        if events == 0 {
            made = made.and(Err(anyhow::anyhow!("no event was requested")));
        }
        let mut reports = Vec::new();
        for run in runs {
            let Ok(output) = run.join() else { bail!("a run panicked") };
            reports.push(parse_report(&output?));
        }
        made.with_context(|| format!("{reports:?}"))?;
        reports.into_iter().collect()
    })
}

fn parse_report(output: &Output) -> Result<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).with_context(|| {
        format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr))
    })
}

/// Checks that promises were kept in all of their ops, at least one, and that the target has this
/// tier.
///
/// # Errors
/// If an op was lost, there were none, or the tier differs.
pub fn check_kept(report: &Value, promises: &[&str], tier: &str) -> Result<()> {
    for promise in promises {
        let (acked, lost) = count_ops(report, promise);
        ensure!(acked > 0 && lost == 0, "{promise}: {lost} of {acked} lost: {report}");
        ensure!(tier_of(report, promise) == Some(tier), "{promise}: not `{tier}`: {report}");
    }
    Ok(())
}

/// Checks that ops with each of these promises were lost, and that the target has this tier.
pub fn check_lost(report: &Value, promises: &[&str], tier: &str) -> Result<()> {
    for promise in promises {
        let (acked, lost) = count_ops(report, promise);
        ensure!(lost > 0 && lost <= acked, "{promise}: {lost} of {acked} lost: {report}");
        ensure!(tier_of(report, promise) == Some(tier), "{promise}: not `{tier}`: {report}");
    }
    Ok(())
}

/// Counts the acknowledged and the lost ops of a promise.
fn count_ops(report: &Value, promise: &str) -> (u64, u64) {
    let mut acked = 0;
    let mut lost = 0;
    for event in report["events"].as_array().into_iter().flatten() {
        for row in event["rows"].as_array().into_iter().flatten() {
            if row["promise"] == promise && event["unverified"].is_null() {
                acked += row["acked_ops"].as_u64().unwrap_or_default();
                lost += row["lost_ops"].as_u64().unwrap_or_default();
            }
        }
    }
    (acked, lost)
}

fn tier_of<'r>(report: &'r Value, promise: &str) -> Option<&'r str> {
    let mut tiers = report["tiers"].as_array()?.iter();
    tiers.find(|tier| tier["promise"] == promise)?["tier"].as_str()
}
