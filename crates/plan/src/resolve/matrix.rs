//! The product of all factors.
//!
//! For each workload, target and backend, the levels of every relevant setting are multiplied in
//! the order of [`Setting::ALL`], the last one varying fastest. Irrelevant settings have a fixed
//! value, so runs that would do the same are equal, and duplicates are dropped.

use std::collections::HashSet;

use model::checkpoint::SCALE_ONE;
use model::setting::{Setting, Value};
use model::{BackendKind, NfsSettings, NfsVersion, RunSpec, Stable, Storage, Target, Workload};

use crate::resolve::checks::{self, WrittenSettings};
use crate::resolve::coverage::select_covering;
use crate::resolve::lab;
use crate::resolve::no_effect::{describe_idle, describe_overridden};
use crate::resolve::placement;
use crate::resolve::server::ServerPlan;
use crate::resolve::surroundings::Surroundings;
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::hosts::UsedFrom;
use crate::syntax::limits::RUNS_MAX;
use crate::syntax::raw::{RawPlan, RawTarget, RawWorkload};
use crate::syntax::settings::Settings;
use crate::syntax::suggestion::unknown_word;

/// The runs of a plan, and the settings that no run depends on.
pub(crate) struct Matrix {
    pub runs: Vec<RunSpec>,
    /// A warning for each setting that was written and has no effect on any run.
    pub without_effect: Vec<PlanError>,
    /// Number of runs that a scaled plan leaves out.
    pub thinned: usize,
}

/// Multiplies the factors of a plan with this in-memory server.
pub(crate) fn multiply(
    raw: &RawPlan,
    around: &Surroundings,
    server: &ServerPlan,
) -> Result<Matrix, PlanError> {
    let mut runs = Vec::new();
    // Index of the first run of each workload.
    let mut starts = Vec::new();
    let mut seen = HashSet::new();
    let mut refused = Vec::new();
    let mut used = UsedSettings::default();
    for (number, workload) in raw.workloads.iter().enumerate() {
        check_names(raw, workload)?;
        starts.push(runs.len());
        for (target, backend) in raw.places(workload) {
            let written = WrittenSettings {
                workload: &workload.settings,
                target: target.what.settings(),
                factors: &raw.factors,
                server,
            };
            placement::check(target, around, &written)?;
            let mut base = base_run(target, around, backend, workload);
            if let Some(scale) = raw.scale
                && base.workload == Workload::Checkpoint
            {
                base.checkpoint.scale_millionths = scale.apply(SCALE_ONE.into()) as u32;
            }
            for mut run in product(base, |setting, run| written.levels(setting, run))? {
                used.add(number, &run, &written);
                if run.workload == Workload::App {
                    run.command.limit_ms = run.timeout_ms;
                }
                match checks::contradiction(&run, &written) {
                    // Becomes a row with the reason if other runs of its group are possible.
                    Some(error) => refused.push((group(&run), error)),
                    None => checks::check(&run, &written)?,
                }
                if seen.insert(run.clone()) {
                    runs.push(run);
                }
            }
            if runs.len() > RUNS_MAX {
                return Err(too_many());
            }
        }
    }
    if runs.is_empty() {
        let fault = Fault::new("the plan has no runs")
            .hint("its workloads name only targets without the requested backends");
        return Err(fault.at(PlanPosition::Whole));
    }
    check_possible(&runs, refused)?;
    checks::lab::check_used(raw, &runs)?;
    let without_effect = used.list_unused(raw);
    // A plan may be reused for other runs, but a flag is typed for this one and must have an
    // effect.
    for unused in &without_effect {
        if let PlanPosition::Flag(_) = unused.place {
            return Err(unused.clone());
        }
    }
    let all = runs.len();
    if let Some(scale) = raw.scale {
        runs = select_covering(runs, &starts, scale.runs_kept(all));
    }
    let thinned = all - runs.len();
    Ok(Matrix { runs, without_effect, thinned })
}

/// Where a setting was written, to find out if it had an effect there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    Factors,
    Target(String),
    /// The workload with this index.
    Workload(usize),
}

/// The settings that some run depends on, each with the source of that run's level.
#[derive(Default)]
struct UsedSettings(HashSet<(Setting, Source)>);

impl UsedSettings {
    /// Adds the settings that a run of the workload with this index depends on.
    fn add(&mut self, number: usize, run: &RunSpec, written: &WrittenSettings<'_>) {
        for setting in Setting::ALL {
            if !setting.applies(run) {
                continue;
            }
            // In order of precedence.
            let source = if written.workload.get(setting).is_some() {
                Source::Workload(number)
            } else if let Some(own) = written.target
                && own.get(setting).is_some()
            {
                Source::Target(run.target_name.clone())
            } else if written.factors.get(setting).is_some() {
                Source::Factors
            } else {
                continue;
            };
            self.0.insert((setting, source));
        }
    }

    /// Returns a warning for each setting that was written and has no effect on any run.
    fn list_unused(&self, raw: &RawPlan) -> Vec<PlanError> {
        let mut unused = self.unused_settings(raw, &raw.factors, &Source::Factors);
        for target in &raw.targets {
            if let Some(settings) = target.what.settings() {
                let source = Source::Target(target.name.value.clone());
                unused.extend(self.unused_settings(raw, settings, &source));
            }
        }
        unused.extend(raw.workloads.iter().enumerate().flat_map(|(number, workload)| {
            self.unused_settings(raw, &workload.settings, &Source::Workload(number))
        }));
        for warning in &mut unused {
            warning.source_name.clone_from(&raw.source_name);
        }
        unused
    }

