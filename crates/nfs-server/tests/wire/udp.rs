//! Datagrams: every program answers, transfers fit, and malformed ones are ignored.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use nfs_proto::nfs3::{Call, CreateHow, FileHandle, Reply, Sattr, StableHow, Verifier};
use nfs_proto::server::decode_request;
use nfs_proto::{RpcError, mount1, mount3, nfs2, portmap, program, rpcbind};
use nfs_server::limits::DATAGRAM_TRANSFER_BYTES_MAX;
use nfs_server::{FaultKind, FaultPlan, PartsPerMillion, Portmap, Server, ServerConfig};

use crate::client::{CallResults, SILENCE, encode_call, parse_reply, start, until};

const PATIENCE: Duration = Duration::from_secs(20);

/// A client that sends each call once.
pub struct Peer {
    pub socket: UdpSocket,
    xid: u32,
}

#[allow(clippy::large_types_passed_by_value, reason = "tests define items next to their calls")]
impl Peer {
    pub fn connect(server: &Server) -> Self {
        let socket = UdpSocket::bind((server.address().ip(), 0)).unwrap();
        socket.connect(server.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, xid: 0 }
    }

    pub fn send(&mut self, call: &program::Call<'_>) -> Vec<u8> {
        self.xid += 1;
        let bytes = encode_call(self.xid, call).split_off(4);
        self.socket.send(&bytes).unwrap();
        bytes
    }

    pub fn receive(&self, procedure: u32) -> CallResults {
        let mut buffer = vec![0; 1 << 16];
        let bytes = self.socket.recv(&mut buffer).expect("a reply comes");
        parse_reply(&buffer[..bytes], procedure)
    }

    pub fn call(&mut self, call: &program::Call<'_>) -> CallResults {
        self.send(call);
        let answer = self.receive(call.procedure_id().procedure);
        assert_eq!(answer.xid, self.xid);
        answer
    }

    pub fn nfs(&mut self, call: Call<'_>) -> CallResults {
        self.call(&program::Call::Nfs3(call))
    }

