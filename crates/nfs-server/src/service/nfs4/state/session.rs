//! Sessions of v4.1: channels, slots, and the reply cache that makes calls happen exactly once.
//!
//! A slot's lock is held from SEQUENCE until the reply is kept, so a call that is sent again while
//! the first is carried out waits and then gets the kept reply. Nothing else is locked for calls
//! on different slots.
//!
//! **Source:** RFC 8881 sections 2.10.6 and 18.46.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfs_proto::Status;

use super::client::Client;
use crate::limits::NFS4_KEPT_BYTES_MAX;

/// The limits of one channel of a session. **Source:** RFC 8881 section 18.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct Channel {
    /// Longest request in bytes, without the record mark.
    pub(in crate::service) request_bytes_max: u32,
    /// Longest reply in bytes.
    pub(in crate::service) reply_bytes_max: u32,
    /// Longest reply that is kept, in bytes.
    pub(in crate::service) kept_bytes_max: u32,
    /// Most operations in a compound.
    pub(in crate::service) operations_max: u32,
    /// Number of slots.
    pub(in crate::service) slots: u32,
}

/// The session that CREATE_SESSION granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct CreatedSession {
    /// The session's name.
    pub(in crate::service) id: [u8; 16],
    /// The csa_sequence that made it.
    pub(in crate::service) sequence: u32,
    /// Flags that were granted.
    pub(in crate::service) flags: u32,
    /// From client to server.
    pub(in crate::service) fore: Channel,
    /// From server to client.
    pub(in crate::service) back: Channel,
}

/// A session of a client.
#[derive(Debug)]
pub(in crate::service) struct Session {
    /// Its number in the registry.
    pub(super) key: u64,
    /// Whose it is.
    pub(in crate::service) client: Arc<Client>,
    /// The limits of its calls.
    pub(in crate::service) fore: Channel,
    slots: Box<[Mutex<Slot>]>,
    /// Bytes of kept replies of all sessions.
    kept_bytes: Arc<AtomicUsize>,
}

/// One slot: the last call on it and the reply.
#[derive(Debug, Default)]
pub(in crate::service) struct Slot {
    sequence: u32,
    asked: Asked,
    reply: Vec<u8>,
    kept: bool,
}

/// The properties that tell one call from another, as far as it costs nothing to know them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::service) struct Asked {
    /// Number of operations.
    pub(in crate::service) operations: u32,
    /// Length in bytes.
    pub(in crate::service) bytes: usize,
}

/// The slot's state that SEQUENCE finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) enum SlotTurn {
    /// A new call: carry it out.
    New,
    /// The last call again, with its reply kept.
    Kept,
    /// The last call again, with no reply kept.
    NotKept,
}

impl Session {
    pub(super) fn new(
        key: u64,
        client: Arc<Client>,
        fore: Channel,
        kept_bytes: Arc<AtomicUsize>,
    ) -> Self {
        let slots = (0..fore.slots).map(|_| Mutex::default()).collect();
        Self { key, client, fore, slots, kept_bytes }
    }

    /// Its name: the client's id and its own number.
    pub(in crate::service) fn id(&self) -> [u8; 16] {
        (u128::from(self.client.id) << 64 | u128::from(self.key)).to_be_bytes()
    }

    /// Locks a slot.
    ///
    /// # Errors
    /// `BadSlot` where there is no such slot.
    pub(in crate::service) fn slot(&self, slot: u32) -> Result<MutexGuard<'_, Slot>, Status> {
        let slot = self.slots.get(slot as usize).ok_or(Status::BadSlot)?;
        Ok(slot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether one more reply can be kept on a slot: what was kept there once always can.
    pub(in crate::service) fn can_keep(&self, slot: &Slot) -> bool {
        slot.reply.capacity() > 0 || self.kept_bytes.load(Ordering::Relaxed) < NFS4_KEPT_BYTES_MAX
    }

    /// Keeps the reply of the last call on a slot.
    pub(in crate::service) fn keep(&self, slot: &mut Slot, reply: &[u8]) {
        let before = slot.reply.capacity();
        slot.keep(reply);
        self.kept_bytes.fetch_add(slot.reply.capacity() - before, Ordering::Relaxed);
    }

    /// The highest slot.
    pub(in crate::service) fn slot_highest(&self) -> u32 {
        self.fore.slots.saturating_sub(1)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let slots = self.slots.iter_mut().map(Mutex::get_mut);
        let kept = slots.map(|slot| slot.map_or(0, |slot| slot.reply.capacity())).sum();
        self.kept_bytes.fetch_sub(kept, Ordering::Relaxed);
    }
}

impl Slot {
    /// Places a call by its sequence; changes nothing.
    ///
    /// # Errors
    /// `SeqMisordered`.
    pub(in crate::service) fn turn(&self, sequence: u32) -> Result<SlotTurn, Status> {
        if sequence == self.sequence.wrapping_add(1) {
            return Ok(SlotTurn::New);
        }
        // A slot that was never used has nothing to send again.
        if sequence != self.sequence || sequence == 0 && !self.kept {
            return Err(Status::SeqMisordered);
        }
        Ok(if self.kept { SlotTurn::Kept } else { SlotTurn::NotKept })
    }

    /// Whether a call with the sequence of the last one is another: a SEQUENCE alone, which asks
    /// how the slot stands, is none where no reply was kept.
    ///
    /// **Source:** RFC 8881 section 2.10.6.1.3.1.
    pub(in crate::service) fn is_false_retry(&self, asked: Asked) -> bool {
        asked != self.asked && (self.kept || asked.operations > 1)
    }

    /// Takes a new call; its reply follows, or none will be kept.
    pub(in crate::service) fn begin(&mut self, sequence: u32, asked: Asked) {
        self.sequence = sequence;
        self.asked = asked;
        self.kept = false;
        self.reply.clear();
    }

    /// Keeps a reply.
    fn keep(&mut self, reply: &[u8]) {
        self.kept = true;
        self.reply.clear();
        self.reply.extend_from_slice(reply);
    }

    /// The reply kept.
    pub(in crate::service) fn reply(&self) -> &[u8] {
        &self.reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_goes_one_step_at_a_time_and_remembers_the_last() {
        let mut slot = Slot::default();
        for wrong in [0, 2, u32::MAX] {
            assert_eq!(slot.turn(wrong), Err(Status::SeqMisordered), "{wrong}");
        }
        assert_eq!(slot.turn(1), Ok(SlotTurn::New));
        slot.begin(1, Asked::default());
        assert_eq!(slot.turn(1), Ok(SlotTurn::NotKept));
        slot.keep(b"one");
        assert_eq!(slot.turn(1), Ok(SlotTurn::Kept));
        assert_eq!(slot.reply(), b"one");
        assert_eq!(slot.turn(0), Err(Status::SeqMisordered));
        assert_eq!(slot.turn(3), Err(Status::SeqMisordered));
        assert_eq!(slot.turn(2), Ok(SlotTurn::New));
        slot.begin(2, Asked::default());
        assert_eq!(slot.turn(2), Ok(SlotTurn::NotKept), "the reply of 1 is not that of 2");
    }

    #[test]
    fn sequences_wrap_around() {
        let mut slot = Slot::default();
        slot.begin(u32::MAX, Asked::default());
        slot.keep(b"last");
        assert_eq!(slot.turn(0), Ok(SlotTurn::New));
        slot.begin(0, Asked::default());
        slot.keep(b"zero");
        assert_eq!(slot.turn(0), Ok(SlotTurn::Kept));
        assert_eq!(slot.turn(1), Ok(SlotTurn::New));
    }
}
