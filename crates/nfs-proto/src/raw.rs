//! Bytes over a stream without RPC, to measure what the network and TCP can do by themselves.
//!
//! A connection whose first word is [`MAGIC`] with a kind is one of these. Each request is a
//! [`Frame`]: empty, with `len` bytes to the server, or asking for `len` bytes from it; it is
//! answered by a frame with the same tag, in order. Nothing is looked up, checked or stored, so
//! moving the same bytes in the same steps as READ and WRITE costs only what the stream costs. It
//! can't be mistaken for RPC: as a record mark the word announces 1.6 GiB, beyond every limit.

use crate::limits::RECORD_BYTES_MAX;

/// Size of a frame in bytes.
pub const FRAME_BYTES: usize = 16;

/// Maximum number of bytes after one frame.
pub const RAW_BYTES_MAX: u32 = 16 << 20;

/// The first three bytes of each frame; the fourth is its kind.
pub const MAGIC: u32 = 0x6466_7300;

const _: () = assert!(MAGIC as usize > RECORD_BYTES_MAX);

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request for an empty answer.
    Ping,
    /// Bytes follow the request.
    Put,
    /// Bytes follow the answer.
    Get,
}

impl Kind {
    const fn number(self) -> u32 {
        match self {
            Self::Ping => 1,
            Self::Put => 2,
            Self::Get => 3,
        }
    }
}

/// A request or an answer, without the bytes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the frame.
    pub kind: Kind,
    /// Number of bytes after it, or after its answer.
    pub len: u32,
    /// Tag that the answer repeats.
    pub tag: u64,
}

/// Error: the bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the received bytes are not a frame")]
pub struct NoFrame;

impl Frame {
    /// Encodes the frame.
    pub fn to_bytes(self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        bytes[..4].copy_from_slice(&(MAGIC | self.kind.number()).to_be_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_be_bytes());
        bytes[8..].copy_from_slice(&self.tag.to_be_bytes());
        bytes
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// If it is not one, or announces more than [`RAW_BYTES_MAX`].
    pub fn from_bytes(bytes: [u8; FRAME_BYTES]) -> Result<Self, NoFrame> {
        // The sixteen bytes are read as one integer: shifts extract kind, length and tag.
        let whole = u128::from_be_bytes(bytes);
        let word = (whole >> 96) as u32;
        let len = (whole >> 64) as u32;
        let tag = whole as u64;
        let kinds = [Kind::Ping, Kind::Put, Kind::Get];
        let kind = kinds.into_iter().find(|kind| word == MAGIC | kind.number()).ok_or(NoFrame)?;
        let fits = len <= RAW_BYTES_MAX && (kind != Kind::Ping || len == 0);
        if fits { Ok(Self { kind, len, tag }) } else { Err(NoFrame) }
    }

    /// Returns true if a connection that starts with these bytes uses frames.
    pub fn begins(bytes: &[u8]) -> bool {
        let head = MAGIC.to_be_bytes();
        bytes.len() >= 4 && bytes[..3] == head[..3] && (1..=3).contains(&bytes[3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were() {
        for kind in [Kind::Ping, Kind::Put, Kind::Get] {
            let len = if kind == Kind::Ping { 0 } else { RAW_BYTES_MAX };
            let frame = Frame { kind, len, tag: u64::MAX - 7 };
            let bytes = frame.to_bytes();
            assert_eq!(Frame::from_bytes(bytes), Ok(frame));
            assert!(Frame::begins(&bytes) && !Frame::begins(&bytes[..3]));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let good = Frame { kind: Kind::Put, len: 1, tag: 0 }.to_bytes();
        for (at, value) in [(0, 0x80), (3, 0), (3, 4), (4, 0x80)] {
            let mut bytes = good;
            bytes[at] = value;
            assert_eq!(Frame::from_bytes(bytes), Err(NoFrame), "byte {at}");
        }
        let ping = Frame { kind: Kind::Ping, len: 1, tag: 0 }.to_bytes();
        assert_eq!(Frame::from_bytes(ping), Err(NoFrame));
        // An RPC record mark, as at the start of a call.
        assert!(!Frame::begins(&[0x80, 0, 0, 40]));
    }
}
