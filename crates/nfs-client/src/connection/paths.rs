//! The addresses of one server that a connection may use.
//!
//! A connection starts on one of them and moves to the next when its address no longer answers: its
//! calls in flight are repeated there, with the same slots and sequence numbers in a session, and
//! as after any lost connection otherwise. It stays where it is until it is closed or that address
//! fails, too. Each address has counters, which are read from those of the connection when it
//! moves. **Source:** RFC 8881 sections 2.10.5 and 2.10.6.2.

use std::net::SocketAddr;
use std::sync::Arc;

use nfs_proto::client::Counters;

use super::recovery::Outage;
use super::{Connection, Target};
use crate::error::ConnectionError;
use crate::link::SocketFailure;
use crate::transport::TcpCounters;

/// What a connection did on one of its server's addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Calls that were sent there, including those repeated there.
    pub calls: u64,
    /// Bytes sent, counting everything above TCP.
    pub bytes_out: u64,
    /// Bytes received, counting everything above TCP.
    pub bytes_in: u64,
    /// TCP segments that were retransmitted.
    pub segments_retransmitted: u64,
    /// How often the connection was lost there and moved to another address, or could not be made.
    pub losses: u64,
    /// Calls in flight that moved to another address with it, including those that must not be
    /// repeated and failed.
    pub moved_calls: u64,
}

impl PathCounters {
    /// Adds the counts of another connection.
    pub const fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.segments_retransmitted += other.segments_retransmitted;
        self.losses += other.losses;
        self.moved_calls += other.moved_calls;
    }
}

/// The counters of a connection when its address last changed.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    counters: Counters,
    tcp: TcpCounters,
}

/// The addresses of a connection, and the one in use.
#[derive(Debug)]
pub(super) struct Paths {
    targets: Arc<[Arc<Target>]>,
    current: usize,
    used: Vec<PathCounters>,
    mark: Mark,
    /// The address at which calls in flight were sent, if the connection left it since.
    left: Option<usize>,
}

impl Paths {
    pub(super) fn new(targets: Arc<[Arc<Target>]>, current: usize) -> Self {
        let used = vec![PathCounters::default(); targets.len()];
        Self { targets, current, used, mark: Mark::default(), left: None }
    }

    /// Returns true if there is another address.
    pub(super) fn has_others(&self) -> bool {
        self.targets.len() > 1
    }

    pub(super) fn count(&self) -> usize {
        self.targets.len()
    }
}

impl Connection {
    /// Returns the number of the address in use, among those of the mount.
    pub fn path(&self) -> usize {
        self.paths.current
    }

    /// Returns what the connection did on an address of the mount since
    /// [`Connection::begin_tcp_counters`]. A system call: not for the measured path.
    pub fn path_counters(&self, path: usize) -> PathCounters {
        let mut counters = self.paths.used[path];
        if path == self.paths.current {
            counters.add(&self.counters_since_mark());
        }
        counters
    }

    /// Moves the connection to another address if its oldest call has been waiting for longer than
    /// `silent_ns` and nothing was received within that time. It scans all slots, as
    /// [`Connection::check_timeout`] does.
    ///
    /// # Errors
    /// [`ConnectionError::ConnectionLost`] if no address has answered for too long.
    pub fn leave_silent_path(
        &mut self,
        now_ns: u64,
        silent_ns: u64,
    ) -> Result<(), ConnectionError> {
        let is_silent = self.paths.has_others()
            && !self.is_down()
            && self.check_timeout(now_ns, silent_ns).is_err();
        if !is_silent {
            return Ok(());
        }
        // It makes no sense to try the same address first.
        let outage = self.trouble.get_or_insert(Outage::new(now_ns));
        outage.attempts = outage.attempts.max(1);
        self.handle_loss(SocketFailure::Lost(std::io::ErrorKind::TimedOut.into()), now_ns)
    }

    /// Resets the counters of all addresses, except for lost connections.
    pub(super) fn begin_path_counters(&mut self) {
        for used in &mut self.paths.used {
            *used = PathCounters { losses: used.losses, ..PathCounters::default() };
        }
        self.set_mark();
    }

    /// Records that an address could not be reached when the connection was opened.
    pub(crate) fn note_unreachable(&mut self, path: usize) {
        self.paths.used[path].losses += 1;
    }

    /// Changes to the next address; the connection must be lost or about to be replaced.
    pub(super) fn switch_path(&mut self) {
        let since = self.counters_since_mark();
        let paths = &mut self.paths;
        paths.used[paths.current].add(&since);
        paths.left.get_or_insert(paths.current);
        paths.current = (paths.current + 1) % paths.targets.len();
        self.target = Arc::clone(&paths.targets[paths.current]);
        self.set_mark();
    }

    /// Records that the connection was re-established with its `calls` in flight, if that happened
    /// on another address.
    pub(super) fn note_moved(&mut self, calls: usize) {
        let Some(left) = self.paths.left.take() else { return };
        if left != self.paths.current {
            self.paths.used[left].losses += 1;
            self.paths.used[left].moved_calls += calls as u64;
        }
    }

    /// Returns the counts since the address last changed.
    fn counters_since_mark(&self) -> PathCounters {
        let Mark { counters: before, tcp: before_tcp } = self.paths.mark;
        let counters = self.link.session.counters();
        let tcp = self.tcp.counters(&self.link.transport);
        let sent = |counters: &Counters| counters.calls_sent + counters.replays;
        PathCounters {
            calls: sent(counters) - sent(&before),
            bytes_out: counters.wire_bytes_out - before.wire_bytes_out,
            bytes_in: counters.wire_bytes_in - before.wire_bytes_in,
            segments_retransmitted: tcp
                .segments_retransmitted
                .saturating_sub(before_tcp.segments_retransmitted),
            losses: 0,
            moved_calls: 0,
        }
    }

    fn set_mark(&mut self) {
        let counters = *self.link.session.counters();
        let tcp = self.tcp.counters(&self.link.transport);
        self.paths.mark = Mark { counters, tcp };
    }
}

/// Returns the addresses of the paths.
pub(crate) fn addresses(paths: &[Arc<Target>]) -> impl Iterator<Item = SocketAddr> {
    paths.iter().map(|path| path.server)
}
