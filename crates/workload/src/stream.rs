//! Ops of one worker in one pass, in order.
//!
//! [`OpStream`] is a function of run, pass, worker and seed. Each family of passes has a small
//! module that chooses the next op. This module contains what they have in common: limits,
//! scheduled times, and the syncs that make written data durable. A stream ends by itself or, if it
//! is limited by time, when its owner calls [`OpStream::finish`]. Neither `take` nor `next_op`
//! allocates or fails.

mod by_name;
mod directories;
mod mixed;
mod size;
mod sweep;

use model::random::draw;
use model::work::Sharing;
use model::{Durability, Op, OpKind, Pass, RunSpec, Workload};

use crate::arrivals::{Arrivals, Batch};
use crate::opmix::OpMixStream;
use crate::transactions::{PoolRemains, PoolStream};
use by_name::ByName;
use directories::Directories;
use mixed::Mixed;
use sweep::{Scatter, Sweep};

pub use directories::{has_find_text, listed_directories};
pub use size::PassSize;
pub use size::{mean_bytes, pass_size};

/// Seed constant that separates arrivals from other draws with the same seed.
const ARRIVALS: u64 = 0x6172_7269;

/// Ops of one worker.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct OpStream {
    family: Family,
    arrivals: Option<Box<Arrivals>>,
    /// Number of ops per arrival.
    batch: Batch,
    /// Number of the last arrival, if arrivals aren't distributed in turn.
    shared_number: Option<u64>,
    worker: u32,
    workers: u32,
    /// Neither scheduled times nor bytes need to be counted.
    is_plain: bool,
    /// Ops handed out, except for syncs; only counted if scheduled times are needed.
    given: u64,
    ops_left: u64,
    bytes_left: u64,
    is_endless: bool,
    has_ended: bool,
    is_ordered: bool,
    /// Syncs at the end: the number of files, and the next one.
    syncs: u32,
    synced: u32,
    /// The only sync is that of the worker's own file.
    syncs_own: bool,
}

#[derive(Clone, Debug)]
enum Family {
    Sweep(Sweep),
    Scatter(Scatter),
    Mixed(Mixed),
    ByName(ByName),
    Directories(Directories),
    Pool(Box<PoolStream>),
    Remains(PoolRemains),
    OpMix(Box<OpMixStream>),
    /// An external tool does the work.
    Nothing,
}

impl OpStream {
    /// Starts the ops of `worker` in `pass`.
    pub fn new(spec: &RunSpec, pass: Pass, worker: u32, seed: u64) -> Self {
        let family = Family::new(spec, pass, worker, seed);
        let batch = match &family {
            Family::OpMix(mix) => mix.calls_per_request(),
            _ => Batch::SINGLE,
        };
        let shared = spec.layout.sharing == Sharing::Shared;
        // If any worker may have written to any file, files are synced at the end of the pass. A
        // sweep over private files syncs each file once it is written.
        let syncs_all = match pass {
            Pass::Mix | Pass::Oltp => spec.read_percent < 100,
            Pass::Boot => false,
            _ => shared && pass.kinds().contains(&OpKind::Sync),
        };
        let syncs_own = pass == Pass::Boot && spec.read_percent < 100;
        let (ops_left, bytes_left) = size::worker_bounds(spec, pass, worker);
        let ops_left = if bytes_left == 0 { 0 } else { ops_left };
        Self {
            family,
            arrivals: Arrivals::new(&spec.load, draw(seed, ARRIVALS), batch).map(Box::new),
            batch,
            shared_number: None,
            worker,
            workers: spec.workers,
            is_plain: spec.load.rate_per_s == 0 && bytes_left == u64::MAX && spec.soak.is_none(),
            given: 0,
            ops_left,
            bytes_left,
            is_endless: spec.time_max_ns(pass).is_some(),
            has_ended: false,
            is_ordered: matches!(pass, Pass::Rename | Pass::RenameDirs | Pass::Transactions),
            syncs: match spec.durability {
                Durability::Sync if syncs_all => spec.files,
                Durability::Sync => u32::from(syncs_own),
                _ => 0,
            },
            synced: 0,
            syncs_own,
        }
    }

