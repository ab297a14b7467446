//! Framing: records cut at every point, in every number of fragments, with payload in and out of
//! band, late, malformed, too long.

use nfs_proto::client::{Config, File, Operation, Outcome, PayloadMode, ProtocolVersion, Session};
use nfs_proto::limits::{EMPTY_FRAGMENTS_MAX, RECORD_BYTES_MAX};
use nfs_proto::nfs3::Status;
use nfs_proto::program::OfferedPrograms;
use nfs_proto::record::{Inbox, Mark, append_fragmented};
use nfs_proto::rpc::{Credential, RpcError};
use nfs_proto::{CallError, DecodeError, StreamError, server};

use crate::common::{fattr, file};

/// How a reply is damaged.
type Damage = fn(Vec<u8>) -> Vec<u8>;

fn session(payload: PayloadMode) -> Session {
    Session::new(&Config {
        version: ProtocolVersion::V3,
        slots: 4,
        credential: Credential::None,
        payload,
        ..Config::default()
    })
}

/// Starts a READ of `count` bytes, sends it, and returns its xid.
fn start_read(session: &mut Session, tag: u32, count: u32) -> u32 {
    let file = &File::from(file());
    session.start(1, tag, &Operation::Read { file, offset: 0, count }).unwrap();
    let mut bytes = Vec::new();
    for chunk in session.outgoing() {
        let nfs_proto::client::Chunk::Bytes(chunk) = chunk else { unreachable!() };
        bytes.extend_from_slice(chunk);
    }
    session.sent(2, bytes.len());
    u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
}

/// A reply to a READ, without its mark.
fn read_reply(xid: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let pad =
        server::encode_read_reply_header(&mut out, xid, Some(&fattr()), true, data.len() as u32);
    out.extend_from_slice(data);
    out.extend(vec![0; pad]);
    out.split_off(4)
}

fn framed(record: &[u8], fragment_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    append_fragmented(&mut out, record, fragment_max);
    out
}

#[test]
fn reassembles_fragments_cut_anywhere() {
    let records = [vec![1; 11], vec![], vec![2; 40], vec![3]];
    for fragment_max in [1, 2, 3, 7, 100] {
        let stream: Vec<u8> =
            records.iter().flat_map(|record| framed(record, fragment_max)).collect();
        for cut in 0..=stream.len() {
            let mut inbox = Inbox::default();
            let mut seen = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                inbox.push(part);
                while let Some(record) = inbox.next_record().unwrap() {
                    seen.push(record.to_vec());
                }
            }
            assert_eq!(seen, records, "fragments of {fragment_max}, cut at {cut}");
            assert!(!inbox.is_partial());
        }
    }
}

#[test]
fn accepts_thousands_of_tiny_fragments() {
    let record: Vec<u8> = (0..20_000_u32).map(|at| at as u8).collect();
    let mut inbox = Inbox::default();
    let mut seen = 0;
    for byte in framed(&record, 7) {
        inbox.push(&[byte]);
        if let Some(whole) = inbox.next_record().unwrap() {
            assert_eq!(whole, record);
            seen += 1;
        }
    }
    assert_eq!((seen, inbox.fragments()), (1, 2_858));
}

const EMPTY: [u8; 4] = Mark { len: 0, last: false }.to_bytes();
const TOO_MANY_EMPTY: StreamError = StreamError::EmptyFragments { max: EMPTY_FRAGMENTS_MAX };

/// A record that begins with the maximum number of empty fragments.
fn with_empty_fragments(record: &[u8]) -> Vec<u8> {
    [EMPTY.repeat(EMPTY_FRAGMENTS_MAX as usize), framed(record, 10)].concat()
}

#[test]
fn inbox_ends_endless_empty_fragments() {
    let mut inbox = Inbox::default();
    for _ in 0..EMPTY_FRAGMENTS_MAX {
        inbox.push(&EMPTY);
        assert_eq!(inbox.next_record(), Ok(None));
    }
    inbox.push(&EMPTY);
    assert_eq!(inbox.next_record(), Err(TOO_MANY_EMPTY));

    // The limit applies to one record, wherever in it they are.
    let mut inbox = Inbox::default();
    for _ in 0..EMPTY_FRAGMENTS_MAX {
        inbox.push(&[0, 0, 0, 1, b'x']);
        inbox.push(&EMPTY);
    }
    assert_eq!(inbox.next_record(), Ok(None));
    inbox.push(&EMPTY);
    assert_eq!(inbox.next_record(), Err(TOO_MANY_EMPTY));
}

