//! A random order of numbers that needs no memory: the n-th number is computed from n.
//!
//! A [`Permutation`] is a Feistel network over the smallest square of a power of two that contains
//! all numbers. A result out of range is fed back ("cycle walking") until it is in range, which
//! takes fewer than four rounds on average, because the square is at most four times too large.
//!
//! **Source:** Luby, Rackoff, "How to construct pseudorandom permutations", SIAM J. Comput. 1988
//! (four rounds); Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002 (walking).

use crate::random::{draw, mix};

const ROUNDS: usize = 4;

/// A seeded order of the numbers from 0 on.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    keys: [u64; ROUNDS],
    count: u64,
    half_bits: u32,
}

impl Permutation {
    /// Creates an order of the numbers below `count`, which is at most 2^62.
    pub fn new(seed: u64, count: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Self {
            keys: std::array::from_fn(|round| draw(seed, round as u64)),
            count,
            half_bits: bits.div_ceil(2).max(1),
        }
    }

    /// Returns how many numbers there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number at `place`, which must be below the count.
    #[inline]
    pub const fn number_at(&self, place: u64) -> u64 {
        // Cycle walking: the network permutes the whole square. So following a number that is out
        // of range leads, along its cycle, to one that is in range, and to a different one for each
        // place.
        let mut number = self.turn(place);
        while number >= self.count {
            number = self.turn(number);
        }
        number
    }

    #[inline]
    const fn turn(&self, number: u64) -> u64 {
        // A round swaps the halves and mixes one into the other with XOR, which the reverse round
        // undoes for any `mix`. So each round, and all four together, are permutations.
        let mask = (1 << self.half_bits) - 1;
        let mut left = number >> self.half_bits;
        let mut right = number & mask;
        let mut round = 0;
        while round < ROUNDS {
            (left, right) = (right, left ^ (mix(right ^ self.keys[round]) & mask));
            round += 1;
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shuffles_differently_by_seed() {
        let order = |seed| {
            let permutation = Permutation::new(seed, 1000);
            (0..1000).map(|place| permutation.number_at(place)).collect::<Vec<_>>()
        };
        assert_ne!(order(1), order(2));
        // A random order has about one number in its own place, and one pair of adjacent numbers.
        let unmoved = (0..1000).filter(|place| order(1)[*place as usize] == *place).count();
        let runs = order(1).windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(unmoved < 8 && runs < 8, "{unmoved} {runs}");
    }

    proptest! {
        #[test]
        fn every_number_has_one_place(count in 1_u64..3000, seed: u64) {
            let permutation = Permutation::new(seed, count);
            let mut numbers: Vec<u64> =
                (0..count).map(|place| permutation.number_at(place)).collect();
            numbers.sort_unstable();
            prop_assert!(numbers.iter().copied().eq(0..count));
        }
    }
}
