//! Bytes over a stream without RPC: what the network and TCP alone can do.
//!
//! A connection whose first word is [`MAGIC`] with a kind is one of these. Each request is a
//! [`Frame`]: nothing, `len` bytes to the server, or `len` bytes wanted from it; it is answered by
//! a frame with the same tag, in order. Nothing is looked up, checked or kept, so the same bytes in
//! the same steps as those of READ and WRITE cost what the stream costs, and nothing else. No RPC
//! can be mistaken for it: as a record mark the word announces 1.6 GiB, beyond every limit.

use crate::limits::RECORD_BYTES_MAX;

/// Bytes of a frame.
pub const FRAME_BYTES: usize = 16;

/// Most bytes behind one frame.
pub const RAW_BYTES_MAX: u32 = 16 << 20;

/// The first three bytes of each frame; the fourth is its kind.
pub const MAGIC: u32 = 0x6466_7300;

const _: () = assert!(MAGIC as usize > RECORD_BYTES_MAX);

/// The meaning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request for an answer and nothing else.
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

/// A request or an answer, without the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Meaning of the frame.
    pub kind: Kind,
    /// Bytes that follow it, or its answer.
    pub len: u32,
    /// Tag that the answer repeats.
    pub tag: u64,
}

/// The error that bytes are no frame.
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
    /// When it is none, or announces more than [`RAW_BYTES_MAX`].
    pub fn from_bytes(bytes: [u8; FRAME_BYTES]) -> Result<Self, NoFrame> {
        // Sixteen bytes are one integer: kind, length and tag are cut out of it by shifts.
        let whole = u128::from_be_bytes(bytes);
        let (word, len, tag) = ((whole >> 96) as u32, (whole >> 64) as u32, whole as u64);
        let kinds = [Kind::Ping, Kind::Put, Kind::Get];
        let kind = kinds.into_iter().find(|kind| word == MAGIC | kind.number()).ok_or(NoFrame)?;
        let fits = len <= RAW_BYTES_MAX && (kind != Kind::Ping || len == 0);
        if fits { Ok(Self { kind, len, tag }) } else { Err(NoFrame) }
    }

    /// Says whether a connection that begins with these bytes is one of frames.
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
        // A record mark of RPC, as calls begin.
        assert!(!Frame::begins(&[0x80, 0, 0, 40]));
    }
}
