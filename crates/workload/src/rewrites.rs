//! Which writes of a block a read may return if many workers write and read the same blocks.
//!
//! [`Rewrites`] numbers the writes of each block from 1. The number and the writing process are
//! part of the stamp, so no two writes of a block are the same. A read must not return a write that
//! was finished before a later, acknowledged one began. Overlapping writes of a block have no
//! order, so any of them may be read. Unlike the [`Journal`](crate::Journal) of a soak, this needs
//! neither files owned by one worker nor one op at a time, but it doesn't cover crashes.
//!
//! All memory is allocated at the start, and there are no locks. When in doubt, a read is accepted:
//! a failed write may take effect at any time, writes of other hosts are unknown here, and a read
//! that overlaps a write may return either version.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use model::RunSpec;

use crate::file_set::FileSet;

/// Maximum number of tracked blocks: 384 MiB.
pub(crate) const REWRITTEN_BLOCKS_MAX: u64 = 16 << 20;

/// One more write in the upper half of [`Block::writes`], and one more in flight in the lower half.
const ONE_WRITE: u64 = 1 << 32 | 1;

/// Writes of a block are no longer numbered from here on, so that numbers never wrap.
const NUMBER_MAX: u64 = u32::MAX as u64 - (1 << 16);

/// Flag in [`Block::reads`]: a write overlaps a read in flight.
const RACED: u32 = 1 << 31;

/// The process that made a write, and the number of the write for its block. Both are 0 for what
/// preparation wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId {
    /// The process; 0 for none.
    pub writer: u32,
    /// The number, from 1 on.
    pub number: u32,
}

/// The writes of each block of a file set.
pub struct Rewrites {
    writer: u32,
    has_others: bool,
    block_bytes: u64,
    extents: Extents,
    blocks: Vec<Block>,
}

/// Where the blocks of a file are.
enum Extents {
    /// All files have this number of blocks.
    Even(u64),
    /// The first block of each file, and the end of the last one.
    Each(Arc<[u64]>),
}

#[derive(Default)]
struct Block {
    /// Number of the latest write, and how many are in flight.
    writes: AtomicU64,
    /// Reads in flight, plus [`RACED`].
    reads: AtomicU32,
    /// The latest write that began while no other was in flight, so all earlier writes were
    /// finished by then.
    quiet: AtomicU32,
    /// The oldest write that may still be read; 0 if that is what preparation wrote.
    oldest: AtomicU32,
}

impl fmt::Debug for Rewrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rewrites({} blocks of {} B)", self.blocks.len(), self.block_bytes)
    }
}

impl Rewrites {
    /// Starts with files as preparation created them. `writer` identifies this process and must not
    /// be 0; `has_others` means that others write to the same files.
    ///
    /// Returns `None` for more than `REWRITTEN_BLOCKS_MAX` blocks.
    pub fn new(writer: u32, has_others: bool, spec: &RunSpec) -> Option<Self> {
        let block_bytes = u64::from(spec.io_size_bytes.max(1));
        let blocks_per_file = spec.file_size_bytes.div_ceil(block_bytes);
        let (extents, count) = match FileSet::new(spec).first_blocks(spec.io_size_bytes) {
            None => {
                (Extents::Even(blocks_per_file), blocks_per_file.checked_mul(spec.files.into())?)
            }
            Some(firsts) => {
                let count = firsts.last().copied()?;
                (Extents::Each(firsts), count)
            }
        };
        if count > REWRITTEN_BLOCKS_MAX {
            return None;
        }
        let mut blocks = Vec::new();
        blocks.resize_with(count as usize, Block::default);
        Some(Self { writer, has_others, block_bytes, extents, blocks })
    }

    /// Records a write before its data is created.
    pub fn begin_write(&self, file: u32, offset_bytes: u64) {
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        let before = block.writes.fetch_add(ONE_WRITE, SeqCst);
        let number = before >> 32;
        if number >= NUMBER_MAX {
            block.writes.fetch_sub(1 << 32, SeqCst);
        } else if before as u32 == 0 {
            block.quiet.fetch_max(number as u32 + 1, SeqCst);
        }
        // Either this sees the read, or the read sees this write, because both publish before they
        // look.
        if block.reads.load(SeqCst) > 0 {
            block.reads.fetch_or(RACED, SeqCst);
        }
    }

    /// Records an acknowledged write. A failed write is never recorded, because it may take effect
    /// later. From then on, it overlaps all writes of its block.
    pub fn end_write(&self, file: u32, offset_bytes: u64) {
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        // A read in flight may have been executed before this write, so leave the limit as it is
        // until that read has finished.
        if block.reads.load(SeqCst) == 0 {
            block.oldest.fetch_max(block.quiet.load(SeqCst), SeqCst);
        }
        block.writes.fetch_sub(1, SeqCst);
    }

    /// Records a read before it is submitted.
    pub fn begin_read(&self, file: u32, offset_bytes: u64) {
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        block.reads.fetch_add(1, SeqCst);
        if block.writes.load(SeqCst) as u32 > 0 {
            block.reads.fetch_or(RACED, SeqCst);
        }
    }

