//! The random bytes that content consists of, generated on demand.
//!
//! [`Pool`] uses memory that the system provides as zeros and only allocates when touched, so a
//! process that works on one small file generates a page and not the whole pool. Parts that were
//! not generated are never handed out; [`Pool::is_made`] tracks them by block. Byte `p` depends
//! only on the seed and `p % PERIOD`, so it doesn't matter what was generated before. If the bytes
//! are shared, generating more works on a copy.

use std::ops::Range;
use std::sync::Arc;

use model::random::draw;

use crate::stamp::BLOCK_BYTES;

/// Number of bytes after which the content repeats: slightly more than 2 MiB.
///
/// This is longer than the window of compressors that process whole files (2 MiB for zstd at its
/// default level), but otherwise as short as possible: writes come from the pool, and the more of
/// it is in the L2 cache, the less it costs them.
pub(crate) const PERIOD: usize = (2 << 20) + GRAIN * 65;

/// Content of a file begins at a multiple of this in the pool.
pub(crate) const GRAIN: usize = 8;

/// Bytes per draw.
const WORD: usize = 8;

/// Bytes that repeat after [`PERIOD`], and which of them have been generated.
#[derive(Clone)]
pub(crate) struct Pool {
    seed: u64,
    /// Number of random bytes at the start of each block; the rest is zeros.
    random_bytes: usize,
    bytes: Arc<Vec<u8>>,
    /// One bit per block; `None` if all blocks have been generated.
    made: Option<Box<[u64]>>,
}

impl Pool {
    /// Allocates a pool of [`PERIOD`] + `more` bytes without generating any.
    pub(crate) fn without_content(seed: u64, more: usize, random_bytes: usize) -> Self {
        let blocks = (PERIOD + more).div_ceil(BLOCK_BYTES);
        let made = Some(vec![0; blocks.div_ceil(64)].into());
        Self { seed, random_bytes, bytes: Arc::new(vec![0; PERIOD + more]), made }
    }

    /// Returns the length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes; parts that were not generated are zeros.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a shared reference to the bytes for later use.
    pub(crate) fn shared(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
    }

    /// Returns true if both pools contain the same bytes wherever both have been generated.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let Self { seed, random_bytes, bytes, .. } = self;
        *seed == other.seed && *random_bytes == other.random_bytes && bytes.len() == other.len()
    }

    /// Returns true if a range has been generated.
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

    /// Generates the whole pool.
    pub(crate) fn generate_all(&mut self) {
        self.make_range(&(0..self.len()));
        self.made = None;
    }

    /// Generates what ops may need of the given bytes, starting at a position within the period:
    /// the range itself, and the part after the period also at the beginning.
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
            let word = &mut made[block / 64];
            let bit = 1 << (block % 64);
            if *word & bit == 0 {
                *word |= bit;
                let begin = block * BLOCK_BYTES;
                let end = bytes.len().min(begin + BLOCK_BYTES);
                write_block(&mut bytes[begin..end], begin, self.seed, self.random_bytes);
            }
        }
    }
}

/// Returns the blocks touched by a range, which must not be empty.
#[inline]
fn blocks_of(range: &Range<usize>) -> Range<usize> {
    range.start / BLOCK_BYTES..(range.end - 1) / BLOCK_BYTES + 1
}

/// Generates the bytes at a position in the pool, which is a multiple of a word.
fn write_block(out: &mut [u8], begin: usize, seed: u64, random_bytes: usize) {
    for (index, word) in out.chunks_mut(WORD).enumerate() {
        // A word depends on its position within the period, so the head that is repeated after the
        // end is the same, no matter which of the two is generated first.
        let place = (begin + index * WORD) % PERIOD;
        let random = random_bytes.saturating_sub(place % BLOCK_BYTES).min(word.len());
        let drawn = draw(seed, (place / WORD) as u64).to_le_bytes();
        word[..random].copy_from_slice(&drawn[..random]);
        // Write zeros, too, so that the memory is allocated.
        word[random..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MORE: usize = 70_001;

    fn whole(random_bytes: usize) -> Pool {
        let mut pool = Pool::without_content(5, MORE, random_bytes);
        pool.generate_all();
        pool
    }

    #[test]
    fn generates_same_content_in_parts() {
        for random_bytes in [0, 1, 409, 3072, BLOCK_BYTES] {
            let all = whole(random_bytes);
            let mut pool = Pool::without_content(5, MORE, random_bytes);
            for (begin, bytes) in [(8, 1), (4095, 2), (PERIOD - 9, 20_000), (60_000, 70_000)] {
                pool.make_part(begin, bytes);
                let range = begin..begin + bytes;
                assert!(pool.is_made(&range));
                assert_eq!(pool.bytes()[range.clone()], all.bytes()[range]);
            }
            assert!(!pool.is_made(&(0..pool.len())));
            pool.generate_all();
            assert!(pool.is_made(&(0..pool.len())) && pool.bytes() == all.bytes());
        }
    }

    #[test]
    fn repeats_head_after_end() {
        let pool = whole(BLOCK_BYTES);
        assert_eq!(pool.bytes()[..MORE], pool.bytes()[PERIOD..]);
        assert_ne!(pool.bytes()[..MORE], pool.bytes()[8..MORE + 8]);
    }

    #[test]
    fn wraps_content_on_both_sides() {
        let mut pool = Pool::without_content(5, MORE, BLOCK_BYTES);
        assert!(!pool.is_made(&(0..1)) && pool.is_made(&(7..7)));
        pool.make_part(PERIOD - 100, 5_000);
        assert!(pool.is_made(&(PERIOD - 100..PERIOD + 4_900)) && pool.is_made(&(0..4_900)));
        assert!(!pool.is_made(&(8_192..8_193)) && !pool.is_made(&(4_000..8_200)));
    }

    #[test]
    fn keeps_bytes_while_held() {
        let mut pool = Pool::without_content(5, MORE, BLOCK_BYTES);
        let held = pool.shared();
        pool.make_part(0, 8);
        assert!(held[..8] == [0; 8] && pool.bytes()[..8] == draw(5, 0).to_le_bytes());
    }
}
