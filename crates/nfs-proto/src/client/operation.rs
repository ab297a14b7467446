//! One vocabulary of file operations for all versions of NFS.
//!
//! [`Operation`] names what to do; a session's dialect expresses it in its version. What a version
//! lacks is refused when it is started, never imitated: version 3 has no OPEN but a LOOKUP takes
//! its place, version 2 has no COMMIT and needs none. [`OperationKind`] names an operation in
//! counters and messages. Both come from one table, which also has the procedure or operation of
//! each version. **Source:** RFC 1094, RFC 1813, RFC 7530, RFC 8881, RFC 7862, RFC 8276.

use super::file::File;
use crate::nfs3::{self, CreateHow, MknodWhat, Sattr, StableHow, Verifier};
use crate::nfs4::{OpCode, XattrOption};
use crate::program::Call;
use crate::rpc::ProcedureId;
use crate::{mount3, nfs2, nfs4, portmap};

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

/// The value of an optional part of a row.
macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// Generates [`Operation`] and [`OperationKind`] from rows with an operation, its arguments, its
/// name, and its procedure or operation in each version that has one.
macro_rules! operations {
    ($($(#[$doc:meta])* $kind:ident $({ $($field:ident: $type:ty),* })? = $name:literal
        $(v2 $v2:ident)? $(v3 $v3:ident)? $(v4 $v4:ident)?;)*) => {
        /// A file operation with its arguments. Offsets and lengths are in bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the fields are named as the arguments are in the RFCs")]
        pub enum Operation<'a> {
            $($(#[$doc])* $kind $({ $($field: $type),* })?,)*
            /// Opens a file by its handle, since v4.1.
            OpenHandle { file: &'a File, access: OpenAccess },
        }

        impl Operation<'_> {
            /// Returns the name of this operation.
            pub const fn kind(&self) -> OperationKind {
                match self {
                    $(Self::$kind { .. } => OperationKind::$kind,)*
                    Self::OpenHandle { .. } => OperationKind::Open,
                }
            }
        }

        /// The name of an operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is documented at its `Operation`")]
        pub enum OperationKind {
            $($kind,)*
        }

        impl OperationKind {
            /// All of the operations.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Returns the name in capitals, as the RFCs write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Returns the procedure of version 2 that counts as this operation, if there is one.
            pub const fn nfs2_procedure(self) -> Option<nfs2::Procedure> {
                match self {
                    $(Self::$kind => optional!($(nfs2::Procedure::$v2)?),)*
                }
            }

            /// Returns the procedure of version 3 that counts as this operation, if there is one.
            pub const fn nfs3_procedure(self) -> Option<nfs3::Procedure> {
                match self {
                    $(Self::$kind => optional!($(nfs3::Procedure::$v3)?),)*
                }
            }

            /// Returns the operation of version 4 that counts as this operation, if there is one.
            ///
            /// CREATE, which creates anything but a regular file, counts as MKDIR, and OPEN as OPEN
            /// even if it creates a file. GETATTR is part of most compounds, so it counts as none.
            pub const fn nfs4_operation(self) -> Option<OpCode> {
                match self {
                    $(Self::$kind => optional!($(OpCode::$v4)?),)*
                }
            }
        }
    };
}

operations! {
    /// Does nothing at all.
    Null = "NULL" v2 Null v3 Null;
    /// Gets the attributes of a file.
    Getattr { file: &'a File } = "GETATTR" v2 Getattr v3 Getattr;
    /// Sets attributes of a file.
    Setattr { file: &'a File, attributes: Sattr } = "SETATTR" v2 Setattr v3 Setattr v4 Setattr;
    /// Finds a name in a directory.
    Lookup { dir: &'a File, name: &'a [u8] } = "LOOKUP" v2 Lookup v3 Lookup v4 Lookup;
    /// Queries which bits of [`crate::nfs3::access`] are granted.
    Access { file: &'a File, access: u32 } = "ACCESS" v3 Access v4 Access;
    /// Reads a symbolic link.
    Readlink { file: &'a File } = "READLINK" v2 Readlink v3 Readlink v4 Readlink;
    /// Reads `count` bytes from `offset`.
    Read { file: &'a File, offset: u64, count: u32 } = "READ" v2 Read v3 Read v4 Read;
    /// Writes `data` at `offset`.
    Write { file: &'a File, offset: u64, stable: StableHow, data: Data<'a> } = "WRITE"
        v2 Write v3 Write v4 Write;
    /// Creates a file. In version 4 it is then open for reading and writing: close it.
    Create { dir: &'a File, name: &'a [u8], how: CreateHow } = "CREATE" v2 Create v3 Create;
    /// Creates a directory.
    Mkdir { dir: &'a File, name: &'a [u8], attributes: Sattr } = "MKDIR"
        v2 Mkdir v3 Mkdir v4 Create;
    /// Creates a symbolic link to `target`.
    Symlink { dir: &'a File, name: &'a [u8], attributes: Sattr, target: &'a [u8] } = "SYMLINK"
        v2 Symlink v3 Symlink;
    /// Creates a special file.
    Mknod { dir: &'a File, name: &'a [u8], what: MknodWhat } = "MKNOD" v3 Mknod;
    /// Removes a file.
    Remove { dir: &'a File, name: &'a [u8] } = "REMOVE" v2 Remove v3 Remove v4 Remove;
    /// Removes a directory.
    Rmdir { dir: &'a File, name: &'a [u8] } = "RMDIR" v2 Rmdir v3 Rmdir;
    /// Renames an entry.
    Rename { from_dir: &'a File, from: &'a [u8], to_dir: &'a File, to: &'a [u8] } = "RENAME"
        v2 Rename v3 Rename v4 Rename;
    /// Adds a name to a file.
    Link { file: &'a File, dir: &'a File, name: &'a [u8] } = "LINK" v2 Link v3 Link v4 Link;
    /// Lists a directory in a reply of at most `bytes`.
    Readdir { dir: &'a File, cursor: Cursor, bytes: u32 } = "READDIR"
        v2 Readdir v3 Readdir v4 Readdir;
    /// Lists a directory with handles and attributes in a reply of at most `bytes`.
    ReaddirPlus { dir: &'a File, cursor: Cursor, bytes: u32 } = "READDIRPLUS" v3 Readdirplus;
    /// Gets the fill state of the file system.
    Fsstat { root: &'a File } = "FSSTAT" v2 Statfs v3 Fsstat;
    /// Gets the limits of the file system.
    Fsinfo { root: &'a File } = "FSINFO" v3 Fsinfo;
    /// Gets POSIX limits.
    Pathconf { file: &'a File } = "PATHCONF" v3 Pathconf;
    /// Makes `count` bytes from `offset` durable; a count of 0 means to the end.
    Commit { file: &'a File, offset: u64, count: u32 } = "COMMIT" v3 Commit v4 Commit;
    /// Opens an existing file; a LOOKUP in versions without opens.
    Open { dir: &'a File, name: &'a [u8], access: OpenAccess } = "OPEN" v4 Open;
    /// Closes an open.
    Close { file: &'a File } = "CLOSE" v4 Close;
    /// Reserves space for a file.
    Allocate { file: &'a File, offset: u64, len: u64 } = "ALLOCATE" v4 Allocate;
    /// Punches a hole.
    Deallocate { file: &'a File, offset: u64, len: u64 } = "DEALLOCATE" v4 Deallocate;
    /// Finds the next data or hole from `offset` on.
    Seek { file: &'a File, offset: u64, what: SeekWhat } = "SEEK" v4 Seek;
    /// Reads `count` bytes from `offset`; holes are described but not sent.
    ReadPlus { file: &'a File, offset: u64, count: u32 } = "READ_PLUS" v4 ReadPlus;
    /// Makes the server copy `len` bytes; 0 means to the end. Unless it has to be `synchronous`,
    /// the server may answer [`super::Outcome::Copying`] and continue; see [`super::Copies`].
    Copy {
        from: &'a File, from_offset: u64, to: &'a File, to_offset: u64, len: u64,
        synchronous: bool
    } = "COPY" v4 Copy;
    /// Makes a range of a file share the blocks of another; a length of 0 means to the end.
    Clone { from: &'a File, from_offset: u64, to: &'a File, to_offset: u64, len: u64 } = "CLONE"
        v4 Clone;
    /// Gets the value of an extended attribute. Names have no prefix such as `user.`.
    Getxattr { file: &'a File, name: &'a [u8] } = "GETXATTR" v4 Getxattr;
    /// Sets an extended attribute; the value is copied.
    Setxattr { file: &'a File, option: XattrOption, name: &'a [u8], value: &'a [u8] } = "SETXATTR"
        v4 Setxattr;
    /// Lists the names of extended attributes after `cookie` (0: from the start) in a reply of at
    /// most `bytes`.
    Listxattrs { file: &'a File, cookie: u64, bytes: u32 } = "LISTXATTRS" v4 Listxattrs;
    /// Removes an extended attribute.
    Removexattr { file: &'a File, name: &'a [u8] } = "REMOVEXATTR" v4 Removexattr;
}

impl Operation<'_> {
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
    pub const fn from_call(call: &Call<'_>) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn count(is_it: impl Fn(OperationKind) -> bool) -> usize {
        OperationKind::ALL.iter().filter(|kind| is_it(**kind)).count()
    }

    #[test]
    fn procedures_count_as_one_kind() {
        for procedure in nfs2::Procedure::ALL {
            let is_obsolete =
                matches!(procedure, nfs2::Procedure::Root | nfs2::Procedure::Writecache);
            let kinds = count(|kind| kind.nfs2_procedure() == Some(procedure));
            assert_eq!(kinds, usize::from(!is_obsolete), "{procedure}");
        }
        for procedure in nfs3::Procedure::ALL {
            let kinds = count(|kind| kind.nfs3_procedure() == Some(procedure));
            assert_eq!(kinds, 1, "{procedure}");
        }
        for operation in OpCode::ALL {
            let kinds = count(|kind| kind.nfs4_operation() == Some(*operation));
            assert!(kinds <= 1, "{operation}");
        }
    }
}
