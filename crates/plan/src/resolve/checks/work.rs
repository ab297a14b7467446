//! Checks of settings of one workload that don't go together.
//!
//! Each check looks at one run, as in `checks`: passes that the workload does not have, fewer
//! blocks than workers, nothing to choose random offsets from, and directory trees and file pools
//! of impossible sizes.

use model::setting::Setting;
use model::{OpKind, Pass, RunSpec, Sharing, Workload};
use workload::listed_directories;

use super::{WrittenSettings, checkpoint, database, training};
use crate::syntax::error::{Fault, PlanError};
use crate::syntax::limits::{self, show_size};
use crate::syntax::text;

/// Smallest block that file systems share, in bytes.
///
/// **Source:** mkfs.xfs(8) and mkfs.btrfs(8): blocks of 4 KiB.
const CLONE_BLOCK_BYTES: u64 = 4096;

/// Size of the random reads of io500, in bytes.
const RANDOM_BLOCK_BYTES: u64 = 4096;

/// Refuses a run that its workload cannot execute.
pub(super) fn check(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    check_passes(run, written)?;
    check_sizes(run, written)?;
    match run.workload {
        Workload::Stream => check_shared(run, written),
        Workload::Mixed => check_random(run, written),
        Workload::Metadata => check_tree(run, written),
        Workload::Listing => {
            check_tree(run, written)?;
            check_directories(run, written)
        }
        Workload::KvCache => check_cache(run, written),
        Workload::OpMix => check_offered(run, written),
        Workload::DataOps => check_ranges(run, written),
        Workload::Checkpoint => checkpoint::check(run, written),
        Workload::Database => {
            check_random(run, written)?;
            database::check(run, written)
        }
        Workload::VmBoot => {
            check_random(run, written)?;
            database::check_images(run, written)
        }
        Workload::Developer => check_trees(run, written),
        Workload::Io500 => check_phases(run, written),
        Workload::Training => training::check(run, written),
        _ => Ok(()),
    }
}

fn check_passes(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let allowed = run.workload.passes_allowed();
    if let Some(pass) = run.passes.iter().find(|pass| !allowed.contains(pass)) {
        let names: Vec<&str> = allowed.iter().map(|pass| pass.name()).collect();
        let fault = Fault::new(format!("`{pass}` is not one of its passes"))
            .hint(format!("its passes are {}", text::join_with_or(&names)));
        return Err(written.fault(run, &[Setting::Passes], fault));
    }
    // Removed files are gone for later passes. Files that no pass creates are prepared in advance.
    for (index, removed) in run.passes.iter().enumerate() {
        let (makes, needs): (Pass, &[Pass]) = match removed {
            Pass::Remove => {
                let needs = &[
                    Pass::Stat,
                    Pass::ReadFiles,
                    Pass::Rename,
                    Pass::Remove,
                    Pass::SetXattr,
                    Pass::GetXattr,
                ];
                (Pass::Create, needs)
            }
            Pass::Rmdir => (Pass::Mkdir, &[Pass::StatDirs, Pass::RenameDirs, Pass::Rmdir]),
            _ => continue,
        };
        for pass in &run.passes[index + 1..] {
            if *pass == makes {
                break;
            }
            if needs.contains(pass) {
                let fault =
                    Fault::new(format!("{pass} comes after {removed}, so there are no files"))
                        .hint(format!("put {makes} between them, or {removed} last"));
                return Err(written.fault(run, &[Setting::Passes], fault));
            }
        }
    }
    check_xattr_passes(run, written)
}

/// Attributes can only be read if an earlier pass has set them, on the same files and all of them.
fn check_xattr_passes(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let mut are_set = false;
    for pass in &run.passes {
        let fault = match pass {
            Pass::SetXattr => {
                are_set = true;
                continue;
            }
            Pass::Create | Pass::Remove => {
                are_set = false;
                continue;
            }
            Pass::GetXattr if !are_set => {
                Fault::new("no file has the attribute that get_xattr reads".to_owned())
                    .hint("put set_xattr before it, and no create or remove between them")
            }
            Pass::GetXattr if run.is_cut() => {
                Fault::new("a bound on the work leaves files without the attribute".to_owned())
                    .hint("leave out ops_max, bytes_max and time_max, or get_xattr")
            }
            _ => continue,
        };
        return Err(written.fault(run, &[Setting::Passes], fault));
    }
    Ok(())
}

