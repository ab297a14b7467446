//! Asynchronous copies in virtual time: reports that come early, late, twice, on another connection
//! or never.

use nfs_proto::client::{Copies, CopyBoard, CopyCounts};
use nfs_proto::limits::COPY_QUERY_NS;
use nfs_proto::nfs4::{CopiedData, OffloadResult};
use proptest::collection::vec;
use proptest::prelude::*;

use super::callbacks::callback;
use super::*;

const VERIFIER: Verifier = Verifier([3; 8]);

fn stateid(tag: u32) -> Stateid {
    let mut other = [9; 12];
    other[..4].copy_from_slice(&tag.to_be_bytes());
    Stateid { seqid: 1, other }
}

fn done(tag: u32) -> OffloadResult {
    let count = u64::from(tag) + 100;
    let committed = StableHow::FileSync;
    OffloadResult::Done(CopiedData { callback_id: None, count, committed, verifier: VERIFIER })
}

/// Frames a report of the server.
fn report(tag: u32, result: OffloadResult) -> Vec<u8> {
    let sequence = CallbackOp::Sequence {
        session: SESSION,
        sequence: 1,
        slot: 0,
        highest_slot: 0,
        cache_this: false,
        referring: List::default(),
    };
    let offload = CallbackOp::Offload { file: handle(b"file"), stateid: stateid(tag), result };
    let mut out = Vec::new();
    encode_callback(&mut Writer::new(&mut out), 2, 0, &[sequence, offload]);
    callback(7, nfs4::CALLBACK_PROGRAM, 1, &out)
}

/// Two connections of a client; the first one makes copies.
struct World {
    connections: [Session; 2],
    board: CopyBoard,
    copies: Copies,
    now_ns: u64,
}

impl World {
    fn new() -> Self {
        let connections = [(); 2].map(|()| client(ProtocolVersion::V4_2, 4));
        Self { connections, board: CopyBoard::default(), copies: Copies::default(), now_ns: 1 }
    }

    fn start_copy(&mut self, tag: u32) -> ReceivedCall {
        let file = file();
        let (from_offset, to_offset, len) = (0, 0, 1 << 20);
        let (from, to, synchronous) = (&file, &file, false);
        let copy = Operation::Copy { from, from_offset, to, to_offset, len, synchronous };
        self.connections[0].start(self.now_ns, tag, &copy).unwrap();
        let seen = ReceivedCall::from_bytes(&send(&mut self.connections[0]));
        assert!(matches!(seen.ops()[4], Op::Copy { synchronous: false, .. }), "{seen:?}");
        seen
    }

    fn answer_copy(&mut self, seen: &ReceivedCall, callback_id: Option<Stateid>) {
        let copied = OpResult::Ok(OpOk::Copy {
            callback_id,
            count: 0,
            committed: StableHow::Unstable,
            verifier: VERIFIER,
            consecutive: true,
            synchronous: callback_id.is_none(),
        });
        let results = [PUTFH, OpResult::Ok(OpOk::Savefh), PUTFH, copied];
        answer(&mut self.connections[0], seen, &results);
        let event = self.connections[0].poll_event().unwrap();
        if let Some(stateid) = self.copies.note_reply(&event, handle(b"file"))
            && let Some(early) = self.board.await_report(stateid, 0)
        {
            self.copies.end_reported(stateid, early);
        }
    }

    /// Delivers a report on a connection.
    fn deliver_report(&mut self, tag: u32, result: OffloadResult, connection: usize) {
        let session = &mut self.connections[connection];
        session.handle_input(self.now_ns, &report(tag, result)).unwrap();
        send(session);
        while let Some(report) = session.take_copy_report() {
            if self.board.post_report(report, self.now_ns).is_some() {
                let result = self.board.take_report(report.stateid).unwrap();
                self.copies.end_reported(report.stateid, result);
            }
        }
    }

    /// Queries the copy that is due, and answers with what the server knows.
    fn query(&mut self, complete: impl Fn(Stateid) -> Result<Option<Status>, Status>) {
        let Some((due, file)) = self.copies.due_query(self.now_ns) else { return };
        self.connections[0]
            .start_ops(self.now_ns, 99, &[Op::Putfh { file }, Op::OffloadStatus { stateid: due }])
            .unwrap();
        self.copies.note_query(due);
        let seen = ReceivedCall::from_bytes(&send(&mut self.connections[0]));
        let tag = u32::from_be_bytes(due.other[..4].try_into().unwrap());
        let answered = match complete(due) {
            Ok(complete) => {
                OpResult::Ok(OpOk::OffloadStatus { count: u64::from(tag) + 100, complete })
            }
            Err(status) => OpResult::Failed(OpCode::OffloadStatus, status),
        };
        let bytes = reply(seen.xid, &[sequence_ok(), PUTFH, answered]);
        self.connections[0].handle_input(self.now_ns, &bytes).unwrap();
        let event = self.connections[0].poll_event().unwrap();
        self.copies.note_status(&event);
    }

