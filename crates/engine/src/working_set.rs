//! The working set of a worker: the files and bytes it touched, each counted only once.
//!
//! If a pass touches each byte only once, counting is enough. Otherwise, there is a bit for each
//! file and for each unit of bytes. All bits are allocated and touched before the start. Larger
//! sets use larger units, so that a worker's bits fit into a CPU cache.

use std::ops::Range;

use model::work::Sharing;
use model::{Completion, OpKind, Outcome, Pass, RunSpec, WorkingSet, Workload};
use workload::FileSet;
use workload::opmix::OpMixSet;

use crate::limits::TOUCHED_BITS_MAX;

/// File sizes and requests of a mix are multiples of 1 KiB.
const KIB_SHIFT: u32 = 10;

/// The files and blocks touched by one worker.
pub struct WorkingSetTracker {
    bits: Option<Bits>,
    /// Files without a bit because they were created during the pass.
    files: u64,
    bytes: u64,
}

struct Bits {
    /// Files touched without touching their data.
    files: Vec<u64>,
    units: Vec<u64>,
    /// Number of files that have bits.
    file_count: u64,
    layout: Layout,
    unit_shift: u32,
}

/// How units are assigned to files.
enum Layout {
    /// All files have this number of units.
    Even(u64),
    /// The first unit of each file, and the end of the last one. In a mix, file sizes differ by a
    /// factor of a thousand.
    Each(Vec<u32>),
}

impl WorkingSetTracker {
    /// Allocates bits for everything that a worker can touch in a pass. Returns `None` if it
    /// doesn't touch files by number.
    pub fn new(spec: &RunSpec, pass: Pass) -> Option<Self> {
        if pass.lists()
            || pass.is_of_developer()
            || matches!(
                pass,
                Pass::App | Pass::Mkdir | Pass::StatDirs | Pass::RenameDirs | Pass::Rmdir
            )
        {
            return None;
        }
        let revisits = pass.is_mix()
            || matches!(
                pass,
                Pass::Seeks
                    | Pass::OpMix
                    | Pass::Transactions
                    | Pass::Rename
                    | Pass::Serve
                    | Pass::Train
            )
            || spec.layout.sharing == Sharing::Shared;
        let bits = if revisits { Some(Bits::new(spec)) } else { None };
        Some(Self { bits, files: 0, bytes: 0 })
    }

    /// Records the files and bytes touched by ops.
    #[inline]
    pub(crate) fn record_ended(&mut self, completions: &[Completion]) {
        let Some(bits) = &mut self.bits else { return };
        for completion in completions {
            let op = &completion.op;
            let Outcome::Done(bytes) = completion.outcome else { continue };
            if !is_of_files(op.kind) {
                continue;
            }
            if !bits.touch(op.file, op.offset_bytes, bytes) && op.kind == OpKind::Create {
                // Its number is used only once.
                self.files += 1;
                self.bytes += u64::from(bytes);
            }
        }
    }

    /// Records the total of a pass that touches each byte only once. No op has to be examined in
    /// this case.
    pub(crate) fn note_total(&mut self, files: u64, bytes: u64) {
        if self.bits.is_none() {
            self.files = files;
            self.bytes = bytes;
        }
    }

    /// Adds what another worker of the same pass touched.
    pub fn merge(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        if let (Some(bits), Some(others)) = (&mut self.bits, &other.bits) {
            merge_bits(&mut bits.files, &others.files);
            merge_bits(&mut bits.units, &others.units);
        }
    }

    /// Returns the size of the working set.
    pub fn working_set(&self) -> WorkingSet {
        let Some(bits) = &self.bits else {
            return WorkingSet { files: self.files, bytes: self.bytes, unit_bytes: 0 };
        };
        let unit_bytes = 1 << bits.unit_shift;
        let (files, units) = bits.count();
        WorkingSet { files: self.files + files, bytes: self.bytes + units * unit_bytes, unit_bytes }
    }
}

impl Bits {
    fn new(spec: &RunSpec) -> Self {
        let unit_shift = spec.io_size_bytes.max(1).ilog2();
        match spec.workload {
            // Units are as small as the requests of a mix, and only files in use have any.
            Workload::OpMix => {
                let set = OpMixSet::new(spec);
                let ends: Vec<_> = (0..set.files()).map(|file| set.written_end(file)).collect();
                let unit_shift = spec.io_size_bytes.max(1).trailing_zeros().min(KIB_SHIFT);
                Self::with_ends(&ends, unit_shift)
            }
            Workload::Transactions | Workload::KvCache => Self::with_equal_files(spec, unit_shift),
            workload if workload != Workload::Developer && spec.file_sizes.is_none() => {
                Self::with_equal_files(spec, unit_shift)
            }
            _ => {
                let set = FileSet::new(spec);
                let sizes = (0..set.files()).map(|file| set.size(file).unwrap_or(0));
                Self::with_ends(&sizes.collect::<Vec<_>>(), unit_shift)
            }
        }
    }

