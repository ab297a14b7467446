//! One direction of a TCP connection: from segments in any order to RPC records.
//!
//! [`Direction`] puts segments in order, leaves out what was sent again, and cuts the stream into
//! records by their marks. A segment that is missing is waited for while it may still come; once
//! the receiver has acknowledged it, or too much waits behind it, it becomes a hole. A hole within
//! a record leaves a record with a hole; one that takes a record mark with it ends the knowledge of
//! where records begin, which is regained at the next bytes that can only be the head of an RPC
//! message ([`is_message_head`]). Joining in the middle is the same case.
//!
//! Memory of a direction is bounded by [`WAITING_BYTES_MAX`] and by the parts of a record that are
//! kept: its head, and the end, where a compound may go on behind its payload.
//! **Source:** RFC 9293 section 3.4 (sequence numbers), RFC 5531 section 11 (record marks).

use std::collections::VecDeque;

use nfs_proto::limits::MARK_BYTES;
use nfs_proto::record::Mark;

use crate::counters::Counters;
use crate::packet::TcpSegment;
use crate::sparse::{Hole, Sparse};

/// Bytes of a record that are kept from its begin: a page of a directory fits.
const HEAD_BYTES: usize = 64 << 10;
/// Bytes of a record that are kept from its end.
const TAIL_BYTES: usize = 4 << 10;
/// The longest record that is believed, in bytes; servers allow 1 MiB of payload, ours 4 MiB.
const RECORD_BYTES_MAX: usize = 8 << 20;
/// The most fragments of one record; more are no record that anything sends.
const FRAGMENTS_MAX: u32 = 4096;
/// The most bytes that wait behind a missing segment.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// The most segments that wait behind a missing one.
const WAITING_SEGMENTS_MAX: usize = 1024;
/// So many segments behind one that was acknowledged show that it will not come: a capture may show
/// an acknowledgement before the segment, but not long before.
const WAITING_SEGMENTS_ACKNOWLEDGED: usize = 8;
/// How long a segment is waited for once it was acknowledged, and otherwise, in nanoseconds.
const WAIT_NS_ACKNOWLEDGED: u64 = 100_000_000;
const WAIT_NS: u64 = 10_000_000_000;
/// The most holes of one record; with more its end is given up.
const HOLES_MAX: usize = 256;

/// A record of RPC, or a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The message without record marks.
    pub body: Sparse<'a>,
    /// When its first byte was captured, in nanoseconds since 1970.
    pub first_ns: u64,
    /// When its last byte was captured.
    pub last_ns: u64,
}

/// A segment that waits for those before it.
#[derive(Debug)]
struct Waiting {
    sequence: u32,
    wire_bytes: usize,
    time_ns: u64,
    bytes: Box<[u8]>,
}

/// How far the stream is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// No segment was seen.
    NotBegun,
    /// The next byte is known: it continues a record, or begins one.
    Records,
    /// Where the next record begins is not known.
    Searching,
}

/// Bytes whose place in the stream is known.
#[derive(Debug, Clone, Copy)]
struct Piece<'a> {
    bytes: &'a [u8],
    time_ns: u64,
}

/// One direction of a connection.
#[derive(Debug)]
pub struct Direction {
    sync: Sync,
    /// Sequence number of the next byte.
    next: u32,
    /// The next byte that the receiver waits for, by its acknowledgements.
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
    /// Takes an acknowledgement of the other direction.
    pub const fn acknowledge(&mut self, acknowledged: u32) {
        self.acknowledged = Some(acknowledged);
    }

    /// Takes a segment and passes on the records that end in it.
    pub fn push(
        &mut self,
        segment: &TcpSegment<'_>,
        time_ns: u64,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        if segment.flags.is_syn() {
            // A new connection between the same ports. What was missing of the old one stays so.
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
            // A probe of one byte is how connections are kept alive, and no retransmission.
            counters.segments_again += u64::from(segment.wire_bytes > 1);
            return;
        }
        let bytes = segment.bytes.get(known..).unwrap_or_default();
        self.take(Piece { bytes, time_ns }, segment.wire_bytes - known, counters, sink);
        self.take_waiting(counters, sink);
        self.skip_lost(time_ns, counters, sink);
    }

    /// Ends the direction: nothing that is missing will come any more.
    pub fn finish(
        &mut self,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        self.give_up_waiting(counters, sink);
        // A record whose end was not captured still shows its head.
        if self.record.position > 0 {
            counters.records_cut += 1;
        }
        self.record.clear();
    }

