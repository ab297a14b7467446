//! Measures the systems that a plan sets up, one after the other.
//!
//! Each is set up as its run describes, written to from the run's first client, killed, restarted,
//! remounted and read back. Everything is undone before the next one starts.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use controller::{Hosts, site};
use model::durability::{CrashEvent, DurabilityReport};
use model::{LabSpec, panicked};

use crate::events::SystemControl;
use crate::measurement::{Measurement, report_of};
use crate::request::{DurabilityRequest, Subject};
use crate::{ContenderFindings, DurabilityContext, DurabilityError, DurabilityEvent};

/// Maximum time until a server that lost power can be reached again.
const STARTED_WITHIN: Duration = Duration::from_secs(300);

/// Interval between attempts to reach it.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Measures each contender of a plan and passes the findings to `keep` as soon as they are
/// complete. For contenders that could not be measured, the findings contain the reason.
pub(crate) fn measure_all(
    request: &DurabilityRequest,
    context: &DurabilityContext<'_>,
    hosts: Hosts<'_>,
    keep: &mut dyn FnMut(&ContenderFindings) -> Result<(), DurabilityError>,
) -> Result<Vec<ContenderFindings>, DurabilityError> {
    let hosts = RefCell::new(hosts);
    let systems = Systems { request, context, hosts: &hosts };
    let mut found = Vec::new();
    // Restore and leave the hosts even after an error or a panic.
    let measured = panicked::catch(|| {
        for (number, subject) in request.subjects.iter().enumerate() {
            if context.stop.load(Relaxed) {
                break;
            }
            let contender = subject.contender.clone().unwrap_or_default();
            (context.observe)(DurabilityEvent::Progress(&format!("{contender}: setting up")));
            let report = systems.measure(subject, number);
            if let Err(why) = &report {
                (context.observe)(DurabilityEvent::Warning(&format!("{contender}: {why}")));
            }
            found.push(ContenderFindings { contender, report });
            if let Some(last) = found.last() {
                keep(last)?;
            }
        }
        Ok(())
    });
    for left in hosts.borrow_mut().leave() {
        (context.observe)(DurabilityEvent::Left(&left));
    }
    match measured {
        Ok(kept) => kept.map(|()| found),
        Err(panicked) => panicked::resume(panicked),
    }
}

struct Systems<'a, 'h> {
    request: &'a DurabilityRequest,
    context: &'a DurabilityContext<'a>,
    hosts: &'a RefCell<Hosts<'h>>,
}

impl Systems<'_, '_> {
    fn measure(&self, subject: &Subject, number: usize) -> Result<DurabilityReport, String> {
        let spec = &subject.spec;
        let Some(lab) = spec.lab.as_deref() else {
            return Err("the plan does not set up this system".to_owned());
        };
        if self.has_event(CrashEvent::KillServer) {
            // Refuse impossible events before anything is changed.
            lab::kill_of_system(lab)?;
            lab::restart_of_system(lab)?;
        }
        if self.has_event(CrashEvent::PowerCut) {
            lab::outlasts_power_loss(lab)?;
        }
        let measured = self.measure_system(subject, lab, number);
        for left in self.hosts.borrow_mut().undo_all() {
            (self.context.observe)(DurabilityEvent::Warning(&left));
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
        site::set_up(&mut self.hosts.borrow_mut(), lab, self.context.stop)?;
        if self.has_event(CrashEvent::PowerCut) {
            site::settle(&mut self.hosts.borrow_mut(), lab)?;
        }
        let program = (self.context.program_on)(lab.worker())?;
        let kill = || site::kill_system(&mut self.hosts.borrow_mut(), lab);
        let restart = || site::restart_system(&mut self.hosts.borrow_mut(), lab);
        let stop = self.context.stop;
        let mount_again = || site::mount_again(&mut self.hosts.borrow_mut(), lab, stop);
        let start_again = || self.start_again(lab);
        let measurement = Measurement {
            request: self.request,
            context: self.context,
            target: &subject.spec.target,
            program: &program,
            system: Some(SystemControl {
                kill: &kill,
                restart: &restart,
                mount_again: &mount_again,
                start_again: &start_again,
            }),
            campaign: format!("{}-{number}", self.context.campaign),
        };
        let events = measurement.measure_events().map_err(|failure| failure.to_string())?;
        let name = subject.contender.as_deref().unwrap_or_default();
        let target = format!("{name}, at {}", subject.spec.target);
        Ok(report_of(self.request, target, &subject.spec.target, events))
    }

    /// Sets the server up again after it lost power, as soon as it can be reached.
    fn start_again(&self, lab: &LabSpec) -> Result<(), String> {
        let mut hosts = self.hosts.borrow_mut();
        let deadline = Instant::now() + STARTED_WITHIN;
        while let Err(why) = site::reach_after_power_loss(&mut hosts, lab) {
            if self.context.stop.load(Relaxed) || Instant::now() > deadline {
                return Err(why);
            }
            thread::sleep(TRY_AGAIN_AFTER);
        }
        site::start_after_power_loss(&mut hosts, lab)
    }
}
