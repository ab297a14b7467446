//! The small types of NFS v3: handles, times, file types, verifiers.
//!
//! All are `Copy` and held inline. **Source:** RFC 1813 sections 2.4 to 2.6.

use crate::error::DecodeError;
use crate::limits::{FILE_HANDLE_BYTES_MAX, V3_FILE_HANDLE_BYTES_MAX};
use crate::xdr::{Reader, Writer};

/// The server's opaque name of a file, 0 to 128 bytes, held inline; v3 allows 64 of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    bytes: [u8; FILE_HANDLE_BYTES_MAX],
    len: u8,
}

impl FileHandle {
    /// Copies a handle, or returns `None` when it is longer than 128 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut handle = Self { bytes: [0; FILE_HANDLE_BYTES_MAX], len: bytes.len() as u8 };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// Returns the handle's bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// Reads a handle of v3.
    ///
    /// # Errors
    /// [`DecodeError`] when it is longer than 64 bytes or not all there.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::decode_up_to(reader, V3_FILE_HANDLE_BYTES_MAX)
    }

    /// Reads a counted handle of at most `max` bytes, the limit of the version that is spoken.
    ///
    /// # Errors
    /// [`DecodeError`] when it is longer or not all there.
    pub fn decode_up_to(reader: &mut Reader<'_>, max: usize) -> Result<Self, DecodeError> {
        let bytes = reader.opaque(max.min(FILE_HANDLE_BYTES_MAX) as u32)?;
        let mut handle = Self { bytes: [0; FILE_HANDLE_BYTES_MAX], len: bytes.len() as u8 };
        handle.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(handle)
    }

    /// Appends the handle.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.as_slice());
    }
}

/// A handle lends its bytes wherever bytes are expected, as in a call.
impl std::ops::Deref for FileHandle {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Reads a handle of v3 and leaves it where it was received.
///
/// # Errors
/// [`DecodeError`] when it is longer than 64 bytes or not all there.
#[inline]
pub(super) fn decode_handle<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    reader.opaque(V3_FILE_HANDLE_BYTES_MAX as u32)
}

impl std::fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileHandle(")?;
        for byte in self.as_slice() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// Eight opaque bytes: of writes, of exclusive creation, of directory cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Verifier(pub [u8; 8]);

impl Verifier {
    /// Reads a verifier.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when it is not all there.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.array::<8>().map(|bytes| Self(*bytes))
    }

    /// Appends the verifier.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.raw(&self.0);
    }
}

/// An instant of the server's clock. **Source:** RFC 1813 section 2.6, nfstime3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: u32,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

impl Time {
    /// Reads an instant.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when it is not all there.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seconds: reader.u32()?, nanos: reader.u32()? })
    }

    /// Appends the instant.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.seconds);
        writer.u32(self.nanos);
    }
}

/// The kind of object that a handle names. **Source:** RFC 1813 section 2.6, ftype3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileType {
    /// A regular file.
    Regular = 1,
    /// A directory with entries.
    Directory = 2,
    /// A block device.
    Block = 3,
    /// A character device.
    Character = 4,
    /// A symbolic link.
    Symlink = 5,
    /// A socket of the local domain.
    Socket = 6,
    /// A named pipe.
    Fifo = 7,
}

impl FileType {
    /// Returns the type of this number.
    ///
    /// # Errors
    /// [`DecodeError::BadValue`] when the RFC defines no such type.
    pub const fn from_number(number: u32) -> Result<Self, DecodeError> {
        Ok(match number {
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::Block,
            4 => Self::Character,
            5 => Self::Symlink,
            6 => Self::Socket,
            7 => Self::Fifo,
            value => return Err(DecodeError::BadValue { what: "file type", value }),
        })
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// How durable a WRITE is queried to be, or was made. **Source:** RFC 1813 section 3.3.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum StableHow {
    /// May stay in memory until a COMMIT.
    Unstable = 0,
    /// Data is durable.
    DataSync = 1,
    /// Data and metadata are durable.
    FileSync = 2,
}

impl StableHow {
    /// Reads a stability level.
    ///
    /// # Errors
    /// [`DecodeError`] when it is not there or not one of the three.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u32()? {
            0 => Ok(Self::Unstable),
            1 => Ok(Self::DataSync),
            2 => Ok(Self::FileSync),
            value => Err(DecodeError::BadValue { what: "stable_how", value }),
        }
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// Major and minor number of a device. **Source:** RFC 1813 section 2.6, specdata3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Device {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_at_most_128_bytes_and_64_in_v3() {
        assert!(FileHandle::from_slice(&[1; 129]).is_none());
        let handle = FileHandle::from_slice(&[1; 128]).unwrap();
        assert_eq!(handle.as_slice(), [1; 128]);
        let mut wire = vec![0, 0, 0, 65];
        wire.extend([0; 68]);
        let error = FileHandle::decode(&mut Reader::new(&wire)).unwrap_err();
        assert_eq!(error, DecodeError::TooLong { len: 65, max: 64 });
        let handle = FileHandle::decode_up_to(&mut Reader::new(&wire), 128).unwrap();
        assert_eq!(handle.as_slice(), [0; 65]);
    }

    #[test]
    fn a_handle_prints_as_hexadecimal() {
        let handle = FileHandle::from_slice(&[0xca, 0xfe]).unwrap();
        assert_eq!(format!("{handle:?}"), "FileHandle(cafe)");
    }
}
