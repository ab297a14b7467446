//! Caveat about TCP segments that were retransmitted during the pass.
//!
//! Two rules raise it. A high *share* of retransmitted segments slows TCP down at any rate. And
//! with few segments in flight, a single loss costs a timeout of 200 ms, which is thousands of
//! small ops. So the second rule considers the *time* that ops were held up, as far as losses
//! explain it.
//!
//! In the receiving direction, only traces of a loss are visible: a segment that arrives out of
//! order because the previous one was lost, and a call that was retransmitted although it had
//! arrived, because the reply that would have acknowledged it was lost. Both also happen on
//! loopback, where nothing is lost, so they only count if ops took exactly one timeout longer.

use std::ops::Range;

use engine::backend::TcpCounters;
use lab::mounts::Mount;
use model::units::three_digits;
use model::{Caveat, CaveatCode, Evidence, HeldOps, PassResult, Proto, RunSpec, Telemetry};

use super::is_on_nfs;

/// Number of retransmitted segments that chance explains, such as tail loss probes or a queue that
/// overflowed once.
pub const SEGMENTS_AGAIN_MAX: u64 = 64;

/// Share of retransmitted segments above which TCP is slowed down.
///
/// **Source:** Mathis, Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion
/// avoidance algorithm" (1997): throughput is inversely proportional to the square root of the
/// loss, about 40 segments per round trip at a loss of one in a thousand.
pub(crate) const SEGMENTS_AGAIN_SHARE_MAX: f64 = 0.001;

/// Minimum number of lost segments that can explain ops delayed by a few milliseconds. With fewer,
/// the ops may have waited for a CPU.
pub const LOST_MIN: u64 = 8;

const MS: u64 = 1_000_000;

/// Additional time of an op that waits for any of TCP's timers.
///
/// **Source:** net/ipv4/tcp_output.c (`tcp_schedule_loss_probe`): two ticks, which are at least 2
/// ms, plus two round trips.
const ANY_TIMER_NS: Range<u64> = 2 * MS..u64::MAX;

/// Additional time of an op that waits for a retransmission timeout.
///
/// **Source:** include/net/tcp.h (`TCP_RTO_MIN`): 200 ms.
const TIMEOUT_NS: Range<u64> = 180 * MS..u64::MAX;

/// Raises a caveat about segments that TCP had to retransmit during the pass.
///
/// If the connections are our own, `tcp` has their counters. For the kernel's client, there are
/// only the counters of the whole host, which include other programs; the evidence mentions that. A
/// segment that arrived twice was not lost: TCP sends tail loss probes as soon as an ACK is late,
/// for example on loopback when the receiver is waiting for a CPU.
pub fn about_segments(
    spec: &RunSpec,
    result: &PassResult,
    mount: Option<&Mount>,
    tcp: &TcpCounters,
) -> Option<Caveat> {
    let has_server = spec.target.server_host().is_some() || is_on_nfs(mount);
    if !has_server || spec.nfs().proto != Proto::Tcp {
        return None;
    }
    let segments = if tcp.connections > 0 {
        Segments::from_connections(tcp)
    } else {
        Segments::from_host(result.telemetry.first()?)
    };
    segments.check_share().or_else(|| segments.check_held(result))
}

/// Segments that were sent and retransmitted.
struct Segments {
    sent: u64,
    retransmitted: u64,
    arrived_twice: u64,
    out_of_order: u64,
    /// Connections that share the ops in flight; `None` if others are counted, too.
    connections: Option<u32>,
    /// Description of the connections that sent them.
    senders: String,
    /// Sources of the counters: retransmitted, arrived twice, and out of order.
    sources: [&'static str; 3],
}

impl Segments {
    fn from_connections(tcp: &TcpCounters) -> Self {
        let plural = if tcp.connections == 1 { "" } else { "s" };
        let mut senders = format!("{} connection{plural} of this client", tcp.connections);
        if tcp.uncounted > 0 {
            senders = format!("{senders} ({} more not counted)", tcp.uncounted);
        }
        Self {
            sent: tcp.segments_sent,
            retransmitted: tcp.segments_retransmitted,
            arrived_twice: tcp.segments_arrived_twice,
            out_of_order: tcp.segments_out_of_order,
            connections: Some(tcp.connections),
            senders,
            sources: ["tcpi_total_retrans of TCP_INFO", "tcpi_dsack_dups", "tcpi_rcv_ooopack"],
        }
    }

