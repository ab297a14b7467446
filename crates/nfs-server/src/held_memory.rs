//! The memory that one connection holds between its turns.
//!
//! During its turn a connection works in buffers of its thread. Anything it keeps after that, such
//! as a half-received call or half-sent replies, is charged to the budget shared by all
//! connections. Room for a long call is reserved in full before it is received, so that every call
//! that was started can be completed; if there is no room, the connection waits and its bytes stay
//! in the kernel's buffers. Short calls don't wait for long ones.

use std::sync::Arc;

use nfs_proto::limits::INPUT_BYTES_START;
use nfs_proto::record::buffer_len;

use crate::fs::{Charge, FsError};
use crate::limits::{CONNECTION_BYTES, INPUT_KEEP_BYTES, TLS_BYTES};
use crate::memory::{Memory, WaitingConnection};

/// See the module.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    memory: Arc<Memory>,
    connection: Charge,
    buffers: Charge,
    /// Room reserved for a long call.
    call: Charge,
    /// Whether the call that room was reserved for has been received completely.
    is_over: bool,
    waiting: Option<WaitingConnection>,
}

impl HeldMemory {
    /// Charges the memory of a new connection.
    ///
    /// # Errors
    /// `NoSpace` if there are already as many connections as the memory allows.
    pub(crate) fn take(memory: &Arc<Memory>) -> Result<Self, FsError> {
        Ok(Self {
            connection: Charge::take(&memory.connections, CONNECTION_BYTES)?,
            buffers: Charge::force(&memory.buffers, 0),
            call: Charge::force(&memory.long_calls, 0),
            is_over: false,
            waiting: None,
            memory: Arc::clone(memory),
        })
    }

    /// Charges the memory of the TLS state.
    ///
    /// # Errors
    /// `NoSpace` as for [`HeldMemory::take`].
    pub(crate) fn add_tls(&mut self) -> Result<(), FsError> {
        self.connection.resize(CONNECTION_BYTES + TLS_BYTES)
    }

    /// The memory of the server.
    pub(crate) fn server(&self) -> &Memory {
        &self.memory
    }

    /// Whether the connection waits for room to receive a long call.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether room for a long call is reserved.
    pub(crate) fn has_reserved(&self) -> bool {
        self.call.bytes() > 0
    }

    /// Reserves a buffer for a call of `bytes` that is being received. If there is no room now,
    /// returns false and makes the connection wait.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let bytes = buffer_len(bytes) as u64;
        // The last quarter is for calls that fit the smallest buffer, so that these never wait for
        // a long call that makes no progress.
        let limit_bytes = self.call.budget().limit_bytes();
        let is_short = is_short(bytes);
        let most_bytes = if is_short { limit_bytes } else { limit_bytes / 4 * 3 };
        let is_reserved =
            bytes <= self.call.bytes() || self.call.resize_in_turn(bytes, most_bytes).is_ok();
        if is_reserved {
            self.waiting = None;
            self.is_over = false;
        } else {
            self.wait(is_short);
        }
        is_reserved
    }

    /// Records that a call was received completely.
    pub(crate) fn note_call(&mut self) {
        self.is_over = true;
    }

    /// Makes the connection wait for its next call if the call it reserved room for is complete and
    /// others are waiting; returns whether it has to. Otherwise a connection with many calls in
    /// flight would keep the room forever. Short calls have their own room, so they yield only to
    /// short ones: else a few connections with long calls that never end would slow all others
    /// down.
    pub(crate) fn yield_room(&mut self) -> bool {
        if !self.is_over || !self.has_reserved() {
            return false;
        }
        let is_short = is_short(self.call.bytes());
        let others_wait =
            if is_short { self.memory.has_waiting_short() } else { self.memory.has_waiting() };
        if others_wait {
            self.release_call();
            self.wait(is_short);
        }
        others_wait
    }

    /// Returns the room reserved for a long call.
    pub(crate) fn release_call(&mut self) {
        // Most connections have none; then the budget is not touched.
        if self.has_reserved() {
            self.call.force_to(0);
        }
    }

    fn wait(&mut self, is_short: bool) {
        self.waiting.get_or_insert_with(|| WaitingConnection::begin(&self.memory, is_short));
    }

    /// Charges what the connection holds after its turn: `input` bytes of a half-received call, and
    /// `others`.
    ///
    /// # Errors
    /// `NoSpace` if there is no room.
    pub(crate) fn settle(&mut self, input: usize, others: usize) -> Result<(), FsError> {
        // Usually nothing is held and nothing has changed; then the budget is not touched.
        let beyond = (input as u64).saturating_sub(self.call.bytes());
        let most_bytes = self.buffers.budget().limit_bytes();
        self.buffers.resize_in_turn(beyond + others as u64, most_bytes)
    }

    /// Bytes of a call that may be received without a reservation.
    pub(crate) fn unreserved_max(&self, usual: usize) -> usize {
        if self.memory.is_tight() { INPUT_KEEP_BYTES } else { usual }
    }
}

