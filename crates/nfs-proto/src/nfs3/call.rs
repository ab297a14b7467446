//! The arguments of every NFS v3 procedure.
//!
//! [`Call`] is a view: handles, names, paths and WRITE payloads stay where they were received. A
//! WRITE whose payload is sent from elsewhere is encoded by [`encode_write_header`].
//! **Source:** RFC 1813 sections 3.3.0 to 3.3.21.

use super::types::decode_handle;
use super::{Device, FileType, Procedure, Sattr, StableHow, Time, Verifier};
use crate::error::DecodeError;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::xdr::{Reader, Writer};

/// How CREATE treats a name that exists. **Source:** RFC 1813 section 3.3.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// It is no error.
    Unchecked(Sattr),
    /// It is an error.
    Guarded(Sattr),
    /// It is an error unless it was created with the same verifier.
    Exclusive(Verifier),
}

/// The object that MKNOD makes. **Source:** RFC 1813 section 3.3.11.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MknodWhat {
    /// A character device.
    Character(Sattr, Device),
    /// A block device.
    Block(Sattr, Device),
    /// A socket of the local domain.
    Socket(Sattr),
    /// A named pipe.
    Fifo(Sattr),
    /// A type that MKNOD does not make; the server answers NFS3ERR_BADTYPE.
    Other(FileType),
}

