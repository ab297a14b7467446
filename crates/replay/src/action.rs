//! What an operation of a trace means for our own client.
//!
//! [`counterpart_at`] translates operations of v2, v3 and v4 to a single vocabulary, that of
//! [`nfs_client::proto::client::Operation`], which the client expresses in the target's version.
//! Sessions, opens of v4.0 and mounts are up to the client. Locks, layouts and delegations have no
//! counterpart.

use nfs_client::proto::client::{OpenAccess, OperationKind};
use nfs_client::proto::nfs3::{self, StableHow};
use nfs_client::proto::{nfs2, nfs4::OpCode};
use trace::{Call, Op, Version, op_flag};

/// Type of a directory, a value of v3's `ftype3`.
pub(crate) const DIRECTORY: u8 = 2;
/// Type of a regular file.
pub(crate) const REGULAR: u8 = 1;
/// Type of a symbolic link.
pub(crate) const SYMLINK: u8 = 5;

/// How a file is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// An existing file is used.
    Unchecked,
    /// An existing file is an error.
    Guarded,
    /// Like `Guarded`, but with a verifier instead of attributes.
    Exclusive,
}

// Traits of an action, as bits; the last column of the table combines them.
/// Works on a name in a directory.
const NAME: u8 = 1;
/// Opens or creates a file that may stay open.
const OPENS: u8 = 2;
/// Creates an object with the name it works on.
const MAKES: u8 = 4;
/// Works on the data of a file.
const DATA: u8 = 8;
/// Changes a file, so that steps that read it can't run at the same time.
const CHANGES: u8 = 16;

/// Makes [`Action`] from rows of an action, the kind of its operation, and its traits.
macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident $(($value:ty))? $({ $($field:ident: $type:ty),* })?
        = $kind:ident $(, $($trait:ident)|+)?;)*) => {
        /// What a step does. The files, names and opens involved are numbers in the step.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the fields have the names used in the RFCs")]
        pub enum Action {
            $($(#[$doc])* $action $(($value))? $({ $($field: $type),* })?,)*
        }

        impl Action {
            /// Returns the kind of the operation.
            pub const fn kind(self) -> OperationKind {
                match self {
                    $(Self::$action { .. } => OperationKind::$kind,)*
                }
            }

            /// Returns the traits in the table's last column.
            const fn traits(self) -> u8 {
                match self {
                    $(Self::$action { .. } => 0 $($(| $trait)+)?,)*
                }
            }
        }
    };
}

actions! {
    /// Does nothing.
    Null = Null;
    /// Gets all attributes.
    Getattr = Getattr;
    /// Sets the size in bytes.
    SetSize(u64) = Setattr, DATA;
    /// Sets the modification time, which replaces any attribute except the size.
    SetTime = Setattr, CHANGES;
    /// Looks up a name.
    Lookup = Lookup, NAME;
    /// Checks permissions.
    Access(u32) = Access;
    /// Reads a symbolic link.
    Readlink = Readlink;
    /// Reads data.
    Read { offset: u64, count: u32 } = Read, DATA;
    /// Writes data.
    Write { offset: u64, count: u32, stable: StableHow } = Write, DATA | CHANGES;
    /// Creates a file, or opens one and creates it if necessary.
    Create { how: Creation, size: Option<u64> } = Create, NAME | OPENS | MAKES;
    /// Creates a directory.
    Mkdir = Mkdir, NAME | MAKES;
    /// Creates a symbolic link whose target has this many bytes.
    Symlink { target_bytes: u32 } = Symlink, NAME | MAKES;
    /// Creates a named pipe, which replaces any special file.
    Mknod = Mknod, NAME | MAKES;
    /// Removes a file.
    Remove = Remove, NAME;
    /// Removes a directory.
    Rmdir = Rmdir, NAME;
    /// Renames an entry.
    Rename = Rename, NAME;
    /// Adds a hard link to a file.
    Link = Link, NAME;
    /// Lists names: the first page or the next one.
    Readdir { bytes: u32, is_first: bool } = Readdir;
    /// Lists names with attributes.
    ReaddirPlus { bytes: u32, is_first: bool } = ReaddirPlus;
    /// Gets the free space of the file system.
    Fsstat = Fsstat;
    /// Gets the limits of the file system.
    Fsinfo = Fsinfo;
    /// Gets POSIX limits.
    Pathconf = Pathconf;
    /// Makes data durable.
    Commit { offset: u64, count: u32 } = Commit, DATA;
    /// Opens an existing file.
    Open(OpenAccess) = Open, NAME | OPENS;
    /// Opens a file by its handle.
    OpenHandle(OpenAccess) = Open, OPENS;
    /// Closes an open.
    Close = Close;
    /// Reserves space.
    Allocate { offset: u64, len: u64 } = Allocate, DATA | CHANGES;
    /// Punches a hole.
    Deallocate { offset: u64, len: u64 } = Deallocate, DATA | CHANGES;
    /// Finds the next data.
    Seek { offset: u64 } = Seek, DATA;
    /// Reads data, with holes described.
    ReadPlus { offset: u64, count: u32 } = ReadPlus, DATA;
    /// Copies within the server, from `other` to `file`.
    Copy { from_offset: u64, to_offset: u64, len: u64 } = Copy, DATA | CHANGES;
    /// Shares blocks of `other` with `file`.
    Clone { from_offset: u64, to_offset: u64, len: u64 } = Clone, DATA | CHANGES;
    /// Gets an extended attribute.
    Getxattr = Getxattr;
    /// Sets an extended attribute with a value of this many bytes.
    Setxattr { value_bytes: u32 } = Setxattr, CHANGES;
    /// Lists extended attributes.
    Listxattrs { bytes: u32 } = Listxattrs;
    /// Removes an extended attribute.
    Removexattr = Removexattr, CHANGES;
}

impl Action {
    /// Returns true if it works on a name in a directory.
    pub(crate) const fn takes_name(self) -> bool {
        self.traits() & NAME != 0
    }

    /// Returns true if it opens or creates a file that may stay open.
    pub(crate) const fn opens_file(self) -> bool {
        self.traits() & OPENS != 0
    }

    /// Returns true if it creates an object with the name it works on.
    pub(crate) const fn makes_object(self) -> bool {
        self.traits() & MAKES != 0
    }

    /// Returns true if it works on the data of a file.
    pub(crate) const fn uses_data(self) -> bool {
        self.traits() & DATA != 0
    }

    /// Returns true if it changes a file, so that steps that read it can't run at the same time.
    pub(crate) const fn changes_file(self) -> bool {
        self.traits() & CHANGES != 0
    }
}

/// How an operation of a trace is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counterpart {
    /// It is replayed as this action.
    Action(Action),
    /// It only identifies files for other operations of its compound, or queries their result.
    Frame,
    /// The client does this on its own: mounts, sessions, leases.
    Client,
    /// It cannot be replayed.
    None,
}

