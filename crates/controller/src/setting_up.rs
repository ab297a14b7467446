//! Sets up the hosts of a run around its trial and its passes.
//!
//! Settings that are not effective become caveats of every pass, or fail a trial that is strict.
//! Caches are dropped by remounting: the last of the applied steps are undone and applied again.

use fleet::request;
use lab::{compose, fresh_from, redo_from};
use model::{Caveat, Fact, Fresh, Invalidation, LabSpec, Pass, RunSpec, Trial, TrialState};

use crate::Walk;
use crate::applied_steps::on_host;
use crate::host_setup::{bring_to, undo_to};

/// Brings the hosts to what a run wants; returns the caveats for each pass.
///
/// # Errors
/// When a host can't be reached or set up, or a strict run does not get what it requested.
pub(crate) fn before_trial(
    walk: &mut Walk<'_>,
    spec: &RunSpec,
    lab: &LabSpec,
    trial: &mut Trial,
) -> Result<Vec<Caveat>, String> {
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    walk.hosts.reach(lab)?;
    let stop = walk.stop;
    walk.hosts.with_applied_steps(|applied_steps, hosts| {
        if applied_steps.begins_fresh(spec, lab.fresh) {
            let kept = fresh_from(&applied_steps.bare());
            undo_to(applied_steps, hosts, kept)?;
        }
        bring_to(applied_steps, hosts, &wanted, stop)?;
        trial.facts.extend(applied_steps.facts());
        let differences = applied_steps.differences();
        if lab.strict && !differences.is_empty() {
            return Err(format!("not effective: {}", differences.join("; ")));
        }
        Ok(applied_steps.caveats())
    })
}

/// Returns the steps before a pass of a trial: those before it reads, and where each pass begins
/// afresh those by which exports and mounts are made again. The first pass of a trial finds them
/// so.
pub(crate) fn steps_before(spec: &RunSpec, lab: &LabSpec, pass: Pass) -> Invalidation {
    let reads = pass.reads() || pass == Pass::GetXattr;
    let wanted = if reads { lab.invalidation } else { Invalidation::None };
    if lab.fresh == Fresh::Pass && spec.passes().first() != Some(&pass) {
        return wanted.max(Invalidation::ServerRemount);
    }
    wanted
}

/// Drops the caches that a pass must not read from, and returns what hosts had in memory.
///
/// # Errors
/// When a host is lost or can't forget.
pub(crate) fn before_pass(
    walk: &mut Walk<'_>,
    spec: &RunSpec,
    lab: &LabSpec,
    pass: Pass,
) -> Result<Vec<Fact>, String> {
    let how = steps_before(spec, lab, pass);
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
        let mut requested = Vec::new();
        let mut requests = Vec::new();
        for host in lab.clients().filter(|host| !lab.is_server(&host.name)) {
            requested.push(&host.name);
            requests.push((host.name.as_str(), request::invalidate(how, None)));
        }
        // Servers last, since what clients still hold is written to them.
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
        bring_to(applied_steps, hosts, &wanted, stop)?;
        for fact in &mut facts {
            fact.name = format!("{pass}: {}", fact.name);
        }
        Ok(facts)
    })
}

/// Compares the clocks of the hosts that worked with ours; raises a caveat of each pass, where
/// there is one.
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

#[cfg(test)]
mod tests {
    use model::{Host, Workload};

    use super::*;

    #[test]
    fn further_passes_begin_afresh_only_where_each_shall() {
        let spec = RunSpec::null(Workload::Stream);
        let mut lab = LabSpec::new(Host::here("s"), Host::here("c"));
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
