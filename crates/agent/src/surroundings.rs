//! Other activity while a pass was measured: CPU usage, tracers, and other campaigns in the target.
//!
//! [`Surroundings`] are checked before the workers start and after they finish, never while they
//! run. External programs are observed while they run, using a [`ProgramWatch`].

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use engine::external::ProgramMoment;
use engine::{Clock, Cpus, External, Neighbors, TrialTarget};
use lab::telemetry::processors::{self, ProgramWatch, Tracer};
use model::{Caveat, ProcessorWait, RunSpec, Share, Workload};

use crate::ProcessorUse;
use crate::caveats;
use crate::processor_use::{ProcessorWatch, ServerPlace};

/// CPU usage and tracers; see the module documentation.
pub(crate) struct Surroundings<'a> {
    processors: ProcessorWatch<'a>,
    tracers: BTreeSet<Tracer>,
}

impl<'a> Surroundings<'a> {
    /// Takes a first reading once all workers exist.
    pub(crate) fn begin(server: &'a ServerPlace, cpus: Option<Cpus>) -> Self {
        let tracers = processors::tracers_of(std::process::id());
        Self { processors: ProcessorWatch::begin(server, cpus), tracers }
    }

    /// Restarts counting CPU time right before the start.
    pub(crate) fn start(&self) {
        self.processors.start();
    }

    /// Takes a last look.
    pub(crate) fn end(mut self) -> (Option<ProcessorUse>, Option<Caveat>) {
        let used = self.processors.finish();
        self.tracers.append(&mut processors::tracers_of(std::process::id()));
        (used, caveats::about_tracers(&self.tracers))
    }

    /// Takes a last reading after an external program ran for `span_ns`.
    pub(crate) fn end_of_program(
        mut self,
        program: &FollowedProgram,
        spec: &RunSpec,
        span_ns: u64,
    ) -> (Option<ProcessorUse>, Option<Caveat>) {
        let program = program.0.borrow();
        // Only these two have workers; we don't know what the others start.
        let workers = match spec.workload {
            Workload::Fio | Workload::Iozone => spec.workers.max(1),
            _ => 1,
        };
        let of_ns = span_ns.saturating_mul(workers.into());
        let waited_ns = program.waited_ns().min(of_ns);
        let wait = ProcessorWait { waited_ns, held_ns: 0, of_ns };
        self.tracers.extend(program.tracers().iter().cloned());
        let (used, traced) = self.end();
        (used.map(|used| ProcessorUse { program_wait: Some(wait), ..used }), traced)
    }
}

/// Observes an external program.
pub(crate) struct FollowedProgram(Rc<RefCell<ProgramWatch>>);

impl FollowedProgram {
    /// Observes the program that the next pass starts.
    pub(crate) fn observe(external: &mut External, clock: Arc<dyn Clock>) -> Self {
        let watch = Rc::new(RefCell::new(ProgramWatch::default()));
        let observed = Rc::clone(&watch);
        external.observe_with(move |moment| match moment {
            ProgramMoment::Running(pid) => observed.borrow_mut().look(pid, clock.now_ns()),
            ProgramMoment::Ended(pid) => observed.borrow_mut().look_at_end(pid),
        });
        Self(watch)
    }
}

/// Detects other campaigns in the target of a trial.
pub(crate) struct NeighborWatch(RefCell<Option<Neighbors>>);

impl NeighborWatch {
    /// Takes a first look if this agent has the first workers: one agent per campaign is enough.
    pub(crate) fn begin(target: &TrialTarget, share: Share) -> Self {
        Self(RefCell::new(if share.first == 0 { target.neighbors() } else { None }))
    }

    /// Shows others that this campaign is active.
    pub(crate) fn show_life(&self, target: &TrialTarget) {
        if self.0.borrow().is_some() {
            target.show_life();
        }
    }

    /// After a pass, compares the target with the last look, and shows that this campaign is
    /// active.
    pub(crate) fn look(&self, target: &TrialTarget) -> Option<Caveat> {
        let mut last = self.0.borrow_mut();
        let before = last.as_ref()?;
        target.show_life();
        let now = target.neighbors()?;
        let active = now.active_since(before);
        *last = Some(now);
        caveats::about_neighbors(&active)
    }
}
