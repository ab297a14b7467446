//! Attributes: those that replies return and those that a caller may set.
//!
//! [`Fattr`] has a fixed size of 84 bytes on the wire and is decoded and encoded in one piece.
//! [`WccData`] has a file's attributes before and after the operation. **Source:** RFC 1813 section
//! 2.6.

use super::types::{Device, FileType, Time};
use crate::error::DecodeError;
use crate::wire::{Wire, wire_choice, wire_struct};
use crate::xdr::{Reader, Writer};

/// The attributes of a file. **Source:** RFC 1813 section 2.6, fattr3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fattr {
    /// The kind of object.
    pub file_type: FileType,
    /// Permission bits of the file.
    pub mode: u32,
    /// Number of links.
    pub nlink: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
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
}

impl Wire<'_> for Fattr {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let words = reader.words::<{ Self::WIRE_BYTES / 4 }>()?;
        Ok(Self {
            file_type: FileType::from_number(words[0])?,
            mode: words[1],
            nlink: words[2],
            uid: words[3],
            gid: words[4],
            size: join(words[5], words[6]),
            used: join(words[7], words[8]),
            device: Device { major: words[9], minor: words[10] },
            fsid: join(words[11], words[12]),
            fileid: join(words[13], words[14]),
            atime: Time { seconds: words[15], nanos: words[16] },
            mtime: Time { seconds: words[17], nanos: words[18] },
            ctime: Time { seconds: words[19], nanos: words[20] },
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.words([
            self.file_type.number(),
            self.mode,
            self.nlink,
            self.uid,
            self.gid,
            high_half(self.size),
            self.size as u32,
            high_half(self.used),
            self.used as u32,
            self.device.major,
            self.device.minor,
            high_half(self.fsid),
            self.fsid as u32,
            high_half(self.fileid),
            self.fileid as u32,
            self.atime.seconds,
            self.atime.nanos,
            self.mtime.seconds,
            self.mtime.nanos,
            self.ctime.seconds,
            self.ctime.nanos,
        ]);
    }
}

/// Joins the two words of a 64-bit integer, the more significant first.
fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn high_half(value: u64) -> u32 {
    (value >> 32) as u32
}

wire_struct! {
    /// Attributes from before an operation. **Source:** RFC 1813 section 2.6, wcc_attr.
    #[derive(Default)]
    pub struct WccAttr {
        /// Size in bytes.
        size: u64,
        /// Last change of the data.
        mtime: Time,
        /// Last change of the attributes.
        ctime: Time,
    }
}

// Weak cache consistency: if the attributes from before are those that a client has cached, the
// change was its own and its cache is still valid. A server that can't read them atomically with
// the operation leaves them out. RFC 1813 section 2.6.
wire_struct! {
    /// Attributes from before and after an operation. **Source:** RFC 1813 section 2.6, wcc_data.
    #[derive(Default)]
    pub struct WccData {
        /// From before, if the server could read them atomically.
        before: Option<WccAttr>,
        /// Attributes from after the call.
        after: Option<Fattr>,
    }
}

wire_choice! {
    /// How a time is set. **Source:** RFC 1813 section 2.6, time_how.
    #[derive(Default)]
    pub enum SetTime("time_how") {
        /// Left unchanged.
        #[default]
        0 => Keep,
        /// Set to the server's clock.
        1 => Server,
        /// Set to this instant.
        2 => Client(time: Time),
    }
}

wire_struct! {
    /// Attributes to set; `None` leaves one unchanged. **Source:** RFC 1813 section 2.6, sattr3.
    #[derive(Default)]
    pub struct Sattr {
        /// Permission bits of the file.
        mode: Option<u32>,
        /// User id of the owner.
        uid: Option<u32>,
        /// Group id.
        gid: Option<u32>,
        /// Size in bytes.
        size: Option<u64>,
        /// Time of the last access.
        atime: SetTime,
        /// Last change of the data.
        mtime: SetTime,
    }
}

impl Sattr {
    /// Sets only the permission bits.
    pub fn with_mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }
}
