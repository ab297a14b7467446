//! The memory of a server, divided among its users.
//!
//! Files have most of it ([`model::server_memory`]). The rest is divided into budgets of fixed
//! size, so that none can starve another: many clients leave room for connections, and long calls
//! leave room for small ones. The remainder is for buffers that the threads keep warm, and for
//! copies that exceed the files' limit for a moment. A thread's own buffer, in which one call at a
//! time is received and answered, belongs to the thread and is not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use model::server_memory::file_bytes;

use crate::fs::{Budget, COPY_SHARE, Charge};
use crate::limits::{OUTBOX_BYTES_MAX, OUTBOX_BYTES_TIGHT};

/// The budgets other than that of the files.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Memory that every connection needs, even if it is only a socket.
    pub(crate) connections: Arc<Budget>,
    /// Long calls that are being received, each charged in full.
    pub(crate) long_calls: Arc<Budget>,
    /// The first bytes of other calls, and half-sent replies.
    pub(crate) buffers: Arc<Budget>,
    /// v4 clients and their state, and replies kept for repeated calls.
    pub(crate) clients: Arc<Budget>,
    /// Bytes of buffers that each thread may keep for its next connections.
    pub(crate) spare_bytes_max: usize,
    /// Number of connections waiting for room to receive a call, and how many of them have a short
    /// call.
    waiting: AtomicUsize,
    waiting_short: AtomicUsize,
    /// How often a client was refused because memory ran out.
    clients_refused: AtomicU64,
}

impl Memory {
    /// Divides the part of `memory_bytes` that is not for files.
    pub(crate) fn new(memory_bytes: u64, threads: usize) -> Self {
        let files = file_bytes(memory_bytes);
        let sixteenth = (memory_bytes - files).saturating_sub(files / COPY_SHARE) / 16;
        Self {
            connections: Budget::new(4 * sixteenth),
            long_calls: Budget::new(3 * sixteenth),
            buffers: Budget::new(3 * sixteenth),
            clients: Budget::new(5 * sixteenth),
            spare_bytes_max: sixteenth as usize / threads.max(1),
            waiting: AtomicUsize::new(0),
            waiting_short: AtomicUsize::new(0),
            clients_refused: AtomicU64::new(0),
        }
    }

    /// Takes memory for a client, or counts a refusal.
    pub(crate) fn take_for_client(&self, bytes: u64) -> Option<Charge> {
        let taken = Charge::take(&self.clients, bytes).ok();
        if taken.is_none() {
            self.note_client_refused();
        }
        taken
    }

    /// Counts a refused client.
    pub(crate) fn note_client_refused(&self) {
        self.clients_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a client was refused because memory ran out.
    pub(crate) fn clients_refused(&self) -> u64 {
        self.clients_refused.load(Ordering::Relaxed)
    }

    /// Bytes currently charged.
    pub(crate) fn used_bytes(&self) -> u64 {
        let budgets = [&self.connections, &self.long_calls, &self.buffers, &self.clients];
        budgets.iter().map(|budget| budget.used_bytes()).sum()
    }

    /// Whether so much buffer memory is in use that connections get small buffers.
    pub(crate) fn is_tight(&self) -> bool {
        self.buffers.used_bytes() > self.buffers.limit_bytes() / 2
    }

    /// Bytes of unsent replies beyond which no more requests are read from a connection.
    pub(crate) fn outbox_bytes_max(&self) -> usize {
        if self.is_tight() { OUTBOX_BYTES_TIGHT } else { OUTBOX_BYTES_MAX }
    }

    /// Whether connections are waiting for room to receive a call.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether connections are waiting for room to receive a short call.
    pub(crate) fn has_waiting_short(&self) -> bool {
        self.waiting_short.load(Ordering::Relaxed) > 0
    }
}

/// Counts a connection as waiting until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingConnection {
    memory: Arc<Memory>,
    is_short: bool,
}

impl WaitingConnection {
    /// Counts one more waiting connection, with a short or a long call.
    pub(crate) fn begin(memory: &Arc<Memory>, is_short: bool) -> Self {
        memory.waiting.fetch_add(1, Ordering::Relaxed);
        memory.waiting_short.fetch_add(usize::from(is_short), Ordering::Relaxed);
        Self { memory: Arc::clone(memory), is_short }
    }
}

impl Drop for WaitingConnection {
    fn drop(&mut self) {
        self.memory.waiting.fetch_sub(1, Ordering::Relaxed);
        self.memory.waiting_short.fetch_sub(usize::from(self.is_short), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_limit() {
        for memory_bytes in [1 << 20, 3 << 20, 64 << 20, 192 << 20, 1 << 30, 1 << 40] {
            let memory = Memory::new(memory_bytes, 4);
            let files = file_bytes(memory_bytes);
            let budgets =
                [&memory.connections, &memory.long_calls, &memory.buffers, &memory.clients];
            let limits: u64 = budgets.iter().map(|budget| budget.limit_bytes()).sum();
            let spare = 4 * memory.spare_bytes_max as u64;
            let all = files + files / COPY_SHARE + limits + spare;
            assert!(all <= memory_bytes, "{all} of {memory_bytes}");
            assert!(all > memory_bytes - 64, "{all} of {memory_bytes}");
        }
    }

    #[test]
    fn waiting_connections_are_counted() {
        let memory = Arc::new(Memory::new(64 << 20, 1));
        let long = WaitingConnection::begin(&memory, false);
        assert!(memory.has_waiting() && !memory.has_waiting_short());
        let short = WaitingConnection::begin(&memory, true);
        drop(long);
        assert!(memory.has_waiting() && memory.has_waiting_short());
        drop(short);
        assert!(!memory.has_waiting() && !memory.has_waiting_short());
    }
}
