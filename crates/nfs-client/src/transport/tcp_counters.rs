//! Kernel counters of TCP connections.
//!
//! [`TcpMeter`] reads them before and after a measurement, never during it: reading is a system
//! call that locks the socket. The kernel appends fields to its structure and never moves any, so
//! each field is read from its offset; a kernel without all of them is treated as having none.
//! **Source:** `struct tcp_info` of linux/tcp.h, tcp(7), RFC 4898 (`tcpEStatsPerf`).

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use super::Transport;

/// TCP counters of some connections over the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Number of connections whose counters were read.
    pub connections: u32,
    /// Number of connections whose counters could not be read and are missing from the sums.
    pub uncounted: u32,
    /// Segments sent, including retransmissions.
    pub segments_sent: u64,
    /// Segments retransmitted.
    pub segments_retransmitted: u64,
    /// Segments retransmitted although they had arrived, according to the receiver's D-SACKs.
    pub segments_arrived_twice: u64,
    /// Segments that arrived out of order, such as those after one that the peer has to resend; 0
    /// before Linux 5.4.
    pub segments_out_of_order: u64,
    /// Bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Time with data to send or unacknowledged, in microseconds.
    pub busy_us: u64,
    /// Part of it in which the receiver's window was full.
    pub receiver_limited_us: u64,
    /// Part of it in which our send buffer was full.
    pub send_buffer_limited_us: u64,
}

impl TcpCounters {
    /// Adds the counts of other connections.
    pub const fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.uncounted += other.uncounted;
        self.segments_sent += other.segments_sent;
        self.segments_retransmitted += other.segments_retransmitted;
        self.segments_arrived_twice += other.segments_arrived_twice;
        self.segments_out_of_order += other.segments_out_of_order;
        self.bytes_retransmitted += other.bytes_retransmitted;
        self.busy_us += other.busy_us;
        self.receiver_limited_us += other.receiver_limited_us;
        self.send_buffer_limited_us += other.send_buffer_limited_us;
    }
}

/// Counters of one connection since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reading {
    // The 32-bit counters wrap around.
    segments_sent: u32,
    segments_retransmitted: u32,
    segments_arrived_twice: u32,
    segments_out_of_order: u32,
    bytes_retransmitted: u64,
    busy_us: u64,
    receiver_limited_us: u64,
    send_buffer_limited_us: u64,
}

/// Size of the structure in 8-byte words, with space for future fields.
const WORDS: usize = 40;

// Offsets in `struct tcp_info`, in bytes.
const TOTAL_RETRANS_AT: usize = 100;
const SEGS_OUT_AT: usize = 136;
const BUSY_TIME_AT: usize = 168;
const RWND_LIMITED_AT: usize = 176;
const SNDBUF_LIMITED_AT: usize = 184;
const BYTES_RETRANS_AT: usize = 208;
const DSACK_DUPS_AT: usize = 216;
const RCV_OOOPACK_AT: usize = 224;
/// Size returned by kernels that have all of these fields except the last: Linux 4.19 and later.
const BYTES_MIN: usize = DSACK_DUPS_AT + 4;

impl Reading {
    /// Reads the counters of a socket; `None` if it has none.
    fn read_socket(socket: BorrowedFd<'_>) -> Option<Self> {
        let (words, len) = read_tcp_info(socket)?;
        if len < BYTES_MIN {
            return None;
        }
        Some(Self {
            segments_sent: u32_at(&words, SEGS_OUT_AT),
            segments_retransmitted: u32_at(&words, TOTAL_RETRANS_AT),
            segments_arrived_twice: u32_at(&words, DSACK_DUPS_AT),
            // Zero if the kernel wrote less: it has no such counter.
            segments_out_of_order: u32_at(&words, RCV_OOOPACK_AT),
            bytes_retransmitted: words[BYTES_RETRANS_AT / 8],
            busy_us: words[BUSY_TIME_AT / 8],
            receiver_limited_us: words[RWND_LIMITED_AT / 8],
            send_buffer_limited_us: words[SNDBUF_LIMITED_AT / 8],
        })
    }

    /// Returns the counts since an earlier reading of the same socket.
    fn since(&self, before: &Self) -> TcpCounters {
        let wrapped = |after: u32, before: u32| u64::from(after.wrapping_sub(before));
        let risen = |after: u64, before: u64| after.saturating_sub(before);
        TcpCounters {
            connections: 1,
            uncounted: 0,
            segments_sent: wrapped(self.segments_sent, before.segments_sent),
            segments_retransmitted: wrapped(
                self.segments_retransmitted,
                before.segments_retransmitted,
            ),
            segments_arrived_twice: wrapped(
                self.segments_arrived_twice,
                before.segments_arrived_twice,
            ),
            segments_out_of_order: wrapped(
                self.segments_out_of_order,
                before.segments_out_of_order,
            ),
            bytes_retransmitted: risen(self.bytes_retransmitted, before.bytes_retransmitted),
            busy_us: risen(self.busy_us, before.busy_us),
            receiver_limited_us: risen(self.receiver_limited_us, before.receiver_limited_us),
            send_buffer_limited_us: risen(
                self.send_buffer_limited_us,
                before.send_buffer_limited_us,
            ),
        }
    }
}

