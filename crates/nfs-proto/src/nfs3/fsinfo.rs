//! Results of FSSTAT, FSINFO and PATHCONF about a file system.
//!
//! **Source:** RFC 1813 sections 3.3.18 to 3.3.20.

use super::types::Time;
use crate::wire::wire_struct;

wire_struct! {
    /// The space of a file system. **Source:** RFC 1813 section 3.3.18.
    #[derive(Default)]
    pub struct Fsstat {
        /// Total size in bytes.
        total_bytes: u64,
        /// Number of free bytes.
        free_bytes: u64,
        /// Free bytes the caller may use.
        available_bytes: u64,
        /// Total number of files.
        total_files: u64,
        /// Free file slots.
        free_files: u64,
        /// Free file slots the caller may use.
        available_files: u64,
        /// Number of seconds for which this is not expected to change.
        invariant_seconds: u32,
    }
}

wire_struct! {
    /// The limits of a file system. **Source:** RFC 1813 section 3.3.19.
    #[derive(Default)]
    pub struct Fsinfo {
        /// Largest READ, in bytes.
        read_bytes_max: u32,
        /// Preferred READ, in bytes.
        read_bytes_preferred: u32,
        /// READ sizes should be a multiple of this, in bytes.
        read_bytes_multiple: u32,
        /// Largest WRITE, in bytes.
        write_bytes_max: u32,
        /// Preferred WRITE, in bytes.
        write_bytes_preferred: u32,
        /// WRITE sizes should be a multiple of this, in bytes.
        write_bytes_multiple: u32,
        /// Preferred READDIR, in bytes.
        directory_bytes_preferred: u32,
        /// Largest file, in bytes.
        file_bytes_max: u64,
        /// Granularity of the server's times.
        time_delta: Time,
        /// Bits of [`Fsinfo::LINK`] and its neighbors.
        properties: u32,
    }
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
}

wire_struct! {
    /// POSIX limits of a file system. **Source:** RFC 1813 section 3.3.20.
    #[derive(Default)]
    pub struct Pathconf {
        /// Maximum number of links to a file.
        links_max: u32,
        /// Longest name, in bytes.
        name_bytes_max: u32,
        /// Longer names are refused, not truncated.
        no_truncation: bool,
        /// Only a privileged user may change owners.
        chown_restricted: bool,
        /// Names that differ only in case are the same.
        case_insensitive: bool,
        /// The case of names is preserved.
        case_preserving: bool,
    }
}
