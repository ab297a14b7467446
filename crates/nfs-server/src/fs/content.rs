//! The data of one regular file: a sparse row of blocks, or only a size.
//!
//! Holes and everything past a block's end read as zeros. A discarding file keeps only its size and
//! returns a fixed pattern for any read, whether the range was written or not. Has no lock: the
//! inode's lock covers it, and reading only hands out references.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::block::{BLOCK_BYTES, Block, DataPiece};
use super::budget::Budget;
use super::payload::Payload;
use super::types::{FILE_BYTES_MAX, FsError};
use crate::placement::Placement;

/// How file data is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Data is stored and can be verified.
    #[default]
    Keep,
    /// Sizes are kept, data is discarded; reads return a fixed pattern.
    Discard,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSpan {
    /// Number of bytes returned.
    pub count: u32,
    /// Whether the end of the file was reached.
    pub eof: bool,
}

/// Data of one file; grows by `write` and `resize`.
#[derive(Debug)]
pub struct FileContent {
    pub(super) mode: StoreMode,
    pub(super) size: u64,
    pub(super) used_bytes: u64,
    pub(super) blocks: BTreeMap<u64, Arc<Block>>,
    /// Content to restore if unstable data is lost; `None` if all data is stable.
    stable: Option<Box<Stable>>,
    /// Content to restore if the most recently committed data is lost; only if that is planned.
    former: Option<Box<Stable>>,
    /// The data servers that have the data, if it isn't here.
    placement: Option<Arc<Placement>>,
}

/// A file as it was before its unstable writes, or before a single one, for the parts they changed.
#[derive(Debug)]
pub(super) struct Stable {
    size: u64,
    /// The places written since, each with the block it had.
    blocks: BTreeMap<u64, Option<Arc<Block>>>,
}

impl FileContent {
    /// Creates an empty file.
    pub fn new(mode: StoreMode) -> Self {
        Self {
            mode,
            size: 0,
            used_bytes: 0,
            blocks: BTreeMap::new(),
            stable: None,
            former: None,
            placement: None,
        }
    }

    /// Where the data is, if it isn't here.
    pub(super) fn placement(&self) -> Option<&Arc<Placement>> {
        self.placement.as_ref()
    }

    /// Puts the data of a file without blocks elsewhere; only its size is kept here.
    pub(super) fn place(&mut self, placement: Placement) -> Arc<Placement> {
        self.mode = StoreMode::Discard;
        Arc::clone(self.placement.insert(Arc::new(placement)))
    }

    /// Whether there is data here.
    pub(super) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Records that there is data up to `end`.
    pub(super) fn extend_to(&mut self, end: u64) {
        self.size = self.size.max(end.min(FILE_BYTES_MAX));
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Memory held, in bytes; the size if data is discarded.
    pub fn used_bytes(&self) -> u64 {
        match self.mode {
            StoreMode::Keep => self.used_bytes,
            StoreMode::Discard => self.size,
        }
    }

    /// Appends to `out` the pieces of up to `count` bytes from `offset`.
    pub fn read(&self, offset: u64, count: u32, out: &mut Vec<DataPiece>) -> ReadSpan {
        let available = self.size.saturating_sub(offset);
        let count = available.min(u64::from(count));
        let end = offset.saturating_add(count);
        let mut position = offset;
        while position < end {
            let (index, start) = split_offset(position);
            let length = (end - position).min((BLOCK_BYTES - start) as u64) as usize;
            self.read_place(index, start, start + length, out);
            position += length as u64;
        }
        ReadSpan { count: count as u32, eof: available <= count }
    }

    /// Writes `data` at `offset` and returns how many bytes were stored: fewer than given only if
    /// the memory limit is reached.
    ///
    /// # Errors
    /// `NoSpace` if not even one byte fits, `FileTooBig` past `FILE_BYTES_MAX`; nothing changes.
    pub fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        budget: &Arc<Budget>,
    ) -> Result<usize, FsError> {
        let end = offset.checked_add(data.len() as u64).ok_or(FsError::FileTooBig)?;
        if end > FILE_BYTES_MAX {
            return Err(FsError::FileTooBig);
        }
        let written = match self.mode {
            StoreMode::Keep => self.write_places(offset, data, budget)?,
            StoreMode::Discard => data.len(),
        };
        if written > 0 {
            self.size = self.size.max(offset + written as u64);
        }
        Ok(written)
    }

