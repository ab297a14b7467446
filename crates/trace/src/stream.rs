//! One direction of a TCP connection: from segments in any order to RPC records.
//!
//! [`Direction`] sorts segments, drops retransmissions, and splits the stream into records by their
//! marks. It waits for a missing segment while it may still arrive. Once the receiver has
//! acknowledged it, or too much is waiting behind it, it becomes a hole. A hole within a record
//! results in a record with a hole. If a record mark is lost, the start of the next record is
//! unknown until the next bytes that can only be the head of an RPC message ([`find_message`]). A
//! capture that starts in the middle of a stream is the same case.
//!
//! The memory of a direction is limited by [`WAITING_BYTES_MAX`] and the parts of a record that are
//! kept: its head and its end, where a compound may continue after its payload.
//! **Source:** RFC 9293 section 3.4 (sequence numbers), RFC 5531 section 11 (record marks).

use std::collections::VecDeque;

use crate::assembly::{Message, Piece, Record};
use crate::counters::Counters;
use crate::message_head::find_message;
use crate::packet::TcpSegment;
use crate::sparse::Sparse;

/// Maximum number of bytes waiting behind a missing segment.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Maximum number of segments waiting behind a missing one.
const WAITING_SEGMENTS_MAX: usize = 1024;
/// Number of segments after an acknowledged one that show it will not arrive. A capture may contain
/// an acknowledgement before the segment, but not long before.
const WAITING_SEGMENTS_ACKNOWLEDGED: usize = 8;
/// How long to wait for a missing segment, in nanoseconds: after it was acknowledged, and
/// otherwise.
const WAIT_NS_ACKNOWLEDGED: u64 = 100_000_000;
const WAIT_NS: u64 = 10_000_000_000;

/// A segment waiting for earlier ones.
#[derive(Debug)]
struct Waiting {
    sequence: u32,
    wire_bytes: usize,
    time_ns: u64,
    bytes: Box<[u8]>,
}

/// Whether the start of records is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// No segment has been seen.
    NotBegun,
    /// The next byte continues a record or begins one.
    Records,
    /// The start of the next record is unknown.
    Searching,
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Direction {
    sync: Sync,
    /// Sequence number of the next byte.
    next: u32,
    /// The next byte expected by the receiver, according to its acknowledgements.
    acknowledged: Option<u32>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    record: Record,
}

impl Default for Direction {
    fn default() -> Self {
        Self {
            sync: Sync::NotBegun,
            next: 0,
            acknowledged: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            record: Record::default(),
        }
    }
}

impl Direction {
    /// Processes an acknowledgement from the other direction.
    pub(crate) const fn acknowledge(&mut self, acknowledged: u32) {
        self.acknowledged = Some(acknowledged);
    }

    /// Processes a segment and passes on the records that end in it.
    pub(crate) fn push(
        &mut self,
        segment: &TcpSegment<'_>,
        time_ns: u64,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        if segment.flags.is_syn() {
            // A new connection between the same ports; whatever the old one lacks is lost.
            self.give_up_waiting(counters, sink);
            self.record.clear();
            self.next = segment.sequence.wrapping_add(1);
            self.sync = Sync::Records;
            self.acknowledged = None;
            return;
        }
        if segment.wire_bytes == 0 {
            self.skip_lost(time_ns, counters, sink);
            return;
        }
        if self.sync == Sync::NotBegun {
            self.next = segment.sequence;
            self.sync = Sync::Searching;
        }
        // Differences of sequence numbers are signed and wrap: RFC 9293 section 3.4.
        let ahead = segment.sequence.wrapping_sub(self.next).cast_signed();
        if ahead > 0 {
            self.wait(segment, time_ns, counters);
            self.skip_lost(time_ns, counters, sink);
            return;
        }
        let known = ahead.unsigned_abs() as usize;
        if known >= segment.wire_bytes {
            // A probe of one byte is a keepalive and not a retransmission.
            counters.segments_again += u64::from(segment.wire_bytes > 1);
            return;
        }
        let bytes = segment.bytes.get(known..).unwrap_or_default();
        self.take(Piece { bytes, time_ns }, segment.wire_bytes - known, counters, sink);
        self.take_waiting(counters, sink);
        self.skip_lost(time_ns, counters, sink);
    }

    /// Ends the direction: nothing that is missing will arrive anymore.
    pub(crate) fn finish(
        &mut self,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        self.give_up_waiting(counters, sink);
        // A record whose end was not captured still has its head.
        if self.record.is_begun() {
            counters.records_cut += 1;
        }
        self.record.clear();
    }

    /// Keeps a segment that is ahead of the stream, sorted by sequence number.
    fn wait(&mut self, segment: &TcpSegment<'_>, time_ns: u64, counters: &mut Counters) {
        let ahead = segment.sequence.wrapping_sub(self.next);
        let mut at = self.waiting.len();
        // Segments are usually in order, so search from the end.
        while at > 0 && self.waiting[at - 1].sequence.wrapping_sub(self.next) > ahead {
            at -= 1;
        }
        if at > 0 && self.waiting[at - 1].sequence == segment.sequence {
            counters.segments_again += 1;
            return;
        }
        counters.segments_out_of_order += 1;
        self.waiting_bytes += segment.bytes.len();
        let waiting = Waiting {
            sequence: segment.sequence,
            wire_bytes: segment.wire_bytes,
            time_ns,
            bytes: segment.bytes.into(),
        };
        self.waiting.insert(at, waiting);
    }

