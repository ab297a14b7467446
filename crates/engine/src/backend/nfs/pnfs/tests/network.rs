//! A network in virtual time between our client and real servers.
//!
//! The client connects to sockets of the test. A [`Network`] takes whole messages from them and
//! decides when each arrives, whether it arrives twice, and when a connection breaks; what was on
//! its way is then lost, or reaches the server later, when the client has long repeated it. A
//! server executes a call at the instant of its arrival: the network waits for the reply, and only
//! this thread moves the clock. All choices come from one seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use nfs_client::proto::nfs4::{Call, Op, OpCode};
use nfs_client::proto::program::{self, OfferedPrograms};
use nfs_client::proto::record::{Inbox, append_fragmented};
use nfs_client::proto::server::decode_request;

/// A connection breaks after one in so many messages.
const BREAKS_ONE_IN: u64 = 60;
/// Maximum time of a message on its way, in nanoseconds.
const DELAY_NS_MAX: u64 = 3_000_000;
/// Maximum time for which a message of a broken connection is still on its way, in nanoseconds.
const LATE_NS_MAX: u64 = 300_000_000;
/// Time until the client looks at its timers if nothing is on its way, in nanoseconds.
const IDLE_NS: u64 = 20_000_000;
/// Time that a turn takes in which a message arrives, in nanoseconds.
const TURN_NS: u64 = 20_000;

/// A deterministic source of choices.
pub(super) struct Choices(u64);

