//! The settings of a run: what each is called and what it holds.
//!
//! [`Setting`] is the one list that the reader of plans, the flags, the matrix and the writer
//! share. A new setting is a line here, its place in a run (`level::fields`), where it counts
//! (`setting::concerns`), its limits and default (`limits`, `defaults`) and a row in the reference.
//! The order is that of the matrix: the last one varies fastest, and a default, or whether a
//! setting counts at all, may depend on those before it.

mod concerns;

pub use concerns::Family;

use model::{
    Arrivals, DataPath, Durability, FileSystem, Fill, Invalidation, NfsVersion, Pass, Proto, Raid,
    ServerKind, Sharing, Stable, XprtSec,
};

/// Makes the enum, with key, flag and kind of each setting.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident $key:literal $flag:literal $kind:ident;)+) => {
        /// A setting that may be a factor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Setting {
            $($(#[$doc])* $name,)+
        }

        impl Setting {
            /// All of them, in the order of the matrix.
            pub const ALL: [Self; [$($key),+].len()] = [$(Self::$name,)+];

            /// The key in a plan.
            pub const fn key(self) -> &'static str {
                match self { $(Self::$name => $key,)+ }
            }

            /// The flag of the command line.
            pub const fn flag(self) -> &'static str {
                match self { $(Self::$name => $flag,)+ }
            }

            /// What it holds.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)+ }
            }
        }
    };
}

