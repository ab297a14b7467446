//! The traffic of a pass over whole directories, and caveats about listings that caused none.

use engine::backend::{Calls, Listed, OperationKind};
use lab::mounts::Mount;
use model::{Caveat, CaveatCode, Evidence, ListingCalls, ListingWork, Pass, PassResult, RunSpec};

use super::evidence_of_cache;
use super::mount::MountCounters;

/// Procedures that return names.
const NAMES: [&str; 2] = ["READDIR", "READDIRPLUS"];

/// Procedures that return the attributes of a single file or directory.
const ATTRIBUTES: [&str; 3] = ["LOOKUP", "GETATTR", "ACCESS"];

const MOUNTSTATS: &str = "/proc/self/mountstats";

/// Returns what a pass listed, with the calls of our own client or those counted by the kernel's.
pub(crate) fn listing_work(
    spec: &RunSpec,
    result: &PassResult,
    listed: &Listed,
    own: Option<&Calls>,
    mount: Option<&Mount>,
) -> ListingWork {
    let mut work = ListingWork {
        directories: listed.directories,
        entries: listed.entries,
        matches: listed.matches,
        calls: Vec::new(),
        reply_bytes: listed.bytes,
    };
    if let Some(own) = own {
        let kinds = OperationKind::ALL.iter().filter(|kind| own.get(**kind) > 0);
        let is_v4 = spec.nfs().version.major() == 4;
        work.calls.extend(kinds.map(|kind| {
            // In version 4, READDIR returns the requested attributes.
            let with_attributes = is_v4 && *kind == OperationKind::ReaddirPlus;
            let name = if with_attributes { "READDIR with attributes" } else { kind.name() };
            calls(name, own.get(*kind))
        }));
    } else if let Some((_, counters)) = MountCounters::of_pass(result, mount) {
        for procedure in NAMES.iter().chain(&ATTRIBUTES) {
            let count = counters.increase(&format!("{procedure}.ops"));
            // READDIR is shown even if there were no such calls.
            if count > 0 || *procedure == NAMES[0] {
                work.calls.push(calls(procedure, count));
                work.reply_bytes += counters.increase(&format!("{procedure}.received_bytes"));
            }
        }
    }
    work
}

fn calls(procedure: &str, count: u64) -> ListingCalls {
    ListingCalls { procedure: procedure.to_owned(), count }
}

/// Raises a caveat if a mount's client answered listings from its cache: it read fewer pages of
/// names than there were directories. In version 3, the attributes must also have come from the
/// server: with the names, or by a call for each file. Version 4 has no separate operation for
/// names with attributes, so there it can't be told.
pub fn about_listing(result: &PassResult, mount: Option<&Mount>) -> Option<Caveat> {
    let (mount, counters) = MountCounters::of_pass(result, mount)?;
    if !result.pass.lists() {
        return None;
    }
    let sum = |procedures: &[&str]| -> u64 {
        procedures.iter().map(|name| counters.increase(&format!("{name}.ops"))).sum()
    };
    let listing = result.scope.listing.as_ref()?;
    let pages = sum(&NAMES);
    if let Some(data) = evidence_of_cache(pages, listing.directories, MOUNTSTATS) {
        let evidence = format!(
            "the client read {pages} pages of names from the server (READDIR and READDIRPLUS of \
             {MOUNTSTATS}) for {} directories with {} entries",
            listing.directories, listing.entries
        );
        return Some(CaveatCode::Cached.because(evidence).with_data(data));
    }
    let is_old = mount.file_system == "nfs";
    if result.pass != Pass::ListStat || !is_old || counters.increase("READDIRPLUS.ops") > 0 {
        return None;
    }
    let requested = sum(&ATTRIBUTES);
    let data: Evidence = evidence_of_cache(requested, listing.entries, MOUNTSTATS)?;
    let evidence = format!(
        "the client requested the attributes of at most {requested} files from the server \
         (LOOKUP, GETATTR and ACCESS of {MOUNTSTATS}), but {} were listed",
        listing.entries
    );
    Some(CaveatCode::Cached.because(evidence).with_data(data))
}
