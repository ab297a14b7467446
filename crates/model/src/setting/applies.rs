//! Conditions under which a run depends on a setting.
//!
//! The rows of the table refer to these functions by name: a setting applies `when(leaves_server)`.
//! Each is called with a run whose earlier settings are known.

use crate::runs::pass::Pass;
use crate::runs::placement::Placement;
use crate::runs::spec::RunSpec;
use crate::runs::work::{Fill, Sharing};
use crate::runs::workload::Workload;
use crate::systems::lab::{DataPath, FileSystem, Host, LabSpec, Raid, ServerKind};
use crate::targets::nfs::{NfsVersion, Proto};
use crate::targets::target::{Ability, BackendKind};

/// Workloads that read files which may be in the page cache.
pub(super) const READ_FROM_FILES: &[Workload] = &[
    Workload::Stream,
    Workload::Mixed,
    Workload::Bonnie,
    Workload::OpMix,
    Workload::DataOps,
    Workload::Checkpoint,
    Workload::ModelLoad,
    Workload::Media,
    Workload::KvCache,
    Workload::Database,
    Workload::VmBoot,
    Workload::Io500,
    Workload::Training,
];

/// With a synchronous backend, a worker has one op in flight, so there is no depth to choose.
pub(super) fn is_asynchronous(run: &RunSpec) -> bool {
    run.backend.has_ability(Ability::QueueOps)
}

pub(super) fn is_posix(run: &RunSpec) -> bool {
    run.backend == BackendKind::Posix
}

pub(super) fn makes_system_calls(run: &RunSpec) -> bool {
    run.backend.has_ability(Ability::MakeSystemCalls)
}

/// On hosts that we set up, `invalidation` determines what is dropped before a pass reads.
pub(super) fn invalidates_itself(run: &RunSpec) -> bool {
    makes_system_calls(run) && run.lab.is_none()
}

/// TCP retransmits lost data by itself.
pub(super) fn uses_udp(run: &RunSpec) -> bool {
    run.nfs().proto == Proto::Udp
}

/// The kernel's client has its own window, which no mount option changes.
pub(super) fn uses_our_udp(run: &RunSpec) -> bool {
    uses_udp(run) && run.target.nfs().is_some()
}

/// Our own client, which supports callbacks.
pub(super) fn has_our_sessions(run: &RunSpec) -> bool {
    run.target.nfs().is_some() && matches!(run.nfs().version, NfsVersion::V4_1 | NfsVersion::V4_2)
}

/// A server that has no data servers has no use for what says how files are on them.
pub(super) fn may_have_data_servers(run: &RunSpec) -> bool {
    has_our_sessions(run) && run.nfs().data_servers != Some(0)
}

pub(super) fn has_our_copies(run: &RunSpec) -> bool {
    has_our_sessions(run) && run.nfs().version == NfsVersion::V4_2
}

/// A WRITE of v2 is always stable.
pub(super) fn has_stable_writes(run: &RunSpec) -> bool {
    run.nfs().version != NfsVersion::V2
}

pub(super) fn has_client_hosts(run: &RunSpec) -> bool {
    !run.placement.hosts.is_empty()
}

/// Returns true if a host has several agents, or would have without a limit.
pub(super) fn shares_hosts(run: &RunSpec) -> bool {
    let Placement { hosts, agents_per_host, .. } = &run.placement;
    agents_per_host.is_some() || Host::count_distinct(hosts) as usize != hosts.len()
}

/// Returns true if agents run on hosts, either to do the work or to set something up.
pub(super) fn has_hosts(run: &RunSpec) -> bool {
    has_client_hosts(run) || run.lab.is_some()
}

pub(super) fn has_several_agents(run: &RunSpec) -> bool {
    run.agents() > 1
}

/// A directory has the same path on every host, but may be a different one.
pub(super) fn shares_a_directory(run: &RunSpec) -> bool {
    has_several_agents(run) && !run.target.paths().is_empty()
}

pub(super) fn has_rate(run: &RunSpec) -> bool {
    run.load.rate_per_s > 0 && has_chosen_rate(run)
}

/// The rate of media follows from its streams and their frame rate.
pub(super) fn has_chosen_rate(run: &RunSpec) -> bool {
    has_single_ops(run) && run.workload != Workload::Media
}

/// An op on a whole directory cannot be scheduled or limited: its size is only known afterwards.
/// The result of a developer's pass is the time of all its ops, as fast as they are answered.
/// The phases of io500 end by a common amount of work, too. The accelerators of a training set its
/// pace, and need whole batches.
pub(super) fn has_single_ops(run: &RunSpec) -> bool {
    !matches!(
        run.workload,
        Workload::Listing | Workload::Developer | Workload::Io500 | Workload::Training
    )
}

/// Our own client, rather than a mount of the kernel's.
pub(super) fn speaks_nfs(run: &RunSpec) -> bool {
    run.target.nfs().is_some()
}

