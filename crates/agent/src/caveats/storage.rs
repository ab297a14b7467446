//! Caveats about where data came from: storage, a server, or the memory of this host.
//!
//! Each function compares the bytes read by ops with an independent counter at the source. If there
//! is no counter, no caveat is raised.

use engine::RunReads;
use engine::residency::Residency;
use lab::mounts::Mount;
use model::units::{Size, three_digits};
use model::{
    Caveat, CaveatCode, Durability, Evidence, FileSystem, Fill, LabSpec, OpKind, Pass, PassResult,
    RunSpec, Telemetry, Workload,
};

use super::mount::MountCounters;
use super::{STORAGE_SHARE_MIN, evidence_below, read_bytes};

/// Share of pages left in the page cache above which a direct pass evidently used the cache.
///
/// Some file systems must read and write tails and single blocks as a whole, which goes through the
/// page cache, so a few pages are normal.
pub const RESIDENT_SHARE_MAX: f64 = 0.05;

/// Smallest share of data that remains after compression.
///
/// **Source:** fs/btrfs/compression.h of Linux: 128 KiB at once, of which at least a block of 4 KiB
/// remains.
const COMPRESSED_SHARE_MIN: f64 = 4.0 / 128.0;

/// Raises a caveat if commits were acknowledged without reaching storage, although they asked for
/// it. Only what is known about the target counts: disks and servers may acknowledge too early.
///
/// **Source:** tmpfs(5); exports(5), `async`.
pub fn about_commits(spec: &RunSpec, pass: Pass, mount: Option<&Mount>) -> Option<Caveat> {
    let is_requested = !matches!(spec.durability, Durability::None | Durability::Close);
    if !pass.kinds().contains(&OpKind::LogAppend) || !is_requested {
        return None;
    }
    let file_system = mount.map(|mount| mount.file_system.as_str());
    let in_memory = file_system.filter(|name| matches!(*name, "tmpfs" | "ramfs"));
    let is_async = |lab: &LabSpec| {
        lab.is_served() && lab.serving.export_options.iter().any(|option| option == "async")
    };
    let evidence = if let Some(file_system) = in_memory {
        format!("{file_system} keeps the log in memory, so a commit waits for nothing")
    } else if spec.target.nfs().is_some_and(|nfs| nfs.embedded) {
        "the in-memory server keeps the log in memory, so a commit waits for nothing".to_owned()
    } else if spec.lab.as_deref().is_some_and(is_async) {
        "the export is async: the server acknowledges a commit before it is on storage".to_owned()
    } else if spec.lab.as_deref().is_some_and(|lab| lab.storage.file_system == FileSystem::Tmpfs) {
        "the server's file system is tmpfs, which keeps the log in memory".to_owned()
    } else {
        return None;
    };
    Some(CaveatCode::NotDurable.because(evidence))
}

/// Raises a caveat if the page cache served the data instead of storage.
pub fn about_cache(spec: &RunSpec, result: &PassResult, mount: Option<&Mount>) -> Option<Caveat> {
    if !spec.target.is_local() {
        return None;
    }
    let mount = mount?;
    let file_system = &mount.file_system;
    let stored = result.storage_read_bytes?;
    let source = if spec.workload.is_external() {
        "ru_inblock of wait4(2)"
    } else {
        "read_bytes of /proc/self/io"
    };
    let (evidence, data) = if matches!(result.pass, Pass::Stat | Pass::SyncTree)
        || result.pass.lists()
    {
        // Attributes have no size to compare, so only a pass that read nothing at all is suspect.
        if stored > 0 || result.ops() == 0 {
            return None;
        }
        let ops = result.ops();
        let what = if result.pass.lists() { "entries" } else { "stats" };
        let evidence =
            format!("nothing was read from storage ({source}) for {ops} {what} on {file_system}");
        (evidence, Evidence::bytes(stored, 1, source))
    } else {
        let read = read_bytes(result);
        let share_min = stored_share_min(spec, mount);
        let data = evidence_below(share_min, stored, read, source)?;
        let evidence = format!(
            "storage delivered {} ({source}), but {} were read from {file_system}",
            Size(stored),
            Size(read)
        );
        (evidence, data)
    };
    Some(CaveatCode::Cached.because(evidence).with_data(data))
}

