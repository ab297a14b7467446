//! The table of all settings, with one row each.
//!
//! The plan parser, flags, help, reference page, dry run, tables, CSV, JSON and `--where` are all
//! derived from these rows, so adding a setting takes a row here and the field of [`RunSpec`] that
//! it names. A row's doc comment is its help text. The rows are in the order of the matrix: the
//! last setting varies fastest, and a setting's default, or whether it applies at all, may depend
//! on those before it.
//!
//! [`RunSpec`]: crate::RunSpec
#![allow(clippy::wildcard_imports, reason = "they are the words that rows are written with")]

use super::Family;
use super::applies::*;
use super::field::{FieldAccess, MODEL_SCALE, lab, nfs, run};
use super::row::FixedDefault::{Flag, Number, Text, Word};
use super::row::*;
use crate::runs::checkpoint::CheckpointModel;
use crate::runs::spec::Durability;
use crate::runs::training::{Shuffle, TrainedModel};
use crate::runs::work::{Arrivals, Fill, Sharing};
use crate::runs::workload::Workload as W;
use crate::systems::lab::{
    DataPath, FileSystem, Fresh, Invalidation, MountSec, NfsdIo, Raid, ServerKind, TunnelForwards,
};
use crate::targets::nfs::{ConnectionPolicy, NfsVersion, Pnfs, Proto, Stable, UdpWindow, XprtSec};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Mixes of reads and writes of blocks.
const MIXES: &[W] = &[W::Mixed, W::Database, W::VmBoot];

