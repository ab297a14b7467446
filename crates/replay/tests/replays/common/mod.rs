//! A proxy that records the traffic of its connections, and traces of that traffic.
#![allow(dead_code, reason = "not every test uses all of it")]

pub mod traces;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nfs_client::MountOptions;
use nfs_client::proto::client::ProtocolVersion;
use nfs_server::{Server, ServerConfig};
use replay::{PlanSettings, TargetKind, Window};
use trace::{Call, Capture, CaptureSettings, PacketReader, Section, TraceReader, Version};

const SYN: u8 = 2;
const ACK: u8 = 0x10;
/// Maximum size of a segment that fits in an IP packet, in bytes.
const SEGMENT_BYTES: usize = 32 << 10;

struct Piece {
    time_ns: u64,
    connection: usize,
    is_from_client: bool,
    bytes: Vec<u8>,
}

/// Settings of a plan for a whole trace, with READs and WRITEs of at most the given number of
/// bytes.
pub fn whole_trace(target: TargetKind, [rsize, wsize]: [u32; 2]) -> PlanSettings {
    PlanSettings { window: Window::ALL, clients_max: None, target, rsize, wsize }
}

/// One of our servers behind a proxy.
pub struct Recorded {
    pub server: Server,
    port: u16,
    pieces: Arc<Mutex<Vec<Piece>>>,
}

impl Recorded {
    pub fn start() -> Self {
        let config = ServerConfig { udp: false, ..ServerConfig::default() };
        let server = Server::start(config).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let pieces = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&pieces);
        let address = server.address();
        std::thread::spawn(move || {
            let begin = now();
            for (number, client) in listener.incoming().enumerate() {
                let client = client.unwrap();
                let server = TcpStream::connect(address).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                for is_from_client in [true, false] {
                    let (from, to) =
                        if is_from_client { (&client, &server) } else { (&server, &client) };
                    let from = from.try_clone().unwrap();
                    let to = to.try_clone().unwrap();
                    let kept = Arc::clone(&kept);
                    std::thread::spawn(move || {
                        copy(from, to, begin, |time_ns, bytes| {
                            let bytes = bytes.to_vec();
                            let piece =
                                Piece { time_ns, connection: number, is_from_client, bytes };
                            kept.lock().unwrap().push(piece);
                        });
                    });
                }
            }
        });
        Self { server, port, pieces }
    }

    pub fn options(&self, version: ProtocolVersion) -> MountOptions {
        let mut options = MountOptions::new("127.0.0.1", "/export");
        options.port = Some(self.port);
        options.mount_port = Some(self.port);
        options.version = version;
        options
    }

    /// Creates a trace of everything that was recorded; each connection is a separate client.
    pub fn trace(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut capture = Capture::new(&mut file, CaptureSettings::default());
        let pcap = self.pcap();
        let mut packets = PacketReader::new(&pcap[..]);
        while let Some(packet) = packets.next_packet().unwrap() {
            capture.packet(&packet).unwrap();
        }
        let (counters, _) = capture.finish().unwrap();
        let lost = counters.bytes_lost + counters.messages_malformed + counters.messages_cut;
        assert_eq!((lost, counters.calls_without_reply), (0, 0), "{counters:?}");
        file
    }

    fn pcap(&self) -> Vec<u8> {
        let pieces = self.pieces.lock().unwrap();
        let mut pcap: Vec<_> = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 0x0004_0000, 1]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        let mut sequences: Vec<[u32; 2]> = Vec::new();
        for piece in pieces.iter() {
            while sequences.len() <= piece.connection {
                let number = sequences.len();
                sequences.push([1, 1]);
                add_packet(&mut pcap, piece.time_ns, &segment(number, true, [0, 0], SYN, &[]));
                add_packet(
                    &mut pcap,
                    piece.time_ns,
                    &segment(number, false, [0, 1], SYN | ACK, &[]),
                );
            }
            for bytes in piece.bytes.chunks(SEGMENT_BYTES) {
                let side = usize::from(!piece.is_from_client);
                let of_connection = &mut sequences[piece.connection];
                let numbers = [of_connection[side], of_connection[1 - side]];
                of_connection[side] += bytes.len() as u32;
                let packet = segment(piece.connection, piece.is_from_client, numbers, ACK, bytes);
                add_packet(&mut pcap, piece.time_ns, &packet);
            }
        }
        pcap
    }
}

