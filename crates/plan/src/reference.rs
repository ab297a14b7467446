//! The keys of a plan with all that a reference page says of them.
//!
//! Limits and defaults are repeated here in words; the tests of `keys` compare them with `limits`
//! and `defaults`.

use crate::fault::{FaultKind, KINDS};
use crate::keys::Section::{Disturb, Faults, Host, Plan, Server, Settings, Target, Workload};
use crate::keys::{KeyDoc, Section};

const fn key(
    section: Section,
    key: &'static str,
    [kind, unit]: [&'static str; 2],
    legal: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> KeyDoc {
    KeyDoc { key, section, kind, unit, legal, default, meaning }
}

/// The key of a planned fault.
const fn fault(index: usize) -> KeyDoc {
    let FaultKind { name, form, meaning } = &KINDS[index];
    let form = if form.is_empty() { "true" } else { form };
    key(Faults, name, ["text or list", ""], form, "none", meaning)
}

#[rustfmt::skip] // one key, one paragraph
pub(crate) static KEYS: &[KeyDoc] = &[
    key(Plan, "name", ["text", ""], "1 to 64 characters", "required",
        "What the campaign is called in results and tables."),
    key(Plan, "trials", ["integer", ""], "1 to 1000", "5",
        "How often each run is repeated; with `until`, at most so often (30 by default)."),
    key(Plan, "discard", ["text", ""], "\"none\", \"extremes\" or \"outliers\"", "none",
        "Which trials are left out of the figures: the highest and the lowest, or those that lie \
         far from the others. All trials are kept in the results."),
    key(Plan, "until", ["share", "percent"], "\"0.1%\" to \"50%\"", "none",
        "No more trials of a run once half the 95 % interval of each of its passes is at most this \
         share of the median; at least 5 are made."),
    key(Plan, "warmup_trials", ["integer", ""], "0 to 100", "0",
        "Trials of each run that are made first and never count."),
    key(Plan, "order", ["text", ""],
        "\"blocks\", \"random\", \"sequential\" or \"grouped\"", "blocks; with hosts: grouped",
        "blocks: a trial of every run, shuffled, then the next, so that drift falls on all alike. \
         random: all shuffled. sequential: run after run. grouped: runs whose hosts are set up \
         alike together, in blocks, so that file systems, servers and mounts are made once."),
    key(Plan, "seed", ["integer", ""], "0 to 18446744073709551615", "drawn, and printed",
        "Where every random choice comes from: offsets, mixes, data, the order of trials."),
    key(Plan, "server", ["table", ""], "", "its defaults",
        "The in-memory server, used by targets with `embedded = true`."),
    key(Plan, "host", ["tables", ""], "", "none",
        "Hosts that are set up for targets with `server`; docs/lab.md says what is done to them."),
    key(Plan, "target", ["tables", ""], "at least one", "required",
        "What is measured."),
    key(Plan, "factors", ["table", ""], "", "none",
        "Settings of all workloads; a setting with several values multiplies the runs."),
    key(Plan, "workload", ["tables", ""], "at least one", "required",
        "What is done to the targets."),
    key(Plan, "disturb", ["tables", ""], "", "none",
        "What is done to hosts while `dfsbench soak` runs; other commands refuse it."),

    key(Server, "memory", ["size", "bytes"], "1 MiB to 1 TiB", "192MiB",
        "How much file data and bookkeeping the in-memory server holds at most."),
    key(Server, "threads", ["integer", ""], "1 to 64", "1",
        "Threads of the in-memory server."),
    key(Server, "discard", ["true or false", ""], "true or false", "false",
        "Throw written data away and read zeros: the limits of client and wire."),
    key(Server, "nfsvers", ["list of versions", ""], "2, 3, 4.0, 4.1 or 4.2", "all",
        "Versions of NFS that the in-memory server offers."),
    key(Server, "faults", ["table", ""], "", "none",
        "What the in-memory server does wrong on purpose."),

    key(Faults, "seed", ["integer", ""], "0 to 18446744073709551615", "the plan's",
        "Where the random choices of faults come from."),
    fault(0), fault(1), fault(2), fault(3), fault(4), fault(5), fault(6), fault(7), fault(8),
    fault(9), fault(10), fault(11), fault(12), fault(13), fault(14), fault(15), fault(16),
    fault(17), fault(18), fault(19), fault(20), fault(21), fault(22), fault(23), fault(24),
    fault(25), fault(26), fault(27), fault(28),

    key(Host, "name", ["text", ""], "letters, digits, `-`, `_`, `.`", "required",
        "What the host is called in targets and tables."),
    key(Host, "ssh", ["text", ""], "[user@]host", "this very host",
        "Where ssh finds it; keys, ports and proxies are those of your ssh configuration."),
    key(Host, "ssh_config", ["text", ""], "a file", "your own",
        "Configuration for ssh (`ssh -F`)."),
    key(Host, "address", ["text", ""], "a name or an address", "that of `ssh`",
        "Where the other hosts reach it, over the network that is measured."),
    key(Host, "interface", ["text", ""], "such as eth0", "none",
        "Its interface to that network; mtu, rate_limit and delay need it."),
    key(Host, "slots", ["integer", "agents"], "1 to 4096", "1",
        "Clients that it may play at one moment, each by a process of its own. Those beyond the \
         first of each host are used last."),

    key(Target, "name", ["text", ""], "letters, digits, `-`, `_`, `.`", "required",
        "What the target is called in tables and in `targets`."),
    key(Target, "url", ["text", ""],
        "nfs://host[:port]/path[?version=4.1&proto=tcp&uid=..&gid=..&mountport=..]", "none",
        "An NFS server, spoken to without the kernel's client. The query may hold version, \
         proto, xprtsec, nconnect, transfer_size, timeo, retrans, sec, uid, gid, groups, resvport, \
         mountport, family (ipv4 or ipv6), tls_ca, tls_cert, tls_key and tls_server_name."),
    key(Target, "path", ["text or list", ""], "a directory, or several", "none",
        "A directory of this host; a relative one starts where the program was called. The files of \
         a run are dealt out to several in turn."),
    key(Target, "spread", ["text", ""], "together, alone or both", "together",
        "Several directories as one target, as one each (name.1, name.2 ...), or both."),
    key(Target, "temporary", ["true", ""], "true", "none",
        "A directory of our own under the system's temporary folder."),
    key(Target, "embedded", ["true", ""], "true", "none",
        "The in-memory server of this very process, over NFS on loopback."),
    key(Target, "null", ["true", ""], "true", "none",
        "Nothing: measures what the tool itself can do."),
    key(Target, "memory", ["true", ""], "true", "none",
        "Memory of this host: data is copied and kept nowhere."),
    key(Target, "tcp", ["text", ""], "host:port, or \"embedded\"", "none",
        "A `dfsbench serve`, at its port of NFS, or the in-memory server of this very process: the \
         same bytes in the same steps over TCP, without RPC."),
    key(Target, "faultless", ["true", ""], "true", "false",
        "With `embedded`: a server beside the usual one that does nothing wrong on purpose."),
    key(Target, "server", ["text", ""], "the name of a [[host]]", "none",
        "A directory of that host, on a file system and through a path that settings say; it is \
         set up before each run, and put back."),
    key(Target, "client", ["text", ""], "the name of a [[host]]", "none",
        "The host that mounts it and works there, for data_path network and tunnel."),
    key(Target, "clients", ["list of texts", ""], "names of [[host]]s", "none",
        "Several hosts that mount it and work there at one moment, in the place of `client`; \
         client_hosts says how many of them."),
    key(Target, "hosts", ["list of texts", ""], "names of [[host]]s, or \"job\"", "this one",
        "The hosts that use a path, a url or null at one moment; nothing is set up there. \"job\" \
         stands for those of a job that a launcher found. docs/fleet.md says more."),
    key(Target, "devices", ["text or list", ""], "whole paths on the server", "none",
        "Devices that file systems are made on: what is on them is lost, and --allow-destroy must \
         repeat each. Without raid the first alone is used."),
    key(Target, "loop_size", ["size", "bytes"], "16 MiB to 1 TiB", "none",
        "Make the devices as files of this size, which must not exist yet; nothing is lost."),
    key(Target, "directory", ["text", ""], "a whole path on the server", "none",
        "What is there already, for file_system existing."),
    key(Target, "tmpfs_size", ["size", "bytes"], "1 MiB to 1 TiB", "half the server's memory",
        "Most bytes of file_system tmpfs."),
    key(Target, "backend", ["text or list", ""],
        "path, temporary: posix, uring; url, embedded: nfs; null: null; memory: memory; tcp: tcp; \
         server: posix, uring, nfs",
        "path, temporary, server: posix; url, embedded: nfs; null: null; memory: memory; tcp: tcp",
        "How ops are executed; a list makes runs with each."),
    key(Target, "uid", ["integer", ""], "0 to 4294967295", "the caller's",
        "User id sent to the in-memory server; a `url` has its own."),
    key(Target, "gid", ["integer", ""], "0 to 4294967295", "the caller's",
        "Group id sent to the in-memory server; a `url` has its own."),
    key(Target, "groups", ["integers", ""], "up to 16", "none",
        "Further groups sent to the in-memory server; a `url` has its own."),
    key(Target, "sec", ["text", ""], "\"none\" or \"sys\"", "sys",
        "How the client says who it is: not at all, or by uid, gid and groups (AUTH_SYS); a `url` \
         has its own."),
    key(Target, "resvport", ["true or false", ""], "true or false", "false",
        "Send from a port below 1024, which needs the right to use one; a `url` has its own."),
    key(Target, "tls_ca", ["text", ""], "a file", "those of the system",
        "Certificates (PEM) that a server's certificate may be signed by, for xprtsec tls."),
    key(Target, "tls_cert", ["text", ""], "a file", "none",
        "Certificate (PEM) that the client shows to servers that ask for one; needs tls_key."),
    key(Target, "tls_key", ["text", ""], "a file", "none",
        "Private key (PEM) of tls_cert."),
    key(Target, "tls_server_name", ["text", ""], "a host name or address", "the host",
        "The name that the server's certificate must be for."),

    key(Workload, "kind", ["text", ""],
        "stream, mixed, metadata, bonnie, transactions, op_mix, app, fio, iozone, bonnie++ or dd",
        "required",
        "stream: whole files, sequentially or block by block. mixed: reads and writes in stated \
         shares, for a time. metadata: create, stat and remove many small files. bonnie: what \
         bonnie does to one large file. transactions: a pool of small files (PostMark). op_mix: \
         all kinds of NFS calls in stated shares (LADDIS, SPEC SFS). app: a command of yours. fio, \
         iozone, bonnie++, dd: those programs, their figures read."),
    key(Workload, "run", ["list of texts", ""], "a program and its arguments", "required for app",
        "What an app workload times, in the working directory; of fio, iozone, bonnie++ and dd: \
         further arguments. No shell reads it."),
    key(Workload, "setup", ["list of texts", ""], "a program and its arguments", "none",
        "What is run before, untimed. Only for app."),
    key(Workload, "cleanup", ["list of texts", ""], "a program and its arguments", "none",
        "What is run after, untimed. Only for app."),
    key(Workload, "shares", ["table", "percent"], "names of ops with their shares", "none",
        "A mix of your own: { read = 60, write = 40 }, together 100. Only for op_mix."),
    key(Workload, "mix_from", ["text", ""], "a file", "none",
        "Takes the shares from what `nfsstat -c` or `nfsstat -s` printed. Only for op_mix."),
    key(Workload, "targets", ["list of texts", ""], "names of targets", "all",
        "Only these targets."),
    key(Workload, "backends", ["list of texts", ""], "null, posix, uring or nfs", "all",
        "Only these of the targets' backends."),

    key(Disturb, "kind", ["text", ""],
        "server-restart, server-stall, nfsd-stop, network-cut, disk-full, client-kill or \
         clock-step",
        "required",
        "What is done. server-restart, server-stall: to the in-memory server. nfsd-stop, \
         network-cut, disk-full: to a server that the plan sets up. client-kill: the agent of a \
         client host is killed. clock-step: the calendar of a host is set."),
    key(Disturb, "host", ["text", ""], "the name of a [[host]]", "the one that serves",
        "To whom it is done; client-kill and clock-step need it."),
    key(Disturb, "at", ["time", "ms"], "0ms to 24h", "required",
        "When it begins: measured time from the start of the soak."),
    key(Disturb, "for", ["time", "ms"], "0ms to 24h", "over at once",
        "How long it lasts; all but server-restart and client-kill need it."),
    key(Disturb, "by", ["time", "ms"], "-24h to 24h", "none",
        "How far clock-step sets the calendar forward, or back."),

    key(Settings, "data_path", ["text", ""],
        "\"disk\", \"loopback\", \"network\" or \"tunnel\"", "network; without a client: loopback",
        "disk: the program works on the server, without NFS. loopback: there, on a mount of the \
         server's own export. network: on the client. tunnel: on the client, through ssh. Only for \
         targets with `server`."),
    key(Settings, "cpu_frequency", ["frequency", "kHz"], "100MHz to 10GHz, or \"unchanged\"",
        "unchanged", "Highest frequency of the server's processors."),
    key(Settings, "cores", ["integer", "processors"], "1 to 8192, or \"unchanged\"", "unchanged",
        "Processors of the server that stay online."),
    key(Settings, "server_sysctl", ["text", ""], "name=value, with `+` between several", "none",
        "Further sysctls of the server."),
    key(Settings, "client_sysctl", ["text", ""], "name=value, with `+` between several", "none",
        "Further sysctls of the client. Not for data_path disk and loopback."),
    key(Settings, "mtu", ["integer", "bytes"], "576 to 65535, or \"unchanged\"", "unchanged",
        "Largest packet, on both hosts. Only for data_path network and tunnel."),
    key(Settings, "rate_limit", ["rate", "bits/s"], "8kbit to 1000gbit, or \"unchanged\"",
        "unchanged",
        "Most bits per second that leave each host. Only for data_path network and tunnel."),
    key(Settings, "delay", ["time", "us"], "1us to 10s, or \"unchanged\"", "unchanged",
        "What each packet waits before it leaves a host: the round trip is longer by twice that. \
         Only for data_path network and tunnel."),
    key(Settings, "congestion", ["text", ""], "a name, or \"unchanged\"", "unchanged",
        "Congestion control of TCP on both hosts, such as cubic or bbr. Not for data_path disk."),
    key(Settings, "tcp_buffer", ["size", "bytes"], "4 KiB to 2.0 GiB, or \"unchanged\"",
        "unchanged", "Largest TCP buffers on both hosts. Not for data_path disk."),
    key(Settings, "slots", ["integer", "calls"], "2 to 65536, or \"unchanged\"", "unchanged",
        "Calls under way per connection of the client's kernel. Not for nfs, nor for data_path \
         disk."),
    key(Settings, "file_system", ["text", ""],
        "\"ext4\", \"xfs\", \"btrfs\", \"tmpfs\" or \"existing\"",
        "existing with a directory, ext4 with devices, else tmpfs",
        "What the server keeps files on; it is made before the first run that wants it. Only for \
         targets with `server`."),
    key(Settings, "raid", ["text", ""], "\"none\", \"0\", \"1\", \"5\", \"6\" or \"10\"", "none",
        "How the devices are combined (md). Only for ext4, xfs and btrfs."),
    key(Settings, "crypt", ["true or false", ""], "true or false", "false",
        "Encrypt the device with a key that is thrown away (dm-crypt). Only for ext4, xfs and \
         btrfs."),
    key(Settings, "format_options", ["text", ""], "arguments with a space between them", "none",
        "Further arguments of mkfs. Only for ext4, xfs and btrfs."),
    key(Settings, "fs_mount_options", ["text", ""], "options with `,` between them", "none",
        "Options of the server's mount of its file system, such as noatime. Not for existing."),
    key(Settings, "server_kind", ["text", ""],
        "\"knfsd\", \"ganesha\", \"unfs3\", \"running\" or \"dfsbench\"", "knfsd",
        "Which program serves: the kernel, NFS-Ganesha, unfs3, one that runs already and is left \
         alone, or this program's own server, in memory (`tmpfs_size`) and on port 20492. Not for \
         data_path disk."),
    key(Settings, "export_options", ["text", ""], "options with `,` between them", "none",
        "Options of exports(5), such as async. Only for knfsd."),
    key(Settings, "nfsd_threads", ["integer", "threads"], "0 to 4096", "0",
        "Threads of the server; 0 leaves them as they are. Only for knfsd and ganesha."),
    key(Settings, "tunnel_compression", ["true or false", ""], "true or false", "false",
        "Compress what goes through the tunnel (ssh -C). Only for data_path tunnel."),
    key(Settings, "tunnel_cipher", ["text", ""], "a name, or \"unchanged\"", "unchanged",
        "Cipher of the tunnel (ssh -c). Only for data_path tunnel."),
    key(Settings, "mount_options", ["text", ""], "options with `,` between them", "none",
        "Further options of nfs(5), such as noac. Not for nfs, nor for data_path disk."),
    key(Settings, "bdi_read_ahead", ["integer", "KiB"], "0 to 1048576, or \"unchanged\"",
        "unchanged",
        "Read-ahead of the client's mount. Not for nfs, nor for data_path disk."),
    key(Settings, "invalidation", ["text", ""],
        "\"none\", \"files\", \"caches\", \"remount\", \"server-remount\" or \"server-restart\"",
        "caches",
        "What is done before a pass reads. files: the files leave the page cache of the host that \
         works. caches: that is emptied, and the server's. remount: the client mounts anew. \
         server-remount, server-restart: so does, or so begins, the server. Each includes those \
         before it. Only for targets with `server`; others have invalidate."),
    key(Settings, "strict", ["true or false", ""], "true or false", "false",
        "A setting that is not in force fails the run; otherwise it is told as a caveat. Only for \
         targets with `server`."),
    key(Settings, "passes", ["text", ""], "names with `+` between them, or \"usual\"", "usual",
        "Passes of a trial, in their order: write+read of a stream, create+stat+remove of \
         metadata. Stream and iozone: write, rewrite, read, reread, random_read, random_write, \
         backward_read, stride_read. Metadata: create, stat, read_files, rename, remove, mkdir, \
         stat_dirs, rename_dirs, rmdir. Bonnie: char_write, write, update, char_read, read, \
         seeks."),
    key(Settings, "client_hosts", ["integer", "hosts"], "1 to 10000", "all of the target",
        "How many client hosts work at one moment: the first of the target's `clients` or `hosts`. \
         Programs of others can't be made by more than one."),
    key(Settings, "neighbour", ["integer", "places"], "0 to 10000", "0",
        "Passes that read work on what the client host so many places further wrote, which its \
         own cache can't hold (IOR -C, mdtest -N); 0 on what it wrote itself. Only for several \
         client hosts."),
    key(Settings, "on_lost", ["time", "ms"], "1s to 1h, or \"continue\"", "continue",
        "How long a client host that is lost is waited for before the runs that need it are given \
         up; continue goes on with the others at once. Only for client hosts."),
    key(Settings, "workers", ["integer", "threads"], "1 to 1024", "1",
        "Threads that issue ops, each with a recorder of its own, on each client host."),
    key(Settings, "clients", ["integer", "clients"], "0 to 20000", "0",
        "NFS clients that are emulated, all client hosts together, each with connections and a \
         name of its own; at least as many as workers, or 0 for one per worker. Only for nfs."),
    key(Settings, "client_uids", ["integer", "uids"], "1 to 20000", "1",
        "User ids that the emulated clients have in turn: client i sends the target's uid + \
         (i mod client_uids). The working directory is then open to all. Only for nfs."),
    key(Settings, "per_client", ["true or false", ""], "true or false", "false",
        "Record the ops, bytes and service times of each emulated client apart (2.5 KiB for each), \
         and report the slowest, the fastest and how fair it was. Only for nfs."),
    key(Settings, "rate", ["integer", "ops/s"], "0 to 100000000", "0",
        "Offered load in ops per second, all workers together: an open loop, whose response times \
         count from the instant an op is due. 0 is a closed loop."),
    key(Settings, "arrivals", ["text", ""], "\"poisson\" or \"constant\"", "poisson",
        "How due instants follow each other. Only with a rate."),
    key(Settings, "mix", ["text", ""],
        "laddis-like, sfs3-like-v2, sfs3-like-v3, sfs2008-like-v3, database-like, mail-like, \
         genomics-like or webserver-like",
        "sfs3-like-v3",
        "Shares of ops, sizes of files and of requests, as field studies found them; `shares` of a \
         [[workload]] make one of your own. Only for op_mix."),
    key(Settings, "set_per_rate", ["size", "bytes"], "0 B to 1 GiB", "10MiB",
        "File set of an op mix for each op/s of its rate. Only for op_mix."),
    key(Settings, "accessed_percent", ["integer", "percent"], "0 to 100", "10",
        "Share of the files of an op mix that data is read from and written to. Only for op_mix."),
    key(Settings, "append_percent", ["integer", "percent"], "0 to 100", "70",
        "Share of the writes of an op mix that append. Only for op_mix."),
    key(Settings, "files_per_directory", ["integer", "files"], "1 to 1000000", "30",
        "Files in each directory of an op mix. Only for op_mix."),
    key(Settings, "files", ["integer", "files"], "1 to 10000000", "one per worker",
        "Data files, all workers together. Not for metadata, which has small_files."),
    key(Settings, "file_size", ["size", "bytes"], "1 B to 1 TiB", "64MiB",
        "Size of each data file, a multiple of io_size. Not for metadata, which has \
         small_file_size."),
    key(Settings, "small_files", ["integer", "files"], "1 to 10000000",
        "5000; transactions: 500",
        "Files that are created, looked up and removed, or that the pool of transactions begins \
         with, all workers together. Only for metadata and transactions."),
    key(Settings, "small_file_size", ["size", "bytes"], "0 B to 1 MiB", "4KiB",
        "Bytes written to each of the small files when it is created, with one op; 0 creates it \
         empty. Only for metadata."),
    key(Settings, "tree_sharing", ["text", ""], "\"own\" or \"shared\"", "shared",
        "Whether each worker has a tree of directories of its own, or all work in one. Only for \
         metadata."),
    key(Settings, "depth", ["integer", "levels"], "0 to 64", "0",
        "Levels of directories below the first; 0 is one flat directory. Only for metadata."),
    key(Settings, "branching", ["integer", "directories"], "1 to 10000", "1",
        "Directories in each directory that is no leaf. Only for metadata with a depth."),
    key(Settings, "transactions", ["integer", "transactions"], "1 to 1000000000", "500",
        "Transactions, all workers together. Only for transactions."),
    key(Settings, "size_min", ["size", "bytes"], "0 B to 16 MiB", "500B",
        "Smallest file of the pool. Only for transactions."),
    key(Settings, "size_max", ["size", "bytes"], "0 B to 16 MiB", "10000B",
        "Largest file of the pool. Only for transactions."),
    key(Settings, "read_bias", ["integer", "percent"], "0 to 100", "50",
        "Of reads and appends: reads. Only for transactions."),
    key(Settings, "create_bias", ["integer", "percent"], "0 to 100", "50",
        "Of creations and removals: creations. Only for transactions."),
    key(Settings, "subdirectories", ["integer", "directories"], "0 to 100000", "0",
        "Directories that the pool is spread over. Only for transactions."),
    key(Settings, "io_size", ["size", "bytes"], "1 B to 64 MiB",
        "stream: 1MiB; mixed: 4KiB; bonnie, op_mix: 8KiB; at most file_size",
        "Bytes of one read or write. Not for metadata."),
    key(Settings, "sharing", ["text", ""], "\"own\" or \"shared\"", "own",
        "Whether each worker has files of its own, or all workers work on each file. Only for \
         stream."),
    key(Settings, "block_size", ["size", "bytes"], "0 B to 1 TiB", "0",
        "Of a shared file: bytes that one worker has in a row before the next one's begin, a \
         multiple of io_size; 0 gives each worker one such block per file. Only for stream with \
         sharing shared."),
    key(Settings, "stride", ["integer", "blocks"], "2 to 1000000", "17",
        "Blocks from one op of stride_read to the next. Only for stream."),
    key(Settings, "queue_depth", ["integer", "ops"], "1 to 4096", "uring, nfs: 8; null: 1",
        "Ops in flight per worker, over NFS per client. Not for posix, whose calls are \
         synchronous."),
    key(Settings, "nfsvers", ["version", ""], "2, 3, 4.0, 4.1 or 4.2", "3",
        "Version of NFS; it is not negotiated. Also with a target. Only for nfs and mounts of ours."),
    key(Settings, "proto", ["text", ""], "\"tcp\" or \"udp\"", "tcp",
        "What RPC runs over; udp for v2 and v3. Also with a target. Only for nfs and mounts of ours."),
    key(Settings, "xprtsec", ["text", ""], "\"none\" or \"tls\"", "none",
        "Protection of the transport: tls is RPC-over-TLS (RFC 9289), for v3 and newer over tcp. \
         Also with a target. Only for nfs and mounts of ours."),
    key(Settings, "nconnect", ["integer", "connections"], "1 to 16", "1",
        "Connections of one client, over tcp. Also with a target. Only for nfs and mounts of ours."),
    key(Settings, "transfer_size", ["size or text", "bytes"],
        "1 KiB to 4 MiB, or \"server\"", "server",
        "Largest payload of one READ or WRITE on the wire (rsize, wsize). Also with a target. \
         Only for nfs and mounts of ours; not for metadata."),
    key(Settings, "read_ahead", ["integer", "transfers"], "0 to 1024", "0",
        "Transfers that a client has in flight beyond what a sequential read asks for. Only for \
         nfs and stream."),
    key(Settings, "write_behind", ["integer", "transfers"], "0 to 1024", "0",
        "Transfers that a client may have in flight after their writes have ended. Only for nfs \
         and stream."),
    key(Settings, "stable", ["text", ""],
        "\"unstable\", \"data_sync\" or \"file_sync\"", "unstable",
        "How safe a WRITE must be before it is answered; v2 knows file_sync only. Only for nfs; \
         not for metadata."),
    key(Settings, "timeo", ["time", "ms"], "1ms to 10m", "1100ms",
        "How long an answer is waited for before a call is sent again, twice as long each further \
         time. Also with a target. Only over udp."),
    key(Settings, "retrans", ["integer", "times"], "0 to 30", "3",
        "How often a call is sent again before the waits start over. Also with a target. Only over udp."),
    key(Settings, "read_percent", ["integer", "percent"], "0 to 100", "70",
        "Share of reads in a mix. Only for mixed."),
    key(Settings, "random_percent", ["integer", "percent"], "0 to 100", "100",
        "Share of a mix's ops that go to a random place; the others go on where the last one of \
         their worker ended. Only for mixed."),
    key(Settings, "skew", ["integer", "hundredths"], "0 to 300", "0",
        "How unequal the chances of random places are: the exponent of Zipf's law in hundredths; 0 \
         makes all equal. Only for mixed."),
    key(Settings, "duration", ["time", "ms"], "1ms to 24h", "1s",
        "How long a mix runs. Only for mixed and op_mix."),
    key(Settings, "warmup", ["time", "ms"], "0ms to 24h", "0ms",
        "Work for so long before anything counts. Not for programs of others."),
    key(Settings, "ramp", ["time", "ms"], "0ms to 24h", "0ms",
        "The offered load rises evenly for so long before anything counts. Only with a rate."),
    key(Settings, "think_time", ["time", "ns"], "0ns to 60s", "0",
        "Pause after each op of a closed loop. Not with a rate."),
    key(Settings, "bandwidth", ["size", "bytes/s"], "0 B to 1 TiB", "0",
        "Most bytes per second, all workers together; 0 is no cap."),
    key(Settings, "time_max", ["time", "ms"], "0ms to 24h", "0ms",
        "A pass that its files would end ends after so long at the latest; 0 is no bound. Mixed \
         and op_mix have duration."),
    key(Settings, "ops", ["integer", "ops"], "0 to 1000000000", "0",
        "A pass ends after so many ops, all workers together; 0 is no bound."),
    key(Settings, "bytes", ["size", "bytes"], "0 B to 1 PiB", "0",
        "A pass ends after so many bytes, all workers together; 0 is no bound."),
    key(Settings, "interval", ["time", "ms"], "100ms to 1m", "1s",
        "Length of the interval samples that are kept of each pass: its time series. Not for \
         programs of others."),
    key(Settings, "stall", ["time", "ms"], "0ms to 1h", "1s",
        "A worker that has ops under way and ends none for so long stalls, which is a caveat; 0 \
         looks for none. Not for programs of others."),
    key(Settings, "direct", ["true or false", ""], "true or false", "false",
        "Bypass the page cache with O_DIRECT; io_size must be a multiple of 512 bytes. Only for \
         posix and uring; not for metadata."),
    key(Settings, "mmap", ["true or false", ""], "true or false", "false",
        "Move data by memory mapping instead of calls. Only for posix and stream."),
    key(Settings, "durability", ["text", ""],
        "\"none\", \"close\", \"sync\", \"dsync\" or \"osync\"", "sync",
        "close: files are closed inside the timed window. sync: each file that was written is \
         synced (fsync, COMMIT) inside it. dsync, osync: each write waits (O_DSYNC, O_SYNC; \
         DATA_SYNC, FILE_SYNC). Not for metadata, nor for null."),
    key(Settings, "timed_close", ["true or false", ""], "true or false", "false",
        "Close files inside the timed window (iozone -c), whatever durability asks for. Only for \
         stream; not for null."),
    key(Settings, "invalidate", ["true or false", ""], "true or false", "true",
        "Drop the files from this host's page cache before they are read. Only for posix and \
         uring; not for metadata."),
    key(Settings, "data", ["text", ""], "\"random\" or \"zeros\"", "random",
        "What written bytes look like. Not for null."),
    key(Settings, "compress", ["integer", "percent"], "0 to 100", "0",
        "Share of each block that a compressor can take away. Only for data random; not for null."),
    key(Settings, "dedup", ["integer", "percent"], "0 to 100", "0",
        "Share of blocks that are there already. Only for data random; not for null."),
    key(Settings, "stamp", ["true or false", ""], "true or false", "false",
        "Put campaign, file, offset, generation and checksum into each block; verify looks for \
         them. Not for null."),
    key(Settings, "verify", ["true or false", ""], "true or false", "false",
        "Compare every byte read with what was written. Not for metadata, nor for null."),
    key(Settings, "timeout", ["time", "ms"], "1ms to 24h", "5s; programs of others: 1h",
        "An answer that takes longer is a failure; a program is ended with its children."),
];
