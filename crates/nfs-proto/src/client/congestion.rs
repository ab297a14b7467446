//! How many datagrams may be in flight, and how long one may go without a reply.
//!
//! Nothing below RPC over UDP slows a sender down: a client that sends everything it has overruns
//! the socket buffers on the way, and then waits for timeouts. [`Congestion`] limits the calls in
//! flight with a window, as TCP does for bytes: it grows by one with each reply until something is
//! lost (slow start), then by one per window of replies, and a loss halves it. The timeout of a
//! READ or WRITE follows the earlier round trips; all other calls keep the fixed timeout, since a
//! COMMIT may take as long as a disk does. **Source:** RFC 5681 section 3.1 (window), RFC 6298
//! section 2 (timeout) and 3 (Karn's rule), Linux `net/sunrpc/xprt.c` and `timer.c`, from which the
//! kinds of calls and the minimum timeout are taken.

use super::operation::{Kind, OperationKind};
use super::types::UdpWindow;

/// The window is kept in fractions of a call, so that it can grow by less than one.
const SCALE: u32 = 256;
/// Number of calls in flight allowed at the start.
const INITIAL_CALLS: u32 = 2;
/// Minimum estimated timeout: Linux, `RPC_RTO_MIN`.
const TIMEOUT_NS_MIN: u64 = 100_000_000;

/// The window of a session over datagrams, and the estimates of its round-trip times.
#[derive(Debug)]
pub(super) struct Congestion {
    is_adaptive: bool,
    /// Number of calls allowed in flight, in fractions of a call.
    window: u32,
    /// The window at which slow start ends, in fractions of a call.
    threshold: u32,
    /// The largest window: all slots.
    window_max: u32,
    /// When the window was last halved. Anything sent before that counts as lost together.
    halved_ns: u64,
    reads: RoundTrip,
    writes: RoundTrip,
}

impl Congestion {
    /// Starts with a small window for a session with `slots` slots.
    pub(super) fn new(mode: UdpWindow, slots: usize) -> Self {
        let window_max = (slots as u32).saturating_mul(SCALE);
        Self {
            is_adaptive: mode == UdpWindow::Adaptive,
            window: (INITIAL_CALLS * SCALE).min(window_max),
            threshold: window_max,
            window_max,
            halved_ns: 0,
            reads: RoundTrip::default(),
            writes: RoundTrip::default(),
        }
    }

    /// Returns true if one more call may be sent while `out` are in flight.
    pub(super) const fn allows_call(&self, out: usize) -> bool {
        !self.is_adaptive || (out as u64) < (self.window / SCALE) as u64
    }

    /// Records a reply to a call that was sent once, `round_trip_ns` after it was sent.
    pub(super) fn note_reply(&mut self, kind: Kind, round_trip_ns: u64) {
        if let Some(estimate) = self.estimate_mut(kind) {
            estimate.add_sample(round_trip_ns);
        }
        // Slow start: growing by one call per reply doubles the window with each round trip. RFC
        // 5681 section 3.1.
        let grows_by = if self.window < self.threshold {
            SCALE
        } else {
            // One call per window of replies.
            SCALE * SCALE / self.window.max(1)
        };
        self.window = (self.window + grows_by.max(1)).min(self.window_max);
    }

    /// Records that a datagram sent at `sent_ns` had no reply in time.
    pub(super) fn timed_out(&mut self, sent_ns: u64, now_ns: u64) {
        // Several calls of one window lost together are one sign of congestion.
        if sent_ns < self.halved_ns {
            return;
        }
        // Never below one call: with none in flight, no reply could open it again.
        self.window = (self.window / 2).max(SCALE);
        self.threshold = self.window;
        self.halved_ns = now_ns;
    }

    /// Returns how long a call may go without a reply before it is first retransmitted; at most
    /// `timeo_ns`, which applies while no estimate exists.
    pub(super) fn timeout_ns(&self, kind: Kind, timeo_ns: u64) -> u64 {
        let estimate = match kind {
            Kind::File(OperationKind::Read) => &self.reads,
            Kind::File(OperationKind::Write) => &self.writes,
            _ => return timeo_ns,
        };
        // Never below the minimum timeout, since a server that is busy for a few milliseconds has
        // lost nothing; never above the user's setting, which is the limit for calls with unknown
        // duration.
        match estimate.timeout_ns() {
            Some(estimated_ns) if self.is_adaptive => {
                estimated_ns.max(TIMEOUT_NS_MIN).min(timeo_ns)
            }
            _ => timeo_ns,
        }
    }

