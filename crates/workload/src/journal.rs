//! Acknowledgement journal for all blocks of a soak's file set.
//!
//! A [`Journal`] numbers the writes of each block. These generations start at 1; 0 is what
//! preparation wrote. For each block, it records the newest generation that was submitted, the
//! latest one acknowledged, and the latest one acknowledged as durable. Reads are checked against
//! these; see [`Journal::record_read`]. All memory is allocated at the start and may be shared,
//! such as a file that outlives its process. There are no locks: the caller that hands out ops
//! ensures that only one write or read at a time is in flight for each block, always by the same
//! worker.
//!
//! **Source:** RFC 1813, 3.3.7 and 3.3.21 (what UNSTABLE, COMMIT and FILE_SYNC promise).

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use model::soak::{BlockState, DataCheck, Finding, Generations};

use crate::names::Name;

/// Maximum number of blocks: a journal of 256 MiB for 64 GiB of data in blocks of 4 KiB.
pub const JOURNAL_BLOCKS_MAX: u64 = 16 << 20;

/// Words per block, all initially 0.
const WORDS_PER_BLOCK: usize = 4;

/// Memory of a journal.
pub type Words = dyn AsRef<[AtomicU32]> + Send + Sync + RefUnwindSafe + UnwindSafe;

/// The journal of all blocks of a file set.
pub struct Journal {
    block_bytes: u64,
    blocks_per_file: u64,
    words: Box<Words>,
    uncommitted: AtomicU64,
}

struct Block<'w> {
    /// The latest generation submitted.
    newest: &'w AtomicU32,
    /// The latest generation acknowledged.
    acknowledged: &'w AtomicU32,
    /// The latest generation acknowledged as durable.
    safe: &'w AtomicU32,
    /// The worst finding for the block, or 0 if there was none; see [`note_of`].
    noted: &'w AtomicU32,
}

impl<'w> Block<'w> {
    const fn from_words(words: &'w [AtomicU32]) -> Option<Self> {
        let [newest, acknowledged, safe, noted] = words else { return None };
        Some(Self { newest, acknowledged, safe, noted })
    }

    fn is_uncommitted(&self) -> bool {
        self.safe.load(Relaxed) != self.acknowledged.load(Relaxed)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block_bytes, blocks_per_file, uncommitted, .. } = self;
        write!(
            f,
            "Journal({blocks_per_file} x {block_bytes} B a file, {uncommitted:?} uncommitted)"
        )
    }
}

/// Generation in a note if no complete block of ours was found.
const NOTHING: u32 = (1 << 30) - 1;

/// Encodes a state and a generation in one word, with two bits for the state above 30 for the
/// generation. The worse state results in the larger word, and 0 means no finding.
const fn note_of(state: BlockState, found: Option<u32>) -> u32 {
    let rank = match state {
        BlockState::Torn => 1,
        BlockState::RolledBack => 2,
        BlockState::Lost => 3,
    };
    let found = match found {
        Some(found) if found < NOTHING => found,
        _ => NOTHING,
    };
    rank << 30 | found
}

const fn parse_note(note: u32) -> Option<(BlockState, Option<u32>)> {
    let state = match note >> 30 {
        0 => return None,
        1 => BlockState::Torn,
        2 => BlockState::RolledBack,
        _ => BlockState::Lost,
    };
    let found = note & NOTHING;
    Some((state, if found == NOTHING { None } else { Some(found) }))
}

/// How durable an acknowledged write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckedDurability {
    /// On stable storage; it must not be lost.
    OnStorage,
    /// It may be lost until it is committed.
    Uncommitted,
}

impl Journal {
    /// Creates the journal for files of equal size. Blocks are as large as the ops that write them.
    ///
    /// # Panics
    /// If there are more than [`JOURNAL_BLOCKS_MAX`] blocks, which the caller has to check.
    pub fn new(files: u32, file_bytes: u64, block_bytes: u32) -> Self {
        let mut words = Vec::new();
        words.resize_with(Self::count_words(files, file_bytes, block_bytes), AtomicU32::default);
        Self::over(Box::new(words), file_bytes, block_bytes)
    }

    /// Returns the number of words in the journal, 16 bytes per block.
    ///
    /// # Panics
    /// If there are more than [`JOURNAL_BLOCKS_MAX`] blocks, as for [`Self::new`].
    pub fn count_words(files: u32, file_bytes: u64, block_bytes: u32) -> usize {
        let blocks_per_file = file_bytes.div_ceil(u64::from(block_bytes.max(1)));
        let count = u64::from(files).saturating_mul(blocks_per_file);
        assert!(count <= JOURNAL_BLOCKS_MAX, "a journal cannot have {count} blocks");
        count as usize * WORDS_PER_BLOCK
    }

    /// Continues an existing journal, or starts one if all words are 0.
    pub fn over(words: Box<Words>, file_bytes: u64, block_bytes: u32) -> Self {
        let block_bytes = u64::from(block_bytes.max(1));
        let blocks_per_file = file_bytes.div_ceil(block_bytes);
        let journal = Self { block_bytes, blocks_per_file, words, uncommitted: AtomicU64::new(0) };
        let uncommitted: u64 =
            journal.blocks().map(|block| u64::from(block.is_uncommitted())).sum();
        journal.uncommitted.store(uncommitted, Relaxed);
        journal
    }

