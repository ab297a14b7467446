//! Handmade packets, in every form in which captures contain NFS.

use nfs_proto::nfs3;
use trace::{CaptureSettings, Counters, Names, Op, Version, call_flag};

use crate::common::{
    BEGIN_NS, Frame, From, NFS_PORT, Read, Tcp, call_head, call3, capture, capture_with, ethernet,
    ipv4, ipv4_part, ipv6, pcap, pcap_cut, read3, record, reply_head, reply3, tagged, udp, write3,
};

const MS: u64 = 1_000_000;

/// The counts of a capture that only has complete calls.
fn complete(calls: u64) -> Counters {
    let ops_and_replies = Counters { ops: calls, replies: calls, ..Counters::default() };
    Counters { calls, connections: 1, clients: 1, ..ops_and_replies }
}

/// Omits fields that are irrelevant for tests about messages.
fn judged(read: &Read) -> Counters {
    Counters { packets: 0, wire_bytes: 0, ..read.counters }
}

fn offsets(read: &Read) -> Vec<u64> {
    read.calls.iter().map(|call| call.ops[0].offset).collect()
}

/// Three READs and their replies, each in its own segment.
fn three_reads(tcp: &mut Tcp) -> Vec<Frame> {
    let mut frames = tcp.connect(0);
    for number in 0..3_u32 {
        let (call, reply) = read3(number, u64::from(number) * 4096, 4096);
        let time_ns = 10 * MS * (1 + u64::from(number));
        frames.push(tcp.send(From::Client, &record(&call), time_ns));
        frames.extend(tcp.send_cut(From::Server, &record(&reply), 1448, time_ns + MS));
    }
    frames
}

#[test]
fn traces_read_and_write_over_tcp() {
    let mut tcp = Tcp::near_the_wrap();
    let mut frames = tcp.connect(0);
    let (call, reply) = read3(1, 8192, 4096);
    frames.push(tcp.send(From::Client, &record(&call), 5 * MS));
    frames.push(tcp.send(From::Server, &record(&reply), 6 * MS));
    let (call, reply) = write3(2, 65536, 3000);
    frames.extend(tcp.send_cut(From::Client, &record(&call), 1000, 7 * MS));
    frames.push(tcp.send(From::Server, &record(&reply), 9 * MS));
    let read = capture(&pcap(&frames));
    assert_eq!(judged(&read), complete(2));
    let [first, second] = &read.calls[..] else { panic!("{:?}", read.calls) };
    assert_eq!((first.start_ns, first.response_ns), (5 * MS, Some(MS)));
    let want = Op { kind: 6, offset: 8192, length: 4096, count: 4096, ..first.ops[0] };
    assert_eq!((first.ops[0], first.version), (want, Version::V3));
    // From the first byte of the call to the last of its reply.
    assert_eq!((second.start_ns, second.response_ns), (7 * MS, Some(2 * MS)));
    let op = second.ops[0];
    assert_eq!((op.kind, op.offset, op.length, op.count), (7, 65536, 3000, 3000));
    assert_eq!((op.how, op.committed, op.file), (1, 3, first.ops[0].file));
    assert_eq!((op.size_before, op.size), (Some(66_000), None));
    assert_eq!(read.connections.len(), 1);
    assert_eq!(read.connections[0].server_port, NFS_PORT);
}

#[test]
fn parses_vlan_and_ipv6_extensions() {
    let (call, reply) = read3(1, 0, 100);
    // Hop-by-hop options before UDP.
    let options = |payload: Vec<u8>| [&[17, 0, 1, 4, 0, 0, 0, 0][..], &payload].concat();
    let frames = [
        tagged(&ethernet(&ipv6(From::Client, 0, &options(udp(From::Client, &call)))), &[5]),
        tagged(&ethernet(&ipv6(From::Server, 17, &udp(From::Server, &reply))), &[7, 5]),
    ];
    let read = capture(&pcap(&frames.map(|bytes| Frame { time_ns: MS, bytes })));
    assert_eq!(judged(&read), complete(1));
    assert_eq!(read.connections[0].ip, 6);
}

#[test]
fn fragments_in_any_order() {
    let (call, reply) = write3(1, 0, 4000);
    let datagram = udp(From::Client, &call);
    let mut frames = Vec::new();
    for (number, part) in datagram.chunks(1480).enumerate() {
        let more = if (number + 1) * 1480 < datagram.len() { 0x2000 } else { 0 };
        let place = more | (number * 1480 / 8) as u16;
        frames.push(Frame {
            time_ns: MS,
            bytes: ethernet(&ipv4_part(From::Client, 17, 77, place, part)),
        });
    }
    assert_eq!(frames.len(), 3);
    frames.swap(0, 2);
    let answer = ethernet(&ipv4(From::Server, 17, &udp(From::Server, &reply)));
    frames.push(Frame { time_ns: 2 * MS, bytes: answer });
    let read = capture(&pcap(&frames));
    assert_eq!(judged(&read), complete(1));
    assert_eq!(read.calls[0].ops[0].length, 4000);
    // Without one of them there is no call, which is counted.
    frames.remove(1);
    let read = capture(&pcap(&frames));
    assert_eq!((read.counters.calls, read.counters.fragments_incomplete), (0, 1));
}