    /// Writes a payload whose buffers become the blocks of the places that they cover; returns how
    /// many bytes were stored, as `write` does.
    ///
    /// # Errors
    /// Same as `write`.
    pub fn write_payload(
        &mut self,
        payload: &mut Payload,
        budget: &Arc<Budget>,
    ) -> Result<usize, FsError> {
        let offset = payload.offset();
        let len = payload.len_bytes();
        let end = offset.checked_add(len as u64).ok_or(FsError::FileTooBig)?;
        if end > FILE_BYTES_MAX {
            return Err(FsError::FileTooBig);
        }
        let mut written = 0;
        match self.mode {
            StoreMode::Discard => written = len,
            StoreMode::Keep => {
                for (offset, part) in payload.take_parts() {
                    let (index, start) = split_offset(offset);
                    let part_len = part.len();
                    let stored = if part_len == BLOCK_BYTES {
                        self.replace_place(index, part, budget)
                    } else {
                        self.write_place(index, start, &part, budget)
                    };
                    match stored {
                        Ok(()) => written += part_len,
                        Err(error) if written == 0 => return Err(error),
                        Err(_) => break,
                    }
                }
            }
        }
        self.size = self.size.max(offset + written as u64);
        Ok(written)
    }

    /// Makes a buffer the block of a place.
    fn replace_place(
        &mut self,
        index: u64,
        buffer: Vec<u8>,
        budget: &Arc<Budget>,
    ) -> Result<(), FsError> {
        let Some(shared) = self.blocks.get_mut(&index) else {
            let block = Block::from_buffer(budget, buffer)?;
            self.used_bytes += block.capacity();
            self.blocks.insert(index, Arc::new(block));
            return Ok(());
        };
        let before = shared.capacity();
        // As in `write_place`: a block that someone still refers to stays as it is.
        let result = if let Some(block) = Arc::get_mut(shared) {
            block.replace(buffer)
        } else {
            shared.replaced(buffer).map(|block| *shared = Arc::new(block))
        };
        self.used_bytes = self.used_bytes - before + shared.capacity();
        result
    }

    /// Remembers the `len` bytes at `offset` before they are written unstably, for
    /// [`FileContent::lose_unstable`]. The old blocks stay alive and charged until then.
    pub fn remember_stable(&mut self, offset: u64, len: usize) {
        // Only the first unstable write of a block finds it stable; later ones change bytes that
        // are already unstable. The `Arc` makes the write below copy the block (see `write_place`).
        let before = self.before_write(offset, len);
        match &mut self.stable {
            None => self.stable = Some(Box::new(before)),
            Some(stable) => {
                for (index, block) in before.blocks {
                    stable.blocks.entry(index).or_insert(block);
                }
            }
        }
    }

    /// Returns what a write of `len` bytes at `offset` will replace, for [`FileContent::restore`].
    pub(super) fn before_write(&self, offset: u64, len: usize) -> Stable {
        let mut before = Stable { size: self.size, blocks: BTreeMap::new() };
        if self.mode == StoreMode::Discard || len == 0 {
            return before;
        }
        let (first, _) = split_offset(offset);
        let (last, _) = split_offset(offset.saturating_add(len as u64 - 1));
        for index in first..=last {
            before.blocks.insert(index, self.blocks.get(&index).cloned());
        }
        before
    }

    /// Makes all data stable.
    pub fn commit(&mut self) {
        self.stable = None;
        self.former = None;
    }

    /// Claims that all data is stable, but keeps the earlier content for
    /// [`FileContent::lose_committed`]: the lie of a disk that does not flush its cache.
    pub fn keep_former(&mut self) {
        if let Some(stable) = self.stable.take() {
            self.former = Some(stable);
        }
    }

    /// Restores the content from before data was last reported as stable; returns whether
    /// anything changed.
    pub fn lose_committed(&mut self) -> bool {
        let unstable = self.lose_unstable();
        let Some(former) = self.former.take() else { return unstable };
        self.restore(*former);
        true
    }

    /// Goes back to the stable content; returns whether anything changed.
    pub fn lose_unstable(&mut self) -> bool {
        let Some(stable) = self.stable.take() else { return false };
        self.restore(*stable);
        true
    }

    /// Goes back to an earlier size and to the earlier blocks of some places.
    pub(super) fn restore(&mut self, stable: Stable) {
        for (index, old) in stable.blocks {
            if let Some(lost) = self.blocks.remove(&index) {
                self.used_bytes -= lost.capacity();
            }
            if let Some(old) = old {
                self.used_bytes += old.capacity();
                self.blocks.insert(index, old);
            }
        }
        self.size = stable.size;
    }

