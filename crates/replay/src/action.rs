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
pub const DIRECTORY: u8 = 2;
/// Type of a regular file.
pub const REGULAR: u8 = 1;
/// Type of a symbolic link.
pub const SYMLINK: u8 = 5;

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

/// What a step does. The files, names and opens involved are numbers in the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named as the arguments are in the RFCs")]
pub enum Action {
    /// Does nothing.
    Null,
    /// Gets all attributes.
    Getattr,
    /// Sets the size in bytes.
    SetSize(u64),
    /// Sets the modification time, which replaces any attribute except the size.
    SetTime,
    /// Looks up a name.
    Lookup,
    /// Checks permissions.
    Access(u32),
    /// Reads a symbolic link.
    Readlink,
    /// Reads data.
    Read { offset: u64, count: u32 },
    /// Writes data.
    Write { offset: u64, count: u32, stable: StableHow },
    /// Creates a file, or opens one and creates it if necessary.
    Create { how: Creation, size: Option<u64> },
    /// Creates a directory.
    Mkdir,
    /// Creates a symbolic link whose target has this many bytes.
    Symlink { target_bytes: u32 },
    /// Creates a named pipe, which replaces any special file.
    Mknod,
    /// Removes a file.
    Remove,
    /// Removes a directory.
    Rmdir,
    /// Renames an entry.
    Rename,
    /// Adds a hard link to a file.
    Link,
    /// Lists names: the first page or the next one.
    Readdir { bytes: u32, is_first: bool },
    /// Lists names with attributes.
    ReaddirPlus { bytes: u32, is_first: bool },
    /// Gets the free space of the file system.
    Fsstat,
    /// Gets the limits of the file system.
    Fsinfo,
    /// Gets POSIX limits.
    Pathconf,
    /// Makes data durable.
    Commit { offset: u64, count: u32 },
    /// Opens an existing file.
    Open(OpenAccess),
    /// Opens a file by its handle.
    OpenHandle(OpenAccess),
    /// Closes an open.
    Close,
    /// Reserves space.
    Allocate { offset: u64, len: u64 },
    /// Punches a hole.
    Deallocate { offset: u64, len: u64 },
    /// Finds the next data.
    Seek { offset: u64 },
    /// Reads data, with holes described.
    ReadPlus { offset: u64, count: u32 },
    /// Copies within the server, from `other` to `file`.
    Copy { from_offset: u64, to_offset: u64, len: u64 },
    /// Gets an extended attribute.
    Getxattr,
    /// Sets an extended attribute with a value of this many bytes.
    Setxattr { value_bytes: u32 },
    /// Lists extended attributes.
    Listxattrs { bytes: u32 },
    /// Removes an extended attribute.
    Removexattr,
}

impl Action {
    /// Returns true if it works on a name in a directory.
    pub const fn takes_name(self) -> bool {
        matches!(
            self,
            Self::Lookup
                | Self::Open(_)
                | Self::Remove
                | Self::Rmdir
                | Self::Rename
                | Self::Link
                | Self::Create { .. }
                | Self::Mkdir
                | Self::Symlink { .. }
                | Self::Mknod
        )
    }

    /// Returns the kind of the operation.
    pub const fn kind(self) -> OperationKind {
        match self {
            Self::Null => OperationKind::Null,
            Self::Getattr => OperationKind::Getattr,
            Self::SetSize(_) | Self::SetTime => OperationKind::Setattr,
            Self::Lookup => OperationKind::Lookup,
            Self::Access(_) => OperationKind::Access,
            Self::Readlink => OperationKind::Readlink,
            Self::Read { .. } => OperationKind::Read,
            Self::Write { .. } => OperationKind::Write,
            Self::Create { .. } => OperationKind::Create,
            Self::Mkdir => OperationKind::Mkdir,
            Self::Symlink { .. } => OperationKind::Symlink,
            Self::Mknod => OperationKind::Mknod,
            Self::Remove => OperationKind::Remove,
            Self::Rmdir => OperationKind::Rmdir,
            Self::Rename => OperationKind::Rename,
            Self::Link => OperationKind::Link,
            Self::Readdir { .. } => OperationKind::Readdir,
            Self::ReaddirPlus { .. } => OperationKind::ReaddirPlus,
            Self::Fsstat => OperationKind::Fsstat,
            Self::Fsinfo => OperationKind::Fsinfo,
            Self::Pathconf => OperationKind::Pathconf,
            Self::Commit { .. } => OperationKind::Commit,
            Self::Open(_) | Self::OpenHandle(_) => OperationKind::Open,
            Self::Close => OperationKind::Close,
            Self::Allocate { .. } => OperationKind::Allocate,
            Self::Deallocate { .. } => OperationKind::Deallocate,
            Self::Seek { .. } => OperationKind::Seek,
            Self::ReadPlus { .. } => OperationKind::ReadPlus,
            Self::Copy { .. } => OperationKind::Copy,
            Self::Getxattr => OperationKind::Getxattr,
            Self::Setxattr { .. } => OperationKind::Setxattr,
            Self::Listxattrs { .. } => OperationKind::Listxattrs,
            Self::Removexattr => OperationKind::Removexattr,
        }
    }

    /// Returns true if it opens or creates a file that may stay open.
    pub const fn opens_file(self) -> bool {
        matches!(self, Self::Create { .. } | Self::Open(_) | Self::OpenHandle(_))
    }