/// Workers agree on how much each writes after the stonewall within a host. Without a stonewall,
/// each writes all of its share.
fn check_phases(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let hosts = run.agents();
    if hosts > 1 && run.load.time_max_ms > 0 {
        let what = format!("{hosts} client hosts cannot wear out together after time_max");
        let hint = "set time_max = 0, and a file_size and small_files that take long enough";
        let settings = [Setting::TimeMax, Setting::ClientHosts];
        return Err(written.fault(run, &settings, Fault::new(what).hint(hint)));
    }
    let file = run.file_size_bytes;
    if file.is_multiple_of(RANDOM_BLOCK_BYTES) {
        return Ok(());
    }
    let what = format!("file_size {file} is not a multiple of 4096, the size of random reads");
    let near = text::size(file.next_multiple_of(RANDOM_BLOCK_BYTES));
    let fault = Fault::new(what).hint(format!("try \"{near}\""));
    Err(written.fault(run, &[Setting::FileSize], fault))
}

/// Each worker needs at least one block of a shared file.
fn check_shared(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    if run.layout.sharing != Sharing::Shared {
        return Ok(());
    }
    let file = run.file_size_bytes;
    let io = u64::from(run.io_size_bytes);
    let block = run.layout.block_size_bytes;
    if !block.is_multiple_of(io) {
        let what = format!(
            "block_size {} is not a multiple of io_size {}",
            text::size(block),
            text::size(io)
        );
        let fault = Fault::new(what).hint("a worker's block is moved in whole ops");
        return Err(written.fault(run, &[Setting::BlockSize, Setting::IoSize], fault));
    }
    let size = if block == 0 { io } else { block };
    let blocks = file.div_ceil(size);
    if blocks >= u64::from(run.all_workers()) {
        return Ok(());
    }
    let what = format!(
        "{} workers are more than the {blocks} blocks of {} in a shared file of {}",
        run.all_workers(),
        show_size(size),
        show_size(file)
    );
    let hint = format!("at most {blocks} workers, larger files or smaller blocks");
    let settings = [Setting::Workers, Setting::BlockSize, Setting::FileSize, Setting::IoSize];
    Err(written.fault(run, &settings, Fault::new(what).hint(hint)))
}

/// Random offsets need at least two blocks to choose from.
fn check_random(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let single = run.largest_file_bytes() <= u64::from(run.io_size_bytes);
    // In this case, all random ops go to random files.
    let random = run.layout.random_percent;
    if random == 0 || !single || (random == 100 && run.files > 1) {
        return Ok(());
    }
    let what = format!(
        "{} % of the ops go to random places, but a file of {} is one op of {}",
        run.layout.random_percent,
        show_size(run.file_size_bytes),
        show_size(run.io_size_bytes.into())
    );
    let settings = [Setting::RandomPercent, Setting::FileSize, Setting::IoSize];
    let hint = "a file_size larger than one io_size, or random_percent 0";
    Err(written.fault(run, &settings, Fault::new(what).hint(hint)))
}

/// Sparse files need a block of data and a hole, and clones share whole blocks of file systems.
fn check_ranges(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let io_size = u64::from(run.io_size_bytes);
    let passes = run.passes();
    let settings = [Setting::FileSize, Setting::IoSize];
    let sparse = passes.iter().find(|pass| pass.needs_holes() || **pass == Pass::Punch);
    if let Some(pass) = sparse
        && run.file_size_bytes <= io_size
    {
        let what = format!(
            "{pass} works on files whose every second block is a hole, but a file of {} is one \
             block of {}",
            show_size(run.file_size_bytes),
            show_size(io_size)
        );
        let hint = "a file_size of at least two io_size";
        return Err(written.fault(run, &settings, Fault::new(what).hint(hint)));
    }
    let is_aligned = io_size.is_multiple_of(CLONE_BLOCK_BYTES) || io_size >= run.file_size_bytes;
    if passes.contains(&Pass::Clone) && !is_aligned {
        let what = format!(
            "clone shares whole blocks of {}, but io_size is {}",
            show_size(CLONE_BLOCK_BYTES),
            text::size(io_size)
        );
        let hint = "a multiple of it, or the whole file_size";
        return Err(written.fault(run, &[Setting::IoSize], Fault::new(what).hint(hint)));
    }
    Ok(())
}

fn check_tree(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let mut all: u64 = 1;
    for level in 1..=run.tree.depth {
        all = all.saturating_add(u64::from(run.tree.branching).saturating_pow(level));
    }
    if all <= limits::DIRECTORIES_MAX {
        return Ok(());
    }
    let what = format!(
        "depth {} with branching {} is {all} directories",
        run.tree.depth, run.tree.branching
    );
    let hint =
        format!("at most {}: each is created before the clock starts", limits::DIRECTORIES_MAX);
    let settings = [Setting::Depth, Setting::Branching];
    Err(written.fault(run, &settings, Fault::new(what).hint(hint)))
}

