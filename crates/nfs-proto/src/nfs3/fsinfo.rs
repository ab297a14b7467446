//! Results of FSSTAT, FSINFO and PATHCONF about a file system.
//!
//! **Source:** RFC 1813 sections 3.3.18 to 3.3.20.

use super::types::Time;
use crate::error::DecodeError;
use crate::xdr::{Reader, Writer};

/// The fill state of a file system. **Source:** RFC 1813 section 3.3.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fsstat {
    /// Total size in bytes.
    pub total_bytes: u64,
    /// Number of free bytes.
    pub free_bytes: u64,
    /// Free bytes the caller may use.
    pub available_bytes: u64,
    /// Total number of files.
    pub total_files: u64,
    /// Free file slots.
    pub free_files: u64,
    /// Free file slots the caller may use.
    pub available_files: u64,
    /// Seconds for which this is not expected to change.
    pub invariant_seconds: u32,
}

impl Fsstat {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            total_bytes: reader.u64()?,
            free_bytes: reader.u64()?,
            available_bytes: reader.u64()?,
            total_files: reader.u64()?,
            free_files: reader.u64()?,
            available_files: reader.u64()?,
            invariant_seconds: reader.u32()?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        let bytes = [self.total_bytes, self.free_bytes, self.available_bytes];
        let files = [self.total_files, self.free_files, self.available_files];
        for value in bytes.into_iter().chain(files) {
            writer.u64(value);
        }
        writer.u32(self.invariant_seconds);
    }
}

/// The limits of a file system. **Source:** RFC 1813 section 3.3.19.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fsinfo {
    /// Largest READ, in bytes.
    pub read_bytes_max: u32,
    /// Preferred READ, in bytes.
    pub read_bytes_preferred: u32,
    /// READ sizes should be a multiple of this, in bytes.
    pub read_bytes_multiple: u32,
    /// Largest WRITE, in bytes.
    pub write_bytes_max: u32,
    /// Preferred WRITE, in bytes.
    pub write_bytes_preferred: u32,
    /// WRITE sizes should be a multiple of this, in bytes.
    pub write_bytes_multiple: u32,
    /// Preferred READDIR, in bytes.
    pub directory_bytes_preferred: u32,
    /// Largest file, in bytes.
    pub file_bytes_max: u64,
    /// Granularity of the server's times.
    pub time_delta: Time,
    /// Bits of [`Fsinfo::LINK`] and its neighbours.
    pub properties: u32,
}

impl Fsinfo {
    /// Hard links are supported.
    pub const LINK: u32 = 0x01;
    /// Symbolic links are supported.
    pub const SYMLINK: u32 = 0x02;
    /// PATHCONF is the same for every file.
    pub const HOMOGENEOUS: u32 = 0x08;
    /// SETATTR can set times.
    pub const CAN_SET_TIME: u32 = 0x10;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            read_bytes_max: reader.u32()?,
            read_bytes_preferred: reader.u32()?,
            read_bytes_multiple: reader.u32()?,
            write_bytes_max: reader.u32()?,
            write_bytes_preferred: reader.u32()?,
            write_bytes_multiple: reader.u32()?,
            directory_bytes_preferred: reader.u32()?,
            file_bytes_max: reader.u64()?,
            time_delta: Time::decode(reader)?,
            properties: reader.u32()?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        let read = [self.read_bytes_max, self.read_bytes_preferred, self.read_bytes_multiple];
        let write = [self.write_bytes_max, self.write_bytes_preferred, self.write_bytes_multiple];
        for value in read.into_iter().chain(write) {
            writer.u32(value);
        }
        writer.u32(self.directory_bytes_preferred);
        writer.u64(self.file_bytes_max);
        self.time_delta.encode(writer);
        writer.u32(self.properties);
    }
}

/// POSIX limits of a file system. **Source:** RFC 1813 section 3.3.20.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the RFC defines four booleans")]
pub struct Pathconf {
    /// Most names a file can have.
    pub links_max: u32,
    /// Longest name, in bytes.
    pub name_bytes_max: u32,
    /// Longer names are refused, not cut.
    pub no_truncation: bool,
    /// Only a privileged user changes owners.
    pub chown_restricted: bool,
    /// Names differ only in case are the same.
    pub case_insensitive: bool,
    /// The case of a name is kept.
    pub case_preserving: bool,
}

impl Pathconf {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            links_max: reader.u32()?,
            name_bytes_max: reader.u32()?,
            no_truncation: reader.bool("no_trunc")?,
            chown_restricted: reader.bool("chown_restricted")?,
            case_insensitive: reader.bool("case_insensitive")?,
            case_preserving: reader.bool("case_preserving")?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.links_max);
        writer.u32(self.name_bytes_max);
        writer.bool(self.no_truncation);
        writer.bool(self.chown_restricted);
        writer.bool(self.case_insensitive);
        writer.bool(self.case_preserving);
    }
}
