//! NFS version 2: all 18 procedures, calls and replies, in both directions.
//!
//! [`Call`] and [`Reply`] are views, like those of [`crate::nfs3`]. Handles have 32 bytes, offsets
//! and sizes 32 bits, and a transfer at most 8192 bytes; attributes convert to and from those of
//! version 3. WRITE calls and READ replies can be encoded without their payload, and
//! [`decode_read_head`] finds the payload in an incomplete reply. **Source:** RFC 1094.

mod attributes;
mod call;
mod directory;
mod procedure;
mod reply;
mod types;

pub use attributes::{Fattr, Sattr};
pub use call::{Call, WriteHead, encode_write_header};
pub use directory::{Entries, Entry, Iter, page_of};
pub use procedure::Procedure;
pub use reply::{Listing, Object, ReadHead, ReadOk, Reply, decode_read_head, encode_read_header};
pub use types::{FileHandle, SetTime, Statfs, Time};

/// The program number of NFS. **Source:** RFC 1094 section 2.1.
pub const PROGRAM: u32 = crate::nfs3::PROGRAM;
/// The version of NFS in this module. **Source:** RFC 1094 section 2.1.
pub const VERSION: u32 = 2;
/// Largest file a v2 client can address, in bytes: offsets and sizes stay below the sign bit, since
/// implementations differ on it. **Source:** Linux include/linux/nfs_fs.h, `NFS_OFFSET_MAX` for
/// version 2.
pub const FILE_BYTES_MAX: u32 = i32::MAX as u32;
