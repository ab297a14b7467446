//! Smaller unions: the objects of CREATE, the flavors of SECINFO, the segments of READ_PLUS, the
//! servers of COPY, the end of an asynchronous copy, and the options of SETXATTR.
//!
//! **Source:** RFC 7531, RFC 5662, RFC 7863, RFC 8276.

use super::types::Stateid;
use crate::error::DecodeError;
use crate::nfs3::{Device, FileType, StableHow, Verifier};
use crate::status::Status;
use crate::wire::{Wire, wire_choice, wire_enum, wire_struct};
use crate::xdr::{Reader, Writer};

/// Kinds of content, for SEEK and READ_PLUS. **Source:** RFC 7863, data_content4.
pub mod content {
    /// Bytes that were written.
    pub const DATA: u32 = 0;
    /// A range without data.
    pub const HOLE: u32 = 1;
}

/// Rights of ACCESS to extended attributes, since v4.2; the others are those of
/// [`crate::nfs3::access`]. **Source:** RFC 8276 section 8.5, ACCESS4_XAREAD and following.
pub mod xattr_access {
    /// Read the value of an extended attribute.
    pub const READ: u32 = 0x40;
    /// Set or remove an extended attribute.
    pub const WRITE: u32 = 0x80;
    /// List the names of the extended attributes.
    pub const LIST: u32 = 0x100;
}

wire_enum! {
    /// How SETXATTR treats an existing attribute. **Source:** RFC 8276 section 8.4.2,
    /// setxattr_option4.
    pub enum XattrOption("setxattr_option4") {
        /// Creates the attribute or replaces its value.
        Either = 0,
        /// Creates the attribute; it is an error if it exists.
        Create = 1,
        /// Replaces the value; it is an error if the attribute does not exist.
        Replace = 2,
    }
}

/// The object that CREATE creates. **Source:** RFC 7531, createtype4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateKind<'a> {
    /// A directory with entries.
    Directory,
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A block device.
    Block(Device),
    /// A character device.
    Character(Device),
    /// A local socket.
    Socket,
    /// A named pipe.
    Fifo,
    /// A type that CREATE can't create; the server answers NFS4ERR_BADTYPE.
    Other(u32),
}

impl<'a> Wire<'a> for CreateKind<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let number = reader.u32()?;
        Ok(match FileType::from_number(number) {
            Ok(FileType::Directory) => Self::Directory,
            Ok(FileType::Symlink) => Self::Symlink(Wire::decode(reader)?),
            Ok(FileType::Block) => Self::Block(Device::decode(reader)?),
            Ok(FileType::Character) => Self::Character(Device::decode(reader)?),
            Ok(FileType::Socket) => Self::Socket,
            Ok(FileType::Fifo) => Self::Fifo,
            Ok(FileType::Regular) | Err(_) => Self::Other(number),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(match self {
            Self::Directory => FileType::Directory.number(),
            Self::Symlink(_) => FileType::Symlink.number(),
            Self::Block(_) => FileType::Block.number(),
            Self::Character(_) => FileType::Character.number(),
            Self::Socket => FileType::Socket.number(),
            Self::Fifo => FileType::Fifo.number(),
            Self::Other(number) => *number,
        });
        match self {
            Self::Symlink(target) => writer.opaque(target),
            Self::Block(device) | Self::Character(device) => device.encode(writer),
            Self::Directory | Self::Socket | Self::Fifo | Self::Other(_) => {}
        }
    }
}

wire_struct! {
    /// The mechanism of RPCSEC_GSS. **Source:** RFC 7531, rpcsec_gss_info.
    pub struct GssInfo<'a> {
        /// Object id of the mechanism.
        oid: &'a [u8],
        /// Quality of protection.
        quality: u32,
        /// None (1), integrity (2) or privacy (3).
        service: u32,
    }
}

/// An accepted security flavor. **Source:** RFC 7531, secinfo4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityFlavor<'a> {
    /// A flavor without parameters, by number: AUTH_NONE, AUTH_SYS.
    Plain(u32),
    /// The flavor RPCSEC_GSS.
    Gss(GssInfo<'a>),
}

impl SecurityFlavor<'_> {
    /// The flavor number of RPCSEC_GSS. **Source:** RFC 2203.
    pub const RPCSEC_GSS: u32 = 6;
}

impl<'a> Wire<'a> for SecurityFlavor<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.u32()? {
            Self::RPCSEC_GSS => GssInfo::decode(reader).map(Self::Gss),
            flavor => Ok(Self::Plain(flavor)),
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Plain(flavor) => writer.u32(*flavor),
            Self::Gss(info) => {
                writer.u32(Self::RPCSEC_GSS);
                info.encode(writer);
            }
        }
    }
}

wire_choice! {
    /// A segment returned by READ_PLUS. **Source:** RFC 7863, read_plus_content.
    pub enum Segment<'a>("data_content4") {
        /// Bytes at this offset.
        0 => Data(offset: u64, bytes: &'a [u8]),
        /// A hole at this offset, of this length in bytes.
        1 => Hole(offset: u64, length: u64),
    }
}

wire_choice! {
    /// The location of another server. **Source:** RFC 7863, netloc4.
    pub enum NetLocation<'a>("netloc_type4") {
        /// A server by its name.
        1 => Name(name: &'a [u8]),
        /// A server by its URL.
        2 => Url(url: &'a [u8]),
        /// By address: netid and universal address.
        3 => Address(netid: &'a [u8], address: &'a [u8]),
    }
}

wire_struct! {
    /// What an asynchronous copy has written. **Source:** RFC 7863, write_response4.
    pub struct CopiedData {
        /// Empty in a callback.
        callback_id: Option<Stateid>,
        /// Number of bytes.
        count: u64,
        /// How durable they are.
        committed: StableHow,
        /// Changes when the server may have lost uncommitted data.
        verifier: Verifier,
    }
}

/// How an asynchronous copy has ended. **Source:** RFC 7863, offload_info4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadResult {
    /// It wrote this, which may be less than requested.
    Done(CopiedData),
    /// It failed with a status other than [`Status::Ok`] after this number of bytes.
    Failed(Status, u64),
}

impl<'a> Wire<'a> for OffloadResult {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match Status::decode(reader)? {
            Status::Ok => Self::Done(CopiedData::decode(reader)?),
            status => Self::Failed(status, reader.u64()?),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Done(copied) => {
                writer.u32(Status::Ok.number());
                copied.encode(writer);
            }
            Self::Failed(status, count) => {
                writer.u32(status.number());
                writer.u64(*count);
            }
        }
    }
}
