//! Reads of samples for accelerators: batches in an order that differs by epoch.
//!
//! The batches of an epoch go to the accelerators in turn, and those of an accelerator to its
//! readers in turn, each of which reads whole batches. So the order of samples depends on seed and
//! data set only. Samples that don't fill a step of all accelerators are left out of an epoch.

use model::permute::Permutation;
use model::random::draw;
use model::{Op, OpKind, RunSpec, Shuffle};

use crate::file_set::FileSet;

/// Seed constant that separates the order of samples from other draws with the same seed.
const EPOCHS: u64 = 0x65_706f_6368;

/// The steps of a training, and the reads that each of them needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingSteps {
    /// Accelerators over all client hosts.
    pub accelerators: u64,
    /// Samples that an accelerator processes in one step.
    pub batch: u64,
    /// Samples in the data set.
    pub samples: u64,
    /// Steps of each accelerator in one epoch.
    pub per_epoch: u64,
    /// Steps of each accelerator in all epochs.
    pub all: u64,
    /// Size of a sample in bytes; for files of different sizes, that of an average file.
    pub sample_bytes: u64,
    /// Reads of one batch.
    pub ops_per_batch: u64,
    /// Samples that one read covers, because they follow each other and are small.
    pub samples_per_op: u64,
    /// Reads of one sample, if it is larger than an op.
    pub ops_per_sample: u64,
}

impl TrainingSteps {
    /// Returns the steps of a run as sent to agents, whose workers are those of all hosts.
    pub fn new(spec: &RunSpec) -> Self {
        let training = &spec.training;
        let accelerators = u64::from((spec.workers / training.readers.max(1)).max(1));
        let batch = u64::from(training.batch.max(1));
        let per_file = u64::from(training.samples_per_file.max(1));
        let samples = per_file * u64::from(spec.files);
        let per_epoch = samples / (batch * accelerators);
        let sample_bytes = spec.file_size_bytes / per_file;
        let io_size = u64::from(spec.io_size_bytes.max(1));
        let mut samples_per_op = 1;
        let mut ops_per_sample = 1;
        if !training.reads_whole_files() {
            ops_per_sample = sample_bytes.div_ceil(io_size).max(1);
            if training.shuffle != Shuffle::Samples {
                let most = (io_size / sample_bytes.max(1)).max(1);
                samples_per_op = largest_divisor(greatest_common_divisor(batch, per_file), most);
            }
        }
        Self {
            accelerators,
            batch,
            samples,
            per_epoch,
            all: per_epoch * u64::from(training.epochs),
            sample_bytes,
            ops_per_batch: batch / samples_per_op * ops_per_sample,
            samples_per_op,
            ops_per_sample,
        }
    }

    /// Returns the number of steps that one of an accelerator's readers reads batches for.
    pub(super) const fn of_reader(&self, reader: u64, readers: u64) -> u64 {
        self.all.saturating_sub(reader).div_ceil(readers)
    }
}

/// Returns the largest divisor of a number that is at most `most`.
fn largest_divisor(number: u64, most: u64) -> u64 {
    (1..=number.min(most)).rev().find(|divisor| number.is_multiple_of(*divisor)).unwrap_or(1)
}

const fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Reads of one worker.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    steps: TrainingSteps,
    set: FileSet,
    shuffle: Shuffle,
    reads_whole_files: bool,
    per_file: u64,
    io_size: u64,
    seed: u64,
    /// The order of files or samples in the epoch of the current step.
    order: Permutation,
    epoch: u64,
    accelerator: u64,
    readers: u64,
    /// The step whose batch is being read, and the next op in it.
    step: u64,
    op: u64,
}

