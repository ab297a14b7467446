//! Mismatches between content that was read and written, and a log of the first ones.
//!
//! A [`Mismatch`] contains the file, the offset and the content that was read. It is a small `Copy`
//! type, so that the measured loop can record it without allocating. [`Mismatches`] counts all of
//! them and keeps the first [`KEPT`], because wrong content rarely comes alone, and the first ones
//! show where it is.

use std::fmt;

use crate::names::Name;

/// Maximum number of mismatches to keep; the others are only counted.
pub(crate) const KEPT: usize = 4;

/// What was read instead of the content that had been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongContent {
    /// A different byte.
    Byte {
        /// The byte that was read.
        found: u8,
        /// The byte that was written.
        expected: u8,
    },
    /// No stamp; contains the first bytes of the block.
    NoStamp([u8; 8]),
    /// A stamp with a wrong checksum.
    Checksum {
        /// Checksum in the stamp.
        stored: u32,
        /// Checksum computed from the content.
        computed: u32,
    },
    /// A block from a different campaign.
    OtherCampaign(u64),
    /// A block from a different file.
    OtherFile(u32),
    /// A block from a different offset in the file, in bytes.
    OtherOffset(u64),
    /// A block written by an earlier pass, so the latest write was lost.
    Generation {
        /// Generation in the stamp.
        found: u32,
        /// The oldest generation that may be read here.
        oldest: u32,
    },
}

/// An offset with different content than was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub file: u32,
    /// Offset of the byte, or of the block if the stamp is wrong.
    pub offset_bytes: u64,
    pub what: WrongContent,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: ", Name::file(self.file).as_str(), self.offset_bytes)?;
        match self.what {
            WrongContent::Byte { found, expected } => {
                write!(f, "read {found:#04x}, expected {expected:#04x}")
            }
            WrongContent::NoStamp(head) => {
                f.write_str("no stamp, but bytes")?;
                for byte in head {
                    write!(f, " {byte:02x}")?;
                }
                Ok(())
            }
            WrongContent::Checksum { stored, computed } => {
                write!(f, "checksum {computed:#010x}, but the stamp has {stored:#010x}")
            }
            WrongContent::OtherCampaign(id) => write!(f, "a block of campaign {id:x}"),
            WrongContent::OtherFile(file) => write!(f, "a block of file number {file}"),
            WrongContent::OtherOffset(offset) => write!(f, "the block written at {offset}"),
            WrongContent::Generation { found, oldest } => {
                write!(f, "generation {found}, expected {oldest} or later")
            }
        }
    }
}

/// All mismatches of a pass, with details of the first ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    count: u64,
    first: [Option<Mismatch>; KEPT],
}

impl Mismatches {
    /// Records a mismatch.
    pub fn note(&mut self, mismatch: Mismatch) {
        for kept in &mut self.first {
            if kept.is_none() {
                *kept = Some(mismatch);
                break;
            }
        }
        self.count += 1;
    }

    /// Adds the mismatches of another worker.
    pub fn merge(&mut self, other: &Self) {
        let known = self.count;
        for mismatch in other.first() {
            self.note(*mismatch);
        }
        // Beyond the first ones, only the number is known.
        self.count = known + other.count;
    }

    /// Returns the number of mismatches.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first mismatches with their details.
    pub fn first(&self) -> impl Iterator<Item = &Mismatch> {
        self.first.iter().flatten()
    }
}

impl fmt::Display for Mismatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mismatch) in self.first().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(f, "{comma}{mismatch}")?;
        }
        let shown = self.first().count() as u64;
        if self.count > shown { write!(f, "; {} more", self.count - shown) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(offset_bytes: u64) -> Mismatch {
        Mismatch { file: 3, offset_bytes, what: WrongContent::Byte { found: 0x41, expected: 0x40 } }
    }

    #[test]
    fn keeps_first_and_counts_all() {
        let mut log = Mismatches::default();
        (0..3).for_each(|at| log.note(byte(at)));
        let mut more = Mismatches::default();
        (10..16).for_each(|at| more.note(byte(at)));
        log.merge(&more);
        assert_eq!(log.count(), 9);
        let offsets: Vec<u64> = log.first().map(|mismatch| mismatch.offset_bytes).collect();
        assert_eq!(offsets, [0, 1, 2, 10]);
        insta::assert_snapshot!(log);
    }
}
