//! Ops of one worker in an op mix.
//!
//! The order of ops depends only on the seed, the file set and the shares.

use model::permute::Permutation;
use model::random::{below, draw};
use model::{Op, OpKind, RunSpec};

use super::profile::{LINKS_READ, RequestSize};
use super::set::OpMixSet;
use super::shares::{BLOCK, PAIRS, requests_of_block};
use crate::arrivals::Batch;
use crate::zipf::Zipf;

/// Number of files to try for a request before it is truncated to the size of the last one.
const TRIES: u64 = 400;

/// Ops of one worker.
///
/// Request i goes to worker `i mod workers`, except for those that create, remove or rename, which
/// go to the same worker as other ops on the same name. So each worker looks at all requests.
#[derive(Clone, Debug)]
pub(crate) struct OpMixStream {
    set: OpMixSet,
    kinds: Vec<(OpKind, u32)>,
    /// For each position in a block: the index in `kinds`, and the rank within that kind.
    places: Box<[(u8, u16)]>,
    calls: u64,
    popular: Option<Zipf>,
    append_percent: u64,
    seed: u64,
    io_size: u32,
    workers: u64,
    worker: u64,
    order: Permutation,
    /// Number of the next request.
    next: u64,
    /// The rest of a request with several calls.
    rest: Option<Op>,
    rest_bytes: u64,
}

/// Where a READ or WRITE request begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At a random offset within its file.
    AtRandom,
    /// At the original end of the file.
    AtEnd,
}

impl OpMixStream {
    pub(crate) fn new(spec: &RunSpec, worker: u32, seed: u64) -> Self {
        let (kinds, calls) = requests_of_block(&spec.op_mix, spec.io_size_bytes);
        let mut places = Vec::with_capacity(BLOCK as usize);
        for (at, (_, count)) in kinds.iter().enumerate() {
            places.extend((0..*count).map(|rank| (at as u8, rank as u16)));
        }
        let set = OpMixSet::new(spec);
        let skew = set.profile().skew_hundredths;
        Self {
            popular: if skew > 0 { Some(Zipf::new(skew, u64::from(set.used_files))) } else { None },
            set,
            kinds,
            places: places.into_boxed_slice(),
            calls,
            append_percent: u64::from(spec.op_mix.append_percent),
            seed,
            io_size: spec.io_size_bytes,
            workers: u64::from(spec.workers),
            worker: u64::from(worker),
            order: Permutation::new(draw(seed, 0), u64::from(BLOCK)),
            next: 0,
            rest: None,
            rest_bytes: 0,
        }
    }

    /// Returns calls and requests of a block in the same unit.
    pub(crate) const fn calls_per_request(&self) -> Batch {
        Batch { ops: self.calls, arrivals: BLOCK as u64 * 84_000 }
    }

    /// Returns the number of the request that the last op belongs to.
    pub(crate) const fn number(&self) -> u64 {
        self.next - 1
    }

    /// Returns the next op; a mix has no end.
    pub(crate) fn next(&mut self) -> Op {
        if let Some(op) = self.rest.take() {
            return self.next_piece(op);
        }
        loop {
            let number = self.next;
            self.next += 1;
            // Each block has its own permutation, so that every block has the exact shares.
            let block = number / u64::from(BLOCK);
            let within = number % u64::from(BLOCK);
            if within == 0 {
                self.order = Permutation::new(draw(self.seed, block), u64::from(BLOCK));
            }
            let (at, rank) = self.places[self.order.number_at(within) as usize];
            let kind = self.kinds[at as usize].0;
            let (op, owner) = match self.draw_from_pool(kind, block, u32::from(rank)) {
                Some((op, Some(slot))) => (Some(op), u64::from(slot)),
                Some((op, None)) => (Some(op), number),
                None => (None, number),
            };
            // All ops of a slot go to one worker, which keeps them in order: a name is created
            // before it is removed. All others are distributed by number.
            if owner % self.workers != self.worker {
                continue;
            }
            return op.unwrap_or_else(|| self.draw_request(kind, draw(!self.seed, number)));
        }
    }

