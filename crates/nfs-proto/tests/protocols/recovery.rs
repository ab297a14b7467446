//! Calls that a client session resends: datagrams without a reply, calls of a lost connection, and
//! calls that the server deferred. Time is virtual.

use nfs_proto::client::{
    Chunk, Config, Event, File, Framing, Kind, Operation, OperationKind, Outcome, PayloadMode,
    Retry, Session, UdpWindow,
};
use nfs_proto::nfs3::{Call, CreateHow, Procedure, ReadOk, Reply, Sattr, Status};
use nfs_proto::program::{self, OfferedPrograms};
use nfs_proto::rpc::CallHeader;
use nfs_proto::xdr::Reader;
use nfs_proto::{CallError, server};

use crate::common::{dir, fattr, file};

const MS: u64 = 1_000_000;

fn session(framing: Framing) -> Session {
    let udp_window = UdpWindow::Adaptive;
    let retry = Retry { timeo_ns: 100 * MS, retrans: 3, patience_ns: 1_000 * MS, udp_window };
    let payload = PayloadMode::Keep { bytes_max: 4096 };
    Session::new(&Config { framing, retry, slots: 4, payload, ..Config::default() })
}

/// Sends one message and returns it without its mark.
fn send(session: &mut Session, now_ns: u64, framing: Framing) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut take = |chunk: Chunk<'_>| match chunk {
        Chunk::Bytes(chunk) => bytes.extend_from_slice(chunk),
        Chunk::Pool(_) => unreachable!("nothing is in a pool"),
    };
    match framing {
        Framing::Datagram => session.outgoing_datagram().for_each(&mut take),
        Framing::Record => session.outgoing().for_each(&mut take),
    }
    session.sent(now_ns, bytes.len());
    if framing == Framing::Record { bytes.split_off(4.min(bytes.len())) } else { bytes }
}

fn xid(call: &[u8]) -> u32 {
    Reader::new(call).u32().unwrap()
}

/// A reply without its mark.
fn reply(xid: u32, reply: &Reply<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    server::encode_nfs3_reply(&mut out, xid, reply);
    out.split_off(4)
}

fn attributes(xid: u32) -> Vec<u8> {
    reply(xid, &Reply::Getattr { result: Ok(fattr()) })
}

fn getattr(session: &mut Session, now_ns: u64, tag: u32) {
    session.start(now_ns, tag, &Operation::Getattr { file: &File::from(file()) }).unwrap();
}

fn feed_record(session: &mut Session, now_ns: u64, record: &[u8]) {
    let mut framed = Vec::new();
    nfs_proto::record::append_fragmented(&mut framed, record, 50);
    assert_eq!(session.handle_input(now_ns, &framed), Ok(framed.len()));
}

#[test]
fn doubles_retransmission_timeout() {
    let mut session = session(Framing::Datagram);
    getattr(&mut session, 0, 1);
    let first = send(&mut session, 0, Framing::Datagram);
    let mut sent_again = Vec::new();
    for _ in 0..6 {
        let now = session.next_timeout_ns().unwrap();
        session.handle_timeout(now - 1);
        assert!(!session.wants_write(), "not before its timeout");
        session.handle_timeout(now);
        assert_eq!(send(&mut session, now, Framing::Datagram), first, "the same message");
        sent_again.push(now / MS);
    }
    // 100 ms, then doubled 3 times; then a major timeout starts over.
    assert_eq!(sent_again, [100, 300, 700, 1500, 1600, 1800]);
    session.handle_datagram(1900 * MS, &attributes(xid(&first)));
    let event = session.poll_event().unwrap();
    assert_eq!((event.started_ns, event.sent_ns, event.done_ns), (0, 0, 1900 * MS));
    let counters = session.counters();
    assert_eq!((counters.calls_sent, counters.replies), (1, 1));
    assert_eq!((counters.retransmissions, counters.major_timeouts), (6, 1));
    session.handle_timeout(10_000 * MS);
    assert!(!session.wants_write() && session.next_timeout_ns().is_none());
}

#[test]
fn caps_retransmission_wait_at_minute() {
    let retry = Retry { timeo_ns: 1_000 * MS, retrans: 30, ..Retry::default() };
    let framing = Framing::Datagram;
    let mut session = Session::new(&Config { framing, retry, ..Config::default() });
    getattr(&mut session, 0, 1);
    let mut sent_at = 0;
    for round in 0..20 {
        send(&mut session, sent_at, framing);
        let timeout = session.next_timeout_ns().unwrap();
        assert_eq!(timeout - sent_at, ((1_000 * MS) << round.min(40)).min(60_000 * MS));
        session.handle_timeout(timeout);
        sent_at = timeout;
    }
}

