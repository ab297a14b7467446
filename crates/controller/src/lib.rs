//! Runs a campaign: all trials of a plan, one after the other, each stored before the next one
//! begins.
//!
//! [`CampaignRunner`] is the main type. [`preflight`](CampaignRunner::preflight) creates and
//! removes a working directory at every target before anything is measured, so that a plan that
//! cannot work fails at once and leaves nothing behind. [`run`](CampaignRunner::run) then follows
//! the plan's order. Runs that contradict the protocols are stored but never tried. A failed run
//! becomes a row in the results and doesn't end the campaign.

#![warn(unreachable_pub)]

mod campaign;
mod error;
mod hosts;
pub mod leftovers;
pub mod pace;
pub mod results_on_target;
pub mod search;
pub mod site;
pub mod soak;
pub mod trial;

use std::sync::atomic::AtomicBool;

use model::{IntervalSample, Pass, PassResult, RunSpec, Trial};
use plan::{Plan, Step};

pub use error::ControllerError;
pub use hosts::{Hosts, LaunchAgents, LaunchedAgent, LocalClock};
pub use trial::faults::FaultInjector;

/// Number of failures in a row after which a run is given up. With a dead server, each costs a
/// timeout.
pub const FAILURES_MAX: u32 = 2;

/// Runs the trials of a plan on its hosts.
pub struct CampaignRunner<'a> {
    pub plan: &'a Plan,
    /// The agents that execute the trials, that of this process included.
    pub hosts: Hosts<'a>,
    /// Set by the caller to stop the campaign.
    pub stop: &'a AtomicBool,
    pub observe: &'a mut dyn FnMut(Event<'_>),
    /// Injects faults into the server of this process, if there is one.
    pub inject_fault: Option<&'a FaultInjector<'a>>,
}

impl CampaignRunner<'_> {
    /// Restores all hosts and disconnects. Must be called at the end, even after errors. Returns
    /// false if something could not be restored.
    pub fn leave_hosts(&mut self) -> bool {
        let left = self.hosts.leave();
        for left in &left {
            (self.observe)(Event::Left(left));
        }
        left.is_empty()
    }
}

/// Returns the campaign's name as used in undo logs and in working directory names.
pub fn campaign_name(token: u64) -> String {
    format!("{token:x}")
}

/// Returns the trials that can be run, in the plan's order.
pub fn steps(plan: &Plan) -> Vec<Step> {
    let mut steps = plan.order();
    steps.retain(|step| plan.runs[step.run].impossible().is_none());
    steps
}

#[derive(Debug)]
pub enum Event<'a> {
    /// A trial begins.
    TrialBegun {
        /// Position in the order, counted from 0.
        position: usize,
        spec: &'a RunSpec,
    },
    /// A working directory is about to be created.
    DirectoryBegun {
        name: &'a str,
        /// Run that the directory is for.
        spec: &'a RunSpec,
    },
    /// The working directory from the last [`Self::DirectoryBegun`] was removed or permanently left
    /// behind.
    DirectoryEnded {
        /// The directory could not be removed completely.
        is_left: bool,
    },
    /// A pass begins.
    PassBegun(Pass),
    /// Progress of a running pass.
    Progress(IntervalSample),
    /// Progress of one of several hosts.
    HostProgress {
        host: &'a str,
        /// Work since the last sample, by the host's own clock.
        sample: IntervalSample,
    },
    /// A pass has finished.
    PassEnded(&'a PassResult),
    /// A trial has finished and is stored.
    TrialEnded { spec: &'a RunSpec, trial: &'a Trial },
    /// A run will not be tried again.
    RunGivenUp(&'a RunSpec),
    /// Something could not be restored; contains a sentence.
    Left(&'a str),
}