settings! {
    /// By which way data travels between the program and the server's disk.
    DataPath "data_path" "--data-path" Word;
    /// Highest frequency of the server's processors.
    CpuFrequency "cpu_frequency" "--cpu-frequency" Frequency;
    /// Processors of the server that stay in use.
    Cores "cores" "--cores" Count;
    /// Further sysctls of the server.
    ServerSysctl "server_sysctl" "--server-sysctl" Words;
    /// Further sysctls of the client.
    ClientSysctl "client_sysctl" "--client-sysctl" Words;
    /// Bytes of the largest packet.
    Mtu "mtu" "--mtu" Count;
    /// Most bits per second that leave each host.
    RateLimit "rate_limit" "--rate-limit" BitRate;
    /// What each packet that leaves a host waits.
    Delay "delay" "--delay" MicroTime;
    /// Congestion control of TCP.
    Congestion "congestion" "--congestion" Text;
    /// Largest TCP buffers.
    TcpBuffer "tcp_buffer" "--tcp-buffer" Size;
    /// Calls under way per connection of the client's kernel.
    Slots "slots" "--slots" Count;
    /// What the server keeps files on.
    FileSystem "file_system" "--file-system" Word;
    /// How its disks are combined.
    Raid "raid" "--raid" Word;
    /// Encrypt them.
    Crypt "crypt" "--crypt" Flag;
    /// Arguments of mkfs.
    FormatOptions "format_options" "--format-options" Words;
    /// Options of the server's mount of its file system.
    FsMountOptions "fs_mount_options" "--fs-mount-options" Words;
    /// Which program serves NFS.
    ServerKind "server_kind" "--server-kind" Word;
    /// Options of the export.
    ExportOptions "export_options" "--export-options" Words;
    /// Threads of the server.
    NfsdThreads "nfsd_threads" "--nfsd-threads" Count;
    /// Compress what goes through a tunnel.
    TunnelCompression "tunnel_compression" "--tunnel-compression" Flag;
    /// Cipher of a tunnel.
    TunnelCipher "tunnel_cipher" "--tunnel-cipher" Text;
    /// Further options of the client's mount.
    MountOptions "mount_options" "--mount-options" Words;
    /// Read-ahead of the client's mount.
    BdiReadAhead "bdi_read_ahead" "--bdi-read-ahead" Count;
    /// What is done before a pass reads.
    Invalidation "invalidation" "--invalidation" Word;
    /// A setting that is not in force fails the run.
    Strict "strict" "--strict" Flag;
    /// Passes of a trial, in their order.
    Passes "passes" "--passes" Passes;
    /// Client hosts that work at one moment.
    ClientHosts "client_hosts" "--client-hosts" Count;
    /// Whose files a pass that reads works on.
    Neighbour "neighbour" "--neighbour" Count;
    /// How long a lost host is waited for.
    OnLost "on_lost" "--on-lost" Time;
    /// Threads with a recorder each, on each client host.
    Workers "workers" "--workers" Count;
    /// NFS clients that are emulated.
    Clients "clients" "--clients" Count;
    /// User ids that emulated clients have in turn.
    ClientUids "client_uids" "--client-uids" Count;
    /// Record each emulated client apart.
    PerClient "per_client" "--per-client" Flag;
    /// Ops that are offered per second, all workers together.
    Rate "rate" "--rate" Count;
    /// How due instants follow each other.
    Arrivals "arrivals" "--arrivals" Word;
    /// Which shares of ops an op mix has.
    Mix "mix" "--mix" Mix;
    /// File set of an op mix per op/s that is offered.
    SetPerRate "set_per_rate" "--set-per-rate" Size;
    /// Share of an op mix's files that data ops work on.
    AccessedPercent "accessed_percent" "--accessed-percent" Percent;
    /// Share of an op mix's writes that append.
    AppendPercent "append_percent" "--append-percent" Percent;
    /// Files in a directory of an op mix.
    FilesPerDirectory "files_per_directory" "--files-per-directory" Count;
    /// Data files, all workers together.
    Files "files" "--files" Count;
    /// Bytes of each data file.
    FileSize "file_size" "--file-size" Size;
    /// Small files, all workers together.
    SmallFiles "small_files" "--small-files" Count;
    /// Bytes written to each small file of metadata when it is created.
    SmallFileSize "small_file_size" "--small-file-size" Size;
    /// Who works in a tree of directories.
    TreeSharing "tree_sharing" "--tree-sharing" Word;
    /// Levels of directories.
    Depth "depth" "--depth" Count;
    /// Directories in each directory.
    Branching "branching" "--branching" Count;
    /// Transactions, all workers together.
    Transactions "transactions" "--transactions" Count;
    /// Smallest file of the pool.
    SizeMin "size_min" "--size-min" Size;
    /// Largest file of the pool.
    SizeMax "size_max" "--size-max" Size;
    /// Of reads and appends: reads.
    ReadBias "read_bias" "--read-bias" Percent;
    /// Of creations and removals: creations.
    CreateBias "create_bias" "--create-bias" Percent;
    /// Directories that the pool is spread over.
    Subdirectories "subdirectories" "--subdirectories" Count;
    /// Bytes of one read or write.
    IoSize "io_size" "--io-size" Size;
    /// Who works on a data file.
    Sharing "sharing" "--sharing" Word;
    /// Bytes that one worker has in a row of a shared file.
    BlockSize "block_size" "--block-size" Size;
    /// Blocks from one op of a strided read to the next.
    Stride "stride" "--stride" Count;
    /// Ops in flight per worker.
    QueueDepth "queue_depth" "--queue-depth" Count;
    /// Version of NFS.
    NfsVers "nfsvers" "--nfsvers" Word;
    /// What RPC runs over.
    Proto "proto" "--proto" Word;
    /// How the transport is protected.
    XprtSec "xprtsec" "--xprtsec" Word;
    /// Connections of one client.
    Nconnect "nconnect" "--nconnect" Count;
    /// Largest payload of one READ or WRITE on the wire.
    TransferSize "transfer_size" "--transfer-size" Size;
    /// Transfers in flight beyond what a sequential reader asks for.
    ReadAhead "read_ahead" "--read-ahead" Count;
    /// Transfers in flight after the ops of a sequential writer have ended.
    WriteBehind "write_behind" "--write-behind" Count;
    /// How safe a WRITE must be before it is answered.
    Stable "stable" "--stable" Word;
    /// How long an answer over UDP is waited for before the call is sent again.
    Timeo "timeo" "--timeo" Time;
    /// How often a call over UDP is sent again.
    Retrans "retrans" "--retrans" Count;
    /// Share of reads in a mix.
    ReadPercent "read_percent" "--read-percent" Percent;
    /// Share of a mix's ops that go to a random place.
    RandomPercent "random_percent" "--random-percent" Percent;
    /// How unequal the chances of random places are.
    Skew "skew" "--skew" Percent;
    /// How long a mix runs.
    Duration "duration" "--duration" Time;
    /// Work before anything counts.
    Warmup "warmup" "--warmup" Time;
    /// Rise of the offered load before anything counts.
    Ramp "ramp" "--ramp" Time;
    /// Pause after each op of a closed loop.
    ThinkTime "think_time" "--think-time" FineTime;
    /// Most bytes per second, all workers together.
    Bandwidth "bandwidth" "--bandwidth" Size;
    /// Most time of a pass that its files would end.
    TimeMax "time_max" "--time-max" Time;
    /// Most ops of a pass, all workers together.
    Ops "ops" "--ops" Count;
    /// Most bytes of a pass, all workers together.
    Bytes "bytes" "--bytes" Size;
    /// Length of an interval sample.
    Interval "interval" "--interval" Time;
    /// Time without a completion that is a stall.
    Stall "stall" "--stall" Time;
    /// Bypass the page cache.
    Direct "direct" "--direct" Flag;
    /// Move data by memory mapping.
    Mmap "mmap" "--mmap" Flag;
    /// When written data must be safe.
    Durability "durability" "--durability" Word;
    /// Close files inside the timed window.
    TimedClose "timed_close" "--timed-close" Flag;
    /// Drop the files from the page cache before they are read.
    Invalidate "invalidate" "--invalidate" Flag;
    /// What written bytes look like.
    Data "data" "--data" Word;
    /// Share of each block that compresses away.
    Compress "compress" "--compress" Percent;
    /// Share of blocks that are there already.
    Dedup "dedup" "--dedup" Percent;
    /// Put campaign, file, offset, generation and checksum into each block.
    Stamp "stamp" "--stamp" Flag;
    /// Compare what is read with what was written.
    Verify "verify" "--verify" Flag;
    /// An answer that takes longer is a failure.
    Timeout "timeout" "--timeout" Time;
}

