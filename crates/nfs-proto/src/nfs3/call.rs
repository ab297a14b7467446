//! The arguments of every NFS v3 procedure.
//!
//! [`Call`] is a view: handles, names, paths and WRITE payloads are not copied. The table is both
//! encoder and decoder. A WRITE whose payload is sent separately is encoded by
//! [`encode_write_header`]. **Source:** RFC 1813 sections 3.3.0 to 3.3.21.

use super::types::HANDLE_MAX;
use super::{Device, FileType, Procedure, Sattr, StableHow, Time, Verifier};
use crate::error::DecodeError;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::wire::{Wire, by_code, wire_choice};
use crate::xdr::{Reader, Writer};

wire_choice! {
    /// How CREATE treats an existing name. **Source:** RFC 1813 section 3.3.8.
    pub enum CreateHow("createmode3") {
        /// It is not an error.
        0 => Unchecked(attributes: Sattr),
        /// It is an error.
        1 => Guarded(attributes: Sattr),
        /// It is an error unless it was created with the same verifier.
        2 => Exclusive(verifier: Verifier),
    }
}

/// The object that MKNOD creates. **Source:** RFC 1813 section 3.3.11.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MknodWhat {
    /// A character device.
    Character(Sattr, Device),
    /// A block device.
    Block(Sattr, Device),
    /// A local socket.
    Socket(Sattr),
    /// A named pipe.
    Fifo(Sattr),
    /// A type that MKNOD can't create; the server answers NFS3ERR_BADTYPE.
    Other(FileType),
}

