//! Holes: finding, punching and filling them, and reading a file as extents of data and holes.
//!
//! A hole is any range that no block covers; a discarding store has none. The start of a hole is
//! exact to the byte, that of data is rounded to its block. Nothing here takes a lock.
//!
//! **Source:** RFC 7862 sections 15.1 (ALLOCATE), 15.4 (DEALLOCATE), 15.10 (READ_PLUS), 15.11
//! (SEEK).

use std::sync::Arc;

use super::block::{BLOCK_BYTES, Block, ZEROS};
use super::budget::Budget;
use super::content::{FileContent, StoreMode, split_offset};
use super::types::{FILE_BYTES_MAX, FsError};

/// Whether bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// The bytes are stored.
    Data,
    /// The bytes read as zeros and take no memory.
    Hole,
}

/// A range of bytes that are all data or all hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether it is stored.
    pub kind: ExtentKind,
}

impl FileContent {
    /// The extent that starts at `offset`, cut at `end` and at the end of the file; empty past it.
    pub fn extent(&self, offset: u64, end: u64) -> Extent {
        let end = end.min(self.size).max(offset);
        let kind = self.kind_at(offset);
        // Data may continue in the next block, and a hole from the end of a short block to the
        // next.
        let mut position = offset;
        while position < end && self.kind_at(position) == kind {
            position = self.extent_end(position, kind).min(end);
        }
        Extent { offset, length: position - offset, kind }
    }

    fn kind_at(&self, offset: u64) -> ExtentKind {
        let (index, start) = split_offset(offset);
        match self.blocks.get(&index) {
            _ if self.mode == StoreMode::Discard => ExtentKind::Data,
            Some(block) if start < block.len() => ExtentKind::Data,
            _ => ExtentKind::Hole,
        }
    }

    /// Returns the end of the data or hole within this place.
    fn extent_end(&self, offset: u64, kind: ExtentKind) -> u64 {
        let (index, _) = split_offset(offset);
        let place = index * BLOCK_BYTES as u64;
        if self.mode == StoreMode::Discard {
            return u64::MAX;
        }
        match self.blocks.get(&index) {
            Some(block) if kind == ExtentKind::Data => place + block.len() as u64,
            Some(_) => place + BLOCK_BYTES as u64,
            None => match self.blocks.range(index..).next() {
                Some((next, _)) => next * BLOCK_BYTES as u64,
                None => u64::MAX,
            },
        }
    }

    /// Finds the first byte at or after `offset` that is stored, or in a hole; the end of the file
    /// counts as a hole. `None` if no data follows.
    pub fn seek(&self, offset: u64, kind: ExtentKind) -> Option<u64> {
        let here = self.extent(offset, u64::MAX);
        let found = if here.kind == kind { offset } else { offset + here.length };
        // Past the end there is no data, only the hole that every file ends with.
        if found < self.size || kind == ExtentKind::Hole { Some(found) } else { None }
    }

    /// Stores zeros in all holes of a range, and extends the file to its end if necessary.
    ///
    /// # Errors
    /// `NoSpace` if the budget does not allow all of it, `FileTooBig`; then nothing changes, unless
    /// other threads take the memory meanwhile.
    pub fn allocate(
        &mut self,
        offset: u64,
        length: u64,
        budget: &Arc<Budget>,
    ) -> Result<(), FsError> {
        let end = offset.saturating_add(length);
        if end > FILE_BYTES_MAX {
            return Err(FsError::FileTooBig);
        }
        self.commit();
        if self.mode == StoreMode::Keep {
            let first = split_offset(offset).0;
            let last = split_offset(end.saturating_sub(1)).0;
            // Refuse before anything is stored, so that a request beyond the limit does not first
            // fill the memory. Blocks may contain bytes outside the range, so the estimate is low;
            // `fill_place` finds the exact amount.
            let held: u64 =
                self.blocks.range(first..=last).map(|(_, block)| block.len() as u64).sum();
            let free = budget.limit_bytes().saturating_sub(budget.used_bytes());
            if length.saturating_sub(held) > free {
                return Err(FsError::NoSpace);
            }
            let mut position = offset;
            while position < end {
                position = self.fill_place(position, end, budget)?;
            }
        }
        self.size = self.size.max(end);
        Ok(())
    }

