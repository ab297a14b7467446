//! Compares the calls counted by our own server, by procedure, with those sent to it.
//!
//! The recorder counts ops, the backend counts the calls it started, and the server counts the
//! calls it executed. The last two must agree for every procedure. If an op corresponds to exactly
//! one call, the recorder must agree, too. Only NFSv4 attributes are excluded, because many
//! operations carry them along.

use engine::backend::{BackendCounts, Calls, OperationKind};
use model::{CrossCheck, NfsVersion, OpKind, PassResult, RunSpec, Workload};

use super::{bytes_of, count_kind, cross_check};
use crate::ServerCounts;

/// Compares recorder and backend with the server. A failed op may have made some of its calls, so
/// the comparison is only exact without errors.
pub(super) fn cross_checks(
    spec: &RunSpec,
    result: &PassResult,
    tally: &BackendCounts,
    counts: &ServerCounts,
) -> Vec<CrossCheck> {
    let pnfs = tally.pnfs.unwrap_or_default();
    // What a data server refused, or executed before it was lost, was done again elsewhere.
    if result.errors() > 0 || pnfs.refused + pnfs.lost_servers > 0 {
        return Vec::new();
    }
    let mut cross_checks = vec![
        cross_check(
            // Holes are described, not sent.
            bytes_of(result, OpKind::reads_data).saturating_sub(tally.ranges.hole_bytes),
            counts.read_bytes,
            "READ bytes counted by the server",
        ),
        cross_check(
            bytes_of(result, OpKind::writes_data) + pnfs.mirrored_bytes,
            counts.write_bytes,
            "WRITE bytes counted by the server",
        ),
    ];
    let (_, copied) = count_kind(result, OpKind::Copy);
    let (_, cloned) = count_kind(result, OpKind::Clone);
    if copied + cloned > 0 {
        let source = "bytes copied or cloned by the server";
        cross_checks.push(cross_check(copied + cloned, counts.copied_bytes, source));
    }
    let version = spec.nfs().version;
    let recorded = recorded(spec, result, tally);
    for procedure in OperationKind::ALL.iter().copied() {
        let served = counts.calls.get(procedure);
        let started = tally.calls.as_ref().map_or(0, |started| sum(started, version, procedure));
        if spec_knows(procedure, version) && started + served > 0 {
            let source = format!("{procedure} calls sent by the backend, counted by the server");
            cross_checks.push(cross_check(started, served, &source));
        }
        let expected = recorded.get(procedure);
        // A directory takes as many calls as needed, and a sync with pNFS one for each data server.
        let is_exact = is_one_to_one(spec, procedure)
            && !result.pass.lists()
            && (tally.pnfs.is_none() || procedure != OperationKind::Commit);
        if is_exact && expected + served > 0 {
            let source = format!("{procedure} calls counted by the server");
            cross_checks.push(cross_check(expected, served, &source));
        }
    }
    cross_checks
}

/// Returns true if calls of a procedure are counted separately. NULL and GETATTR of NFSv4 are not.
const fn spec_knows(procedure: OperationKind, version: NfsVersion) -> bool {
    !(version.major() == 4 && matches!(procedure, OperationKind::Getattr | OperationKind::Null))
}

/// Returns true if each op of certain kinds is exactly one call of the procedure, and no other op
/// causes such calls.
fn is_one_to_one(spec: &RunSpec, procedure: OperationKind) -> bool {
    match procedure {
        // Data is transferred or copied in as many calls as needed.
        OperationKind::Read
        | OperationKind::ReadPlus
        | OperationKind::Write
        | OperationKind::Copy => false,
        // Closing files adds calls of these procedures.
        OperationKind::Commit | OperationKind::Close => !spec.closes_in_time(),
        procedure => spec_knows(procedure, spec.nfs().version),
    }
}

/// Returns the number of the backend's calls that a server counts under one procedure.
fn sum(started: &Calls, version: NfsVersion, procedure: OperationKind) -> u64 {
    OperationKind::ALL
        .iter()
        .filter(|&&kind| counted_as(kind, version) == Some(procedure))
        .map(|&kind| started.get(kind))
        .sum()
}

/// Returns the procedure under which a server counts a call, or `None` if it cannot be
/// distinguished.
fn counted_as(kind: OperationKind, version: NfsVersion) -> Option<OperationKind> {
    use OperationKind as Kind;
    if version.major() < 4 {
        return match kind {
            Kind::Open => Some(Kind::Lookup),
            Kind::Close => None,
            kind => Some(kind),
        };
    }
    match kind {
        Kind::Create => Some(Kind::Open),
        Kind::Rmdir => Some(Kind::Remove),
        // All objects except files are created by one operation.
        Kind::Mkdir | Kind::Symlink => Some(Kind::Mkdir),
        Kind::ReaddirPlus => Some(Kind::Readdir),
        Kind::Getattr | Kind::Fsstat | Kind::Fsinfo | Kind::Pathconf | Kind::Null => None,
        kind => Some(kind),
    }
}

