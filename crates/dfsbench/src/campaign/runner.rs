//! Reaches the agents: that of this process in a thread, those of other hosts when they are needed.
//!
//! [`Session::with_runner`] is the way in. Whatever happens, hosts are restored and left, and the
//! agent of this process ends before its server does.

use std::sync::Arc;

use agent::Agent;
use controller::{CampaignRunner, Event, Hosts};
use engine::SystemClock;
use fleet::{Opening, in_process};
use model::{Host, panicked};
use plan::Plan;

use super::observer::CampaignObserver;
use super::session::Session;
use crate::agents::{self, Agents};
use crate::calendar::token;
use crate::embedded::Embedded;
use crate::exit::Failure;
use crate::leftovers::{self, Record};
use crate::{foreign_folder, output, user_dirs};

impl Session<'_> {
    /// Runs the agent in a thread and the controller here; the agent ends with its transport.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn with_runner<T>(
        &mut self,
        plan: &Plan,
        server: Option<&Embedded>,
        observer: &mut CampaignObserver,
        work: impl FnOnce(&mut CampaignRunner<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let making = self.making;
        let local_server = server.map(Embedded::as_local_server);
        let inject_fault = local_server.as_ref().and_then(|server| server.inject_fault.clone());
        let (mut transport, agent_end) = in_process::pair();
        let clock = Arc::new(SystemClock::new());
        let agent = Agent {
            clock: clock.clone(),
            stop: Arc::clone(&self.stop),
            state_dir: user_dirs::state_dir(),
            local_server,
            give_up: None,
        };
        let thread =
            std::thread::spawn(move || panicked::catch(|| agent::serve(&agent, &agent_end)));
        let result = {
            let mut observe = |event: Event<'_>| observer.hear(&event);
            let mut agents =
                Agents::new(Arc::clone(&self.stop), self.visibility()).with_job(self.job.take());
            let mut launch = |hosts: &[&Host]| agents.launch(hosts);
            let campaign = controller::campaign_name(token());
            let _record = self.record_directories(plan, &campaign)?;
            let read_clocks = || agent::read(&*clock);
            let opening = Opening {
                campaign,
                allow_destroy: making.allow_destroy.clone(),
                keep: making.keep,
                after_power_loss: false,
            };
            let mut runner = CampaignRunner {
                plan,
                hosts: Hosts::new(&mut launch, &read_clocks, opening)
                    .with_local_agent(&mut transport),
                stop: &self.stop,
                observe: &mut observe,
                inject_fault: inject_fault
                    .as_deref()
                    .map(|inject| inject as &controller::FaultInjector<'_>),
            };
            // Hosts are restored and left, also after an error or a panic of the work; an error of
            // the work goes before one of leaving, which it may have caused.
            let result = panicked::catch(|| work(&mut runner));
            let left = panicked::catch(|| runner.leave_hosts());
            agents::note_left();
            result.and_then(|result| left.map(|()| result))
        };
        // The agent's thread ends when its transport is closed, so that this comes before the join.
        drop(transport);
        let left = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        observer.progress.finish();
        match &left {
            Ok(left) => {
                for left in left {
                    output::message(&format!("warning: {left}"));
                }
            }
            Err(panicked) => {
                output::message(&format!("warning: the agent of this host {panicked}"));
            }
        }
        result.unwrap_or_else(|panicked| Err(panicked.into()))
    }

    /// Warns of what others have in the targets of a plan, and records that its working directories
    /// are about to be made; `None` if they are kept.
    fn record_directories(&self, plan: &Plan, campaign: &str) -> Result<Option<Record>, Failure> {
        let results = &self.making.results;
        foreign_folder::warn_of_targets(&plan.runs);
        leftovers::warn(results, &plan.runs);
        if self.making.keep {
            return Ok(None);
        }
        let record = Record::begin(results, campaign, &plan.runs, self.resumes)?;
        Ok(record.map(|record| record.with_index(results)))
    }
}
