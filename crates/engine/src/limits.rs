//! Limits of the engine, with their reasons.
//!
//! They are in one place so that relations between them can be asserted at compile time, see below.
//! Limits on what users may request are part of the plan instead.

use std::time::Duration;

/// Failed ops after which a worker gives up. A target that is full, gone or read-only fails every
/// further op immediately, and counting them yields nothing new.
pub(crate) const ERRORS_MAX: u64 = 100;

/// Number of different errors that a recorder distinguishes per kind of op.
pub(crate) const ERROR_KINDS_MAX: usize = 8;

/// Maximum time a backend may wait before its worker checks whether it should stop.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// How often a pass's watcher reads the counters. Fast enough for the eye, and the minimum interval
/// of samples.
pub(crate) const WATCH_TICK: Duration = Duration::from_millis(100);

/// How often a sync is repeated because the server restarted in between. If a server restarts more
/// often during a single sync, its data cannot be made safe.
pub(crate) const COMMITS_MAX: u32 = 8;

/// How often all lost data is rewritten without anything new being accepted or committed. If the
/// verifier changes more often, clients can never finish.
pub(crate) const REWRITE_ROUNDS_MAX: u64 = 4;

/// How often a backend receives replies without completing an op before its worker checks whether
/// it should stop.
pub(crate) const REAP_ROUNDS_MAX: u32 = 256;

/// How long to wait for scheduled ops of an open loop after the end of the window; never longer
/// than the window itself.
pub(crate) const SCHEDULE_DRAIN_MAX: Duration = Duration::from_secs(5);

/// Maximum number of ops that were never started whose waiting times are recorded individually. If
/// the backlog is longer, the rest is only counted.
pub(crate) const UNANSWERED_TIMED_MAX: u64 = 1_000_000;

/// How long ops in flight may take to complete after a stop request. If the server keeps delaying
/// them, or sends a byte per second, we abandon them.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(3);

/// Number of timeouts during which all ops may fail before a worker gives up. By default, this is a
/// minute, twice as long as a call is repeated if the server says "later".
pub(crate) const VAIN_TIMEOUTS_MAX: u32 = 12;

/// Number of timeouts that mounting may take, for about ten calls. By default, this is half a
/// minute.
pub(crate) const MOUNT_TIMEOUTS_MAX: u32 = 6;

/// Time limit for counting the files on a server after a pass.
pub(crate) const COUNT_MAX: Duration = Duration::from_secs(600);

/// Time limit for removing a working directory on a server. Controllers wait for half an hour.
pub(crate) const CLEAN_UP_MAX: Duration = Duration::from_secs(1500);

/// How long an interrupted cleanup continues without removing anything.
pub(crate) const STOPPED_CLEAN_UP_IDLE_MAX: Duration = Duration::from_secs(5);

/// Time limit for an interrupted cleanup.
pub(crate) const STOPPED_CLEAN_UP_MAX: Duration = Duration::from_secs(60);

/// How many more names one of our directories may contain than the run requires.
pub(crate) const LISTED_SPARE: u64 = 1 << 16;

/// The same for runs whose number of names depends on time or chance.
pub(crate) const LISTED_SPARE_UNBOUNDED: u64 = 1 << 22;

/// Maximum depth of nested directories, which exceeds that of any tree in a plan. A directory that
/// leads back to itself is detected earlier.
pub(crate) const LISTED_DEPTH_MAX: usize = 64;

/// How often a call's file is reopened because the server forgot the open.
pub(crate) const REOPENS_MAX: u32 = 3;

/// Alignment of buffers: a page, which is also the maximum that `O_DIRECT` requires.
pub(crate) const ALIGNMENT: usize = 4096;

/// Size of writes when preparing a file, in bytes.
pub(crate) const PREPARE_IO: u32 = 1 << 20;

/// Buffer size for character I/O in bytes, as used by stdio on most systems.
pub(crate) const STDIO_BYTES: usize = 4096;

