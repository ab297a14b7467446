//! Matches RPC replies with calls by xid and connection.
//!
//! [`Matcher::message`] takes complete messages in the order in which they were captured. Calls
//! wait in a table of limited size; those that get no reply are written without one. A
//! retransmitted call is counted but doesn't become a second call, even if its reply had already
//! been sent (UDP).
//! **Source:** RFC 5531 sections 8 and 9, RFC 2203 section 5.3.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;

use nfs_proto::DecodeError;

use crate::assembly::Message;
use crate::connections::Transport;
use crate::counters::Counters;
use crate::decode::{Context, Decoded, mount, v2, v3, v4};
use crate::files::{PassThrough, ServerPlace};
use crate::record::{Call, Op, Version, call_flag};
use crate::sparse::Cursor;

/// Maximum number of calls waiting for a reply.
const PENDING_MAX: usize = 128 << 10;
/// How long a call waits, in nanoseconds. Clients retransmit after a minute.
const PENDING_NS_MAX: u64 = 300_000_000_000;
/// Maximum number of answered UDP calls to remember, in each of two generations.
const ANSWERED_MAX: usize = 64 << 10;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
/// The only procedure of v4 besides NULL. **Source:** RFC 7530 section 16.2.
const COMPOUND: u32 = 1;

// Message types. **Source:** RFC 5531 section 9.
const CALL: u32 = 0;
const REPLY: u32 = 1;
const ACCEPTED: u32 = 0;
const SUCCESS: u32 = 0;
/// The flavor of RPCSEC_GSS, and its service that leaves arguments readable.
/// **Source:** RFC 2203 section 5.
const FLAVOR_GSS: u32 = 6;
const SERVICE_NONE: u32 = 1;

/// Where a message was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageOrigin {
    /// Number of the connection in the trace.
    pub connection: u32,
    /// The server of the connection.
    pub server: ServerPlace,
    /// The message comes from the end that sends calls.
    pub is_from_client: bool,
    /// Transport of the message.
    pub transport: Transport,
}

/// A call waiting for its reply.
#[derive(Debug)]
struct Pending {
    call: Call,
    program: u32,
    procedure: u32,
    is_readable: bool,
}

/// A call in the order of arrival.
#[derive(Debug)]
struct Arrival {
    key: u64,
    number: u64,
    time_ns: u64,
}

type Table = HashMap<u64, Pending, BuildHasherDefault<PassThrough>>;

/// Maximum number of connections whose minor version is kept.
const MINOR_VERSIONS_MAX: usize = 1 << 16;

/// Calls waiting for their replies.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    pending: Table,
    arrivals: VecDeque<Arrival>,
    answered: HashSet<u64>,
    answered_before: HashSet<u64>,
    /// The minor version last seen on each v4 connection.
    minor_versions: HashMap<u64, Version, BuildHasherDefault<PassThrough>>,
    next_number: u64,
    begin_ns: Option<u64>,
    /// Vectors of calls that have been written, for reuse.
    spare: Vec<Vec<Op>>,
    /// Calls that are complete or will get no reply.
    pub done: Vec<Call>,
    /// Numbers and hashes filled in by decoders.
    pub context: Context,
}

struct CallHead {
    program: u32,
    version: u32,
    procedure: u32,
    /// The arguments are neither wrapped nor encrypted.
    is_readable: bool,
    /// Everything before the arguments was captured.
    is_whole: bool,
}

impl Matcher {
    /// Creates a matcher that uses this context.
    pub(crate) fn new(context: Context) -> Self {
        Self { context, ..Self::default() }
    }

    /// Sets the start of the trace, in nanoseconds since 1970. Times are relative to it.
    pub(crate) fn begin_at(&mut self, begin_ns: u64) {
        self.begin_ns.get_or_insert(begin_ns);
    }

    /// Returns the start of the trace, in nanoseconds since 1970.
    pub(crate) fn begin_ns(&self) -> u64 {
        self.begin_ns.unwrap_or_default()
    }