    /// Draws an op that creates, removes, links or renames, and the slot that determines its
    /// worker.
    fn draw_from_pool(&self, kind: OpKind, block: u64, rank: u32) -> Option<(Op, Option<u32>)> {
        if kind == OpKind::Rename {
            let (file, slot, way) = self.set.renamed.renamed_by(block, rank);
            return Some((Op::new(kind, file, way, 0), Some(slot)));
        }
        if kind == OpKind::Link {
            let (file, number) = self.set.linked(block, rank);
            return Some((Op::new(kind, file, number, 0), None));
        }
        let pools = [self.set.files, self.set.directories, self.set.links];
        for (at, (makes, takes)) in PAIRS.into_iter().enumerate() {
            let pool = pools[at];
            if kind != makes && kind != takes {
                continue;
            }
            let (number, slot) =
                if kind == makes { pool.made_by(block, rank) } else { pool.taken_by(block, rank) };
            return Some((Op::new(kind, number, 0, 0), slot));
        }
        None
    }

    /// Draws an op that only looks up, reads or writes.
    fn draw_request(&mut self, kind: OpKind, seed: u64) -> Op {
        let any = below(seed, u64::from(self.set.data_files)) as u32;
        match kind {
            OpKind::Read => {
                self.begin_transfer(kind, seed, self.set.profile().reads, Start::AtRandom)
            }
            OpKind::Write => {
                let appends = below(draw(seed, 0), 100) < self.append_percent;
                let start = if appends { Start::AtEnd } else { Start::AtRandom };
                self.begin_transfer(kind, seed, self.set.profile().writes, start)
            }
            OpKind::Commit => Op::new(kind, self.set.number_of(self.used_rank(seed)), 0, 0),
            OpKind::Readlink => Op::new(kind, below(seed, u64::from(LINKS_READ)) as u32, 0, 0),
            _ => Op::new(kind, any, 0, 0),
        }
    }

    /// Draws the rank of a file in use.
    fn used_rank(&self, seed: u64) -> u32 {
        match &self.popular {
            None => below(seed, u64::from(self.set.used_files)) as u32,
            Some(zipf) => zipf.draw_rank(seed) as u32,
        }
    }

    /// Begins a READ or WRITE request, at a random multiple of the maximum call size that keeps it
    /// within its file. An append begins at the original end of the file.
    ///
    /// **Source:** SPEC SFS 3.0: offsets, and shares of requests by size.
    fn begin_transfer(
        &mut self,
        kind: OpKind,
        seed: u64,
        sizes: &[RequestSize],
        start: Start,
    ) -> Op {
        let appends = start == Start::AtEnd;
        let mut bytes = request_bytes(sizes, draw(seed, 1));
        let mut rank = 0;
        let mut size = 0;
        // Reject small files instead of truncating requests, so that request sizes have the correct
        // shares. Popular files keep their probability when drawing again.
        for attempt in 0..TRIES {
            rank = self.used_rank(draw(seed, 10 + attempt));
            size = self.set.size_of(rank);
            if appends || size >= bytes {
                break;
            }
        }
        let file = self.set.number_of(rank);
        let offset = if appends {
            size
        } else {
            bytes = bytes.min(size);
            let io_size = u64::from(self.io_size);
            below(draw(seed, 2), (size - bytes) / io_size + 1) * io_size
        };
        self.rest_bytes = bytes;
        self.next_piece(Op::new(kind, file, offset, 0))
    }

    /// Returns the next call of a request with `rest_bytes` left.
    fn next_piece(&mut self, mut op: Op) -> Op {
        let len = u64::from(self.io_size).min(self.rest_bytes);
        op.len_bytes = len as u32;
        self.rest_bytes -= len;
        if self.rest_bytes > 0 {
            self.rest = Some(Op { offset_bytes: op.offset_bytes + len, ..op });
        }
        op
    }
}

/// Draws the size of a request in bytes.
fn request_bytes(sizes: &[RequestSize], seed: u64) -> u64 {
    let mut place = below(seed, 100) as u32;
    for range in sizes {
        if place < range.percent {
            let count = u64::from(range.most_kib - range.least_kib) + 1;
            return (u64::from(range.least_kib) + below(draw(seed, 0), count)) << 10;
        }
        place -= range.percent;
    }
    1 << 10
}
