//! The arguments of every NFS v2 procedure.
//!
//! [`Call`] is a view: names, paths and WRITE payloads are not copied. The table is both encoder
//! and decoder. A WRITE whose payload is sent separately is encoded by [`encode_write_header`].
//! **Source:** RFC 1094 sections 2.2.1 to 2.2.18.

use super::{FileHandle, Procedure, Sattr};
use crate::error::DecodeError;
use crate::wire::{Wire, by_code};
use crate::xdr::{Reader, Writer};

by_code! {
    /// A call with its arguments. Fields that the RFC calls unused (the total count of a READ, the
    /// first offset and the total count of a WRITE) are skipped when decoding and plausible when
    /// encoding.
    pub enum Call<'a>: Procedure, procedure {
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
        Read { file: FileHandle, offset: u32, count: u32 } by read_arguments,
        /// Never defined; does nothing.
        Writecache,
        /// Writes `data` at `offset`.
        Write { file: FileHandle, offset: u32, data: &'a [u8] } by write_arguments,
        /// Creates a file, or truncates it if the attributes say so.
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
        /// Gets the space of the file system.
        Statfs { file: FileHandle },
    }
}

impl<'a> Call<'a> {
    /// Decodes the arguments of `procedure`, which must be all that is left.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers GARBAGE_ARGS.
    pub fn decode(procedure: Procedure, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let call = Self::decode_body(procedure, &mut reader)?;
        reader.finish()?;
        call.ok_or(DecodeError::BadValue { what: "the procedure", value: procedure.number() })
    }

    /// Appends the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        self.encode_body(writer);
    }
}

/// READ of v2 ends with a total count that no server uses; clients repeat the count.
mod read_arguments {
    use super::{Call, DecodeError, FileHandle, Reader, Wire, Writer};

    pub(super) fn decode<'a>(reader: &mut Reader<'a>) -> Result<Call<'a>, DecodeError> {
        let file = FileHandle::decode(reader)?;
        let offset = reader.u32()?;
        let count = reader.u32()?;
        reader.u32()?;
        Ok(Call::Read { file, offset, count })
    }

    pub(super) fn encode(call: &Call<'_>, writer: &mut Writer<'_>) {
        if let Call::Read { file, offset, count } = call {
            file.encode(writer);
            for word in [*offset, *count, *count] {
                writer.u32(word);
            }
        }
    }
}

/// WRITE of v2 has a first offset and a total count around its offset; neither is used.
mod write_arguments {
    use super::{Call, DecodeError, FileHandle, Reader, Wire, WriteHead, Writer};
    use crate::limits::V2_TRANSFER_BYTES_MAX;

    pub(super) fn decode<'a>(reader: &mut Reader<'a>) -> Result<Call<'a>, DecodeError> {
        let file = FileHandle::decode(reader)?;
        let [_, offset, _] = [reader.u32()?, reader.u32()?, reader.u32()?];
        Ok(Call::Write { file, offset, data: reader.opaque(V2_TRANSFER_BYTES_MAX)? })
    }

    pub(super) fn encode(call: &Call<'_>, writer: &mut Writer<'_>) {
        if let Call::Write { file, offset, data } = call {
            let head = WriteHead { file: *file, offset: *offset, len: data.len() as u32 };
            super::encode_write_header(writer, &head);
            writer.fixed(data);
        }
    }
}

/// The arguments of a WRITE before its payload.
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
    // Servers ignore the first offset and the total count; these are the values that Linux sends.
    for word in [head.offset, head.offset, head.len, head.len] {
        writer.u32(word);
    }
}