#[test]
fn orders_and_deduplicates_segments() {
    let mut frames = three_reads(&mut Tcp::default());
    let whole = capture(&pcap(&frames));
    assert_eq!(judged(&whole), complete(3));
    // Two parts of the first reply are swapped, and a part of the second is repeated.
    frames.swap(3, 4);
    let again = frames[8].clone();
    frames.insert(9, again);
    let read = capture(&pcap(&frames));
    let want = Counters { segments_again: 1, segments_out_of_order: 1, ..complete(3) };
    assert_eq!(judged(&read), want);
    assert_eq!(offsets(&read), [0, 4096, 8192]);
}

#[test]
fn skips_lost_segment_to_next_record() {
    let frames = three_reads(&mut Tcp::default());
    // The middle of the first reply is missing: its head has everything that is kept.
    let mut lossy = frames.clone();
    lossy.remove(4);
    let read = capture(&pcap(&lossy));
    let want =
        Counters { segments_lost: 1, bytes_lost: 1448, segments_out_of_order: 2, ..complete(3) };
    let seen = judged(&read);
    let same_waits = Counters { segments_out_of_order: 2, ..seen };
    assert_eq!(same_waits, want);
    // The head of the second reply: its end is not recognized, but the third reply is.
    let mut lossy = frames;
    lossy.remove(7);
    let read = capture(&pcap(&lossy));
    let Counters { calls, replies, calls_without_reply, times_unsynchronized, .. } = read.counters;
    assert_eq!((calls, replies, calls_without_reply, times_unsynchronized), (3, 2, 1, 1));
    assert_eq!(read.calls[1].response_ns, None);
    assert_eq!(read.calls[2].ops[0].count, 4096);
    assert!(read.counters.bytes_unsynchronized > 0);
}

#[test]
fn keeps_fields_before_snap_length() {
    let mut frames = three_reads(&mut Tcp::default());
    let whole = capture(&pcap(&frames));
    let read = capture(&pcap_cut(&frames, 160));
    assert_eq!(offsets(&read), offsets(&whole));
    for call in &read.calls {
        assert_eq!((call.ops[0].count, call.ops[0].status), (4096, Some(0)));
        assert_eq!(call.flags, 0);
    }
    assert_eq!(read.counters.times_unsynchronized, 0);
    assert!(read.counters.bytes_cut > 10_000);
    // So short that the arguments are cut off: the call is counted, but its file is unknown.
    frames.truncate(3);
    let read = capture(&pcap_cut(&frames, 14 + 20 + 20 + 4 + 24 + 4));
    assert_eq!((read.counters.calls, read.counters.messages_cut), (1, 1));
    assert_eq!(read.calls[0].flags, call_flag::CALL_INCOMPLETE);
    assert_eq!((read.calls[0].ops[0].kind, read.calls[0].ops[0].file), (6, 0));
}

#[test]
fn joins_connection_in_middle() {
    let frames = three_reads(&mut Tcp::default());
    // From the middle of the first reply on.
    let read = capture(&pcap(&frames[4..]));
    assert_eq!(offsets(&read), [4096, 8192]);
    assert_eq!((read.counters.calls, read.counters.replies), (2, 2));
    assert!(read.counters.calls_without_reply == 0);
}

#[test]
fn counts_unmatched_calls_and_replies() {
    let frames = three_reads(&mut Tcp::default());
    let without_call = [&frames[..2], &frames[3..]].concat();
    let read = capture(&pcap(&without_call));
    let Counters { calls, replies, replies_without_call, .. } = read.counters;
    assert_eq!((calls, replies, replies_without_call), (2, 2, 1));
    let without_reply = &frames[..frames.len() - 3];
    let read = capture(&pcap(without_reply));
    assert_eq!((read.counters.calls, read.counters.calls_without_reply), (3, 1));
    assert_eq!(read.calls[2].response_ns, None);
}

