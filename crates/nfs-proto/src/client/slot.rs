//! The calls in flight.
//!
//! [`SlotTable`] hands out slots and finds them by xid: the low bits are the slot's index, the high
//! bits its generation, which increases with every use. A slot keeps its buffer between uses,
//! including the common start of all calls of a session.

use super::operation::{Kind, OperationKind, PayloadRange};
use super::types::{Chunk, Framing};
use crate::limits::{CALL_HEADER_BYTES, SLOTS_MAX};
use crate::xdr::pad_len;

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    Free,
    Queued,
    Sent,
    /// Put off by the server, to be sent again at `retry_at_ns`.
    Waiting,
    /// Refused by a server that has forgotten the session; waiting for another one.
    Unbound,
    /// Its connection was lost.
    Lost,
}

/// One call in flight.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) state: SlotState,
    pub(super) xid: u32,
    pub(super) tag: u32,
    pub(super) kind: Kind,
    pub(super) started_ns: u64,
    pub(super) sent_ns: u64,
    /// When a datagram was last sent.
    pub(super) last_sent_ns: u64,
    /// When a sent or deferred call is to be sent again.
    pub(super) retry_at_ns: u64,
    /// How often it was sent again since the last major timeout.
    pub(super) retransmissions: u32,
    /// How often the server put it off.
    pub(super) delays: u32,
    /// Whether it was sent before, so that a reply may arrive in any state.
    pub(super) resent: bool,
    /// Whether it may be executed twice.
    pub(super) idempotent: bool,
    /// The xid of this slot's last answered call.
    pub(super) answered_xid: Option<u32>,
    /// Offset in the file at which a READ starts, in bytes.
    pub(super) offset: u64,
    /// Bytes that a READ requested.
    pub(super) requested: u32,
    /// Size of a WRITE's payload, wherever it is, in bytes.
    pub(super) payload_bytes: u32,
    /// Bytes sent first: mark, RPC header, arguments.
    pub(super) header: Vec<u8>,
    /// Payload sent next, with its padding.
    pub(super) payload: PayloadRange,
    generation: u32,
}

impl Slot {
    fn new(generation: u32, template: &[u8]) -> Self {
        let mut header = Vec::with_capacity(template.len() + CALL_HEADER_BYTES);
        header.extend_from_slice(template);
        Self {
            state: SlotState::Free,
            xid: 0,
            tag: 0,
            kind: Kind::File(OperationKind::Null),
            started_ns: 0,
            sent_ns: 0,
            last_sent_ns: 0,
            retry_at_ns: 0,
            retransmissions: 0,
            delays: 0,
            resent: false,
            idempotent: false,
            answered_xid: None,
            offset: 0,
            requested: 0,
            payload_bytes: 0,
            header,
            payload: PayloadRange::default(),
            generation,
        }
    }

    /// Returns the number of bytes sent after the header.
    pub(super) fn external_len(&self) -> usize {
        let len = self.payload.len as usize;
        len + pad_len(len)
    }

    /// Returns the total number of bytes sent.
    pub(super) fn wire_len(&self) -> usize {
        self.header.len() + self.external_len()
    }

    /// Returns the pieces to send after the first `skip` bytes.
    pub(super) fn chunks_after(&self, skip: usize) -> [Option<Chunk<'_>>; 3] {
        let header = self.header.get(skip..).unwrap_or_default();
        let skip = skip.saturating_sub(self.header.len());
        let len = self.payload.len as usize;
        let skipped = skip.min(len);
        let payload =
            PayloadRange { start: self.payload.start + skipped, len: (len - skipped) as u32 };
        let pad = &[0; 3][..pad_len(len) - (skip - skipped)];
        [
            (!header.is_empty()).then_some(Chunk::Bytes(header)),
            (payload.len > 0).then_some(Chunk::Pool(payload)),
            (!pad.is_empty()).then_some(Chunk::Bytes(pad)),
        ]
    }
}

/// All slots of a session.
#[derive(Debug)]
pub(super) struct SlotTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    used: usize,
    /// Number of slots with a call in flight.
    sent: usize,
    /// Only slots below this may be taken.
    limit: u32,
    index_bits: u32,
    /// Length of the common start of all calls, in bytes.
    template_bytes: usize,
    framing: Framing,
}

impl SlotTable {
    /// Creates `count` slots whose calls all start with `template`, each with room for a usual one.
    pub(super) fn new(count: usize, xid_seed: u32, template: &[u8], framing: Framing) -> Self {
        assert!((1..=SLOTS_MAX).contains(&count), "{count} slots of at most {SLOTS_MAX}");
        Self {
            slots: (0..count).map(|_| Slot::new(xid_seed, template)).collect(),
            // The free slots are a stack: the buffer of a slot used recently is in the cache. The
            // lowest index is on top, since a v4.1 server may retire high ones.
            free: (0..count as u32).rev().collect(),
            used: 0,
            sent: 0,
            limit: count as u32,
            index_bits: count.next_power_of_two().trailing_zeros(),
            template_bytes: template.len(),
            framing,
        }
    }

    /// Reserves room in every call for a copied payload of `bytes` bytes.
    pub(super) fn reserve_headers(&mut self, bytes: usize) {
        for slot in &mut self.slots {
            slot.header.reserve(CALL_HEADER_BYTES + bytes);
        }
    }

    /// Returns the number of slots in use.
    pub(super) fn used_count(&self) -> usize {
        self.used
    }

