//! A key-value cache: whole objects, read by popularity, written when they are missing.
//!
//! Every worker is a user with contexts of its own, of which some are in the cache. Zipf's law
//! draws the next context. If its object is in the cache, it is read as a whole; if not, the
//! objects that were used least recently are removed until there is room, and it is written. The
//! most popular contexts are there beforehand. Which ops follow depends only on run, worker and
//! seed.

use model::kv_cache::OBJECT_UNIT_BYTES;
use model::random::draw;
use model::{FileSizes, Op, OpKind, RunSpec};

use crate::moved_bytes::MovedBytes;
use crate::zipf::Zipf;

/// Seed constant that separates requests from other draws with the same seed.
const REQUESTS: u64 = 0x6b76;

/// Share of the requests that are assumed to find their object, in percent.
///
/// **Source:** MLPerf Storage v3, a published run with 2.95 reads for each write.
const HIT_PERCENT: u64 = 75;

/// The contexts of all users, and the sizes of their objects.
#[derive(Clone, Debug)]
pub(crate) struct Contexts {
    sizes: FileSizes,
    files: u32,
    workers: u32,
    /// Bytes of each user.
    capacity: u64,
}

impl Contexts {
    pub(crate) fn new(spec: &RunSpec) -> Self {
        let workers = spec.workers.max(1);
        Self {
            // Each object has the same size in all trials, so that they do the same work.
            sizes: FileSizes::new(spec.kv_cache.object_sizes.clone(), spec.files.into(), 0),
            files: spec.files,
            workers,
            capacity: spec.kv_cache.capacity_bytes / u64::from(workers),
        }
    }

    /// Returns the size of an object in bytes.
    pub(crate) fn size(&self, file: u32) -> u64 {
        self.sizes.size(file.into()).max(1).next_multiple_of(OBJECT_UNIT_BYTES)
    }

    /// Returns the number of the file for a user's context.
    const fn file(&self, worker: u32, context: u32) -> u32 {
        context * self.workers + worker
    }

    /// Returns the number of contexts of a user.
    const fn contexts_of(&self, worker: u32) -> u32 {
        self.files.saturating_sub(worker).div_ceil(self.workers)
    }

    /// Returns the number of a user's objects that are in the cache beforehand, and their size.
    fn present(&self, worker: u32) -> (u32, u64) {
        let mut bytes = 0;
        for context in 0..self.contexts_of(worker) {
            let size = self.size(self.file(worker, context));
            if bytes + size > self.capacity {
                return (context, bytes);
            }
            bytes += size;
        }
        (self.contexts_of(worker), bytes)
    }

    /// Returns the number of each user's objects that are in the cache beforehand.
    pub(crate) fn all_present(&self) -> Vec<u32> {
        (0..self.workers).map(|worker| self.present(worker).0).collect()
    }
}

/// Returns the mean number of bytes read and written by `ops` requests.
pub(crate) fn mean_bytes(spec: &RunSpec, ops: u64) -> MovedBytes {
    let bytes = ops.saturating_mul(spec.kv_cache.mean_bytes(spec.files));
    let read = bytes / 100 * HIT_PERCENT;
    MovedBytes { read, written: bytes - read }
}

/// Ops of one user.
#[derive(Clone, Debug)]
pub(crate) struct CacheStream {
    contexts: Contexts,
    worker: u32,
    popular: Zipf,
    seed: u64,
    /// Requests so far.
    requests: u64,
    cached: RecentlyUsed,
    /// Bytes in the cache.
    used: u64,
    /// A context to be written as soon as there is room.
    missing: Option<u32>,
}