    /// Draws scheduled times from a separate seed, without changing the ops.
    #[must_use]
    pub fn scheduled_by(mut self, schedule_seed: u64) -> Self {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.set_seed(draw(schedule_seed, ARRIVALS));
        }
        self
    }

    /// Returns true if the stream may be ended by time, in which case the caller must call
    /// [`Self::finish`].
    pub const fn is_endless(&self) -> bool {
        self.is_endless
    }

    /// Returns true if ops on the same file are ordered: each must have completed before the next
    /// one begins.
    pub const fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Returns true if ops have scheduled times.
    pub const fn is_open_loop(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Counts the ops that were scheduled before a time, in nanoseconds from the start of the pass,
    /// but not started because the stream was ended early. If ops are parts of requests, or if the
    /// file determines the worker of an op, this is the worker's average share.
    pub fn count_unstarted(&mut self, until_ns: u64) -> u64 {
        let worker = u64::from(self.worker);
        let workers = u64::from(self.workers);
        let Some(arrivals) = &mut self.arrivals else { return 0 };
        match self.shared_number {
            // Arrivals are distributed in turn: this worker has every `workers`-th of them.
            None => {
                let mut number = self.given * workers + worker;
                let mut count = 0;
                while arrivals.scheduled_ns(number) < until_ns {
                    count += 1;
                    number += workers;
                }
                count
            }
            // Which of the later arrivals belong to this worker depends on ops that were never
            // drawn.
            Some(number) => {
                let mut next = number + 1;
                while arrivals.scheduled_ns(next) < until_ns {
                    next += 1;
                }
                let Batch { ops, arrivals } = self.batch;
                (u128::from(next - number - 1) * u128::from(ops)
                    / (u128::from(arrivals) * u128::from(workers))) as u64
            }
        }
    }

    /// Returns the number of files begun by a pass over whole files, or `None` for other passes.
    pub const fn files_begun(&self) -> Option<u64> {
        match &self.family {
            Family::Sweep(sweep) => Some(sweep.begun()),
            _ => None,
        }
    }

    /// Ends a stream early, so that only syncs are left.
    pub fn finish(&mut self) {
        if self.has_ended {
            return;
        }
        self.is_endless = false;
        self.has_ended = true;
        self.ops_left = 0;
        // A sweep ends with its own sync. Don't free anything here, because that takes time, too.
        if let Family::Sweep(sweep) = &mut self.family {
            sweep.finish();
        }
    }

    /// Appends up to `room` ops. Stops early if the next op is not of the same kind; use
    /// [`Self::next_op`] then. Ops in a batch take a fraction of the time of single ones.
    #[inline]
    pub fn take(&mut self, room: usize, out: &mut Vec<Op>) {
        if !self.is_plain {
            return;
        }
        let room = usize::try_from(self.ops_left).map_or(room, |left| left.min(room));
        let taken = match &mut self.family {
            Family::Sweep(sweep) => sweep.take(room, out),
            Family::Mixed(mixed) => {
                mixed.take(room, out);
                room
            }
            _ => 0,
        };
        self.ops_left -= taken as u64;
    }

    /// Returns the next op. In an open loop, its `scheduled_ns` counts from the start of the pass
    /// and is never 0. Syncs and all ops of a closed loop may start at once and have 0.
    pub fn next_op(&mut self) -> Option<Op> {
        if self.ops_left == 0 {
            return self.last_ops();
        }
        let Some(op) = self.family.next() else { return self.final_sync() };
        if op.kind == OpKind::Sync {
            return Some(op);
        }
        self.ops_left -= 1;
        let scheduled_ns = if self.is_plain { 0 } else { self.schedule_op(op.len_bytes) };
        Some(Op { scheduled_ns, ..op })
    }

    /// Returns the ops left once a limit is reached: the sync of the file in progress, then all
    /// others.
    #[cold]
    fn last_ops(&mut self) -> Option<Op> {
        self.finish();
        match &mut self.family {
            Family::Sweep(sweep) => match sweep.next() {
                Some(op) => Some(op),
                None => self.final_sync(),
            },
            _ => self.final_sync(),
        }
    }

    /// Counts bytes if they are limited, and returns when the op just taken is scheduled.
    fn schedule_op(&mut self, len_bytes: u32) -> u64 {
        self.bytes_left = self.bytes_left.saturating_sub(u64::from(len_bytes));
        if self.bytes_left == 0 {
            self.ops_left = 0;
        }
        self.shared_number = self.family.arrival_number();
        let mine = self.given * u64::from(self.workers) + u64::from(self.worker);
        self.given += 1;
        let number = self.shared_number.unwrap_or(mine);
        match &mut self.arrivals {
            Some(arrivals) => arrivals.scheduled_ns(number),
            None => 0,
        }
    }

    /// Syncs every file, since any worker may have written to any of them. Each worker begins with
    /// a different one. The syncs of the last worker to finish cover everything written by all.
    #[cold]
    const fn final_sync(&mut self) -> Option<Op> {
        if self.synced >= self.syncs {
            return None;
        }
        let file =
            if self.syncs_own { self.worker } else { (self.worker + self.synced) % self.syncs };
        self.synced += 1;
        Some(Op::new(OpKind::Sync, file, 0, 0))
    }
}