by_code! {
    /// A call with its arguments.
    pub enum Call<'a>: Procedure, procedure {
        /// Does nothing at all.
        Null,
        /// Gets the attributes of a file.
        Getattr { file: &'a [u8] where len <= HANDLE_MAX },
        /// Sets attributes, if ctime still equals `guard`.
        Setattr {
            file: &'a [u8] where len <= HANDLE_MAX, attributes: Sattr, guard: Option<Time>,
        },
        /// Finds a name in a directory.
        Lookup { dir: &'a [u8] where len <= HANDLE_MAX, name: &'a [u8] },
        /// Queries which bits of [`super::access`] are granted.
        Access { file: &'a [u8] where len <= HANDLE_MAX, access: u32 },
        /// Reads a symbolic link.
        Readlink { file: &'a [u8] where len <= HANDLE_MAX },
        /// Reads `count` bytes from `offset`.
        Read { file: &'a [u8] where len <= HANDLE_MAX, offset: u64, count: u32 },
        /// Writes `data` at `offset`.
        Write {
            file: &'a [u8], offset: u64, stable: StableHow, data: &'a [u8],
        } by write_arguments,
        /// Creates a file.
        Create { dir: &'a [u8] where len <= HANDLE_MAX, name: &'a [u8], how: CreateHow },
        /// Creates a directory.
        Mkdir { dir: &'a [u8] where len <= HANDLE_MAX, name: &'a [u8], attributes: Sattr },
        /// Creates a symbolic link to `target`.
        Symlink {
            dir: &'a [u8] where len <= HANDLE_MAX,
            name: &'a [u8],
            attributes: Sattr,
            target: &'a [u8],
        },
        /// Creates a special file.
        Mknod { dir: &'a [u8] where len <= HANDLE_MAX, name: &'a [u8], what: MknodWhat },
        /// Removes a file.
        Remove { dir: &'a [u8] where len <= HANDLE_MAX, name: &'a [u8] },
        /// Removes a directory.
        Rmdir { dir: &'a [u8] where len <= HANDLE_MAX, name: &'a [u8] },
        /// Renames an entry.
        Rename {
            from_dir: &'a [u8] where len <= HANDLE_MAX,
            from: &'a [u8],
            to_dir: &'a [u8] where len <= HANDLE_MAX,
            to: &'a [u8],
        },
        /// Adds a name to a file.
        Link {
            file: &'a [u8] where len <= HANDLE_MAX,
            dir: &'a [u8] where len <= HANDLE_MAX,
            name: &'a [u8],
        },
        /// Lists a directory in a reply of at most `count` bytes.
        Readdir {
            dir: &'a [u8] where len <= HANDLE_MAX, cookie: u64, verifier: Verifier, count: u32,
        },
        /// Lists a directory with attributes: at most `dircount` bytes of names, `maxcount` in
        /// total.
        Readdirplus {
            dir: &'a [u8] where len <= HANDLE_MAX,
            cookie: u64,
            verifier: Verifier,
            dircount: u32,
            maxcount: u32,
        },
        /// Gets the space of the file system.
        Fsstat { root: &'a [u8] where len <= HANDLE_MAX },
        /// Gets the limits of the file system.
        Fsinfo { root: &'a [u8] where len <= HANDLE_MAX },
        /// Gets POSIX limits.
        Pathconf { file: &'a [u8] where len <= HANDLE_MAX },
        /// Makes `count` bytes from `offset` durable; a count of 0 means to the end.
        Commit { file: &'a [u8] where len <= HANDLE_MAX, offset: u64, count: u32 },
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

/// Appends the arguments of a WRITE up to its payload; the caller sends the `len` payload bytes
/// and [`crate::xdr::pad_len`] zero bytes after them.
pub fn encode_write_header(
    writer: &mut Writer<'_>,
    file: &[u8],
    offset: u64,
    stable: StableHow,
    len: u32,
) {
    writer.opaque(file);
    writer.u64(offset);
    // The length appears twice: as `count`, and as the count of the opaque that follows.
    writer.u32(len);
    writer.u32(stable.number());
    writer.u32(len);
}

/// WRITE contains the length of its data twice.
mod write_arguments {
    use super::{
        Call, DecodeError, HANDLE_MAX, Reader, StableHow, TRANSFER_BYTES_MAX, Wire, Writer,
    };

    #[inline]
    pub(super) fn decode<'a>(reader: &mut Reader<'a>) -> Result<Call<'a>, DecodeError> {
        let file = reader.opaque(HANDLE_MAX)?;
        let offset = reader.u64()?;
        let count = reader.u32()?;
        let stable = StableHow::decode(reader)?;
        let data = reader.opaque(TRANSFER_BYTES_MAX)?;
        // If the count differs from the length of the data, there would be two ways to obey it, and
        // client and server would count different bytes. RFC 1813 leaves it open; we refuse it.
        if count as usize != data.len() {
            return Err(DecodeError::BadValue { what: "count of a WRITE", value: count });
        }
        Ok(Call::Write { file, offset, stable, data })
    }

    pub(super) fn encode(call: &Call<'_>, writer: &mut Writer<'_>) {
        if let Call::Write { file, offset, stable, data } = *call {
            super::encode_write_header(writer, file, offset, stable, data.len() as u32);
            writer.fixed(data);
        }
    }
}

impl MknodWhat {
    /// Returns the requested type of object.
    pub const fn file_type(&self) -> FileType {
        match self {
            Self::Character(..) => FileType::Character,
            Self::Block(..) => FileType::Block,
            Self::Socket(_) => FileType::Socket,
            Self::Fifo(_) => FileType::Fifo,
            Self::Other(file_type) => *file_type,
        }
    }
}

impl Wire<'_> for MknodWhat {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match FileType::decode(reader)? {
            FileType::Character => Self::Character(Sattr::decode(reader)?, Device::decode(reader)?),
            FileType::Block => Self::Block(Sattr::decode(reader)?, Device::decode(reader)?),
            FileType::Socket => Self::Socket(Sattr::decode(reader)?),
            FileType::Fifo => Self::Fifo(Sattr::decode(reader)?),
            other => Self::Other(other),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        self.file_type().encode(writer);
        match self {
            Self::Character(attributes, device) | Self::Block(attributes, device) => {
                attributes.encode(writer);
                device.encode(writer);
            }
            Self::Socket(attributes) | Self::Fifo(attributes) => attributes.encode(writer),
            Self::Other(_) => {}
        }
    }
}
