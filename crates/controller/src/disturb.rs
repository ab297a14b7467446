//! What is done to the hosts of a soak while a pass of it runs, and undone.
//!
//! A [`Disturbing`] is looked at whenever an agent tells of its progress, ten times a second. The
//! server in this process is told by [`Walk::blow`]; a host is told as it is for all that is done
//! to it, so the undo log is on its disk first. What can't be done is noted and ends nothing: the
//! soak goes on without it.

use std::collections::VecDeque;

use model::soak::{Blow, Disturbance, Upset};
use model::{Pass, RunSpec};

use crate::Walk;

/// The disturbances of one pass.
#[derive(Default)]
pub(crate) struct Disturbing {
    /// Those that have not begun, with their instants.
    due: VecDeque<(u64, Disturbance)>,
    /// Those that have begun: their place in `upsets`, and when they end.
    open: Vec<(usize, u64)>,
    upsets: Vec<Upset>,
    started_ns: u64,
}

impl Disturbing {
    /// What is to be done in a pass of one segment.
    pub(crate) fn of(spec: &RunSpec, pass: Pass, segment: u32) -> Self {
        let soak = spec.soak.as_deref().filter(|_| pass == Pass::Mix);
        let within = soak.into_iter().flat_map(|soak| soak.within(segment.into()));
        let mut due: Vec<(u64, Disturbance)> =
            within.map(|(at_ns, one)| (at_ns, one.clone())).collect();
        due.sort_by_key(|(at_ns, _)| *at_ns);
        Self { due: due.into(), open: Vec::new(), upsets: Vec::new(), started_ns: 0 }
    }

    /// Takes note of when the pass began, by this host's clock.
    pub(crate) const fn start(&mut self, at_ns: u64) {
        self.started_ns = at_ns;
    }

    /// Does what is due, and undoes what is over.
    pub(crate) fn look(&mut self, walk: &mut Walk<'_>) {
        let at_ns = self.now_ns(walk);
        self.end_those(walk, |end_ns| end_ns <= at_ns);
        while let Some((planned_ns, one)) =
            self.due.pop_front_if(|(planned_ns, _)| *planned_ns <= at_ns)
        {
            self.begin(walk, planned_ns, &one);
        }
    }

    /// Undoes what is not over yet, and tells of all.
    pub(crate) fn finish(mut self, walk: &mut Walk<'_>) -> Vec<Upset> {
        self.end_those(walk, |_| true);
        self.upsets
    }

    fn begin(&mut self, walk: &mut Walk<'_>, planned_ns: u64, one: &Disturbance) {
        let Disturbance { blow, lasts_ms, .. } = *one;
        let done = match &walk.blow {
            Some(local) if one.host.is_none() => local(blow, lasts_ms),
            _ => Err(format!("there is no host to which {blow} can be done")),
        };
        let begun_ns = self.now_ns(walk);
        let lasts_ns = lasts_ms.saturating_mul(1_000_000);
        if done.is_ok() {
            self.open.push((self.upsets.len(), begun_ns.saturating_add(lasts_ns)));
        }
        self.upsets.push(Upset {
            blow,
            host: one.host.clone().unwrap_or_default(),
            planned_ns,
            begun_ns,
            ended_ns: None,
            failed: done.err(),
        });
    }

    fn end_those(&mut self, walk: &Walk<'_>, is_over: impl Fn(u64) -> bool) {
        let now_ns = self.now_ns(walk);
        let upsets = &mut self.upsets;
        self.open.retain(|(index, end_ns)| {
            if !is_over(*end_ns) {
                return true;
            }
            // The server in this process ends what lasts by itself.
            upsets[*index].ended_ns = Some((*end_ns).min(now_ns));
            false
        });
    }

    fn now_ns(&self, walk: &Walk<'_>) -> u64 {
        walk.hosts.now_ns().saturating_sub(self.started_ns)
    }
}

/// Does something to the server in this process, for so many milliseconds.
pub type LocalBlow<'a> = dyn Fn(Blow, u64) -> Result<(), String> + 'a;
