//! The files that must be in the working directory after a pass, by what its ops reported.
//!
//! Each pass has its own sum: files, bytes, directories and links that were there, that came and
//! that went. What was there before follows from the run; nothing is counted twice.

use engine::target::Inventory;
use fleet::Done;
use model::{OpKind, Pass, PassResult, RunSpec, Share, Truth, Workload};
use workload::{FileSet, Places};

use super::{Witnesses, of, truth};

const FILES: &str = "files in the working directory";
const BYTES: &str = "sizes of the files, added up";
const DIRECTORIES: &str = "directories in the working directory";
const LINKS: &str = "symbolic links in the working directory";

/// Compares the recorder with what is there. A failed op may have done half of its work, so only
/// clean passes can be exact.
pub(super) fn truths(
    spec: &RunSpec,
    result: &PassResult,
    witnesses: &Witnesses,
    inventory: Inventory,
) -> Vec<Truth> {
    let share = witnesses.share;
    if result.errors() + witnesses.others.iter().map(|done| done.failed).sum::<u64>() > 0 {
        return Vec::new();
    }
    let done = |kind| of(result, kind).0;
    let files = u64::from(share.owned_below(spec.files, spec.workers));
    let set_bytes = spec.file_size_bytes * files;
    let places = || places(spec, share);
    // What a bound cuts short leaves files that are whole or not.
    let is_whole = !spec.is_cut();
    let mut truths = Vec::new();
    match result.pass {
        Pass::Write | Pass::CharWrite => {
            truths.push(truth(files, inventory.files, FILES));
            if is_whole {
                truths.push(truth(set_bytes, inventory.bytes, BYTES));
            }
        }
        Pass::Rewrite | Pass::RandomWrite | Pass::Update | Pass::Seeks | Pass::Mix => {
            truths.push(truth(files, inventory.files, FILES));
            truths.push(truth(set_bytes, inventory.bytes, BYTES));
        }
        Pass::Create => {
            let (created, bytes) = of(result, OpKind::Create);
            truths.push(truth(created, inventory.files, FILES));
            truths.push(truth(bytes, inventory.bytes, BYTES));
        }
        Pass::Rename => truths.push(truth(files, inventory.files, FILES)),
        Pass::Remove if spec.workload != Workload::Transactions => {
            let left = files.saturating_sub(done(OpKind::Remove));
            truths.push(truth(left, inventory.files, FILES));
        }
        Pass::Remove if is_whole => truths.push(truth(0, inventory.files, FILES)),
        Pass::Transactions => {
            let left = files + done(OpKind::Create);
            let left = left.saturating_sub(done(OpKind::Remove));
            truths.push(truth(left, inventory.files, FILES));
        }
        Pass::Mkdir | Pass::RenameDirs | Pass::Rmdir => {
            let before = if result.pass == Pass::Mkdir { 0 } else { files };
            let left = (before + done(OpKind::Mkdir)).saturating_sub(done(OpKind::Rmdir));
            truths.push(truth(places() + left, inventory.directories, DIRECTORIES));
        }
        Pass::OpMix => truths.extend(of_mix(spec, result, &witnesses.others, inventory)),
        _ => {}
    }
    truths
}

/// Compares what comes and goes in a mix, of all agents together, with the inventory.
fn of_mix(
    spec: &RunSpec,
    result: &PassResult,
    others: &[Done],
    inventory: Inventory,
) -> Vec<Truth> {
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
        truth(files.saturating_sub(done(OpKind::Remove)), inventory.files, FILES),
        truth(
            places(spec, Share::ALL) + directories.saturating_sub(done(OpKind::Rmdir)),
            inventory.directories,
            DIRECTORIES,
        ),
        truth(links.saturating_sub(done(OpKind::Unlink)), inventory.links, LINKS),
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
