//! The NFS versions as dialects of one vocabulary.
//!
//! [`Dialect`] encodes an [`Operation`] as the arguments of a procedure of its version and decodes
//! that procedure's results into an [`Outcome`]. It also finds the payload in a reply to a READ
//! before the reply is complete. Each version is a module with the same functions; state that a
//! version keeps between calls is part of the dialect, too.

mod v2;
mod v3;
mod v4;

use super::event::Outcome;
use super::file::File;
use super::listing::Listing;
use super::operation::{Kind, Operation, OperationKind};
use super::slot::Slot;
use super::types::{Binding, SessionSlot, SlotShare, StartError, WantedDelegation};
use crate::error::DecodeError;
use crate::nfs4::{ClientId, CompoundReply, List, Op, Segment, SessionId, Stateid};
use crate::status::{CallError, Status};
use crate::version::ProtocolVersion;
use crate::xdr::{Reader, Writer};

/// The head of a reply to a READ.
pub(super) enum Prefix {
    /// A payload of `len` bytes follows, and then only padding.
    Payload { len: u32, eof: bool },
    /// No payload follows.
    Other,
}

/// The decoded reply: an outcome or a status, unless it is malformed.
pub(super) type DecodedReply = Result<Result<Outcome, Status>, DecodeError>;

/// Whether an abandoned call may have reached the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// No byte of it was sent.
    Unsent,
    /// It was sent, so the server may have executed it.
    Sent,
}

/// How to proceed after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterReply {
    /// The call is complete.
    Done,
    /// The slot's call was rewritten to a further one, to be sent at once; it will end with the
    /// same event.
    Again,
}

/// The dialect of one session, with its state between calls.
#[derive(Debug)]
pub(super) struct Dialect {
    version: ProtocolVersion,
    v4: v4::State,
}

impl ProtocolVersion {
    /// Returns true if it has an operation, directly or through equivalent ones.
    pub fn has(self, kind: OperationKind) -> bool {
        procedure_number(self, kind).is_some()
    }
}

/// Returns the number of the procedure for an operation, if the version has one.
fn procedure_number(version: ProtocolVersion, kind: OperationKind) -> Option<u32> {
    match version {
        ProtocolVersion::V2 => v2::procedure_of(kind).map(crate::nfs2::Procedure::number),
        ProtocolVersion::V3 => v3::procedure_of(kind).map(crate::nfs3::Procedure::number),
        version if v4::has_operation(version, kind) => Some(u32::from(kind != OperationKind::Null)),
        _ => None,
    }
}

impl Dialect {
    /// Creates the dialect of a session with `slots` slots.
    pub(super) fn new(version: ProtocolVersion, slots: usize) -> Self {
        Self { version, v4: v4::State::new(version, slots) }
    }

    pub(super) const fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Returns the number of the procedure for this operation, if there is one.
    pub(super) fn procedure_of(&self, kind: OperationKind) -> Result<u32, StartError> {
        let number = procedure_number(self.version, kind);
        number.ok_or(StartError::Unsupported { kind, version: self.version })
    }

    /// Returns true if an operation may be executed twice in this version.
    pub(super) fn is_idempotent(&self, operation: &Operation<'_>) -> bool {
        // Before v4 an OPEN is a LOOKUP, which may be executed twice.
        let opens_nothing = !self.version.is_stateful() && operation.kind() == OperationKind::Open;
        operation.is_idempotent() || opens_nothing
    }

    /// Returns true if the server executes a call once, however often it is sent.
    pub(super) fn is_exactly_once(&self, slot: u32) -> bool {
        self.version.has_sessions() && self.v4.is_exactly_once(slot)
    }

    /// Joins a v4 client, and a session of it.
    pub(super) fn bind(&mut self, binding: &Binding) {
        self.v4.bind(binding);
    }

    /// Takes slots of a session that is shared with other connections.
    pub(super) fn set_share(&mut self, share: &SlotShare<'_>) {
        self.v4.set_share(share);
    }

    /// Returns a slot of the session, if its next sequence number is known.
    pub(super) fn settled_slot(&self, slot: u32) -> Option<SessionSlot> {
        self.v4.settled_slot(slot)
    }

    /// Takes over the binding of another connection with the same version.
    pub(super) fn adopt_binding(&mut self, fresh: &Self) {
        self.v4.adopt_binding(&fresh.v4);
    }

    /// Adapts a slot's call that was encoded for an earlier binding to the current one.
    pub(super) fn rebind_call(&mut self, slot: u32, header: &mut Vec<u8>) {
        if self.version.is_stateful() {
            self.v4.rebind_call(slot, header);
        }
    }

    /// Returns the client of a v4 connection.
    pub(super) const fn client(&self) -> ClientId {
        self.v4.client()
    }

    /// Returns the session used for callbacks on this connection, if any.
    pub(super) fn callback_session(&self) -> Option<SessionId> {
        self.version.has_sessions().then(|| self.v4.session())
    }

    /// Makes opens request delegations, or decline them.
    pub(super) const fn want_delegations(&mut self, wanted: WantedDelegation) {
        self.v4.want_delegations(wanted);
    }

    /// Returns the delegation that the last OPEN brought.
    pub(super) const fn delegation(&self) -> Option<&Stateid> {
        self.v4.delegation()
    }

    /// Returns the flags of the last successful SEQUENCE.
    pub(super) const fn status_flags(&self) -> u32 {
        self.v4.status_flags()
    }

