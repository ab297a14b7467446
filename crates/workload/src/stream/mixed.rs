//! Reads and writes in the stated shares, and the seeks of bonnie.
//!
//! Op number i draws its place from (seed, i), uniformly or by Zipf's law. Where only a share of
//! the ops goes to random places, the others go on where the one before ended, within a run of
//! ops that one worker executes; runs begin one behind the other, as a sequential reader would.
//! With random places alone a run is one op. So workers change who executes an op, never which.

use model::random::{below, draw};
use model::{Op, OpKind, Pass, RunSpec, Soak};

use crate::permute::Permutation;
use crate::zipf::Zipf;

/// Bytes of a run in which ops may follow each other.
const RUN_BYTES: u64 = 8 << 20;

/// At least so many runs are in one file, where it has as many ops.
const RUNS_PER_FILE: u64 = 16;

/// Share of the seeks that change and write back what they read, in percent.
///
/// **Source:** `UpdateSeek` of bonnie++ (one in ten).
pub(super) const SEEKS_UPDATED_PERCENT: u64 = 10;

/// Seeks of a pass that nothing else bounds.
///
/// **Source:** T. Bray's bonnie.
pub(super) const SEEKS: u64 = 4000;

/// The files that a worker of a soak works on, and when they are made safe.
#[derive(Clone, Copy, Debug)]
struct Own {
    worker: u64,
    /// Ops between two syncs; 0 for none.
    every: u32,
    /// Ops since the last sync.
    since: u32,
    /// The file that is synced next, among those of the worker.
    next: u64,
}

impl Own {
    fn new(soak: &Soak, worker: u32) -> Self {
        Self { worker: worker.into(), every: soak.commit_every_ops, since: 0, next: 0 }
    }

    /// Returns the file of this worker's in the place of any.
    const fn own_file(self, file: u64, workers: u64, files: u64) -> u64 {
        let file = file - file % workers + self.worker;
        if file < files { file } else { self.worker }
    }

    /// Returns the sync that comes next, where its number of writes is reached.
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

/// Random ops of one worker.
#[derive(Clone, Debug)]
pub(super) struct Mixed {
    seed: u64,
    io_size: u32,
    files: u64,
    /// Whole blocks in a file.
    blocks: u64,
    set_blocks: u64,
    /// Kinds of the two shares, and the first of them in percent.
    kinds: [OpKind; 2],
    first_percent: u64,
    random_percent: u64,
    popular: Option<(Zipf, Permutation)>,
    workers: u64,
    /// The files of this worker in a soak.
    own: Option<Own>,
    /// Ops of a run, and those left of this one.
    run: u64,
    run_left: u64,
    /// Number of the next op.
    index: u64,
    /// Block of the last one.
    at: u64,
}

impl Mixed {
    pub(super) fn new(spec: &RunSpec, pass: Pass, worker: u32, seed: u64) -> Self {
        let blocks = (spec.file_size_bytes / u64::from(spec.io_size_bytes)).max(1);
        let set_blocks = blocks * u64::from(spec.files);
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
            files: u64::from(spec.files),
            blocks,
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
            workers: u64::from(spec.workers),
            own: spec.soak.as_deref().map(|soak| Own::new(soak, worker)),
            run,
            run_left: run,
            index: run * u64::from(worker),
            at: 0,
        }
    }

    /// Appends the next ops.
    #[inline]
    pub(super) fn take(&mut self, count: usize, out: &mut Vec<Op>) {
        if self.run == 1 && self.random_percent >= 100 && self.popular.is_none() {
            out.extend((0..count).map(|_| self.next_anywhere()));
        } else {
            out.extend((0..count).map(|_| self.next()));
        }
    }

    /// Returns the next op.
    pub(super) fn next(&mut self) -> Op {
        if let Some(own) = &mut self.own
            && let Some(sync) = own.next_sync(self.workers, self.files)
        {
            return sync;
        }
        let seed = draw(self.seed, self.index);
        if self.run == 1 && self.random_percent >= 100 {
            self.index += self.workers;
            self.at = self.draw_block(seed);
        } else {
            self.follow_run(seed);
        }
        self.make_op(seed, self.at / self.blocks, self.at % self.blocks)
    }

    /// Returns the next op where all are spread over the set evenly: what [`Self::next`] gives,
    /// without a division.
    #[inline]
    fn next_anywhere(&mut self) -> Op {
        let seed = draw(self.seed, self.index);
        self.index += self.workers;
        // `below` multiplies a draw with a bound and keeps the upper half, so the same draw gives
        // the same share of any bound. A share of the files is the same share of the blocks,
        // rounded down to a file's first.
        let file = below(seed, self.files);
        self.make_op(seed, file, below(seed, self.set_blocks) - file * self.blocks)
    }

    /// Makes an op: one draw places it in the whole set; a draw from that draw decides its kind.
    #[inline]
    fn make_op(&self, seed: u64, file: u64, block: u64) -> Op {
        let is_first = match self.first_percent {
            100.. => true,
            percent => below(draw(seed, 0), 100) < percent,
        };
        let kind = if is_first { self.kinds[0] } else { self.kinds[1] };
        let file = match self.own {
            Some(own) => own.own_file(file, self.workers, self.files),
            None => file,
        };
        Op::new(kind, file as u32, block * u64::from(self.io_size), self.io_size)
    }

    #[inline]
    fn draw_block(&self, seed: u64) -> u64 {
        match &self.popular {
            None => below(seed, self.set_blocks),
            // By a permutation the popular blocks are spread over the set: else they would all
            // stand at the start of the first file, one behind the other.
            Some((zipf, spread)) => spread.number_at(zipf.draw_rank(seed)),
        }
    }

    /// Goes to a random place, or on in the run.
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
        // Runs are dealt out to workers in turn: at its end a worker skips those of the others.
        self.index += 1;
        self.run_left -= 1;
        if self.run_left == 0 {
            self.run_left = self.run;
            self.index += (self.workers - 1) * self.run;
        }
    }
}