    /// Returns true if it creates an object with the name it works on.
    pub const fn makes_object(self) -> bool {
        matches!(self, Self::Create { .. } | Self::Mkdir | Self::Symlink { .. } | Self::Mknod)
    }
}

/// How an operation of a trace is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counterpart {
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
pub fn counterpart_at(call: &Call, at: usize) -> Counterpart {
    let op = &call.ops[at];
    match call.version {
        Version::Mount1 | Version::Mount3 => Counterpart::Client,
        Version::V2 => of_v2(op),
        Version::V3 => of_v3(op),
        Version::V4_0 | Version::V4_1 | Version::V4_2 => of_v4(call, at),
    }
}

fn of_v2(op: &Op) -> Counterpart {
    use nfs2::Procedure;
    let Some(procedure) = Procedure::from_number(op.kind.into()) else { return Counterpart::None };
    let (offset, count) = (op.offset, bytes_of(op.length));
    Counterpart::Action(match procedure {
        Procedure::Null => Action::Null,
        Procedure::Getattr => Action::Getattr,
        Procedure::Setattr => set_attributes(op),
        Procedure::Lookup => Action::Lookup,
        Procedure::Readlink => Action::Readlink,
        Procedure::Read => Action::Read { offset, count },
        Procedure::Write => Action::Write { offset, count, stable: StableHow::FileSync },
        Procedure::Create => Action::Create { how: Creation::Unchecked, size: size_set(op) },
        Procedure::Remove => Action::Remove,
        Procedure::Rename => Action::Rename,
        Procedure::Link => Action::Link,
        Procedure::Symlink => Action::Symlink { target_bytes: count },
        Procedure::Mkdir => Action::Mkdir,
        Procedure::Rmdir => Action::Rmdir,
        Procedure::Readdir => Action::Readdir { bytes: count, is_first: offset == 0 },
        Procedure::Statfs => Action::Fsstat,
        Procedure::Root | Procedure::Writecache => return Counterpart::None,
    })
}

fn of_v3(op: &Op) -> Counterpart {
    use nfs3::Procedure;
    let Some(procedure) = Procedure::from_number(op.kind.into()) else { return Counterpart::None };
    let (offset, count) = (op.offset, bytes_of(op.length));
    Counterpart::Action(match procedure {
        Procedure::Null => Action::Null,
        Procedure::Getattr => Action::Getattr,
        Procedure::Setattr => set_attributes(op),
        Procedure::Lookup => Action::Lookup,
        Procedure::Access => Action::Access(count),
        Procedure::Readlink => Action::Readlink,
        Procedure::Read => Action::Read { offset, count },
        Procedure::Write => Action::Write { offset, count, stable: stability(op) },
        Procedure::Create => Action::Create { how: creation(op), size: size_set(op) },
        Procedure::Mkdir => Action::Mkdir,
        Procedure::Symlink => Action::Symlink { target_bytes: count },
        Procedure::Mknod => Action::Mknod,
        Procedure::Remove => Action::Remove,
        Procedure::Rmdir => Action::Rmdir,
        Procedure::Rename => Action::Rename,
        Procedure::Link => Action::Link,
        Procedure::Readdir => Action::Readdir { bytes: count, is_first: offset == 0 },
        Procedure::Readdirplus => Action::ReaddirPlus { bytes: count, is_first: offset == 0 },
        Procedure::Fsstat => Action::Fsstat,
        Procedure::Fsinfo => Action::Fsinfo,
        Procedure::Pathconf => Action::Pathconf,
        Procedure::Commit => Action::Commit { offset, count },
    })
}

fn of_v4(call: &Call, at: usize) -> Counterpart {
    let op = &call.ops[at];
    if op.kind == Op::NULL {
        return Counterpart::Action(Action::Null);
    }
    let Some(code) = OpCode::from_number(op.kind.into()) else { return Counterpart::None };
    let (offset, len, count) = (op.offset, op.length, bytes_of(op.length));
    Counterpart::Action(match code {
        _ if op.is_frame() => return Counterpart::Frame,
        OpCode::Getattr | OpCode::Access => return of_question(call, at),
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
        | OpCode::ReleaseLockowner => return Counterpart::Client,
        OpCode::Close => Action::Close,
        OpCode::Commit => Action::Commit { offset, count },
        OpCode::Create => created_object(call, at),
        OpCode::Link => Action::Link,
        OpCode::Lookup => Action::Lookup,
        OpCode::Open => return of_open(op),
        OpCode::Read => Action::Read { offset, count },
        // A trace doesn't contain the requested attributes, but kernels do request them.
        OpCode::Readdir => Action::ReaddirPlus { bytes: count, is_first: offset == 0 },
        OpCode::Readlink => Action::Readlink,
        OpCode::Remove => Action::Remove,
        OpCode::Rename => Action::Rename,
        OpCode::Setattr => set_attributes(op),
        OpCode::Write => Action::Write { offset, count, stable: stability(op) },
        OpCode::Allocate => Action::Allocate { offset, len },
        OpCode::Deallocate => Action::Deallocate { offset, len },
        OpCode::Seek => Action::Seek { offset },
        OpCode::ReadPlus => Action::ReadPlus { offset, count },
        OpCode::Copy => Action::Copy { from_offset: op.source_offset, to_offset: offset, len },
        OpCode::Getxattr => Action::Getxattr,
        OpCode::Setxattr => Action::Setxattr { value_bytes: count },
        OpCode::Listxattrs => Action::Listxattrs { bytes: count },
        OpCode::Removexattr => Action::Removexattr,
        _ => return Counterpart::None,
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
