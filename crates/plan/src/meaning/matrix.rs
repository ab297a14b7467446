//! The product of all factors.
//!
//! For each workload, target and backend, the levels of every setting that matters there are
//! multiplied, in the order of [`Setting::ALL`], the last varying fastest. A setting that doesn't
//! matter has one fixed value, so runs that would do the same are equal, and only the first of
//! equal runs is kept.

use std::collections::HashSet;

use model::setting::{Setting, Value};
use model::{BackendKind, NfsSettings, NfsVersion, RunSpec, Stable, Target, Workload};

use crate::meaning::checks::{self, Written};
use crate::meaning::lab;
use crate::meaning::placement;
use crate::meaning::server::ServerPlan;
use crate::meaning::surroundings::Surroundings;
use crate::written::error::{Fault, Place, PlanError};
use crate::written::hosts::UsedFrom;
use crate::written::limits::RUNS_MAX;
use crate::written::near::unknown_word;
use crate::written::raw::{RawPlan, RawTarget, RawWorkload};
use crate::written::settings::Settings;

/// The runs of a plan, and what was written for none of them.
pub(crate) struct Matrix {
    pub runs: Vec<RunSpec>,
    /// A warning for each setting that was written and that no run depends on.
    pub without_effect: Vec<PlanError>,
}

/// Multiplies the factors of a plan with this in-memory server.
pub(crate) fn multiply(
    raw: &RawPlan,
    around: &Surroundings,
    server: &ServerPlan,
) -> Result<Matrix, PlanError> {
    let mut runs = Vec::new();
    let mut seen = HashSet::new();
    let mut refused = Vec::new();
    let mut used = UsedSettings::default();
    for (number, workload) in raw.workloads.iter().enumerate() {
        check_names(raw, workload)?;
        for (target, backend) in places(raw, workload) {
            let written = Written {
                workload: &workload.settings,
                target: target.what.settings(),
                factors: &raw.factors,
                server,
            };
            placement::check(target, around, &written)?;
            let mut base = base(target, around, backend, workload.kind.value);
            base.command = workload.command.clone();
            base.op_mix = workload.mix.clone();
            for mut run in product(base, |setting, run| written.levels(setting, run))? {
                used.add(number, &run, &written);
                if run.workload == Workload::App {
                    run.command.limit_ms = run.timeout_ms;
                }
                match checks::contradiction(&run, &written) {
                    // A row that says why, if others of its kind can be made.
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
        let fault = Fault::new("the plan makes no run")
            .hint("its workloads name only targets that the backends asked for don't fit");
        return Err(fault.at(Place::Whole));
    }
    check_possible(&runs, refused)?;
    checks::lab::check_used(raw, &runs)?;
    let without_effect = used.list_unused(raw);
    // Whoever typed a flag expects it to change something.
    if let Some(flag) = without_effect.iter().find(|idle| matches!(idle.place, Place::Flag(_))) {
        return Err(flag.clone());
    }
    Ok(Matrix { runs, without_effect })
}

/// The place where a setting was written, for the question whether it had any effect there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    Factors,
    Target(String),
    /// The workload of this number.
    Workload(usize),
}

/// The settings that some run depends on, each with the place where that run's level was written.
#[derive(Default)]
struct UsedSettings(HashSet<(Setting, Source)>);

impl UsedSettings {
    /// Adds what a run of the workload of this number depends on.
    fn add(&mut self, number: usize, run: &RunSpec, written: &Written<'_>) {
        for setting in Setting::ALL {
            if !setting.applies(run) {
                continue;
            }
            let is_of_target = || written.target.is_some_and(|own| own.get(setting).is_some());
            let source = if written.workload.get(setting).is_some() {
                Source::Workload(number)
            } else if is_of_target() {
                Source::Target(run.target_name.clone())
            } else if written.factors.get(setting).is_some() {
                Source::Factors
            } else {
                continue;
            };
            self.0.insert((setting, source));
        }
    }

    /// Lists a warning for each setting that was written and that no run depends on.
    fn list_unused(&self, raw: &RawPlan) -> Vec<PlanError> {
        let mut unused = self.unused_of(&raw.factors, &Source::Factors);
        for target in &raw.targets {
            if let Some(settings) = target.what.settings() {
                unused.extend(self.unused_of(settings, &Source::Target(target.name.value.clone())));
            }
        }
        for (number, workload) in raw.workloads.iter().enumerate() {
            unused.extend(self.unused_of(&workload.settings, &Source::Workload(number)));
        }
        unused.into_iter().map(|warning| warning.in_source(&raw.source_name)).collect()
    }

    fn unused_of(&self, settings: &Settings, source: &Source) -> Vec<PlanError> {
        let mut unused = Vec::new();
        for setting in Setting::ALL {
            let Some([first, ..]) = settings.get(setting) else { continue };
            let is_used = self.0.contains(&(setting, source.clone()));
            // A ladder sets some for its layers that nobody wrote.
            if !is_used && first.place != Place::Whole {
                let fault = Fault::new("no run of this plan depends on it");
                unused.push(fault.hint(setting.meaning()).of(setting.key(), first.place));
            }
        }
        unused
    }
}

/// Runs that belong together: those of one workload on one target.
fn group(run: &RunSpec) -> (String, Workload) {
    (run.target_name.clone(), run.workload)
}

/// Refuses what contradicts the protocols unless it came out of a product with runs that don't:
/// what was named on its own is not wanted as a row.
fn check_possible(
    runs: &[RunSpec],
    refused: Vec<((String, Workload), PlanError)>,
) -> Result<(), PlanError> {
    let possible: HashSet<_> =
        runs.iter().filter(|run| run.impossible().is_none()).map(group).collect();
    let alone = refused.into_iter().find(|(group, _)| !possible.contains(group));
    alone.map_or(Ok(()), |(_, error)| Err(error))
}

fn too_many() -> PlanError {
    Fault::new(format!("the factors make more than {RUNS_MAX} runs"))
        .hint("every list multiplies the runs: shorten some, or split the plan")
        .at(Place::Whole)
}

/// Refuses targets and backends that a workload names but the plan doesn't have.
fn check_names(raw: &RawPlan, workload: &RawWorkload) -> Result<(), PlanError> {
    let known: Vec<&str> = raw.targets.iter().map(|target| target.name.value.as_str()).collect();
    for name in workload.targets.iter().flatten() {
        if !known.contains(&name.value.as_str()) {
            return Err(unknown_word("target", &name.value, &known).of("targets", name.place));
        }
    }
    for backend in workload.backends.iter().flatten() {
        if !places(raw, workload).any(|(_, other)| other == backend.value) {
            let what = format!("no target of this workload has backend `{}`", backend.value.name());
            let hint = "name it under `backend` of a [[target]]";
            return Err(Fault::new(what).hint(hint).of("backends", backend.place));
        }
    }
    Ok(())
}

/// Pairs each target of a workload with each backend.
fn places<'a>(
    raw: &'a RawPlan,
    workload: &'a RawWorkload,
) -> impl Iterator<Item = (&'a RawTarget, BackendKind)> {
    let wanted_target = move |target: &&RawTarget| {
        let names = workload.targets.as_ref();
        names.is_none_or(|names| names.iter().any(|name| name.value == target.name.value))
    };
    let wanted_backend = move |backend: BackendKind| {
        let names = workload.backends.as_ref();
        names.is_none_or(|names| names.iter().any(|name| name.value == backend))
    };
    raw.targets.iter().filter(wanted_target).flat_map(move |target| {
        let backends = target.backends.iter().copied().filter(move |b| wanted_backend(*b));
        backends.map(move |backend| (target, backend))
    })
}

/// A run in which every setting has the value it has where it doesn't matter.
fn base(
    target: &RawTarget,
    around: &Surroundings,
    backend: BackendKind,
    workload: Workload,
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
        ..RunSpec::null(workload)
    };
    run.placement.hosts = target.used_from.agents(around).to_vec();
    run.placement.of_job = target.used_from == UsedFrom::Job;
    lab::aim(&mut run);
    run
}