#[test]
fn a_few_empty_fragments_are_accepted() {
    let mut inbox = Inbox::default();
    for round in 0..100_u32 {
        let record = round.to_be_bytes().repeat(9);
        inbox.push(&with_empty_fragments(&record));
        assert_eq!(inbox.next_record(), Ok(Some(&record[..])));
    }

    let mut session = session(PayloadMode::Discard);
    for tag in 1..100 {
        let xid = start_read(&mut session, tag, 64);
        feed(&mut session, &with_empty_fragments(&read_reply(xid, &[5; 64])), false);
        assert_eq!(session.poll_event().unwrap().tag, tag);
    }
}

#[test]
fn client_ends_endless_empty_fragments() {
    let mut session = session(PayloadMode::Discard);
    start_read(&mut session, 1, 64);
    let flood = EMPTY.repeat(1000);
    let mut rest = &flood[..];
    let error = loop {
        match session.handle_input(3, rest) {
            Ok(taken) => rest = &rest[taken..],
            Err(error) => break error,
        }
        assert!(!rest.is_empty(), "all of it was accepted");
    };
    assert_eq!(error, TOO_MANY_EMPTY);
}

#[test]
fn the_inbox_bounds_bytes_not_fragments() {
    let mut inbox = Inbox::default();
    inbox.push(&Mark { len: RECORD_BYTES_MAX + 1, last: true }.to_bytes());
    let error = StreamError::RecordTooLong { bytes: RECORD_BYTES_MAX + 1, max: RECORD_BYTES_MAX };
    assert_eq!(inbox.next_record(), Err(error));

    let mut inbox = Inbox::new(100);
    inbox.push(&framed(&[0; 101], 60));
    assert_eq!(inbox.next_record(), Err(StreamError::RecordTooLong { bytes: 101, max: 100 }));
}

#[test]
fn limits_buffer_to_record() {
    for len in [70_000, 1 << 20, (1 << 20) + 200] {
        let mut inbox = Inbox::default();
        let mut rest = &framed(&vec![7; len], usize::MAX)[..];
        assert_eq!(inbox.bytes_needed(), 0);
        while !rest.is_empty() {
            let space = inbox.free_space(4096);
            let taken = space.len().min(rest.len());
            space[..taken].copy_from_slice(&rest[..taken]);
            inbox.mark_filled(taken);
            rest = &rest[taken..];
            assert_eq!(inbox.bytes_needed(), 4 + len);
        }
        assert_eq!(inbox.next_record().unwrap().map(<[u8]>::len), Some(len));
        assert!(inbox.capacity() <= len + (128 << 10), "{} for {len}", inbox.capacity());
        assert_eq!(inbox.bytes_needed(), 0);
    }
    // A borrowed buffer that is larger than its record needs is returned.
    let mut inbox = Inbox::default();
    inbox.adopt_buffer(&mut vec![0; 4 << 20]);
    inbox.push(&framed(&vec![7; 200_000], usize::MAX)[..100_000]);
    assert_eq!(inbox.release_buffer(4096).map(|buffer| buffer.len()), Some(4 << 20));
    assert!((200_000..400_000).contains(&inbox.capacity()), "{}", inbox.capacity());
    assert_eq!(inbox.release_buffer(4096), None, "its own fits");
    inbox.push(&framed(&vec![7; 200_000], usize::MAX)[100_000..]);
    assert_eq!(inbox.next_record(), Ok(Some(&vec![7; 200_000][..])));
    // If a record has several fragments, only the last one reveals its length.
    let mut inbox = Inbox::new(5_000_000);
    inbox.push(&framed(&[7; 100], 60)[..64]);
    assert_eq!(inbox.bytes_needed(), RECORD_BYTES_MAX);
    assert_eq!(inbox.next_record(), Ok(None));
    assert_eq!(inbox.bytes_needed(), RECORD_BYTES_MAX);
    inbox.push(&framed(&[7; 100], 60)[64..]);
    assert_eq!(inbox.bytes_needed(), 104);
}

#[test]
fn allocates_nothing_for_announced_record() {
    let mut inbox = Inbox::default();
    inbox.push(&Mark { len: RECORD_BYTES_MAX, last: true }.to_bytes());
    assert_eq!(inbox.next_record(), Ok(None));
    assert!(inbox.free_space(1).len() <= 64 * 1024);
}

