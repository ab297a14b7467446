//! What a server has taken and may still lose: unstable WRITEs since the last COMMIT.
//!
//! [`Uncommitted`] keeps one bit for each block of each file. When a write verifier changes, the
//! server restarted and may have lost what those bits stand for: all of it is written again, under
//! the new verifier. The bits are allocated before the start and never grow.
//!
//! **Source:** RFC 1813, 3.3.7 and 3.3.21 (write verifiers).

use nfs_client::proto::nfs3::Verifier;

/// A piece of a file of the set, by its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Uncommitted {
    verifier: Option<Verifier>,
    file_bytes: u64,
    block_bytes: u32,
    blocks_per_file: usize,
    /// Answered under the verifier in force, not committed.
    taken: Bits,
    /// Answered under an earlier one.
    lost: Bits,
    lost_count: usize,
    /// Where the next lost block is looked for.
    cursor: usize,
}

impl Uncommitted {
    /// Keeps books on so many files of this size, written in blocks of this size.
    pub(super) fn new(files: usize, file_bytes: u64, block_bytes: u32) -> Self {
        let block_bytes = block_bytes.max(1);
        let blocks_per_file = file_bytes.div_ceil(u64::from(block_bytes)) as usize;
        Self {
            verifier: None,
            file_bytes,
            block_bytes,
            blocks_per_file,
            taken: Bits::new(files * blocks_per_file),
            lost: Bits::new(files * blocks_per_file),
            lost_count: 0,
            cursor: 0,
        }
    }

    /// Keeps watch on the verifier only: nothing is known of where data was written.
    pub(super) fn without_blocks() -> Self {
        Self::new(0, 0, 1)
    }

    /// Says whether it is known what has to be written again.
    pub(super) const fn knows_blocks(&self) -> bool {
        self.blocks_per_file > 0
    }

    /// Takes note of an unstable WRITE that was answered with this verifier.
    pub(super) fn written(&mut self, file: usize, offset: u64, verifier: Verifier) {
        self.look_at(verifier);
        if !self.knows_blocks() {
            return;
        }
        self.taken
            .set(file * self.blocks_per_file + (offset / u64::from(self.block_bytes)) as usize);
    }

    /// Takes note of a COMMIT of a whole file, and says whether all of it is safe.
    pub(super) fn committed(&mut self, file: usize, verifier: Verifier) -> bool {
        let safe = !self.look_at(verifier);
        if safe {
            let first = file * self.blocks_per_file;
            (first..first + self.blocks_per_file).for_each(|block| self.taken.clear(block));
        }
        safe
    }

    /// Says whether something has to be written again.
    pub(super) const fn has_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// Takes out the next piece that has to be written again.
    pub(super) fn take_lost(&mut self) -> Option<Piece> {
        if self.lost_count == 0 {
            return None;
        }
        let block = self.lost.next_from(self.cursor)?;
        self.lost.clear(block);
        self.lost_count -= 1;
        self.cursor = block;
        let (file, number) = (block / self.blocks_per_file, block % self.blocks_per_file);
        let offset = number as u64 * u64::from(self.block_bytes);
        let len = u64::from(self.block_bytes).min(self.file_bytes - offset) as u32;
        Some(Piece { file, offset, len })
    }

    /// Compares a verifier with the one in force; another one means that all that was taken so far
    /// is lost. Says whether it is another one.
    fn look_at(&mut self, verifier: Verifier) -> bool {
        if *self.verifier.get_or_insert(verifier) == verifier {
            return false;
        }
        self.verifier = Some(verifier);
        self.lost_count = self.lost.take_from(&mut self.taken);
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

    fn clear(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    /// Returns the first bit at or after `at` that is set, or the first one of all.
    fn next_from(&self, at: usize) -> Option<usize> {
        let first = at / 64;
        let words = (first..self.0.len()).chain(0..first);
        words
            .map(|word| (word, self.0[word]))
            .find(|(_, bits)| *bits != 0)
            .map(|(word, bits)| word * 64 + bits.trailing_zeros() as usize)
    }

    /// Moves all bits of `other` into this, and returns how many are set then.
    fn take_from(&mut self, other: &mut Self) -> usize {
        let words = self.0.iter_mut().zip(&mut other.0);
        words
            .map(|(mine, theirs)| {
                *mine |= std::mem::take(theirs);
                mine.count_ones() as usize
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Verifier = Verifier([1; 8]);
    const SECOND: Verifier = Verifier([2; 8]);

    fn all_lost(books: &mut Uncommitted) -> Vec<(usize, u64, u32)> {
        std::iter::from_fn(|| books.take_lost())
            .map(|piece| (piece.file, piece.offset, piece.len))
            .collect()
    }

    #[test]
    fn what_was_taken_under_an_earlier_verifier_is_written_again() {
        let mut books = Uncommitted::new(2, 250, 100);
        books.written(0, 0, FIRST);
        books.written(1, 200, FIRST);
        assert!(!books.has_lost());
        books.written(1, 0, SECOND);
        assert!(books.has_lost());
        assert_eq!(all_lost(&mut books), [(0, 0, 100), (1, 200, 50)]);
        assert!(!books.has_lost());
    }

    #[test]
    fn a_commit_under_the_same_verifier_ends_the_books_of_its_file_only() {
        let mut books = Uncommitted::new(2, 200, 100);
        books.written(0, 100, FIRST);
        books.written(1, 100, FIRST);
        assert!(books.committed(0, FIRST));
        assert!(!books.committed(1, SECOND));
        assert_eq!(all_lost(&mut books), [(1, 100, 100)]);
    }

    #[test]
    fn without_blocks_a_new_verifier_is_seen_and_nothing_is_written_again() {
        let mut books = Uncommitted::without_blocks();
        assert!(!books.knows_blocks());
        books.written(17, 1 << 40, FIRST);
        assert!(books.committed(3, FIRST));
        assert!(!books.committed(3, SECOND));
        assert!(!books.has_lost());
        assert!(books.committed(3, SECOND));
    }

    #[test]
    fn many_blocks_come_back_once_each() {
        let mut books = Uncommitted::new(3, 64 * 300, 64);
        for file in 0..3 {
            (0..300).step_by(7).for_each(|block| books.written(file, block * 64, FIRST));
        }
        books.written(2, 0, SECOND);
        let mut lost = all_lost(&mut books);
        assert_eq!(lost.len(), 3 * 43);
        lost.dedup();
        assert_eq!(lost.len(), 3 * 43);
    }
}
