//! The results of every NFS v2 procedure.
//!
//! [`Reply`] is a view: link targets, READ payloads and entries stay where they were received. A
//! READ whose payload is sent from elsewhere is encoded by [`super::encode_read_header`].
//! **Source:** RFC 1094 sections 2.2.1 to 2.2.18.

use super::{Entries, Fattr, FileHandle, Procedure, Statfs};
use crate::Status;

/// The object that LOOKUP found, or CREATE or MKDIR made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Handle of the object.
    pub file: FileHandle,
    /// Attributes of the object.
    pub attributes: Fattr,
}

/// The data that READ read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// The file's attributes; its size tells where the file ends.
    pub attributes: Fattr,
    /// Payload of the reply.
    pub data: &'a [u8],
}

/// A page of READDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing<'a> {
    /// Entries of this page.
    pub entries: Entries<'a>,
    /// Whether the directory ends here.
    pub eof: bool,
}

/// A reply with its results. An error is never [`Status::Ok`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The result of NULL, which is empty.
    Null,
    /// The file's attributes.
    Getattr(Result<Fattr, Status>),
    /// The file's attributes after the change.
    Setattr(Result<Fattr, Status>),
    /// The result of ROOT, which is empty.
    Root,
    /// The object that was found.
    Lookup(Result<Object, Status>),
    /// The target of the link.
    Readlink(Result<&'a [u8], Status>),
    /// The data that was read.
    Read(Result<ReadOk<'a>, Status>),
    /// The result of WRITECACHE, which is empty.
    Writecache,
    /// The file's attributes after the write.
    Write(Result<Fattr, Status>),
    /// The object that was made.
    Create(Result<Object, Status>),
    /// The result of REMOVE, which is empty.
    Remove(Result<(), Status>),
    /// The result of RENAME, which is empty.
    Rename(Result<(), Status>),
    /// The result of LINK, which is empty.
    Link(Result<(), Status>),
    /// The result of SYMLINK, which is empty.
    Symlink(Result<(), Status>),
    /// The object that was made.
    Mkdir(Result<Object, Status>),
    /// The result of RMDIR, which is empty.
    Rmdir(Result<(), Status>),
    /// A page of entries.
    Readdir(Result<Listing<'a>, Status>),
    /// The fill state.
    Statfs(Result<Statfs, Status>),
}

impl Reply<'_> {
    /// Returns the procedure that gives these results.
    pub const fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::Null,
            Self::Getattr(_) => Procedure::Getattr,
            Self::Setattr(_) => Procedure::Setattr,
            Self::Root => Procedure::Root,
            Self::Lookup(_) => Procedure::Lookup,
            Self::Readlink(_) => Procedure::Readlink,
            Self::Read(_) => Procedure::Read,
            Self::Writecache => Procedure::Writecache,
            Self::Write(_) => Procedure::Write,
            Self::Create(_) => Procedure::Create,
            Self::Remove(_) => Procedure::Remove,
            Self::Rename(_) => Procedure::Rename,
            Self::Link(_) => Procedure::Link,
            Self::Symlink(_) => Procedure::Symlink,
            Self::Mkdir(_) => Procedure::Mkdir,
            Self::Rmdir(_) => Procedure::Rmdir,
            Self::Readdir(_) => Procedure::Readdir,
            Self::Statfs(_) => Procedure::Statfs,
        }
    }

    /// Returns how the call ended.
    ///
    /// # Errors
    /// The [`Status`] of a call that failed.
    pub fn status(&self) -> Result<(), Status> {
        match self {
            Self::Null | Self::Root | Self::Writecache => Ok(()),
            Self::Getattr(result) | Self::Setattr(result) | Self::Write(result) => result.map(drop),
            Self::Lookup(result) | Self::Create(result) | Self::Mkdir(result) => result.map(drop),
            Self::Readlink(result) => result.map(drop),
            Self::Read(result) => result.map(drop),
            Self::Remove(result)
            | Self::Rename(result)
            | Self::Link(result)
            | Self::Symlink(result)
            | Self::Rmdir(result) => *result,
            Self::Readdir(result) => result.map(drop),
            Self::Statfs(result) => result.map(drop),
        }
    }

    /// Returns a reply that fails with `status`.
    ///
    /// NULL, ROOT and WRITECACHE can't fail; their replies stay what they are.
    pub fn failure(procedure: Procedure, status: Status) -> Self {
        match procedure {
            Procedure::Null => Self::Null,
            Procedure::Getattr => Self::Getattr(Err(status)),
            Procedure::Setattr => Self::Setattr(Err(status)),
            Procedure::Root => Self::Root,
            Procedure::Lookup => Self::Lookup(Err(status)),
            Procedure::Readlink => Self::Readlink(Err(status)),
            Procedure::Read => Self::Read(Err(status)),
            Procedure::Writecache => Self::Writecache,
            Procedure::Write => Self::Write(Err(status)),
            Procedure::Create => Self::Create(Err(status)),
            Procedure::Remove => Self::Remove(Err(status)),
            Procedure::Rename => Self::Rename(Err(status)),
            Procedure::Link => Self::Link(Err(status)),
            Procedure::Symlink => Self::Symlink(Err(status)),
            Procedure::Mkdir => Self::Mkdir(Err(status)),
            Procedure::Rmdir => Self::Rmdir(Err(status)),
            Procedure::Readdir => Self::Readdir(Err(status)),
            Procedure::Statfs => Self::Statfs(Err(status)),
        }
    }
}
