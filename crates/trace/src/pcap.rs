//! Packet capture files: pcap with microseconds or nanoseconds, and pcapng.
//!
//! [`PacketReader`] returns packets one by one as a view of its buffer, which grows up to the
//! largest packet but not beyond [`PACKET_BYTES_MAX`]. If the last packet of a file is truncated,
//! everything before it is read and the truncation is reported afterwards. Bytes that cannot be a
//! capture are an error. **Source:** draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::fmt::Write as _;
use std::io::Read;

use crate::error::CaptureError;

/// Maximum packet size in bytes. Jumbo frames assembled by a network card have up to 256 KiB
/// (`MAXIMUM_SNAPLEN` of libpcap). USB captures, which are skipped, have up to 128 MiB.
pub(crate) const PACKET_BYTES_MAX: usize = 1 << 20;

/// Number of bytes to read from the source at once.
const READ_BYTES: usize = 1 << 20;

/// Length of the header of a pcap file and of the header of each packet.
const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;
/// Length of the smallest pcapng block: its type, and its length twice.
const BLOCK_BYTES_MIN: usize = 12;
/// Maximum number of interfaces per section to tell apart.
const INTERFACES_MAX: usize = 4096;

// Block types. **Source:** draft-ietf-opsawg-pcapng, section 11.1.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// A captured packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Link type, a `LINKTYPE_` number.
    pub link: u16,
    /// Length on the wire, in bytes.
    pub wire_bytes: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// An interface of a pcapng section.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u16,
    snap_bytes: u32,
    /// Timestamp units per second.
    units_per_second: u64,
    /// Seconds to add to each timestamp.
    offset_seconds: i64,
    /// Packets dropped by the kernel, according to the latest statistics.
    dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unknown,
    Pcap { is_nanos: bool, link: u16 },
    Pcapng,
}

/// Reads the packets of a capture.
pub struct PacketReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// The part of the buffer that has been read but not consumed.
    start: usize,
    end: usize,
    /// Offset of `start` in the file, in bytes.
    position: u64,
    is_at_end: bool,
    is_cut: bool,
    kind: Kind,
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    /// Packets dropped by the kernel in previous sections.
    dropped_before: u64,
    /// Bytes of packets and blocks that were too long to be read.
    skipped_bytes: u64,
}

impl<R: Read> PacketReader<R> {
    /// Starts to read a capture. The format is determined from its first bytes.
    pub fn new(source: R) -> Self {
        Self {
            source,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
            position: 0,
            is_at_end: false,
            is_cut: false,
            kind: Kind::Unknown,
            is_big_endian: false,
            interfaces: Vec::new(),
            dropped_before: 0,
            skipped_bytes: 0,
        }
    }

