//! Handmade packets: frames, segments, RPC messages, and captures of them.

use nfs_proto::nfs3::{self, StableHow};
use nfs_proto::rpc::{
    AuthSys, CallHeader, Credential, Groups, ProcedureId, RPC_VERSION, ReplyHeader,
};
use nfs_proto::xdr::Writer;
use trace::{Call, Capture, CaptureSettings, Connection, Counters, Entry, Packet, PacketReader};
use trace::{Section, TraceReader};

pub const SECOND_NS: u64 = 1_000_000_000;
/// Time of the first packet of a capture.
pub const BEGIN_NS: u64 = 1_700_000_000 * SECOND_NS;
pub const CLIENT: [u8; 4] = [10, 0, 0, 1];
pub const SERVER: [u8; 4] = [10, 0, 0, 2];
pub const CLIENT_PORT: u16 = 700;
pub const NFS_PORT: u16 = 2049;
const SYN: u8 = 2;
const ACK: u8 = 0x10;

/// One end of a connection in a test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum From {
    Client,
    Server,
}

/// A frame with its capture time, relative to the beginning of the capture.
#[derive(Clone)]
pub struct Frame {
    pub time_ns: u64,
    pub bytes: Vec<u8>,
}

/// A connection that numbers its segments in the order in which they are created.
pub struct Tcp {
    sequences: [u32; 2],
}

impl Default for Tcp {
    fn default() -> Self {
        Self { sequences: [1000, 5000] }
    }
}

impl Tcp {
    /// Starts a connection whose sequence numbers wrap soon.
    pub fn near_the_wrap() -> Self {
        Self { sequences: [u32::MAX - 100, u32::MAX - 3] }
    }

    /// Creates both segments that open the connection.
    pub fn connect(&mut self, time_ns: u64) -> Vec<Frame> {
        let syn = self.flagged(From::Client, SYN, &[], time_ns);
        let answer = self.flagged(From::Server, SYN | ACK, &[], time_ns + 1);
        for sequence in &mut self.sequences {
            *sequence = sequence.wrapping_add(1);
        }
        vec![syn, answer]
    }

    /// Creates the next segment of a direction.
    pub fn send(&mut self, from: From, payload: &[u8], time_ns: u64) -> Frame {
        let frame = self.flagged(from, ACK, payload, time_ns);
        let sequence = &mut self.sequences[from as usize];
        *sequence = sequence.wrapping_add(payload.len() as u32);
        frame
    }

    /// Creates the segments of a message, each with the given number of bytes.
    pub fn send_cut(&mut self, from: From, payload: &[u8], len: usize, time_ns: u64) -> Vec<Frame> {
        payload
            .chunks(len)
            .enumerate()
            .map(|(number, part)| self.send(from, part, time_ns + number as u64))
            .collect()
    }

    fn flagged(&self, from: From, flags: u8, payload: &[u8], time_ns: u64) -> Frame {
        let mut tcp = ports(from).concat();
        tcp.extend(self.sequences[from as usize].to_be_bytes());
        tcp.extend(self.sequences[1 - from as usize].to_be_bytes());
        tcp.extend([5 << 4, flags, 255, 255, 0, 0, 0, 0]);
        tcp.extend(payload);
        Frame { time_ns, bytes: ethernet(&ipv4(from, 6, &tcp)) }
    }
}

fn ports(from: From) -> [[u8; 2]; 2] {
    let client = CLIENT_PORT.to_be_bytes();
    let server = NFS_PORT.to_be_bytes();
    if from == From::Client { [client, server] } else { [server, client] }
}

pub fn udp(from: From, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ports(from).concat();
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

pub fn ipv4(from: From, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_part(from, protocol, 0, 0, payload)
}

/// Creates an IP packet; `place` contains flags and offset as in the header.
pub fn ipv4_part(from: From, protocol: u8, id: u16, place: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + payload.len() as u16).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes.extend(place.to_be_bytes());
    bytes.extend([64, protocol, 0, 0]);
    let ends = if from == From::Client { [CLIENT, SERVER] } else { [SERVER, CLIENT] };
    bytes.extend(ends.concat());
    bytes.extend(payload);
    bytes
}

/// Creates an IPv6 packet with a payload that begins with `next`, an extension header or a
/// transport.
pub fn ipv6(from: From, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    let mut ends = [[0_u8; 16]; 2];
    ends[0][15] = if from == From::Client { 1 } else { 2 };
    ends[1][15] = if from == From::Client { 2 } else { 1 };
    bytes.extend(ends.concat());
    bytes.extend(payload);
    bytes
}

pub fn ethernet(ip: &[u8]) -> Vec<u8> {
    let frame_type = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&[2; 12], &frame_type[..], ip].concat()
}

