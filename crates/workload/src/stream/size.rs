//! Amount of work of a pass and of each of its workers.
//!
//! The amount is exact if files determine the end of the pass, and unknown beforehand if time does.

use model::{Load, Opens, Pass, RunSpec, Share, Workload};

use super::developer::Developer;
use super::directories::listed_entries;
use super::samples::TrainingSteps;
use super::{mixed, sweep};
use crate::file_set::FileSet;
use crate::moved_bytes::MovedBytes;
use crate::opmix::OpMixSet;
use crate::{kv_cache, transactions};

/// Amount of work of a pass, as far as it is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassSize {
    /// Ops over all workers; `None` if the pass may be limited by time, or by bytes of ops of
    /// different sizes.
    pub ops: Option<u64>,
    /// Bytes over all workers; `None` if unknown beforehand.
    pub bytes: Option<u64>,
}

/// Returns how much work a pass has, not counting syncs. For the removal of what is left in a pool
/// after its transactions, neither number is known here.
pub fn pass_size(spec: &RunSpec, pass: Pass) -> PassSize {
    if spec.time_max_ns(pass).is_some() || pass == Pass::App {
        return PassSize { ops: None, bytes: None };
    }
    let is_pool = spec.workload == Workload::Transactions;
    if is_pool && matches!(pass, Pass::Remove | Pass::Transactions) {
        let all = 2 * spec.transactions.count;
        // Files, and therefore ops, are assigned to workers at random, so workers reach their
        // limits at different times.
        let whole = pass == Pass::Transactions && !is_bounded(&spec.load);
        return PassSize { ops: if whole { Some(all) } else { None }, bytes: None };
    }
    let mut ops = 0_u64;
    let mut bytes = Some(0_u64);
    for worker in 0..spec.workers {
        let (bound, bytes_bound) = worker_bounds(spec, pass, worker);
        if bytes_bound != u64::MAX {
            return PassSize { ops: None, bytes: None };
        }
        let (share, share_bytes) = unbounded_share(spec, pass, worker);
        ops = ops.saturating_add(share.min(bound));
        let known = if share <= bound { share_bytes } else { equal_bytes(spec, pass, bound) };
        bytes = match (bytes, known) {
            (Some(sum), Some(known)) => Some(sum.saturating_add(known)),
            _ => None,
        };
    }
    PassSize { ops: if ops == u64::MAX { None } else { Some(ops) }, bytes }
}

/// Returns the mean number of bytes read and written by `ops` ops of a pass whose ops are drawn at
/// random; `None` for other passes.
pub fn mean_bytes(spec: &RunSpec, pass: Pass, ops: u64) -> Option<MovedBytes> {
    let io_size = u64::from(spec.io_size_bytes);
    let share = |percent: u64| (u128::from(ops) * u128::from(percent) / 100) as u64;
    match pass {
        Pass::Oltp => {
            let database = &spec.database;
            let every = u128::from(database.ops_per_append());
            let pages = (u128::from(ops) * every / (every + 1)) as u64;
            let reads = (u128::from(pages) * u128::from(spec.read_percent) / 100) as u64;
            let logged = (ops - pages).saturating_mul(database.commit_bytes.into());
            Some(MovedBytes {
                read: reads.saturating_mul(io_size),
                written: (pages - reads).saturating_mul(io_size).saturating_add(logged),
            })
        }
        Pass::Mix | Pass::Boot => {
            let reads = share(spec.read_percent.into());
            Some(MovedBytes {
                read: reads.saturating_mul(io_size),
                written: (ops - reads).saturating_mul(io_size),
            })
        }
        Pass::Seeks => Some(MovedBytes {
            read: ops.saturating_mul(io_size),
            written: share(mixed::SEEKS_UPDATED_PERCENT).saturating_mul(io_size),
        }),
        Pass::OpMix => Some(OpMixSet::new(spec).mean_bytes(spec, ops)),
        Pass::Serve => Some(kv_cache::mean_bytes(spec, ops)),
        _ if pass.is_of_developer() => {
            let mut all = MovedBytes { read: 0, written: 0 };
            for worker in 0..spec.workers {
                let (_, moved) = developer_share(spec, pass, worker);
                all.read += moved.read;
                all.written += moved.written;
            }
            Some(all)
        }
        Pass::Transactions => Some(transactions::mean_bytes(spec, ops)),
        Pass::Train if spec.training.reads_whole_files() => {
            Some(MovedBytes { read: spec.file_size_bytes.saturating_mul(ops), written: 0 })
        }
        Pass::Create | Pass::ReadFiles | Pass::Record | Pass::Play => {
            let bytes = spec.file_size_bytes.saturating_mul(ops);
            Some(match pass {
                Pass::Create | Pass::Record => MovedBytes { read: 0, written: bytes },
                _ => MovedBytes { read: bytes, written: 0 },
            })
        }
        _ => None,
    }
}

/// Returns the bytes of `ops` ops of equal size.
fn equal_bytes(spec: &RunSpec, pass: Pass, ops: u64) -> Option<u64> {
    let io_size = u64::from(spec.io_size_bytes);
    let whole = spec.file_size_bytes.is_multiple_of(io_size);
    match pass {
        Pass::Mix | Pass::Seeks | Pass::Boot => Some(ops.saturating_mul(io_size)),
        Pass::Oltp => None,
        _ if spec.file_sizes.is_some() && pass.opens() != Opens::Nothing => None,
        Pass::Create | Pass::ReadFiles if spec.file_sizes.is_some() => None,
        _ if pass.moves_blocks() || pass == Pass::Punch => {
            let block = spec.layout.block_size_bytes;
            let is_equal = whole && block.is_multiple_of(io_size);
            if is_equal { Some(ops * io_size) } else { None }
        }
        Pass::Create | Pass::ReadFiles if spec.workload == Workload::Metadata => {
            Some(ops * spec.file_size_bytes)
        }
        Pass::Record | Pass::Play => Some(ops * spec.file_size_bytes),
        Pass::Create | Pass::ReadFiles | Pass::OpMix | Pass::Serve => None,
        _ => Some(0),
    }
}

