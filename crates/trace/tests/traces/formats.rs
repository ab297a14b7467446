//! Formats of captures and of trace files, complete and damaged.

use trace::{CaptureError, PacketReader, TraceError, TraceReader};

use crate::common::{BEGIN_NS, Frame, From, Tcp, capture, pcap, read3, record};

fn frames() -> Vec<Frame> {
    let mut tcp = Tcp::default();
    let mut frames = tcp.connect(0);
    let (call, reply) = read3(1, 0, 64);
    frames.push(tcp.send(From::Client, &record(&call), 1_000_001));
    frames.push(tcp.send(From::Server, &record(&reply), 2_000_003));
    frames
}

/// Reads all packets: times, lengths on the wire, and the reader's final state.
fn read_all(bytes: &[u8]) -> Result<(Vec<u64>, u64), CaptureError> {
    let mut reader = PacketReader::new(bytes);
    let mut times = Vec::new();
    while let Some(packet) = reader.next_packet()? {
        times.push(packet.time_ns);
    }
    Ok((times, reader.dropped()))
}

/// Writes frames with another byte order or in microseconds.
fn pcap_as(magic: u32, unit_ns: u64, to_bytes: fn(u32) -> [u8; 4]) -> Vec<u8> {
    let mut bytes: Vec<_> =
        [magic, 0x0004_0002, 0, 0, 65535, 1].into_iter().flat_map(&to_bytes).collect();
    for frame in frames() {
        let time_ns = BEGIN_NS + frame.time_ns;
        let len = frame.bytes.len() as u32;
        let fraction = (time_ns % 1_000_000_000 / unit_ns) as u32;
        for word in [(time_ns / 1_000_000_000) as u32, fraction, len, len] {
            bytes.extend(to_bytes(word));
        }
        bytes.extend(frame.bytes);
    }
    bytes
}

fn block(block_type: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&block_type.to_le_bytes()[..], &len, &body, &len].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Writes frames as pcapng with nanoseconds and the statistics of an interface.
fn pcapng() -> Vec<u8> {
    let mut bytes = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    // if_tsresol 9, end of options.
    bytes.extend(block(1, &words(&[1, 0, 0x0001_0009, 9, 0])));
    for frame in frames() {
        let time_ns = BEGIN_NS + frame.time_ns;
        let len = frame.bytes.len() as u32;
        let head = words(&[0, (time_ns >> 32) as u32, time_ns as u32, len, len]);
        bytes.extend(block(6, &[head, frame.bytes].concat()));
    }
    // An unknown block, then isb_ifdrop 3 and isb_osdrop 4.
    bytes.extend(block(0x0bad_0001, &[1, 2, 3]));
    bytes.extend(block(5, &words(&[0, 0, 0, 0x0008_0005, 3, 0, 0x0008_0007, 4, 0, 0])));
    bytes
}

#[test]
fn reads_same_packets_from_all_formats() {
    let want: Vec<u64> = frames().iter().map(|frame| BEGIN_NS + frame.time_ns).collect();
    assert_eq!(read_all(&pcap(&frames())).unwrap(), (want.clone(), 0));
    let big = pcap_as(0xa1b2_3c4d, 1, u32::to_be_bytes);
    assert_eq!(read_all(&big).unwrap(), (want.clone(), 0));
    let micros: Vec<u64> = want.iter().map(|time_ns| time_ns / 1000 * 1000).collect();
    let little = pcap_as(0xa1b2_c3d4, 1000, u32::to_le_bytes);
    assert_eq!(read_all(&little).unwrap(), (micros, 0));
    assert_eq!(read_all(&pcapng()).unwrap(), (want, 7));
    assert_eq!(capture(&pcapng()).counters.packets_dropped, 7);
}

#[test]
fn reports_one_error_per_bad_capture() {
    let message = |bytes: &[u8]| read_all(bytes).unwrap_err().to_string();
    let mut packet = pcap(&frames());
    packet[24 + 8 + 3] = 0x7f;
    let mut block = pcapng();
    block[28 + 4] = 3;
    let messages = [
        message(b""),
        message(b"hello, world"),
        message(&[0x1f, 0x8b, 8, 0]),
        message(&pcap(&[])[..10]),
        message(&packet),
        message(&block),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn reads_truncated_capture_to_end() {
    let whole = pcap(&frames());
    for (cut, packets, is_cut) in [(0, 4, false), (1, 3, true), (200, 2, true)] {
        let mut reader = PacketReader::new(&whole[..whole.len() - cut]);
        let mut count = 0;
        while reader.next_packet().unwrap().is_some() {
            count += 1;
        }
        assert_eq!((count, reader.is_cut()), (packets, is_cut), "{cut} bytes less");
    }
}

#[test]
fn reports_one_error_per_bad_trace() {
    let file = capture(&pcap(&frames())).file;
    let read = |bytes: &[u8]| -> Result<u32, TraceError> {
        let mut reader = TraceReader::new(bytes)?;
        let mut sections = 0;
        while reader.next_section()?.is_some() {
            sections += 1;
        }
        Ok(sections)
    };
    assert_eq!(read(&file).unwrap(), 3);
    let message = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    let mut newer = file.clone();
    newer[8] = 2;
    let messages =
        [message(b""), message(b"PAR1 and so on"), message(&pcap(&frames())), message(&newer)];
    insta::assert_snapshot!(messages.join("\n"));
    // A file that was cut is detected by its missing end, whatever its length.
    for len in 8..file.len() {
        let error = read(&file[..len]).unwrap_err();
        assert!(matches!(error, TraceError::Cut { .. }), "{len}: {error}");
    }
    // Damage to any byte is an error, never a panic.
    for at in 12..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        assert!(read(&damaged).is_err(), "byte {at}");
    }
    let mut damaged = file;
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert!(message(&damaged).contains("a section has the wrong checksum"));
}
