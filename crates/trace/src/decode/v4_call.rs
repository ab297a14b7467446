//! NFS v4: the operations of a compound.
//!
//! [`operations`] reads as many as are present and understood. WRITE is parsed by hand, because
//! most of its payload is not kept; all others are parsed by the decoder of `nfs-proto`.
//! **Source:** RFC 7530 section 16, RFC 8881 section 18, RFC 7862 section 15.

use nfs_proto::DecodeError;
use nfs_proto::limits::COMPOUND_TAG_BYTES_MAX;
use nfs_proto::nfs4::{
    Claim, CreateKind, Fattr, LayoutReturn, Op as Request, OpCode, OpenHow, Stateid, attribute,
};

use super::Context;
use crate::record::{Call, Op, Version, op_flag};
use crate::sparse::Cursor;

/// Maximum number of operations to keep per compound; clients send about a dozen.
pub(crate) const OPS_MAX: u32 = 1024;

/// Reads minor version and operations of a compound.
pub(crate) fn operations(
    call: &mut Call,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    let reader = &mut cursor.reader;
    reader.opaque(COMPOUND_TAG_BYTES_MAX)?;
    call.version = match reader.u32()? {
        0 => Version::V4_0,
        1 => Version::V4_1,
        2 => Version::V4_2,
        value => return Err(DecodeError::BadValue { what: "the minor version", value }),
    };
    let count = reader.u32()?;
    for _ in 0..count.min(OPS_MAX) {
        let number = cursor.reader.u32()?;
        let code = OpCode::from_number(number);
        let mut op = Op { kind: kind_of(number), ..Op::default() };
        let read = read_op(&mut op, code, cursor, context);
        // An operation that is not understood gets a row, but the start of the next one is unknown.
        call.ops.push(op);
        read?;
    }
    if count > OPS_MAX {
        return Err(DecodeError::TooLong { len: count, max: OPS_MAX });
    }
    Ok(())
}

/// Returns the kind for an operation number.
pub(crate) fn kind_of(number: u32) -> u8 {
    match OpCode::from_number(number) {
        None | Some(OpCode::Illegal) => Op::ILLEGAL,
        Some(code) => code.number() as u8,
    }
}

fn read_op(
    op: &mut Op,
    code: Option<OpCode>,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<(), DecodeError> {
    let not_understood = DecodeError::BadValue { what: "an operation", value: op.kind.into() };
    let code = code.ok_or(not_understood)?;
    if code == OpCode::Write {
        let reader = &mut cursor.reader;
        reader.array::<{ Stateid::WIRE_BYTES }>()?;
        op.offset = reader.u64()?;
        op.how = 1 + reader.u32()?.min(200) as u8;
        op.length = cursor.reader.u32()?.into();
        return cursor.skip(nfs_proto::xdr::opaque_bytes(op.length as usize) - 4);
    }
    let request = Request::decode(code, &mut cursor.reader)?.ok_or(not_understood)?;
    note_request(op, &request, context);
    Ok(())
}

/// Records the arguments except for the files, which depend on previous operations.
fn note_request(op: &mut Op, request: &Request<'_>, context: &mut Context) {
    match request {
        Request::Putfh { file } => op.file = context.file(file),
        Request::Access { access } => op.length = (*access).into(),
        Request::Commit { offset, count }
        | Request::Read { offset, count, .. }
        | Request::ReadPlus { offset, count, .. } => {
            op.offset = *offset;
            op.length = (*count).into();
        }
        Request::Layoutcommit { offset, length, .. }
        | Request::Layoutget { offset, length, .. }
        | Request::Layouterror { offset, length, .. }
        | Request::Layoutstats { offset, length, .. }
        | Request::Layoutreturn { layouts: LayoutReturn::File { offset, length, .. }, .. }
        | Request::Allocate { offset, length, .. }
        | Request::Deallocate { offset, length, .. }
        | Request::IoAdvise { offset, count: length, .. } => {
            op.offset = *offset;
            op.length = *length;
        }
        Request::Lock { lock_type, offset, length, .. }
        | Request::Lockt { lock_type, offset, length, .. }
        | Request::Locku { lock_type, offset, length, .. } => {
            op.offset = *offset;
            op.length = *length;
            op.how = 1 + lock_type.number() as u8;
        }
        Request::Copy { source_offset, destination_offset, count, .. }
        | Request::Clone { source_offset, destination_offset, count, .. } => {
            op.offset = *destination_offset;
            op.source_offset = *source_offset;
            op.length = *count;
        }
        Request::Create { kind, name, attributes } => {
            op.name = context.name(name);
            op.flags |= op_flag::CREATES;
            if let CreateKind::Symlink(target) = kind {
                op.length = target.len() as u64;
            }
            note_size(op, attributes);
        }
        Request::Open { .. } => note_open(op, request, context),
        Request::Link { name }
        | Request::Lookup { name }
        | Request::Remove { name }
        | Request::Secinfo { name }
        | Request::Getxattr { name }
        | Request::Removexattr { name } => op.name = context.name(name),
        Request::Setxattr { name, value, .. } => {
            op.name = context.name(name);
            op.length = value.len() as u64;
        }
        Request::Rename { from, to } => {
            op.name = context.name(from);
            op.other_name = context.name(to);
        }
        Request::Readdir { cookie, maxcount, .. } | Request::Listxattrs { cookie, maxcount } => {
            op.offset = *cookie;
            op.length = (*maxcount).into();
        }
        Request::Setattr { attributes, .. } => note_size(op, attributes),
        Request::Seek { offset, .. } => op.offset = *offset,
        _ => {}
    }
}

fn note_open(op: &mut Op, request: &Request<'_>, context: &mut Context) {
    let Request::Open { share_access, share_deny, how, claim, .. } = request else { return };
    // Access in the two lowest bits, deny in the next two.
    op.offset = u64::from(share_access & 3 | (share_deny & 3) << 2);
    if let Claim::Name(name) | Claim::DelegateCurrent(_, name) | Claim::DelegatePrevious(name) =
        claim
    {
        op.name = context.name(name);
    }
    let (number, attributes) = match how {
        OpenHow::NoCreate => return,
        OpenHow::Unchecked(attributes) => (0, Some(attributes)),
        OpenHow::Guarded(attributes) => (1, Some(attributes)),
        OpenHow::Exclusive(_) => (2, None),
        OpenHow::ExclusiveWith(_, attributes) => (3, Some(attributes)),
    };
    op.how = 1 + number;
    op.flags |= op_flag::CREATES;
    if let Some(attributes) = attributes {
        note_size(op, attributes);
    }
}

/// Records the size if it is among the attributes being set.
fn note_size(op: &mut Op, attributes: &Fattr<'_>) {
    if !attributes.mask().contains(attribute::SIZE) {
        return;
    }
    let mut size = None;
    // Attributes that are not understood, such as access control lists, end the walk. The size has
    // a low number, so it comes before them.
    let _ = attributes.visit(|number, reader| {
        if number != attribute::SIZE {
            return Ok(false);
        }
        size = Some(reader.u64()?);
        Ok(true)
    });
    if let Some(size) = size {
        op.length = size;
        op.flags |= op_flag::SETS_SIZE;
    }
}
