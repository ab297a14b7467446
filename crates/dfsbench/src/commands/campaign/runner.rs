//! Reaches the agents: the local one in a thread, those of other hosts when they are needed.
//!
//! [`Session::with_runner`] is the entry point. Whatever happens, hosts are restored and left, and
//! the local agent exits before its server does.

use std::sync::Arc;

use agent::Agent;
use controller::leftovers::{self, WorkRecord};
use controller::{CampaignRunner, Event, Hosts};
use engine::SystemClock;
use fleet::{HostPermissions, in_process};
use model::{Host, panicked};
use plan::Plan;

use super::observer::CampaignObserver;
use super::session::Session;
use crate::calendar::{now_unix_ms, token};
use crate::exit::{self, Failure};
use crate::files::{foreign_folder, user_dirs};
use crate::hosts::agents::{self, Agents};
use crate::plans::secrets;
use crate::server::embedded::Embedded;
use crate::terminal::output;

impl Session<'_> {
    /// Runs the agent in a thread and the controller in this one. The agent exits when its
    /// transport is closed.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn with_runner<T>(
        &mut self,
        plan: &Plan,
        server: Option<&Embedded>,
        observer: &mut CampaignObserver,
        work: impl FnOnce(&mut CampaignRunner<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let making = self.making;
        let secrets = secrets::read(&plan.runs)?;
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
            let mut observe = |event: Event<'_>| observer.handle_event(&event);
            let mut agents =
                Agents::new(Arc::clone(&self.stop), self.visibility()).with_job(self.job.take());
            let mut launch = |hosts: &[&Host]| agents.launch(hosts);
            let campaign = controller::campaign_name(token());
            let _record = self.record_directories(plan, &campaign)?;
            let read_clocks = || agent::read(&*clock);
            let opening = HostPermissions {
                campaign,
                allow_destroy: making.allow_destroy.clone(),
                keep: making.keep,
                after_power_loss: false,
                secrets,
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
            // Restore and leave the hosts even after an error or panic in `work`. An error in
            // `work` takes precedence over one in leaving, since it may have caused it.
            let result = panicked::catch(|| work(&mut runner));
            let left = panicked::catch(|| runner.leave_hosts());
            agents::record_no_agents();
            if matches!(left, Ok(false)) {
                exit::note_not_restored();
            }
            result.and_then(|result| left.map(|_| result))
        };
        // The agent's thread exits when its transport is closed, so drop it before joining.
        drop(transport);
        let left = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        observer.progress.finish();
        match &left {
            Ok(left) => {
                for left in left {
                    exit::note_not_restored();
                    output::message(&format!("warning: {left}"));
                }
            }
            Err(panicked) => {
                output::message(&format!("warning: the agent of this host {panicked}"));
            }
        }
        result.unwrap_or_else(|panicked| Err(panicked.into()))
    }

    /// Warns about targets that belong to other users or contain files of killed processes, and
    /// records that working directories are about to be created. `None` if the user keeps those.
    fn record_directories(
        &self,
        plan: &Plan,
        campaign: &str,
    ) -> Result<Option<WorkRecord>, Failure> {
        let results = &self.making.results;
        foreign_folder::warn_of_targets(&plan.runs);
        for warning in leftovers::warnings(results, &plan.runs) {
            output::message(&format!("warning: {warning}"));
        }
        if self.making.keep {
            return Ok(None);
        }
        let runs = &plan.runs;
        let now_ms = now_unix_ms();
        let record = WorkRecord::begin(results, campaign, runs, self.resumes, now_ms)?;
        Ok(record.map(|record| record.with_index(results, &user_dirs::records_dir())))
    }
}
