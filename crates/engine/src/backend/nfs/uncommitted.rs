//! Tracks unstable WRITEs since the last COMMIT, which a server may lose.
//!
//! [`Uncommitted`] has one bit for each block of each file; files may have different sizes. If the
//! write verifier changes, the server has restarted and may have lost the blocks with a set bit.
//! All of them are rewritten under the new verifier. The bits are allocated before the start and
//! never grow.
//!
//! **Source:** RFC 1813, 3.3.7 and 3.3.21 (write verifiers).

use std::ops::Range;

use nfs_client::proto::nfs3::Verifier;

use crate::limits::REWRITE_ROUNDS_MAX;

/// A piece of a file, which is identified by its index in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// The blocks of a set of files.
#[derive(Clone, Debug)]
pub struct Grid {
    block_bytes: u32,
    /// Maximum number of bytes to rewrite as one piece.
    piece_bytes: u32,
    files: Extents,
}

#[derive(Clone, Debug)]
enum Extents {
    /// Number of files, and the size of each in bytes.
    Even(usize, u64),
    /// The first block of each file, and the total number of blocks.
    Each(Vec<usize>),
}

impl Grid {
    /// Creates a grid of files of equal size.
    pub const fn with_equal_files(files: usize, file_bytes: u64, block_bytes: u32) -> Self {
        let block_bytes = if block_bytes == 0 { 1 } else { block_bytes };
        Self { block_bytes, piece_bytes: block_bytes, files: Extents::Even(files, file_bytes) }
    }

    /// Creates a grid of files that are written up to the given ends, in pieces of several blocks.
    pub(crate) fn from_ends(
        ends: impl Iterator<Item = u64>,
        block_bytes: u32,
        piece_bytes: u32,
    ) -> Self {
        let block_bytes = block_bytes.max(1);
        let mut firsts = vec![0];
        let mut next = 0;
        for end in ends {
            next += end.div_ceil(u64::from(block_bytes)) as usize;
            firsts.push(next);
        }
        Self {
            block_bytes,
            piece_bytes: piece_bytes.max(block_bytes),
            files: Extents::Each(firsts),
        }
    }

    /// Returns the number of files.
    fn files(&self) -> usize {
        match &self.files {
            Extents::Even(files, _) => *files,
            Extents::Each(firsts) => firsts.len() - 1,
        }
    }

    /// Returns the number of blocks of all files.
    pub fn blocks(&self) -> usize {
        match &self.files {
            Extents::Even(files, _) => files * self.blocks_of(0).len(),
            Extents::Each(firsts) => firsts.last().copied().unwrap_or(0),
        }
    }

    fn blocks_of(&self, file: usize) -> Range<usize> {
        match &self.files {
            Extents::Even(_, file_bytes) => {
                let each = file_bytes.div_ceil(u64::from(self.block_bytes)) as usize;
                file * each..(file + 1) * each
            }
            Extents::Each(firsts) => match firsts.get(file..=file + 1) {
                Some([first, end]) => *first..*end,
                _ => 0..0,
            },
        }
    }

    /// Returns the file that a block belongs to.
    fn file_of(&self, block: usize) -> usize {
        match &self.files {
            Extents::Even(..) => block / self.blocks_of(0).len(),
            Extents::Each(firsts) => firsts.partition_point(|first| *first <= block) - 1,
        }
    }

    /// Returns the piece that consists of `count` blocks starting at `block`.
    fn piece(&self, block: usize, count: usize) -> Piece {
        let file = self.file_of(block);
        let offset = (block - self.blocks_of(file).start) as u64 * u64::from(self.block_bytes);
        let len = count as u64 * u64::from(self.block_bytes);
        let len = match self.files {
            Extents::Even(_, file_bytes) => len.min(file_bytes - offset),
            Extents::Each(_) => len,
        };
        Piece { file, offset, len: len as u32 }
    }
}

