//! Reads and writes in the given proportions, and the seeks of bonnie.
//!
//! Op number i draws its position from (seed, i), uniformly or by Zipf's law. If only a share of
//! the ops is random, the others continue where the previous one ended, within a run of ops
//! executed by one worker. Runs begin one after the other, as for a sequential reader. If all ops
//! are random, a run is a single op. If files have different sizes, each block is equally likely.
//! So the number of workers affects who executes an op but never the ops themselves.
//!
//! In a database, the last file is the log, to which the workers append in turn. Virtual machines
//! boot the same system, so each draws the same positions in its own image.

use std::sync::Arc;

use model::permute::Permutation;
use model::random::{below, draw};
use model::{Op, OpKind, Pass, RunSpec, Soak};

use crate::file_set::FileSet;
use crate::zipf::Zipf;

/// Bytes of a run in which ops may follow each other.
const RUN_BYTES: u64 = 8 << 20;

/// Minimum number of runs per file, if it has that many ops.
const RUNS_PER_FILE: u64 = 16;

/// Share of seeks that change and write back what they read, in percent.
///
/// **Source:** `UpdateSeek` of bonnie++ (one in ten).
pub(super) const SEEKS_UPDATED_PERCENT: u64 = 10;

/// Number of seeks in a pass without any other limit.
///
/// **Source:** T. Bray's bonnie.
pub(super) const SEEKS: u64 = 4000;

/// The files of a worker in a soak, and when they are committed.
#[derive(Clone, Copy, Debug)]
struct OwnFiles {
    worker: u64,
    /// Ops between two syncs; 0 for none.
    every: u32,
    /// Ops since the last sync.
    since: u32,
    /// The next of this worker's files to be synced.
    next: u64,
}

impl OwnFiles {
    fn new(soak: &Soak, worker: u32) -> Self {
        Self { worker: worker.into(), every: soak.commit_every_ops, since: 0, next: 0 }
    }

    /// Maps any file to one of this worker's own.
    const fn own_file(self, file: u64, workers: u64, files: u64) -> u64 {
        let file = file - file % workers + self.worker;
        if file < files { file } else { self.worker }
    }

    /// Returns a sync if it is due.
    fn next_sync(&mut self, workers: u64, files: u64) -> Option<Op> {
        if self.every == 0 || self.since < self.every {
            self.since += 1;
            return None;
        }
        self.since = 0;
        let file = self.worker + self.next * workers;
        let file = if file < files { file } else { self.worker };
        self.next = file / workers + 1;
        Some(Op::new(OpKind::Sync, file as u32, 0, 0))
    }
}

/// The log of a database: one worker's part of the appends.
#[derive(Clone, Copy, Debug)]
struct Log {
    file: u32,
    /// Bytes of an append.
    bytes: u32,
    /// Number of appends that fit into the file. Further ones start over, as databases reuse the
    /// segments of their log.
    places: u64,
    /// Reads and writes before each append, and those since the last one.
    every: u64,
    since: u64,
    /// Number of the next append over all workers.
    next: u64,
}

impl Log {
    fn new(spec: &RunSpec, worker: u32) -> Self {
        let bytes = spec.database.commit_bytes.max(1);
        Self {
            file: spec.files.saturating_sub(1),
            bytes,
            places: (spec.file_size_bytes / u64::from(bytes)).max(1),
            every: spec.database.ops_per_append(),
            since: 0,
            next: worker.into(),
        }
    }

    /// Returns an append if it is due.
    fn next_append(&mut self, workers: u64) -> Option<Op> {
        if self.since < self.every {
            self.since += 1;
            return None;
        }
        self.since = 0;
        let offset = self.next % self.places * u64::from(self.bytes);
        self.next += workers;
        Some(Op::new(OpKind::LogAppend, self.file, offset, self.bytes))
    }
}

/// The files of a virtual machine.
#[derive(Clone, Copy, Debug)]
struct Images {
    read: u32,
    written: u32,
}

impl Images {
    fn new(spec: &RunSpec, worker: u32) -> Self {
        let base = spec.files.saturating_sub(1);
        Self { read: if spec.vm_boot.base_image { base } else { worker }, written: worker }
    }
}

/// Random ops of one worker.
#[derive(Clone, Debug)]
pub(super) struct Mixed {
    seed: u64,
    io_size: u32,
    files: u64,
    /// Complete blocks per file; if their numbers differ, on average.
    blocks: u64,
    /// The first block of each file, and the end of the last one, if their numbers differ.
    firsts: Option<Arc<[u64]>>,
    set_blocks: u64,
    /// The two kinds of op, and the share of the first in percent.
    kinds: [OpKind; 2],
    first_percent: u64,
    random_percent: u64,
    popular: Option<(Zipf, Permutation)>,
    workers: u64,
    /// The files of this worker in a soak.
    own: Option<OwnFiles>,
    log: Option<Log>,
    images: Option<Images>,
    /// Ops per run, and those left in the current one.
    run: u64,
    run_left: u64,
    /// Number of the next op.
    index: u64,
    /// Block of the last op.
    at: u64,
}

