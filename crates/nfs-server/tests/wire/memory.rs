//! The memory limit also covers connections and clients, and beyond it the server refuses clearly.
//!
//! The tests check the server's charges and its counts of refusals.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use nfs_proto::nfs3::{Call, CreateHow, FileHandle, Reply, Sattr, Verifier};
use nfs_proto::nfs4::{ClientOwner, Op, StateProtection, Verifier as Verifier4};
use nfs_proto::record::Mark;
use nfs_proto::{Status, program};
use nfs_server::fs::{Context, CreateMode, SetAttributes};
use nfs_server::{Server, ServerConfig};

use crate::client::{Client, start, until};
use crate::nfs4::fixtures::{Peer, compound};

const MIB: u64 = 1 << 20;
/// Size of a long call, in bytes.
const CALL: usize = 1 << 20;

fn with_memory(memory_limit_bytes: u64) -> Server {
    start(ServerConfig { memory_limit_bytes, ..ServerConfig::default() })
}

/// Connections that have each sent half of a 1 MiB call, as far as the server accepts it.
fn half_calls(server: &Server, count: usize) -> Vec<TcpStream> {
    let mark = Mark { len: CALL, last: true }.to_bytes();
    let half = [&mark[..], &vec![0; CALL / 2]].concat();
    let connect = |_| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut rest = &half[..];
        // Ignore bytes that the kernel's buffers don't accept: the call is incomplete in any case.
        while let Ok(sent @ 1..) = stream.write(rest) {
            rest = &rest[sent..];
        }
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn bounds_partially_received_calls() {
    let memory_limit_bytes = 64 * MIB;
    let server = start(ServerConfig {
        memory_limit_bytes,
        partial_record_timeout_ns: 1_500_000_000,
        ..ServerConfig::default()
    });
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    let halves = half_calls(&server, 300);
    // A quarter of the memory is for everything except files.
    let check = || assert!(server.client_memory_bytes() <= memory_limit_bytes / 4);
    check();
    // Other clients are served meanwhile.
    assert_eq!(client.write(file, 0, b"small"), Ok(5));
    assert_eq!(client.read(file, 0, 5).map(|read| read.0), Ok(b"small".to_vec()));
    until(&server, |server| {
        check();
        server.counters().connections_open == 1
    });
    let counters = server.counters();
    assert_eq!(counters.connections_out_of_memory + counters.stalled_records, 300);
    assert!(counters.connections_out_of_memory > 200, "{counters:?}");
    drop(halves);
    drop(client);
    until(&server, |server| server.client_memory_bytes() < 64 * 1024);
}

#[test]
fn drops_stuck_call_for_others() {
    // There is memory for one long call at a time, and half of one is there for 30 s.
    let server = with_memory(32 * MIB);
    let _half = half_calls(&server, 1);
    until(&server, |server| server.client_memory_bytes() > CALL as u64);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    assert_eq!(client.write(file, 0, &vec![1; CALL]), Ok(CALL as u32));
    let counters = server.counters();
    assert_eq!((counters.connections_out_of_memory, counters.stalled_records), (1, 0));
}

#[test]
fn gives_time_to_single_slow_call() {
    let server = with_memory(32 * MIB);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    let mut slow = Client::connect(&server);
    let write = Call::Write {
        file: &file,
        offset: 0,
        stable: nfs_proto::nfs3::StableHow::Unstable,
        data: &vec![1; CALL],
    };
    let bytes = slow.encode(&program::Call::Nfs3(write));
    slow.send(&bytes[..CALL / 2]);
    until(&server, |server| server.client_memory_bytes() > CALL as u64);
    // Nobody waits longer for memory than a stuck call may take.
    assert!(client.is_silent_for(Duration::from_millis(2_500)));
    slow.send(&bytes[CALL / 2..]);
    assert_eq!(slow.receive(7).rpc, Ok(()));
    assert_eq!(server.counters().connections_out_of_memory, 0);
}

#[test]
fn serves_long_calls_in_turn() {
    // There is memory for one long call at a time.
    let server =
        start(ServerConfig { memory_limit_bytes: 32 * MIB, threads: 2, ..ServerConfig::default() });
    let root = Client::connect(&server).mount("/export");
    let file = Client::connect(&server).create(root, "f");
    thread::scope(|scope| {
        for number in 0..24_u64 {
            let server = &server;
            scope.spawn(move || {
                let mut client = Client::connect(server);
                for round in 0..3 {
                    let offset = (number + round) % 3 * MIB;
                    let written = client.write(file, offset, &vec![number as u8; CALL]);
                    assert_eq!(written, Ok(CALL as u32));
                }
            });
        }
    });
    let counters = server.counters();
    assert_eq!(counters.connections_out_of_memory, 0, "{counters:?}");
    assert_eq!(counters.payload_written_bytes, 24 * 3 * MIB);
}

#[test]
fn unsent_replies_stay_within_the_memory() {
    let memory_limit_bytes = 64 * MIB;
    let server = with_memory(memory_limit_bytes);
    let fs = server.file_system();
    let (directory, _) = fs.find_path("/export").unwrap();
    let context = Context::default();
    for number in 0..3_000 {
        let name = format!("{number:0200}");
        let set = SetAttributes::default();
        fs.create(directory, name.as_bytes(), CreateMode::Guarded, &set, &context).unwrap();
    }
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let verifier = Verifier::default();
    let list = Call::Readdir { dir: &root, cookie: 0, verifier, count: 1 << 20 };
    let mut greedy = Vec::new();
    for _ in 0..12 {
        let mut stranger = Client::connect(&server);
        let calls = stranger.encode(&program::Call::Nfs3(list)).repeat(64);
        // It may be closed before everything is sent.
        let _ = stranger.stream.write_all(&calls);
        greedy.push(stranger);
    }
    until(&server, |server| {
        assert!(server.client_memory_bytes() <= memory_limit_bytes / 4);
        server.counters().connections_out_of_memory > 0
    });
    let answer = client.nfs(list);
    let Reply::Readdir { result, .. } = answer.nfs3() else { unreachable!() };
    assert!(result.unwrap().entries.iter().count() > 2_000, "other clients are served");
}

#[test]
fn refuses_connections_beyond_memory() {
    let server = with_memory(MIB);
    let streams: Vec<_> = (0..100).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    until(&server, |server| {
        let counters = server.counters();
        counters.connections_open + counters.connections_out_of_memory == 100
    });
    let refused = server.counters().connections_out_of_memory;
    assert!((20..90).contains(&refused), "{refused}");
    assert!(server.client_memory_bytes() <= MIB / 4);
    drop(streams);
    until(&server, |server| server.counters().connections_open == 0);
    // A long call is accepted even with so little memory.
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    assert!(client.write(file, 0, &vec![1; CALL]).is_ok_and(|count| count >= 1 << 18));
}

#[test]
fn delays_clients_beyond_memory() {
    let memory_limit_bytes = 16 * MIB;
    let server = with_memory(memory_limit_bytes);
    let mut known = Peer::new(&server, 1, b"known");
    let (file, stateid) = known.open("f");
    let mut client = Client::connect(&server);
    let mut registered = 0_u32;
    let refusal = loop {
        let name = [&registered.to_be_bytes()[..], &[b'n'; 1000]].concat();
        let owner = ClientOwner { verifier: Verifier4([1; 8]), id: &name };
        let protection = StateProtection::None;
        let op = Op::ExchangeId { owner, flags: 0, protection, implementation: None };
        match compound(&mut client, 1, &[op]).status() {
            Status::Ok => registered += 1,
            status => break status,
        }
    };
    assert_eq!(refusal, Status::Jukebox, "the client may reconnect later");
    assert!((200..1000).contains(&registered), "{registered}");
    assert!(server.client_memory_bytes() <= memory_limit_bytes / 4);
    assert_eq!(server.counters().clients_out_of_memory, 1);
    // Known clients continue.
    let read = Op::Read { stateid, offset: 0, count: 1 };
    assert_eq!(known.call(&[Op::Putfh { file }, read]).status(), Status::Ok);
}

/// READs of a file that is overwritten before their replies are received.
#[test]
fn bounds_copies_of_sent_data() {
    let server = with_memory(16 * MIB);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let how = CreateHow::Guarded(Sattr::default());
    let answer = client.nfs(Call::Create { dir: &root, name: b"f", how });
    let Reply::Create { result, .. } = answer.nfs3() else { unreachable!() };
    let file: FileHandle = result.unwrap().file.unwrap();
    let files_max = 12 * MIB;
    let mut readers = Vec::new();
    let mut refused = None;
    for round in 0..40 {
        match client.write(file, 0, &vec![round; 4 * BLOCK]) {
            Ok(count) => assert!(count > 0),
            Err(status) => {
                refused = Some(status);
                break;
            }
        }
        assert!(server.memory_bytes() <= files_max + files_max / 64);
        // More than fits in the kernel's buffers, so that blocks wait in the server.
        let mut reader = Client::connect(&server);
        for _ in 0..8 {
            reader.send_nfs(Call::Read { file: &file, offset: 0, count: 4 * BLOCK as u32 });
        }
        readers.push(reader);
        until(&server, |server| {
            server.counters().payload_read_bytes >= u64::from(round + 1) * 4 * MIB
        });
    }
    assert_eq!(refused, Some(Status::NoSpc));
    // The blocks are freed when the readers are gone.
    drop(readers);
    until(&server, |server| server.memory_bytes() < 3 * MIB);
    assert_eq!(client.write(file, 0, b"again"), Ok(5));
}

/// Size of a block of the store, in bytes.
const BLOCK: usize = 256 * 1024;

#[test]
fn a_refused_connection_is_closed() {
    let server = with_memory(MIB);
    let mut streams: Vec<_> = (0..100).map(|_| Client::connect(&server)).collect();
    until(&server, |server| server.counters().connections_out_of_memory > 0);
    let last = streams.last_mut().unwrap();
    let kind = last.try_receive(0).err();
    assert!(
        matches!(kind, Some(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)),
        "{kind:?}"
    );
}