/// Counts TCP events on a connection, and on those that replace it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpMeter {
    /// Counters of the current socket when counting started; zeros if it is newer.
    before: Reading,
    /// Counts of sockets that were replaced.
    replaced: TcpCounters,
}

impl TcpMeter {
    /// Starts counting at zero on a socket. A system call: not for the measured path.
    pub fn begin(socket: BorrowedFd<'_>) -> Self {
        let before = Reading::read_socket(socket).unwrap_or_default();
        Self { before, replaced: TcpCounters::default() }
    }

    /// Starts counting at zero.
    pub(crate) fn begin_at(transport: &Transport) -> Self {
        Self::begin(transport.as_fd())
    }

    /// Records the counters of a socket that is about to be replaced. The kernel keeps the counters
    /// of a closed connection as long as its descriptor is open.
    pub(crate) fn note_replaced(&mut self, transport: &Transport) {
        self.replaced = self.counters(transport);
        self.before = Reading::default();
    }

    /// Returns the counts so far; reads those of the current socket.
    pub(crate) fn counters(&self, transport: &Transport) -> TcpCounters {
        if transport.is_datagram() {
            return self.replaced;
        }
        self.counters_of(transport.as_fd())
    }

    /// Returns the counts so far of the socket on which counting started. A system call: not for
    /// the measured path.
    pub fn counters_of(&self, socket: BorrowedFd<'_>) -> TcpCounters {
        let mut counters = self.replaced;
        match Reading::read_socket(socket) {
            Some(reading) => counters.add(&reading.since(&self.before)),
            None => counters.uncounted += 1,
        }
        counters
    }
}

/// Returns a 32-bit field.
fn u32_at(words: &[u64; WORDS], at: usize) -> u32 {
    let bytes = words[at / 8].to_ne_bytes();
    let half = if at.is_multiple_of(8) { 0 } else { 4 };
    u32::from_ne_bytes([bytes[half], bytes[half + 1], bytes[half + 2], bytes[half + 3]])
}

/// Asks the kernel for its structure, and returns it with its length in bytes.
#[expect(unsafe_code, reason = "rustix has no TCP_INFO")]
fn read_tcp_info(socket: BorrowedFd<'_>) -> Option<([u64; WORDS], usize)> {
    let mut words = [0_u64; WORDS];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `words`, which has that size and for which
    // every bit pattern is valid, and the length to `len`; both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 { Some((words, len as usize)) } else { None }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    fn connected() -> (Transport, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Transport::Tcp(near), listener.accept().unwrap().0)
    }

    fn stream(transport: &Transport) -> &TcpStream {
        let Transport::Tcp(stream) = transport else { panic!("{transport:?}") };
        stream
    }

    /// Exchanges a few bytes, so that segments are sent.
    fn exchange(transport: &Transport, far: &mut TcpStream) {
        let mut byte = [0];
        for _ in 0..10 {
            stream(transport).write_all(&[1]).unwrap();
            far.read_exact(&mut byte).unwrap();
        }
    }

    #[test]
    fn counts_only_while_enabled() {
        let (near, mut far) = connected();
        exchange(&near, &mut far);
        let meter = TcpMeter::begin_at(&near);
        let idle = meter.counters(&near);
        assert_eq!((idle.connections, idle.uncounted, idle.segments_sent), (1, 0, 0), "{idle:?}");
        exchange(&near, &mut far);
        let counters = meter.counters(&near);
        assert!((10..=20).contains(&counters.segments_sent), "{counters:?}");
        assert_eq!(counters.receiver_limited_us, 0, "{counters:?}");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test waits while the window is full")]
    fn blames_receiver_that_reads_nothing() {
        let (near, far) = connected();
        let meter = TcpMeter::begin_at(&near);
        stream(&near).set_nonblocking(true).unwrap();
        let filled = stream(&near).write_all(&vec![0; 64 << 20]).unwrap_err();
        assert_eq!(filled.kind(), ErrorKind::WouldBlock);
        sleep(Duration::from_millis(300));
        let counters = meter.counters(&near);
        assert!(counters.receiver_limited_us >= 100_000, "{counters:?}");
        assert!(counters.busy_us >= counters.receiver_limited_us, "{counters:?}");
        drop(far);
    }

    #[test]
    fn keeps_counters_of_replaced_connection() {
        let (first, mut first_far) = connected();
        let mut meter = TcpMeter::begin_at(&first);
        exchange(&first, &mut first_far);
        drop(first_far);
        meter.note_replaced(&first);
        let (second, mut second_far) = connected();
        exchange(&second, &mut second_far);
        let counters = meter.counters(&second);
        assert_eq!((counters.connections, counters.uncounted), (2, 0));
        assert!(counters.segments_sent >= 20, "{counters:?}");
    }

    #[test]
    fn datagrams_have_no_counters() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(Reading::read_socket(socket.as_fd()), None);
        let transport = Transport::Udp(socket);
        let counters = TcpMeter::begin_at(&transport).counters(&transport);
        assert_eq!(counters, TcpCounters::default());
    }

    #[test]
    fn counters_of_32_bits_wrap_around() {
        let before = Reading { segments_sent: u32::MAX, ..Reading::default() };
        let after = Reading { segments_sent: 4, ..Reading::default() };
        assert_eq!(after.since(&before).segments_sent, 5);
    }
}
