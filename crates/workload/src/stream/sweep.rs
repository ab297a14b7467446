//! Sequential, backward, strided and shuffled passes, which process every piece of every file once,
//! or as often as the setting `loops` says.
//!
//! A stretch is what one worker processes in a row: a whole private file, or one block of a shared
//! file. Stretches are distributed in turn. A shuffled pass over shared files is a single stretch
//! of all pieces of all files, of which worker w takes each `workers`-th.

use model::permute::Permutation;
use model::random::draw;
use model::work::Sharing;
use model::{Durability, Op, OpKind, Pass, RunSpec, Share};

use crate::file_set::FileSet;

/// Pieces of one worker.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    kind: OpKind,
    order: SweepOrder,
    /// Sync each file when its stretch is done.
    syncs: bool,
    io_size: u64,
    files: FileSet,
    /// Bytes in a stretch; the last one of a file may be shorter.
    stretch_size: u64,
    stretches_per_file: u64,
    stretches: u64,
    worker: u64,
    workers: u64,
    /// How often the worker will begin with its first stretch again.
    loops_left: u32,
    seed: u64,
    stretch: u64,
    file: u32,
    start: u64,
    end: u64,
    pieces: u64,
    next: u64,
    walked: WalkOrder,
    /// Number of finished stretches.
    left: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepOrder {
    Forward,
    Backward,
    Strided(u64),
    Shuffled,
    /// Every second piece, starting with the second.
    EverySecond,
}

/// Position of a walk that is not sequential.
#[derive(Clone, Copy, Debug)]
enum WalkOrder {
    Straight,
    /// Next piece, and where this turn began.
    Strided(u64, u64),
    Shuffled(Permutation),
}

impl Sweep {
    pub(super) fn new(spec: &RunSpec, pass: Pass, kind: OpKind, worker: u32, seed: u64) -> Self {
        let shared = spec.layout.sharing == Sharing::Shared;
        let stretch_size = stretch_size(spec);
        let stretches_per_file = match spec.file_sizes {
            None => spec.file_size_bytes.div_ceil(stretch_size),
            Some(_) => 1,
        };
        let mut sweep = Self {
            kind,
            order: match pass {
                Pass::BackwardRead => SweepOrder::Backward,
                Pass::StrideRead => SweepOrder::Strided(u64::from(spec.layout.stride.max(1))),
                Pass::RandomRead | Pass::RandomWrite => SweepOrder::Shuffled,
                Pass::Punch => SweepOrder::EverySecond,
                _ => SweepOrder::Forward,
            },
            syncs: spec.durability == Durability::Sync && kind.changes() && !shared,
            io_size: u64::from(spec.io_size_bytes),
            files: FileSet::new(spec),
            stretch_size,
            stretches_per_file,
            stretches: stretches_per_file * u64::from(spec.files),
            worker: u64::from(worker),
            workers: u64::from(spec.workers),
            loops_left: spec.layout.loops.saturating_sub(1),
            seed: draw(seed, pass as u64),
            stretch: u64::from(worker),
            file: 0,
            start: 0,
            end: 0,
            pieces: 0,
            next: 0,
            walked: WalkOrder::Straight,
            left: 0,
        };
        sweep.enter_stretch();
        sweep
    }

    pub(super) fn next(&mut self) -> Option<Op> {
        if self.next < self.pieces { Some(self.next_piece()) } else { self.leave_stretch() }
    }

    /// Appends the next pieces of this stretch, and returns how many there were.
    #[inline]
    pub(super) fn take(&mut self, count: usize, out: &mut Vec<Op>) -> usize {
        let count = (self.pieces - self.next).min(count as u64) as usize;
        out.extend((0..count).map(|_| self.next_piece()));
        count
    }

    /// Returns the next piece of this stretch.
    #[inline]
    fn next_piece(&mut self) -> Op {
        let piece = if self.order == SweepOrder::Forward { self.next } else { self.next_walked() };
        self.next += 1;
        let offset = self.start + piece * self.io_size;
        let len = if self.kind == OpKind::Seek { 0 } else { self.io_size.min(self.end - offset) };
        Op::new(self.kind, self.file, offset, len as u32)
    }

