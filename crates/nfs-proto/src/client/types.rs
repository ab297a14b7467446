//! Data that a client session is given and returns: settings, pieces to send, counters.
//!
//! All plain data; the state machine is [`super::Session`].

use super::operation::{Kind, OperationKind, PayloadRange};
use crate::nfs3::FileHandle;
use crate::nfs4::{ClientId, SessionId, Stateid};
use crate::rpc::Credential;
use crate::version::ProtocolVersion;

/// The way in which the payload of READ replies is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadMode {
    /// It is counted and dropped.
    Discard,
    /// It is kept in the slot's buffer until the slot is used again.
    Keep {
        /// The size of each slot's buffer: the largest READ that can be started.
        bytes_per_slot: u32,
    },
}

/// How messages are distinguished on the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A stream of records. **Source:** RFC 5531 section 11.
    Record,
    /// One message in each datagram; what is lost is sent again.
    Datagram,
}

/// When a call is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How long a datagram may be without a reply before it is sent again, in nanoseconds; each
    /// further time takes twice as long, up to 60 s.
    pub timeo_ns: u64,
    /// How often a datagram is sent again before that counts as a major timeout, and the times
    /// start over.
    pub retrans: u32,
    /// For how long after its start a call may be put off by a server that answers "later" before
    /// that answer is its result, in nanoseconds.
    pub patience_ns: u64,
    /// How many datagrams may be out at a time.
    pub udp_window: UdpWindow,
}

/// The bound on datagrams that are out at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpWindow {
    /// A window that grows with replies and is halved by losses, and timeouts that follow the
    /// round-trip times, as kernels have them.
    Adaptive,
    /// All calls are sent at once, and each waits for its fixed time.
    Off,
}

/// The times of Linux's client over UDP, and half a minute of patience.
///
/// **Source:** nfs(5), `timeo` and `retrans`; Linux include/linux/nfs_fs.h, `NFS_DEF_UDP_TIMEO`.
impl Default for Retry {
    fn default() -> Self {
        Self {
            // 1.1 s for the first wait and three retransmissions are what nfs(5) states for UDP.
            timeo_ns: 1_100_000_000,
            retrans: 3,
            patience_ns: 30_000_000_000,
            udp_window: UdpWindow::Adaptive,
        }
    }
}

/// The configuration of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config<'a> {
    /// The version of NFS that is spoken.
    pub version: ProtocolVersion,
    /// How messages are distinguished.
    pub framing: Framing,
    /// When calls are sent again.
    pub retry: Retry,
    /// Calls in flight at most, 1 to [`crate::limits::SLOTS_MAX`].
    pub slots: usize,
    /// Credential of the caller.
    pub credential: Credential<'a>,
    /// The way in which READ payloads are kept.
    pub payload: PayloadMode,
    /// The first xid; different connections should differ, for the sake of servers that
    /// remember replies by xid.
    pub xid_seed: u32,
}

/// One call at a time of NFS v3 by an anonymous caller over a stream, READ payloads discarded.
impl Default for Config<'_> {
    fn default() -> Self {
        Self {
            version: ProtocolVersion::V3,
            framing: Framing::Record,
            retry: Retry::default(),
            slots: 1,
            credential: Credential::None,
            payload: PayloadMode::Discard,
            xid_seed: 0,
        }
    }
}

/// The client that a connection of version 4 belongs to, once the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Binding {
    /// Id of the client.
    pub client: ClientId,
    /// The session, of v4.1 and later.
    pub session: SessionId,
    /// The slots that the server has granted to the session, at least 1; of v4.0 as many as there
    /// are.
    pub slots: u32,
    /// Number that tells the owners of this connection's opens from those of other owners of the
    /// same client, v4.0.
    pub owner_base: u64,
}

/// A slot of a session, and where its calls stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSlot {
    /// Number of the slot in its session.
    pub number: u32,
    /// Sequence number of its next call.
    pub sequence: u32,
}

impl SessionSlot {
    /// Makes a slot that had no call yet.
    pub const fn unused(number: u32) -> Self {
        Self { number, sequence: 1 }
    }
}

