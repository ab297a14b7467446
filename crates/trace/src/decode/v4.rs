//! NFS v4: the results of a compound, and which file each operation applies to.
//!
//! [`results`] reads them in order. [`follow_files`] then processes the operations with the current
//! and the saved file handle, as the server did. A file reached by LOOKUP or OPEN gets the number
//! of the handle returned by a GETFH of the same compound, or else one based on directory and name.
//! **Source:** RFC 7530 sections 15.2 and 16, RFC 8881 section 18, RFC 7862 section 15.

use nfs_proto::DecodeError;
use nfs_proto::limits::COMPOUND_TAG_BYTES_MAX;
use nfs_proto::nfs4::{Entry, Fattr, OpCode, OpOk, OpResult, attribute};
use nfs_proto::wire::Wire;

use super::v4_call::{OPS_MAX, kind_of};
use super::{Context, ListedEntry};
use crate::record::{Op, op_flag};
use crate::sparse::Cursor;

pub(crate) use super::v4_call::operations;

/// File type of a directory. **Source:** RFC 7530 section 2.1 (`nfs_ftype4`).
const DIRECTORY: u8 = 2;

/// Maximum number of segments in a READ_PLUS.
const PIECES_MAX: u32 = 1 << 16;

/// Reads the results of a compound into its operations.
pub(crate) fn results(
    ops: &mut Vec<Op>,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    // The status of the compound is that of the last result.
    cursor.reader.u32()?;
    cursor.reader.opaque(COMPOUND_TAG_BYTES_MAX)?;
    let count = cursor.reader.u32()?;
    // No results follow the first one that failed.
    for at in 0..count.min(OPS_MAX) as usize {
        let mut ahead = cursor.reader;
        let number = ahead.u32()?;
        let status = ahead.u32()?;
        if at == ops.len() {
            // Its arguments were truncated, or come after some that were not understood.
            ops.push(Op { kind: kind_of(number), ..Op::default() });
        }
        let (before, from_here) = ops.split_at_mut(at);
        let op = &mut from_here[0];
        if kind_of(number) != op.kind {
            return Err(DecodeError::BadValue { what: "the operation of a result", value: number });
        }
        op.status = Some(status);
        read_result(before, op, status, cursor, context)?;
    }
    Ok(())
}

fn read_result(
    before: &[Op],
    op: &mut Op,
    status: u32,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    let code = OpCode::from_number(op.kind.into());
    if status != 0 || !matches!(code, Some(OpCode::Read | OpCode::ReadPlus | OpCode::Readdir)) {
        if let OpResult::Ok(ok) = OpResult::decode(&mut cursor.reader)? {
            note_result(before, op, &ok, context);
        }
        return Ok(());
    }
    // Results with a payload: skip number and status, which were read ahead.
    cursor.reader.array::<8>()?;
    match code {
        Some(OpCode::Read) => {
            note_eof(op, cursor.reader.bool("eof")?);
            op.count = cursor.skip_payload()?.into();
        }
        Some(OpCode::ReadPlus) => {
            note_eof(op, cursor.reader.bool("eof")?);
            let pieces = cursor.reader.u32()?;
            for _ in 0..pieces.min(PIECES_MAX) {
                // Data has an offset and bytes, a hole has an offset and a length.
                let is_hole = cursor.reader.u32()? == 1;
                cursor.reader.u64()?;
                op.count = op.count.saturating_add(if is_hole {
                    cursor.reader.u64()?
                } else {
                    cursor.skip_payload()?.into()
                });
            }
        }
        _ => {
            cursor.reader.array::<8>()?;
            while cursor.reader.bool("entry_follows")? {
                let entry = Entry::decode(&mut cursor.reader)?;
                op.count += 1;
                // The directory's number is only known after following the files, so the entry
                // contains 0 until then.
                list(&entry, context);
            }
            note_eof(op, cursor.reader.bool("eof")?);
        }
    }
    Ok(())
}

fn note_result(before: &[Op], op: &mut Op, ok: &OpOk<'_>, context: &mut Context) {
    match ok {
        OpOk::Access { access, .. } => op.count = (*access).into(),
        OpOk::Getattr { attributes } => {
            let described = TracedAttributes::read(attributes);
            op.file_type = described.file_type;
            op.size = described.size;
        }
        OpOk::Getfh { file } => {
            op.result = match before.iter().rev().find(|op| makes_current(op)) {
                Some(Op { kind, .. }) if is_root(*kind) => context.server_root_handle(*kind, file),
                _ => context.file(file),
            };
        }
        OpOk::Write { count, committed, .. } => {
            op.count = (*count).into();
            op.committed = 1 + committed.number() as u8;
        }
        OpOk::Copy { count, committed, .. } => {
            op.count = *count;
            op.committed = 1 + committed.number() as u8;
        }
        OpOk::Readlink { target } => op.count = target.len() as u64,
        OpOk::Getxattr { value } => op.count = value.len() as u64,
        OpOk::Listxattrs { names, eof, .. } => {
            op.count = names.len() as u64;
            note_eof(op, *eof);
        }
        _ => {}
    }
}

