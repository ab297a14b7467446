//! The systems that a plan sets up, measured one after the other.
//!
//! Each is set up as a run has it, written to from the run's first client, killed and started
//! again, mounted again and read back; then all is undone before the next one.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use controller::{Hosts, site};
use engine::SystemClock;
use fleet::Opening;
use model::durability::{CrashEvent, DurabilityReport};
use model::{Host, LabSpec, panicked};

use super::events::SystemMeans;
use super::request::{Request, Subject};
use super::{Measurement, report_of};
use crate::agents::{self, Agents};
use crate::args::DurabilityArgs;
use crate::calendar::token;
use crate::exit::Failure;
use crate::progress::Visibility;
use crate::{foreign_folder, leftovers, output};

/// How long a server that has lost its power may take until it can be reached again.
const STARTED_WITHIN: Duration = Duration::from_secs(300);

/// How soon it is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The findings about a contender, or why there are none.
pub struct Found {
    /// Name of the contender.
    pub contender: String,
    /// The findings, or the reason.
    pub report: Result<DurabilityReport, String>,
}

/// Measures each contender of a plan, and hands each to `keep` when it is there; those that could
/// not be measured have a reason.
///
/// # Errors
/// When nothing can be begun, or one can't be kept.
pub fn measure_all(
    args: &DurabilityArgs,
    request: &Request,
    stop: &Arc<AtomicBool>,
    keep: &mut dyn FnMut(&Found) -> Result<(), Failure>,
) -> Result<Vec<Found>, Failure> {
    let token = token();
    let campaign = controller::campaign_name(token);
    foreign_folder::warn_beside(&args.results);
    foreign_folder::warn_of_targets(&request.plan.runs);
    leftovers::warn(&args.results, &request.plan.runs);
    let _record = leftovers::Record::begin(&args.results, &campaign, &request.plan.runs, None)?;
    let mut agents = Agents::new(Arc::clone(stop), Visibility::Shown);
    let mut launch = |hosts: &[&Host]| agents.launch(hosts);
    let clock = SystemClock::new();
    let read_clocks = || agent::read(&clock);
    let opening = Opening {
        campaign: campaign.clone(),
        allow_destroy: args.allow_destroy.clone(),
        ..Opening::default()
    };
    let hosts = RefCell::new(Hosts::new(&mut launch, &read_clocks, opening));
    let mut found = Vec::new();
    // Hosts are restored and left, also after an error or a panic.
    let measured = panicked::catch(|| {
        for (number, subject) in request.subjects.iter().enumerate() {
            if stop.load(Relaxed) {
                break;
            }
            let session = Session { request, hosts: &hosts, stop, token, campaign: &campaign };
            let contender = subject.contender.clone().unwrap_or_default();
            say(request, &format!("{contender}: setting up"));
            let report = session.measure(subject, number);
            if let Err(why) = &report {
                output::message(&format!("warning: {contender}: {why}"));
            }
            found.push(Found { contender, report });
            if let Some(last) = found.last() {
                keep(last)?;
            }
        }
        Ok(())
    });
    for left in hosts.borrow_mut().leave() {
        output::message(&format!("warning: {left}"));
    }
    agents::note_left();
    match measured {
        Ok(kept) => kept.map(|()| found),
        Err(panicked) => panicked::resume(panicked),
    }
}

/// The parts that the measurements of all contenders share.
struct Session<'a, 'h> {
    request: &'a Request,
    hosts: &'a RefCell<Hosts<'h>>,
    stop: &'a Arc<AtomicBool>,
    token: u64,
    campaign: &'a str,
}

impl Session<'_, '_> {
    fn measure(&self, subject: &Subject, number: usize) -> Result<DurabilityReport, String> {
        let spec = &subject.spec;
        let Some(lab) = spec.lab.as_deref() else {
            return Err("the plan does not set it up".to_owned());
        };
        if self.has_event(CrashEvent::KillServer) {
            // Refused before anything is done.
            lab::kill_of_system(lab)?;
            lab::restart_of_system(lab)?;
        }
        if self.has_event(CrashEvent::PowerCut) {
            lab::outlasts_power_loss(lab)?;
        }
        let measured = self.measure_system(subject, lab, number);
        for left in self.hosts.borrow_mut().undo_all() {
            output::message(&format!("warning: {left}"));
        }
        measured
    }

    fn has_event(&self, event: CrashEvent) -> bool {
        self.request.events.iter().any(|arranged| arranged.event == event)
    }

    fn measure_system(
        &self,
        subject: &Subject,
        lab: &LabSpec,
        number: usize,
    ) -> Result<DurabilityReport, String> {
        site::set_up(&mut self.hosts.borrow_mut(), lab, self.stop)?;
        if self.has_event(CrashEvent::PowerCut) {
            site::settle(&mut self.hosts.borrow_mut(), lab)?;
        }
        let mut programs = Agents::new(Arc::clone(self.stop), Visibility::Hidden);
        let program = programs.program_on(lab.worker()).map_err(|gone| gone.0)?;
        let kill = || site::kill_system(&mut self.hosts.borrow_mut(), lab);
        let restart = || site::restart_system(&mut self.hosts.borrow_mut(), lab);
        let mount_again = || site::mount_again(&mut self.hosts.borrow_mut(), lab, self.stop);
        let start_again = || self.start_again(lab);
        let measurement = Measurement {
            request: self.request,
            target: &subject.spec.target,
            program: &program,
            embedded: None,
            system: Some(SystemMeans {
                kill: &kill,
                restart: &restart,
                mount_again: &mount_again,
                start_again: &start_again,
            }),
            stop: self.stop,
            token: self.token,
            campaign: format!("{}-{number}", self.campaign),
        };
        let events = measurement.measure_events().map_err(|failure| failure.to_string())?;
        let name = subject.contender.as_deref().unwrap_or_default();
        let target = format!("{name}, at {}", subject.spec.target);
        Ok(report_of(self.request, target, &subject.spec.target, events))
    }
}

impl Session<'_, '_> {
    /// Sets up the server again that has lost its power, once it can be reached.
    fn start_again(&self, lab: &LabSpec) -> Result<(), String> {
        let mut hosts = self.hosts.borrow_mut();
        let deadline = Instant::now() + STARTED_WITHIN;
        while let Err(why) = site::reach_after_power_loss(&mut hosts, lab) {
            if self.stop.load(Relaxed) || Instant::now() > deadline {
                return Err(why);
            }
            thread::sleep(TRY_AGAIN_AFTER);
        }
        site::start_after_power_loss(&mut hosts, lab)
    }
}

fn say(request: &Request, line: &str) {
    if !request.is_quiet {
        output::message(line);
    }
}
