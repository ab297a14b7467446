//! The small types of NFS v2: handles, times, the space of a file system.
//!
//! All are `Copy` and stored inline. **Source:** RFC 1094 sections 2.2.18, 2.3.3 and 2.3.4.

use crate::error::DecodeError;
use crate::nfs3;
use crate::wire::{Wire, wire_struct};
use crate::xdr::{Reader, Writer};

/// The server's opaque name of a file: always 32 bytes. **Source:** RFC 1094 section 2.3.3.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle(pub [u8; Self::BYTES]);

impl FileHandle {
    /// Bytes on the wire. **Source:** RFC 1094 section 2.3, FHSIZE.
    pub const BYTES: usize = 32;

    /// Copies a handle and pads it with zeros; `None` if it is longer than 32 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut handle = [0; Self::BYTES];
        handle.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self(handle))
    }

    /// Returns all 32 bytes.
    pub const fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Wire<'_> for FileHandle {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        <[u8; Self::BYTES]>::decode(reader).map(Self)
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

impl std::fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileHandle(")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

wire_struct! {
    /// An instant of the server's clock. **Source:** RFC 1094 section 2.3.4, timeval.
    #[derive(Hash, PartialOrd, Ord, Default)]
    pub struct Time {
        /// Seconds since 1970-01-01 UTC.
        seconds: u32,
        /// Microseconds within the second, below 1,000,000.
        micros: u32,
    }
}

impl From<Time> for nfs3::Time {
    fn from(time: Time) -> Self {
        Self { seconds: time.seconds, nanos: time.micros.saturating_mul(1000) }
    }
}

impl From<nfs3::Time> for Time {
    fn from(time: nfs3::Time) -> Self {
        Self { seconds: time.seconds, micros: time.nanos / 1000 }
    }
}

/// How a time is set.
///
/// A field of all ones leaves the time unchanged; a million microseconds, which is not a valid
/// time, means the server's clock. **Source:** RFC 1094 section 2.3.6; the latter is Sun's
/// convention, as in Linux fs/nfsd/nfsxdr.c, `svcxdr_decode_sattr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// Left unchanged.
    #[default]
    Keep,
    /// Set to the server's clock.
    Server,
    /// Set to this instant.
    Client(Time),
}

impl SetTime {
    const SERVER_MICROS: u32 = 1_000_000;
}

impl Wire<'_> for SetTime {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // Either word may be all ones: clients with a 16-bit heritage fill only one of the two.
        Ok(match Time::decode(reader)? {
            Time { seconds: u32::MAX, .. } | Time { micros: u32::MAX, .. } => Self::Keep,
            Time { micros: Self::SERVER_MICROS, .. } => Self::Server,
            time => Self::Client(time),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        let time = match *self {
            Self::Keep => Time { seconds: u32::MAX, micros: u32::MAX },
            Self::Server => Time { seconds: 0, micros: Self::SERVER_MICROS },
            Self::Client(time) => time,
        };
        time.encode(writer);
    }
}

impl From<SetTime> for nfs3::SetTime {
    fn from(time: SetTime) -> Self {
        match time {
            SetTime::Keep => Self::Keep,
            SetTime::Server => Self::Server,
            SetTime::Client(time) => Self::Client(time.into()),
        }
    }
}

impl From<nfs3::SetTime> for SetTime {
    fn from(time: nfs3::SetTime) -> Self {
        match time {
            nfs3::SetTime::Keep => Self::Keep,
            nfs3::SetTime::Server => Self::Server,
            nfs3::SetTime::Client(time) => Self::Client(time.into()),
        }
    }
}

wire_struct! {
    /// The space of a file system. **Source:** RFC 1094 section 2.2.18.
    #[derive(Default)]
    pub struct Statfs {
        /// The optimal size of a READ or WRITE, in bytes.
        transfer_bytes: u32,
        /// The size of a block, in bytes.
        block_bytes: u32,
        /// Total number of blocks.
        blocks: u32,
        /// Number of free blocks.
        free_blocks: u32,
        /// Free blocks that an ordinary user may use.
        available_blocks: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_time(seconds: u32, micros: u32) -> SetTime {
        let mut out = Vec::new();
        Time { seconds, micros }.encode(&mut Writer::new(&mut out));
        SetTime::decode(&mut Reader::new(&out)).unwrap()
    }

    #[test]
    fn pads_handle_with_zeros() {
        let handle = FileHandle::from_slice(&[7; 24]).unwrap();
        assert_eq!(handle.as_slice()[..24], [7; 24]);
        assert_eq!(handle.as_slice()[24..], [0; 8]);
        assert!(FileHandle::from_slice(&[7; 33]).is_none());
    }

    #[test]
    fn recognizes_special_set_times() {
        assert_eq!(set_time(u32::MAX, u32::MAX), SetTime::Keep);
        assert_eq!(set_time(u32::MAX, 5), SetTime::Keep);
        assert_eq!(set_time(5, u32::MAX), SetTime::Keep);
        assert_eq!(set_time(5, 1_000_000), SetTime::Server);
        assert_eq!(set_time(5, 999_999), SetTime::Client(Time { seconds: 5, micros: 999_999 }));
    }

    #[test]
    fn truncates_nanoseconds_to_microseconds() {
        let time = Time::from(nfs3::Time { seconds: 3, nanos: 123_456_789 });
        assert_eq!(time, Time { seconds: 3, micros: 123_456 });
        assert_eq!(nfs3::Time::from(time), nfs3::Time { seconds: 3, nanos: 123_456_000 });
    }
}
