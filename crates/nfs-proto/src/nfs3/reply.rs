//! The results of every NFS v3 procedure.
//!
//! [`Reply`] is a view: link targets, READ payloads and entries stay where they were received.
//! Each variant holds the attributes that come with success and failure alike, and a `result`. A
//! READ whose payload is sent from elsewhere is encoded by [`super::encode_read_header`].
//! **Source:** RFC 1813 sections 3.3.0 to 3.3.21.

use super::{
    Entries, EntriesPlus, Fattr, FileHandle, Fsinfo, Fsstat, Pathconf, Procedure, StableHow,
    Status, Verifier, WccData,
};

/// The object that LOOKUP found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Handle of the object.
    pub file: FileHandle,
    /// Its attributes, where the server gave them.
    pub attributes: Option<Fattr>,
}

/// The object that CREATE, MKDIR, SYMLINK or MKNOD made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Created {
    /// Its handle, where the server gave it.
    pub file: Option<FileHandle>,
    /// Its attributes, where the server gave them.
    pub attributes: Option<Fattr>,
}

/// The data that READ read; the count on the wire is the length of `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// Whether the file ends here.
    pub eof: bool,
    /// Payload of the reply.
    pub data: &'a [u8],
}

/// The result of a WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOk {
    /// Number of bytes written.
    pub count: u32,
    /// How durable they are.
    pub committed: StableHow,
    /// Changes when the server may have lost uncommitted data.
    pub verifier: Verifier,
}

/// A page of READDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing<'a> {
    /// Tells whether cookies are still valid.
    pub verifier: Verifier,
    /// Entries of this page.
    pub entries: Entries<'a>,
    /// Whether the directory ends here.
    pub eof: bool,
}

/// A page of READDIRPLUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListingPlus<'a> {
    /// Tells whether cookies are still valid.
    pub verifier: Verifier,
    /// Entries of this page.
    pub entries: EntriesPlus<'a>,
    /// Whether the directory ends here.
    pub eof: bool,
}