/// Adds VLAN tags to an Ethernet frame.
pub fn tagged(frame: &[u8], tags: &[u16]) -> Vec<u8> {
    let mut bytes = frame[..12].to_vec();
    for (number, tag) in tags.iter().enumerate() {
        let outer = number + 1 < tags.len();
        bytes.extend(if outer { [0x88, 0xa8] } else { [0x81, 0] });
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend(&frame[12..]);
    bytes
}

/// Creates the message of a v3 call.
pub fn call3(xid: u32, call: &nfs3::Call<'_>) -> Vec<u8> {
    let mut bytes = call_head(xid, nfs3::PROGRAM, 3, call.procedure().number());
    call.encode(&mut Writer::new(&mut bytes));
    bytes
}

pub fn call_head(xid: u32, program: u32, version: u32, procedure: u32) -> Vec<u8> {
    let ProcedureId { program, version, procedure } = ProcedureId::new(program, version, procedure);
    let groups = Groups::from_slice(&[4, 24]);
    let user = AuthSys { stamp: 1, machine_name: b"client", uid: 1000, gid: 100, groups };
    let credential = Ok(Credential::Sys(user));
    let rpc_version = RPC_VERSION;
    let mut bytes = Vec::new();
    CallHeader { xid, rpc_version, program, version, procedure, credential }
        .encode(&mut Writer::new(&mut bytes));
    bytes
}

/// Creates the message of a v3 reply.
pub fn reply3(xid: u32, reply: &nfs3::Reply<'_>) -> Vec<u8> {
    let mut bytes = reply_head(xid);
    reply.encode(&mut Writer::new(&mut bytes));
    bytes
}

/// Creates the head of an accepted reply.
pub fn reply_head(xid: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    ReplyHeader { xid, result: Ok(()) }.encode(&mut Writer::new(&mut bytes));
    bytes
}

/// Puts a record mark before a message.
pub fn record(message: &[u8]) -> Vec<u8> {
    let mark = 0x8000_0000 | message.len() as u32;
    [&mark.to_be_bytes(), message].concat()
}

/// Creates a READ of a file and its reply with the given number of bytes.
pub fn read3(xid: u32, offset: u64, len: u32) -> (Vec<u8>, Vec<u8>) {
    let call = call3(xid, &nfs3::Call::Read { file: b"file", offset, count: len });
    let data = vec![7; len as usize];
    let result = Ok(nfs3::ReadOk { eof: false, data: &data });
    (call, reply3(xid, &nfs3::Reply::Read { attributes: None, result }))
}

/// Creates a WRITE of a file and its reply.
pub fn write3(xid: u32, offset: u64, len: u32) -> (Vec<u8>, Vec<u8>) {
    let data = vec![9; len as usize];
    let stable = StableHow::Unstable;
    let call = call3(xid, &nfs3::Call::Write { file: b"file", offset, stable, data: &data });
    let result = Ok(nfs3::WriteOk {
        count: len,
        committed: StableHow::FileSync,
        verifier: nfs3::Verifier::default(),
    });
    let before = nfs3::WccAttr { size: 66_000, ..nfs3::WccAttr::default() };
    let wcc = nfs3::WccData { before: Some(before), after: None };
    (call, reply3(xid, &nfs3::Reply::Write { wcc, result }))
}

/// Writes frames as a pcap file with nanoseconds.
pub fn pcap(frames: &[Frame]) -> Vec<u8> {
    pcap_cut(frames, usize::MAX)
}

/// Writes frames as a pcap file that keeps the given number of bytes of each.
pub fn pcap_cut(frames: &[Frame], snap_bytes: usize) -> Vec<u8> {
    let mut bytes: Vec<_> = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 0x0004_0000, 1]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    for frame in frames {
        let time_ns = BEGIN_NS + frame.time_ns;
        let kept = frame.bytes.len().min(snap_bytes);
        let seconds = time_ns / SECOND_NS;
        let nanos = time_ns % SECOND_NS;
        let lens = [kept as u64, frame.bytes.len() as u64];
        for word in [seconds, nanos, lens[0], lens[1]] {
            bytes.extend((word as u32).to_le_bytes());
        }
        bytes.extend(&frame.bytes[..kept]);
    }
    bytes
}

/// A trace that was read back.
#[derive(Debug, Default)]
pub struct Read {
    pub counters: Counters,
    pub calls: Vec<Call>,
    pub entries: Vec<Entry>,
    pub connections: Vec<Connection>,
    pub names: Vec<trace::NameText>,
    pub begin_ns: u64,
    pub file: Vec<u8>,
}

/// Captures a file and reads the trace back.
pub fn capture(pcap: &[u8]) -> Read {
    capture_with(pcap, CaptureSettings::default())
}

/// Captures a file with settings and reads the trace back.
pub fn capture_with(pcap: &[u8], settings: CaptureSettings) -> Read {
    let mut file = Vec::new();
    let mut capture = Capture::new(&mut file, settings);
    let mut packets = PacketReader::new(pcap);
    while let Some(packet) = packets.next_packet().unwrap() {
        let packet: Packet<'_> = packet;
        capture.packet(&packet).unwrap();
    }
    capture.note_source(packets.dropped(), packets.is_cut());
    let (counters, bytes) = capture.finish().unwrap();
    assert_eq!(bytes, file.len() as u64);
    let mut read = Read { counters, ..Read::default() };
    let mut reader = TraceReader::new(&file[..]).unwrap();
    read.begin_ns = reader.header().begin_ns;
    while let Some(section) = reader.next_section().unwrap() {
        match section {
            Section::Connections(connections) => read.connections.extend(connections),
            Section::Names(names) => read.names.extend(names),
            Section::Block { calls, entries } => {
                read.calls.extend(calls);
                read.entries.extend(entries);
            }
            Section::End(end) => assert_eq!(end.counters, counters),
        }
    }
    read.file = file;
    read
}
