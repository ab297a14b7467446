//! Clones: a range of a file that shares its blocks with a range of another.
//!
//! A clone is taken from a snapshot of the source, whose blocks are never written while someone
//! else refers to them. Whole blocks that start a place of both files are shared; everything else
//! is copied. A shared block is charged to the budget once, but counts as used by both files.
//!
//! **Source:** RFC 7862 section 15.13 (CLONE).

use std::sync::Arc;

use super::block::{BLOCK_BYTES, Block, DataPiece};
use super::budget::Budget;
use super::content::{FileContent, StoreMode, split_offset};
use super::types::{FILE_BYTES_MAX, FsError};

/// Unit of the offsets and lengths of clones, in bytes.
pub const CLONE_BLOCK_BYTES: u64 = 4096;

/// A part of a snapshot.
enum SnapshotPart {
    /// All data of a place of the source, which is as long as its block or longer.
    Place(Arc<Block>),
    /// Some data of a place.
    Bytes(DataPiece),
    /// A hole.
    Hole,
}

/// A range of a file as it was at some moment: parts in order, each with its length in bytes.
pub(super) struct Snapshot(Vec<(SnapshotPart, u64)>);

impl FileContent {
    /// Takes a snapshot of a range. It must not reach beyond the end of the file.
    pub(super) fn snapshot(&self, offset: u64, length: u64) -> Snapshot {
        let mut parts = Vec::new();
        if self.mode == StoreMode::Discard {
            return Snapshot(parts);
        }
        let end = offset + length;
        let mut position = offset;
        while position < end {
            let (index, start) = split_offset(position);
            let stop = (end - position).min((BLOCK_BYTES - start) as u64) as usize + start;
            let bytes = (stop - start) as u64;
            position += bytes;
            match self.blocks.get(&index) {
                Some(block) if start == 0 && block.len() <= stop => {
                    parts.push((SnapshotPart::Place(Arc::clone(block)), bytes));
                }
                Some(block) if start < block.len() => {
                    let filled = stop.min(block.len());
                    let piece = DataPiece::from_block(block, start, filled);
                    parts.push((SnapshotPart::Bytes(piece), (filled - start) as u64));
                    if filled < stop {
                        parts.push((SnapshotPart::Hole, (stop - filled) as u64));
                    }
                }
                _ => parts.push((SnapshotPart::Hole, bytes)),
            }
        }
        Snapshot(parts)
    }

    /// Replaces a range with that of a snapshot, and extends the file to its end if necessary.
    ///
    /// # Errors
    /// `NoSpace` or `FileTooBig`; then nothing changes.
    pub(super) fn adopt(
        &mut self,
        offset: u64,
        length: u64,
        snapshot: &Snapshot,
        budget: &Arc<Budget>,
    ) -> Result<(), FsError> {
        let end = offset.checked_add(length).ok_or(FsError::FileTooBig)?;
        if end > FILE_BYTES_MAX {
            return Err(FsError::FileTooBig);
        }
        self.commit();
        let before = self.before_write(offset, length as usize);
        // A hole is only punched within the file.
        self.size = self.size.max(end);
        let mut position = offset;
        for (part, length) in &snapshot.0 {
            if let Err(error) = self.adopt_part(position, *length, part, budget) {
                self.restore(before);
                return Err(error);
            }
            position += length;
        }
        Ok(())
    }

    fn adopt_part(
        &mut self,
        offset: u64,
        length: u64,
        part: &SnapshotPart,
        budget: &Arc<Budget>,
    ) -> Result<(), FsError> {
        let (index, start) = split_offset(offset);
        match part {
            SnapshotPart::Hole => self.punch(offset, length, budget),
            SnapshotPart::Bytes(piece) => self.copy_whole(offset, piece.bytes(), budget),
            SnapshotPart::Place(block) => {
                let old = self.blocks.get(&index);
                let kept = old.map_or(0, |old| old.len() as u64);
                if start == 0 && kept <= length {
                    self.used_bytes -= old.map_or(0, |old| old.capacity());
                    self.used_bytes += block.capacity();
                    self.blocks.insert(index, Arc::clone(block));
                    return Ok(());
                }
                let piece = DataPiece::from_block(block, 0, block.len());
                self.copy_whole(offset, piece.bytes(), budget)?;
                let filled = block.len() as u64;
                self.punch(offset + filled, length - filled, budget)
            }
        }
    }

