//! Attributes of NFS v2, and their conversion to version 3.
//!
//! [`Fattr`] has a fixed size of 68 bytes on the wire; its mode also contains the type of the file,
//! and its sizes are limited to 4 GiB. **Source:** RFC 1094 sections 2.3.5 and 2.3.6.

use super::types::{SetTime, Time};
use crate::error::DecodeError;
use crate::nfs3::{self, Device, FileType};
use crate::wire::Wire;
use crate::xdr::{Reader, Writer};

/// Mode bits of each file type, with its number in `ftype`: the RFC gives sockets the number 0, and
/// pipes that of a character device.
const TYPES: [(FileType, u32, u32); 7] = [
    (FileType::Regular, 0o100_000, 1),
    (FileType::Directory, 0o040_000, 2),
    (FileType::Block, 0o060_000, 3),
    (FileType::Character, 0o020_000, 4),
    (FileType::Symlink, 0o120_000, 5),
    (FileType::Socket, 0o140_000, 0),
    (FileType::Fifo, 0o010_000, 4),
];
const TYPE_MASK: u32 = 0o170_000;
/// Largest type number seen in the field, NFFIFO. **Source:** Linux include/uapi/linux/nfs.h, `enum
/// nfs_ftype`.
const TYPE_NUMBER_MAX: u32 = 8;
/// The device number of a named pipe. **Source:** Linux fs/nfsd/nfsxdr.c, `svcxdr_encode_fattr`.
const FIFO_DEVICE: u32 = u32::MAX;
/// The unit of `blocks`, in bytes, as used by all servers.
const BLOCK_BYTES: u64 = 512;
/// The block size reported for a file, in bytes.
const FILE_BLOCK_BYTES: u32 = 4096;

/// The attributes of a file. **Source:** RFC 1094 section 2.3.5, fattr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fattr {
    /// The kind of object by its `ftype` number; the mode is more precise.
    pub type_number: u32,
    /// Permission bits and the bits of the type.
    pub mode: u32,
    /// Number of links.
    pub nlink: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Size in bytes.
    pub size: u32,
    /// Size of a block, in bytes.
    pub block_bytes: u32,
    /// Device number, for devices.
    pub device: u32,
    /// Disk space in use, in units of 512 bytes.
    pub blocks: u32,
    /// Id of the file system.
    pub fsid: u32,
    /// Id of the file within its file system.
    pub fileid: u32,
    /// Time of the last access.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
}

impl Fattr {
    /// Bytes on the wire.
    pub const WIRE_BYTES: usize = 68;

    /// Returns the kind of object according to the mode, or else the type number.
    pub fn file_type(&self) -> FileType {
        // The number can't express a socket or a pipe; servers put those in the mode only.
        for (file_type, bits, _) in TYPES {
            if bits == self.mode & TYPE_MASK {
                return file_type;
            }
        }
        for (file_type, _, number) in TYPES {
            if number == self.type_number {
                return file_type;
            }
        }
        FileType::Regular
    }
}

impl Wire<'_> for Fattr {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let words = reader.words::<{ Self::WIRE_BYTES / 4 }>()?;
        if words[0] > TYPE_NUMBER_MAX {
            return Err(DecodeError::BadValue { what: "ftype", value: words[0] });
        }
        Ok(Self {
            type_number: words[0],
            mode: words[1],
            nlink: words[2],
            uid: words[3],
            gid: words[4],
            size: words[5],
            block_bytes: words[6],
            device: words[7],
            blocks: words[8],
            fsid: words[9],
            fileid: words[10],
            atime: Time { seconds: words[11], micros: words[12] },
            mtime: Time { seconds: words[13], micros: words[14] },
            ctime: Time { seconds: words[15], micros: words[16] },
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.words([
            self.type_number,
            self.mode,
            self.nlink,
            self.uid,
            self.gid,
            self.size,
            self.block_bytes,
            self.device,
            self.blocks,
            self.fsid,
            self.fileid,
            self.atime.seconds,
            self.atime.micros,
            self.mtime.seconds,
            self.mtime.micros,
            self.ctime.seconds,
            self.ctime.micros,
        ]);
    }
}

