//! Attributes: which ones exist, their values, and setting them.
//!
//! The change attribute is the time of the last change, which increases with each change of an
//! inode. Owners are numeric ids written as strings. There is one file system with one fsid.
//!
//! **Source:** RFC 7530 section 5, RFC 8881 section 5, RFC 7862 section 12.2, RFC 8276 section 8.2;
//! RFC 7530 section 5.9 (numeric owners).

use nfs_proto::Status;
use nfs_proto::nfs4::{
    self as wire, Attributes as WireAttributes, Bitmap, Device, Fattr, Fsid, NumericOwner,
    attribute as number, owner_number,
};

use crate::fs::{
    Attributes, CLONE_BLOCK_BYTES, Caller, FILE_BYTES_MAX, FileTime, InodeId, LINKS_MAX,
    NAME_BYTES_MAX, Rights, SetAttributes, SetTime,
};
use crate::service::Service;
use crate::service::convert::{FSID, file_type};

/// Attributes that v4.0 supports.
const SUPPORTED: Bitmap = Bitmap::from_numbers(&[
    number::SUPPORTED_ATTRS,
    number::TYPE,
    number::FH_EXPIRE_TYPE,
    number::CHANGE,
    number::SIZE,
    number::LINK_SUPPORT,
    number::SYMLINK_SUPPORT,
    number::NAMED_ATTR,
    number::FSID,
    number::UNIQUE_HANDLES,
    number::LEASE_TIME,
    number::RDATTR_ERROR,
    number::ACLSUPPORT,
    number::CANSETTIME,
    number::CASE_INSENSITIVE,
    number::CASE_PRESERVING,
    number::CHOWN_RESTRICTED,
    number::FILEHANDLE,
    number::FILEID,
    number::FILES_AVAIL,
    number::FILES_FREE,
    number::FILES_TOTAL,
    number::HOMOGENEOUS,
    number::MAXFILESIZE,
    number::MAXLINK,
    number::MAXNAME,
    number::MAXREAD,
    number::MAXWRITE,
    number::MODE,
    number::NO_TRUNC,
    number::NUMLINKS,
    number::OWNER,
    number::OWNER_GROUP,
    number::RAWDEV,
    number::SPACE_AVAIL,
    number::SPACE_FREE,
    number::SPACE_TOTAL,
    number::SPACE_USED,
    number::TIME_ACCESS,
    number::TIME_ACCESS_SET,
    number::TIME_DELTA,
    number::TIME_METADATA,
    number::TIME_MODIFY,
    number::TIME_MODIFY_SET,
    number::MOUNTED_ON_FILEID,
]);

/// Attributes that can be set.
const SETTABLE: Bitmap = Bitmap::from_numbers(&[
    number::SIZE,
    number::MODE,
    number::OWNER,
    number::OWNER_GROUP,
    number::TIME_ACCESS_SET,
    number::TIME_MODIFY_SET,
]);

/// Attributes that can only be set.
const WRITE_ONLY: Bitmap =
    Bitmap::from_numbers(&[number::TIME_ACCESS_SET, number::TIME_MODIFY_SET]);

/// Attributes that describe the space in the file system.
const ROOM: Bitmap = Bitmap::from_numbers(&[
    number::FILES_AVAIL,
    number::FILES_FREE,
    number::FILES_TOTAL,
    number::SPACE_AVAIL,
    number::SPACE_FREE,
    number::SPACE_TOTAL,
]);

/// The change attribute never goes back. **Source:** RFC 7862 section 12.2.3, change_attr_type4.
const CHANGE_IS_MONOTONIC: u32 = 0;

/// Bits of a mode.
const MODE_MAX: u32 = 0o7777;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Attributes that a minor version supports.
fn supported_attributes(minor: u32) -> Bitmap {
    let since_v4_1 = Bitmap::from_numbers(&[number::SUPPATTR_EXCLCREAT]);
    let since_v4_2 = Bitmap::from_numbers(&[
        number::CLONE_BLKSIZE,
        number::CHANGE_ATTR_TYPE,
        number::SPACE_FREED,
        number::XATTR_SUPPORT,
    ]);
    match minor {
        0 => SUPPORTED,
        1 => SUPPORTED.union(since_v4_1),
        _ => SUPPORTED.union(since_v4_1).union(since_v4_2),
    }
}