/// Maximum number of source files of a developer: a repository of several large projects.
const DEVELOPER_FILES_MAX: u32 = 1_000_000;

/// The trees of a developer are in a single directory, and their directories are held in memory.
fn check_trees(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    if run.target.paths().len() > 1 {
        let what = "a tree cannot be spread over several directories".to_owned();
        let fault = Fault::new(what).hint("a target with one path");
        return Err(written.fault(run, &[Setting::SmallFiles], fault));
    }
    if run.files > DEVELOPER_FILES_MAX {
        let what = format!("{} files are too many for a source tree", run.files);
        let fault = Fault::new(what).hint(format!("at most {DEVELOPER_FILES_MAX}"));
        return Err(written.fault(run, &[Setting::SmallFiles], fault));
    }
    Ok(())
}

/// Each worker needs at least one directory to list.
fn check_directories(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let directories = listed_directories(run);
    let workers = run.all_workers();
    if directories >= u64::from(workers) {
        return Ok(());
    }
    let what = match directories {
        1 => format!("{workers} workers share 1 directory, which only one of them can list"),
        _ => format!("{workers} workers are more than the {directories} directories to list"),
    };
    let hint = "tree_sharing own gives each worker a tree, and depth and branching add directories";
    let settings = [Setting::Workers, Setting::TreeSharing, Setting::Depth, Setting::Branching];
    Err(written.fault(run, &settings, Fault::new(what).hint(hint)))
}

/// Workloads whose files may have different sizes.
const WITH_DISTRIBUTION: [Workload; 6] = [
    Workload::Stream,
    Workload::Mixed,
    Workload::Metadata,
    Workload::Listing,
    Workload::Transactions,
    Workload::Training,
];

/// Refuses files of different sizes if a workload needs them to be equal, or one is too large.
fn check_sizes(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let Some(sizes) = &run.file_sizes else { return Ok(()) };
    let [_, setting] = super::file_settings(run.workload);
    let refused = |what: String, hint: String, settings: &[Setting]| {
        Err(written.fault(run, settings, Fault::new(what).hint(hint)))
    };
    if !WITH_DISTRIBUTION.contains(&run.workload) {
        let names = WITH_DISTRIBUTION.map(Workload::name);
        let what = format!("its files have the same size, but file_size is `{sizes}`");
        let hint = format!("one size, or workload {}", text::join_with_or(&names));
        return refused(what, hint, &[setting]);
    }
    if run.layout.sharing == Sharing::Shared {
        let what = format!("workers share files of the same size, but file_size is `{sizes}`");
        return refused(what, "one size, or sharing own".to_owned(), &[setting, Setting::Sharing]);
    }
    let largest = run.largest_file_bytes();
    match setting.range() {
        Some(range) if largest > range.max => {
            let what = format!(
                "the largest of {} files of `{sizes}` has {}",
                run.files,
                show_size(largest)
            );
            let hint = format!("at most {}: add `max 1GiB`, for example", show_size(range.max));
            refused(what, hint, &[setting])
        }
        _ if largest == 0 => {
            let what = format!("all files of `{sizes}` are empty");
            refused(what, "a share of files with data".to_owned(), &[setting])
        }
        _ => Ok(()),
    }
}

/// Each user's part of a cache must hold the largest object, which is written with one op.
fn check_cache(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let largest = run.kv_cache.largest_bytes(run.files);
    let part = run.kv_cache.capacity_bytes / u64::from(run.all_workers().max(1));
    let settings = [Setting::CacheCapacity, Setting::ObjectSize, Setting::Workers];
    let fault = if largest > u64::from(u32::MAX) {
        let what = format!("objects of up to {} are too large", show_size(largest));
        Fault::new(what).hint("less than 4 GiB; a distribution may end with `max 2GiB`")
    } else if largest > part {
        let what = format!(
            "an object of {} doesn't fit into the {} of the cache that each of {} users has",
            show_size(largest),
            show_size(part),
            run.all_workers()
        );
        let all = largest.saturating_mul(run.all_workers().into());
        Fault::new(what).hint(format!("a cache_capacity of at least \"{}\"", text::size(all)))
    } else {
        return Ok(());
    };
    Err(written.fault(run, &settings, fault))
}

/// Checks an op mix, whose file set follows from its load.
fn check_offered(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let is_empty = !run.op_mix.shares.is_empty()
        && run.op_mix.shares.iter().all(|(kind, _)| *kind == OpKind::Null);
    if run.load.rate_per_s > 0 || is_empty {
        return Ok(());
    }
    let fault = Fault::new("an op mix without a rate has no load, and no files")
        .hint("offer some ops per second, such as rate 500");
    Err(written.fault(run, &[Setting::Rate], fault))
}
