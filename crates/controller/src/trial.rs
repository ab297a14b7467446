//! One trial: begin, its passes in their order, end; whatever happens the site is removed.
//!
//! The only place that knows which reports answer which order. A failure ends the trial and is
//! kept in it; only an agent that is gone, or results that can't be kept, end the campaign.

use std::sync::atomic::Ordering::Relaxed;

use fleet::{Assignment, Broken, Order, PassEnd, Report};
use model::{Pass, RunSpec, Trial, TrialState};

use crate::{ControllerError, Event, Walk};

/// Makes the trial at `position` and tells the observer of it.
pub(crate) fn run(
    walk: &mut Walk<'_>,
    spec: &RunSpec,
    position: usize,
) -> Result<Trial, ControllerError> {
    (walk.observe)(Event::TrialBegun { position, spec });
    make(walk, spec, position, true)
}

/// Makes a trial that nobody hears of.
pub(crate) fn unobserved(walk: &mut Walk<'_>, spec: &RunSpec) -> Result<Trial, ControllerError> {
    make(walk, spec, 0, false)
}

fn make(
    walk: &mut Walk<'_>,
    spec: &RunSpec,
    position: usize,
    observed: bool,
) -> Result<Trial, ControllerError> {
    let mut trial = Trial {
        index: 0,
        position: position as u32,
        started_unix_ms: (walk.now_unix_ms)(),
        state: TrialState::Done,
        passes: Vec::new(),
        facts: Vec::new(),
    };
    walk.agent.send(Order::Begin(Box::new(Assignment {
        spec: spec.clone(),
        seed: walk.plan.seed,
        work_name: format!(".dfsbench-{:x}-{position}", walk.token),
        keep: walk.keep,
    })))?;
    match walk.agent.receive()? {
        Report::Begun(facts) => trial.facts = facts,
        Report::Failed(reason) => {
            trial.state = TrialState::Failed(reason);
            return Ok(trial);
        }
        other => unreachable!("an agent answers Begin with Begun or Failed, not {other:?}"),
    }
    for &pass in spec.passes() {
        if walk.stop.load(Relaxed) {
            trial.state = TrialState::Interrupted;
        }
        if trial.state != TrialState::Done {
            break;
        }
        one_pass(walk, pass, observed, &mut trial)?;
    }
    walk.agent.send(Order::End)?;
    if let Report::Failed(reason) = walk.agent.receive()? {
        trial.state = TrialState::Failed(match &trial.state {
            TrialState::Done => format!("clean-up: {reason}"),
            TrialState::Interrupted => format!("interrupted; clean-up: {reason}"),
            TrialState::Failed(first) => format!("{first}; clean-up: {reason}"),
        });
    }
    Ok(trial)
}

fn one_pass(
    walk: &mut Walk<'_>,
    pass: Pass,
    observed: bool,
    trial: &mut Trial,
) -> Result<(), ControllerError> {
    if observed {
        (walk.observe)(Event::PassBegun(pass));
    }
    walk.agent.send(Order::Run(pass))?;
    let PassEnd { result, facts, broken } = loop {
        match walk.agent.receive()? {
            Report::Progress(sample) if observed => (walk.observe)(Event::Progress(sample)),
            Report::Progress(_) => {}
            Report::Ran(ended) => break *ended,
            Report::Failed(reason) => {
                // Preparations that somebody stopped did not fail.
                let stopped = walk.stop.load(Relaxed);
                let failed = TrialState::Failed(format!("{}: {reason}", pass.name()));
                trial.state = if stopped { TrialState::Interrupted } else { failed };
                return Ok(());
            }
            other => unreachable!("an agent answers Run with Ran or Failed, not {other:?}"),
        }
    };
    trial.passes.push(result);
    trial.facts.extend(facts);
    trial.state = match broken {
        None => TrialState::Done,
        Some(Broken::Stopped) => TrialState::Interrupted,
        Some(Broken::Failed(reason)) => TrialState::Failed(reason),
    };
    Ok(())
}
