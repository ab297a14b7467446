//! Repeated calls: executed once, with the same answer.

use nfs_proto::nfs3::{Call, CreateHow, FileHandle, Reply, Sattr, StableHow, Status};
use nfs_proto::{nfs2, program};
use nfs_server::{FaultPlan, PartsPerMillion, Server, ServerConfig, ServiceTime};

use crate::client::{Client, start, until};
use crate::udp::Peer;

fn pair(config: ServerConfig) -> (Server, Client, FileHandle) {
    let server = start(config);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    (server, client, root)
}

fn removed(answer: &crate::client::CallResults) -> Result<(), Status> {
    let Reply::Remove { result, .. } = answer.nfs3() else { unreachable!() };
    result
}

#[test]
fn executes_repeated_remove_once() {
    let (server, mut client, dir) = pair(ServerConfig::default());
    client.create(dir, "name");
    let remove = client.encode(&program::Call::Nfs3(Call::Remove { dir: &dir, name: b"name" }));
    let mut answers = Vec::new();
    for _ in 0..3 {
        client.send(&remove);
        let answer = client.receive(12);
        assert_eq!((answer.xid, removed(&answer)), (client.xid, Ok(())));
        answers.push(answer.results);
    }
    assert!(answers.iter().all(|results| *results == answers[0]), "byte for byte");
    let counters = server.counters();
    assert_eq!((counters.cache_hits, counters.calls[12]), (2, 1));
    // The same call with another xid is a different call.
    let answer = client.nfs(Call::Remove { dir: &dir, name: b"name" });
    assert_eq!(removed(&answer), Err(Status::NoEnt));
}

#[test]
fn separates_calls_with_other_arguments() {
    let (server, mut client, dir) = pair(ServerConfig::default());
    for name in ["a", "b"] {
        client.create(dir, name);
    }
    for name in [b"a", b"b"] {
        client.xid = 70;
        let answer = client.nfs(Call::Remove { dir: &dir, name });
        assert_eq!(removed(&answer), Ok(()));
    }
    assert!(server.list_directory("/export").unwrap().is_empty());
    assert_eq!(server.counters().cache_hits, 0);
}

#[test]
fn separates_senders_with_same_xid() {
    let (server, mut client, dir) = pair(ServerConfig::default());
    client.create(dir, "name");
    let remove = client.encode(&program::Call::Nfs3(Call::Remove { dir: &dir, name: b"name" }));
    let mut other = Client::connect(&server);
    client.send(&remove);
    assert_eq!(removed(&client.receive(12)), Ok(()));
    other.send(&remove);
    assert_eq!(removed(&other.receive(12)), Err(Status::NoEnt));
}

#[test]
fn executes_repeated_reads_and_writes() {
    let (server, mut client, dir) = pair(ServerConfig::default());
    let file = client.create(dir, "f");
    let misses = server.counters().cache_misses;
    let stable = StableHow::FileSync;
    for call in [
        Call::Getattr { file: &file },
        Call::Write { file: &file, offset: 0, stable, data: b"data" },
    ] {
        let bytes = client.encode(&program::Call::Nfs3(call));
        for _ in 0..2 {
            client.send(&bytes);
            client.receive(call.procedure().number());
        }
    }
    let counters = server.counters();
    assert_eq!((counters.cache_hits, counters.cache_misses), (0, misses));
    assert_eq!((counters.calls[1], counters.calls[7]), (2, 2));
}

#[test]
fn replays_dropped_reply_in_v2() {
    let faults = FaultPlan { drop_reply: PartsPerMillion(500_000), ..FaultPlan::default() };
    let server = start(ServerConfig { faults, ..ServerConfig::default() });
    let id = server.file_system().find_path("/export").unwrap().0;
    let handle = server.file_system().handle(id);
    let dir = nfs2::FileHandle::from_slice(&pad(&handle)).unwrap();
    let mut peer = Peer::connect(&server);
    peer.socket.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
    for n in 0..40 {
        let name = format!("d{n}");
        let attributes = nfs2::Sattr::default();
        let call = nfs2::Call::Mkdir { dir, name: name.as_bytes(), attributes };
        let bytes = peer.send(&program::Call::Nfs2(call));
        let mut buffer = [0; 512];
        let mut replied = peer.socket.recv(&mut buffer);
        while replied.is_err() {
            peer.socket.send(&bytes).unwrap();
            replied = peer.socket.recv(&mut buffer);
        }
        // Created once, and answered like that: never EXIST.
        assert_eq!(buffer[24..28], [0; 4], "{name}");
        // A reply to an earlier repetition may still be on its way.
        while peer.socket.recv(&mut buffer).is_ok() {}
    }
    assert_eq!(server.list_directory("/export").unwrap().len(), 40);
    assert!(server.counters().cache_hits > 0);
}

fn pad(handle: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..handle.len()].copy_from_slice(handle);
    bytes
}

#[test]
fn ignores_repeat_while_reply_is_held() {
    let faults = FaultPlan {
        service_time: Some(ServiceTime::Fixed { time_ns: 200_000_000 }),
        ..FaultPlan::default()
    };
    let (server, mut client, dir) = pair(ServerConfig { faults, ..ServerConfig::default() });
    let how = CreateHow::Guarded(Sattr::default());
    let create = client.encode(&program::Call::Nfs3(Call::Create { dir: &dir, name: b"f", how }));
    client.send(&create);
    client.send(&create);
    let answer = client.receive(8);
    assert!(matches!(answer.nfs3(), Reply::Create { result: Ok(_), .. }));
    until(&server, |server| server.counters().cache_busy == 1);
    assert!(client.is_silent());
    client.send(&create);
    assert!(matches!(client.receive(8).nfs3(), Reply::Create { result: Ok(_), .. }));
}

#[test]
fn executes_repeats_without_cache() {
    let config = ServerConfig { cached_replies_max: 0, ..ServerConfig::default() };
    let (server, mut client, dir) = pair(config);
    client.create(dir, "name");
    let remove = client.encode(&program::Call::Nfs3(Call::Remove { dir: &dir, name: b"name" }));
    for expected in [Ok(()), Err(Status::NoEnt)] {
        client.send(&remove);
        assert_eq!(removed(&client.receive(12)), expected);
    }
    assert_eq!(server.counters().cache_misses, 0);
}
