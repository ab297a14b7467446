//! Sequence numbers of slots and owners: their progress, and resent calls.

use super::*;

#[test]
fn advances_slot_only_for_accepted_calls() {
    let mut session = client(ProtocolVersion::V4_1, 4);
    let getattr_call = Operation::Getattr { file: &file() };
    let mut scratch = Vec::new();
    for expected in 1..4 {
        let seen = start(&mut session, &getattr_call);
        assert_eq!(seen.sequence(), (0, expected));
        answer(&mut session, &seen, &[PUTFH, getattr(&mut scratch)]);
        assert!(result(&mut session).is_ok());
    }
    // A call that fails after its SEQUENCE has used the slot.
    let seen = start(&mut session, &getattr_call);
    answer(&mut session, &seen, &[OpResult::Failed(OpCode::Putfh, Status::Stale)]);
    assert!(result(&mut session).is_err());
    assert_eq!(session.status_flags(), 0x100);
    let seen = start(&mut session, &getattr_call);
    assert_eq!(seen.sequence(), (0, 5));
    // A call whose SEQUENCE fails was not executed.
    let refused = OpResult::Failed(OpCode::Sequence, Status::SeqMisordered);
    let bytes = reply(seen.xid, &[refused]);
    session.handle_input(2, &bytes).unwrap();
    assert_eq!(result(&mut session).unwrap_err().status(), Some(Status::SeqMisordered));
    assert_eq!(start(&mut session, &getattr_call).sequence(), (0, 5));
    // The next slot has its own numbers.
    assert_eq!(start(&mut session, &getattr_call).sequence(), (1, 1));
}

#[test]
fn repeats_delayed_call_in_slot() {
    let mut session = client(ProtocolVersion::V4_1, 4);
    let seen = start(&mut session, &Operation::Getattr { file: &file() });
    answer(&mut session, &seen, &[OpResult::Failed(OpCode::Putfh, Status::DELAY)]);
    assert!(!session.has_event() && !session.wants_write());
    session.handle_timeout(session.next_timeout_ns().unwrap());
    let again = ReceivedCall::from_bytes(&send(&mut session));
    assert_ne!(again.xid, seen.xid);
    assert_eq!((again.sequence(), &again.ops()[1..]), ((0, 2), &seen.ops()[1..]));
    // If SEQUENCE itself defers it, it keeps its number.
    let bytes = reply(again.xid, &[OpResult::Failed(OpCode::Sequence, Status::DELAY)]);
    session.handle_input(3, &bytes).unwrap();
    session.handle_timeout(session.next_timeout_ns().unwrap());
    let again = ReceivedCall::from_bytes(&send(&mut session));
    assert_eq!(again.sequence(), (0, 2));
    // If the server did not cache a reply, a new call is made immediately.
    let uncached = OpResult::Failed(OpCode::Sequence, Status::RetryUncachedRep);
    session.handle_input(4, &reply(again.xid, &[uncached])).unwrap();
    let again = ReceivedCall::from_bytes(&send(&mut session));
    assert_eq!(again.sequence(), (0, 3));
    assert_eq!(session.counters().delays, 2);
}

#[test]
fn replays_calls_after_reconnect() {
    let mut session = client(ProtocolVersion::V4_1, 4);
    session.start(0, 1, &Operation::Remove { dir: &dir(), name: b"n" }).unwrap();
    let first = send(&mut session);
    session.reconnected(5);
    assert_eq!(send(&mut session), first, "exactly once, even calls that must not be repeated");
    let seen = ReceivedCall::from_bytes(&first);
    let removed = OpResult::Ok(OpOk::Remove { change: ChangeInfo::default() });
    answer(&mut session, &seen, &[PUTFH, removed]);
    assert_eq!(result(&mut session), Ok(Outcome::Done));
    let mut session = client(ProtocolVersion::V4_0, 4);
    start(&mut session, &Operation::Remove { dir: &dir(), name: b"n" });
    session.reconnected(5);
    assert_eq!(result(&mut session), Err(CallError::Lost));
}

#[test]
fn counts_abandoned_call_if_sent() {
    let mut session = client(ProtocolVersion::V4_1, 4);
    session.start(0, 1, &Operation::Getattr { file: &file() }).unwrap();
    assert!(session.abandon(1));
    let seen = start(&mut session, &Operation::Getattr { file: &file() });
    assert_eq!(seen.sequence(), (0, 1));
    assert!(session.abandon(1));
    assert_eq!(start(&mut session, &Operation::Getattr { file: &file() }).sequence(), (0, 2));
}

#[test]
fn uses_only_granted_slots() {
    let mut session = client(ProtocolVersion::V4_1, 2);
    assert_eq!((session.free_slots(), session.in_flight()), (2, 0));
    for slot in 0..2 {
        let seen = start(&mut session, &Operation::Getattr { file: &file() });
        assert_eq!(seen.sequence().0, slot);
        let Op::Sequence { highest_slot, .. } = seen.ops()[0] else { panic!("{seen:?}") };
        assert_eq!(highest_slot, 1);
    }
    let getattr = Operation::Getattr { file: &file() };
    assert_eq!(session.start(0, 1, &getattr), Err(StartError::Busy));
    assert_eq!(session.in_flight(), 2);
}

fn open(session: &mut Session) -> ReceivedCall {
    let access = OpenAccess::Read;
    start(session, &Operation::Open { dir: &dir(), name: b"n", access })
}

/// Owner and sequence number of an OPEN.
fn owner(seen: &ReceivedCall) -> (Vec<u8>, u32) {
    let Op::Open { owner, seqid, .. } = seen.ops()[1] else { panic!("{seen:?}") };
    assert_eq!(owner.client, ClientId(5));
    (owner.owner.to_vec(), seqid)
}

