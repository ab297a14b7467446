//! Descriptions of traces with a known load.

use nfs_proto::nfs3;
use trace::{Describer, Description, TraceReader};

use crate::common::{
    Frame, From, Tcp, call3, capture, ethernet, ipv4, pcap, read3, record, reply3, udp, write3,
};

const MS: u64 = 1_000_000;

fn describe(frames: &[Frame]) -> Description {
    let file = capture(&pcap(frames)).file;
    let mut reader = TraceReader::new(&file[..]).unwrap();
    let mut describer = Describer::new(reader.header().clone());
    while let Some(section) = reader.next_section().unwrap() {
        describer.section(section);
    }
    describer.finish()
}

/// Exchanges messages over one connection: a call every 10 ms, with a reply 2 ms later.
fn exchange(messages: &[(Vec<u8>, Vec<u8>)]) -> Vec<Frame> {
    let mut tcp = Tcp::default();
    let mut frames = tcp.connect(0);
    for (number, (call, reply)) in messages.iter().enumerate() {
        let time_ns = 10 * MS * (number as u64 + 1);
        frames.push(tcp.send(From::Client, &record(call), time_ns));
        frames.push(tcp.send(From::Server, &record(reply), time_ns + 2 * MS));
    }
    frames
}

fn attributes(size: u64) -> nfs3::Fattr {
    let time = nfs3::Time::default();
    nfs3::Fattr {
        file_type: nfs3::FileType::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size,
        used: size,
        device: nfs3::Device { major: 0, minor: 0 },
        fsid: 1,
        fileid: 1,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

#[test]
fn reports_shares_and_sequences_of_load() {
    // Eight consecutive reads, two of them at other offsets; one write.
    let mut messages: Vec<_> = [0, 1, 2, 3, 900, 901, 902, 17]
        .iter()
        .enumerate()
        .map(|(number, offset)| read3(number as u32, offset * 4096, 4096))
        .collect();
    messages.push(write3(8, 1 << 20, 512));
    let getattr = call3(9, &nfs3::Call::Getattr { file: b"file" });
    messages.push((getattr, reply3(9, &nfs3::Reply::Getattr { result: Ok(attributes(5000)) })));
    let missing = Err(nfs3::Status::NoEnt);
    let lookup = call3(10, &nfs3::Call::Lookup { dir: b"dir", name: b"none" });
    messages.push((lookup, reply3(10, &nfs3::Reply::Lookup { result: missing, dir: None })));
    let found = describe(&exchange(&messages));
    let mut kinds = Vec::new();
    for kind in &found.kinds {
        kinds.push((kind.kind, kind.ops, kind.errors));
    }
    kinds.sort_unstable();
    assert_eq!(kinds, [("GETATTR", 1, 0), ("LOOKUP", 1, 1), ("READ", 8, 0), ("WRITE", 1, 0)]);
    assert_eq!((found.reads.ops, found.reads.bytes), (8, 8 * 4096));
    assert_eq!((found.reads.sequential_ops, found.writes.sequential_ops), (6, 0));
    assert_eq!((found.writes.bytes, found.writes.stable_ops), (512, 0));
    assert_eq!((found.reads.sizes.max, found.response.count), (4096, 11));
    assert!(found.response.p50.abs_diff(2 * MS) < 2 * MS / 50, "{:?}", found.response);
    let files = &found.files;
    assert_eq!((files.known, files.accessed, files.read, files.written), (2, 2, 1, 1));
    assert_eq!((files.sizes.count, files.bytes, files.hot.len()), (1, 5000, 1));
    assert_eq!((files.hot[0].data_ops, files.hot[0].size), (9, Some(5000)));
    assert_eq!((found.clients.len(), found.clients[0].calls), (1, 11));
    assert_eq!((found.depth.max, found.depth.count), (1, 11));
    let last = found.timeline.last().unwrap();
    // Eight blocks were read, and one was written.
    assert_eq!((last.files, last.working_set_bytes), (1, 9 * 4096));
}

#[test]
fn reports_concurrency_and_missing_calls() {
    let mut frames = Vec::new();
    let mut add = |from, message: &[u8], time_ns| {
        frames.push(Frame { time_ns, bytes: ethernet(&ipv4(from, 17, &udp(from, message))) });
    };
    let exchanges: Vec<(Vec<u8>, Vec<u8>)> = (0..4).map(|xid| read3(xid, 0, 64)).collect();
    for (number, (call, _)) in exchanges.iter().enumerate() {
        add(From::Client, call, number as u64);
    }
    for (number, (_, reply)) in exchanges.iter().take(3).enumerate() {
        add(From::Server, reply, MS + number as u64);
    }
    let found = describe(&frames);
    // The fourth has no reply and is not tracked.
    assert_eq!((found.depth.max, found.end.counters.calls_without_reply), (3, 1));
    assert_eq!(found.kinds[0].without_result, 1);
}
