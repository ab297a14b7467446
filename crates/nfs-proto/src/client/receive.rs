//! The receiving half of a client session.
//!
//! [`Receiver`] processes the stream in pieces of any size. Everything before a payload goes into
//! one small buffer, `head`; the payload of a READ is recognized as soon as its length is known, so
//! that it can be discarded or received bypassing the session; replies without a call are skipped.
//! Fragments may end anywhere; the bytes and empty fragments of a record are bounded. **Source:**
//! RFC 5531 section 11, RFC 1813 section 3.3.6.

use super::dialect::{Dialect, Prefix};
use super::event::{Completed, Outcome};
use super::file::File;
use super::operation::{Kind, OperationKind};
use super::slot::{Slot, SlotTable};
use super::types::{Counters, PayloadMode, PayloadWant};
use crate::error::{DecodeError, StreamError};
use crate::limits::{
    CALLBACK_BYTES_MAX, MARK_BYTES, RECORD_BYTES_MAX, REPLY_HEAD_BYTES, TRANSFER_BYTES_MAX,
};
use crate::record::{EmptyFragments, Mark};
use crate::rpc::ReplyHeader;
use crate::status::CallError;
use crate::xdr::{Reader, pad_len};

/// When to look at a reply for the first time: after the RPC header, the status and the flag before
/// the attributes.
// The shortest reply with results: xid, type, state, an empty verifier and the accept state are 24
// bytes. A refusal is shorter, and ends before this many have arrived.
const FIRST_LOOK_BYTES: usize = 24 + 4 + 4;

/// The position of the receiver in a record.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Collecting the head until it has this many bytes; `usize::MAX` means to the end of the
    /// record.
    Head(usize),
    /// In the payload of a READ.
    Payload(Payload),
    /// Skipping the rest of an unusable reply; `Some` is the call it fails.
    Skip(Option<(u32, DecodeError)>),
}

/// The payload of a READ being received.
#[derive(Debug, Clone, Copy)]
struct Payload {
    slot: u32,
    len: usize,
    received: usize,
    /// Bytes received after the payload.
    tail: usize,
    eof: bool,
}

/// The context for decoding replies: the calls in flight and their dialect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) table: &'a SlotTable,
    pub(super) dialect: &'a Dialect,
}

/// Parses the stream of one connection.
#[derive(Debug)]
pub(super) struct Receiver {
    mark: [u8; MARK_BYTES],
    mark_len: usize,
    fragment_left: usize,
    last: bool,
    record_bytes: usize,
    empty_fragments: EmptyFragments,
    state: State,
    head: Vec<u8>,
    /// The object returned by the last reply.
    object: Option<File>,
    /// Payload of the READ that is arriving or has just completed; empty if payloads are discarded.
    kept: Vec<u8>,
    payload_bytes_max: u32,
}

impl Receiver {
    pub(super) fn new(mode: PayloadMode) -> Self {
        let (kept_bytes, payload_bytes_max) = match mode {
            PayloadMode::Discard => (0, TRANSFER_BYTES_MAX),
            PayloadMode::Keep { bytes_max } => {
                let bytes = bytes_max.min(TRANSFER_BYTES_MAX);
                (bytes as usize, bytes)
            }
        };
        Self {
            mark: [0; MARK_BYTES],
            mark_len: 0,
            fragment_left: 0,
            last: false,
            record_bytes: 0,
            empty_fragments: EmptyFragments::default(),
            state: State::Head(FIRST_LOOK_BYTES),
            head: Vec::with_capacity(REPLY_HEAD_BYTES),
            object: None,
            kept: vec![0; kept_bytes],
            payload_bytes_max,
        }
    }

    /// Reserves memory for a reply without a READ payload, with `bytes` bytes of data.
    pub(super) fn reserve_head(&mut self, bytes: usize) {
        self.head.reserve(REPLY_HEAD_BYTES + bytes - self.head.len());
    }

    /// Returns the largest READ that can be received.
    pub(super) fn payload_bytes_max(&self) -> u32 {
        self.payload_bytes_max
    }

    /// Takes at least one byte of `input`, and none beyond the end of a record.
    pub(super) fn take_input(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        counters: &mut Counters,
    ) -> Result<usize, StreamError> {
        if self.fragment_left == 0 {
            return self.take_mark(input, counters);
        }
        let input = &input[..input.len().min(self.fragment_left)];
        let taken = match &mut self.state {
            State::Head(target) => {
                let taken = input.len().min(*target - self.head.len());
                self.head.extend_from_slice(&input[..taken]);
                if self.head.len() == *target {
                    self.inspect_head(context);
                }
                taken
            }
            // The payload is counted, and kept if the mode says so; it never passes through `head`.
            State::Payload(payload) if payload.received < payload.len => {
                let taken = input.len().min(payload.len - payload.received);
                if !self.kept.is_empty() {
                    let at = payload.received;
                    self.kept[at..at + taken].copy_from_slice(&input[..taken]);
                }
                payload.received += taken;
                counters.payload_bytes_in += taken as u64;
                taken
            }
            State::Payload(payload) => {
                payload.tail += input.len();
                input.len()
            }
            State::Skip(_) => input.len(),
        };
        self.fragment_left -= taken;
        Ok(taken)
    }