    /// Keeps a segment that is ahead of the stream, in the order of sequence numbers.
    fn wait(&mut self, segment: &TcpSegment<'_>, time_ns: u64, counters: &mut Counters) {
        let ahead = segment.sequence.wrapping_sub(self.next);
        let mut at = self.waiting.len();
        // Segments mostly come in order, so that the place is found from the end.
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

    /// Takes the segments that waited for what has arrived now.
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

    /// Makes a hole of what is missing before the first waiting segment, once it can't be expected.
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

    /// Makes a hole of what is missing where the receiver has acknowledged it.
    pub fn skip_acknowledged(
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

    /// Tells whether the receiver has everything before a segment.
    fn is_acknowledged(&self, segment: &Waiting) -> bool {
        match self.acknowledged {
            Some(acknowledged) => acknowledged.wrapping_sub(segment.sequence).cast_signed() >= 0,
            None => false,
        }
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

    /// Takes bytes at the place where the stream is; those beyond what was kept are a hole.
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

    /// Cuts bytes into records.
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
            // Most records are in one segment and need no copy.
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

    /// Passes over bytes that are missing.
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
            // Somewhere in the hole the next record begins.
            self.record.clear();
            self.sync = Sync::Searching;
            counters.times_unsynchronized += 1;
        }
    }
}

/// The stream is not at a record mark.
#[derive(Debug)]
struct NoRecord;

/// A record that is being put together.
#[derive(Debug, Default)]
struct Record {
    mark: [u8; MARK_BYTES],
    mark_len: usize,
    /// Bytes of the present fragment that are missing.
    fragment_left: usize,
    is_last: bool,
    fragments: u32,
    /// Length of the record so far.
    position: usize,
    bytes: Vec<u8>,
    holes: Vec<Hole>,
    first_ns: u64,
    last_ns: u64,
    is_complete: bool,
}

impl Record {
    fn clear(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut holes = std::mem::take(&mut self.holes);
        bytes.clear();
        holes.clear();
        *self = Self { bytes, holes, ..Self::default() };
    }

    /// Returns the body of a record that begins here and is all there, and what follows it.
    fn split_whole<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        if self.mark_len > 0 || self.position > 0 || self.fragments > 0 {
            return None;
        }
        let (mark, rest) = bytes.split_first_chunk::<MARK_BYTES>()?;
        let mark = Mark::from_bytes(*mark);
        if !mark.last || mark.len > RECORD_BYTES_MAX {
            return None;
        }
        rest.split_at_checked(mark.len)
    }

    /// Takes bytes up to the end of a mark or of a fragment, and returns the rest.
    fn read<'a>(&mut self, piece: Piece<'a>) -> Result<&'a [u8], NoRecord> {
        let Piece { bytes, time_ns } = piece;
        if self.position == 0 && self.mark_len == 0 && self.fragments == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = self.last_ns.max(time_ns);
        if self.fragment_left == 0 {
            let (part, rest) = bytes.split_at(bytes.len().min(MARK_BYTES - self.mark_len));
            self.mark[self.mark_len..self.mark_len + part.len()].copy_from_slice(part);
            self.mark_len += part.len();
            if self.mark_len == MARK_BYTES {
                self.begin_fragment()?;
            }
            return Ok(rest);
        }
        let (part, rest) = bytes.split_at(bytes.len().min(self.fragment_left));
        self.keep(part);
        self.fragment_left -= part.len();
        self.end_fragment();
        Ok(rest)
    }

    fn begin_fragment(&mut self) -> Result<(), NoRecord> {
        let mark = Mark::from_bytes(self.mark);
        (self.mark_len, self.fragments) = (0, self.fragments + 1);
        let is_sane = self.position + mark.len <= RECORD_BYTES_MAX
            && self.fragments <= FRAGMENTS_MAX
            && mark.len.is_multiple_of(4);
        if !is_sane {
            self.clear();
            return Err(NoRecord);
        }
        (self.fragment_left, self.is_last) = (mark.len, mark.last);
        self.end_fragment();
        Ok(())
    }

    fn end_fragment(&mut self) {
        self.is_complete = self.fragment_left == 0 && self.is_last;
    }

    /// Keeps the bytes of a part that belong to the head or to the end of the record.
    fn keep(&mut self, part: &[u8]) {
        // Where the record ends is known while its last fragment is read.
        let tail_from = if self.is_last {
            (self.position + self.fragment_left).saturating_sub(TAIL_BYTES)
        } else {
            usize::MAX
        };
        let head = part.len().min(HEAD_BYTES.saturating_sub(self.position));
        let (head, rest) = part.split_at(head);
        self.bytes.extend_from_slice(head);
        self.position += head.len();
        let dropped = rest.len().min(tail_from.saturating_sub(self.position));
        let (dropped, tail) = rest.split_at(dropped);
        self.add_hole(dropped.len());
        if self.holes.len() < HOLES_MAX {
            self.bytes.extend_from_slice(tail);
            self.position += tail.len();
        } else {
            self.add_hole(tail.len());
        }
    }

    fn add_hole(&mut self, len: usize) {
        if len == 0 {
            return;
        }
        let is_full = self.holes.len() >= HOLES_MAX;
        match self.holes.last_mut() {
            Some(last) if is_full || last.at + last.len == self.position => {
                last.len = self.position + len - last.at;
            }
            _ => self.holes.push(Hole { at: self.position, len }),
        }
        self.position += len;
    }

    /// Passes over missing bytes up to the end of the fragment; returns how many are beyond it.
    fn skip(&mut self, missing: usize, time_ns: u64) -> usize {
        if self.fragment_left == 0 {
            return missing;
        }
        self.last_ns = self.last_ns.max(time_ns);
        let within = missing.min(self.fragment_left);
        self.add_hole(within);
        self.fragment_left -= within;
        self.end_fragment();
        missing - within
    }

    fn pass_on_if_complete(
        &mut self,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        if !self.is_complete {
            return;
        }
        let body = Sparse { bytes: &self.bytes, holes: &self.holes, len: self.position };
        sink(Message { body, first_ns: self.first_ns, last_ns: self.last_ns }, counters);
        self.clear();
    }
}

