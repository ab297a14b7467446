//! What is done to the hosts of a soak while a pass of it runs, and undone.
//!
//! A [`Disturbing`] is looked at whenever an agent tells of its progress, ten times a second. The
//! server in this process is told by [`Walk::blow`]; a host is told as it is for all that is done
//! to it, so the undo log is on its disk first. What can't be done is noted and ends nothing: the
//! soak goes on without it.

use std::collections::VecDeque;

use fleet::{Order, Report};
use model::soak::{Blow, Disturbance, Upset};
use model::{LabSpec, LabStep, Pass, RunSpec};

use crate::Walk;

/// The disturbances of one pass.
#[derive(Default)]
pub(crate) struct Disturbing {
    /// Those that have not begun, with their instants.
    due: VecDeque<(u64, Disturbance)>,
    /// Those that have begun and are not over.
    open: Vec<Open>,
    /// How the run's hosts are set up, where they are.
    lab: Option<Box<LabSpec>>,
    upsets: Vec<Upset>,
    started_ns: u64,
}

/// A disturbance that is not over.
struct Open {
    /// Its place among all.
    index: usize,
    /// When it ends, in nanoseconds from the start of the pass.
    end_ns: u64,
    /// The host that has to undo it; the server in this process does so by itself.
    host: Option<String>,
}

impl Disturbing {
    /// What is to be done in a pass of one segment.
    pub(crate) fn of(spec: &RunSpec, pass: Pass, segment: u32) -> Self {
        let soak = spec.soak.as_deref().filter(|_| pass == Pass::Mix);
        let within = soak.into_iter().flat_map(|soak| soak.within(segment.into()));
        let mut due: Vec<(u64, Disturbance)> =
            within.map(|(at_ns, one)| (at_ns, one.clone())).collect();
        due.sort_by_key(|(at_ns, _)| *at_ns);
        Self { due: due.into(), lab: spec.lab.clone(), ..Self::default() }
    }

    /// Takes note of when the pass began, by this host's clock.
    pub(crate) const fn start(&mut self, at_ns: u64) {
        self.started_ns = at_ns;
    }

    /// Does what is due, and undoes what is over.
    pub(crate) fn look(&mut self, walk: &mut Walk<'_>) {
        let at_ns = self.now_ns(walk);
        self.end_those(walk, |end_ns| end_ns <= at_ns);
        while self.due.front().is_some_and(|(planned_ns, _)| *planned_ns <= at_ns) {
            let Some((planned_ns, one)) = self.due.pop_front() else { break };
            self.begin(walk, planned_ns, &one);
        }
    }

    /// Undoes what is not over yet, and tells of all.
    pub(crate) fn finish(mut self, walk: &mut Walk<'_>) -> Vec<Upset> {
        self.end_those(walk, |_| true);
        self.upsets
    }

    fn begin(&mut self, walk: &mut Walk<'_>, planned_ns: u64, one: &Disturbance) {
        let done = self.make(walk, one);
        let begun_ns = self.now_ns(walk);
        let end_ns = begun_ns.saturating_add(one.lasts_ms.saturating_mul(1_000_000));
        let (host, failed) = match done {
            Ok(host) => {
                self.open.push(Open { index: self.upsets.len(), end_ns, host: host.clone() });
                (host, None)
            }
            Err(why) => (one.host.clone(), Some(why)),
        };
        self.upsets.push(Upset {
            blow: one.blow,
            host: host.unwrap_or_default(),
            planned_ns,
            begun_ns,
            ended_ns: None,
            failed,
        });
    }

    /// Does it; the host that it was done to, which has to undo it.
    fn make(&self, walk: &mut Walk<'_>, one: &Disturbance) -> Result<Option<String>, String> {
        if let (Some(local), None, None) = (walk.blow, &self.lab, &one.host) {
            return local(one.blow, one.lasts_ms).map(|()| None);
        }
        let Some(lab) = &self.lab else {
            return Err(format!("there is no host to which {} can be done", one.blow));
        };
        let LabStep { host, action } = lab::disturbance(lab, one.blow)?;
        match walk.hosts.ask(&host, Order::Apply(Box::new(action)))? {
            Report::InForce(_) => Ok(Some(host)),
            other => unreachable!("an agent answers Apply with InForce or Failed, not {other:?}"),
        }
    }

    fn end_those(&mut self, walk: &mut Walk<'_>, is_over: impl Fn(u64) -> bool) {
        let open = std::mem::take(&mut self.open);
        let (over, open): (Vec<Open>, Vec<Open>) =
            open.into_iter().partition(|one| is_over(one.end_ns));
        self.open = open;
        // What was done last is undone first.
        for one in over.into_iter().rev() {
            let undone = match &one.host {
                Some(host) => walk.hosts.ask(host, Order::UndoLast).map(drop),
                None => Ok(()),
            };
            let now_ns = self.now_ns(walk);
            let upset = &mut self.upsets[one.index];
            match undone {
                Ok(()) if one.host.is_none() => upset.ended_ns = Some(one.end_ns.min(now_ns)),
                Ok(()) => upset.ended_ns = Some(now_ns),
                Err(why) => upset.failed = Some(format!("it could not be undone: {why}")),
            }
        }
    }

    fn now_ns(&self, walk: &Walk<'_>) -> u64 {
        walk.hosts.now_ns().saturating_sub(self.started_ns)
    }
}

/// Does something to the server in this process, for so many milliseconds.
pub type LocalBlow<'a> = dyn Fn(Blow, u64) -> Result<(), String> + 'a;
