//! The client's state machine: slots, the send queue, and received replies.
//!
//! [`Session`] owns the slots and the queue of calls to send, which [`super::sending`] processes;
//! [`super::receive`] parses the stream, and [`super::recovery`] handles retransmissions. At most
//! one reply is pending at a time: no input is accepted meanwhile, so its body can be borrowed from
//! the receive buffer.

use std::collections::VecDeque;

use super::callback::Callbacks;
use super::congestion::Congestion;
use super::dialect::{Delivery, Dialect};
use super::event::{Completed, Event};
use super::operation::{Data, Kind, Operation, OperationKind, PayloadRange};
use super::receive::{Context, Receiver};
use super::slot::{Slot, SlotState, SlotTable};
use super::types::{
    Binding, Config, CopyReport, Counters, Framing, PayloadWant, Pending, Recall, Retry,
    SessionSlot, SlotShare, StartError, WantedDelegation,
};
use crate::error::StreamError;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::nfs3;
use crate::nfs4::{self, ClientId, LayoutRecall, Op, SessionId};
use crate::program::Call;
use crate::record;
use crate::rpc::ProcedureId;
use crate::rpc::{AuthSys, CallHeader, Credential, RPC_VERSION};
use crate::version::ProtocolVersion;
use crate::xdr::{Writer, opaque_bytes};

// Offsets of the fields of a framed call that differ between calls.
pub(super) const XID_AT: usize = 4;
const PROGRAM_AT: usize = 16;
const CREDENTIAL_AT: usize = PROGRAM_AT + 12;

/// Represents the answers to callbacks in the queue.
pub(super) const ANSWERS: u32 = u32::MAX;

/// One connection's client state machine.
#[derive(Debug)]
pub struct Session {
    /// The offset of the user in each call, and the user itself, if the credential has one.
    user: Option<(usize, (u32, u32))>,
    pub(super) dialect: Dialect,
    pub(super) framing: Framing,
    pub(super) retry: Retry,
    pub(super) congestion: Congestion,
    pub(super) table: SlotTable,
    pub(super) queue: VecDeque<u32>,
    pub(super) queue_offset: usize,
    pub(super) callbacks: Callbacks,
    pub(super) receiver: Receiver,
    expected_payload_bytes: u64,
    pub(super) completed: Option<Completed>,
    /// Calls that ended because their connection was lost and have not been taken as events yet.
    pub(super) lost: usize,
    /// Calls waiting for another binding.
    pub(super) unbound: usize,
    /// The earliest time of a retransmission.
    pub(super) timer_ns: u64,
    pub(super) counters: Counters,
}

impl Session {
    /// Creates a session and all buffers that it will use.
    ///
    /// # Panics
    /// If the number of slots is 0 or above [`crate::limits::SLOTS_MAX`].
    pub fn new(config: &Config<'_>) -> Self {
        let template = &call_template(config.credential);
        let user = match &config.credential {
            Credential::Sys(sys) => Some((user_at(sys), (sys.uid, sys.gid))),
            _ => None,
        };
        Self {
            user,
            dialect: Dialect::new(config.version, config.slots),
            framing: config.framing,
            retry: config.retry,
            congestion: Congestion::new(config.retry.udp_window, config.slots),
            table: SlotTable::new(config.slots, config.xid_seed, template, config.framing),
            queue: VecDeque::with_capacity(config.slots + 1),
            queue_offset: 0,
            callbacks: Callbacks::default(),
            receiver: Receiver::new(config.payload),
            expected_payload_bytes: 0,
            completed: None,
            lost: 0,
            unbound: 0,
            timer_ns: u64::MAX,
            counters: Counters::default(),
        }
    }

    /// Returns the version in use.
    pub const fn version(&self) -> ProtocolVersion {
        self.dialect.version()
    }

