//! WRITEs whose payload is received into the blocks of the store: the same results as any, and
//! nothing of a call that never arrives.
//!
//! The server first gets the start of each call by itself, since a call that arrives at once is
//! copied.

use nfs_proto::nfs3::{Call, FileHandle, Procedure, Reply, StableHow, Status};
use nfs_proto::nfs4::{Bitmap, Op, OpOk, OpResult};
use nfs_proto::program;
use nfs_server::fs::{BLOCK_BYTES, StoreMode};
use nfs_server::{FaultPlan, PartsPerMillion, Server, ServerConfig};

use crate::client::{Client, start, until};
use crate::nfs4::fixtures::{Peer, compound_bytes, send_compound};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes of a call that arrive first: all but its payload, and a little of that.
const START: usize = 1000;

fn payload(len: usize, seed: u8) -> Vec<u8> {
    let mut bytes = [seed, 1, 2, 3, 5, 8, 13].repeat(len / 7 + 1);
    bytes.truncate(len);
    bytes
}

/// Sends bytes, and waits until the server has received them all.
fn send_now(server: &Server, client: &mut Client, bytes: &[u8]) {
    let expected = server.counters().wire_in_bytes + bytes.len() as u64;
    client.send(bytes);
    until(server, |server| server.counters().wire_in_bytes >= expected);
}

fn encode_write(client: &mut Client, file: FileHandle, offset: u64, data: &[u8]) -> Vec<u8> {
    let stable = StableHow::Unstable;
    client.encode(&program::Call::Nfs3(Call::Write { file: &file, offset, stable, data }))
}

fn result_of(client: &mut Client) -> Result<u32, Status> {
    let answer = client.receive(Procedure::Write.number());
    assert_eq!(answer.xid, client.xid);
    let Reply::Write { result, .. } = answer.nfs3() else { unreachable!() };
    result.map(|ok| ok.count)
}

/// Writes in parts: the start, and then up to each of the `cuts`.
fn write_in_parts(
    server: &Server,
    client: &mut Client,
    call: &[u8],
    cuts: &[usize],
) -> Result<u32, Status> {
    let mut sent = 0;
    for cut in [START].iter().chain(cuts) {
        send_now(server, client, &call[sent..*cut]);
        sent = *cut;
    }
    client.send(&call[sent..]);
    result_of(client)
}

fn setup(config: ServerConfig) -> (Server, Client, FileHandle) {
    let server = start(config);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    (server, client, file)
}

#[test]
fn stores_payload_without_copying() {
    let (server, mut client, file) = setup(ServerConfig::default());
    let mut expected: Vec<u8> = Vec::new();
    let mut in_place = 0;
    // At the borders of blocks, beside them, and over old data.
    for (seed, offset, len) in
        [(1, 0, 4 * BLOCK), (2, BLOCK - 4, 2 * BLOCK), (3, 8, BLOCK * 2 + 4), (4, 0, 4 * BLOCK)]
    {
        let data = payload(len as usize, seed);
        let call = encode_write(&mut client, file, offset, &data);
        let border = call.len() - data.len() + BLOCK_BYTES;
        let cuts = [border - 1, border, border + 1, call.len() - 1];
        let written = write_in_parts(&server, &mut client, &call, &cuts);
        assert_eq!(written, Ok(data.len() as u32));
        let end = (offset + len) as usize;
        expected.resize(expected.len().max(end), 0);
        expected[offset as usize..end].copy_from_slice(&data);
        assert!(server.read_file("/export/f").unwrap() == expected, "{seed}");
        in_place += len;
    }
    let counters = server.counters();
    assert_eq!(counters.payload_in_place_bytes, in_place);
    assert_eq!(counters.payload_written_bytes, in_place);
    // A block is not covered.
    let data = payload(2 * BLOCK_BYTES - 8, 5);
    let call = encode_write(&mut client, file, 4, &data);
    assert_eq!(write_in_parts(&server, &mut client, &call, &[]), Ok(data.len() as u32));
    assert_eq!(server.counters().payload_in_place_bytes, in_place);
}