impl From<&Fattr> for nfs3::Fattr {
    fn from(attributes: &Fattr) -> Self {
        let device = attributes.device;
        Self {
            file_type: attributes.file_type(),
            mode: attributes.mode & !TYPE_MASK,
            nlink: attributes.nlink,
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size.into(),
            used: u64::from(attributes.blocks) * BLOCK_BYTES,
            device: Device { major: device >> 8, minor: device & 0xff },
            fsid: attributes.fsid.into(),
            fileid: attributes.fileid.into(),
            atime: attributes.atime.into(),
            mtime: attributes.mtime.into(),
            ctime: attributes.ctime.into(),
        }
    }
}

/// Converts attributes; sizes that do not fit are saturated, ids are folded.
impl From<&nfs3::Fattr> for Fattr {
    fn from(attributes: &nfs3::Fattr) -> Self {
        let wanted = attributes.file_type;
        let mut bits = TYPES[0].1;
        let mut type_number = TYPES[0].2;
        for (file_type, type_bits, number) in TYPES {
            if file_type == wanted {
                bits = type_bits;
                type_number = number;
            }
        }
        let device = match wanted {
            FileType::Fifo => FIFO_DEVICE,
            _ => attributes.device.major << 8 | attributes.device.minor & 0xff,
        };
        Self {
            type_number,
            mode: attributes.mode & !TYPE_MASK | bits,
            nlink: attributes.nlink,
            uid: attributes.uid,
            gid: attributes.gid,
            size: saturate(attributes.size),
            block_bytes: FILE_BLOCK_BYTES,
            device,
            blocks: saturate(attributes.used.div_ceil(BLOCK_BYTES)),
            fsid: fold(attributes.fsid),
            fileid: fold(attributes.fileid),
            atime: attributes.atime.into(),
            mtime: attributes.mtime.into(),
            ctime: attributes.ctime.into(),
        }
    }
}

/// Returns the number, saturated to 32 bits.
fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Folds a 64-bit id. Ids are only compared, and for real file ids (small numbers, or hashes) few
/// collide.
fn fold(id: u64) -> u32 {
    (id as u32) ^ ((id >> 32) as u32)
}

/// Attributes to set; `None` leaves one unchanged. **Source:** RFC 1094 section 2.3.6, sattr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sattr {
    /// Permission bits of the file.
    pub mode: Option<u32>,
    /// User id of the owner.
    pub uid: Option<u32>,
    /// Group id.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u32>,
    /// Time of the last access.
    pub atime: SetTime,
    /// Last change of the data.
    pub mtime: SetTime,
}

impl Sattr {
    /// Bytes on the wire.
    pub const WIRE_BYTES: usize = 32;
    /// The word that leaves an attribute unchanged.
    const KEEP: u32 = u32::MAX;
    /// Value sent by clients for a mode of -1 in 16 bits. **Source:** Linux fs/nfsd/nfsxdr.c,
    /// `svcxdr_decode_sattr`.
    const KEEP_MODE: u32 = 0xffff;

    /// Sets only the permission bits.
    pub fn with_mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }
}

impl Wire<'_> for Sattr {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // Version 2 has no flags for which attributes to set: a value of all ones, which is not a
        // valid mode, id or size, leaves an attribute unchanged.
        let [mode, uid, gid, size] = reader.words::<4>()?;
        Ok(Self {
            mode: if mode == Self::KEEP_MODE { None } else { to_set(mode) },
            uid: to_set(uid),
            gid: to_set(gid),
            size: to_set(size),
            atime: SetTime::decode(reader)?,
            mtime: SetTime::decode(reader)?,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        let [mode, uid, gid, size] =
            [self.mode, self.uid, self.gid, self.size].map(|word| word.unwrap_or(Self::KEEP));
        writer.words([mode, uid, gid, size]);
        self.atime.encode(writer);
        self.mtime.encode(writer);
    }
}

/// Returns the value to set, or `None` for the word that leaves an attribute unchanged.
fn to_set(word: u32) -> Option<u32> {
    if word == Sattr::KEEP { None } else { Some(word) }
}