    /// Starts an operation.
    ///
    /// # Errors
    /// [`StartError::Busy`] if no slot is free: take events, then start again. The other errors are
    /// permanent.
    pub fn start(
        &mut self,
        now_ns: u64,
        tag: u32,
        operation: &Operation<'_>,
    ) -> Result<(), StartError> {
        let kind = operation.kind();
        let procedure = self.dialect.procedure_of(kind)?;
        let (requested, payload_bytes, payload) = transfer_sizes(operation);
        check_size(requested, self.receiver.payload_bytes_max())?;
        check_size(payload_bytes, TRANSFER_BYTES_MAX)?;
        let id = ProcedureId::new(nfs3::PROGRAM, self.version().program_version(), procedure);
        let index = self.take_slot(now_ns, tag, Kind::File(kind), id)?;
        let slot = self.table.get_mut(index);
        slot.requested = requested;
        slot.payload_bytes = payload_bytes;
        slot.payload = payload;
        slot.idempotent = self.dialect.is_idempotent(operation);
        if let Operation::Read { offset, .. } = operation {
            slot.offset = *offset;
        }
        if let Err(error) = self.dialect.encode(index, operation, &mut slot.header) {
            self.table.release(index);
            return Err(error);
        }
        self.expected_payload_bytes += u64::from(requested);
        self.enqueue_call(index);
        Ok(())
    }

    /// Starts an operation for another user than the session's own: uid and gid, `None` for its
    /// own. All calls of such a session have to be started by this function.
    ///
    /// # Errors
    /// As for [`Session::start`].
    ///
    /// # Panics
    /// If the session's credential is not AUTH_SYS and there is a user.
    pub fn start_as(
        &mut self,
        now_ns: u64,
        tag: u32,
        operation: &Operation<'_>,
        user: Option<(u32, u32)>,
    ) -> Result<(), StartError> {
        let Some((at, own)) = self.user else {
            assert!(user.is_none(), "only AUTH_SYS has users");
            return self.start(now_ns, tag, operation);
        };
        let next = self.table.next_free().ok_or(StartError::Busy)?;
        let (uid, gid) = user.unwrap_or(own);
        // The slot keeps them, so each of its calls sets its own.
        let header = &mut self.table.get_mut(next).header;
        header[at..at + 4].copy_from_slice(&uid.to_be_bytes());
        header[at + 4..at + 8].copy_from_slice(&gid.to_be_bytes());
        self.start(now_ns, tag, operation)
    }

    /// Starts a raw call of any program; its results are in [`Event::body`].
    ///
    /// # Errors
    /// [`StartError::Busy`] if no slot is free.
    pub fn start_call(&mut self, now_ns: u64, tag: u32, call: &Call<'_>) -> Result<(), StartError> {
        let index = self.take_slot(now_ns, tag, Kind::from_call(call), call.procedure_id())?;
        let slot = self.table.get_mut(index);
        slot.idempotent = false;
        call.encode(&mut Writer::new(&mut slot.header));
        self.enqueue_call(index);
        Ok(())
    }

    /// Joins a v4 client, and in v4.1 and later a session, whose slots start over; afterwards
    /// operations can be started. No call may be in flight, except those to be replayed by
    /// [`Session::reconnected`] in the same session.
    ///
    /// # Panics
    /// If the server granted no slots.
    pub fn bind(&mut self, binding: &Binding) {
        assert!(binding.slots > 0, "a session has slots");
        self.dialect.bind(binding);
        self.table.limit_to(binding.slots);
    }

    /// Joins a client and some slots of a session that is shared with other connections; their
    /// sequence numbers continue.
    ///
    /// # Panics
    /// If the share has no slots.
    pub fn bind_share(&mut self, binding: &Binding, share: &SlotShare<'_>) {
        assert!(!share.slots.is_empty(), "a share of a session has slots");
        self.dialect.bind(binding);
        self.dialect.set_share(share);
        self.table.limit_to(share.slots.len() as u32);
    }

    /// Iterates over the slots that another connection of the session may continue with: those
    /// whose last call was answered, so that the next sequence number is known.
    pub fn settled_slots(&self) -> impl Iterator<Item = SessionSlot> {
        let limit = self.table.limit_count();
        let is_free = |index: &u32| self.table.get(*index).state == SlotState::Free;
        (0..limit).filter(is_free).filter_map(|index| self.dialect.settled_slot(index))
    }

