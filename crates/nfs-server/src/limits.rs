//! Every bound of the server in one place, with the relations that must hold between them.
//!
//! Sizes that a user sets are in `ServerConfig`; these hold for every server.

use nfs_proto::limits::{
    MOUNT_NAME_BYTES_MAX, MOUNT_PATH_BYTES_MAX, RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES,
    TRANSFER_BYTES_MAX,
};

/// Smallest transfer size that can be configured, in bytes.
pub const TRANSFER_BYTES_MIN: u32 = 512;

/// A connection with more than this many bytes of replies unsent is read no further.
pub const OUTBOX_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The same where memory is tight: connections then have one reply in turn.
pub const OUTBOX_BYTES_TIGHT: usize = 64 * 1024;

/// Sent bytes of encoded headers that are kept before the buffer is moved together.
pub const HEAD_SLACK_BYTES: usize = 64 * 1024;

/// Capacity that an idle connection's header buffer may keep.
pub const HEAD_KEEP_BYTES: usize = 64 * 1024;

/// Vectors handed to one `sendmsg`: ten replies of 1 MiB. **Source:** the kernel allows 1024.
pub const VECTORS_MAX: usize = 64;

/// Free space that a session's buffer has to have before each receive, in bytes.
pub const RECEIVE_BYTES_MIN: usize = 4 * 1024;

/// Receives from one connection before the others of its thread get their turn.
pub const RECEIVES_PER_TURN: usize = 4;

/// Datagrams answered before the others of a thread get their turn.
pub const DATAGRAMS_PER_TURN: usize = 64;

/// Buffer requested for each datagram socket and direction, in bytes: 64 calls of the largest size.
pub const DATAGRAM_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a record half through for which a connection keeps a buffer of just their size.
pub const INPUT_KEEP_BYTES: usize = 4 * 1024;

/// Input buffers that a thread keeps for its next connections; each has grown to what its records
/// needed.
pub const SPARE_BUFFERS_MAX: usize = 16;

/// Memory charged for a connection that is idle, in bytes: its state and its place in tables.
pub const CONNECTION_BYTES: u64 = 1024;

/// Memory charged for the state of TLS on a connection, in bytes: that of rustls 0.23 and the 4 KiB
/// in which it receives.
pub const TLS_BYTES: u64 = 8 * 1024;

/// Memory charged for encrypted bytes that a socket has not taken. **Source:** rustls 0.23,
/// `DEFAULT_BUFFER_LIMIT`.
pub const TLS_UNSENT_BYTES: usize = 64 * 1024;

/// Time after which a connection that waits for room to receive looks for it again, in nanoseconds.
pub const ROOM_RETRY_NS: u64 = 5_000_000;

/// Time for which a long call that is half received may bring nothing while other connections wait
/// for its memory, in nanoseconds.
pub const IDLE_CALL_NS_MAX: u64 = 1_000_000_000;

/// Longest time between two checks of the connections' time-outs, in nanoseconds.
pub const SWEEP_NS_MAX: u64 = 500_000_000;

/// Shortest time between two such checks, where time-outs are short.
pub const SWEEP_NS_MIN: u64 = 5_000_000;

/// Ports of one server: that of NFS, and that of the portmapper.
pub const LISTENERS_MAX: usize = 2;

/// Events taken from the kernel at once.
pub const EVENTS_MAX: usize = 256;

/// Length of the queue of connections not yet accepted.
pub const BACKLOG: i32 = 4096;

/// Descriptors of the process that are not for connections: loops, listeners, other open files.
pub const DESCRIPTORS_RESERVED: u64 = 64;

/// Largest reply kept for a repeated call, in bytes; a call with a larger one is carried out again.
pub const CACHED_REPLY_BYTES_MAX: usize = 4 * 1024;

/// Largest READ and WRITE granted over UDP, in bytes, so that call and reply fit a datagram.
pub const DATAGRAM_TRANSFER_BYTES_MAX: u32 = 56 * 1024;

/// Largest payload of a datagram over IPv4, in bytes. **Source:** RFC 768 and RFC 791: 65,535
/// less both headers.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Lines that MOUNT's DUMP keeps; further mounts are granted and not listed.
pub const MOUNTS_MAX: usize = 2048;

