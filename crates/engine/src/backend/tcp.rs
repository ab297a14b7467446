//! Transfers data over TCP without RPC, to measure what network and TCP can do on their own.
//!
//! The peer is our own server, which answers these frames on its NFS port. A write sends its bytes,
//! a read makes the server send them, and every other op is a frame and its answer. Up to
//! `queue_depth` ops are in flight. Received bytes are discarded inside the kernel, as the NFS
//! client does for large READs, so that the results of both can be compared. Nothing is allocated
//! after connecting.
//!
//! **Source:** `nfs_proto::raw` for the frames; tcp(7) for MSG_TRUNC.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use model::{Completion, Op, OpKind, Outcome, TcpTarget};
use nfs_client::TcpMeter;
use nfs_client::proto::raw::{FRAME_BYTES, Frame, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use super::{Backend, BackendCounts, LostTarget, wait_time};
use crate::clock::Clock;

/// Number of bytes to discard at a time.
const DROP_BYTES: usize = 256 * 1024;

/// The TCP backend; see the module.
pub struct Tcp {
    stream: TcpStream,
    clock: Arc<dyn Clock>,
    timeout_ns: u64,
    /// Ops without an answer and the times they were sent, in the order of their frames.
    waiting: VecDeque<(Op, u64)>,
    /// Number of these that have been sent completely, and how much of the next one, in bytes.
    sent: usize,
    sent_bytes: usize,
    /// The content of every write.
    payload: Vec<u8>,
    dropped: Vec<u8>,
    head: [u8; FRAME_BYTES],
    head_bytes: usize,
    /// Bytes still to be received for the answer whose frame has arrived.
    body_left: usize,
    received_ns: u64,
    counts: Counts,
    /// The kernel's counters for the connection, read before and after the measurement.
    meter: TcpMeter,
}

/// What was transferred over the connection.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    ops: u64,
    read_bytes: u64,
    write_bytes: u64,
}

/// Connects to our server at a target, within `timeout`.
pub fn connect(target: &TcpTarget, timeout: Duration) -> io::Result<TcpStream> {
    let port = target.port.ok_or_else(|| io::Error::other("the port is not known"))?;
    let mut last = io::Error::other("the name has no address");
    for address in (target.host.as_str(), port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                // As for NFS connections: some hosts default to bbr, which paces traffic even on
                // loopback.
                if address.ip().is_loopback() {
                    let _ = set_tcp_congestion(&stream, "cubic");
                }
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Tcp {
    /// Creates a backend on an open connection that keeps up to `queue_depth` ops of at most
    /// `io_size` bytes in flight.
    pub fn new(
        stream: TcpStream,
        clock: Arc<dyn Clock>,
        queue_depth: usize,
        io_size: usize,
        timeout_ns: u64,
    ) -> Self {
        let received_ns = clock.now_ns();
        let meter = TcpMeter::begin(stream.as_fd());
        Self {
            stream,
            clock,
            timeout_ns,
            waiting: VecDeque::with_capacity(queue_depth),
            sent: 0,
            sent_bytes: 0,
            payload: vec![0xa5; io_size],
            dropped: vec![0; DROP_BYTES],
            head: [0; FRAME_BYTES],
            head_bytes: 0,
            body_left: 0,
            received_ns,
            counts: Counts::default(),
            meter,
        }
    }

    /// Sends as much as the socket accepts.
    fn send_waiting(&mut self) -> Result<(), LostTarget> {
        while let Some((op, _)) = self.waiting.get(self.sent) {
            let (frame, len) = frame_of(op, self.counts.ops + self.sent as u64);
            let head = frame.to_bytes();
            let body = if frame.kind == Kind::Put { len } else { 0 };
            // One call sends both header and body, continuing where the socket stopped last time.
            let from = self.sent_bytes.saturating_sub(FRAME_BYTES);
            let pieces = [
                IoSlice::new(&head[self.sent_bytes.min(FRAME_BYTES)..]),
                IoSlice::new(&self.payload[from..body]),
            ];
            let mut none = SendAncillaryBuffer::default();
            match sendmsg(self.stream.as_fd(), &pieces, &mut none, SendFlags::NOSIGNAL) {
                Ok(count) => self.sent_bytes += count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(lost(error)),
            }
            if self.sent_bytes == FRAME_BYTES + body {
                self.sent += 1;
                self.sent_bytes = 0;
            }
        }
        Ok(())
    }

    /// Receives what has arrived. Returns the number of completed ops.
    fn receive(&mut self, out: &mut Vec<Completion>) -> Result<usize, LostTarget> {
        let mut ended = 0;
        loop {
            let received = if self.body_left > 0 {
                let wanted = self.body_left.min(self.dropped.len());
                let space = &mut self.dropped[..wanted];
                // With MSG_TRUNC, the kernel discards the bytes without copying them.
                recv(&self.stream, space, RecvFlags::TRUNC)
            } else {
                let space = &mut self.head[self.head_bytes..];
                recv(&self.stream, space, RecvFlags::empty())
            };
            let count = match received {
                Ok((_, 0)) => {
                    return Err(LostTarget("the server closed the connection".to_owned()));
                }
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => return Ok(ended),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(lost(error)),
            };
            self.received_ns = self.clock.now_ns();
            if self.body_left > 0 {
                self.body_left -= count;
            } else {
                self.head_bytes += count;
                if self.head_bytes < FRAME_BYTES {
                    continue;
                }
                self.head_bytes = 0;
                self.body_left = self.check_answer()?;
            }
            if self.body_left == 0 {
                self.end_op(out);
                ended += 1;
                if self.waiting.is_empty() {
                    return Ok(ended);
                }
            }
        }
    }

    /// Checks the frame of an answer. Returns the number of bytes that follow it.
    fn check_answer(&self) -> Result<usize, LostTarget> {
        // Answers arrive in the order of their requests, so this one belongs to the oldest op.
        let Some((op, _)) = self.waiting.front() else { return Err(unexpected()) };
        let Ok(frame) = Frame::from_bytes(self.head) else { return Err(unexpected()) };
        if self.sent == 0 || frame != frame_of(op, self.counts.ops).0 {
            return Err(unexpected());
        }
        Ok(if frame.kind == Kind::Get { frame.len as usize } else { 0 })
    }

    fn end_op(&mut self, out: &mut Vec<Completion>) {
        let Some((op, sent_ns)) = self.waiting.pop_front() else { return };
        self.sent -= 1;
        self.counts.ops += 1;
        match op.kind {
            OpKind::Read => self.counts.read_bytes += u64::from(op.len_bytes),
            OpKind::Write | OpKind::LogAppend => self.counts.write_bytes += u64::from(op.len_bytes),
            _ => {}
        }
        let outcome = Outcome::Done(op.len_bytes);
        out.push(Completion { op, sent_ns, done_ns: self.received_ns, outcome });
    }

    /// Waits until the socket is ready, at most until `until_ns`.
    fn wait_ready(&self, until_ns: u64) -> Result<bool, LostTarget> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.sent < self.waiting.len());
        let wait = wait_time(self.clock.as_ref(), until_ns);
        let time = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 };
        match poll(&mut [PollFd::new(&self.stream, flags)], Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(lost(error)),
        }
    }
}