    fn end_found(&mut self) {
        while let Some(stateid) = self.copies.end_found(self.now_ns) {
            self.board.forget_copy(stateid);
        }
    }
}

/// What happens to the report of a copy.
#[derive(Debug, Clone, Copy)]
struct Fate {
    takes_ns: u64,
    is_lost: bool,
    /// Number of times it is delivered.
    times: usize,
    connection: usize,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = (0..4_u64, any::<bool>(), 1..3_usize, 0..2_usize).prop_map(
        |(takes, is_lost, times, connection)| {
            let takes_ns = takes * COPY_QUERY_NS * 3 / 4;
            Fate { takes_ns, is_lost, times, connection }
        },
    );
    vec(fate, 1..20)
}

proptest! {
    #[test]
    fn ends_every_copy_once(fates in fates()) {
        let mut world = World::new();
        let mut ends_ns = Vec::new();
        for (tag, fate) in (0_u32..).zip(&fates) {
            let seen = world.start_copy(tag);
            world.now_ns += 10;
            // Without any time of its own, the report overtakes the reply.
            if fate.takes_ns == 0 && !fate.is_lost {
                world.deliver_report(tag, done(tag), fate.connection);
            }
            ends_ns.push(world.now_ns + fate.takes_ns);
            world.answer_copy(&seen, Some(stateid(tag)));
        }
        let last_ns = ends_ns.iter().max().unwrap() + 4 * COPY_QUERY_NS;
        while world.now_ns < last_ns {
            world.now_ns += COPY_QUERY_NS / 100;
            for (tag, fate) in (0_u32..).zip(&fates) {
                let end_ns = ends_ns[tag as usize];
                let is_now = end_ns <= world.now_ns && end_ns + COPY_QUERY_NS / 100 > world.now_ns;
                for _ in 0..if is_now && !fate.is_lost { fate.times } else { 0 } {
                    world.deliver_report(tag, done(tag), fate.connection);
                }
            }
            world.end_found();
            let now_ns = world.now_ns;
            for _ in 0..fates.len() {
                world.query(|due| {
                    let tag = u32::from_be_bytes(due.other[..4].try_into().unwrap());
                    Ok((ends_ns[tag as usize] <= now_ns).then_some(Status::Ok))
                });
            }
        }
        prop_assert!(!world.copies.is_running());
        let counts = world.copies.counts();
        let lost = fates.iter().filter(|fate| fate.is_lost).count() as u64;
        prop_assert_eq!((counts.reported, counts.queried), (fates.len() as u64 - lost, lost));
        let mut seen = vec![0; fates.len()];
        while let Some(ended) = world.copies.pop_ended() {
            let event = ended.event();
            seen[event.tag as usize] += 1;
            let Ok(Outcome::Copied { count, verifier, .. }) = event.result else {
                panic!("{event:?}")
            };
            prop_assert_eq!((count, verifier), (u64::from(event.tag) + 100, VERIFIER));
            if !fates[event.tag as usize].is_lost {
                prop_assert!(event.done_ns <= ends_ns[event.tag as usize] + COPY_QUERY_NS / 50);
            }
        }
        prop_assert!(seen.iter().all(|times| *times == 1), "{:?}", seen);
    }
}

#[test]
fn reports_failed_and_unknown_copies() {
    let mut world = World::new();
    for tag in 0..4 {
        let seen = world.start_copy(tag);
        world.answer_copy(&seen, Some(stateid(tag)));
    }
    let seen = world.start_copy(4);
    world.answer_copy(&seen, None);
    world.deliver_report(0, OffloadResult::Failed(Status::NoSpc, 7), 1);
    world.now_ns += 2 * COPY_QUERY_NS;
    world.query(|_| Ok(Some(Status::Io)));
    world.query(|_| Err(Status::BadStateid));
    world.now_ns += 2 * COPY_QUERY_NS;
    world.end_found();
    assert_eq!(world.copies.lose_all(world.now_ns), 1);
    let mut failures = Vec::new();
    while let Some(ended) = world.copies.pop_ended() {
        failures.push(match ended.event().result {
            Err(CallError::Status(spoken)) => spoken.status,
            Err(CallError::Lost) => Status::Stale,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(failures, [Status::NoSpc, Status::Io, Status::BadStateid, Status::Stale]);
    let expected = CopyCounts { synchronous: 1, reported: 1, queried: 2, queries: 2 };
    assert_eq!(world.copies.counts(), expected);
}
