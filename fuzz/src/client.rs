//! The client's state machine under a list of steps: calls, answers of all kinds, time, losses.
//!
//! The fuzzer generates a [`Run`]. The ledger only records which calls have started and not yet
//! ended. Whatever a peer sends, each call ends exactly once, by an event or by cancellation; no
//! payload is longer than requested; and the session's counters agree with the data sent and
//! received.

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use nfs_proto::client::{
    Chunk, Config, Cursor, Data, File, Framing, OpenAccess, Operation, PayloadMode, PayloadRange,
    ProtocolVersion, Retry, SeekWhat, Session,
};
use nfs_proto::nfs3::{CreateHow, FileHandle, MknodWhat, Sattr, StableHow};
use nfs_proto::nfs4::{
    Bitmap, DeviceId, LayoutIoMode, LayoutReturn, LayoutUpdate, Op, OpCode, OpOk, Stateid,
    XattrOption, layout_type,
};
use nfs_proto::record::{Mark, append_fragmented};
use nfs_proto::rpc::ReplyHeader;
use nfs_proto::wire::Wire;
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{CallError, nfs2, server};

use crate::memory::allocated_by;

/// Size of each slot's buffer, in bytes.
const PAYLOAD_BYTES_MAX: u32 = 4096;
const STEPS_MAX: usize = 400;

/// A session and its steps.
#[derive(Arbitrary, Clone, Debug)]
pub struct Run<'a> {
    /// One of [`ProtocolVersion::ALL`].
    pub version: u8,
    /// Whether it uses datagrams.
    pub datagrams: bool,
    /// Whether payloads are kept.
    pub keeps: bool,
    /// Maximum number of calls in flight: 1 to 16.
    pub slots: u8,
    /// Steps of the session.
    pub steps: Vec<Step<'a>>,
}

/// One step of a session.
#[derive(Arbitrary, Clone, Debug)]
pub enum Step<'a> {
    /// Starts a call.
    Start {
        /// Selects the kind of call.
        kind: u8,
        /// Offset in the file.
        offset: u64,
        /// Length, from 0 to twice the size of a slot's buffer.
        count: u16,
    },
    /// The socket accepts some bytes.
    Send {
        /// Maximum number of bytes.
        bytes: u16,
    },
    /// The server answers one of the sent calls, the latest first.
    Answer {
        /// Selects the call.
        call: u8,
        /// Results in the reply.
        results: &'a [u8],
        /// Size of the reply's fragments; 0 for a single one.
        fragment_bytes: u8,
    },
    /// The server answers a READ of v2 or v3 correctly, or with another length.
    AnswerRead {
        /// Selects the call.
        call: u8,
        /// Length of the payload in bytes.
        len: u16,
        /// Number of payload bytes that arrive.
        arrive: u16,
        /// Whether the payload is received directly, bypassing the session.
        past: bool,
    },
    /// Bytes that arrive.
    Bytes(&'a [u8]),
    /// Cancels a call.
    Abandon {
        /// Selects one of the open calls.
        call: u8,
    },
    Reconnect,
    /// Time passes, in units of 10 ms.
    Wait {
        ticks: u16,
    },
}

/// Kinds of operations from here on are compounds of pNFS, if the version has them.
const LAYOUT_KINDS: u8 = 240;

/// A call that has not ended.
#[derive(Debug)]
struct Open {
    /// Maximum payload of the reply, in bytes.
    requested: u32,
    /// Whether it is a READ, whose payload is received separately.
    is_read: bool,
    started_ns: u64,
}

/// How the payload of a READ is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PayloadWay {
    ThroughSession,
    PastSession,
}

struct Rig {
    session: Session,
    framing: Framing,
    slots: usize,
    keeps: bool,
    now_ns: u64,
    next_tag: u32,
    open: BTreeMap<u32, Open>,
    /// Transaction ids in sending order.
    sent: Vec<u32>,
    /// Bytes of an incomplete record that were already sent.
    partial: Vec<u8>,
    broken: bool,
    bytes_in: u64,
    bytes_out: u64,
    ended: u64,
    lost: u64,
}

