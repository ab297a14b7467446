//! Basic types of the file system: kinds, times, attributes, errors.
//!
//! They belong to no protocol version; `service` converts them to the types of each. Nothing here
//! uses a lock, a clock or a socket.
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
/// Maximum length of the list of all extended attribute names of one object, each with its prefix
/// and a NUL, in bytes: a longer list can't be read by listxattr(2). **Source:** XATTR_LIST_MAX of
/// Linux.
pub const XATTR_LIST_BYTES_MAX: usize = 65_536;
/// Maximum size of the names and values of all extended attributes of one object, in bytes.
pub const XATTRS_BYTES_MAX: u64 = 1 << 20;
/// Length of the prefix `user.`, which clients put in front of each name.
pub const XATTR_PREFIX_BYTES: usize = 5;
/// Longest target of a symbolic link, in bytes. **Source:** PATH_MAX of Linux, minus its NUL.
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// Maximum number of hard links to one file. **Source:** EXT4_LINK_MAX of Linux.
pub const LINKS_MAX: u32 = 65_000;
/// Largest file size in bytes. **Source:** `loff_t` of Linux is signed.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// A point in time: nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime(pub u64);

impl FileTime {
    /// Combines the two halves of an `nfstime3`; nanoseconds beyond a second carry over.
    pub fn from_parts(seconds: u32, nanoseconds: u32) -> Self {
        Self(u64::from(seconds) * NANOSECONDS_PER_SECOND + u64::from(nanoseconds))
    }

    /// Whole seconds, truncated to the 32 bits of NFS v2 and v3.
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
    /// A block device, stored as metadata only.
    BlockDevice,
    /// A character device, stored as metadata only.
    CharacterDevice,
    /// A socket, stored as metadata only.
    Socket,
    /// A named pipe, stored as metadata only.
    Fifo,
}

impl FileKind {
    /// Whether objects of this kind can have user extended attributes. **Source:** xattr(7).
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
    /// Number of links.
    pub nlink: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Memory used by the data, in bytes; holes count as 0.
    pub used: u64,
    /// Major and minor number of a device.
    pub rdev: (u32, u32),
    /// Inode number; may be reused after the inode is removed, as on ext4.
    pub fileid: u64,
    /// Time of the last read.
    pub atime: FileTime,
    /// Last change of the data.
    pub mtime: FileTime,
    /// Last change of data or attributes; strictly increasing.
    pub ctime: FileTime,
}

/// How to set atime or mtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it unchanged.
    #[default]
    Keep,
    /// Set it to the server's time.
    Now,
    /// Set it to the client's time.
    To(FileTime),
}

/// Attributes to change; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// New permission bits; bits above the low 12 are ignored.
    pub mode: Option<u32>,
    /// User id of the new owner.
    pub uid: Option<u32>,
    /// New group id.
    pub gid: Option<u32>,
    /// New size in bytes: truncates or extends a regular file.
    pub size: Option<u64>,
    /// New atime.
    pub atime: SetTime,
    /// New mtime.
    pub mtime: SetTime,
}

/// Attributes before a change, for weak cache consistency. **Source:** RFC 1813 section 2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributesBefore {
    /// Size in bytes.
    pub size: u64,
    /// Last change of the data.
    pub mtime: FileTime,
    /// Last change of anything.
    pub ctime: FileTime,
}

/// One object before and after a change, taken under one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Attributes just before.
    pub before: AttributesBefore,
    /// Attributes just after.
    pub after: Attributes,
}

/// How CREATE treats an existing name. **Source:** RFC 1813 section 3.3.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// An existing regular file is used (and truncated if a size is given).
    Unchecked,
    /// An existing name is an error.
    Guarded,
    /// Like `Guarded`, but a retry with the same verifier succeeds.
    Exclusive([u8; 8]),
}

/// Error of an operation; the message is for tests and logs, the wire carries a number.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
pub enum FsError {
    /// The mode or owner does not allow it.
    #[error("permission denied")]
    AccessDenied,
    /// Only the owner, or user 0, may do it.
    #[error("operation not permitted")]
    NotPermitted,
    /// No such name.
    #[error("no such file or directory")]
    NoEntry,
    /// The name already exists.
    #[error("name already exists")]
    Exists,
    /// The object is not a directory.
    #[error("not a directory")]
    NotDirectory,
    /// The object is a directory.
    #[error("is a directory")]
    IsDirectory,
    /// The arguments are invalid for this object.
    #[error("invalid argument")]
    Invalid,
    /// The directory still has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// A name is longer than `NAME_BYTES_MAX`, or a link target than `SYMLINK_BYTES_MAX`.
    #[error("name too long")]
    NameTooLong,
    /// The memory limit is reached.
    #[error("memory limit reached")]
    NoSpace,
    /// The file would exceed `FILE_BYTES_MAX`.
    #[error("file too large")]
    FileTooBig,
    /// The file would exceed `LINKS_MAX`.
    #[error("too many links")]
    TooManyLinks,
    /// The object is gone, or belongs to an earlier start of the server.
    #[error("stale file handle")]
    Stale,
    /// The bytes were never a handle of this server.
    #[error("bad file handle")]
    BadHandle,
    /// The guard of SETATTR does not match ctime.
    #[error("attributes have changed")]
    NotSync,
    /// The cookie is from another start of the server.
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
    #[error("extended attribute value too large")]
    XattrTooBig,
    /// Another client has to return its delegation first.
    #[error("delegated to another client")]
    Recalled,
    /// A data server has not answered yet.
    #[error("waiting for a data server")]
    TryLater,
    /// A data server failed, or can't be reached.
    #[error("data server failed")]
    DataServer,
    /// The data is on data servers, which can't do this.
    #[error("not supported for data on data servers")]
    NotSupported,
}