    /// Returns the number of calls in flight.
    pub(super) fn sent_count(&self) -> usize {
        self.sent
    }

    /// Changes the state of a slot.
    pub(super) fn set_state(&mut self, index: u32, state: SlotState) {
        let slot = &mut self.slots[index as usize];
        self.sent -= usize::from(slot.state == SlotState::Sent);
        self.sent += usize::from(state == SlotState::Sent);
        slot.state = state;
    }

    /// Allows only the first `count` slots to be taken from now on.
    pub(super) fn limit_to(&mut self, count: u32) {
        self.free.clear();
        self.limit = count.min(self.slots.len() as u32);
        let free = |index: &u32| self.slots[*index as usize].state == SlotState::Free;
        // Slots in use above a lowered limit complete their calls, and are not used afterwards.
        self.free.extend((0..self.limit).rev().filter(free));
    }

    /// Returns how many slots may be taken.
    pub(super) fn limit_count(&self) -> u32 {
        self.limit
    }

    pub(super) fn free_count(&self) -> usize {
        self.free.len()
    }

    pub(super) fn get(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    pub(super) fn in_use(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.state != SlotState::Free)
    }

    /// Returns the slot that is taken next.
    pub(super) fn next_free(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Takes a free slot and gives it a fresh xid.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let index = self.free.pop()?;
        self.used += 1;
        self.renew_xid(index);
        let slot = &mut self.slots[index as usize];
        slot.state = SlotState::Queued;
        slot.header.truncate(self.template_bytes);
        slot.payload = PayloadRange::default();
        slot.retransmissions = 0;
        slot.delays = 0;
        slot.resent = false;
        slot.offset = 0;
        slot.requested = 0;
        slot.payload_bytes = 0;
        Some(index)
    }

    /// Gives a slot an xid that none of its calls had for a long time.
    pub(super) fn renew_xid(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        // A reply finds its slot by the low bits of its xid, without a search. The high bits differ
        // between the calls of a slot, so that a late reply to an earlier one is not mistaken for
        // an answer: with 64 slots the same xid returns after 2^26 calls of that slot.
        slot.xid = slot.generation << self.index_bits | index;
    }

    /// Returns the indices of all slots.
    pub(super) fn indices(&self) -> std::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Frees a slot and returns its content.
    pub(super) fn release(&mut self, index: u32) -> &Slot {
        let slot = &mut self.slots[index as usize];
        debug_assert_ne!(slot.state, SlotState::Free, "a slot is freed once");
        self.sent -= usize::from(slot.state == SlotState::Sent);
        slot.state = SlotState::Free;
        self.used -= 1;
        // A slot above the limit, which the server has retired meanwhile, is not reused.
        if index < self.limit {
            self.free.push(index);
        }
        slot
    }

    /// Returns the slot whose call has this xid and was completely sent.
    pub(super) fn find_xid(&self, xid: u32) -> Option<u32> {
        let index = self.index_of(xid);
        let slot = self.slots.get(index as usize)?;
        let is_out = match slot.state {
            SlotState::Sent => true,
            // A call waiting to be retransmitted may be answered by the reply to its first copy.
            SlotState::Queued => self.framing == Framing::Datagram && slot.resent,
            _ => false,
        };
        (is_out && slot.xid == xid).then_some(index)
    }

    /// Returns true if this is the xid of the last answered call in its slot.
    pub(super) fn was_answered(&self, xid: u32) -> bool {
        let slot = self.slots.get(self.index_of(xid) as usize);
        slot.is_some_and(|slot| slot.answered_xid == Some(xid))
    }

    fn index_of(&self, xid: u32) -> u32 {
        xid & ((1 << self.index_bits) - 1)
    }

    /// Returns a slot in use with this tag.
    pub(super) fn find_tag(&self, tag: u32) -> Option<u32> {
        let in_use = |slot: &Slot| slot.state != SlotState::Free && slot.tag == tag;
        self.slots.iter().position(in_use).map(|index| index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_xid_only_while_pending() {
        let mut table = SlotTable::new(3, 7, b"template", Framing::Record);
        let index = table.take_free().unwrap();
        let xid = table.get(index).xid;
        assert_eq!(table.find_xid(xid), None);
        table.set_state(index, SlotState::Sent);
        assert_eq!(table.find_xid(xid), Some(index));
        assert_eq!(table.find_xid(xid | 3), None, "index 3 of 3 slots");
        table.release(index);
        assert_eq!(table.take_free(), Some(index));
        table.set_state(index, SlotState::Sent);
        assert_eq!(table.find_xid(xid), None, "an older generation");
    }

    #[test]
    fn chunks_add_up_wherever_sending_stopped() {
        let mut slot = Slot::new(0, &[]);
        slot.header.extend([1; 10]);
        slot.payload = PayloadRange { start: 100, len: 5 };
        assert_eq!(slot.wire_len(), 10 + 5 + 3);
        for skip in 0..=slot.wire_len() {
            let left: usize = slot
                .chunks_after(skip)
                .into_iter()
                .flatten()
                .map(|chunk| match chunk {
                    Chunk::Bytes(bytes) => bytes.len(),
                    Chunk::Pool(range) => {
                        assert_eq!(range.start + range.len as usize, 105);
                        range.len as usize
                    }
                })
                .sum();
            assert_eq!(left, slot.wire_len() - skip, "after {skip} bytes");
        }
    }
}
