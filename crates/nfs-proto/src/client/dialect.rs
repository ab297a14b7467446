//! The versions of NFS as dialects of one vocabulary.
//!
//! [`Dialect`] turns an [`Operation`] into the arguments of a procedure of its version and the
//! results of that procedure back into an [`Outcome`]. It also finds the payload in a reply to a
//! READ before the reply is whole. Each version is a module of its own with the same functions;
//! state that a version keeps between calls lives in the dialect too.

mod v2;
mod v3;
mod v4;

use super::event::Outcome;
use super::file::File;
use super::listing::Listing;
use super::operation::{Kind, Operation, OperationKind};
use super::slot::Slot;
use super::types::{Binding, SessionSlot, SlotShare, StartError, Wanted};
use crate::error::DecodeError;
use crate::nfs4::{ClientId, CompoundReply, List, Op, Segment, SessionId, Stateid};
use crate::status::{CallError, Status};
use crate::version::ProtocolVersion;
use crate::xdr::{Reader, Writer};

/// The head of a reply to a READ.
pub(super) enum Prefix {
    /// A payload of `len` bytes follows, and after it nothing but padding.
    Payload { len: u32, eof: bool },
    /// No payload follows.
    Other,
}

/// The content of a whole reply: an outcome or a status, unless it is malformed.
pub(super) type Answer = Result<Result<Outcome, Status>, DecodeError>;

/// Whether a call that is given up may have reached the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// No byte of it was sent.
    Unsent,
    /// It was sent, so that the server may have carried it out.
    Sent,
}

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
    version: ProtocolVersion,
    v4: v4::State,
}

impl ProtocolVersion {
    /// Tells whether it has an operation, by itself or by others that do the same.
    pub fn has(self, kind: OperationKind) -> bool {
        procedure_number(self, kind).is_some()
    }
}

/// Returns the number of the procedure that does an operation, if a version has one.
fn procedure_number(version: ProtocolVersion, kind: OperationKind) -> Option<u32> {
    match version {
        ProtocolVersion::V2 => v2::procedure_of(kind).map(crate::nfs2::Procedure::number),
        ProtocolVersion::V3 => v3::procedure_of(kind).map(crate::nfs3::Procedure::number),
        version if v4::has_operation(version, kind) => Some(u32::from(kind != OperationKind::Null)),
        _ => None,
    }
}

impl Dialect {
    /// Creates the dialect of a session with so many slots.
    pub(super) fn new(version: ProtocolVersion, slots: usize) -> Self {
        Self { version, v4: v4::State::new(version, slots) }
    }

    pub(super) const fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Returns the number of the procedure that does this operation, if there is one.
    pub(super) fn procedure_of(&self, kind: OperationKind) -> Result<u32, StartError> {
        let number = procedure_number(self.version, kind);
        number.ok_or(StartError::Unsupported { kind, version: self.version })
    }

    /// Tells whether an operation may be made twice in this version.
    pub(super) fn is_idempotent(&self, operation: &Operation<'_>) -> bool {
        // Before v4 an OPEN is a LOOKUP, which may be made twice.
        let opens_nothing = !self.version.is_stateful() && operation.kind() == OperationKind::Open;
        operation.is_idempotent() || opens_nothing
    }

    /// Tells whether the server makes a call once, however often it is sent.
    pub(super) fn is_exactly_once(&self, slot: u32) -> bool {
        self.version.has_sessions() && self.v4.is_exactly_once(slot)
    }

    /// Joins a client of version 4, and a session of it.
    pub(super) fn bind(&mut self, binding: &Binding) {
        self.v4.bind(binding);
    }

    /// Takes slots of a session that has other connections, too.
    pub(super) fn set_share(&mut self, share: &SlotShare<'_>) {
        self.v4.set_share(share);
    }

    /// Returns a slot of the session, if the number of its next call is known.
    pub(super) fn settled_slot(&self, slot: u32) -> Option<SessionSlot> {
        self.v4.settled_slot(slot)
    }

    /// Takes over the binding of another connection of the same version.
    pub(super) fn adopt_binding(&mut self, fresh: &Self) {
        self.v4.adopt_binding(&fresh.v4);
    }

    /// Adapts a slot's call that was made for an earlier binding to the present one.
    pub(super) fn rebind_call(&mut self, slot: u32, header: &mut Vec<u8>) {
        if self.version.is_stateful() {
            self.v4.rebind_call(slot, header);
        }
    }

    /// Returns the client that a connection of version 4 belongs to.
    pub(super) const fn client(&self) -> ClientId {
        self.v4.client()
    }

    /// Returns the session that a server calls back in, where it does so on the same connection.
    pub(super) fn callback_session(&self) -> Option<SessionId> {
        self.version.has_sessions().then(|| self.v4.session())
    }

    /// Has opens ask for delegations, or say that they want none.
    pub(super) const fn want_delegations(&mut self, wanted: Wanted) {
        self.v4.want_delegations(wanted);
    }

    /// Returns the delegation that the last OPEN brought.
    pub(super) const fn delegation(&self) -> Option<&Stateid> {
        self.v4.delegation()
    }

    /// Returns the flags of the last SEQUENCE that was answered.
    pub(super) const fn status_flags(&self) -> u32 {
        self.v4.status_flags()
    }

    /// Appends a compound of these operations of version 4, after a SEQUENCE where one belongs.
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

    /// Takes note of the end of a slot's call; `results` is what followed the RPC header, of a READ
    /// without its payload.
    pub(super) fn note_reply(&mut self, slot: u32, call: &mut Slot, results: &[u8]) -> Next {
        if self.version.is_stateful() {
            self.v4.note_reply(slot, call, results)
        } else {
            Next::Done
        }
    }

    /// Adapts a slot's call that was answered to being sent again.
    pub(super) fn prepare_resend(&mut self, slot: u32, header: &mut Vec<u8>) {
        if self.version.is_stateful() {
            self.v4.prepare_resend(slot, header);
        }
    }

    /// Takes note that the reply to a slot's call will never be seen, if it was sent at all.
    pub(super) fn abandon_call(&mut self, slot: u32, delivery: Delivery) {
        if self.version.is_stateful() {
            self.v4.abandon_call(slot, delivery);
        }
    }

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
            ProtocolVersion::V2 => v2::read_prefix(slot, results),
            ProtocolVersion::V3 => v3::read_prefix(results),
            version => v4::read_prefix(version, results),
        }
    }

    /// Decodes the results of an accepted call, which are all that is left; the file of an
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
        answer?.map_err(|status| CallError::Status(status.spoken(self.version)))
    }
}

/// Tells how a compound ended that was made as it is; its results are left to the caller.
fn compound_outcome(results: Reader<'_>) -> Answer {
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

/// Decodes what READ_PLUS found.
pub(super) fn decode_segments(
    kind: Kind,
    body: &[u8],
) -> Result<List<'_, Segment<'_>>, DecodeError> {
    match kind {
        Kind::File(OperationKind::ReadPlus) => v4::decode_segments(body),
        _ => Err(not_a("data and holes")),
    }
}

/// The error of decoding what the event does not hold.
fn not_a(what: &'static str) -> DecodeError {
    DecodeError::BadValue { what, value: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_own_operations_and_those_that_others_stand_for() {
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