    fn unused_settings(
        &self,
        raw: &RawPlan,
        settings: &Settings,
        source: &Source,
    ) -> Vec<PlanError> {
        let mut unused = Vec::new();
        for setting in Setting::ALL {
            let Some([first, ..]) = settings.get(setting) else { continue };
            let is_used = self.0.contains(&(setting, source.clone()));
            // A ladder adds settings for its layers that were not written in the plan.
            if !is_used && first.place != PlanPosition::Whole {
                let is_set_elsewhere = self.0.iter().any(|(used, _)| *used == setting);
                let fault = if is_set_elsewhere {
                    describe_overridden()
                } else {
                    describe_idle(setting, raw)
                };
                unused.push(fault.of_key(setting.key(), first.place));
            }
        }
        unused
    }
}

/// Key of runs that belong together: those of one workload on one target.
fn group(run: &RunSpec) -> (String, Workload) {
    (run.target_name.clone(), run.workload)
}

/// Refuses a run that contradicts the protocols, unless other runs of its product are possible;
/// then it becomes a row with the reason. If none is possible, it can only be a mistake.
fn check_possible(
    runs: &[RunSpec],
    refused: Vec<((String, Workload), PlanError)>,
) -> Result<(), PlanError> {
    let possible: HashSet<_> =
        runs.iter().filter(|run| run.impossible().is_none()).map(group).collect();
    for (group, error) in refused {
        if !possible.contains(&group) {
            return Err(error);
        }
    }
    Ok(())
}

fn too_many() -> PlanError {
    Fault::new(format!("the factors give more than {RUNS_MAX} runs"))
        .hint("every list multiplies the runs: shorten some, or split the plan")
        .at(PlanPosition::Whole)
}

/// Refuses targets and backends that a workload names and the plan does not have.
fn check_names(raw: &RawPlan, workload: &RawWorkload) -> Result<(), PlanError> {
    let known: Vec<&str> = raw.targets.iter().map(|target| target.name.value.as_str()).collect();
    let known_names: HashSet<&str> = known.iter().copied().collect();
    for name in workload.targets.iter().flatten() {
        if !known_names.contains(name.value.as_str()) {
            return Err(unknown_word("target", &name.value, &known).of_key("targets", name.place));
        }
    }
    for backend in workload.backends.iter().flatten() {
        if !raw.places(workload).iter().any(|(_, other)| *other == backend.value) {
            let what = format!("no target of this workload has backend `{}`", backend.value.name());
            let hint = "name it under `backend` of a [[target]]";
            return Err(Fault::new(what).hint(hint).of_key("backends", backend.place));
        }
    }
    Ok(())
}

/// Creates a run in which every setting has the value that it has when it is irrelevant.
fn base_run(
    target: &RawTarget,
    around: &Surroundings,
    backend: BackendKind,
    workload: &RawWorkload,
) -> RunSpec {
    let mut what: Target = target.what.resolve(around, backend);
    if let Target::Nfs(nfs) = &mut what {
        nfs.settings = NfsSettings::default();
    }
    let mut run = RunSpec {
        target_name: target.name.value.clone(),
        target: what,
        backend,
        timeout_ms: Workload::Stream.default_timeout_ms(),
        lab: target.what.lab().map(|lab| Box::new(lab.spec(backend))),
        command: workload.command.clone(),
        op_mix: workload.mix.clone(),
        ..RunSpec::null(workload.kind.value)
    };
    run.placement.hosts = target.used_from.agents(around).to_vec();
    run.placement.of_job = target.used_from == UsedFrom::Job;
    lab::derive_fields(&mut run);
    run
}

/// Multiplies the levels of the relevant settings; `levels` is called with the earlier settings
/// already in the run.
pub(crate) fn product(
    base: RunSpec,
    levels: impl Fn(Setting, &RunSpec) -> Vec<Value>,
) -> Result<Vec<RunSpec>, PlanError> {
    let written_storage = base.lab.as_ref().map(|lab| lab.storage.clone());
    let mut runs = vec![base];
    for setting in Setting::ALL {
        let mut longer = Vec::with_capacity(runs.len());
        for run in runs {
            // Whether a setting is relevant depends on those before it in the table.
            if !setting.applies(&run) {
                longer.push(run);
                continue;
            }
            for level in levels(setting, &run) {
                let mut next = run.clone();
                lab::set_level(setting, &mut next, level);
                longer.push(next);
            }
            if longer.len() > RUNS_MAX {
                return Err(too_many());
            }
        }
        runs = longer;
    }
    for run in &mut runs {
        settle(run, written_storage.as_ref());
    }
    Ok(runs)
}

/// Sets values that are determined once all settings of a run are known.
fn settle(run: &mut RunSpec, written_storage: Option<&Storage>) {
    // Only the kind of server, which comes late, decides whether files are on a file system. If
    // not, runs that differ only in storage must become equal.
    if let (Some(lab), Some(storage)) = (&mut run.lab, written_storage)
        && !lab.has_storage()
    {
        lab.storage.clone_from(storage);
    }
    // A small file is written with one op, in pieces of this size.
    if !Setting::IoSize.applies(run) {
        run.io_size_bytes = run.small_file_piece().max(1);
    }
    // In v2, a WRITE is stable when it is answered.
    if let Target::Nfs(nfs) = &mut run.target
        && nfs.settings.version == NfsVersion::V2
    {
        nfs.settings.stable = Stable::FileSync;
    }
}
