//! Attributes: what replies carry of a file and what a caller may set.
//!
//! [`Fattr`] has a fixed size of 84 bytes on the wire and is read and written in one piece.
//! [`WccData`] is what a reply says of a file before and after the operation.
//! **Source:** RFC 1813 section 2.6.

use super::types::{Device, FileType, Time};
use crate::error::DecodeError;
use crate::xdr::{Reader, Writer};

/// The attributes of a file. **Source:** RFC 1813 section 2.6, fattr3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fattr {
    /// The kind of object.
    pub file_type: FileType,
    /// Permission bits of the file.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Bytes of disk space in use.
    pub used: u64,
    /// Device numbers, for devices.
    pub device: Device,
    /// Id of the file system.
    pub fsid: u64,
    /// Id of the file within its file system.
    pub fileid: u64,
    /// Time of the last access.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
}

impl Fattr {
    /// Bytes on the wire.
    pub const WIRE_BYTES: usize = 84;

    /// Reads attributes from the wire.
    ///
    /// # Errors
    /// [`DecodeError`] when they are not all there or the file type is unknown.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.array::<{ Self::WIRE_BYTES }>()?;
        let word = |index: usize| {
            let at = 4 * index;
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let double = |index: usize| u64::from(word(index)) << 32 | u64::from(word(index + 1));
        let time = |index: usize| Time { seconds: word(index), nanos: word(index + 1) };
        Ok(Self {
            file_type: FileType::from_number(word(0))?,
            mode: word(1),
            nlink: word(2),
            uid: word(3),
            gid: word(4),
            size: double(5),
            used: double(7),
            device: Device { major: word(9), minor: word(10) },
            fsid: double(11),
            fileid: double(13),
            atime: time(15),
            mtime: time(17),
            ctime: time(19),
        })
    }

    /// Appends the attributes.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        let high = |value: u64| (value >> 32) as u32;
        let words = [
            self.file_type.number(),
            self.mode,
            self.nlink,
            self.uid,
            self.gid,
            high(self.size),
            self.size as u32,
            high(self.used),
            self.used as u32,
            self.device.major,
            self.device.minor,
            high(self.fsid),
            self.fsid as u32,
            high(self.fileid),
            self.fileid as u32,
            self.atime.seconds,
            self.atime.nanos,
            self.mtime.seconds,
            self.mtime.nanos,
            self.ctime.seconds,
            self.ctime.nanos,
        ];
        let mut bytes = [0; Self::WIRE_BYTES];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        writer.raw(&bytes);
    }

    /// Reads attributes that may be absent. **Source:** RFC 1813 section 2.6, post_op_attr.
    ///
    /// # Errors
    /// As [`Fattr::decode`].
    pub fn decode_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.bool("attributes_follow")? { Self::decode(reader).map(Some) } else { Ok(None) }
    }

    /// Appends attributes that may be absent.
    pub fn encode_optional(attributes: Option<&Self>, writer: &mut Writer<'_>) {
        writer.bool(attributes.is_some());
        if let Some(attributes) = attributes {
            attributes.encode(writer);
        }
    }
}

/// Attributes from before an operation. **Source:** RFC 1813 section 2.6, wcc_attr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WccAttr {
    /// Size in bytes.
    pub size: u64,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
}

/// Attributes from before and after an operation. **Source:** RFC 1813 section 2.6, wcc_data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WccData {
    /// From before, where the server could tell atomically.
    pub before: Option<WccAttr>,
    /// Attributes from after the call.
    pub after: Option<Fattr>,
}

impl WccData {
    /// Reads both halves.
    ///
    /// # Errors
    /// [`DecodeError`] when they are not all there.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let before = if reader.bool("attributes_follow")? {
            let size = reader.u64()?;
            Some(WccAttr { size, mtime: Time::decode(reader)?, ctime: Time::decode(reader)? })
        } else {
            None
        };
        Ok(Self { before, after: Fattr::decode_optional(reader)? })
    }

    /// Appends both halves.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.bool(self.before.is_some());
        if let Some(before) = &self.before {
            writer.u64(before.size);
            before.mtime.encode(writer);
            before.ctime.encode(writer);
        }
        Fattr::encode_optional(self.after.as_ref(), writer);
    }
}

/// How a time is to be set. **Source:** RFC 1813 section 2.6, time_how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// Left as it is.
    #[default]
    Keep,
    /// Set to the server's clock.
    Server,
    /// Set to this instant.
    Client(Time),
}

impl SetTime {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u32()? {
            0 => Ok(Self::Keep),
            1 => Ok(Self::Server),
            2 => Time::decode(reader).map(Self::Client),
            value => Err(DecodeError::BadValue { what: "time_how", value }),
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Keep => writer.u32(0),
            Self::Server => writer.u32(1),
            Self::Client(time) => {
                writer.u32(2);
                time.encode(writer);
            }
        }
    }
}

/// Attributes to set; what is `None` is left as it is. **Source:** RFC 1813 section 2.6, sattr3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sattr {
    /// Permission bits of the file.
    pub mode: Option<u32>,
    /// Number of the owner.
    pub uid: Option<u32>,
    /// Number of the group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: SetTime,
    /// Last change of the data.
    pub mtime: SetTime,
}

impl Sattr {
    /// Sets nothing but the permission bits.
    pub fn with_mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    /// Reads attributes to set.
    ///
    /// # Errors
    /// [`DecodeError`] when they are not all there.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut word = |what| reader.bool(what)?.then(|| reader.u32()).transpose();
        let (mode, uid, gid) = (word("set_mode")?, word("set_uid")?, word("set_gid")?);
        let size = reader.bool("set_size")?.then(|| reader.u64()).transpose()?;
        let atime = SetTime::decode(reader)?;
        Ok(Self { mode, uid, gid, size, atime, mtime: SetTime::decode(reader)? })
    }

    /// Appends attributes to set.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        for word in [self.mode, self.uid, self.gid] {
            writer.bool(word.is_some());
            if let Some(word) = word {
                writer.u32(word);
            }
        }
        writer.bool(self.size.is_some());
        if let Some(size) = self.size {
            writer.u64(size);
        }
        self.atime.encode(writer);
        self.mtime.encode(writer);
    }
}
