//! Attributes between version 4 and the vocabulary of all versions.
//!
//! What is requested is exactly what the vocabulary has. Owners that are no numbers become the
//! anonymous id of AUTH_SYS, and what a server does not tell is 0. **Source:** RFC 7530 section 5.

use super::super::super::event;
use crate::error::DecodeError;
use crate::nfs3::{self, Fsinfo, Fsstat, Pathconf, Sattr};
use crate::nfs4::{
    Attributes, Bitmap, Device, Fattr, FileHandle, FileType, NumericOwner, SetTime, Time, Wire,
    attribute, owner_number,
};
use crate::xdr::Reader;

/// The user and group of an owner who has no number here.
const UNKNOWN_ID: u32 = 65_534;

/// Attributes from which those of a file are made.
pub(super) const FILE: Bitmap = Bitmap::of(&[
    attribute::TYPE,
    attribute::SIZE,
    attribute::FSID,
    attribute::FILEID,
    attribute::MODE,
    attribute::NUMLINKS,
    attribute::OWNER,
    attribute::OWNER_GROUP,
    attribute::RAWDEV,
    attribute::SPACE_USED,
    attribute::TIME_ACCESS,
    attribute::TIME_METADATA,
    attribute::TIME_MODIFY,
]);

/// Attributes of a plain listing; an entry with an error does not fail the page.
pub(super) const ENTRY: Bitmap = Bitmap::of(&[attribute::RDATTR_ERROR, attribute::FILEID]);

/// Attributes of a listing with attributes.
pub(super) const ENTRY_PLUS: Bitmap = FILE.union(ENTRY).with(attribute::FILEHANDLE);

/// Attributes from which FSSTAT is made.
pub(super) const FSSTAT: Bitmap = Bitmap::of(&[
    attribute::FILES_AVAIL,
    attribute::FILES_FREE,
    attribute::FILES_TOTAL,
    attribute::SPACE_AVAIL,
    attribute::SPACE_FREE,
    attribute::SPACE_TOTAL,
]);

/// Attributes from which FSINFO is made.
pub(super) const FSINFO: Bitmap = Bitmap::of(&[
    attribute::LINK_SUPPORT,
    attribute::SYMLINK_SUPPORT,
    attribute::CANSETTIME,
    attribute::HOMOGENEOUS,
    attribute::MAXFILESIZE,
    attribute::MAXREAD,
    attribute::MAXWRITE,
    attribute::TIME_DELTA,
]);

/// Attributes from which PATHCONF is made.
pub(super) const PATHCONF: Bitmap = Bitmap::of(&[
    attribute::CASE_INSENSITIVE,
    attribute::CASE_PRESERVING,
    attribute::CHOWN_RESTRICTED,
    attribute::MAXLINK,
    attribute::MAXNAME,
    attribute::NO_TRUNC,
]);

/// The attributes that are read of a file or a directory entry.
pub(super) struct Described {
    pub(super) attributes: event::Attributes,
    /// Whether there are attributes beyond the id.
    pub(super) is_whole: bool,
    pub(super) handle: Option<FileHandle>,
}

