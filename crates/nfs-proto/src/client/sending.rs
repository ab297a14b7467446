//! The queue of calls to send, and how much of it has been sent.
//!
//! On a stream the queued calls are one sequence of bytes, headers and payloads in turn, of which
//! any number may be taken; a datagram is one call without its mark. Answers to the server's
//! callbacks are in the same queue.

use super::session::{ANSWERS, Session};
use super::slot::SlotState;
use super::types::{Chunk, Framing};
use crate::limits::MARK_BYTES;
use crate::record;

impl Session {
    /// Reserves room in every call for a copied payload of `bytes` bytes, so that none of them
    /// allocates later.
    pub fn reserve_copies(&mut self, bytes: u32) {
        self.table.reserve_headers(bytes as usize);
    }

    /// Reserves memory for replies that are not READs, with up to `bytes` bytes of data, so that
    /// receiving READ_PLUS or READDIR never allocates.
    pub fn reserve_replies(&mut self, bytes: u32) {
        self.receiver.reserve_head(bytes as usize);
    }

    /// Returns true if bytes are waiting to be sent.
    pub fn wants_write(&self) -> bool {
        !self.queue.is_empty() && self.may_send()
    }

    /// Returns true if the window has room; a stream leaves that to TCP.
    fn may_send(&self) -> bool {
        self.framing == Framing::Record || self.congestion.allows_call(self.table.sent_count())
    }

    /// Iterates over the next bytes to send on a stream, for one vectored write.
    pub fn outgoing(&self) -> impl Iterator<Item = Chunk<'_>> {
        // Only the first call in the queue can be partly sent: a stream takes bytes in order.
        self.queue.iter().enumerate().flat_map(|(position, index)| {
            let skip = if position == 0 { self.queue_offset } else { 0 };
            self.chunks_of(*index, self.unframed_bytes() + skip)
        })
    }

    /// Iterates over the pieces of the next datagram; empty if nothing is waiting or the window has
    /// no room. After sending it, report its length with [`Session::sent`].
    pub fn outgoing_datagram(&self) -> impl Iterator<Item = Chunk<'_>> {
        let next = self.queue.front().filter(|_| self.may_send());
        next.into_iter().flat_map(|index| self.chunks_of(*index, self.unframed_bytes()))
    }

    /// Reports that the first `len` bytes of [`Session::outgoing`] were handed to the stream by a
    /// write that started at `now_ns`.
    ///
    /// # Panics
    /// If `len` is more than was offered.
    pub fn sent(&mut self, now_ns: u64, mut len: usize) {
        self.counters.wire_bytes_out += len as u64;
        let unframed = self.unframed_bytes();
        while len > 0 {
            let index = *self.queue.front().expect("no more bytes sent than were offered");
            if index == ANSWERS {
                len -= self.answers_sent(len);
                continue;
            }
            let slot = self.table.get_mut(index);
            // The service time of a call starts with the write that sent its first byte, and a
            // retransmission does not restart it: we measure how long the server took to answer at
            // all.
            if self.queue_offset == 0 && !slot.resent {
                slot.sent_ns = now_ns;
            }
            // A write may end within a call. The rest goes first next time, and no reply is
            // accepted before its last byte is sent.
            let left = slot.wire_len() - unframed - self.queue_offset;
            if len < left {
                self.queue_offset += len;
                return;
            }
            len -= left;
            self.queue_offset = 0;
            self.queue.pop_front();
            if !slot.resent {
                self.counters.calls_sent += 1;
                self.counters.payload_bytes_out += u64::from(slot.payload_bytes);
            }
            self.table.set_state(index, SlotState::Sent);
            self.set_timer(index, now_ns);
        }
    }

    /// Completes the mark of an encoded call and queues it.
    pub(super) fn enqueue_call(&mut self, index: u32) {
        let slot = self.table.get_mut(index);
        let external = slot.external_len();
        record::end(&mut slot.header, 0, external);
        self.table.set_state(index, SlotState::Queued);
        self.queue.push_back(index);
    }

    /// Iterates over the unsent rest of a queued call, or of the answers to callbacks.
    fn chunks_of(&self, index: u32, skip: usize) -> impl Iterator<Item = Chunk<'_>> {
        let pieces = if index == ANSWERS {
            [Some(Chunk::Bytes(&self.callbacks.bytes()[skip..])), None, None]
        } else {
            self.table.get(index).chunks_after(skip)
        };
        pieces.into_iter().flatten()
    }

    /// Advances past answers to callbacks, and returns how many of `len` bytes belonged to them.
    fn answers_sent(&mut self, len: usize) -> usize {
        let left = self.callbacks.bytes().len() - self.queue_offset;
        if len < left {
            self.queue_offset += len;
            return len;
        }
        self.queue_offset = 0;
        self.queue.pop_front();
        self.callbacks.clear();
        left
    }

    /// Bytes of a framed call that this transport omits.
    fn unframed_bytes(&self) -> usize {
        if self.framing == Framing::Datagram { MARK_BYTES } else { 0 }
    }
}
