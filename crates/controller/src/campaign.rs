//! Runs the trials of a campaign in the plan's order, and stores each before the next one begins.
//!
//! A failed run becomes a row in the results and doesn't end the campaign.

mod preflight;

use std::sync::atomic::Ordering::Relaxed;

use model::{Campaign, CampaignState, Ceiling, PassResult, RunSpec, Trial, TrialState, Workload};
use plan::Step;
use results::{Store, StoredTrials};
use stats::judge;

use crate::{CampaignRunner, ControllerError, Event, FAILURES_MAX, results_on_target};

/// How long to measure the tool's own upper limit, in milliseconds.
const CEILING_MS: u64 = 300;

impl CampaignRunner<'_> {
    /// Measures the tool's own upper limit: null backend, one worker, queue depth 1.
    pub fn measure_ceiling(&mut self) -> Result<Option<Ceiling>, ControllerError> {
        let spec = null_spec();
        let outcome = self.run_once(&spec)?;
        let Some(pass) = outcome.passes.first() else { return Ok(None) };
        let service_time_p50_ns =
            pass.kinds.first().map_or(0, |kind| kind.service_time.quantile(0.5));
        // Multiply in 128 bits, so that no rate overflows.
        let ops_per_s = u128::from(pass.ops()) * 1_000_000_000 / u128::from(pass.window_ns.max(1));
        Ok(Some(Ceiling { ops_per_s: ops_per_s as u64, service_time_p50_ns }))
    }

    /// Runs every trial of the plan and stores each. `campaign` is the header without runs.
    ///
    /// # Errors
    /// If the results cannot be stored or the agent is gone. Trials stored so far are kept.
    pub fn run(
        &mut self,
        store: &mut Store,
        campaign: &Campaign,
    ) -> Result<(i64, CampaignState), ControllerError> {
        let id = store.begin_campaign(campaign)?;
        let state = self.run_missing_or_end(store, id, Vec::new())?;
        Ok((id, state))
    }

    /// Runs the trials that are missing from a stored campaign of the same plan, in their original
    /// order. Interrupted trials are repeated, failed ones are not.
    pub fn resume(&mut self, store: &mut Store, id: i64) -> Result<CampaignState, ControllerError> {
        let standing = store.reopen(id)?;
        self.run_missing_or_end(store, id, standing)
    }

    /// Runs the missing trials of a campaign, and marks it as interrupted if that fails.
    fn run_missing_or_end(
        &mut self,
        store: &mut Store,
        id: i64,
        standing: Vec<StoredTrials>,
    ) -> Result<CampaignState, ControllerError> {
        let made = self.run_missing(store, id, standing);
        if made.is_err() {
            // If this can't be stored, the released lock shows that the campaign was interrupted.
            let _ = store.finish(id, CampaignState::Interrupted);
        }
        made
    }

    /// Runs the missing trials of a campaign.
    fn run_missing(
        &mut self,
        store: &mut Store,
        id: i64,
        mut standing: Vec<StoredTrials>,
    ) -> Result<CampaignState, ControllerError> {
        let specs = &self.plan.runs;
        for (index, spec) in specs.iter().enumerate().skip(standing.len()) {
            let run_id = store.add_run(id, index as u32, spec)?;
            standing.push(StoredTrials { run_id, trials: Vec::new() });
        }
        let mut failures: Vec<u32> = standing.iter().map(failures_in_a_row).collect();
        let mut so_far = store.load(id)?.runs;
        let begun_ms = self.hosts.now_unix_ms();
        let planned = self.plan.trials + self.plan.repetition.warmup_trials;
        let mut steps = self.plan.order_with_repeats();
        steps.retain(|step| specs[step.run].impossible().is_none());
        let mut position = 0;
        // Loads of one group are made at the same time.
        for members in steps.chunk_by(|a, b| are_together(specs, *a, *b)) {
            let first = position;
            position += members.len();
            if self.stop.load(Relaxed) {
                break;
            }
            let budget_ms = self.plan.budget_ms;
            let needed = self.plan.trials_needed();
            let worked_ms = self.hosts.now_unix_ms().saturating_sub(begun_ms);
            // Once the budget is spent, runs only get the trials needed for an interval.
            let is_spent = budget_ms > 0 && worked_ms >= budget_ms;
            let limit = if is_spent { needed.min(planned) } else { planned };
            let is_made = |step: &Step| {
                standing[step.run].trials.iter().any(|(number, _)| *number == step.trial)
            };
            let is_wanted = |step: &Step| {
                // At most half of them may be repeated, as for the planned trials.
                let repeats = judge::disturbed_trials(&so_far[step.run]).min(limit.div_ceil(2));
                let settled = judge::is_settled(&so_far[step.run]);
                step.trial < limit + repeats && !settled && !is_made(step)
            };
            let given_up = members.iter().any(|step| failures[step.run] >= FAILURES_MAX);
            if given_up || !members.iter().any(is_wanted) {
                continue;
            }
            let made = if let [step] = members {
                vec![self.run_trial(&specs[step.run], first)?]
            } else {
                let specs: Vec<_> = members.iter().map(|step| &specs[step.run]).collect();
                self.run_trials_together(&specs, first)?
            };
            for (step, trial) in members.iter().zip(made) {
                // A campaign may have been killed when it had stored some of a group.
                if is_made(step) {
                    continue;
                }
                let Step { run, trial: index } = *step;
                let mut trial = Trial { index, ..trial };
                results_on_target::add_note(store, &specs[run], &mut trial);
                store.add_trial(standing[run].run_id, &trial)?;
                let failed = matches!(trial.state, TrialState::Failed(_));
                failures[run] = if failed { failures[run] + 1 } else { 0 };
                (self.observe)(Event::TrialEnded { spec: &specs[run], trial: &trial });
                if failures[run] == FAILURES_MAX {
                    (self.observe)(Event::RunGivenUp(&specs[run]));
                }
                let settles = specs[run].repetition.until_permille > 0;
                so_far[run].trials.push(if settles { trial } else { without_figures(trial) });
            }
        }
        let stopped = self.stop.load(Relaxed);
        let state = if stopped { CampaignState::Interrupted } else { CampaignState::Complete };
        store.finish(id, state)?;
        Ok(state)
    }
}

/// Keeps of a trial only whether it counts: the figures of thousands would fill the memory.
fn without_figures(mut trial: Trial) -> Trial {
    for pass in &mut trial.passes {
        let scope = std::mem::take(&mut pass.scope);
        let caveats = std::mem::take(&mut pass.caveats);
        *pass = PassResult { scope, caveats, ..PassResult::new(pass.pass) };
    }
    trial.facts = Vec::new();
    trial
}

/// Returns true if two steps are the same trial of loads that run at the same time.
fn are_together(specs: &[RunSpec], a: Step, b: Step) -> bool {
    let group = |step: Step| specs[step.run].named_load.as_ref().map_or(0, |load| load.group);
    group(a) > 0 && group(a) == group(b) && a.trial == b.trial
}

/// How often a run failed since it last went well.
fn failures_in_a_row(standing: &StoredTrials) -> u32 {
    let mut failures = 0;
    for (_, failed) in &standing.trials {
        failures = if *failed { failures + 1 } else { 0 };
    }
    failures
}

fn null_spec() -> RunSpec {
    RunSpec {
        file_size_bytes: 1 << 30,
        read_percent: 100,
        duration_ms: CEILING_MS,
        ..RunSpec::null(Workload::Mixed)
    }
}