    /// Returns the next packet, or `None` at the end.
    ///
    /// # Errors
    /// Returns [`CaptureError`] if reading fails or the source is not a capture.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        if self.kind == Kind::Unknown {
            self.read_file_header()?;
        }
        match self.kind {
            Kind::Pcap { is_nanos, link } => self.next_of_pcap(is_nanos, link),
            Kind::Pcapng | Kind::Unknown => self.next_of_pcapng(),
        }
    }

    /// Returns true if the file ended within a packet or block.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns how many packets the kernel dropped, according to pcapng statistics; pcap has none.
    pub fn dropped(&self) -> u64 {
        let mut dropped = self.dropped_before;
        for interface in &self.interfaces {
            dropped = dropped.saturating_add(interface.dropped);
        }
        dropped
    }

    pub const fn position(&self) -> u64 {
        self.position
    }

    fn read_file_header(&mut self) -> Result<(), CaptureError> {
        let there = self.fill(FILE_HEADER_BYTES)?;
        if there == 0 {
            return Err(CaptureError::Empty);
        }
        let head = &self.buffer[self.start..self.start + there.min(FILE_HEADER_BYTES)];
        // The magic number is in the writer's byte order, which tells us what that is.
        let Some(magic) = head.first_chunk::<4>() else {
            return Err(CaptureError::Foreign(describe_bytes(head)));
        };
        let (is_nanos, is_big_endian) = match magic {
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                self.kind = Kind::Pcapng;
                return Ok(());
            }
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, false),
            [0x4d, 0x3c, 0xb2, 0xa1] => (true, false),
            [0xa1, 0xb2, 0xc3, 0xd4] => (false, true),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, true),
            // gzip, Zstandard, xz and LZ4.
            [0x1f, 0x8b, ..]
            | [0x28, 0xb5, 0x2f, 0xfd]
            | [0xfd, b'7', b'z', b'X']
            | [0x04, 0x22, 0x4d, 0x18] => return Err(CaptureError::Compressed),
            _ => return Err(CaptureError::Foreign(describe_bytes(magic))),
        };
        if there < FILE_HEADER_BYTES {
            return Err(CaptureError::CutHeader { needed: FILE_HEADER_BYTES, left: there });
        }
        self.is_big_endian = is_big_endian;
        // The upper half of the link type contains flags about frame check sequences.
        let link = self.u32_at(20) as u16;
        self.kind = Kind::Pcap { is_nanos, link };
        self.consume(FILE_HEADER_BYTES);
        Ok(())
    }

    fn next_of_pcap(
        &mut self,
        is_nanos: bool,
        link: u16,
    ) -> Result<Option<Packet<'_>>, CaptureError> {
        loop {
            if !self.has(PACKET_HEADER_BYTES)? {
                return Ok(None);
            }
            let [seconds, fraction, kept, wire_bytes] =
                [self.u32_at(0), self.u32_at(4), self.u32_at(8), self.u32_at(12)];
            // Reject implausible lengths: a flipped bit would lead into the middle of another
            // packet.
            if kept > wire_bytes.max(PACKET_BYTES_MAX as u32) {
                return Err(CaptureError::Corrupt {
                    at: self.position,
                    what: "the length of a packet",
                    value: kept.into(),
                });
            }
            if kept as usize > PACKET_BYTES_MAX {
                self.skip_long(u64::from(kept) + PACKET_HEADER_BYTES as u64)?;
                continue;
            }
            let whole = PACKET_HEADER_BYTES + kept as usize;
            if !self.has(whole)? {
                return Ok(None);
            }
            let nanos = if is_nanos { u64::from(fraction) } else { u64::from(fraction) * 1000 };
            let time_ns = u64::from(seconds) * 1_000_000_000 + nanos;
            let at = self.start + PACKET_HEADER_BYTES;
            self.consume(whole);
            let bytes = &self.buffer[at..at + kept as usize];
            return Ok(Some(Packet { time_ns, link, wire_bytes, bytes }));
        }
    }

    fn next_of_pcapng(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        loop {
            if !self.has(BLOCK_BYTES_MIN)? {
                return Ok(None);
            }
            let block_type = self.u32_at(0);
            if block_type == SECTION_HEADER {
                self.begin_section()?;
            }
            let len = self.u32_at(4) as usize;
            if len < BLOCK_BYTES_MIN || !len.is_multiple_of(4) {
                return Err(CaptureError::Corrupt {
                    at: self.position,
                    what: "the length of a block",
                    value: len as u64,
                });
            }
            if len > PACKET_BYTES_MAX + READ_BYTES / 2 {
                self.skip_long(len as u64)?;
                continue;
            }
            if !self.has(len)? {
                return Ok(None);
            }
            let found = match block_type {
                INTERFACE => self.add_interface(len)?,
                INTERFACE_STATISTICS => self.note_statistics(len),
                ENHANCED_PACKET | OLD_PACKET => self.find_packet(block_type, len)?,
                SIMPLE_PACKET => self.find_simple_packet(len)?,
                // Host names, secrets, comments, and unknown blocks.
                _ => None,
            };
            let block = self.start;
            self.consume(len);
            if let Some(found) = found {
                let at = block + found.at;
                let bytes = &self.buffer[at..at + found.kept];
                let PcapPacket { time_ns, link, wire_bytes, .. } = found;
                return Ok(Some(Packet { time_ns, link, wire_bytes, bytes }));
            }
        }
    }

    /// Reads the byte order of a section from its header. Interfaces are numbered from 0 again.
    fn begin_section(&mut self) -> Result<(), CaptureError> {
        if !self.has(BLOCK_BYTES_MIN)? {
            return Ok(());
        }
        self.is_big_endian = match &self.buffer[self.start + 8..self.start + 12] {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            other => {
                let value = u64::from(u32::from_be_bytes([other[0], other[1], other[2], other[3]]));
                let at = self.position;
                return Err(CaptureError::Corrupt { at, what: "the byte-order magic", value });
            }
        };
        self.dropped_before = self.dropped();
        self.interfaces.clear();
        Ok(())
    }

    fn add_interface(&mut self, len: usize) -> Result<Option<PcapPacket>, CaptureError> {
        if len < 20 || self.interfaces.len() >= INTERFACES_MAX {
            return Err(CaptureError::Corrupt {
                at: self.position,
                what: "the interface block's length",
                value: len as u64,
            });
        }
        let mut interface = Interface {
            link: self.u16_at(8),
            snap_bytes: self.u32_at(12),
            units_per_second: 1_000_000,
            offset_seconds: 0,
            dropped: 0,
        };
        let mut options = self.options(16, len);
        while let Some((code, at, option_len)) = options.next(self) {
            match (code, option_len) {
                // if_tsresol: a power of ten, or of two if the upper bit is set.
                (9, 1) => {
                    interface.units_per_second = units_per_second(self.buffer[self.start + at]);
                }
                // if_tsoffset
                (14, 8) => interface.offset_seconds = self.u64_at(at).cast_signed(),
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Ok(None)
    }

    fn note_statistics(&mut self, len: usize) -> Option<PcapPacket> {
        if len < 24 {
            return None;
        }
        let number = self.u32_at(8) as usize;
        let mut dropped = None;
        let mut options = self.options(20, len);
        while let Some((code, at, option_len)) = options.next(self) {
            // isb_ifdrop (no room at the interface) and isb_osdrop (no room in the kernel): both
            // are packets missing from this file. Each is a total since the beginning.
            if (code == 5 || code == 7) && option_len == 8 {
                let value = self.u64_at(at);
                dropped = Some(dropped.unwrap_or(0_u64).saturating_add(value));
            }
        }
        if let (Some(interface), Some(dropped)) = (self.interfaces.get_mut(number), dropped) {
            interface.dropped = dropped;
        }
        None
    }

    /// Finds the packet in an enhanced block, or in the obsolete kind, which has a 16-bit interface
    /// number.
    fn find_packet(
        &mut self,
        block_type: u32,
        len: usize,
    ) -> Result<Option<PcapPacket>, CaptureError> {
        const HEADER: usize = 28;
        if len < HEADER + 4 {
            return Err(CaptureError::Corrupt {
                at: self.position,
                what: "the length of a packet block",
                value: len as u64,
            });
        }
        let number = match block_type {
            OLD_PACKET => usize::from(self.u16_at(8)),
            _ => self.u32_at(8) as usize,
        };
        let stamp = u64::from(self.u32_at(12)) << 32 | u64::from(self.u32_at(16));
        let kept = self.u32_at(20) as usize;
        let wire_bytes = self.u32_at(24);
        let Some(interface) = self.interfaces.get(number) else {
            return Err(CaptureError::Corrupt {
                at: self.position,
                what: "the number of an interface",
                value: number as u64,
            });
        };
        if kept > len - HEADER - 4 {
            return Err(CaptureError::Corrupt {
                at: self.position,
                what: "the length of a packet",
                value: kept as u64,
            });
        }
        Ok(Some(PcapPacket {
            at: HEADER,
            kept,
            wire_bytes,
            link: interface.link,
            time_ns: interface.to_ns(stamp),
        }))
    }

    /// Finds the packet in a simple block, which has neither a time nor a captured length.
    fn find_simple_packet(&mut self, len: usize) -> Result<Option<PcapPacket>, CaptureError> {
        let Some(interface) = self.interfaces.first() else {
            let at = self.position;
            return Err(CaptureError::Corrupt { at, what: "the number of an interface", value: 0 });
        };
        if len < 16 {
            return Ok(None);
        }
        let wire_bytes = self.u32_at(8);
        let snap = if interface.snap_bytes == 0 { u32::MAX } else { interface.snap_bytes };
        let kept = (wire_bytes.min(snap) as usize).min(len - 16);
        Ok(Some(PcapPacket { at: 12, kept, wire_bytes, link: interface.link, time_ns: 0 }))
    }

    fn options(&self, from: usize, len: usize) -> Options {
        // The block's length is repeated at its end.
        Options { at: from, end: len.saturating_sub(4), is_big_endian: self.is_big_endian }
    }

    /// Skips a packet or block that is too long for the buffer.
    fn skip_long(&mut self, len: u64) -> Result<(), CaptureError> {
        self.skipped_bytes += len;
        let mut left = len;
        while left > 0 {
            let there = self.fill(1)? as u64;
            if there == 0 {
                self.is_cut = true;
                return Ok(());
            }
            let step = there.min(left);
            self.consume(step as usize);
            left -= step;
        }
        Ok(())
    }

    /// Returns true if this many bytes follow. If there are some but fewer, the file was truncated.
    fn has(&mut self, len: usize) -> Result<bool, CaptureError> {
        let there = if self.end - self.start >= len { len } else { self.fill(len)? };
        if there < len {
            self.is_cut |= there > 0;
            self.consume(there);
        }
        Ok(there >= len)
    }

    /// Reads until this many bytes are in the buffer or the source ends. Returns how many there
    /// are.
    fn fill(&mut self, len: usize) -> Result<usize, CaptureError> {
        if self.end - self.start < len {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.buffer.len() < len {
                self.buffer.resize(len.next_multiple_of(READ_BYTES), 0);
            }
        }
        while self.end - self.start < len && !self.is_at_end {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CaptureError::Read(error)),
            }
        }
        Ok(self.end - self.start)
    }

    const fn consume(&mut self, len: usize) {
        self.start += len;
        self.position += len as u64;
    }

    fn u16_at(&self, at: usize) -> u16 {
        let bytes = &self.buffer[self.start + at..self.start + at + 2];
        let bytes = [bytes[0], bytes[1]];
        if self.is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32_at(&self, at: usize) -> u32 {
        let bytes = &self.buffer[self.start + at..self.start + at + 4];
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64_at(&self, at: usize) -> u64 {
        let first = u64::from(self.u32_at(at));
        let second = u64::from(self.u32_at(at + 4));
        if self.is_big_endian { first << 32 | second } else { second << 32 | first }
    }
}

/// A packet within its block.
struct PcapPacket {
    at: usize,
    kept: usize,
    wire_bytes: u32,
    link: u16,
    time_ns: u64,
}

impl Interface {
    fn to_ns(self, stamp: u64) -> u64 {
        // With a resolution of nanoseconds, the product needs more than 64 bits.
        let ns = u128::from(stamp) * 1_000_000_000 / u128::from(self.units_per_second);
        let offset = i128::from(self.offset_seconds) * 1_000_000_000;
        u64::try_from(ns.cast_signed() + offset).unwrap_or_default()
    }
}

fn units_per_second(resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let units = if resolution & 0x80 == 0 {
        10_u64.checked_pow(exponent)
    } else {
        2_u64.checked_pow(exponent)
    };
    // Nothing writes a resolution finer than 64 bits of units per second.
    units.unwrap_or(u64::MAX)
}

/// Iterates over the options at the end of a block.
struct Options {
    at: usize,
    end: usize,
    is_big_endian: bool,
}

impl Options {
    /// Returns code, offset within the block, and length of the next option.
    fn next<R: Read>(&mut self, reader: &PacketReader<R>) -> Option<(u16, usize, usize)> {
        debug_assert_eq!(self.is_big_endian, reader.is_big_endian);
        if self.at + 4 > self.end {
            return None;
        }
        let code = reader.u16_at(self.at);
        let len = usize::from(reader.u16_at(self.at + 2));
        let at = self.at + 4;
        if code == 0 || at + len > self.end {
            return None;
        }
        self.at = at + len.next_multiple_of(4);
        Some((code, at, len))
    }
}

fn describe_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a String never fails.
        let _ = write!(text, "{byte:02x} ");
    }
    text.trim_end().to_owned()
}