#[test]
fn drops_payload_of_discarding_store() {
    let config = ServerConfig { store: StoreMode::Discard, ..ServerConfig::default() };
    let (server, mut client, file) = setup(config);
    let data = payload(4 * BLOCK_BYTES, 1);
    let call = encode_write(&mut client, file, 8, &data);
    // After many bytes at once, the server waits for more than the few that come next, but not for
    // long.
    let cuts = [BLOCK_BYTES, BLOCK_BYTES + 8, 2 * BLOCK_BYTES];
    assert_eq!(write_in_parts(&server, &mut client, &call, &cuts), Ok(4 * BLOCK as u32));
    assert_eq!(client.size(file), Ok(4 * BLOCK + 8));
    let counters = server.counters();
    assert_eq!(counters.payload_in_place_bytes, 4 * BLOCK);
    assert_eq!(counters.payload_written_bytes, 4 * BLOCK);

    // Faults only need the length.
    let short_write = PartsPerMillion(1_000_000);
    let faults = FaultPlan { short_write, ..FaultPlan::default() };
    let config = ServerConfig { faults, store: StoreMode::Discard, ..ServerConfig::default() };
    let (server, mut client, file) = setup(config);
    let call = encode_write(&mut client, file, 0, &data);
    assert_eq!(write_in_parts(&server, &mut client, &call, &[]), Ok(2 * BLOCK as u32));
    assert_eq!(client.size(file), Ok(2 * BLOCK));
}

#[test]
fn pipelined_writes_stay_apart() {
    let (server, mut client, file) = setup(ServerConfig::default());
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for seed in 0..12_u8 {
        let data = payload(4 * BLOCK_BYTES, seed);
        bytes.extend(encode_write(&mut client, file, u64::from(seed) * 4 * BLOCK, &data));
        bytes.extend(client.encode(&program::Call::Nfs3(Call::Getattr { file: &file })));
        expected.extend(data);
    }
    client.xid -= 23;
    send_now(&server, &mut client, &bytes[..START]);
    let mut stream = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        std::io::Write::write_all(&mut stream, &bytes[START..]).unwrap();
    });
    for number in 1..=12 {
        assert_eq!(result_of(&mut client), Ok(4 * BLOCK as u32));
        let Reply::Getattr { result } = client.receive(1).nfs3() else { unreachable!() };
        assert_eq!(result.unwrap().size, number * 4 * BLOCK);
        client.xid += 2;
    }
    sender.join().unwrap();
    assert!(server.read_file("/export/f").unwrap() == expected);
    assert!(server.counters().payload_in_place_bytes >= 4 * BLOCK, "at least the first");
}

#[test]
fn half_a_write_changes_nothing() {
    let (server, mut client, file) = setup(ServerConfig::default());
    let old = payload(4 * BLOCK_BYTES, 1);
    assert_eq!(client.write(file, 0, &old), Ok(old.len() as u32));
    let memory = server.memory_bytes();
    // What was reserved for that call is returned after its reply.
    until(&server, |server| server.client_memory_bytes() < BLOCK);
    let mut stranger = Client::connect(&server);
    let new = payload(4 * BLOCK_BYTES, 2);
    let call = encode_write(&mut stranger, file, 0, &new);
    for cut in [START, call.len() / 2, call.len() - 1] {
        let mut stranger = Client::connect(&server);
        send_now(&server, &mut stranger, &call[..START]);
        send_now(&server, &mut stranger, &call[START..cut]);
        // It is charged as a call, not as data of files.
        until(&server, |server| server.client_memory_bytes() > 4 * BLOCK);
        assert_eq!(server.memory_bytes(), memory);
        assert!(server.read_file("/export/f").unwrap() == old);
        drop(stranger);
        until(&server, |server| server.counters().connections_open == 2);
        assert!(server.read_file("/export/f").unwrap() == old, "cut at {cut}");
        assert_eq!(server.memory_bytes(), memory);
    }
    // One that arrives in full is stored, and its reader's old data is not touched.
    let written = write_in_parts(&server, &mut stranger, &call, &[]);
    assert_eq!(written, Ok(new.len() as u32));
    assert!(server.read_file("/export/f").unwrap() == new);
    assert_eq!(server.memory_bytes(), memory);
}

