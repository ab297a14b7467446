//! Sets up the hosts of a run around its trial and its passes.
//!
//! Settings that are not effective become caveats of every pass, or fail a trial that is strict. To
//! be forgotten by remounting, a tail of the applied_steps is undone and applied again.

use fleet::request;
use lab::{compose, redo_from};
use model::{Caveat, Fact, Invalidation, LabSpec, Pass, RunSpec, Trial, TrialState};

use crate::Walk;
use crate::applied_steps::on_host;
use crate::host_setup::{bring_to, undo_to};

/// Brings the hosts to what a run wants; returns the caveats for each pass.
///
/// # Errors
/// When a host can't be reached or set up, or a strict run does not get what it requested.
pub(crate) fn before_trial(
    walk: &mut Walk<'_>,
    lab: &LabSpec,
    trial: &mut Trial,
) -> Result<Vec<Caveat>, String> {
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    walk.hosts.reach(lab)?;
    let stop = walk.stop;
    walk.hosts.with_applied_steps(|applied_steps, hosts| {
        bring_to(applied_steps, hosts, &wanted, stop)?;
        trial.facts.extend(applied_steps.facts());
        let differences = applied_steps.differences();
        if lab.strict && !differences.is_empty() {
            return Err(format!("not effective: {}", differences.join("; ")));
        }
        Ok(applied_steps.caveats())
    })
}

/// Sees that what a pass reads comes from where it should, and returns what hosts had in memory.
///
/// # Errors
/// When a host is lost or can't forget.
pub(crate) fn before_reading(
    walk: &mut Walk<'_>,
    spec: &RunSpec,
    lab: &LabSpec,
    pass: Pass,
) -> Result<Vec<Fact>, String> {
    let how = lab.invalidation;
    if how <= Invalidation::Files {
        // The agent that reads drops them by itself.
        return Ok(Vec::new());
    }
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    let kept = redo_from(&wanted, how);
    let stop = walk.stop;
    walk.hosts.with_applied_steps(|applied_steps, hosts| {
        if kept < wanted.len() {
            let mut requests = Vec::new();
            for host in spec.client_hosts() {
                requests.push((host.name.as_str(), request::release()));
            }
            for answer in hosts.ask_each(requests) {
                answer?;
            }
            undo_to(applied_steps, hosts, kept)?;
        }
        let mut facts = Vec::new();
        let mut clients = Vec::new();
        let mut requests = Vec::new();
        for host in lab.clients() {
            if host.name != lab.server.name {
                clients.push(&host.name);
                requests.push((host.name.as_str(), request::invalidate(how, None)));
            }
        }
        // The server last, since what clients still hold is written to it.
        let mut answers = hosts.ask_each(requests);
        let served = Some(lab.storage.place().to_owned());
        answers.push(hosts.ask(&lab.server.name, request::invalidate(how, served)));
        clients.push(&lab.server.name);
        for (host, answer) in clients.into_iter().zip(answers) {
            facts.extend(on_host(host, answer?));
        }
        bring_to(applied_steps, hosts, &wanted, stop)?;
        for fact in &mut facts {
            fact.name = format!("{pass}: {}", fact.name);
        }
        Ok(facts)
    })
}

/// Holds the clocks of the hosts that worked against ours: a caveat of each pass, where there is
/// one.
pub(crate) fn after_trial(walk: &mut Walk<'_>, spec: &RunSpec, trial: &mut Trial) {
    for host in spec.client_hosts() {
        let worker = host.name.as_str();
        if !walk.hosts.is_there(worker) {
            continue;
        }
        match walk.hosts.drift(worker) {
            Ok(drift) => {
                trial.facts.extend(drift.facts(worker));
                for pass in &mut trial.passes {
                    pass.caveats.extend(drift.caveat(worker));
                }
            }
            Err(why) if trial.state == TrialState::Done => trial.state = TrialState::Failed(why),
            // What went wrong first says more.
            Err(_) => {}
        }
    }
}