/// A call with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named as the arguments are in the RFC")]
pub enum Call<'a> {
    /// Does nothing at all.
    Null,
    /// Gets the attributes of a file.
    Getattr { file: &'a [u8] },
    /// Sets attributes, if the change time still equals `guard`.
    Setattr { file: &'a [u8], attributes: Sattr, guard: Option<Time> },
    /// Finds a name in a directory.
    Lookup { dir: &'a [u8], name: &'a [u8] },
    /// Asks which bits of [`super::access`] are granted.
    Access { file: &'a [u8], access: u32 },
    /// Reads a symbolic link.
    Readlink { file: &'a [u8] },
    /// Reads `count` bytes from `offset`.
    Read { file: &'a [u8], offset: u64, count: u32 },
    /// Writes `data` at `offset`.
    Write { file: &'a [u8], offset: u64, stable: StableHow, data: &'a [u8] },
    /// Creates a file.
    Create { dir: &'a [u8], name: &'a [u8], how: CreateHow },
    /// Creates a directory.
    Mkdir { dir: &'a [u8], name: &'a [u8], attributes: Sattr },
    /// Creates a symbolic link to `target`.
    Symlink { dir: &'a [u8], name: &'a [u8], attributes: Sattr, target: &'a [u8] },
    /// Creates a special file.
    Mknod { dir: &'a [u8], name: &'a [u8], what: MknodWhat },
    /// Removes a file.
    Remove { dir: &'a [u8], name: &'a [u8] },
    /// Removes a directory.
    Rmdir { dir: &'a [u8], name: &'a [u8] },
    /// Renames an entry.
    Rename { from_dir: &'a [u8], from: &'a [u8], to_dir: &'a [u8], to: &'a [u8] },
    /// Adds a name to a file.
    Link { file: &'a [u8], dir: &'a [u8], name: &'a [u8] },
    /// Lists a directory in a reply of at most `count` bytes.
    Readdir { dir: &'a [u8], cookie: u64, verifier: Verifier, count: u32 },
    /// Lists a directory with attributes: at most `dircount` bytes of names, `maxcount` in all.
    Readdirplus { dir: &'a [u8], cookie: u64, verifier: Verifier, dircount: u32, maxcount: u32 },
    /// Gets the fill state of the file system.
    Fsstat { root: &'a [u8] },
    /// Gets the limits of the file system.
    Fsinfo { root: &'a [u8] },
    /// Gets POSIX limits.
    Pathconf { file: &'a [u8] },
    /// Makes `count` bytes from `offset` durable; a count of 0 means to the end.
    Commit { file: &'a [u8], offset: u64, count: u32 },
}

impl<'a> Call<'a> {
    /// Returns the procedure that takes these arguments.
    pub const fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::Null,
            Self::Getattr { .. } => Procedure::Getattr,
            Self::Setattr { .. } => Procedure::Setattr,
            Self::Lookup { .. } => Procedure::Lookup,
            Self::Access { .. } => Procedure::Access,
            Self::Readlink { .. } => Procedure::Readlink,
            Self::Read { .. } => Procedure::Read,
            Self::Write { .. } => Procedure::Write,
            Self::Create { .. } => Procedure::Create,
            Self::Mkdir { .. } => Procedure::Mkdir,
            Self::Symlink { .. } => Procedure::Symlink,
            Self::Mknod { .. } => Procedure::Mknod,
            Self::Remove { .. } => Procedure::Remove,
            Self::Rmdir { .. } => Procedure::Rmdir,
            Self::Rename { .. } => Procedure::Rename,
            Self::Link { .. } => Procedure::Link,
            Self::Readdir { .. } => Procedure::Readdir,
            Self::Readdirplus { .. } => Procedure::Readdirplus,
            Self::Fsstat { .. } => Procedure::Fsstat,
            Self::Fsinfo { .. } => Procedure::Fsinfo,
            Self::Pathconf { .. } => Procedure::Pathconf,
            Self::Commit { .. } => Procedure::Commit,
        }
    }

    /// Reads the arguments of `procedure`, which must be all that is left.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers GARBAGE_ARGS.
    pub fn decode(procedure: Procedure, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let call = match procedure {
            Procedure::Null => Self::Null,
            Procedure::Setattr => decode_setattr(&mut reader)?,
            Procedure::Create
            | Procedure::Mkdir
            | Procedure::Symlink
            | Procedure::Mknod
            | Procedure::Remove
            | Procedure::Rmdir
            | Procedure::Rename
            | Procedure::Lookup => decode_named(procedure, &mut reader)?,
            _ => decode_plain(procedure, &mut reader)?,
        };
        reader.finish()?;
        Ok(call)
    }

    /// Appends the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match *self {
            Self::Null => {}
            Self::Getattr { file } | Self::Readlink { file } | Self::Pathconf { file } => {
                writer.opaque(file);
            }
            Self::Fsstat { root } | Self::Fsinfo { root } => writer.opaque(root),
            Self::Setattr { file, attributes, guard } => {
                writer.opaque(file);
                attributes.encode(writer);
                writer.bool(guard.is_some());
                if let Some(ctime) = guard {
                    ctime.encode(writer);
                }
            }
            Self::Access { file, access } => {
                writer.opaque(file);
                writer.u32(access);
            }
            Self::Read { file, offset, count } | Self::Commit { file, offset, count } => {
                writer.opaque(file);
                writer.u64(offset);
                writer.u32(count);
            }
            Self::Write { file, offset, stable, data } => {
                encode_write_header(writer, file, offset, stable, data.len() as u32);
                writer.fixed(data);
            }
            Self::Readdir { dir, cookie, verifier, count } => {
                encode_cursor(writer, dir, cookie, verifier);
                writer.u32(count);
            }
            Self::Readdirplus { dir, cookie, verifier, dircount, maxcount } => {
                encode_cursor(writer, dir, cookie, verifier);
                writer.u32(dircount);
                writer.u32(maxcount);
            }
            Self::Lookup { dir, name } | Self::Remove { dir, name } | Self::Rmdir { dir, name } => {
                encode_name(writer, dir, name);
            }
            Self::Create { dir, name, how } => {
                encode_name(writer, dir, name);
                how.encode(writer);
            }
            Self::Mkdir { dir, name, attributes } => {
                encode_name(writer, dir, name);
                attributes.encode(writer);
            }
            Self::Symlink { dir, name, attributes, target } => {
                encode_name(writer, dir, name);
                attributes.encode(writer);
                writer.opaque(target);
            }
            Self::Mknod { dir, name, what } => {
                encode_name(writer, dir, name);
                what.encode(writer);
            }
            Self::Rename { from_dir, from, to_dir, to } => {
                encode_name(writer, from_dir, from);
                encode_name(writer, to_dir, to);
            }
            Self::Link { file, dir, name } => {
                writer.opaque(file);
                encode_name(writer, dir, name);
            }
        }
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
    writer.u32(len);
    writer.u32(stable.number());
    writer.u32(len);
}

impl CreateHow {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u32()? {
            0 => Sattr::decode(reader).map(Self::Unchecked),
            1 => Sattr::decode(reader).map(Self::Guarded),
            2 => Verifier::decode(reader).map(Self::Exclusive),
            value => Err(DecodeError::BadValue { what: "createmode3", value }),
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Unchecked(attributes) => {
                writer.u32(0);
                attributes.encode(writer);
            }
            Self::Guarded(attributes) => {
                writer.u32(1);
                attributes.encode(writer);
            }
            Self::Exclusive(verifier) => {
                writer.u32(2);
                verifier.encode(writer);
            }
        }
    }
}

impl MknodWhat {
    /// Returns the type of object that is requested.
    pub const fn file_type(&self) -> FileType {
        match self {
            Self::Character(..) => FileType::Character,
            Self::Block(..) => FileType::Block,
            Self::Socket(_) => FileType::Socket,
            Self::Fifo(_) => FileType::Fifo,
            Self::Other(file_type) => *file_type,
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let device = |reader: &mut Reader<'_>| {
            Ok::<_, DecodeError>(Device { major: reader.u32()?, minor: reader.u32()? })
        };
        Ok(match FileType::from_number(reader.u32()?)? {
            FileType::Character => Self::Character(Sattr::decode(reader)?, device(reader)?),
            FileType::Block => Self::Block(Sattr::decode(reader)?, device(reader)?),
            FileType::Socket => Self::Socket(Sattr::decode(reader)?),
            FileType::Fifo => Self::Fifo(Sattr::decode(reader)?),
            other => Self::Other(other),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.file_type().number());
        match self {
            Self::Character(attributes, device) | Self::Block(attributes, device) => {
                attributes.encode(writer);
                writer.u32(device.major);
                writer.u32(device.minor);
            }
            Self::Socket(attributes) | Self::Fifo(attributes) => attributes.encode(writer),
            Self::Other(_) => {}
        }
    }
}

fn encode_name(writer: &mut Writer<'_>, dir: &[u8], name: &[u8]) {
    writer.opaque(dir);
    writer.opaque(name);
}

fn encode_cursor(writer: &mut Writer<'_>, dir: &[u8], cookie: u64, verifier: Verifier) {
    writer.opaque(dir);
    writer.u64(cookie);
    verifier.encode(writer);
}

fn decode_setattr<'a>(reader: &mut Reader<'a>) -> Result<Call<'a>, DecodeError> {
    let file = decode_handle(reader)?;
    let attributes = Sattr::decode(reader)?;
    let guard = reader.bool("sattrguard3")?.then(|| Time::decode(reader)).transpose()?;
    Ok(Call::Setattr { file, attributes, guard })
}

/// Decodes the calls that start with a directory and a name.
fn decode_named<'a>(
    procedure: Procedure,
    reader: &mut Reader<'a>,
) -> Result<Call<'a>, DecodeError> {
    let dir = decode_handle(reader)?;
    let name = reader.opaque(u32::MAX)?;
    Ok(match procedure {
        Procedure::Lookup => Call::Lookup { dir, name },
        Procedure::Create => Call::Create { dir, name, how: CreateHow::decode(reader)? },
        Procedure::Mkdir => Call::Mkdir { dir, name, attributes: Sattr::decode(reader)? },
        Procedure::Symlink => {
            let attributes = Sattr::decode(reader)?;
            Call::Symlink { dir, name, attributes, target: reader.opaque(u32::MAX)? }
        }
        Procedure::Mknod => Call::Mknod { dir, name, what: MknodWhat::decode(reader)? },
        Procedure::Remove => Call::Remove { dir, name },
        Procedure::Rmdir => Call::Rmdir { dir, name },
        _ => {
            let to_dir = decode_handle(reader)?;
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
    let file = decode_handle(reader)?;
    Ok(match procedure {
        Procedure::Access => Call::Access { file, access: reader.u32()? },
        Procedure::Readlink => Call::Readlink { file },
        Procedure::Read => Call::Read { file, offset: reader.u64()?, count: reader.u32()? },
        Procedure::Write => decode_write(file, reader)?,
        Procedure::Link => {
            let dir = decode_handle(reader)?;
            Call::Link { file, dir, name: reader.opaque(u32::MAX)? }
        }
        Procedure::Readdir => {
            let (cookie, verifier) = (reader.u64()?, Verifier::decode(reader)?);
            Call::Readdir { dir: file, cookie, verifier, count: reader.u32()? }
        }
        Procedure::Readdirplus => {
            let (cookie, verifier) = (reader.u64()?, Verifier::decode(reader)?);
            let (dircount, maxcount) = (reader.u32()?, reader.u32()?);
            Call::Readdirplus { dir: file, cookie, verifier, dircount, maxcount }
        }
        Procedure::Fsstat => Call::Fsstat { root: file },
        Procedure::Fsinfo => Call::Fsinfo { root: file },
        Procedure::Pathconf => Call::Pathconf { file },
        Procedure::Commit => Call::Commit { file, offset: reader.u64()?, count: reader.u32()? },
        _ => Call::Getattr { file },
    })
}

/// A count other than the length of the data is refused: its bytes could not be counted.
fn decode_write<'a>(file: &'a [u8], reader: &mut Reader<'a>) -> Result<Call<'a>, DecodeError> {
    let offset = reader.u64()?;
    let count = reader.u32()?;
    let stable = StableHow::decode(reader)?;
    let data = reader.opaque(TRANSFER_BYTES_MAX)?;
    if count as usize != data.len() {
        return Err(DecodeError::BadValue { what: "count of a WRITE", value: count });
    }
    Ok(Call::Write { file, offset, stable, data })
}