/// The slots of a session that one of its connections uses; the others use the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotShare<'a> {
    /// Slots of the connection, at least one.
    pub slots: &'a [SessionSlot],
    /// The highest slot that any connection of the session uses.
    pub highest_slot: u32,
}

/// Tells why a call was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// All slots are in use; take events first.
    #[error("all slots are in use")]
    Busy,
    /// The payload requested or given is larger than the session can hold.
    #[error("a payload of {bytes} bytes exceeds the limit of {max}")]
    TooLarge {
        /// Bytes requested or given.
        bytes: u32,
        /// The limit, in bytes.
        max: u32,
    },
    /// The version has no such operation.
    #[error("NFS version {version} has no {kind}")]
    Unsupported {
        /// Kind of the operation.
        kind: OperationKind,
        /// Version of NFS.
        version: ProtocolVersion,
    },
    /// The version can't address so far into a file.
    #[error("the file is too large for this version: byte {end} of at most {max}")]
    FileTooLarge {
        /// Offset at which the transfer would end, in bytes.
        end: u64,
        /// The largest file, in bytes.
        max: u64,
    },
    /// The version has no handles of this length: it is a handle of another version.
    #[error("a file handle of {bytes} bytes is none of this version")]
    Handle {
        /// Its length in bytes.
        bytes: usize,
    },
}

/// A piece of what is to be sent, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Bytes as they are.
    Bytes(&'a [u8]),
    /// This part of the socket layer's pool.
    Pool(PayloadRange),
}

/// The part of a READ payload that the stream holds next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadWant {
    /// The slot it belongs to.
    pub slot: u32,
    /// Offset in the payload at which it starts, in bytes.
    pub offset: usize,
    /// How many bytes follow one another on the stream, at least 1.
    pub len: usize,
}

/// A call that was sent and has no reply yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// The caller's tag.
    pub tag: u32,
    /// The call that was made.
    pub kind: Kind,
    /// When the call was started.
    pub started_ns: u64,
}

/// Whether opens ask for delegations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Those that only read ask for a delegation to read.
    Read,
    /// None asks for one.
    #[default]
    Nothing,
}

/// A delegation that the server wants back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recall {
    /// The stateid of the delegation.
    pub stateid: Stateid,
    /// The file that it is of.
    pub file: FileHandle,
}

/// Counters of what went over the wire; they only ever grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Calls sent as a whole, each counted once however often it was sent.
    pub calls_sent: u64,
    /// Replies that completed a call, errors and malformed ones included.
    pub replies: u64,
    /// Replies that could not be decoded.
    pub malformed_replies: u64,
    /// Replies to no call in flight, duplicates not counted.
    pub late_replies: u64,
    /// Further replies to a call that has ended and whose slot was not used since.
    pub duplicate_replies: u64,
    /// Datagrams that were sent again for want of a reply.
    pub retransmissions: u64,
    /// Times that a datagram had no reply to its last retransmission either.
    pub major_timeouts: u64,
    /// Answers of "later", after which the call waited and was made again.
    pub delays: u64,
    /// Further calls that a reply led to, such as the OPEN_CONFIRM of NFSv4.0.
    pub follow_ups: u64,
    /// Times that the connection was made again.
    pub reconnects: u64,
    /// Calls that were sent again over a new connection.
    pub replays: u64,
    /// Times that a server had forgotten the session or the client, and another one was made.
    pub rebinds: u64,
    /// Calls that ended because their connection was lost and they must not be made twice.
    pub lost_calls: u64,
    /// Calls of the server that were answered.
    pub callbacks: u64,
    /// Number of fragments received.
    pub fragments_in: u64,
    /// Bytes sent, everything above TCP.
    pub wire_bytes_out: u64,
    /// Bytes received, everything above TCP.
    pub wire_bytes_in: u64,
    /// WRITE payload in calls sent as a whole, in bytes.
    pub payload_bytes_out: u64,
    /// READ payload received for calls in flight, in bytes.
    pub payload_bytes_in: u64,
}
