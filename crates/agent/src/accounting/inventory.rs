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
    let mut failed = result.errors();
    for other in &sources.others {
        failed = failed.saturating_add(other.failed);
    }
    if failed > 0 {
        return Vec::new();
    }
    let files = u64::from(share.owned_below(spec.files, spec.workers));
    let set_bytes = spec.file_size_bytes * files;
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
        Pass::Rename | Pass::SetXattr => {
            cross_checks.push(cross_check(files, inventory.files, FILES));
        }
        Pass::Remove if spec.workload != Workload::Transactions => {
            let left = files.saturating_sub(of(result, OpKind::Remove).0);
            cross_checks.push(cross_check(left, inventory.files, FILES));
        }
        Pass::Remove if is_whole => cross_checks.push(cross_check(0, inventory.files, FILES)),
        Pass::Transactions => {
            let created = files + of(result, OpKind::Create).0;
            let left = created.saturating_sub(of(result, OpKind::Remove).0);
            cross_checks.push(cross_check(left, inventory.files, FILES));
        }
        Pass::Mkdir | Pass::RenameDirs | Pass::Rmdir => {
            let before = if result.pass == Pass::Mkdir { 0 } else { files };
            // Directories that hold others were made beforehand and are left by every pass.
            let made = before + places(spec, share) + of(result, OpKind::Mkdir).0;
            let left = made.saturating_sub(of(result, OpKind::Rmdir).0);
            cross_checks.push(cross_check(left, inventory.directories, DIRECTORIES));
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
    // How many files there are does not depend on the seed, which only draws their sizes.
    let set = FileSet::of(spec, 0);
    let created = sum_ops(result, others, OpKind::Create) + sum_ops(result, others, OpKind::Link);
    let files = (set.totals().0 + created).saturating_sub(sum_ops(result, others, OpKind::Remove));
    let directories = places(spec, Share::ALL)
        + (u64::from(set.directories()) + sum_ops(result, others, OpKind::Mkdir))
            .saturating_sub(sum_ops(result, others, OpKind::Rmdir));
    let links = (u64::from(set.links()) + sum_ops(result, others, OpKind::Symlink))
        .saturating_sub(sum_ops(result, others, OpKind::Unlink));
    vec![
        cross_check(files, inventory.files, FILES),
        cross_check(directories, inventory.directories, DIRECTORIES),
        cross_check(links, inventory.links, LINKS),
    ]
}

/// Adds the ops of a kind of all agents.
fn sum_ops(result: &PassResult, others: &[Done], kind: OpKind) -> u64 {
    let mut ops = of(result, kind).0;
    for other in others {
        if other.kind == kind {
            ops = ops.saturating_add(other.ops);
        }
    }
    ops
}

/// Directories of a share that were made for others to stand in, on all targets together.
fn places(spec: &RunSpec, share: Share) -> u64 {
    let places = Places::of(spec);
    let mut made = 0;
    for place in 0..places.count() {
        // The root is the working directory itself, which is not counted.
        if share.owns(place, spec.workers) && !places.is_root(place) {
            made += 1;
        }
    }
    let targets = spec.target.paths().len().max(1);
    made * targets as u64
}