/// Attributes that a metadata server has in addition, from v4.1 on.
const PNFS: Bitmap = Bitmap::from_numbers(&[number::FS_LAYOUT_TYPES, number::LAYOUT_BLKSIZE]);

/// Owner and group as strings, for the duration of a reply.
pub(super) struct Owners(NumericOwner, NumericOwner);

impl Owners {
    pub(super) fn from_attributes(found: &Attributes) -> Self {
        Self(NumericOwner::new(found.uid), NumericOwner::new(found.gid))
    }
}

/// Checks the attributes that GETATTR or READDIR requests.
///
/// # Errors
/// `Inval` for attributes that can only be set.
pub(super) fn check_readable(requested: Bitmap) -> Result<(), Status> {
    if requested.intersection(WRITE_ONLY).is_empty() { Ok(()) } else { Err(Status::Inval) }
}

impl Service {
    /// Attributes that this server supports in a minor version.
    fn supported_attributes(&self, minor: u32) -> Bitmap {
        let supported = supported_attributes(minor);
        if minor > 0 && self.shared.pnfs.is_some() { supported.union(PNFS) } else { supported }
    }

    /// The values of all attributes of an object.
    pub(super) fn wire_attributes<'a>(
        &self,
        found: &Attributes,
        owners: &'a Owners,
        id: InodeId,
        minor: u32,
        requested: Bitmap,
    ) -> WireAttributes<'a> {
        let mut values = WireAttributes {
            supported: Some(self.supported_attributes(minor)),
            file_type: Some(file_type(found.kind)),
            handle_expiry: Some(0),
            change: Some(found.ctime.0),
            size: Some(found.size),
            link_support: Some(true),
            symlink_support: Some(true),
            named_attributes: Some(false),
            fsid: Some(Fsid { major: FSID, minor: 0 }),
            unique_handles: Some(true),
            lease_seconds: Some(self.shared.lease_s),
            read_error: Some(Status::Ok),
            acl_support: Some(0),
            can_set_time: Some(true),
            case_insensitive: Some(false),
            case_preserving: Some(true),
            chown_restricted: Some(self.restricts_chown()),
            fileid: Some(found.fileid),
            homogeneous: Some(true),
            file_bytes_max: Some(FILE_BYTES_MAX),
            links_max: Some(LINKS_MAX),
            name_bytes_max: Some(NAME_BYTES_MAX as u32),
            read_bytes_max: Some(u64::from(self.granted.read_bytes_max)),
            write_bytes_max: Some(u64::from(self.granted.write_bytes_max)),
            mode: Some(found.mode),
            no_truncation: Some(true),
            nlink: Some(found.nlink),
            owner: Some(owners.0.as_slice()),
            owner_group: Some(owners.1.as_slice()),
            device: Some(Device { major: found.rdev.0, minor: found.rdev.1 }),
            used: Some(found.used),
            atime: Some(time(found.atime)),
            time_delta: Some(wire::Time { seconds: 0, nanos: 1 }),
            ctime: Some(time(found.ctime)),
            mtime: Some(time(found.mtime)),
            mounted_on_fileid: Some(found.fileid),
            ..WireAttributes::default()
        };
        if requested.contains(number::FILEHANDLE) {
            values.file = Some(self.handle_of(id));
        }
        if minor > 0 {
            values.supported_exclusive = Some(SETTABLE);
        }
        if minor > 1 {
            values.clone_block_bytes = Some(CLONE_BLOCK_BYTES as u32);
            values.change_type = Some(CHANGE_IS_MONOTONIC);
            values.xattr_support = Some(true);
            values.freed_bytes = Some(if found.nlink > 1 { 0 } else { found.used });
        }
        // All other values are copies of fields. These are sums over tables, so they are computed
        // only for requests that include them; a GETATTR in the middle of a workload does not.
        if !requested.intersection(ROOM).is_empty() {
            self.add_room(&mut values);
        }
        if let Some(pnfs) = &self.shared.pnfs
            && minor > 0
        {
            values.layout_types = Some(pnfs.offered_types());
            values.layout_block_bytes = Some(pnfs.preferred_bytes());
        }
        values
    }

    fn add_room(&self, values: &mut WireAttributes<'_>) {
        let space = self.space();
        values.available_files = Some(space.free_files);
        values.free_files = Some(space.free_files);
        values.total_files = Some(space.total_files);
        values.available_bytes = Some(space.free_bytes);
        values.free_bytes = Some(space.free_bytes);
        values.total_bytes = Some(space.total_bytes);
    }

    /// Returns true if an object has exactly these attributes.
    ///
    /// # Errors
    /// `AttrNotSupp`; `Inval` for attributes that can't be compared; `BadXdr`.
    pub(super) fn has_attributes(
        &self,
        found: &Attributes,
        id: InodeId,
        minor: u32,
        given: &Fattr<'_>,
    ) -> Result<bool, Status> {
        let mask = given.mask();
        if !mask.difference(self.supported_attributes(minor)).is_empty() {
            return Err(Status::AttrNotSupp);
        }
        check_readable(mask)?;
        if mask.contains(number::RDATTR_ERROR) {
            return Err(Status::Inval);
        }
        given.decode_values().map_err(|_| Status::BadXdr)?;
        let owners = Owners::from_attributes(found);
        let values = self.wire_attributes(found, &owners, id, minor, mask);
        // VERIFY compares the encoded values: both sides have the same mask in the same order, so
        // equal values encode equally, and no attribute needs its own comparison.
        let mut scratch = Vec::new();
        Ok(values.to_fattr(mask, &mut scratch) == *given)
    }
}

