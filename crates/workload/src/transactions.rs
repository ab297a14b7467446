//! A mail or news server's pool of small files, as `PostMark` has it.
//!
//! A transaction reads a whole file or appends to it, and creates a file or removes one. Which one
//! follows from the seed and the transactions before it, never from the number of workers: every
//! worker goes through all transactions and executes what concerns its own files, those whose
//! number is `worker` modulo `workers`. [`PoolStream`] holds the pool; it grows by no allocation.
//!
//! **Source:** J. Katcher, "PostMark: a new file system benchmark", NetApp TR3022, 1997.

use model::random::{SplitMix64, below};
use model::{Op, OpKind, RunSpec, Transactions};

use crate::file_set::{size_seed, uniform};
use crate::moved::MovedBytes;

/// Files that a pool without a bound may grow by, beyond those that it began with.
const GROWTH_MAX: u64 = 1 << 20;

/// Seed constant that separates transactions from other draws of the same seed.
const TRANSACTIONS: u64 = 0x7261_6e73;

#[derive(Clone, Copy, Debug)]
struct File {
    number: u32,
    bytes: u32,
}

/// The ops of one worker, and the whole pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolStream {
    settings: Transactions,
    pool: Vec<File>,
    /// Most files in the pool; there is room for as many.
    most: usize,
    random: SplitMix64,
    size_seed: u64,
    /// Number of the file that is created next.
    created: u32,
    left: u64,
    workers: u32,
    worker: u32,
    /// The second op of the transaction that was begun.
    second: bool,
    number: u64,
}

impl PoolStream {
    pub(crate) fn new(spec: &RunSpec, worker: u32, seed: u64) -> Self {
        let settings = spec.transactions;
        let size_seed = size_seed(seed);
        let (least, largest) = (settings.size_min_bytes, settings.size_max_bytes);
        let settings = Transactions { size_max_bytes: largest.max(least), ..settings };
        let growth = settings.count.min(GROWTH_MAX) as usize;
        let most = spec.files as usize + growth;
        let mut pool = Vec::with_capacity(most);
        for number in 0..spec.files {
            let bytes = uniform(size_seed, number, least, settings.size_max_bytes) as u32;
            pool.push(File { number, bytes });
        }
        Self {
            pool,
            most,
            settings,
            random: SplitMix64::new(model::random::draw(seed, TRANSACTIONS)),
            size_seed,
            created: spec.files,
            left: settings.count,
            workers: spec.workers,
            worker,
            second: false,
            number: 0,
        }
    }

    /// Lists the rest of the pool after all transactions, for the worker to remove; the pool as it
    /// began where a bound may have cut them short, since it is made again then.
    pub(crate) fn remains(spec: &RunSpec, worker: u32, seed: u64) -> Remains {
        let mut stream = Self::new(spec, 0, seed);
        if !spec.is_cut() {
            // The transactions are replayed without being executed: they follow from the seed.
            while stream.next_of_all().is_some() {}
        }
        stream.pool.retain(|file| file.number % spec.workers == worker);
        let mut files = Vec::with_capacity(stream.pool.len());
        for file in &stream.pool {
            files.push(file.number);
        }
        Remains { files, next: 0 }
    }

    /// Number of the last op, all workers' ops counted together.
    pub(crate) const fn number(&self) -> u64 {
        self.number - 1
    }

    /// The next op of this worker.
    pub(crate) fn next(&mut self) -> Option<Op> {
        loop {
            // A file belongs to the worker that its number names, so its ops keep their order.
            let op = self.next_of_all()?;
            if op.file % self.workers == self.worker {
                return Some(op);
            }
        }
    }

    /// The next op of all workers.
    fn next_of_all(&mut self) -> Option<Op> {
        if !self.second {
            self.left = self.left.checked_sub(1)?;
        }
        let op = if self.second { self.create_or_remove() } else { self.read_or_append() };
        self.second = !self.second;
        self.number += 1;
        Some(op)
    }

    /// Reads a file whole, or appends to it as much as keeps it below the largest size; one that
    /// can't grow is read. Nothing can be read from an empty pool: a file is created.
    fn read_or_append(&mut self) -> Op {
        let reads = below(self.random.next(), 100) < u64::from(self.settings.read_percent);
        // As many draws whatever comes of them: the sequence of one transaction must not depend on
        // the one before.
        let chosen = self.random.next();
        let more = self.random.next();
        if self.pool.is_empty() {
            return self.create_file();
        }
        let at = below(chosen, self.pool.len() as u64) as usize;
        let file = &mut self.pool[at];
        let room = self.settings.size_max_bytes.saturating_sub(file.bytes);
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
        let Transactions { size_min_bytes, size_max_bytes, .. } = self.settings;
        let bytes = uniform(self.size_seed, number, size_min_bytes, size_max_bytes) as u32;
        self.pool.push(File { number, bytes });
        Op::new(OpKind::Create, number, 0, bytes)
    }
}

/// Returns the mean size of a new file, in bytes.
pub(crate) fn mean_size(settings: &Transactions) -> u64 {
    let least = u64::from(settings.size_min_bytes);
    least.midpoint(u64::from(settings.size_max_bytes).max(least))
}

/// Returns about how many bytes so many ops read and write: half of them are reads and appends,
/// half create and remove files. An append fills half of the room below the largest size, and files
/// grow by that until they are removed.
pub(crate) fn mean_bytes(settings: &Transactions, ops: u64) -> MovedBytes {
    let size = mean_size(settings);
    let appended = u64::from(settings.size_max_bytes).saturating_sub(size) / 2;
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
pub(crate) struct Remains {
    files: Vec<u32>,
    next: usize,
}

impl Remains {
    /// Removes the next one.
    pub(crate) fn next(&mut self) -> Option<Op> {
        let file = *self.files.get(self.next)?;
        self.next += 1;
        Some(Op::new(OpKind::Remove, file, 0, 0))
    }
}
