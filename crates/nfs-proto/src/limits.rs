//! The limits of this crate in one place, with their relations checked at compile time.
//!
//! Every length from the network is compared with one of these before it is used. Each buffer that
//! lives as long as a session grows only with the bytes that arrived and never beyond them.

/// Largest READ or WRITE payload this crate sends or accepts, in bytes.
pub const TRANSFER_BYTES_MAX: u32 = 4 * 1024 * 1024;

/// Largest READ or WRITE payload of NFS v2, in bytes. **Source:** RFC 1094 section 2.3, MAXDATA.
pub const V2_TRANSFER_BYTES_MAX: u32 = 8192;

/// Room for everything around a payload in a record: RPC header, credential, attributes.
pub const RECORD_OVERHEAD_BYTES: usize = 4 * 1024;

/// Largest RPC record, not counting its fragment marks.
pub const RECORD_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + RECORD_OVERHEAD_BYTES;

/// Length of a fragment mark. **Source:** RFC 5531 section 11.
pub const MARK_BYTES: usize = 4;

/// Maximum number of empty fragments in one record. RFC 5531 section 11 allows them and sets no
/// limit, but they bring a record no closer to its end, so a peer could send them forever.
pub const EMPTY_FRAGMENTS_MAX: u32 = 16;

/// Largest body of a credential or verifier. **Source:** RFC 5531 section 8.2.
pub const AUTH_BYTES_MAX: u32 = 400;

/// Longest machine name in AUTH_SYS. **Source:** RFC 5531 appendix A.
pub const MACHINE_NAME_BYTES_MAX: u32 = 255;

/// Maximum number of supplementary groups in AUTH_SYS. **Source:** RFC 5531 appendix A.
pub const GROUPS_MAX: usize = 16;

/// Longest file handle of any version. **Source:** RFC 7530 section 2.1, NFS4_FHSIZE.
pub const FILE_HANDLE_BYTES_MAX: usize = 128;

/// Longest NFS v3 file handle. **Source:** RFC 1813 section 2.4, NFS3_FHSIZE.
pub const V3_FILE_HANDLE_BYTES_MAX: usize = 64;

/// Longest tag of a compound. **Source:** RFC 7530 section 2.1, NFS4_OPAQUE_LIMIT.
pub const COMPOUND_TAG_BYTES_MAX: u32 = 1024;

/// Longest path of a MOUNT call. **Source:** RFC 1813 section 5.1.1, MNTPATHLEN.
pub const MOUNT_PATH_BYTES_MAX: u32 = 1024;

/// Longest name in a MOUNT list. **Source:** RFC 1813 section 5.1.1, MNTNAMLEN.
pub const MOUNT_NAME_BYTES_MAX: u32 = 255;

/// Longest text in an rpcbind message; the RFC sets no limit.
pub const RPCBIND_TEXT_BYTES_MAX: u32 = 1024;

/// Maximum number of authentication flavors kept from a MOUNT reply; further ones are skipped.
pub const FLAVORS_MAX: usize = 16;

/// Maximum number of slots of a client session: 4096 for its user's calls, and one for itself.
pub const SLOTS_MAX: usize = 4097;

/// Initial capacity of a session's input buffer, in bytes.
pub const INPUT_BYTES_START: usize = 64 * 1024;

/// Initial capacity of a client session's buffer for the head of a reply, in bytes: all of a usual
/// reply except its payload, and a 4 KiB page of a directory.
pub const REPLY_HEAD_BYTES: usize = 5 * 1024;

/// Initial capacity of each slot's buffer for an outgoing call without its payload, beyond the
/// common start of all calls, in bytes: a usual name and everything around it.
pub const CALL_HEADER_BYTES: usize = 384;

/// Largest callback that a client accepts, in bytes; the server is told when a session is created.
pub const CALLBACK_BYTES_MAX: usize = 4096;

/// Bytes of unsent answers to callbacks beyond which further callbacks are not answered.
pub const CALLBACK_ANSWERS_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of recalled delegations waiting for the client's caller to return them; the
/// server has to retry further ones.
pub const RECALLS_MAX: usize = 64;

/// Maximum number of ends of copies that a connection keeps until its caller takes them; the server
/// has to retry further ones.
pub const COPY_REPORTS_MAX: usize = 64;

/// Maximum number of ends of copies that a client keeps because they came before the reply to their
/// COPY.
pub const EARLY_COPY_REPORTS_MAX: usize = 256;

/// How long a client waits for the end of an asynchronous copy before it asks, between two
/// questions, and for the report of a copy that has ended according to an answer, in nanoseconds.
pub const COPY_QUERY_NS: u64 = 100_000_000;

/// Maximum number of layouts in the result of a LAYOUTGET.
pub const LAYOUTS_MAX: u32 = 64;

/// Maximum number of stripe indices of a device of the files layout, and of data servers of a
/// mirror of flexible files. **Source:** Linux fs/nfs/pnfs.h, `NFS4_PNFS_MAX_STRIPE_CNT`.
pub const STRIPES_MAX: u32 = 4096;

/// Maximum number of data servers in one device of the files layout, and of addresses of one
/// server. **Source:** Linux fs/nfs/pnfs.h, `NFS4_PNFS_MAX_MULTI_CNT`.
pub const DATA_SERVERS_MAX: u32 = 256;

/// Maximum number of mirrors in a layout of flexible files.
pub const MIRRORS_MAX: u32 = 16;

/// Maximum number of versions of NFS in a device of flexible files.
pub const DEVICE_VERSIONS_MAX: u32 = 16;

/// Maximum number of errors or statistics in one report about a layout.
pub const LAYOUT_REPORTS_MAX: u32 = 256;

/// Longest wait before a datagram is sent again, in nanoseconds. **Source:** nfs(5), `timeo`.
pub const RETRANSMIT_NS_MAX: u64 = 60_000_000_000;

/// First wait after a server has answered "try later", in nanoseconds; each further one is twice as
/// long. **Source:** Linux fs/nfs/nfs4proc.c, `NFS4_POLL_RETRY_MIN`.
pub const DELAY_NS_MIN: u64 = 100_000_000;

/// Longest wait after a server has answered "try later", in nanoseconds. **Source:** Linux
/// include/linux/nfs_fs.h, `NFS_JUKEBOX_RETRY_TIME`.
pub const DELAY_NS_MAX: u64 = 5_000_000_000;

// A handle of the largest size, a usual name, attributes and the frame of a compound fit.
const _: () = assert!(CALL_HEADER_BYTES >= FILE_HANDLE_BYTES_MAX + 64 + 12 * 4 + 128);
const _: () = assert!(DELAY_NS_MIN < DELAY_NS_MAX && DELAY_NS_MAX < RETRANSMIT_NS_MAX);
// A fragment mark has 31 bits for its length.
const _: () = assert!(RECORD_BYTES_MAX < 1 << 31);
const _: () = assert!(RECORD_OVERHEAD_BYTES > 2 * CALL_HEADER_BYTES);
const _: () = assert!(SLOTS_MAX <= 1 << 16);
const _: () = assert!(INPUT_BYTES_START < RECORD_BYTES_MAX);
// AUTH_SYS with everything at its limit still fits a credential body.
const _: () = assert!(
    4 + 4 + MACHINE_NAME_BYTES_MAX + 1 + 4 + 4 + 4 + 4 * GROUPS_MAX as u32 <= AUTH_BYTES_MAX
);
