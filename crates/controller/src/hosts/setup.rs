//! Applies the steps that a run needs to the hosts of a campaign, and undoes all of them at the
//! end.
//!
//! Between two runs, the steps returned by [`lab::reusable_steps`] are kept. The others are undone
//! in reverse order, and missing ones are applied, so that only changed settings and whatever
//! depends on them are redone. A step that several hosts have in common is applied to all of them
//! at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::discriminant;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fleet::request;
use lab::{after_power_loss, redo_from, reusable_steps};
use model::{Action, Invalidation, LabSpec, LabStep};

use crate::hosts::Hosts;
use crate::hosts::applied_steps::{AppliedStep, AppliedSteps};

/// Brings the hosts to the wanted steps.
///
/// # Errors
/// If a step cannot be applied or undone, or `stop` is set; the error is a sentence. If a step
/// fails, everything is undone as far as possible.
pub(crate) fn apply_wanted(
    applied: &mut AppliedSteps,
    hosts: &mut Hosts<'_>,
    wanted: &[LabStep],
    stop: &AtomicBool,
) -> Result<(), String> {
    applied.steps.retain(|applied| hosts.loss_reason(&applied.step.host).is_none());
    let (is_kept, _) = reusable_steps(&applied.to_steps(), wanted);
    // On each host, the kept steps were applied before the others, whatever their order relative to
    // other hosts. So moving the others to the end doesn't change the order on any host.
    let mut kept = Vec::new();
    let mut outdated = Vec::new();
    for (index, applied) in applied.steps.drain(..).enumerate() {
        if is_kept[index] { kept.push(applied) } else { outdated.push(applied) }
    }
    let kept_count = kept.len();
    kept.append(&mut outdated);
    applied.steps = kept;
    undo_to(applied, hosts, kept_count)?;
    if let Err(why) = apply_missing(applied, hosts, wanted, stop) {
        let mut reasons = vec![why];
        for (_, left) in undo_all(applied, hosts) {
            if left != reasons[0] {
                reasons.push(left);
            }
        }
        return Err(reasons.join("; "));
    }
    Ok(())
}

/// Applies the wanted steps that are not applied yet.
///
/// # Errors
/// If a step cannot be applied, or `stop` is set; the error is a sentence. Steps applied so far
/// stay, so this can be called again.
pub(crate) fn apply_missing(
    applied: &mut AppliedSteps,
    hosts: &mut Hosts<'_>,
    wanted: &[LabStep],
    stop: &AtomicBool,
) -> Result<(), String> {
    let (_, is_there) = reusable_steps(&applied.to_steps(), wanted);
    let missing: Vec<_> = wanted
        .iter()
        .enumerate()
        .filter(|(index, _)| !is_there[*index])
        .map(|(_, step)| step)
        .collect();
    let mut missing = missing.as_slice();
    while !missing.is_empty() {
        let (batch, rest) = missing.split_at(count_at_once(missing));
        missing = rest;
        if stop.load(Relaxed) {
            return Err("interrupted".to_owned());
        }
        apply(applied, hosts, batch)?;
    }
    sort_like(applied, wanted);
    Ok(())
}

/// Applies the wanted steps, from the given one on, to the storage host after its power loss. Steps
/// of clients are left out.
///
/// # Errors
/// If a step cannot be applied; the error is a sentence.
pub(crate) fn apply_after_power_loss(
    applied: &mut AppliedSteps,
    hosts: &mut Hosts<'_>,
    lab: &LabSpec,
    wanted: &[LabStep],
    from: usize,
) -> Result<(), String> {
    let host = &lab.keeper().name;
    let served = &wanted[..redo_from(wanted, Invalidation::Remount)];
    for step in served.iter().filter(|step| step.host == *host).skip(from) {
        let action = after_power_loss(lab, &step.action);
        let effective = hosts.ask(host, request::apply(action))?;
        applied.steps.push(AppliedStep { step: step.clone(), effective });
    }
    sort_like(applied, wanted);
    Ok(())
}

/// Applies one step on each of several hosts at once.
fn apply(
    applied: &mut AppliedSteps,
    hosts: &mut Hosts<'_>,
    batch: &[&LabStep],
) -> Result<(), String> {
    let requests: Vec<_> = batch
        .iter()
        .map(|step| (step.host.as_str(), request::apply(step.action.clone())))
        .collect();
    let mut refused = Vec::new();
    for (step, answer) in batch.iter().zip(hosts.ask_each(requests)) {
        match answer {
            Ok(effective) => applied.steps.push(AppliedStep { step: (*step).clone(), effective }),
            Err(why) => refused.push(why),
        }
    }
    if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
}

