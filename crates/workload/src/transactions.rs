//! The pool of small files of a mail or news server, as in `PostMark`.
//!
//! A transaction reads a whole file or appends to it, and creates or removes a file. The sequence
//! depends on the seed and previous transactions, but never on the number of workers: every worker
//! goes through all transactions and executes those on its own files, whose number is `worker`
//! modulo `workers`. [`PoolStream`] contains the pool, which grows without allocating.
//!
//! **Source:** J. Katcher, "PostMark: a new file system benchmark", NetApp TR3022, 1997.

use model::random::{SplitMix64, below};
use model::{FileSizes, Op, OpKind, RunSpec, Transactions};

use crate::file_set::FileSet;
use crate::moved_bytes::MovedBytes;

/// Maximum growth of a pool without a limit, in files.
const GROWTH_MAX: u64 = 1 << 20;

/// Seed constant that separates transactions from other draws with the same seed.
const TRANSACTIONS: u64 = 0x7261_6e73;

#[derive(Clone, Copy, Debug)]
struct File {
    number: u32,
    bytes: u32,
}

/// Ops of one worker, and the whole pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolStream {
    settings: Transactions,
    sizes: FileSizes,
    /// Size up to which appends let a file grow, in bytes.
    largest_bytes: u32,
    pool: Vec<File>,
    /// Maximum number of files in the pool; there is room for this many.
    most: usize,
    random: SplitMix64,
    /// Number of the next file to create.
    created: u32,
    left: u64,
    workers: u32,
    worker: u32,
    /// The transaction has begun, and its second op comes next.
    second: bool,
    number: u64,
}

impl PoolStream {
    pub(crate) fn new(spec: &RunSpec, worker: u32, seed: u64) -> Self {
        let settings = spec.transactions;
        let sizes = FileSet::sizes(spec);
        let growth = settings.count.min(GROWTH_MAX) as usize;
        let most = spec.files as usize + growth;
        let mut pool = Vec::with_capacity(most);
        for number in 0..spec.files {
            pool.push(File { number, bytes: sizes.size(number.into()) as u32 });
        }
        Self {
            largest_bytes: spec.largest_file_bytes() as u32,
            sizes,
            pool,
            most,
            settings,
            random: SplitMix64::new(model::random::draw(seed, TRANSACTIONS)),
            created: spec.files,
            left: settings.count,
            workers: spec.workers,
            worker,
            second: false,
            number: 0,
        }
    }

    /// Returns the files left in the pool after all transactions, which the worker has to remove.
    /// If a limit may have ended the transactions early, returns the initial pool, since it is
    /// recreated then.
    pub(crate) fn remaining_files(spec: &RunSpec, worker: u32, seed: u64) -> PoolRemains {
        let mut stream = Self::new(spec, 0, seed);
        if !spec.is_cut() {
            // Replay the transactions without executing them; they are determined by the seed.
            while stream.next_of_all().is_some() {}
        }
        stream.pool.retain(|file| file.number % spec.workers == worker);
        let files: Vec<_> = stream.pool.iter().map(|file| file.number).collect();
        PoolRemains { files, next: 0 }
    }

    /// Returns the number of the last op, counted over all workers.
    pub(crate) const fn number(&self) -> u64 {
        self.number - 1
    }

    /// Returns the next op of this worker.
    pub(crate) fn next(&mut self) -> Option<Op> {
        loop {
            // A file belongs to the worker given by its number, so its ops stay in order.
            let op = self.next_of_all()?;
            if op.file % self.workers == self.worker {
                return Some(op);
            }
        }
    }

    /// Returns the next op over all workers.
    fn next_of_all(&mut self) -> Option<Op> {
        if !self.second {
            self.left = self.left.checked_sub(1)?;
        }
        let op = if self.second { self.create_or_remove() } else { self.read_or_append() };
        self.second = !self.second;
        self.number += 1;
        Some(op)
    }

    /// Reads a whole file, or appends to it as much as the maximum size allows. A file that cannot
    /// grow is read. If the pool is empty, a file is created.
    fn read_or_append(&mut self) -> Op {
        let reads = below(self.random.next(), 100) < u64::from(self.settings.read_percent);
        // Draw the same number of values regardless of their use, because the sequence of a
        // transaction must not depend on the previous one.
        let chosen = self.random.next();
        let more = self.random.next();
        if self.pool.is_empty() {
            return self.create_file();
        }
        let at = below(chosen, self.pool.len() as u64) as usize;
        let file = &mut self.pool[at];
        let room = self.largest_bytes.saturating_sub(file.bytes);
        if reads || room == 0 {
            return Op::new(OpKind::ReadFile, file.number, 0, file.bytes);
        }
        let bytes = below(more, u64::from(room)) as u32 + 1;
        let end = u64::from(file.bytes);
        file.bytes += bytes;
        Op::new(OpKind::Append, file.number, end, bytes)
    }

    fn create_or_remove(&mut self) -> Op {
        let creates = below(self.random.next(), 100) < u64::from(self.settings.create_percent);
        let chosen = self.random.next();
        let is_full = self.pool.len() == self.most;
        if self.pool.is_empty() || (creates && !is_full) {
            return self.create_file();
        }
        let file = self.pool.swap_remove(below(chosen, self.pool.len() as u64) as usize);
        Op::new(OpKind::Remove, file.number, 0, 0)
    }

    fn create_file(&mut self) -> Op {
        let number = self.created;
        self.created += 1;
        let bytes = self.sizes.size(number.into()) as u32;
        self.pool.push(File { number, bytes });
        Op::new(OpKind::Create, number, 0, bytes)
    }
}

/// Estimates the bytes read and written by `ops` ops: half of them are reads and appends, half
/// create and remove files. An append fills half of the room below the maximum size, and files grow
/// by that until they are removed.
pub(crate) fn mean_bytes(spec: &RunSpec, ops: u64) -> MovedBytes {
    let settings = &spec.transactions;
    let size = spec.file_size_bytes;
    let appended = spec.largest_file_bytes().saturating_sub(size) / 2;
    let half = |percent: u64, bytes: u64| {
        let all = u128::from(ops) * u128::from(percent) * u128::from(bytes) / 200;
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    let reads = u64::from(settings.read_percent).min(100);
    let creates = u64::from(settings.create_percent).min(100);
    MovedBytes {
        read: half(reads, size),
        written: half(100 - reads, appended).saturating_add(half(creates, size)),
    }
}

/// Files of one worker that are left in a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolRemains {
    files: Vec<u32>,
    next: usize,
}

impl PoolRemains {
    /// Removes the next file.
    pub(crate) fn next(&mut self) -> Option<Op> {
        let file = *self.files.get(self.next)?;
        self.next += 1;
        Some(Op::new(OpKind::Remove, file, 0, 0))
    }
}