/// Executes all steps and checks the session after each.
pub fn check_session(run: &Run<'_>) {
    let mut rig = Rig::new(run);
    for step in run.steps.iter().take(STEPS_MAX) {
        rig.make_step(step);
        rig.check_counters();
    }
}

impl Rig {
    fn new(run: &Run<'_>) -> Self {
        let framing = if run.datagrams { Framing::Datagram } else { Framing::Record };
        let slots = 1 + usize::from(run.slots % 16);
        let keep = PayloadMode::Keep { bytes_max: PAYLOAD_BYTES_MAX };
        let config = Config {
            version: ProtocolVersion::ALL[usize::from(run.version) % ProtocolVersion::ALL.len()],
            framing,
            retry: Retry { retrans: 2, ..Retry::default() },
            slots,
            payload: if run.keeps { keep } else { PayloadMode::Discard },
            xid_seed: 7,
            ..Config::default()
        };
        let mut session = Session::new(&config);
        session.hold_layouts();
        Self {
            session,
            framing,
            slots,
            keeps: run.keeps,
            now_ns: 0,
            next_tag: 0,
            open: BTreeMap::new(),
            sent: Vec::new(),
            partial: Vec::new(),
            broken: false,
            bytes_in: 0,
            bytes_out: 0,
            ended: 0,
            lost: 0,
        }
    }

    fn make_step(&mut self, step: &Step<'_>) {
        match *step {
            Step::Start { kind, offset, count } => {
                self.start_operation(kind, offset, u32::from(count));
            }
            Step::Send { bytes } => self.send_some(usize::from(bytes)),
            Step::Answer { call, results, fragment_bytes } => {
                if let Some(xid) = self.sent_xid(call) {
                    let mut reply = Vec::new();
                    let accepted = ReplyHeader { xid, result: Ok(()) };
                    accepted.encode(&mut Writer::new(&mut reply));
                    reply.extend_from_slice(results);
                    self.deliver_message(&reply, usize::from(fragment_bytes));
                }
            }
            Step::AnswerRead { call, len, arrive, past } => {
                let way = if past { PayloadWay::PastSession } else { PayloadWay::ThroughSession };
                if let Some(xid) = self.sent_xid(call) {
                    let reply = self.read_reply(xid, len);
                    let arrive = usize::from(arrive).min(reply.len());
                    match self.framing {
                        Framing::Record => self.receive_stream(&reply[..arrive], way),
                        Framing::Datagram => self.deliver_message(&reply[4..], 0),
                    }
                }
            }
            Step::Bytes(bytes) => match self.framing {
                Framing::Record => self.receive_stream(bytes, PayloadWay::ThroughSession),
                Framing::Datagram => self.deliver_message(bytes, 0),
            },
            Step::Abandon { call } => {
                let tag = self.open.keys().nth(usize::from(call)).copied();
                if tag.is_some_and(|tag| self.session.abandon(tag)) {
                    self.open.remove(&tag.expect("it was given up"));
                }
            }
            Step::Reconnect => self.make_new_connection(),
            Step::Wait { ticks } => {
                self.now_ns += u64::from(ticks) * 10_000_000;
                self.session.handle_timeout(self.now_ns);
                let next = self.session.next_timeout_ns();
                assert!(
                    next.is_none_or(|next| next > self.now_ns),
                    "a timeout that has passed is handled"
                );
            }
        }
    }