/// Returns the minimum share of the bytes read that storage delivers without a cache. Compressed
/// data is smaller in storage.
fn stored_share_min(spec: &RunSpec, mount: &Mount) -> f64 {
    if mount.compression.is_none() {
        return STORAGE_SHARE_MIN;
    }
    let percent_kept = match spec.data.fill {
        Fill::Random if !spec.workload.is_external() => {
            let smaller = spec.data.compress_percent.saturating_add(spec.data.dedup_percent);
            100_u32.saturating_sub(smaller)
        }
        _ => 0,
    };
    STORAGE_SHARE_MIN * (f64::from(percent_kept) / 100.0).max(COMPRESSED_SHARE_MIN)
}

/// Counters for one run of a program that executed all passes.
#[derive(Clone, Copy, Debug)]
pub struct RunCounts<'a> {
    pub workload: Workload,
    /// Bytes read by the program, and bytes that storage read for it.
    pub reads: RunReads,
    /// Counters of this host from the start to the end of the program.
    pub telemetry: Option<&'a Telemetry>,
}

/// Raises a caveat if a pass that was part of a longer run may have been served from memory.
///
/// Its reads are not counted separately from the other passes. If too little was read from storage
/// for all of them, any pass that reads may have been cached.
pub fn about_run(
    run: &RunCounts<'_>,
    result: &PassResult,
    mount: Option<&Mount>,
) -> Option<Caveat> {
    let mount = mount?;
    // These programs write their own data.
    let share_min = match mount.compression {
        Some(_) => STORAGE_SHARE_MIN * COMPRESSED_SHARE_MIN,
        None => STORAGE_SHARE_MIN,
    };
    let (stored, from) = if mount.is_nfs() {
        let counted = MountCounters { telemetry: run.telemetry?, point: &mount.mount_point };
        let wire = counted.increase("server_read_bytes");
        (wire, "from the server (bytes of /proc/self/mountstats)".to_owned())
    } else if mount.counts_storage_reads() {
        let from = format!("from storage (ru_inblock of wait4(2)) on {}", mount.file_system);
        (run.reads.storage_read_bytes, from)
    } else {
        return None;
    };
    let read = run.reads.read_bytes;
    if read_bytes(result) == 0 {
        return None;
    }
    let data = evidence_below(share_min, stored, read, &from)?;
    let evidence = format!(
        "{} were read {from}, but {} were read in the whole run of {}; how much belongs to which \
         pass is not known",
        Size(stored),
        Size(read),
        run.workload,
    );
    Some(CaveatCode::Cached.because(evidence).with_data(data))
}

/// Raises a caveat if a pass that should have bypassed the page cache left pages there.
pub fn about_direct(
    pass: Pass,
    before: Option<Residency>,
    after: Option<Residency>,
) -> Option<Caveat> {
    let after = after?;
    // Direct writes drop cached pages of the same range. So pages found after a pass that writes
    // everything were put there by this pass.
    let before = match pass {
        Pass::Write | Pass::Rewrite | Pass::Save => Residency::default(),
        _ => before.unwrap_or_default(),
    };
    if after.share() - before.share() <= RESIDENT_SHARE_MAX {
        return None;
    }
    let evidence = format!(
        "direct true requested, but {} of {} pages sampled after the pass are in the page cache \
         ({} %; {} % before, limit {} % more; mincore(2)): the file system used the page cache",
        after.resident_pages,
        after.pages,
        three_digits(after.share() * 100.0),
        three_digits(before.share() * 100.0),
        RESIDENT_SHARE_MAX * 100.0,
    );
    let source = "mincore(2) of sampled pages, increase during the pass";
    let data = Evidence::shares(after.share() - before.share(), RESIDENT_SHARE_MAX, source);
    Some(CaveatCode::OptionNotEffective.because(evidence).with_data(data))
}
