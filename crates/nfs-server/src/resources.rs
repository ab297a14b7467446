//! Buffers that a thread lends to the connection it is currently serving.
//!
//! An idle connection owns no buffer: it borrows one to receive into and one to answer into, and
//! returns them unless a record or a reply is incomplete. So ten thousand connections cost little,
//! and the buffers in use stay warm.

use std::collections::VecDeque;
use std::io;

use nfs_proto::limits::{INPUT_BYTES_START, TRANSFER_BYTES_MAX};

use crate::delay::Delays;
use crate::limits::SPARE_BUFFERS_MAX;
use crate::outbox::Outbox;
use crate::service::Service;

/// See the module.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) service: Service,
    pub(crate) delays: Delays,
    /// Connections waiting for room to receive a long call, by token; some may be gone.
    pub(crate) waiting: VecDeque<u64>,
    /// One is the thread's own; the others are bounded in total.
    buffers: Vec<Vec<u8>>,
    /// Space for payload that is dropped, as long as the longest; never touched, so it has no
    /// memory.
    pub(crate) dropped: Vec<u8>,
    outbox: Outbox,
}

impl Resources {
    /// Creates a thread's resources.
    pub(crate) fn new(service: Service) -> io::Result<Self> {
        Ok(Self {
            service,
            delays: Delays::new()?,
            waiting: VecDeque::new(),
            buffers: Vec::new(),
            dropped: vec![0; TRANSFER_BYTES_MAX as usize],
            outbox: Outbox::default(),
        })
    }

    /// Lends a buffer to receive into.
    pub(crate) fn lend_buffer(&mut self) -> Vec<u8> {
        // The last one returned is most likely still in the CPU's cache.
        self.buffers.pop().unwrap_or_else(|| vec![0; INPUT_BYTES_START])
    }

    /// Takes a buffer back, or frees it if there are enough or it is small.
    pub(crate) fn return_buffer(&mut self, buffer: Vec<u8>) {
        if buffer.len() < INPUT_BYTES_START {
            return;
        }
        let spare = self.buffers.iter().skip(1).map(Vec::len).sum::<usize>() + buffer.len();
        let has_room = spare <= self.service.shared.memory.spare_bytes_max;
        if self.buffers.is_empty() || self.buffers.len() < SPARE_BUFFERS_MAX && has_room {
            self.buffers.push(buffer);
        }
    }

    /// Lends the warm outbox to a connection whose own is empty.
    pub(crate) fn lend_outbox(&mut self, outbox: &mut Outbox) {
        debug_assert!(outbox.bytes() == 0, "only if nothing is waiting");
        std::mem::swap(&mut self.outbox, outbox);
    }

    /// Takes back an outbox that is now empty; frees it if the warm one is still here.
    pub(crate) fn return_outbox(&mut self, outbox: &mut Outbox) {
        debug_assert!(outbox.bytes() == 0, "only if nothing is waiting");
        let returned = std::mem::take(outbox);
        if !self.outbox.is_warm() {
            self.outbox = returned;
        }
    }
}
