//! Every limit of the server in one place, with the relations between them.
//!
//! Sizes that a user sets are in `ServerConfig`; these apply to every server.

use nfs_proto::limits::{
    MOUNT_NAME_BYTES_MAX, MOUNT_PATH_BYTES_MAX, RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES,
    TRANSFER_BYTES_MAX,
};

use crate::fs::BLOCK_BYTES;

/// Smallest transfer size that can be configured, in bytes.
pub const TRANSFER_BYTES_MIN: u32 = 512;

/// Bytes of unsent replies beyond which no more requests are read from a connection.
pub const OUTBOX_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The same if memory is tight: each connection then has about one reply at a time.
pub const OUTBOX_BYTES_TIGHT: usize = 64 * 1024;

/// Sent header bytes that may remain in the buffer before it is compacted.
pub const HEAD_SLACK_BYTES: usize = 64 * 1024;

/// Capacity of the header buffer that an idle connection may keep.
pub const HEAD_KEEP_BYTES: usize = 64 * 1024;

/// Vectors per `sendmsg`: ten replies of 1 MiB. **Source:** the kernel allows 1024.
pub const VECTORS_MAX: usize = 64;

/// Free space required in a session's buffer before each receive, in bytes.
pub const RECEIVE_BYTES_MIN: usize = 4 * 1024;

/// Bytes received behind the payload of a WRITE, or first after it: the start of the next call
/// without its payload, which can then be received where it will stay.
pub const NEXT_CALL_BYTES: usize = 1024;

/// Bytes received at once from which the rest of a payload is expected soon.
pub const BULK_BYTES: usize = 64 * 1024;

/// Maximum number of bytes of a payload to wait for before it is received, so that a connection is
/// not woken up for each segment.
pub const LOW_WATER_BYTES: usize = 256 * 1024;

/// Vectors of a receive: the places of the longest payload, and the next call.
pub const PAYLOAD_VECTORS_MAX: usize = TRANSFER_BYTES_MAX as usize / BLOCK_BYTES + 3;

/// Receives from one connection before the others on its thread get their turn.
pub const RECEIVES_PER_TURN: usize = 4;

/// Datagrams answered before the other sockets of a thread get their turn.
pub const DATAGRAMS_PER_TURN: usize = 64;

/// Buffer requested for each datagram socket and direction, in bytes: 64 calls of the largest size.
pub const DATAGRAM_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Largest part of a half-received record for which a connection keeps only a buffer of just that
/// size.
pub const INPUT_KEEP_BYTES: usize = 4 * 1024;

/// Maximum number of input buffers that a thread keeps for its next connections; each has grown to
/// the size its records needed.
pub const SPARE_BUFFERS_MAX: usize = 16;

/// Memory charged for an idle connection, in bytes: its state and its entries in tables.
pub const CONNECTION_BYTES: u64 = 1024;

/// Memory charged for the TLS state of a connection, in bytes: that of rustls 0.23 and its 4 KiB
/// receive buffer.
pub const TLS_BYTES: u64 = 8 * 1024;

/// Memory charged for encrypted bytes that a socket has not yet accepted. **Source:** rustls 0.23,
/// `DEFAULT_BUFFER_LIMIT`.
pub const TLS_UNSENT_BYTES: usize = 64 * 1024;

/// Time after which a connection waiting for room to receive tries again, in nanoseconds.
pub const ROOM_RETRY_NS: u64 = 5_000_000;

/// Time without progress after which a half-received long call is dropped if other connections are
/// waiting for its memory, in nanoseconds.
pub const IDLE_CALL_NS_MAX: u64 = 1_000_000_000;

/// Longest time between two checks of the connections' time-outs, in nanoseconds.
pub const SWEEP_NS_MAX: u64 = 500_000_000;

/// Shortest time between two such checks, if time-outs are short.
pub const SWEEP_NS_MIN: u64 = 5_000_000;

/// Ports of one server: one for NFS, one for the portmapper.
pub const LISTENERS_MAX: usize = 2;

/// Events taken from the kernel at once.
pub const EVENTS_MAX: usize = 256;

/// Length of the queue of connections not yet accepted.
pub const BACKLOG: i32 = 4096;

/// Descriptors of the process reserved for other purposes than connections: loops, listeners, other
/// open files.
pub const DESCRIPTORS_RESERVED: u64 = 64;

/// Largest reply kept for a repeated call, in bytes; a call with a larger one is executed again.
pub const CACHED_REPLY_BYTES_MAX: usize = 4 * 1024;

/// Largest READ and WRITE granted over UDP, in bytes, so that call and reply fit into a datagram.
pub const DATAGRAM_TRANSFER_BYTES_MAX: u32 = 56 * 1024;

/// Largest payload of a datagram over IPv4, in bytes. **Source:** RFC 768 and RFC 791: 65,535 minus
/// both headers.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Lines that MOUNT's DUMP keeps; further mounts are granted but not listed.
pub const MOUNTS_MAX: usize = 2048;

/// Maximum number of NFS v4 clients known by name, separately for v4.0 and for later versions.
pub const NFS4_CLIENTS_MAX: usize = 65_536;

