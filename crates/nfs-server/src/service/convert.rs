//! Conversions between the types of the file system and those of NFS v3.
//!
//! **Source:** RFC 1813 section 2.6.

use nfs_proto::nfs3::{
    Device, Fattr, FileHandle, FileType, Sattr, SetTime as WireSetTime, Status, Time, WccAttr,
    WccData, access,
};

use crate::fs::{
    Attributes, Caller, Change, EXECUTE, FileKind, FileSystem, FileTime, FsError, InodeId, READ,
    SetAttributes, SetTime, WRITE,
};

/// Number of the only file system; any constant will do.
pub(super) const FSID: u64 = 0x6466_7362;

/// Converts attributes to `fattr3`.
pub(super) fn fattr(attributes: &Attributes) -> Fattr {
    Fattr {
        file_type: file_type(attributes.kind),
        mode: attributes.mode,
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        size: attributes.size,
        used: attributes.used,
        device: Device { major: attributes.rdev.0, minor: attributes.rdev.1 },
        fsid: FSID,
        fileid: attributes.fileid,
        atime: time(attributes.atime),
        mtime: time(attributes.mtime),
        ctime: time(attributes.ctime),
    }
}

/// Converts a change to `wcc_data`.
pub(super) fn wcc(change: &Change) -> WccData {
    let before = WccAttr {
        size: change.before.size,
        mtime: time(change.before.mtime),
        ctime: time(change.before.ctime),
    };
    WccData { before: Some(before), after: Some(fattr(&change.after)) }
}

/// Converts a time to `nfstime3`.
pub(super) fn time(time: FileTime) -> Time {
    Time { seconds: time.seconds(), nanos: time.nanoseconds() }
}

/// Converts a time from `nfstime3`.
pub(super) fn file_time(time: Time) -> FileTime {
    FileTime::from_parts(time.seconds, time.nanos)
}

/// Converts the attributes to set from `sattr3`.
pub(super) fn set_attributes(sattr: &Sattr) -> SetAttributes {
    let set_time = |time| match time {
        WireSetTime::Keep => SetTime::Keep,
        WireSetTime::Server => SetTime::Now,
        WireSetTime::Client(time) => SetTime::To(file_time(time)),
    };
    SetAttributes {
        mode: sattr.mode,
        uid: sattr.uid,
        gid: sattr.gid,
        size: sattr.size,
        atime: set_time(sattr.atime),
        mtime: set_time(sattr.mtime),
    }
}

/// Creates the handle of an inode.
pub(super) fn handle(fs: &FileSystem, id: InodeId) -> FileHandle {
    FileHandle::from_slice(&fs.handle(id)).expect("our handles have at most 64 bytes")
}

impl From<FsError> for Status {
    /// Converts an error to the status of NFS v3 and v4, which share these numbers.
    fn from(error: FsError) -> Self {
        match error {
            FsError::AccessDenied => Self::Access,
            FsError::NotPermitted => Self::Perm,
            FsError::NoEntry => Self::NoEnt,
            FsError::Exists => Self::Exist,
            FsError::NotDirectory => Self::NotDir,
            FsError::IsDirectory => Self::IsDir,
            FsError::Invalid => Self::Inval,
            FsError::NotEmpty => Self::NotEmpty,
            FsError::NameTooLong => Self::NameTooLong,
            FsError::NoSpace => Self::NoSpc,
            FsError::FileTooBig => Self::FBig,
            FsError::TooManyLinks => Self::MLink,
            FsError::Stale => Self::Stale,
            FsError::BadHandle => Self::BadHandle,
            FsError::NotSync => Self::NotSync,
            FsError::BadCookie => Self::BadCookie,
            FsError::Past => Self::NxIo,
            FsError::BadType => Self::BadType,
            FsError::NoXattr => Self::NoXattr,
            FsError::XattrTooBig => Self::XattrTooBig,
            FsError::Recalled | FsError::TryLater => Self::Jukebox,
            FsError::DataServer => Self::Io,
            FsError::NotSupported => Self::NotSupp,
        }
    }
}

/// Rights that a directory can grant; a directory cannot be executed.
const ACCESS_DIRECTORY: u32 =
    access::READ | access::LOOKUP | access::MODIFY | access::EXTEND | access::DELETE;
/// Rights that any other object can grant: no names can be looked up or removed in it.
const ACCESS_OTHER: u32 = access::READ | access::MODIFY | access::EXTEND | access::EXECUTE;

/// The rights of ACCESS that are meaningful for a kind of object (RFC 1813 section 3.3.4).
pub(super) fn meaningful_access(requested: u32, kind: FileKind) -> u32 {
    match kind {
        FileKind::Directory => requested & ACCESS_DIRECTORY,
        _ => requested & ACCESS_OTHER,
    }
}

/// The rights of ACCESS that a caller has. The bits are the same in v3 and v4; creating or removing
/// a name requires both write and search permission on the directory.
pub(super) fn granted_access(requested: u32, found: &Attributes, caller: &Caller) -> u32 {
    let rights = caller.rights_on(found);
    let mut granted = 0;
    if rights & READ != 0 {
        granted |= access::READ;
    }
    if rights & EXECUTE != 0 {
        granted |= access::LOOKUP | access::EXECUTE;
    }
    let change = if found.kind == FileKind::Directory { WRITE | EXECUTE } else { WRITE };
    if rights & change == change {
        granted |= access::MODIFY | access::EXTEND | access::DELETE;
    }
    meaningful_access(requested, found.kind) & granted
}

/// Converts a kind to its number.
pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::Regular,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::BlockDevice => FileType::Block,
        FileKind::CharacterDevice => FileType::Character,
        FileKind::Socket => FileType::Socket,
        FileKind::Fifo => FileType::Fifo,
    }
}