    /// Writes all of `data`.
    fn copy_whole(
        &mut self,
        offset: u64,
        data: &[u8],
        budget: &Arc<Budget>,
    ) -> Result<(), FsError> {
        match self.write(offset, data, budget)? {
            written if written == data.len() => Ok(()),
            _ => Err(FsError::NoSpace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: u64 = BLOCK_BYTES as u64;

    fn bytes(content: &FileContent) -> Vec<u8> {
        let mut pieces = Vec::new();
        content.read(0, u32::MAX, &mut pieces);
        pieces.iter().flat_map(|piece| piece.bytes().to_vec()).collect()
    }

    #[test]
    fn clones_share_blocks_until_written() {
        let budget = Budget::new(4 << 20);
        let mut from = FileContent::new(StoreMode::Keep);
        from.write(0, &vec![7; 2 * BLOCK_BYTES], &budget).unwrap();
        let used = budget.used_bytes();
        let mut to = FileContent::new(StoreMode::Keep);
        to.adopt(0, 2 * PLACE, &from.snapshot(0, 2 * PLACE), &budget).unwrap();
        assert_eq!((budget.used_bytes(), to.used_bytes()), (used, used));
        assert!(bytes(&to) == bytes(&from));
        from.write(1, b"x", &budget).unwrap();
        assert_eq!(budget.used_bytes(), used + PLACE);
        assert_eq!((bytes(&from)[1], bytes(&to)[1]), (b'x', 7));
        drop((from, to));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn failed_clone_changes_nothing() {
        let budget = Budget::new(PLACE + 8192);
        let mut from = FileContent::new(StoreMode::Keep);
        from.write(0, &vec![7; BLOCK_BYTES], &budget).unwrap();
        let mut to = FileContent::new(StoreMode::Keep);
        to.write(0, b"old", &budget).unwrap();
        let used = budget.used_bytes();
        // The places don't match, so the data would have to be copied.
        let snapshot = from.snapshot(0, PLACE);
        assert_eq!(to.adopt(4096, PLACE, &snapshot, &budget), Err(FsError::NoSpace));
        drop(snapshot);
        assert_eq!((bytes(&to), budget.used_bytes()), (b"old".to_vec(), used));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Compares clones of any range with a copy of the bytes.
        #[test]
        fn clone_equals_copied_bytes(
            writes in prop::collection::vec((0_u64..9, 1_u64..4), 1..6),
            ranges in prop::collection::vec((0_u64..9, 0_u64..9, 1_u64..9), 1..5),
        ) {
            let unit = PLACE / 4;
            let budget = Budget::new(64 << 20);
            let mut from = FileContent::new(StoreMode::Keep);
            let mut to = FileContent::new(StoreMode::Keep);
            for (number, (offset, length)) in (1..).zip(writes) {
                let data = vec![number; (length * unit) as usize];
                from.write(offset * unit, &data, &budget).unwrap();
            }
            to.write(unit, &vec![99; (3 * unit) as usize], &budget).unwrap();
            let source = bytes(&from);
            let mut model = bytes(&to);
            for (start, offset, length) in ranges {
                let start = (start * unit).min(from.size());
                let length = (length * unit).min(from.size() - start);
                if length == 0 {
                    continue;
                }
                let offset = offset * unit;
                to.adopt(offset, length, &from.snapshot(start, length), &budget).unwrap();
                let range = offset as usize..(offset + length) as usize;
                model.resize(model.len().max(range.end), 0);
                model[range].copy_from_slice(&source[start as usize..(start + length) as usize]);
            }
            prop_assert!(bytes(&to) == model);
            prop_assert!(bytes(&from) == source);
            drop((from, to));
            prop_assert_eq!(budget.used_bytes(), 0);
        }
    }
}