#[expect(clippy::disallowed_methods, reason = "tests read the clock themselves")]
fn now() -> Instant {
    Instant::now()
}

fn copy(mut from: TcpStream, mut to: TcpStream, begin: Instant, mut keep: impl FnMut(u64, &[u8])) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        // Record it before forwarding it, so that a reply never precedes its call.
        keep(now().duration_since(begin).as_nanos() as u64, &buffer[..len]);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn add_packet(pcap: &mut Vec<u8>, time_ns: u64, packet: &[u8]) {
    let len = packet.len() as u64;
    for word in [1_700_000_000 + time_ns / 1_000_000_000, time_ns % 1_000_000_000, len, len] {
        pcap.extend((word as u32).to_le_bytes());
    }
    pcap.extend(packet);
}

/// Builds a frame of a connection whose client has its own address.
fn segment(
    connection: usize,
    is_from_client: bool,
    numbers: [u32; 2],
    flags: u8,
    bytes: &[u8],
) -> Vec<u8> {
    let client = [10, 0, 1, connection as u8 + 1];
    let server = [10, 0, 0, 1];
    let ports = [700_u16.to_be_bytes(), 2049_u16.to_be_bytes()];
    let mut packet = vec![2; 12];
    packet.extend([8, 0, 0x45, 0]);
    packet.extend((40 + bytes.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    let ends = if is_from_client { [client, server] } else { [server, client] };
    packet.extend(ends.concat());
    let ports = if is_from_client { ports.concat() } else { [ports[1], ports[0]].concat() };
    packet.extend(ports);
    packet.extend(numbers.into_iter().flat_map(u32::to_be_bytes));
    packet.extend([5 << 4, flags, 255, 255, 0, 0, 0, 0]);
    packet.extend(bytes);
    packet
}

/// The properties of an operation that must be the same in a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub kind: &'static str,
    pub status: Option<u32>,
    pub offset: u64,
    pub length: u64,
    pub count: u64,
}

/// Returns the operations of each connection of a trace in order, without those that only frame
/// others or belong to mounts and sessions. Connections without any are omitted.
pub fn rows(trace: &[u8]) -> Vec<Vec<Row>> {
    let mut reader = TraceReader::new(trace).unwrap();
    let mut connections: Vec<Vec<Row>> = Vec::new();
    let mut calls: Vec<Call> = Vec::new();
    while let Some(section) = reader.next_section().unwrap() {
        if let Section::Block { calls: found, .. } = section {
            calls.extend(found);
        }
    }
    calls.sort_by_key(|call| call.number);
    for call in &calls {
        let number = call.connection as usize;
        if connections.len() <= number {
            connections.resize(number + 1, Vec::new());
        }
        if let Some(row) = row_of(call) {
            connections[number].push(row);
        }
    }
    connections.retain(|rows| !rows.is_empty());
    connections
}

fn row_of(call: &Call) -> Option<Row> {
    let mut question = None;
    for op in &call.ops {
        let kind = call.version.kind_name(op.kind);
        let moves = matches!(kind, "READ" | "WRITE" | "COMMIT");
        let row = Row {
            kind,
            status: op.status,
            offset: if moves { op.offset } else { 0 },
            length: if moves || kind == "SETATTR" { op.length } else { 0 },
            count: if moves || kind == "READDIR" || kind == "READDIRPLUS" { op.count } else { 0 },
        };
        match kind {
            _ if matches!(call.version, Version::Mount1 | Version::Mount3) => return None,
            "SEQUENCE" | "PUTFH" | "PUTROOTFH" | "SAVEFH" | "RESTOREFH" | "GETFH" => {}
            "EXCHANGE_ID"
            | "CREATE_SESSION"
            | "RECLAIM_COMPLETE"
            | "DESTROY_SESSION"
            | "DESTROY_CLIENTID"
            | "SETCLIENTID"
            | "SETCLIENTID_CONFIRM"
            | "OPEN_CONFIRM"
            | "RENEW"
            | "BIND_CONN_TO_SESSION" => return None,
            "GETATTR" | "ACCESS" if call.version.is_compound() => {
                question = question.or(Some(row));
            }
            _ => return Some(row),
        }
    }
    question
}
