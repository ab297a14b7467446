//! Notices between hosts that share a replay.
//!
//! When a step ends that another host's step waits for, that host gets a notice with the handle
//! returned by the reply. [`Exchange`] is an executor's interface: a queue of incoming notices with
//! a descriptor for wakeups, and a queue of outgoing ones. How they are transported is not its
//! concern.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use nfs_client::proto::nfs3::FileHandle;
use rustix::event::{EventfdFlags, eventfd};

/// Capacity of a queue. Senders wait if it is full.
const QUEUE: usize = 1 << 16;

/// Notice that a step has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepEnd {
    /// Number of the step in the plan shared by all hosts.
    pub step: u32,
    /// When its reply arrived, in nanoseconds since the start.
    pub after_ns: u64,
    /// The handle returned by its reply.
    pub handle: Option<FileHandle>,
}

/// An executor's end of the notices to and from other hosts.
#[derive(Debug)]
pub struct Exchange {
    /// Notices from other hosts.
    pub(crate) incoming: Receiver<StepEnd>,
    /// Readable if there may be incoming notices.
    pub(crate) wakeup: OwnedFd,
    /// Notices to other hosts.
    pub(crate) outgoing: SyncSender<StepEnd>,
}

/// A new exchange with the other ends of its queues, for the threads that transport the notices.
#[derive(Debug)]
pub struct OpenExchange {
    /// The executor's end.
    pub exchange: Exchange,
    /// Receives notices from other hosts.
    pub incoming: NoticeSender,
    /// Yields notices to other hosts until the executor has finished.
    pub outgoing: Receiver<StepEnd>,
}

/// Sends notices to an executor.
#[derive(Debug)]
pub struct NoticeSender {
    queue: SyncSender<StepEnd>,
    wakeup: OwnedFd,
}

impl Exchange {
    pub fn open() -> std::io::Result<OpenExchange> {
        let (outgoing, outgoing_end) = sync_channel(QUEUE);
        let (queue, incoming) = sync_channel(QUEUE);
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let sender = NoticeSender { queue, wakeup: wakeup.try_clone()? };
        let exchange = Self { incoming, wakeup, outgoing };
        Ok(OpenExchange { exchange, incoming: sender, outgoing: outgoing_end })
    }

    /// Clears the wakeup. Must be called before reading the queue.
    pub(crate) fn clear_wakeup(&self) {
        let mut count = [0; 8];
        // Fails if it is already clear.
        let _ = rustix::io::read(&self.wakeup, &mut count);
    }
}

impl NoticeSender {
    /// Sends a notice. It is dropped if the executor has finished.
    pub fn send(&self, end: StepEnd) {
        if self.queue.send(end).is_ok() {
            let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
        }
    }
}