#[test]
fn separates_consecutive_records() {
    let mut inbox = Inbox::default();
    let record = vec![7; 1_000_000];
    let stream = framed(&record, usize::MAX).repeat(3);
    let mut at = 0;
    let mut seen = 0;
    while at < stream.len() {
        let space = inbox.free_space(1);
        let len = space.len().min(stream.len() - at);
        space[..len].copy_from_slice(&stream[at..at + len]);
        inbox.mark_filled(len);
        at += len;
        while let Some(whole) = inbox.next_record().unwrap() {
            assert_eq!(whole, record);
            assert_eq!(at, (seen + 1) * (record.len() + 4), "received up to the record's end");
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}

#[test]
fn reassembles_read_reply_from_fragments() {
    let data: Vec<u8> = (0..61).collect();
    for fragment_max in [1, 4, 5, 32, 64, 1000] {
        let len = framed(&read_reply(0, &data), fragment_max).len();
        for cut in 0..=len {
            for out_of_band in [false, true] {
                let mut session = session(PayloadMode::Keep { bytes_max: 64 });
                let xid = start_read(&mut session, 9, 64);
                let stream = framed(&read_reply(xid, &data), fragment_max);
                feed(&mut session, &stream[..cut], out_of_band);
                feed(&mut session, &stream[cut..], out_of_band);
                let event = session.poll_event().expect("the reply is whole");
                assert_eq!(event.result, Ok(Outcome::Read { count: 61, eof: true }));
                assert_eq!((event.tag, event.payload), (9, &data[..]));
                assert_eq!(session.counters().wire_bytes_in, len as u64);
                assert_eq!(session.counters().payload_bytes_in, 61);
            }
        }
    }
}

/// Passes bytes to a session, with payload out of band if requested.
fn feed(session: &mut Session, mut bytes: &[u8], out_of_band: bool) {
    while !bytes.is_empty() {
        let taken = match session.payload_wanted() {
            Some(want) if out_of_band => {
                let len = want.len.min(bytes.len());
                if let Some(space) = session.payload_space().get_mut(..len) {
                    space.copy_from_slice(&bytes[..len]);
                }
                session.payload_received(3, len);
                len
            }
            _ => session.handle_input(3, bytes).unwrap(),
        };
        assert!(taken > 0, "an event is pending although bytes are left");
        bytes = &bytes[taken..];
    }
}

#[test]
fn accepts_empty_read_without_attributes() {
    let mut session = session(PayloadMode::Discard);
    let xid = start_read(&mut session, 1, 64);
    feed(&mut session, &framed(&read_reply(xid, &[]), 1000), false);
    let event = session.poll_event().unwrap();
    assert_eq!(event.result, Ok(Outcome::Read { count: 0, eof: true }));

    let xid = start_read(&mut session, 2, 64);
    let mut out = Vec::new();
    server::encode_read_reply_header(&mut out, xid, None, false, 4);
    out.extend([1, 2, 3, 4]);
    feed(&mut session, &out, false);
    let event = session.poll_event().unwrap();
    assert_eq!(event.result, Ok(Outcome::Read { count: 4, eof: false }));
    assert!(event.payload.is_empty(), "discarded");
}

#[test]
fn counts_late_and_unknown_replies() {
    let mut session = session(PayloadMode::Discard);
    let late = start_read(&mut session, 1, 64);
    assert!(session.abandon(1));
    assert!(!session.abandon(1));
    let current = start_read(&mut session, 2, 64);
    assert_ne!(late, current);
    feed(&mut session, &framed(&read_reply(late, &[5; 64]), 10), true);
    feed(&mut session, &framed(&read_reply(0xdead_beef, &[5; 64]), 10), true);
    feed(&mut session, &framed(&[1, 2, 3], 10), true);
    feed(&mut session, &framed(&[], 10), true);
    assert_eq!(session.poll_event(), None);
    assert_eq!(session.counters().late_replies, 4);
    feed(&mut session, &framed(&read_reply(current, &[5; 64]), 10), true);
    assert_eq!(session.poll_event().unwrap().tag, 2);
    assert_eq!(session.counters().payload_bytes_in, 64);
}

#[test]
fn keeps_stream_intact_after_abandon() {
    let mut session = session(PayloadMode::Keep { bytes_max: 64 });
    let xid = start_read(&mut session, 1, 64);
    let stream = framed(&read_reply(xid, &[5; 64]), 1000);
    feed(&mut session, &stream[..stream.len() - 20], false);
    assert!(session.abandon(1));
    assert_eq!(session.payload_wanted(), None);
    let next = start_read(&mut session, 2, 64);
    feed(&mut session, &stream[stream.len() - 20..], false);
    assert_eq!(session.poll_event(), None);
    feed(&mut session, &framed(&read_reply(next, &[6; 64]), 1000), false);
    assert_eq!(session.poll_event().unwrap().payload, [6; 64]);
}

#[test]
fn fails_only_call_of_malformed_reply() {
    let cases: [(&str, Damage); 5] = [
        ("cut in the payload", |mut reply| {
            reply.truncate(reply.len() - 10);
            reply
        }),
        ("cut in the attributes", |mut reply| {
            reply.truncate(60);
            reply
        }),
        ("bytes after the padding", |mut reply| {
            reply.extend([0; 4]);
            reply
        }),
        ("more payload than was requested", |mut reply| {
            reply[24 + 4 + 4 + 84 + 3] = 65;
            reply[24 + 4 + 4 + 84 + 8 + 3] = 65;
            reply
        }),
        ("count and length differ", |mut reply| {
            reply[24 + 4 + 4 + 84 + 3] = 8;
            reply
        }),
    ];
    for (name, damage) in cases {
        let mut session = session(PayloadMode::Keep { bytes_max: 64 });
        let first = start_read(&mut session, 1, 64);
        let second = start_read(&mut session, 2, 64);
        feed(&mut session, &framed(&damage(read_reply(first, &[5; 64])), 50), false);
        let event = session.poll_event().expect(name);
        let malformed = matches!(event.result, Err(CallError::Malformed(_)));
        assert!(event.tag == 1 && malformed, "{name}: {event:?}");
        feed(&mut session, &framed(&read_reply(second, &[6; 64]), 50), false);
        assert_eq!(session.poll_event().unwrap().payload, [6; 64], "{name}");
        assert_eq!(session.counters().malformed_replies, 1, "{name}");
    }
}

#[test]
fn failed_reads_and_refusals_are_typed() {
    let mut session = session(PayloadMode::Discard);
    let xid = start_read(&mut session, 1, 64);
    let mut out = Vec::new();
    let failure = nfs_proto::nfs3::Reply::failure(nfs_proto::nfs3::Procedure::Read, Status::Stale);
    server::encode_nfs3_reply(&mut out, xid, &failure);
    feed(&mut session, &out, false);
    assert_eq!(
        session.poll_event().unwrap().result,
        Err(CallError::Status(Status::Stale.in_version(ProtocolVersion::V3)))
    );

    for refusal in [RpcError::ProgramMismatch { low: 4, high: 4 }, RpcError::Authentication(5)] {
        let xid = start_read(&mut session, 1, 64);
        out.clear();
        server::encode_refusal(&mut out, xid, refusal);
        feed(&mut session, &out, false);
        assert_eq!(session.poll_event().unwrap().result, Err(CallError::Rpc(refusal)));
    }
}

#[test]
fn closes_stream_on_endless_record() {
    let mut session = session(PayloadMode::Discard);
    let mark = Mark { len: RECORD_BYTES_MAX, last: false }.to_bytes();
    assert_eq!(session.handle_input(1, &mark), Ok(4));
    let body = vec![0; RECORD_BYTES_MAX];
    assert_eq!(session.handle_input(1, &body), Ok(RECORD_BYTES_MAX));
    let error = session.handle_input(1, &Mark { len: 1, last: true }.to_bytes()).unwrap_err();
    assert!(matches!(error, StreamError::RecordTooLong { .. }), "{error}");
}

#[test]
fn answers_calls_below_programs() {
    use nfs_proto::rpc::{CallHeader, ReplyHeader};
    use nfs_proto::xdr::{Reader, Writer};
    let header = CallHeader {
        xid: 1,
        rpc_version: 2,
        program: 100_003,
        version: 3,
        procedure: 1,
        credential: Ok(Credential::None),
    };
    let cases = [
        (CallHeader { program: 1, ..header }, RpcError::ProgramUnavailable),
        (CallHeader { program: 100_005, ..header }, RpcError::ProgramUnavailable),
        (CallHeader { version: 2, ..header }, RpcError::ProgramMismatch { low: 3, high: 3 }),
        (CallHeader { procedure: 22, ..header }, RpcError::ProcedureUnavailable),
        (header, RpcError::GarbageArguments),
        (CallHeader { rpc_version: 3, ..header }, RpcError::RpcMismatch { low: 2, high: 2 }),
    ];
    let offered = OfferedPrograms { nfs3: true, ..OfferedPrograms::NONE };
    for (header, refusal) in cases {
        let mut server = server::Session::new(offered);
        let mut record = Vec::new();
        header.encode(&mut Writer::new(&mut record));
        server.handle_input(&framed(&record, 9));
        let mut out = Vec::new();
        let request = server.next_request(&mut out).unwrap().expect("one request");
        assert_eq!(request.body, Err(refusal));
        let reply = ReplyHeader::decode(&mut Reader::new(&out[4..])).unwrap();
        assert_eq!(reply, ReplyHeader { xid: 1, result: Err(refusal) });
    }
}

#[test]
fn closes_on_invalid_call() {
    let mut server = server::Session::new(OfferedPrograms::ALL);
    server.handle_input(&framed(&read_reply(1, b"x"), 100));
    let error = server.next_request(&mut Vec::new()).unwrap_err();
    let value = DecodeError::BadValue { what: "RPC message type", value: 1 };
    assert_eq!(error, StreamError::NotRpc(value));
}
