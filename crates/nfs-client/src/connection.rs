//! One nonblocking connection for the measured path.
//!
//! [`Connection`] moves bytes between a socket and a [`Session`]. Headers and WRITE payloads leave
//! in one vectored write, the payload from the pool it is in; a large READ payload is dropped
//! inside the kernel, or received straight into its slot's buffer. After [`Connection::open`]
//! nothing is allocated, locked or logged, and the clock is the caller's. Waiting is apart:
//! [`Connection::wait`] polls this one socket; an event loop over many takes `as_fd` instead.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nfs_proto::StreamError;
use nfs_proto::client::{
    Chunk, Config, Counters, Data, Event, Operation, PayloadMode, Pending, Session, StartError,
    Version,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use crate::control::{connect_stream, xid_seed};
use crate::error::{ConnectionError, MountError, PendingCalls};
use crate::locate::NFS;
use crate::mount::Mount;

/// What is received at once where payloads are small.
const RECEIVE_BYTES: usize = 64 * 1024;
/// READs of this size and more are received apart from their headers.
const LARGE_PAYLOAD_BYTES: u64 = 16 * 1024;
/// What is received at once between large payloads: padding and the head of a READ reply (132
/// bytes), and some bytes of payload that are cheaper to copy than to ask for again.
const HEAD_BYTES: usize = 256;
/// Payload bytes worth a system call of their own.
const DIRECT_BYTES: usize = 4 * 1024;
/// The most that is discarded by one system call.
const DISCARD_BYTES: usize = 1024 * 1024;
/// The most elements of one vectored write.
const VECTOR_LEN: usize = 64;

/// How a connection is opened.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Calls in flight at most.
    pub slots: usize,
    /// Where WRITE payloads are sent from; shared by all connections.
    pub write_pool: Arc<[u8]>,
    /// The size of the buffer that each slot keeps its READ payload in, in bytes; `None` discards
    /// payloads.
    pub keep_payload: Option<u32>,
}

/// A connection with calls in flight.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    server: SocketAddr,
    session: Session,
    pool: Arc<[u8]>,
    receive: Vec<u8>,
    /// Names room for the kernel not to write to; its pages are never touched.
    discard: Vec<u8>,
    /// When bytes last went in or out, by the caller's clock.
    moved_ns: u64,
}

impl Connection {
    /// Opens a connection to the server of a mount and creates all buffers it will use.
    ///
    /// # Errors
    /// [`MountError`] as for mounting.
    pub fn open(mount: &Mount, options: &ConnectionOptions) -> Result<Self, MountError> {
        let server = mount.server();
        let stream = connect_stream(NFS, server, &mount.options)?;
        let socket = |reason| MountError::Socket { server, reason };
        stream.set_nonblocking(true).map_err(socket)?;
        let payload = options
            .keep_payload
            .map_or(PayloadMode::Discard, |bytes_per_slot| PayloadMode::Keep { bytes_per_slot });
        let session = Session::new(&Config {
            version: Version::V3,
            slots: options.slots,
            credential: mount.options.credential(),
            payload,
            xid_seed: xid_seed(&stream),
            ..Config::default()
        });
        let pool = Arc::clone(&options.write_pool);
        let discard = vec![0; if options.keep_payload.is_some() { 0 } else { DISCARD_BYTES }];
        Ok(Self {
            stream,
            server,
            session,
            pool,
            receive: vec![0; RECEIVE_BYTES],
            discard,
            moved_ns: 0,
        })
    }