    /// Forgets an incomplete record, since its stream is gone.
    pub(super) fn reset_stream(&mut self) {
        self.mark_len = 0;
        self.fragment_left = 0;
        self.last = false;
        self.record_bytes = 0;
        self.empty_fragments = EmptyFragments::default();
        self.state = State::Head(FIRST_LOOK_BYTES);
        self.head.clear();
    }

    /// Expects one record of `len` bytes, at least 1, without a mark.
    pub(super) fn begin_datagram(&mut self, len: usize) {
        self.reset_stream();
        self.fragment_left = len;
        self.last = true;
    }

    /// Returns the xid of the last complete record.
    pub(super) fn last_xid(&self) -> Option<u32> {
        Reader::new(&self.head).u32().ok()
    }

    fn is_call(&self) -> bool {
        self.head.get(4..8) == Some(&[0; 4])
    }

    /// Returns the last complete record if it is a call from the server.
    pub(super) fn callback_call(&self) -> Option<&[u8]> {
        (self.is_call() && matches!(self.state, State::Head(_))).then_some(&self.head)
    }

    /// Returns true if a record is complete and [`Receiver::finish_record`] should be called.
    pub(super) fn at_record_end(&self) -> bool {
        self.last && self.fragment_left == 0
    }

    /// Ends the record and returns its event, or `None` for a reply without a call.
    pub(super) fn finish_record(&mut self, now_ns: u64, context: Context<'_>) -> Option<Completed> {
        let state = self.state;
        self.last = false;
        self.record_bytes = 0;
        self.state = State::Head(FIRST_LOOK_BYTES);
        let whole = Reader::new(&self.head);
        let mut reader = whole;
        let header = ReplyHeader::decode(&mut reader);
        let (slot, result, payload_bytes) = match state {
            State::Skip(fault) => {
                let (slot, error) = fault?;
                (slot, Err(error.into()), 0)
            }
            State::Payload(payload) => {
                (payload.slot, payload.outcome_of_read(), payload.received as u32)
            }
            State::Head(_) => {
                let slot = context.table.find_xid(whole.clone().u32().ok()?)?;
                (slot, finish_head(header, reader, context, slot, &mut self.object), 0)
            }
        };
        let body_at = self.head.len() - reader.remaining();
        Some(Completed { slot, done_ns: now_ns, result, body_at, payload_bytes })
    }

    /// Returns the head from `at` on, until the next byte is taken.
    pub(super) fn body_from(&self, at: usize) -> &[u8] {
        self.head.get(at..).unwrap_or_default()
    }

    /// Returns the file of a result, if the reply contained it.
    pub(super) fn named_file(&self, result: &Result<Outcome, CallError>) -> Option<&File> {
        self.object.as_ref().filter(|_| matches!(result, Ok(Outcome::Object { .. })))
    }

    /// Returns the `len` payload bytes of the READ that has just completed, if payloads are kept.
    pub(super) fn kept_payload(&self, len: u32) -> &[u8] {
        self.kept.get(..len as usize).unwrap_or_default()
    }

    pub(super) fn payload_wanted(&self) -> Option<PayloadWant> {
        let State::Payload(payload) = self.state else { return None };
        let len = (payload.len - payload.received).min(self.fragment_left);
        (len > 0).then_some(PayloadWant { offset: payload.received, len })
    }

    /// Returns the space for the wanted bytes; empty if they are not kept, or none are wanted.
    pub(super) fn payload_space(&mut self) -> &mut [u8] {
        match self.payload_wanted() {
            Some(PayloadWant { offset, len }) if !self.kept.is_empty() => {
                &mut self.kept[offset..offset + len]
            }
            _ => &mut [],
        }
    }

    /// Advances past payload bytes that were received elsewhere.
    pub(super) fn skip_payload(&mut self, len: usize, counters: &mut Counters) {
        if let State::Payload(payload) = &mut self.state {
            payload.received += len;
            self.fragment_left -= len;
            counters.payload_bytes_in += len as u64;
        }
    }

    /// Skips the rest of the record if it belongs to this slot.
    pub(super) fn forget_slot(&mut self, slot: u32) {
        match self.state {
            State::Payload(payload) if payload.slot == slot => self.state = State::Skip(None),
            State::Skip(Some((failed, _))) if failed == slot => self.state = State::Skip(None),
            _ => {}
        }
    }