#[test]
fn refused_write_is_dropped() {
    let (server, mut client, file) = setup(ServerConfig::default());
    let root = client.mount("/export");
    let data = payload(4 * BLOCK_BYTES, 1);
    let call = encode_write(&mut client, file, 0, &data);
    send_now(&server, &mut client, &call[..START]);
    let mut other = Client::connect(&server);
    other.nfs(Call::Remove { dir: &root, name: b"f" });
    let memory = server.memory_bytes();
    client.send(&call[START..]);
    assert_eq!(result_of(&mut client), Err(Status::Stale));
    // The next call has no part of it.
    let empty = client.create(root, "empty");
    assert_eq!(client.write(empty, 0, b""), Ok(0));
    assert_eq!(client.size(empty), Ok(0));
    assert_eq!(server.counters().payload_in_place_bytes, 0);
    assert!(server.memory_bytes() < memory + BLOCK);
}

#[test]
fn compounds_keep_their_operations() {
    let server = start(ServerConfig::default());
    let mut peer = Peer::new(&server, 1, b"me");
    let (file, stateid) = peer.open("f");
    let data = payload(3 * BLOCK_BYTES, 1);
    let write = |offset, data| Op::Write { stateid, offset, stable: StableHow::FileSync, data };
    let put = Op::Putfh { file };
    let size = Op::Getattr { request: Bitmap::from_numbers(&[4]) };
    let ops = [put, write(0, &data[..]), size, write(3 * BLOCK, b"tail"), size];
    peer.sequence += 1;
    let all = [&[peer.sequence_op(true)], &ops[..]].concat();
    let call = compound_bytes(&mut peer.client, 1, &all);
    for _ in 0..2 {
        // The second time, it is answered from the session's slot.
        send_now(&server, &mut peer.client, &call[..START]);
        let reply = send_compound(&mut peer.client, &call[START..]);
        let results = reply.results();
        let [_, _, OpResult::Ok(OpOk::Write { count, .. }), _, last, _] = results[..] else {
            panic!("{results:?}")
        };
        assert_eq!(count as usize, data.len());
        assert!(matches!(last, OpResult::Ok(OpOk::Write { count: 4, .. })));
        assert!(server.read_file("/export/f").unwrap() == [&data[..], b"tail"].concat());
        assert_eq!(server.counters().payload_in_place_bytes, data.len() as u64);
    }
    // As a call that arrives at once: the fingerprint of the call is the same.
    let reply = send_compound(&mut peer.client, &call);
    assert_eq!(reply.results().len(), 6);
}

#[test]
fn planned_faults_get_whole_data() {
    let short_write = PartsPerMillion(1_000_000);
    let faults = FaultPlan { short_write, ..FaultPlan::default() };
    let (server, mut client, file) = setup(ServerConfig { faults, ..ServerConfig::default() });
    let data = payload(4 * BLOCK_BYTES, 1);
    let call = encode_write(&mut client, file, 0, &data);
    assert_eq!(write_in_parts(&server, &mut client, &call, &[]), Ok(2 * BLOCK as u32));
    assert!(server.read_file("/export/f").unwrap() == data[..2 * BLOCK_BYTES]);
    assert_eq!(server.counters().payload_in_place_bytes, 0);

    let faults = FaultPlan { lose_unstable: true, ..FaultPlan::default() };
    let (server, mut client, file) = setup(ServerConfig { faults, ..ServerConfig::default() });
    let call = encode_write(&mut client, file, 0, &data);
    assert_eq!(write_in_parts(&server, &mut client, &call, &[]), Ok(4 * BLOCK as u32));
    server.restart_now();
    assert_eq!(server.read_file("/export/f").unwrap(), b"");
}
