//! Which write of each block a read may return, if many workers write and read the same blocks.
//!
//! [`Rewrites`] numbers the writes of each block from 1; the number and the process that made it
//! are part of the stamp, so that no two writes of a block are the same. A read must not return a
//! write that was over before another, acknowledged one began. Writes of a block that overlap have
//! no order: any of them may be read. Unlike the [`Journal`](crate::Journal) of a soak it needs
//! neither files of one worker nor one op at a time, and knows nothing of crashes.
//!
//! All memory is taken at the start, and nothing locks. What is uncertain is accepted: a write that
//! failed may be carried out at any time, writes of other hosts are not known here, and reads that
//! overlap a write may return either.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Largest number of blocks that are followed: 384 MiB.
pub const REWRITTEN_BLOCKS_MAX: u64 = 16 << 20;

/// One more write, in the upper half of [`Block::writes`], and one in flight, in the lower one.
const ONE_WRITE: u64 = 1 << 32 | 1;

/// From this number on writes of a block are no longer numbered, so that numbers never wrap.
const NUMBER_MAX: u64 = u32::MAX as u64 - (1 << 16);

/// In [`Block::reads`]: a write overlaps a read that is in flight.
const RACED: u32 = 1 << 31;

/// The process that made a write, and its number among the writes of its block there. Both are 0 of
/// what preparation wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId {
    /// The process; 0 for none.
    pub writer: u32,
    /// The number, from 1.
    pub number: u32,
}

/// The writes of each block of a file set.
pub struct Rewrites {
    writer: u32,
    has_others: bool,
    block_bytes: u64,
    blocks_per_file: u64,
    blocks: Vec<Block>,
}

#[derive(Default)]
struct Block {
    /// Number of the latest write, and how many are in flight.
    writes: AtomicU64,
    /// Reads in flight, with [`RACED`].
    reads: AtomicU32,
    /// The write that began when no other was in flight, latest of all: whatever was written before
    /// it was over by then.
    quiet: AtomicU32,
    /// The oldest write that may still be read; 0 while that is what preparation wrote.
    oldest: AtomicU32,
}

impl fmt::Debug for Rewrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rewrites({} blocks of {} B)", self.blocks.len(), self.block_bytes)
    }
}

impl Rewrites {
    /// Begins with files that are as preparation made them. `writer` tells this process from all
    /// others and is not 0; `has_others` says whether others write to the same files.
    ///
    /// Returns `None` for more than [`REWRITTEN_BLOCKS_MAX`] blocks.
    pub fn new(
        writer: u32,
        has_others: bool,
        files: u32,
        file_bytes: u64,
        block_bytes: u32,
    ) -> Option<Self> {
        let block_bytes = u64::from(block_bytes.max(1));
        let blocks_per_file = file_bytes.div_ceil(block_bytes);
        let count = blocks_per_file.checked_mul(files.into())?;
        if count > REWRITTEN_BLOCKS_MAX {
            return None;
        }
        let mut blocks = Vec::new();
        blocks.resize_with(count as usize, Block::default);
        Some(Self { writer, has_others, block_bytes, blocks_per_file, blocks })
    }

    /// Notes a write before its data is put together.
    pub fn begin_write(&self, file: u32, offset_bytes: u64) {
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        let before = block.writes.fetch_add(ONE_WRITE, SeqCst);
        let number = before >> 32;
        if number >= NUMBER_MAX {
            block.writes.fetch_sub(1 << 32, SeqCst);
        } else if before as u32 == 0 {
            block.quiet.fetch_max(number as u32 + 1, SeqCst);
        }
        // Either this sees the read, or the read sees this write: both look after they have told.
        if block.reads.load(SeqCst) > 0 {
            block.reads.fetch_or(RACED, SeqCst);
        }
    }

    /// Notes a write that was acknowledged. One that failed is never noted, since it may be carried
    /// out later: from then on all writes of its block overlap it.
    pub fn end_write(&self, file: u32, offset_bytes: u64) {
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        // A read in flight may have been carried out before this write. Until it is over the limit
        // stays where it was.
        if block.reads.load(SeqCst) == 0 {
            block.oldest.fetch_max(block.quiet.load(SeqCst), SeqCst);
        }
        block.writes.fetch_sub(1, SeqCst);
    }