/// The phases of io500 have no pauses, as their workers wait for each other in the end; frames of
/// media have times of their own.
pub(super) fn may_think(run: &RunSpec) -> bool {
    run.load.rate_per_s == 0 && !matches!(run.workload, Workload::Media | Workload::Io500)
}

/// Shares in the plan take precedence over a mix's name.
pub(super) fn has_named_mix(run: &RunSpec) -> bool {
    run.op_mix.shares.is_empty()
}

pub(super) fn shares_files(run: &RunSpec) -> bool {
    run.layout.sharing == Sharing::Shared
}

pub(super) fn is_own_client(run: &RunSpec) -> bool {
    run.backend == BackendKind::Nfs
}

pub(super) fn strides(run: &RunSpec) -> bool {
    run.passes().contains(&Pass::StrideRead)
}

pub(super) fn has_subdirectories(run: &RunSpec) -> bool {
    run.tree.depth > 0
}

pub(super) fn writes_random_data(run: &RunSpec) -> bool {
    run.data.fill == Fill::Random
}

/// Returns true if hosts are set up for a run and satisfy `condition`.
fn is_lab(run: &RunSpec, condition: impl Fn(&LabSpec) -> bool) -> bool {
    run.lab.as_ref().is_some_and(|lab| condition(lab))
}

pub(super) fn leaves_server(run: &RunSpec) -> bool {
    is_lab(run, LabSpec::leaves_server)
}

pub(super) fn is_served(run: &RunSpec) -> bool {
    is_lab(run, LabSpec::is_served)
}

pub(super) fn is_mounted(run: &RunSpec) -> bool {
    is_lab(run, LabSpec::is_mounted)
}

pub(super) fn mounts_nfs(run: &RunSpec) -> bool {
    is_lab(run, LabSpec::mounts_nfs)
}

/// Only v4 has delegations.
pub(super) fn serves_v4(run: &RunSpec) -> bool {
    is_knfsd(run) && run.nfs().version >= NfsVersion::V4_0
}

pub(super) fn serves_v4_2(run: &RunSpec) -> bool {
    is_knfsd(run) && run.nfs().version == NfsVersion::V4_2
}

pub(super) fn mounts_sessions(run: &RunSpec) -> bool {
    mounts_nfs(run) && run.nfs().version >= NfsVersion::V4_1
}

pub(super) fn mounts_own_export(run: &RunSpec) -> bool {
    is_lab(run, LabSpec::mounts_own_export)
}

/// Returns true if the server may have several addresses.
pub(super) fn may_trunk(run: &RunSpec) -> bool {
    match run.target.nfs() {
        Some(nfs) if run.lab.is_none() => !nfs.more_addresses.is_empty(),
        Some(_) => is_lab(run, |lab| {
            lab.path == DataPath::Network && !lab.server.more_addresses.is_empty()
        }),
        None => mounts_own_export(run),
    }
}

/// Our own client, with a choice of connections.
pub(super) fn has_several_connections(run: &RunSpec) -> bool {
    run.target
        .nfs()
        .is_some_and(|nfs| nfs.settings.nconnect > 1 || !nfs.further_addresses().is_empty())
}

/// Returns true if files are on a file system of the server, rather than in the memory of our own.
pub(super) fn has_storage(run: &RunSpec) -> bool {
    is_lab(run, LabSpec::has_storage)
}

pub(super) fn is_formatted(run: &RunSpec) -> bool {
    is_lab(run, |lab| lab.has_storage() && lab.storage.is_formatted())
}

/// A mirror has no chunks.
pub(super) fn has_chunks(run: &RunSpec) -> bool {
    is_formatted(run) && is_lab(run, |lab| !matches!(lab.storage.raid, Raid::None | Raid::Raid1))
}

pub(super) fn is_encrypted(run: &RunSpec) -> bool {
    is_formatted(run) && is_lab(run, |lab| lab.storage.crypt)
}

pub(super) fn is_new_file_system(run: &RunSpec) -> bool {
    is_lab(run, |lab| lab.has_storage() && lab.storage.file_system != FileSystem::Existing)
}

pub(super) fn has_server_kind(run: &RunSpec) -> bool {
    is_lab(run, LabSpec::has_server_kind)
}

/// The target is a system with a recipe, which may have settings.
pub(super) fn is_system(run: &RunSpec) -> bool {
    is_lab(run, |lab| lab.is_served() && lab.system.is_some())
}

pub(super) fn is_knfsd(run: &RunSpec) -> bool {
    is_served_by(run, &[ServerKind::Knfsd])
}

pub(super) fn has_nfsd_threads(run: &RunSpec) -> bool {
    is_served_by(run, &[ServerKind::Knfsd, ServerKind::Ganesha])
}

fn is_served_by(run: &RunSpec, kinds: &[ServerKind]) -> bool {
    is_lab(run, |lab| lab.has_server_kind() && kinds.contains(&lab.serving.kind))
}

pub(super) fn is_tunnel(run: &RunSpec) -> bool {
    is_lab(run, |lab| lab.path == DataPath::Tunnel)
}
