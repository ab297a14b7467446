//! Measures how fast one thread converts packets to a trace, in bytes of pcap and calls per second.
//!
//! `throughput [ROUNDS [SIZE [CALLS FILE]]]`: the capture has READs and WRITEs of NFS v3 of a size
//! in bytes (0, the default: GETATTRs) on many connections. It is generated in memory and read the
//! given number of times; the best round counts, since others were disturbed. With a number of
//! calls, the capture is generated while it is read, with one file per four calls; the trace is
//! written to the file, and the memory used is printed.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "measures and prints time")]

use std::fs::{self, File};
use std::io::{BufWriter, Read};
use std::time::Instant;

use nfs_proto::nfs3::{self, StableHow};
use nfs_proto::rpc::{CallHeader, Credential, ReplyHeader};
use nfs_proto::xdr::Writer;
use trace::{Capture, CaptureSettings, PacketReader};

const CALLS: u32 = 400_000;
const CONNECTIONS: u32 = 64;
const SEGMENT_BYTES: usize = 1448;
const PCAP_BYTES_MAX: usize = 1 << 30;

/// Sequence numbers of both directions of a connection.
#[derive(Clone, Copy, Default)]
struct Sequences {
    client: u32,
    server: u32,
}

fn main() {
    let mut numbers = std::env::args().skip(1);
    let mut next = |usual: u32| match numbers.next() {
        Some(word) => word.parse().expect("a number"),
        None => usual,
    };
    let rounds = next(3);
    let size = next(0);
    let calls = next(0);
    if calls > 0 {
        return stream(calls, size, &numbers.next().expect("a file"));
    }
    let (pcap, calls) = make_pcap(size);
    let mut best = f64::INFINITY;
    let mut bytes = 0;
    for _ in 0..rounds {
        let begun = Instant::now();
        let mut capture = Capture::new(std::io::sink(), CaptureSettings::default());
        let mut packets = PacketReader::new(&pcap[..]);
        while let Some(packet) = packets.next_packet().expect("a capture") {
            capture.packet(&packet).expect("writing to a sink never fails");
        }
        let (counters, written) = capture.finish().expect("writing to a sink never fails");
        assert_eq!((counters.calls, counters.replies), (calls.into(), calls.into()));
        best = best.min(begun.elapsed().as_secs_f64());
        bytes = written;
    }
    println!(
        "{calls} calls of {size} bytes, {} MB of pcap: {:.0} MB/s, {:.0} calls/s, {:.1} bytes per \
         call",
        pcap.len() / 1_000_000,
        pcap.len() as f64 / best / 1e6,
        f64::from(calls) / best,
        bytes as f64 / f64::from(calls)
    );
}

/// Converts a capture that is larger than memory, and prints the time and memory needed.
fn stream(calls: u32, size: u32, path: &str) {
    let begun = Instant::now();
    let out = BufWriter::new(File::create(path).expect("the file can be created"));
    let mut capture = Capture::new(out, CaptureSettings::default());
    let mut packets = PacketReader::new(Generated::new(calls, size, calls / 4));
    while let Some(packet) = packets.next_packet().expect("a capture") {
        capture.packet(&packet).expect("there is space for the trace");
    }
    let bytes = packets.position();
    let (counters, written) = capture.finish().expect("there is space for the trace");
    assert_eq!((counters.calls, counters.replies), (calls.into(), calls.into()));
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .expect("the line is in /proc/self/status");
    println!(
        "{calls} calls of {size} bytes on {} files, {} MB of pcap in {:.0} s including its \
         generation, {:.1} bytes per call, {peak}",
        calls / 4,
        bytes / 1_000_000,
        begun.elapsed().as_secs_f64(),
        written as f64 / f64::from(calls)
    );
}

fn make_pcap(size: u32) -> (Vec<u8>, u32) {
    let mut generated = Generated::new(CALLS, size, 5000);
    let mut pcap = Vec::new();
    while generated.next < CALLS && pcap.len() < PCAP_BYTES_MAX {
        generated.make_chunk();
        pcap.append(&mut generated.chunk);
    }
    (pcap, generated.next)
}

/// A capture that is made while it is read.
struct Generated {
    next: u32,
    calls: u32,
    size: u32,
    files: u32,
    sequences: [Sequences; CONNECTIONS as usize],
    chunk: Vec<u8>,
    at: usize,
}

impl Generated {
    fn new(calls: u32, size: u32, files: u32) -> Self {
        let sequences = [Sequences::default(); CONNECTIONS as usize];
        Self { next: 0, calls, size, files, sequences, chunk: Vec::new(), at: 0 }
    }