/// Returns the counterpart of one operation of a call.
pub(crate) fn counterpart_at(call: &Call, at: usize) -> Counterpart {
    let op = &call.ops[at];
    let number = u32::from(op.kind);
    let kind = match call.version {
        Version::Mount1 | Version::Mount3 => return Counterpart::Client,
        Version::V2 => nfs2::Procedure::from_number(number)
            .and_then(|procedure| find_kind(|kind| kind.nfs2_procedure() == Some(procedure))),
        Version::V3 => nfs3::Procedure::from_number(number)
            .and_then(|procedure| find_kind(|kind| kind.nfs3_procedure() == Some(procedure))),
        Version::V4_0 | Version::V4_1 | Version::V4_2 => return of_v4(call, at),
    };
    kind.map_or(Counterpart::None, |kind| of_kind(kind, op, call.version))
}

fn find_kind(is_it: impl Fn(OperationKind) -> bool) -> Option<OperationKind> {
    OperationKind::ALL.iter().copied().find(|kind| is_it(*kind))
}

fn of_v4(call: &Call, at: usize) -> Counterpart {
    let op = &call.ops[at];
    if op.kind == Op::NULL {
        return Counterpart::Action(Action::Null);
    }
    let Some(code) = OpCode::from_number(op.kind.into()) else { return Counterpart::None };
    match code {
        _ if op.is_frame() => Counterpart::Frame,
        OpCode::Getattr | OpCode::Access => of_question(call, at),
        OpCode::Setclientid
        | OpCode::SetclientidConfirm
        | OpCode::OpenConfirm
        | OpCode::Renew
        | OpCode::BackchannelCtl
        | OpCode::BindConnToSession
        | OpCode::ExchangeId
        | OpCode::CreateSession
        | OpCode::DestroySession
        | OpCode::DestroyClientid
        | OpCode::ReclaimComplete
        | OpCode::Secinfo
        | OpCode::SecinfoNoName
        | OpCode::FreeStateid
        | OpCode::TestStateid
        | OpCode::ReleaseLockowner => Counterpart::Client,
        OpCode::Create => Counterpart::Action(created_object(call, at)),
        // A trace doesn't contain the requested attributes, but kernels do request them.
        OpCode::Readdir => of_kind(OperationKind::ReaddirPlus, op, call.version),
        code => find_kind(|kind| kind.nfs4_operation() == Some(code))
            .map_or(Counterpart::None, |kind| of_kind(kind, op, call.version)),
    }
}

