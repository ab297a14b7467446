//! The product of all factors.
//!
//! For each workload, target and backend, the levels of every setting that matters there are
//! multiplied, in the order of [`Setting::ALL`], the last varying fastest. A setting that doesn't
//! matter has one fixed value, so runs that would do the same are equal, and only the first of
//! equal runs is kept.

use std::collections::HashSet;

use model::{
    BackendKind, DataPath, NfsSettings, NfsVersion, Pass, Proto, RunSpec, ServerKind, Sharing,
    Stable, Target, Workload,
};

use crate::checks::{self, Written};
use crate::defaults;
use crate::error::{Fault, Place, PlanError};
use crate::keys::{meaning, unknown_word};
use crate::lab;
use crate::limits::RUNS_MAX;
use crate::placement::{self, UsedFrom};
use crate::raw::{RawPlan, RawTarget, RawWorkload};
use crate::resolve::Surroundings;
use crate::server::ServerPlan;
use crate::setting::{Setting, Value};

/// Makes the runs of a plan with this in-memory server.
pub(crate) fn runs(
    raw: &RawPlan,
    around: &Surroundings,
    server: &ServerPlan,
) -> Result<Vec<RunSpec>, PlanError> {
    let mut runs = Vec::new();
    let mut seen = HashSet::new();
    let mut refused = Vec::new();
    for workload in &raw.workloads {
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
    check_flags(raw)?;
    Ok(runs)
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

impl RawPlan {
    /// Lists the settings that were written but that no run depends on, as warnings.
    ///
    /// Those of flags are errors of [`crate::Plan::resolve`] already.
    pub fn without_effect(&self) -> Vec<PlanError> {
        let of_factors = Setting::ALL.into_iter().filter_map(|setting| {
            let matters = |workload: &RawWorkload| {
                workload.settings.get(setting).is_none() && matters(self, workload, setting)
            };
            let idle = !self.workloads.iter().any(matters);
            Some((setting, self.factors.get(setting)?[0].place)).filter(|_| idle)
        });
        let of_targets = self.targets.iter().flat_map(|target| {
            let settings = target.what.settings();
            Setting::OF_TARGETS.into_iter().filter_map(move |setting| {
                let place = settings?.get(setting)?[0].place;
                let matters = |workload: &RawWorkload| {
                    let named = |(other, _): (&RawTarget, _)| other.name == target.name;
                    places(self, workload).any(|place| {
                        let backend = place.1;
                        named(place) && counts(self, workload, target, backend, setting)
                    })
                };
                Some((setting, place)).filter(|_| !self.workloads.iter().any(matters))
            })
        });
        let of_workloads = self.workloads.iter().flat_map(|workload| {
            Setting::ALL.into_iter().filter_map(move |setting| {
                let place = workload.settings.get(setting)?[0].place;
                Some((setting, place)).filter(|_| !matters(self, workload, setting))
            })
        });
        let warning = |(setting, place): (Setting, Place)| {
            let fault = Fault::new("no run of this plan depends on it");
            fault.hint(meaning(setting)).of(setting.key(), place).in_source(&self.source_name)
        };
        let all = of_factors.chain(of_targets).chain(of_workloads);
        // What a ladder sets on its rungs nobody wrote.
        all.filter(|(_, place)| *place != Place::Whole).map(warning).collect()
    }
}

fn matters(raw: &RawPlan, workload: &RawWorkload, setting: Setting) -> bool {
    places(raw, workload).any(|(target, backend)| counts(raw, workload, target, backend, setting))
}

/// Says whether some run of a workload at a place depends on a setting.
fn counts(
    raw: &RawPlan,
    workload: &RawWorkload,
    target: &RawTarget,
    backend: BackendKind,
    setting: Setting,
) -> bool {
    let some = |of: Setting, wanted: &dyn Fn(&Value) -> bool| {
        let own = workload.settings.get(of).or_else(|| target.what.settings()?.get(of));
        let levels = own.or_else(|| raw.factors.get(of));
        levels.is_some_and(|levels| levels.iter().any(|level| wanted(&level.value)))
    };
    let is = |of: Setting, word: &'static str| some(of, &|level| *level == Value::Word(word));
    let above_zero = |of: Setting| some(of, &|level| matches!(level, Value::Number(1..)));
    let strided = |level: &Value| match level {
        Value::Passes(passes) => passes.contains(&Pass::StrideRead),
        _ => false,
    };
    let travels = |paths: &[&'static str]| {
        let default = target.what.lab().map(|lab| lab.spec(backend).path.name());
        let written = workload.settings.get(Setting::DataPath);
        let written = written.or_else(|| raw.factors.get(Setting::DataPath));
        match written {
            None => default.is_some_and(|path| paths.contains(&path)),
            Some(_) => paths.iter().any(|path| is(Setting::DataPath, path)),
        }
    };
    let by_settings = match setting {
        Setting::TunnelCompression | Setting::TunnelCipher => travels(&[DataPath::Tunnel.name()]),
        Setting::Mtu | Setting::RateLimit | Setting::Delay | Setting::ClientSysctl => {
            travels(&[DataPath::Network.name(), DataPath::Tunnel.name()])
        }
        Setting::FileSystem
        | Setting::Raid
        | Setting::Crypt
        | Setting::FormatOptions
        | Setting::FsMountOptions => {
            let kinds = workload.settings.get(Setting::ServerKind);
            let kinds = kinds.or_else(|| raw.factors.get(Setting::ServerKind));
            let own = Value::Word(ServerKind::Own.name());
            kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind.value != own))
                || travels(&[DataPath::Disk.name()])
        }
        Setting::Timeo | Setting::Retrans => is(Setting::Proto, Proto::Udp.name()),
        Setting::Arrivals | Setting::Ramp => {
            workload.kind.value == Workload::OpMix || above_zero(Setting::Rate)
        }
        Setting::BlockSize => is(Setting::Sharing, Sharing::Shared.name()),
        Setting::ClientHosts | Setting::Neighbour | Setting::OnLost => {
            target.used_from.is_of_hosts()
        }
        Setting::Stride => some(Setting::Passes, &strided),
        Setting::Branching => above_zero(Setting::Depth),
        _ => true,
    };
    let on_lab = target.what.lab().is_some();
    by_settings && setting.matters(workload.kind.value, backend, on_lab)
}

/// Refuses a flag that changes nothing: whoever typed it expects it to.
fn check_flags(raw: &RawPlan) -> Result<(), PlanError> {
    let of_flag = |warning: &PlanError| matches!(warning.place, Place::Flag(_));
    raw.without_effect().into_iter().find(of_flag).map_or(Ok(()), Err)
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

/// Where a workload runs: each target with each backend.
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
        timeout_ms: defaults::TIMEOUT_MS,
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
            if !setting.matters_in(&run) {
                longer.push(without(setting, run));
                continue;
            }
            for level in levels(setting, &run) {
                let mut next = run.clone();
                setting.set(&mut next, level);
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
