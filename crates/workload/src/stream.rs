//! The ops of one worker in one pass, in their order.
//!
//! Sequential passes give file `f` to worker `f mod workers`. A mix draws op number `i` for
//! worker `i mod workers` from the whole set. A stream ends by itself, or, where it is bounded by
//! time, when its owner calls [`OpStream::finish`]; only then come the syncs that make what was
//! written durable. `next_op` neither allocates nor fails.

use model::random::{below, draw};
use model::{Durability, Op, OpKind, Pass, RunSpec};

/// Ops of one worker.
#[derive(Clone, Debug)]
pub struct OpStream {
    pass: Pass,
    seed: u64,
    io_size: u32,
    file_size: u64,
    files: u32,
    workers: u32,
    read_percent: u64,
    syncs: bool,
    /// Next file of ours, in a sequential pass or in the final syncs.
    file: u32,
    offset: u64,
    /// Number of the next random op.
    index: u64,
    worker: u32,
    finishing: bool,
}

/// How much a pass will do, as far as it is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassSize {
    /// Ops of all workers; `None` where time is the bound.
    pub ops: Option<u64>,
    /// Bytes of all workers; `None` where time is the bound.
    pub bytes: Option<u64>,
}

/// Says how much a pass will do, syncs not counted.
pub const fn pass_size(spec: &RunSpec, pass: Pass) -> PassSize {
    match pass {
        Pass::Write | Pass::Read => PassSize {
            ops: Some(spec.file_size_bytes.div_ceil(spec.io_size_bytes as u64) * spec.files as u64),
            bytes: Some(spec.set_bytes()),
        },
        Pass::Mix => PassSize { ops: None, bytes: None },
        Pass::Create => PassSize { ops: Some(spec.files as u64), bytes: Some(spec.set_bytes()) },
        _ => PassSize { ops: Some(spec.files as u64), bytes: Some(0) },
    }
}

impl OpStream {
    /// Starts the ops of `worker` in `pass`.
    pub fn new(spec: &RunSpec, pass: Pass, worker: u32, seed: u64) -> Self {
        Self {
            pass,
            seed,
            io_size: spec.io_size_bytes,
            file_size: spec.file_size_bytes,
            files: spec.files,
            workers: spec.workers,
            read_percent: u64::from(spec.read_percent),
            syncs: spec.durability == Durability::Sync
                && (pass == Pass::Write || (pass == Pass::Mix && spec.read_percent < 100)),
            file: worker,
            offset: 0,
            index: u64::from(worker),
            worker,
            finishing: false,
        }
    }

    /// Says whether somebody must call [`Self::finish`] for the stream to end.
    pub const fn is_endless(&self) -> bool {
        matches!(self.pass, Pass::Mix) && !self.finishing
    }

    /// Ends an endless stream: only its syncs are left.
    pub const fn finish(&mut self) {
        if !self.finishing {
            self.finishing = true;
            self.file = 0;
        }
    }

    /// Gives the next op; `due_ns` is left to whoever knows the time.
    #[inline]
    pub fn next_op(&mut self) -> Option<Op> {
        match self.pass {
            Pass::Mix if !self.finishing => Some(self.random_op()),
            Pass::Mix => self.final_sync(),
            Pass::Write => self.sequential_op(OpKind::Write),
            Pass::Read => self.sequential_op(OpKind::Read),
            Pass::Create => self.name_op(OpKind::Create, self.file_size as u32),
            Pass::Stat => self.name_op(OpKind::Stat, 0),
            Pass::Remove => self.name_op(OpKind::Remove, 0),
            _ => unreachable!("no plan asks for {} yet", self.pass),
        }
    }

    #[inline]
    fn random_op(&mut self) -> Op {
        let seed = draw(self.seed, self.index);
        self.index += u64::from(self.workers);
        let blocks = self.file_size / u64::from(self.io_size);
        // One draw places the op in the whole set; a draw from that draw decides its kind.
        let at = below(seed, blocks * u64::from(self.files));
        let is_read = below(draw(seed, 0), 100) < self.read_percent;
        Op {
            due_ns: 0,
            offset_bytes: (at % blocks) * u64::from(self.io_size),
            len_bytes: self.io_size,
            file: (at / blocks) as u32,
            kind: if is_read { OpKind::Read } else { OpKind::Write },
        }
    }

    #[inline]
    fn sequential_op(&mut self, kind: OpKind) -> Option<Op> {
        if self.file >= self.files {
            return None;
        }
        if self.offset >= self.file_size {
            let ended = self.file;
            self.file += self.workers;
            self.offset = 0;
            return if self.syncs { Some(sync_of(ended)) } else { self.sequential_op(kind) };
        }
        let len = u64::from(self.io_size).min(self.file_size - self.offset);
        let op = Op {
            due_ns: 0,
            offset_bytes: self.offset,
            len_bytes: len as u32,
            file: self.file,
            kind,
        };
        self.offset += len;
        Some(op)
    }