    /// Returns the client of a v4 connection.
    pub const fn client(&self) -> ClientId {
        self.dialect.client()
    }

    /// Returns the session of a v4.1 connection; zeros in other versions.
    pub fn session_id(&self) -> SessionId {
        self.dialect.callback_session().unwrap_or_default()
    }

    /// Makes each read-only OPEN request a delegation; otherwise each declines it. Only v4.1 and
    /// later can express that.
    pub const fn want_delegations(&mut self, wanted: WantedDelegation) {
        self.dialect.want_delegations(wanted);
    }

    /// Returns a recalled delegation, which the caller has to return to the server.
    pub fn take_recall(&mut self) -> Option<Recall> {
        self.callbacks.take_recall()
    }

    /// Returns a report that an asynchronous copy of this client has ended, perhaps one that
    /// another connection started, or whose reply has not arrived yet.
    pub fn take_copy_report(&mut self) -> Option<CopyReport> {
        self.callbacks.take_copy_report()
    }

    /// Accepts recalls of layouts from now on; without it, the server is told that there are none.
    pub fn hold_layouts(&mut self) {
        self.callbacks.hold_layouts();
    }

    /// Returns a recall of layouts, which the caller has to return to the server.
    pub fn take_layout_recall(&mut self) -> Option<LayoutRecall> {
        self.callbacks.take_layout_recall()
    }

    /// Returns the flags of the last successful SEQUENCE, see [`crate::nfs4::sequence_status`].
    pub const fn status_flags(&self) -> u32 {
        self.dialect.status_flags()
    }

    /// Starts a v4 compound of these operations. In v4.1 and later a SEQUENCE precedes them, unless
    /// the first operation creates or destroys a client or session. Without operations the SEQUENCE
    /// renews the lease. See [`Event::result_of`].
    ///
    /// # Errors
    /// [`StartError::Busy`] if no slot is free.
    pub fn start_ops(&mut self, now_ns: u64, tag: u32, ops: &[Op<'_>]) -> Result<(), StartError> {
        let id = ProcedureId::new(nfs4::PROGRAM, nfs4::VERSION, 1);
        let index = self.take_slot(now_ns, tag, Kind::COMPOUND, id)?;
        let slot = self.table.get_mut(index);
        slot.idempotent = false;
        self.dialect.encode_ops(index, ops, &mut slot.header);
        self.enqueue_call(index);
        Ok(())
    }

    /// Takes stream bytes and returns how many it took: all of them, or those up to the end of a
    /// reply. In that case take the event and pass the rest.
    ///
    /// # Errors
    /// [`StreamError`]: close the connection.
    pub fn handle_input(&mut self, now_ns: u64, input: &[u8]) -> Result<usize, StreamError> {
        let mut taken = 0;
        // At most one event is pending. Its body is borrowed from the receiver's buffer, so no
        // further byte may be taken before the event is.
        while self.completed.is_none() && taken < input.len() {
            let rest = &input[taken..];
            let context = Context { table: &self.table, dialect: &self.dialect };
            taken += self.receiver.take_input(rest, context, &mut self.counters)?;
            self.finish_record(now_ns);
        }
        self.counters.wire_bytes_in += taken as u64;
        Ok(taken)
    }

    /// Takes a datagram.
    ///
    /// # Panics
    /// If an event is pending.
    pub fn handle_datagram(&mut self, now_ns: u64, datagram: &[u8]) {
        assert!(self.completed.is_none(), "the last event was not taken");
        self.counters.wire_bytes_in += datagram.len() as u64;
        if datagram.is_empty() {
            self.counters.late_replies += 1;
            return;
        }
        self.receiver.begin_datagram(datagram.len());
        let mut rest = datagram;
        while !rest.is_empty() {
            let context = Context { table: &self.table, dialect: &self.dialect };
            let taken = self.receiver.take_input(rest, context, &mut self.counters);
            rest = &rest[taken.expect("only marks are refused, and a datagram has none")..];
        }
        self.finish_record(now_ns);
    }

    /// Returns which READ payload bytes come next in the stream; they can be received elsewhere and
    /// reported to [`Session::payload_received`], instead of being passed to
    /// [`Session::handle_input`]. `None` while an event is pending.
    pub fn payload_wanted(&self) -> Option<PayloadWant> {
        if self.completed.is_some() { None } else { self.receiver.payload_wanted() }
    }

    /// Returns the space for the bytes of [`Session::payload_wanted`], or an empty slice in the
    /// mode that discards them.
    pub fn payload_space(&mut self) -> &mut [u8] {
        self.receiver.payload_space()
    }

    /// Reports that `len` of the wanted payload bytes were received bypassing the session.
    ///
    /// # Panics
    /// If `len` is more than was wanted.
    pub fn payload_received(&mut self, now_ns: u64, len: usize) {
        let wanted = self.payload_wanted().map_or(0, |want| want.len);
        assert!(len <= wanted, "{len} payload bytes received, {wanted} wanted");
        self.receiver.skip_payload(len, &mut self.counters);
        self.counters.wire_bytes_in += len as u64;
        self.finish_record(now_ns);
    }

    /// Returns true if an event is pending.
    pub fn has_event(&self) -> bool {
        self.completed.is_some() || self.lost > 0
    }

    /// Returns the pending event, and frees its slot.
    pub fn poll_event(&mut self) -> Option<Event<'_>> {
        let completed = self.completed.take().or_else(|| self.take_lost())?;
        let slot = self.table.release(completed.slot);
        self.expected_payload_bytes -= u64::from(slot.requested);
        let opens = matches!(slot.kind, Kind::File(OperationKind::Open | OperationKind::Create));
        Some(Event {
            tag: slot.tag,
            kind: slot.kind,
            version: self.dialect.version(),
            started_ns: slot.started_ns,
            sent_ns: slot.sent_ns,
            done_ns: completed.done_ns,
            result: completed.result,
            body: self.receiver.body_from(completed.body_at),
            payload: self.receiver.kept_payload(completed.payload_bytes),
            file: self.receiver.named_file(&completed.result),
            delegation: if opens { self.dialect.delegation() } else { None },
        })
    }