/// Attributes of a file that a trace keeps.
#[derive(Default)]
struct TracedAttributes<'a> {
    file_type: u8,
    size: Option<u64>,
    handle: Option<&'a [u8]>,
}

impl<'a> TracedAttributes<'a> {
    fn read(attributes: &Fattr<'a>) -> Self {
        let mut found = Self::default();
        // Stop at an attribute that is not understood, and use those before it.
        let _ = attributes.visit(|number, reader| {
            match number {
                attribute::TYPE => found.file_type = reader.u32()?.min(255) as u8,
                attribute::SIZE => found.size = Some(reader.u64()?),
                attribute::FILEHANDLE => found.handle = Some(reader.opaque(128)?),
                _ => return Ok(false),
            }
            Ok(true)
        });
        found
    }
}

fn list(entry: &Entry<'_>, context: &mut Context) {
    let TracedAttributes { file_type, size, handle } = TracedAttributes::read(&entry.attributes);
    let Some(handle) = handle else { return };
    context.add_entry(&ListedEntry { dir: 0, name: entry.name, handle, file_type, size });
}

fn note_eof(op: &mut Op, is_eof: bool) {
    if is_eof {
        op.flags |= op_flag::EOF;
    }
}

/// Assigns the number of its file to each operation. `first_entry` is the index of the first
/// directory entry listed by this compound.
pub(crate) fn follow_files(ops: &mut [Op], first_entry: usize, context: &mut Context) {
    let mut current = 0;
    let mut saved = 0;
    for at in 0..ops.len() {
        let is_done = ops[at].status == Some(0);
        let Some(code) = OpCode::from_number(ops[at].kind.into()) else { continue };
        match code {
            OpCode::Putfh => current = ops[at].file,
            OpCode::Putrootfh | OpCode::Putpubfh => {
                current = file_reached(ops, at, context);
                ops[at].result = current;
            }
            OpCode::Savefh => saved = current,
            OpCode::Restorefh => current = saved,
            OpCode::Lookup | OpCode::Lookupp | OpCode::Openattr | OpCode::Create | OpCode::Open => {
                ops[at].file = current;
                // An OPEN without a name opens the current file.
                let leads_on = code != OpCode::Open || ops[at].name != 0;
                if is_done && leads_on {
                    current = file_reached(ops, at, context);
                    ops[at].result = current;
                }
                continue;
            }
            OpCode::Link | OpCode::Rename => {
                ops[at].other = current;
                ops[at].file = saved;
                if is_done && code == OpCode::Rename {
                    context.files.forget_name(&context.secret, saved, ops[at].name);
                    context.files.forget_name(&context.secret, current, ops[at].other_name);
                }
            }
            OpCode::Copy | OpCode::Clone => ops[at].other = saved,
            OpCode::Getfh if is_done => current = ops[at].result,
            OpCode::Remove if is_done => {
                context.files.forget_name(&context.secret, current, ops[at].name);
            }
            OpCode::Readdir => {
                for entry in context.entries.iter_mut().skip(first_entry) {
                    if entry.dir == 0 {
                        entry.dir = current;
                    }
                }
            }
            _ => {}
        }
        if !matches!(code, OpCode::Link | OpCode::Rename) {
            ops[at].file = current;
        }
    }
}

/// Returns the number of the file that an operation made current: the one whose handle is returned
/// before another becomes current, or else one based on directory and name.
fn file_reached(ops: &[Op], at: usize, context: &mut Context) -> u32 {
    let Op { file, name, kind, .. } = ops[at];
    let mut number = 0;
    let mut is_directory = false;
    for op in ops[at + 1..].iter().take_while(|op| !makes_current(op)) {
        if number == 0 && OpCode::from_number(op.kind.into()) == Some(OpCode::Getfh) {
            number = op.result;
        }
        is_directory |= op.file_type == DIRECTORY;
    }
    if number == 0 {
        if is_root(kind) {
            return context.server_root(kind);
        }
        // Parent and named attribute directories have no name, so use the kind to tell them apart.
        let name = if name == 0 { u64::from(kind) } else { name };
        return context.files.of_name(&context.secret, file, name);
    }
    // A client that requests handles along the way and one that walks a whole path in one compound
    // go through the same directories.
    if is_directory && name != 0 {
        context.files.bind_name(&context.secret, file, name, number);
    }
    number
}

/// Returns true if an operation changes the current file.
fn makes_current(op: &Op) -> bool {
    match OpCode::from_number(op.kind.into()) {
        Some(
            OpCode::Putfh
            | OpCode::Putrootfh
            | OpCode::Putpubfh
            | OpCode::Restorefh
            | OpCode::Lookup
            | OpCode::Lookupp
            | OpCode::Openattr
            | OpCode::Create,
        ) => true,
        // An OPEN without a name opens the current file.
        Some(OpCode::Open) => op.name != 0,
        _ => false,
    }
}

fn is_root(kind: u8) -> bool {
    matches!(OpCode::from_number(kind.into()), Some(OpCode::Putrootfh | OpCode::Putpubfh))
}
