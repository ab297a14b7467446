//! The line of calls that are to be sent, and how far they have gone.
//!
//! On a stream the calls in line are one run of bytes, headers and payloads in turn, of which any
//! number may be taken; a datagram is one call without its mark. Answers to the server's callbacks
//! stand in the same line.

use super::session::{ANSWERS, Session};
use super::slot::SlotState;
use super::types::{Chunk, Framing};
use crate::limits::MARK_BYTES;
use crate::record;

impl Session {
    /// Makes room in every call for a payload of so many bytes that is copied, so that none of them
    /// allocates later.
    pub fn reserve_copies(&mut self, bytes: u32) {
        self.table.reserve_headers(bytes as usize);
    }

    /// Tells whether bytes wait to be sent.
    pub fn wants_write(&self) -> bool {
        !self.queue.is_empty() && self.may_send()
    }

    /// Says whether the window has room: a stream has a window of its own below.
    fn may_send(&self) -> bool {
        self.framing == Framing::Record || self.congestion.allows_call(self.table.sent_count())
    }

    /// Iterates over what is to be sent next on a stream, for one vectored write.
    pub fn outgoing(&self) -> impl Iterator<Item = Chunk<'_>> {
        // Only the first call of the queue can have left in part: a stream takes bytes in order.
        self.queue.iter().enumerate().flat_map(|(position, index)| {
            let skip = if position == 0 { self.queue_offset } else { 0 };
            self.chunks_of(*index, self.unframed_bytes() + skip)
        })
    }

    /// Iterates over the pieces of the next datagram; none where nothing waits, or the window has
    /// no room. After sending it state its length by [`Session::sent`].
    pub fn outgoing_datagram(&self) -> impl Iterator<Item = Chunk<'_>> {
        let next = self.queue.front().filter(|_| self.may_send());
        next.into_iter().flat_map(|index| self.chunks_of(*index, self.unframed_bytes()))
    }

    /// States that the first `len` bytes of [`Session::outgoing`] were handed to the stream by a
    /// write that began at `now_ns`.
    ///
    /// # Panics
    /// When more bytes are stated than were offered.
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
            // The service time of a call begins with the write that sent its first byte, and is not
            // begun again by a retransmission: what the server took to answer at all is what is
            // measured.
            if self.queue_offset == 0 && !slot.resent {
                slot.sent_ns = now_ns;
            }
            // A write may end within a call. What is left of it goes first next time, and no reply
            // is accepted before its last byte is out.
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

    /// Completes the mark of an encoded call and puts it in line.
    pub(super) fn enqueue_call(&mut self, index: u32) {
        let slot = self.table.get_mut(index);
        let external = slot.external_len();
        record::end(&mut slot.header, 0, external);
        self.table.set_state(index, SlotState::Queued);
        self.queue.push_back(index);
    }

    /// Iterates over what is left to be sent of a call in line, or of the answers to callbacks.
    fn chunks_of(&self, index: u32, skip: usize) -> impl Iterator<Item = Chunk<'_>> {
        let pieces = if index == ANSWERS {
            [Some(Chunk::Bytes(&self.callbacks.bytes()[skip..])), None, None]
        } else {
            self.table.get(index).chunks_after(skip)
        };
        pieces.into_iter().flatten()
    }

    /// Moves past answers to callbacks, and returns how many of `len` bytes were theirs.
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

    /// Bytes of a framed call that this transport leaves out.
    fn unframed_bytes(&self) -> usize {
        if self.framing == Framing::Datagram { MARK_BYTES } else { 0 }
    }
}