/// Returns the calls that the server must have received according to the recorder, by procedure.
fn recorded(spec: &RunSpec, result: &PassResult, tally: &BackendCounts) -> Calls {
    let version = spec.nfs().version;
    let mut calls = Calls::default();
    // A sync is a COMMIT, except when the backend knows that there is nothing to commit.
    let (syncs, _) = count_kind(result, OpKind::Sync);
    calls.count(OperationKind::Commit, syncs.saturating_sub(tally.syncs_without_commit));
    // NFSv3 servers may lack READDIRPLUS; the client then uses READDIR.
    let lists_plainly = tally.calls.as_ref().is_some_and(|started| {
        version == NfsVersion::V3 && started.get(OperationKind::ReaddirPlus) == 0
    });
    for kind in OpKind::ALL {
        let (mut done, _) = count_kind(result, *kind);
        if *kind == OpKind::ReadFile {
            // Opening a delegated file takes neither an OPEN nor a CLOSE.
            done = done.saturating_sub(tally.delegated_opens);
        }
        for operation in operations(*kind, spec) {
            let Some(mut operation) = operation else { continue };
            if lists_plainly && operation == OperationKind::ReaddirPlus {
                operation = OperationKind::Readdir;
            }
            if let Some(procedure) = counted_as(operation, version) {
                calls.count(procedure, done);
            }
        }
    }
    calls
}

/// Returns the calls made by an op besides those that transfer its data.
fn operations(kind: OpKind, spec: &RunSpec) -> [Option<OperationKind>; 2] {
    use OperationKind as Kind;
    let version = spec.nfs().version;
    // NFSv2 lacks some procedures, so the client uses the closest available one.
    let is_old = version == NfsVersion::V2;
    let one = match kind {
        OpKind::Create | OpKind::ReadFile | OpKind::Append => {
            let first = if kind == OpKind::Create { Kind::Create } else { Kind::Open };
            return [Some(first), Some(Kind::Close)];
        }
        // The file is not open, as those of a mix are.
        OpKind::Setattr if spec.workload == Workload::Developer => {
            return [Some(Kind::Lookup), Some(Kind::Setattr)];
        }
        OpKind::SetXattr => return [Some(Kind::Lookup), Some(Kind::Setxattr)],
        OpKind::GetXattr => return [Some(Kind::Lookup), Some(Kind::Getxattr)],
        OpKind::Stat | OpKind::StatDir | OpKind::Lookup | OpKind::LookupMissing => {
            Some(Kind::Lookup)
        }
        OpKind::Remove | OpKind::Unlink => Some(Kind::Remove),
        OpKind::Rename | OpKind::RenameDir => Some(Kind::Rename),
        OpKind::Mkdir => Some(Kind::Mkdir),
        OpKind::Rmdir => Some(Kind::Rmdir),
        OpKind::Symlink => Some(Kind::Symlink),
        OpKind::Link => Some(Kind::Link),
        OpKind::Null => Some(Kind::Null),
        OpKind::Getattr => Some(Kind::Getattr),
        OpKind::Setattr => Some(Kind::Setattr),
        OpKind::Clone => Some(Kind::Clone),
        OpKind::Allocate => Some(Kind::Allocate),
        OpKind::Punch => Some(Kind::Deallocate),
        OpKind::Seek => Some(Kind::Seek),
        OpKind::Access => Some(if is_old { Kind::Getattr } else { Kind::Access }),
        OpKind::Readlink => Some(Kind::Readlink),
        OpKind::Readdir | OpKind::List => Some(Kind::Readdir),
        OpKind::ReaddirPlus | OpKind::ListStat | OpKind::Find => {
            Some(if is_old { Kind::Readdir } else { Kind::ReaddirPlus })
        }
        OpKind::Fsstat => Some(Kind::Fsstat),
        OpKind::Fsinfo => Some(if is_old { Kind::Fsstat } else { Kind::Fsinfo }),
        OpKind::Pathconf => Some(if is_old { Kind::Fsstat } else { Kind::Pathconf }),
        OpKind::Commit => Some(if is_old { Kind::Getattr } else { Kind::Commit }),
        _ => None,
    };
    [one, None]
}
