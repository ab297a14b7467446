//! Reads and writes the results of every NFS v2 procedure.
//!
//! All results have one shape: a status, and on success the rest. [`encode_read_header`] stops
//! before the payload, [`decode_read_head`] finds it.
//! **Source:** RFC 1094 sections 2.2.1 to 2.2.18.

use super::{Entries, Fattr, FileHandle, Listing, Object, Procedure, ReadOk, Reply, Statfs};
use crate::Status;
use crate::error::DecodeError;
use crate::limits::V2_TRANSFER_BYTES_MAX;
use crate::xdr::{Reader, Writer};

type Decoded<T> = Result<T, DecodeError>;

/// The results that precede the payload of a successful READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadHead {
    /// The file's attributes; its size tells where the file ends.
    pub attributes: Fattr,
    /// The length of the payload, in bytes; not compared with any limit.
    pub len: u32,
}

/// Appends the results of a successful READ up to its payload; the caller sends the `len` payload
/// bytes and [`crate::xdr::pad_len`] zero bytes after them.
pub fn encode_read_header(writer: &mut Writer<'_>, attributes: &Fattr, len: u32) {
    writer.u32(Status::Ok.number());
    attributes.encode(writer);
    writer.u32(len);
}

/// Reads the results of a READ up to its payload, or returns `None` when the READ failed.
///
/// # Errors
/// [`DecodeError::Truncated`] says how many bytes are missing where more may come; any other error
/// is final.
pub fn decode_read_head(reader: &mut Reader<'_>) -> Decoded<Option<ReadHead>> {
    if reader.u32()? != Status::Ok.number() {
        return Ok(None);
    }
    let (needed, left) = (Fattr::WIRE_BYTES + 4, reader.remaining());
    if left < needed {
        return Err(DecodeError::Truncated { needed, left });
    }
    let attributes = Fattr::decode(reader)?;
    Ok(Some(ReadHead { attributes, len: reader.u32()? }))
}

impl<'a> Reply<'a> {
    /// Reads the results of `procedure`, which must be all that is left.
    ///
    /// # Errors
    /// [`DecodeError`] when the results are not as the RFC defines them.
    pub fn decode(procedure: Procedure, mut reader: Reader<'a>) -> Decoded<Self> {
        let from = &mut reader;
        let reply = match procedure {
            Procedure::Null => Self::Null,
            Procedure::Root => Self::Root,
            Procedure::Writecache => Self::Writecache,
            Procedure::Getattr => Self::Getattr(when_ok(from, Fattr::decode)?),
            Procedure::Setattr => Self::Setattr(when_ok(from, Fattr::decode)?),
            Procedure::Write => Self::Write(when_ok(from, Fattr::decode)?),
            Procedure::Lookup => Self::Lookup(when_ok(from, Object::decode)?),
            Procedure::Create => Self::Create(when_ok(from, Object::decode)?),
            Procedure::Mkdir => Self::Mkdir(when_ok(from, Object::decode)?),
            Procedure::Remove => Self::Remove(when_ok(from, |_| Ok(()))?),
            Procedure::Rename => Self::Rename(when_ok(from, |_| Ok(()))?),
            Procedure::Link => Self::Link(when_ok(from, |_| Ok(()))?),
            Procedure::Symlink => Self::Symlink(when_ok(from, |_| Ok(()))?),
            Procedure::Rmdir => Self::Rmdir(when_ok(from, |_| Ok(()))?),
            Procedure::Readlink => Self::Readlink(when_ok(from, |reader| reader.opaque(u32::MAX))?),
            Procedure::Read => Self::Read(when_ok(from, |reader| {
                let attributes = Fattr::decode(reader)?;
                Ok(ReadOk { attributes, data: reader.opaque(V2_TRANSFER_BYTES_MAX)? })
            })?),
            Procedure::Readdir => Self::Readdir(when_ok(from, |reader| {
                let entries = Entries::decode(reader)?;
                Ok(Listing { entries, eof: reader.bool("eof")? })
            })?),
            Procedure::Statfs => Self::Statfs(when_ok(from, Statfs::decode)?),
        };
        reader.finish()?;
        Ok(reply)
    }

    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null | Self::Root | Self::Writecache => {}
            Self::Getattr(result) | Self::Setattr(result) | Self::Write(result) => {
                after_status(writer, result, Fattr::encode);
            }
            Self::Lookup(result) | Self::Create(result) | Self::Mkdir(result) => {
                after_status(writer, result, |object, writer| {
                    object.file.encode(writer);
                    object.attributes.encode(writer);
                });
            }
            Self::Remove(result)
            | Self::Rename(result)
            | Self::Link(result)
            | Self::Symlink(result)
            | Self::Rmdir(result) => after_status(writer, result, |(), _| {}),
            Self::Readlink(result) => {
                after_status(writer, result, |target, writer| writer.opaque(target));
            }
            Self::Read(result) => after_status(writer, result, |read, writer| {
                read.attributes.encode(writer);
                writer.opaque(read.data);
            }),
            Self::Readdir(result) => after_status(writer, result, |page, writer| {
                page.entries.encode(writer);
                writer.bool(page.eof);
            }),
            Self::Statfs(result) => after_status(writer, result, Statfs::encode),
        }
    }
}

impl Object {
    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let file = FileHandle::decode(reader)?;
        Ok(Self { file, attributes: Fattr::decode(reader)? })
    }
}

/// Reads the status, and `ok` where it says that this is there.
fn when_ok<'a, T>(
    reader: &mut Reader<'a>,
    ok: impl FnOnce(&mut Reader<'a>) -> Decoded<T>,
) -> Decoded<Result<T, Status>> {
    match Status::from_number(reader.u32()?) {
        Status::Ok => ok(reader).map(Ok),
        status => Ok(Err(status)),
    }
}

/// Appends the status, and on success what follows it.
fn after_status<T>(
    writer: &mut Writer<'_>,
    result: &Result<T, Status>,
    encode: impl FnOnce(&T, &mut Writer<'_>),
) {
    match result {
        Ok(ok) => {
            writer.u32(Status::Ok.number());
            encode(ok, writer);
        }
        Err(status) => {
            debug_assert_ne!(*status, Status::Ok, "a failed reply needs a failure's status");
            writer.u32(status.number());
        }
    }
}
