//! What a setting may be, and why not more.
//!
//! Every limit of the plan stands here, with its reason, which is also the hint a user gets. The
//! relations between limits are asserted at compile time, so that products of settings fit the
//! integers that hold them.

use model::units::Size;

use crate::setting::{Kind, Setting};
use crate::text::{self, either};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Legal values of a number, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Why it ends there; the hint for those who want more.
    pub reason: &'static str,
}

/// No soak lasts longer, in milliseconds: a day, as the `duration` of its mix.
pub const SOAK_MS_MAX: u64 = 24 * 3_600_000;
/// Trials that never count.
pub const WARMUP_TRIALS: Range =
    Range { min: 0, max: 100, reason: "a warm machine is warm after a few" };
/// How wide half an interval may be, in thousandths of the median.
pub const UNTIL_PERMILLE: Range =
    Range { min: 1, max: 500, reason: "an interval as wide as the figure says nothing" };
/// Trials that are always made before an interval is asked: up to so many it is their range.
pub const UNTIL_TRIALS_MIN: u32 = 5;
/// Without the highest and the lowest there must be one left.
pub const DISCARD_TRIALS_MIN: u32 = 3;
/// Repetitions of one run.
pub const TRIALS: Range =
    Range { min: 1, max: 1_000, reason: "a few trials show the spread; 5 to 30 are usual" };

/// Memory of the in-memory server, in bytes.
pub const SERVER_MEMORY: Range =
    Range { min: MIB, max: TIB, reason: "file data is held in memory, up to this bound" };

/// Threads of the in-memory server.
pub const SERVER_THREADS: Range =
    Range { min: 1, max: 64, reason: "each thread runs an event loop; more than cores is waste" };

/// Agents on one host.
pub const SLOTS_OF_HOST: Range =
    Range { min: 1, max: 4_096, reason: "each is a process, and a host runs only so many" };

/// Bytes of the file of a loop device: the smallest that every file system fits in.
///
/// **Source:** mkfs.xfs(8): 300 MiB since 5.19.
pub const LOOP_SIZE: Range =
    Range { min: 16 * MIB, max: TIB, reason: "the server's disk must hold it" };

/// Most bytes of a tmpfs.
pub const TMPFS_SIZE: Range = Range { min: MIB, max: TIB, reason: "it is the server's memory" };

/// Runs of one plan: a list of them is still readable, and so is the time they take.
pub const RUNS_MAX: usize = 10_000;

/// Memory of all buffers of a run, in bytes: more would measure swapping.
pub const BUFFERS_MAX: u64 = 4 * GIB;

/// What `O_DIRECT` asks of sizes, in bytes: the smallest logical block of a disk.
///
/// **Source:** open(2), NOTES, O_DIRECT.
pub const DIRECT_ALIGNMENT: u64 = 512;

/// What the in-memory server holds for a file beside its data, in bytes: 384 for the inode, 128
/// for the entry and 9 for the name, rounded up, which pays for the directories too.
///
/// **Source:** `nfs-server`, `fs/inode.rs` and `fs/directory.rs`.
pub const SERVER_FILE_OVERHEAD: u64 = 640;

/// The in-memory server holds data in blocks of this size, in bytes; the last of a file is a
/// smaller power of two, but not below [`SERVER_BLOCK_MIN`].
///
/// **Source:** `nfs-server`, `fs/block.rs`.
pub const SERVER_BLOCK: u64 = 256 * KIB;

/// Smallest block of the in-memory server, in bytes.
pub const SERVER_BLOCK_MIN: u64 = 512;

/// Directories of one tree.
pub const DIRECTORIES_MAX: u64 = 1_000_000;

/// Characters of a name: it must fit the first column of a table.
pub const NAME_LENGTH_MAX: usize = 64;

const IO_SIZE: Range =
    Range { min: 1, max: 64 * MIB, reason: "each op in flight holds a buffer of this size" };
const FILE_SIZE: Range =
    Range { min: 1, max: TIB, reason: "a larger set is better spread over more files" };
const FILES: Range =
    Range { min: 1, max: 10_000_000, reason: "the state of each file is kept in memory" };
const SMALL_FILE_SIZE: Range =
    Range { min: 0, max: MIB, reason: "each small file is written with one op" };
