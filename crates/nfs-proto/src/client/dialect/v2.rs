//! Dialect of version 2: each operation is one procedure, and each WRITE is durable.
//!
//! Offsets must be below 2 GiB: anything beyond is refused here, before it could wrap around.
//! **Source:** RFC 1094.

use super::super::event::{Attributes, Outcome};
use super::super::file::File;
use super::super::listing::{Entries, Listing};
use super::super::operation::{Data, Operation, OperationKind};
use super::super::slot::Slot;
use super::super::types::StartError;
use super::{DecodedReply, Prefix, not_a};
use crate::error::DecodeError;
use crate::limits::V2_TRANSFER_BYTES_MAX;
use crate::nfs2::{
    self, Call, FILE_BYTES_MAX, FileHandle, Procedure, Reply, Sattr, Statfs, WriteHead,
};
use crate::nfs3::{self, CreateHow, Fsstat, StableHow, Status, Verifier};
use crate::version::ProtocolVersion;
use crate::xdr::{Reader, Writer};

/// Returns the procedure for this operation, if version 2 has one.
pub(super) const fn procedure_of(kind: OperationKind) -> Option<Procedure> {
    match kind {
        // Nothing is opened in this version: an OPEN is a LOOKUP.
        OperationKind::Open => Some(Procedure::Lookup),
        kind => kind.nfs2_procedure(),
    }
}

/// Appends the arguments, up to a payload that is sent from elsewhere.
pub(super) fn encode(operation: &Operation<'_>, writer: &mut Writer<'_>) -> Result<(), StartError> {
    if let Operation::Write { file, offset, data, .. } = *operation {
        let len = check_transfer_size(data.len() as u32)?;
        let head = WriteHead { file: handle_of(file)?, offset: check_reach(offset, len)?, len };
        nfs2::encode_write_header(writer, &head);
        if let Data::Bytes(data) = data {
            writer.fixed(data);
        }
        return Ok(());
    }
    call_of(operation)?.encode(writer);
    Ok(())
}

/// Converts an operation to a call.
fn call_of<'a>(operation: &Operation<'a>) -> Result<Call<'a>, StartError> {
    Ok(match *operation {
        Operation::Null => Call::Null,
        Operation::Getattr { file } => Call::Getattr { file: handle_of(file)? },
        Operation::Setattr { file, attributes } => {
            Call::Setattr { file: handle_of(file)?, attributes: sattr_of(&attributes)? }
        }
        Operation::Readlink { file } => Call::Readlink { file: handle_of(file)? },
        Operation::Read { file, offset, count } => Call::Read {
            file: handle_of(file)?,
            offset: check_reach(offset, 0)?,
            count: check_transfer_size(count)?,
        },
        Operation::Readdir { dir, cursor, bytes } => {
            // Cookies come from this version, so they have 32 bits.
            Call::Readdir { dir: handle_of(dir)?, cookie: cursor.cookie as u32, count: bytes }
        }
        Operation::Fsstat { root } => Call::Statfs { file: handle_of(root)? },
        _ => return named_call(operation),
    })
}

/// Converts an operation on a name to a call.
fn named_call<'a>(operation: &Operation<'a>) -> Result<Call<'a>, StartError> {
    Ok(match *operation {
        Operation::Lookup { dir, name } | Operation::Open { dir, name, .. } => {
            Call::Lookup { dir: handle_of(dir)?, name }
        }
        Operation::Create { dir, name, how } => {
            // Version 2 can only create unchecked.
            let (CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes)) = how else {
                return Err(unsupported_error(operation));
            };
            Call::Create { dir: handle_of(dir)?, name, attributes: sattr_of(&attributes)? }
        }
        Operation::Mkdir { dir, name, attributes } => {
            Call::Mkdir { dir: handle_of(dir)?, name, attributes: sattr_of(&attributes)? }
        }
        Operation::Symlink { dir, name, attributes, target } => {
            Call::Symlink { dir: handle_of(dir)?, name, target, attributes: sattr_of(&attributes)? }
        }
        Operation::Remove { dir, name } => Call::Remove { dir: handle_of(dir)?, name },
        Operation::Rmdir { dir, name } => Call::Rmdir { dir: handle_of(dir)?, name },
        Operation::Rename { from_dir, from, to_dir, to } => {
            Call::Rename { from_dir: handle_of(from_dir)?, from, to_dir: handle_of(to_dir)?, to }
        }
        Operation::Link { file, dir, name } => {
            Call::Link { file: handle_of(file)?, dir: handle_of(dir)?, name }
        }
        _ => return Err(unsupported_error(operation)),
    })
}

fn unsupported_error(operation: &Operation<'_>) -> StartError {
    StartError::Unsupported { kind: operation.kind(), version: ProtocolVersion::V2 }
}

fn handle_of(file: &File) -> Result<FileHandle, StartError> {
    let bytes = file.handle.as_slice();
    let right = <[u8; FileHandle::BYTES]>::try_from(bytes);
    right.map(FileHandle).map_err(|_| StartError::Handle { bytes: bytes.len() })
}

