//! The runs of one workload on one target: all combinations of levels, based on a run in which
//! no setting matters yet.

use model::setting::{Setting, Value};
use model::{
    Arrivals, BackendKind, NfsSettings, NfsVersion, RunSpec, Stable, Storage, Target, Workload,
};

use crate::resolve::lab;
use crate::resolve::surroundings::Surroundings;
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::hosts::UsedFrom;
use crate::syntax::limits::RUNS_MAX;
use crate::syntax::raw::{RawTarget, RawWorkload};

pub(crate) fn too_many() -> PlanError {
    Fault::new(format!("the factors give more than {RUNS_MAX} runs"))
        .hint("every list multiplies the runs: shorten some, or split the plan")
        .at(PlanPosition::Whole)
}

/// Creates a run in which every setting has the value that it has when it is irrelevant.
pub(crate) fn base_run(
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
    // Streams take turns, each at its own rate.
    if run.workload == Workload::Media {
        run.load.rate_per_s = u64::from(run.media.frame_rate) * u64::from(run.all_workers());
        run.load.arrivals = Arrivals::Constant;
    }
    // The files of a cache are what fits into it at a time.
    if run.workload == Workload::KvCache {
        run.file_size_bytes = run.kv_cache.capacity_bytes.div_ceil(u64::from(run.files.max(1)));
    }
    // In v2, a WRITE is stable when it is answered.
    if let Target::Nfs(nfs) = &mut run.target
        && nfs.settings.version == NfsVersion::V2
    {
        nfs.settings.stable = Stable::FileSync;
    }
}