    /// Abandons the call with this tag, unless it is partly sent, and returns whether there was
    /// one. Its reply, if it comes, counts as late.
    pub fn abandon(&mut self, tag: u32) -> bool {
        let completed = self.completed.map(|completed| completed.slot);
        let Some(index) = self.table.find_tag(tag).filter(|index| completed != Some(*index)) else {
            return false;
        };
        let delivery = match self.table.get(index).state {
            SlotState::Queued => Delivery::Unsent,
            _ => Delivery::Sent,
        };
        // A partly sent call can't be withdrawn: the rest of its bytes must follow, or the stream
        // would lose its record boundaries.
        if let Some(position) = self.queue.iter().position(|queued| *queued == index) {
            if position == 0 && self.queue_offset > 0 {
                return false;
            }
            self.queue.remove(position);
        }
        self.lost -= usize::from(self.table.get(index).state == SlotState::Lost);
        self.unbound -= usize::from(self.table.get(index).state == SlotState::Unbound);
        self.dialect.abandon_call(index, delivery);
        self.receiver.forget_slot(index);
        self.expected_payload_bytes -= u64::from(self.table.release(index).requested);
        true
    }

    /// Returns how many calls can be started before [`StartError::Busy`].
    pub fn free_slots(&self) -> usize {
        self.table.free_count()
    }

    /// Returns the number of calls that were started and not yet taken as events.
    pub fn in_flight(&self) -> usize {
        self.table.used_count()
    }

    /// Returns the number of bytes requested by the READs in flight.
    pub fn expected_payload_bytes(&self) -> u64 {
        self.expected_payload_bytes
    }

    /// Iterates over the calls that were started and not yet taken as events, in no particular
    /// order.
    pub fn pending(&self) -> impl Iterator<Item = Pending> {
        self.table.in_use().map(|slot| Pending {
            tag: slot.tag,
            kind: slot.kind,
            started_ns: slot.started_ns,
        })
    }