    /// Processes a message.
    pub(crate) fn message(
        &mut self,
        place: MessageOrigin,
        message: &Message<'_>,
        counters: &mut Counters,
    ) {
        let mut cursor = message.body.cursor();
        let Ok([xid, kind]) = cursor.reader.words::<2>() else {
            count_undecoded(&cursor, counters);
            return;
        };
        // Since v4.1, a connection has calls in both directions: callbacks come from the server. A
        // reply belongs to a call from the other end.
        let caller = u64::from(place.is_from_client != (kind == CALL));
        let key = u64::from(place.connection) << 33 | caller << 32 | u64::from(xid);
        match kind {
            CALL => self.call(place, key, message, counters),
            REPLY => self.reply(place, key, message, counters),
            _ => counters.messages_malformed += 1,
        }
    }

    fn call(
        &mut self,
        place: MessageOrigin,
        key: u64,
        message: &Message<'_>,
        counters: &mut Counters,
    ) {
        let mut cursor = message.body.cursor();
        let Ok(head) = read_call_head(&mut cursor) else {
            count_undecoded(&cursor, counters);
            return;
        };
        if let Some(pending) = self.pending.get_mut(&key) {
            // This is a retransmission, unless the client reuses the xid for something else, in
            // which case the first call will get no reply anymore.
            if pending.program == head.program && pending.procedure == head.procedure {
                pending.call.retransmissions += 1;
                counters.calls_again += u64::from(is_traced(head.program));
                return;
            }
            self.give_up(key, counters);
        }
        let was_answered = place.transport == Transport::Udp
            && (self.answered.contains(&key) || self.answered_before.contains(&key));
        if was_answered && is_traced(head.program) {
            counters.calls_after_reply += 1;
            return;
        }
        self.expire(message.last_ns, counters);
        let version = match (head.program, head.version) {
            (NFS, 2) => Some(Version::V2),
            (NFS, 3) => Some(Version::V3),
            // The minor version is in the compound.
            (NFS, 4) => Some(Version::V4_0),
            (MOUNT, 1 | 2) => Some(Version::Mount1),
            (MOUNT, 3) => Some(Version::Mount3),
            _ => None,
        };
        let CallHead { program, procedure, is_readable, .. } = head;
        let mut call = Call {
            number: self.next_number,
            start_ns: message.first_ns.saturating_sub(self.begin_ns()),
            response_ns: None,
            connection: place.connection,
            version: version.unwrap_or(Version::V3),
            flags: 0,
            retransmissions: 0,
            call_bytes: message.body.len as u32,
            reply_bytes: 0,
            ops: self.spare.pop().unwrap_or_default(),
        };
        // Calls of other programs wait as well, so that their replies can be identified.
        let program = if version.is_some() { program } else { 0 };
        if version.is_some() {
            self.next_number += 1;
            self.context.server = place.server;
            self.context.call = call.number;
            let decoded = self.read_arguments(&mut call, &head, &mut cursor);
            if decoded == Decoded::Part {
                call.flags |= call_flag::CALL_INCOMPLETE;
                count_undecoded(&cursor, counters);
            }
            if call.version.is_compound() && head.procedure == COMPOUND {
                self.follow_minor_version(&mut call);
            }
            counters.calls += 1;
        } else {
            counters.calls_other += 1;
        }
        self.arrivals.push_back(Arrival { key, number: call.number, time_ns: message.last_ns });
        self.pending.insert(key, Pending { call, program, procedure, is_readable });
    }

    /// Assigns the minor version of its connection to a compound that was truncated before this
    /// field. Clients don't change it. A compound with operations was not truncated there.
    fn follow_minor_version(&mut self, call: &mut Call) {
        let connection = u64::from(call.connection);
        if call.ops.is_empty() {
            call.version = *self.minor_versions.get(&connection).unwrap_or(&call.version);
            return;
        }
        if self.minor_versions.len() >= MINOR_VERSIONS_MAX {
            self.minor_versions.clear();
        }
        self.minor_versions.insert(connection, call.version);
    }

