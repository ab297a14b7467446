//! Dialect of version 4: each operation is one compound.
//!
//! [`State`] is kept between the calls of a connection: the client id, in v4.1 and later the
//! session with a sequence number per slot, and the owners of opens, which in v4.0 have sequence
//! numbers of their own. A slot of this connection maps to one of the session, whose other slots
//! belong to other connections. SEQUENCE is always the first operation, at a fixed offset, so that
//! only a few words of a call that is made again have to be replaced. **Source:** RFC 7530 section
//! 9.1, RFC 8881 sections 2.10.6 and 18.46.

mod attributes;
mod decode;
mod encode;
mod owners;

pub(super) use decode::{
    decode_listing, decode_outcome, decode_segments, decode_target, read_prefix,
};
pub(super) use encode::has_operation;

use owners::{Owners, advances_seqid};

use super::super::operation::{Operation, OperationKind};
use super::super::resume::{is_unbound, refuses_opener};
use super::super::slot::Slot;
use super::super::types::{Binding, SessionSlot, SlotShare, StartError, WantedDelegation};
use super::{AfterReply, Delivery};
use crate::nfs4::{
    ClientId, CompoundBuilder, CompoundReply, Delegation, Op, OpCode, OpOk, OpResult, SessionId,
    Stateid, open_result,
};
use crate::status::Status;
use crate::version::ProtocolVersion;
use crate::xdr::{Reader, Writer};

// Offsets of the fields of SEQUENCE in a compound with an empty tag: the tag, minor version, count
// and operation number precede them.
const SESSION_AT: usize = 16;
const SEQUENCE_AT: usize = SESSION_AT + 16;
const SLOT_AT: usize = SEQUENCE_AT + 4;

/// Space for the attributes of a call, which are encoded before their length is known.
const SCRATCH_BYTES: usize = 512;

// Offsets of client and owner in OPEN, relative to its sequence number: after that come access and
// deny, then the client, the length of the name, and the name.
const CLIENT_AFTER: usize = 12;
const NAME_AFTER: usize = CLIENT_AFTER + 8 + 4;

/// The part of a slot that changes from call to call.
#[derive(Debug, Clone, Copy, Default)]
struct SlotState {
    /// Number of the slot in the session.
    number: u32,
    /// The server may or may not have seen the last call, so `sequence` is a guess.
    is_unsettled: bool,
    /// The sequence number of the next call, or of the one in flight.
    sequence: u32,
    /// Offset of the compound in the call, if one with a SEQUENCE is in flight.
    sequenced_at: Option<usize>,
    /// The owner for which an open is made or closed.
    owner: Option<u32>,
    /// The call makes an open, so the owner is free if the open fails.
    opens: bool,
    /// Offset of the owner's sequence number in the call, v4.0.
    seqid_at: usize,
    /// Offset of the arguments in the call.
    arguments_at: usize,
}

/// The v4 state between the calls of a connection.
#[derive(Debug)]
pub(in super::super) struct State {
    version: ProtocolVersion,
    client: ClientId,
    session: SessionId,
    highest_slot: u32,
    slots: Vec<SlotState>,
    owners: Owners,
    /// Flags of the last successful SEQUENCE.
    status_flags: u32,
    wanted: WantedDelegation,
    /// The delegation that the last OPEN brought.
    delegation: Option<Stateid>,
    scratch: Vec<u8>,
}

impl State {
    /// Creates the state of a connection that does not belong to a client yet.
    pub(super) fn new(version: ProtocolVersion, slots: usize) -> Self {
        let slots = if version.is_stateful() { slots } else { 0 };
        Self {
            version,
            client: ClientId::default(),
            session: SessionId::default(),
            highest_slot: 0,
            slots: vec![SlotState::default(); slots],
            owners: Owners::new(slots),
            status_flags: 0,
            wanted: WantedDelegation::Nothing,
            delegation: None,
            scratch: Vec::with_capacity(SCRATCH_BYTES),
        }
    }

    /// Joins a client, and in v4.1 and later its session, whose slots start over.
    pub(super) fn bind(&mut self, binding: &Binding) {
        self.client = binding.client;
        self.session = binding.session;
        // Each SEQUENCE contains the highest slot in use, so that the server may drop the replies
        // of those above. It is constant here: slots are granted once.
        self.highest_slot = binding.slots.saturating_sub(1);
        self.reset_slots();
        self.owners.reset(binding.owner_base);
    }