/// Tracks uncommitted data; see the module.
#[derive(Debug)]
pub(super) struct Uncommitted {
    verifier: Option<Verifier>,
    grid: Grid,
    /// Files with data that was acknowledged as UNSTABLE and isn't committed.
    dirty: Bits,
    /// Files whose next COMMIT fails: a server may have lost data of theirs, and without blocks it
    /// isn't known which.
    damaged: Bits,
    /// Something was written outside of all blocks, so the tracking is incomplete.
    beyond: bool,
    /// Blocks acknowledged under the current verifier and not committed.
    taken: Bits,
    /// Blocks acknowledged under an earlier verifier.
    lost: Bits,
    lost_count: usize,
    /// Index from which to search for the next lost block.
    cursor: usize,
    /// Blocks handed out for rewriting since the server last accepted new data or committed.
    rewritten: u64,
    /// Maximum number of lost blocks at any one time since then.
    lost_most: u64,
}

impl Uncommitted {
    /// Starts to track the blocks of a grid.
    pub(super) fn new(grid: Grid) -> Self {
        let blocks = grid.blocks();
        Self {
            verifier: None,
            dirty: Bits::new(grid.files()),
            damaged: Bits::new(grid.files()),
            grid,
            beyond: false,
            taken: Bits::new(blocks),
            lost: Bits::new(blocks),
            lost_count: 0,
            cursor: 0,
            rewritten: 0,
            lost_most: 0,
        }
    }

    /// Tracks only the verifier for the given number of files, not where data was written.
    pub(super) fn without_blocks(files: usize) -> Self {
        Self::new(Grid::with_equal_files(files, 0, 1))
    }

    /// Returns true if a file has data that the server may lose until it is committed.
    pub(super) fn is_dirty(&self, file: usize) -> bool {
        self.dirty.has(file) || self.damaged.has(file)
    }

    /// Returns true if it is known which data has to be rewritten.
    pub(super) const fn knows_blocks(&self) -> bool {
        !self.taken.0.is_empty() && !self.beyond
    }

    /// Records an unstable WRITE that was acknowledged with this verifier.
    pub(super) fn note_written(&mut self, file: usize, offset: u64, len: u32, verifier: Verifier) {
        self.adopt_verifier(verifier);
        self.dirty.set(file);
        // Without blocks, only the verifier is tracked; if it changes, the next commit fails.
        if self.taken.0.is_empty() || len == 0 {
            return;
        }
        let block = u64::from(self.grid.block_bytes);
        let blocks = self.grid.blocks_of(file);
        let last = (offset + u64::from(len) - 1) / block;
        for number in offset / block..=last {
            let at = blocks.start + number as usize;
            if at < blocks.end {
                self.taken.set(at);
            } else {
                self.beyond = true;
            }
        }
    }

    /// Records a COMMIT of a whole file. Returns true if all of its data is safe.
    pub(super) fn note_committed(&mut self, file: usize, verifier: Verifier) -> bool {
        // A COMMIT covers what was written under the verifier that it returns. If that has changed,
        // the server has restarted between the WRITEs and the COMMIT, and the file isn't safe.
        let safe = !self.adopt_verifier(verifier) && !self.damaged.has(file);
        self.damaged.clear_all(file..file + 1);
        if safe {
            self.taken.clear_all(self.grid.blocks_of(file));
            self.dirty.clear_all(file..file + 1);
            self.note_progress();
        }
        safe
    }

    /// Forgets that a file has unstable data: it is safe elsewhere.
    pub(super) fn forget(&mut self, file: usize) {
        self.dirty.clear_all(file..file + 1);
        self.damaged.clear_all(file..file + 1);
    }

    /// Records that the server accepted new data or committed some.
    pub(super) const fn note_progress(&mut self) {
        // Blocks that are still lost remain so.
        self.rewritten = 0;
        self.lost_most = self.lost_count as u64;
    }

    /// Returns true if the verifier changes so often that there is no end in sight: all lost data
    /// has been rewritten several times, and nothing else was accomplished.
    pub(super) const fn is_in_vain(&self) -> bool {
        self.rewritten > REWRITE_ROUNDS_MAX * self.lost_most
    }

