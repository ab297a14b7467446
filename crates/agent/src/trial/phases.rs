//! The phases of io500: a trial with several sets of files, one of which is in use at a time.
//!
//! Each set is a part of the trial's working directory with a run and a target of its own, so all
//! that a phase does, counts and judges is that of a simpler pass on it. While a phase uses a part,
//! target and run of the trial are those of the part, and [`Phases`] keeps the whole.

use model::{Io500Files, Io500Part, Pass, RunSpec, Workload};

use engine::{TargetError, TrialTarget};

use super::Trial;

/// The parts of a trial of io500.
pub(super) struct Phases {
    /// The run as it was assigned.
    whole: RunSpec,
    /// The parts that were used so far.
    parts: Vec<PartOfTrial>,
    /// Index of the part in use. Its target is the whole one then.
    active: Option<usize>,
    /// The phase that was begun last.
    phase: Option<Pass>,
}

struct PartOfTrial {
    part: Io500Part,
    /// Its run, with the amounts that were written.
    spec: RunSpec,
    target: TrialTarget,
}

impl Phases {
    /// Returns the phases of a run, or `None` if it has ordinary passes.
    pub(super) fn new(spec: &RunSpec) -> Option<Self> {
        let whole = spec.clone();
        let is_io500 = spec.workload == Workload::Io500;
        is_io500.then(|| Self { whole, parts: Vec::new(), active: None, phase: None })
    }

    fn position(&self, part: Io500Part) -> Option<usize> {
        self.parts.iter().position(|known| known.part == part)
    }

    /// Returns the numbers of files in the sets of small files.
    fn files(&self) -> Io500Files {
        let count = |part| self.position(part).map_or(0, |index| self.parts[index].spec.files);
        Io500Files { easy: count(Io500Part::MdtestEasy), hard: count(Io500Part::MdtestHard) }
    }
}

impl Trial<'_> {
    /// Switches the trial to the files of a phase. Returns the pass that does its work, which is
    /// `pass` itself if it isn't a phase.
    pub(super) fn enter(&mut self, pass: Pass) -> Result<Pass, TargetError> {
        self.leave_part();
        let Some(phases) = &mut self.phases else { return Ok(pass) };
        phases.phase = Some(pass);
        let Some(part) = Io500Part::of_pass(pass) else {
            self.assignment.spec = phases.whole.io500_search(phases.files());
            return Ok(pass.base());
        };
        let index = if let Some(index) = phases.position(part) {
            index
        } else {
            let spec = phases.whole.io500_part(part);
            let (seed, name) = (self.assignment.seed, &self.assignment.work_name);
            let pattern = engine::target::pattern_of(&spec, seed, name);
            let pattern = pattern.reuse_pool(Some(self.target.content()));
            let target = self.target.create_part(part as u32, &spec, pattern)?;
            phases.parts.push(PartOfTrial { part, spec, target });
            phases.parts.len() - 1
        };
        let used = &mut phases.parts[index];
        self.assignment.spec = used.spec.in_io500_phase(pass);
        std::mem::swap(&mut self.target, &mut used.target);
        phases.active = Some(index);
        Ok(pass.base())
    }

    /// Makes target and run those of the whole trial again.
    pub(super) fn leave_part(&mut self) {
        let Some(phases) = &mut self.phases else { return };
        if let Some(index) = phases.active.take() {
            std::mem::swap(&mut self.target, &mut phases.parts[index].target);
        }
        self.assignment.spec.clone_from(&phases.whole);
    }

    /// Limits the part in use to what each worker has written until it was worn out.
    pub(super) fn set_level(&mut self, ops_each: u64) {
        let Some(phases) = &mut self.phases else { return };
        let Some(index) = phases.active else { return };
        let PartOfTrial { part, spec, .. } = &mut phases.parts[index];
        spec.set_io500_level(*part, ops_each);
        self.assignment.spec.set_io500_level(*part, ops_each);
    }

    /// Returns the phase that a pass belongs to, or the pass itself.
    pub(super) fn phase_of(&self, pass: Pass) -> Pass {
        self.phases.as_ref().and_then(|phases| phases.phase).unwrap_or(pass)
    }

    /// Returns the target with the whole working directory.
    pub(super) fn whole_target(&self) -> &TrialTarget {
        let Some(phases) = &self.phases else { return &self.target };
        phases.active.map_or(&self.target, |index| &phases.parts[index].target)
    }

    /// Closes the files of all parts that are not in use.
    pub(super) fn close_parts(&mut self) {
        for part in self.phases.iter_mut().flat_map(|phases| &mut phases.parts) {
            part.target.close_handles();
        }
    }
}
