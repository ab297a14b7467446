//! Tasks that one thread has to do later: sending replies held back by plan, checking connections.
//!
//! A queue ordered by due time and one kernel timer, set to the earliest. Nothing waits in a
//! thread: the timer is one more descriptor of the event loop.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::clock::{monotonic_ns, timespec};
use crate::outbox::Outbox;

/// Whom a reply is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Addressee {
    /// A connection, by its token.
    Connection(u64),
    /// A peer, by way of the datagram socket with this token.
    Peer(u64, SocketAddr),
}

/// A task that is to be done at some time.
#[derive(Debug)]
pub(crate) enum Due {
    /// A reply is sent.
    Reply(Addressee, Outbox),
    /// The next bytes of what trickles out on the connection with this token are sent.
    Drip(u64),
    /// Connections are looked through for those that are idle or stuck.
    Sweep,
}

/// All that one thread has to do later.
#[derive(Debug)]
pub(crate) struct Delays {
    timer: OwnedFd,
    queue: BTreeMap<(u64, u64), Due>,
    count: u64,
    armed_ns: Option<u64>,
}

impl Delays {
    /// Makes an empty queue with its timer.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer, queue: BTreeMap::new(), count: 0, armed_ns: None })
    }

    /// The descriptor that becomes readable when something is due.
    pub(crate) fn timer(&self) -> &OwnedFd {
        &self.timer
    }

    /// Puts something off for `delay_ns` from now.
    pub(crate) fn add(&mut self, delay_ns: u64, due: Due) {
        self.count += 1;
        let due_ns = monotonic_ns().saturating_add(delay_ns);
        self.queue.insert((due_ns, self.count), due);
    }

    /// Takes the next thing that is due.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Due> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }

    /// Forgets all replies.
    pub(crate) fn drop_replies(&mut self) {
        self.queue.retain(|_, due| matches!(due, Due::Sweep));
    }

    /// Sets the timer to the earliest, where that changed; call after each turn.
    pub(crate) fn arm(&mut self) -> io::Result<()> {
        let Some((&(due_ns, _), _)) = self.queue.first_key_value() else { return Ok(()) };
        if self.armed_ns == Some(due_ns) {
            return Ok(());
        }
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: once, it_value: timespec(due_ns) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed_ns = Some(due_ns);
        Ok(())
    }

    /// Clears the timer's readiness.
    pub(crate) fn acknowledge(&mut self) {
        let mut expirations = [0; 8];
        // Nothing to read means that it was cleared by setting it anew: just as well.
        let _ = rustix::io::read(&self.timer, &mut expirations);
        self.armed_ns = None;
    }
}
