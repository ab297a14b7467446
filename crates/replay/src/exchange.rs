//! The notices between hosts that share a replay.
//!
//! Where a step of another host waits for one of this host, that host gets a notice when this one
//! has ended, with the handle that the reply returned. [`Exchange`] is what an executor needs: a
//! queue of notices from others with a descriptor that wakes it, and a queue of its own. How they
//! travel is not known here.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use nfs_client::proto::nfs3::FileHandle;
use rustix::event::{EventfdFlags, eventfd};

/// Notices that a queue holds; beyond that the sender waits.
const QUEUE: usize = 1 << 16;

/// The notice that a step has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepEnd {
    /// Number of the step in the plan that all hosts have.
    pub step: u32,
    /// When its reply was there, in nanoseconds from the beginning.
    pub after_ns: u64,
    /// The handle of the object that its reply returned.
    pub handle: Option<FileHandle>,
}

/// Notices from and to other hosts, as an executor has them.
#[derive(Debug)]
pub struct Exchange {
    /// Notices from other hosts.
    pub(crate) incoming: Receiver<StepEnd>,
    /// Readable where there may be some.
    pub(crate) wakeup: OwnedFd,
    /// Notices to other hosts.
    pub(crate) outgoing: SyncSender<StepEnd>,
}

/// A new exchange with the other ends of its queues, which are for the threads that carry messages.
#[derive(Debug)]
pub struct OpenExchange {
    /// The executor's end.
    pub exchange: Exchange,
    /// Takes notices from other hosts.
    pub incoming: NoticeSender,
    /// Yields notices to other hosts until the executor has ended.
    pub outgoing: Receiver<StepEnd>,
}

/// The sender of notices to an executor.
#[derive(Debug)]
pub struct NoticeSender {
    queue: SyncSender<StepEnd>,
    wakeup: OwnedFd,
}

impl Exchange {
    /// Makes an exchange.
    ///
    /// # Errors
    /// When the kernel refuses a descriptor.
    pub fn open() -> std::io::Result<OpenExchange> {
        let (outgoing, outgoing_end) = sync_channel(QUEUE);
        let (queue, incoming) = sync_channel(QUEUE);
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let sender = NoticeSender { queue, wakeup: wakeup.try_clone()? };
        let exchange = Self { incoming, wakeup, outgoing };
        Ok(OpenExchange { exchange, incoming: sender, outgoing: outgoing_end })
    }

    /// Clears the wakeup, which is done before the queue is read.
    pub(crate) fn clear_wakeup(&self) {
        let mut count = [0; 8];
        // It may be clear already.
        let _ = rustix::io::read(&self.wakeup, &mut count);
    }
}

impl NoticeSender {
    /// Sends a notice; an executor that has ended needs none.
    pub fn send(&self, end: StepEnd) {
        if self.queue.send(end).is_ok() {
            let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
        }
    }
}
