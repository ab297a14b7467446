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

/// How often all that a server may have lost is written again without anything new being taken or
/// committed; one that changes its verifier more often never lets a client get done.
pub const REWRITE_ROUNDS_MAX: u64 = 4;

/// How often a backend takes replies without any op coming to its end before its worker looks
/// whether it should stop.
pub const REAP_ROUNDS_MAX: u32 = 256;

/// How long scheduled ops of an open loop are waited for once the window has ended; never longer
/// than the window itself.
pub const SCHEDULE_DRAIN_MAX: Duration = Duration::from_secs(5);

/// So many ops that were never started are recorded with the time that they waited, each by itself;
/// of a backlog that is longer only the number is known.
pub const UNANSWERED_TIMED_MAX: u64 = 1_000_000;

/// How long the ops in flight have to end once a stop was requested: a server that puts them off
/// again and again, or answers a byte a second, is left with them.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);

/// How many timeouts may go by with failed ops only before a worker gives up: a minute by default,
/// twice as long as a call is put off by a server that answers "later".
pub const VAIN_TIMEOUTS_MAX: u32 = 12;

/// How many timeouts mounting may take: half a minute by default, for some ten calls.
pub const MOUNT_TIMEOUTS_MAX: u32 = 6;

/// How long the files on a server are counted at most after a pass.
pub const COUNT_MAX: Duration = Duration::from_secs(600);

/// How long a working directory on a server is removed at most; controllers wait for half an hour.
pub const CLEAN_UP_MAX: Duration = Duration::from_secs(1500);

/// How long a clean-up goes on after an interruption without anything being removed.
pub const STOPPED_CLEAN_UP_IDLE_MAX: Duration = Duration::from_secs(5);

/// How long a clean-up goes on after an interruption at most.
pub const STOPPED_CLEAN_UP_MAX: Duration = Duration::from_secs(60);

/// Names that a directory of ours may have beyond those that the run asks for.
pub const LISTED_SPARE: u64 = 1 << 16;

/// The same where a run makes names for as long as it is given time, or by chance.
pub const LISTED_SPARE_UNBOUNDED: u64 = 1 << 22;

/// How deep directories of ours may stand in each other, the deepest tree of a plan included; a
/// directory that leads back to itself is noticed before.
pub const LISTED_DEPTH_MAX: usize = 64;

/// How often one call has its file opened again because the server forgot the open.
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

/// Bits of one worker for the blocks that it touched: a megabyte, which most second-level
/// caches hold.
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
pub const TIMELINE_STEP_NS: u64 = 5_000_000;

/// Points of a timeline: its step doubles where there would be more.
pub const TIMELINE_POINTS_MAX: usize = 256;

/// How long a worker returns delegations at the end of its pass, in nanoseconds; the server forgets
/// the rest with their lease.
pub const RETURN_WITHIN_NS: u64 = 5_000_000_000;

const _: () = assert!(STOPPED_CLEAN_UP_IDLE_MAX.as_nanos() < STOPPED_CLEAN_UP_MAX.as_nanos());
const _: () = assert!(STOPPED_CLEAN_UP_MAX.as_nanos() < CLEAN_UP_MAX.as_nanos());
const _: () = assert!(TIMELINE_POINTS_MAX.is_multiple_of(2));
const _: () = assert!(ALIGNMENT.is_power_of_two());
const _: () = assert!(TICK.as_millis() <= WATCH_TICK.as_millis());
