//! Counts distinct items in limited memory.
//!
//! Items are hashed, and those with a hash below a threshold are kept. When there are too many, the
//! threshold is halved. The number kept divided by the share of hashes below the threshold is an
//! unbiased estimate of the total, with a standard error of 1 in 180. Below the limit, the count is
//! exact.
//! **Source:** P. Flajolet, "On adaptive sampling", Computing 43 (1990).

use std::collections::HashSet;

/// Maximum number of items to keep.
const KEPT_MAX: usize = 32 << 10;

/// Counts distinct numbers.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    kept: HashSet<u64>,
    /// Only hashes with this many leading zero bits are kept.
    zero_bits: u32,
}

impl Distinct {
    pub(crate) fn add(&mut self, number: u64) {
        let hash = mix(number);
        if hash.leading_zeros() < self.zero_bits {
            return;
        }
        self.kept.insert(hash);
        while self.kept.len() > KEPT_MAX {
            self.zero_bits += 1;
            let zero_bits = self.zero_bits;
            self.kept.retain(|hash| hash.leading_zeros() >= zero_bits);
        }
    }

    /// Returns the estimated number of distinct numbers.
    pub(crate) fn count(&self) -> u64 {
        (self.kept.len() as u64) << self.zero_bits.min(40)
    }
}

/// Mixes the bits of a number, so that each output bit depends on all input bits.
/// **Source:** S. Vigna, `splitmix64`, public domain.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_distinct_items_within_error() {
        let mut distinct = Distinct::default();
        for number in 0..20_000 {
            distinct.add(number % 10_000);
        }
        assert_eq!(distinct.count(), 10_000);
        for number in 0..2_000_000 {
            distinct.add(number);
        }
        let count = distinct.count() as f64;
        assert!((count / 2e6 - 1.0).abs() < 0.03, "{count}");
        assert!(distinct.kept.len() <= KEPT_MAX);
    }
}
