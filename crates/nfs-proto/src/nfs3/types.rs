//! The small types of NFS v3: handles, times, file types, verifiers.
//!
//! All are `Copy` and stored inline. **Source:** RFC 1813 sections 2.4 to 2.6.

use crate::error::DecodeError;
use crate::limits::{FILE_HANDLE_BYTES_MAX, V3_FILE_HANDLE_BYTES_MAX};
use crate::wire::{BoundedWire, Wire, wire_enum, wire_struct};
use crate::xdr::{Reader, Writer};

/// Longest handle of v3, as the type of lengths in messages.
pub(super) const HANDLE_MAX: u32 = V3_FILE_HANDLE_BYTES_MAX as u32;

/// The server's opaque file handle, 0 to 128 bytes, stored inline; v3 allows up to 64.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    bytes: [u8; FILE_HANDLE_BYTES_MAX],
    len: u8,
}

impl FileHandle {
    /// Copies a handle, or returns `None` if it is longer than 128 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut handle = Self { bytes: [0; FILE_HANDLE_BYTES_MAX], len: bytes.len() as u8 };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// Returns the handle's bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

// A handle is copied out of the message into 128 bytes inline, since it outlives the reply in
// tables of files, and a heap allocation for each would be in the measured loop.
impl Wire<'_> for FileHandle {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::decode_up_to(reader, FILE_HANDLE_BYTES_MAX as u32)
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.as_slice());
    }
}

impl BoundedWire<'_> for FileHandle {
    #[inline]
    fn decode_up_to(reader: &mut Reader<'_>, max: u32) -> Result<Self, DecodeError> {
        let bytes = reader.opaque(max.min(FILE_HANDLE_BYTES_MAX as u32))?;
        let mut handle = Self { bytes: [0; FILE_HANDLE_BYTES_MAX], len: bytes.len() as u8 };
        handle.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(handle)
    }
}

/// Dereferences to the bytes, so that a handle can be used in a call.
impl std::ops::Deref for FileHandle {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
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

impl Wire<'_> for Verifier {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Wire::decode(reader).map(Self)
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

wire_struct! {
    /// An instant of the server's clock. **Source:** RFC 1813 section 2.6, nfstime3.
    #[derive(Hash, PartialOrd, Ord, Default)]
    pub struct Time {
        /// Seconds since 1970-01-01 UTC.
        seconds: u32,
        /// Nanoseconds within the second, below 1,000,000,000.
        nanos: u32,
    }
}

wire_enum! {
    /// The kind of object behind a handle. **Source:** RFC 1813 section 2.6, ftype3. The named
    /// attributes of v4 and their directory (8 and 9) are not supported here.
    pub enum FileType("file type") {
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
        /// A local socket.
        Socket = 6,
        /// A named pipe.
        Fifo = 7,
    }
}

wire_enum! {
    /// The stability requested for a WRITE, or achieved. **Source:** RFC 1813 section 3.3.7.
    pub enum StableHow("stable_how") {
        /// May stay in memory until a COMMIT.
        Unstable = 0,
        /// Data is durable.
        DataSync = 1,
        /// Data and metadata are durable.
        FileSync = 2,
    }
}

wire_struct! {
    /// Major and minor number of a device. **Source:** RFC 1813 section 2.6, specdata3.
    #[derive(Hash, Default)]
    pub struct Device {
        /// Major number of the device.
        major: u32,
        /// Minor number of the device.
        minor: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_handle_length_by_version() {
        assert!(FileHandle::from_slice(&[1; 129]).is_none());
        let handle = FileHandle::from_slice(&[1; 128]).unwrap();
        assert_eq!(handle.as_slice(), [1; 128]);
        let mut wire = vec![0, 0, 0, 65];
        wire.extend([0; 68]);
        let error = FileHandle::decode_up_to(&mut Reader::new(&wire), HANDLE_MAX).unwrap_err();
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