impl Family {
    fn new(spec: &RunSpec, pass: Pass, worker: u32, seed: u64) -> Self {
        let kind = pass.kinds()[0];
        match pass {
            Pass::Seeks => Self::Mixed(Mixed::new(spec, pass, worker, seed)),
            _ if pass.is_mix() => Self::Mixed(Mixed::new(spec, pass, worker, seed)),
            Pass::RandomRead | Pass::RandomWrite if spec.layout.sharing == Sharing::Shared => {
                Self::Scatter(Scatter::new(spec, pass, kind, worker, seed))
            }
            Pass::Remove if spec.workload == Workload::Transactions => {
                Self::Remains(PoolStream::remaining_files(spec, worker, seed))
            }
            Pass::Transactions => Self::Pool(Box::new(PoolStream::new(spec, worker, seed))),
            Pass::OpMix => Self::OpMix(Box::new(OpMixStream::new(spec, worker, seed))),
            Pass::App => Self::Nothing,
            Pass::Punch | Pass::Seek => Self::Sweep(Sweep::new(spec, pass, kind, worker, seed)),
            _ if pass.lists() => Self::Directories(Directories::new(spec, kind, worker)),
            _ if pass.moves_blocks() => Self::Sweep(Sweep::new(spec, pass, kind, worker, seed)),
            _ => Self::ByName(ByName::new(spec, pass, kind, worker, seed)),
        }
    }

    fn next(&mut self) -> Option<Op> {
        match self {
            Self::Sweep(sweep) => sweep.next(),
            Self::Mixed(mixed) => Some(mixed.next()),
            Self::Scatter(scatter) => scatter.next(),
            Self::ByName(names) => names.next(),
            Self::Directories(directories) => directories.next(),
            Self::Pool(pool) => pool.next(),
            Self::Remains(remains) => remains.next(),
            Self::OpMix(mix) => Some(mix.next()),
            Self::Nothing => None,
        }
    }

    /// Returns the arrival number of the last op, unless arrivals are distributed in turn.
    const fn arrival_number(&self) -> Option<u64> {
        match self {
            Self::Pool(pool) => Some(pool.number()),
            Self::OpMix(mix) => Some(mix.number()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
