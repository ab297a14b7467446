//! Peers that send garbage, are slow, numerous, or leave; several threads; starting and stopping.
//!
//! After each attack the server must still answer another client.

use std::io::Write;
use std::net::TcpStream;

use nfs_proto::nfs3::{
    Call, CreateHow, FileHandle, Procedure, Reply, Sattr, StableHow, Status, Verifier,
};
use nfs_proto::record::append_fragmented;
use nfs_proto::rpc::Credential;
use nfs_proto::{RpcError, program};
use nfs_server::limits::OUTBOX_BYTES_MAX;
use nfs_server::{Server, ServerConfig, ServerError};

use crate::client::{Client, start, until};

#[test]
fn closes_only_connection_with_garbage() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let floods: [&[u8]; 3] =
        [&[0xff; 64], b"GET / HTTP/1.1\r\n\r\n", &[0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1]];
    for flood in floods {
        let mut stranger = Client::connect(&server);
        stranger.send(flood);
        assert!(stranger.try_receive(0).is_err());
    }
    assert!(client.size(root).is_ok());
    assert_eq!(server.counters().broken_streams, 3);
}

#[test]
fn rejects_calls_at_rpc_level() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let other = Credential::Other { flavor: 6 };
    let bytes = client.encode_as(other, &program::Call::Nfs3(Call::Null));
    client.send(&bytes);
    assert_eq!(client.receive(0).rpc, Err(RpcError::Authentication(5)));
    // GETATTR without its handle.
    let mut bytes = client.encode(&program::Call::Nfs3(Call::Null));
    bytes[4 + 20..4 + 24].copy_from_slice(&1_u32.to_be_bytes());
    client.send(&bytes);
    assert_eq!(client.receive(0).rpc, Err(RpcError::GarbageArguments));
    assert_eq!(server.counters().refused_calls, 2);
    assert_eq!(client.nfs(Call::Null).nfs3(), Reply::Null);
}

#[test]
fn reassembles_thousand_fragments() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    let data: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    let stable = StableHow::FileSync;
    let call = Call::Write { file: &file, offset: 0, stable, data: &data };
    let record = client.encode(&program::Call::Nfs3(call));
    let mut bytes = Vec::new();
    append_fragmented(&mut bytes, &record[4..], 97);
    for part in bytes.chunks(1234) {
        client.send(part);
    }
    let answer = client.receive(Procedure::Write.number());
    assert!(matches!(answer.nfs3(), Reply::Write { result: Ok(ok), .. } if ok.count == 100_000));
    assert!(server.read_file("/export/f").unwrap() == data);
}

#[test]
fn pipelined_calls_are_answered_in_order() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    client.write(file, 0, &[5; 10_000]).unwrap();
    let first = client.xid + 1;
    let mut bytes = Vec::new();
    for n in 0..1000 {
        let call = match n % 2 {
            0 => Call::Getattr { file: &file },
            _ => Call::Read { file: &file, offset: n, count: 3001 },
        };
        bytes.extend(client.encode(&program::Call::Nfs3(call)));
    }
    client.send(&bytes);
    for n in 0..1000 {
        let procedure = if n % 2 == 0 { Procedure::Getattr } else { Procedure::Read };
        let answer = client.receive(procedure.number());
        assert_eq!(answer.xid, first + n);
        if let Reply::Read { result, .. } = answer.nfs3() {
            assert!(result.unwrap().data == [5; 3001]);
        }
    }
}

#[test]
fn stops_reading_from_blocked_peer() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    client.write(file, 0, &vec![1; 1 << 20]).unwrap();
    let calls: u64 = 500;
    (0..calls).for_each(|_| client.send_nfs(Call::Read { file: &file, offset: 0, count: 1 << 20 }));
    // Meanwhile other clients are served, and the reads stop when queue and sockets are full.
    let mut other = Client::connect(&server);
    (0..1000).for_each(|_| assert!(other.size(file).is_ok()));
    let answered = server.counters().calls_of(Procedure::Read);
    assert!(
        answered < calls,
        "{answered} of {calls} reads were answered although nobody reads the replies"
    );
    assert!(server.memory_bytes() < OUTBOX_BYTES_MAX as u64);
    // The file changes while replies are waiting; they must contain the old data.
    other.write(file, 0, &vec![2; 1 << 20]).unwrap();
    let mut fills = Vec::new();
    for _ in 0..calls {
        let answer = client.receive(Procedure::Read.number());
        let Reply::Read { result, .. } = answer.nfs3() else { unreachable!() };
        let data = result.unwrap().data;
        assert!(data == vec![data[0]; 1 << 20], "a reply mixes old and new data");
        fills.push(data[0]);
    }
    assert!(fills.is_sorted() && fills[0] == 1 && fills[calls as usize - 1] == 2);
    assert!(fills.partition_point(|fill| *fill == 1) as u64 >= answered);
    assert_eq!(server.counters().calls_of(Procedure::Read), calls);
}

#[test]
fn answers_half_closed_connection() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    client.write(file, 0, &vec![1; 1 << 20]).unwrap();
    (0..20).for_each(|_| client.send_nfs(Call::Read { file: &file, offset: 0, count: 1 << 20 }));
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    (0..20).for_each(|_| drop(client.receive(Procedure::Read.number())));
    assert!(client.try_receive(0).is_err());
    until(&server, |server| server.counters().connections_open == 0);
}

#[test]
fn distributes_connections_over_threads() {
    let server = start(ServerConfig { threads: 3, ..ServerConfig::default() });
    assert_eq!(server.thread_ids().len(), 3);
    let mut clients: Vec<_> = (0..9).map(|_| Client::connect(&server)).collect();
    let root = clients[0].mount("/export");
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || work(client, root, number));
        }
    });
    assert_eq!(server.list_directory("/export").unwrap().len(), 9);
    assert_eq!(server.counters().calls_of(Procedure::Write), 9 * 50);
    assert_eq!(server.counters().connections_open, 9);
    drop(clients);
    until(&server, |server| server.counters().connections_open == 0);
}

