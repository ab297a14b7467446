//! The words of the file system: kinds, times, attributes, failures.
//!
//! They belong to no protocol version. `service` turns them into NFS v3 replies; v2 and v4 can
//! do the same. Nothing here touches a lock, a clock or a socket.
//!
//! **Source:** RFC 1813 section 2.5 (basic data types), 2.6 (error numbers).

use thiserror::Error;

/// Longest name of a directory entry, in bytes. **Source:** ext4 and XFS both allow 255.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest name of an extended attribute, in bytes. **Source:** XATTR_NAME_MAX of Linux, less the
/// prefix `user.`, which is not sent.
pub const XATTR_NAME_BYTES_MAX: usize = 255 - XATTR_PREFIX_BYTES;
/// Largest value of an extended attribute, in bytes. **Source:** XATTR_SIZE_MAX of Linux.
pub const XATTR_VALUE_BYTES_MAX: usize = 65_536;
/// Names of all extended attributes of one object, each with its prefix and a NUL, in bytes: a
/// longer list can't be read by listxattr(2). **Source:** XATTR_LIST_MAX of Linux.
pub const XATTR_LIST_BYTES_MAX: usize = 65_536;
/// Names and values of all extended attributes of one object, in bytes.
pub const XATTRS_BYTES_MAX: u64 = 1 << 20;
/// Length of the prefix `user.`, which clients add to each name.
pub const XATTR_PREFIX_BYTES: usize = 5;
/// Longest target of a symbolic link, in bytes. **Source:** PATH_MAX of Linux, less its NUL.
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// Most hard links one file can have. **Source:** EXT4_LINK_MAX of Linux.
pub const LINKS_MAX: u32 = 65_000;
/// Largest file size in bytes. **Source:** `loff_t` of Linux is signed.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// A point in time: nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime(pub u64);

impl FileTime {
    /// Joins the two halves of an `nfstime3`; nanoseconds past a second carry over.
    pub fn from_parts(seconds: u32, nanoseconds: u32) -> Self {
        Self(u64::from(seconds) * NANOSECONDS_PER_SECOND + u64::from(nanoseconds))
    }

    /// Whole seconds, cut to the 32 bits of NFS v2 and v3.
    pub fn seconds(self) -> u32 {
        (self.0 / NANOSECONDS_PER_SECOND) as u32
    }

    /// Nanoseconds within the second, below 1,000,000,000.
    pub fn nanoseconds(self) -> u32 {
        (self.0 % NANOSECONDS_PER_SECOND) as u32
    }
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A file with data.
    Regular,
    /// A directory with entries.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device, kept as metadata only.
    BlockDevice,
    /// A character device, kept as metadata only.
    CharacterDevice,
    /// A socket, kept as metadata only.
    Socket,
    /// A named pipe, kept as metadata only.
    Fifo,
}

impl FileKind {
    /// Whether objects of this kind can have extended attributes of users. **Source:** xattr(7).
    pub fn has_xattrs(self) -> bool {
        matches!(self, Self::Regular | Self::Directory)
    }
}

/// All attributes of one inode at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The kind of the object.
    pub kind: FileKind,
    /// Permission bits with set-uid, set-gid and sticky: the low 12 bits.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Memory held by the data, in bytes; holes count nothing.
    pub used: u64,
    /// Major and minor number of a device.
    pub rdev: (u32, u32),
    /// Number of the inode; can come back after the inode is removed, as on ext4.
    pub fileid: u64,
    /// Time of the last read.
    pub atime: FileTime,
    /// Last change of the data.
    pub mtime: FileTime,
    /// Last change of data or attributes; grows strictly with each change.
    pub ctime: FileTime,
}

/// How to set one of the two settable times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Leave the time as it is.
    #[default]
    Keep,
    /// The server's time.
    Now,
    /// The client's time.
    To(FileTime),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// New permission bits; bits above the low 12 are ignored.
    pub mode: Option<u32>,
    /// Number of the new owner.
    pub uid: Option<u32>,
    /// Number of the new group.
    pub gid: Option<u32>,
    /// New size in bytes: truncates or extends a regular file.
    pub size: Option<u64>,
    /// New time of last read.
    pub atime: SetTime,
    /// New time of last change.
    pub mtime: SetTime,
}

/// Attributes before a change, for weak cache consistency. **Source:** RFC 1813 section 2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Size in bytes.
    pub size: u64,
    /// Last change of the data.
    pub mtime: FileTime,
    /// Last change of anything.
    pub ctime: FileTime,
}

/// One object before and after one change, taken under one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Attributes just before.
    pub before: Before,
    /// Attributes just after.
    pub after: Attributes,
}

/// How CREATE treats a name that exists. **Source:** RFC 1813 section 3.3.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// An existing regular file is taken (and cut, where a size is given).
    Unchecked,
    /// An existing name is an error.
    Guarded,
    /// Creates as `Guarded` does, but a repeat with the same verifier succeeds.
    Exclusive([u8; 8]),
}

/// How an operation fails; the message is for tests and logs, the wire carries a number.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
pub enum FsError {
    /// Modes and owners don't allow it.
    #[error("permission denied")]
    AccessDenied,
    /// Only the owner, or user 0, may do it.
    #[error("operation not permitted")]
    NotPermitted,
    /// No such name.
    #[error("no such file or directory")]
    NoEntry,
    /// The name exists already.
    #[error("name exists already")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// Something else than a directory was needed.
    #[error("is a directory")]
    IsDirectory,
    /// The arguments make no sense for this object.
    #[error("invalid argument")]
    Invalid,
    /// A directory still has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// A name is longer than `NAME_BYTES_MAX`, or a link target than `SYMLINK_BYTES_MAX`.
    #[error("name too long")]
    NameTooLong,
    /// The memory limit is reached.
    #[error("memory limit reached")]
    NoSpace,
    /// The file would pass `FILE_BYTES_MAX`.
    #[error("file too large")]
    FileTooBig,
    /// The file would pass `LINKS_MAX`.
    #[error("too many links")]
    TooManyLinks,
    /// The object is gone, or belongs to an earlier start of the server.
    #[error("stale file handle")]
    Stale,
    /// The handle was never ours.
    #[error("bad file handle")]
    BadHandle,
    /// The guard of SETATTR does not match ctime.
    #[error("attributes changed meanwhile")]
    NotSync,
    /// The cookie belongs to another start of the server.
    #[error("bad directory cookie")]
    BadCookie,
    /// An offset is not within the file.
    #[error("offset past the end of the file")]
    Past,
    /// MKNOD of a kind that has its own procedure.
    #[error("unsupported file type")]
    BadType,
    /// The object has no extended attribute of this name.
    #[error("no such extended attribute")]
    NoXattr,
    /// The value is larger than `XATTR_VALUE_BYTES_MAX`.
    #[error("value of an extended attribute too large")]
    XattrTooBig,
    /// Another client has to return its delegation first.
    #[error("delegated to another client, which has to return it")]
    Recalled,
}