// The words of an RPC message behind its record mark. **Source:** RFC 5531 section 9.
const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
/// The programs whose calls are looked for: NFS and MOUNT, and ACL, which shares the connection.
const PROGRAMS: [u32; 3] = [100_003, 100_005, 100_227];
/// The highest `accept_stat`.
const ACCEPT_STATE_MAX: u32 = 5;
/// The flavor of RPCSEC_GSS, whose verifiers have a body.
const FLAVOR_GSS: u32 = 6;

/// Finds the first offset at which a record with an RPC message begins.
pub fn find_message(bytes: &[u8]) -> Option<usize> {
    // Four bytes in a row that begin with the last-fragment bit are tested further; records have a
    // multiple of four bytes, but where the first one began is not known.
    (0..bytes.len().saturating_sub(MARK_BYTES + 12)).find(|at| is_record_head(&bytes[*at..]))
}

/// Tells whether bytes can only be a record mark and the head of a call or of a reply.
pub fn is_record_head(bytes: &[u8]) -> bool {
    let Some((mark, message)) = bytes.split_first_chunk::<MARK_BYTES>() else { return false };
    let mark = Mark::from_bytes(*mark);
    let is_sane = mark.last && mark.len <= RECORD_BYTES_MAX && mark.len.is_multiple_of(4);
    is_sane && mark.len >= 24 && is_message_head(message)
}

/// Tells whether bytes can only be the head of a call of NFS or MOUNT, or of a reply that was
/// accepted: at least five words have one value, or one of a few.
pub fn is_message_head(message: &[u8]) -> bool {
    match word(message, 1) {
        Some(CALL) => is_call_head(message),
        Some(REPLY) => {
            let (flavor, len) = (word(message, 3), word(message, 4));
            let accept_state = match (flavor, len) {
                (Some(0), Some(0)) => word(message, 5),
                (Some(FLAVOR_GSS), Some(len)) if len <= 400 => return word(message, 2) == Some(0),
                _ => return false,
            };
            word(message, 2) == Some(0)
                && accept_state.is_some_and(|state| state <= ACCEPT_STATE_MAX)
        }
        _ => false,
    }
}

/// Tells whether bytes can only be the head of a call of NFS or MOUNT.
pub fn is_call_head(message: &[u8]) -> bool {
    word(message, 1) == Some(CALL)
        && word(message, 2) == Some(RPC_VERSION)
        && word(message, 3).is_some_and(|program| PROGRAMS.contains(&program))
        && word(message, 4).is_some_and(|version| (1..=4).contains(&version))
        && word(message, 5).is_some_and(|procedure| procedure <= 21)
}

fn word(bytes: &[u8], number: usize) -> Option<u32> {
    bytes.get(4 * number..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
