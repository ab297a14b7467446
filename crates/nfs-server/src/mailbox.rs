//! How loops hear from other threads: connections to take over, and orders.
//!
//! A [`Mailbox`] wakes its loop through a descriptor. Orders come from `Controls`, from the loop
//! that accepts connections, and from any thread that needs to call a client back.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

use nfs_proto::program::OfferedPrograms;
use rustix::event::{EventfdFlags, eventfd};

use crate::fault::FaultKind;
use crate::sync;

/// A connection on its way to its loop.
#[derive(Debug)]
pub(crate) struct NewConnection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) offered: OfferedPrograms,
    pub(crate) number: u64,
    /// Never answer it: a planned fault.
    pub(crate) hung: bool,
}

/// An order to an event loop.
#[derive(Debug)]
pub(crate) enum LoopOrder {
    /// Serve a connection.
    Serve(NewConnection),
    /// Send this framed call to the client of the connection with this token.
    CallBack(u64, Vec<u8>),
    /// Do nothing until this time on the monotonic clock.
    StallUntil(u64),
    /// Close all connections and ports, for good.
    Die,
    /// Count a planned fault.
    CountFault(FaultKind),
    /// Close all connections, drop the sender, then wait until the other half of the receiver is
    /// dropped, too.
    Restart(Sender<()>, Receiver<()>),
}

/// The mailbox from which a loop gets its orders.
#[derive(Debug)]
pub(crate) struct Mailbox {
    wake: OwnedFd,
    stop: AtomicBool,
    orders: Mutex<Vec<LoopOrder>>,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { wake, stop: AtomicBool::new(false), orders: Mutex::default() })
    }

    /// The descriptor that becomes readable when there are new orders.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.wake
    }

    /// Orders the loop to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether the loop should stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sends an order.
    pub(crate) fn send(&self, order: LoopOrder) {
        sync::lock(&self.orders).push(order);
        self.wake();
    }

    /// Takes all orders.
    pub(crate) fn take(&self) -> Vec<LoopOrder> {
        let mut count = [0; 8];
        // An empty counter is not an error: this loop was woken twice.
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut sync::lock(&self.orders))
    }

    fn wake(&self) {
        // Orders are pushed before the write and read after the wake-up, so none is missed. The
        // write fails only if the counter is full, and then the loop has already been woken.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// The mailboxes of all loops, and state they share.
#[derive(Debug)]
pub(crate) struct EventLoops {
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) clients_max: usize,
    pub(crate) open: AtomicUsize,
    pub(crate) accepted: AtomicU64,
}
