//! What the working directory must contain after a pass, according to the ops reported.
//!
//! Each pass has its own balance of files, bytes, directories and links: what existed before (which
//! follows from the run), plus what was created, minus what was removed.

use engine::target::Inventory;
use fleet::KindTotals;
use model::{CrossCheck, OpKind, Opens, Pass, PassResult, RunSpec, Share, Workload};
use workload::{DeveloperSet, FileSet, Places, Trees};

use super::{CrossCheckSources, count_kind, cross_check};

const FILES: &str = "files in the working directory";
const BYTES: &str = "total size of the files";
const DIRECTORIES: &str = "directories in the working directory";
const LINKS: &str = "symbolic links in the working directory";

/// Compares the recorder with the inventory. A failed op may have been half done, so the comparison
/// is only exact without errors.
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
    let set_bytes = FileSet::new(spec).bytes_of(share, spec.workers);
    // A pass that was cut short by a limit may leave incomplete files.
    let is_whole = !spec.is_cut();
    let mut cross_checks = Vec::new();
    match result.pass {
        Pass::Write | Pass::CharWrite | Pass::Save => {
            cross_checks.push(cross_check(files, inventory.files, FILES));
            if is_whole {
                cross_checks.push(cross_check(set_bytes, inventory.bytes, BYTES));
            }
        }
        Pass::Rewrite
        | Pass::RandomWrite
        | Pass::Update
        | Pass::Seeks
        | Pass::Mix
        | Pass::Oltp
        | Pass::Boot => {
            cross_checks.push(cross_check(files, inventory.files, FILES));
            cross_checks.push(cross_check(set_bytes, inventory.bytes, BYTES));
        }
        Pass::Copy | Pass::Clone | Pass::Allocate | Pass::Punch => {
            // The twins stay there once the first pass has made them.
            let kinds = 1 + u64::from(has_twins(spec, result.pass));
            cross_checks.push(cross_check(files * kinds, inventory.files, FILES));
            if is_whole {
                cross_checks.push(cross_check(set_bytes * kinds, inventory.bytes, BYTES));
            }
        }
        Pass::Create | Pass::Record => {
            let (created, bytes) = count_kind(result, OpKind::Create);
            cross_checks.push(cross_check(created, inventory.files, FILES));
            cross_checks.push(cross_check(bytes, inventory.bytes, BYTES));
        }
        Pass::Rename | Pass::SetXattr => {
            cross_checks.push(cross_check(files, inventory.files, FILES));
        }
        Pass::Remove if spec.workload != Workload::Transactions => {
            let left = files.saturating_sub(count_kind(result, OpKind::Remove).0);
            cross_checks.push(cross_check(left, inventory.files, FILES));
        }
        Pass::Remove if is_whole => cross_checks.push(cross_check(0, inventory.files, FILES)),
        Pass::Transactions => {
            let created = files + count_kind(result, OpKind::Create).0;
            let left = created.saturating_sub(count_kind(result, OpKind::Remove).0);
            cross_checks.push(cross_check(left, inventory.files, FILES));
        }
        Pass::Serve => {
            let set = FileSet::new(spec);
            let is_ours = |file: &u32| share.owns(*file, spec.workers);
            let before = (0..spec.files).filter(is_ours).filter_map(|file| set.size(file)).count();
            let created = before as u64 + count_kind(result, OpKind::Create).0;
            let left = created.saturating_sub(count_kind(result, OpKind::Remove).0);
            cross_checks.push(cross_check(left, inventory.files, FILES));
        }
        Pass::Mkdir | Pass::RenameDirs | Pass::Rmdir => {
            let before = if result.pass == Pass::Mkdir { 0 } else { files };
            // Parent directories are created beforehand and no pass removes them.
            let made = before + places(spec, share) + count_kind(result, OpKind::Mkdir).0;
            let left = made.saturating_sub(count_kind(result, OpKind::Rmdir).0);
            cross_checks.push(cross_check(left, inventory.directories, DIRECTORIES));
        }
        Pass::OpMix => cross_checks.extend(of_mix(spec, result, &sources.others, inventory)),
        pass if pass.is_of_developer() => {
            cross_checks.extend(of_developer(spec, result, share, inventory));
        }
        _ => {}
    }
    cross_checks
}

/// Returns true if a pass or an earlier one has made twins of the files.
fn has_twins(spec: &RunSpec, pass: Pass) -> bool {
    for earlier in spec.passes() {
        if earlier.opens() == Opens::Twins {
            return true;
        }
        if *earlier == pass {
            break;
        }
    }
    false
}

/// Compares the creations and removals of all agents in a mix with the inventory.
fn of_mix(
    spec: &RunSpec,
    result: &PassResult,
    others: &[KindTotals],
    inventory: Inventory,
) -> Vec<CrossCheck> {
    let set = FileSet::new(spec);
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

/// Compares the trees of a developer with what existed before the pass, what it created and what it
/// removed.
fn of_developer(
    spec: &RunSpec,
    result: &PassResult,
    share: Share,
    inventory: Inventory,
) -> Vec<CrossCheck> {
    let Some(before) = Trees::at_start_of(spec, result.pass) else { return Vec::new() };
    let set = DeveloperSet::new(spec);
    let owns = |number| share.owns(number, spec.workers);
    let (files, _) = set.totals(before, owns);
    let (created, _) = count_kind(result, OpKind::Create);
    let (removed, _) = count_kind(result, OpKind::Remove);
    // Files have the same size however often they are created.
    let (_, bytes) = set.totals(before.after(result.pass), owns);
    let places = Places::new(spec);
    let existed = (0..places.count()).filter(|place| owns(*place) && places.is_in(before, *place));
    let made = existed.count() as u64 + count_kind(result, OpKind::Mkdir).0;
    let directories = made.saturating_sub(count_kind(result, OpKind::Rmdir).0);
    vec![
        cross_check((files + created).saturating_sub(removed), inventory.files, FILES),
        cross_check(bytes, inventory.bytes, BYTES),
        cross_check(directories, inventory.directories, DIRECTORIES),
    ]
}

/// Returns the number of ops of a kind over all agents.
fn sum_ops(result: &PassResult, others: &[KindTotals], kind: OpKind) -> u64 {
    let mut ops = count_kind(result, kind).0;
    for other in others {
        if other.kind == kind {
            ops = ops.saturating_add(other.ops);
        }
    }
    ops
}

/// Returns the number of parent directories created for a share, over all targets.
fn places(spec: &RunSpec, share: Share) -> u64 {
    let places = Places::new(spec);
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