    /// Starts a compound of pNFS, as a client with layouts does.
    fn start_layout_call(&mut self, kind: u8, offset: u64, count: u32) {
        let device = DeviceId([kind; 16]);
        let layout_type = layout_type::FLEX_FILES;
        let stateid = Stateid { seqid: count, other: [kind; 12] };
        let op = match kind % 4 {
            0 => Op::Layoutget {
                signal_available: false,
                layout_type,
                iomode: LayoutIoMode::ReadWrite,
                offset,
                length: u64::MAX,
                min_length: u64::from(count),
                stateid,
                maxcount: count,
            },
            1 => Op::Getdeviceinfo { device, layout_type, maxcount: count, notify: Bitmap::EMPTY },
            2 => Op::Layoutcommit {
                offset,
                length: u64::MAX,
                reclaim: false,
                stateid,
                last_write_offset: Some(offset),
                modified: None,
                update: LayoutUpdate { layout_type, body: b"" },
            },
            _ => Op::Layoutreturn {
                reclaim: false,
                layout_type,
                iomode: LayoutIoMode::Any,
                layouts: LayoutReturn::File { offset, length: u64::MAX, stateid, body: b"" },
            },
        };
        let file = FileHandle::from_slice(&[7; 32]).expect("32 bytes fit");
        let tag = self.next_tag;
        if self.session.start_ops(self.now_ns, tag, &[Op::Putfh { file }, op]).is_ok() {
            let started_ns = self.now_ns;
            self.open.insert(tag, Open { requested: 0, is_read: false, started_ns });
            self.next_tag += 1;
        }
    }

    fn start_operation(&mut self, kind: u8, offset: u64, count: u32) {
        if kind >= LAYOUT_KINDS && self.session.version().has_sessions() {
            return self.start_layout_call(kind, offset, count);
        }
        let file = File::from(FileHandle::from_slice(&[7; 32]).expect("32 bytes fit"));
        let count = count % (2 * PAYLOAD_BYTES_MAX);
        let subject = Subject { on: &file, to: &file, name: b"name", offset, count };
        let operation = make_operation(kind, &subject);
        let tag = self.next_tag;
        let before = self.session.in_flight();
        if self.session.start(self.now_ns, tag, &operation).is_err() {
            return assert_eq!(self.session.in_flight(), before, "a refusal takes no slot");
        }
        let requested = match operation {
            Operation::Read { count, .. } | Operation::ReadPlus { count, .. } => count,
            _ => 0,
        };
        let is_read = matches!(operation, Operation::Read { .. });
        self.open.insert(tag, Open { requested, is_read, started_ns: self.now_ns });
        self.next_tag += 1;
    }

    /// Sends at most this many bytes of a stream, or one datagram.
    fn send_some(&mut self, max: usize) {
        if self.broken {
            return;
        }
        let mut bytes = Vec::new();
        match self.framing {
            Framing::Record => {
                self.session.outgoing().for_each(|chunk| append_chunk(&mut bytes, chunk));
                bytes.truncate(max);
                self.partial.extend_from_slice(&bytes);
                self.note_records();
            }
            Framing::Datagram => {
                self.session.outgoing_datagram().for_each(|chunk| append_chunk(&mut bytes, chunk));
                self.sent.extend(bytes.first_chunk().map(|xid| u32::from_be_bytes(*xid)));
            }
        }
        self.session.sent(self.now_ns, bytes.len());
        self.bytes_out += bytes.len() as u64;
    }

    fn note_records(&mut self) {
        while let Some(mark) = self.partial.first_chunk() {
            let mark = Mark::from_bytes(*mark);
            assert!(mark.last, "a call is one fragment");
            if self.partial.len() < 4 + mark.len {
                return;
            }
            let record: Vec<u8> = self.partial.drain(..4 + mark.len).collect();
            let xid = record[4..].first_chunk().expect("a call has a transaction id");
            self.sent.push(u32::from_be_bytes(*xid));
        }
    }

    fn sent_xid(&self, number: u8) -> Option<u32> {
        self.sent.iter().rev().nth(usize::from(number)).copied()
    }

    fn read_reply(&self, xid: u32, len: u16) -> Vec<u8> {
        let mut reply = Vec::new();
        let len_u32 = u32::from(len);
        let pad = match self.session.version() {
            ProtocolVersion::V2 => {
                let zeros = [0; nfs2::Fattr::WIRE_BYTES];
                let attributes = nfs2::Fattr::decode(&mut Reader::new(&zeros)).expect("all zero");
                server::encode_nfs2_read_reply_header(&mut reply, xid, &attributes, len_u32)
            }
            _ => server::encode_read_reply_header(&mut reply, xid, None, true, len_u32),
        };
        reply.resize(reply.len() + usize::from(len) + pad, 0);
        reply
    }