    /// Processes the waiting segments that are now in order.
    fn take_waiting(
        &mut self,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        while let Some(first) = self.waiting.front() {
            let ahead = first.sequence.wrapping_sub(self.next).cast_signed();
            if ahead > 0 {
                return;
            }
            let Some(first) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= first.bytes.len();
            let known = ahead.unsigned_abs() as usize;
            if known < first.wire_bytes {
                let bytes = first.bytes.get(known..).unwrap_or_default();
                let piece = Piece { bytes, time_ns: first.time_ns };
                self.take(piece, first.wire_bytes - known, counters, sink);
            }
        }
    }

    /// Turns the gap before the first waiting segment into a hole if it will no longer be filled.
    fn skip_lost(
        &mut self,
        now_ns: u64,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        while let Some(first) = self.waiting.front() {
            let waited_ns = now_ns.saturating_sub(first.time_ns);
            let is_acknowledged = self.is_acknowledged(first);
            let is_lost = self.waiting.len() >= WAITING_SEGMENTS_MAX
                || self.waiting_bytes >= WAITING_BYTES_MAX
                || waited_ns >= WAIT_NS
                || is_acknowledged
                    && (self.waiting.len() >= WAITING_SEGMENTS_ACKNOWLEDGED
                        || waited_ns >= WAIT_NS_ACKNOWLEDGED);
            if !is_lost {
                return;
            }
            self.skip_to_first(counters, sink);
        }
    }

    /// Turns a gap into a hole if the receiver has acknowledged it.
    pub(crate) fn skip_acknowledged(
        &mut self,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        while let Some(first) = self.waiting.front() {
            if !self.is_acknowledged(first) {
                return;
            }
            self.skip_to_first(counters, sink);
        }
    }

    /// Returns true if the receiver has everything before a segment.
    fn is_acknowledged(&self, segment: &Waiting) -> bool {
        self.acknowledged.is_some_and(|acknowledged| {
            acknowledged.wrapping_sub(segment.sequence).cast_signed() >= 0
        })
    }

    fn give_up_waiting(
        &mut self,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        while !self.waiting.is_empty() {
            self.skip_to_first(counters, sink);
        }
    }

    fn skip_to_first(
        &mut self,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        let Some(first) = self.waiting.front() else { return };
        let missing = first.sequence.wrapping_sub(self.next) as usize;
        let time_ns = first.time_ns;
        counters.segments_lost += 1;
        counters.bytes_lost += missing as u64;
        self.next = first.sequence;
        self.skip(missing, time_ns, counters, sink);
        self.take_waiting(counters, sink);
    }

    /// Processes bytes at the current position; those that were not captured become a hole.
    fn take(
        &mut self,
        piece: Piece<'_>,
        wire_bytes: usize,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        self.next = self.next.wrapping_add(wire_bytes as u32);
        let bytes = &piece.bytes[..piece.bytes.len().min(wire_bytes)];
        self.read(Piece { bytes, ..piece }, counters, sink);
        let missing = wire_bytes - bytes.len();
        if missing > 0 {
            counters.bytes_cut += missing as u64;
            self.skip(missing, piece.time_ns, counters, sink);
        }
    }

    /// Splits bytes into records.
    fn read(
        &mut self,
        piece: Piece<'_>,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        let Piece { mut bytes, time_ns } = piece;
        while !bytes.is_empty() {
            if self.sync != Sync::Records {
                let Some(at) = find_message(bytes) else {
                    counters.bytes_unsynchronized += bytes.len() as u64;
                    return;
                };
                counters.bytes_unsynchronized += at as u64;
                bytes = &bytes[at..];
                self.record.clear();
                self.sync = Sync::Records;
            }
            // Most records are within one segment and need no copy.
            if let Some((body, rest)) = self.record.split_whole(bytes) {
                let body = Sparse::whole(body);
                sink(Message { body, first_ns: time_ns, last_ns: time_ns }, counters);
                bytes = rest;
                continue;
            }
            let Ok(rest) = self.record.read(Piece { bytes, time_ns }) else {
                self.sync = Sync::Searching;
                counters.times_unsynchronized += 1;
                continue;
            };
            bytes = rest;
            self.record.pass_on_if_complete(counters, sink);
        }
    }

    /// Skips missing bytes.
    fn skip(
        &mut self,
        missing: usize,
        time_ns: u64,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        if self.sync != Sync::Records {
            return;
        }
        let left = self.record.skip(missing, time_ns);
        self.record.pass_on_if_complete(counters, sink);
        if left > 0 {
            // The next record begins somewhere in the hole.
            self.record.clear();
            self.sync = Sync::Searching;
            counters.times_unsynchronized += 1;
        }
    }
}