fn open_results(flags: u32, scratch: &mut Vec<u8>) -> [OpResult<'_>; 4] {
    let getfh = OpResult::Ok(OpOk::Getfh { file: handle(b"opened") });
    [PUTFH, opened(flags), getfh, getattr(scratch)]
}

fn object(session: &mut Session) -> File {
    let event = session.poll_event().expect("the call has ended");
    *event.file.unwrap_or_else(|| panic!("{:?}", event.result))
}

#[test]
fn confirms_first_open_of_owner() {
    let mut session = client(ProtocolVersion::V4_0, 4);
    let mut scratch = Vec::new();
    let seen = open(&mut session);
    let (first_owner, first_seqid) = owner(&seen);
    answer(&mut session, &seen, &open_results(open_result::CONFIRM, &mut scratch));
    assert!(!session.has_event());
    let confirm = ReceivedCall::from_bytes(&send(&mut session));
    assert_ne!(confirm.xid, seen.xid);
    let confirmation = Op::OpenConfirm { stateid: OPENED, seqid: first_seqid + 1 };
    let putfh = Op::Putfh { file: handle(b"opened") };
    assert_eq!(confirm.ops()[..2], [putfh, confirmation]);
    let stateid = Stateid { seqid: 2, ..OPENED };
    let [_, _, getfh, getattr] = open_results(0, &mut scratch);
    answer(
        &mut session,
        &confirm,
        &[PUTFH, OpResult::Ok(OpOk::OpenConfirm { stateid }), getfh, getattr],
    );
    let file = object(&mut session);
    assert_eq!((file.handle, file.stateid), (handle(b"opened"), stateid));

    // A second open has its own owner while the first is open.
    let second = open(&mut session);
    assert_ne!(owner(&second).0, first_owner);
    answer(&mut session, &second, &open_results(0, &mut scratch));
    assert_ne!(object(&mut session).owner, file.owner);
    // After the CLOSE the first owner is used again, and its numbers continue.
    let close = start(&mut session, &Operation::Close { file: &file });
    assert_eq!(close.ops()[1], Op::Close { seqid: first_seqid + 2, stateid });
    answer(&mut session, &close, &[PUTFH, OpResult::Ok(OpOk::Close { stateid })]);
    assert_eq!(result(&mut session), Ok(Outcome::Done));
    assert_eq!(owner(&open(&mut session)), (first_owner, first_seqid + 3));
}

#[test]
fn advances_owner_like_server() {
    let mut session = client(ProtocolVersion::V4_0, 4);
    let fail = |session: &mut Session, results: &[OpResult<'_>]| {
        let seen = open(session);
        answer(session, &seen, results);
        assert!(result(session).is_err());
        owner(&seen)
    };
    let failed = |status| [PUTFH, OpResult::Failed(OpCode::Open, status)];
    let first = fail(&mut session, &[OpResult::Failed(OpCode::Putfh, Status::Stale)]);
    let same = fail(&mut session, &failed(Status::BadSeqid));
    assert_eq!(same, first, "no OPEN was reached and no bad number counted");
    assert_eq!(fail(&mut session, &failed(Status::NoEnt)), first);
    assert_eq!(owner(&open(&mut session)), (first.0.clone(), first.1 + 1));
    // An owner with an unknown number is not used again.
    assert!(session.abandon(1));
    assert_ne!(owner(&open(&mut session)).0, first.0);
}

#[test]
fn advances_owner_after_delayed_open() {
    let mut session = client(ProtocolVersion::V4_0, 4);
    let seen = open(&mut session);
    answer(&mut session, &seen, &[PUTFH, OpResult::Failed(OpCode::Open, Status::Grace)]);
    session.handle_timeout(session.next_timeout_ns().unwrap());
    let again = ReceivedCall::from_bytes(&send(&mut session));
    assert_eq!(owner(&again), (owner(&seen).0, owner(&seen).1 + 1));
}

#[test]
fn puts_sequence_before_compounds() {
    let mut session = client(ProtocolVersion::V4_1, 4);
    session.start_ops(0, 1, &[Op::ReclaimComplete { one_fs: false }]).unwrap();
    let seen = ReceivedCall::from_bytes(&send(&mut session));
    assert_eq!(seen.codes(), [OpCode::Sequence, OpCode::ReclaimComplete]);
    answer(&mut session, &seen, &[OpResult::Ok(OpOk::ReclaimComplete)]);
    let event = session.poll_event().unwrap();
    assert_eq!((event.kind, event.result), (Kind::COMPOUND, Ok(Outcome::Raw)));
    assert_eq!(event.result_of(OpCode::ReclaimComplete), Ok(OpOk::ReclaimComplete));
    assert!(event.result_of(OpCode::Getfh).is_err());
    // Calls that create and destroy sessions are sent without other operations, and use no sequence
    // number.
    session.start_ops(0, 1, &[Op::DestroySession { session: SESSION }]).unwrap();
    let seen = ReceivedCall::from_bytes(&send(&mut session));
    assert_eq!(seen.codes(), [OpCode::DestroySession]);
    let failed = OpResult::Failed(OpCode::DestroySession, Status::BadSession);
    session.handle_input(2, &reply(seen.xid, &[failed])).unwrap();
    let Event { result, .. } = session.poll_event().unwrap();
    assert_eq!(result.unwrap_err().status(), Some(Status::BadSession));
    session.start_ops(0, 1, &[]).unwrap();
    assert_eq!(ReceivedCall::from_bytes(&send(&mut session)).sequence(), (0, 2));
}
