//! The bytes that are written: incompressible, different in each file, known at each offset.
//!
//! One pool of random bytes is made before anything is timed. Byte `o` of file `f` is
//! `pool[(o + shift(f)) % PERIOD]`, and the head of the pool is repeated behind its end, so the
//! bytes of any op are one slice of the pool: writing needs no copy and no generation, and what
//! was read can be compared with the same slice. `PERIOD` is no multiple of 4 KiB, so aligned
//! blocks do not repeat before 64 periods, and a deduplicating store finds nothing soon.

use std::ops::Range;
use std::sync::Arc;

use model::random::draw;

/// Bytes after which the content repeats: 8 MiB and a bit, a multiple of 64.
pub const PERIOD: usize = (8 << 20) + 64 * 65;

/// The content of every file of a campaign.
#[derive(Clone)]
pub struct Pattern {
    seed: u64,
    pool: Arc<[u8]>,
}

impl Pattern {
    /// Makes the content that `seed` names, in slices of up to `len_max` bytes.
    pub fn new(seed: u64, len_max: usize) -> Self {
        let mut pool = Vec::with_capacity(PERIOD + len_max);
        for word in 0..(PERIOD / 8) as u64 {
            pool.extend_from_slice(&draw(seed, word).to_le_bytes());
        }
        while pool.len() < PERIOD + len_max {
            let missing = (PERIOD + len_max - pool.len()).min(PERIOD);
            pool.extend_from_within(..missing);
        }
        Self { seed, pool: pool.into() }
    }

    /// Where in the pool the content of `len` bytes of a file stands.
    ///
    /// # Panics
    /// When `len` is more than the `len_max` of [`Self::new`].
    #[inline]
    pub fn range(&self, file: u32, offset_bytes: u64, len: u32) -> Range<usize> {
        let shift = (draw(!self.seed, u64::from(file)) % (PERIOD as u64 / 64)) * 64;
        let start = ((offset_bytes + shift) % PERIOD as u64) as usize;
        assert!(start + len as usize <= self.pool.len(), "op longer than the pattern was made for");
        start..start + len as usize
    }

    /// The content of `len` bytes of a file.
    ///
    /// # Panics
    /// As [`Self::range`].
    #[inline]
    pub fn slice(&self, file: u32, offset_bytes: u64, len: u32) -> &[u8] {
        &self.pool[self.range(file, offset_bytes, len)]
    }

    /// The pool itself, for those who send its slices later.
    pub fn pool(&self) -> Arc<[u8]> {
        Arc::clone(&self.pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn content_does_not_depend_on_how_it_is_cut() {
        let small = Pattern::new(1, 4096);
        let large = Pattern::new(1, 3 << 20);
        let whole = large.slice(3, PERIOD as u64 - 1000, 1 << 20).to_vec();
        for (i, chunk) in whole.chunks(4096).enumerate() {
            let offset = PERIOD as u64 - 1000 + i as u64 * 4096;
            assert_eq!(small.slice(3, offset, chunk.len() as u32), chunk);
        }
    }

    #[test]
    fn aligned_blocks_do_not_repeat() {
        let pattern = Pattern::new(1, 4096);
        let mut seen = std::collections::HashSet::new();
        for file in 0..4 {
            for block in 0..8192_u64 {
                assert!(seen.insert(pattern.slice(file, block * 4096, 4096).to_vec()));
            }
        }
    }

    proptest! {
        #[test]
        fn every_offset_has_content(file in 0_u32..100_000_000, offset in 0..u64::MAX / 2) {
            thread_local!(static PATTERN: Pattern = Pattern::new(2, 512));
            prop_assert_eq!(PATTERN.with(|p| p.slice(file, offset, 512).len()), 512);
        }
    }
}