    /// Returns when the oldest unanswered call was started, not counting calls that the server has
    /// deferred.
    pub fn oldest_pending_ns(&self) -> Option<u64> {
        let awaited = |slot: &&Slot| matches!(slot.state, SlotState::Queued | SlotState::Sent);
        self.table.in_use().filter(awaited).map(|slot| slot.started_ns).min()
    }

    /// Returns the traffic counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a slot and initializes the head of its call.
    fn take_slot(
        &mut self,
        now_ns: u64,
        tag: u32,
        kind: Kind,
        id: ProcedureId,
    ) -> Result<u32, StartError> {
        // The start of every call, up to its arguments, is the same except for four words; it was
        // encoded when the session was created, and only those words are written here.
        let index = self.table.take_free().ok_or(StartError::Busy)?;
        let slot = self.table.get_mut(index);
        slot.tag = tag;
        slot.kind = kind;
        slot.started_ns = now_ns;
        slot.sent_ns = now_ns;
        slot.header[XID_AT..XID_AT + 4].copy_from_slice(&slot.xid.to_be_bytes());
        for (position, word) in [id.program, id.version, id.procedure].into_iter().enumerate() {
            let at = PROGRAM_AT + 4 * position;
            slot.header[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        Ok(index)
    }

    /// Answers the completed record if it is a call from the server; datagrams carry none.
    fn answer_callback(&mut self) -> bool {
        if self.framing == Framing::Datagram {
            return false;
        }
        let Some(session) = self.dialect.callback_session() else { return false };
        let Some(call) = self.receiver.callback_call() else { return false };
        let answered = self.callbacks.answer_call(call, session);
        self.counters.callbacks += u64::from(answered);
        if answered && !self.queue.contains(&ANSWERS) {
            self.queue.push_back(ANSWERS);
        }
        self.receiver.reset_stream();
        true
    }

    /// Converts a complete record to an event.
    fn finish_record(&mut self, now_ns: u64) {
        if !self.receiver.at_record_end() || self.answer_callback() {
            return;
        }
        let context = Context { table: &self.table, dialect: &self.dialect };
        let Some(completed) = self.receiver.finish_record(now_ns, context) else {
            // A second reply to the last call of a slot is a duplicate: the server or the network
            // has sent it twice. All others are late replies to abandoned calls.
            let xid = self.receiver.last_xid();
            let duplicate = xid.is_some_and(|xid| self.table.was_answered(xid));
            self.counters.duplicate_replies += u64::from(duplicate);
            self.counters.late_replies += u64::from(!duplicate);
            return;
        };
        self.counters.replies += 1;
        self.counters.malformed_replies += u64::from(completed.is_malformed());
        self.handle_reply(&completed);
    }
}

/// Returns the size a READ requests, the size of a WRITE's payload, and its range if it is
/// external.
fn transfer_sizes(operation: &Operation<'_>) -> (u32, u32, PayloadRange) {
    match *operation {
        Operation::Read { count, .. } => (count, 0, PayloadRange::default()),
        Operation::Write { data: Data::Bytes(bytes), .. } => {
            (0, u32::try_from(bytes.len()).unwrap_or(u32::MAX), PayloadRange::default())
        }
        Operation::Write { data: Data::Pool(payload), .. } => (0, payload.len, payload),
        _ => (0, 0, PayloadRange::default()),
    }
}

fn check_size(bytes: u32, max: u32) -> Result<(), StartError> {
    if bytes > max { Err(StartError::TooLarge { bytes, max }) } else { Ok(()) }
}

/// Returns the offset of the uid in a call with this credential.
const fn user_at(sys: &AuthSys<'_>) -> usize {
    // Flavor and length, then the stamp and the machine's name, come first.
    CREDENTIAL_AT + 8 + 4 + opaque_bytes(sys.machine_name.len())
}

/// Encodes the common start of all calls of a session: mark, RPC header, credential, verifier.
fn call_template(credential: Credential<'_>) -> Vec<u8> {
    let mut template = Vec::new();
    record::begin(&mut template);
    let header = CallHeader {
        xid: 0,
        rpc_version: RPC_VERSION,
        program: 0,
        version: 0,
        procedure: 0,
        credential: Ok(credential),
    };
    header.encode(&mut Writer::new(&mut template));
    template
}
