//! Mismatches between content that was read and content that was written, and a log of the first.
//!
//! A [`Mismatch`] names the file, the byte and the content that was read; it is a small `Copy`
//! type, so that the measured loop can note it without allocating. [`Mismatches`] counts all and
//! keeps the first [`KEPT`]: where content is wrong, much of it is, and the first ones show where.

use std::fmt;

use crate::names::Name;

/// Mismatches that a log keeps; the others are only counted.
pub const KEPT: usize = 4;

/// The content that was read in place of what had been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Another byte than was written.
    Byte {
        /// The byte that was read.
        found: u8,
        /// The byte that was written.
        expected: u8,
    },
    /// No stamp; the block begins with these bytes.
    NoStamp([u8; 8]),
    /// A stamp whose checksum is not that of the block.
    Checksum {
        /// In the stamp.
        stored: u32,
        /// Checksum computed from the content.
        computed: u32,
    },
    /// A block of another campaign.
    OtherCampaign(u64),
    /// A block of another file.
    OtherFile(u32),
    /// A block of another place in the file, in bytes.
    OtherOffset(u64),
    /// A block that was written in another pass: the write of this one was lost.
    Generation {
        /// In the stamp.
        found: u32,
        /// The oldest that may stand there.
        oldest: u32,
    },
}

/// A place with other content than was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Number of the file.
    pub file: u32,
    /// Byte of the file, or the block that a stamp belongs to.
    pub offset_bytes: u64,
    /// The content that was found.
    pub what: Found,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: ", Name::file(self.file).as_str(), self.offset_bytes)?;
        match self.what {
            Found::Byte { found, expected } => write!(f, "{found:#04x}, written {expected:#04x}"),
            Found::NoStamp(head) => {
                f.write_str("no stamp but")?;
                for byte in head {
                    write!(f, " {byte:02x}")?;
                }
                Ok(())
            }
            Found::Checksum { stored, computed } => {
                write!(f, "checksum {computed:#010x}, stamped {stored:#010x}")
            }
            Found::OtherCampaign(id) => write!(f, "a block of campaign {id:x}"),
            Found::OtherFile(file) => write!(f, "a block of file number {file}"),
            Found::OtherOffset(offset) => write!(f, "the block written at {offset}"),
            Found::Generation { found, oldest } => {
                write!(f, "generation {found}, written {oldest} or later")
            }
        }
    }
}

/// All mismatches of a pass, the first few of them in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    count: u64,
    first: [Option<Mismatch>; KEPT],
}

impl Mismatches {
    /// Notes one more.
    pub fn note(&mut self, mismatch: Mismatch) {
        for kept in &mut self.first {
            if kept.is_none() {
                *kept = Some(mismatch);
                break;
            }
        }
        self.count += 1;
    }

    /// Adds what another worker noted.
    pub fn merge(&mut self, other: &Self) {
        let known = self.count;
        for mismatch in other.first() {
            self.note(*mismatch);
        }
        // Those beyond the first few are known by their number only.
        self.count = known + other.count;
    }

    /// Returns how many there were.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first mismatches, in full.
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
        Mismatch { file: 3, offset_bytes, what: Found::Byte { found: 0x41, expected: 0x40 } }
    }

    #[test]
    fn the_first_are_kept_and_all_are_counted() {
        let mut log = Mismatches::default();
        (0..3).for_each(|at| log.note(byte(at)));
        let mut more = Mismatches::default();
        (10..16).for_each(|at| more.note(byte(at)));
        log.merge(&more);
        assert_eq!(log.count(), 9);
        let offsets: Vec<u64> = log.first().map(|mismatch| mismatch.offset_bytes).collect();
        assert_eq!(offsets, [0, 1, 2, 10]);
        assert!(log.to_string().ends_with("f00000003 at 10: 0x41, written 0x40; 5 more"));
    }
}
