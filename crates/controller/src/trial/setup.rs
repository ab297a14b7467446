//! Sets up the hosts of a run around its trial and its passes.
//!
//! Settings that don't take effect become caveats of every pass, or fail the trial if it is strict.
//! Caches are dropped by remounting: the last steps are undone and applied again.

use std::sync::atomic::AtomicBool;

use fleet::request;
use lab::{compose, fresh_from, redo_from};
use model::{Caveat, Fact, Fresh, Invalidation, LabSpec, Pass, RunSpec, Trial, TrialState};

use crate::hosts::Hosts;
use crate::hosts::applied_steps::on_host;
use crate::hosts::setup::{apply_wanted, undo_to};
use crate::trial::write_back;

/// Sets up the hosts for a run. Returns the caveats for each pass.
///
/// # Errors
/// If a host cannot be reached or set up, or a strict run doesn't get the settings it requested.
pub(crate) fn before_trial(
    hosts: &mut Hosts<'_>,
    stop: &AtomicBool,
    spec: &RunSpec,
    lab: &LabSpec,
    trial: &mut Trial,
) -> Result<Vec<Caveat>, String> {
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    hosts.connect_hosts(lab)?;
    hosts.with_applied_steps(|applied_steps, hosts| {
        if applied_steps.begins_fresh(spec, lab.fresh) {
            let kept = fresh_from(&applied_steps.to_steps());
            undo_to(applied_steps, hosts, kept)?;
        }
        apply_wanted(applied_steps, hosts, &wanted, stop)?;
        trial.facts.extend(applied_steps.facts());
        let differences = applied_steps.differences();
        if lab.strict && !differences.is_empty() {
            return Err(format!("not effective: {}", differences.join("; ")));
        }
        Ok(applied_steps.caveats())
    })
}

/// Returns what to redo before a pass: drop caches if the pass reads, and recreate exports and
/// mounts if every pass starts fresh. Before the first pass they are new already.
pub(crate) fn steps_before(spec: &RunSpec, lab: &LabSpec, pass: Pass) -> Invalidation {
    let looks = matches!(pass, Pass::GetXattr | Pass::Copy | Pass::SyncTree | Pass::RemoveTree);
    let reads = pass.reads() || pass.lists() || looks;
    let wanted = if reads { lab.invalidation } else { Invalidation::None };
    if lab.fresh == Fresh::Pass && spec.passes().first() != Some(&pass) {
        return wanted.max(Invalidation::ServerRemount);
    }
    wanted
}

/// Drops the caches that a pass must not read from. Returns what hosts had cached, and a caveat if
/// the system's own caches are not proved to be empty.
pub(crate) fn before_pass(
    hosts: &mut Hosts<'_>,
    stop: &AtomicBool,
    spec: &RunSpec,
    lab: &LabSpec,
    pass: Pass,
) -> Result<(Vec<Fact>, Option<Caveat>), String> {
    let how = steps_before(spec, lab, pass);
    let evicts = write_back::must_evict(lab, how);
    if how <= Invalidation::Files {
        // The agent that reads drops its own caches.
        return if evicts { write_back::evict(hosts, lab) } else { Ok((Vec::new(), None)) };
    }
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    let kept = redo_from(&wanted, how);
    hosts.with_applied_steps(|applied_steps, hosts| {
        if kept < wanted.len() {
            let requests: Vec<_> = spec
                .client_hosts()
                .iter()
                .map(|host| (host.name.as_str(), request::release()))
                .collect();
            for answer in hosts.ask_each(requests) {
                answer?;
            }
            undo_to(applied_steps, hosts, kept)?;
        }
        let mut facts = Vec::new();
        let mut requested = Vec::new();
        let mut requests = Vec::new();
        for host in lab.clients().filter(|host| !lab.is_server(&host.name)) {
            requested.push(&host.name);
            requests.push((host.name.as_str(), request::invalidate(how, None)));
        }
        // Servers go last, because clients still write dirty data to them.
        let mut answers = hosts.ask_each(requests);
        let storage_hosts = lab.storage_hosts();
        let mut requests = Vec::new();
        for host in lab.servers() {
            let served = storage_hosts.contains(&host).then(|| lab.storage.place().to_owned());
            requested.push(&host.name);
            requests.push((host.name.as_str(), request::invalidate(how, served)));
        }
        answers.extend(hosts.ask_each(requests));
        for (host, answer) in requested.into_iter().zip(answers) {
            facts.extend(on_host(host, answer?));
        }
        // Emptied last: clients that still had data have written it back by now.
        let mut caveat = None;
        if evicts {
            let (seen, not_evicted) = write_back::evict(hosts, lab)?;
            facts.extend(seen);
            caveat = not_evicted;
        }
        apply_wanted(applied_steps, hosts, &wanted, stop)?;
        for fact in &mut facts {
            fact.name = format!("{pass}: {}", fact.name);
        }
        Ok((facts, caveat))
    })
}

/// Compares the clocks of the client hosts with ours, and adds caveats to each pass if needed.
pub(crate) fn after_trial(hosts: &mut Hosts<'_>, spec: &RunSpec, trial: &mut Trial) {
    for host in spec.client_hosts() {
        let worker = host.name.as_str();
        if !hosts.is_there(worker) {
            continue;
        }
        match hosts.drift(worker) {
            Ok(drift) => {
                trial.facts.extend(drift.facts(worker));
                for pass in &mut trial.passes {
                    pass.caveats.extend(drift.caveat(worker));
                }
            }
            Err(why) if trial.state == TrialState::Done => trial.state = TrialState::Failed(why),
            // Ignore further errors: the first one is the more informative.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Host, Workload};

    use super::*;

    #[test]
    fn prepares_later_passes_only_if_asked() {
        let spec = RunSpec::null(Workload::Stream);
        let mut lab = LabSpec::new(Host::local("s"), Host::local("c"));
        lab.invalidation = Invalidation::Caches;
        let before = |lab: &LabSpec, pass| steps_before(&spec, lab, pass);
        assert_eq!(before(&lab, Pass::Write), Invalidation::None);
        assert_eq!(before(&lab, Pass::Read), Invalidation::Caches);
        lab.fresh = Fresh::Pass;
        assert_eq!(before(&lab, Pass::Write), Invalidation::None);
        assert_eq!(before(&lab, Pass::Rewrite), Invalidation::ServerRemount);
        assert_eq!(before(&lab, Pass::Read), Invalidation::ServerRemount);
        lab.invalidation = Invalidation::ServerRestart;
        assert_eq!(before(&lab, Pass::Read), Invalidation::ServerRestart);
    }
}
