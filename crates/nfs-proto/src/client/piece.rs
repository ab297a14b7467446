//! Pieces that READ_PLUS found: data and holes, as a view of the reply that holds them.
//!
//! **Source:** RFC 7862, 15.10 (READ_PLUS).

use crate::nfs4::Segment;

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes that are there.
    Data {
        /// Offset in bytes.
        offset: u64,
        /// The bytes of the data.
        bytes: &'a [u8],
    },
    /// A hole, which reads as zeros.
    Hole {
        /// Offset in bytes.
        offset: u64,
        /// Its length in bytes; it may reach beyond what was requested.
        len: u64,
    },
}

impl<'a> From<Segment<'a>> for Piece<'a> {
    fn from(segment: Segment<'a>) -> Self {
        match segment {
            Segment::Data(offset, bytes) => Self::Data { offset, bytes },
            Segment::Hole(offset, len) => Self::Hole { offset, len },
        }
    }
}