impl Mixed {
    pub(super) fn new(spec: &RunSpec, pass: Pass, worker: u32, seed: u64) -> Self {
        let blocks = (spec.file_size_bytes / u64::from(spec.io_size_bytes)).max(1);
        let images = (pass == Pass::Boot).then(|| Images::new(spec, worker));
        let log = (pass == Pass::Oltp).then(|| Log::new(spec, worker));
        // Files from which positions are drawn.
        let files = match pass {
            Pass::Boot => 1,
            Pass::Oltp => u64::from(spec.files).saturating_sub(1).max(1),
            _ => u64::from(spec.files),
        };
        let (workers, worker_of_set) =
            if images.is_some() { (1, 0) } else { (spec.workers, worker) };
        let firsts = FileSet::new(spec).first_blocks(spec.io_size_bytes);
        let set_blocks = match firsts.as_deref() {
            Some(firsts) => firsts.last().copied().unwrap_or(0).max(1),
            None => blocks * files,
        };
        let seeks = pass == Pass::Seeks;
        let random_percent = if seeks { 100 } else { spec.layout.random_percent };
        let run = if random_percent >= 100 {
            1
        } else {
            let longest = (blocks / RUNS_PER_FILE).max(1);
            (RUN_BYTES / u64::from(spec.io_size_bytes)).clamp(1, longest)
        };
        let skew = spec.layout.skew_percent;
        Self {
            seed,
            io_size: spec.io_size_bytes,
            files,
            blocks,
            firsts,
            set_blocks,
            kinds: if seeks {
                [OpKind::Update, OpKind::Read]
            } else {
                [OpKind::Read, OpKind::Write]
            },
            first_percent: if seeks { SEEKS_UPDATED_PERCENT } else { u64::from(spec.read_percent) },
            random_percent: u64::from(random_percent),
            popular: if skew > 0 {
                Some((Zipf::new(skew, set_blocks), Permutation::new(seed, set_blocks)))
            } else {
                None
            },
            workers: u64::from(workers),
            log,
            images,
            own: spec.soak.as_deref().map(|soak| OwnFiles::new(soak, worker)),
            run,
            run_left: run,
            index: run * u64::from(worker_of_set),
            at: 0,
        }
    }

    /// Appends the next ops.
    #[inline]
    pub(super) fn take(&mut self, count: usize, out: &mut Vec<Op>) {
        let is_anywhere = self.run == 1 && self.random_percent >= 100;
        let is_plain = self.popular.is_none() && self.firsts.is_none() && self.log.is_none();
        if is_anywhere && is_plain {
            out.extend((0..count).map(|_| self.next_anywhere()));
        } else {
            out.extend((0..count).map(|_| self.next()));
        }
    }

    pub(super) fn next(&mut self) -> Op {
        if let Some(own) = &mut self.own
            && let Some(sync) = own.next_sync(self.workers, self.files)
        {
            return sync;
        }
        if let Some(log) = &mut self.log
            && let Some(append) = log.next_append(self.workers)
        {
            return append;
        }
        let seed = draw(self.seed, self.index);
        if self.run == 1 && self.random_percent >= 100 {
            self.index += self.workers;
            self.at = self.draw_block(seed);
        } else {
            self.follow_run(seed);
        }
        let (file, block) = self.locate(self.at);
        self.make_op(seed, file, block)
    }

    /// Returns the file of a block of the set, and the number of the block in it.
    #[inline]
    fn locate(&self, at: u64) -> (u64, u64) {
        let Some(firsts) = &self.firsts else { return (at / self.blocks, at % self.blocks) };
        // Files without blocks begin where the next one does, so take the last that begins here.
        let file = firsts.partition_point(|first| *first <= at) - 1;
        (file as u64, at - firsts[file])
    }

    /// Returns the next op if all are spread evenly over the set: the same as [`Self::next`], but
    /// without a division.
    #[inline]
    fn next_anywhere(&mut self) -> Op {
        let seed = draw(self.seed, self.index);
        self.index += self.workers;
        // `below` multiplies a draw by a bound and keeps the upper half, so the same draw results
        // in the same share of any bound. A share of the files is the same share of the blocks,
        // rounded down to the first block of a file.
        let file = below(seed, self.files);
        self.make_op(seed, file, below(seed, self.set_blocks) - file * self.blocks)
    }

    /// Creates an op. One draw determines its position in the whole set, and a draw from that draw
    /// its kind.
    #[inline]
    fn make_op(&self, seed: u64, file: u64, block: u64) -> Op {
        let is_first = match self.first_percent {
            100.. => true,
            percent => below(draw(seed, 0), 100) < percent,
        };
        let kind = if is_first { self.kinds[0] } else { self.kinds[1] };
        let file = match (self.own, self.images) {
            (Some(own), _) => own.own_file(file, self.workers, self.files) as u32,
            (None, Some(images)) if is_first => images.read,
            (None, Some(images)) => images.written,
            (None, None) => file as u32,
        };
        Op::new(kind, file, block * u64::from(self.io_size), self.io_size)
    }

    #[inline]
    fn draw_block(&self, seed: u64) -> u64 {
        match &self.popular {
            None => below(seed, self.set_blocks),
            // A permutation spreads popular blocks over the set. Otherwise, they would all be next
            // to each other at the start of the first file.
            Some((zipf, spread)) => spread.number_at(zipf.draw_rank(seed)),
        }
    }

    /// Goes to a random position or continues the run.
    #[inline(never)]
    fn follow_run(&mut self, seed: u64) {
        let is_random = below(draw(seed, 1), 100) < self.random_percent;
        self.at = if is_random {
            self.draw_block(seed)
        } else if self.run_left == self.run {
            self.index % self.set_blocks
        } else {
            (self.at + 1) % self.set_blocks
        };
        // Runs are distributed to workers in turn, so at the end of a run, skip those of the
        // others.
        self.index += 1;
        self.run_left -= 1;
        if self.run_left == 0 {
            self.run_left = self.run;
            self.index += (self.workers - 1) * self.run;
        }
    }
}
