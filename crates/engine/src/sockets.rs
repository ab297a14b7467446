//! The sockets of many connections, which one thread waits for.
//!
//! [`Sockets`] is an epoll set. Each connection has a [`Watched`] beside it, so that the kernel is
//! called only where the events that a connection waits for have changed. Neither allocates after
//! the start.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nfs_client::Connection;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

/// Sockets that one wait reports at most.
const EVENTS_MAX: usize = 256;

/// A set of sockets.
#[derive(Debug)]
pub struct Sockets {
    epoll: OwnedFd,
    ready: Vec<u32>,
    /// The kernel can't wait for parts of a millisecond.
    is_coarse: bool,
}

/// The socket of a connection as it was watched last, and the events.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    descriptor: RawFd,
    interest: EventFlags,
}

impl Default for Watched {
    fn default() -> Self {
        Self { descriptor: -1, interest: EventFlags::empty() }
    }
}

impl Sockets {
    /// Makes an empty set.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, ready: Vec::with_capacity(EVENTS_MAX), is_coarse: false })
    }

    /// Has the kernel watch for the events that a connection waits for, where they have changed.
    ///
    /// # Errors
    /// When the kernel refuses to watch the socket.
    pub fn watch(
        &self,
        connection: &Connection,
        watched: &mut Watched,
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
        // A reopened connection may have got the number of its old descriptor: the kernel dropped
        // that one from the epoll set when it was closed, and says NOENT to a change of it.
        let is_known = descriptor == watched.descriptor
            && epoll::modify(&self.epoll, connection, data, interest) != Err(Errno::NOENT);
        if !is_known {
            epoll::add(&self.epoll, connection, data, interest)?;
        }
        *watched = Watched { descriptor, interest };
        Ok(())
    }

    /// Has the kernel watch a descriptor that becomes readable to wake the thread that waits, under
    /// a number that no connection has.
    ///
    /// # Errors
    /// When the kernel refuses to watch it.
    pub fn watch_wakeup(&self, wakeup: &OwnedFd, number: u32) -> Result<(), Errno> {
        let data = EventData::new_u64(u64::from(number));
        epoll::add(&self.epoll, wakeup, data, EventFlags::IN)
    }

    /// Waits until a socket is ready, for so long at most, and notes whose are.
    ///
    /// # Errors
    /// When the kernel can't wait.
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
            // Kernels before 5.11 have no epoll_pwait2 and wait for whole milliseconds only.
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
