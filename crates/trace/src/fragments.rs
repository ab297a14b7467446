//! IP packets that were sent in parts, put together again.
//!
//! NFS over UDP sends requests of up to 64 KiB, which IP cuts to the size of a frame.
//! [`FragmentPool`] keeps parts until the packet is complete. It is bounded: old packets are
//! dropped for new ones, and counted. A part that was captured cut counts as if it were complete,
//! with a hole, so that a short snap length still shows the calls.
//! **Source:** RFC 791 section 3.2, RFC 8200 section 4.5.

use std::collections::HashMap;

use crate::packet::{Fragment, FragmentKey};

/// The longest payload of an IP packet, in bytes.
const PAYLOAD_BYTES_MAX: usize = 65_535;
/// The most packets that are put together at a time.
const PACKETS_MAX: usize = 1024;
/// The most bytes that all of them hold.
const BYTES_MAX: usize = 16 << 20;
/// The most parts of one packet: 64 KiB in frames of 576 bytes, and some that overlap.
const PARTS_MAX: usize = 256;
/// How long parts are kept, in nanoseconds. **Source:** Linux, `ipfrag_time`: 30 s.
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
    /// The payload; what was cut off of a part is zero here, and not within `seen`.
    bytes: Vec<u8>,
    arrived: Vec<Range>,
    kept: Vec<Range>,
    /// Length of the whole payload, once the last part is there.
    len: Option<usize>,
}

/// A payload that was put together.
#[derive(Debug, Clone, Copy)]
pub struct Assembled<'a> {
    /// The bytes from the begin up to the first that is missing.
    pub bytes: &'a [u8],
    /// Length on the wire, in bytes.
    pub wire_bytes: usize,
    /// When the first part was seen, in nanoseconds since 1970.
    pub first_ns: u64,
}

/// Packets of which some parts have arrived.
#[derive(Debug, Default)]
pub struct FragmentPool {
    packets: HashMap<FragmentKey, Packet>,
    bytes: usize,
    /// The packet that was returned last.
    finished: Packet,
    /// Packets that were dropped incomplete.
    pub incomplete: u64,
}

impl FragmentPool {
    /// Adds a part; returns the payload where it is complete now.
    pub fn add(&mut self, part: &Fragment<'_>, time_ns: u64) -> Option<Assembled<'_>> {
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

    /// Counts what will never be complete.
    pub fn finish(&mut self) {
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
            // None is old: all are given up, which bounds the work for each part, too.
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

/// Tells whether ranges in any order leave nothing out up to a length.
fn covers(ranges: &[Range], len: usize) -> bool {
    covered_from_start(ranges) >= len
}

/// Returns up to where ranges in any order leave nothing out.
fn covered_from_start(ranges: &[Range]) -> usize {
    let mut reached = 0;
    // Each round reaches further or is the last. Parts mostly come in order, so that the first
    // round does it.
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
    fn parts_in_any_order_are_put_together() {
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
    fn a_part_that_was_cut_ends_what_is_seen() {
        let mut pool = FragmentPool::default();
        let cut = Fragment { wire_bytes: 8, ..part(1, 0, b"0123") };
        assert!(pool.add(&cut, 0).is_none());
        let whole = pool.add(&Fragment { is_last: true, ..part(1, 8, b"end") }, 0).unwrap();
        assert_eq!((whole.bytes, whole.wire_bytes), (&b"0123"[..], 11));
    }

    #[test]
    fn packets_that_never_end_are_dropped_and_counted() {
        let mut pool = FragmentPool::default();
        for id in 0..3000 {
            assert!(pool.add(&part(id, 0, &[0; 1400]), u64::from(id)).is_none());
            assert!(pool.packets.len() <= PACKETS_MAX && pool.bytes <= BYTES_MAX + 65_535);
        }
        pool.finish();
        assert_eq!((pool.incomplete, pool.bytes), (3000, 0));
    }
}
