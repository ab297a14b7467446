//! Dialect of version 3: each operation is one procedure.
//!
//! There is no state between calls. **Source:** RFC 1813.

use super::super::event::Outcome;
use super::super::file::File;
use super::super::listing::{Entries, Listing};
use super::super::operation::{Data, Operation, OperationKind};
use super::super::types::StartError;
use super::{DecodedReply, Prefix, not_a};
use crate::error::DecodeError;
use crate::limits::V3_FILE_HANDLE_BYTES_MAX;
use crate::nfs3::{self, Call, Fattr, Procedure, Reply, Status, WriteOk};
use crate::version::ProtocolVersion;
use crate::xdr::{Reader, Writer};

/// Returns the procedure for this operation, if version 3 has one.
pub(super) const fn procedure_of(kind: OperationKind) -> Option<Procedure> {
    match kind {
        // Nothing is opened in this version: an OPEN is a LOOKUP.
        OperationKind::Open => Some(Procedure::Lookup),
        kind => kind.nfs3_procedure(),
    }
}

/// Appends the arguments, up to a payload that is sent from elsewhere.
pub(super) fn encode(operation: &Operation<'_>, writer: &mut Writer<'_>) -> Result<(), StartError> {
    let call = match *operation {
        Operation::Write { file, offset, stable, data: Data::Pool(payload) } => {
            nfs3::encode_write_header(writer, handle_of(file)?, offset, stable, payload.len);
            return Ok(());
        }
        Operation::Write { file, offset, stable, data: Data::Bytes(data) } => {
            Call::Write { file: handle_of(file)?, offset, stable, data }
        }
        _ => call_of(operation)?,
    };
    call.encode(writer);
    Ok(())
}

/// Converts an operation to a call; a WRITE is encoded by [`encode`] itself.
fn call_of<'a>(operation: &Operation<'a>) -> Result<Call<'a>, StartError> {
    Ok(match *operation {
        Operation::Null => Call::Null,
        Operation::Getattr { file } => Call::Getattr { file: handle_of(file)? },
        Operation::Setattr { file, attributes } => {
            Call::Setattr { file: handle_of(file)?, attributes, guard: None }
        }
        Operation::Access { file, access } => Call::Access { file: handle_of(file)?, access },
        Operation::Readlink { file } => Call::Readlink { file: handle_of(file)? },
        Operation::Read { file, offset, count } => {
            Call::Read { file: handle_of(file)?, offset, count }
        }
        Operation::Readdir { dir, cursor, bytes } => Call::Readdir {
            dir: handle_of(dir)?,
            cookie: cursor.cookie,
            verifier: cursor.verifier,
            count: bytes,
        },
        Operation::ReaddirPlus { dir, cursor, bytes } => {
            let cookie = cursor.cookie;
            let verifier = cursor.verifier;
            let dir = handle_of(dir)?;
            // `dircount` only limits names, and servers differ in how they count it; set to the
            // size of the whole reply, it never cuts a page short.
            Call::Readdirplus { dir, cookie, verifier, dircount: bytes, maxcount: bytes }
        }
        Operation::Fsstat { root } => Call::Fsstat { root: handle_of(root)? },
        Operation::Fsinfo { root } => Call::Fsinfo { root: handle_of(root)? },
        Operation::Pathconf { file } => Call::Pathconf { file: handle_of(file)? },
        Operation::Commit { file, offset, count } => {
            Call::Commit { file: handle_of(file)?, offset, count }
        }
        _ => return named_call(operation),
    })
}

/// Converts an operation on a name to a call.
fn named_call<'a>(operation: &Operation<'a>) -> Result<Call<'a>, StartError> {
    Ok(match *operation {
        Operation::Lookup { dir, name } | Operation::Open { dir, name, .. } => {
            Call::Lookup { dir: handle_of(dir)?, name }
        }
        Operation::Create { dir, name, how } => Call::Create { dir: handle_of(dir)?, name, how },
        Operation::Mkdir { dir, name, attributes } => {
            Call::Mkdir { dir: handle_of(dir)?, name, attributes }
        }
        Operation::Symlink { dir, name, attributes, target } => {
            Call::Symlink { dir: handle_of(dir)?, name, attributes, target }
        }
        Operation::Mknod { dir, name, what } => Call::Mknod { dir: handle_of(dir)?, name, what },
        Operation::Remove { dir, name } => Call::Remove { dir: handle_of(dir)?, name },
        Operation::Rmdir { dir, name } => Call::Rmdir { dir: handle_of(dir)?, name },
        Operation::Rename { from_dir, from, to_dir, to } => {
            Call::Rename { from_dir: handle_of(from_dir)?, from, to_dir: handle_of(to_dir)?, to }
        }
        Operation::Link { file, dir, name } => {
            Call::Link { file: handle_of(file)?, dir: handle_of(dir)?, name }
        }
        _ => {
            let kind = operation.kind();
            return Err(StartError::Unsupported { kind, version: ProtocolVersion::V3 });
        }
    })
}