    /// Stores zeros in the hole of one place up to `end`; returns the start of the next place.
    fn fill_place(&mut self, offset: u64, end: u64, budget: &Arc<Budget>) -> Result<u64, FsError> {
        let (index, start) = split_offset(offset);
        let place = index * BLOCK_BYTES as u64;
        let stop = (end - place).min(BLOCK_BYTES as u64) as usize;
        let held = self.blocks.get(&index).map_or(0, |block| block.len());
        let start = start.max(held);
        if start < stop {
            self.write_place(index, start, &ZEROS[..stop - start], budget)?;
        }
        Ok(place + stop as u64)
    }

    /// Punches a hole and keeps the size. Where no hole is possible, zeros are stored.
    ///
    /// # Errors
    /// `NoSpace` if part of a block that is being sent had to be copied and could not be.
    pub fn punch(&mut self, offset: u64, length: u64, budget: &Arc<Budget>) -> Result<(), FsError> {
        let end = offset.saturating_add(length).min(self.size);
        self.commit();
        if self.mode == StoreMode::Discard || offset >= end {
            return Ok(());
        }
        let first = split_offset(offset).0;
        let last = split_offset(end - 1).0;
        // Step from block to block: a hole of any length is skipped at once.
        let mut next = first;
        while next <= last
            && let Some((&index, _)) = self.blocks.range(next..=last).next()
        {
            next = index + 1;
            let place = index * BLOCK_BYTES as u64;
            let start = offset.saturating_sub(place) as usize;
            let stop = (end - place).min(BLOCK_BYTES as u64) as usize;
            self.punch_place(index, start, stop, budget)?;
        }
        Ok(())
    }