impl Samples {
    pub(super) fn new(spec: &RunSpec, worker: u32, seed: u64) -> Self {
        let training = &spec.training;
        let readers = training.readers.max(1);
        let steps = TrainingSteps::new(spec);
        let per_file = u64::from(training.samples_per_file.max(1));
        let ordered = match training.shuffle {
            Shuffle::Files => steps.samples / per_file,
            Shuffle::Samples | Shuffle::None => steps.samples,
        };
        Self {
            steps,
            set: FileSet::new(spec),
            shuffle: training.shuffle,
            reads_whole_files: training.reads_whole_files(),
            per_file,
            io_size: u64::from(spec.io_size_bytes.max(1)),
            seed,
            order: Permutation::new(draw(seed, EPOCHS), ordered),
            epoch: 0,
            accelerator: u64::from(worker / readers),
            readers: readers.into(),
            step: u64::from(worker % readers),
            op: 0,
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Op> {
        if self.step >= self.steps.all {
            return None;
        }
        let TrainingSteps { accelerators, batch, per_epoch, .. } = self.steps;
        let epoch = self.step / per_epoch;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.order = Permutation::new(draw(self.seed, EPOCHS + epoch), self.order.count());
        }
        let number = (self.step % per_epoch) * accelerators + self.accelerator;
        let op = self.op_of(number * batch);
        self.op += 1;
        if self.op == self.steps.ops_per_batch {
            self.op = 0;
            self.step += self.readers;
        }
        Some(op)
    }

    /// Returns the current op of a batch, given the place of its first sample in the epoch.
    #[inline]
    fn op_of(&self, first: u64) -> Op {
        let TrainingSteps { sample_bytes, samples_per_op, ops_per_sample, .. } = self.steps;
        let place = first + self.op / ops_per_sample * samples_per_op;
        let (file, sample) = match self.shuffle {
            Shuffle::Samples => {
                let number = self.order.number_at(place);
                (number / self.per_file, number % self.per_file)
            }
            Shuffle::Files => (self.order.number_at(place / self.per_file), place % self.per_file),
            Shuffle::None => (place / self.per_file, place % self.per_file),
        };
        let file = file as u32;
        if self.reads_whole_files {
            let bytes = self.set.size(file).unwrap_or(0);
            return Op::new(OpKind::ReadFile, file, 0, bytes as u32);
        }
        let done = self.op % ops_per_sample * self.io_size;
        let left = sample_bytes * samples_per_op - done;
        let len = if ops_per_sample > 1 { left.min(self.io_size) } else { left };
        Op::new(OpKind::Read, file, sample * sample_bytes + done, len as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use model::testing::RunBuilder;
    use model::{Training, Workload};

    fn spec(training: Training, files: u32, sample_bytes: u64) -> RunSpec {
        let file_bytes = sample_bytes * u64::from(training.samples_per_file);
        RunBuilder::new(Workload::Training)
            .workers(training.accelerators * training.readers)
            .training(training)
            .files(files)
            .file_size_bytes(file_bytes)
            .io_size_bytes(100)
            .build()
    }

    fn ops(spec: &RunSpec, worker: u32) -> Vec<Op> {
        let mut samples = Samples::new(spec, worker, 1);
        std::iter::from_fn(|| samples.next()).collect()
    }

    #[test]
    fn reads_whole_files_of_different_sizes() {
        let training =
            Training { readers: 1, batch: 3, samples_per_file: 1, ..Training::default() };
        let spec = spec(training, 9, 1).with_sizes("uniform 1B 5000B".parse().unwrap());
        let set = FileSet::new(&spec);
        let mut read: Vec<(u32, u64)> =
            ops(&spec, 0).iter().map(|op| (op.file, op.len_bytes.into())).collect();
        read.sort_unstable();
        let all: Vec<(u32, u64)> = (0..9).map(|file| (file, set.size(file).unwrap())).collect();
        assert_eq!(read, all);
    }

    #[test]
    fn reads_each_sample_once_per_epoch() {
        for shuffle in [Shuffle::Samples, Shuffle::Files, Shuffle::None] {
            // 24 samples in 3 files are 3 steps of 2 accelerators with 4 samples each.
            let training = Training {
                accelerators: 2,
                readers: 3,
                batch: 4,
                epochs: 2,
                samples_per_file: 8,
                shuffle,
                ..Training::default()
            };
            let spec = spec(training, 3, 30);
            let steps = TrainingSteps::new(&spec);
            assert_eq!((steps.per_epoch, steps.all), (3, 6));
            let mut read: BTreeMap<(u32, u64), u32> = BTreeMap::new();
            for worker in 0..6 {
                let ops = ops(&spec, worker);
                assert_eq!(ops.len() as u64, 2 * steps.ops_per_batch, "2 of 6 steps");
                for op in ops {
                    assert!(op.offset_bytes.is_multiple_of(30) && op.len_bytes.is_multiple_of(30));
                    for at in (0..op.len_bytes).step_by(30) {
                        *read.entry((op.file, op.offset_bytes + u64::from(at))).or_default() += 1;
                    }
                }
            }
            assert_eq!((read.len(), read.values().all(|times| *times == 2)), (24, true));
        }
    }

    #[test]
    fn shuffles_differently_in_each_epoch() {
        let training = Training {
            readers: 1,
            batch: 10,
            epochs: 2,
            samples_per_file: 1,
            shuffle: Shuffle::Samples,
            ..Training::default()
        };
        let files: Vec<u32> = ops(&spec(training, 100, 50), 0).iter().map(|op| op.file).collect();
        let (first, second) = files.split_at(100);
        assert_ne!(first, second);
        assert_ne!(first, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn combines_small_and_splits_large_samples() {
        let training =
            Training { readers: 1, batch: 6, samples_per_file: 12, ..Training::default() };
        // Three samples of 30 bytes fit into an op of 100 bytes, and divide batch and file.
        let ops_of = |shuffle, sample_bytes| {
            let spec = spec(Training { shuffle, ..training }, 1, sample_bytes);
            let all = ops(&spec, 0);
            assert_eq!(
                all.iter().map(|op| u64::from(op.len_bytes)).sum::<u64>(),
                12 * sample_bytes
            );
            all.iter().take(3).map(|op| (op.offset_bytes, op.len_bytes)).collect::<Vec<_>>()
        };
        assert_eq!(ops_of(Shuffle::Files, 30), [(0, 90), (90, 90), (180, 90)]);
        assert_eq!(ops_of(Shuffle::None, 250), [(0, 100), (100, 100), (200, 50)]);
        assert!(ops_of(Shuffle::Samples, 30).iter().all(|(_, len)| *len == 30));
    }
}