/// Multiplies the levels of the settings that matter; `levels` sees the settings before its own.
pub(crate) fn product(
    base: RunSpec,
    levels: impl Fn(Setting, &RunSpec) -> Vec<Value>,
) -> Result<Vec<RunSpec>, PlanError> {
    let storage = base.lab.as_ref().map(|lab| lab.storage.clone());
    let mut runs = vec![base];
    for setting in Setting::ALL {
        let mut longer = Vec::with_capacity(runs.len());
        for run in runs {
            if !setting.applies(&run) {
                longer.push(without(setting, run));
                continue;
            }
            for level in levels(setting, &run) {
                let mut next = run.clone();
                lab::put(setting, &mut next, level);
                longer.push(next);
            }
            if longer.len() > RUNS_MAX {
                return Err(too_many());
            }
        }
        runs = longer;
    }
    // Only the kind of the server, which comes later, says whether files lie on a file system.
    let labs = runs.iter_mut().filter_map(|run| run.lab.as_mut());
    for lab in labs.filter(|lab| !lab.has_storage()) {
        lab.storage.clone_from(storage.as_ref().expect("a product keeps its hosts"));
    }
    Ok(runs)
}

/// Gives a setting that doesn't matter its one value: a small file is written with one op, and a
/// WRITE of v2 is safe when it is answered.
fn without(setting: Setting, mut run: RunSpec) -> RunSpec {
    match (setting, &mut run.target) {
        (Setting::IoSize, _) => run.io_size_bytes = run.file_size_bytes.max(1) as u32,
        (Setting::Stable, Target::Nfs(nfs)) if nfs.settings.version == NfsVersion::V2 => {
            nfs.settings.stable = Stable::FileSync;
        }
        _ => {}
    }
    run
}