/// Returns true if a call fits into the smallest buffer.
const fn is_short(bytes: u64) -> bool {
    bytes <= INPUT_BYTES_START as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: usize = 1 << 20;

    /// A server's memory with a little over 2 MiB for long calls, and some connections.
    fn connections(count: usize) -> (Arc<Memory>, Vec<HeldMemory>) {
        let memory = Arc::new(Memory::new(56 << 20, 1));
        assert!((2 << 20..3 << 20).contains(&memory.long_calls.limit_bytes()));
        let held = (0..count).map(|_| HeldMemory::take(&memory).unwrap()).collect();
        (memory, held)
    }

    #[test]
    fn long_calls_take_turns() {
        let (memory, mut held) = connections(4);
        assert!(held[0].reserve(CALL));
        assert!(held[1].reserve(CALL / 2));
        assert!(!held[2].reserve(CALL));
        assert!(held[3].reserve(40_000), "a short call does not wait behind them");
        assert!(held[2].is_waiting() && memory.has_waiting());
        held[0].settle(CALL, 0).unwrap();
        assert!(!held[2].reserve(CALL), "the call is still being received");
        assert_eq!(held[2].settle(4096, 0), Ok(()), "other connections have their own share");
        held[0].release_call();
        assert!(held[2].reserve(CALL));
        assert!(!held[2].is_waiting() && !memory.has_waiting());
        drop(held);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn a_busy_connection_yields_to_others() {
        let (_memory, mut held) = connections(3);
        assert!(held[0].reserve(CALL));
        assert!(held[1].reserve(CALL / 2));
        held[0].note_call();
        assert!(!held[0].yield_room(), "nobody waits");
        assert!(held[0].reserve(CALL), "it continues with the same memory");
        assert!(!held[2].reserve(CALL));
        assert!(!held[0].yield_room(), "its call is in progress");
        held[0].note_call();
        assert!(held[0].yield_room());
        assert!(held[0].is_waiting() && held[2].reserve(CALL));
    }

    #[test]
    fn yields_only_to_short_calls() {
        let (memory, mut held) = connections(4);
        assert!(held[0].reserve(CALL) && held[3].reserve(CALL / 2) && held[1].reserve(40_000));
        assert!(!held[2].reserve(CALL), "a long call waits");
        held[1].note_call();
        assert!(!held[1].yield_room());
        let _short = WaitingConnection::begin(&memory, true);
        assert!(held[1].yield_room());
    }

    #[test]
    fn what_fits_nowhere_closes_the_connection() {
        let (memory, mut held) = connections(1000);
        let closed = held.iter_mut().filter_map(|held| held.settle(4096, 0).err()).count();
        let room = memory.buffers.limit_bytes() / 4096;
        assert_eq!(closed as u64, 1000 - room);
        assert!(memory.is_tight());
        assert_eq!(held[0].unreserved_max(1 << 16), INPUT_KEEP_BYTES);
    }

    #[test]
    fn one_call_fits_the_smallest_memory() {
        let memory = Arc::new(Memory::new(1 << 20, 1));
        let mut held = [(); 2].map(|()| HeldMemory::take(&memory).unwrap());
        assert!(held[0].reserve(4 * CALL));
        assert!(!held[1].reserve(4 * CALL));
        held[0].release_call();
        assert!(held[1].reserve(4 * CALL));
    }

    #[test]
    fn connections_have_a_budget() {
        let memory = Arc::new(Memory::new(1 << 20, 1));
        let most = (memory.connections.limit_bytes() / CONNECTION_BYTES) as usize;
        let held: Vec<_> = (0..most).map(|_| HeldMemory::take(&memory).unwrap()).collect();
        assert_eq!(HeldMemory::take(&memory).err(), Some(FsError::NoSpace));
        drop(held);
        assert_eq!(memory.used_bytes(), 0);
    }
}
