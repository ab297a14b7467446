//! The only random number generator of dfsbench: SplitMix64, as a stream and as a counter.
//!
//! It generates orders, offsets, contents and bootstrap samples. Stored results depend on it, so it
//! must never change. As a counter ([`draw`]), the n-th number can be computed without the
//! preceding ones.
//!
//! **Source:** Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
//! with the constants of Vigna's public-domain `splitmix64.c`; range reduction after Lemire, "Fast
//! random integer generation in an interval", ACM TOMACS 2019, whose bias is below n / 2^64.

/// The odd constant nearest to 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes 64 bits so that each output bit depends on all input bits.
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the `index`-th number of the stream for `seed`.
#[inline]
pub const fn draw(seed: u64, index: u64) -> u64 {
    // The state of a stream after n steps is seed + n * GOLDEN, so any number can be computed
    // directly.
    mix(seed.wrapping_add(GOLDEN.wrapping_mul(index.wrapping_add(1))))
}

/// Maps a draw to `0..range`.
#[inline]
pub const fn below(draw: u64, range: u64) -> u64 {
    // draw / 2^64 is in 0..1. A multiplication is cheaper than a remainder, and the bias of either
    // is too small to matter.
    ((draw as u128 * range as u128) >> 64) as u64
}

/// A stream of numbers determined by a seed.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts the stream for a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_reference_random_stream() {
        // The first outputs of splitmix64.c for seed 1234567, as published with its ports.
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        let mut stream = SplitMix64::new(1_234_567);
        for (index, expected) in (0..).zip(expected) {
            assert_eq!((stream.next(), draw(1_234_567, index)), (expected, expected));
        }
    }

    #[test]
    fn draws_fill_their_range_evenly() {
        let mut counts = [0_u32; 10];
        for i in 0..100_000 {
            counts[below(draw(7, i), 10) as usize] += 1;
        }
        // Chi-squared with 9 degrees of freedom: one in 1000 seeds exceeds 27.9.
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 27.9, "{chi}");
    }
}
