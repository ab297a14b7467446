//! Connects a session to a socket.
//!
//! [`Link`] sends headers and WRITE payloads in one vectored write, with the payload taken from its
//! pool; a large READ payload is discarded in the kernel, or received straight into its
//! session's buffer. It does not allocate or wait, and uses the caller's clock.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nfs_proto::StreamError;
use nfs_proto::client::{Chunk, Event, Session};
use nfs_proto::limits::RECORD_BYTES_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::scratch::Scratch;
use crate::transport::Transport;

/// READ size from which payloads are received separately from their headers.
const LARGE_PAYLOAD_BYTES: u64 = 16 * 1024;
/// Bytes received at once between large payloads: padding and the head of a READ reply (132 bytes
/// in version 3), and some bytes of payload that are cheaper to copy than to receive separately.
const HEAD_BYTES: usize = 256;
/// Payload bytes worth a system call of their own.
const DIRECT_BYTES: usize = 4 * 1024;
/// Bytes that may arrive without completing a call before the caller gets to check its timeouts and
/// interrupts. The longest reply has half as many, so only a flood of bytes that answer nothing
/// gets there.
const BYTES_WITHOUT_REPLY_MAX: usize = 2 * RECORD_BYTES_MAX;
/// Maximum number of elements in one vectored write.
const VECTOR_LEN: usize = 64;

/// A session and its socket.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) transport: Transport,
    pub(crate) session: Session,
    /// Time of the last progress, by the caller's clock: a completed reply, or as much data as only
    /// a working connection transfers.
    pub(crate) progress_ns: u64,
    /// Bytes of data transferred since then.
    moved_bytes: usize,
    /// Bytes that the socket must have to be ready for reading.
    low_water_bytes: usize,
    /// When the socket was last found empty, by the caller's clock.
    emptied_ns: u64,
}

/// Maximum low-water mark of a socket, in bytes. More would save little, and a single READ would
/// wait for more of its end at once.
const LOW_WATER_BYTES: usize = 256 * 1024;
/// How long bytes may take to reach the low-water mark at the pace of the last ones, in
/// nanoseconds.
const LOW_WATER_NS: u64 = 200_000;

/// Data that counts as progress before any reply has completed, in bytes. Less than that within the
/// timeout of a call is no transfer: a server that sends a byte a second is as good as silent.
const PROGRESS_BYTES: usize = 4 * 1024;

/// Reason why a socket is unusable.
#[derive(Debug)]
pub(crate) enum SocketFailure {
    /// It was closed, by either side.
    Lost(io::Error),
    /// The received bytes are not RPC.
    Garbage(StreamError),
}

impl From<io::Error> for SocketFailure {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// Result of one receive; 0 means end of stream.
enum Received {
    /// Bytes for the session.
    Stream(usize),
    /// Payload that bypassed the session.
    Payload(usize),
}

impl Link {
    pub(crate) fn new(transport: Transport, session: Session) -> Self {
        Self {
            transport,
            session,
            progress_ns: 0,
            moved_bytes: 0,
            low_water_bytes: 1,
            emptied_ns: 0,
        }
    }

    /// Returns true if the socket should be polled for writing.
    pub(crate) fn wants_write(&self) -> bool {
        self.session.wants_write() || self.transport.wants_write()
    }