    /// Syncs every file, since any worker may have written to any of them; each worker begins at
    /// another one. The syncs of the worker that ends last cover what all have written.
    const fn final_sync(&mut self) -> Option<Op> {
        if !self.syncs || self.file >= self.files {
            return None;
        }
        let op = sync_of((self.worker + self.file) % self.files);
        self.file += 1;
        Some(op)
    }

    #[inline]
    fn name_op(&mut self, kind: OpKind, len_bytes: u32) -> Option<Op> {
        if self.file >= self.files {
            return None;
        }
        let op = Op { due_ns: 0, offset_bytes: 0, len_bytes, file: self.file, kind };
        self.file += self.workers;
        Some(op)
    }
}

const fn sync_of(file: u32) -> Op {
    Op { due_ns: 0, offset_bytes: 0, len_bytes: 0, file, kind: OpKind::Sync }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Workload;
    use proptest::prelude::*;

    fn spec(workload: Workload, workers: u32) -> RunSpec {
        RunSpec {
            io_size_bytes: 4096,
            file_size_bytes: 64 << 10,
            files: 4,
            workers,
            read_percent: 70,
            duration_ms: 1000,
            durability: Durability::Sync,
            ..RunSpec::null(workload)
        }
    }

    fn ops(spec: &RunSpec, pass: Pass, random: usize) -> Vec<Op> {
        let mut streams: Vec<OpStream> =
            (0..spec.workers).map(|w| OpStream::new(spec, pass, w, 42)).collect();
        let mut ops = Vec::new();
        if pass == Pass::Mix {
            for i in 0..random {
                ops.extend(streams[i % spec.workers as usize].next_op());
            }
            streams.iter_mut().for_each(OpStream::finish);
        }
        for stream in &mut streams {
            ops.extend(std::iter::from_fn(|| stream.next_op()));
        }
        ops
    }

    #[test]
    fn a_write_pass_covers_every_byte_once_and_syncs_each_file_last() {
        for workers in [1, 2, 3, 4] {
            let spec = spec(Workload::Stream, workers);
            let ops = ops(&spec, Pass::Write, 0);
            for file in 0..4 {
                let of_file: Vec<&Op> = ops.iter().filter(|op| op.file == file).collect();
                let (sync, writes) = of_file.split_last().unwrap();
                assert_eq!(sync.kind, OpKind::Sync);
                let mut next = 0;
                for write in writes {
                    assert_eq!((write.kind, write.offset_bytes), (OpKind::Write, next));
                    next += u64::from(write.len_bytes);
                }
                assert_eq!(next, spec.file_size_bytes);
            }
            assert_eq!(ops.len() as u64, pass_size(&spec, Pass::Write).ops.unwrap() + 4);
        }
    }

    #[test]
    fn random_ops_do_not_depend_on_the_number_of_workers() {
        let alone = ops(&spec(Workload::Mixed, 1), Pass::Mix, 1000);
        for workers in [2, 3, 7] {
            let mut together = ops(&spec(Workload::Mixed, workers), Pass::Mix, 1000);
            together.truncate(1000);
            assert_eq!(together, alone[..1000], "{workers} workers");
        }
    }

    #[test]
    fn a_mix_keeps_its_share_and_syncs_at_its_end() {
        let ops = ops(&spec(Workload::Mixed, 2), Pass::Mix, 10_000);
        let reads = ops.iter().filter(|op| op.kind == OpKind::Read).count();
        // Four standard deviations of a binomial with p = 0.7 are 183.
        assert!(reads.abs_diff(7000) < 183, "{reads}");
        // Either worker may have written to any of the four files, so each syncs all of them.
        for worker in 0..2 {
            let syncs = &ops[10_000 + 4 * worker..10_004 + 4 * worker];
            let mut files: Vec<u32> = syncs.iter().map(|op| op.file).collect();
            files.sort_unstable();
            assert!(syncs.iter().all(|op| op.kind == OpKind::Sync));
            assert_eq!(files, [0, 1, 2, 3]);
        }
        assert_eq!(ops.len(), 10_008);
    }

    #[test]
    fn metadata_passes_name_each_file_once() {
        let spec = spec(Workload::Metadata, 3);
        for pass in Workload::Metadata.passes() {
            let mut files: Vec<u32> = ops(&spec, *pass, 0).iter().map(|op| op.file).collect();
            files.sort_unstable();
            assert_eq!(files, [0, 1, 2, 3]);
        }
    }

    proptest! {
        #[test]
        fn a_short_last_op_ends_at_the_end_of_the_file(size in 1_u64..100_000, io in 1_u32..9_000) {
            let spec = RunSpec {
                file_size_bytes: size, io_size_bytes: io, ..spec(Workload::Stream, 1)
            };
            let read: u64 =
                ops(&spec, Pass::Read, 0).iter().map(|op| u64::from(op.len_bytes)).sum();
            prop_assert_eq!(read, spec.set_bytes());
        }
    }
}
