//! Reassembles fragmented IP packets.
//!
//! NFS over UDP sends requests of up to 64 KiB, which IP splits to fit into frames.
//! [`FragmentPool`] keeps fragments until the packet is complete. Its size is limited: old packets
//! are dropped for new ones and counted. A fragment that was truncated by the snap length counts as
//! complete but has a hole, so that calls are visible even with a short snap length.
//! **Source:** RFC 791 section 3.2, RFC 8200 section 4.5.

use std::collections::HashMap;

use crate::packet::{Fragment, FragmentKey};

/// Maximum payload of an IP packet in bytes.
const PAYLOAD_BYTES_MAX: usize = 65_535;
/// Maximum number of packets to reassemble at the same time.
const PACKETS_MAX: usize = 1024;
/// Maximum size of all of them in bytes.
const BYTES_MAX: usize = 16 << 20;
/// Maximum number of fragments per packet: 64 KiB in frames of 576 bytes, and some overlap.
const PARTS_MAX: usize = 256;
/// How long fragments are kept, in nanoseconds. **Source:** Linux, `ipfrag_time`: 30 s.
const AGE_NS_MAX: u64 = 30_000_000_000;

/// A range of a packet that has arrived.
#[derive(Debug, Clone, Copy)]
struct Range {
    start: usize,
    end: usize,
}

#[derive(Debug, Default)]
struct Packet {
    first_ns: u64,
    /// The payload. Truncated bytes of a fragment are zero and not within `seen`.
    bytes: Vec<u8>,
    arrived: Vec<Range>,
    kept: Vec<Range>,
    /// Length of the complete payload, once the last fragment has arrived.
    len: Option<usize>,
}

/// A reassembled payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assembled<'a> {
    /// The bytes up to the first missing one.
    pub bytes: &'a [u8],
    /// Length on the wire, in bytes.
    pub wire_bytes: usize,
    /// When the first fragment was seen, in nanoseconds since 1970.
    pub first_ns: u64,
}

/// Packets with some of their fragments.
#[derive(Debug, Default)]
pub(crate) struct FragmentPool {
    packets: HashMap<FragmentKey, Packet>,
    bytes: usize,
    /// The packet returned last.
    finished: Packet,
    /// Packets dropped before they were complete.
    pub incomplete: u64,
}

impl FragmentPool {
    /// Adds a fragment. Returns the payload if it is now complete.
    pub(crate) fn add(&mut self, part: &Fragment<'_>, time_ns: u64) -> Option<Assembled<'_>> {
        let end = part.offset + part.wire_bytes;
        if end > PAYLOAD_BYTES_MAX || part.wire_bytes == 0 {
            self.incomplete += 1;
            return None;
        }
        self.make_room(time_ns);
        let packet = self
            .packets
            .entry(part.key)
            .or_insert_with(|| Packet { first_ns: time_ns, ..Packet::default() });
        let before = packet.bytes.len();
        packet.add(part);
        self.bytes += packet.bytes.len() - before;
        let len = packet.len?;
        if !covers(&packet.arrived, len) {
            return None;
        }
        let packet = self.packets.remove(&part.key)?;
        self.bytes -= packet.bytes.len();
        self.finished = packet;
        let finished = &self.finished;
        let seen = covered_from_start(&finished.kept).min(len);
        Some(Assembled {
            bytes: finished.bytes.get(..seen).unwrap_or_default(),
            wire_bytes: len,
            first_ns: finished.first_ns,
        })
    }

    /// Counts packets that will never be complete.
    pub(crate) fn finish(&mut self) {
        self.incomplete += self.packets.len() as u64;
        self.packets.clear();
        self.bytes = 0;
    }

    fn make_room(&mut self, time_ns: u64) {
        if self.packets.len() < PACKETS_MAX && self.bytes < BYTES_MAX {
            return;
        }
        let before = self.packets.len();
        self.packets.retain(|_, packet| time_ns.saturating_sub(packet.first_ns) < AGE_NS_MAX);
        if self.packets.len() == before {
            // If none are old, drop all of them, which also limits the work per fragment.
            self.packets.clear();
        }
        self.incomplete += (before - self.packets.len()) as u64;
        self.bytes = 0;
        for packet in self.packets.values() {
            self.bytes += packet.bytes.len();
        }
    }
}

impl Packet {
    fn add(&mut self, part: &Fragment<'_>) {
        let end = part.offset + part.wire_bytes;
        if part.is_last {
            self.len = Some(end);
        }
        if self.arrived.len() >= PARTS_MAX {
            return;
        }
        let kept_end = part.offset + part.bytes.len().min(part.wire_bytes);
        if self.bytes.len() < kept_end {
            self.bytes.resize(kept_end, 0);
        }
        self.bytes[part.offset..kept_end].copy_from_slice(&part.bytes[..kept_end - part.offset]);
        self.arrived.push(Range { start: part.offset, end });
        self.kept.push(Range { start: part.offset, end: kept_end });
    }
}

/// Returns true if ranges in any order cover everything up to a length.
fn covers(ranges: &[Range], len: usize) -> bool {
    covered_from_start(ranges) >= len
}

/// Returns the length covered without gaps by ranges in any order.
fn covered_from_start(ranges: &[Range]) -> usize {
    let mut reached = 0;
    // Each round gets further or is the last. Fragments are usually in order, so one round is
    // enough.
    loop {
        let before = reached;
        for range in ranges {
            if range.start <= reached {
                reached = reached.max(range.end);
            }
        }
        if reached == before {
            return reached;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const KEY: FragmentKey = FragmentKey {
        from: IpAddr::V4(Ipv4Addr::LOCALHOST),
        to: IpAddr::V4(Ipv4Addr::BROADCAST),
        id: 1,
        protocol: 17,
    };

    fn part(id: u32, offset: usize, bytes: &[u8]) -> Fragment<'_> {
        let key = FragmentKey { id, ..KEY };
        Fragment { key, offset, is_last: false, bytes, wire_bytes: bytes.len() }
    }

    #[test]
    fn reassembles_fragments_in_any_order() {
        let mut pool = FragmentPool::default();
        let last = Fragment { is_last: true, ..part(1, 16, b"end") };
        assert!(pool.add(&last, 5).is_none());
        assert!(pool.add(&part(1, 0, b"01234567"), 6).is_none());
        let whole = pool.add(&part(1, 8, b"89abcdef"), 7).unwrap();
        assert_eq!((whole.bytes, whole.wire_bytes), (&b"0123456789abcdefend"[..], 19));
        assert_eq!(whole.first_ns, 5);
        assert_eq!((pool.packets.len(), pool.bytes, pool.incomplete), (0, 0, 0));
    }

    #[test]
    fn ends_packet_at_cut_fragment() {
        let mut pool = FragmentPool::default();
        let cut = Fragment { wire_bytes: 8, ..part(1, 0, b"0123") };
        assert!(pool.add(&cut, 0).is_none());
        let whole = pool.add(&Fragment { is_last: true, ..part(1, 8, b"end") }, 0).unwrap();
        assert_eq!((whole.bytes, whole.wire_bytes), (&b"0123"[..], 11));
    }

    #[test]
    fn drops_and_counts_incomplete_packets() {
        let mut pool = FragmentPool::default();
        for id in 0..3000 {
            assert!(pool.add(&part(id, 0, &[0; 1400]), u64::from(id)).is_none());
            assert!(pool.packets.len() <= PACKETS_MAX && pool.bytes <= BYTES_MAX + 65_535);
        }
        pool.finish();
        assert_eq!((pool.incomplete, pool.bytes), (3000, 0));
    }
}