impl Backend for Tcp {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.waiting.capacity() - self.waiting.len());
        let now_ns = self.clock.now_ns();
        if self.waiting.is_empty() {
            self.received_ns = now_ns;
        }
        for op in &batch[..accepted] {
            self.waiting.push_back((*op, now_ns));
        }
        // If the connection is gone, `reap` will notice.
        let _ = self.send_waiting();
        accepted
    }

    fn reap(
        &mut self,
        min: usize,
        until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let mut wanted = min.min(self.waiting.len());
        loop {
            wanted = wanted.saturating_sub(self.receive(out)?);
            self.send_waiting()?;
            if wanted == 0 || !self.wait_ready(until_ns)? {
                break;
            }
        }
        let silent_ns = self.clock.now_ns().saturating_sub(self.received_ns);
        if !self.waiting.is_empty() && silent_ns > self.timeout_ns {
            return Err(LostTarget("the server did not reply in time".to_owned()));
        }
        Ok(())
    }

    fn tally(&self) -> BackendCounts {
        let Counts { ops, read_bytes, write_bytes } = self.counts;
        BackendCounts {
            ops: Some(ops),
            read_bytes: Some(read_bytes),
            write_bytes: Some(write_bytes),
            tcp: self.meter.counters_of(self.stream.as_fd()),
            ..BackendCounts::default()
        }
    }
}

/// Returns the frame of an op and the number of bytes that follow it.
const fn frame_of(op: &Op, tag: u64) -> (Frame, usize) {
    let (kind, len) = match op.kind {
        OpKind::Read => (Kind::Get, op.len_bytes),
        OpKind::Write | OpKind::LogAppend => (Kind::Put, op.len_bytes),
        _ => (Kind::Ping, 0),
    };
    (Frame { kind, len, tag }, len as usize)
}

fn lost(error: Errno) -> LostTarget {
    LostTarget(format!("the connection failed: {error}"))
}

fn unexpected() -> LostTarget {
    LostTarget(
        "the server sent a reply without a request (hint: is it a dfsbench server?)".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn segments_of_the_connection_are_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = Some(listener.local_addr().unwrap().port());
        let target = TcpTarget { host: "127.0.0.1".to_owned(), port, embedded: false };
        let stream = connect(&target, Duration::from_secs(5)).unwrap();
        let _peer = listener.accept().unwrap();
        let mut tcp = Tcp::new(stream, Arc::new(SystemClock::new()), 1, 4096, 1_000_000_000);
        assert_eq!((tcp.tally().tcp.connections, tcp.tally().tcp.segments_sent), (1, 0));
        let op =
            Op { kind: OpKind::Write, file: 0, offset_bytes: 0, len_bytes: 4096, scheduled_ns: 0 };
        assert_eq!(tcp.submit(&[op]), 1);
        assert!(tcp.tally().tcp.segments_sent >= 1, "{:?}", tcp.tally().tcp);
    }
}