/// Returns an offset if `len` bytes from there are addressable in this version.
fn check_reach(offset: u64, len: u32) -> Result<u32, StartError> {
    let end = offset.saturating_add(u64::from(len));
    let max = u64::from(FILE_BYTES_MAX);
    if end > max {
        return Err(StartError::FileTooLarge { end, max });
    }
    Ok(offset as u32)
}

fn check_transfer_size(bytes: u32) -> Result<u32, StartError> {
    let max = V2_TRANSFER_BYTES_MAX;
    if bytes > max { Err(StartError::TooLarge { bytes, max }) } else { Ok(bytes) }
}

fn sattr_of(attributes: &nfs3::Sattr) -> Result<Sattr, StartError> {
    Ok(Sattr {
        mode: attributes.mode,
        uid: attributes.uid,
        gid: attributes.gid,
        size: attributes.size.map(|size| check_reach(size, 0)).transpose()?,
        atime: attributes.atime.into(),
        mtime: attributes.mtime.into(),
    })
}

/// Looks for the payload in the results of a READ. **Source:** RFC 1094 section 2.2.7.
pub(super) fn read_prefix(slot: &Slot, mut reader: Reader<'_>) -> Result<Prefix, DecodeError> {
    Ok(match nfs2::decode_read_head(&mut reader)? {
        Some(head) => {
            // Version 2 has no end-of-file flag: the end follows from the attributes in the reply.
            let eof = slot.offset + u64::from(head.len) >= u64::from(head.attributes.size);
            Prefix::Payload { len: head.len, eof }
        }
        None => Prefix::Other,
    })
}

/// Decodes the results of an operation, which must be all that is left.
pub(super) fn decode_answer(
    slot: &Slot,
    kind: OperationKind,
    results: Reader<'_>,
    file: &mut Option<File>,
) -> DecodedReply {
    let procedure = procedure_of(kind).ok_or_else(|| not_a("version 2 reply"))?;
    Ok(outcome_of(slot, &Reply::decode(procedure, results)?, file))
}

fn outcome_of(slot: &Slot, reply: &Reply<'_>, file: &mut Option<File>) -> Result<Outcome, Status> {
    Ok(match *reply {
        Reply::Null | Reply::Root | Reply::Writecache => Outcome::Done,
        Reply::Setattr(result) => result.map(|_| Outcome::Done)?,
        Reply::Remove(result)
        | Reply::Rename(result)
        | Reply::Link(result)
        | Reply::Rmdir(result) => result.map(|()| Outcome::Done)?,
        // The reply contains no handle; the caller looks it up.
        Reply::Symlink(result) => {
            *file = None;
            result.map(|()| Outcome::Object { attributes: None })?
        }
        Reply::Getattr(result) => Outcome::Attributes(Attributes::from(&result?)),
        Reply::Lookup(result) | Reply::Create(result) | Reply::Mkdir(result) => {
            let object = result?;
            let attributes = Some(Attributes::from(&object.attributes));
            *file = Some(object.file.into());
            Outcome::Object { attributes }
        }
        Reply::Readlink(result) => result.map(|_| Outcome::Target)?,
        Reply::Readdir(result) => result.map(|_| Outcome::Listing)?,
        Reply::Read(result) => {
            let read = result?;
            let count = read.data.len() as u32;
            let eof = slot.offset + u64::from(count) >= u64::from(read.attributes.size);
            Outcome::Read { count, eof }
        }
        Reply::Write(result) => {
            result?;
            // In version 2 each WRITE is on stable storage before its reply (RFC 1094 section
            // 2.2.9), so there is nothing to commit.
            Outcome::Written {
                count: slot.payload_bytes,
                committed: StableHow::FileSync,
                verifier: Verifier::default(),
            }
        }
        Reply::Statfs(result) => Outcome::Fsstat(fsstat_of(&result?)),
    })
}

fn fsstat_of(statfs: &Statfs) -> Fsstat {
    let bytes = |blocks: u32| u64::from(blocks) * u64::from(statfs.block_bytes);
    Fsstat {
        total_bytes: bytes(statfs.blocks),
        free_bytes: bytes(statfs.free_blocks),
        available_bytes: bytes(statfs.available_blocks),
        ..Fsstat::default()
    }
}

/// Decodes a page of a directory.
pub(super) fn decode_listing(body: &[u8]) -> Result<Listing<'_>, DecodeError> {
    match Reply::decode(Procedure::Readdir, Reader::new(body))? {
        Reply::Readdir(Ok(page)) => Ok(Listing {
            verifier: Verifier::default(),
            eof: page.eof,
            entries: Entries::V2(page.entries),
        }),
        _ => Err(not_a("listing")),
    }
}

/// Decodes the target of a symbolic link.
pub(super) fn decode_target(body: &[u8]) -> Result<&[u8], DecodeError> {
    match Reply::decode(Procedure::Readlink, Reader::new(body))? {
        Reply::Readlink(Ok(target)) => Ok(target),
        _ => Err(not_a("link target")),
    }
}