    /// Delivers a whole message.
    fn deliver_message(&mut self, message: &[u8], fragment_bytes: usize) {
        match self.framing {
            Framing::Record => {
                let mut stream = Vec::new();
                let size = if fragment_bytes == 0 { usize::MAX } else { fragment_bytes };
                append_fragmented(&mut stream, message, size);
                self.receive_stream(&stream, PayloadWay::ThroughSession);
            }
            Framing::Datagram => {
                self.bytes_in += message.len() as u64;
                self.session.handle_datagram(self.now_ns, message);
                self.take_events();
            }
        }
    }

    /// Delivers bytes of the stream, and payload directly if requested.
    fn receive_stream(&mut self, mut bytes: &[u8], way: PayloadWay) {
        while !bytes.is_empty() && !self.broken {
            let taken = match self.session.payload_wanted() {
                Some(want) if way == PayloadWay::PastSession => {
                    let len = want.len.min(bytes.len());
                    let space = self.session.payload_space();
                    assert!(space.is_empty() || space.len() >= want.len, "room for what is wanted");
                    if let Some(space) = space.get_mut(..len) {
                        space.copy_from_slice(&bytes[..len]);
                    }
                    self.session.payload_received(self.now_ns, len);
                    len
                }
                _ => {
                    let session = &mut self.session;
                    let (taken, allocated) =
                        allocated_by(|| session.handle_input(self.now_ns, bytes));
                    let allowed = 16 * bytes.len() as u64 + (256 << 10);
                    assert!(allocated <= allowed, "{allocated} bytes for {}", bytes.len());
                    let Ok(taken) = taken else {
                        self.broken = true;
                        return;
                    };
                    taken
                }
            };
            self.bytes_in += taken as u64;
            bytes = &bytes[taken..];
            let ended = self.take_events();
            assert!(taken > 0 || ended, "the session takes no input and has no event");
        }
    }

    fn make_new_connection(&mut self) {
        self.take_events();
        self.session.reconnected(self.now_ns);
        self.partial.clear();
        self.broken = false;
        self.take_events();
    }

    /// Handles all pending events; returns true if there was one.
    fn take_events(&mut self) -> bool {
        let before = self.ended;
        while let Some(event) = self.session.poll_event() {
            let open = self.open.remove(&event.tag).expect("the call is open and ends once");
            assert_eq!(event.started_ns, open.started_ns);
            assert!(event.started_ns <= event.sent_ns && event.sent_ns <= event.done_ns);
            assert!(event.payload.len() <= open.requested as usize, "more than was requested");
            assert!(self.keeps || event.payload.is_empty(), "kept though it is to be dropped");
            self.lost += u64::from(event.result == Err(CallError::Lost));
            self.ended += 1;
            if let Ok(page) = event.listing() {
                assert!(page.iter().count() <= event.body.len() / 16);
            }
            let _ = event.target();
            if let Ok(OpOk::Layoutget { layouts, .. }) = event.result_of(OpCode::Layoutget) {
                assert!(layouts.iter().count() <= event.body.len() / 32);
            }
            let _ = event.result_of(OpCode::Getdeviceinfo);
        }
        while self.session.take_layout_recall().is_some() {}
        self.ended > before
    }

    fn check_counters(&self) {
        let session = &self.session;
        let counters = self.session.counters();
        assert_eq!(session.in_flight(), self.open.len());
        assert_eq!(session.free_slots() + session.in_flight(), self.slots);
        let reads = self.open.values().filter(|open| open.is_read);
        let requested: u64 = reads.map(|open| u64::from(open.requested)).sum();
        assert_eq!(session.expected_payload_bytes(), requested);
        self.check_oldest();
        assert_eq!(session.pending().count(), self.open.len());
        assert_eq!(counters.wire_bytes_out, self.bytes_out);
        assert!(self.broken || counters.wire_bytes_in == self.bytes_in);
        assert!(counters.calls_sent <= u64::from(self.next_tag), "each call is counted once");
        assert!(counters.lost_calls >= self.lost);
        assert!(counters.replies >= self.ended - self.lost);
        assert!(counters.malformed_replies <= counters.replies);
    }

