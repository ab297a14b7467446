//! What a client session reports: one event for each call that ended.
//!
//! [`Event`] carries the instants of its call and an [`Outcome`] that is small and `Copy`; replies
//! that are rare or large are [`Outcome::Raw`], to be decoded from the event's body.

use crate::error::CallError;
use crate::nfs2;
use crate::nfs3::{Fattr, FileHandle, Procedure, Reply, StableHow, Verifier};
use crate::program::Call;
use crate::xdr::Reader;

/// What was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A procedure of NFS v2.
    Nfs2(nfs2::Procedure),
    /// A procedure of NFS v3.
    Nfs3(Procedure),
    /// A procedure of MOUNT v1, by number.
    Mount1(u32),
    /// A procedure of MOUNT v3, by number.
    Mount3(u32),
    /// A procedure of portmap v2, by number.
    Portmap(u32),
    /// A procedure of rpcbind v3 or v4, by number.
    Rpcbind(u32),
}

impl Kind {
    /// Returns what this call calls.
    pub const fn of(call: &Call<'_>) -> Self {
        match call {
            Call::Nfs2(call) => Self::Nfs2(call.procedure()),
            Call::Nfs3(call) => Self::Nfs3(call.procedure()),
            Call::Mount1(call) => Self::Mount1(call.procedure()),
            Call::Mount3(call) => Self::Mount3(call.procedure()),
            Call::Portmap(call) => Self::Portmap(call.procedure()),
            Call::Rpcbind3(call) | Call::Rpcbind4(call) => Self::Rpcbind(call.procedure()),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nfs2(procedure) => write!(f, "{procedure}"),
            Self::Nfs3(procedure) => write!(f, "{procedure}"),
            Self::Mount1(number) | Self::Mount3(number) => write!(f, "MOUNT procedure {number}"),
            Self::Portmap(number) => write!(f, "portmap procedure {number}"),
            Self::Rpcbind(number) => write!(f, "rpcbind procedure {number}"),
        }
    }
}

/// What a successful call brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Success, with nothing to tell: NULL, SETATTR, REMOVE, RMDIR, RENAME, LINK.
    Done,
    /// Of GETATTR.
    Attributes(Fattr),
    /// Of LOOKUP, CREATE, MKDIR, SYMLINK and MKNOD.
    Object {
        /// The handle, where the server gave it; LOOKUP always does.
        file: Option<FileHandle>,
        /// The attributes, where the server gave them.
        attributes: Option<Fattr>,
    },
    /// Of ACCESS: the bits that are granted.
    Access(u32),
    /// Of READ.
    Read {
        /// Bytes of payload.
        count: u32,
        /// Whether the file ends here.
        eof: bool,
    },
    /// Of WRITE.
    Written {
        /// Bytes written, which may be fewer than were sent.
        count: u32,
        /// How durable they are.
        committed: StableHow,
        /// Changes when the server may have lost uncommitted data.
        verifier: Verifier,
    },
    /// Of COMMIT.
    Committed {
        /// To be compared with that of the WRITEs.
        verifier: Verifier,
    },
    /// Of all others: decode [`Event::body`].
    Raw,
}

/// The end of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The tag that the call was started with.
    pub tag: u32,
    /// What was called.
    pub kind: Kind,
    /// When the call was started.
    pub started_ns: u64,
    /// When the write that sent its first byte began.
    pub sent_ns: u64,
    /// When its last byte was taken.
    pub done_ns: u64,
    /// How it ended.
    pub result: Result<Outcome, CallError>,
    /// The results as received, after the RPC header; of a READ what precedes the payload.
    pub body: &'a [u8],
    /// The payload of a READ, where it is kept.
    pub payload: &'a [u8],
}

/// An event before it is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completed {
    pub(super) slot: u32,
    pub(super) done_ns: u64,
    pub(super) result: Result<Outcome, CallError>,
    pub(super) body_at: usize,
    pub(super) payload_bytes: u32,
}

impl Completed {
    pub(super) fn is_malformed(&self) -> bool {
        matches!(self.result, Err(CallError::Malformed(_)))
    }
}

/// Decodes the results of an accepted call, whose body is all that is left.
pub(super) fn decode_outcome(kind: Kind, body: Reader<'_>) -> Result<Outcome, CallError> {
    match kind {
        Kind::Nfs2(procedure) => raw(nfs2::Reply::decode(procedure, body)?.status()),
        Kind::Nfs3(procedure) => nfs3_outcome(&Reply::decode(procedure, body)?),
        Kind::Mount1(_) | Kind::Mount3(_) | Kind::Portmap(_) | Kind::Rpcbind(_) => Ok(Outcome::Raw),
    }
}

fn nfs3_outcome(reply: &Reply<'_>) -> Result<Outcome, CallError> {
    Ok(match *reply {
        Reply::Null => Outcome::Done,
        Reply::Setattr { result, .. }
        | Reply::Remove { result, .. }
        | Reply::Rmdir { result, .. }
        | Reply::Rename { result, .. }
        | Reply::Link { result, .. } => {
            result?;
            Outcome::Done
        }
        Reply::Getattr { result } => Outcome::Attributes(result?),
        Reply::Lookup { result, .. } => {
            let object = result?;
            Outcome::Object { file: Some(object.file), attributes: object.attributes }
        }
        Reply::Create { result, .. }
        | Reply::Mkdir { result, .. }
        | Reply::Symlink { result, .. }
        | Reply::Mknod { result, .. } => {
            let created = result?;
            Outcome::Object { file: created.file, attributes: created.attributes }
        }
        Reply::Access { result, .. } => Outcome::Access(result?),
        Reply::Read { result, .. } => {
            let read = result?;
            Outcome::Read { count: read.data.len() as u32, eof: read.eof }
        }
        Reply::Write { result, .. } => {
            let crate::nfs3::WriteOk { count, committed, verifier } = result?;
            Outcome::Written { count, committed, verifier }
        }
        Reply::Commit { result, .. } => Outcome::Committed { verifier: result? },
        Reply::Readlink { result, .. } => raw(result)?,
        Reply::Readdir { result, .. } => raw(result)?,
        Reply::Readdirplus { result, .. } => raw(result)?,
        Reply::Fsstat { result, .. } => raw(result)?,
        Reply::Fsinfo { result, .. } => raw(result)?,
        Reply::Pathconf { result, .. } => raw(result)?,
    })
}

fn raw<T>(result: Result<T, crate::nfs3::Status>) -> Result<Outcome, CallError> {
    result?;
    Ok(Outcome::Raw)
}