    /// Maps each slot of the connection to the session's slot with the same number.
    fn reset_slots(&mut self) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            slot.number = number as u32;
            slot.sequence = 1;
            slot.is_unsettled = false;
        }
    }

    /// Takes slots of a session that is shared with other connections.
    pub(super) fn set_share(&mut self, share: &SlotShare<'_>) {
        self.highest_slot = share.highest_slot;
        for (slot, given) in self.slots.iter_mut().zip(share.slots) {
            slot.number = given.number;
            slot.sequence = given.sequence;
        }
    }

    /// Returns a slot of the session, if its next sequence number is known.
    pub(super) fn settled_slot(&self, slot: u32) -> Option<SessionSlot> {
        let SlotState { number, sequence, is_unsettled, .. } = *self.slots.get(slot as usize)?;
        if is_unsettled { None } else { Some(SessionSlot { number, sequence }) }
    }

    /// Takes over the binding of another connection, including its sequence numbers. Calls of this
    /// connection remain unchanged.
    pub(super) fn adopt_binding(&mut self, fresh: &Self) {
        self.client = fresh.client;
        self.session = fresh.session;
        self.highest_slot = fresh.highest_slot;
        self.reset_slots();
        for (slot, fresh) in self.slots.iter_mut().zip(&fresh.slots) {
            slot.number = fresh.number;
            slot.sequence = fresh.sequence;
        }
        self.owners.reset(fresh.owners.base());
    }

    /// Adapts a slot's call that was encoded for an earlier binding to the current one: an open
    /// gets an owner of the current client.
    pub(super) fn rebind_call(&mut self, slot: u32, header: &mut Vec<u8>) {
        let state = &mut self.slots[slot as usize];
        if state.opens && state.owner.is_some() {
            let owner = self.owners.take_idle();
            state.owner = Some(owner);
            let client = self.client.0.to_be_bytes();
            let name = self.owners.name_of(owner);
            let mut set = |at: usize, bytes: &[u8]| {
                // An OPEN_CONFIRM has neither; it will be refused.
                if let Some(place) = header.get_mut(at..at + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            };
            set(state.seqid_at + CLIENT_AFTER, &client);
            set(state.seqid_at + NAME_AFTER, &name);
        }
        self.prepare_resend(slot, header);
    }

    pub(super) const fn client(&self) -> ClientId {
        self.client
    }

    pub(super) const fn session(&self) -> SessionId {
        self.session
    }

    pub(super) const fn status_flags(&self) -> u32 {
        self.status_flags
    }

    pub(super) const fn want_delegations(&mut self, wanted: WantedDelegation) {
        self.wanted = wanted;
    }

    pub(super) const fn delegation(&self) -> Option<&Stateid> {
        self.delegation.as_ref()
    }

    /// Returns true if the server executes the call of this slot exactly once.
    pub(super) fn is_exactly_once(&self, slot: u32) -> bool {
        self.slots[slot as usize].sequenced_at.is_some()
    }

    /// Appends the compound for an operation, up to an external payload.
    pub(super) fn encode(
        &mut self,
        slot: u32,
        operation: &Operation<'_>,
        header: &mut Vec<u8>,
    ) -> Result<(), StartError> {
        self.release_last_call(slot);
        if operation.kind() == OperationKind::Null {
            return Ok(());
        }
        encode::check_supported(self.version, operation)?;
        let opens = matches!(
            operation,
            Operation::Open { .. } | Operation::OpenHandle { .. } | Operation::Create { .. }
        );
        // An OPEN uses an owner without an open, so that none waits for another (v4.0 handles an
        // owner's calls one by one) and no CLOSE ends more than its own open. A CLOSE uses the
        // owner of its open.
        let owner = match operation {
            Operation::Close { file } => Some(file.owner),
            _ => opens.then(|| self.owners.take_idle()),
        };
        let state = &mut self.slots[slot as usize];
        state.owner = owner;
        state.opens = opens;
        // The server caches the replies of calls that must not be executed twice. Caching the reply
        // of a READ would waste memory for its payload. RFC 8881 section 2.10.6.1.3.
        let mut compound = self.begin_compound(slot, header, !operation.is_idempotent());
        let seqid_at = encode::encode_operation(&mut compound, operation);
        compound.builder.finish();
        self.slots[slot as usize].seqid_at = seqid_at.unwrap_or_default();
        Ok(())
    }

    /// Appends a compound of these operations, after a SEQUENCE if one is needed.
    pub(super) fn encode_ops(&mut self, slot: u32, ops: &[Op<'_>], header: &mut Vec<u8>) {
        self.release_last_call(slot);
        let alone = ops.first().is_some_and(|op| {
            matches!(
                op.code(),
                OpCode::ExchangeId
                    | OpCode::CreateSession
                    | OpCode::DestroySession
                    | OpCode::BindConnToSession
                    | OpCode::DestroyClientid
            )
        });
        if alone {
            let minor = self.version.minor().unwrap_or_default();
            let mut builder = CompoundBuilder::new(header, b"", minor);
            for op in ops {
                builder.push(op);
            }
            builder.finish();
        } else {
            let mut compound = self.begin_compound(slot, header, true);
            for op in ops {
                compound.builder.push(op);
            }
            compound.builder.finish();
        }
    }

    /// Starts a compound, with SEQUENCE first if there are sessions.
    fn begin_compound<'c>(
        &'c mut self,
        slot: u32,
        header: &'c mut Vec<u8>,
        cache_this: bool,
    ) -> encode::Compound<'c> {
        let state = &mut self.slots[slot as usize];
        state.arguments_at = header.len();
        let minor = self.version.minor().unwrap_or_default();
        let mut builder = CompoundBuilder::new(header, b"", minor);
        if self.version.has_sessions() {
            state.sequenced_at = Some(state.arguments_at);
            builder.push(&Op::Sequence {
                session: self.session,
                sequence: state.sequence,
                slot: state.number,
                highest_slot: self.highest_slot,
                cache_this,
            });
        }
        let owner = state.owner.unwrap_or_default();
        let seqid = if self.version.has_sessions() { 0 } else { self.owners.seqid_of(owner) };
        encode::Compound {
            builder,
            version: self.version,
            wanted: self.wanted,
            client: self.client,
            owner: self.owners.name_of(owner),
            seqid,
            scratch: &mut self.scratch,
        }
    }

    /// Forgets the last call of a slot; its owner can be used again.
    fn release_last_call(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        state.sequenced_at = None;
        let owner = state.owner.take().filter(|_| state.opens);
        if let Some(owner) = owner {
            self.owners.release(owner);
        }
    }

    /// Processes the reply to a slot's call.
    pub(super) fn note_reply(&mut self, index: u32, call: &mut Slot, results: &[u8]) -> AfterReply {
        let Ok(reply) = CompoundReply::decode(Reader::new(results)) else {
            return AfterReply::Done;
        };
        let state = &self.slots[index as usize];
        let sequenced = state.sequenced_at.is_some();
        let owned = state.owner.is_some();
        if sequenced && self.note_sequence(index, &reply) == AfterReply::Again {
            return AfterReply::Again;
        }
        if owned { self.note_owner_reply(index, call, &reply) } else { AfterReply::Done }
    }

    /// Advances a slot's sequence number if its SEQUENCE was accepted. **Source:** RFC 8881 section
    /// 2.10.6.1.
    fn note_sequence(&mut self, index: u32, reply: &CompoundReply<'_>) -> AfterReply {
        let state = &mut self.slots[index as usize];
        match reply.results().next_result() {
            Ok(Some(OpResult::Ok(OpOk::Sequence { flags, .. }))) => {
                // The server has accepted this sequence number and expects the next one, whatever
                // happened to the operations after SEQUENCE.
                state.sequence = state.sequence.wrapping_add(1);
                state.is_unsettled = false;
                self.status_flags = flags;
            }
            Ok(Some(OpResult::Failed(OpCode::Sequence, Status::RetryUncachedRep))) => {
                state.sequence = state.sequence.wrapping_add(1);
            }
            _ => return AfterReply::Done,
        }
        // The call was executed, but its reply was not cached: it may be made again as a new one.
        // Servers return this status from SEQUENCE, or from the operation after it.
        match reply.status {
            Status::RetryUncachedRep => AfterReply::Again,
            _ => AfterReply::Done,
        }
    }

    /// Advances an owner's sequence number, as with most answers, and confirms its first open.
    /// **Source:** RFC 7530 sections 9.1.7 and 16.18.
    fn note_owner_reply(
        &mut self,
        index: u32,
        call: &mut Slot,
        reply: &CompoundReply<'_>,
    ) -> AfterReply {
        let Some(owner) = self.slots[index as usize].owner else { return AfterReply::Done };
        let mut results = reply.results();
        let mut flags = 0;
        let mut stateid = None;
        let mut file = None;
        let mut closed = false;
        self.delegation = None;
        while let Ok(Some(result)) = results.next_result() {
            let code = result.code();
            if matches!(code, OpCode::Open | OpCode::OpenConfirm | OpCode::Close)
                && advances_seqid(result.status())
            {
                self.owners.advance_seqid(owner);
            }
            match result {
                OpResult::Ok(OpOk::Open {
                    stateid: opened, flags: reported, delegation, ..
                }) => {
                    flags = reported;
                    stateid = Some(opened);
                    // Whether it was requested or not: the server expects it to be returned.
                    if let Delegation::Read { stateid, .. } | Delegation::Write { stateid, .. } =
                        delegation
                    {
                        self.delegation = Some(stateid);
                    }
                }
                OpResult::Ok(OpOk::OpenConfirm { stateid: opened }) => stateid = Some(opened),
                OpResult::Ok(OpOk::Getfh { file: found }) => file = Some(found),
                OpResult::Ok(OpOk::Close { .. }) => closed = true,
                _ => {}
            }
        }
        // The first open of an owner that is new to a v4.0 server has to be confirmed with the
        // owner's next sequence number, or the server drops it: the call of this slot becomes that
        // OPEN_CONFIRM, and its reply completes the operation.
        if let (Some(stateid), Some(file)) = (stateid, file)
            && flags & open_result::CONFIRM != 0
        {
            let state = &mut self.slots[index as usize];
            call.header.truncate(state.arguments_at);
            state.seqid_at = encode::encode_open_confirm(&mut call.header, file, stateid);
            return AfterReply::Again;
        }
        let later = matches!(reply.status, Status::Jukebox | Status::Grace);
        let opens = self.slots[index as usize].opens;
        let refused = if opens { refuses_opener(reply.status) } else { is_unbound(reply.status) };
        if !later && !refused {
            self.slots[index as usize].owner = None;
            // An owner belongs to its open until the open is closed.
            if closed || (stateid.is_none() && opens) {
                self.owners.release(owner);
            }
        }
        AfterReply::Done
    }

    /// Adapts a slot's call that was answered for sending it again.
    pub(super) fn prepare_resend(&mut self, slot: u32, header: &mut Vec<u8>) {
        let state = &self.slots[slot as usize];
        let mut writer = Writer::new(header);
        if let Some(at) = state.sequenced_at {
            writer.set_u32(at + SEQUENCE_AT, state.sequence);
            writer.set_u32(at + SLOT_AT, state.number);
            header[at + SESSION_AT..at + SEQUENCE_AT].copy_from_slice(&self.session.0);
        } else if let Some(owner) = state.owner {
            writer.set_u32(state.seqid_at, self.owners.seqid_of(owner));
        }
    }

    /// Records that the reply to a slot's call will never be seen. If the call was sent, it counts
    /// as received; an owner with an unknown sequence number is never used again.
    pub(super) fn abandon_call(&mut self, slot: u32, delivery: Delivery) {
        let state = &mut self.slots[slot as usize];
        let owner = state.owner.take().filter(|_| state.opens);
        if delivery == Delivery::Sent {
            let moves = u32::from(state.sequenced_at.is_some());
            state.sequence = state.sequence.wrapping_add(moves);
            state.is_unsettled |= state.sequenced_at.is_some();
        } else if let Some(owner) = owner {
            self.owners.release(owner);
        }
    }

    /// Returns the owner of a slot's OPEN.
    pub(super) fn owner_of(&self, slot: u32) -> u32 {
        self.slots[slot as usize].owner.unwrap_or_default()
    }
}
