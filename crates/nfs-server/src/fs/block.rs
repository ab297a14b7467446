//! Blocks of file data, and pieces of them on their way to a socket.
//!
//! A file is a row of places of `BLOCK_BYTES` each; a `Block` holds the first bytes of one place,
//! and the rest of it reads as zeros. A `DataPiece` keeps its block alive without copying it, so
//! data that was handed out can never change or become another file's: a write meanwhile finds the
//! block shared and makes a new one.

use std::sync::{Arc, LazyLock};

use super::budget::{Budget, Charge};
use super::types::FsError;

/// Length of one place of a file: 1 MiB is then four or five vectors of a `writev`, and a small
/// scattered write into a hole costs at most this much.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// Smallest allocation for a block.
const CAPACITY_BYTES_MIN: usize = 512;

/// The only run of zeros in the crate: it is part of the program's file.
pub(crate) static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
static PATTERN: LazyLock<Box<[u8]>> = LazyLock::new(|| pattern(BLOCK_BYTES));

/// The start of one place of a file; never longer than `BLOCK_BYTES`.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Block {
    /// Bytes present; those after them read as zeros.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes allocated and charged.
    pub fn capacity(&self) -> u64 {
        self.charge.bytes()
    }

    /// Creates a block with `data` at `start` and zeros before it.
    ///
    /// # Errors
    /// `NoSpace` if the budget does not allow it.
    pub fn new(budget: &Arc<Budget>, start: usize, data: &[u8]) -> Result<Self, FsError> {
        let charge = Charge::take(budget, capacity_for(start + data.len()) as u64)?;
        Ok(Self::filled(charge, &[], start, data))
    }

    /// Creates a block from a buffer that covers its place.
    ///
    /// # Errors
    /// `NoSpace` if the budget does not allow it; the buffer is then gone.
    pub fn from_buffer(budget: &Arc<Budget>, buffer: Vec<u8>) -> Result<Self, FsError> {
        let charge = Charge::take(budget, BLOCK_BYTES as u64)?;
        Ok(Self { bytes: buffer, charge })
    }

    /// Replaces all bytes by a buffer that covers the place of the block.
    ///
    /// # Errors
    /// `NoSpace` if the budget does not allow the growth; the block is then unchanged.
    pub fn replace(&mut self, buffer: Vec<u8>) -> Result<(), FsError> {
        self.charge.resize(BLOCK_BYTES as u64)?;
        let old = std::mem::replace(&mut self.bytes, buffer);
        if old.capacity() == BLOCK_BYTES {
            self.charge.budget().keep_spare(old, 0);
        }
        Ok(())
    }

    /// Returns what `replace` would make of this block, leaving this one unchanged.
    ///
    /// # Errors
    /// Same as [`Block::rewritten`].
    pub fn replaced(&self, buffer: Vec<u8>) -> Result<Self, FsError> {
        let charge = Charge::take_copy(self.charge.budget(), BLOCK_BYTES as u64)?;
        Ok(Self { bytes: buffer, charge })
    }

    /// Creates a block of `data`, even if the budget does not allow it.
    pub fn copy_of(budget: &Arc<Budget>, data: &[u8]) -> Self {
        let charge = Charge::force(budget, capacity_for(data.len()) as u64);
        Self::filled(charge, &[], 0, data)
    }

    /// Writes `data` at `start`, growing the block if needed.
    ///
    /// # Errors
    /// `NoSpace` if the budget does not allow the growth; the block is then unchanged.
    pub fn write(&mut self, start: usize, data: &[u8]) -> Result<(), FsError> {
        let end = start + data.len();
        if end > self.bytes.capacity() {
            // Charged before it is allocated: a refused write leaves block and budget as they were.
            let capacity = capacity_for(end);
            self.charge.resize(capacity as u64)?;
            let mut grown = empty_buffer(self.charge.budget(), capacity);
            grown.extend_from_slice(&self.bytes);
            self.bytes = grown;
        }
        // The bytes between the old end and the write were a hole and read as zeros.
        if start > self.bytes.len() {
            self.bytes.resize(start, 0);
        }
        let overlap = (self.bytes.len() - start).min(data.len());
        self.bytes[start..start + overlap].copy_from_slice(&data[..overlap]);
        self.bytes.extend_from_slice(&data[overlap..]);
        Ok(())
    }

    /// Returns what `write` would make of this block, leaving this one unchanged.
    ///
    /// # Errors
    /// `NoSpace` if the budget does not allow the copy, which may exceed the limit slightly while
    /// the original is being sent.
    pub fn rewritten(&self, start: usize, data: &[u8]) -> Result<Self, FsError> {
        let capacity = capacity_for(self.bytes.len().max(start + data.len()));
        let charge = Charge::take_copy(self.charge.budget(), capacity as u64)?;
        Ok(Self::filled(charge, &self.bytes, start, data))
    }

    /// Creates a block of the first `len` bytes of this one.
    ///
    /// # Errors
    /// Same as [`Block::rewritten`].
    pub fn shortened(&self, len: usize) -> Result<Self, FsError> {
        let charge = Charge::take_copy(self.charge.budget(), capacity_for(len) as u64)?;
        Ok(Self::filled(charge, &[], 0, &self.bytes[..len]))
    }

    fn filled(charge: Charge, old: &[u8], start: usize, data: &[u8]) -> Self {
        let capacity = charge.bytes() as usize;
        let mut bytes = empty_buffer(charge.budget(), capacity);
        bytes.extend_from_slice(&old[..start.min(old.len())]);
        bytes.resize(start, 0);
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(old.get(bytes.len()..).unwrap_or_default());
        Self { bytes, charge }
    }
}

