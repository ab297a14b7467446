//! One vocabulary of file operations for all versions of NFS.
//!
//! [`Operation`] describes what to do; a session's dialect encodes it for its version. Operations
//! that a version lacks are refused when they are started, never emulated, with a few exceptions:
//! version 3 has no OPEN but a LOOKUP takes its place, version 2 has no COMMIT and needs none.
//! [`OperationKind`] names an operation in counters and messages. **Source:** RFC 1094, RFC 1813,
//! RFC 7530, RFC 8881, RFC 7862, RFC 8276.

use super::file::File;
use crate::nfs3::{self, CreateHow, MknodWhat, Sattr, StableHow, Verifier};
use crate::nfs4::XattrOption;
use crate::program::Call;
use crate::rpc::ProcedureId;
use crate::{mount3, nfs4, portmap};

/// A range of the pool from which the socket layer sends WRITE payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PayloadRange {
    /// Index of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub len: u32,
}

/// The payload of a WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data<'a> {
    /// These bytes, which are copied.
    Bytes(&'a [u8]),
    /// This range of the socket layer's pool, which is sent from there.
    Pool(PayloadRange),
}

impl Data<'_> {
    /// Returns the length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty WRITE is nothing special")]
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pool(range) => range.len as usize,
        }
    }
}

/// The access requested by an OPEN. **Source:** RFC 8881 section 18.16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenAccess {
    /// For reading only.
    Read,
    /// For writing only.
    Write,
    /// Both of them.
    Both,
}

/// What SEEK looks for. **Source:** RFC 7862 section 15.11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeekWhat {
    /// The next data.
    Data,
    /// A hole, or the end of the file.
    Hole,
}

/// The position at which a listing continues; the default is its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Cookie of the last entry seen.
    pub cookie: u64,
    /// Verifier of the last page.
    pub verifier: Verifier,
}

