//! Captures and trace files: hostile bytes never panic, and counts add up.
//!
//! [`check_packets`] converts a capture to a trace, or wraps bytes into packets first, so that
//! streams, records and RPC are reached without a valid file. The trace must be readable.
//! [`check_trace`] reads a trace file, or a block wrapped into one.

use trace::{
    Capture, CaptureSettings, Counters, Describer, ImportSettings, ImportSource, Names, Packet,
    PacketReader, Section, TraceError, TraceReader, import,
};

/// The link type of packets that begin with an IP header.
const RAW_IP: u16 = 101;
/// Length of the headers of generated packets, in bytes.
const HEADER_BYTES: usize = 40;

/// Checks a capture; the first byte selects how to read the rest.
pub fn check_packets(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    let mut file = Vec::new();
    let mut capture = Capture::new(&mut file, CaptureSettings::default());
    if form & 1 == 0 {
        let mut packets = PacketReader::new(rest);
        while let Ok(Some(packet)) = packets.next_packet() {
            capture.packet(&packet).expect("a vector takes everything");
        }
        capture.note_source(packets.dropped(), packets.is_cut());
    } else {
        feed_made(&mut capture, rest);
    }
    let (counters, len) = capture.finish().expect("a vector takes everything");
    assert_eq!(len, file.len() as u64);
    check_counters(&counters);
    check_read_back(&file, &counters);
}

fn check_counters(counters: &Counters) {
    let Counters { calls, replies, calls_without_reply, connections, clients, .. } = *counters;
    assert_eq!(calls, replies + calls_without_reply);
    assert!(clients <= connections);
}

/// Reads a trace that was just written, and checks that it matches the counters.
fn check_read_back(file: &[u8], counters: &Counters) {
    let mut reader = TraceReader::new(file).expect("a trace that was just written");
    let mut describer = Describer::new(reader.header().clone());
    let mut calls = 0;
    let mut ops = 0;
    while let Some(section) = reader.next_section().expect("a trace that was just written") {
        if let Section::Block { calls: block, .. } = &section {
            calls += block.len() as u64;
            for call in block {
                ops += call.ops.len() as u64;
            }
        }
        describer.section(section);
    }
    assert_eq!((calls, ops), (counters.calls, counters.ops));
    let description = describer.finish();
    assert_eq!(description.calls, calls);
}

/// Imports a text; the first byte selects its kind. The trace must be readable.
pub fn check_import(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    let is_strace = form & 1 == 0;
    let settings = ImportSettings {
        source: if is_strace { ImportSource::Strace } else { ImportSource::Iolog },
        root: is_strace.then(|| "/r".to_owned()),
        directory: (form & 2 == 0).then(|| "/r".to_owned()),
        names: if form & 4 == 0 { Names::Kept } else { Names::Hashed },
        made_by: String::new(),
    };
    let mut file = Vec::new();
    if let Ok(summary) = import(rest, &settings, &mut file) {
        let mut reader = TraceReader::new(&file[..]).expect("a trace that was just written");
        let mut describer = Describer::new(reader.header().clone());
        while let Some(section) = reader.next_section().expect("a trace that was just written") {
            describer.section(section);
        }
        assert_eq!(describer.finish().calls, summary.calls);
    }
}

/// Wraps pieces of bytes into packets. Before each piece come its length, the error of its sequence
/// number, flags, and how much of it is cut off.
fn feed_made<W: std::io::Write>(capture: &mut Capture<W>, mut bytes: &[u8]) {
    let mut sequences = [0_u32; 2];
    let mut time_ns = 0;
    while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
        let [len, ahead, flags, cut] = *head;
        // Most records are longer than 255 bytes; one bit allows a piece of up to 4 KiB.
        let len = usize::from(len) * if flags & 0x40 == 0 { 1 } else { 16 };
        let (payload, rest) = rest.split_at(len.min(rest.len()));
        bytes = rest;
        let side = usize::from(flags & 1);
        time_ns += u64::from(flags >> 4) * 40_000_000;
        let sequence = sequences[side].wrapping_add_signed(i32::from(ahead.cast_signed()));
        let packet = make_packet(&PacketParts {
            flags,
            sequence,
            acknowledged: sequences[1 - side],
            payload,
        });
        sequences[side] = sequence.wrapping_add(payload.len() as u32);
        let kept = packet.len().saturating_sub(usize::from(cut));
        let packet = Packet {
            time_ns,
            link: RAW_IP,
            wire_bytes: packet.len() as u32,
            bytes: &packet[..kept],
        };
        capture.packet(&packet).expect("a vector takes everything");
    }
}

/// Fields of a generated packet.
struct PacketParts<'a> {
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    payload: &'a [u8],
}

