//! The arguments of every NFS v2 procedure.
//!
//! [`Call`] is a view: names, paths and WRITE payloads stay where they were received. A WRITE
//! whose payload is sent from elsewhere is encoded by [`encode_write_header`].
//! **Source:** RFC 1094 sections 2.2.1 to 2.2.18.

use super::{FileHandle, Procedure, Sattr};
use crate::error::DecodeError;
use crate::limits::V2_TRANSFER_BYTES_MAX;
use crate::xdr::{Reader, Writer};

/// A call with its arguments. Fields that the RFC calls unused (the total of a READ, the first
/// offset and the total of a WRITE) are passed over on input and plausible on output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named as the arguments are in the RFC")]
pub enum Call<'a> {
    /// Does nothing at all.
    Null,
    /// Gets the attributes of a file.
    Getattr { file: FileHandle },
    /// Sets attributes of a file.
    Setattr { file: FileHandle, attributes: Sattr },
    /// Obsolete; does nothing.
    Root,
    /// Finds a name in a directory.
    Lookup { dir: FileHandle, name: &'a [u8] },
    /// Reads a symbolic link.
    Readlink { file: FileHandle },
    /// Reads `count` bytes from `offset`.
    Read { file: FileHandle, offset: u32, count: u32 },
    /// Never defined; does nothing.
    Writecache,
    /// Writes `data` at `offset`.
    Write { file: FileHandle, offset: u32, data: &'a [u8] },
    /// Creates a file, or empties it where the attributes say so.
    Create { dir: FileHandle, name: &'a [u8], attributes: Sattr },
    /// Removes a file.
    Remove { dir: FileHandle, name: &'a [u8] },
    /// Renames an entry.
    Rename { from_dir: FileHandle, from: &'a [u8], to_dir: FileHandle, to: &'a [u8] },
    /// Adds a name to a file.
    Link { file: FileHandle, dir: FileHandle, name: &'a [u8] },
    /// Creates a symbolic link to `target`.
    Symlink { dir: FileHandle, name: &'a [u8], target: &'a [u8], attributes: Sattr },
    /// Creates a directory.
    Mkdir { dir: FileHandle, name: &'a [u8], attributes: Sattr },
    /// Removes a directory.
    Rmdir { dir: FileHandle, name: &'a [u8] },
    /// Lists a directory in at most `count` bytes.
    Readdir { dir: FileHandle, cookie: u32, count: u32 },
    /// Gets the fill state of the file system.
    Statfs { file: FileHandle },
}

impl<'a> Call<'a> {
    /// Returns the procedure that takes these arguments.
    pub const fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::Null,
            Self::Getattr { .. } => Procedure::Getattr,
            Self::Setattr { .. } => Procedure::Setattr,
            Self::Root => Procedure::Root,
            Self::Lookup { .. } => Procedure::Lookup,
            Self::Readlink { .. } => Procedure::Readlink,
            Self::Read { .. } => Procedure::Read,
            Self::Writecache => Procedure::Writecache,
            Self::Write { .. } => Procedure::Write,
            Self::Create { .. } => Procedure::Create,
            Self::Remove { .. } => Procedure::Remove,
            Self::Rename { .. } => Procedure::Rename,
            Self::Link { .. } => Procedure::Link,
            Self::Symlink { .. } => Procedure::Symlink,
            Self::Mkdir { .. } => Procedure::Mkdir,
            Self::Rmdir { .. } => Procedure::Rmdir,
            Self::Readdir { .. } => Procedure::Readdir,
            Self::Statfs { .. } => Procedure::Statfs,
        }
    }

    /// Reads the arguments of `procedure`, which must be all that is left.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers GARBAGE_ARGS.
    pub fn decode(procedure: Procedure, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let call = match procedure {
            Procedure::Null => Self::Null,
            Procedure::Root => Self::Root,
            Procedure::Writecache => Self::Writecache,
            Procedure::Lookup
            | Procedure::Create
            | Procedure::Remove
            | Procedure::Rename
            | Procedure::Symlink
            | Procedure::Mkdir
            | Procedure::Rmdir => decode_named(procedure, &mut reader)?,
            _ => decode_plain(procedure, &mut reader)?,
        };
        reader.finish()?;
        Ok(call)
    }

    /// Appends the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match *self {
            Self::Null | Self::Root | Self::Writecache => {}
            Self::Getattr { file } | Self::Readlink { file } | Self::Statfs { file } => {
                file.encode(writer);
            }
            Self::Setattr { file, attributes } => {
                file.encode(writer);
                attributes.encode(writer);
            }
            Self::Read { file, offset, count } => {
                file.encode(writer);
                writer.u32(offset);
                writer.u32(count);
                writer.u32(count);
            }
            Self::Write { file, offset, data } => {
                encode_write_header(writer, &WriteHead { file, offset, len: data.len() as u32 });
                writer.fixed(data);
            }
            Self::Readdir { dir, cookie, count } => {
                dir.encode(writer);
                writer.u32(cookie);
                writer.u32(count);
            }
            Self::Lookup { dir, name } | Self::Remove { dir, name } | Self::Rmdir { dir, name } => {
                encode_name(writer, &dir, name);
            }
            Self::Create { dir, name, attributes } | Self::Mkdir { dir, name, attributes } => {
                encode_name(writer, &dir, name);
                attributes.encode(writer);
            }
            Self::Symlink { dir, name, target, attributes } => {
                encode_name(writer, &dir, name);
                writer.opaque(target);
                attributes.encode(writer);
            }
            Self::Rename { from_dir, from, to_dir, to } => {
                encode_name(writer, &from_dir, from);
                encode_name(writer, &to_dir, to);
            }
            Self::Link { file, dir, name } => {
                file.encode(writer);
                encode_name(writer, &dir, name);
            }
        }
    }
}

/// The arguments that precede the payload of a WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteHead {
    /// Handle of the file.
    pub file: FileHandle,
    /// Offset in the file, in bytes.
    pub offset: u32,
    /// The length of the payload, in bytes.
    pub len: u32,
}

/// Appends the arguments of a WRITE up to its payload; the caller sends the payload and
/// [`crate::xdr::pad_len`] zero bytes after it.
pub fn encode_write_header(writer: &mut Writer<'_>, head: &WriteHead) {
    head.file.encode(writer);
    // The first offset and the total are unused by servers; these are what Linux sends.
    writer.u32(head.offset);
    writer.u32(head.offset);
    writer.u32(head.len);
    writer.u32(head.len);
}

fn encode_name(writer: &mut Writer<'_>, dir: &FileHandle, name: &[u8]) {
    dir.encode(writer);
    writer.opaque(name);
}

/// Decodes the calls that start with a directory and a name.
fn decode_named<'a>(
    procedure: Procedure,
    reader: &mut Reader<'a>,
) -> Result<Call<'a>, DecodeError> {
    let dir = FileHandle::decode(reader)?;
    let name = reader.opaque(u32::MAX)?;
    Ok(match procedure {
        Procedure::Lookup => Call::Lookup { dir, name },
        Procedure::Create => Call::Create { dir, name, attributes: Sattr::decode(reader)? },
        Procedure::Mkdir => Call::Mkdir { dir, name, attributes: Sattr::decode(reader)? },
        Procedure::Symlink => {
            let target = reader.opaque(u32::MAX)?;
            Call::Symlink { dir, name, target, attributes: Sattr::decode(reader)? }
        }
        Procedure::Remove => Call::Remove { dir, name },
        Procedure::Rmdir => Call::Rmdir { dir, name },
        _ => {
            let to_dir = FileHandle::decode(reader)?;
            let to = reader.opaque(u32::MAX)?;
            Call::Rename { from_dir: dir, from: name, to_dir, to }
        }
    })
}

/// Decodes the calls that start with a handle and no name.
fn decode_plain<'a>(
    procedure: Procedure,
    reader: &mut Reader<'a>,
) -> Result<Call<'a>, DecodeError> {
    let file = FileHandle::decode(reader)?;
    Ok(match procedure {
        Procedure::Setattr => Call::Setattr { file, attributes: Sattr::decode(reader)? },
        Procedure::Readlink => Call::Readlink { file },
        Procedure::Read => {
            let (offset, count) = (reader.u32()?, reader.u32()?);
            reader.u32()?;
            Call::Read { file, offset, count }
        }
        Procedure::Write => {
            let [_, offset, _] = [reader.u32()?, reader.u32()?, reader.u32()?];
            Call::Write { file, offset, data: reader.opaque(V2_TRANSFER_BYTES_MAX)? }
        }
        Procedure::Link => {
            let dir = FileHandle::decode(reader)?;
            Call::Link { file, dir, name: reader.opaque(u32::MAX)? }
        }
        Procedure::Readdir => {
            Call::Readdir { dir: file, cookie: reader.u32()?, count: reader.u32()? }
        }
        Procedure::Statfs => Call::Statfs { file },
        _ => Call::Getattr { file },
    })
}