    /// Makes the next call and its reply; before the first, the header of the file.
    fn make_chunk(&mut self) {
        let Self { next, size, files, sequences, chunk, .. } = self;
        if *next == 0 {
            for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 0x0004_0000, 1] {
                chunk.extend(word.to_le_bytes());
            }
        }
        let connection = *next % CONNECTIONS;
        let (call, reply) = make_exchange(*next, *size, *files);
        let found = &mut sequences[connection as usize];
        let random = mix((*next).into());
        let time_ns = 20_000 * u64::from(*next) + random % 15_000;
        send(chunk, connection, &mut found.client, &call, Sender { is_client: true, time_ns });
        let time_ns = time_ns + 50_000 + random % 200_000;
        send(chunk, connection, &mut found.server, &reply, Sender { is_client: false, time_ns });
        *next += 1;
    }
}

impl Read for Generated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.chunk.len() && self.next < self.calls {
            self.chunk.clear();
            self.at = 0;
            self.make_chunk();
        }
        let len = buffer.len().min(self.chunk.len() - self.at);
        buffer[..len].copy_from_slice(&self.chunk[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// Makes a call and its reply with record marks: GETATTR without a size, else READ and WRITE.
fn make_exchange(xid: u32, size: u32, files: u32) -> (Vec<u8>, Vec<u8>) {
    let random = mix(u64::from(xid) << 32);
    let file = ((random % u64::from(files)) as u32).to_be_bytes().repeat(7);
    let offset = (random >> 20) % 10_000 * u64::from(size);
    let data = vec![xid as u8; size as usize];
    let (call, reply) = match (size, xid % 3) {
        (0, _) => {
            let status = Err(nfs3::Status::Stale);
            (nfs3::Call::Getattr { file: &file }, nfs3::Reply::Getattr { result: status })
        }
        (_, 0) => {
            let stable = StableHow::Unstable;
            let verifier = nfs3::Verifier::default();
            let result = Ok(nfs3::WriteOk { count: size, committed: stable, verifier });
            let wcc = nfs3::WccData::default();
            (
                nfs3::Call::Write { file: &file, offset, stable, data: &data },
                nfs3::Reply::Write { wcc, result },
            )
        }
        _ => {
            let result = Ok(nfs3::ReadOk { eof: false, data: &data });
            (
                nfs3::Call::Read { file: &file, offset, count: size },
                nfs3::Reply::Read { attributes: None, result },
            )
        }
    };
    let mut message = vec![0; 4];
    let head = CallHeader {
        xid,
        rpc_version: 2,
        program: nfs3::PROGRAM,
        version: 3,
        procedure: call.procedure().number(),
        credential: Ok(Credential::None),
    };
    head.encode(&mut Writer::new(&mut message));
    call.encode(&mut Writer::new(&mut message));
    let mut answer = vec![0; 4];
    ReplyHeader { xid, result: Ok(()) }.encode(&mut Writer::new(&mut answer));
    reply.encode(&mut Writer::new(&mut answer));
    for record in [&mut message, &mut answer] {
        let mark = 0x8000_0000 | (record.len() - 4) as u32;
        record[..4].copy_from_slice(&mark.to_be_bytes());
    }
    (message, answer)
}

/// Mixes the bits of a number, so that times, files and offsets don't compress to nothing.
fn mix(number: u64) -> u64 {
    let bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
}

/// Who sends a record, and when.
#[derive(Clone, Copy)]
struct Sender {
    is_client: bool,
    time_ns: u64,
}

fn send(pcap: &mut Vec<u8>, connection: u32, sequence: &mut u32, record: &[u8], sender: Sender) {
    for part in record.chunks(SEGMENT_BYTES) {
        let len = (54 + part.len()) as u32;
        let time_ns = 1_700_000_000_000_000_000 + sender.time_ns;
        let seconds = time_ns / 1_000_000_000;
        let nanos = time_ns % 1_000_000_000;
        for word in [seconds as u32, nanos as u32, len, len] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend([2; 12]);
        pcap.extend([8, 0, 0x45, 0]);
        pcap.extend((40 + part.len() as u16).to_be_bytes());
        pcap.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        let client = [10, 1, 0, connection as u8];
        let ends = if sender.is_client { [client, [10, 0, 0, 1]] } else { [[10, 0, 0, 1], client] };
        pcap.extend(ends.concat());
        let ports = if sender.is_client { [700_u16, 2049] } else { [2049, 700] };
        pcap.extend(ports.map(u16::to_be_bytes).concat());
        pcap.extend(sequence.to_be_bytes());
        pcap.extend([0, 0, 0, 0, 0x50, 0, 1, 0, 0, 0, 0, 0]);
        pcap.extend(part);
        *sequence = sequence.wrapping_add(part.len() as u32);
    }
}
