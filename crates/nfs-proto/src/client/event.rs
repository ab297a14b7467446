//! Events of a client session: one for each call that ended.
//!
//! [`Event`] carries the instants of its call and an [`Outcome`] that is small and `Copy`, the same
//! for all versions; what is rare or large is decoded from the event on demand.

use super::dialect;
use super::file::File;
use super::listing::Listing;
use super::operation::OperationKind;
use super::piece::Piece;
use crate::error::{CallError, DecodeError};
use crate::nfs3::{self, Fsinfo, Fsstat, Pathconf, StableHow, Verifier};
use crate::program::Call;
use crate::rpc::ProcedureId;
use crate::version::ProtocolVersion;
use crate::xdr::Reader;
use crate::{mount3, nfs4, portmap};

/// The attributes of a file. What a version or a server does not tell is 0.
pub type Attributes = nfs3::Fattr;

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file operation.
    File(OperationKind),
    /// A call of any program, made as it is.
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
    /// A compound of version 4 that is made as it is.
    pub const COMPOUND: Self =
        Self::Raw { program: nfs4::PROGRAM, version: nfs4::VERSION, procedure: 1 };

    /// Returns what this call calls.
    pub const fn of(call: &Call<'_>) -> Self {
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

/// The result of a successful call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Success, with nothing to tell: NULL, SETATTR, REMOVE, RMDIR, RENAME, LINK, CLOSE.
    Done,
    /// The result of GETATTR.
    Attributes(Attributes),
    /// The result of LOOKUP, OPEN, CREATE, MKDIR, SYMLINK or MKNOD; see [`Event::file`].
    Object {
        /// The attributes, where the server gave them.
        attributes: Option<Attributes>,
    },
    /// The result of ACCESS: the bits that are granted.
    Access(u32),
    /// The result of READ.
    Read {
        /// Bytes of payload.
        count: u32,
        /// Whether the file ends here.
        eof: bool,
    },
    /// The result of WRITE.
    Written {
        /// Bytes written, which may be fewer than were sent.
        count: u32,
        /// How durable they are.
        committed: StableHow,
        /// Changes when the server may have lost uncommitted data.
        verifier: Verifier,
    },
    /// The result of COMMIT.
    Committed {
        /// To be compared with that of the WRITEs.
        verifier: Verifier,
    },
    /// The result of FSSTAT.
    Fsstat(Fsstat),
    /// The result of FSINFO.
    Fsinfo(Fsinfo),
    /// The result of PATHCONF.
    Pathconf(Pathconf),
    /// The result of SEEK.
    Found {
        /// Offset in bytes.
        offset: u64,
        /// Whether the file ends there.
        eof: bool,
    },
    /// The result of COPY.
    Copied {
        /// Number of bytes copied.
        count: u64,
        /// How durable they are.
        committed: StableHow,
        /// To be compared with that of a COMMIT.
        verifier: Verifier,
    },
    /// The result of READ_PLUS: see [`Event::pieces`].
    Pieces {
        /// Whether the file ends here.
        eof: bool,
    },
    /// The result of READDIR or READDIRPLUS: see [`Event::listing`].
    Listing,
    /// The result of READLINK: see [`Event::target`].
    Target,
    /// The result of any other call: decode [`Event::body`].
    Raw,
}

/// The end of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The tag that the call was started with.
    pub tag: u32,
    /// The call that was made.
    pub kind: Kind,
    /// The version that the session speaks.
    pub version: ProtocolVersion,
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
    /// The file of an [`Outcome::Object`], where the server named it; LOOKUP and OPEN always do.
    /// It stands apart since it is larger than all the rest.
    pub file: Option<&'a File>,
}

impl<'a> Event<'a> {
    /// Finds the results of an operation in the compound that this event ended.
    ///
    /// # Errors
    /// [`CallError`] when the operation failed, did not come to its turn, or is malformed.
    pub fn result_of(&self, code: nfs4::OpCode) -> Result<nfs4::OpOk<'a>, CallError> {
        let missing = DecodeError::BadValue { what: "missing result", value: code.number() };
        let mut results = nfs4::CompoundReply::decode(Reader::new(self.body))?.results();
        while let Some(result) = results.next_result()? {
            if result.code() == code {
                return result
                    .ok()
                    .map_err(|status| CallError::Status(status.spoken(self.version)));
            }
        }
        Err(self.result.err().unwrap_or(missing.into()))
    }

    /// Decodes the page that an [`Outcome::Listing`] brought.
    ///
    /// # Errors
    /// [`DecodeError`] when this is the event of another operation.
    pub fn listing(&self) -> Result<Listing<'a>, DecodeError> {
        dialect::listing(self.version, self.kind, self.body)
    }

    /// Decodes the target of the link that an [`Outcome::Target`] brought.
    ///
    /// # Errors
    /// [`DecodeError`] when this is the event of another operation.
    pub fn target(&self) -> Result<&'a [u8], DecodeError> {
        dialect::target(self.version, self.kind, self.body)
    }

    /// Decodes the data and the holes that an [`Outcome::Pieces`] brought, in their order.
    ///
    /// # Errors
    /// [`DecodeError`] when this is the event of another operation.
    pub fn pieces(&self) -> Result<impl Iterator<Item = Piece<'a>> + use<'a>, DecodeError> {
        dialect::segments(self.kind, self.body).map(|all| all.iter().map(Piece::from))
    }
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
