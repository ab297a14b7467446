//! Messages with missing parts.
//!
//! A [`Sparse`] message has its full length and holes at known positions: bytes removed by the snap
//! length, lost before the capture, or payload that was not kept. [`Cursor`] decodes it from the
//! front with the decoders of `nfs-proto`, which need complete bytes, and skips payload whether it
//! is present or not. Nothing is ever read from within a hole.

use nfs_proto::DecodeError;
use nfs_proto::xdr::{Reader, opaque_bytes};

/// Missing bytes in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    /// Offset in the message.
    pub at: usize,
    /// Length in bytes, never 0.
    pub len: usize,
}

/// A message with holes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sparse<'a> {
    /// The bytes that are present, without holes.
    pub bytes: &'a [u8],
    /// The holes, ordered by offset. They neither overlap nor touch.
    pub holes: &'a [Hole],
    /// Length of the message on the wire, including holes.
    pub len: usize,
}

impl<'a> Sparse<'a> {
    /// Creates a complete message.
    pub(crate) const fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, holes: &[], len: bytes.len() }
    }

    /// Creates a message whose end may be missing.
    pub(crate) fn cut(bytes: &'a [u8], len: usize) -> Self {
        Self { bytes: &bytes[..bytes.len().min(len)], holes: &[], len }
    }

    /// Returns true if no byte is missing.
    pub(crate) const fn is_whole(&self) -> bool {
        self.bytes.len() == self.len
    }

    /// Returns the bytes from an offset up to the next hole; empty if the offset is in a hole.
    pub(crate) fn bytes_from(&self, offset: usize) -> &'a [u8] {
        // The index is the offset in the message minus everything missing before it.
        let mut missing = 0;
        for hole in self.holes {
            if offset < hole.at {
                return self.bytes.get(offset - missing..hole.at - missing).unwrap_or_default();
            }
            if offset < hole.at + hole.len {
                return &[];
            }
            missing += hole.len;
        }
        self.bytes.get(offset - missing..).unwrap_or_default()
    }

    /// Returns a cursor at the start.
    pub(crate) fn cursor(self) -> Cursor<'a> {
        let visible = self.bytes_from(0);
        Cursor { message: self, reader: Reader::new(visible), visible_end: visible.len() }
    }
}

/// Decodes a message from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    message: Sparse<'a>,
    /// Decoder for the bytes from here up to the next hole.
    pub reader: Reader<'a>,
    /// Offset in the message at which the reader's bytes end.
    visible_end: usize,
}

impl Cursor<'_> {
    /// Returns the offset in the message of the next byte to decode.
    pub(crate) const fn offset(&self) -> usize {
        self.visible_end - self.reader.remaining()
    }

    /// Returns how many bytes of the message are left, including holes.
    pub(crate) const fn remaining(&self) -> usize {
        self.message.len.saturating_sub(self.offset())
    }

    /// Skips bytes, whether present or not.
    ///
    /// # Errors
    /// If the message is too short.
    pub(crate) fn skip(&mut self, len: usize) -> Result<(), DecodeError> {
        let left = self.remaining();
        if len > left {
            return Err(DecodeError::Truncated { needed: len, left });
        }
        let offset = self.offset() + len;
        let visible = self.message.bytes_from(offset);
        self.reader = Reader::new(visible);
        self.visible_end = offset + visible.len();
        Ok(())
    }

    /// Skips a counted payload and its padding, and returns its length.
    ///
    /// # Errors
    /// If the count is missing or exceeds the message.
    pub(crate) fn skip_payload(&mut self) -> Result<u32, DecodeError> {
        let len = self.reader.u32()?;
        self.skip(opaque_bytes(len as usize) - 4)?;
        Ok(len)
    }

    /// Returns true if bytes are missing, so that a decoding error may be due to a hole.
    pub(crate) const fn is_incomplete(&self) -> bool {
        !self.message.is_whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve bytes, of which 4 to 8 are missing.
    const HOLED: Sparse<'static> =
        Sparse { bytes: &[0, 0, 0, 1, 0, 0, 0, 3], holes: &[Hole { at: 4, len: 4 }], len: 12 };

    #[test]
    fn nothing_is_read_from_a_hole() {
        let mut cursor = HOLED.cursor();
        assert_eq!(cursor.reader.u32(), Ok(1));
        assert!(cursor.reader.u32().is_err());
        assert_eq!(cursor.offset(), 4);
        cursor.skip(4).unwrap();
        assert_eq!(cursor.reader.u32(), Ok(3));
        assert_eq!((cursor.offset(), cursor.remaining()), (12, 0));
        assert!(cursor.skip(1).is_err());
    }

    #[test]
    fn jumps_out_of_hole() {
        let mut cursor = HOLED.cursor();
        cursor.skip(6).unwrap();
        assert!(cursor.reader.u32().is_err());
        cursor.skip(2).unwrap();
        assert_eq!(cursor.reader.u32(), Ok(3));
    }

    #[test]
    fn skips_payload_with_padding() {
        let bytes = [0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 9];
        let mut cursor = Sparse::whole(&bytes).cursor();
        assert_eq!(cursor.skip_payload(), Ok(5));
        assert_eq!(cursor.reader.u32(), Ok(9));
        // If truncated within the payload, its length is known but not what follows.
        let mut cursor = Sparse::cut(&bytes[..6], 16).cursor();
        assert_eq!(cursor.skip_payload(), Ok(5));
        assert!(cursor.is_incomplete() && cursor.reader.u32().is_err());
        let mut cursor = Sparse::whole(&bytes[..6]).cursor();
        assert!(cursor.skip_payload().is_err());
    }
}
