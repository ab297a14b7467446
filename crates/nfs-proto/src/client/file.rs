//! File identifiers for all NFS versions.
//!
//! [`File`] is a handle and, in version 4, the stateid of an open; both are opaque, `Copy` and
//! stored inline. Handles have 32 bytes in version 2, up to 64 in version 3, up to 128 in version
//! 4. **Source:** RFC 1094 section 2.3.3, RFC 1813 section 2.4, RFC 8881 sections 2.2 and 3.3.12.

use crate::nfs2;
use crate::nfs3::FileHandle;

pub use crate::nfs4::Stateid;

/// A file: its handle and the open used for data.
///
/// In versions 2 and 3 the stateid is the default one and is not sent. In version 4 the default
/// one, all zeros, is the anonymous stateid: it allows I/O without an open if the server permits
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct File {
    /// Handle of the file.
    pub handle: FileHandle,
    /// The open, in version 4.
    pub stateid: Stateid,
    /// The number of the owner for which the connection opened it, in version 4.
    pub owner: u32,
}

impl From<FileHandle> for File {
    fn from(handle: FileHandle) -> Self {
        Self { handle, stateid: Stateid::default(), owner: 0 }
    }
}

impl From<nfs2::FileHandle> for File {
    fn from(handle: nfs2::FileHandle) -> Self {
        FileHandle::from_slice(handle.as_slice()).expect("32 bytes fit into 128").into()
    }
}