const WORKERS: Range = Range { min: 1, max: 1_024, reason: "each worker is a thread of its own" };
const CLIENT_HOSTS: Range =
    Range { min: 1, max: 10_000, reason: "the controller keeps a connection to each" };
const NEIGHBOUR: Range = Range { min: 0, ..CLIENT_HOSTS };
const LOST_WAIT_MS: Range =
    Range { min: 1_000, max: 3_600_000, reason: "a host that is gone for an hour stays away" };
const QUEUE_DEPTH: Range =
    Range { min: 1, max: 4_096, reason: "an io_uring or a connection holds no more in flight" };
const PERCENT: Range = Range { min: 0, max: 100, reason: "it is a share, in percent" };
const DURATION_MS: Range =
    Range { min: 1, max: 86_400_000, reason: "a trial is a sample, not a soak: at most a day" };
/// **Source:** Linux, `include/linux/nfs_xdr.h`, `NFS_MIN_FILE_IO_SIZE`, `NFS_MAX_FILE_IO_SIZE`.
const TRANSFER_SIZE: Range =
    Range { min: KIB, max: 4 * MIB, reason: "kernels take no other rsize or wsize either" };
/// **Source:** RFC 791: every host takes 576 bytes, and lengths have 16 bits.
const MTU: Range = Range { min: 576, max: 65_535, reason: "an IPv4 packet is no larger" };
const RATE_LIMIT: Range =
    Range { min: 8_000, max: 1_000_000_000_000, reason: "no link is as fast" };
const DELAY_US: Range =
    Range { min: 1, max: 10_000_000, reason: "no network on earth keeps a packet for so long" };
/// **Source:** Linux, tcp_rmem and tcp_wmem are signed 32-bit numbers.
const TCP_BUFFER: Range =
    Range { min: 4 * KIB, max: 2 * GIB - 1, reason: "kernels count them in 31 bits" };
/// **Source:** Linux, `include/linux/sunrpc/xprt.h`, `RPC_MIN_SLOT_TABLE`,
/// `RPC_MAX_SLOT_TABLE_LIMIT`.
const SLOTS: Range = Range { min: 2, max: 65_536, reason: "kernels take no more" };
const CPU_KHZ: Range = Range { min: 100_000, max: 10_000_000, reason: "no processor is as fast" };
const CORES: Range = Range { min: 1, max: 8_192, reason: "kernels know no more processors" };
const NFSD_THREADS: Range =
    Range { min: 0, max: 4_096, reason: "beyond some hundreds they only wait for each other" };
const BDI_READ_AHEAD_KIB: Range =
    Range { min: 0, max: MIB, reason: "a gigabyte that nobody asked for is enough" };
/// **Source:** nfs(5), nconnect.
const NCONNECT: Range = Range { min: 1, max: 16, reason: "kernels take no other nconnect either" };
const CLIENTS: Range = Range {
    min: 0,
    max: 20_000,
    reason: "each has a connection, and systems give a process some 20,000 descriptors",
};
const CLIENT_UIDS: Range =
    Range { min: 1, max: CLIENTS.max, reason: "there are no more clients than that" };
const TRANSFERS_AHEAD: Range =
    Range { min: 0, max: 1_024, reason: "a connection holds no more in flight" };
/// **Source:** nfs(5), timeo: at most ten minutes.
const TIMEO_MS: Range =
    Range { min: 1, max: 600_000, reason: "a datagram that is lost is not missed so late" };
const RETRANS: Range =
    Range { min: 0, max: 30, reason: "each time the wait is doubled: further ones never come" };
const INTERVAL_MS: Range =
    Range { min: 100, max: 60_000, reason: "a minute hides what an interval is to show" };
const STALL_MS: Range =
    Range { min: 0, max: 3_600_000, reason: "nobody waits for a completion for over an hour" };
const THINK_TIME_NS: Range = Range {
    min: 0,
    max: 60_000_000_000,
    reason: "a worker that pauses for over a minute measures nothing",
};
const RATE: Range =
    Range { min: 0, max: 100_000_000, reason: "due instants are whole nanoseconds, in order" };
const BANDWIDTH: Range =
    Range { min: 0, max: TIB, reason: "no link is as fast, and a cap that is never met is none" };
