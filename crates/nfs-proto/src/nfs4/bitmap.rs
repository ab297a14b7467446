//! Sets of attribute numbers, and of other small numbers. **Source:** RFC 7530 section 2.1.
//!
//! [`Bitmap`] stores 128 bits inline; all attributes defined so far are below 96. Anything above is
//! stored as the last bit, which represents all unknown numbers. On the wire trailing zero words
//! are omitted.

use crate::error::DecodeError;
use crate::wire::Wire;
use crate::xdr::{Reader, Writer};

/// Number of words stored.
const WORDS: u32 = 4;
/// Number of words accepted.
const WORDS_MAX: u32 = 64;
/// Represents all numbers above those stored.
const ANY_ABOVE: u128 = 1 << (32 * WORDS - 1);

/// A set of numbers below 128.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[must_use]
pub struct Bitmap(u128);

impl Bitmap {
    /// The set without numbers.
    pub const EMPTY: Self = Self(0);

    /// Returns the set of these numbers.
    ///
    /// # Panics
    /// If a number is not below 128.
    pub const fn from_numbers(numbers: &[u32]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < numbers.len() {
            assert!(numbers[index] < 32 * WORDS);
            bits |= 1 << numbers[index];
            index += 1;
        }
        Self(bits)
    }

    /// Returns true if `number` is in the set.
    pub const fn contains(self, number: u32) -> bool {
        number < 32 * WORDS && self.0 >> number & 1 == 1
    }

    /// Returns the set with `number`.
    pub const fn with(self, number: u32) -> Self {
        Self(self.0 | Self::from_numbers(&[number]).0)
    }

    /// Returns the union of both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection of both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the numbers in this set that are not in the other.
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the numbers, lowest first.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let number = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(number)
        })
    }

    const fn word(self, index: u32) -> u32 {
        (self.0 >> (32 * index)) as u32
    }
}

impl std::fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bitmap")?;
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Wire<'_> for Bitmap {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let words = reader.u32()?;
        if words > WORDS_MAX {
            return Err(DecodeError::TooLong { len: words, max: WORDS_MAX });
        }
        let mut bits = 0;
        for index in 0..words {
            let word = reader.u32()?;
            // A client may request attributes of future minor versions. One bit remembers that it
            // did, which makes a request for only unknown ones differ from an empty one; the words
            // themselves are not kept.
            if index < WORDS {
                bits |= u128::from(word) << (32 * index);
            } else if word != 0 {
                bits |= ANY_ABOVE;
            }
        }
        Ok(Self(bits))
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        // Trailing zero words are omitted, so that a set has one encoding.
        let words = WORDS - self.0.leading_zeros() / 32;
        writer.u32(words);
        for index in 0..words {
            writer.u32(self.word(index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_trailing_zero_words() {
        for (numbers, words) in [(&[][..], 0), (&[0, 31], 1), (&[32], 2), (&[127], 4)] {
            let mut out = Vec::new();
            let set = Bitmap::from_numbers(numbers);
            set.encode(&mut Writer::new(&mut out));
            assert_eq!(out.len(), 4 + 4 * words);
            assert_eq!(Bitmap::decode(&mut Reader::new(&out)), Ok(set));
            assert!(set.iter().eq(numbers.iter().copied()));
        }
        let long = [[0, 0, 0, 16].as_slice(), &[0, 0, 0, 3], &[0; 60]].concat();
        assert_eq!(Bitmap::decode(&mut Reader::new(&long)), Ok(Bitmap::from_numbers(&[0, 1])));
    }

    #[test]
    fn unknown_numbers_are_kept_as_one() {
        let high = [[0, 0, 0, 5].as_slice(), &[0, 0, 0, 2], &[0; 12], &[0, 0, 0, 1]].concat();
        assert_eq!(Bitmap::decode(&mut Reader::new(&high)), Ok(Bitmap::from_numbers(&[1, 127])));
    }

    #[test]
    fn too_many_words_are_an_error() {
        let error = Bitmap::decode(&mut Reader::new(&[0xff; 80])).unwrap_err();
        assert_eq!(error, DecodeError::TooLong { len: u32::MAX, max: 64 });
    }
}