fn of_kind(kind: OperationKind, op: &Op, version: Version) -> Counterpart {
    let offset = op.offset;
    let len = op.length;
    let count = bytes_of(op.length);
    Counterpart::Action(match kind {
        OperationKind::Null => Action::Null,
        OperationKind::Getattr => Action::Getattr,
        OperationKind::Setattr => set_attributes(op),
        OperationKind::Lookup => Action::Lookup,
        OperationKind::Access => Action::Access(count),
        OperationKind::Readlink => Action::Readlink,
        OperationKind::Read => Action::Read { offset, count },
        // In version 2, every WRITE is stable, and there is a single way to create a file.
        OperationKind::Write if version == Version::V2 => {
            Action::Write { offset, count, stable: StableHow::FileSync }
        }
        OperationKind::Create if version == Version::V2 => {
            Action::Create { how: Creation::Unchecked, size: size_set(op) }
        }
        OperationKind::Write => Action::Write { offset, count, stable: stability(op) },
        OperationKind::Create => Action::Create { how: creation(op), size: size_set(op) },
        OperationKind::Mkdir => Action::Mkdir,
        OperationKind::Symlink => Action::Symlink { target_bytes: count },
        OperationKind::Mknod => Action::Mknod,
        OperationKind::Remove => Action::Remove,
        OperationKind::Rmdir => Action::Rmdir,
        OperationKind::Rename => Action::Rename,
        OperationKind::Link => Action::Link,
        OperationKind::Readdir => Action::Readdir { bytes: count, is_first: offset == 0 },
        OperationKind::ReaddirPlus => Action::ReaddirPlus { bytes: count, is_first: offset == 0 },
        OperationKind::Fsstat => Action::Fsstat,
        OperationKind::Fsinfo => Action::Fsinfo,
        OperationKind::Pathconf => Action::Pathconf,
        OperationKind::Commit => Action::Commit { offset, count },
        OperationKind::Open => return of_open(op),
        OperationKind::Close => Action::Close,
        OperationKind::Allocate => Action::Allocate { offset, len },
        OperationKind::Deallocate => Action::Deallocate { offset, len },
        OperationKind::Seek => Action::Seek { offset },
        OperationKind::ReadPlus => Action::ReadPlus { offset, count },
        OperationKind::Copy => {
            Action::Copy { from_offset: op.source_offset, to_offset: offset, len }
        }
        OperationKind::Clone => {
            Action::Clone { from_offset: op.source_offset, to_offset: offset, len }
        }
        OperationKind::Getxattr => Action::Getxattr,
        OperationKind::Setxattr => Action::Setxattr { value_bytes: count },
        OperationKind::Listxattrs => Action::Listxattrs { bytes: count },
        OperationKind::Removexattr => Action::Removexattr,
    })
}

/// An OPEN without a name opens the file itself. Kernels do that since v4.1 if they know the file.
fn of_open(op: &Op) -> Counterpart {
    let creates = op.flags & op_flag::CREATES != 0;
    let access = match op.offset & 3 {
        1 => OpenAccess::Read,
        2 => OpenAccess::Write,
        3 => OpenAccess::Both,
        // No OPEN is without access, so its arguments were not captured.
        _ if op.name == 0 => return Counterpart::None,
        _ => OpenAccess::Both,
    };
    Counterpart::Action(match op.name {
        0 if creates => return Counterpart::None,
        0 => Action::OpenHandle(access),
        _ if creates => Action::Create { how: creation(op), size: size_set(op) },
        _ => Action::Open(access),
    })
}

/// GETATTR and ACCESS become a step only if the compound does nothing else. Only the first of them
/// counts.
fn of_question(call: &Call, at: usize) -> Counterpart {
    for (number, other) in call.ops.iter().enumerate() {
        match OpCode::from_number(other.kind.into()) {
            Some(OpCode::Getattr | OpCode::Access) if number >= at => {}
            Some(OpCode::Getattr | OpCode::Access) => return Counterpart::Frame,
            _ if other.is_frame() => {}
            _ => return Counterpart::Frame,
        }
    }
    let op = &call.ops[at];
    Counterpart::Action(if op.kind == OpCode::Access.number() as u8 {
        Action::Access(bytes_of(op.length))
    } else {
        Action::Getattr
    })
}

/// Returns what a v4 CREATE creates. A symbolic link has a target; otherwise, the type is taken
/// from the attributes requested afterwards.
fn created_object(call: &Call, at: usize) -> Action {
    let op = &call.ops[at];
    if op.length > 0 && op.flags & op_flag::SETS_SIZE == 0 {
        return Action::Symlink { target_bytes: bytes_of(op.length) };
    }
    for later in &call.ops[at + 1..] {
        if later.file_type != 0 && later.file_type != DIRECTORY {
            return Action::Mknod;
        }
    }
    Action::Mkdir
}

fn set_attributes(op: &Op) -> Action {
    match size_set(op) {
        Some(size) => Action::SetSize(size),
        None => Action::SetTime,
    }
}

fn size_set(op: &Op) -> Option<u64> {
    if op.flags & op_flag::SETS_SIZE != 0 { Some(op.length) } else { None }
}

/// `how` is the protocol's value plus one.
fn creation(op: &Op) -> Creation {
    match op.how {
        0 | 1 => Creation::Unchecked,
        2 => Creation::Guarded,
        _ => Creation::Exclusive,
    }
}

fn stability(op: &Op) -> StableHow {
    match op.how {
        0 | 1 => StableHow::Unstable,
        2 => StableHow::DataSync,
        _ => StableHow::FileSync,
    }
}

fn bytes_of(length: u64) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