fn work(client: &mut Client, root: FileHandle, number: usize) {
    let file = client.create(root, &format!("f{number}"));
    for round in 0..50_u64 {
        let data = vec![number as u8 + round as u8; 9000];
        client.write(file, round * 9000, &data).unwrap();
        assert!(client.read(file, round * 9000, 9000).unwrap().0 == data);
        let name = format!("gone{number}");
        client.create(root, &name);
        client.nfs(Call::Remove { dir: &root, name: name.as_bytes() });
        assert_eq!(client.lookup(root, &name), Err(Status::NoEnt));
    }
}

#[test]
fn endless_empty_fragments_end_the_connection() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let mut flood = Client::connect(&server);
    // The server closes the connection: it neither reads forever nor waits for a time limit.
    while flood.stream.write_all(&[0; 4096]).is_ok() {}
    until(&server, |server| server.counters().broken_streams == 1);
    until(&server, |server| server.counters().connections_open == 1);
    // A few of them before a call are no reason to close it.
    let call = client.encode(&program::Call::Nfs3(Call::Getattr { file: &root }));
    client.send(&[&[0; 4 * 16][..], &call].concat());
    assert_eq!(client.receive(1).rpc, Ok(()));
    assert_eq!(server.counters().broken_streams, 1);
}

#[test]
fn refuses_clients_beyond_limit() {
    let server = start(ServerConfig { clients_max: 2, ..ServerConfig::default() });
    let mut first = Client::connect(&server);
    let mut second = Client::connect(&server);
    first.mount("/export");
    second.mount("/export");
    let mut third = TcpStream::connect(server.address()).unwrap();
    third.write_all(b"anything").ok();
    until(&server, |server| server.counters().connections_turned_away == 1);
    drop(first);
    until(&server, |server| server.counters().connections_open == 1);
    Client::connect(&server).mount("/export");
}

#[test]
fn shutdown_joins_and_frees_the_port() {
    let server = start(ServerConfig { threads: 2, ..ServerConfig::default() });
    let address = server.address();
    let mut client = Client::connect(&server);
    client.mount("/export");
    server.shutdown();
    assert!(client.try_receive(0).is_err());
    let again = start(ServerConfig { port: address.port(), ..ServerConfig::default() });
    assert_eq!(again.address(), address);
    Client::connect(&again).mount("/export");
}

#[test]
fn settings_out_of_range_are_refused() {
    let error = |config| Server::start(config).unwrap_err();
    let config = ServerConfig { read_bytes_max: 100, ..ServerConfig::default() };
    let text = error(config).to_string();
    assert_eq!(text, "read_bytes_max is 100; it must be from 512 bytes to 4 MiB");
    let config = ServerConfig { exports: vec!["relative".to_owned()], ..ServerConfig::default() };
    assert!(matches!(error(config), ServerError::Setting { setting: "exports", .. }));
    let taken = start(ServerConfig::default());
    let config = ServerConfig { port: taken.address().port(), ..ServerConfig::default() };
    assert!(matches!(error(config), ServerError::Listen { .. }));
}

#[test]
fn sets_congestion_control_if_allowed() {
    let wanted = Some("cubic".to_owned());
    let server = start(ServerConfig { congestion_control: wanted, ..ServerConfig::default() });
    assert!(server.congestion_control().is_some());
    let unknown = Some("no-such-control".to_owned());
    let server = start(ServerConfig { congestion_control: unknown, ..ServerConfig::default() });
    assert_ne!(server.congestion_control(), Some("no-such-control"));
    Client::connect(&server).mount("/export");
}

#[test]
fn damaged_calls_never_stop_the_server() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        // Knuth's MMIX generator; any other would work.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..3000 {
        let mut stranger = Client::connect(&server);
        let call = CALLS[draw(CALLS.len())](&root);
        let mut bytes = stranger.encode(&program::Call::Nfs3(call));
        for _ in 0..=draw(4) {
            // The mark is left intact, so that the server need not wait for more.
            let at = 4 + draw(bytes.len() - 4);
            bytes[at] = [0, 0xff, 1, bytes[at] ^ 0x80][draw(4)];
        }
        stranger.send(&bytes);
        // A reply or the end of the connection, but not silence.
        assert_ne!(stranger.try_receive(0).err(), Some(std::io::ErrorKind::WouldBlock));
    }
    assert!(client.size(root).is_ok());
    assert!(server.memory_bytes() < 1 << 30);
}

const CALLS: [fn(&[u8]) -> Call<'_>; 10] = [
    |file| Call::Getattr { file },
    |file| Call::Setattr { file, attributes: Sattr::with_mode(0o700), guard: None },
    |dir| Call::Lookup { dir, name: b"name" },
    |file| Call::Read { file, offset: 0, count: 100 },
    |file| Call::Write { file, offset: 0, stable: StableHow::Unstable, data: b"data" },
    |dir| Call::Create { dir, name: b"name", how: CreateHow::Unchecked(Sattr::default()) },
    |dir| Call::Symlink { dir, name: b"link", attributes: Sattr::default(), target: b"target" },
    |dir| Call::Rename { from_dir: dir, from: b"name", to_dir: dir, to: b"other" },
    |dir| Call::Readdir { dir, cookie: 0, verifier: Verifier([0; 8]), count: 4096 },
    |dir| Call::Readdirplus {
        dir,
        cookie: 0,
        verifier: Verifier([0; 8]),
        dircount: 512,
        maxcount: 4096,
    },
];