    /// Gives all files the units of the largest one. Appends let files grow up to its size.
    fn with_equal_files(spec: &RunSpec, mut unit_shift: u32) -> Self {
        let files = u64::from(FileSet::new(spec).files());
        let largest = spec.largest_file_bytes();
        // Double the unit until all bits fit. Each bit then represents more bytes, and the reported
        // size is rounded up to them.
        while unit_shift < 40
            && files.saturating_mul((largest >> unit_shift) + 1) > TOUCHED_BITS_MAX
        {
            unit_shift += 1;
        }
        let units = (largest >> unit_shift) + 1;
        Self {
            files: touched_zeros(files),
            units: touched_zeros(files * units),
            file_count: files,
            layout: Layout::Even(units),
            unit_shift,
        }
    }

    /// Gives each file units up to its own end.
    fn with_ends(ends: &[u64], mut unit_shift: u32) -> Self {
        let files = ends.len() as u64;
        while unit_shift < 40 && count_units(ends, unit_shift) > TOUCHED_BITS_MAX {
            unit_shift += 1;
        }
        let mut next = 0;
        let mut firsts = Vec::with_capacity(ends.len() + 1);
        for end in ends {
            firsts.push(next as u32);
            next += end.div_ceil(1 << unit_shift);
        }
        firsts.push(next as u32);
        Self {
            files: touched_zeros(files),
            units: touched_zeros(next),
            file_count: files,
            layout: Layout::Each(firsts),
            unit_shift,
        }
    }

    /// Returns the units of a file that has bits.
    #[inline]
    fn units_of(&self, file: u64) -> Range<u64> {
        match &self.layout {
            Layout::Even(units) => file * units..(file + 1) * units,
            Layout::Each(firsts) => {
                u64::from(firsts[file as usize])..u64::from(firsts[file as usize + 1])
            }
        }
    }

    /// Sets the bits for some bytes. Returns true if the file has bits.
    #[inline]
    fn touch(&mut self, file: u32, offset: u64, bytes: u32) -> bool {
        let file = u64::from(file);
        if file >= self.file_count {
            return false;
        }
        let units = self.units_of(file);
        let first = units.start + (offset >> self.unit_shift);
        // Ops without data, or beyond the last unit, still touch the file itself.
        if bytes == 0 || first >= units.end {
            set_bit(&mut self.files, file);
            return true;
        }
        set_bit(&mut self.units, first);
        // Most ops are within a single unit, so this loop rarely runs.
        let last = units.start + ((offset + u64::from(bytes) - 1) >> self.unit_shift);
        for unit in first + 1..=last.min(units.end - 1) {
            set_bit(&mut self.units, unit);
        }
        true
    }

    /// Counts the touched files and units.
    fn count(&self) -> (u64, u64) {
        let mut files = 0;
        let mut units = 0;
        for file in 0..self.file_count {
            let within: u64 =
                self.units_of(file).map(|bit| u64::from(has_bit(&self.units, bit))).sum();
            files += u64::from(within > 0 || has_bit(&self.files, file));
            units += within;
        }
        (files, units)
    }
}

/// Counts the units of files with these ends.
fn count_units(ends: &[u64], shift: u32) -> u64 {
    ends.iter().map(|end| end.div_ceil(1 << shift)).sum()
}

/// Merges bits, so that anything touched by both workers counts only once.
fn merge_bits(mine: &mut [u64], theirs: &[u64]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine |= theirs;
    }
}

#[inline]
fn set_bit(bits: &mut [u64], bit: u64) {
    if let Some(word) = bits.get_mut((bit / 64) as usize) {
        *word |= 1 << (bit % 64);
    }
}

fn has_bit(bits: &[u64], bit: u64) -> bool {
    bits[(bit / 64) as usize] & 1 << (bit % 64) != 0
}

/// Allocates zeros and writes to them, because untouched pages would fault in the measured loop.
fn touched_zeros(bits: u64) -> Vec<u64> {
    let mut words = vec![u64::MAX; bits.div_ceil(64) as usize];
    std::hint::black_box(&mut words).fill(0);
    words
}

