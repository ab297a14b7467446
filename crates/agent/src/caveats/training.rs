//! Caveats about the data set of a training, and about one with too few steps.

use lab::facts::memory::Memory;
use model::units::Size;
use model::{Caveat, CaveatCode, Evidence, Pass, PassResult, RunSpec};

/// How many times larger than the memory of all hosts a data set must be.
///
/// **Source:** MLPerf Storage, rules: the data set is at least five times the memory of all hosts.
const MEMORY_TIMES: u64 = 5;

/// Raises a caveat if hosts could keep much of a data set in memory. `memory` is the part of this
/// host's memory that this process may use; the others are assumed to have as much. Our own NFS
/// client keeps nothing.
pub fn about_data_set(spec: &RunSpec, pass: Pass, memory: Option<&Memory>) -> Option<Caveat> {
    let memory = memory?;
    if pass != Pass::Train || !spec.target.is_local() {
        return None;
    }
    let per_host = (spec.training.accelerators * spec.training.readers).max(1);
    let hosts = u64::from((spec.workers / per_host).max(1));
    let needed = memory.bytes.saturating_mul(hosts).saturating_mul(MEMORY_TIMES);
    let bytes = spec.set_bytes();
    if bytes >= needed {
        return None;
    }
    let of_hosts = if hosts == 1 { "this host has".into() } else { format!("{hosts} hosts have") };
    let evidence = format!(
        "the data set has {}, less than {MEMORY_TIMES} times the memory: {of_hosts} {} ({})",
        Size(bytes),
        Size(memory.bytes.saturating_mul(hosts)),
        memory.source,
    );
    let source = format!("{MEMORY_TIMES} times {}", memory.source);
    Some(
        CaveatCode::SmallDataSet
            .because(evidence)
            .with_data(Evidence::bytes(bytes, needed, source)),
    )
}

/// Raises a caveat if much of what a training needs may have been read before its first step, which
/// isn't counted: accelerators then seem to wait less than they would in a long training.
pub fn about_steps(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    let work = result.scope.training?;
    let needed = spec.training.steps_needed();
    if work.steps >= needed {
        return None;
    }
    let ahead = spec.training.batches_ahead();
    let evidence = format!(
        "readers may have read {} of the {} batches of each accelerator before its first step \
         ended; at least {needed} steps are needed to measure its utilization",
        ahead.min(work.steps),
        work.steps,
    );
    let source = "ten steps for each batch that readers may read ahead";
    let data = Evidence::counts(work.steps, needed, "steps", source);
    Some(CaveatCode::TooShort.because(evidence).with_data(data))
}