    /// Sends as much as the socket takes.
    pub(crate) fn flush(
        &mut self,
        pool: &[u8],
        clock: &dyn Fn() -> u64,
    ) -> Result<(), SocketFailure> {
        while self.wants_write() {
            // Read the clock before the write: the time the system takes to copy the data is part
            // of the call.
            let now_ns = clock();
            match self.send_some(pool) {
                Ok(len) => {
                    self.session.sent(now_ns, len);
                    // A datagram is sent whether or not a server receives it, so it shows no
                    // progress.
                    if !self.transport.is_datagram() {
                        self.note_moved(now_ns, len);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives everything the socket has and passes each completed call to `events`.
    pub(crate) fn receive(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, SocketFailure> {
        let mut count = self.take_events(events);
        if self.transport.is_datagram() {
            return Ok(count + self.receive_datagrams(scratch, clock, events)?);
        }
        let mut without_reply = 0;
        let (mut received_bytes, mut emptied_ns) = (0, 0);
        while without_reply < BYTES_WITHOUT_REPLY_MAX {
            let (requested, received) = match self.receive_some(scratch) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            };
            let (Received::Stream(len) | Received::Payload(len)) = received;
            if len == 0 {
                return Err(SocketFailure::Lost(ErrorKind::UnexpectedEof.into()));
            }
            let now_ns = clock();
            let payload_before = self.session.counters().payload_bytes_in;
            let ended = if let Received::Payload(len) = received {
                self.session.payload_received(now_ns, len);
                self.take_events(events)
            } else {
                self.take_stream(now_ns, &scratch.receive[..len], events)?
            };
            // Replies to unknown calls, and bytes that are not a reply, are not progress.
            let payload = self.session.counters().payload_bytes_in - payload_before;
            self.note_moved(now_ns, payload as usize);
            if ended > 0 {
                self.note_progress(now_ns);
            }
            count += ended;
            received_bytes += len;
            emptied_ns = now_ns;
            without_reply = if ended > 0 { 0 } else { without_reply + len };
            // Fewer bytes than there was space for: the socket is empty, and another receive would
            // only return EWOULDBLOCK.
            if len < requested {
                break;
            }
        }
        if received_bytes > 0 {
            self.adjust_low_water(received_bytes, emptied_ns);
        }
        Ok(count)
    }

    /// Chooses how much of a large payload has to arrive before the socket is ready again, after
    /// `received_bytes` have been received.
    fn adjust_low_water(&mut self, received_bytes: usize, now_ns: u64) {
        // A payload is dropped faster than it arrives. Waking up for every segment would cost both
        // ends more CPU time than the data, since the sender does the waking up. One that is kept
        // is copied meanwhile, or that would take time after its last byte has arrived.
        let missing = match self.session.payload_wanted() {
            Some(want) if self.session.payload_space().is_empty() => want.len,
            _ => 0,
        };
        let elapsed_ns = now_ns.saturating_sub(self.emptied_ns).max(1);
        self.emptied_ns = now_ns;
        let soon = received_bytes as u64 * LOW_WATER_NS / elapsed_ns;
        let bytes = missing.min(LOW_WATER_BYTES).min(soon as usize);
        self.set_low_water(if bytes < DIRECT_BYTES { 1 } else { bytes });
    }

    /// Makes the socket ready for any byte; returns false if it already was.
    pub(crate) fn reset_low_water(&mut self) -> bool {
        let was_higher = self.low_water_bytes > 1;
        self.set_low_water(1);
        was_higher
    }

    fn set_low_water(&mut self, bytes: usize) {
        if bytes != self.low_water_bytes && self.transport.set_low_water(bytes) {
            self.low_water_bytes = bytes;
        }
    }

    /// Switches to another socket; returns the previous one.
    pub(crate) fn replace_transport(&mut self, transport: Transport) -> Transport {
        self.low_water_bytes = 1;
        std::mem::replace(&mut self.transport, transport)
    }

    /// Records transferred data, in either direction.
    fn note_moved(&mut self, now_ns: u64, bytes: usize) {
        self.moved_bytes += bytes;
        if self.moved_bytes >= PROGRESS_BYTES {
            self.note_progress(now_ns);
        }
    }

    fn note_progress(&mut self, now_ns: u64) {
        self.progress_ns = now_ns;
        self.moved_bytes = 0;
    }

    /// Sleeps until the socket is ready, `timeout` expires or `wakeup` is readable, and returns
    /// what the socket is ready for.
    pub(crate) fn poll_socket(
        &self,
        timeout: Duration,
        wakeup: Option<BorrowedFd<'_>>,
    ) -> Result<PollFlags, SocketFailure> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.wants_write());
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let socket = PollFd::from_borrowed_fd(self.transport.as_fd(), flags);
        let other = wakeup.unwrap_or_else(|| self.transport.as_fd());
        let mut fds = [socket, PollFd::from_borrowed_fd(other, PollFlags::IN)];
        let used = if wakeup.is_some() { &mut fds[..] } else { &mut fds[..1] };
        match poll(used, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(PollFlags::empty()),
            Ok(_) => Ok(fds[0].revents()),
            Err(errno) => Err(SocketFailure::Lost(errno.into())),
        }
    }

    /// Sends data of the session and the pool in one system call.
    fn send_some(&mut self, pool: &[u8]) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); VECTOR_LEN];
        let mut len = 0;
        if self.transport.is_datagram() {
            // A datagram is one call and is sent as a whole: at most its header, payload and
            // padding.
            for chunk in self.session.outgoing_datagram() {
                slices[len] = IoSlice::new(chunk_bytes(chunk, pool));
                len += 1;
            }
        } else {
            for chunk in self.session.outgoing().take(VECTOR_LEN) {
                slices[len] = IoSlice::new(chunk_bytes(chunk, pool));
                len += 1;
            }
        }
        self.transport.send(&slices[..len])
    }

    /// Receives once and returns the requested and the received length.
    fn receive_some(&mut self, scratch: &mut Scratch) -> io::Result<(usize, Received)> {
        let wanted = self.session.payload_wanted();
        // In the middle of a payload: receive it into its buffer, or discard it in the
        // kernel. Below a few KiB a system call costs more than a copy.
        if let Some(want) = wanted
            && want.len >= DIRECT_BYTES
        {
            let keep = self.session.payload_space();
            let (len, result) = if keep.is_empty() {
                let len = want.len.min(scratch.discard.len());
                (len, self.transport.discard(&mut scratch.discard[..len]))
            } else {
                (keep.len(), self.transport.receive(keep))
            };
            return Ok((len, Received::Payload(result?)));
        }
        let in_flight = self.session.in_flight() as u64;
        let large = self.session.expected_payload_bytes() >= LARGE_PAYLOAD_BYTES * in_flight.max(1);
        let rest = wanted.map_or(0, |want| want.len);
        // Between large payloads read only the head of the next reply, so that its payload is still
        // in the socket when its length is known. Small replies are read many at a time.
        let len = if large { rest + HEAD_BYTES } else { scratch.receive.len() };
        let received = self.transport.receive(&mut scratch.receive[..len])?;
        Ok((len, Received::Stream(received)))
    }

