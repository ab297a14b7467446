//! Sessions of v4.1: channels, slots, and the reply cache that gives calls exactly-once semantics.
//!
//! A slot's lock is held from SEQUENCE until the reply is cached, so a call that is retransmitted
//! while the first is in progress waits and then gets the cached reply. Calls on different slots
//! share no other lock.
//!
//! **Source:** RFC 8881 sections 2.10.6 and 18.46.

use std::sync::{Arc, Mutex, MutexGuard};

use nfs_proto::Status;
use nfs_proto::nfs4::ChannelAttributes;
use nfs_proto::nfs4::sequence_status::{CB_PATH_DOWN, CB_PATH_DOWN_SESSION};

use super::backchannel::Backchannel;
use super::client::Client;
use crate::callback_line::CallbackLine;
use crate::fs::Charge;
use crate::sync;

/// A session of a client.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its key in the registry.
    pub(super) key: u64,
    /// Its client.
    pub(crate) client: Arc<Client>,
    /// The limits of the client's calls.
    pub(crate) fore: ChannelAttributes,
    /// The channel for calling the client.
    pub(crate) backchannel: Backchannel,
    slots: Box<[Mutex<Slot>]>,
    /// The memory of the session; cached replies are added to its budget individually.
    charge: Charge,
}

/// One slot: the last call on it and the reply.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    sequence: u32,
    fingerprint: CallFingerprint,
    reply: Vec<u8>,
    kept: bool,
}

/// The properties that distinguish calls, as far as they are available at no cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallFingerprint {
    /// Number of operations.
    pub(crate) operations: u32,
    /// Length in bytes.
    pub(crate) bytes: usize,
}

/// How a call relates to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotTurn {
    /// A new call: execute it.
    New,
    /// The last call again, and its reply is cached.
    Kept,
    /// The last call again, but its reply was not cached.
    NotKept,
}

impl Session {
    pub(super) fn new(
        key: u64,
        client: Arc<Client>,
        fore: ChannelAttributes,
        back: &ChannelAttributes,
        charge: Charge,
    ) -> Self {
        let slots = (0..fore.requests_max).map(|_| Mutex::default()).collect();
        let backchannel = Backchannel::new(session_name(client.id, key), back);
        Self { key, client, fore, backchannel, slots, charge }
    }

    /// Its id: the client's id and its own key.
    pub(crate) fn id(&self) -> [u8; 16] {
        session_name(self.client.id, self.key)
    }

    /// Binds a connection to its backchannel, too.
    pub(crate) fn bind_backchannel(&self, line: Option<&Arc<CallbackLine>>) {
        if let Some(line) = line {
            self.backchannel.bind(line);
            self.client.clear_flags(CB_PATH_DOWN | CB_PATH_DOWN_SESSION);
        }
    }

    /// Locks a slot.
    ///
    /// # Errors
    /// `BadSlot` if there is no such slot.
    pub(crate) fn lock_slot(&self, slot: u32) -> Result<MutexGuard<'_, Slot>, Status> {
        let slot = self.slots.get(slot as usize).ok_or(Status::BadSlot)?;
        Ok(sync::lock(slot))
    }

    /// Whether one more reply can be cached on a slot; once it has been possible, it stays so.
    pub(crate) fn can_keep(&self, slot: &Slot) -> bool {
        // A client can rely on a slot once a reply was cached there: refusing it later, in the
        // middle of its work, would fail calls that can't be repeated safely.
        let bytes = u64::from(self.fore.cached_bytes_max);
        slot.reply.capacity() > 0 || self.charge.budget().has_room(bytes)
    }

    /// Caches the reply to the last call on a slot.
    pub(crate) fn keep_reply(&self, slot: &mut Slot, reply: &[u8]) {
        // The buffer of a slot only grows, up to the session's limit, and its capacity is charged:
        // it keeps that even after a shorter reply.
        let before = slot.reply.capacity();
        slot.store_reply(reply);
        self.charge.budget().add((slot.reply.capacity() - before) as u64);
    }

    /// Number of the highest slot.
    pub(crate) fn slot_highest(&self) -> u32 {
        self.fore.requests_max.saturating_sub(1)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let kept: usize = self.slots.iter().map(|slot| sync::lock(slot).reply.capacity()).sum();
        self.charge.budget().subtract(kept as u64);
    }
}