    /// Truncates, freeing memory, or extends with a hole; makes all data stable.
    ///
    /// # Errors
    /// `FileTooBig` past `FILE_BYTES_MAX`; `NoSpace` if a block that is being sent had to be copied
    /// and could not be. Then nothing changes.
    pub fn resize(&mut self, size: u64) -> Result<(), FsError> {
        if size > FILE_BYTES_MAX {
            return Err(FsError::FileTooBig);
        }
        self.commit();
        if size < self.size {
            self.truncate(size)?;
        }
        self.size = size;
        Ok(())
    }

    fn read_place(&self, index: u64, start: usize, end: usize, out: &mut Vec<DataPiece>) {
        if self.mode == StoreMode::Discard {
            out.push(DataPiece::pattern(start, end));
            return;
        }
        let mut position = start;
        if let Some(block) = self.blocks.get(&index)
            && start < block.len()
        {
            position = end.min(block.len());
            out.push(DataPiece::from_block(block, start, position));
        }
        if position < end {
            out.push(DataPiece::zeros(end - position));
        }
    }

    fn write_places(
        &mut self,
        offset: u64,
        data: &[u8],
        budget: &Arc<Budget>,
    ) -> Result<usize, FsError> {
        let mut written = 0;
        while written < data.len() {
            let (index, start) = split_offset(offset + written as u64);
            let length = (data.len() - written).min(BLOCK_BYTES - start);
            let part = &data[written..written + length];
            match self.write_place(index, start, part, budget) {
                Ok(()) => written += length,
                Err(error) if written == 0 => return Err(error),
                // A short write is a success; the client sends the rest and then gets the error.
                Err(_) => break,
            }
        }
        Ok(written)
    }

    pub(super) fn write_place(
        &mut self,
        index: u64,
        start: usize,
        data: &[u8],
        budget: &Arc<Budget>,
    ) -> Result<(), FsError> {
        let Some(shared) = self.blocks.get_mut(&index) else {
            let block = Block::new(budget, start, data)?;
            self.used_bytes += block.capacity();
            self.blocks.insert(index, Arc::new(block));
            return Ok(());
        };
        let before = shared.capacity();
        // Copy on write: a block that a reply, or the undo data, still refers to is replaced, and
        // its readers keep the old bytes. `get_mut` succeeds only for the sole owner, and the
        // inode's write lock guarantees that no new reader appears.
        let result = if let Some(block) = Arc::get_mut(shared) {
            block.write(start, data)
        } else {
            shared.rewritten(start, data).map(|copy| *shared = Arc::new(copy))
        };
        self.used_bytes = self.used_bytes - before + shared.capacity();
        result
    }

    fn truncate(&mut self, size: u64) -> Result<(), FsError> {
        let (last, keep) = split_offset(size);
        // The bytes after the new end must not reappear when the file grows again, so the block is
        // cut, not just the size.
        let cut = match self.blocks.get(&last) {
            Some(block) if keep > 0 && keep < block.len() => Some(Arc::new(block.shortened(keep)?)),
            Some(block) if keep > 0 => Some(Arc::clone(block)),
            _ => None,
        };
        for block in self.blocks.split_off(&last).into_values() {
            self.used_bytes -= block.capacity();
        }
        if let Some(block) = cut {
            self.used_bytes += block.capacity();
            self.blocks.insert(last, block);
        }
        Ok(())
    }
}