    /// Returns the next piece of a walk that is not sequential.
    #[inline(never)]
    fn next_walked(&mut self) -> u64 {
        match &mut self.walked {
            WalkOrder::Straight if self.order == SweepOrder::EverySecond => 2 * self.next + 1,
            WalkOrder::Straight => self.pieces - 1 - self.next,
            // Every stride-th piece. At the end of the stretch, the next turn begins one piece
            // later, until all pieces have been processed.
            WalkOrder::Strided(at, turn) => {
                let piece = *at;
                *at += match self.order {
                    SweepOrder::Strided(stride) => stride,
                    _ => 1,
                };
                if *at >= self.pieces {
                    *turn += 1;
                    *at = *turn;
                }
                piece
            }
            WalkOrder::Shuffled(permutation) => permutation.number_at(self.next),
        }
    }

    /// Ends the walk, leaving only the sync of the file in progress.
    pub(super) const fn finish(&mut self) {
        self.syncs &= self.next > 0;
        self.stretches = 0;
        self.loops_left = 0;
        if self.next == 0 {
            self.pieces = 0;
        }
        self.next = self.pieces;
    }

    /// Returns the number of stretches begun.
    pub(super) const fn begun(&self) -> u64 {
        self.left + (self.next > 0) as u64
    }

    #[cold]
    fn leave_stretch(&mut self) -> Option<Op> {
        let is_synced = self.next > 0 && self.syncs;
        let sync = Op::new(OpKind::Sync, self.file, 0, 0);
        self.left += u64::from(self.next > 0);
        self.next = 0;
        self.pieces = 0;
        self.stretch = self.stretch.saturating_add(self.workers);
        self.enter_stretch();
        // The sync of the previous file comes first; the next call continues with the new stretch.
        if is_synced {
            return Some(sync);
        }
        if self.pieces > 0 { self.next() } else { None }
    }

    /// Begins a stretch, or the next one with any pieces, or the first one again.
    fn enter_stretch(&mut self) {
        loop {
            while self.stretch < self.stretches {
                self.measure_stretch();
                if self.pieces > 0 {
                    return;
                }
                self.stretch = self.stretch.saturating_add(self.workers);
            }
            let Some(left) = self.loops_left.checked_sub(1) else { return };
            self.loops_left = left;
            self.stretch = self.worker;
        }
    }

    fn measure_stretch(&mut self) {
        // A backward pass begins with the last stretch.
        let stretch = match self.order {
            SweepOrder::Backward if self.stretches_per_file > 1 => {
                self.stretches - 1 - self.stretch
            }
            _ => self.stretch,
        };
        self.file = (stretch / self.stretches_per_file) as u32;
        self.start = stretch % self.stretches_per_file * self.stretch_size;
        let file_size = self.files.size(self.file).unwrap_or(0);
        self.end = self.start.saturating_add(self.stretch_size).min(file_size);
        self.pieces = self.end.saturating_sub(self.start).div_ceil(self.io_size);
        if self.order == SweepOrder::EverySecond {
            self.pieces /= 2;
        }
        self.walked = match self.order {
            SweepOrder::Strided(_) => WalkOrder::Strided(0, 0),
            SweepOrder::Shuffled => {
                WalkOrder::Shuffled(Permutation::new(draw(self.seed, stretch), self.pieces))
            }
            SweepOrder::Forward | SweepOrder::Backward | SweepOrder::EverySecond => {
                WalkOrder::Straight
            }
        };
    }
}

/// Returns the number of consecutive bytes of one worker: a private file, or a block of a shared
/// one.
fn stretch_size(spec: &RunSpec) -> u64 {
    let io_size = u64::from(spec.io_size_bytes.max(1));
    let block = match (spec.layout.sharing, spec.layout.block_size_bytes) {
        _ if spec.file_sizes.is_some() => u64::MAX,
        (Sharing::Own, _) => spec.file_size_bytes,
        // As many blocks as workers, each with complete pieces.
        (Sharing::Shared, 0) => {
            let share = spec.file_size_bytes.div_ceil(u64::from(spec.workers.max(1)));
            share.next_multiple_of(io_size)
        }
        (Sharing::Shared, block) => block,
    };
    block.max(1)
}

