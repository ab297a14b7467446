//! Between the words of the file system and those of NFS v2.
//!
//! **Source:** RFC 1094 section 2.3.

use nfs_proto::Status;
use nfs_proto::nfs2::{FILE_BYTES_MAX, Fattr, FileHandle};

use crate::fs::{Attributes, FileKind, FileSystem, HANDLE_BYTES, InodeId};
use crate::service::convert;

/// Turns attributes into `fattr`.
///
/// # Errors
/// NFSERR_FBIG of a file whose size this version can't say.
pub(super) fn wire_attributes(found: &Attributes) -> Result<Fattr, Status> {
    if found.kind == FileKind::Regular && found.size > u64::from(FILE_BYTES_MAX) {
        return Err(Status::FBig);
    }
    Ok(Fattr::from(&convert::fattr(found)))
}

/// Makes the handle of an inode: that of the other versions and zeros.
pub(super) fn handle(fs: &FileSystem, id: InodeId) -> FileHandle {
    FileHandle::from_slice(&fs.handle(id)).expect("our handles are shorter than 32 bytes")
}

/// Takes the handle of the other versions out of one of this. One that does not end in zeros was
/// never ours: it is returned whole, and its length alone makes it a bad handle.
pub(super) fn handle_bytes(file: &FileHandle) -> &[u8] {
    let (bytes, zeros) = file.as_slice().split_at(HANDLE_BYTES);
    if zeros.iter().all(|byte| *byte == 0) { bytes } else { file.as_slice() }
}

/// Turns a failure into a number that this version defines: it knows fewer than the others.
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
