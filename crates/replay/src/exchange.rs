//! What several hosts that share a trace tell each other while they replay it.
//!
//! A step that another host's wait for is told to it when it has ended, with the handle that its
//! reply returned. [`Exchange`] is the end of one host: the executor reads what others have told
//! from a queue, and a descriptor wakes it. How it travels is not known here.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use nfs_client::proto::nfs3::FileHandle;
use rustix::event::{EventfdFlags, eventfd};

/// Ends of steps that wait to be sent or read: a host that is so far behind waits.
const QUEUE: usize = 1 << 16;

/// The end of a step of another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepEnd {
    /// Number of the step in the plan that all hosts have.
    pub step: u32,
    /// When its reply was there, in nanoseconds from the beginning.
    pub after_ns: u64,
    /// The handle of the object that its reply returned.
    pub handle: Option<FileHandle>,
}

/// What an executor tells to other hosts, and what they tell.
#[derive(Debug)]
pub struct Exchange {
    /// Ends of steps of other hosts.
    pub(crate) told: Receiver<StepEnd>,
    /// Readable where there may be some.
    pub(crate) wakeup: OwnedFd,
    /// Takes ends of own steps.
    pub(crate) tell: SyncSender<StepEnd>,
}

/// A new exchange with its other ends, which are for the threads that carry messages.
#[derive(Debug)]
pub struct OpenExchange {
    /// For the executor.
    pub exchange: Exchange,
    /// Takes what other hosts tell.
    pub told: ToldSender,
    /// Gives what is to be told to other hosts, until the executor has ended.
    pub to_tell: Receiver<StepEnd>,
}

/// Passes on to an executor what other hosts tell.
#[derive(Debug)]
pub struct ToldSender {
    told: SyncSender<StepEnd>,
    wakeup: OwnedFd,
}

impl Exchange {
    /// Makes an exchange.
    ///
    /// # Errors
    /// When the kernel refuses a descriptor.
    pub fn open() -> std::io::Result<OpenExchange> {
        let (tell, to_tell) = sync_channel(QUEUE);
        let (told_sender, told) = sync_channel(QUEUE);
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let told_sender = ToldSender { told: told_sender, wakeup: wakeup.try_clone()? };
        let exchange = Self { told, wakeup, tell };
        Ok(OpenExchange { exchange, told: told_sender, to_tell })
    }

    /// Makes the wakeup quiet, which is done before the queue is read.
    pub(crate) fn quieten(&self) {
        let mut count = [0; 8];
        // It may be quiet already.
        let _ = rustix::io::read(&self.wakeup, &mut count);
    }
}

impl ToldSender {
    /// Passes an end of a step on; an executor that has ended needs none.
    pub fn send(&self, end: StepEnd) {
        if self.told.send(end).is_ok() {
            let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
        }
    }
}