#[test]
fn separates_duplicate_from_late_replies() {
    let mut session = session(Framing::Datagram);
    getattr(&mut session, 0, 1);
    let first = send(&mut session, 0, Framing::Datagram);
    session.handle_timeout(100 * MS);
    assert!(session.wants_write());
    // The reply to the first transmission arrives before the second has been sent.
    session.handle_datagram(101 * MS, &attributes(xid(&first)));
    assert!(session.poll_event().is_some());
    assert!(!session.wants_write(), "nothing is sent for a finished call");
    session.handle_datagram(102 * MS, &attributes(xid(&first)));
    session.handle_datagram(103 * MS, &attributes(0xdead_beef));
    session.handle_datagram(104 * MS, b"abc");
    session.handle_datagram(105 * MS, b"");
    assert!(session.poll_event().is_none());
    let counters = session.counters();
    assert_eq!((counters.duplicate_replies, counters.late_replies), (1, 3));
}

#[test]
fn delivers_datagram_payload_to_slot() {
    let mut session = session(Framing::Datagram);
    let read = Operation::Read { file: &File::from(file()), offset: 0, count: 4096 };
    session.start(0, 7, &read).unwrap();
    let call = send(&mut session, 0, Framing::Datagram);
    let data: Vec<u8> = (0..3001_u32).map(|at| at as u8).collect();
    let result = Ok(ReadOk { eof: true, data: &data });
    let answer = reply(xid(&call), &Reply::Read { attributes: Some(fattr()), result });
    session.handle_datagram(1, &answer[..answer.len() - 8]);
    let event = session.poll_event().unwrap();
    assert!(matches!(event.result, Err(CallError::Malformed(_))), "cut: {event:?}");
    session.start(0, 8, &read).unwrap();
    let call = send(&mut session, 0, Framing::Datagram);
    let answer = reply(xid(&call), &Reply::Read { attributes: Some(fattr()), result });
    session.handle_datagram(1, &answer);
    let event = session.poll_event().unwrap();
    assert_eq!(event.result, Ok(Outcome::Read { count: 3001, eof: true }));
    assert_eq!((event.tag, event.payload), (8, &data[..]));
}

#[test]
fn repeats_only_harmless_lost_calls() {
    let framing = Framing::Record;
    let mut session = session(framing);
    let file = &File::from(file());
    let dir = &File::from(dir());
    let how = CreateHow::Guarded(Sattr::default());
    session.start(1, 1, &Operation::Read { file, offset: 0, count: 64 }).unwrap();
    session.start(1, 2, &Operation::Create { dir, name: b"new", how }).unwrap();
    let both = send(&mut session, 2, framing);
    // These two have not been sent completely, so the server can't have executed them.
    session.start(3, 3, &Operation::Remove { dir, name: b"old" }).unwrap();
    session.sent(3, 20);
    getattr(&mut session, 3, 4);
    assert_eq!(session.handle_input(4, &[0x80, 0, 0, 40, 1, 2, 3]), Ok(7), "a reply begins");

    session.reconnected(5);
    let event = session.poll_event().unwrap();
    assert_eq!((event.tag, event.done_ns), (2, 5));
    assert_eq!(event.kind, Kind::File(OperationKind::Create));
    assert_eq!(event.result, Err(CallError::Lost));
    assert!(session.poll_event().is_none());

    let again = messages(&mut session);
    let expected = [Procedure::Read, Procedure::Remove, Procedure::Getattr];
    assert_eq!(again.iter().map(|(_, procedure)| *procedure).collect::<Vec<_>>(), expected);
    assert_eq!(again[0].0, xid(&both), "under its xid");
    for (xid, procedure) in again {
        feed_record(&mut session, 7, &reply(xid, &Reply::failure(procedure, Status::Io)));
        assert!(session.poll_event().is_some());
    }
    let counters = session.counters();
    assert_eq!((counters.reconnects, counters.replays, counters.lost_calls), (1, 1, 1));
    assert_eq!((counters.calls_sent, counters.late_replies), (4, 0));
    assert_eq!(session.in_flight(), 0);
}

/// Sends everything that is queued, and returns xids and procedures as the server sees them.
fn messages(session: &mut Session) -> Vec<(u32, Procedure)> {
    let mut stream = Vec::new();
    for chunk in session.outgoing() {
        let Chunk::Bytes(bytes) = chunk else { unreachable!("nothing is in a pool") };
        stream.extend_from_slice(bytes);
    }
    session.sent(6, stream.len());
    let mut server = server::Session::new(OfferedPrograms::ALL);
    server.handle_input(&stream);
    let mut seen = Vec::new();
    while let Some(request) = server.next_request(&mut Vec::new()).unwrap() {
        let Ok(program::Call::Nfs3(call)) = request.body else { panic!("{request:?}") };
        seen.push((request.xid, Call::procedure(&call)));
    }
    seen
}