    fn read_arguments(
        &mut self,
        call: &mut Call,
        head: &CallHead,
        cursor: &mut Cursor<'_>,
    ) -> Decoded {
        let kind = if head.procedure < 250 { head.procedure as u8 } else { Op::ILLEGAL };
        let context = &mut self.context;
        if call.version.is_compound() && head.procedure == COMPOUND {
            if !head.is_readable || !head.is_whole {
                return Decoded::Part;
            }
            return v4::operations(call, cursor, context).into();
        }
        let mut op = Op { kind, ..Op::default() };
        let read = if head.is_readable && head.is_whole {
            match call.version {
                Version::V2 => v2::call(&mut op, cursor, context),
                Version::V3 => v3::call(&mut op, cursor, context),
                Version::Mount1 | Version::Mount3 => mount::call(&mut op, cursor, context),
                Version::V4_0 | Version::V4_1 | Version::V4_2 => Ok(()),
            }
        } else {
            Err(DecodeError::BadValue { what: "a call's credential", value: 0 })
        };
        call.ops.push(op);
        read.into()
    }

    fn reply(
        &mut self,
        place: MessageOrigin,
        key: u64,
        message: &Message<'_>,
        counters: &mut Counters,
    ) {
        let Some(mut pending) = self.pending.remove(&key) else {
            if self.answered.contains(&key) || self.answered_before.contains(&key) {
                counters.replies_again += 1;
            } else {
                counters.replies_without_call += 1;
            }
            return;
        };
        if place.transport == Transport::Udp {
            self.remember(key);
        }
        if pending.program == 0 {
            self.recycle(pending.call.ops);
            return;
        }
        let call = &mut pending.call;
        counters.replies += 1;
        let end_ns = message.last_ns.saturating_sub(self.begin_ns());
        call.response_ns = Some(end_ns.saturating_sub(call.start_ns));
        call.reply_bytes = message.body.len as u32;
        self.context.server = place.server;
        self.context.call = call.number;
        let first_entry = self.context.entries.len();
        let mut cursor = message.body.cursor();
        let decoded = match read_reply_head(&mut cursor) {
            Ok(true) if pending.is_readable => read_results(call, &mut cursor, &mut self.context),
            Ok(true) | Err(_) => Decoded::Part,
            Ok(false) => {
                call.flags |= call_flag::REFUSED;
                Decoded::Whole
            }
        };
        if decoded == Decoded::Part {
            call.flags |= call_flag::REPLY_INCOMPLETE;
            count_undecoded(&cursor, counters);
        }
        self.finish_call(pending.call, first_entry, counters);
    }

    fn finish_call(&mut self, mut call: Call, first_entry: usize, counters: &mut Counters) {
        if call.version.is_compound() {
            v4::follow_files(&mut call.ops, first_entry, &mut self.context);
        }
        counters.ops += call.ops.len() as u64;
        self.done.push(call);
    }

    /// Writes a call that will get no reply.
    fn give_up(&mut self, key: u64, counters: &mut Counters) {
        let Some(pending) = self.pending.remove(&key) else { return };
        if pending.program == 0 {
            self.recycle(pending.call.ops);
            return;
        }
        counters.calls_without_reply += 1;
        let first_entry = self.context.entries.len();
        self.finish_call(pending.call, first_entry, counters);
    }