    /// Returns true if something has to be rewritten.
    pub(super) const fn has_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// Takes the next piece to rewrite.
    pub(super) fn take_lost(&mut self) -> Option<Piece> {
        if self.lost_count == 0 {
            return None;
        }
        let first = self.lost.next_from(self.cursor)?;
        let most = (self.grid.piece_bytes / self.grid.block_bytes) as usize;
        let end = self.grid.blocks_of(self.grid.file_of(first)).end.min(first + most);
        let mut count = 0;
        while first + count < end && self.lost.has(first + count) {
            count += 1;
        }
        self.lost.clear_all(first..first + count);
        self.lost_count -= count;
        self.rewritten += count as u64;
        self.cursor = first;
        Some(self.grid.piece(first, count))
    }

    /// Compares a verifier with the current one. If it differs, everything acknowledged so far is
    /// lost. Returns true if it differs.
    fn adopt_verifier(&mut self, verifier: Verifier) -> bool {
        if *self.verifier.get_or_insert(verifier) == verifier {
            return false;
        }
        // Blocks that already had to be rewritten remain lost, because the new server process
        // doesn't have them either.
        self.verifier = Some(verifier);
        if self.taken.0.is_empty() {
            self.damaged.take_from(&mut self.dirty);
        }
        self.lost_count = self.lost.take_from(&mut self.taken);
        self.lost_most = self.lost_most.max(self.lost_count as u64);
        self.cursor = 0;
        true
    }
}