/// Returns the ops of a worker in a developer's pass, and what they move, by going through them.
fn developer_share(spec: &RunSpec, pass: Pass, worker: u32) -> (u64, MovedBytes) {
    let mut developer = Developer::new(spec, pass, worker);
    let mut ops = 0;
    let mut moved = MovedBytes { read: 0, written: 0 };
    while let Some(op) = developer.next() {
        ops += 1;
        if op.kind.writes_data() {
            moved.written += u64::from(op.len_bytes);
        } else {
            moved.read += u64::from(op.len_bytes);
        }
    }
    (ops, moved)
}

/// Returns the ops and bytes of one worker if only the files limit the pass.
fn unbounded_share(spec: &RunSpec, pass: Pass, worker: u32) -> (u64, Option<u64>) {
    let numbers = u64::from(spec.files.saturating_sub(worker).div_ceil(spec.workers.max(1)));
    let loops = u64::from(spec.layout.loops.max(1));
    match pass {
        Pass::Seeks | Pass::OpMix | Pass::Serve => (u64::MAX, None),
        _ if pass.is_mix() => (u64::MAX, None),
        Pass::RandomRead | Pass::RandomWrite
            if spec.layout.sharing == model::work::Sharing::Shared =>
        {
            let io_size = u64::from(spec.io_size_bytes);
            let all = spec.file_size_bytes.div_ceil(io_size) * u64::from(spec.files);
            let all = all.saturating_mul(loops);
            let share = all.saturating_sub(u64::from(worker)).div_ceil(spec.workers.into());
            // Only the size of the whole set is known, so add it for worker 0.
            let set_bytes = spec.set_bytes().saturating_mul(loops);
            (share, Some(if worker == 0 { set_bytes } else { 0 }))
        }
        _ if pass.moves_blocks() => {
            let (ops, bytes) = sweep::share(spec, worker);
            (ops.saturating_mul(loops), Some(bytes.saturating_mul(loops)))
        }
        Pass::Punch => {
            let (ops, bytes) = sweep::share_of_every_second(spec, numbers);
            (ops, Some(bytes))
        }
        Pass::Seek => {
            let (ops, _) = sweep::share(spec, worker);
            (ops, Some(0))
        }
        _ if pass.is_of_developer() => {
            let (ops, moved) = developer_share(spec, pass, worker);
            (ops, Some(moved.all()))
        }
        Pass::Train => {
            let readers = spec.training.readers.max(1);
            let steps = TrainingSteps::new(spec);
            let own = steps.of_reader((worker % readers).into(), readers.into());
            // The order of files, and so which of them are left out, depends on the seed.
            let bytes = own * steps.batch * steps.sample_bytes;
            (own * steps.ops_per_batch, spec.file_sizes.is_none().then_some(bytes))
        }
        Pass::Rename | Pass::RenameDirs => (2 * numbers, Some(0)),
        // Only the number of all entries is known without going through all of them.
        _ if pass.lists() => (if worker == 0 { listed_entries(spec) } else { 0 }, Some(0)),
        Pass::Create | Pass::ReadFiles | Pass::Record | Pass::Play => {
            let own = Share { first: worker, count: 1 };
            (numbers, Some(FileSet::new(spec).bytes_of(own, spec.workers)))
        }
        _ => (numbers, Some(0)),
    }
}

const fn is_bounded(load: &Load) -> bool {
    load.ops_max > 0 || load.bytes_max > 0
}

/// Returns the maximum ops and bytes of one worker: its share of the limits for all workers.
///
/// If all ops have the same size, a limit of bytes is converted to ops.
pub(super) fn worker_bounds(spec: &RunSpec, pass: Pass, worker: u32) -> (u64, u64) {
    let mut ops = spec.load.ops_max;
    let mut bytes = spec.load.bytes_max;
    // Files of different sizes end with ops of different sizes.
    let is_mix = matches!(pass, Pass::Mix | Pass::Seeks | Pass::Boot);
    let is_whole = spec.file_sizes.is_none() && (pass.moves_blocks() || pass == Pass::Punch);
    let is_equal = is_mix || is_whole;
    if is_equal && bytes > 0 {
        let as_ops = bytes.div_ceil(u64::from(spec.io_size_bytes.max(1)));
        ops = if ops == 0 { as_ops } else { ops.min(as_ops) };
        bytes = 0;
    }
    if pass == Pass::Seeks && ops == 0 && spec.time_max_ns(pass).is_none() {
        ops = mixed::SEEKS;
    }
    let ops = bound_share(spec.workers, worker, ops);
    let own = match pass {
        Pass::Boot => spec.vm_boot.bytes.div_ceil(spec.io_size_bytes.max(1).into()),
        _ => u64::MAX,
    };
    (ops.min(own), bound_share(spec.workers, worker, bytes))
}

/// Returns a worker's share of a common limit; 0 means no limit.
fn bound_share(workers: u32, worker: u32, all: u64) -> u64 {
    if all == 0 {
        return u64::MAX;
    }
    let worker = u64::from(worker);
    let workers = u64::from(workers.max(1));
    // If it doesn't divide evenly, the first workers do one more each.
    all / workers + u64::from(worker < all % workers)
}
