//! Replies held back for a while: the planned service time.
//!
//! A queue ordered by due time and one kernel timer, set to the earliest. Nothing waits in a
//! thread: the timer is one more descriptor of the event loop.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::clock::monotonic_ns;
use crate::outbox::Outbox;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// A reply and the connection it is for.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub(crate) token: u64,
    pub(crate) reply: Outbox,
}

/// All replies held back by one thread.
#[derive(Debug)]
pub(crate) struct Delays {
    timer: OwnedFd,
    queue: BTreeMap<(u64, u64), Delayed>,
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

    /// Holds a reply back for `delay_ns` from now.
    pub(crate) fn add(&mut self, delay_ns: u64, delayed: Delayed) {
        self.count += 1;
        let due_ns = monotonic_ns().saturating_add(delay_ns);
        self.queue.insert((due_ns, self.count), delayed);
    }

    /// Takes the next reply that is due.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Delayed> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }

    /// Sets the timer to the earliest reply, where that changed; call after each turn.
    pub(crate) fn arm(&mut self) -> io::Result<()> {
        let Some((&(due_ns, _), _)) = self.queue.first_key_value() else { return Ok(()) };
        if self.armed_ns == Some(due_ns) {
            return Ok(());
        }
        let value = Timespec {
            tv_sec: (due_ns / NANOSECONDS_PER_SECOND).cast_signed(),
            tv_nsec: (due_ns % NANOSECONDS_PER_SECOND).cast_signed(),
        };
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: once, it_value: value };
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
