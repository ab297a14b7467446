//! Input and output types of a client session: settings, pieces to send, counters.
//!
//! All plain data; the state machine is [`super::Session`].

use super::operation::{Kind, OperationKind, PayloadRange};
use crate::nfs3::FileHandle;
use crate::nfs4::{ClientId, OffloadResult, SessionId, Stateid};
use crate::rpc::Credential;
use crate::version::ProtocolVersion;

/// How the payload of READ replies is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadMode {
    /// It is counted and dropped.
    Discard,
    /// It is part of its event. Replies arrive one after the other, and an event is taken before
    /// the next reply is received, so one buffer is enough; it also stays in the CPU's cache.
    Keep {
        /// Size of the buffer: the largest READ that can be started.
        bytes_max: u32,
    },
}

/// How messages are delimited on the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A stream of records. **Source:** RFC 5531 section 11.
    Record,
    /// One message per datagram; lost ones are sent again.
    Datagram,
}

/// When a call is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Time without a reply after which a datagram is sent again, in nanoseconds; doubles each
    /// time, up to 60 s.
    pub timeo_ns: u64,
    /// Number of retransmissions before that counts as a major timeout, and the times start over.
    pub retrans: u32,
    /// How long after its start a call may be deferred by a server that answers "try later" before
    /// that answer becomes its result, in nanoseconds.
    pub patience_ns: u64,
    /// How many datagrams may be in flight.
    pub udp_window: UdpWindow,
}

/// Limit on the datagrams in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpWindow {
    /// A window that grows with replies and is halved by losses, and timeouts that follow the
    /// round-trip times, as in kernels.
    Adaptive,
    /// All calls are sent at once, each with a fixed timeout.
    Off,
}

/// The defaults of the Linux client over UDP, and half a minute of patience.
///
/// **Source:** nfs(5), `timeo` and `retrans`; Linux include/linux/nfs_fs.h, `NFS_DEF_UDP_TIMEO`.
impl Default for Retry {
    fn default() -> Self {
        Self {
            // nfs(5) documents 1.1 s and three retransmissions for UDP.
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
    /// The NFS version to use.
    pub version: ProtocolVersion,
    /// How messages are delimited.
    pub framing: Framing,
    /// When calls are sent again.
    pub retry: Retry,
    /// Maximum number of calls in flight, 1 to [`crate::limits::SLOTS_MAX`].
    pub slots: usize,
    /// Credential of the caller.
    pub credential: Credential<'a>,
    /// How READ payloads are handled.
    pub payload: PayloadMode,
    /// The first xid; it should differ between connections, since servers cache replies by xid.
    pub xid_seed: u32,
}

/// NFS v3, one call at a time, by an anonymous caller over a stream, READ payloads discarded.
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

/// The client of a v4 connection, once the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Binding {
    /// Id of the client.
    pub client: ClientId,
    /// The session, in v4.1 and later.
    pub session: SessionId,
    /// The slots that the server has granted to the session, at least 1; in v4.0 any number.
    pub slots: u32,
    /// Number that distinguishes the owners of this connection's opens from other owners of the
    /// same client, in v4.0.
    pub owner_base: u64,
}

/// A slot of a session, with its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSlot {
    /// Number of the slot in its session.
    pub number: u32,
    /// Sequence number of its next call.
    pub sequence: u32,
}

impl SessionSlot {
    /// Makes a slot that has not been used yet.
    pub const fn unused(number: u32) -> Self {
        Self { number, sequence: 1 }
    }
}

/// The slots of a session used by one of its connections; others use the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotShare<'a> {
    /// Slots of the connection, at least one.
    pub slots: &'a [SessionSlot],
    /// The highest slot used by any connection of the session.
    pub highest_slot: u32,
}

/// Reason why a call was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// All slots are in use; take events first.
    #[error("all slots are in use")]
    Busy,
    /// The payload requested or given is larger than the session supports.
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
    /// The version can't address that offset.
    #[error("the file is too large for this version: byte {end} of at most {max}")]
    FileTooLarge {
        /// Offset at which the transfer would end, in bytes.
        end: u64,
        /// Largest file size, in bytes.
        max: u64,
    },
    /// The version has no handles of this length: the handle belongs to another version.
    #[error("a file handle of {bytes} bytes is none of this version")]
    Handle {
        /// Its length in bytes.
        bytes: usize,
    },
}

/// A piece of the data to send, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Literal bytes.
    Bytes(&'a [u8]),
    /// This range of the socket layer's pool.
    Pool(PayloadRange),
}

/// The part of a READ payload that comes next in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadWant {
    /// Offset in the payload, in bytes.
    pub offset: usize,
    /// Number of contiguous bytes in the stream, at least 1.
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

/// Whether opens request delegations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WantedDelegation {
    /// Read-only opens request a read delegation.
    Read,
    /// No open requests one.
    #[default]
    Nothing,
}

/// A recalled delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recall {
    /// The stateid of the delegation.
    pub stateid: Stateid,
    /// The delegated file.
    pub file: FileHandle,
}

/// A server's report that an asynchronous copy has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// The stateid of the copy.
    pub stateid: Stateid,
    /// How it ended.
    pub result: OffloadResult,
}

/// Traffic counters; they only increase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Calls that were completely sent, each counted once however often it was sent.
    pub calls_sent: u64,
    /// Replies that completed a call, including errors and malformed ones.
    pub replies: u64,
    /// Replies that could not be decoded.
    pub malformed_replies: u64,
    /// Replies that match no call in flight, not counting duplicates.
    pub late_replies: u64,
    /// Further replies to a completed call whose slot has not been used since.
    pub duplicate_replies: u64,
    /// Datagrams that were sent again because there was no reply.
    pub retransmissions: u64,
    /// Number of times that a datagram's last retransmission had no reply, either.
    pub major_timeouts: u64,
    /// "Try later" answers, after which the call waited and was made again.
    pub delays: u64,
    /// Further calls required by a reply, such as the OPEN_CONFIRM of NFSv4.0.
    pub follow_ups: u64,
    /// Number of times that the connection was re-established.
    pub reconnects: u64,
    /// Calls that were sent again over a new connection.
    pub replays: u64,
    /// Number of times that a server had forgotten the session or the client, and another one was
    /// created.
    pub rebinds: u64,
    /// Calls that ended because their connection was lost and they must not be executed twice.
    pub lost_calls: u64,
    /// Callbacks of the server that were answered.
    pub callbacks: u64,
    /// Number of fragments received.
    pub fragments_in: u64,
    /// Bytes sent, counting everything above TCP.
    pub wire_bytes_out: u64,
    /// Bytes received, counting everything above TCP.
    pub wire_bytes_in: u64,
    /// WRITE payload of completely sent calls, in bytes.
    pub payload_bytes_out: u64,
    /// READ payload received for calls in flight, in bytes.
    pub payload_bytes_in: u64,
}