    /// Appends a v4 compound of these operations, after a SEQUENCE if one is needed.
    pub(super) fn encode_ops(&mut self, slot: u32, ops: &[Op<'_>], header: &mut Vec<u8>) {
        self.v4.encode_ops(slot, ops, header);
    }

    /// Appends the arguments of an operation in a slot, up to an external payload.
    pub(super) fn encode(
        &mut self,
        slot: u32,
        operation: &Operation<'_>,
        header: &mut Vec<u8>,
    ) -> Result<(), StartError> {
        match self.version {
            ProtocolVersion::V2 => v2::encode(operation, &mut Writer::new(header)),
            ProtocolVersion::V3 => v3::encode(operation, &mut Writer::new(header)),
            _ => self.v4.encode(slot, operation, header),
        }
    }

    /// Processes the reply to a slot's call; `results` is everything after the RPC header, for a
    /// READ without its payload.
    pub(super) fn note_reply(&mut self, slot: u32, call: &mut Slot, results: &[u8]) -> AfterReply {
        if self.version.is_stateful() {
            self.v4.note_reply(slot, call, results)
        } else {
            AfterReply::Done
        }
    }

    /// Adapts a slot's call that was answered for sending it again.
    pub(super) fn prepare_resend(&mut self, slot: u32, header: &mut Vec<u8>) {
        if self.version.is_stateful() {
            self.v4.prepare_resend(slot, header);
        }
    }

    /// Records that the reply to a slot's call will never be seen, if it was sent at all.
    pub(super) fn abandon_call(&mut self, slot: u32, delivery: Delivery) {
        if self.version.is_stateful() {
            self.v4.abandon_call(slot, delivery);
        }
    }

    /// Looks for the payload in the results of a READ, as far as they have arrived.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if more bytes are needed to decide.
    pub(super) fn read_prefix(
        &self,
        slot: &Slot,
        results: Reader<'_>,
    ) -> Result<Prefix, DecodeError> {
        match self.version {
            ProtocolVersion::V2 => v2::read_prefix(slot, results),
            ProtocolVersion::V3 => v3::read_prefix(results),
            version => v4::read_prefix(version, results),
        }
    }

    /// Decodes the results of an accepted call, which must be all that is left; the file of an
    /// [`Outcome::Object`] goes into `object`.
    pub(super) fn decode_outcome(
        &self,
        index: u32,
        slot: &Slot,
        results: Reader<'_>,
        object: &mut Option<File>,
    ) -> Result<Outcome, CallError> {
        let answer = match (slot.kind, self.version) {
            (Kind::File(kind), ProtocolVersion::V2) => {
                v2::decode_answer(slot, kind, results, object)
            }
            (Kind::File(kind), ProtocolVersion::V3) => v3::decode_answer(kind, results, object),
            (Kind::File(kind), _) => {
                v4::decode_outcome(kind, self.v4.owner_of(index), results, object)
            }
            (Kind::COMPOUND, _) => compound_outcome(results),
            (Kind::Raw { .. }, _) => Ok(Ok(Outcome::Raw)),
        };
        answer?.map_err(|status| CallError::Status(status.in_version(self.version)))
    }
}

/// Returns how a raw compound ended; its results are left to the caller.
fn compound_outcome(results: Reader<'_>) -> DecodedReply {
    Ok(match CompoundReply::decode(results)?.status {
        Status::Ok => Ok(Outcome::Raw),
        status => Err(status),
    })
}

/// Decodes a page of a directory.
pub(super) fn decode_listing(
    version: ProtocolVersion,
    kind: Kind,
    body: &[u8],
) -> Result<Listing<'_>, DecodeError> {
    match (version, kind) {
        (ProtocolVersion::V2, Kind::File(OperationKind::Readdir)) => v2::decode_listing(body),
        (ProtocolVersion::V3, Kind::File(kind)) => v3::decode_listing(kind, body),
        (_, Kind::File(OperationKind::Readdir | OperationKind::ReaddirPlus)) => {
            v4::decode_listing(body)
        }
        _ => Err(not_a("listing")),
    }
}

/// Decodes the target of a symbolic link.
pub(super) fn decode_target(
    version: ProtocolVersion,
    kind: Kind,
    body: &[u8],
) -> Result<&[u8], DecodeError> {
    match (version, kind) {
        (ProtocolVersion::V2, Kind::File(OperationKind::Readlink)) => v2::decode_target(body),
        (ProtocolVersion::V3, Kind::File(OperationKind::Readlink)) => v3::decode_target(body),
        (_, Kind::File(OperationKind::Readlink)) => v4::decode_target(body),
        _ => Err(not_a("link target")),
    }
}

/// Decodes the segments of a READ_PLUS.
pub(super) fn decode_segments(
    kind: Kind,
    body: &[u8],
) -> Result<List<'_, Segment<'_>>, DecodeError> {
    match kind {
        Kind::File(OperationKind::ReadPlus) => v4::decode_segments(body),
        _ => Err(not_a("data and holes")),
    }
}

/// The error for decoding something that the event does not contain.
fn not_a(what: &'static str) -> DecodeError {
    DecodeError::BadValue { what, value: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_operations_of_each_version() {
        use OperationKind::{Access, Close, Getattr, Open, ReaddirPlus, Seek};
        for (version, has, lacks) in [
            (ProtocolVersion::V2, &[Getattr, Open][..], &[Access, ReaddirPlus, Close, Seek][..]),
            (ProtocolVersion::V3, &[Getattr, Open, Access, ReaddirPlus], &[Close, Seek]),
            (ProtocolVersion::V4_1, &[Getattr, Open, Access, ReaddirPlus, Close], &[Seek]),
            (ProtocolVersion::V4_2, &[Getattr, Open, Access, ReaddirPlus, Close, Seek], &[]),
        ] {
            assert!(has.iter().all(|kind| version.has(*kind)), "{version:?}");
            assert!(!lacks.iter().any(|kind| version.has(*kind)), "{version:?}");
        }
    }
}
