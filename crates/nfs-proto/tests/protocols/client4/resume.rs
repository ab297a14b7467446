//! A server that has forgotten the session or the client: which calls are held back, and which are
//! resent once there is a new one.

use super::*;

const OTHER: SessionId = SessionId(*b"another session.");

/// A session bound by another connection, which has already made one call.
fn fresh(version: ProtocolVersion) -> Session {
    let mut session = Session::new(&Config { version, slots: 4, ..Config::default() });
    session.bind(&Binding { client: ClientId(77), session: OTHER, slots: 4, owner_base: 88 });
    session.start_ops(0, 9, &[Op::ReclaimComplete { one_fs: false }]).unwrap();
    let seen = ReceivedCall::from_bytes(&send(&mut session));
    let done = OpResult::Ok(OpOk::ReclaimComplete);
    answer(&mut session, &seen, &[done]);
    assert!(session.poll_event().is_some());
    session
}

fn refuse(session: &mut Session, seen: &ReceivedCall, status: Status) {
    let code = if session.version().has_sessions() { OpCode::Sequence } else { OpCode::Open };
    let mut results = vec![OpResult::Failed(code, status)];
    if code == OpCode::Open {
        results.insert(0, PUTFH);
    }
    let bytes = reply(seen.xid, &results);
    assert_eq!(session.handle_input(2, &bytes), Ok(bytes.len()));
}

#[test]
fn continues_refused_operations_in_new_session() {
    let mut session = client(ProtocolVersion::V4_1, 4);
    let file = file();
    let dir = dir();
    let how = CreateHow::Guarded(Sattr::default());
    let read = start(&mut session, &Operation::Read { file: &file, offset: 0, count: 64 });
    let create = start(&mut session, &Operation::Create { dir: &dir, name: b"new", how });
    // Queued, but not sent.
    session.start(0, 1, &Operation::Getattr { file: &file }).unwrap();
    for seen in [&read, &create] {
        refuse(&mut session, seen, Status::BadSession);
    }
    assert!(session.is_unbound() && !session.has_event());
    assert_eq!((session.awaited_calls(), session.oldest_pending_ns()), (0, Some(0)));

    session.resume(3, &fresh(ProtocolVersion::V4_1));
    assert!(!session.is_unbound() && !session.has_event());
    let bytes = send(&mut session);
    let mut rest = &bytes[..];
    let mut made = Vec::new();
    while !rest.is_empty() {
        let len = 4 + (u32::from_be_bytes(rest[..4].try_into().unwrap()) & 0x7fff_ffff) as usize;
        let seen = ReceivedCall::from_bytes(&rest[..len]);
        let Op::Sequence { session, sequence, slot, .. } = seen.ops()[0] else { panic!() };
        assert_eq!(session, OTHER);
        made.push((slot, sequence, seen.codes()[2], seen.xid));
        rest = &rest[len..];
    }
    let known: Vec<_> =
        made.iter().map(|(slot, sequence, code, _)| (*slot, *sequence, *code)).collect();
    // The other connection has already made one call on slot 0.
    assert_eq!(known, [(0, 2, OpCode::Read), (1, 1, OpCode::Open), (2, 1, OpCode::Getattr)]);
    assert!(made.iter().all(|made| made.3 != read.xid && made.3 != create.xid));
    assert_eq!(session.counters().rebinds, 1);
}

#[test]
fn reports_possibly_executed_calls_as_lost() {
    let mut session = client(ProtocolVersion::V4_1, 4);
    let dir = dir();
    let how = CreateHow::Guarded(Sattr::default());
    start(&mut session, &Operation::Create { dir: &dir, name: b"new", how });
    session.reconnected(2);
    let again = ReceivedCall::from_bytes(&send(&mut session));
    refuse(&mut session, &again, Status::BadSession);
    assert!(session.is_unbound());
    session.resume(3, &fresh(ProtocolVersion::V4_1));
    assert_eq!(result(&mut session), Err(CallError::Lost));
    assert!(!session.wants_write());
    assert_eq!(session.in_flight(), 0);
}

#[test]
fn reopens_for_owner_of_new_client() {
    for status in [Status::StaleClientId, Status::Expired] {
        repeats_refused_open(status);
    }
}

fn repeats_refused_open(status: Status) {
    let mut session = client(ProtocolVersion::V4_0, 4);
    let dir = dir();
    let operation = Operation::Open { dir: &dir, name: b"file", access: OpenAccess::Read };
    let open = start(&mut session, &operation);
    refuse(&mut session, &open, status);
    assert!(session.is_unbound());
    session.resume(3, &fresh(ProtocolVersion::V4_0));
    let again = ReceivedCall::from_bytes(&send(&mut session));
    let Op::Open { seqid, owner, .. } = again.ops()[1] else { panic!("{:?}", again.ops()) };
    assert_eq!((seqid, owner.client), (1, ClientId(77)));
    assert_eq!(owner.owner[..8], 88_u64.to_be_bytes());
    assert_eq!(again.codes(), open.codes());
}
