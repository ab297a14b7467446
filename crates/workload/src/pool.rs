//! The random bytes that content is cut from, made as far as they are needed.
//!
//! [`Pool`] is memory that the system hands out as zeros, and only where it is touched: of a
//! process that works on one small file a page is made, not all of it. What is not made is never
//! handed out: [`Pool::is_made`] says what is, block by block. Byte `p` depends on seed and `p %
//! PERIOD` only, so it is the same whatever was made before. While another holder has the bytes,
//! making more of them works on a copy.

use std::ops::Range;
use std::sync::Arc;

use model::random::draw;

use crate::stamp::BLOCK_BYTES;

/// Bytes after which the content repeats: 2 MiB and a bit.
///
/// Longer than the window of compressors that work on whole files (that of zstd has 2 MiB at its
/// usual level), and else as short as can be: writes come out of the pool, and the more of it a
/// second-level cache holds, the less it costs them.
pub(crate) const PERIOD: usize = (2 << 20) + GRAIN * 65;

/// Content of a file begins at a multiple of this in the pool.
pub(crate) const GRAIN: usize = 8;

/// Bytes of one draw.
const WORD: usize = 8;

/// Bytes that repeat after [`PERIOD`], and which of them are made.
#[derive(Clone)]
pub(crate) struct Pool {
    seed: u64,
    /// Bytes at the start of each block that are random; the rest of it is zeros.
    random_bytes: usize,
    bytes: Arc<Vec<u8>>,
    /// A bit for each block; none where all are made.
    made: Option<Box<[u64]>>,
}

impl Pool {
    /// Prepares a pool of [`PERIOD`] bytes and `more`, none of which is made yet.
    pub(crate) fn unmade(seed: u64, more: usize, random_bytes: usize) -> Self {
        let blocks = (PERIOD + more).div_ceil(BLOCK_BYTES);
        let made = Some(vec![0; blocks.div_ceil(64)].into());
        Self { seed, random_bytes, bytes: Arc::new(vec![0; PERIOD + more]), made }
    }

    /// How long it is, in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Its bytes; zeros where they are not made.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, for those who use them later.
    pub(crate) fn shared(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
    }

    /// Says whether another has the same bytes, where both have them.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let Self { seed, random_bytes, bytes, .. } = self;
        *seed == other.seed && *random_bytes == other.random_bytes && bytes.len() == other.len()
    }

    /// Says whether a range is made.
    #[inline]
    pub(crate) fn is_made(&self, range: &Range<usize>) -> bool {
        let Some(made) = &self.made else { return true };
        if range.is_empty() {
            return true;
        }
        for block in blocks_of(range) {
            if made[block / 64] >> (block % 64) & 1 == 0 {
                return false;
            }
        }
        true
    }

    /// Makes all of it.
    pub(crate) fn make_all(&mut self) {
        self.make_range(&(0..self.len()));
        self.made = None;
    }

    /// Makes what ops may need of so many bytes from a place within the period on: as they lie,
    /// and those behind the period at its beginning, too.
    pub(crate) fn make_part(&mut self, begin: usize, bytes: usize) {
        let end = begin + bytes;
        self.make_range(&(begin..end.min(self.len())));
        if end > PERIOD {
            self.make_range(&(0..end - PERIOD));
        }
    }

    fn make_range(&mut self, range: &Range<usize>) {
        let Some(made) = &mut self.made else { return };
        if range.is_empty() {
            return;
        }
        let bytes = Arc::make_mut(&mut self.bytes);
        for block in blocks_of(range) {
            let (word, bit) = (&mut made[block / 64], 1 << (block % 64));
            if *word & bit == 0 {
                *word |= bit;
                let begin = block * BLOCK_BYTES;
                let end = bytes.len().min(begin + BLOCK_BYTES);
                write_block(&mut bytes[begin..end], begin, self.seed, self.random_bytes);
            }
        }
    }
}

/// The blocks that a range touches, which is not empty.
#[inline]
fn blocks_of(range: &Range<usize>) -> Range<usize> {
    range.start / BLOCK_BYTES..(range.end - 1) / BLOCK_BYTES + 1
}

/// Makes the bytes that stand at a place of the pool, a multiple of a word.
fn write_block(out: &mut [u8], begin: usize, seed: u64, random_bytes: usize) {
    for (index, word) in out.chunks_mut(WORD).enumerate() {
        // A word depends on its place within the period, so the head that is repeated behind the
        // end comes out the same, whichever of the two is made first.
        let place = (begin + index * WORD) % PERIOD;
        let random = random_bytes.saturating_sub(place % BLOCK_BYTES).min(word.len());
        let drawn = draw(seed, (place / WORD) as u64).to_le_bytes();
        word[..random].copy_from_slice(&drawn[..random]);
        // Zeros are written, too: memory is there once it is touched.
        word[random..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MORE: usize = 70_001;

    fn whole(random_bytes: usize) -> Pool {
        let mut pool = Pool::unmade(5, MORE, random_bytes);
        pool.make_all();
        pool
    }

    #[test]
    fn what_is_made_in_part_is_what_is_made_at_once() {
        for random_bytes in [0, 1, 409, 3072, BLOCK_BYTES] {
            let (all, mut pool) = (whole(random_bytes), Pool::unmade(5, MORE, random_bytes));
            for (begin, bytes) in [(8, 1), (4095, 2), (PERIOD - 9, 20_000), (60_000, 70_000)] {
                pool.make_part(begin, bytes);
                let range = begin..begin + bytes;
                assert!(pool.is_made(&range));
                assert_eq!(pool.bytes()[range.clone()], all.bytes()[range]);
            }
            assert!(!pool.is_made(&(0..pool.len())));
            pool.make_all();
            assert!(pool.is_made(&(0..pool.len())) && pool.bytes() == all.bytes());
        }
    }

    #[test]
    fn the_head_stands_behind_the_end_once_more() {
        let pool = whole(BLOCK_BYTES);
        assert_eq!(pool.bytes()[..MORE], pool.bytes()[PERIOD..]);
        assert_ne!(pool.bytes()[..MORE], pool.bytes()[8..MORE + 8]);
    }

    #[test]
    fn what_wraps_is_there_on_both_sides_and_nothing_else_is() {
        let mut pool = Pool::unmade(5, MORE, BLOCK_BYTES);
        assert!(!pool.is_made(&(0..1)) && pool.is_made(&(7..7)));
        pool.make_part(PERIOD - 100, 5_000);
        assert!(pool.is_made(&(PERIOD - 100..PERIOD + 4_900)) && pool.is_made(&(0..4_900)));
        assert!(!pool.is_made(&(8_192..8_193)) && !pool.is_made(&(4_000..8_200)));
    }

    #[test]
    fn a_holder_of_the_bytes_keeps_them_as_they_are() {
        let mut pool = Pool::unmade(5, MORE, BLOCK_BYTES);
        let held = pool.shared();
        pool.make_part(0, 8);
        assert!(held[..8] == [0; 8] && pool.bytes()[..8] == draw(5, 0).to_le_bytes());
    }
}