    /// Takes bytes of a fragment mark.
    fn take_mark(&mut self, input: &[u8], counters: &mut Counters) -> Result<usize, StreamError> {
        let taken = input.len().min(MARK_BYTES - self.mark_len);
        self.mark[self.mark_len..self.mark_len + taken].copy_from_slice(&input[..taken]);
        self.mark_len += taken;
        if self.mark_len < MARK_BYTES {
            return Ok(taken);
        }
        // The first fragment of a record. The head of the previous reply was kept until now, since
        // an event borrows its body from it.
        if self.record_bytes == 0 {
            self.head.clear();
        }
        let mark = Mark::from_bytes(self.mark);
        self.mark_len = 0;
        self.empty_fragments.note(mark)?;
        self.record_bytes += mark.len;
        if self.record_bytes > RECORD_BYTES_MAX {
            let bytes = self.record_bytes;
            return Err(StreamError::RecordTooLong { bytes, max: RECORD_BYTES_MAX });
        }
        self.fragment_left = mark.len;
        self.last = mark.last;
        counters.fragments_in += 1;
        Ok(taken)
    }

    /// Decides how to proceed now that the head has the expected bytes.
    fn inspect_head(&mut self, context: Context<'_>) {
        // A v4.1 server makes callbacks on the connection of its client, so both directions share
        // the stream; the second word distinguishes calls from replies. RFC 8881 section 2.10.3.1.
        if context.dialect.callback_session().is_some() && self.is_call() {
            let whole = self.head.len() < CALLBACK_BYTES_MAX;
            self.state = if whole { State::Head(CALLBACK_BYTES_MAX) } else { State::Skip(None) };
            return;
        }
        let xid = Reader::new(&self.head).u32().unwrap_or_default();
        // No call has this xid: it was abandoned, or has already been answered. Skip the bytes
        // without keeping them.
        let Some(index) = context.table.find_xid(xid) else {
            self.state = State::Skip(None);
            return;
        };
        let slot = context.table.get(index);
        // Only READ has a payload worth finding early. All other replies are collected and decoded
        // as a whole.
        if slot.kind != Kind::File(OperationKind::Read) {
            self.state = State::Head(usize::MAX);
            return;
        }
        self.state = match read_prefix(&self.head, slot, context.dialect) {
            Err(DecodeError::Truncated { needed, left }) => {
                State::Head(self.head.len() + needed - left)
            }
            // Decoding the whole reply will find the error again.
            Err(_) | Ok(Prefix::Other) => State::Head(usize::MAX),
            // A server that sends more than requested would overrun the buffer. The call
            // fails, but the connection remains usable: the end of the record is known.
            Ok(Prefix::Payload { len, .. }) if len > slot.requested => {
                let error = DecodeError::TooLong { len, max: slot.requested };
                State::Skip(Some((index, error)))
            }
            Ok(Prefix::Payload { len, eof }) => {
                let len = len as usize;
                State::Payload(Payload { slot: index, len, received: 0, tail: 0, eof })
            }
        };
    }
}

impl Payload {
    /// Returns the outcome of the READ, if the record contained exactly the payload.
    fn outcome_of_read(&self) -> Result<Outcome, CallError> {
        // The record must contain the payload and its padding and nothing else; anything missing or
        // extra makes the reply malformed, although its data may already have been delivered.
        let pad = pad_len(self.len);
        if self.received + self.tail < self.len + pad {
            let left = self.received + self.tail;
            return Err(DecodeError::Truncated { needed: self.len + pad, left }.into());
        }
        if self.tail > pad {
            return Err(DecodeError::Trailing { bytes: self.tail - pad }.into());
        }
        Ok(Outcome::Read { count: self.len as u32, eof: self.eof })
    }
}

/// Returns the result of a reply that is completely in the head.
fn finish_head(
    header: Result<ReplyHeader, DecodeError>,
    body: Reader<'_>,
    context: Context<'_>,
    index: u32,
    object: &mut Option<File>,
) -> Result<Outcome, CallError> {
    header?.result.map_err(CallError::Rpc)?;
    let slot = context.table.get(index);
    let outcome = context.dialect.decode_outcome(index, slot, body, object)?;
    match outcome {
        // Otherwise data that never existed would be counted.
        Outcome::Written { count: value, .. } if value > slot.payload_bytes => {
            Err(DecodeError::BadValue { what: "count of a WRITE reply", value }.into())
        }
        outcome => Ok(outcome),
    }
}

/// Looks for the payload of a READ in as much of its reply as has arrived.
fn read_prefix(head: &[u8], slot: &Slot, dialect: &Dialect) -> Result<Prefix, DecodeError> {
    let mut reader = Reader::new(head);
    if ReplyHeader::decode(&mut reader)?.result.is_err() {
        return Ok(Prefix::Other);
    }
    dialect.read_prefix(slot, reader)
}
