//! The counts that say how complete a trace is.
//!
//! [`Counters`] is written into the end of a trace file, as JSON: a count that is added is 0 in
//! older files. Everything that was not seen is one of them.

use serde::{Deserialize, Serialize};

/// Counts of what was seen and what was not, of a whole capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Packets in the captures.
    pub packets: u64,
    /// Bytes of those packets on the wire.
    pub wire_bytes: u64,
    /// Packets that the kernel dropped, by the statistics of pcapng; pcap has none.
    pub packets_dropped: u64,
    /// Packets that were cut off within their headers, or are malformed.
    pub packets_unreadable: u64,
    /// IP packets of which a part is missing.
    pub fragments_incomplete: u64,
    /// Captures that end within a packet.
    pub captures_cut: u64,
    /// Calls of NFS and MOUNT, each once however often it was sent.
    pub calls: u64,
    /// Operations in them: those of compounds, and one for each other call.
    pub ops: u64,
    /// Calls that were sent again while no reply had come.
    pub calls_again: u64,
    /// Datagrams with calls that were sent again after their reply.
    pub calls_after_reply: u64,
    /// Replies that belong to a call.
    pub replies: u64,
    /// Replies whose call was not seen.
    pub replies_without_call: u64,
    /// Replies that were sent again.
    pub replies_again: u64,
    /// Calls whose reply was not seen.
    pub calls_without_reply: u64,
    /// Calls of other programs on the same connections, such as callbacks and ACLs.
    pub calls_other: u64,
    /// Messages that could not be decoded though they were all there.
    pub messages_malformed: u64,
    /// Messages of which the decoded part is not all, since bytes are missing.
    pub messages_cut: u64,
    /// TCP segments that were sent again.
    pub segments_again: u64,
    /// TCP segments that were captured before others that precede them.
    pub segments_out_of_order: u64,
    /// Gaps of TCP segments that were sent and not captured.
    pub segments_lost: u64,
    /// Bytes of those gaps.
    pub bytes_lost: u64,
    /// Bytes that the snap length cut off.
    pub bytes_cut: u64,
    /// Records whose end was not captured.
    pub records_cut: u64,
    /// Times at which it was not known where the next record begins.
    pub times_unsynchronized: u64,
    /// Bytes that were passed over until it was known again, or that are encrypted.
    pub bytes_unsynchronized: u64,
    /// Connections that carried NFS or MOUNT.
    pub connections: u64,
    /// Hosts that sent calls.
    pub clients: u64,
    /// File handles that were forgotten for others, and would get another number.
    pub files_forgotten: u64,
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