    /// Records that a write is submitted, which gives its block the next generation.
    pub fn note_begun(&self, file: u32, offset_bytes: u64) {
        if let Some(block) = self.block_at(file, offset_bytes) {
            block.newest.store(block.newest.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Returns the generation being written at an offset, or 0 if nothing was submitted yet.
    pub fn generation(&self, file: u32, offset_bytes: u64) -> u32 {
        match self.block_at(file, offset_bytes) {
            Some(block) => block.newest.load(Relaxed),
            None => 0,
        }
    }

    /// Returns the oldest and the newest generation that may be read at an offset.
    pub(crate) fn readable_range(&self, file: u32, offset_bytes: u64) -> (u32, u32) {
        match self.block_at(file, offset_bytes) {
            Some(block) => (block.safe.load(Relaxed), block.newest.load(Relaxed)),
            None => (0, 0),
        }
    }

    /// Records that a write was acknowledged.
    pub fn note_acknowledged(&self, file: u32, offset_bytes: u64, safety: AckedDurability) {
        let is_safe = safety == AckedDurability::OnStorage;
        let Some(block) = self.block_at(file, offset_bytes) else { return };
        // Relaxed loads and stores without read-modify-write are sufficient, because only one op at
        // a time is in flight for a block, and a single worker executes all of its ops.
        let newest = block.newest.load(Relaxed);
        let was_safe = block.safe.load(Relaxed) == block.acknowledged.load(Relaxed);
        block.acknowledged.store(newest, Relaxed);
        if is_safe {
            block.safe.store(newest, Relaxed);
        }
        match (was_safe, is_safe) {
            (true, false) => _ = self.uncommitted.fetch_add(1, Relaxed),
            (false, true) => _ = self.uncommitted.fetch_sub(1, Relaxed),
            _ => {}
        }
    }

    /// Records that everything acknowledged for a file is now durable.
    pub fn note_committed(&self, file: u32) {
        let first = u64::from(file) * self.blocks_per_file;
        let range = first as usize * WORDS_PER_BLOCK
            ..(first + self.blocks_per_file) as usize * WORDS_PER_BLOCK;
        let mut made_safe = 0;
        let words = self.words.as_ref().as_ref().get(range).unwrap_or_default();
        for words in words.chunks_exact(WORDS_PER_BLOCK) {
            let Some(block) = Block::from_words(words) else { continue };
            if block.is_uncommitted() {
                block.safe.store(block.acknowledged.load(Relaxed), Relaxed);
                made_safe += 1;
            }
        }
        self.uncommitted.fetch_sub(made_safe, Relaxed);
    }

    /// Records what a read found: the generation of a complete block of ours, or `None` for
    /// anything else. Returns the resulting state of the block, or `None` if it is as expected.
    pub fn record_read(
        &self,
        file: u32,
        offset_bytes: u64,
        found: Option<u32>,
    ) -> Option<BlockState> {
        let block = self.block_at(file, offset_bytes)?;
        let known = Generations {
            safe: block.safe.load(Relaxed),
            acknowledged: block.acknowledged.load(Relaxed),
            newest: block.newest.load(Relaxed),
        };
        let state = BlockState::judge(known, found)?;
        // Keep the worst finding: if a block is written again after it was lost, it still was lost.
        block.noted.fetch_max(note_of(state, found), Relaxed);
        Some(state)
    }

    /// Returns the number of blocks that were acknowledged but are not durable yet.
    pub fn uncommitted(&self) -> u64 {
        self.uncommitted.load(Relaxed)
    }

    /// Counts the blocks of some files by state. Reads each block once.
    pub fn summarize(&self, is_ours: impl Fn(u32) -> bool) -> DataCheck {
        let mut kept = DataCheck::default();
        for (index, block) in self.blocks().enumerate() {
            let index = index as u64;
            let file = (index / self.blocks_per_file) as u32;
            if !is_ours(file) {
                continue;
            }
            let safe = block.safe.load(Relaxed);
            let acknowledged = block.acknowledged.load(Relaxed);
            kept.blocks += 1;
            kept.written += u64::from(block.newest.load(Relaxed) > 0);
            kept.uncommitted += u64::from(safe != acknowledged);
            let Some((state, found)) = parse_note(block.noted.load(Relaxed)) else { continue };
            match state {
                BlockState::Lost => kept.lost += 1,
                BlockState::RolledBack => kept.rolled_back += 1,
                BlockState::Torn => kept.torn += 1,
            }
            kept.note(&Finding {
                state,
                file: Name::file(file).as_str().to_owned(),
                offset_bytes: index % self.blocks_per_file * self.block_bytes,
                found,
                safe,
                acknowledged,
            });
        }
        kept
    }

    fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let words: &[AtomicU32] = self.words.as_ref().as_ref();
        words.chunks_exact(WORDS_PER_BLOCK).filter_map(Block::from_words)
    }

    fn block_at(&self, file: u32, offset_bytes: u64) -> Option<Block<'_>> {
        let number = offset_bytes / self.block_bytes;
        if number >= self.blocks_per_file {
            return None;
        }
        let first = (u64::from(file) * self.blocks_per_file + number) as usize * WORDS_PER_BLOCK;
        let words: &[AtomicU32] = self.words.as_ref().as_ref();
        Block::from_words(words.get(first..first + WORDS_PER_BLOCK)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn write(journal: &Journal, offset_bytes: u64) {
        journal.note_begun(1, offset_bytes);
        journal.note_acknowledged(1, offset_bytes, AckedDurability::Uncommitted);
    }

    #[test]
    fn requires_only_committed_data() {
        let journal = Journal::new(2, 300, 100);
        write(&journal, 100);
        write(&journal, 100);
        assert_eq!((journal.generation(1, 199), journal.uncommitted()), (2, 1));
        assert_eq!(journal.readable_range(1, 100), (0, 2));
        assert_eq!(journal.record_read(1, 100, Some(2)), None);
        assert_eq!(journal.record_read(1, 100, Some(1)), Some(BlockState::RolledBack));
        journal.note_committed(1);
        assert_eq!((journal.readable_range(1, 100), journal.uncommitted()), ((2, 2), 0));
        assert_eq!(journal.record_read(1, 100, Some(1)), Some(BlockState::Lost));
        // Other files and blocks have not changed.
        assert_eq!((journal.generation(0, 100), journal.generation(1, 0)), (0, 0));
        let kept = journal.summarize(|_| true);
        assert_eq!((kept.blocks, kept.written, kept.lost, kept.rolled_back), (6, 1, 1, 0));
        let finding = &kept.findings[0];
        assert_eq!((finding.offset_bytes, finding.found, finding.safe), (100, Some(1), 2));
        assert_eq!(
            (finding.state, finding.file.as_str()),
            (BlockState::Lost, Name::file(1).as_str())
        );
        assert_eq!(journal.summarize(|file| file == 0).lost, 0);
    }

    #[test]
    fn allows_any_block_for_unanswered_write() {
        let journal = Journal::new(2, 300, 100);
        journal.note_begun(1, 0);
        assert_eq!(journal.record_read(1, 0, Some(0)), None);
        assert_eq!(journal.record_read(1, 0, Some(1)), None);
        assert_eq!(journal.record_read(1, 0, None), Some(BlockState::Torn));
        assert_eq!(
            journal.record_read(1, 0, Some(2)),
            Some(BlockState::Lost),
            "no write has that generation"
        );
        journal.note_acknowledged(1, 0, AckedDurability::OnStorage);
        assert_eq!(journal.record_read(1, 0, None), Some(BlockState::Lost));
        let kept = journal.summarize(|_| true);
        assert_eq!((kept.lost, kept.torn, kept.findings[0].found), (1, 0, None));
    }

    #[test]
    fn a_block_counts_as_uncommitted_once() {
        let journal = Journal::new(1, 300, 100);
        for offset in [0, 0, 100, 0] {
            journal.note_begun(0, offset);
            journal.note_acknowledged(0, offset, AckedDurability::Uncommitted);
        }
        assert_eq!(journal.uncommitted(), 2);
        journal.note_begun(0, 0);
        journal.note_acknowledged(0, 0, AckedDurability::OnStorage);
        assert_eq!(journal.uncommitted(), 1);
        journal.note_committed(0);
        journal.note_committed(0);
        assert_eq!(journal.uncommitted(), 0);
    }

    #[test]
    fn continues_journal_of_other_process() {
        struct Left(Arc<[AtomicU32]>);
        impl AsRef<[AtomicU32]> for Left {
            fn as_ref(&self) -> &[AtomicU32] {
                &self.0
            }
        }
        let words: Arc<[AtomicU32]> =
            (0..Journal::count_words(2, 300, 100)).map(|_| AtomicU32::new(0)).collect();
        let before = Journal::over(Box::new(Left(Arc::clone(&words))), 300, 100);
        write(&before, 0);
        before.note_committed(1);
        write(&before, 0);
        write(&before, 100);
        drop(before);
        let after = Journal::over(Box::new(Left(words)), 300, 100);
        assert_eq!((after.uncommitted(), after.readable_range(1, 0)), (2, (1, 2)));
        assert_eq!(after.record_read(1, 0, Some(1)), Some(BlockState::RolledBack));
        assert_eq!(after.record_read(1, 0, Some(0)), Some(BlockState::Lost));
        assert_eq!((after.summarize(|_| true).written, after.summarize(|_| true).lost), (2, 1));
    }

    #[test]
    fn requires_created_empty_file() {
        let journal = Journal::new(1, 250, 100);
        assert_eq!(journal.record_read(0, 249, Some(0)), None);
        assert_eq!(journal.record_read(0, 200, None), Some(BlockState::Lost));
        assert_eq!(journal.record_read(0, 300, None), None, "the block does not exist");
        assert_eq!(journal.summarize(|_| true).findings[0].offset_bytes, 200);
    }
}