/// Converts attributes: if mtime is set to the server's time, so is atime.
impl From<&Sattr> for nfs3::Sattr {
    fn from(attributes: &Sattr) -> Self {
        let atime = match (attributes.atime, attributes.mtime) {
            (SetTime::Client(_), SetTime::Server) => SetTime::Server,
            (atime, _) => atime,
        };
        Self {
            mode: attributes.mode.map(|mode| mode & !TYPE_MASK),
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size.map(u64::from),
            atime: atime.into(),
            mtime: attributes.mtime.into(),
        }
    }
}

impl Sattr {
    /// Converts attributes to set; `None` if the size is beyond [`super::FILE_BYTES_MAX`].
    pub fn from_v3(attributes: &nfs3::Sattr) -> Option<Self> {
        let size = match attributes.size {
            Some(size) if size > u64::from(super::FILE_BYTES_MAX) => return None,
            Some(size) => Some(size as u32),
            None => None,
        };
        Some(Self {
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            size,
            atime: attributes.atime.into(),
            mtime: attributes.mtime.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v3(file_type: FileType) -> nfs3::Fattr {
        nfs3::Fattr {
            file_type,
            mode: 0o4755,
            nlink: 2,
            uid: 3,
            gid: 4,
            size: 5000,
            used: 8192,
            device: Device { major: 8, minor: 1 },
            fsid: 9,
            fileid: 10,
            atime: nfs3::Time { seconds: 11, nanos: 12_000 },
            mtime: nfs3::Time { seconds: 13, nanos: 14_000 },
            ctime: nfs3::Time { seconds: 15, nanos: 16_000 },
        }
    }

    #[test]
    fn converts_attributes_from_v3_and_back() {
        for (file_type, ..) in TYPES {
            let there = v3(file_type);
            let mut back = nfs3::Fattr::from(&Fattr::from(&there));
            if file_type == FileType::Fifo {
                back.device = there.device;
            }
            assert_eq!(back, there);
        }
    }

    #[test]
    fn distinguishes_pipe_from_device() {
        let pipe = Fattr::from(&v3(FileType::Fifo));
        assert_eq!((pipe.type_number, pipe.mode, pipe.device), (4, 0o014_755, u32::MAX));
        let socket = Fattr::from(&v3(FileType::Socket));
        assert_eq!((socket.type_number, socket.mode), (0, 0o144_755));
        assert_eq!(Fattr { mode: 0o644, type_number: 2, ..pipe }.file_type(), FileType::Directory);
    }

    #[test]
    fn saturates_sizes_beyond_32_bits() {
        let large = nfs3::Fattr { size: 1 << 32, used: 1 << 50, ..v3(FileType::Regular) };
        let attributes = Fattr::from(&large);
        assert_eq!((attributes.size, attributes.blocks), (u32::MAX, u32::MAX));
    }

    #[test]
    fn leaves_mode_of_all_ones_unchanged() {
        let mut wire = vec![0, 0, 0xff, 0xff];
        wire.extend([0xff; 28]);
        assert_eq!(Sattr::decode(&mut Reader::new(&wire)), Ok(Sattr::default()));
    }

    #[test]
    fn sets_access_time_with_server_time() {
        let atime = SetTime::Client(Time { seconds: 1, micros: 2 });
        let both = Sattr { atime, mtime: SetTime::Server, ..Sattr::default() };
        assert_eq!(nfs3::Sattr::from(&both).atime, nfs3::SetTime::Server);
        let one = Sattr { mtime: SetTime::Server, ..Sattr::default() };
        assert_eq!(nfs3::Sattr::from(&one).atime, nfs3::SetTime::Keep);
    }

    #[test]
    fn limits_size_to_2_gib() {
        let size = |size| nfs3::Sattr { size: Some(size), ..nfs3::Sattr::default() };
        let largest = Sattr::from_v3(&size((1 << 31) - 1)).unwrap();
        assert_eq!(largest.size, Some(i32::MAX as u32));
        assert_eq!(Sattr::from_v3(&size(1 << 31)), None);
        assert_eq!(Sattr::from_v3(&size(u64::MAX)), None);
    }
}