    fn punch_place(
        &mut self,
        index: u64,
        start: usize,
        stop: usize,
        budget: &Arc<Budget>,
    ) -> Result<(), FsError> {
        let Some(block) = self.blocks.get(&index) else { return Ok(()) };
        let len = block.len();
        if start >= len {
            return Ok(());
        }
        // A block contains the first bytes of its place, so only its end can become a hole. In the
        // middle, store zeros, which read the same.
        if stop < len {
            let zeros = vec![0; stop - start];
            return self.write_place(index, start, &zeros, budget);
        }
        let before = block.capacity();
        if start == 0 {
            self.blocks.remove(&index);
        } else {
            let short: Block = block.shortened(start)?;
            self.used_bytes += short.capacity();
            self.blocks.insert(index, Arc::new(short));
        }
        self.used_bytes -= before;
        Ok(())
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

    fn extents(content: &FileContent) -> Vec<(u64, bool)> {
        let mut position = 0;
        let mut found = Vec::new();
        while position < content.size() {
            let extent = content.extent(position, u64::MAX);
            assert!(extent.length > 0 && extent.offset == position);
            found.push((extent.length, extent.kind == ExtentKind::Data));
            position += extent.length;
        }
        found
    }

    #[test]
    fn finds_holes_between_blocks() {
        let budget = Budget::new(4 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        content.write(PLACE, &[1; 100], &budget).unwrap();
        content.write(3 * PLACE, &vec![2; 2 * BLOCK_BYTES], &budget).unwrap();
        content.resize(6 * PLACE).unwrap();
        let expected = [
            (PLACE, false),
            (100, true),
            (2 * PLACE - 100, false),
            (2 * PLACE, true),
            (PLACE, false),
        ];
        assert_eq!(extents(&content), expected);
        assert_eq!(content.seek(0, ExtentKind::Data), Some(PLACE));
        assert_eq!(content.seek(PLACE, ExtentKind::Data), Some(PLACE));
        assert_eq!(content.seek(PLACE, ExtentKind::Hole), Some(PLACE + 100));
        assert_eq!(content.seek(PLACE + 100, ExtentKind::Data), Some(3 * PLACE));
        assert_eq!(content.seek(3 * PLACE, ExtentKind::Hole), Some(5 * PLACE));
        assert_eq!(content.seek(5 * PLACE, ExtentKind::Data), None);
        content.resize(5 * PLACE).unwrap();
        assert_eq!(
            content.seek(3 * PLACE, ExtentKind::Hole),
            Some(5 * PLACE),
            "the end of the file is a hole"
        );
    }

    #[test]
    fn allocates_and_punches_memory() {
        let budget = Budget::new(PLACE * 2);
        let mut content = FileContent::new(StoreMode::Keep);
        content.write(10, b"abc", &budget).unwrap();
        content.allocate(0, PLACE + 5, &budget).unwrap();
        assert_eq!(content.size(), PLACE + 5);
        assert_eq!(extents(&content), [(PLACE + 5, true)]);
        assert_eq!(&bytes(&content)[8..16], b"\0\0abc\0\0\0");
        assert_eq!(content.allocate(0, 1 << 40, &budget), Err(FsError::NoSpace));
        assert_eq!(content.allocate(u64::MAX, 2, &budget), Err(FsError::FileTooBig));
        content.punch(0, u64::MAX, &budget).unwrap();
        assert_eq!((content.size(), content.used_bytes(), budget.used_bytes()), (PLACE + 5, 0, 0));
        assert_eq!(extents(&content), [(PLACE + 5, false)]);
    }

    #[test]
    fn keeps_data_in_flight_when_punched() {
        let budget = Budget::new(1 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        content.write(0, b"before", &budget).unwrap();
        let mut pieces = Vec::new();
        content.read(0, 6, &mut pieces);
        content.punch(1, 2, &budget).unwrap();
        assert_eq!(pieces[0].bytes(), b"before");
        assert_eq!(bytes(&content), b"b\0\0ore");
        content.punch(3, 100, &budget).unwrap();
        assert_eq!(bytes(&content), b"b\0\0\0\0\0");
        assert_eq!(extents(&content), [(3, true), (3, false)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Compares writes, allocations and holes with a plain vector of bytes.
        #[test]
        fn sparse_files_are_as_plain_bytes(
            steps in prop::collection::vec((0_u8..3, 0_u64..9, 0_u64..6), 1..12)
        ) {
            // A third of a place: ranges start and end within places and span several.
            let unit = PLACE / 3;
            let budget = Budget::new(64 << 20);
            let mut content = FileContent::new(StoreMode::Keep);
            let mut model: Vec<u8> = Vec::new();
            for (number, (what, offset, length)) in (1..).zip(steps) {
                let offset = offset * unit;
                let length = length * unit + 1;
                let range = offset as usize..(offset + length) as usize;
                match what {
                    0 => {
                        let data = vec![number; length as usize];
                        content.write(offset, &data, &budget).unwrap();
                        model.resize(model.len().max(range.end), 0);
                        model[range].fill(number);
                    }
                    1 => {
                        content.allocate(offset, length, &budget).unwrap();
                        model.resize(model.len().max(range.end), 0);
                    }
                    _ => {
                        content.punch(offset, length, &budget).unwrap();
                        let end = range.end.min(model.len());
                        if range.start < end {
                            model[range.start..end].fill(0);
                        }
                    }
                }
            }
            prop_assert!(bytes(&content) == model);
            let mut position = 0_usize;
            for (length, is_data) in extents(&content) {
                let part = &model[position..position + length as usize];
                prop_assert!(is_data || part.iter().all(|byte| *byte == 0));
                position += part.len();
            }
            prop_assert_eq!(position, model.len());
        }
    }
}