/// Maximum size of the memory that a worker copies from and to: larger than the last-level cache of
/// most CPUs.
pub(crate) const MEMORY_REGION_MAX: u64 = 256 << 20;

/// Maximum size of a directory listing in bytes: the minimum that most NFS clients request.
pub(crate) const LISTING_BYTES: usize = 4096;

/// Size of the buffer for the names of a directory in bytes. Larger ones don't list faster.
pub(crate) const LIST_BYTES: usize = 128 << 10;

/// The same if the attributes of each name are read as well, as in `ls -l` and find.
///
/// **Source:** glibc, sysdeps/unix/sysv/linux/opendir.c: 32 KiB.
pub(crate) const LIST_STAT_BYTES: usize = 32 << 10;

/// Maximum size of a reply with names of a directory that is listed completely, in bytes; at most
/// the server's size of a READ.
pub(crate) const LISTING_REPLY_BYTES: u32 = 64 << 10;

/// Maximum length of a name in bytes.
///
/// **Source:** Linux, include/uapi/linux/limits.h: NAME_MAX.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Maximum number of bits per worker for tracking touched blocks. This takes 1 MB, which fits into
/// most second-level caches.
pub(crate) const TOUCHED_BITS_MAX: u64 = 8 << 20;

/// Maximum number of bits per worker for the blocks of an op mix that a server may lose: 4 MiB,
/// enough for 32 GiB in units of 1 KiB. For larger sets, only verifiers are tracked.
pub(crate) const UNCOMMITTED_BITS_MAX: usize = 32 << 20;

/// How much delay a bandwidth cap may catch up on, in nanoseconds. It covers sleeps that take too
/// long without causing noticeable bursts.
pub(crate) const CAP_CREDIT_NS: u64 = 10_000_000;

/// How often a worker whose time is up checks whether it is up for all others, in nanoseconds.
pub(crate) const WEAR_OUT_POLL_NS: u64 = 100_000;

/// How long workers stay awake before their start time, in nanoseconds. It covers the wakeup from a
/// CPU's deepest sleep state, which takes about 100 us.
pub(crate) const AWAKE_NS: u64 = 100_000;

/// Initial interval of the timeline if several hosts work together, in nanoseconds.
pub(crate) const TIMELINE_STEP_NS: u64 = 5_000_000;

/// Maximum number of points in a timeline. When it is reached, the interval is doubled.
pub(crate) const TIMELINE_POINTS_MAX: usize = 256;

/// Maximum number of intervals of a pass whose response times are kept: an hour of seconds. When it
/// is exceeded, the interval is doubled.
pub(crate) const INTERVAL_TIMES_MAX: usize = 3_600;

/// How long a worker may take to return delegations at the end of its pass, in nanoseconds. The
/// server forgets the rest when the lease expires.
pub(crate) const RETURN_WITHIN_NS: u64 = 5_000_000_000;

/// How often the metadata server is told how much data servers are used, if it has no preference.
/// **Source:** Linux, `FF_LAYOUTSTATS_REPORT_INTERVAL`.
pub(crate) const LAYOUT_STATS_INTERVAL: Duration = Duration::from_secs(60);

/// How long to wait until a layout that was lost is requested again. Recalls and refusals of the
/// same file double it, up to the maximum.
pub(crate) const LAYOUTGET_WAIT_MIN: Duration = Duration::from_millis(500);
pub(crate) const LAYOUTGET_WAIT_MAX: Duration = Duration::from_secs(32);

const _: () = assert!(STOPPED_CLEAN_UP_IDLE_MAX.as_nanos() < STOPPED_CLEAN_UP_MAX.as_nanos());
const _: () = assert!(STOPPED_CLEAN_UP_MAX.as_nanos() < CLEAN_UP_MAX.as_nanos());
const _: () = assert!(INTERVAL_TIMES_MAX.is_multiple_of(2));
const _: () = assert!(TIMELINE_POINTS_MAX.is_multiple_of(2));
const _: () = assert!(ALIGNMENT.is_power_of_two());
const _: () = assert!(TICK.as_millis() <= WATCH_TICK.as_millis());
