//! Counts that show how complete a trace is.
//!
//! [`Counters`] is written to the end of a trace file as JSON; counts added later are 0 in older
//! files. Everything that was not seen is included in one of them.

use serde::{Deserialize, Serialize};

/// Counts of what was and was not seen in a whole capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Packets in the captures.
    pub packets: u64,
    /// Bytes of those packets on the wire.
    pub wire_bytes: u64,
    /// Packets dropped by the kernel, according to the statistics of pcapng; pcap has none.
    pub packets_dropped: u64,
    /// Packets that were truncated within their headers or malformed.
    pub packets_unreadable: u64,
    /// IP packets with missing fragments.
    pub fragments_incomplete: u64,
    /// Captures that end within a packet.
    pub captures_cut: u64,
    /// Calls of NFS and MOUNT, not counting retransmissions.
    pub calls: u64,
    /// Operations in these calls: all those of a compound, and one for any other call.
    pub ops: u64,
    /// Calls retransmitted before a reply had arrived.
    pub calls_again: u64,
    /// Datagrams with calls that were retransmitted after their reply.
    pub calls_after_reply: u64,
    /// Replies with a matching call.
    pub replies: u64,
    /// Replies without a matching call.
    pub replies_without_call: u64,
    /// Replies that were sent again.
    pub replies_again: u64,
    pub calls_without_reply: u64,
    /// Calls of other programs on the same connections, such as callbacks and ACLs.
    pub calls_other: u64,
    /// Messages that were complete but could not be decoded.
    pub messages_malformed: u64,
    /// Messages that were only partially decoded because bytes are missing.
    pub messages_cut: u64,
    /// TCP segments that were retransmitted.
    pub segments_again: u64,
    /// TCP segments captured out of order.
    pub segments_out_of_order: u64,
    /// Gaps of TCP segments that were sent but not captured.
    pub segments_lost: u64,
    /// Bytes in these gaps.
    pub bytes_lost: u64,
    /// Bytes removed by the snap length.
    pub bytes_cut: u64,
    /// Records whose end was not captured.
    pub records_cut: u64,
    /// How often the start of the next record was unknown.
    pub times_unsynchronized: u64,
    /// Bytes that were skipped until it was found again, or that are encrypted.
    pub bytes_unsynchronized: u64,
    /// Connections that carried NFS or MOUNT.
    pub connections: u64,
    /// Hosts that sent calls.
    pub clients: u64,
    /// File handles that were dropped to make room and would get a new number.
    pub files_forgotten: u64,
    /// Files of an imported program that were mapped; what it did there is not in the trace.
    pub files_mapped: u64,
    /// System calls of an imported program that have no counterpart.
    pub calls_not_imported: u64,
}

impl Counters {
    /// Returns the share of the traffic that is missing, from 0 to 1: of calls with their replies,
    /// of messages, of bytes or of packets, whichever share is largest.
    pub fn missing_share(&self) -> f64 {
        let half_seen = self.replies_without_call + self.calls_without_reply;
        let unread = self.messages_cut + self.messages_malformed;
        let unknown = self.bytes_lost + self.bytes_unsynchronized;
        let unusable = self.packets_dropped + self.packets_unreadable + self.fragments_incomplete;
        let mut largest = 0.0_f64;
        for (part, all) in [
            (half_seen, self.calls + self.replies_without_call),
            (unread, self.calls + self.replies + self.replies_without_call),
            (unknown, self.wire_bytes + self.bytes_lost),
            (unusable, self.packets + self.packets_dropped),
        ] {
            largest = largest.max(part as f64 / all.max(1) as f64);
        }
        largest.min(1.0)
    }
}
