//! Bounds of the engine, each with its reason.
//!
//! They stand together so that their relations can be asserted at compile time, below. Bounds on
//! what a user may ask for are the plan's, not these.

use std::time::Duration;

/// Failed ops after which a worker gives up: a target that is full, gone or read-only fails every
/// further op at once, and counting them says nothing new.
pub const ERRORS_MAX: u64 = 100;

/// Different errors that a recorder tells apart for one kind of op.
pub const ERROR_KINDS_MAX: usize = 8;

/// How long a backend may wait before its worker looks whether it should stop.
pub const TICK: Duration = Duration::from_millis(50);

/// How often the watcher of a pass looks at the counters: as often as an eye follows, and the
/// shortest interval sample there is.
pub const WATCH_TICK: Duration = Duration::from_millis(100);

/// How often a sync commits again because the server restarted meanwhile; one that restarts more
/// often than this during one sync is not a server whose data can be made safe.
pub const COMMITS_MAX: u32 = 8;

/// How often one call has its file opened anew because the server forgot the open.
pub const REOPENS_MAX: u32 = 3;

/// Alignment of buffers: what `O_DIRECT` asks for at most, and a page.
pub const ALIGNMENT: usize = 4096;

/// Bytes that the preparation of a file writes at a time.
pub const PREPARE_IO: u32 = 1 << 20;

/// The buffer of a stream of characters, in bytes: what stdio takes for a file on most systems.
pub const STDIO_BYTES: usize = 4096;

/// Bytes that a worker's memory copies go to and come from: larger than the last cache of most
/// processors.
pub const MEMORY_REGION_MAX: u64 = 256 << 20;

/// Bytes that one listing of a directory may bring: what most clients of NFS ask for at least.
pub const LISTING_BYTES: usize = 4096;

/// Bits of one worker for the blocks that it touched: a megabyte, which most second-level caches
/// hold.
pub const TOUCHED_BITS_MAX: u64 = 8 << 20;

/// Bits of one worker for the blocks of an op mix that a server may still lose: 4 MiB, which are
/// 32 GiB in use by KiB. A larger set keeps watch on verifiers only.
pub const UNCOMMITTED_BITS_MAX: usize = 32 << 20;

/// How far a bandwidth cap may be made up for after a delay, in nanoseconds: more than a sleep
/// takes too long, less than anybody would call a burst.
pub const CAP_CREDIT_NS: u64 = 10_000_000;

/// How long workers stay awake before the instant at which they start, in nanoseconds: longer than
/// a processor takes to come out of its deepest sleep, which is some 100 us.
pub const AWAKE_NS: u64 = 100_000;

/// How often what was done is noted first where several hosts work together, in nanoseconds.
pub const COURSE_STEP_NS: u64 = 5_000_000;

/// Points of a course: its step doubles where there would be more.
pub const COURSE_POINTS_MAX: usize = 256;

const _: () = assert!(COURSE_POINTS_MAX.is_multiple_of(2));
const _: () = assert!(ALIGNMENT.is_power_of_two());
const _: () = assert!(TICK.as_millis() <= WATCH_TICK.as_millis());