    fn estimate_mut(&mut self, kind: Kind) -> Option<&mut RoundTrip> {
        match kind {
            Kind::File(OperationKind::Read) => Some(&mut self.reads),
            Kind::File(OperationKind::Write) => Some(&mut self.writes),
            _ => None,
        }
    }
}

/// The estimate of a round-trip time.
#[derive(Debug, Default)]
struct RoundTrip {
    /// `None` before the first reply.
    known: Option<Smoothed>,
}

/// Smoothed round-trip time and deviation, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Smoothed {
    mean_ns: u64,
    deviation_ns: u64,
}

impl RoundTrip {
    /// Adds a sample with the weights of RFC 6298: an eighth to the mean, a quarter to the
    /// deviation, which is computed from the mean before this sample.
    fn add_sample(&mut self, sample_ns: u64) {
        self.known = Some(match self.known {
            // RFC 6298 section 2.2: half of the first sample replaces the unknown deviation.
            None => Smoothed { mean_ns: sample_ns, deviation_ns: sample_ns / 2 },
            Some(Smoothed { mean_ns, deviation_ns }) => {
                // RFC 6298 section 2.3: the deviation uses the mean before this sample, so update
                // it first.
                let off_ns = mean_ns.abs_diff(sample_ns);
                Smoothed {
                    mean_ns: (7 * mean_ns + sample_ns) / 8,
                    deviation_ns: (3 * deviation_ns + off_ns) / 4,
                }
            }
        });
    }

    fn timeout_ns(&self) -> Option<u64> {
        self.known.map(|known| known.mean_ns + 4 * known.deviation_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Kind = Kind::File(OperationKind::Read);
    const COMMIT: Kind = Kind::File(OperationKind::Commit);
    const MS: u64 = 1_000_000;

    fn calls(congestion: &Congestion) -> u32 {
        congestion.window / SCALE
    }

    #[test]
    fn doubles_window_until_loss() {
        let mut congestion = Congestion::new(UdpWindow::Adaptive, 64);
        assert!(congestion.allows_call(1) && !congestion.allows_call(2));
        for expected in [4, 8, 16] {
            for _ in 0..calls(&congestion) {
                congestion.note_reply(READ, MS);
            }
            assert_eq!(calls(&congestion), expected);
        }
        congestion.timed_out(10, 20);
        assert_eq!(calls(&congestion), 8);
        // Lost with the first one.
        congestion.timed_out(15, 30);
        assert_eq!(calls(&congestion), 8);
        congestion.timed_out(25, 40);
        assert_eq!(calls(&congestion), 4);
        for _ in 0..5 {
            congestion.note_reply(READ, MS);
        }
        assert_eq!(calls(&congestion), 5);
        for after in 1..20 {
            congestion.timed_out(after * 1_000, after * 1_000 + 1);
        }
        assert!(calls(&congestion) == 1 && congestion.allows_call(0));
        for _ in 0..10_000 {
            congestion.note_reply(READ, MS);
        }
        assert_eq!(calls(&congestion), 64, "never more than there are slots");
        assert!(Congestion::new(UdpWindow::Off, 4).allows_call(1_000_000));
    }

    #[test]
    fn detects_lost_reads_early() {
        let timeo_ns = 1_100 * MS;
        let mut congestion = Congestion::new(UdpWindow::Adaptive, 64);
        assert_eq!(congestion.timeout_ns(READ, timeo_ns), timeo_ns);
        congestion.note_reply(READ, 100 * MS);
        // RFC 6298, 2.2: the first sample and four times half of it.
        assert_eq!(congestion.timeout_ns(READ, timeo_ns), 300 * MS);
        for _ in 0..100 {
            congestion.note_reply(READ, MS);
        }
        assert_eq!(congestion.timeout_ns(READ, timeo_ns), TIMEOUT_NS_MIN);
        assert_eq!(congestion.timeout_ns(READ, 50 * MS), 50 * MS, "never above what was requested");
        congestion.note_reply(COMMIT, MS);
        assert_eq!(congestion.timeout_ns(COMMIT, timeo_ns), timeo_ns);
        let off = Congestion::new(UdpWindow::Off, 4);
        assert_eq!(off.timeout_ns(READ, timeo_ns), timeo_ns);
    }
}