    fn from_host(telemetry: &Telemetry) -> Self {
        Self {
            sent: telemetry.increase("tcp.segments_sent"),
            retransmitted: telemetry.increase("tcp.segments_retransmitted"),
            arrived_twice: telemetry.increase("tcp.segments_arrived_twice"),
            out_of_order: telemetry.increase("tcp.segments_out_of_order"),
            connections: None,
            senders: "all connections of this host".to_owned(),
            sources: [
                "RetransSegs of /proc/net/snmp",
                "TCPDSACKRecvSegs of /proc/net/netstat",
                "TCPOFOQueue",
            ],
        }
    }

    /// Returns the number of retransmitted segments that had not arrived the first time.
    fn count_lost(&self) -> u64 {
        self.retransmitted.saturating_sub(self.arrived_twice)
    }

    fn check_share(&self) -> Option<Caveat> {
        let Self { sent, arrived_twice, senders, sources: [source, twice_source, _], .. } = self;
        let again = self.count_lost();
        let share = again as f64 / (*sent).max(1) as f64;
        if again <= SEGMENTS_AGAIN_MAX || share <= SEGMENTS_AGAIN_SHARE_MAX {
            return None;
        }
        let evidence = format!(
            "{senders} retransmitted {again} of {sent} segments ({} %, limit {} %; {source}, minus \
             {arrived_twice} that arrived twice according to {twice_source})",
            three_digits(share * 100.0),
            SEGMENTS_AGAIN_SHARE_MAX * 100.0,
        );
        let data = Evidence::shares(share, SEGMENTS_AGAIN_SHARE_MAX, *source);
        Some(CaveatCode::TcpRetransmits.because(evidence).with_data(data))
    }

    /// Raises the caveat if lost segments explain much of the time that ops took.
    fn check_held(&self, result: &PassResult) -> Option<Caveat> {
        let held = self.held_ops(result);
        if !held.affects_result() {
            return None;
        }
        let Self { sent, arrived_twice, out_of_order, senders, sources, .. } = self;
        let [source, twice_source, order_source] = sources;
        let evidence = format!(
            "{senders} lost {} of {sent} segments ({source} minus {twice_source}); segments lost \
             by the server show as {out_of_order} that arrived out of order ({order_source}) and \
             {arrived_twice} that were retransmitted in vain ({twice_source}); {}",
            self.count_lost(),
            held.describe(),
        );
        Some(CaveatCode::TcpRetransmits.because(evidence).with_data(held.evidence(source)))
    }

    /// Returns the ops held up by lost segments, by the rule that explains the most time.
    fn held_ops(&self, result: &PassResult) -> HeldOps {
        let mut held = HeldOps::default();
        let mut consider = |found: HeldOps| {
            held = if found.held_ns > held.held_ns { found } else { held };
        };
        let traces = self.arrived_twice + self.out_of_order;
        let Some(connections) = self.connections else {
            // Other programs may have lost the segments. A mount has one connection unless
            // configured otherwise.
            consider(HeldOps::timed_out(result, self.count_lost() + traces, Some(1)));
            return held;
        };
        consider(HeldOps::timed_out(result, traces, Some(connections)));
        // Out-of-order segments don't prove a loss: in bulk transfers on loopback, CPUs reorder
        // some.
        let lost = self.count_lost();
        for (lost_min, excess_ns) in [(LOST_MIN, ANY_TIMER_NS), (HeldOps::TIMEOUTS_MIN, TIMEOUT_NS)]
        {
            if lost >= lost_min {
                consider(HeldOps::of_losses(result, lost, Some(connections), excess_ns));
            }
        }
        held
    }
}
