//! The generator behind the bootstrap: splitmix64, small and the same on every machine.
//!
//! **Source:** Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014; the constants are those of Vigna's public-domain `splitmix64.c`.

/// A stream of random numbers that a seed determines.
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts the stream of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; the bias is below `bound / 2^64`.
    ///
    /// **Source:** Lemire, "Fast random integer generation in an interval", ACM TOMACS 2019.
    pub const fn below(&mut self, bound: usize) -> usize {
        ((self.next() as u128 * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_the_reference() {
        // The first outputs of splitmix64.c for seed 1234567, as published with its ports.
        let mut random = SplitMix64::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| random.next()), expected);
    }

    #[test]
    fn every_index_is_drawn_and_none_beyond() {
        let mut random = SplitMix64::new(7);
        let mut drawn = [0_u32; 5];
        for _ in 0..5_000 {
            drawn[random.below(5)] += 1;
        }
        assert!(drawn.iter().all(|count| (800..1_200).contains(count)), "{drawn:?}");
    }
}
