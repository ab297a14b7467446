//! Measures how much acknowledged data a server or file system keeps after a crash.
//!
//! [`measure`] is the entry point. For each event of a [`DurabilityRequest`], a client process
//! writes files under each promise and reports what was acknowledged, the event is triggered and
//! undone, a fresh client process reads everything back, and [`stats::durability`] evaluates the
//! result. The journal of acknowledgements is kept in this process, which no event affects. A
//! [`FindingsKeeper`] stores findings as soon as they are complete. This crate must not print.
#![warn(unreachable_pub)]
#![allow(clippy::disallowed_methods, reason = "waits for crashes and recovery in real time")]

mod client;
mod events;
mod measurement;
mod protocol;
mod request;
mod set_up;
mod store;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use controller::{FaultInjector, Hosts};
use model::durability::DurabilityReport;
use model::{Host, Target};
use results::StoreError;

pub use client::run as run_client;
pub use protocol::ClientProgram;
pub use request::{DurabilityOptions, DurabilityRequest};
pub use store::FindingsKeeper;

/// Reason why a measurement cannot be made or stored.
#[derive(Debug, thiserror::Error)]
pub enum DurabilityError {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// A target, host, command or client process can't be used.
    #[error("{0}")]
    Unusable(String),
    /// The findings can't be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The program and the campaign that a measurement belongs to.
pub struct DurabilityContext<'a> {
    /// Identifies the campaign in the blocks that are written.
    pub token: u64,
    /// Name of the campaign, used as a prefix for its working directories.
    pub campaign: String,
    /// Set by the caller to stop the measurement.
    pub stop: &'a AtomicBool,
    /// Returns the program to start client processes with on a host.
    pub program_on: &'a dyn Fn(&Host) -> Result<ClientProgram, String>,
    /// Injects faults into the in-memory server, if that is the target.
    pub inject_fault: Option<&'a FaultInjector<'a>>,
    pub observe: &'a dyn Fn(DurabilityEvent<'_>),
}

#[derive(Debug)]
pub enum DurabilityEvent<'a> {
    /// Current step, as a sentence.
    Progress(&'a str),
    /// Problem that doesn't end the measurement, as a sentence.
    Warning(&'a str),
    /// Change to a host that could not be undone, as a sentence.
    Left(&'a str),
    /// A working directory is about to be created.
    DirectoryBegun { name: &'a str, target: &'a Target },
    /// The working directory from the last [`Self::DirectoryBegun`] was removed.
    DirectoryRemoved,
}

/// The findings about a contender, or the reason why there are none.
struct ContenderFindings {
    /// Name of the contender; empty for a target without a name.
    contender: String,
    report: Result<DurabilityReport, String>,
}

/// Findings of a whole measurement.
pub struct Findings {
    /// Reports on all targets that could be measured.
    pub reports: Vec<DurabilityReport>,
    /// Whether every event was triggered and verified on every target, without a broken promise.
    pub is_clean: bool,
}

/// Measures all targets of a request. `hosts` sets up the systems that the plan describes.
///
/// # Errors
/// If nothing can be measured or stored. If a contender that the plan sets up can't be measured,
/// that is only a warning.
pub fn measure(
    request: &DurabilityRequest,
    context: &DurabilityContext<'_>,
    hosts: Hosts<'_>,
    keeper: &mut FindingsKeeper,
) -> Result<Findings, DurabilityError> {
    // Store each report right away: one of the next contenders may hang.
    let mut keep = |found: &ContenderFindings| match &found.report {
        // If it was interrupted before any event, there is nothing to store.
        Ok(report) if !report.events.is_empty() => keeper.store(&found.contender, report),
        _ => Ok(()),
    };
    let found = if request.sets_up() {
        set_up::measure_all(request, context, hosts, &mut keep)?
    } else {
        let found = measurement::measure_one(request, context)?;
        keep(&found)?;
        vec![found]
    };
    let mut reports = Vec::new();
    let mut is_clean = found.len() == request.subjects.len() && !context.stop.load(Relaxed);
    for ContenderFindings { report, .. } in found {
        let Ok(report) = report else {
            is_clean = false;
            continue;
        };
        is_clean &= report.events.len() == request.events.len() && report.is_clean();
        reports.push(report);
    }
    Ok(Findings { reports, is_clean })
}