const SKEW: Range =
    Range { min: 0, max: 300, reason: "beyond an exponent of 3 one place has it all" };
const OPS: Range = Range { min: 0, max: 1_000_000_000, reason: "a trial is a sample, not a soak" };
const BYTES: Range = Range { min: 0, max: 1 << 50, reason: "a trial is a sample, not a soak" };
const STRIDE: Range = Range { min: 2, max: 1_000_000, reason: "a stride beyond the file is none" };
const DEPTH: Range = Range { min: 0, max: 64, reason: "a path has 4096 bytes at most" };
const BRANCHING: Range =
    Range { min: 1, max: 10_000, reason: "each level has so many times the directories" };
const SUBDIRECTORIES: Range =
    Range { min: 0, max: 100_000, reason: "each is made before the clock starts" };
const FILES_PER_DIRECTORY: Range =
    Range { min: 1, max: 1_000_000, reason: "the state of each file is kept in memory" };
const SET_PER_RATE: Range =
    Range { min: 0, max: GIB, reason: "published rules ask for 120 MiB at most" };
const POOL_FILE_SIZE: Range =
    Range { min: 0, max: 16 * MIB, reason: "it is a pool of small files" };
const TIMEOUT_MS: Range =
    Range { min: 1, max: 86_400_000, reason: "nobody waits for a program for over a day" };

// A set of files has a size in 64 bits, also in whole blocks of the server; a small file has one
// in the 32 bits of `io_size`.
const _: () = assert!(FILE_SIZE.max <= u64::MAX / FILES.max);
const _: () = assert!(FILE_SIZE.max.is_multiple_of(SERVER_BLOCK));
const _: () = assert!(SMALL_FILE_SIZE.max <= IO_SIZE.max && IO_SIZE.max <= u32::MAX as u64);
// The product of all that a run has in flight fits in 64 bits before it is compared.
const _: () = assert!(CLIENTS.max * QUEUE_DEPTH.max <= u64::MAX / IO_SIZE.max);
const _: () = assert!(WORKERS.max <= CLIENTS.max);
const _: () = assert!(FILES.max <= u32::MAX as u64 && FILES.min >= 1);
// All workers of all hosts can be counted, and so can a file for each.
const _: () = assert!(CLIENT_HOSTS.max * WORKERS.max <= u32::MAX as u64);