/// A file operation with its arguments. Offsets and lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named as the arguments are in the RFCs")]
pub enum Operation<'a> {
    /// Does nothing at all.
    Null,
    /// Gets the attributes of a file.
    Getattr { file: &'a File },
    /// Sets attributes of a file.
    Setattr { file: &'a File, attributes: Sattr },
    /// Finds a name in a directory.
    Lookup { dir: &'a File, name: &'a [u8] },
    /// Queries which bits of [`crate::nfs3::access`] are granted.
    Access { file: &'a File, access: u32 },
    /// Reads a symbolic link.
    Readlink { file: &'a File },
    /// Reads `count` bytes from `offset`.
    Read { file: &'a File, offset: u64, count: u32 },
    /// Writes `data` at `offset`.
    Write { file: &'a File, offset: u64, stable: StableHow, data: Data<'a> },
    /// Creates a file. In version 4 it is then open for reading and writing: close it.
    Create { dir: &'a File, name: &'a [u8], how: CreateHow },
    /// Creates a directory.
    Mkdir { dir: &'a File, name: &'a [u8], attributes: Sattr },
    /// Creates a symbolic link to `target`.
    Symlink { dir: &'a File, name: &'a [u8], attributes: Sattr, target: &'a [u8] },
    /// Creates a special file.
    Mknod { dir: &'a File, name: &'a [u8], what: MknodWhat },
    /// Removes a file.
    Remove { dir: &'a File, name: &'a [u8] },
    /// Removes a directory.
    Rmdir { dir: &'a File, name: &'a [u8] },
    /// Renames an entry.
    Rename { from_dir: &'a File, from: &'a [u8], to_dir: &'a File, to: &'a [u8] },
    /// Adds a name to a file.
    Link { file: &'a File, dir: &'a File, name: &'a [u8] },
    /// Lists a directory in a reply of at most `bytes`.
    Readdir { dir: &'a File, cursor: Cursor, bytes: u32 },
    /// Lists a directory with handles and attributes in a reply of at most `bytes`.
    ReaddirPlus { dir: &'a File, cursor: Cursor, bytes: u32 },
    /// Gets the fill state of the file system.
    Fsstat { root: &'a File },
    /// Gets the limits of the file system.
    Fsinfo { root: &'a File },
    /// Gets POSIX limits.
    Pathconf { file: &'a File },
    /// Makes `count` bytes from `offset` durable; a count of 0 means to the end.
    Commit { file: &'a File, offset: u64, count: u32 },
    /// Opens an existing file; a LOOKUP in versions without opens.
    Open { dir: &'a File, name: &'a [u8], access: OpenAccess },
    /// Opens a file by its handle, since v4.1.
    OpenHandle { file: &'a File, access: OpenAccess },
    /// Closes an open.
    Close { file: &'a File },
    /// Reserves space for a file.
    Allocate { file: &'a File, offset: u64, len: u64 },
    /// Punches a hole.
    Deallocate { file: &'a File, offset: u64, len: u64 },
    /// Finds the next data or hole from `offset` on.
    Seek { file: &'a File, offset: u64, what: SeekWhat },
    /// Reads `count` bytes from `offset`; holes are described but not sent.
    ReadPlus { file: &'a File, offset: u64, count: u32 },
    /// Makes the server copy `len` bytes; 0 means to the end.
    Copy { from: &'a File, from_offset: u64, to: &'a File, to_offset: u64, len: u64 },
    /// Gets the value of an extended attribute. Names have no prefix such as `user.`.
    Getxattr { file: &'a File, name: &'a [u8] },
    /// Sets an extended attribute; the value is copied.
    Setxattr { file: &'a File, option: XattrOption, name: &'a [u8], value: &'a [u8] },
    /// Lists the names of extended attributes after `cookie` (0: from the start) in a reply of at
    /// most `bytes`.
    Listxattrs { file: &'a File, cookie: u64, bytes: u32 },
    /// Removes an extended attribute.
    Removexattr { file: &'a File, name: &'a [u8] },
}

impl Operation<'_> {
    /// Returns the kind of this operation.
    pub const fn kind(&self) -> OperationKind {
        match self {
            Self::Null => OperationKind::Null,
            Self::Getattr { .. } => OperationKind::Getattr,
            Self::Setattr { .. } => OperationKind::Setattr,
            Self::Lookup { .. } => OperationKind::Lookup,
            Self::Access { .. } => OperationKind::Access,
            Self::Readlink { .. } => OperationKind::Readlink,
            Self::Read { .. } => OperationKind::Read,
            Self::Write { .. } => OperationKind::Write,
            Self::Create { .. } => OperationKind::Create,
            Self::Mkdir { .. } => OperationKind::Mkdir,
            Self::Symlink { .. } => OperationKind::Symlink,
            Self::Mknod { .. } => OperationKind::Mknod,
            Self::Remove { .. } => OperationKind::Remove,
            Self::Rmdir { .. } => OperationKind::Rmdir,
            Self::Rename { .. } => OperationKind::Rename,
            Self::Link { .. } => OperationKind::Link,
            Self::Readdir { .. } => OperationKind::Readdir,
            Self::ReaddirPlus { .. } => OperationKind::ReaddirPlus,
            Self::Fsstat { .. } => OperationKind::Fsstat,
            Self::Fsinfo { .. } => OperationKind::Fsinfo,
            Self::Pathconf { .. } => OperationKind::Pathconf,
            Self::Commit { .. } => OperationKind::Commit,
            Self::Open { .. } | Self::OpenHandle { .. } => OperationKind::Open,
            Self::Close { .. } => OperationKind::Close,
            Self::Allocate { .. } => OperationKind::Allocate,
            Self::Deallocate { .. } => OperationKind::Deallocate,
            Self::Seek { .. } => OperationKind::Seek,
            Self::ReadPlus { .. } => OperationKind::ReadPlus,
            Self::Copy { .. } => OperationKind::Copy,
            Self::Getxattr { .. } => OperationKind::Getxattr,
            Self::Setxattr { .. } => OperationKind::Setxattr,
            Self::Listxattrs { .. } => OperationKind::Listxattrs,
            Self::Removexattr { .. } => OperationKind::Removexattr,
        }
    }

    /// Returns true if executing it twice has the same effect and result as executing it once.
    ///
    /// A guarded or exclusive CREATE, REMOVE, RENAME and the like return something else the second
    /// time; OPEN and CLOSE change the server's state of the client.
    pub const fn is_idempotent(&self) -> bool {
        match self {
            // Repeating an exclusive CREATE succeeds with the same verifier, but only while the
            // server still has it; treating it as idempotent would now and then turn a lost reply
            // into EXIST.
            Self::Create { how, .. } => matches!(how, CreateHow::Unchecked(_)),
            Self::Setxattr { option, .. } => !matches!(option, XattrOption::Create),
            Self::Mkdir { .. }
            | Self::Symlink { .. }
            | Self::Mknod { .. }
            | Self::Remove { .. }
            | Self::Rmdir { .. }
            | Self::Rename { .. }
            | Self::Link { .. }
            | Self::Open { .. }
            | Self::OpenHandle { .. }
            | Self::Close { .. }
            | Self::Copy { .. }
            | Self::Removexattr { .. } => false,
            _ => true,
        }
    }
}

macro_rules! kinds {
    ($($variant:ident = $name:literal;)*) => {
        /// The name of an operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is documented at its `Operation`")]
        pub enum OperationKind {
            $($variant,)*
        }

        impl OperationKind {
            /// All of the operations.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in capitals, as the RFCs write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

kinds! {
    Null = "NULL";
    Getattr = "GETATTR";
    Setattr = "SETATTR";
    Lookup = "LOOKUP";
    Access = "ACCESS";
    Readlink = "READLINK";
    Read = "READ";
    Write = "WRITE";
    Create = "CREATE";
    Mkdir = "MKDIR";
    Symlink = "SYMLINK";
    Mknod = "MKNOD";
    Remove = "REMOVE";
    Rmdir = "RMDIR";
    Rename = "RENAME";
    Link = "LINK";
    Readdir = "READDIR";
    ReaddirPlus = "READDIRPLUS";
    Fsstat = "FSSTAT";
    Fsinfo = "FSINFO";
    Pathconf = "PATHCONF";
    Commit = "COMMIT";
    Open = "OPEN";
    Close = "CLOSE";
    Allocate = "ALLOCATE";
    Deallocate = "DEALLOCATE";
    Seek = "SEEK";
    ReadPlus = "READ_PLUS";
    Copy = "COPY";
    Getxattr = "GETXATTR";
    Setxattr = "SETXATTR";
    Listxattrs = "LISTXATTRS";
    Removexattr = "REMOVEXATTR";
}

impl std::fmt::Display for OperationKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file operation.
    File(OperationKind),
    /// A raw call of any program.
    Raw {
        /// The program's number.
        program: u32,
        /// Version of the program.
        version: u32,
        /// The procedure's number.
        procedure: u32,
    },
}

impl Kind {
    /// A raw v4 compound.
    pub const COMPOUND: Self =
        Self::Raw { program: nfs4::PROGRAM, version: nfs4::VERSION, procedure: 1 };

    /// Returns the kind of a call.
    pub const fn of_call(call: &Call<'_>) -> Self {
        let ProcedureId { program, version, procedure } = call.procedure_id();
        Self::Raw { program, version, procedure }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::File(kind) => write!(f, "{kind}"),
            Self::Raw { procedure: 0, .. } => f.write_str("NULL"),
            Self::Raw { program: mount3::PROGRAM, procedure: 1, .. } => f.write_str("MNT"),
            Self::Raw { program: mount3::PROGRAM, procedure: 3, .. } => f.write_str("UMNT"),
            Self::Raw { program: mount3::PROGRAM, procedure: 5, .. } => f.write_str("EXPORT"),
            Self::Raw { program: portmap::PROGRAM, version: 2, procedure: 3 } => {
                f.write_str("GETPORT")
            }
            Self::Raw { program: portmap::PROGRAM, procedure: 3, .. } => f.write_str("GETADDR"),
            Self::Raw { program: nfs3::PROGRAM, version: 4, .. } => f.write_str("COMPOUND"),
            Self::Raw { program, version, procedure } => {
                write!(f, "procedure {procedure} of program {program}, version {version}")
            }
        }
    }
}