fn session_name(client: u64, key: u64) -> [u8; 16] {
    (u128::from(client) << 64 | u128::from(key)).to_be_bytes()
}

impl Slot {
    /// Orders a call by its sequence; changes nothing.
    ///
    /// # Errors
    /// `SeqMisordered`.
    pub(crate) fn place_call(&self, sequence: u32) -> Result<SlotTurn, Status> {
        // A slot has one call at a time, numbered by the client. The next number means a new call
        // and proves that the last reply arrived; the same number is a retransmission; anything
        // else is out of order (RFC 8881 section 2.10.6.1).
        if sequence == self.sequence.wrapping_add(1) {
            return Ok(SlotTurn::New);
        }
        // A slot that was never used has nothing to retransmit: its sequence 0 was not a call,
        // unless the numbers have wrapped around to it.
        if sequence != self.sequence || sequence == 0 && !self.kept {
            return Err(Status::SeqMisordered);
        }
        Ok(if self.kept { SlotTurn::Kept } else { SlotTurn::NotKept })
    }

    /// Returns true if a call with the sequence of the last one is a different call. A lone
    /// SEQUENCE, which queries the state of the slot, is not counted as one if no reply was cached.
    ///
    /// **Source:** RFC 8881 section 2.10.6.1.3.1.
    pub(crate) fn is_false_retry(&self, fingerprint: CallFingerprint) -> bool {
        fingerprint != self.fingerprint && (self.kept || fingerprint.operations > 1)
    }

    /// Starts a new call; its reply follows, unless none is cached.
    pub(crate) fn begin_call(&mut self, sequence: u32, fingerprint: CallFingerprint) {
        self.sequence = sequence;
        self.fingerprint = fingerprint;
        self.kept = false;
        self.reply.clear();
    }

    /// Keeps a reply.
    fn store_reply(&mut self, reply: &[u8]) {
        self.kept = true;
        self.reply.clear();
        self.reply.extend_from_slice(reply);
    }

    /// The cached reply.
    pub(crate) fn reply(&self) -> &[u8] {
        &self.reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advances_slot_and_caches_reply() {
        let mut slot = Slot::default();
        for wrong in [0, 2, u32::MAX] {
            assert_eq!(slot.place_call(wrong), Err(Status::SeqMisordered), "{wrong}");
        }
        assert_eq!(slot.place_call(1), Ok(SlotTurn::New));
        slot.begin_call(1, CallFingerprint::default());
        assert_eq!(slot.place_call(1), Ok(SlotTurn::NotKept));
        slot.store_reply(b"one");
        assert_eq!(slot.place_call(1), Ok(SlotTurn::Kept));
        assert_eq!(slot.reply(), b"one");
        assert_eq!(slot.place_call(0), Err(Status::SeqMisordered));
        assert_eq!(slot.place_call(3), Err(Status::SeqMisordered));
        assert_eq!(slot.place_call(2), Ok(SlotTurn::New));
        slot.begin_call(2, CallFingerprint::default());
        assert_eq!(slot.place_call(2), Ok(SlotTurn::NotKept), "the replies of 1 and 2 differ");
    }

    #[test]
    fn sequences_wrap_around() {
        let mut slot = Slot::default();
        slot.begin_call(u32::MAX, CallFingerprint::default());
        slot.store_reply(b"last");
        assert_eq!(slot.place_call(0), Ok(SlotTurn::New));
        slot.begin_call(0, CallFingerprint::default());
        slot.store_reply(b"zero");
        assert_eq!(slot.place_call(0), Ok(SlotTurn::Kept));
        assert_eq!(slot.place_call(1), Ok(SlotTurn::New));
    }
}