    /// Gives up calls that have waited too long, or the oldest ones if there are too many.
    fn expire(&mut self, now_ns: u64, counters: &mut Counters) {
        while let Some(oldest) = self.arrivals.front() {
            let key = oldest.key;
            let number = oldest.number;
            let is_pending = self.waits(key, number);
            let is_old = now_ns.saturating_sub(oldest.time_ns) > PENDING_NS_MAX;
            if is_pending && !is_old && self.pending.len() < PENDING_MAX {
                break;
            }
            self.arrivals.pop_front();
            if is_pending {
                self.give_up(key, counters);
            }
        }
        // Answered calls behind one that is still waiting are dropped together.
        if self.arrivals.len() > 4 * PENDING_MAX {
            let arrivals = std::mem::take(&mut self.arrivals);
            for arrival in arrivals {
                if self.waits(arrival.key, arrival.number) {
                    self.arrivals.push_back(arrival);
                }
            }
        }
    }

    fn waits(&self, key: u64, number: u64) -> bool {
        self.pending.get(&key).is_some_and(|pending| pending.call.number == number)
    }

    /// Gives up all waiting calls.
    pub(crate) fn finish(&mut self, counters: &mut Counters) {
        while let Some(oldest) = self.arrivals.pop_front() {
            if self.waits(oldest.key, oldest.number) {
                self.give_up(oldest.key, counters);
            }
        }
    }

    /// Reuses the operations of a call that was written.
    pub(crate) fn recycle(&mut self, mut ops: Vec<Op>) {
        if self.spare.len() < PENDING_MAX && ops.capacity() <= 64 {
            ops.clear();
            self.spare.push(ops);
        }
    }

    fn remember(&mut self, key: u64) {
        if self.answered.len() >= ANSWERED_MAX {
            self.answered_before = std::mem::take(&mut self.answered);
        }
        self.answered.insert(key);
    }
}

fn is_traced(program: u32) -> bool {
    program == NFS || program == MOUNT
}

fn count_undecoded(cursor: &Cursor<'_>, counters: &mut Counters) {
    if cursor.is_incomplete() {
        counters.messages_cut += 1;
    } else {
        counters.messages_malformed += 1;
    }
}

/// Reads a call up to its arguments.
fn read_call_head(cursor: &mut Cursor<'_>) -> Result<CallHead, DecodeError> {
    let [_, _, _, program, version, procedure] = cursor.reader.words::<6>()?;
    let mut is_readable = true;
    // Length, then version, procedure of the context, sequence number and service.
    let mut ahead = cursor.reader;
    if let Ok([FLAVOR_GSS, _, _, context_procedure, _, service]) = ahead.words::<6>() {
        is_readable = context_procedure == 0 && service == SERVICE_NONE;
    }
    let is_whole = skip_credentials(cursor).is_ok();
    Ok(CallHead { program, version, procedure, is_readable, is_whole })
}

/// Skips flavor and body of credential and verifier, whether captured or not.
fn skip_credentials(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    cursor.reader.u32()?;
    cursor.skip_payload()?;
    cursor.reader.u32()?;
    cursor.skip_payload()?;
    Ok(())
}

/// Reads a reply up to its results. Returns false if the RPC layer rejected the call.
fn read_reply_head(cursor: &mut Cursor<'_>) -> Result<bool, DecodeError> {
    let [_, _, state] = cursor.reader.words::<3>()?;
    if state != ACCEPTED {
        return Ok(false);
    }
    cursor.reader.u32()?;
    cursor.skip_payload()?;
    Ok(cursor.reader.u32()? == SUCCESS)
}

fn read_results(call: &mut Call, cursor: &mut Cursor<'_>, context: &mut Context) -> Decoded {
    let version = call.version;
    let is_null = version.is_compound() && call.ops.first().is_some_and(|op| op.kind == Op::NULL);
    if version.is_compound() && !is_null {
        return v4::results(&mut call.ops, cursor, context).into();
    }
    let Some(op) = call.ops.first_mut() else { return Decoded::Part };
    let read = match version {
        Version::V2 => v2::reply(op, cursor, context),
        Version::V3 => v3::reply(op, cursor, context),
        Version::Mount1 | Version::Mount3 => mount::reply(op, version, cursor, context),
        Version::V4_0 | Version::V4_1 | Version::V4_2 => {
            op.status = Some(0);
            Ok(())
        }
    };
    read.into()
}