/// Decodes the attributes to set, and returns which ones they are.
///
/// # Errors
/// `AttrNotSupp`; `Inval` for attributes that can't be set or have a bad value; `BadOwner`;
/// `BadXdr`.
pub(super) fn to_set(minor: u32, given: &Fattr<'_>) -> Result<(SetAttributes, Bitmap), Status> {
    let mask = given.mask();
    if !mask.difference(supported_attributes(minor)).is_empty() {
        return Err(Status::AttrNotSupp);
    }
    if !mask.difference(SETTABLE).is_empty() {
        return Err(Status::Inval);
    }
    let values = given.decode_values().map_err(|_| Status::BadXdr)?;
    if values.mode.is_some_and(|mode| mode > MODE_MAX) {
        return Err(Status::Inval);
    }
    let set = SetAttributes {
        mode: values.mode,
        uid: owner_of(values.owner)?,
        gid: owner_of(values.owner_group)?,
        size: values.size,
        atime: set_time(values.set_atime)?,
        mtime: set_time(values.set_mtime)?,
    };
    Ok((set, mask))
}

/// Attributes of a new object that were set: only user 0 may choose owner and group.
pub(super) fn set_at_creation(mask: Bitmap, caller: &Caller) -> Bitmap {
    match caller.rights {
        Rights::Checked => {
            mask.difference(Bitmap::from_numbers(&[number::OWNER, number::OWNER_GROUP]))
        }
        Rights::All | Rights::Superuser => mask,
    }
}

/// Parses an owner's id, which clients without a name service send as digits.
fn owner_of(name: Option<&[u8]>) -> Result<Option<u32>, Status> {
    match name {
        None => Ok(None),
        Some(b"") => Err(Status::Inval),
        Some(name) => match owner_number(name) {
            Some(number) => Ok(Some(number)),
            None => Err(Status::BadOwner),
        },
    }
}

fn set_time(given: Option<wire::SetTime>) -> Result<SetTime, Status> {
    match given {
        None => Ok(SetTime::Keep),
        Some(wire::SetTime::Server) => Ok(SetTime::Now),
        Some(wire::SetTime::Client(time)) => Ok(SetTime::To(file_time(time)?)),
    }
}

/// Converts a client's time; one that can't be represented becomes the nearest one that can.
///
/// # Errors
/// `Inval` for a whole second of nanoseconds.
pub(super) fn file_time(time: wire::Time) -> Result<FileTime, Status> {
    if u64::from(time.nanos) >= NANOS_PER_SECOND {
        return Err(Status::Inval);
    }
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let nanos = seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(time.nanos.into());
    Ok(FileTime(nanos))
}

fn time(time: FileTime) -> wire::Time {
    wire::Time { seconds: (time.0 / NANOS_PER_SECOND).cast_signed(), nanos: time.nanoseconds() }
}