impl CacheStream {
    pub(crate) fn new(spec: &RunSpec, worker: u32, seed: u64) -> Self {
        let contexts = Contexts::new(spec);
        let count = contexts.contexts_of(worker);
        let (present, used) = contexts.present(worker);
        let mut cached = RecentlyUsed::with_room(count);
        for context in (0..present).rev() {
            cached.add(context);
        }
        Self {
            worker,
            popular: Zipf::new(spec.layout.skew_percent, count.into()),
            seed: draw(draw(seed, REQUESTS), worker.into()),
            requests: 0,
            cached,
            used,
            missing: None,
            contexts,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Op> {
        // A worker without contexts has nothing to do.
        if self.cached.is_without_room() {
            return None;
        }
        if let Some(context) = self.missing {
            return Some(self.make_room_or_write(context));
        }
        let context = self.popular.draw_rank(draw(self.seed, self.requests)) as u32;
        self.requests += 1;
        if !self.cached.contains(context) {
            self.missing = Some(context);
            return Some(self.make_room_or_write(context));
        }
        self.cached.remove(context);
        self.cached.add(context);
        Some(self.op(OpKind::ReadFile, context))
    }

    fn make_room_or_write(&mut self, context: u32) -> Op {
        let size = self.size(context);
        if self.used + size > self.contexts.capacity
            && let Some(oldest) = self.cached.oldest()
        {
            self.cached.remove(oldest);
            self.used -= self.size(oldest);
            let file = self.contexts.file(self.worker, oldest);
            return Op::new(OpKind::Remove, file, 0, 0);
        }
        self.missing = None;
        self.cached.add(context);
        self.used += size;
        self.op(OpKind::Create, context)
    }

    fn size(&self, context: u32) -> u64 {
        self.contexts.size(self.contexts.file(self.worker, context))
    }

    fn op(&self, kind: OpKind, context: u32) -> Op {
        let file = self.contexts.file(self.worker, context);
        Op::new(kind, file, 0, self.contexts.size(file) as u32)
    }
}

/// No number.
const NONE: u32 = u32::MAX;

/// A set of numbers in the order of their last use. All operations take constant time and allocate
/// nothing.
#[derive(Clone, Debug)]
struct RecentlyUsed {
    /// The next newer and the next older number of each; both are its own number if it is not in
    /// the set.
    links: Vec<(u32, u32)>,
    newest: u32,
    oldest: u32,
}

impl RecentlyUsed {
    /// Creates an empty set of numbers below `count`.
    fn with_room(count: u32) -> Self {
        let links = (0..count).map(|number| (number, number)).collect();
        Self { links, newest: NONE, oldest: NONE }
    }

    const fn is_without_room(&self) -> bool {
        self.links.is_empty()
    }

    fn contains(&self, number: u32) -> bool {
        self.links[number as usize].0 != number
    }

    const fn oldest(&self) -> Option<u32> {
        if self.oldest == NONE { None } else { Some(self.oldest) }
    }

    /// Adds a number as the newest.
    fn add(&mut self, number: u32) {
        self.links[number as usize] = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = number,
            newest => self.links[newest as usize].0 = number,
        }
        self.newest = number;
    }

    fn remove(&mut self, number: u32) {
        let (newer, older) = self.links[number as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].1 = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].0 = newer,
        }
        self.links[number as usize] = (number, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing::RunBuilder;
    use model::{KvCache, SizeDistribution, Workload};
    use std::collections::BTreeMap;

    fn cache(workers: u32, capacity_bytes: u64, skew_percent: u32) -> RunSpec {
        let mut spec = RunBuilder::new(Workload::KvCache).workers(workers).files(60).build();
        let object_sizes = SizeDistribution::Uniform { min_bytes: 4_096, max_bytes: 65_536 };
        spec.kv_cache = KvCache { object_sizes, capacity_bytes };
        spec.layout.skew_percent = skew_percent;
        spec
    }

    #[test]
    fn keeps_within_capacity() {
        let spec = cache(3, 600_000, 100);
        for worker in 0..3 {
            let contexts = Contexts::new(&spec);
            let (present, mut used) = contexts.present(worker);
            let mut files: BTreeMap<u32, u64> = (0..present)
                .map(|context| contexts.file(worker, context))
                .map(|file| (file, contexts.size(file)))
                .collect();
            assert_eq!(used, files.values().sum::<u64>());
            let mut stream = CacheStream::new(&spec, worker, 7);
            let mut counts = [0; 3];
            for _ in 0..2_000 {
                let op = stream.next().unwrap();
                assert_eq!((op.file % 3, op.offset_bytes), (worker, 0));
                let size = u64::from(op.len_bytes);
                match op.kind {
                    OpKind::ReadFile => assert_eq!(files[&op.file], size),
                    OpKind::Create => {
                        assert_eq!(files.insert(op.file, size), None);
                        used += size;
                    }
                    _ => used -= files.remove(&op.file).unwrap(),
                }
                counts[usize::from(op.kind != OpKind::ReadFile)
                    + usize::from(op.kind == OpKind::Remove)] += 1;
                assert!(used <= 200_000, "{used}");
            }
            let [reads, creates, removes] = counts;
            assert!(reads > 300 && creates > 300 && removes > 300, "{counts:?}");
        }
    }

    #[test]
    fn evicts_least_recently_used() {
        let mut used = RecentlyUsed::with_room(4);
        assert_eq!(used.oldest(), None);
        for number in [2, 0, 3] {
            used.add(number);
        }
        assert_eq!((used.oldest(), used.contains(1)), (Some(2), false));
        used.remove(2);
        used.add(2);
        assert_eq!(used.oldest(), Some(0));
        used.remove(3);
        used.remove(0);
        assert_eq!((used.oldest(), used.contains(2)), (Some(2), true));
        used.remove(2);
        assert_eq!((used.oldest(), used.newest), (None, NONE));
    }

    #[test]
    fn hits_more_with_popular_contexts() {
        let hits = |skew| {
            let mut stream = CacheStream::new(&cache(1, 600_000, skew), 0, 1);
            let ops: Vec<Op> = (0..5_000).filter_map(|_| stream.next()).collect();
            let count = |kind| ops.iter().filter(|op| op.kind == kind).count();
            count(OpKind::ReadFile) as f64
                / (count(OpKind::ReadFile) + count(OpKind::Create)) as f64
        };
        // Without popularity, as much is found as fits: 600 kB of some 2.1 MB.
        assert!((hits(0) - 0.29).abs() < 0.04, "{}", hits(0));
        assert!(hits(150) > 0.6, "{}", hits(150));
        // A cache for everything always hits.
        let mut stream = CacheStream::new(&cache(1, 1 << 30, 0), 0, 1);
        assert!((0..500).all(|_| stream.next().unwrap().kind == OpKind::ReadFile));
    }
}
