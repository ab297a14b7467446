//! NFS v2: arguments and results, field by field.
//!
//! **Source:** RFC 1094 sections 2.2.1 to 2.2.18.

use nfs_proto::nfs2::{Fattr, FileHandle, Procedure, Sattr};
use nfs_proto::wire::Wire;
use nfs_proto::xdr::Reader;
use nfs_proto::{DecodeError, nfs3};

use super::{Context, NAME_BYTES_MAX, note_attributes};
use crate::record::{Op, op_flag};
use crate::sparse::Cursor;

/// Reads the arguments of a call.
pub(crate) fn call(
    op: &mut Op,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    let Some(procedure) = Procedure::from_number(op.kind.into()) else { return Ok(()) };
    let reader = &mut cursor.reader;
    if matches!(procedure, Procedure::Null | Procedure::Root | Procedure::Writecache) {
        return Ok(());
    }
    op.file = read_file(reader, context)?;
    match procedure {
        Procedure::Setattr => set_size(op, reader)?,
        Procedure::Lookup | Procedure::Remove | Procedure::Rmdir | Procedure::Mkdir => {
            op.name = context.read_name(reader)?;
        }
        Procedure::Read | Procedure::Readdir => {
            op.offset = reader.u32()?.into();
            op.length = reader.u32()?.into();
        }
        Procedure::Write => {
            // The initial offset and the total count are unused: RFC 1094 section 2.2.9.
            reader.u32()?;
            op.offset = reader.u32()?.into();
            reader.u32()?;
            op.length = cursor.skip_payload()?.into();
        }
        Procedure::Create => {
            op.name = context.read_name(reader)?;
            op.flags |= op_flag::CREATES;
            set_size(op, reader)?;
        }
        Procedure::Symlink => {
            op.name = context.read_name(reader)?;
            op.length = reader.opaque(NAME_BYTES_MAX)?.len() as u64;
        }
        Procedure::Rename => {
            op.name = context.read_name(reader)?;
            op.other = read_file(reader, context)?;
            op.other_name = context.read_name(reader)?;
        }
        Procedure::Link => {
            op.other = read_file(reader, context)?;
            op.name = context.read_name(reader)?;
        }
        _ => {}
    }
    Ok(())
}

/// Reads the results of a call.
pub(crate) fn reply(
    op: &mut Op,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    let Some(procedure) = Procedure::from_number(op.kind.into()) else { return Ok(()) };
    if matches!(procedure, Procedure::Null | Procedure::Root | Procedure::Writecache) {
        op.status = Some(0);
        return Ok(());
    }
    let reader = &mut cursor.reader;
    let status = reader.u32()?;
    op.status = Some(status);
    if status != 0 {
        return Ok(());
    }
    match procedure {
        Procedure::Getattr | Procedure::Setattr => read_attributes(op, reader)?,
        Procedure::Write => {
            // The reply has no count: either all of the data was written, or the call failed.
            op.count = op.length;
            read_attributes(op, reader)?;
        }
        Procedure::Lookup | Procedure::Create | Procedure::Mkdir => {
            op.result = read_file(reader, context)?;
            read_attributes(op, reader)?;
        }
        Procedure::Read => {
            read_attributes(op, reader)?;
            op.count = reader.u32()?.into();
            if op.size.is_some_and(|size| op.offset.saturating_add(op.count) >= size) {
                op.flags |= op_flag::EOF;
            }
        }
        Procedure::Readlink => op.count = reader.u32()?.into(),
        Procedure::Readdir => {
            while reader.bool("entry_follows")? {
                // The file ID, the name, and a cookie of four bytes.
                reader.u32()?;
                reader.opaque(NAME_BYTES_MAX)?;
                reader.u32()?;
                op.count += 1;
            }
            if reader.bool("eof")? {
                op.flags |= op_flag::EOF;
            }
        }
        _ => {}
    }
    Ok(())
}

fn read_file(reader: &mut Reader<'_>, context: &mut Context) -> Result<u32, DecodeError> {
    Ok(context.file(reader.fixed(FileHandle::BYTES)?))
}

fn set_size(op: &mut Op, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    if let Some(size) = Sattr::decode(reader)?.size {
        op.length = size.into();
        op.flags |= op_flag::SETS_SIZE;
    }
    Ok(())
}

fn read_attributes(op: &mut Op, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let attributes = Fattr::decode(reader)?;
    note_attributes(op, Some(&nfs3::Fattr::from(&attributes)));
    Ok(())
}
