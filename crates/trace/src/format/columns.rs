//! Columns of whole numbers: variable length, plain or as differences.
//!
//! A number takes one byte for each seven bits (LEB128). Differences to the number before are
//! zigzag coded, so that small ones are short in either direction.
//! **Source:** DWARF 5, section 7.6 (LEB128); Protocol Buffers, "Encoding" (zigzag).

/// How the numbers of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Each number as it is.
    Plain = 0,
    /// The difference to the number before; to 0 for the first.
    Delta = 1,
}

impl Encoding {
    /// Returns the encoding with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Plain),
            1 => Some(Self::Delta),
            _ => None,
        }
    }
}

/// A column that is being written.
#[derive(Debug)]
pub struct ColumnWriter {
    /// The bytes so far.
    pub bytes: Vec<u8>,
    encoding: Encoding,
    last: u64,
}

impl ColumnWriter {
    /// Makes an empty column.
    pub const fn new(encoding: Encoding) -> Self {
        Self { bytes: Vec::new(), encoding, last: 0 }
    }

    /// Empties the column and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
    }

    /// Returns how the numbers are written.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Appends a number.
    #[inline]
    pub fn push(&mut self, value: u64) {
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

/// A column that is being read.
#[derive(Debug, Clone, Copy)]
pub struct ColumnReader<'a> {
    bytes: &'a [u8],
    encoding: Encoding,
    last: u64,
}

impl<'a> ColumnReader<'a> {
    /// Reads a column from its bytes.
    pub const fn new(bytes: &'a [u8], encoding: Encoding) -> Self {
        Self { bytes, encoding, last: 0 }
    }

    /// Makes a column of nothing but zeros, for one that a file lacks.
    pub const fn zeros() -> Self {
        Self::new(&[], Encoding::Plain)
    }

    /// Tells whether all numbers were read.
    pub const fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next number; `None` where the bytes end within it or it has more than 64 bits.
    #[inline]
    pub fn next(&mut self) -> Option<u64> {
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
    fn numbers_of_more_than_64_bits_are_refused() {
        for bytes in [&[0xff; 11][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]] {
            assert_eq!(ColumnReader::new(bytes, Encoding::Plain).next(), None);
        }
        assert_eq!(ColumnReader::new(&[0x80], Encoding::Plain).next(), None);
    }
}