    /// Receives all available datagrams.
    fn receive_datagrams(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, SocketFailure> {
        let mut count = 0;
        loop {
            match self.transport.receive(&mut scratch.receive) {
                Ok(len) => {
                    let now_ns = clock();
                    self.session.handle_datagram(now_ns, &scratch.receive[..len]);
                    let ended = self.take_events(events);
                    if ended > 0 {
                        self.note_progress(now_ns);
                    }
                    count += ended;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Passes received bytes to the session and its events to `events`.
    fn take_stream(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        events: &mut dyn FnMut(&Event<'_>),
    ) -> Result<usize, SocketFailure> {
        let mut at = 0;
        let mut count = 0;
        while at < bytes.len() {
            at +=
                self.session.handle_input(now_ns, &bytes[at..]).map_err(SocketFailure::Garbage)?;
            count += self.take_events(events);
        }
        Ok(count)
    }

    /// Passes on pending events.
    pub(crate) fn take_events(&mut self, events: &mut dyn FnMut(&Event<'_>)) -> usize {
        let mut count = 0;
        while let Some(event) = self.session.poll_event() {
            events(&event);
            count += 1;
        }
        count
    }
}

/// Returns the bytes of a chunk, which may be in the pool.
fn chunk_bytes<'b>(chunk: Chunk<'b>, pool: &'b [u8]) -> &'b [u8] {
    match chunk {
        Chunk::Bytes(bytes) => bytes,
        Chunk::Pool(range) => &pool[range.start..range.start + range.len as usize],
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use nfs_proto::client::{Config, File, Operation};
    use nfs_proto::nfs3::FileHandle;
    use nfs_proto::server::encode_read_reply_header;

    use super::*;

    const READ_BYTES: usize = 1 << 20;
    const MOMENT: Duration = Duration::from_millis(20);
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Returns a link with a READ in flight whose reply has begun with `sent_bytes` bytes of
    /// payload, and the server's end.
    fn reading(clock: &dyn Fn() -> u64, sent_bytes: usize) -> (Link, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let session = Session::new(&Config { xid_seed: 7, ..Config::default() });
        let mut link = Link::new(Transport::Tcp(near), session);
        let file = File::from(FileHandle::from_slice(b"file").unwrap());
        let read = Operation::Read { file: &file, offset: 0, count: READ_BYTES as u32 };
        link.session.start(clock(), 0, &read).unwrap();
        link.flush(&[], clock).unwrap();
        let mut call = [0; 8];
        far.read_exact(&mut call).unwrap();
        let xid = u32::from_be_bytes([call[4], call[5], call[6], call[7]]);
        let mut reply = Vec::new();
        encode_read_reply_header(&mut reply, xid, None, false, READ_BYTES as u32);
        far.write_all(&reply).unwrap();
        let sender = std::thread::spawn(move || {
            far.write_all(&vec![0; sent_bytes]).unwrap();
            far
        });
        while received(&link) < sent_bytes {
            // The last bytes may be below the mark.
            link.poll_socket(MOMENT, None).unwrap();
            link.receive(&mut Scratch::new(), clock, &mut |event| panic!("{event:?}")).unwrap();
        }
        (link, sender.join().unwrap())
    }

    fn received(link: &Link) -> usize {
        link.session.counters().payload_bytes_in as usize
    }

    #[test]
    fn waits_for_more_of_fast_payload() {
        // By this clock, bytes arrive at an endless pace.
        let now = Cell::new(0);
        let clock = || now.replace(now.get() + 1);
        let (mut link, mut far) = reading(&clock, READ_BYTES / 2);
        assert_eq!(link.low_water_bytes, LOW_WATER_BYTES);
        far.write_all(&[0; 8192]).unwrap();
        assert!(link.poll_socket(MOMENT, None).unwrap().is_empty(), "not worth waking up for");
        assert!(link.reset_low_water());
        assert!(link.poll_socket(PATIENCE, None).unwrap().contains(PollFlags::IN));
        assert!(!link.reset_low_water());
        drop(far);
        let scratch = &mut Scratch::new();
        while link.receive(scratch, &clock, &mut |event| panic!("{event:?}")).is_ok() {
            link.poll_socket(PATIENCE, None).unwrap();
        }
        assert_eq!(received(&link), READ_BYTES / 2 + 8192);
    }

    #[test]
    fn wakes_up_for_each_byte_of_slow_payload() {
        // By this clock, a second passes between two receives.
        let now = Cell::new(0);
        let clock = || now.replace(now.get() + 1_000_000_000);
        let (link, _far) = reading(&clock, READ_BYTES / 2);
        assert_eq!(link.low_water_bytes, 1);
    }
}