fn make_packet(made: &PacketParts<'_>) -> Vec<u8> {
    let PacketParts { flags, sequence, acknowledged, payload } = *made;
    let is_udp = flags & 2 != 0;
    let transport_bytes = if is_udp { 8 } else { HEADER_BYTES - 20 };
    let total = (20 + transport_bytes + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    // A fragment of a packet, with number and offset from the sequence number.
    let is_fragment = is_udp && flags & 4 != 0;
    packet.extend(if is_fragment { [0, 7] } else { [0, 0] });
    let place = if is_fragment { 0x2000 | (sequence as u16 / 8) & 0x1fff } else { 0 };
    packet.extend(place.to_be_bytes());
    packet.extend([64, if is_udp { 17 } else { 6 }, 0, 0]);
    let client = [10, 0, 0, 1];
    let server = [10, 0, 0, 2];
    let is_client = flags & 1 == 0;
    packet.extend(if is_client { [client, server] } else { [server, client] }.concat());
    let ports = if is_client { [700_u16, 2049] } else { [2049, 700] };
    packet.extend(ports.map(u16::to_be_bytes).concat());
    if is_udp {
        packet.extend((8 + payload.len() as u16).to_be_bytes());
        packet.extend([0, 0]);
    } else {
        packet.extend(sequence.to_be_bytes());
        packet.extend(acknowledged.to_be_bytes());
        let syn = if flags & 8 == 0 { 0 } else { 2 };
        packet.extend([0x50, 0x10 | syn, 0, 1, 0, 0, 0, 0]);
    }
    packet.extend(payload);
    packet
}

/// Checks a trace file; the first byte selects whether the rest is a whole file or a block.
pub fn check_trace(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    if form & 1 == 0 {
        // Most are rejected at their first section because of a wrong checksum.
        let _ = read_all(rest);
        return;
    }
    let mut file = b"\x89DFST\r\n\x1a\x01\0\0\0".to_vec();
    append_section(&mut file, b'H', b"{}");
    append_section(&mut file, b'B', rest);
    append_section(&mut file, b'E', b"{}");
    match read_all(&file) {
        Ok(()) | Err(TraceError::Corrupt { .. }) => {}
        Err(error) => panic!("a whole file: {error}"),
    }
}

fn read_all(bytes: &[u8]) -> Result<(), TraceError> {
    let mut reader = TraceReader::new(bytes)?;
    let mut describer = Describer::new(reader.header().clone());
    while let Some(section) = reader.next_section()? {
        describer.section(section);
    }
    describer.finish();
    Ok(())
}

/// Appends a section as an uncompressed zlib stream.
fn append_section(file: &mut Vec<u8>, kind: u8, raw: &[u8]) {
    let mut stored = vec![0x78, 1];
    let mut parts = raw.chunks(0xffff).peekable();
    if raw.is_empty() {
        stored.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(part) = parts.next() {
        let len = part.len() as u16;
        stored.push(u8::from(parts.peek().is_none()));
        stored.extend(len.to_le_bytes());
        stored.extend((!len).to_le_bytes());
        stored.extend(part);
    }
    stored.extend(adler32(raw).to_be_bytes());
    let mut head = vec![kind, 0, 0, 0];
    head.extend((stored.len() as u32).to_le_bytes());
    head.extend((raw.len() as u32).to_le_bytes());
    let sum = crc32(&[&head[..], &stored].concat());
    file.extend(head);
    file.extend(sum.to_le_bytes());
    file.extend(stored);
}

fn adler32(bytes: &[u8]) -> u32 {
    let mut low = 1_u32;
    let mut high = 0_u32;
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65521;
        high = (high + low) % 65521;
    }
    high << 16 | low
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_generated_section() {
        // An empty block: no calls, operations, entries and columns.
        let mut file = b"\x89DFST\r\n\x1a\x01\0\0\0".to_vec();
        append_section(&mut file, b'H', b"{}");
        append_section(&mut file, b'E', b"{}");
        read_all(&file).unwrap();
        check_trace(&[&[1][..], &[0; 16]].concat());
    }

    #[test]
    fn packets_that_are_made_carry_calls() {
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        let call = words(&[0x8000_0028, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
        let reply = words(&[0x8000_0018, 7, 1, 0, 0, 0, 0]);
        let mut input = vec![call.len() as u8, 0, 0, 0];
        input.extend(&call);
        input.extend([reply.len() as u8, 0, 1, 0]);
        input.extend(&reply);
        let mut file = Vec::new();
        let mut capture = Capture::new(&mut file, CaptureSettings::default());
        feed_made(&mut capture, &input);
        let (counters, _) = capture.finish().unwrap();
        assert_eq!((counters.calls, counters.replies), (1, 1));
    }
}
