//! The results of every NFS v2 procedure.
//!
//! [`Reply`] is a view: link targets, READ payloads and entries are not copied. All results have
//! one shape, a status and on success the rest, so the table is both encoder and decoder.
//! [`encode_read_header`] stops before the payload, [`decode_read_head`] finds it. **Source:** RFC
//! 1094 sections 2.2.1 to 2.2.18.

use super::{Entries, Fattr, FileHandle, Procedure, Statfs};
use crate::Status;
use crate::error::DecodeError;
use crate::limits::V2_TRANSFER_BYTES_MAX;
use crate::wire::{Wire, by_code, wire_struct};
use crate::xdr::{Reader, Writer};

wire_struct! {
    /// The object found by LOOKUP, or created by CREATE or MKDIR.
    pub struct Object {
        /// Handle of the object.
        file: FileHandle,
        /// Attributes of the object.
        attributes: Fattr,
    }
}

wire_struct! {
    /// The data returned by READ.
    pub struct ReadOk<'a> {
        /// The file's attributes; their size gives the end of the file.
        attributes: Fattr,
        /// Payload of the reply.
        data: &'a [u8] where len <= V2_TRANSFER_BYTES_MAX,
    }
}

wire_struct! {
    /// A page of READDIR.
    pub struct Listing<'a> {
        /// Entries of this page.
        entries: Entries<'a>,
        /// Whether the directory ends here.
        eof: bool,
    }
}

by_code! {
    /// A reply with its results. An error is never [`Status::Ok`].
    pub enum Reply<'a>: Procedure, procedure {
        /// The result of NULL, which is empty.
        Null,
        /// The file's attributes.
        Getattr(result: Result<Fattr, Status>),
        /// The file's attributes after the change.
        Setattr(result: Result<Fattr, Status>),
        /// The result of ROOT, which is empty.
        Root,
        /// The object that was found.
        Lookup(result: Result<Object, Status>),
        /// The target of the link.
        Readlink(result: Result<&'a [u8], Status>),
        /// The data that was read.
        Read(result: Result<ReadOk<'a>, Status>),
        /// The result of WRITECACHE, which is empty.
        Writecache,
        /// The file's attributes after the write.
        Write(result: Result<Fattr, Status>),
        /// The new object.
        Create(result: Result<Object, Status>),
        /// The result of REMOVE, which is empty.
        Remove(result: Result<(), Status>),
        /// The result of RENAME, which is empty.
        Rename(result: Result<(), Status>),
        /// The result of LINK, which is empty.
        Link(result: Result<(), Status>),
        /// The result of SYMLINK, which is empty.
        Symlink(result: Result<(), Status>),
        /// The new object.
        Mkdir(result: Result<Object, Status>),
        /// The result of RMDIR, which is empty.
        Rmdir(result: Result<(), Status>),
        /// A page of entries.
        Readdir(result: Result<Listing<'a>, Status>),
        /// The space of the file system.
        Statfs(result: Result<Statfs, Status>),
    }
}

impl<'a> Reply<'a> {
    /// Decodes the results of `procedure`, which must be all that is left.
    ///
    /// # Errors
    /// [`DecodeError`] if the results do not conform to the RFC.
    pub fn decode(procedure: Procedure, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let reply = Self::decode_body(procedure, &mut reader)?;
        reader.finish()?;
        reply.ok_or(DecodeError::BadValue { what: "the procedure", value: procedure.number() })
    }

    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        self.encode_body(writer);
    }
}

impl Reply<'_> {
    /// Returns whether the call succeeded.
    ///
    /// # Errors
    /// The [`Status`] of a failed call.
    pub fn status(&self) -> Result<(), Status> {
        match self {
            Self::Null | Self::Root | Self::Writecache => Ok(()),
            Self::Getattr(result) | Self::Setattr(result) | Self::Write(result) => result.map(drop),
            Self::Lookup(result) | Self::Create(result) | Self::Mkdir(result) => result.map(drop),
            Self::Readlink(result) => result.map(drop),
            Self::Read(result) => result.map(drop),
            Self::Remove(result)
            | Self::Rename(result)
            | Self::Link(result)
            | Self::Symlink(result)
            | Self::Rmdir(result) => *result,
            Self::Readdir(result) => result.map(drop),
            Self::Statfs(result) => result.map(drop),
        }
    }

    /// Returns a reply that fails with `status`.
    ///
    /// NULL, ROOT and WRITECACHE can't fail; their replies are unchanged.
    pub fn failure(procedure: Procedure, status: Status) -> Self {
        match procedure {
            Procedure::Null => Self::Null,
            Procedure::Getattr => Self::Getattr(Err(status)),
            Procedure::Setattr => Self::Setattr(Err(status)),
            Procedure::Root => Self::Root,
            Procedure::Lookup => Self::Lookup(Err(status)),
            Procedure::Readlink => Self::Readlink(Err(status)),
            Procedure::Read => Self::Read(Err(status)),
            Procedure::Writecache => Self::Writecache,
            Procedure::Write => Self::Write(Err(status)),
            Procedure::Create => Self::Create(Err(status)),
            Procedure::Remove => Self::Remove(Err(status)),
            Procedure::Rename => Self::Rename(Err(status)),
            Procedure::Link => Self::Link(Err(status)),
            Procedure::Symlink => Self::Symlink(Err(status)),
            Procedure::Mkdir => Self::Mkdir(Err(status)),
            Procedure::Rmdir => Self::Rmdir(Err(status)),
            Procedure::Readdir => Self::Readdir(Err(status)),
            Procedure::Statfs => Self::Statfs(Err(status)),
        }
    }
}

/// The results of a successful READ before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadHead {
    /// The file's attributes; their size gives the end of the file.
    pub attributes: Fattr,
    /// The length of the payload, in bytes; not checked against any limit.
    pub len: u32,
}

/// Appends the results of a successful READ up to its payload; the caller sends the `len` payload
/// bytes and [`crate::xdr::pad_len`] zero bytes after them.
pub fn encode_read_header(writer: &mut Writer<'_>, attributes: &Fattr, len: u32) {
    writer.u32(Status::Ok.number());
    attributes.encode(writer);
    writer.u32(len);
}

/// Decodes the results of a READ up to its payload, or returns `None` if the READ failed.
///
/// # Errors
/// [`DecodeError::Truncated`] contains the number of missing bytes if more may come; any other
/// error is final.
pub fn decode_read_head(reader: &mut Reader<'_>) -> Result<Option<ReadHead>, DecodeError> {
    if reader.u32()? != Status::Ok.number() {
        return Ok(None);
    }
    // Request everything before the payload at once: asking field by field would cost one receive
    // per field.
    let needed = Fattr::WIRE_BYTES + 4;
    let left = reader.remaining();
    if left < needed {
        return Err(DecodeError::Truncated { needed, left });
    }
    let attributes = Fattr::decode(reader)?;
    Ok(Some(ReadHead { attributes, len: reader.u32()? }))
}