/// Sorts the applied steps as in `wanted`. The order on each host is already the same.
fn sort_like(applied: &mut AppliedSteps, wanted: &[LabStep]) {
    let mut of_hosts: BTreeMap<String, VecDeque<AppliedStep>> = BTreeMap::new();
    for applied in applied.steps.drain(..) {
        of_hosts.entry(applied.step.host.clone()).or_default().push_back(applied);
    }
    for step in wanted {
        if let Some(of_host) = of_hosts.get_mut(&step.host) {
            applied.steps.extend(of_host.pop_front());
        }
    }
}

/// Undoes the latest steps until `kept` are left.
///
/// # Errors
/// If a step cannot be undone; it then remains the last one.
pub(crate) fn undo_to(
    applied: &mut AppliedSteps,
    hosts: &mut Hosts<'_>,
    kept: usize,
) -> Result<(), String> {
    while applied.steps.len() > kept {
        let top = count_on_top(&applied.steps[kept..]);
        let mut batch = applied.steps.split_off(applied.steps.len() - top);
        // The agent of a lost host undoes its steps on its own.
        batch.retain(|applied| hosts.loss_reason(&applied.step.host).is_none());
        let requests: Vec<_> = batch
            .iter()
            .map(|applied| (applied.step.host.as_str(), request::undo_last()))
            .collect();
        let answers = hosts.ask_each(requests);
        let mut refused = Vec::new();
        for (step, answer) in batch.into_iter().zip(answers) {
            if let Err(why) = answer {
                applied.steps.push(step);
                refused.push(why);
            }
        }
        if !refused.is_empty() {
            let refused = refused.join("; ");
            return Err(format!("earlier changes could not be undone: {refused}"));
        }
    }
    Ok(())
}

/// Undoes everything, continuing with other hosts if one fails. Returns what could not be undone,
/// each with its host.
fn undo_all(applied: &mut AppliedSteps, hosts: &mut Hosts<'_>) -> Vec<(String, String)> {
    let mut stuck: BTreeSet<String> = BTreeSet::new();
    let mut left = Vec::new();
    while !applied.steps.is_empty() {
        let top = count_on_top(&applied.steps);
        let mut names = Vec::with_capacity(top);
        for applied in applied.steps.split_off(applied.steps.len() - top).into_iter().rev() {
            let host = applied.step.host;
            if hosts.loss_reason(&host).is_none() && !stuck.contains(&host) {
                names.push(host);
            }
        }
        let requests: Vec<_> =
            names.iter().map(|host| (host.as_str(), request::undo_last())).collect();
        let answers = hosts.ask_each(requests);
        for (host, answer) in names.into_iter().zip(answers) {
            if answer.is_err() {
                // The agent continues past steps that it cannot undo, and reports all of them.
                if let Err(why) = hosts.ask(&host, request::undo_all()) {
                    left.push((host.clone(), why));
                    hosts.not_restored.insert(host.clone());
                }
                stuck.insert(host);
            }
        }
    }
    left
}

impl Hosts<'_> {
    /// Undoes all applied steps. Returns what could not be undone.
    pub fn undo_all(&mut self) -> Vec<String> {
        let left = self.with_applied_steps(undo_all);
        left.into_iter().map(|(_, why)| why).collect()
    }

    /// Undoes everything and disconnects from all agents. Returns what could not be undone.
    pub fn leave(&mut self) -> Vec<String> {
        let mut left = self.with_applied_steps(undo_all);
        // What could not be undone before may be possible now, without what depended on it.
        for host in std::mem::take(&mut self.not_restored) {
            if self.loss_reason(&host).is_some() {
                continue;
            }
            left.retain(|(of, _)| *of != host);
            if let Err(why) = self.ask(&host, request::undo_all()) {
                left.push((host, why));
            }
        }
        let of_agents = self.leave_agents();
        left.extend(of_agents.into_iter().filter(|(host, _)| self.may_be_changed(host)));
        let mut reasons: Vec<String> = Vec::new();
        for (_, why) in left {
            if !reasons.contains(&why) {
                reasons.push(why);
            }
        }
        reasons
    }
}

/// Returns how many steps, counted from the last, can be undone at the same time.
fn count_on_top(applied: &[AppliedStep]) -> usize {
    let steps: Vec<_> = applied.iter().rev().map(|one| &one.step).collect();
    count_at_once(&steps)
}

/// Returns how many of the first steps can be applied at the same time: steps of one kind, each on
/// a different host. Steps of a recipe depend on each other even across hosts.
fn count_at_once(steps: &[&LabStep]) -> usize {
    let mut hosts: BTreeSet<&str> = BTreeSet::new();
    let mut kind = None;
    let mut count = 0;
    for step in steps {
        let this = discriminant(&step.action);
        if *kind.get_or_insert(this) != this || !hosts.insert(&step.host) {
            break;
        }
        count += 1;
        if matches!(step.action, Action::SystemSteps(_)) {
            break;
        }
    }
    count
}