/// Reads the attributes of a file, and its handle where there is one.
pub(super) fn describe(fattr: &Fattr<'_>) -> Result<Described, DecodeError> {
    let mut handle = None;
    let mut attributes = NOTHING;
    fattr.visit(|number, reader| {
        let to = &mut attributes;
        match number {
            attribute::TYPE => to.file_type = Wire::decode(reader)?,
            attribute::SIZE => to.size = reader.u64()?,
            attribute::FSID => to.fsid = reader.u64()? ^ reader.u64()?,
            attribute::FILEHANDLE => handle = Some(Wire::decode(reader)?),
            attribute::FILEID => to.fileid = reader.u64()?,
            attribute::MODE => to.mode = reader.u32()?,
            attribute::NUMLINKS => to.nlink = reader.u32()?,
            attribute::OWNER => to.uid = number_of(reader)?,
            attribute::OWNER_GROUP => to.gid = number_of(reader)?,
            attribute::RAWDEV => to.device = Wire::decode(reader)?,
            attribute::SPACE_USED => to.used = reader.u64()?,
            attribute::TIME_ACCESS => to.atime = Time::decode(reader)?.into(),
            attribute::TIME_METADATA => to.ctime = Time::decode(reader)?.into(),
            attribute::TIME_MODIFY => to.mtime = Time::decode(reader)?.into(),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let is_whole = fattr.mask().contains(attribute::TYPE);
    Ok(Described { attributes, is_whole, handle })
}

/// Attributes of a file of which a server tells nothing.
const NOTHING: event::Attributes = event::Attributes {
    file_type: FileType::Regular,
    mode: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    size: 0,
    used: 0,
    device: Device { major: 0, minor: 0 },
    fsid: 0,
    fileid: 0,
    atime: nfs3::Time { seconds: 0, nanos: 0 },
    mtime: nfs3::Time { seconds: 0, nanos: 0 },
    ctime: nfs3::Time { seconds: 0, nanos: 0 },
};

fn number_of(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let owner: &[u8] = Wire::decode(reader)?;
    Ok(owner_number(owner).unwrap_or(UNKNOWN_ID))
}

/// Returns the fill state of a file system.
pub(super) fn fsstat(attributes: &Attributes<'_>) -> Fsstat {
    Fsstat {
        total_bytes: attributes.total_bytes.unwrap_or_default(),
        free_bytes: attributes.free_bytes.unwrap_or_default(),
        available_bytes: attributes.available_bytes.unwrap_or_default(),
        total_files: attributes.total_files.unwrap_or_default(),
        free_files: attributes.free_files.unwrap_or_default(),
        available_files: attributes.available_files.unwrap_or_default(),
        invariant_seconds: 0,
    }
}

/// Returns the limits of a file system; version 4 has no preferred sizes beside the largest.
pub(super) fn fsinfo(attributes: &Attributes<'_>) -> Fsinfo {
    let bytes =
        |bytes: Option<u64>| bytes.map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    let (read, write) = (bytes(attributes.read_bytes_max), bytes(attributes.write_bytes_max));
    let property = |flag: Option<bool>, bit| if flag == Some(true) { bit } else { 0 };
    Fsinfo {
        read_bytes_max: read,
        read_bytes_preferred: read,
        read_bytes_multiple: 1,
        write_bytes_max: write,
        write_bytes_preferred: write,
        write_bytes_multiple: 1,
        directory_bytes_preferred: read,
        file_bytes_max: attributes.file_bytes_max.unwrap_or_default(),
        time_delta: attributes.time_delta.unwrap_or_default().into(),
        properties: property(attributes.link_support, Fsinfo::LINK)
            | property(attributes.symlink_support, Fsinfo::SYMLINK)
            | property(attributes.homogeneous, Fsinfo::HOMOGENEOUS)
            | property(attributes.can_set_time, Fsinfo::CAN_SET_TIME),
    }
}

/// Returns the POSIX limits of a file system.
pub(super) fn pathconf(attributes: &Attributes<'_>) -> Pathconf {
    Pathconf {
        links_max: attributes.links_max.unwrap_or_default(),
        name_bytes_max: attributes.name_bytes_max.unwrap_or_default(),
        no_truncation: attributes.no_truncation.unwrap_or_default(),
        chown_restricted: attributes.chown_restricted.unwrap_or_default(),
        case_insensitive: attributes.case_insensitive.unwrap_or_default(),
        case_preserving: attributes.case_preserving.unwrap_or_default(),
    }
}

/// Owner and group of attributes to set, as strings.
pub(super) struct Owner(Option<NumericOwner>, Option<NumericOwner>);

impl Owner {
    pub(super) fn of(attributes: &Sattr) -> Self {
        Self(attributes.uid.map(NumericOwner::new), attributes.gid.map(NumericOwner::new))
    }
}

/// Returns attributes to set; `owner` is that of the same attributes.
pub(super) fn to_set<'o>(attributes: &Sattr, owner: &'o Owner) -> Attributes<'o> {
    let time = |time: nfs3::SetTime| match time {
        nfs3::SetTime::Keep => None,
        nfs3::SetTime::Server => Some(SetTime::Server),
        nfs3::SetTime::Client(time) => Some(SetTime::Client(time.into())),
    };
    Attributes {
        mode: attributes.mode,
        size: attributes.size,
        owner: owner.0.as_ref().map(NumericOwner::as_slice),
        owner_group: owner.1.as_ref().map(NumericOwner::as_slice),
        set_atime: time(attributes.atime),
        set_mtime: time(attributes.mtime),
        ..Attributes::default()
    }
}
