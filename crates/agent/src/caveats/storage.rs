//! Caveats about the source of data: storage, a server, or the memory of this host.
//!
//! Each function compares the bytes that ops read with those that an independent counter saw leave
//! the source. Where nothing counts, nothing is claimed.

use engine::RunReads;
use engine::residency::Residency;
use lab::mounts::Mount;
use model::units::{Size, three_digits};
use model::{Caveat, CaveatCode, Evidence, Pass, PassResult, RunSpec, Telemetry, Workload};

use super::mount::MountCounters;
use super::{evidence_of_cache, read_bytes};

/// Above this share of pages that a direct pass left in the page cache it went through there.
///
/// Tails and single blocks that a file system must read and write whole go through the page cache
/// everywhere, so a few are no fault.
pub const RESIDENT_SHARE_MAX: f64 = 0.05;

/// Raises a caveat where the page cache served the data instead of storage.
pub fn about_cache(spec: &RunSpec, result: &PassResult, mount: Option<&Mount>) -> Option<Caveat> {
    if !spec.target.is_local() {
        return None;
    }
    let file_system = &mount?.file_system;
    let stored = result.storage_read_bytes?;
    let source = if spec.workload.is_external() {
        "ru_inblock of wait4(2)"
    } else {
        "read_bytes of /proc/self/io"
    };
    let (evidence, data) = if result.pass == Pass::Stat {
        // Attributes have no size to compare: only a pass that read nothing at all is suspect.
        if stored > 0 || result.ops() == 0 {
            return None;
        }
        let ops = result.ops();
        let evidence =
            format!("0 B were read from storage ({source}) for {ops} stats on {file_system}");
        (evidence, Evidence::bytes(stored, 1, source))
    } else {
        let read = read_bytes(result);
        let data = evidence_of_cache(stored, read, source)?;
        let evidence = format!(
            "{} were read from storage ({source}) for {} read on {file_system}",
            Size(stored),
            Size(read)
        );
        (evidence, data)
    };
    Some(CaveatCode::Cached.because(evidence).with_data(data))
}

/// Counts of one run of a program that made all passes in one go.
#[derive(Clone, Copy, Debug)]
pub struct RunCounts<'a> {
    /// The program that ran.
    pub workload: Workload,
    /// Bytes that it read, and those that storage read for it.
    pub reads: RunReads,
    /// Counters of this host from its start to its end.
    pub telemetry: Option<&'a Telemetry>,
}

/// Raises a caveat where a pass that was part of a longer run may have been served from memory.
///
/// Its reads are not counted apart from those of the other passes: where too little was read from
/// storage for all of them, each pass that reads may be the one that was cached.
pub fn about_run(
    run: &RunCounts<'_>,
    result: &PassResult,
    mount: Option<&Mount>,
) -> Option<Caveat> {
    let mount = mount?;
    let (stored, from) = if mount.is_nfs() {
        let counted = MountCounters { telemetry: run.telemetry?, point: &mount.mount_point };
        let wire = counted.risen("server_read_bytes");
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
    let data = evidence_of_cache(stored, read, &from)?;
    let evidence = format!(
        "{} were read {from} for {} read in the whole run of {}; which of its passes they belong \
         to is not known",
        Size(stored),
        Size(read),
        run.workload,
    );
    Some(CaveatCode::Cached.because(evidence).with_data(data))
}

/// Raises a caveat where a pass that was to bypass the page cache left pages there.
pub fn about_direct(
    pass: Pass,
    before: Option<Residency>,
    after: Option<Residency>,
) -> Option<Caveat> {
    let after = after?;
    // Writing past the page cache drops what it holds of the same bytes, so what is there after a
    // pass that writes all of them was written there by it.
    let before = match pass {
        Pass::Write | Pass::Rewrite => Residency::default(),
        _ => before.unwrap_or_default(),
    };
    if after.share() - before.share() <= RESIDENT_SHARE_MAX {
        return None;
    }
    let evidence = format!(
        "direct true requested, but the page cache holds {} of {} pages that were sampled after \
         the pass ({} %; {} % before, at most {} % more; mincore(2)): the file system went through \
         it",
        after.resident_pages,
        after.pages,
        three_digits(after.share() * 100.0),
        three_digits(before.share() * 100.0),
        RESIDENT_SHARE_MAX * 100.0,
    );
    let source = "mincore(2) of sampled pages, after the pass less before";
    let data = Evidence::shares(after.share() - before.share(), RESIDENT_SHARE_MAX, source);
    Some(CaveatCode::OptionNotEffective.because(evidence).with_data(data))
}
