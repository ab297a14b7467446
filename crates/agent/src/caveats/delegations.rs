//! Caveats about delegations of NFSv4, with which the kernel's client does without calls.
//!
//! Without a delegation, every open(2) takes an OPEN, and close(2) waits until the data is written.
//! The counters cover the whole mount, so other processes that use it can hide a delegation but
//! never make one up.
//!
//! **Source:** RFC 8881, sections 10.3.1 and 10.4; fs/nfs/nfs4file.c of Linux (`nfs4_file_flush`).

use lab::mounts::Mount;
use model::units::Size;
use model::{Caveat, CaveatCode, Durability, Evidence, OpKind, Pass, PassResult, RunSpec};

use super::mount::MountCounters;
use super::{STORAGE_SHARE_MIN, evidence_below};

/// Source of the counts.
const SOURCE: &str = "/proc/self/mountstats";

/// Raises a caveat if the server of a mount never saw opens or writes of a pass.
pub fn about_delegations(
    spec: &RunSpec,
    result: &PassResult,
    mount: Option<&Mount>,
) -> Option<Caveat> {
    let (mount, counters) = MountCounters::of_pass(result, mount)?;
    // Older versions have no delegations.
    if mount.file_system != "nfs4" {
        return None;
    }
    let requested = spec.lab.as_ref().and_then(|lab| lab.serving.delegations);
    let (evidence, data) = find_kept_writes(spec, result, &counters).or_else(|| {
        // Opens without calls are what delegations are for.
        if requested == Some(true) { None } else { find_kept_opens(result, &counters) }
    })?;
    if requested == Some(false) {
        let evidence = format!("server_delegations false, but {evidence}");
        return Some(CaveatCode::OptionNotEffective.because(evidence));
    }
    Some(CaveatCode::Delegated.because(evidence).with_data(data))
}

/// Compares the files that a pass opened with the calls for it.
fn find_kept_opens(
    result: &PassResult,
    counters: &MountCounters<'_>,
) -> Option<(String, Evidence)> {
    let opens = |kind| matches!(kind, OpKind::Create | OpKind::ReadFile | OpKind::Append);
    let opened: u64 =
        result.kinds.iter().filter(|done| opens(done.kind)).map(|done| done.done).sum();
    let calls = counters.increase("OPEN.ops").saturating_add(counters.increase("OPEN_NOATTR.ops"));
    let data = evidence_below(STORAGE_SHARE_MIN, calls, opened, SOURCE)?;
    let evidence = format!(
        "{opened} files were opened, but the client made {calls} OPEN calls (OPEN and OPEN_NOATTR \
         of {SOURCE})"
    );
    Some((evidence, data))
}

/// Compares the bytes of files that were written and closed with those that reached the server.
fn find_kept_writes(
    spec: &RunSpec,
    result: &PassResult,
    counters: &MountCounters<'_>,
) -> Option<(String, Evidence)> {
    // Other passes end with open files, or write blocks twice, of which only the last counts. Pages
    // of a memory mapping are written whenever the kernel likes.
    let closes = match result.pass {
        Pass::Create | Pass::Record | Pass::Transactions | Pass::Serve => true,
        pass => pass.writes_every_block() && spec.durability != Durability::None,
    };
    if !closes || spec.layout.mmap {
        return None;
    }
    let writes = result.kinds.iter().filter(|done| done.kind.writes_data());
    let written: u64 = writes.map(|done| done.bytes).sum();
    let sent = counters.increase("server_write_bytes");
    let data = evidence_below(STORAGE_SHARE_MIN, sent, written, SOURCE)?;
    let evidence = format!(
        "{} were written to files that were closed, but the client sent {} of it in {} WRITE calls \
         before the pass ended (bytes and per-op statistics of {SOURCE})",
        Size(written),
        Size(sent),
        counters.increase("WRITE.ops"),
    );
    Some((evidence, data))
}