#[test]
fn repeats_delayed_call_with_new_xid() {
    let mut session = session(Framing::Record);
    getattr(&mut session, 0, 1);
    let later = Reply::failure(Procedure::Getattr, Status::Jukebox);
    let mut now = 0;
    let mut xids = Vec::new();
    for wait_ms in [100, 200] {
        let call = send(&mut session, now, Framing::Record);
        xids.push(xid(&call));
        feed_record(&mut session, now, &reply(xid(&call), &later));
        assert!(session.poll_event().is_none() && !session.wants_write());
        assert_eq!(session.oldest_pending_ns(), None, "the server owes no answer");
        assert_eq!(session.next_timeout_ns(), Some(now + wait_ms * MS));
        now += wait_ms * MS;
        session.handle_timeout(now);
    }
    let call = send(&mut session, now, Framing::Record);
    CallHeader::decode(&mut Reader::new(&call)).unwrap();
    assert!(!xids.contains(&xid(&call)) && xids[0] != xids[1]);
    feed_record(&mut session, now, &attributes(xid(&call)));
    let event = session.poll_event().unwrap();
    assert_eq!((event.started_ns, event.done_ns), (0, 300 * MS));
    assert!(event.result.is_ok());
    let counters = session.counters();
    assert_eq!((counters.delays, counters.calls_sent, counters.replies), (2, 1, 3));
}

#[test]
fn patience_ends() {
    let mut session = session(Framing::Record);
    getattr(&mut session, 0, 1);
    let mut now = 0;
    let event_ns = loop {
        let call = send(&mut session, now, Framing::Record);
        let later = Reply::failure(Procedure::Getattr, Status::Jukebox);
        feed_record(&mut session, now, &reply(xid(&call), &later));
        if let Some(Event { result, .. }) = session.poll_event() {
            assert_eq!(result.unwrap_err().status(), Some(Status::Jukebox));
            break now;
        }
        now = session.next_timeout_ns().unwrap();
        session.handle_timeout(now);
    };
    // 100, 200 and 400 ms; another 800 would exceed the second.
    assert_eq!(event_ns, 700 * MS);
    assert_eq!(session.in_flight(), 0);
}

#[test]
fn abandons_waiting_call() {
    let mut session = session(Framing::Record);
    getattr(&mut session, 0, 1);
    let call = send(&mut session, 0, Framing::Record);
    let later = Reply::failure(Procedure::Getattr, Status::Jukebox);
    feed_record(&mut session, 0, &reply(xid(&call), &later));
    assert!(session.abandon(1));
    session.handle_timeout(10_000 * MS);
    assert!(!session.wants_write() && session.in_flight() == 0);
}

/// Makes the given number of calls over a link that takes a millisecond for each and has room for
/// eight. Returns when the last one completed, in milliseconds, and how many datagrams were resent.
fn through_a_narrow_link(udp_window: UdpWindow, calls: u32) -> (u64, u64) {
    const ROOM: usize = 8;
    let retry = Retry { timeo_ns: 100 * MS, udp_window, ..Retry::default() };
    let framing = Framing::Datagram;
    let mut session = Session::new(&Config { framing, retry, slots: 32, ..Config::default() });
    let mut now = 0;
    let mut started = 0;
    let mut ended = 0;
    // Each message on the link, with the time at which its reply arrives.
    let mut link: std::collections::VecDeque<(u32, u64)> = std::collections::VecDeque::new();
    while ended < calls {
        while started < calls && session.free_slots() > 0 {
            getattr(&mut session, now, started);
            started += 1;
        }
        while session.wants_write() {
            let message = send(&mut session, now, framing);
            if link.len() < ROOM {
                let free_ns = link.back().map_or(now, |(_, done_ns)| *done_ns);
                link.push_back((xid(&message), free_ns + MS));
            }
        }
        let reply_ns = link.front().map(|(_, done_ns)| *done_ns);
        let timeout_ns = session.next_timeout_ns();
        now = reply_ns.into_iter().chain(timeout_ns).min().expect("something is in progress");
        session.handle_timeout(now);
        if reply_ns == Some(now) {
            let (xid, _) = link.pop_front().unwrap();
            session.handle_datagram(now, &attributes(xid));
            while session.poll_event().is_some() {
                ended += 1;
            }
        }
    }
    (now / MS, session.counters().retransmissions)
}

#[test]
fn fits_window_to_lossy_link() {
    let (adaptive_ms, again) = through_a_narrow_link(UdpWindow::Adaptive, 400);
    let (off_ms, off_again) = through_a_narrow_link(UdpWindow::Off, 400);
    // The link itself takes 400 ms.
    assert!((400..1_000).contains(&adaptive_ms), "{adaptive_ms} ms, {again} sent again");
    assert!(off_ms > 3 * adaptive_ms, "{off_ms} ms without a window, {adaptive_ms} ms with one");
    assert!(off_again > again, "{off_again} and {again} datagrams were sent again");
}