/// The legal values of a setting that is a number.
pub const fn range(setting: Setting) -> Option<Range> {
    Some(match setting {
        Setting::Mtu => MTU,
        Setting::RateLimit => RATE_LIMIT,
        Setting::Delay => DELAY_US,
        Setting::TcpBuffer => TCP_BUFFER,
        Setting::Slots => SLOTS,
        Setting::CpuFrequency => CPU_KHZ,
        Setting::Cores => CORES,
        Setting::NfsdThreads => NFSD_THREADS,
        Setting::BdiReadAhead => BDI_READ_AHEAD_KIB,
        Setting::IoSize => IO_SIZE,
        Setting::FileSize => FILE_SIZE,
        Setting::Files | Setting::SmallFiles => FILES,
        Setting::SmallFileSize => SMALL_FILE_SIZE,
        Setting::ClientHosts => CLIENT_HOSTS,
        Setting::Neighbour => NEIGHBOUR,
        Setting::OnLost => LOST_WAIT_MS,
        Setting::Workers => WORKERS,
        Setting::QueueDepth => QUEUE_DEPTH,
        Setting::ReadPercent
        | Setting::RandomPercent
        | Setting::AccessedPercent
        | Setting::AppendPercent
        | Setting::ReadBias
        | Setting::CreateBias
        | Setting::Compress
        | Setting::Dedup => PERCENT,
        Setting::Duration => DURATION_MS,
        Setting::Skew => SKEW,
        Setting::Warmup | Setting::Ramp | Setting::TimeMax => Range { min: 0, ..DURATION_MS },
        Setting::ThinkTime => THINK_TIME_NS,
        Setting::Interval => INTERVAL_MS,
        Setting::Stall => STALL_MS,
        Setting::Rate => RATE,
        Setting::Bandwidth => BANDWIDTH,
        Setting::Ops => OPS,
        Setting::Transactions => Range { min: 1, ..OPS },
        Setting::Bytes => BYTES,
        Setting::BlockSize => Range { min: 0, ..FILE_SIZE },
        Setting::Stride => STRIDE,
        Setting::Depth => DEPTH,
        Setting::Branching => BRANCHING,
        Setting::Subdirectories => SUBDIRECTORIES,
        Setting::FilesPerDirectory => FILES_PER_DIRECTORY,
        Setting::SetPerRate => SET_PER_RATE,
        Setting::SizeMin | Setting::SizeMax => POOL_FILE_SIZE,
        Setting::TransferSize => TRANSFER_SIZE,
        Setting::Timeout => TIMEOUT_MS,
        Setting::Clients => CLIENTS,
        Setting::ClientUids => CLIENT_UIDS,
        Setting::Nconnect => NCONNECT,
        Setting::ReadAhead | Setting::WriteBehind => TRANSFERS_AHEAD,
        Setting::Timeo => TIMEO_MS,
        Setting::Retrans => RETRANS,
        Setting::Direct
        | Setting::PerClient
        | Setting::Mmap
        | Setting::TimedClose
        | Setting::Data
        | Setting::Stamp
        | Setting::Passes
        | Setting::Mix
        | Setting::Arrivals
        | Setting::Sharing
        | Setting::TreeSharing
        | Setting::Invalidate
        | Setting::Durability
        | Setting::Verify
        | Setting::NfsVers
        | Setting::Proto
        | Setting::XprtSec
        | Setting::Stable
        | Setting::DataPath
        | Setting::ServerSysctl
        | Setting::ClientSysctl
        | Setting::Congestion
        | Setting::FileSystem
        | Setting::Raid
        | Setting::Crypt
        | Setting::FormatOptions
        | Setting::FsMountOptions
        | Setting::ServerKind
        | Setting::ExportOptions
        | Setting::TunnelCompression
        | Setting::TunnelCipher
        | Setting::MountOptions
        | Setting::Invalidation
        | Setting::Strict => return None,
    })
}

/// Says what a setting may be, for people: `1 B to 64 MiB`, `true or false`.
pub fn legal(setting: Setting) -> String {
    let numbers = |shown: &dyn Fn(u64) -> String| {
        range(setting).map_or_else(String::new, |range| span(range, shown))
    };
    let legal = match setting.kind() {
        Kind::Size => numbers(&show_size),
        Kind::Count | Kind::Percent => numbers(&|number| number.to_string()),
        Kind::Time => numbers(&text::time),
        Kind::FineTime => numbers(&text::time_ns),
        Kind::MicroTime => numbers(&|us| text::time_ns(us * 1_000)),
        Kind::BitRate => numbers(&text::bit_rate),
        Kind::Frequency => numbers(&text::frequency),
        Kind::Text => "a name".to_owned(),
        Kind::Words => match setting.separator() {
            ' ' => "arguments with a space between them".to_owned(),
            '+' => "name=value, with `+` between several".to_owned(),
            _ => "options with `,` between them".to_owned(),
        },
        Kind::Flag => "true or false".to_owned(),
        Kind::Mix => {
            either(&workload::opmix::PROFILES.iter().map(|mix| mix.name).collect::<Vec<_>>())
        }
        Kind::Passes => "names with `+` between them, or \"usual\"".to_owned(),
        Kind::Word => either(&words(setting).iter().map(String::as_str).collect::<Vec<_>>()),
    };
    match setting.open() {
        Some(word) => format!("{legal}, or \"{word}\""),
        None => legal,
    }
}

/// One legal word of a setting, as a plan writes it.
pub(crate) fn example(setting: Setting) -> String {
    words(setting).swap_remove(0)
}

/// The words of a setting as a plan writes them; versions look better bare.
fn words(setting: Setting) -> Vec<String> {
    let bare = setting == Setting::NfsVers;
    let words = setting.words().iter();
    words.map(|word| if bare { (*word).to_owned() } else { format!("\"{word}\"") }).collect()
}

/// Prints both ends of a range.
pub(crate) fn span(range: Range, shown: &dyn Fn(u64) -> String) -> String {
    format!("{} to {}", shown(range.min), shown(range.max))
}

/// Prints bytes for people.
pub(crate) fn show_size(bytes: u64) -> String {
    Size(bytes).to_string()
}
