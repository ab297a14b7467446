//! Columns of integers with variable length, either plain or as differences.
//!
//! A number takes one byte for every seven bits (LEB128). Differences to the previous number are
//! zigzag encoded, so that small ones are short in either direction.
//! **Source:** DWARF 5, section 7.6 (LEB128); Protocol Buffers, "Encoding" (zigzag).

/// How the numbers of a column are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Each number as is.
    Plain = 0,
    /// Difference to the previous number, or to 0 for the first.
    Delta = 1,
}

impl Encoding {
    pub(crate) const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Plain),
            1 => Some(Self::Delta),
            _ => None,
        }
    }
}

/// A column being written.
#[derive(Debug)]
pub(crate) struct ColumnWriter {
    pub bytes: Vec<u8>,
    encoding: Encoding,
    last: u64,
}

impl ColumnWriter {
    /// Creates an empty column.
    pub(crate) const fn new(encoding: Encoding) -> Self {
        Self { bytes: Vec::new(), encoding, last: 0 }
    }

    /// Clears the column but keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
    }

    pub(crate) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Appends a number.
    #[inline]
    pub(crate) fn push(&mut self, value: u64) {
        let mut left = match self.encoding {
            Encoding::Plain => value,
            Encoding::Delta => {
                let difference = value.wrapping_sub(self.last).cast_signed();
                self.last = value;
                ((difference << 1) ^ (difference >> 63)).cast_unsigned()
            }
        };
        while left >= 0x80 {
            self.bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        self.bytes.push(left as u8);
    }
}

/// A column being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnReader<'a> {
    bytes: &'a [u8],
    encoding: Encoding,
    last: u64,
}

impl<'a> ColumnReader<'a> {
    /// Reads a column from its bytes.
    pub(crate) const fn new(bytes: &'a [u8], encoding: Encoding) -> Self {
        Self { bytes, encoding, last: 0 }
    }

    /// Creates a column of only zeros, for a column that is missing in a file.
    pub(crate) const fn zeros() -> Self {
        Self::new(&[], Encoding::Plain)
    }

    /// Returns true if all numbers have been read.
    pub(crate) const fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next number, or `None` if it is truncated or has more than 64 bits.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
        if self.encoding == Encoding::Delta {
            let difference = (value >> 1).cast_signed() ^ -((value & 1).cast_signed());
            value = self.last.wrapping_add(difference.cast_unsigned());
            self.last = value;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_in_both_encodings() {
        let numbers = [0, 1, 127, 128, 300, u64::MAX, 0, u64::MAX / 2, 1 << 63, 5];
        for encoding in [Encoding::Plain, Encoding::Delta] {
            let mut column = ColumnWriter::new(encoding);
            for number in numbers {
                column.push(number);
            }
            let mut reader = ColumnReader::new(&column.bytes, encoding);
            for number in numbers {
                assert_eq!(reader.next(), Some(number));
            }
            assert!(reader.is_at_end() && reader.next().is_none());
        }
    }

    #[test]
    fn rejects_numbers_beyond_64_bits() {
        for bytes in [&[0xff; 11][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]] {
            assert_eq!(ColumnReader::new(bytes, Encoding::Plain).next(), None);
        }
        assert_eq!(ColumnReader::new(&[0x80], Encoding::Plain).next(), None);
    }
}