/// Returns an empty buffer, reusing that of a freed block if it is large enough.
fn empty_buffer(budget: &Budget, capacity: usize) -> Vec<u8> {
    let spare = if capacity == BLOCK_BYTES { budget.take_spare() } else { None };
    let mut buffer = spare.unwrap_or_else(|| Vec::with_capacity(capacity));
    buffer.clear();
    buffer
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes.capacity() == BLOCK_BYTES {
            let buffer = std::mem::take(&mut self.bytes);
            self.charge.budget().keep_spare(buffer, self.charge.bytes());
        }
    }
}

/// Bytes of a file ready to be sent; cheap to hold, never changes.
#[derive(Clone, Debug)]
pub enum DataPiece {
    /// A part of a stored block: the block, the first byte and the end.
    Stored(Arc<Block>, u32, u32),
    /// A part of a static buffer.
    Fixed(&'static [u8]),
}

impl DataPiece {
    /// Returns the bytes of the block.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Stored(block, start, end) => &block.bytes[*start as usize..*end as usize],
            Self::Fixed(bytes) => bytes,
        }
    }

    /// Drops `count` bytes from the front; the caller keeps it within the length.
    pub fn advance(&mut self, count: usize) {
        match self {
            Self::Stored(_, start, _) => *start += count as u32,
            Self::Fixed(bytes) => *bytes = &bytes[count..],
        }
    }

    /// Takes the part `[start, end)` of a block; the caller keeps it within `Block::len`.
    pub(super) fn from_block(block: &Arc<Block>, start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= block.len());
        Self::Stored(Arc::clone(block), start as u32, end as u32)
    }

    /// Takes `len` zero bytes, at most `BLOCK_BYTES`.
    pub(super) fn zeros(len: usize) -> Self {
        Self::Fixed(&ZEROS[..len])
    }

    /// Takes the part `[start, end)` of the pattern that a discarding store returns for each place.
    pub(super) fn pattern(start: usize, end: usize) -> Self {
        Self::Fixed(&PATTERN[start..end])
    }
}

/// Allocation for `len` bytes: doubling, so that appending copies each byte about once.
fn capacity_for(len: usize) -> usize {
    len.next_power_of_two().clamp(CAPACITY_BYTES_MIN, BLOCK_BYTES)
}

/// Fixed bytes that do not compress. **Source:** xorshift64, Marsaglia 2003, triple (13, 7, 17).
fn pattern(len: usize) -> Box<[u8]> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_cost_little() {
        let budget = Budget::new(1 << 20);
        let block = Block::new(&budget, 0, &[7; 4096]).unwrap();
        assert_eq!((block.len(), block.capacity(), budget.used_bytes()), (4096, 4096, 4096));
        drop(block);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn fills_gap_before_write_with_zeros() {
        let budget = Budget::new(1 << 20);
        let mut block = Block::new(&budget, 2, b"ab").unwrap();
        block.write(6, b"cd").unwrap();
        assert_eq!(block.bytes, b"\0\0ab\0\0cd");
        block.write(3, b"XYZ").unwrap();
        assert_eq!(block.bytes, b"\0\0aXYZcd");
        block.write(7, b"12").unwrap();
        assert_eq!(block.bytes, b"\0\0aXYZc12");
    }

    #[test]
    fn reuses_buffer_of_dropped_block() {
        let budget = Budget::new(1 << 20);
        let mut buffers = Vec::new();
        for _ in 0..8 {
            let mut block = Block::new(&budget, 0, &[7; 4096]).unwrap();
            block.write(BLOCK_BYTES - 1, b"x").unwrap();
            assert_eq!((block.len(), block.bytes[4095], block.bytes[4096]), (BLOCK_BYTES, 7, 0));
            buffers.push(block.bytes.as_ptr());
        }
        assert!(buffers.windows(2).all(|two| two[0] == two[1]), "{buffers:?}");
        assert!(budget.take_spare().is_some() && budget.take_spare().is_none());
    }

    #[test]
    fn rewrites_copy_like_original() {
        let budget = Budget::new(4096);
        for (start, data) in [(0, &b"xx"[..]), (3, b"yy"), (4, b"zzzz"), (9, b"w")] {
            let original = Block::new(&budget, 0, b"hello").unwrap();
            let copy = original.rewritten(start, data).unwrap();
            let mut written = Block::new(&budget, 0, b"hello").unwrap();
            written.write(start, data).unwrap();
            assert_eq!(copy.bytes, written.bytes);
            assert_eq!(original.bytes, b"hello");
        }
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn hides_past_of_recycled_buffer() {
        let budget = Budget::new(1 << 20);
        drop(Block::new(&budget, 0, &vec![7; BLOCK_BYTES]).unwrap());
        let block = Block::new(&budget, BLOCK_BYTES - 1, &[1]).unwrap();
        assert!(budget.take_spare().is_none(), "the buffer was reused");
        assert!(block.bytes[..BLOCK_BYTES - 1].iter().all(|byte| *byte == 0));
        assert_eq!((block.len(), budget.used_bytes()), (BLOCK_BYTES, BLOCK_BYTES as u64));
    }

    #[test]
    fn growth_past_the_limit_changes_nothing() {
        let budget = Budget::new(1024);
        let mut block = Block::new(&budget, 0, &[1; 1000]).unwrap();
        assert_eq!(block.write(1000, &[2; 100]), Err(FsError::NoSpace));
        assert_eq!((block.len(), budget.used_bytes()), (1000, 1024));
    }
}