fn handle_of(file: &File) -> Result<&[u8], StartError> {
    let handle = file.handle.as_slice();
    if handle.len() > V3_FILE_HANDLE_BYTES_MAX {
        return Err(StartError::Handle { bytes: handle.len() });
    }
    Ok(handle)
}

/// Looks for the payload in the results of a READ. **Source:** RFC 1813 section 3.3.6.
pub(super) fn read_prefix(mut reader: Reader<'_>) -> Result<Prefix, DecodeError> {
    if reader.u32()? != Status::Ok.number() {
        return Ok(Prefix::Other);
    }
    let attributes = if reader.bool("attributes_follow")? { Fattr::WIRE_BYTES } else { 0 };
    // Count, eof and the length of the opaque come between the attributes and the payload. Request
    // all of it at once.
    let needed = attributes + 4 + 4 + 4;
    if reader.remaining() < needed {
        return Err(DecodeError::Truncated { needed, left: reader.remaining() });
    }
    reader.fixed(attributes)?;
    let count = reader.u32()?;
    let eof = reader.bool("eof")?;
    let len = reader.u32()?;
    if len == count { Ok(Prefix::Payload { len, eof }) } else { Ok(Prefix::Other) }
}

/// Decodes the results of an operation, which must be all that is left.
pub(super) fn decode_answer(
    kind: OperationKind,
    results: Reader<'_>,
    file: &mut Option<File>,
) -> DecodedReply {
    let procedure = procedure_of(kind).ok_or_else(|| not_a("version 3 reply"))?;
    Ok(outcome_of(&Reply::decode(procedure, results)?, file))
}

fn outcome_of(reply: &Reply<'_>, file: &mut Option<File>) -> Result<Outcome, Status> {
    Ok(match *reply {
        Reply::Null => Outcome::Done,
        Reply::Setattr { result, .. }
        | Reply::Remove { result, .. }
        | Reply::Rmdir { result, .. }
        | Reply::Rename { result, .. }
        | Reply::Link { result, .. } => {
            result?;
            Outcome::Done
        }
        Reply::Getattr { result } => Outcome::Attributes(result?),
        Reply::Lookup { result, .. } => {
            let object = result?;
            *file = Some(object.file.into());
            Outcome::Object { attributes: object.attributes }
        }
        Reply::Create { result, .. }
        | Reply::Mkdir { result, .. }
        | Reply::Symlink { result, .. }
        | Reply::Mknod { result, .. } => {
            let created = result?;
            *file = created.file.map(File::from);
            Outcome::Object { attributes: created.attributes }
        }
        Reply::Access { result, .. } => Outcome::Access(result?),
        Reply::Read { result, .. } => {
            let read = result?;
            Outcome::Read { count: read.data.len() as u32, eof: read.eof }
        }
        Reply::Write { result, .. } => {
            let WriteOk { count, committed, verifier } = result?;
            Outcome::Written { count, committed, verifier }
        }
        Reply::Commit { result, .. } => Outcome::Committed { verifier: result? },
        Reply::Readlink { result, .. } => result.map(|_| Outcome::Target)?,
        Reply::Readdir { result, .. } => result.map(|_| Outcome::Listing)?,
        Reply::Readdirplus { result, .. } => result.map(|_| Outcome::Listing)?,
        Reply::Fsstat { result, .. } => Outcome::Fsstat(result?),
        Reply::Fsinfo { result, .. } => Outcome::Fsinfo(result?),
        Reply::Pathconf { result, .. } => Outcome::Pathconf(result?),
    })
}

/// Decodes a page of a directory.
pub(super) fn decode_listing(kind: OperationKind, body: &[u8]) -> Result<Listing<'_>, DecodeError> {
    let procedure = procedure_of(kind).ok_or_else(|| not_a("listing"))?;
    match Reply::decode(procedure, Reader::new(body))? {
        Reply::Readdir { result: Ok(page), .. } => Ok(Listing {
            verifier: page.verifier,
            eof: page.eof,
            entries: Entries::V3(page.entries),
        }),
        Reply::Readdirplus { result: Ok(page), .. } => Ok(Listing {
            verifier: page.verifier,
            eof: page.eof,
            entries: Entries::V3Plus(page.entries),
        }),
        _ => Err(not_a("listing")),
    }
}

/// Decodes the target of a symbolic link.
pub(super) fn decode_target(body: &[u8]) -> Result<&[u8], DecodeError> {
    match Reply::decode(Procedure::Readlink, Reader::new(body))? {
        Reply::Readlink { result: Ok(target), .. } => Ok(target),
        _ => Err(not_a("link target")),
    }
}