    /// Records a read that has finished and was checked.
    pub fn end_read(&self, file: u32, offset_bytes: u64) {
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        let less = |reads: u32| {
            let left = (reads & !RACED).saturating_sub(1);
            Some(if left == 0 { 0 } else { left | reads & RACED })
        };
        let _ = block.reads.fetch_update(SeqCst, SeqCst, less);
        // If nothing is in flight, writes acknowledged in the meantime raise the limit now. The
        // order matters: the write used as the limit has finished if none is in flight, and a read
        // that is not seen here begins after that.
        let quiet = block.quiet.load(SeqCst);
        if block.writes.load(SeqCst) as u32 == 0 && block.reads.load(SeqCst) == 0 {
            block.oldest.fetch_max(quiet, SeqCst);
        }
    }

    /// Returns the stamp for a write whose data is being created now. Overlapping writes may get
    /// the same one.
    pub fn stamp_write(&self, file: u32, offset_bytes: u64) -> WriteId {
        let number = match self.block_at(file, offset_bytes) {
            Some(block) => (block.writes.load(SeqCst) >> 32) as u32,
            None => 0,
        };
        WriteId { writer: if number == 0 { 0 } else { self.writer }, number }
    }

    /// Checks whether a read in flight may return a certain write.
    ///
    /// # Errors
    /// Contains the number of the oldest write that it may return.
    pub fn check(&self, file: u32, offset_bytes: u64, found: WriteId) -> Result<(), u32> {
        let Some(block) = self.block_at(file, offset_bytes) else { return Ok(()) };
        let oldest = block.oldest.load(SeqCst);
        let latest = (block.writes.load(SeqCst) >> 32) as u32;
        let is_allowed = match found.writer {
            0 => oldest == 0,
            writer if writer == self.writer => (oldest.max(1)..=latest).contains(&found.number),
            // The order between writes of another process and ours is unknown.
            _ => self.has_others,
        };
        if is_allowed { Ok(()) } else { Err(oldest) }
    }

    /// Returns true if a read in flight overlaps a write, so that it may have seen half of a stamp.
    pub(crate) fn is_raced(&self, file: u32, offset_bytes: u64) -> bool {
        let Some(block) = self.block_at(file, offset_bytes) else { return false };
        self.has_others || block.reads.load(SeqCst) & RACED != 0
    }

    fn block_at(&self, file: u32, offset_bytes: u64) -> Option<&Block> {
        let number = offset_bytes / self.block_bytes;
        let (first, end) = match &self.extents {
            Extents::Even(each) => {
                let first = u64::from(file) * each;
                (first, first + each)
            }
            Extents::Each(firsts) => (*firsts.get(file as usize)?, *firsts.get(file as usize + 1)?),
        };
        let at = first + number;
        if at < end { self.blocks.get(at as usize) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Workload;
    use model::testing::RunBuilder;

    const fn own(number: u32) -> WriteId {
        WriteId { writer: 7, number }
    }

    const PREPARED: WriteId = WriteId { writer: 0, number: 0 };

    fn run(files: u32, file_bytes: u64, block_bytes: u32) -> RunSpec {
        let run = RunBuilder::new(Workload::Mixed).files(files).file_size_bytes(file_bytes);
        run.io_size_bytes(block_bytes).build()
    }

    fn blocks(has_others: bool) -> Rewrites {
        Rewrites::new(7, has_others, &run(2, 300, 100)).unwrap()
    }

    fn write(rewrites: &Rewrites) -> WriteId {
        rewrites.begin_write(1, 100);
        let id = rewrites.stamp_write(1, 199);
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
        // Other blocks are unchanged.
        assert_eq!(rewrites.check(1, 200, PREPARED), Ok(()));
        assert_eq!(rewrites.check(0, 100, own(1)), Err(0));
    }

    #[test]
    fn overlapping_writes_have_no_order() {
        let rewrites = blocks(false);
        write(&rewrites);
        rewrites.begin_write(1, 100);
        rewrites.begin_write(1, 100);
        assert_eq!(rewrites.stamp_write(1, 100), own(3));
        rewrites.end_write(1, 100);
        let allowed = |number| rewrites.check(1, 100, own(number)).is_ok();
        assert_eq!([1, 2, 3].map(allowed), [false, true, true]);
        // The one in flight may come before or after the other.
        rewrites.end_write(1, 100);
        assert_eq!([1, 2, 3].map(allowed), [false, true, true]);
        write(&rewrites);
        assert_eq!([2, 3, 4].map(allowed), [false, false, true]);
    }

    #[test]
    fn allows_value_from_start_of_read() {
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
    fn allows_failed_write_at_any_time() {
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
    fn accepts_foreign_writes_only_if_possible() {
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
    fn follows_limited_number_of_blocks() {
        assert!(
            Rewrites::new(1, false, &run(2, (REWRITTEN_BLOCKS_MAX / 2 + 1) * 10, 10)).is_none()
        );
        assert!(Rewrites::new(1, false, &run(u32::MAX, u64::MAX, 1)).is_none());
    }

    #[test]
    fn never_refuses_allowed_value_across_threads() {
        use std::sync::atomic::AtomicU32 as Register;
        // A register that is read and written concurrently, like a block on a server.
        let rewrites = Rewrites::new(7, false, &run(1, 1, 1)).unwrap();
        let register = Register::new(0);
        std::thread::scope(|scope| {
            for worker in 0..4_u32 {
                let rewrites = &rewrites;
                let register = &register;
                scope.spawn(move || {
                    for round in 0..20_000_u32 {
                        if (round ^ worker) % 2 == 0 {
                            rewrites.begin_write(0, 0);
                            register.store(rewrites.stamp_write(0, 0).number, SeqCst);
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
