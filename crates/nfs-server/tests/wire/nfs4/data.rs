//! Data: large transfers, several in a compound, and the additions of v4.2.

use nfs_proto::Status;
use nfs_proto::nfs4::{List, Op, OpOk, OpResult, Segment, StableHow, Stateid, content};
use nfs_server::ServerConfig;

use super::fixtures::{Peer, server};
use crate::client::start;

const BLOCK: u64 = 256 * 1024;

fn write(stateid: Stateid, offset: u64, data: &[u8]) -> Op<'_> {
    Op::Write { stateid, offset, stable: StableHow::Unstable, data }
}

#[test]
fn keeps_order_within_compound() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let (file, stateid) = peer.open("f");
    let data: Vec<u8> = (0..300_001_u32).map(|n| (n * 7 / 5) as u8).collect();
    let (head, tail) = data.split_at(100_001);
    let put = Op::Putfh { file };
    let ops = [put, write(stateid, 0, head), write(stateid, 100_001, tail)];
    assert_eq!(peer.call(&ops).status(), Status::Ok);
    assert!(server.read_file("/export/f").unwrap() == data);
    let read = |offset, count| Op::Read { stateid, offset, count };
    let ops = [put, read(0, 100_001), Op::Getfh, read(299_999, 9), read(7, 262_144)];
    for cache_this in [false, true] {
        peer.sequence += 1;
        let reply = peer.again(&ops, cache_this);
        if cache_this {
            assert_eq!(reply.status(), Status::RepTooBigToCache);
            continue;
        }
        let results = reply.results();
        let [.., first, handle, second, third] = results[..] else { panic!("{results:?}") };
        assert_eq!(first, OpResult::Ok(OpOk::Read { eof: false, data: &data[..100_001] }));
        assert_eq!(handle, OpResult::Ok(OpOk::Getfh { file }));
        assert_eq!(second, OpResult::Ok(OpOk::Read { eof: true, data: &data[299_999..] }));
        assert_eq!(third, OpResult::Ok(OpOk::Read { eof: false, data: &data[7..262_151] }));
    }
    let small = peer.call(&[put, read(1, 10)]);
    assert_eq!(small.ok(), OpOk::Read { eof: false, data: &data[1..11] });
    let again = peer.again(&[put, read(1, 10)], true);
    assert_eq!(again.bytes(), small.bytes(), "cached with its payload");
}

#[test]
fn holes_are_found_made_and_filled() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    let (file, stateid) = peer.open("f");
    let put = Op::Putfh { file };
    peer.call(&[put, write(stateid, 2 * BLOCK, b"data")]);
    let seek = |offset, what| Op::Seek { stateid, offset, what };
    let mut found = |offset, what| {
        let reply = peer.call(&[put, seek(offset, what)]);
        let result = reply.results().pop().unwrap();
        result.ok().map(|ok| {
            let OpOk::Seek { eof, offset } = ok else { unreachable!() };
            (eof, offset)
        })
    };
    assert_eq!(found(0, content::DATA), Ok((false, 2 * BLOCK)));
    assert_eq!(found(0, content::HOLE), Ok((false, 0)));
    assert_eq!(found(2 * BLOCK, content::HOLE), Ok((true, 2 * BLOCK + 4)));
    assert_eq!(found(2 * BLOCK + 4, content::DATA), Err(Status::NxIo));
    assert_eq!(found(0, 7), Err(Status::UnionNotSupp));
    let range = |offset, length| (stateid, offset, length);
    let allocate = |(stateid, offset, length)| Op::Allocate { stateid, offset, length };
    let deallocate = |(stateid, offset, length)| Op::Deallocate { stateid, offset, length };
    assert_eq!(peer.call(&[put, allocate(range(0, BLOCK))]).status(), Status::Ok);
    assert_eq!(peer.call(&[put, allocate(range(0, 0))]).status(), Status::Inval);
    assert_eq!(peer.call(&[put, allocate(range(0, 1 << 40))]).status(), Status::NoSpc);
    assert_eq!(peer.call(&[put, deallocate(range(2 * BLOCK, 2))]).status(), Status::Ok);
    let read_plus = Op::ReadPlus { stateid, offset: 0, count: 1 << 20 };
    peer.sequence += 1;
    let reply = peer.again(&[put, read_plus], false);
    let OpOk::ReadPlus { eof: true, segments } = reply.ok() else {
        panic!("not the whole payload")
    };
    let zeros = vec![0; BLOCK as usize];
    let expected = [
        Segment::Data(0, &zeros),
        Segment::Hole(BLOCK, BLOCK),
        Segment::Data(2 * BLOCK, b"\0\0ta"),
    ];
    assert!(List::iter(&segments).eq(expected));
}

