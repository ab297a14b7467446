//! MOUNT v1 and v3: the mapping from paths to roots.
//!
//! **Source:** RFC 1094 appendix A, RFC 1813 section 5.

use nfs_proto::DecodeError;
use nfs_proto::limits::{MOUNT_PATH_BYTES_MAX, V3_FILE_HANDLE_BYTES_MAX};
use nfs_proto::nfs2;

use super::Context;
use crate::record::{Op, Version};
use crate::sparse::Cursor;

/// Procedure numbers of MNT and UMNT.
const MNT: u8 = 1;
const UMNT: u8 = 3;
/// File type of a directory.
const DIRECTORY: u8 = 2;

/// Reads the arguments of a call.
pub(crate) fn call(
    op: &mut Op,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    if op.kind == MNT || op.kind == UMNT {
        op.name = context.name(cursor.reader.opaque(MOUNT_PATH_BYTES_MAX)?);
    }
    Ok(())
}

/// Reads the results of a call.
pub(crate) fn reply(
    op: &mut Op,
    version: Version,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    if op.kind != MNT {
        op.status = Some(0);
        return Ok(());
    }
    let reader = &mut cursor.reader;
    let status = reader.u32()?;
    op.status = Some(status);
    if status == 0 {
        let handle = if version == Version::Mount1 {
            reader.fixed(nfs2::FileHandle::BYTES)?
        } else {
            reader.opaque(V3_FILE_HANDLE_BYTES_MAX as u32)?
        };
        op.result = context.root(handle);
        op.file_type = DIRECTORY;
    }
    Ok(())
}
