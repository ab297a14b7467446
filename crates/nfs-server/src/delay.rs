//! Tasks that a thread does later: sending held-back replies, checking connections.
//!
//! A queue ordered by scheduled time and one kernel timer, set to the earliest. No thread ever
//! waits for it: the timer is just another descriptor of the event loop.

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

/// Recipient of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplyTarget {
    /// A connection, by its token.
    Connection(u64),
    /// A peer, through the datagram socket with this token.
    Peer(u64, SocketAddr),
}

/// A task scheduled for later.
#[derive(Debug)]
pub(crate) enum Task {
    /// Send a reply.
    Reply(ReplyTarget, Outbox),
    /// Send the next chunk of the trickled replies of the connection with this token.
    Trickle(u64),
    /// Look for connections that are idle or stuck.
    Sweep,
    /// Let connections that wait for memory try again.
    FindRoom,
}

/// All scheduled tasks of one thread.
#[derive(Debug)]
pub(crate) struct Delays {
    timer: OwnedFd,
    // The key is the scheduled time and a running number: tasks with the same time keep their
    // order. Held replies of one connection rely on that if they all wait equally long.
    queue: BTreeMap<(u64, u64), Task>,
    count: u64,
    armed_ns: Option<u64>,
}

impl Delays {
    /// Creates an empty queue with its timer.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer, queue: BTreeMap::new(), count: 0, armed_ns: None })
    }

    /// The descriptor that becomes readable when a task is ready.
    pub(crate) fn timer(&self) -> &OwnedFd {
        &self.timer
    }

    /// Schedules a task `delay_ns` from now.
    pub(crate) fn add_after(&mut self, delay_ns: u64, task: Task) {
        self.count += 1;
        let scheduled_ns = monotonic_ns().saturating_add(delay_ns);
        self.queue.insert((scheduled_ns, self.count), task);
    }

    /// Takes the next task whose time has come.
    pub(crate) fn pop_ready(&mut self, now_ns: u64) -> Option<Task> {
        let first = self.queue.first_entry()?;
        if first.key().0 > now_ns {
            return None;
        }
        Some(first.remove())
    }

    /// Forgets all replies.
    pub(crate) fn drop_replies(&mut self) {
        self.queue.retain(|_, task| matches!(task, Task::Sweep | Task::FindRoom));
    }

    /// Drops the replies for a connection that is gone, and frees their memory.
    pub(crate) fn drop_replies_to(&mut self, connection: u64) {
        self.queue.retain(|_, task| {
            !matches!(task, Task::Reply(ReplyTarget::Connection(token), _) if *token == connection)
        });
    }

    /// Sets the timer to the earliest task, if that has changed; call after each turn.
    pub(crate) fn arm_timer(&mut self) -> io::Result<()> {
        let Some((&(scheduled_ns, _), _)) = self.queue.first_key_value() else { return Ok(()) };
        // On most turns the earliest task is unchanged, which saves the system call.
        if self.armed_ns == Some(scheduled_ns) {
            return Ok(());
        }
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: once, it_value: timespec(scheduled_ns) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed_ns = Some(scheduled_ns);
        Ok(())
    }

    /// Clears the timer's readiness.
    pub(crate) fn clear_timer(&mut self) {
        let mut expirations = [0; 8];
        // Nothing to read means that setting the timer again has cleared it already.
        let _ = rustix::io::read(&self.timer, &mut expirations);
        self.armed_ns = None;
    }
}
