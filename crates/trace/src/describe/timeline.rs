//! Calls, bytes and growth of the working set over time.
//!
//! The length of a trace is only known at its end. So slices are short at first, and pairs of them
//! are joined when there are too many. The working set is counted in blocks of [`BLOCK_BYTES`].

use serde::Serialize;

use super::distinct::Distinct;
use crate::record::Op;

/// Maximum number of slices; must be even.
const SLICES_MAX: usize = 120;
/// Initial length of a slice, in nanoseconds.
const SLICE_NS: u64 = 10_000_000;
/// Block size for the working set.
pub(crate) const BLOCK_BYTES: u64 = 4 << 10;
/// Maximum number of blocks to count per access.
const BLOCKS_MAX: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TimeSlice {
    /// Start of the slice, relative to the start of the trace.
    pub start_ns: u64,
    /// Length of the slice.
    pub duration_ns: u64,
    /// Calls that started in the slice.
    pub calls: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Files whose data has been accessed since the start of the trace.
    pub files: u64,
    /// Estimated bytes in blocks of 4 KiB that have been accessed since the start of the trace.
    pub working_set_bytes: u64,
}

/// Slices of a trace.
#[derive(Debug)]
pub(crate) struct Timeline {
    slices: Vec<TimeSlice>,
    slice_ns: u64,
    files: Distinct,
    blocks: Distinct,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            slices: Vec::new(),
            slice_ns: SLICE_NS,
            files: Distinct::default(),
            blocks: Distinct::default(),
        }
    }
}

impl Timeline {
    /// Adds a data access to the working set.
    pub(crate) fn access(&mut self, op: &Op) {
        self.files.add(op.file.into());
        let bytes = op.count.max(op.length).max(1);
        let first = op.offset / BLOCK_BYTES;
        let last = op.offset.saturating_add(bytes - 1) / BLOCK_BYTES;
        for block in first..=last.min(first.saturating_add(BLOCKS_MAX)) {
            self.blocks.add(u64::from(op.file) << 40 ^ block);
        }
    }

    pub(crate) fn add(&mut self, start_ns: u64, read_bytes: u64, written_bytes: u64) {
        while start_ns / self.slice_ns >= SLICES_MAX as u64 {
            self.join_pairs();
        }
        let number = (start_ns / self.slice_ns) as usize;
        while self.slices.len() <= number {
            // A slice without calls has the working set of the previous one.
            let before = self.slices.last().copied().unwrap_or_default();
            let TimeSlice { files, working_set_bytes, .. } = before;
            self.slices.push(TimeSlice { files, working_set_bytes, ..TimeSlice::default() });
        }
        let is_last = number + 1 == self.slices.len();
        let slice = &mut self.slices[number];
        slice.calls += 1;
        slice.read_bytes = slice.read_bytes.saturating_add(read_bytes);
        slice.written_bytes = slice.written_bytes.saturating_add(written_bytes);
        // Calls arrive in the order of their replies. A call with a late reply comes after those of
        // later slices, whose working set must not count in its slice.
        if is_last && (read_bytes > 0 || written_bytes > 0) {
            slice.files = self.files.count();
            slice.working_set_bytes = self.blocks.count().saturating_mul(BLOCK_BYTES);
        }
    }

    fn join_pairs(&mut self) {
        let mut joined = Vec::new();
        for pair in self.slices.chunks(2) {
            let mut slice = pair[0];
            if let Some(second) = pair.get(1) {
                slice.calls += second.calls;
                slice.read_bytes = slice.read_bytes.saturating_add(second.read_bytes);
                slice.written_bytes = slice.written_bytes.saturating_add(second.written_bytes);
                slice.files = second.files.max(slice.files);
                slice.working_set_bytes = second.working_set_bytes.max(slice.working_set_bytes);
            }
            joined.push(slice);
        }
        self.slices = joined;
        self.slice_ns = self.slice_ns.saturating_mul(2);
    }

    pub(crate) fn describe(mut self) -> Vec<TimeSlice> {
        if let Some(last) = self.slices.last_mut() {
            last.files = self.files.count();
            last.working_set_bytes = self.blocks.count().saturating_mul(BLOCK_BYTES);
        }
        // A table shows between one and two dozen rows.
        while self.slices.len() > SLICES_MAX / 5 {
            self.join_pairs();
        }
        for (number, slice) in self.slices.iter_mut().enumerate() {
            slice.start_ns = (number as u64).saturating_mul(self.slice_ns);
            slice.duration_ns = self.slice_ns;
        }
        self.slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_slices_without_loss() {
        let mut timeline = Timeline::default();
        for number in 0..10_000_u64 {
            let op = Op { file: 7, offset: number * 4096, count: 4096, ..Op::default() };
            timeline.access(&op);
            timeline.add(number * 1_000_000_000, 4096, 1);
        }
        let slices = timeline.describe();
        assert!(slices.len() <= SLICES_MAX / 5);
        let sum = |of: fn(&TimeSlice) -> u64| slices.iter().map(of).sum::<u64>();
        assert_eq!((sum(|one| one.calls), sum(|one| one.read_bytes)), (10_000, 40_960_000));
        let last = slices.last().unwrap();
        assert_eq!((last.files, last.working_set_bytes), (1, 10_000 * BLOCK_BYTES));
        assert!(slices[0].working_set_bytes < last.working_set_bytes / 8);
        assert!(last.start_ns + last.duration_ns >= 10_000_000_000_000 - 1_000_000_000);
    }

    #[test]
    fn keeps_working_set_after_late_call() {
        let mut timeline = Timeline::default();
        for number in 0..20_u32 {
            let op = Op { file: number, count: 4096, ..Op::default() };
            timeline.access(&op);
            timeline.add(u64::from(number) * SLICE_NS, 4096, 0);
        }
        // The first call to start, whose reply arrives last.
        timeline.access(&Op { file: 99, count: 4096, ..Op::default() });
        timeline.add(0, 4096, 0);
        let slices = timeline.describe();
        assert_eq!((slices[0].files, slices[0].calls), (1, 2));
        assert_eq!(slices.last().map(|last| last.files), Some(21));
        for pair in slices.windows(2) {
            assert!(pair[0].files <= pair[1].files, "{slices:?}");
            assert!(pair[0].working_set_bytes <= pair[1].working_set_bytes, "{slices:?}");
        }
    }
}
