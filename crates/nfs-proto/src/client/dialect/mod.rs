//! The versions of NFS as dialects of one vocabulary.
//!
//! [`Dialect`] turns an [`Operation`] into the arguments of a procedure of its version and the
//! results of that procedure back into an [`Outcome`]. It also finds the payload in a reply to a
//! READ before the reply is whole. Each version is a module of its own with the same functions;
//! state that a version keeps between calls lives in the dialect too.

mod v2;
mod v3;

use super::event::{Kind, Outcome};
use super::listing::Listing;
use super::operation::{Operation, OperationKind};
use super::slot::Slot;
use super::types::StartError;
use crate::error::{CallError, DecodeError};
use crate::status::Status;
use crate::version::Version;
use crate::xdr::{Reader, Writer};

/// What the head of a reply to a READ says.
pub(super) enum Prefix {
    /// A payload of `len` bytes follows, and after it nothing but padding.
    Payload { len: u32, eof: bool },
    /// No payload follows.
    Other,
}

/// What a whole reply says: an outcome or a status, unless it is malformed.
pub(super) type Answer = Result<Result<Outcome, Status>, DecodeError>;

/// How it goes on after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The call has ended.
    Done,
    /// The slot's call was rewritten to a further one, to be sent at once; the same event follows.
    Again,
}

/// The language of one session, with what it keeps between calls.
#[derive(Debug)]
pub(super) struct Dialect {
    version: Version,
}

impl Dialect {
    /// Creates the dialect of a session with so many slots.
    pub(super) fn new(version: Version, _slots: usize) -> Self {
        Self { version }
    }

    pub(super) const fn version(&self) -> Version {
        self.version
    }

    /// Returns the number of the procedure that does this operation, if there is one.
    pub(super) fn procedure(&self, kind: OperationKind) -> Result<u32, StartError> {
        let number = match self.version {
            Version::V2 => v2::procedure(kind).map(crate::nfs2::Procedure::number),
            Version::V3 => v3::procedure(kind).map(crate::nfs3::Procedure::number),
            _ => None,
        };
        number.ok_or(StartError::Unsupported { kind, version: self.version })
    }

    /// Tells whether an operation may be made twice in this version.
    pub(super) fn is_idempotent(&self, operation: &Operation<'_>) -> bool {
        let opens_nothing = !self.version.is_stateful() && operation.kind() == OperationKind::Open;
        operation.is_idempotent() || opens_nothing
    }

    /// Tells whether the server makes a call once, however often it is sent.
    pub(super) fn is_exactly_once(&self, kind: Kind) -> bool {
        self.version.has_sessions() && matches!(kind, Kind::File(_))
    }

    /// Appends the arguments of an operation in a slot, up to an external payload.
    pub(super) fn encode(
        &mut self,
        _slot: u32,
        operation: &Operation<'_>,
        header: &mut Vec<u8>,
    ) -> Result<(), StartError> {
        let writer = &mut Writer::new(header);
        match self.version {
            Version::V2 => v2::encode(operation, writer),
            Version::V3 => v3::encode(operation, writer),
            version => Err(StartError::Unsupported { kind: operation.kind(), version }),
        }
    }

    /// Takes note of the end of a slot's call; `results` is what followed the RPC header, of a READ
    /// without its payload.
    #[expect(clippy::unused_self, reason = "version 4 keeps state")]
    pub(super) fn ended(&mut self, _slot: u32, _call: &mut Slot, _results: &[u8]) -> Next {
        Next::Done
    }

    /// Adapts a slot's call that was answered to being made anew.
    #[expect(clippy::unused_self, reason = "version 4 keeps state")]
    pub(super) fn again(&mut self, _slot: u32, _header: &mut [u8]) {}

    /// Takes note that the reply to a slot's call will never be seen.
    #[expect(clippy::unused_self, reason = "version 4 keeps state")]
    pub(super) fn gave_up(&mut self, _slot: u32) {}

    /// Looks for the payload in the results of a READ, as far as they have arrived.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when more bytes are needed to tell.
    pub(super) fn read_prefix(
        &self,
        slot: &Slot,
        results: Reader<'_>,
    ) -> Result<Prefix, DecodeError> {
        match self.version {
            Version::V2 => v2::read_prefix(slot, results),
            Version::V3 => v3::read_prefix(results),
            _ => Ok(Prefix::Other),
        }
    }

    /// Decodes the results of an accepted call, which are all that is left.
    pub(super) fn outcome(&self, slot: &Slot, results: Reader<'_>) -> Result<Outcome, CallError> {
        let answer = match (slot.kind, self.version) {
            (Kind::File(kind), Version::V2) => v2::answer(slot, kind, results),
            (Kind::File(kind), Version::V3) => v3::answer(kind, results),
            (Kind::Raw { .. } | Kind::File(_), _) => Ok(Ok(Outcome::Raw)),
        };
        answer?.map_err(|status| CallError::Status(status.spoken(self.version)))
    }
}

/// Decodes a page of a directory.
pub(super) fn listing(
    version: Version,
    kind: Kind,
    body: &[u8],
) -> Result<Listing<'_>, DecodeError> {
    match (version, kind) {
        (Version::V2, Kind::File(OperationKind::Readdir)) => v2::listing(body),
        (Version::V3, Kind::File(kind)) => v3::listing(kind, body),
        _ => Err(not_a("listing")),
    }
}

/// Decodes the target of a symbolic link.
pub(super) fn target(version: Version, kind: Kind, body: &[u8]) -> Result<&[u8], DecodeError> {
    match (version, kind) {
        (Version::V2, Kind::File(OperationKind::Readlink)) => v2::target(body),
        (Version::V3, Kind::File(OperationKind::Readlink)) => v3::target(body),
        _ => Err(not_a("link target")),
    }
}

/// The error of decoding what the event does not hold.
fn not_a(what: &'static str) -> DecodeError {
    DecodeError::BadValue { what, value: 0 }
}