    /// Waits for the oldest call, unless the server has deferred one or refused its session.
    fn check_oldest(&self) {
        let awaited = self.session.oldest_pending_ns();
        let started = || self.open.values().map(|open| open.started_ns);
        assert!(awaited.is_none_or(|awaited| started().any(|started| started == awaited)));
        let all_awaited = self.session.counters().delays == 0 && !self.session.is_unbound();
        assert!(!all_awaited || awaited == started().min(), "an open call is not awaited");
    }
}

fn append_chunk(bytes: &mut Vec<u8>, chunk: Chunk<'_>) {
    match chunk {
        Chunk::Bytes(chunk) => bytes.extend_from_slice(chunk),
        Chunk::Pool(range) => bytes.resize(bytes.len() + range.len as usize, 0),
    }
}

/// Parameters of an operation, in addition to its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The file, or the directory.
    pub(crate) on: &'a File,
    /// The second file of operations that have two.
    pub(crate) to: &'a File,
    pub(crate) name: &'a [u8],
    /// Offset in bytes.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) count: u32,
}

/// Creates one of all operations; each number selects one.
pub(crate) fn make_operation<'a>(kind: u8, subject: &Subject<'a>) -> Operation<'a> {
    let Subject { on: file, to: other, name, offset, count } = *subject;
    let dir = file;
    let attributes = Sattr::with_mode(0o644);
    let len = u64::from(count);
    let cursor = Cursor::default();
    let stable = StableHow::Unstable;
    match kind % 32 {
        0 => Operation::Null,
        1 => Operation::Getattr { file },
        2 => {
            let attributes = Sattr { size: Some(offset), ..attributes };
            Operation::Setattr { file, attributes }
        }
        3 => Operation::Lookup { dir, name },
        4 => Operation::Access { file, access: count },
        5 => Operation::Readlink { file },
        6 => {
            let data = Data::Pool(PayloadRange { start: 0, len: count });
            Operation::Write { file, offset, stable, data }
        }
        7 => Operation::Write { file, offset, stable, data: Data::Bytes(b"payload") },
        8 => Operation::Create { dir, name, how: CreateHow::Guarded(attributes) },
        9 => Operation::Mkdir { dir, name, attributes },
        10 => Operation::Symlink { dir, name, attributes, target: b"target" },
        11 => Operation::Mknod { dir, name, what: MknodWhat::Fifo(attributes) },
        12 => Operation::Remove { dir, name },
        13 => Operation::Rmdir { dir, name },
        14 => Operation::Rename { from_dir: dir, from: name, to_dir: other, to: b"c" },
        15 => Operation::Link { file, dir: other, name },
        16 => Operation::Readdir { dir, cursor, bytes: count },
        17 => Operation::ReaddirPlus { dir, cursor, bytes: count },
        18 => Operation::Fsstat { root: file },
        19 => Operation::Fsinfo { root: file },
        20 => Operation::Pathconf { file },
        21 => Operation::Commit { file, offset, count },
        22 => Operation::Open { dir, name, access: OpenAccess::Both },
        23 => Operation::Close { file },
        24 => Operation::Allocate { file, offset, len },
        25 => Operation::Deallocate { file, offset, len },
        26 => Operation::Seek { file, offset, what: SeekWhat::Hole },
        27 => Operation::ReadPlus { file, offset, count },
        28 if count % 2 == 1 => {
            Operation::Clone { from: file, from_offset: offset, to: other, to_offset: 0, len }
        }
        28 => Operation::Copy {
            from: file,
            from_offset: offset,
            to: other,
            to_offset: 0,
            len,
            synchronous: offset % 2 == 0,
        },
        29 => Operation::Create { dir, name, how: CreateHow::Unchecked(attributes) },
        30 => match count % 4 {
            0 => Operation::Getxattr { file, name },
            1 => Operation::Setxattr { file, option: XattrOption::Either, name, value: b"value" },
            2 => Operation::Listxattrs { file, cookie: offset, bytes: count },
            _ => Operation::Removexattr { file, name },
        },
        _ => Operation::Read { file, offset, count },
    }
}
