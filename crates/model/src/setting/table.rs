//! The one table of settings: a row each, with everything that is known about it.
//!
//! Plan reader, flags, help, reference page, dry run, tables, CSV, JSON and `--where` are made
//! from these rows, so adding a setting is a row here and the field of [`RunSpec`] that it names.
//! A row's doc comment is its help text. The order is that of the matrix: the last setting varies
//! fastest, and a default, or whether a setting applies at all, may depend on those before it.
//!
//! [`RunSpec`]: crate::RunSpec
#![allow(clippy::wildcard_imports, reason = "they are the words that rows are written with")]

use super::Family;
use super::applies::*;
use super::field::{Place, lab, nfs, run};
use super::row::Stated::{Flag, Number, Text, Word};
use super::row::*;
use crate::lab::{DataPath, FileSystem, Fresh, Invalidation, Raid, ServerKind, TunnelForwards};
use crate::nfs::{NfsVersion, Proto, Stable, UdpWindow, XprtSec};
use crate::spec::Durability;
use crate::work::{Arrivals, Fill, Sharing};
use crate::workload::Workload as W;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Makes the enum of settings and the table of their rows.
macro_rules! settings {
    ($($(#[doc = $meaning:literal])+ $name:ident => $row:expr;)+) => {
        /// A setting that may be a factor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Setting {
            $($(#[doc = $meaning])+ $name,)+
        }

        impl Setting {
            /// Lists all of them, in the order of the matrix.
            pub const ALL: [Self; ROWS.len()] = [$(Self::$name,)+];
        }

        /// The rows, in the order of [`Setting::ALL`].
        pub(super) const ROWS: [Row; [$(stringify!($name)),+].len()] =
            [$($row.meaning(concat!($($meaning),+)),)+];
    };
}

#[rustfmt::skip] // a row is a paragraph
settings! {
    /// disk: the program works on the server, without NFS. loopback: there, on a mount of the
    /// server's own export. network: on the client. tunnel: on the client, through ssh. Only for
    /// targets with `server`.
    DataPath => word("data_path", lab!(path), DataPath::NAMES)
        .default_rule("network; without a client: loopback").always_shown();
    /// Highest frequency of the server's processors.
    CpuFrequency => frequency("cpu_frequency", lab!(tuning.cpu_khz))
        .range(100_000, 10_000_000, "no processor is as fast").open("unchanged");
    /// Processors of the server that stay online.
    Cores => count("cores", lab!(tuning.cores)).unit("processors")
        .range(1, 8_192, "kernels know no more processors").open("unchanged");
    /// Memory that the server has left; huge pages hold the rest.
    ServerRam => size("server_ram", lab!(tuning.server_ram_bytes))
        .range(64 * MIB, 1 << 50, "below it kernels and programs have no room").open("unchanged");
    /// Memory that each client has left; huge pages hold the rest. Not for data_path disk and
    /// loopback.
    ClientRam => size("client_ram", lab!(tuning.client_ram_bytes))
        .range(64 * MIB, 1 << 50, "below it kernels and programs have no room").open("unchanged")
        .when(leaves_server);
    /// Further sysctls of the server.
    ServerSysctl => words("server_sysctl", lab!(tuning.server_sysctls)).separator('+');
    /// Further sysctls of the client. Not for data_path disk and loopback.
    ClientSysctl => words("client_sysctl", lab!(tuning.client_sysctls)).separator('+')
        .when(leaves_server);
    /// Largest packet, on both hosts. Only for data_path network and tunnel.
    // RFC 791: every host takes 576 bytes, and lengths have 16 bits.
    Mtu => count("mtu", lab!(tuning.mtu_bytes)).unit("bytes")
        .range(576, 65_535, "an IPv4 packet is no larger").open("unchanged").when(leaves_server);
    /// Most bits per second that leave each host. Only for data_path network and tunnel.
    RateLimit => bit_rate("rate_limit", lab!(tuning.rate_bits_per_s))
        .range(8_000, 1_000_000_000_000, "no link is as fast").open("unchanged")
        .when(leaves_server);
    /// Delay of each packet that leaves a host: the round trip is longer by twice that. Only
    /// for data_path network and tunnel.
    Delay => micro_time("delay", lab!(tuning.delay_us))
        .range(1, 10_000_000, "no network on earth keeps a packet for so long").open("unchanged")
        .when(leaves_server);
    /// Congestion control of TCP on both hosts, such as cubic or bbr. Not for data_path disk.
    Congestion => text("congestion", lab!(tuning.congestion)).open("unchanged").when(is_served);
    /// Largest TCP buffers on both hosts. Not for data_path disk.
    // Linux: tcp_rmem and tcp_wmem are signed 32-bit numbers.
    TcpBuffer => size("tcp_buffer", lab!(tuning.tcp_buffer_bytes))
        .range(4 * KIB, 2 * GIB - 1, "kernels count them in 31 bits").open("unchanged")
        .when(is_served);
    /// Calls in flight per connection of the client's kernel. Not for nfs, nor for data_path disk.
    // Linux, include/linux/sunrpc/xprt.h: RPC_MIN_SLOT_TABLE, RPC_MAX_SLOT_TABLE_LIMIT.
    Slots => count("slots", lab!(tuning.slots)).unit("calls")
        .range(2, 65_536, "kernels take no more").open("unchanged").when(mounts_nfs);
    /// File system that the server keeps files on; made before the first run that needs it. For
    /// targets with `server`.
    FileSystem => word("file_system", lab!(storage.file_system), FileSystem::NAMES)
        .default_rule("existing with a directory, ext4 with devices, else tmpfs")
        .when(has_storage).always_shown();
    /// How the devices are combined (md). Only for file systems on devices.
    Raid => word("raid", lab!(storage.raid), Raid::NAMES).when(is_formatted);
    /// Chunk of the array: what is on one device before the next one's begins. Only for raid 0, 5,
    /// 6 and 10.
    // md(4): a multiple of 4 KiB.
    RaidChunk => size("raid_chunk", lab!(storage.chunk_bytes))
        .range(4 * KIB, 64 * MIB, "beyond it one device does all the work").open("usual")
        .when(has_chunks);
    /// Encrypt the device with a key that is thrown away (dm-crypt). Only for file systems on
    /// devices.
    Crypt => flag("crypt", lab!(storage.crypt)).when(is_formatted);
    /// Cipher of dm-crypt, such as aes-cbc-essiv:sha256; usual is aes-xts-plain64. Only with crypt.
    CryptCipher => text("crypt_cipher", lab!(storage.cipher)).open("usual").when(is_encrypted);
    /// Bits of its key; usual is 512, which XTS halves. Only with crypt.
    CryptKey => count("crypt_key", lab!(storage.key_bits)).unit("bits")
        .range(64, 1_024, "no cipher takes a longer one").open("usual").when(is_encrypted);
    /// Further arguments of mkfs. Only for file systems on devices.
    FormatOptions => words("format_options", lab!(storage.format_options)).separator(' ')
        .when(is_formatted);
    /// Options of the server's mount of its file system, such as noatime. Not for existing.
    FsMountOptions => words("fs_mount_options", lab!(storage.mount_options))
        .when(is_new_file_system);
    /// Program that serves: the kernel, NFS-Ganesha, unfs3, one that runs already and is left
    /// alone, or this program's own server, in memory (`tmpfs_size`) and on port 20492. Not for
    /// data_path disk.
    ServerKind => word("server_kind", lab!(serving.kind), ServerKind::NAMES)
        .when(has_server_kind);
    /// Settings of the target's system, as name=value. Only for targets with `system`.
    SystemSettings => words("system_settings", lab!(system_settings)).separator('+')
        .when(is_system);
    /// Options of exports(5), such as async. Only for knfsd.
    ExportOptions => words("export_options", lab!(serving.export_options)).when(is_knfsd);
    /// Threads of the server; 0 leaves them as they are. Only for knfsd and ganesha.
    NfsdThreads => count("nfsd_threads", lab!(serving.threads)).unit("threads")
        .range(0, 4_096, "beyond some hundreds they only wait for each other")
        .when(has_nfsd_threads);
    /// Traffic that the tunnel carries. ports: connections to the server's ports, TCP alone (ssh
    /// -L). packets: everything, by a tun device on both hosts (ssh -w); needs root on both, and
    /// PermitTunnel in the server's sshd_config. Only for data_path tunnel.
    TunnelForwards => word("tunnel_forwards", lab!(tunnelling.forwards), TunnelForwards::NAMES)
        .when(is_tunnel);
    /// Compress what goes through the tunnel (ssh -C). Only for data_path tunnel.
    TunnelCompression => flag("tunnel_compression", lab!(tunnelling.compression)).when(is_tunnel);
    /// Cipher of the tunnel (ssh -c). Only for data_path tunnel.
    TunnelCipher => text("tunnel_cipher", lab!(tunnelling.cipher)).open("unchanged")
        .when(is_tunnel);
    /// Further options of nfs(5), such as noac. Not for nfs, nor for data_path disk.
    MountOptions => words("mount_options", lab!(mounting.options)).when(is_mounted);
    /// Read-ahead of the client's mount. Not for nfs, nor for data_path disk.
    BdiReadAhead => kib("bdi_read_ahead", lab!(mounting.read_ahead_kib))
        .range(0, MIB, "more is never read in time").open("unchanged")
        .when(is_mounted);
    /// Steps before a pass reads. files: the files leave the page cache of the host that
    /// works. caches: that is emptied, and the server's. remount: the client mounts again.
    /// server-remount, server-restart: so does, or so begins, the server. Each includes those
    /// before it. Only for targets with `server`; others have invalidate.
    Invalidation => word("invalidation", lab!(invalidation), Invalidation::NAMES)
        .default_rule("caches").always_shown();
    /// When file systems, exports and mounts are made again though nothing of them has changed.
    /// campaign: never. run: before another run than the last. trial: before each trial. pass:
    /// also before each further pass of a trial, exports and mounts alone, since it needs the
    /// files. Arrays and mappings are kept. Only for targets with `server`.
    Fresh => word("fresh", lab!(fresh), Fresh::NAMES);
    /// A setting that is not effective fails the run; otherwise it is reported as a caveat. Only
    /// for targets with `server`.
    Strict => flag("strict", lab!(strict));
    /// Passes of a trial, in their order: write+read of a stream, create+stat+remove of metadata.
    Passes => passes("passes", run!(passes)).only(WITH_PASSES);
    /// How many client hosts work at one moment: the first of the target's `clients` or `hosts`.
    /// Hosts count, however many agents each of them has. External tools can't be run by more than
    /// one.
    ClientHosts => count("client_hosts", run!(placement.hosts)).unit("hosts")
        .range(1, 10_000, "the controller keeps a connection to each")
        .default_rule("all of the target").only(ALL).when(has_client_hosts);
    /// How many agents work on each client host, each a process of its own that plays a client: at
    /// most as many as the host has `slots`, or as a job has started there. Only where a host has
    /// several.
    AgentsPerHost => count("agents_per_host", run!(placement.agents_per_host)).unit("agents")
        .range(1, 4_096, "each is a process of its own").open("all").when(shares_hosts);
    /// Read the files written by the client N places on, which its own cache can't hold (IOR -C,
    /// mdtest -N); 0: the files that it wrote itself. Only for several client hosts.
    Neighbour => count("neighbour", run!(placement.neighbour)).unit("places")
        .range(0, 10_000, "the controller keeps a connection to each").when(has_several_agents);
    /// Whether a directory must be one and the same on all client hosts, seen through equal mounts.
    /// A host on which it isn't mounted is refused by name; false lets each host have a directory
    /// of its own. Only for directories and several client hosts.
    Shared => flag("shared", run!(placement.shared)).default(Flag(true))
        .when(shares_a_directory);
    /// How long a host that is lost is waited for before a trial that needs it is given up;
    /// continue: wait 30 s after each loss, then go on without that host. Only for
    /// client hosts, and targets with `server`.
    OnLost => time("on_lost", run!(placement.lost_wait_ms))
        .range(1_000, 3_600_000, "a host that is gone for an hour will not come back").open("continue")
        .when(has_hosts);
    /// Threads that issue ops, each with a recorder of its own, on each client host.
    Workers => count("workers", run!(workers)).unit("threads")
        .range(1, 1_024, "each worker is a thread of its own").only(WITH_WORKERS).always_shown();
    /// CPUs that the workers of an agent run on, and with them the embedded server: the last of
    /// those that the agent may use. With 1, client and server take turns on one CPU, so neither
    /// waits until the other's CPU wakes up, and other programs can move to the rest.
    Cpus => count("cpus", run!(cpus)).unit("processors")
        .range(1, 8_192, "kernels know no more processors").open("all").only(WITH_WORKERS);
    /// NFS clients that are emulated, all client hosts together, each with connections and a name
    /// of its own; at least as many as workers, or 0 for one per worker. Only for nfs.
    Clients => count("clients", run!(clients)).family(Family::Nfs).unit("clients")
        .range(0, 20_000, "each has a connection, and a process gets some 20,000 descriptors");
    /// User ids that the emulated clients have in turn: client i sends the target's uid + (i mod
    /// client_uids). The working directory is then open to all. Only for nfs.
    ClientUids => count("client_uids", nfs!(client_uids)).unit("uids")
        .range(1, 20_000, "there are no more clients than that");
    /// Record the ops, bytes and service times of each emulated client apart (2.5 KiB for each),
    /// and report the slowest, the fastest and how fair it was. Only for nfs.
    PerClient => flag("per_client", nfs!(per_client));
    /// Offered load in ops per second, all workers together: an open loop, whose response times
    /// count from the instant an op is scheduled. 0 is a closed loop.
    Rate => count("rate", run!(load.rate_per_s)).family(Family::Load).unit("ops/s")
        .range(0, 100_000_000, "scheduled instants are whole nanoseconds, in order");
    /// How scheduled instants follow each other. Only with a rate.
    Arrivals => word("arrivals", run!(load.arrivals), Arrivals::NAMES).family(Family::Load)
        .when(has_rate);
    /// Shares of ops, sizes of files and of requests, as field studies found them; `shares` of a
    /// `[[workload]]` make one of your own. Only for op_mix.
    Mix => mix("mix", run!(op_mix.name)).family(Family::Names).default(Text("sfs3-like-v3"))
        .only(&[W::OpMix]).when(has_named_mix);
    /// File set of an op mix for each op/s of its rate. Only for op_mix.
    SetPerRate => size("set_per_rate", run!(op_mix.set_bytes_per_rate)).family(Family::Names)
        .range(0, GIB, "published rules ask for 120 MiB at most").only(&[W::OpMix]);
    /// Share of the files of an op mix that data is read from and written to. Only for op_mix.
    AccessedPercent => percent("accessed_percent", run!(op_mix.accessed_percent))
        .family(Family::Names).only(&[W::OpMix]);
    /// Share of the writes of an op mix that append. Only for op_mix.
    AppendPercent => percent("append_percent", run!(op_mix.append_percent)).family(Family::Names)
        .only(&[W::OpMix]);
    /// Files in each directory of an op mix. Only for op_mix.
    FilesPerDirectory => count("files_per_directory", run!(op_mix.files_per_directory))
        .family(Family::Names).unit("files")
        .range(1, 1_000_000, "the state of each file is kept in memory").only(&[W::OpMix]);
    /// Data files, all workers together. Not for metadata, which has small_files.
    Files => count("files", run!(files)).unit("files")
        .range(1, 10_000_000, "the state of each file is kept in memory")
        .default_rule("one per worker").only(WITH_FILES).always_shown();
    /// Size of each data file, a multiple of io_size. Not for metadata, which has small_file_size.
    FileSize => size("file_size", run!(file_size_bytes))
        .range(1, TIB, "a larger set is better spread over more files").default(Number(64 * MIB))
        .only(WITH_FILE_SIZE).always_shown();
    /// Files that are created, looked up and removed, or that the pool of transactions begins with,
    /// all workers together. Only for metadata and transactions.
    SmallFiles => count("small_files", run!(files)).family(Family::Names).unit("files")
        .range(1, 10_000_000, "the state of each file is kept in memory")
        .default_rule("5000; transactions: 500").only(&[W::Metadata, W::Transactions])
        .always_shown();
    /// Bytes written to each of the small files when it is created, with one op; 0 creates it
    /// empty. Only for metadata.
    SmallFileSize => size("small_file_size", run!(file_size_bytes)).family(Family::Names)
        .range(0, MIB, "each small file is written with one op").default(Number(4 * KIB))
        .only(&[W::Metadata]).always_shown();
    /// Whether each worker has a tree of directories of its own, or all work in one. Only for
    /// metadata.
    TreeSharing => word("tree_sharing", run!(tree.sharing), Sharing::NAMES).family(Family::Names)
        .only(&[W::Metadata]);
    /// Levels of directories below the first; 0 is one flat directory. Only for metadata.
    Depth => count("depth", run!(tree.depth)).family(Family::Names).unit("levels")
        .range(0, 64, "a path has 4096 bytes at most").only(&[W::Metadata]);
    /// Directories in each directory that is no leaf. Only for metadata with a depth.
    Branching => count("branching", run!(tree.branching)).family(Family::Names)
        .unit("directories").range(1, 10_000, "each level has so many times the directories")
        .only(&[W::Metadata]).when(has_subdirectories);
    /// Transactions, all workers together. Only for transactions.
    Transactions => count("transactions", run!(transactions.count)).family(Family::Names)
        .unit("transactions").range(1, 1_000_000_000, "a trial is a sample, not a soak")
        .only(&[W::Transactions]);
    /// Smallest file of the pool. Only for transactions.
    SizeMin => size("size_min", run!(transactions.size_min_bytes)).family(Family::Names)
        .range(0, 16 * MIB, "it is a pool of small files").only(&[W::Transactions]);
    /// Largest file of the pool. Only for transactions.
    SizeMax => size("size_max", run!(transactions.size_max_bytes)).family(Family::Names)
        .range(0, 16 * MIB, "it is a pool of small files").only(&[W::Transactions]);
    /// Share of reads among reads and appends. Only for transactions.
    ReadBias => percent("read_bias", run!(transactions.read_percent)).family(Family::Names)
        .only(&[W::Transactions]);
    /// Share of creations among creations and removals. Only for transactions.
    CreateBias => percent("create_bias", run!(transactions.create_percent)).family(Family::Names)
        .only(&[W::Transactions]);
    /// Directories that the pool is spread over. Only for transactions.
    Subdirectories => count("subdirectories", run!(transactions.directories))
        .family(Family::Names).unit("directories")
        .range(0, 100_000, "each is made before the clock starts").only(&[W::Transactions]);
    /// Bytes of one read or write. Not for metadata.
    IoSize => size("io_size", run!(io_size_bytes))
        .range(1, 64 * MIB, "each op in flight holds a buffer of this size")
        .default_rule("stream: 1MiB; mixed: 4KiB; bonnie, op_mix: 8KiB; at most file_size")
        .only(WITH_IO_SIZE).always_shown();
    /// Whether each worker has files of its own, or all workers work on each file. Only for stream.
    Sharing => word("sharing", run!(layout.sharing), Sharing::NAMES).only(&[W::Stream]);
    /// Bytes of a shared file that one worker has in a row before the next one's begin, a multiple
    /// of io_size; 0 gives each worker one such block per file. Only for stream with sharing
    /// shared.
    BlockSize => size("block_size", run!(layout.block_size_bytes))
        .range(0, TIB, "a larger set is better spread over more files").only(&[W::Stream])
        .when(shares_files);
    /// Blocks from one op of stride_read to the next. Only for stream.
    Stride => count("stride", run!(layout.stride)).unit("blocks")
        .range(2, 1_000_000, "a stride beyond the file is none").only(&[W::Stream]).when(strides);
    /// Ops in flight per worker, over NFS per client. Not for posix, whose calls are synchronous.
    QueueDepth => count("queue_depth", run!(queue_depth)).unit("ops")
        .range(1, 4_096, "an io_uring or a connection holds no more in flight")
        .default_rule("uring, nfs: 8; null, transactions: 1").when(is_asynchronous).always_shown();
    /// Version of NFS; it is not negotiated. Also with a target. Only for nfs:// targets and mounts
    /// that a plan makes.
    NfsVers => word("nfsvers", nfs!(version), NfsVersion::NAMES).of_targets().always_shown();
    /// Transport of RPC; udp for v2 and v3. Also with a target. Only for nfs:// targets and mounts
    /// that a plan makes.
    Proto => word("proto", nfs!(proto), Proto::NAMES).of_targets().always_shown();
    /// Protection of the transport: tls is RPC-over-TLS (RFC 9289), for v3 and newer over tcp. Also
    /// with a target. Only for nfs:// targets and mounts that a plan makes.
    XprtSec => word("xprtsec", nfs!(xprtsec), XprtSec::NAMES).of_targets().always_shown();
    /// Connections of one client, over tcp. Also with a target. Only for nfs:// targets and mounts
    /// that a plan makes.
    // nfs(5), nconnect.
    Nconnect => count("nconnect", nfs!(nconnect)).unit("connections")
        .range(1, 16, "kernels take no other nconnect either").of_targets().always_shown();
    /// Largest payload of one READ or WRITE on the wire (rsize, wsize). Also with a target. Only
    /// for nfs:// targets and mounts that a plan makes; not for metadata.
    // Linux, include/linux/nfs_xdr.h: NFS_MIN_FILE_IO_SIZE, NFS_MAX_FILE_IO_SIZE.
    TransferSize => size("transfer_size", run!(transfer_size_bytes)).family(Family::Nfs)
        .range(KIB, 4 * MIB, "kernels take no other rsize or wsize either").open("server")
        .only(BUT_METADATA).of_targets().always_shown();
    /// Transfers that a client has in flight beyond what a sequential read asks for. Only for nfs
    /// and stream.
    ReadAhead => count("read_ahead", nfs!(read_ahead)).unit("transfers")
        .range(0, 1_024, "a connection holds no more in flight").only(&[W::Stream, W::Bonnie])
        .always_shown();
    /// Transfers that a client may have in flight after their writes have ended. Only for nfs and
    /// stream.
    WriteBehind => count("write_behind", nfs!(write_behind)).unit("transfers")
        .range(0, 1_024, "a connection holds no more in flight").only(&[W::Stream, W::Bonnie])
        .always_shown();
    /// How safe a WRITE must be before it is answered; v2 knows file_sync only. Only for nfs; not
    /// for metadata.
    Stable => word("stable", nfs!(stable), Stable::NAMES).only(BUT_METADATA)
        .when(has_stable_writes).always_shown();
    /// How long an answer is waited for before a call is sent again, twice as long each further
    /// time. Also with a target. Only over udp.
    // nfs(5), timeo: at most ten minutes.
    Timeo => time("timeo", nfs!(timeo_ms))
        .range(1, 600_000, "a datagram that is lost is not missed so late").when(uses_udp)
        .of_targets().always_shown();
    /// How often a call is sent again before the waits start over. Also with a target. Only over
    /// udp.
    Retrans => count("retrans", nfs!(retrans)).unit("times")
        .range(0, 30, "each time the wait is doubled: further ones never come").when(uses_udp)
        .of_targets().always_shown();
    /// How many calls may be without an answer at a time: a window that grows with answers and is
    /// halved by losses, as kernels have it, or as many as the queue depth asks for. Also with a
    /// target. Only for nfs over udp.
    // RFC 5681, RFC 6298; Linux, net/sunrpc/xprt.c.
    UdpWindow => word("udp_window", nfs!(udp_window), UdpWindow::NAMES).when(uses_our_udp)
        .of_targets().always_shown();
    /// Keep delegations to read: OPEN asks for one, and a file that is delegated is opened again
    /// without a call until the server recalls it, as kernels do. All are returned after each pass.
    /// Only for nfs with v4.1 and later.
    // RFC 8881, section 10.4.
    Delegations => flag("delegations", nfs!(delegations)).when(has_our_sessions);
    /// Memory of the server: files that are larger can't all come from it. 0 is not known.
    ServerMemorySize => size("server_memory_size", run!(server_memory_bytes)).family(Family::Data)
        .range(0, 1 << 50, "no server has as much");
    /// Share of reads in a mix. Only for mixed.
    ReadPercent => percent("read_percent", run!(read_percent)).default(Number(70)).only(&[W::Mixed])
        .always_shown();
    /// Share of a mix's ops that go to a random place; the others go on where the last one of their
    /// worker ended. Only for mixed.
    RandomPercent => percent("random_percent", run!(layout.random_percent)).only(&[W::Mixed]);
    /// How unequal the chances of random places are: the exponent of Zipf's law in hundredths
    /// (110), or with a point (1.1); 0 makes all equal. Only for mixed.
    Skew => percent("skew", run!(layout.skew_percent)).unit("hundredths")
        .range(0, 300, "beyond an exponent of 3 one place has it all").only(&[W::Mixed]);
    /// How long a mix runs. Only for mixed and op_mix.
    Duration => time("duration", run!(duration_ms)).family(Family::Load)
        .range(1, 86_400_000, "a trial is a sample, not a soak: at most a day")
        .default(Number(1_000))
        .only(&[W::Mixed, W::OpMix]);
    /// Work for so long before anything counts. Not for external tools.
    Warmup => time("warmup", run!(load.warmup_ms)).family(Family::Load)
        .range(0, 86_400_000, "a trial is a sample, not a soak: at most a day");
    /// The offered load rises evenly for so long before anything counts. Only with a rate.
    Ramp => time("ramp", run!(load.ramp_ms)).family(Family::Load)
        .range(0, 86_400_000, "a trial is a sample, not a soak: at most a day").when(has_rate);
    /// Pause after each op of a closed loop. Not with a rate.
    ThinkTime => fine_time("think_time", run!(load.think_time_ns)).family(Family::Load)
        .range(0, 60_000_000_000, "a worker that pauses for over a minute measures nothing")
        .when(is_closed_loop);
    /// Most bytes per second, all workers together; 0 is no cap.
    Bandwidth => size("bandwidth", run!(load.bytes_per_s)).family(Family::Load).unit("bytes/s")
        .range(0, TIB, "no link is as fast, and a cap that is never met is none");
    /// A pass that its files would end ends after so long at the latest; 0 is no bound. Mixed and
    /// op_mix have duration.
    TimeMax => time("time_max", run!(load.time_max_ms)).family(Family::Load)
        .range(0, 86_400_000, "a trial is a sample, not a soak: at most a day")
        .only(&[W::Stream, W::Metadata, W::Bonnie, W::Transactions]);
    /// A pass ends after so many ops, all workers together; 0 is no bound.
    Ops => count("ops", run!(load.ops_max)).family(Family::Load).unit("ops")
        .range(0, 1_000_000_000, "a trial is a sample, not a soak");
    /// A pass ends after so many bytes, all workers together; 0 is no bound.
    Bytes => size("bytes", run!(load.bytes_max)).family(Family::Load)
        .range(0, 1 << 50, "a trial is a sample, not a soak");
    /// Length of the interval samples that are kept of each pass: its time series. Not for external
    /// tools.
    Interval => time("interval", run!(sampling.interval_ms)).family(Family::Load)
        .range(100, 60_000, "a minute hides what an interval is to show");
    /// A worker that has ops in flight and ends none for so long stalls, which is a caveat; 0 looks
    /// for none. Not for external tools.
    Stall => time("stall", run!(sampling.stall_ms)).family(Family::Load)
        .range(0, 3_600_000, "no completion takes over an hour");
    /// Bypass the page cache with O_DIRECT; io_size must be a multiple of 512 bytes. Only for posix
    /// and uring; not for metadata.
    Direct => flag("direct", run!(direct)).only(OF_DATA).when(makes_system_calls).always_shown();
    /// Move data by memory mapping instead of calls. Only for posix and stream.
    Mmap => flag("mmap", run!(layout.mmap)).only(&[W::Stream]).when(is_posix);
    /// close: files are closed inside the timed window. sync: each file that was written is synced
    /// (fsync, COMMIT) inside it. dsync, osync: each write waits (O_DSYNC, O_SYNC; DATA_SYNC,
    /// FILE_SYNC). Not for metadata, nor for null.
    Durability => word("durability", run!(durability), Durability::NAMES).family(Family::Data)
        .default(Word("sync")).only(OF_DATA).always_shown();
    /// Close files inside the timed window (iozone -c), whatever durability asks for. Only for
    /// stream; not for null.
    TimedClose => flag("timed_close", run!(layout.timed_close)).family(Family::Data)
        .only(&[W::Stream]);
    /// Drop the files from this host's page cache before they are read. Only for posix and uring;
    /// not for metadata.
    Invalidate => flag("invalidate", run!(invalidate)).default(Flag(true))
        .only(&[W::Stream, W::Mixed, W::Bonnie, W::OpMix]).when(invalidates_itself)
        .always_shown();
    /// Content of written bytes. Not for null.
    Data => word("data", run!(data.fill), Fill::NAMES).family(Family::Data);
    /// Share of each block that a compressor can take away. Only for data random; not for null.
    Compress => percent("compress", run!(data.compress_percent)).family(Family::Data)
        .when(writes_random_data);
    /// Share of blocks that are there already. Only for data random; not for null.
    Dedup => percent("dedup", run!(data.dedup_percent)).family(Family::Data)
        .when(writes_random_data);
    /// Put campaign, file, offset, generation and checksum into each block; verify looks for them.
    /// Not for null.
    Stamp => flag("stamp", run!(data.stamp)).family(Family::Data);
    /// Compare every byte read with what was written. Writes of a mix are stamped then, each with a
    /// number of its own. Not for metadata, nor for null.
    Verify => flag("verify", run!(verify)).family(Family::Data)
        .only(WITH_FILES).always_shown();
    /// Replies slower than this count as errors; external programs are killed with their children.
    /// A mount that a plan makes is unmounted by force when its server sends nothing for this time,
    /// and 30s at least.
    Timeout => time("timeout", run!(timeout_ms))
        .range(1, 86_400_000, "no program is given over a day")
        .default_rule("5s; external tools: 1h").only(ALL);
}