    /// Notes a read before it is handed on.
    pub fn begin_read(&self, file: u32, offset_bytes: u64) {
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        block.reads.fetch_add(1, SeqCst);
        if block.writes.load(SeqCst) as u32 > 0 {
            block.reads.fetch_or(RACED, SeqCst);
        }
    }

    /// Notes a read that has ended and was checked.
    pub fn end_read(&self, file: u32, offset_bytes: u64) {
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        let less = |reads: u32| {
            let left = (reads & !RACED).saturating_sub(1);
            Some(if left == 0 { 0 } else { left | reads & RACED })
        };
        let _ = block.reads.fetch_update(SeqCst, SeqCst, less);
        // Writes that were acknowledged meanwhile raise the limit now, if nothing is in flight. In
        // this order: the write that is taken as the limit has ended when none is in flight, and a
        // read that is not seen here begins after that.
        let quiet = block.quiet.load(SeqCst);
        if block.writes.load(SeqCst) as u32 == 0 && block.reads.load(SeqCst) == 0 {
            block.oldest.fetch_max(quiet, SeqCst);
        }
    }

    /// Returns the stamp of a write of a block whose data is put together now. Two writes that
    /// overlap may get the same one.
    pub fn latest(&self, file: u32, offset_bytes: u64) -> WriteId {
        let number = match self.block_at(file, offset_bytes) {
            Some(block) => (block.writes.load(SeqCst) >> 32) as u32,
            None => 0,
        };
        WriteId { writer: if number == 0 { 0 } else { self.writer }, number }
    }

    /// Says whether a read that is in flight may return a write.
    ///
    /// # Errors
    /// The number of the oldest write that it may return.
    pub fn check(&self, file: u32, offset_bytes: u64, found: WriteId) -> Result<(), u32> {
        let Some(block) = self.block_at(file, offset_bytes) else { return Ok(()) };
        let oldest = block.oldest.load(SeqCst);
        let latest = (block.writes.load(SeqCst) >> 32) as u32;
        let is_allowed = match found.writer {
            0 => oldest == 0,
            writer if writer == self.writer => (oldest.max(1)..=latest).contains(&found.number),
            // How the writes of another process and those of this one are ordered is not known.
            _ => self.has_others,
        };
        if is_allowed { Ok(()) } else { Err(oldest) }
    }

    /// Returns true if a read that is in flight overlaps a write, so that it may have found half of
    /// a stamp.
    pub fn is_raced(&self, file: u32, offset_bytes: u64) -> bool {
        let Some(block) = self.block_at(file, offset_bytes) else { return false };
        self.has_others || block.reads.load(SeqCst) & RACED != 0
    }

