//! Sparse files: every second block is a hole, as `punch` leaves them.
//!
//! [`SparseLayout`] says where data and holes are, judges what a seek finds, and compares what is
//! read. A file system may store zeros in place of a hole, so a seek may find fewer holes than were
//! made, but it must never take data for a hole or skip it.

use model::OpError;
use workload::{Mismatch, Pattern, WrongContent};

use super::RangeCounts;

/// The layout of a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseLayout {
    /// Size of a block of data, and of a hole.
    pub block_bytes: u64,
    /// Size of the file.
    pub file_bytes: u64,
}

impl SparseLayout {
    /// Returns true if an offset is in a hole.
    pub const fn is_hole(&self, offset: u64) -> bool {
        (offset / self.block_bytes) % 2 == 1
    }

    /// Returns the end of the block that contains an offset.
    pub fn block_end(&self, offset: u64) -> u64 {
        ((offset / self.block_bytes + 1) * self.block_bytes).min(self.file_bytes)
    }

    /// Judges the result of a seek from the start of a block of data to the next hole, or from the
    /// start of a hole to the next data; `None` if nothing follows. Counts it if it is exact.
    ///
    /// # Errors
    /// [`OpError::MISMATCH`] if data was skipped or counts as a hole.
    pub(super) fn judge_seek(
        &self,
        offset: u64,
        found: Option<u64>,
        counts: &mut RangeCounts,
    ) -> Result<(), OpError> {
        let end = self.block_end(offset);
        let is_hole = self.is_hole(offset);
        let is_right = match found {
            // No data follows a hole at the end of the file.
            None => is_hole && end == self.file_bytes,
            Some(found) if is_hole => (offset..self.file_bytes).contains(&found) && (found <= end),
            Some(found) => (end..=self.file_bytes).contains(&found),
        };
        counts.found_ends += u64::from(is_right && found.unwrap_or(end) == end);
        if is_right { Ok(()) } else { Err(OpError::MISMATCH) }
    }

    /// Compares bytes that were read with the content of the file.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(
        &self,
        pattern: &Pattern,
        data: &[u8],
        file: u32,
        offset: u64,
    ) -> Result<(), Mismatch> {
        let mut at = 0;
        while at < data.len() {
            let position = offset + at as u64;
            let left = self.block_end(position).saturating_sub(position).max(1);
            let part = &data[at..data.len().min(at + left as usize)];
            if self.is_hole(position) {
                check_zeros(part, file, position)?;
            } else {
                pattern.check(part, file, position)?;
            }
            at += part.len();
        }
        Ok(())
    }

    /// Checks that a range that was described as a hole contains no data.
    ///
    /// # Errors
    /// The first byte of data in it.
    pub(super) fn check_hole(&self, file: u32, offset: u64, len: u64) -> Result<(), Mismatch> {
        let data = if self.is_hole(offset) { self.block_end(offset) } else { offset };
        if len == 0 || data >= (offset + len).min(self.file_bytes) {
            return Ok(());
        }
        let what = WrongContent::Byte { found: 0, expected: u8::MAX };
        Err(Mismatch { file, offset_bytes: data, what })
    }
}

/// Checks that bytes are zeros.
///
/// # Errors
/// The first that isn't.
pub fn check_zeros(data: &[u8], file: u32, offset: u64) -> Result<(), Mismatch> {
    let Some(at) = data.iter().position(|byte| *byte != 0) else { return Ok(()) };
    let what = WrongContent::Byte { found: data[at], expected: 0 };
    Err(Mismatch { file, offset_bytes: offset + at as u64, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: SparseLayout = SparseLayout { block_bytes: 10, file_bytes: 35 };

    #[test]
    fn judges_seeks_by_their_risk() {
        let mut counts = RangeCounts::default();
        let mut judge = |offset, found| LAYOUT.judge_seek(offset, found, &mut counts);
        // From data to the next hole.
        assert_eq!([judge(0, Some(10)), judge(20, Some(30))], [Ok(()); 2]);
        assert_eq!(judge(0, Some(35)), Ok(()), "a file system may have fewer holes");
        assert_eq!(judge(0, Some(9)), Err(OpError::MISMATCH), "data counts as a hole");
        assert_eq!(judge(0, None), Err(OpError::MISMATCH));
        // From a hole to the next data, or to nothing.
        assert_eq!([judge(10, Some(20)), judge(30, None)], [Ok(()); 2]);
        assert_eq!(judge(10, Some(10)), Ok(()));
        assert_eq!(judge(10, Some(21)), Err(OpError::MISMATCH), "data is skipped");
        assert_eq!(judge(10, None), Err(OpError::MISMATCH));
        assert_eq!(counts.found_ends, 4);
    }

    #[test]
    fn holes_contain_no_data() {
        assert_eq!(LAYOUT.check_hole(1, 10, 10), Ok(()));
        assert_eq!(LAYOUT.check_hole(1, 30, 100), Ok(()), "it ends with the file");
        for (offset, len, at) in [(10, 11, 20), (12, 9, 20), (20, 1, 20), (9, 5, 9)] {
            let found = LAYOUT.check_hole(1, offset, len).unwrap_err();
            assert_eq!(found.offset_bytes, at);
        }
        assert_eq!(check_zeros(&[0, 0], 1, 5), Ok(()));
        assert_eq!(check_zeros(&[0, 7], 1, 5).unwrap_err().offset_bytes, 6);
    }
}
