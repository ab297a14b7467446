//! A session whose connections fail again and again, in virtual time: its calls move to the other
//! address and are executed exactly once, although calls and replies are lost, arrive twice, or
//! reach the server after the call was repeated elsewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

const CALLS: u32 = 60;

/// A deterministic source of choices.
struct Choices(u64);

impl Choices {
    /// Returns true with a probability of one in `one_in`.
    fn happens(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The slots of a session on the server, and what was executed.
#[derive(Default)]
struct ReplyCache {
    /// The last sequence number of each slot, with its reply except for the xid; `None` if it was
    /// not cached.
    slots: BTreeMap<u32, (u32, Option<String>)>,
    executed: BTreeMap<String, u32>,
    replayed: u32,
    misordered: u32,
}

impl ReplyCache {
    /// Executes a call, or answers it again. The name of the object is what was executed.
    fn execute(&mut self, message: &[u8]) -> Vec<u8> {
        let seen =
            ReceivedCall { xid: Reader::new(message).u32().unwrap(), message: message.into() };
        let ops = seen.ops();
        let Op::Sequence { sequence, slot, cache_this, .. } = ops[0] else { panic!("{ops:?}") };
        let (last, cached) = self.slots.get(&slot).cloned().unwrap_or_default();
        if sequence == last {
            self.replayed += 1;
            let uncached = OpResult::Failed(OpCode::Putfh, Status::RetryUncachedRep);
            return match cached {
                Some(_) => reply(seen.xid, &[sequence_ok(), PUTFH, removed()]),
                None => reply(seen.xid, &[sequence_ok(), uncached]),
            };
        }
        if sequence != last + 1 {
            self.misordered += 1;
            return reply(seen.xid, &[OpResult::Failed(OpCode::Sequence, Status::SeqMisordered)]);
        }
        let mut scratch = Vec::new();
        let (name, result) = match ops[2] {
            Op::Remove { name } => (String::from_utf8_lossy(name).into_owned(), removed()),
            _ => ("attributes".to_owned(), getattr(&mut scratch)),
        };
        let cached = cache_this.then(|| name.clone());
        self.slots.insert(slot, (sequence, cached));
        *self.executed.entry(name).or_default() += 1;
        reply(seen.xid, &[sequence_ok(), PUTFH, result])
    }
}

fn removed() -> OpResult<'static> {
    OpResult::Ok(OpOk::Remove { change: ChangeInfo::default() })
}

/// One connection: bytes on their way to the server, and replies on their way back.
#[derive(Default)]
struct Wire {
    calls: VecDeque<u8>,
    replies: VecDeque<Vec<u8>>,
}

impl Wire {
    /// Returns the next call that has completely arrived.
    fn take_call(&mut self) -> Option<Vec<u8>> {
        let mark: Vec<u8> = self.calls.iter().take(4).copied().collect();
        let len = u32::from_be_bytes(mark.try_into().ok()?) & 0x7fff_ffff;
        let end = 4 + len as usize;
        (self.calls.len() >= end).then(|| self.calls.drain(..end).skip(4).collect())
    }

    fn answer_next(&mut self, server: &mut ReplyCache, choices: &mut Choices) {
        if let Some(message) = self.take_call() {
            let reply = server.execute(&message);
            if choices.happens(8) {
                self.replies.push_back(reply.clone());
            }
            self.replies.push_back(reply);
        }
    }
}

/// Takes some of the bytes to be sent.
fn send_some(session: &mut Session, wire: &mut Wire, choices: &mut Choices) {
    let bytes: Vec<u8> = session
        .outgoing()
        .flat_map(|chunk| match chunk {
            Chunk::Bytes(chunk) => chunk.to_vec(),
            Chunk::Pool(range) => vec![7; range.len as usize],
        })
        .collect();
    let len =
        if choices.happens(3) { choices.below(bytes.len() as u64 + 1) } else { bytes.len() as u64 };
    wire.calls.extend(&bytes[..len as usize]);
    session.sent(1, len as usize);
}

/// Makes all calls while connections fail, and returns the server and how often one failed.
fn make_calls(seed: u64) -> (ReplyCache, u64) {
    let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut session = client(ProtocolVersion::V4_1, 4);
    let mut server = ReplyCache::default();
    let mut wire = Wire::default();
    // Connections that the client has given up, whose calls may still arrive.
    let mut old_wires: Vec<Wire> = Vec::new();
    let mut started = 0;
    let mut ended = BTreeSet::new();
    for step in 0..100_000_u64 {
        match choices.below(6) {
            0 if started < CALLS && session.free_slots() > 0 => {
                let name = format!("name-{started}");
                let operation = match started % 3 {
                    0 => Operation::Getattr { file: &file() },
                    _ => Operation::Remove { dir: &dir(), name: name.as_bytes() },
                };
                session.start(step, started, &operation).unwrap();
                started += 1;
            }
            1 => send_some(&mut session, &mut wire, &mut choices),
            2 => wire.answer_next(&mut server, &mut choices),
            3 => {
                if let Some(reply) = wire.replies.pop_front() {
                    let mut rest = &reply[..];
                    while !rest.is_empty() {
                        let taken = session.handle_input(step, rest).unwrap();
                        rest = &rest[taken..];
                        while let Some(event) = session.poll_event() {
                            assert!(event.result.is_ok(), "seed {seed}: {event:?}");
                            assert!(ended.insert(event.tag), "seed {seed}");
                        }
                    }
                }
            }
            4 if choices.happens(6) => {
                // Late: part of what was sent still arrives, after the calls were repeated.
                old_wires.push(std::mem::take(&mut wire));
                session.reconnected(step);
            }
            _ => {
                for old in &mut old_wires {
                    old.answer_next(&mut server, &mut choices);
                }
            }
        }
        if ended.len() == CALLS as usize {
            return (server, session.counters().reconnects);
        }
    }
    panic!("seed {seed}: only {} of {CALLS} calls ended", ended.len());
}

#[test]
fn moved_calls_are_executed_once() {
    let (mut failures, mut replayed, mut misordered) = (0, 0, 0);
    for seed in 1..300 {
        let (server, reconnects) = make_calls(seed);
        for number in (0..CALLS).filter(|number| number % 3 != 0) {
            let count = server.executed.get(&format!("name-{number}"));
            assert_eq!(count, Some(&1), "seed {seed}: name-{number}");
        }
        // A call whose reply is not cached may be executed again.
        assert!(server.executed["attributes"] >= CALLS / 3, "seed {seed}");
        failures += reconnects;
        replayed += server.replayed;
        misordered += server.misordered;
    }
    // All of this really happened.
    let counts = (failures, replayed, misordered);
    assert!(failures > 1_000 && replayed > 1_000 && misordered > 0, "{counts:?}");
}