/// A fixed number of bits.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn set(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn clear_all(&mut self, range: Range<usize>) {
        for at in range {
            self.0[at / 64] &= !(1 << (at % 64));
        }
    }

    /// Returns a set bit: the first one in or after the word of `at`, or else the first one
    /// overall.
    fn next_from(&self, at: usize) -> Option<usize> {
        let first = at / 64;
        let count = self.0.len();
        for step in 0..count {
            let word = (first + step) % count;
            if self.0[word] != 0 {
                return Some(word * 64 + self.0[word].trailing_zeros() as usize);
            }
        }
        None
    }

    /// Moves all bits of `other` into `self`. Returns how many are set afterwards.
    fn take_from(&mut self, other: &mut Self) -> usize {
        let mut count = 0;
        for (mine, theirs) in self.0.iter_mut().zip(&mut other.0) {
            *mine |= std::mem::take(theirs);
            count += mine.count_ones() as usize;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Verifier = Verifier([1; 8]);
    const SECOND: Verifier = Verifier([2; 8]);

    fn all_lost(uncommitted: &mut Uncommitted) -> Vec<(usize, u64, u32)> {
        std::iter::from_fn(|| uncommitted.take_lost())
            .map(|piece| (piece.file, piece.offset, piece.len))
            .collect()
    }

    #[test]
    fn rewrites_data_of_earlier_verifier() {
        let mut uncommitted = Uncommitted::new(Grid::with_equal_files(2, 250, 100));
        uncommitted.note_written(0, 0, 10, FIRST);
        uncommitted.note_written(1, 200, 10, FIRST);
        assert!(!uncommitted.has_lost());
        uncommitted.note_written(1, 0, 10, SECOND);
        assert!(uncommitted.has_lost());
        assert_eq!(all_lost(&mut uncommitted), [(0, 0, 100), (1, 200, 50)]);
        assert!(!uncommitted.has_lost());
    }

    #[test]
    fn commits_only_file_of_same_verifier() {
        let mut uncommitted = Uncommitted::new(Grid::with_equal_files(2, 200, 100));
        uncommitted.note_written(0, 100, 10, FIRST);
        uncommitted.note_written(1, 100, 10, FIRST);
        assert!(uncommitted.note_committed(0, FIRST));
        assert!(!uncommitted.note_committed(1, SECOND));
        assert_eq!(all_lost(&mut uncommitted), [(1, 100, 100)]);
    }

    #[test]
    fn notices_verifier_without_rewriting() {
        let mut uncommitted = Uncommitted::without_blocks(4);
        assert!(!uncommitted.knows_blocks());
        uncommitted.note_written(17, 1 << 40, 10, FIRST);
        assert!(uncommitted.note_committed(3, FIRST));
        assert!(!uncommitted.note_committed(3, SECOND));
        assert!(!uncommitted.has_lost());
        assert!(uncommitted.note_committed(3, SECOND));
    }

    #[test]
    fn fails_commit_under_two_verifiers() {
        let mut uncommitted = Uncommitted::without_blocks(4);
        uncommitted.note_written(1, 0, 10, FIRST);
        uncommitted.note_written(2, 0, 10, FIRST);
        uncommitted.note_written(1, 10, 10, SECOND);
        assert!(uncommitted.is_dirty(2));
        assert!(!uncommitted.note_committed(1, SECOND) && !uncommitted.note_committed(2, SECOND));
        // What is written again is safe.
        uncommitted.note_written(1, 0, 20, SECOND);
        assert!(uncommitted.note_committed(1, SECOND));
        assert!(uncommitted.note_committed(3, SECOND));
    }

    #[test]
    fn rewrites_files_in_whole_runs() {
        let ends = [300, 0, 1000, 100];
        let mut uncommitted = Uncommitted::new(Grid::from_ends(ends.into_iter(), 100, 400));
        uncommitted.note_written(0, 100, 200, FIRST);
        uncommitted.note_written(2, 0, 600, FIRST);
        uncommitted.note_written(2, 900, 100, FIRST);
        uncommitted.note_written(3, 0, 100, FIRST);
        assert!(!uncommitted.note_committed(1, SECOND));
        // Never longer than a piece, and never across files.
        let runs = [(0, 100, 200), (2, 0, 400), (2, 400, 200), (2, 900, 100), (3, 0, 100)];
        assert_eq!(all_lost(&mut uncommitted), runs);
        assert!(uncommitted.knows_blocks());
        uncommitted.note_written(1, 0, 10, FIRST);
        assert!(!uncommitted.knows_blocks(), "a partial block cannot be tracked");
        uncommitted.note_written(2, 500, 100, SECOND);
        assert!(uncommitted.note_committed(2, SECOND) && !uncommitted.note_committed(0, FIRST));
        assert_eq!(all_lost(&mut uncommitted), []);
    }

    #[test]
    fn gives_up_ever_changing_verifier() {
        let verifier = |number: u64| Verifier(number.to_be_bytes());
        let mut uncommitted = Uncommitted::new(Grid::with_equal_files(1, 400, 100));
        (0..4).for_each(|block| uncommitted.note_written(0, block * 100, 100, verifier(0)));
        for round in 1..=4 {
            assert!(!uncommitted.note_committed(0, verifier(round)));
            for (_, offset, len) in all_lost(&mut uncommitted) {
                uncommitted.note_written(0, offset, len, verifier(round));
            }
            assert!(!uncommitted.is_in_vain(), "round {round}");
        }
        assert!(!uncommitted.note_committed(0, verifier(5)));
        all_lost(&mut uncommitted);
        assert!(uncommitted.is_in_vain());
        uncommitted.note_progress();
        assert!(!uncommitted.is_in_vain());
    }

    #[test]
    fn tolerates_new_data_during_rewrite() {
        let mut uncommitted = Uncommitted::new(Grid::with_equal_files(1, 400, 100));
        (0..3).for_each(|block| uncommitted.note_written(0, block * 100, 100, FIRST));
        // Acknowledged under the new verifier, since it was in flight when the server restarted.
        uncommitted.note_written(0, 300, 100, SECOND);
        uncommitted.note_progress();
        assert_eq!(all_lost(&mut uncommitted).len(), 3);
        assert!(!uncommitted.is_in_vain());
    }

    #[test]
    fn many_blocks_come_back_once_each() {
        let mut uncommitted = Uncommitted::new(Grid::with_equal_files(3, 64 * 300, 64));
        for file in 0..3 {
            (0..300)
                .step_by(7)
                .for_each(|block| uncommitted.note_written(file, block * 64, 10, FIRST));
        }
        uncommitted.note_written(2, 0, 10, SECOND);
        let mut lost = all_lost(&mut uncommitted);
        assert_eq!(lost.len(), 3 * 43);
        lost.dedup();
        assert_eq!(lost.len(), 3 * 43);
    }
}