/// Returns true if an op's number is that of a file that must exist.
const fn is_of_files(kind: OpKind) -> bool {
    kind.moves_data()
        || matches!(
            kind,
            OpKind::Stat
                | OpKind::Remove
                | OpKind::Rename
                | OpKind::Getattr
                | OpKind::Setattr
                | OpKind::Lookup
                | OpKind::Access
                | OpKind::Commit
                | OpKind::Link
                | OpKind::SetXattr
                | OpKind::GetXattr
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing::RunBuilder;
    use model::{Op, OpError, Workload};

    fn spec(workload: Workload) -> RunSpec {
        RunBuilder::new(workload)
            .files(100)
            .file_size_bytes(10 << 12)
            .io_size_bytes(1 << 12)
            .build()
    }

    fn done(kind: OpKind, file: u32, offset_bytes: u64, len_bytes: u32) -> Completion {
        let op = Op { scheduled_ns: 0, offset_bytes, len_bytes, file, kind };
        Completion { op, sent_ns: 1, done_ns: 2, outcome: Outcome::Done(len_bytes) }
    }

    #[test]
    fn counts_shared_data_once() {
        let mut one = WorkingSetTracker::new(&spec(Workload::Mixed), Pass::Mix).unwrap();
        let mut two = WorkingSetTracker::new(&spec(Workload::Mixed), Pass::Mix).unwrap();
        for place in [0, 1, 9, 1] {
            one.record_ended(&[done(OpKind::Read, 99, place << 12, 4096)]);
        }
        two.record_ended(&[done(OpKind::Write, 99, 9 << 12, 4096)]);
        two.record_ended(&[done(OpKind::Write, 0, 4 << 12, 4096)]);
        let failed = Outcome::Failed(OpError(5));
        two.record_ended(&[Completion { outcome: failed, ..done(OpKind::Read, 7, 0, 4096) }]);
        two.record_ended(&[done(OpKind::Sync, 50, 0, 0)]);
        one.merge(&two);
        let expected = WorkingSet { files: 2, bytes: 4 << 12, unit_bytes: 1 << 12 };
        assert_eq!(one.working_set(), expected);
    }

    #[test]
    fn counts_bytes_and_names_of_set() {
        let spec = spec(Workload::Transactions);
        let mut working_set = WorkingSetTracker::new(&spec, Pass::Transactions).unwrap();
        let known = FileSet::new(&spec).files();
        working_set
            .record_ended(&[done(OpKind::ReadFile, 3, 0, 10), done(OpKind::Remove, 3, 0, 0)]);
        working_set
            .record_ended(&[done(OpKind::Remove, 4, 0, 0), done(OpKind::Append, 5, 1 << 50, 10)]);
        assert_eq!(working_set.working_set().files, 3);
        let unit_bytes = working_set.working_set().unit_bytes;
        assert_eq!(working_set.working_set().bytes, unit_bytes);
        working_set.record_ended(&[done(OpKind::Create, known, 0, 700)]);
        let set = working_set.working_set();
        assert_eq!((set.files, set.bytes), (4, unit_bytes + 700));
    }

    #[test]
    fn what_comes_once_is_counted() {
        let mut working_set = WorkingSetTracker::new(&spec(Workload::Stream), Pass::Write).unwrap();
        working_set.record_ended(&[done(OpKind::Write, 0, 0, 4096)]);
        working_set.note_total(2, 3 << 12);
        let expected = WorkingSet { files: 2, bytes: 3 << 12, unit_bytes: 0 };
        assert_eq!(working_set.working_set(), expected);
        assert!(WorkingSetTracker::new(&spec(Workload::Metadata), Pass::Mkdir).is_none());
    }

    #[test]
    fn counts_small_files_by_bytes() {
        let mut spec = RunBuilder::from(spec(Workload::OpMix)).io_size_bytes(8 << 10).build();
        spec.op_mix.set_bytes_per_rate = 0;
        spec.op_mix.accessed_percent = 100;
        let set = FileSet::new(&spec);
        let small = (0..100).find(|file| set.size(*file) == Some(1 << 10)).unwrap();
        let large = (0..100).find(|file| set.size(*file) == Some(1 << 20)).unwrap();
        let mut working_set = WorkingSetTracker::new(&spec, Pass::OpMix).unwrap();
        working_set.record_ended(&[done(OpKind::Read, small, 0, 1 << 10)]);
        working_set.record_ended(&[done(OpKind::Read, small, 0, 1 << 10)]);
        working_set.record_ended(&[done(OpKind::Write, small, 1 << 10, 3 << 10)]);
        working_set.record_ended(&[done(OpKind::Read, large, 1_016 << 10, 8 << 10)]);
        working_set.record_ended(&[done(OpKind::Getattr, 17, 0, 0)]);
        let files = if [small, large].contains(&17) { 2 } else { 3 };
        let expected = WorkingSet { files, bytes: 12 << 10, unit_bytes: 1 << 10 };
        assert_eq!(working_set.working_set(), expected);
    }

    #[test]
    fn scales_units_of_huge_sets() {
        let spec = RunBuilder::from(spec(Workload::Transactions)).file_size_bytes(1 << 40).build();
        let mut working_set = WorkingSetTracker::new(&spec, Pass::Transactions).unwrap();
        working_set.record_ended(&[done(OpKind::Create, 5000, 0, 700)]);
        working_set.record_ended(&[done(OpKind::ReadFile, 5000, 0, 700)]);
        let set = working_set.working_set();
        assert_eq!((set.files, set.bytes), (1, 700));
        let huge = RunBuilder::from(spec).workload(Workload::Mixed).build();
        let mut working_set = WorkingSetTracker::new(&huge, Pass::Mix).unwrap();
        working_set.record_ended(&[done(OpKind::Read, 99, (1 << 40) - 4096, 4096)]);
        let set = working_set.working_set();
        assert!(set.unit_bytes > 1 << 20 && set.bytes == set.unit_bytes, "{set:?}");
    }
}