    pub fn is_silent(&self) -> bool {
        self.socket.set_read_timeout(Some(SILENCE)).unwrap();
        let result = self.socket.recv(&mut [0; 64]);
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(result.unwrap_err().kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
    }

    pub fn mount(&mut self) -> FileHandle {
        let answer = self.call(&program::Call::Mount3(mount3::Call::Mnt(b"/export")));
        mount3::Reply::decode_mnt(answer.reader())
            .unwrap()
            .expect("the path should be exported")
            .root
    }

    fn create(&mut self, dir: FileHandle, name: &[u8]) -> FileHandle {
        let how = CreateHow::Unchecked(Sattr::default());
        let answer = self.nfs(Call::Create { dir: &dir, name, how });
        let Reply::Create { result, .. } = answer.nfs3() else { unreachable!() };
        result.unwrap().file.unwrap()
    }
}

fn pair(config: ServerConfig) -> (Server, Peer) {
    let server = start(config);
    let peer = Peer::connect(&server);
    (server, peer)
}

#[test]
fn every_program_answers() {
    let (server, mut peer) =
        pair(ServerConfig { portmap: Portmap::SamePort, ..ServerConfig::default() });
    let calls = [
        program::Call::Nfs2(nfs2::Call::Null),
        program::Call::Nfs3(Call::Null),
        program::Call::Mount1(mount1::Call::Null),
        program::Call::Mount3(mount3::Call::Null),
        program::Call::Portmap(portmap::Call::Null),
        program::Call::Rpcbind3(rpcbind::Call::Null),
        program::Call::Rpcbind4(rpcbind::Call::Null),
    ];
    for call in &calls {
        assert_eq!(peer.call(call).rpc, Ok(()), "{call:?}");
    }
    let all = calls.len() as u64;
    until(&server, |server| server.counters().datagrams_out == all);
    let counters = server.counters();
    assert_eq!((counters.datagrams_in, counters.connections_accepted), (all, 0));
}

#[test]
fn refuses_version_with_range() {
    let (_server, mut peer) = pair(ServerConfig::default());
    let mut bytes = encode_call(9, &program::Call::Nfs3(Call::Null)).split_off(4);
    bytes[16..20].copy_from_slice(&4_u32.to_be_bytes());
    peer.socket.send(&bytes).unwrap();
    let refusal = RpcError::ProgramMismatch { low: 2, high: 3 };
    assert_eq!(peer.receive(0).rpc, Err(refusal));
    assert_eq!(peer.nfs(Call::Null).rpc, Ok(()));
}

#[test]
fn fits_largest_granted_transfers() {
    let (server, mut peer) = pair(ServerConfig::default());
    let root = peer.mount();
    let answer = peer.nfs(Call::Fsinfo { root: &root });
    let Reply::Fsinfo { result, .. } = answer.nfs3() else { unreachable!() };
    let info = result.unwrap();
    let granted = DATAGRAM_TRANSFER_BYTES_MAX;
    assert_eq!((info.read_bytes_max, info.write_bytes_max), (granted, granted));
    assert_eq!(info.directory_bytes_preferred, granted);

    let file = peer.create(root, b"f");
    let data: Vec<u8> = (0..granted).map(|n| (n % 251) as u8).collect();
    let stable = StableHow::FileSync;
    let answer = peer.nfs(Call::Write { file: &file, offset: 300_000, stable, data: &data });
    let Reply::Write { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result.unwrap().count, granted);
    // Requests more than was granted, across blocks of the store.
    let answer = peer.nfs(Call::Read { file: &file, offset: 300_000, count: 1 << 20 });
    let Reply::Read { result, .. } = answer.nfs3() else { unreachable!() };
    assert!(result.unwrap().data == data);
    let answer = peer.nfs(Call::Read { file: &file, offset: 299_998, count: 7 });
    let Reply::Read { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result.unwrap().data, [0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(server.file_size("/export/f"), Some(300_000 + u64::from(granted)));
    assert_eq!(server.counters().datagrams_unsent, 0);
}

#[test]
fn pages_long_listing_to_fit() {
    let (_server, mut peer) = pair(ServerConfig::default());
    let dir = peer.mount();
    for n in 0..1500 {
        let name = format!("{n:0>200}");
        peer.create(dir, name.as_bytes());
    }
    let mut cookie = 0;
    let mut verifier = Verifier([0; 8]);
    let mut seen = 0;
    loop {
        let answer = peer.nfs(Call::Readdir { dir: &dir, cookie, verifier, count: 1 << 20 });
        let Reply::Readdir { result, .. } = answer.nfs3() else { unreachable!() };
        let page = result.unwrap();
        for entry in &page.entries {
            cookie = entry.cookie;
            seen += 1;
        }
        verifier = page.verifier;
        if page.eof {
            break;
        }
    }
    assert_eq!(seen, 1502, "every name, `.` and `..`");
}

#[test]
fn garbage_is_ignored_and_counted() {
    let (server, mut peer) = pair(ServerConfig::default());
    for garbage in [&[0xff; 64][..], b"", b"GET / HTTP/1.1", &vec![1; 65_000]] {
        peer.socket.send(garbage).unwrap();
    }
    until(&server, |server| server.counters().datagrams_broken == 4);
    assert!(peer.is_silent());
    assert_eq!(peer.nfs(Call::Null).rpc, Ok(()));
}

#[test]
fn damaged_calls_never_stop_the_server() {
    let (server, mut peer) = pair(ServerConfig::default());
    let dir = peer.mount();
    let how = CreateHow::Unchecked(Sattr::default());
    let call = program::Call::Nfs3(Call::Create { dir: &dir, name: b"name", how });
    let bytes = encode_call(1, &call).split_off(4);
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            peer.socket.send(&damaged).unwrap();
        }
        peer.socket.send(&bytes[..at]).unwrap();
        // Whatever it answered, it must still answer.
        let probe = Peer::connect(&server).nfs(Call::Null);
        assert_eq!(probe.rpc, Ok(()));
    }
}

#[test]
fn serves_many_peers_with_all_threads() {
    let (server, mut first) = pair(ServerConfig { threads: 3, ..ServerConfig::default() });
    let root = first.mount();
    std::thread::scope(|scope| {
        for number in 0..12_u8 {
            let mut peer = Peer::connect(&server);
            scope.spawn(move || {
                let file = peer.create(root, &[b'a' + number]);
                let data = &[number; 8192];
                let answer = peer.nfs(Call::Write {
                    file: &file,
                    offset: 0,
                    stable: StableHow::Unstable,
                    data,
                });
                assert!(matches!(answer.nfs3(), Reply::Write { result: Ok(_), .. }));
                let answer = peer.nfs(Call::Read { file: &file, offset: 0, count: 8192 });
                let Reply::Read { result, .. } = answer.nfs3() else { unreachable!() };
                assert_eq!(result.unwrap().data, data);
            });
        }
    });
    assert_eq!(server.list_directory("/export").unwrap().len(), 12);
}

#[test]
fn planned_faults_befall_datagrams_too() {
    let faults = FaultPlan {
        seed: 4,
        drop_reply: PartsPerMillion(400_000),
        duplicate_reply: PartsPerMillion(300_000),
        ..FaultPlan::default()
    };
    let (server, mut peer) = pair(ServerConfig { faults, ..ServerConfig::default() });
    for _ in 0..200 {
        peer.send(&program::Call::Nfs3(Call::Null));
    }
    until(&server, |server| server.counters().datagrams_in == 200);
    let counters = server.counters();
    let dropped = counters.faults_of(FaultKind::Drop);
    let twice = counters.faults_of(FaultKind::Duplicate);
    assert!((55..105).contains(&dropped), "{dropped}");
    let expected = 200 - dropped + twice;
    (0..expected).for_each(|_| assert_eq!(peer.receive(0).rpc, Ok(())));
    assert!(peer.is_silent());
}

#[test]
fn without_udp_there_is_no_answer() {
    let server = start(ServerConfig { udp: false, ..ServerConfig::default() });
    let mut peer = Peer::connect(&server);
    peer.send(&program::Call::Nfs3(Call::Null));
    assert_eq!(peer.socket.recv(&mut [0; 64]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn answers_call_in_one_datagram() {
    let (_server, mut peer) = pair(ServerConfig::default());
    let bytes = peer.send(&program::Call::Nfs3(Call::Null));
    let offered = program::OfferedPrograms { nfs3: true, ..program::OfferedPrograms::NONE };
    assert_eq!(decode_request(&bytes, offered).unwrap().xid, 1);
    let mut reply = [0; 64];
    // Six words: xid, reply, accepted, verifier, success.
    assert_eq!(peer.socket.recv(&mut reply).unwrap(), 24);
    assert_eq!(reply[..8], [0, 0, 0, 1, 0, 0, 0, 1]);
}