/// Most clients of NFS v4 known by name, for v4.0 and for later versions each.
pub const NFS4_CLIENTS_MAX: usize = 65_536;

/// Most sessions of NFS v4.1 at once.
pub const NFS4_SESSIONS_MAX: usize = 131_072;

/// Most slots granted to one session.
pub const NFS4_SESSION_SLOTS_MAX: u32 = 16_384;

/// Most slots of all sessions together.
pub const NFS4_SLOTS_MAX: usize = 1 << 20;

/// Longest reply kept on a slot, in bytes.
pub const NFS4_KEPT_REPLY_BYTES_MAX: u32 = 2048;

/// Most operations in one compound.
pub const NFS4_OPERATIONS_MAX: u32 = 128;

/// Longest reply to a compound, in bytes, without the record mark.
pub const NFS4_REPLY_BYTES_MAX: usize = RECORD_BYTES_MAX;

/// Room that the result of an operation which changes something may need, in bytes.
pub const NFS4_CHANGE_RESULT_BYTES: usize = 128;

/// Smallest requests and replies that a session can do with, in bytes: SEQUENCE and little more.
pub const NFS4_SESSION_BYTES_MIN: u32 = 256;

/// Longest name of a client or owner, in bytes. **Source:** RFC 7530, NFS4_OPAQUE_LIMIT.
pub const NFS4_OWNER_BYTES_MAX: usize = 1024;

/// Bytes that one COPY copies at most; clients go on from there.
pub const NFS4_COPY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Runs of data and holes in one READ_PLUS.
pub const NFS4_SEGMENTS_MAX: usize = 64;

/// Memory charged for a client of v4 besides its name, which is held twice, in bytes.
pub const NFS4_CLIENT_BYTES: u64 = 640;

/// Memory charged for a session besides its slots, in bytes.
pub const NFS4_SESSION_BYTES: u64 = 512;

/// Memory charged for a slot besides the reply kept on it, in bytes.
pub const NFS4_SLOT_BYTES: u64 = 64;

/// Memory charged for an owner of opens or locks besides its name and last reply, in bytes.
pub const NFS4_OWNER_BYTES: u64 = 256;

/// Memory charged for an open, a delegation or a state of locks, with its place in all tables and
/// the entry of its file, in bytes.
pub const NFS4_STATE_BYTES: u64 = 640;

/// Memory charged for a locked range, in bytes.
pub const NFS4_RANGE_BYTES: u64 = 64;

/// Memory charged for a reply kept for a repeat besides its bytes, in bytes.
pub const CACHED_REPLY_BYTES: u64 = 256;

/// Most opens and states of locks of all clients together.
pub const NFS4_STATES_MAX: usize = 1 << 19;

/// Most delegations of all clients together; they count as states, too.
pub const NFS4_DELEGATIONS_MAX: usize = 1 << 16;

/// Most owners of opens, and of locks, that one client can have.
pub const NFS4_OWNERS_MAX: usize = 16_384;

/// Most locked ranges in one file, and in all files together.
pub const NFS4_FILE_RANGES_MAX: usize = 16_384;
/// The limit of ranges of all clients together; see `NFS4_FILE_RANGES_MAX`.
pub const NFS4_RANGES_MAX: usize = 1 << 20;

// One reply of the largest READ must fit, or a connection that waits for room would wait for ever.
const _: () = assert!(OUTBOX_BYTES_MAX >= TRANSFER_BYTES_MAX as usize);
// A whole call without payload is received at once.
const _: () = assert!(RECEIVE_BYTES_MIN >= RECORD_OVERHEAD_BYTES);
const _: () = assert!(VECTORS_MAX <= 1024);
// A datagram can't be cut, so header and payload have to fit together.
const _: () =
    assert!(DATAGRAM_TRANSFER_BYTES_MAX as usize + RECORD_OVERHEAD_BYTES <= DATAGRAM_BYTES_MAX);
// Three words frame each line of DUMP.
const _: () = assert!(
    MOUNTS_MAX * (12 + MOUNT_PATH_BYTES_MAX + MOUNT_NAME_BYTES_MAX) as usize <= RECORD_BYTES_MAX
);
