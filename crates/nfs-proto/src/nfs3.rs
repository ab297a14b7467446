//! NFS version 3: all 22 procedures, calls and replies, in both directions.
//!
//! [`Call`] and [`Reply`] are views: names, link targets, payloads and directory entries are not
//! copied. [`Procedure`] is the procedure number. WRITE calls and READ replies can be encoded
//! without their payload, which is then sent as a separate vector element. **Source:** RFC 1813.

mod attributes;
mod call;
mod directory;
mod fsinfo;
mod procedure;
mod reply;
mod types;

pub use crate::status::Status;
pub use attributes::{Fattr, Sattr, SetTime, WccAttr, WccData};
pub use call::{Call, CreateHow, MknodWhat, encode_write_header};
pub use directory::{
    Entries, EntriesPlus, Entry, EntryPlus, Iter, IterPlus, page_of, page_plus_of,
};
pub use fsinfo::{Fsinfo, Fsstat, Pathconf};
pub use procedure::Procedure;
pub use reply::{
    Created, Listing, ListingPlus, Object, ReadOk, Reply, WriteOk, encode_read_header,
};
pub use types::{Device, FileHandle, FileType, StableHow, Time, Verifier};

/// The program number of NFS. **Source:** RFC 1813 section 2.1.
pub const PROGRAM: u32 = 100_003;
/// The version of NFS in this module. **Source:** RFC 1813 section 2.1.
pub const VERSION: u32 = 3;
/// The port of NFS if the portmapper is not queried. **Source:** RFC 1813 section 2.1.
pub const PORT: u16 = 2049;

/// Bits of an ACCESS call and reply. **Source:** RFC 1813 section 3.3.4.
pub mod access {
    /// Read a file or list a directory.
    pub const READ: u32 = 0x01;
    /// Look up a name in a directory.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite existing data or entries.
    pub const MODIFY: u32 = 0x04;
    /// Write new data or add entries.
    pub const EXTEND: u32 = 0x08;
    /// Delete an entry.
    pub const DELETE: u32 = 0x10;
    /// Execute a file.
    pub const EXECUTE: u32 = 0x20;
}