impl Choices {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns true with a probability of one in `one_in`.
    pub(super) fn happens(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What the network does to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weather {
    /// Each arrives at once.
    Calm,
    /// Each takes its time, and some arrive twice.
    Slow,
    /// Connections break, too.
    Stormy,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NetworkCounts {
    pub(super) breaks: u64,
    pub(super) duplicates: u64,
    /// Calls that reached a server after their connection had broken.
    pub(super) late_calls: u64,
    /// Calls and replies that never arrived.
    pub(super) lost: u64,
    /// Calls from a server that reached the client.
    pub(super) callbacks: u64,
}

/// A server and the address at which the client reaches it; without a listener, it is dead.
struct Endpoint {
    listener: Option<TcpListener>,
    address: SocketAddr,
    server: SocketAddr,
}

/// A connection: both of its sockets, and the messages on their way with their arrival times.
struct Wire {
    end: usize,
    /// `None` once it is broken.
    client: Option<TcpStream>,
    server: TcpStream,
    from_client: Inbox,
    from_server: Inbox,
    calls: VecDeque<(u64, Vec<u8>)>,
    replies: VecDeque<(u64, Vec<u8>)>,
}

/// See the module.
pub(super) struct Network {
    choices: Choices,
    pub(super) weather: Weather,
    ends: Vec<Endpoint>,
    wires: Vec<Wire>,
    now_ns: u64,
    pub(super) counts: NetworkCounts,
    /// The calls of sessions at the first server, by operation: session, slot and sequence number.
    /// One that arrives twice is the same call.
    calls: BTreeMap<OpCode, BTreeSet<([u8; 16], u32, u32)>>,
}

impl Network {
    /// Opens an address for each server.
    pub(super) fn new(seed: u64, servers: impl Iterator<Item = SocketAddr>) -> Self {
        let open = |server| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            listener.set_nonblocking(true).unwrap();
            let address = listener.local_addr().unwrap();
            Endpoint { listener: Some(listener), address, server }
        };
        Self {
            choices: Choices::new(seed),
            weather: Weather::Calm,
            ends: servers.map(open).collect(),
            wires: Vec::new(),
            now_ns: 1,
            counts: NetworkCounts::default(),
            calls: BTreeMap::new(),
        }
    }

    /// The port of a server for the client.
    pub(super) fn port(&self, end: usize) -> u16 {
        self.ends[end].address.port()
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Number of different calls with this operation that reached the first server in a session.
    pub(super) fn calls_with(&self, code: OpCode) -> u64 {
        self.calls.get(&code).map_or(0, |calls| calls.len() as u64)
    }

    /// A server can't be reached any more.
    pub(super) fn kill(&mut self, end: usize) {
        self.ends[end].listener = None;
        self.wires.retain(|wire| wire.end != end);
    }

    /// Breaks the newest connection to a server.
    pub(super) fn break_newest(&mut self, end: usize) {
        let is_open = |wire: &Wire| wire.end == end && wire.client.is_some();
        let newest = self.wires.iter().rposition(is_open).expect("a connection");
        self.break_wire(newest);
    }

    /// Moves all messages that are due, and the clock.
    pub(super) fn turn(&mut self) {
        self.accept();
        let mut is_busy = false;
        for index in 0..self.wires.len() {
            is_busy |= self.take_from_client(index);
            is_busy |= self.deliver_calls(index);
            self.take_callbacks(index);
            is_busy |= self.deliver_replies(index);
        }
        self.wires.retain(|wire| wire.client.is_some() || !wire.calls.is_empty());
        let next_ns = self.wires.iter().filter_map(Wire::next_ns).min();
        let idle_ns = self.now_ns + if is_busy { TURN_NS } else { IDLE_NS };
        self.now_ns = next_ns.map_or(idle_ns, |next_ns| next_ns.clamp(self.now_ns, idle_ns));
    }

    fn accept(&mut self) {
        for (end, endpoint) in self.ends.iter().enumerate() {
            let Some(listener) = &endpoint.listener else { continue };
            while let Ok((client, _)) = listener.accept() {
                client.set_nonblocking(true).unwrap();
                client.set_nodelay(true).unwrap();
                let server = TcpStream::connect(endpoint.server).unwrap();
                server.set_nodelay(true).unwrap();
                server.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                self.wires.push(Wire {
                    end,
                    client: Some(client),
                    server,
                    from_client: Inbox::default(),
                    from_server: Inbox::default(),
                    calls: VecDeque::new(),
                    replies: VecDeque::new(),
                });
            }
        }
    }

    /// Returns the arrival time of a message sent now.
    fn arrival_ns(&mut self) -> u64 {
        match self.weather {
            Weather::Calm => self.now_ns,
            Weather::Slow | Weather::Stormy => self.now_ns + self.choices.below(DELAY_NS_MAX),
        }
    }

    /// Returns true if a connection breaks now.
    fn strikes(&mut self) -> bool {
        self.weather == Weather::Stormy && self.choices.happens(BREAKS_ONE_IN)
    }

    /// Takes the messages that the client has sent; returns true if there were some.
    fn take_from_client(&mut self, index: usize) -> bool {
        let wire = &mut self.wires[index];
        let Some(client) = &mut wire.client else { return false };
        let is_open = read_available(client, &mut wire.from_client);
        let messages = take_messages(&mut wire.from_client);
        for message in &messages {
            let arrival_ns = self.arrival_ns();
            push_behind(&mut self.wires[index].calls, arrival_ns, message.clone());
            if self.strikes() {
                self.break_wire(index);
            }
        }
        if !is_open && self.wires[index].client.is_some() {
            self.wires[index].client = None;
            self.wires[index].replies.clear();
        }
        !messages.is_empty()
    }

    /// Breaks a connection: some of the calls on their way still arrive, late, and no reply.
    fn break_wire(&mut self, index: usize) {
        let wire = &mut self.wires[index];
        wire.client = None;
        self.counts.breaks += 1;
        let arriving = self.choices.below(wire.calls.len() as u64 + 1) as usize;
        self.counts.lost += (wire.calls.len() - arriving + wire.replies.len()) as u64;
        wire.calls.truncate(arriving);
        wire.replies.clear();
        let late_ns = self.choices.below(LATE_NS_MAX);
        wire.calls.iter_mut().for_each(|(arrival_ns, _)| *arrival_ns += late_ns);
    }

    /// Passes messages that arrive now to the server, and waits for the reply to each call.
    fn deliver_calls(&mut self, index: usize) -> bool {
        let mut is_busy = false;
        while let Some(message) = take_due(&mut self.wires[index].calls, self.now_ns) {
            is_busy = true;
            if self.wires[index].end == 0 {
                self.note_call(&message);
            }
            let wire = &mut self.wires[index];
            self.counts.late_calls += u64::from(wire.client.is_none());
            let mut framed = Vec::new();
            append_fragmented(&mut framed, &message, usize::MAX);
            wire.server.write_all(&framed).unwrap();
            let mut is_answered = !is_call(&message);
            while !is_answered {
                let received = receive_message(&mut self.wires[index]);
                is_answered = !is_call(&received) && received[..4] == message[..4];
                self.send_back(index, &received);
            }
        }
        is_busy
    }

    /// Waits for a call of the first server, whose threads take their own time.
    pub(super) fn await_callback(&mut self) {
        let is_called = |wire: &Wire| wire.replies.iter().any(|(_, message)| is_call(message));
        for _ in 0..10_000_000 {
            (0..self.wires.len()).for_each(|index| self.take_callbacks(index));
            if self.wires.iter().any(is_called) {
                return;
            }
            thread::yield_now();
        }
        panic!("the server made no call");
    }

    /// Takes calls of the server, which come without any of the client's.
    fn take_callbacks(&mut self, index: usize) {
        let wire = &mut self.wires[index];
        if wire.end == 0 {
            wire.server.set_nonblocking(true).unwrap();
            read_available(&mut wire.server, &mut wire.from_server);
            wire.server.set_nonblocking(false).unwrap();
            for message in take_messages(&mut wire.from_server) {
                self.send_back(index, &message);
            }
        }
    }

    /// Sends a message of the server on its way to the client.
    fn send_back(&mut self, index: usize, message: &[u8]) {
        let is_repeated =
            self.weather > Weather::Calm && !is_call(message) && self.choices.happens(10);
        self.counts.duplicates += u64::from(is_repeated);
        let copies = if is_repeated { 2 } else { 1 };
        for _ in 0..copies {
            let arrival_ns = self.arrival_ns();
            push_behind(&mut self.wires[index].replies, arrival_ns, message.to_vec());
        }
        if self.wires[index].client.is_none() {
            self.wires[index].replies.clear();
            self.counts.lost += 1;
        } else if self.strikes() {
            self.break_wire(index);
        }
    }

    /// Passes messages that arrive now to the client.
    fn deliver_replies(&mut self, index: usize) -> bool {
        let mut is_busy = false;
        while let Some(message) = take_due(&mut self.wires[index].replies, self.now_ns) {
            is_busy = true;
            self.counts.callbacks += u64::from(is_call(&message));
            let mut framed = Vec::new();
            append_fragmented(&mut framed, &message, usize::MAX);
            let wire = &mut self.wires[index];
            // The client may have given up the connection meanwhile.
            if wire.client.as_mut().is_none_or(|client| client.write_all(&framed).is_err()) {
                wire.client = None;
                wire.replies.clear();
            }
        }
        is_busy
    }

    /// Records a call of a session.
    fn note_call(&mut self, message: &[u8]) {
        let Ok(request) = decode_request(message, OfferedPrograms::ALL) else { return };
        let Ok(program::Call::Nfs4(Call::Compound(compound))) = request.body else { return };
        let ops: Vec<Op<'_>> = compound.ops().map_while(Result::ok).collect();
        let Some(Op::Sequence { session, sequence, slot, .. }) = ops.first() else { return };
        for op in &ops {
            self.calls.entry(op.code()).or_default().insert((session.0, *slot, *sequence));
        }
    }
}

impl Wire {
    /// Returns when the next message arrives.
    fn next_ns(&self) -> Option<u64> {
        let first = |queue: &VecDeque<(u64, Vec<u8>)>| queue.front().map(|(at_ns, _)| *at_ns);
        first(&self.calls).into_iter().chain(first(&self.replies)).min()
    }
}

/// Adds a message that arrives behind all others of its direction.
fn push_behind(queue: &mut VecDeque<(u64, Vec<u8>)>, arrival_ns: u64, message: Vec<u8>) {
    let last_ns = queue.back().map_or(0, |(at_ns, _)| *at_ns);
    queue.push_back((arrival_ns.max(last_ns), message));
}

fn take_due(queue: &mut VecDeque<(u64, Vec<u8>)>, now_ns: u64) -> Option<Vec<u8>> {
    let (at_ns, _) = queue.front()?;
    if *at_ns > now_ns { None } else { queue.pop_front().map(|(_, message)| message) }
}

/// Returns true for a call, false for a reply. **Source:** RFC 5531 section 9.
fn is_call(message: &[u8]) -> bool {
    message[4..8] == [0; 4]
}

fn take_messages(inbox: &mut Inbox) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some(record) = inbox.next_record().unwrap() {
        messages.push(record.to_vec());
    }
    messages
}

/// Waits for the next message of a server.
fn receive_message(wire: &mut Wire) -> Vec<u8> {
    loop {
        if let Some(record) = wire.from_server.next_record().unwrap() {
            return record.to_vec();
        }
        let space = wire.from_server.free_space(1);
        let len = wire.server.read(space).unwrap();
        assert!(len > 0, "a server closed its connection");
        wire.from_server.mark_filled(len);
    }
}

/// Reads what has arrived at a socket; returns false once it is closed.
fn read_available(socket: &mut TcpStream, inbox: &mut Inbox) -> bool {
    loop {
        match socket.read(inbox.free_space(1)) {
            Ok(0) => return false,
            Ok(len) => inbox.mark_filled(len),
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
