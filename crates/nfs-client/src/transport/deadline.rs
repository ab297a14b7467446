//! Waits while opening a connection: bounded in time, and ended early at the caller's request.
//!
//! [`Deadline`] bounds all steps of opening together. Nothing here is in the measured path.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::interrupt::{Interrupt, POLL_INTERVAL};

/// When opening gives up, unless the caller interrupts it before.
pub(crate) struct Deadline {
    at: Instant,
    interrupt: Interrupt,
}

impl Deadline {
    #[expect(
        clippy::disallowed_methods,
        reason = "opening connections blocks and is never measured"
    )]
    pub(super) fn after_timeout(timeout: Duration, interrupt: Interrupt) -> Self {
        Self { at: Instant::now() + timeout, interrupt }
    }

    /// Repeats an operation on a socket, waiting until it is ready in between.
    #[expect(
        clippy::disallowed_methods,
        reason = "opening connections blocks and is never measured"
    )]
    pub(super) fn retry_until_ready<T>(
        &self,
        stream: &TcpStream,
        flags: PollFlags,
        mut job: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match job() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = self.at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    wait_for(stream.as_fd(), flags, left, &self.interrupt)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

/// Waits until a socket is ready, or fails with `TimedOut`, also if the caller interrupts it.
pub(super) fn wait_for(
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    timeout: Duration,
    interrupt: &Interrupt,
) -> io::Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    let mut left = timeout;
    loop {
        let step = left.min(POLL_INTERVAL);
        left -= step;
        // Wait in short steps, so that an interrupt is noticed quickly.
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(step.subsec_nanos()) };
        match poll(&mut fds, Some(&wait)) {
            Ok(0) if left.is_zero() || interrupt.reason().is_some() => {
                return Err(ErrorKind::TimedOut.into());
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}