/// A reply with its results. The error of a `result` is never [`Status::Ok`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named as the results are in the RFC")]
pub enum Reply<'a> {
    /// The result of NULL, which is empty.
    Null,
    /// The file's attributes.
    Getattr { result: Result<Fattr, Status> },
    /// The change of the file.
    Setattr { wcc: WccData, result: Result<(), Status> },
    /// The object that was found.
    Lookup { dir: Option<Fattr>, result: Result<Object, Status> },
    /// The bits of [`super::access`] that are granted.
    Access { attributes: Option<Fattr>, result: Result<u32, Status> },
    /// The target of the link.
    Readlink { attributes: Option<Fattr>, result: Result<&'a [u8], Status> },
    /// The data that was read.
    Read { attributes: Option<Fattr>, result: Result<ReadOk<'a>, Status> },
    /// The number of bytes that were written.
    Write { wcc: WccData, result: Result<WriteOk, Status> },
    /// The object that was made.
    Create { dir: WccData, result: Result<Created, Status> },
    /// The object that was made.
    Mkdir { dir: WccData, result: Result<Created, Status> },
    /// The object that was made.
    Symlink { dir: WccData, result: Result<Created, Status> },
    /// The object that was made.
    Mknod { dir: WccData, result: Result<Created, Status> },
    /// The change of the directory.
    Remove { dir: WccData, result: Result<(), Status> },
    /// The change of the parent directory.
    Rmdir { dir: WccData, result: Result<(), Status> },
    /// The changes of both directories.
    Rename { from_dir: WccData, to_dir: WccData, result: Result<(), Status> },
    /// The file's attributes and the change of the directory.
    Link { attributes: Option<Fattr>, dir: WccData, result: Result<(), Status> },
    /// A page of entries.
    Readdir { dir: Option<Fattr>, result: Result<Listing<'a>, Status> },
    /// A page of entries with attributes and handles.
    Readdirplus { dir: Option<Fattr>, result: Result<ListingPlus<'a>, Status> },
    /// The fill state.
    Fsstat { attributes: Option<Fattr>, result: Result<Fsstat, Status> },
    /// Limits of the file system.
    Fsinfo { attributes: Option<Fattr>, result: Result<Fsinfo, Status> },
    /// The POSIX limits.
    Pathconf { attributes: Option<Fattr>, result: Result<Pathconf, Status> },
    /// The verifier of the data that is now durable.
    Commit { wcc: WccData, result: Result<Verifier, Status> },
}

impl Reply<'_> {
    /// Returns the procedure that gives these results.
    pub const fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::Null,
            Self::Getattr { .. } => Procedure::Getattr,
            Self::Setattr { .. } => Procedure::Setattr,
            Self::Lookup { .. } => Procedure::Lookup,
            Self::Access { .. } => Procedure::Access,
            Self::Readlink { .. } => Procedure::Readlink,
            Self::Read { .. } => Procedure::Read,
            Self::Write { .. } => Procedure::Write,
            Self::Create { .. } => Procedure::Create,
            Self::Mkdir { .. } => Procedure::Mkdir,
            Self::Symlink { .. } => Procedure::Symlink,
            Self::Mknod { .. } => Procedure::Mknod,
            Self::Remove { .. } => Procedure::Remove,
            Self::Rmdir { .. } => Procedure::Rmdir,
            Self::Rename { .. } => Procedure::Rename,
            Self::Link { .. } => Procedure::Link,
            Self::Readdir { .. } => Procedure::Readdir,
            Self::Readdirplus { .. } => Procedure::Readdirplus,
            Self::Fsstat { .. } => Procedure::Fsstat,
            Self::Fsinfo { .. } => Procedure::Fsinfo,
            Self::Pathconf { .. } => Procedure::Pathconf,
            Self::Commit { .. } => Procedure::Commit,
        }
    }

    /// Returns a reply that fails with `status` and carries no attributes.
    ///
    /// NULL can't fail; its reply is unchanged.
    pub fn failure(procedure: Procedure, status: Status) -> Self {
        let (wcc, dir, attributes) = (WccData::default(), WccData::default(), None);
        match procedure {
            Procedure::Null => Self::Null,
            Procedure::Getattr => Self::Getattr { result: Err(status) },
            Procedure::Setattr => Self::Setattr { wcc, result: Err(status) },
            Procedure::Lookup => Self::Lookup { dir: None, result: Err(status) },
            Procedure::Access => Self::Access { attributes, result: Err(status) },
            Procedure::Readlink => Self::Readlink { attributes, result: Err(status) },
            Procedure::Read => Self::Read { attributes, result: Err(status) },
            Procedure::Write => Self::Write { wcc, result: Err(status) },
            Procedure::Create => Self::Create { dir, result: Err(status) },
            Procedure::Mkdir => Self::Mkdir { dir, result: Err(status) },
            Procedure::Symlink => Self::Symlink { dir, result: Err(status) },
            Procedure::Mknod => Self::Mknod { dir, result: Err(status) },
            Procedure::Remove => Self::Remove { dir, result: Err(status) },
            Procedure::Rmdir => Self::Rmdir { dir, result: Err(status) },
            Procedure::Rename => Self::Rename { from_dir: dir, to_dir: dir, result: Err(status) },
            Procedure::Link => Self::Link { attributes, dir, result: Err(status) },
            Procedure::Readdir => Self::Readdir { dir: None, result: Err(status) },
            Procedure::Readdirplus => Self::Readdirplus { dir: None, result: Err(status) },
            Procedure::Fsstat => Self::Fsstat { attributes, result: Err(status) },
            Procedure::Fsinfo => Self::Fsinfo { attributes, result: Err(status) },
            Procedure::Pathconf => Self::Pathconf { attributes, result: Err(status) },
            Procedure::Commit => Self::Commit { wcc, result: Err(status) },
        }
    }
}
