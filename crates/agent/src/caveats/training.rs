//! Caveat about the data set of a training.

use lab::facts::memory::Memory;
use model::units::Size;
use model::{Caveat, CaveatCode, Evidence, Pass, RunSpec};

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
