//! One trial: begin, its passes in their order, end; whatever happens the site is removed.
//!
//! The only place that knows which reports answer which order of a trial. A failure ends the
//! trial and is kept in it, a lost host too; only the agent of this very host that is gone, or
//! results that can't be kept, end the campaign.

use std::sync::atomic::Ordering::Relaxed;

use fleet::{Assignment, Broken, Gone, Order, PassEnd, Report};
use model::{LabSpec, Pass, RunSpec, Trial, TrialState};

use crate::{ControllerError, Event, Walk, setting_up, watching};

/// Why a trial does not go on.
pub(crate) enum Trouble {
    /// Nor does the campaign.
    Over(ControllerError),
    /// The reason stands in the run's row.
    Row(String),
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Row(why)
    }
}

impl From<Gone> for Trouble {
    fn from(gone: Gone) -> Self {
        Self::Over(gone.into())
    }
}

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
    match begin_to_end(walk, spec, observed, &mut trial) {
        Ok(()) => {}
        Err(Trouble::Over(error)) => return Err(error),
        Err(Trouble::Row(why)) => {
            // Preparations that somebody stopped did not fail.
            let stopped = walk.stop.load(Relaxed);
            trial.state = if stopped { TrialState::Interrupted } else { TrialState::Failed(why) };
        }
    }
    Ok(trial)
}

fn begin_to_end(
    walk: &mut Walk<'_>,
    spec: &RunSpec,
    observed: bool,
    trial: &mut Trial,
) -> Result<(), Trouble> {
    let caveats = match &spec.lab {
        Some(lab) => setting_up::before_trial(walk, lab, trial)?,
        None => Vec::new(),
    };
    let order = Order::Begin(Box::new(Assignment {
        spec: spec.clone(),
        seed: walk.plan.seed,
        work_name: format!(".dfsbench-{:x}-{}", walk.token, trial.position),
        keep: walk.keep,
    }));
    match ask(walk, spec, order)? {
        Report::Begun(facts) => trial.facts.extend(facts),
        other => unreachable!("an agent answers Begin with Begun or Failed, not {other:?}"),
    }
    for &pass in spec.passes() {
        if walk.stop.load(Relaxed) {
            trial.state = TrialState::Interrupted;
        }
        if trial.state != TrialState::Done {
            break;
        }
        match one_pass(walk, (spec, pass), observed, trial) {
            Err(Trouble::Row(why)) => {
                let stopped = walk.stop.load(Relaxed);
                let failed = TrialState::Failed(format!("{}: {why}", pass.name()));
                trial.state = if stopped { TrialState::Interrupted } else { failed };
            }
            ended => ended?,
        }
    }
    for pass in &mut trial.passes {
        pass.caveats.extend(caveats.iter().cloned());
    }
    if let Some(lab) = &spec.lab {
        setting_up::after_trial(walk, spec, trial);
        if !walk.hosts.is_there(&lab.worker().name) {
            // Its agent cleans up by itself.
            return Ok(());
        }
    }
    if let Err(Trouble::Row(reason)) = ask(walk, spec, Order::End) {
        trial.state = TrialState::Failed(match &trial.state {
            TrialState::Done => format!("clean-up: {reason}"),
            TrialState::Interrupted => format!("interrupted; clean-up: {reason}"),
            TrialState::Failed(first) => format!("{first}; clean-up: {reason}"),
        });
    }
    Ok(())
}

fn one_pass(
    walk: &mut Walk<'_>,
    (spec, pass): (&RunSpec, Pass),
    observed: bool,
    trial: &mut Trial,
) -> Result<(), Trouble> {
    if observed {
        (walk.observe)(Event::PassBegun(pass));
    }
    if let Some(lab) = spec.lab.as_deref().filter(|_| pass.reads()) {
        trial.facts.extend(setting_up::before_reading(walk, (spec, lab), pass)?);
    }
    if let Some(lab) = &spec.lab {
        watching::begin(walk, lab).map_err(|why| without_server(walk, lab, why))?;
    }
    send(walk, spec, Order::Run(pass))?;
    let PassEnd { mut result, facts, broken } = loop {
        match receive(walk, spec)? {
            Report::Progress(sample) if observed => (walk.observe)(Event::Progress(sample)),
            Report::Progress(_) => {}
            Report::Ran(ended) => break *ended,
            other => unreachable!("an agent answers Run with Ran or Failed, not {other:?}"),
        }
        if let Some(lab) = &spec.lab
            && let Err(why) = walk.hosts.look(lab)
        {
            return Err(without_server(walk, lab, why));
        }
    };
    if let Some(lab) = &spec.lab {
        let seen = watching::end(walk, lab, &mut result);
        seen.map_err(|why| without_server(walk, lab, why))?;
    }
    trial.passes.push(result);
    trial.facts.extend(facts);
    trial.state = match broken {
        None => TrialState::Done,
        Some(Broken::Stopped) => TrialState::Interrupted,
        Some(Broken::Failed(reason)) => TrialState::Failed(reason),
    };
    Ok(())
}

/// Leaves the host that works: whoever waits for a server that is gone waits for long.
fn without_server(walk: &mut Walk<'_>, lab: &LabSpec, why: String) -> Trouble {
    walk.hosts.leave_one(&lab.worker().name);
    Trouble::Row(why)
}

/// Gives an order that has one answer to the agent that does the work of a run.
pub(crate) fn ask(walk: &mut Walk<'_>, spec: &RunSpec, order: Order) -> Result<Report, Trouble> {
    send(walk, spec, order)?;
    receive(walk, spec)
}

fn send(walk: &mut Walk<'_>, spec: &RunSpec, order: Order) -> Result<(), Trouble> {
    match &spec.lab {
        Some(lab) => Ok(walk.hosts.send(&lab.worker().name, order)?),
        None => Ok(walk.agent.send(order)?),
    }
}

fn receive(walk: &mut Walk<'_>, spec: &RunSpec) -> Result<Report, Trouble> {
    match &spec.lab {
        Some(lab) => Ok(walk.hosts.receive(&lab.worker().name)?),
        None => match walk.agent.receive()? {
            Report::Failed(why) => Err(Trouble::Row(why)),
            report => Ok(report),
        },
    }
}
