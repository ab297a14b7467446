//! Measures what a server or file system keeps of what it acknowledged.
//!
//! [`measure`] is the entry point. For each event of a [`DurabilityRequest`], a client process
//! writes under each promise and reports what is acknowledged, the event is made and undone, a
//! fresh client process reads everything back, and [`stats::durability`] judges. The journal of
//! acknowledgements is in this process, which no event touches. Findings are stored by a
//! [`FindingsKeeper`] as soon as they are complete. This crate must not print.
#![allow(
    clippy::disallowed_methods,
    reason = "crashes and whether a target is back are a matter of real time"
)]

mod client;
mod events;
mod keep;
mod measurement;
mod protocol;
mod request;
mod set_up;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use controller::{FaultInjector, Hosts};
use model::durability::DurabilityReport;
use model::{Host, Target};
use results::StoreError;

pub use client::run as run_client;
pub use keep::FindingsKeeper;
pub use protocol::ClientProgram;
pub use request::{DurabilityOptions, DurabilityRequest};

/// Why a measurement cannot be made or stored.
#[derive(Debug, thiserror::Error)]
pub enum DurabilityError {
    /// The request can't be carried out as it was written.
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
    /// Name of the campaign, with which the names of its working directories begin.
    pub campaign: String,
    /// Set by the caller to stop the measurement.
    pub stop: &'a AtomicBool,
    /// Finds the program that the clients on a host are processes of.
    pub program_on: &'a dyn Fn(&Host) -> Result<ClientProgram, String>,
    /// Injects faults into the server of this process, if that is the target.
    pub inject_fault: Option<&'a FaultInjector<'a>>,
    pub observe: &'a dyn Fn(DurabilityEvent<'_>),
}

#[derive(Debug)]
pub enum DurabilityEvent<'a> {
    /// What is done now, as a sentence.
    Progress(&'a str),
    /// Something that went wrong and doesn't end the measurement, as a sentence.
    Warning(&'a str),
    /// A working directory is about to be created.
    DirectoryBegun { name: &'a str, target: &'a Target },
    /// The working directory from the last [`Self::DirectoryBegun`] was removed.
    DirectoryRemoved,
}

/// The findings about a contender, or why there are none.
struct ContenderFindings {
    /// Name of the contender; empty for a target without one.
    contender: String,
    /// The findings, or the reason.
    report: Result<DurabilityReport, String>,
}

/// What was found.
pub struct Findings {
    /// The findings about each target that could be measured.
    pub reports: Vec<DurabilityReport>,
    /// Every event was made and verified at every target, and all that was promised was kept.
    pub is_clean: bool,
}

/// Measures all targets of a request. `hosts` sets up those that the plan sets up.
///
/// # Errors
/// If nothing can be measured or stored. A contender that the plan sets up and that can't be
/// measured is only a warning.
pub fn measure(
    request: &DurabilityRequest,
    context: &DurabilityContext<'_>,
    hosts: Hosts<'_>,
    keeper: &mut FindingsKeeper,
) -> Result<Findings, DurabilityError> {
    // Each is kept as soon as it is there: one of the next may hang, and be given up.
    let mut keep = |found: &ContenderFindings| match &found.report {
        // What was interrupted before any event says nothing of the contender.
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