/// What a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Size,
    /// A whole number.
    Count,
    /// A share, in whole percent.
    Percent,
    /// Milliseconds.
    Time,
    /// Nanoseconds.
    FineTime,
    /// Microseconds.
    MicroTime,
    /// Bits per second.
    BitRate,
    /// kHz.
    Frequency,
    /// Yes or no.
    Flag,
    /// One of [`Setting::words`].
    Word,
    /// The name of a mix of `workload::opmix`.
    Mix,
    /// Names of passes with `+` between them, or `usual`.
    Passes,
    /// A name that is known elsewhere.
    Text,
    /// Several words, such as options; see [`Setting::separator`].
    Words,
}

/// One level of a setting, within its limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// In bytes, pieces, percent or units of time, rate and frequency, as [`Setting::kind`] says.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// One of [`Setting::words`].
    Word(&'static str),
    /// Passes in their order; empty for the usual ones.
    Passes(Vec<Pass>),
    /// A name that is known elsewhere.
    Text(String),
    /// Several words in their order; none where there are none.
    Words(Vec<String>),
    /// What others choose: see [`Setting::open`].
    Open,
}

impl Setting {
    /// Those that may also stand in an address or a `[[target]]`: how the server is spoken to.
    pub const OF_TARGETS: [Self; 7] = [
        Self::NfsVers,
        Self::Proto,
        Self::XprtSec,
        Self::Nconnect,
        Self::TransferSize,
        Self::Timeo,
        Self::Retrans,
    ];

    /// The word for a level that is left to others: to the server, or as a host has it.
    pub const fn open(self) -> Option<&'static str> {
        match self {
            Self::TransferSize => Some("server"),
            Self::OnLost => Some("continue"),
            Self::CpuFrequency
            | Self::Cores
            | Self::Mtu
            | Self::RateLimit
            | Self::Delay
            | Self::Congestion
            | Self::TcpBuffer
            | Self::Slots
            | Self::TunnelCipher
            | Self::BdiReadAhead => Some("unchanged"),
            _ => None,
        }
    }

    /// What stands between the words of one level of [`Kind::Words`].
    pub const fn separator(self) -> char {
        match self {
            Self::FormatOptions => ' ',
            Self::ServerSysctl | Self::ClientSysctl => '+',
            _ => ',',
        }
    }

    /// Says whether its words look like numbers, and may be written as such.
    pub(crate) const fn looks_numeric(self) -> bool {
        matches!(self, Self::NfsVers | Self::Raid)
    }

    /// The words that it may be; none where it holds no word.
    pub const fn words(self) -> &'static [&'static str] {
        match self {
            Self::DataPath => DataPath::NAMES,
            Self::FileSystem => FileSystem::NAMES,
            Self::Raid => Raid::NAMES,
            Self::ServerKind => ServerKind::NAMES,
            Self::Invalidation => Invalidation::NAMES,
            Self::NfsVers => NfsVersion::NAMES,
            Self::Proto => Proto::NAMES,
            Self::XprtSec => XprtSec::NAMES,
            Self::Stable => Stable::NAMES,
            Self::Durability => Durability::NAMES,
            Self::Sharing | Self::TreeSharing => Sharing::NAMES,
            Self::Arrivals => Arrivals::NAMES,
            Self::Data => Fill::NAMES,
            _ => &[],
        }
    }
}