/// Maximum number of NFS v4.1 sessions at once.
pub const NFS4_SESSIONS_MAX: usize = 131_072;

/// Maximum number of slots per session.
pub const NFS4_SESSION_SLOTS_MAX: u32 = 16_384;

/// Maximum number of slots in all sessions together.
pub const NFS4_SLOTS_MAX: usize = 1 << 20;

/// Longest reply kept on a slot, in bytes.
pub const NFS4_KEPT_REPLY_BYTES_MAX: u32 = 2048;

/// Maximum number of operations in a compound.
pub const NFS4_OPERATIONS_MAX: u32 = 128;

/// Longest reply to a compound, in bytes, without the record mark.
pub const NFS4_REPLY_BYTES_MAX: usize = RECORD_BYTES_MAX;

/// Largest result of an operation that changes something, in bytes.
pub const NFS4_CHANGE_RESULT_BYTES: usize = 128;

/// Smallest request and reply sizes that a session can work with, in bytes: SEQUENCE and little
/// more.
pub const NFS4_SESSION_BYTES_MIN: u32 = 256;

/// Longest name of a client or owner, in bytes. **Source:** RFC 7530, NFS4_OPAQUE_LIMIT.
pub const NFS4_OWNER_BYTES_MAX: usize = 1024;

/// Maximum number of bytes copied by one synchronous COPY; clients continue from there.
pub const NFS4_COPY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Maximum number of bytes that a copy in the background copies before other clients of its event
/// loop are served.
pub const NFS4_COPY_STEP_BYTES: u64 = 1024 * 1024;

/// Maximum number of copies in the background of all clients together; further ones are made at
/// once.
pub const NFS4_COPIES_MAX: usize = 4096;

/// How often the end of a copy is reported to a client that refuses the report.
pub const NFS4_COPY_REPORTS_MAX: u8 = 3;

/// Maximum number of data and hole segments in one READ_PLUS.
pub const NFS4_SEGMENTS_MAX: usize = 64;

/// Memory charged for a v4 client besides its name, which is stored twice, in bytes.
pub const NFS4_CLIENT_BYTES: u64 = 640;

/// Memory charged for a session besides its slots, in bytes.
pub const NFS4_SESSION_BYTES: u64 = 512;

/// Memory charged for a slot besides its cached reply, in bytes.
pub const NFS4_SLOT_BYTES: u64 = 64;

/// Memory charged for an open or lock owner besides its name and last reply, in bytes.
pub const NFS4_OWNER_BYTES: u64 = 256;

/// Memory charged for an open, a delegation or a lock state, including its entries in all tables
/// and that of its file, in bytes.
pub const NFS4_STATE_BYTES: u64 = 672;

/// Memory charged for the layouts that a client has of a file, besides that of a state, in bytes.
pub const NFS4_LAYOUT_BYTES: u64 = 640;

/// Memory charged for a locked range, in bytes.
pub const NFS4_RANGE_BYTES: u64 = 64;

/// Memory charged for a reply kept for repeated calls besides its bytes, in bytes.
pub const CACHED_REPLY_BYTES: u64 = 256;

/// Maximum number of opens and lock states of all clients together.
pub const NFS4_STATES_MAX: usize = 1 << 19;

/// Maximum number of delegations of all clients together; they also count as states.
pub const NFS4_DELEGATIONS_MAX: usize = 1 << 16;

/// Maximum number of data servers of a metadata server.
pub const DATA_SERVERS_MAX: usize = 64;

/// Maximum number of copies of a file's data.
pub const MIRRORS_MAX: usize = 16;

/// Stripe units are multiples of this many bytes: a page.
pub const STRIPE_UNIT_MULTIPLE: u32 = 4096;

/// The data servers in a process get all shares of the memory but one.
pub const DATA_MEMORY_SHARES: u64 = 8;

/// Maximum number of layouts of all clients together, counted by file and client; they also count
/// as states.
pub const NFS4_LAYOUTS_MAX: usize = 1 << 18;

/// Maximum number of open owners, and of lock owners, per client.
pub const NFS4_OWNERS_MAX: usize = 16_384;

/// Maximum number of locked ranges in one file.
pub const NFS4_FILE_RANGES_MAX: usize = 16_384;
/// Maximum number of locked ranges of all clients together.
pub const NFS4_RANGES_MAX: usize = 1 << 20;

// A reply to the largest READ must fit, or a connection waiting for room would wait forever.
const _: () = assert!(OUTBOX_BYTES_MAX >= TRANSFER_BYTES_MAX as usize);
// A whole call without payload can be received at once.
const _: () = assert!(RECEIVE_BYTES_MIN >= RECORD_OVERHEAD_BYTES);
const _: () = assert!(VECTORS_MAX <= 1024);
// A datagram can't be split, so header and payload have to fit together.
const _: () =
    assert!(DATAGRAM_TRANSFER_BYTES_MAX as usize + RECORD_OVERHEAD_BYTES <= DATAGRAM_BYTES_MAX);
// Three words frame each line of DUMP.
const _: () = assert!(
    MOUNTS_MAX * (12 + MOUNT_PATH_BYTES_MAX + MOUNT_NAME_BYTES_MAX) as usize <= RECORD_BYTES_MAX
);
