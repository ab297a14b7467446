//! What is applied to the hosts of a campaign, as one stack.
//!
//! Between two runs the longest common beginning of what is applied and what is wanted stays; the
//! rest is undone from the top, and what is new is applied. So only settings that changed, and
//! what stands on them, are redone. What lies on a lost host is forgotten here: its agent undoes
//! it by itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fleet::{Order, Report};
use model::{Caveat, CaveatCode, Difference, Fact, InForce, LabStep};

use crate::hosts::Hosts;

/// What is applied, the oldest first, with what came of it.
#[derive(Default)]
pub(crate) struct Stack {
    applied: Vec<(LabStep, InForce)>,
}

impl Stack {
    /// Brings the hosts to what is wanted.
    ///
    /// # Errors
    /// When a step can't be applied or undone, or `stop` is set; in a sentence. After a step that
    /// failed nothing is applied any more, as far as it could be undone.
    pub(crate) fn bring_to(
        &mut self,
        hosts: &mut Hosts<'_>,
        wanted: &[LabStep],
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let same = self.applied.iter().zip(wanted).take_while(|((is, _), step)| is == *step);
        let lost = self.applied.iter().position(|(step, _)| hosts.lost(&step.host).is_some());
        let kept = same.count().min(lost.unwrap_or(usize::MAX));
        self.undo_to(hosts, kept)?;
        for step in &wanted[kept..] {
            if stop.load(Relaxed) {
                return Err("interrupted".to_owned());
            }
            let order = Order::Apply(Box::new(step.action.clone()));
            match hosts.ask(&step.host, order) {
                Ok(Report::InForce(in_force)) => self.applied.push((step.clone(), in_force)),
                Ok(other) => unreachable!("an agent answers Apply with InForce, not {other:?}"),
                Err(why) => {
                    let further = self.clear(hosts).into_iter().filter(|left| *left != why);
                    let all: Vec<String> = [why.clone()].into_iter().chain(further).collect();
                    return Err(all.join("; "));
                }
            }
        }
        Ok(())
    }

    /// Undoes from the top until so many are left.
    ///
    /// # Errors
    /// When one can't be undone, which then stays on top.
    pub(crate) fn undo_to(&mut self, hosts: &mut Hosts<'_>, kept: usize) -> Result<(), String> {
        while let Some((step, _)) = self.applied.get(kept).and(self.applied.last()) {
            let host = step.host.clone();
            if hosts.lost(&host).is_none() {
                let undone = hosts.ask(&host, Order::UndoLast);
                undone.map_err(|why| format!("what was done before can't be undone: {why}"))?;
            }
            self.applied.pop();
        }
        Ok(())
    }

    /// Undoes everything, and goes on with the other hosts where one can't; says what is left.
    pub(crate) fn clear(&mut self, hosts: &mut Hosts<'_>) -> Vec<String> {
        let mut stuck = BTreeSet::new();
        let mut left = Vec::new();
        while let Some((LabStep { host, .. }, _)) = self.applied.pop() {
            if hosts.lost(&host).is_some() || stuck.contains(&host) {
                continue;
            }
            if hosts.ask(&host, Order::UndoLast).is_err() {
                // Its agent goes on past what it can't undo, and tells of all of it.
                left.extend(hosts.ask(&host, Order::UndoAll).err());
                stuck.insert(host);
            }
        }
        left
    }

    /// Forgets what is applied to a host, since its agent undoes it.
    pub(crate) fn forget(&mut self, host: &str) {
        self.applied.retain(|(step, _)| step.host != host);
    }

    /// What is in force, under the names of the hosts.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let of =
            |(step, in_force): &(LabStep, InForce)| on_host(&step.host, in_force.facts.clone());
        self.applied.iter().flat_map(of).collect()
    }

    /// What is not as it was asked for, a sentence each.
    pub(crate) fn differences(&self) -> Vec<String> {
        let all = self.applied.iter().flat_map(|(step, in_force)| {
            in_force.differences.iter().map(|difference| told(&step.host, difference))
        });
        all.collect()
    }

    /// A doubt for each.
    pub(crate) fn caveats(&self) -> Vec<Caveat> {
        let doubt = |told: String| CaveatCode::OptionNotInForce.because(told);
        self.differences().into_iter().map(doubt).collect()
    }
}

/// Facts that an agent told of its host.
pub(crate) fn on_host(host: &str, mut facts: Vec<Fact>) -> Vec<Fact> {
    for fact in &mut facts {
        host.clone_into(&mut fact.scope);
    }
    facts
}

fn told(host: &str, difference: &Difference) -> String {
    let Difference { name, asked, found, source } = difference;
    format!("{name} on host {host}: asked for {asked}, found {found} ({source})")
}