/// The place that contains a byte of a file, and the position within it.
pub(super) fn split_offset(offset: u64) -> (u64, usize) {
    (offset / BLOCK_BYTES as u64, (offset % BLOCK_BYTES as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(content: &FileContent, offset: u64, count: u32) -> Vec<u8> {
        let mut pieces = Vec::new();
        let span = content.read(offset, count, &mut pieces);
        let bytes = pieces.iter().flat_map(|piece| piece.bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(bytes.len(), span.count as usize);
        bytes
    }

    #[test]
    fn reads_holes_as_zeros() {
        let budget = Budget::new(1 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        let far = 5 * BLOCK_BYTES as u64;
        assert_eq!(content.write(far, b"end", &budget), Ok(3));
        assert_eq!(content.size(), far + 3);
        assert_eq!(content.used_bytes(), 512);
        assert_eq!(bytes(&content, far - 2, 100), b"\0\0end");
        assert_eq!(bytes(&content, 0, 700_000), vec![0; 700_000]);
    }

    #[test]
    fn reports_eof_at_last_byte() {
        let budget = Budget::new(1 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        content.write(0, b"12345", &budget).unwrap();
        let mut out = Vec::new();
        assert_eq!(content.read(0, 4, &mut out), ReadSpan { count: 4, eof: false });
        assert_eq!(content.read(0, 5, &mut out), ReadSpan { count: 5, eof: true });
        assert_eq!(content.read(9, 5, &mut out), ReadSpan { count: 0, eof: true });
        assert_eq!(content.read(u64::MAX, 5, &mut out), ReadSpan { count: 0, eof: true });
    }

    #[test]
    fn one_mebibyte_is_four_pieces() {
        let budget = Budget::new(4 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        content.write(0, &vec![1; 2 << 20], &budget).unwrap();
        let mut out = Vec::new();
        content.read(1 << 20, 1 << 20, &mut out);
        assert_eq!(out.len(), 4);
    }

    #[test]
    fn frees_memory_and_zeros_on_truncate() {
        let budget = Budget::new(1 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        content.write(0, &vec![9; 600_000], &budget).unwrap();
        content.resize(3).unwrap();
        assert_eq!((content.used_bytes(), budget.used_bytes()), (512, 512));
        content.resize(6).unwrap();
        assert_eq!(bytes(&content, 0, 10), [9, 9, 9, 0, 0, 0]);
        content.resize(0).unwrap();
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn data_handed_out_does_not_change() {
        let budget = Budget::new(1 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        content.write(0, b"before", &budget).unwrap();
        let mut pieces = Vec::new();
        content.read(0, 6, &mut pieces);
        content.write(0, b"after!", &budget).unwrap();
        assert_eq!(pieces[0].bytes(), b"before");
        content.resize(0).unwrap();
        assert_eq!(pieces[0].bytes(), b"before");
        assert_eq!(budget.used_bytes(), 512);
        drop(pieces);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn shortens_write_at_limit() {
        let budget = Budget::new(BLOCK_BYTES as u64 + 100);
        let mut content = FileContent::new(StoreMode::Keep);
        let data = vec![5; 2 * BLOCK_BYTES];
        assert_eq!(content.write(0, &data, &budget), Ok(BLOCK_BYTES));
        assert_eq!(content.size(), BLOCK_BYTES as u64);
        let rest = content.write(content.size(), &data, &budget);
        assert_eq!(rest, Err(FsError::NoSpace));
        assert_eq!(content.size(), BLOCK_BYTES as u64);
    }

    #[test]
    fn loses_only_unstable_data() {
        let budget = Budget::new(8 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        content.write(0, &vec![1; BLOCK_BYTES + 10], &budget).unwrap();
        let used = (content.used_bytes(), budget.used_bytes());
        for (offset, fill) in [(5, 2), (BLOCK_BYTES as u64 + 5, 3), (7, 4), (900_000, 5)] {
            content.remember_stable(offset, 100);
            content.write(offset, &[fill; 100], &budget).unwrap();
        }
        assert!(content.lose_unstable());
        assert_eq!(bytes(&content, 0, 1 << 20), vec![1; BLOCK_BYTES + 10]);
        assert_eq!((content.used_bytes(), budget.used_bytes()), used);
        assert!(!content.lose_unstable());
        content.remember_stable(0, 4);
        content.write(0, b"kept", &budget).unwrap();
        content.commit();
        assert!(!content.lose_unstable());
        assert_eq!(bytes(&content, 0, 5), b"kept\x01");
    }

    #[test]
    fn loses_falsely_committed_data() {
        let budget = Budget::new(8 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        let put = |content: &mut FileContent, byte| {
            content.remember_stable(0, 3);
            content.write(0, &[byte; 3], &budget).unwrap();
        };
        put(&mut content, 1);
        content.keep_former();
        put(&mut content, 2);
        put(&mut content, 3);
        content.keep_former();
        put(&mut content, 4);
        // The uncommitted data goes, and with it whatever the last commit covered.
        assert!(content.lose_committed());
        assert_eq!(bytes(&content, 0, 9), [1; 3]);
        assert!(!content.lose_committed());
        put(&mut content, 5);
        content.keep_former();
        content.commit();
        assert!(!content.lose_committed());
        assert_eq!(bytes(&content, 0, 9), [5; 3]);
    }

    #[test]
    fn discard_keeps_only_the_size() {
        let budget = Budget::new(0);
        let mut content = FileContent::new(StoreMode::Discard);
        assert_eq!(content.write(10, &[1; 90], &budget), Ok(90));
        assert_eq!((content.size(), content.used_bytes(), budget.used_bytes()), (100, 100, 0));
        assert_eq!(bytes(&content, 3, 50), bytes(&content, 3, 50));
        assert_eq!(content.write(u64::MAX, &[1; 90], &budget), Err(FsError::FileTooBig));
    }
}
