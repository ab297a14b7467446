//! Conversions between the types of the file system and those of NFS v2.
//!
//! **Source:** RFC 1094 section 2.3.

use nfs_proto::Status;
use nfs_proto::nfs2::{FILE_BYTES_MAX, Fattr, FileHandle};

use crate::fs::{Attributes, FileKind, FileSystem, HANDLE_BYTES, InodeId};
use crate::service::convert;

/// Converts attributes to `fattr`.
///
/// # Errors
/// NFSERR_FBIG if the file's size does not fit into this version.
pub(super) fn wire_attributes(found: &Attributes) -> Result<Fattr, Status> {
    if found.kind == FileKind::Regular && found.size > u64::from(FILE_BYTES_MAX) {
        return Err(Status::FBig);
    }
    Ok(Fattr::from(&convert::fattr(found)))
}

/// Creates the handle of an inode: that of the other versions, padded with zeros.
pub(super) fn handle(fs: &FileSystem, id: InodeId) -> FileHandle {
    FileHandle::from_slice(&fs.handle(id)).expect("our handles have at most 32 bytes")
}

/// Extracts the handle of the other versions from a v2 handle. If it does not end in zeros, it was
/// never ours: then all of it is returned, and its length makes it a bad handle.
pub(super) fn handle_bytes(file: &FileHandle) -> &[u8] {
    let (bytes, zeros) = file.as_slice().split_at(HANDLE_BYTES);
    if zeros.iter().all(|byte| *byte == 0) { bytes } else { file.as_slice() }
}

/// Converts an error to a number that v2 defines: it has fewer than the others.
pub(super) fn v2_status(status: Status) -> Status {
    match status {
        Status::BadHandle => Status::Stale,
        Status::XDev
        | Status::Inval
        | Status::MLink
        | Status::NotSync
        | Status::BadCookie
        | Status::NotSupp
        | Status::TooSmall
        | Status::BadType => Status::Io,
        status => status,
    }
}

const _: () = assert!(HANDLE_BYTES <= FileHandle::BYTES);