#[test]
fn data_is_copied_within_the_server() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    let (from, source) = peer.open("from");
    let (to, destination) = peer.open("to");
    let data: Vec<u8> = (0..600_000_u32).map(|n| (n / 3) as u8).collect();
    peer.call(&[Op::Putfh { file: from }, write(source, 0, &data)]);
    let copy = |count| Op::Copy {
        source,
        destination,
        source_offset: 10,
        destination_offset: 3,
        count,
        consecutive: true,
        synchronous: true,
        servers: List::default(),
    };
    let ways = [Op::Putfh { file: from }, Op::Savefh, Op::Putfh { file: to }];
    let reply = peer.call(&[ways[0], ways[1], ways[2], copy(0)]);
    let OpOk::Copy { count, verifier, .. } = reply.ok() else { unreachable!() };
    assert_eq!((count, verifier.0), (599_990, server.write_verifier()));
    let copied = server.read_file("/export/to").unwrap();
    assert!(copied[..3] == [0; 3] && copied[3..] == data[10..]);
    let same = [ways[0], ways[1]];
    let onto_itself = Op::Copy {
        source,
        destination: source,
        source_offset: 0,
        destination_offset: 5,
        count: 10,
        consecutive: true,
        synchronous: true,
        servers: List::default(),
    };
    assert_eq!(peer.call(&[same[0], same[1], onto_itself]).status(), Status::Inval);
}

#[test]
fn clones_share_data_of_source() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    let (from, source) = peer.open("from");
    let (to, destination) = peer.open("to");
    let data: Vec<u8> = (0..600_000_u32).map(|n| (n / 3) as u8).collect();
    peer.call(&[Op::Putfh { file: from }, write(source, 0, &data)]);
    peer.call(&[Op::Putfh { file: to }, write(destination, 0, &[9; 10_000])]);
    let ways = [Op::Putfh { file: from }, Op::Savefh, Op::Putfh { file: to }];
    let mut clone = |source, source_offset, destination_offset, count| {
        let clone = Op::Clone { source, destination, source_offset, destination_offset, count };
        peer.call(&[ways[0], ways[1], ways[2], clone]).status()
    };
    // Unaligned, with a tail that is not that of the source, not to the end of the other file, and
    // beyond the source.
    for (source_offset, destination_offset, count) in [
        (1, 0, 4096),
        (0, 512, 4096),
        (0, 0, 5000),
        (593_920, 0, 0),
        (0, 0, 600_001),
        (1 << 40, 0, 0),
    ] {
        let status = clone(source, source_offset, destination_offset, count);
        assert_eq!(status, Status::Inval, "{source_offset} {destination_offset} {count}");
    }
    assert_eq!(clone(Stateid { seqid: 99, ..source }, 0, 0, 0), Status::BadStateid);
    assert_eq!(server.read_file("/export/to").unwrap(), [9; 10_000]);
    assert_eq!(clone(source, 0, 4096, 0), Status::Ok);
    let cloned = server.read_file("/export/to").unwrap();
    assert!(cloned[..4096] == [9; 4096] && cloned[4096..] == data[..]);
    assert_eq!(clone(source, 8192, 0, 4096), Status::Ok);
    assert!(server.read_file("/export/to").unwrap()[..4096] == data[8192..12_288]);
    assert_eq!(server.counters().copied_bytes, 600_000 + 4096);
    // The halves of one file may share blocks, but a range can't share them with itself.
    let within = |destination_offset| Op::Clone {
        source,
        destination: source,
        source_offset: 0,
        destination_offset,
        count: 8192,
    };
    assert_eq!(peer.call(&[ways[0], ways[1], within(4096)]).status(), Status::Inval);
    assert_eq!(peer.call(&[ways[0], ways[1], within(8192)]).status(), Status::Ok);
    assert!(server.read_file("/export/from").unwrap()[8192..16_384] == data[..8192]);
}

#[test]
fn reads_unlinked_open_file() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let (file, stateid) = peer.open("f");
    peer.call(&[Op::Putfh { file }, write(stateid, 0, b"still")]);
    let remove = Op::Remove { name: b"f" };
    peer.call(&[Op::Putrootfh, Op::Lookup { name: b"export" }, remove]);
    assert!(server.list_directory("/export").unwrap().is_empty());
    let read = Op::Read { stateid, offset: 0, count: 9 };
    let reply = peer.call(&[Op::Putfh { file }, read]);
    assert_eq!(reply.ok(), OpOk::Read { eof: true, data: b"still" });
    let close = Op::Close { seqid: 0, stateid };
    assert_eq!(peer.call(&[Op::Putfh { file }, close]).status(), Status::Ok);
    assert_eq!(peer.call(&[Op::Putfh { file }, read]).status(), Status::Stale);
}

#[test]
fn truncates_transfers_to_granted_size() {
    let config =
        ServerConfig { read_bytes_max: 4096, write_bytes_max: 4096, ..ServerConfig::default() };
    let server = start(config);
    let mut peer = Peer::new(&server, 1, b"me");
    let (file, stateid) = peer.open("f");
    let put = Op::Putfh { file };
    let reply = peer.call(&[put, write(stateid, 0, &[1; 5000])]);
    let OpOk::Write { count, .. } = reply.ok() else { unreachable!() };
    assert_eq!(count, 4096);
    peer.call(&[put, write(stateid, 4096, &[1; 904])]);
    peer.sequence += 1;
    let reply = peer.again(&[put, Op::Read { stateid, offset: 0, count: 5000 }], false);
    let OpOk::Read { eof: false, data } = reply.ok() else { panic!("not at the end") };
    assert_eq!(data.len(), 4096);
}
