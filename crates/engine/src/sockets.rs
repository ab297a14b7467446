//! The sockets of many connections, for one thread to wait on.
//!
//! [`Sockets`] is an epoll set. Each connection has a [`WatchedSocket`], so that the kernel is
//! called only when the events of interest have changed. Neither allocates memory after the start.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nfs_client::Connection;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

/// Maximum number of sockets reported by one wait.
const EVENTS_MAX: usize = 256;

/// A set of sockets.
#[derive(Debug)]
pub struct Sockets {
    epoll: OwnedFd,
    ready: Vec<u32>,
    /// The kernel cannot wait for fractions of a millisecond.
    is_coarse: bool,
}

/// A connection's socket and events as last registered.
#[derive(Clone, Copy, Debug)]
pub struct WatchedSocket {
    descriptor: RawFd,
    interest: EventFlags,
}

impl Default for WatchedSocket {
    fn default() -> Self {
        Self { descriptor: -1, interest: EventFlags::empty() }
    }
}

impl Sockets {
    /// Creates an empty set.
    ///
    /// # Errors
    /// If epoll is not available.
    pub fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, ready: Vec::with_capacity(EVENTS_MAX), is_coarse: false })
    }

    /// Registers the events that a connection waits for, if they have changed.
    pub fn watch(
        &self,
        connection: &Connection,
        watched: &mut WatchedSocket,
        number: usize,
    ) -> Result<(), Errno> {
        let mut interest = EventFlags::IN;
        interest.set(EventFlags::OUT, connection.wants_write());
        let descriptor = connection.as_fd().as_raw_fd();
        if connection.is_down() || (descriptor, interest) == (watched.descriptor, watched.interest)
        {
            return Ok(());
        }
        let data = EventData::new_u64(number as u64);
        // A reopened connection may have the same descriptor as before. The kernel removed the old
        // one from the epoll set when it was closed, so modifying it fails with NOENT.
        let is_known = descriptor == watched.descriptor
            && epoll::modify(&self.epoll, connection, data, interest) != Err(Errno::NOENT);
        if !is_known {
            epoll::add(&self.epoll, connection, data, interest)?;
        }
        *watched = WatchedSocket { descriptor, interest };
        Ok(())
    }

    /// Registers a descriptor that becomes readable to wake up the waiting thread, for a connection
    /// or under a number that no connection has.
    pub fn watch_wakeup(&self, wakeup: impl AsFd, number: u32) -> Result<(), Errno> {
        let data = EventData::new_u64(u64::from(number));
        epoll::add(&self.epoll, wakeup, data, EventFlags::IN)
    }

    /// Waits until a socket is ready, for at most `wait`, and remembers which ones are.
    pub fn wait(&mut self, wait: Duration) -> Result<(), Errno> {
        let wait =
            if self.is_coarse { Duration::from_millis(wait.as_millis() as u64) } else { wait };
        let timeout = Timespec {
            tv_sec: wait.as_secs().cast_signed(),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        self.ready.clear();
        match epoll::wait(&self.epoll, &mut room, Some(&timeout)) {
            Ok((events, _)) => {
                for event in events.iter() {
                    self.ready.push({ event.data }.u64() as u32);
                }
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            // Kernels before 5.11 don't have epoll_pwait2 and only support whole milliseconds.
            Err(Errno::NOSYS) if !self.is_coarse => {
                self.is_coarse = true;
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Returns the numbers of the connections whose sockets were ready.
    pub fn ready(&self) -> &[u32] {
        &self.ready
    }
}