#[test]
fn retransmissions_are_no_calls() {
    let (call, reply) = read3(1, 0, 100);
    let frame = |from, message: &[u8], time_ns| Frame {
        time_ns,
        bytes: ethernet(&ipv4(from, 17, &udp(from, message))),
    };
    let frames = [
        frame(From::Client, &call, 0),
        frame(From::Client, &call, 5 * MS),
        frame(From::Server, &reply, 6 * MS),
        frame(From::Client, &call, 7 * MS),
        frame(From::Server, &reply, 8 * MS),
    ];
    let read = capture(&pcap(&frames));
    let want = Counters { calls_again: 1, calls_after_reply: 1, replies_again: 1, ..complete(1) };
    assert_eq!(judged(&read), want);
    assert_eq!((read.calls[0].retransmissions, read.calls[0].response_ns), (1, Some(6 * MS)));
}

#[test]
fn starts_trace_at_first_packet() {
    let read = capture(&pcap(&three_reads(&mut Tcp::default())));
    assert_eq!(read.begin_ns, BEGIN_NS);
    assert_eq!(read.calls.iter().map(|call| call.start_ns).min(), Some(10 * MS));
}

#[test]
fn distinguishes_call_with_pending_xid() {
    let mut tcp = Tcp::default();
    let mut frames = tcp.connect(0);
    let (read, _) = read3(1, 0, 100);
    let (write, reply) = write3(1, 0, 100);
    frames.push(tcp.send(From::Client, &record(&read), MS));
    frames.push(tcp.send(From::Client, &record(&write), 2 * MS));
    frames.push(tcp.send(From::Server, &record(&reply), 3 * MS));
    let seen = capture(&pcap(&frames));
    let Counters { calls, calls_again, calls_without_reply, .. } = seen.counters;
    assert_eq!((calls, calls_again, calls_without_reply), (2, 0, 1));
    let answered: Vec<_> = seen.calls.iter().filter(|call| call.response_ns.is_some()).collect();
    assert_eq!((answered.len(), answered[0].ops[0].kind), (1, 7));
}

#[test]
fn accepts_reused_xid_after_reply() {
    let mut tcp = Tcp::default();
    let mut frames = tcp.connect(0);
    let (call, reply) = read3(1, 0, 100);
    for time_ns in [MS, 3 * MS] {
        frames.push(tcp.send(From::Client, &record(&call), time_ns));
        frames.push(tcp.send(From::Server, &record(&reply), time_ns + MS));
    }
    assert_eq!(judged(&capture(&pcap(&frames))), complete(2));
}

#[test]
fn hashes_names_and_addresses() {
    let dir = b"some-directory-handle";
    let mut tcp = Tcp::default();
    let mut frames = tcp.connect(0);
    let object = nfs3::Object {
        file: nfs3::FileHandle::from_slice(b"the-handle-found").unwrap(),
        attributes: None,
    };
    for xid in 0..2 {
        let call = call3(xid, &nfs3::Call::Lookup { dir, name: b"secret-name" });
        let reply = reply3(xid, &nfs3::Reply::Lookup { result: Ok(object), dir: None });
        frames.push(tcp.send(From::Client, &record(&call), MS));
        frames.push(tcp.send(From::Server, &record(&reply), 2 * MS));
    }
    let read = capture(&pcap(&frames));
    let [first, second] = [read.calls[0].ops[0], read.calls[1].ops[0]];
    assert_eq!((first.name, first.file, first.result), (second.name, 1, 2));
    assert!(first.name > 0 && read.names.is_empty());
    assert!(!read.connections[0].client_address.contains('.'));
    // Another capture has a different key.
    assert_ne!(capture(&pcap(&frames)).calls[0].ops[0].name, first.name);
    let settings = CaptureSettings { names: Names::Kept, ..CaptureSettings::default() };
    let kept = capture_with(&pcap(&frames), settings);
    assert_eq!(kept.connections[0].client_address, "10.0.0.1");
    assert_eq!((kept.names.len(), kept.names[0].text.as_str()), (1, "secret-name"));
    assert_eq!(kept.names[0].hash, kept.calls[0].ops[0].name);
}

#[test]
fn counts_calls_of_other_programs() {
    let mut frames = three_reads(&mut Tcp::default());
    let mut tcp = Tcp::default();
    let bytes_before = |from: From| {
        let mut sum = 1;
        for number in 0..3 {
            let (call, reply) = read3(number, u64::from(number) * 4096, 4096);
            sum += record(if from == From::Client { &call } else { &reply }).len();
        }
        vec![0; sum - 1]
    };
    tcp.connect(0);
    for from in [From::Client, From::Server] {
        tcp.send(from, &bytes_before(from), 0);
    }
    // A callback: the server calls, and the client answers.
    let callback = record(&call_head(0, 0x4000_0000, 1, 1));
    frames.push(tcp.send(From::Server, &callback, 90 * MS));
    frames.push(tcp.send(From::Client, &record(&reply_head(0)), 91 * MS));
    let read = capture(&pcap(&frames));
    assert_eq!(judged(&read), Counters { calls_other: 1, ..complete(3) });
}
