//! NFS v3: arguments and results, field by field.
//!
//! **Source:** RFC 1813 sections 3.3.0 to 3.3.21.

use nfs_proto::DecodeError;
use nfs_proto::limits::V3_FILE_HANDLE_BYTES_MAX;
use nfs_proto::nfs3::{Entry, EntryPlus, Fattr, FileHandle, Procedure, Sattr, WccData};
use nfs_proto::wire::Wire;
use nfs_proto::xdr::Reader;

use super::{Context, ListedEntry, NAME_BYTES_MAX, note_attributes};
use crate::record::{Op, op_flag};
use crate::sparse::Cursor;

const HANDLE_MAX: u32 = V3_FILE_HANDLE_BYTES_MAX as u32;
/// CREATE that must not find the name, with a verifier instead of attributes.
const EXCLUSIVE: u32 = 2;

/// Reads the arguments of a call.
pub(crate) fn call(
    op: &mut Op,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    let Some(procedure) = Procedure::from_number(op.kind.into()) else { return Ok(()) };
    let reader = &mut cursor.reader;
    if procedure == Procedure::Null {
        return Ok(());
    }
    // All others begin with the handle of a file or directory.
    op.file = context.file(reader.opaque(HANDLE_MAX)?);
    match procedure {
        Procedure::Null
        | Procedure::Getattr
        | Procedure::Readlink
        | Procedure::Fsstat
        | Procedure::Fsinfo
        | Procedure::Pathconf => {}
        Procedure::Setattr => set_size(op, reader)?,
        Procedure::Lookup
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Mkdir
        | Procedure::Mknod => op.name = context.read_name(reader)?,
        Procedure::Access => op.length = reader.u32()?.into(),
        Procedure::Read | Procedure::Commit => {
            op.offset = reader.u64()?;
            op.length = reader.u32()?.into();
        }
        Procedure::Write => {
            op.offset = reader.u64()?;
            op.length = reader.u32()?.into();
            op.how = 1 + small(reader.u32()?);
            cursor.skip_payload()?;
        }
        Procedure::Create => {
            op.name = context.read_name(reader)?;
            op.flags |= op_flag::CREATES;
            let mode = reader.u32()?;
            op.how = 1 + small(mode);
            if mode != EXCLUSIVE {
                set_size(op, reader)?;
            }
        }
        Procedure::Symlink => {
            op.name = context.read_name(reader)?;
            Sattr::decode(reader)?;
            op.length = reader.opaque(NAME_BYTES_MAX)?.len() as u64;
        }
        Procedure::Rename => {
            op.name = context.read_name(reader)?;
            op.other = context.file(reader.opaque(HANDLE_MAX)?);
            op.other_name = context.read_name(reader)?;
        }
        Procedure::Link => {
            op.other = context.file(reader.opaque(HANDLE_MAX)?);
            op.name = context.read_name(reader)?;
        }
        Procedure::Readdir | Procedure::Readdirplus => {
            op.offset = reader.u64()?;
            reader.array::<8>()?;
            op.length = reader.u32()?.into();
            if procedure == Procedure::Readdirplus {
                // The first count is for names only, the second for the whole reply.
                op.length = reader.u32()?.into();
            }
        }
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
    if procedure == Procedure::Null {
        op.status = Some(0);
        return Ok(());
    }
    let reader = &mut cursor.reader;
    let status = reader.u32()?;
    op.status = Some(status);
    let is_ok = status == 0;
    match procedure {
        Procedure::Getattr if is_ok => note_attributes(op, Some(&Fattr::decode(reader)?)),
        Procedure::Setattr => note_change(op, &WccData::decode(reader)?),
        Procedure::Lookup if is_ok => {
            op.result = context.file(reader.opaque(HANDLE_MAX)?);
            note_attributes(op, <Option<Fattr>>::decode(reader)?.as_ref());
        }
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod if is_ok => {
            if let Some(handle) = <Option<FileHandle>>::decode(reader)? {
                op.result = context.file(&handle);
            }
            note_attributes(op, <Option<Fattr>>::decode(reader)?.as_ref());
        }
        Procedure::Access
        | Procedure::Readlink
        | Procedure::Read
        | Procedure::Readdir
        | Procedure::Readdirplus => {
            note_attributes(op, <Option<Fattr>>::decode(reader)?.as_ref());
            if is_ok {
                read_content(op, procedure, cursor, context)?;
            }
        }
        Procedure::Write => {
            note_change(op, &WccData::decode(reader)?);
            if is_ok {
                op.count = reader.u32()?.into();
                op.committed = 1 + small(reader.u32()?);
            }
        }
        Procedure::Link => note_attributes(op, <Option<Fattr>>::decode(reader)?.as_ref()),
        _ => {}
    }
    Ok(())
}

/// Records the file's size before a change, and its attributes after it.
fn note_change(op: &mut Op, change: &WccData) {
    if let Some(before) = &change.before {
        op.size_before = Some(before.size);
    }
    note_attributes(op, change.after.as_ref());
}

/// Reads what follows the attributes in a successful reply.
fn read_content(
    op: &mut Op,
    procedure: Procedure,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    let reader = &mut cursor.reader;
    match procedure {
        Procedure::Access | Procedure::Readlink => op.count = reader.u32()?.into(),
        Procedure::Read => {
            op.count = reader.u32()?.into();
            note_eof(op, reader.bool("eof")?);
            // At the end of the file, its size is known even without attributes.
            if op.flags & op_flag::EOF != 0 && op.size.is_none() && op.count > 0 {
                op.size = Some(op.offset.saturating_add(op.count));
            }
        }
        _ => {
            reader.array::<8>()?;
            while reader.bool("entry_follows")? {
                if procedure == Procedure::Readdir {
                    Entry::decode(reader)?;
                } else {
                    list(op.file, &EntryPlus::decode(reader)?, context);
                }
                op.count += 1;
            }
            note_eof(op, reader.bool("eof")?);
        }
    }
    Ok(())
}

fn list(dir: u32, entry: &EntryPlus<'_>, context: &mut Context) {
    let name = entry.entry.name;
    let Some(handle) = &entry.file else { return };
    if name == b"." || name == b".." {
        return;
    }
    let mut file_type = 0;
    let mut size = None;
    if let Some(attributes) = &entry.attributes {
        file_type = attributes.file_type.number() as u8;
        size = Some(attributes.size);
    }
    context.add_entry(&ListedEntry { dir, name, handle, file_type, size });
}

fn set_size(op: &mut Op, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    if let Some(size) = Sattr::decode(reader)?.size {
        op.length = size;
        op.flags |= op_flag::SETS_SIZE;
    }
    Ok(())
}

fn note_eof(op: &mut Op, is_eof: bool) {
    if is_eof {
        op.flags |= op_flag::EOF;
    }
}

/// Returns an enumeration value of the protocol, which is at most 3.
fn small(number: u32) -> u8 {
    number.min(200) as u8
}