    fn block_at(&self, file: u32, offset_bytes: u64) -> Option<&Block> {
        let number = offset_bytes / self.block_bytes;
        if number >= self.blocks_per_file {
            return None;
        }
        self.blocks.get((u64::from(file) * self.blocks_per_file + number) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn own(number: u32) -> WriteId {
        WriteId { writer: 7, number }
    }

    const PREPARED: WriteId = WriteId { writer: 0, number: 0 };

    fn blocks(has_others: bool) -> Rewrites {
        Rewrites::new(7, has_others, 2, 300, 100).unwrap()
    }

    fn write(rewrites: &Rewrites) -> WriteId {
        rewrites.begin_write(1, 100);
        let id = rewrites.latest(1, 199);
        rewrites.end_write(1, 100);
        id
    }

    #[test]
    fn acknowledged_write_hides_older_ones() {
        let rewrites = blocks(false);
        assert_eq!(rewrites.check(1, 100, PREPARED), Ok(()));
        assert_eq!((write(&rewrites), write(&rewrites)), (own(1), own(2)));
        rewrites.begin_read(1, 100);
        assert_eq!(rewrites.check(1, 100, own(2)), Ok(()));
        for lost in [PREPARED, own(1), own(3)] {
            assert_eq!(rewrites.check(1, 100, lost), Err(2), "{lost:?}");
        }
        // Other blocks are as they were.
        assert_eq!(rewrites.check(1, 200, PREPARED), Ok(()));
        assert_eq!(rewrites.check(0, 100, own(1)), Err(0));
    }

    #[test]
    fn overlapping_writes_have_no_order() {
        let rewrites = blocks(false);
        write(&rewrites);
        rewrites.begin_write(1, 100);
        rewrites.begin_write(1, 100);
        assert_eq!(rewrites.latest(1, 100), own(3));
        rewrites.end_write(1, 100);
        let allowed = |number| rewrites.check(1, 100, own(number)).is_ok();
        assert_eq!([1, 2, 3].map(allowed), [false, true, true]);
        // The one in flight may come after the other, or before it.
        rewrites.end_write(1, 100);
        assert_eq!([1, 2, 3].map(allowed), [false, true, true]);
        write(&rewrites);
        assert_eq!([2, 3, 4].map(allowed), [false, false, true]);
    }

    #[test]
    fn read_in_flight_may_return_what_it_found_at_its_start() {
        let rewrites = blocks(false);
        write(&rewrites);
        rewrites.begin_read(1, 100);
        write(&rewrites);
        assert!(rewrites.is_raced(1, 100));
        assert_eq!(rewrites.check(1, 100, own(1)), Ok(()));
        rewrites.end_read(1, 100);
        // The next one begins after the write was acknowledged.
        rewrites.begin_read(1, 100);
        assert!(!rewrites.is_raced(1, 100));
        assert_eq!(rewrites.check(1, 100, own(1)), Err(2));
    }

    #[test]
    fn failed_write_may_come_at_any_time() {
        let rewrites = blocks(false);
        write(&rewrites);
        rewrites.begin_write(1, 100);
        for _ in 0..3 {
            write(&rewrites);
        }
        assert_eq!(rewrites.check(1, 100, own(2)), Ok(()));
        assert_eq!(rewrites.check(1, 100, own(1)), Err(2));
    }

    #[test]
    fn writes_of_other_hosts_are_accepted_only_if_there_are_some() {
        let other = WriteId { writer: 9, number: 40 };
        for has_others in [false, true] {
            let rewrites = blocks(has_others);
            write(&rewrites);
            assert_eq!(rewrites.check(1, 100, other).is_ok(), has_others);
            assert!(rewrites.check(1, 100, PREPARED).is_err());
        }
    }

    #[test]
    fn numbers_never_wrap() {
        let rewrites = blocks(false);
        let block = rewrites.block_at(1, 100).unwrap();
        block.writes.store((NUMBER_MAX - 1) << 32, SeqCst);
        for _ in 0..3 {
            let id = write(&rewrites);
            assert_eq!(u64::from(id.number), NUMBER_MAX);
            assert_eq!(rewrites.check(1, 100, id), Ok(()));
        }
    }

    #[test]
    fn more_blocks_than_fit_are_not_followed() {
        assert!(Rewrites::new(1, false, 2, (REWRITTEN_BLOCKS_MAX / 2 + 1) * 10, 10).is_none());
        assert!(Rewrites::new(1, false, u32::MAX, u64::MAX, 1).is_none());
    }

    #[test]
    fn threads_never_see_an_allowed_value_refused() {
        use std::sync::atomic::AtomicU32 as Register;
        // A register that is read and written at once, as a server's block would be.
        let rewrites = Rewrites::new(7, false, 1, 1, 1).unwrap();
        let register = Register::new(0);
        std::thread::scope(|scope| {
            for worker in 0..4_u32 {
                let (rewrites, register) = (&rewrites, &register);
                scope.spawn(move || {
                    for round in 0..20_000_u32 {
                        if (round ^ worker) % 2 == 0 {
                            rewrites.begin_write(0, 0);
                            register.store(rewrites.latest(0, 0).number, SeqCst);
                            rewrites.end_write(0, 0);
                        } else {
                            rewrites.begin_read(0, 0);
                            let found = register.load(SeqCst);
                            let id = if found == 0 { PREPARED } else { own(found) };
                            assert_eq!(rewrites.check(0, 0, id), Ok(()), "{found}");
                            rewrites.end_read(0, 0);
                        }
                    }
                });
            }
        });
    }
}