    /// Starts an operation; it leaves with the next [`Connection::flush`]. The payload of a WRITE
    /// should be a part of the pool, which is not copied.
    ///
    /// # Errors
    /// [`StartError::Busy`] when all slots are in use; the others are for good.
    ///
    /// # Panics
    /// When a payload is not within the pool.
    pub fn start(
        &mut self,
        now_ns: u64,
        tag: u32,
        operation: &Operation<'_>,
    ) -> Result<(), StartError> {
        if let Operation::Write { data: Data::Pool(payload), .. } = operation {
            let end = payload.start + payload.len as usize;
            assert!(end <= self.pool.len(), "payload up to {end} of a pool of {}", self.pool.len());
        }
        self.session.start(now_ns, tag, operation)
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// [`ConnectionError`]: open another connection.
    pub fn flush(&mut self, clock: &dyn Fn() -> u64) -> Result<(), ConnectionError> {
        while self.session.wants_write() {
            let now_ns = clock();
            match self.write_some() {
                Ok(len) => {
                    self.session.sent(now_ns, len);
                    self.moved_ns = now_ns;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(self.lost(error)),
            }
        }
        Ok(())
    }

    /// Tells whether the socket should be watched for room to write.
    pub fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Receives what the socket has, passes each completed call to `events`, and returns how many
    /// there were.
    ///
    /// # Errors
    /// [`ConnectionError`]: open another connection. Events passed on before are valid.
    pub fn receive(
        &mut self,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, ConnectionError> {
        let mut count = 0;
        loop {
            let (asked, received) = match self.receive_some() {
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(count),
                Err(errno) => return Err(self.lost(errno.into())),
            };
            let (len, direct) = match received {
                Received::Stream(len) => (len, false),
                Received::Payload(len) => (len, true),
            };
            if len == 0 {
                return Err(self.lost(ErrorKind::UnexpectedEof.into()));
            }
            let now_ns = clock();
            self.moved_ns = now_ns;
            if direct {
                self.session.payload_received(now_ns, len);
                count += self.take_event(events);
            } else {
                count += self.take_stream(now_ns, len, events)?;
            }
            if len < asked {
                return Ok(count);
            }
        }
    }

    /// Sends what waits, sleeps until the socket is ready or `timeout` is over, receives, and
    /// returns how many calls ended.
    ///
    /// # Errors
    /// [`ConnectionError`]: open another connection.
    pub fn wait(
        &mut self,
        clock: &dyn Fn() -> u64,
        timeout: Duration,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, ConnectionError> {
        self.flush(clock)?;
        // With several calls out, replies are likely to be there: save the system call.
        if self.session.in_flight() > 1 {
            let count = self.receive(clock, events)?;
            if count > 0 {
                return Ok(count);
            }
        }
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.session.wants_write());
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.stream, flags)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(0),
            Ok(_) => {}
            Err(errno) => return Err(self.lost(errno.into())),
        }
        if fds[0].revents().contains(PollFlags::OUT) {
            self.flush(clock)?;
        }
        self.receive(clock, events)
    }

    /// Checks that with calls pending, the oldest for longer than `timeout_ns`, bytes still moved
    /// within that time: a slow line with a long queue is not a dead one. It walks all slots: ask
    /// a few times a second, not after each call.
    ///
    /// # Errors
    /// [`ConnectionError::CallTimedOut`]: open another connection.
    pub fn check_timeout(&self, now_ns: u64, timeout_ns: u64) -> Result<(), ConnectionError> {
        let Some(oldest_ns) = self.session.oldest_pending_ns() else { return Ok(()) };
        let waited_ns = now_ns.saturating_sub(oldest_ns.max(self.moved_ns));
        if waited_ns <= timeout_ns {
            return Ok(());
        }
        let (server, pending) = (self.server, self.pending());
        Err(ConnectionError::CallTimedOut { server, waited_ns, pending })
    }

    /// Returns how many calls can be started before [`StartError::Busy`].
    pub fn free_slots(&self) -> usize {
        self.session.free_slots()
    }

    /// Returns how many calls have no reply yet.
    pub fn in_flight(&self) -> usize {
        self.session.in_flight()
    }

    /// Returns what went over the wire so far.
    pub fn counters(&self) -> &Counters {
        self.session.counters()
    }

    /// Returns the address of the server.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Writes from the session and the pool, in one system call.
    fn write_some(&self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); VECTOR_LEN];
        let mut len = 0;
        for (slice, chunk) in slices.iter_mut().zip(self.session.outgoing()) {
            *slice = IoSlice::new(match chunk {
                Chunk::Bytes(bytes) => bytes,
                Chunk::Pool(range) => &self.pool[range.start..range.start + range.len as usize],
            });
            len += 1;
        }
        (&self.stream).write_vectored(&slices[..len])
    }

    /// Receives once and returns how much was asked for and what came.
    fn receive_some(&mut self) -> Result<(usize, Received), rustix::io::Errno> {
        let wanted = self.session.payload_wanted();
        if let Some(want) = wanted.filter(|want| want.len >= DIRECT_BYTES) {
            let keep = self.session.payload_space();
            let (len, result) = if keep.is_empty() {
                // TCP drops bytes asked for with MSG_TRUNC instead of copying them: tcp(7).
                let len = want.len.min(DISCARD_BYTES);
                (len, recv(&self.stream, &mut self.discard[..len], RecvFlags::TRUNC))
            } else {
                (keep.len(), recv(&self.stream, keep, RecvFlags::empty()))
            };
            return result.map(|(_, received)| (len, Received::Payload(received)));
        }
        let in_flight = self.session.in_flight() as u64;
        let large = self.session.expected_payload_bytes() >= LARGE_PAYLOAD_BYTES * in_flight.max(1);
        let rest = wanted.map_or(0, |want| want.len);
        let len = if large { rest + HEAD_BYTES } else { RECEIVE_BYTES };
        let (received, _) = recv(&self.stream, &mut self.receive[..len], RecvFlags::empty())?;
        Ok((len, Received::Stream(received)))
    }

    /// Passes received bytes to the session and its events to `events`.
    fn take_stream(
        &mut self,
        now_ns: u64,
        len: usize,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, ConnectionError> {
        let (mut at, mut count) = (0, 0);
        while at < len {
            match self.session.handle_input(now_ns, &self.receive[at..len]) {
                Ok(taken) => at += taken,
                Err(error) => return Err(self.garbage(error)),
            }
            count += self.take_event(events);
        }
        Ok(count)
    }

    fn take_event(&mut self, events: &mut dyn FnMut(&Event<'_>)) -> usize {
        match self.session.poll_event() {
            Some(event) => {
                events(&event);
                1
            }
            None => 0,
        }
    }

    fn pending(&self) -> PendingCalls {
        let mut pending: Vec<Pending> = self.session.pending().collect();
        pending.sort_by_key(|call| call.started_ns);
        PendingCalls(pending)
    }

    fn lost(&self, reason: io::Error) -> ConnectionError {
        let (server, pending) = (self.server, self.pending());
        ConnectionError::ConnectionLost { server, reason, pending }
    }

    fn garbage(&self, error: StreamError) -> ConnectionError {
        ConnectionError::Garbage { server: self.server, error, pending: self.pending() }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// What one receive brought, in bytes; 0 is the end of the stream.
enum Received {
    /// Bytes for the session.
    Stream(usize),
    /// Payload that went past the session.
    Payload(usize),
}