/// Returns the pieces and bytes processed by a worker each time it goes over its files.
pub(super) fn share(spec: &RunSpec, worker: u32) -> (u64, u64) {
    if spec.file_sizes.is_some() {
        return share_of_distributed(spec, worker);
    }
    let size = spec.file_size_bytes;
    let stretch = stretch_size(spec);
    let io_size = u64::from(spec.io_size_bytes.max(1));
    if size == 0 {
        return (0, 0);
    }
    let per_file = size.div_ceil(stretch);
    let stretches = per_file * u64::from(spec.files);
    let worker = u64::from(worker);
    let workers = u64::from(spec.workers.max(1));
    // Every `workers`-th stretch, starting with the worker's own number.
    let count = stretches.saturating_sub(worker).div_ceil(workers);
    if per_file == 1 {
        return (count * size.div_ceil(io_size), count * size);
    }
    let last = size - (per_file - 1) * stretch;
    // The last stretch of each file may be shorter, so count those of this worker.
    let lasts: u64 = (0..u64::from(spec.files))
        .map(|file| u64::from((file * per_file + per_file - 1) % workers == worker))
        .sum();
    let wholes = count - lasts;
    let pieces = wholes * stretch.div_ceil(io_size) + lasts * last.div_ceil(io_size);
    (pieces, wholes * stretch + lasts * last)
}

/// Returns the pieces and bytes processed by a worker whose own files have different sizes.
fn share_of_distributed(spec: &RunSpec, worker: u32) -> (u64, u64) {
    let files = FileSet::new(spec);
    let io_size = u64::from(spec.io_size_bytes.max(1));
    let own = Share { first: worker, count: 1 };
    let mut share = (0, 0);
    for file in own.owned_numbers(spec.files, spec.workers) {
        let size = files.size(file).unwrap_or(0);
        share = (share.0 + size.div_ceil(io_size), size.saturating_add(share.1));
    }
    share
}

/// Returns the pieces and bytes of a worker that processes every second piece of its own files.
pub(super) fn share_of_every_second(spec: &RunSpec, files: u64) -> (u64, u64) {
    let size = spec.file_size_bytes;
    let io_size = u64::from(spec.io_size_bytes.max(1));
    let pieces = size.div_ceil(io_size);
    // If the number is even, the last piece is one of them, and may be shorter.
    let missing = if pieces.is_multiple_of(2) { pieces * io_size - size } else { 0 };
    (files * (pieces / 2), files * (pieces / 2 * io_size - missing))
}

/// All pieces of all shared files in one random order, distributed in turn.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    kind: OpKind,
    permutation: Permutation,
    io_size: u64,
    file_size: u64,
    pieces_per_file: u64,
    pieces: u64,
    /// Pieces over all loops.
    all: u64,
    workers: u64,
    next: u64,
}

impl Scatter {
    pub(super) fn new(spec: &RunSpec, pass: Pass, kind: OpKind, worker: u32, seed: u64) -> Self {
        let pieces_per_file = spec.file_size_bytes.div_ceil(u64::from(spec.io_size_bytes));
        let pieces = pieces_per_file * u64::from(spec.files);
        Self {
            kind,
            permutation: Permutation::new(draw(seed, pass as u64), pieces),
            io_size: u64::from(spec.io_size_bytes),
            file_size: spec.file_size_bytes,
            pieces_per_file,
            pieces,
            all: pieces * u64::from(spec.layout.loops.max(1)),
            workers: u64::from(spec.workers),
            next: u64::from(worker),
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Op> {
        if self.next >= self.all {
            return None;
        }
        let piece = self.permutation.number_at(self.next % self.pieces);
        self.next += self.workers;
        let offset = piece % self.pieces_per_file * self.io_size;
        let len = self.io_size.min(self.file_size - offset) as u32;
        Some(Op::new(self.kind, (piece / self.pieces_per_file) as u32, offset, len))
    }
}
