//! The ranges of one file that a client has layouts of.
//!
//! We grant whole files, but a client may return a part of that.
//!
//! **Source:** RFC 8881 sections 18.43 and 18.44.

use nfs_proto::nfs4::LayoutIoMode;

/// Maximum number of ranges: further holes are not made, so a client seems to hold more than it
/// does, which is safe.
pub(super) const RANGES_MAX: usize = 16;

/// A range with its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayoutRange {
    iomode: LayoutIoMode,
    start: u64,
    end: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LayoutRanges(Vec<LayoutRange>);

impl LayoutRanges {
    /// Adds a layout of the whole file.
    pub(super) fn add_all(&mut self, iomode: LayoutIoMode) {
        self.remove(iomode, 0, u64::MAX);
        self.0.push(LayoutRange { iomode, start: 0, end: u64::MAX });
    }

    /// Removes a range of these modes.
    pub(super) fn remove(&mut self, iomode: LayoutIoMode, start: u64, end: u64) {
        let mut left = Vec::with_capacity(self.0.len());
        for held in &self.0 {
            let is_meant = iomode == LayoutIoMode::Any || iomode == held.iomode;
            if !is_meant || end <= held.start || held.end <= start {
                left.push(*held);
                continue;
            }
            let splits = held.start < start && end < held.end;
            if splits && self.0.len() >= RANGES_MAX {
                left.push(*held);
                continue;
            }
            if held.start < start {
                left.push(LayoutRange { end: start, ..*held });
            }
            if end < held.end {
                left.push(LayoutRange { start: end, ..*held });
            }
        }
        self.0 = left;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a layout for writing.
    pub(super) fn has_writable(&self) -> bool {
        self.0.iter().any(|range| range.iomode == LayoutIoMode::ReadWrite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_parts_by_mode() {
        let mut ranges = LayoutRanges::default();
        ranges.add_all(LayoutIoMode::Read);
        ranges.add_all(LayoutIoMode::ReadWrite);
        ranges.add_all(LayoutIoMode::ReadWrite);
        assert_eq!(ranges.0.len(), 2);
        ranges.remove(LayoutIoMode::ReadWrite, 100, 200);
        assert_eq!(ranges.0.len(), 3);
        ranges.remove(LayoutIoMode::ReadWrite, 0, 150);
        ranges.remove(LayoutIoMode::ReadWrite, 150, u64::MAX);
        assert!(!ranges.has_writable() && !ranges.is_empty());
        ranges.remove(LayoutIoMode::Any, 0, u64::MAX);
        assert!(ranges.is_empty());
    }

    #[test]
    fn bounds_number_of_ranges() {
        let mut ranges = LayoutRanges::default();
        ranges.add_all(LayoutIoMode::Read);
        for hole in 1..100 {
            ranges.remove(LayoutIoMode::Read, hole * 10, hole * 10 + 1);
        }
        assert_eq!(ranges.0.len(), RANGES_MAX);
        ranges.remove(LayoutIoMode::Read, 0, u64::MAX);
        assert!(ranges.is_empty());
    }
}
