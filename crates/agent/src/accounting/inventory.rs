//! The files that must be in the working directory after a pass, by what its ops reported.
//!
//! Each pass has its own sum: files, bytes, directories and links that were there, were
//! created and were removed. What was there before follows from the run; nothing is counted twice.

use engine::target::Inventory;
use fleet::Done;
use model::{CrossCheck, OpKind, Pass, PassResult, RunSpec, Share, Workload};
use workload::{FileSet, Places};

use super::{CrossCheckSources, cross_check, of};

const FILES: &str = "files in the working directory";
const BYTES: &str = "sizes of the files, added up";
const DIRECTORIES: &str = "directories in the working directory";
const LINKS: &str = "symbolic links in the working directory";

/// Compares the recorder with what is there. A failed op may have done half of its work, so only
/// clean passes can be exact.
pub(super) fn cross_checks(
    spec: &RunSpec,
    result: &PassResult,
    sources: &CrossCheckSources,
    inventory: Inventory,
) -> Vec<CrossCheck> {
    let share = sources.share;
    if result.errors() + sources.others.iter().map(|done| done.failed).sum::<u64>() > 0 {
        return Vec::new();
    }
    let done = |kind| of(result, kind).0;
    let files = u64::from(share.owned_below(spec.files, spec.workers));
    let set_bytes = spec.file_size_bytes * files;
    let places = || places(spec, share);
    // What a bound cuts short leaves files that are whole or not.
    let is_whole = !spec.is_cut();
    let mut cross_checks = Vec::new();
    match result.pass {
        Pass::Write | Pass::CharWrite => {
            cross_checks.push(cross_check(files, inventory.files, FILES));
            if is_whole {
                cross_checks.push(cross_check(set_bytes, inventory.bytes, BYTES));
            }
        }
        Pass::Rewrite | Pass::RandomWrite | Pass::Update | Pass::Seeks | Pass::Mix => {
            cross_checks.push(cross_check(files, inventory.files, FILES));
            cross_checks.push(cross_check(set_bytes, inventory.bytes, BYTES));
        }
        Pass::Create => {
            let (created, bytes) = of(result, OpKind::Create);
            cross_checks.push(cross_check(created, inventory.files, FILES));
            cross_checks.push(cross_check(bytes, inventory.bytes, BYTES));
        }
        Pass::Rename => cross_checks.push(cross_check(files, inventory.files, FILES)),
        Pass::Remove if spec.workload != Workload::Transactions => {
            let left = files.saturating_sub(done(OpKind::Remove));
            cross_checks.push(cross_check(left, inventory.files, FILES));
        }
        Pass::Remove if is_whole => cross_checks.push(cross_check(0, inventory.files, FILES)),
        Pass::Transactions => {
            let left = files + done(OpKind::Create);
            let left = left.saturating_sub(done(OpKind::Remove));
            cross_checks.push(cross_check(left, inventory.files, FILES));
        }
        Pass::Mkdir | Pass::RenameDirs | Pass::Rmdir => {
            let before = if result.pass == Pass::Mkdir { 0 } else { files };
            let left = (before + done(OpKind::Mkdir)).saturating_sub(done(OpKind::Rmdir));
            cross_checks.push(cross_check(places() + left, inventory.directories, DIRECTORIES));
        }
        Pass::OpMix => cross_checks.extend(of_mix(spec, result, &sources.others, inventory)),
        _ => {}
    }
    cross_checks
}

/// Compares what comes and goes in a mix, of all agents together, with the inventory.
fn of_mix(
    spec: &RunSpec,
    result: &PassResult,
    others: &[Done],
    inventory: Inventory,
) -> Vec<CrossCheck> {
    let done = |kind| {
        let others = others.iter().filter(|done| done.kind == kind);
        of(result, kind).0 + others.map(|done| done.ops).sum::<u64>()
    };
    // How many files there are does not depend on the seed, which only draws their sizes.
    let set = FileSet::of(spec, 0);
    let files = set.totals().0 + done(OpKind::Create) + done(OpKind::Link);
    let directories = u64::from(set.directories()) + done(OpKind::Mkdir);
    let links = u64::from(set.links()) + done(OpKind::Symlink);
    vec![
        cross_check(files.saturating_sub(done(OpKind::Remove)), inventory.files, FILES),
        cross_check(
            places(spec, Share::ALL) + directories.saturating_sub(done(OpKind::Rmdir)),
            inventory.directories,
            DIRECTORIES,
        ),
        cross_check(links.saturating_sub(done(OpKind::Unlink)), inventory.links, LINKS),
    ]
}

/// Directories of a share that were made for others to stand in, on all targets together.
fn places(spec: &RunSpec, share: Share) -> u64 {
    let places = Places::of(spec);
    let own = (0..places.count()).filter(|place| share.owns(*place, spec.workers));
    let made = own.filter(|place| !places.is_root(*place)).count() as u64;
    let targets = spec.target.paths().len().max(1);
    made * targets as u64
}
