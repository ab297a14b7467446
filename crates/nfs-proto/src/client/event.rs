//! Events of a client session: one per completed call.
//!
//! [`Event`] has the times of its call and an [`Outcome`] that is small and `Copy`, the same for
//! all versions; anything rare or large is decoded from the event on demand.

use super::file::{File, Stateid};
use super::operation::Kind;
use crate::error::DecodeError;
use crate::nfs3::{self, Fsinfo, Fsstat, Pathconf, StableHow, Verifier};
use crate::nfs4;
use crate::status::CallError;
use crate::version::ProtocolVersion;
use crate::xdr::Reader;

/// The attributes of a file. Those that a version or server does not return are 0.
pub type Attributes = nfs3::Fattr;

/// The result of a successful call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Success without a result: NULL, SETATTR, REMOVE, RMDIR, RENAME, LINK, CLOSE, and changes of
    /// extended attributes.
    Done,
    /// The result of GETATTR.
    Attributes(Attributes),
    /// The result of LOOKUP, OPEN, CREATE, MKDIR, SYMLINK or MKNOD; see [`Event::file`].
    Object {
        /// The attributes, if the server returned them.
        attributes: Option<Attributes>,
    },
    /// The result of ACCESS: the granted bits.
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
        /// Bytes written, possibly fewer than sent.
        count: u32,
        /// How durable they are.
        committed: StableHow,
        /// Changes when the server may have lost uncommitted data.
        verifier: Verifier,
    },
    /// The result of COMMIT.
    Committed {
        /// Compare it with that of the WRITEs.
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
        /// Compare it with that of a COMMIT.
        verifier: Verifier,
    },
    /// The first result of an asynchronous COPY, which the server continues.
    Copying {
        /// Identifies the copy in its callback and in queries.
        stateid: Stateid,
        /// The verifier of its data, unless the callback reports another one.
        verifier: Verifier,
    },
    /// The result of READ_PLUS: see [`Event::segments`].
    Segments {
        /// Whether the file ends here.
        eof: bool,
    },
    /// The result of READDIR or READDIRPLUS: see [`Event::listing`].
    Listing,
    /// The result of READLINK: see [`Event::target`].
    Target,
    /// The result of GETXATTR; [`Event::result_of`] has the value.
    XattrValue {
        /// Length of the value in bytes.
        len: u32,
    },
    /// The result of LISTXATTRS; [`Event::result_of`] has the names.
    XattrNames {
        /// Cookie for continuing the listing.
        cookie: u64,
        /// Whether these are the last names.
        eof: bool,
    },
    /// The result of any other call: decode [`Event::body`].
    Raw,
}

/// The completion of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The tag given when the call was started.
    pub tag: u32,
    /// The call.
    pub kind: Kind,
    /// The version used by the session.
    pub version: ProtocolVersion,
    /// When the call was started.
    pub started_ns: u64,
    /// When the write that sent its first byte started.
    pub sent_ns: u64,
    /// When its last byte was received.
    pub done_ns: u64,
    /// How it ended.
    pub result: Result<Outcome, CallError>,
    /// The results as received, after the RPC header; for a READ, the part before the payload.
    pub body: &'a [u8],
    /// The payload of a READ, if it is kept.
    pub payload: &'a [u8],
    /// The file of an [`Outcome::Object`], if the server returned it; LOOKUP and OPEN always do. It
    /// is separate because it is larger than everything else.
    pub file: Option<&'a File>,
    /// The delegation granted by an OPEN, requested or not: it has to be returned some time.
    pub delegation: Option<&'a Stateid>,
}

impl<'a> Event<'a> {
    /// Finds the results of an operation in the compound of this event.
    ///
    /// # Errors
    /// [`CallError`] if the operation failed, was not executed, or is malformed.
    pub fn result_of(&self, code: nfs4::OpCode) -> Result<nfs4::OpOk<'a>, CallError> {
        let missing = DecodeError::BadValue { what: "missing result", value: code.number() };
        let mut results = nfs4::CompoundReply::decode(Reader::new(self.body))?.results();
        while let Some(result) = results.next_result()? {
            if result.code() == code {
                return result
                    .ok()
                    .map_err(|status| CallError::Status(status.in_version(self.version)));
            }
        }
        Err(self.result.err().unwrap_or(missing.into()))
    }
}

/// An event before it is taken by the caller.
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
