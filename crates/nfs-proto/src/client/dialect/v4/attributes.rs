//! Converts attributes between version 4 and the vocabulary of all versions.
//!
//! We request exactly what the vocabulary has; anything a server does not return is 0. **Source:**
//! RFC 7530 section 5.

use crate::nfs3::{self, Fsinfo, Fsstat, Pathconf, Sattr};
use crate::nfs4::{Attributes, Bitmap, NumericOwner, SetTime, attribute};

/// Attributes needed for those of a file.
pub(super) const FILE: Bitmap = Bitmap::from_numbers(&[
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
pub(super) const ENTRY: Bitmap =
    Bitmap::from_numbers(&[attribute::RDATTR_ERROR, attribute::FILEID]);

/// Attributes of a listing with attributes.
pub(super) const ENTRY_PLUS: Bitmap = FILE.union(ENTRY).with(attribute::FILEHANDLE);

/// Attributes needed for FSSTAT.
pub(super) const FSSTAT: Bitmap = Bitmap::from_numbers(&[
    attribute::FILES_AVAIL,
    attribute::FILES_FREE,
    attribute::FILES_TOTAL,
    attribute::SPACE_AVAIL,
    attribute::SPACE_FREE,
    attribute::SPACE_TOTAL,
]);

/// Attributes needed for FSINFO.
pub(super) const FSINFO: Bitmap = Bitmap::from_numbers(&[
    attribute::LINK_SUPPORT,
    attribute::SYMLINK_SUPPORT,
    attribute::CANSETTIME,
    attribute::HOMOGENEOUS,
    attribute::MAXFILESIZE,
    attribute::MAXREAD,
    attribute::MAXWRITE,
    attribute::TIME_DELTA,
]);

/// Attributes needed for PATHCONF.
pub(super) const PATHCONF: Bitmap = Bitmap::from_numbers(&[
    attribute::CASE_INSENSITIVE,
    attribute::CASE_PRESERVING,
    attribute::CHOWN_RESTRICTED,
    attribute::MAXLINK,
    attribute::MAXNAME,
    attribute::NO_TRUNC,
]);

/// Returns the free and used space of a file system.
pub(super) fn fsstat_from(attributes: &Attributes<'_>) -> Fsstat {
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

/// Returns the limits of a file system; version 4 has only maximum sizes, no preferred ones.
pub(super) fn fsinfo_from(attributes: &Attributes<'_>) -> Fsinfo {
    let read = saturate(attributes.read_bytes_max);
    let write = saturate(attributes.write_bytes_max);
    let mut properties = 0;
    for (flag, bit) in [
        (attributes.link_support, Fsinfo::LINK),
        (attributes.symlink_support, Fsinfo::SYMLINK),
        (attributes.homogeneous, Fsinfo::HOMOGENEOUS),
        (attributes.can_set_time, Fsinfo::CAN_SET_TIME),
    ] {
        if flag == Some(true) {
            properties |= bit;
        }
    }
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
        properties,
    }
}

/// Returns a size limited to 32 bits; 0 if the server does not return one.
fn saturate(bytes: Option<u64>) -> u32 {
    u32::try_from(bytes.unwrap_or(0)).unwrap_or(u32::MAX)
}

/// Returns the POSIX limits of a file system.
pub(super) fn pathconf_from(attributes: &Attributes<'_>) -> Pathconf {
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
    pub(super) fn from_attributes(attributes: &Sattr) -> Self {
        Self(attributes.uid.map(NumericOwner::new), attributes.gid.map(NumericOwner::new))
    }
}

/// Converts attributes to set; `owner` is made from the same attributes.
pub(super) fn to_set<'o>(attributes: &Sattr, owner: &'o Owner) -> Attributes<'o> {
    Attributes {
        mode: attributes.mode,
        size: attributes.size,
        owner: owner.0.as_ref().map(NumericOwner::as_slice),
        owner_group: owner.1.as_ref().map(NumericOwner::as_slice),
        set_atime: set_time(attributes.atime),
        set_mtime: set_time(attributes.mtime),
        ..Attributes::default()
    }
}

/// Converts a time to set; one that is kept is not an attribute of the call.
fn set_time(time: nfs3::SetTime) -> Option<SetTime> {
    match time {
        nfs3::SetTime::Keep => None,
        nfs3::SetTime::Server => Some(SetTime::Server),
        nfs3::SetTime::Client(time) => Some(SetTime::Client(time.into())),
    }
}