/// Defines the enum of settings and the table of their rows.
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
    /// Where dfsbench works. disk: on the server, without NFS. loopback: there, through a mount of
    /// its own export. network: on the client. tunnel: there, through ssh. Only for targets with
    /// `server`.
    DataPath => word("data_path", lab!(path), DataPath::NAMES)
        .default_rule("network; without a client: loopback").always_shown();
    /// Maximum frequency of the server's CPUs.
    CpuFrequency => frequency("cpu_frequency", lab!(tuning.cpu_khz))
        .range(100_000, 10_000_000, "no CPU is that fast").open("unchanged");
    /// Number of the server's CPUs that stay online.
    Cores => count("cores", lab!(tuning.cores)).unit("CPUs")
        .range(1, 8_192, "kernels support no more CPUs").open("unchanged");
    /// Memory left to the server; the rest is reserved as huge pages.
    ServerRam => size("server_ram", lab!(tuning.server_ram_bytes))
        .range(64 * MIB, 1 << 50, "kernels and programs need at least that").open("unchanged");
    /// Memory left to each client; the rest is reserved as huge pages. Not for data_path disk and
    /// loopback.
    ClientRam => size("client_ram", lab!(tuning.client_ram_bytes))
        .range(64 * MIB, 1 << 50, "kernels and programs need at least that").open("unchanged")
        .when(leaves_server);
    /// Additional sysctls of the server.
    ServerSysctl => words("server_sysctl", lab!(tuning.server_sysctls)).separator('+');
    /// Additional sysctls of the client. Not for data_path disk and loopback.
    ClientSysctl => words("client_sysctl", lab!(tuning.client_sysctls)).separator('+')
        .when(leaves_server);
    /// Maximum packet size on both hosts. Only for data_path network and tunnel.
    // RFC 791: every host takes 576 bytes, and lengths have 16 bits.
    Mtu => count("mtu", lab!(tuning.mtu_bytes)).unit("bytes")
        .range(576, 65_535, "IPv4 has no other sizes").open("unchanged").when(leaves_server);
    /// Maximum bits per second that leave each host. Only for data_path network and tunnel.
    RateLimit => bit_rate("rate_limit", lab!(tuning.rate_bits_per_s))
        .range(8_000, 1_000_000_000_000, "no link is that fast").open("unchanged")
        .when(leaves_server);
    /// Delay of each packet that leaves a host, so the round trip takes twice as much longer. Only
    /// for data_path network and tunnel.
    Delay => micro_time("delay", lab!(tuning.delay_us))
        .range(1, 10_000_000, "no network delays packets longer").open("unchanged")
        .when(leaves_server);
    /// TCP congestion control on both hosts, such as cubic or bbr. Not for data_path disk.
    Congestion => text("congestion", lab!(tuning.congestion)).open("unchanged").when(is_served);
    /// Maximum TCP buffer size on both hosts. Not for data_path disk.
    // Linux: tcp_rmem and tcp_wmem are signed 32-bit numbers.
    TcpBuffer => size("tcp_buffer", lab!(tuning.tcp_buffer_bytes))
        .range(4 * KIB, 2 * GIB - 1, "kernels store it in 31 bits").open("unchanged")
        .when(is_served);
    /// Maximum calls in flight per connection of the kernel's client. Not for nfs, nor for
    /// data_path disk.
    // Linux, include/linux/sunrpc/xprt.h: RPC_MIN_SLOT_TABLE, RPC_MAX_SLOT_TABLE_LIMIT.
    Slots => count("slots", lab!(tuning.slots)).unit("calls")
        .range(2, 65_536, "kernels accept no more").open("unchanged").when(mounts_nfs);
    /// File system for the server's files; created before the first run that needs it. For targets
    /// with `server`.
    FileSystem => word("file_system", lab!(storage.file_system), FileSystem::NAMES)
        .default_rule("existing with a directory, ext4 with devices, else tmpfs")
        .when(has_storage).always_shown();
    /// How the devices are combined (md). Only for file systems on devices.
    Raid => word("raid", lab!(storage.raid), Raid::NAMES).when(is_formatted);
    /// Chunk size of the array: bytes on one device before the next one is used. Only for raid 0,
    /// 5, 6 and 10.
    // md(4): a multiple of 4 KiB.
    RaidChunk => size("raid_chunk", lab!(storage.chunk_bytes))
        .range(4 * KIB, 64 * MIB, "larger chunks leave all work to one device").open("usual")
        .when(has_chunks);
    /// Encrypt the device with a throwaway key (dm-crypt). Only for file systems on devices.
    Crypt => flag("crypt", lab!(storage.crypt)).when(is_formatted);
    /// Cipher of dm-crypt, such as aes-cbc-essiv:sha256; usual is aes-xts-plain64. Only with crypt.
    CryptCipher => text("crypt_cipher", lab!(storage.cipher)).open("usual").when(is_encrypted);
    /// Key size of dm-crypt in bits; usual is 512, which XTS splits in two. Only with crypt.
    CryptKey => count("crypt_key", lab!(storage.key_bits)).unit("bits")
        .range(64, 1_024, "no cipher has a longer key").open("usual").when(is_encrypted);
    /// Additional arguments of mkfs. Only for file systems on devices.
    FormatOptions => words("format_options", lab!(storage.format_options)).separator(' ')
        .when(is_formatted);
    /// Options of the server's mount of its file system, such as noatime. Not for existing.
    FsMountOptions => words("fs_mount_options", lab!(storage.mount_options))
        .when(is_new_file_system);
    /// Server program: knfsd (the kernel), NFS-Ganesha, unfs3, running (already there, left alone),
    /// or dfsbench's in-memory server (size `tmpfs_size`, port 20492). Not for data_path disk.
    ServerKind => word("server_kind", lab!(serving.kind), ServerKind::NAMES)
        .when(has_server_kind);
    /// Settings of the target's system, as name=value. Only for targets with `system`.
    SystemSettings => words("system_settings", lab!(system_settings)).separator('+')
        .when(is_system);
    /// Options of exports(5), such as async. Only for knfsd.
    ExportOptions => words("export_options", lab!(serving.export_options)).when(is_knfsd);
    /// Number of server threads; 0 leaves it unchanged. 4..64 lets knfsd adapt it to its load
    /// within these limits (Linux 7.0 and later); on the command line, 8..64*2 lists fixed numbers.
    /// Only for knfsd and ganesha.
    NfsdThreads => threads("nfsd_threads", lab!(serving.threads))
        .range(0, 4_096, "more threads only wait for each other").when(has_nfsd_threads);
    /// How the kernel's server reads files (Linux 6.18 and later; debugfs). buffered: through the
    /// page cache. dontcache: the same, but pages are dropped afterwards. direct: past it. Only for
    /// knfsd.
    NfsdIoRead => word("nfsd_io_read", lab!(serving.io_read), NfsdIo::NAMES).open("unchanged")
        .when(is_knfsd);
    /// How the kernel's server writes files, as nfsd_io_read. Only for knfsd.
    NfsdIoWrite => word("nfsd_io_write", lab!(serving.io_write), NfsdIo::NAMES).open("unchanged")
        .when(is_knfsd);
    /// Largest READ or WRITE that knfsd accepts, a multiple of 1 KiB; restarts the server. Linux
    /// clients up to 7.2 and backend nfs use at most 1 MiB. Only for knfsd.
    // Linux, fs/nfsd/nfsctl.c: write_maxblksize; NFSSVC_MAXBLKSIZE.
    MaxBlockSize => size("max_block_size", lab!(serving.max_block_bytes))
        .range(KIB, 4 * MIB, "the kernel's server has the same limits").open("unchanged")
        .when(is_knfsd);
    /// What the tunnel carries. ports: TCP to the server's ports (ssh -L). packets: everything,
    /// through tun devices (ssh -w); needs root on both hosts, and PermitTunnel in the server's
    /// sshd_config. Only for data_path tunnel.
    TunnelForwards => word("tunnel_forwards", lab!(tunnelling.forwards), TunnelForwards::NAMES)
        .when(is_tunnel);
    /// Compress the tunnel's traffic (ssh -C). Only for data_path tunnel.
    TunnelCompression => flag("tunnel_compression", lab!(tunnelling.compression)).when(is_tunnel);
    /// Cipher of the tunnel (ssh -c). Only for data_path tunnel.
    TunnelCipher => text("tunnel_cipher", lab!(tunnelling.cipher)).open("unchanged")
        .when(is_tunnel);
    /// Additional options of nfs(5), such as noac. Not for nfs, nor for data_path disk.
    MountOptions => words("mount_options", lab!(mounting.options)).when(is_mounted);
    /// Security flavor of the mount; exports of knfsd then allow only this one. server: the first
    /// one that the server offers. docs/linux.md has what Kerberos needs. Only for NFS mounts that
    /// a plan makes; not for `system` and `mount`.
    Sec => word("sec", lab!(mounting.sec), MountSec::NAMES).when(mounts_own_export);
    /// Read-ahead of the client's mount. Not for nfs, nor for data_path disk.
    BdiReadAhead => kib("bdi_read_ahead", lab!(mounting.read_ahead_kib))
        .range(0, MIB, "more files can't be read in time").open("unchanged").when(is_mounted);
    /// LOCALIO (Linux 6.12 and later): true lets mounts of the host's own server bypass RPC.
    /// Applied to the whole host before mounting. Only for NFS mounts that a plan makes.
    Localio => flag("localio", lab!(mounting.localio)).open("unchanged").when(mounts_nfs);
    /// How caches are emptied before a pass reads; each level includes those before it. files: drop
    /// the files from the working host's page cache. caches: empty that cache and the server's.
    /// remount: mount again on the client. server-remount, server-restart: also mount again or
    /// restart on the server. Only for targets with `server`; others have invalidate.
    Invalidation => word("invalidation", lab!(invalidation), Invalidation::NAMES)
        .default_rule("caches").always_shown();
    /// When file systems, exports and mounts are made again although they could be reused.
    /// campaign: never. run: before a different run. trial: before each trial. pass: also exports
    /// and mounts before each later pass of a trial. Only for targets with `server`.
    Fresh => word("fresh", lab!(fresh), Fresh::NAMES);
    /// Fail a run if a setting doesn't take effect, instead of raising a caveat. Only for targets
    /// with `server`.
    Strict => flag("strict", lab!(strict));
    /// Passes of a trial in order: write+read for stream, create+stat+remove for metadata.
    Passes => passes("passes", run!(passes)).only(WITH_PASSES);
    /// Number of client hosts that work at the same time: the first of the target's `clients` or
    /// `hosts`. External tools run on one host only.
    ClientHosts => count("client_hosts", run!(placement.hosts)).unit("hosts")
        .range(1, 10_000, "the controller keeps a connection to each")
        .default_rule("all hosts of the target").only(ALL).when(has_client_hosts);
    /// Agents on each client host, each a process that acts as a client: at most the host's
    /// `slots`, or as many as a job has started there. Only if a host has several.
    AgentsPerHost => count("agents_per_host", run!(placement.agents_per_host)).unit("agents")
        .range(1, 4_096, "each is a process of its own").open("all").when(shares_hosts);
    /// Read the files written by the client N places later, which can't be in the client's own
    /// cache (IOR -C, mdtest -N); 0 reads its own files. Only for several client hosts.
    Neighbour => count("neighbour", run!(placement.neighbour)).unit("places")
        .range(0, 10_000, "the controller keeps a connection to each").when(has_several_agents);
    /// Require that the directory is the same one on all client hosts, through equal mounts; false
    /// lets each host have its own. Only for directories and several client hosts.
    Shared => flag("shared", run!(placement.shared)).default(Flag(true))
        .when(shares_a_directory);
    /// How long to wait for a lost host before a trial that needs it is given up; continue: wait 30
    /// s after each loss, then go on without the host. Only for client hosts, and targets with
    /// `server`.
    OnLost => time("on_lost", run!(placement.lost_wait_ms))
        .range(1_000, 3_600_000, "a host lost for an hour won't come back").open("continue")
        .when(has_hosts);
    /// Model whose training state is saved, with the sizes and ranks of MLPerf Storage v3
    /// (docs/workloads.md). Only for checkpoint.
    Model => word("model", run!(checkpoint.model), CheckpointModel::NAMES)
        .only(&[W::Checkpoint]).always_shown();
    /// Model that is trained, which sets the shape of its data set and the times of an accelerator;
    /// docs/workloads.md has the numbers. Only for training.
    TrainedModel => word("trained_model", run!(training.model), TrainedModel::NAMES)
        .default(Word("resnet50")).only(&[W::Training]).always_shown();
    /// Share of the model's bytes and ranks, or of a training's files, such as 0.01 or 1%. At least
    /// 8 ranks share the bytes, and a training has enough files for five steps. Only for checkpoint
    /// and training.
    ModelScale => fraction("model_scale", MODEL_SCALE)
        .range(1, 1_000_000, "1 is the whole model")
        .default_rule("that of `--scale`, else 0.01").only(&[W::Checkpoint, W::Training])
        .always_shown();
    /// Accelerators of each client host; each exists only as time that passes. Those of a host
    /// start each step together. Only for training.
    Accelerators => count("accelerators", run!(training.accelerators)).unit("accelerators")
        .range(1, 512, "each has readers of its own, which are threads").default(Number(1))
        .only(&[W::Training]).always_shown();
    /// Threads that read for one accelerator, each of them whole batches. Only for training.
    Readers => count("readers", run!(training.readers)).unit("threads")
        .range(1, 256, "each reader is a thread").default_rule("4 or 8, as its model has")
        .only(&[W::Training]).always_shown();
    /// Samples that an accelerator processes in one step. Only for training.
    Batch => count("batch", run!(training.batch)).unit("samples")
        .range(1, 1_000_000, "a batch must be read before a step can start")
        .default_rule("that of its model").only(&[W::Training]).always_shown();
    /// Time that an accelerator computes on a batch; it just passes. Only for training.
    ComputeTime => fine_time("compute_time", run!(training.compute_ns))
        .range(1_000, 3_600_000_000_000, "a step of an hour shows nothing about storage")
        .default_rule("that of its model").only(&[W::Training]).always_shown();
    /// Batches that each reader may read ahead. Only for training.
    Prefetch => count("prefetch", run!(training.prefetch)).unit("batches")
        .range(1, 1_000, "prefetched batches are kept in memory").default(Number(2))
        .only(&[W::Training]);
    /// How often each sample is read, in an order that differs by epoch. Only for training.
    Epochs => count("epochs", run!(training.epochs)).unit("epochs")
        .range(1, 10_000, "a trial is a sample, not a soak").default(Number(1))
        .only(&[W::Training]);
    /// What is shuffled in each epoch: all samples, files (whose samples are then read in
    /// sequence), or nothing. Only for training.
    Shuffle => word("shuffle", run!(training.shuffle), Shuffle::NAMES)
        .default_rule("files for resnet50, flux and dlrm, else samples").only(&[W::Training]);
    /// Samples in each file, all of the same size. A file of one sample is opened, read and closed;
    /// files of several stay open. Only for training.
    SamplesPerFile => count("samples_per_file", run!(training.samples_per_file)).unit("samples")
        .range(1, 1_000_000_000, "a file has at most 1TiB").default_rule("that of its model")
        .only(&[W::Training]);
    /// Share of the time that accelerators must compute. It only serves the verdict. Only for
    /// training.
    RequiredAu => percent("required_au", run!(training.au_min_percent))
        .default_rule("70 %, 85 % or 90 %, as its model has").only(&[W::Training]);
    /// Time between the starts of two saves. It only serves the figure of the stall per hour. Only
    /// for checkpoint.
    SaveEvery => time("save_every", run!(checkpoint.save_every_ms))
        .range(1_000, 86_400_000, "jobs that save less often than daily hardly wait for it")
        .only(&[W::Checkpoint]);
    /// Time without work before each pass, as a job computes between saves. Only for checkpoint and
    /// model_load.
    Pause => time("pause", run!(checkpoint.pause_ms)).family(Family::Load)
        .range(0, 3_600_000, "a trial is a sample, not a soak").only(&[W::Checkpoint, W::ModelLoad]);
    /// Threads that issue ops on each client host. Each is a rank of a checkpoint, a stream of
    /// media, a user of kv_cache, a connection of a database, a virtual machine of vm_boot, or a
    /// reader of a training.
    Workers => count("workers", run!(workers)).unit("threads")
        .range(1, 1_024, "each worker is a thread")
        .default_rule("1; checkpoint: the ranks of the scaled model; kv_cache: 4; training: \
             accelerators x readers")
        .only(WITH_WORKERS).always_shown();
    /// Frames per second of each stream; streams take turns, at equal intervals. Only for media.
    FrameRate => count("frame_rate", run!(media.frame_rate)).family(Family::Load)
        .unit("frames/s").range(1, 1_000, "cameras record no more").only(&[W::Media])
        .always_shown();
    /// Frames that a stream buffers: each is requested this many frame times before it is due. Only
    /// for media.
    FrameBuffer => count("frame_buffer", run!(media.frame_buffer)).family(Family::Load)
        .unit("frames").range(1, 10_000, "players start without reading whole films first")
        .only(&[W::Media]).always_shown();
    /// CPUs used by the workers of an agent, and by the embedded server: the last ones that the
    /// agent may use. With 1, client and server take turns, so neither waits until the other's CPU
    /// wakes up. Not for external tools.
    Cpus => count("cpus", run!(cpus)).unit("CPUs")
        .range(1, 8_192, "kernels support no more CPUs").open("all");
    /// Emulated NFS clients over all client hosts, each with its own connections and name; at least
    /// as many as workers, or 0 for one per worker. Only for nfs.
    Clients => count("clients", run!(clients)).family(Family::Nfs).unit("clients")
        .range(0, 20_000, "each has a connection, and a process gets some 20,000 descriptors");
    /// User IDs that emulated clients use in turn: client i sends the target's uid + (i mod
    /// client_uids). The working directory is then open to everyone. Only for nfs.
    ClientUids => count("client_uids", nfs!(client_uids)).unit("uids")
        .range(1, 20_000, "there are no more clients");
    /// Record ops, bytes and service times of each emulated client separately (2.5 KiB each), and
    /// report the slowest, the fastest and the fairness. Only for nfs.
    PerClient => flag("per_client", nfs!(per_client));
    /// Offered ops per second over all workers, an open loop: response times count from the
    /// scheduled start. 0 is a closed loop. Not for listing, developer, io500 and training, nor for
    /// media, which has frame_rate.
    Rate => count("rate", run!(load.rate_per_s)).family(Family::Load).unit("ops/s")
        .range(0, 100_000_000, "scheduled starts are whole nanoseconds").when(has_chosen_rate);
    /// Distribution of the scheduled starts. Only with a rate.
    Arrivals => word("arrivals", run!(load.arrivals), Arrivals::NAMES).family(Family::Load)
        .when(has_rate);
    /// Shares of ops, and sizes of files and requests, as found by field studies; `shares` of a
    /// `[[workload]]` define your own. Only for op_mix.
    Mix => mix("mix", run!(op_mix.name)).family(Family::Names).default(Text("sfs3-like-v3"))
        .only(&[W::OpMix]).when(has_named_mix);
    /// File set size of an op mix per op/s of its rate. Only for op_mix.
    SetPerRate => size("set_per_rate", run!(op_mix.set_bytes_per_rate)).family(Family::Names)
        .range(0, GIB, "published rules require at most 120 MiB").only(&[W::OpMix]);
    /// Share of an op mix's files whose data is read and written. Only for op_mix.
    AccessedPercent => percent("accessed_percent", run!(op_mix.accessed_percent))
        .family(Family::Names).only(&[W::OpMix]);
    /// Share of an op mix's writes that append. Only for op_mix.
    AppendPercent => percent("append_percent", run!(op_mix.append_percent)).family(Family::Names)
        .only(&[W::OpMix]);
    /// Files in each directory of an op mix. Only for op_mix.
    FilesPerDirectory => count("files_per_directory", run!(op_mix.files_per_directory))
        .family(Family::Names).unit("files")
        .range(1, 1_000_000, "the state of each file is kept in memory").only(&[W::OpMix]);
    /// Bytes that each virtual machine reads and writes until it has booted. Only for vm_boot.
    BootSize => size("boot_size", run!(vm_boot.bytes))
        .range(1, TIB, "no system reads more to boot").default(Number(64 * MIB))
        .only(&[W::VmBoot]).always_shown();
    /// Let all virtual machines read one base image, the last of the files, and write only to their
    /// own overlays. Otherwise, each has an image of its own. Only for vm_boot.
    BaseImage => flag("base_image", run!(vm_boot.base_image)).only(&[W::VmBoot]).always_shown();
    /// Number of data files over all workers; in kv_cache, of the contexts whose objects are
    /// wanted. Not for metadata, transactions and developer, which have small_files, nor for
    /// listing, which has entries, nor for op_mix, whose files follow from its rate and
    /// set_per_rate.
    Files => count("files", run!(files)).unit("files")
        .range(1, 10_000_000, "the state of each file is kept in memory")
        .default_rule(
            "one per worker; database: another one, its log; vm_boot with base_image: the image; \
             media: 5 s of frames for each; kv_cache: 32 for each; training: the scaled model",
        )
        .only(WITH_FILES)
        .always_shown();
    /// Size of each data file, a multiple of io_size except for checkpoint and training, or, for
    /// stream, mixed and training, a distribution: `uniform 4KiB 1MiB`, `normal 1MiB 200KiB`,
    /// `lognormal 64KiB 2.0 max 1GiB` or `list 4KiB:60 1MiB-2MiB:40` (docs/workloads.md). In io500,
    /// the most that a worker writes in a phase of large files. Not for metadata, listing and
    /// transactions, which have small_file_size, nor for kv_cache, which has object_size, nor for
    /// developer and op_mix, whose sizes are given.
    FileSize => size("file_size", run!(file_size_bytes))
        .range(1, TIB, "use more files for a larger set").default(Number(64 * MIB))
        .default_rule(
            "64MiB; media: 48MiB; checkpoint, training: as the model has; io500: 1TiB",
        )
        .only(WITH_FILE_SIZE).always_shown();
    /// Sizes of the objects of a cache, rounded up to 4 KiB: a size, or a distribution as for
    /// file_size. Only for kv_cache.
    ObjectSize => text("object_size", run!(kv_cache.object_sizes)).family(Family::Data)
        .default_rule("lognormal 16MiB 0.8 max 256MiB").only(&[W::KvCache]).always_shown();
    /// Bytes of all objects in the cache; each worker has an equal part. The least recently used
    /// objects make room. Only for kv_cache.
    CacheCapacity => size("cache_capacity", run!(kv_cache.capacity_bytes)).family(Family::Data)
        .range(4 * KIB, 1 << 50, "no cache is larger")
        .default_rule("half of all objects").only(&[W::KvCache]).always_shown();
    /// Files over all workers: those of metadata, the initial pool of transactions, the most that a
    /// phase of io500 creates, the source files of developer. Only for metadata, transactions,
    /// developer and io500.
    SmallFiles => count("small_files", run!(files)).family(Family::Names).unit("files")
        .range(1, 10_000_000, "the state of each file is kept in memory")
        .default_rule(
            "5000; developer: 2000; transactions: 500; io500: a million per worker, at most 10 million",
        )
        .only(&[W::Metadata, W::Transactions, W::Developer, W::Io500])
        .always_shown();
    /// Number of files to list, over all directories of the tree. Only for listing.
    Entries => count("entries", run!(files)).family(Family::Names).unit("files")
        .range(1, 10_000_000, "the files of a trial are created one by one before it")
        .default(Number(50_000)).only(&[W::Listing]).always_shown();
    /// Bytes of each small file, or a distribution as for file_size; 0 creates empty files. In
    /// listing, every second file of a fixed size is empty, and find looks for the others. Only for
    /// metadata, listing and transactions.
    SmallFileSize => size("small_file_size", run!(file_size_bytes)).family(Family::Names)
        .range(0, 2 * GIB, "each small file is written and read in one op")
        .default_rule("4KiB; listing: 1B; transactions: uniform 500B 10kB")
        .only(&[W::Metadata, W::Listing, W::Transactions]).always_shown();
    /// Give each worker its own directory tree, or let all work in one. Only for metadata and
    /// listing.
    TreeSharing => word("tree_sharing", run!(tree.sharing), Sharing::NAMES).family(Family::Names)
        .only(&[W::Metadata, W::Listing]);
    /// Levels of directories below the first; 0 is a single flat directory. Only for metadata and
    /// listing.
    Depth => count("depth", run!(tree.depth)).family(Family::Names).unit("levels")
        .range(0, 64, "a path has at most 4096 bytes").only(&[W::Metadata, W::Listing]);
    /// Subdirectories of each directory that isn't a leaf. Only for metadata and listing with a
    /// depth.
    Branching => count("branching", run!(tree.branching)).family(Family::Names)
        .unit("directories").range(1, 10_000, "each level multiplies the directories")
        .only(&[W::Metadata, W::Listing]).when(has_subdirectories);
    /// Number of transactions over all workers. Only for transactions.
    Transactions => count("transactions", run!(transactions.count)).family(Family::Names)
        .unit("transactions").range(1, 1_000_000_000, "a trial is a sample, not a soak")
        .only(&[W::Transactions]);
    /// Share of reads among reads and appends. Only for transactions.
    ReadBias => percent("read_bias", run!(transactions.read_percent)).family(Family::Names)
        .only(&[W::Transactions]);
    /// Share of creates among creates and removes. Only for transactions.
    CreateBias => percent("create_bias", run!(transactions.create_percent)).family(Family::Names)
        .only(&[W::Transactions]);
    /// Number of directories that the pool is spread over. Only for transactions.
    Subdirectories => count("subdirectories", run!(transactions.directories))
        .family(Family::Names).unit("directories")
        .range(0, 100_000, "each is created before measuring").only(&[W::Transactions]);
    /// Reads and writes of pages per transaction of a database; 0 leaves only the commits. Only for
    /// database.
    TransactionOps => count("transaction_ops", run!(database.transaction_ops)).unit("ops")
        .range(0, 10_000, "longer transactions hardly wait for their commit")
        .only(&[W::Database]).always_shown();
    /// Bytes that a commit appends to the log, the last of the files, and makes durable (fdatasync;
    /// over nfs, a FILE_SYNC WRITE). Only for database.
    CommitSize => size("commit_size", run!(database.commit_bytes))
        .range(1, 64 * MIB, "each op in flight holds a buffer of this size")
        .only(&[W::Database]);
    /// Transactions that one append to the log commits together (group commit). Only for database.
    GroupCommit => count("group_commit", run!(database.group_commit)).unit("transactions")
        .range(1, 1_000, "no more transactions wait for the same commit").only(&[W::Database]);
    /// Bytes of one read or write. Not for metadata.
    IoSize => size("io_size", run!(io_size_bytes))
        .range(1, 64 * MIB, "each op in flight holds a buffer of this size")
        .default_rule(
            "stream, data_ops, model_load, media, kv_cache: 1MiB; checkpoint: 16MiB; training: 4MiB; \
             mixed: 4KiB; bonnie, op_mix, database, vm_boot: 8KiB; at most file_size",
        )
        .only(WITH_IO_SIZE).always_shown();
    /// Give each worker its own files, or let all workers use each file. Only for stream.
    Sharing => word("sharing", run!(layout.sharing), Sharing::NAMES).only(&[W::Stream]);
    /// Bytes of a shared file that one worker accesses in a row before the next worker's part
    /// begins, a multiple of io_size; 0 gives each worker one such block per file. Only for stream
    /// with sharing shared.
    BlockSize => size("block_size", run!(layout.block_size_bytes))
        .range(0, TIB, "use more files for a larger set").only(&[W::Stream])
        .when(shares_files);
    /// Blocks between consecutive ops of stride_read. Only for stream.
    Stride => count("stride", run!(layout.stride)).unit("blocks")
        .range(2, 1_000_000, "a stride must fit in the file").only(&[W::Stream]).when(strides);
    /// How often a pass goes over its files, so that small ones take long enough to measure. Only
    /// for nfs, and for stream.
    Loops => count("loops", run!(layout.loops)).unit("times").only(&[W::Stream]).when(is_own_client)
        .range(1, 1_000_000, "a longer pass is one of larger files");
    /// Ops in flight per worker, or per client over NFS. Not for posix, whose calls are
    /// synchronous.
    QueueDepth => count("queue_depth", run!(queue_depth)).unit("ops")
        .range(1, 4_096, "an io_uring or a connection has no more in flight")
        .default_rule(
            "uring, nfs: 8; null, transactions, checkpoint, database, developer, io500: 1",
        )
        .when(is_asynchronous).always_shown();
    /// NFS version; never negotiated. Only for nfs:// targets and mounts that a plan makes.
    NfsVers => word("nfsvers", nfs!(version), NfsVersion::NAMES).of_targets().always_shown();
    /// RPC transport; udp only for v2 and v3, rdma only for mounts. Only for nfs:// targets and
    /// mounts that a plan makes.
    Proto => word("proto", nfs!(proto), Proto::NAMES).of_targets().always_shown();
    /// Transport security: tls is RPC-over-TLS (RFC 9289), for v3 and later over tcp; mtls adds a
    /// certificate of the client, only for mounts. Only for nfs:// targets and mounts that a plan
    /// makes.
    XprtSec => word("xprtsec", nfs!(xprtsec), XprtSec::NAMES).of_targets().always_shown();
    /// TCP connections per client. Only for nfs:// targets and mounts that a plan makes.
    // nfs(5), nconnect.
    Nconnect => count("nconnect", nfs!(nconnect)).unit("connections")
        .range(1, 16, "kernels have the same limit").of_targets().always_shown();
    /// Maximum number of the server's addresses to use (trunking). unchanged: all that an nfs://
    /// target names, one for mounts, which need v4.1. Only for NFS mounts of a plan, and for nfs://
    /// targets with several addresses; not for `system` and `mount`.
    // Linux, include/linux/nfs_fs.h: NFS_MAX_TRANSPORTS.
    MaxConnect => count("max_connect", nfs!(max_connect)).unit("addresses")
        .range(1, 16, "kernels have the same limit").open("unchanged").of_targets()
        .when(may_trunk);
    /// How a client with several connections chooses one for an op. share: equal parts of the queue
    /// depth, so a slow one gets fewer ops. round-robin: in turn. least-in-flight: the one with the
    /// fewest ops. per-file: one for all ops on a file. Only for nfs:// targets with nconnect above
    /// 1 or several addresses.
    ConnectionPolicy => word("connection_policy", nfs!(connection_policy), ConnectionPolicy::NAMES)
        .when(has_several_connections);
    /// Maximum payload of one READ or WRITE on the wire (rsize, wsize). Only for nfs:// targets and
    /// mounts that a plan makes; not for metadata.
    // Linux, include/linux/nfs_xdr.h: NFS_MIN_FILE_IO_SIZE, NFS_MAX_FILE_IO_SIZE.
    TransferSize => size("transfer_size", run!(transfer_size_bytes)).family(Family::Nfs)
        .range(KIB, 4 * MIB, "kernels have the same limits for rsize and wsize").open("server")
        .only(BUT_METADATA).of_targets().always_shown();
    /// Transfers that a client requests beyond a sequential read. Only for nfs, and for workloads
    /// that read whole files.
    ReadAhead => count("read_ahead", nfs!(read_ahead)).unit("transfers")
        .range(0, 1_024, "a connection has no more in flight")
        .only(&[W::Stream, W::Bonnie, W::Checkpoint, W::ModelLoad])
        .always_shown();
    /// Transfers that may still be in flight after their writes have returned. Only for nfs, and
    /// for workloads that write whole files.
    WriteBehind => count("write_behind", nfs!(write_behind)).unit("transfers")
        .range(0, 1_024, "a connection has no more in flight")
        .only(&[W::Stream, W::Bonnie, W::Checkpoint, W::ModelLoad])
        .always_shown();
    /// Stability that a WRITE requests before the server may reply; v2 has only file_sync. Not for
    /// metadata, nor for targets without nfs.
    Stable => word("stable", nfs!(stable), Stable::NAMES).only(BUT_METADATA)
        .when(has_stable_writes).always_shown();
    /// Time to wait for a reply before a call is retransmitted; doubled for each further
    /// retransmission. Only over udp.
    // nfs(5), timeo: at most ten minutes.
    Timeo => time("timeo", nfs!(timeo_ms))
        .range(1, 600_000, "waiting longer than ten minutes is pointless").when(uses_udp)
        .of_targets().always_shown();
    /// Number of retransmissions before the timeout starts over. Only over udp.
    Retrans => count("retrans", nfs!(retrans)).unit("times")
        .range(0, 30, "the timeout doubles each time, so more are never sent").when(uses_udp)
        .of_targets().always_shown();
    /// Limit of unanswered calls: a congestion window that grows with replies and is halved by
    /// losses, as in kernels, or just the queue depth. Only for nfs over udp.
    // RFC 5681, RFC 6298; Linux, net/sunrpc/xprt.c.
    UdpWindow => word("udp_window", nfs!(udp_window), UdpWindow::NAMES).when(uses_our_udp)
        .of_targets().always_shown();
    /// Use read delegations, as kernels do: a delegated file is opened again without a call until
    /// the server recalls it. All are returned after each pass. Only for nfs with v4.1 and later.
    // RFC 8881, section 10.4.
    Delegations => flag("delegations", nfs!(delegations)).when(has_our_sessions);
    /// The server may answer COPY at once and report the end of the copy later, which completes the
    /// op. Only for nfs with v4.2 and data_ops.
    // RFC 7862, section 4.
    AsyncCopy => flag("async_copy", nfs!(async_copy)).only(&[W::DataOps]).when(has_our_copies);
    /// Send data to the data servers of each file's pNFS layout: of the first type offered (on), or
    /// of this type only. Only for nfs with v4.1 and later.
    // RFC 8881, chapters 12 and 13; RFC 8435.
    Pnfs => word("pnfs", nfs!(pnfs), Pnfs::NAMES).when(has_our_sessions);
    /// pNFS data servers of the in-memory server; of addresses in `[server]`, the first ones.
    /// server: as in `[server]`. Only for nfs with the in-memory server and v4.1 and later.
    DataServers => count("data_servers", nfs!(data_servers)).unit("servers")
        .range(0, 64, "a metadata server has at most 64").open("server").when(has_our_sessions);
    /// Consecutive bytes of a file on one data server; 0 keeps each file on one. server: as in
    /// `[server]`. Only for nfs with the in-memory server and data servers.
    StripeUnit => size("stripe_unit", nfs!(stripe_unit)).range(0, GIB, "a file has more stripes")
        .open("server").when(may_have_data_servers);
    /// Copies of the data, each on data servers of its own. server: as in `[server]`. Only for nfs
    /// with the in-memory server and data servers.
    Mirrors => count("mirrors", nfs!(mirrors)).unit("copies")
        .range(1, 16, "clients write each copy").open("server").when(may_have_data_servers);
    /// Let the server grant delegations (sysctl fs.leases-enable). Applied to the whole host before
    /// mounting, and to leases of its other programs. Only for knfsd with v4.0 and later.
    ServerDelegations => flag("server_delegations", lab!(serving.delegations)).open("unchanged")
        .when(serves_v4);
    /// Let clients keep the timestamps of delegated files (Linux 6.14 and later). Applied to the
    /// whole host before mounting. Only for knfsd with v4.2.
    DelegatedTimestamps => flag("delegated_timestamps", lab!(serving.delegated_timestamps))
        .open("unchanged").when(serves_v4_2);
    /// Let the client's kernel ask for delegations of directories, with which it looks names up
    /// again without a call (Linux 6.19 and later). Applied to the whole host before mounting. Only
    /// for NFS mounts that a plan makes, with v4.1 and later.
    DirectoryDelegations => flag("directory_delegations", lab!(mounting.directory_delegations))
        .open("unchanged").when(mounts_sessions);
    /// List names and attributes in one call (READDIRPLUS, or READDIR with attributes since v4), or
    /// look up each name after a READDIR. Only for nfs and listing.
    Readdirplus => flag("readdirplus", nfs!(readdirplus)).default(Flag(true)).only(&[W::Listing])
        .when(speaks_nfs).always_shown();
    /// Memory of the server: larger files can't be served entirely from it. 0 is unknown.
    ServerMemorySize => size("server_memory_size", run!(server_memory_bytes)).family(Family::Data)
        .range(0, 1 << 50, "no server has that much");
    /// Share of reads in a mix. Only for mixed, database and vm_boot.
    ReadPercent => percent("read_percent", run!(read_percent))
        .default_rule("70; vm_boot: 95").only(MIXES).always_shown();
    /// Share of a mix's ops at random offsets; the others continue where the worker's last op
    /// ended. Only for mixed, database and vm_boot.
    RandomPercent => percent("random_percent", run!(layout.random_percent)).only(MIXES);
    /// Skew of random offsets: the exponent of Zipf's law in hundredths (110) or with a point
    /// (1.1); 0 is uniform. In kv_cache, it is that of the contexts. Only for mixed, database,
    /// vm_boot and kv_cache.
    Skew => percent("skew", run!(layout.skew_percent)).unit("hundredths")
        .range(0, 300, "above an exponent of 3, nearly all ops go to one offset")
        .default_rule("0; kv_cache: 100").only(&[W::Mixed, W::Database, W::VmBoot, W::KvCache]);
    /// Duration of a mix. Only for mixed, op_mix, database and kv_cache.
    Duration => time("duration", run!(duration_ms)).family(Family::Load)
        .range(1, 86_400_000, "a trial is a sample, not a soak: at most a day")
        .default(Number(1_000)).default_rule("1s; kv_cache: 10s")
        .only(&[W::Mixed, W::OpMix, W::Database, W::KvCache]);
    /// Time to work before measuring begins. Not for external tools, listing, developer, io500 and
    /// training.
    Warmup => time("warmup", run!(load.warmup_ms)).family(Family::Load)
        .range(0, 86_400_000, "a trial is a sample, not a soak: at most a day")
        .when(has_single_ops);
    /// Time over which the offered load rises evenly before measuring begins. Only with a rate.
    Ramp => time("ramp", run!(load.ramp_ms)).family(Family::Load)
        .range(0, 86_400_000, "a trial is a sample, not a soak: at most a day").when(has_rate);
    /// Pause after each op of a closed loop. Not for io500, nor with a rate.
    ThinkTime => fine_time("think_time", run!(load.think_time_ns)).family(Family::Load)
        .range(0, 60_000_000_000, "a worker that pauses longer measures nothing")
        .when(may_think);
    /// Maximum bytes per second over all workers; 0 is no limit. Not for listing, developer, io500
    /// and training.
    Bandwidth => size("bandwidth", run!(load.bytes_per_s)).family(Family::Load).unit("bytes/s")
        .range(0, TIB, "no link is that fast").when(has_single_ops);
    /// Time limit of a pass over files; 0 is no limit. Mixed, op_mix and database have duration
    /// instead. In io500, the stonewall of the phases that write.
    TimeMax => time("time_max", run!(load.time_max_ms)).family(Family::Load)
        .range(0, 86_400_000, "a trial is a sample, not a soak: at most a day")
        .default_rule("0; io500: 5min")
        .only(&[
            W::Stream, W::Metadata, W::Bonnie, W::Transactions, W::Checkpoint, W::ModelLoad,
            W::VmBoot, W::Io500,
        ]);
    /// Maximum number of ops in a pass over all workers; 0 is no limit. Not for listing, developer,
    /// io500 and training.
    Ops => count("ops", run!(load.ops_max)).family(Family::Load).unit("ops")
        .range(0, 1_000_000_000, "a trial is a sample, not a soak").when(has_single_ops);
    /// Maximum number of bytes in a pass over all workers; 0 is no limit. Not for listing,
    /// developer, io500 and training.
    Bytes => size("bytes", run!(load.bytes_max)).family(Family::Load)
        .range(0, 1 << 50, "a trial is a sample, not a soak").when(has_single_ops);
    /// Length of the intervals in a pass's time series. Not for external tools.
    Interval => time("interval", run!(sampling.interval_ms)).family(Family::Load)
        .range(100, 60_000, "longer intervals hide changes");
    /// Time after which a worker with ops in flight and no completion counts as stalled, which
    /// raises a caveat; 0 turns this off. Not for external tools.
    Stall => time("stall", run!(sampling.stall_ms)).family(Family::Load)
        .range(0, 3_600_000, "no op takes over an hour");
    /// Bypass the page cache with O_DIRECT; io_size must be a multiple of 512 bytes. Only for posix
    /// and uring; not for metadata.
    Direct => flag("direct", run!(direct)).only(OF_DATA).when(makes_system_calls).always_shown();
    /// Access data through a memory mapping instead of system calls. Only for posix, and for
    /// stream and model_load.
    Mmap => flag("mmap", run!(layout.mmap)).only(&[W::Stream, W::ModelLoad]).when(is_posix);
    /// When written data must be durable. close: files are closed within the timed window. sync:
    /// each written file is synced within it (fsync, COMMIT). dsync, osync: each write waits
    /// (O_DSYNC, O_SYNC; DATA_SYNC, FILE_SYNC). Not for metadata, nor for null.
    Durability => word("durability", run!(durability), Durability::NAMES).family(Family::Data)
        .default(Word("sync")).only(OF_DATA).always_shown();
    /// Close files within the timed window (iozone -c), regardless of durability. Only for stream;
    /// not for null.
    TimedClose => flag("timed_close", run!(layout.timed_close)).family(Family::Data).only(&[W::Stream]);
    /// Drop the files from this host's page cache before reading them. Only for posix and uring;
    /// not for metadata.
    Invalidate => flag("invalidate", run!(invalidate)).default(Flag(true))
        .only(READ_FROM_FILES).when(invalidates_itself).always_shown();
    /// Content of written data. Not for null.
    Data => word("data", run!(data.fill), Fill::NAMES).family(Family::Data);
    /// Share of each block that a compressor can remove. Only for data random; not for null.
    Compress => percent("compress", run!(data.compress_percent)).family(Family::Data)
        .when(writes_random_data);
    /// Share of blocks that are duplicates of earlier ones. Only for data random; not for null.
    Dedup => percent("dedup", run!(data.dedup_percent)).family(Family::Data)
        .when(writes_random_data);
    /// Write campaign, file, offset, generation and checksum into each block, for verify to check.
    /// Not for null.
    Stamp => flag("stamp", run!(data.stamp)).family(Family::Data);
    /// Compare every byte read with what was written. Writes of a mix are then stamped, each with
    /// its own number. Not for metadata, nor for null.
    Verify => flag("verify", run!(verify)).family(Family::Data)
        .only(WITH_FILES).always_shown();
    /// Replies slower than this count as errors; external programs are killed with their children.
    /// A mount that a plan makes is unmounted by force if its server sends nothing for this time,
    /// and at least 30s.
    Timeout => time("timeout", run!(timeout_ms))
        .range(1, 86_400_000, "no program may take over a day")
        .default_rule("5s; external tools: 1h").only(ALL);
}
