//! The keys of a plan, with their entries on the reference page.
//!
//! Settings have their rows in `model::setting`, and `keys` adds them. Limits and defaults of the
//! others are repeated here in words; the tests of `keys` compare them with `limits`.

use std::borrow::Cow;

use model::target::{OF_DIRECTORIES, OF_NFS, TargetRow};

use crate::parse::section::Section::{
    Conclusion, Disturb, Faults, Host, Load, Plan, Require, Server, Target, Workload,
};
use crate::parse::section::{KeyDoc, Section};
use crate::syntax::fault::{FaultKind, KINDS};
use crate::syntax::target::{OF_LAB, TargetArg};

const fn key(
    section: Section,
    key: &'static str,
    [kind, unit]: [&'static str; 2],
    legal: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> KeyDoc {
    let legal = Cow::Borrowed(legal);
    let default = Cow::Borrowed(default);
    let meaning = Cow::Borrowed(meaning);
    KeyDoc { key, section, kind, unit, legal, default, meaning }
}

/// The key of a target without an address, from its row.
pub(crate) const fn plain_target(row: &TargetRow) -> KeyDoc {
    key(Target, row.usual_name, ["true", ""], "true", "none", row.meaning)
}

/// The key of backends, with those of each kind of target; the first of them is the default.
pub(crate) fn backend_key() -> KeyDoc {
    let mut kinds = vec![("path, temporary", &OF_DIRECTORIES), ("url, embedded", &OF_NFS)];
    kinds.extend(model::Target::PLAIN.iter().map(|target| (target.row().usual_name, target.row())));
    kinds.push(("tcp", TargetArg::tcp_embedded().row()));
    kinds.push(("server", &OF_LAB));
    let mut legal = Vec::new();
    let mut default = Vec::new();
    for (keys, row) in kinds {
        let names: Vec<_> = row.backends.iter().map(|backend| backend.name()).collect();
        default.push(format!("{keys}: {}", names[0]));
        legal.push(format!("{keys}: {}", names.join(", ")));
    }
    let meaning = "How ops are executed; a list creates runs with each.";
    KeyDoc {
        legal: Cow::Owned(legal.join("; ")),
        default: Cow::Owned(default.join("; ")),
        ..key(Target, "backend", ["text or list", ""], "", "", meaning)
    }
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
        "Name of the campaign in results and tables."),
    key(Plan, "trials", ["integer", ""], "1 to 1000", "5",
        "Number of trials of each run; with `until`, the maximum (30 by default)."),
    key(Plan, "discard", ["text", ""], "\"none\", \"extremes\", \"outliers\" or \"cached\"", "none",
        "Which trials to exclude from the results: the highest and the lowest, outliers, or those \
         served from a cache. All trials are stored in the results file."),
    key(Plan, "until", ["share", "percent"], "\"0.1%\" to \"50%\"", "none",
        "Stop repeating a run once half the 95 % interval of each of its passes is at most this \
         share of the median, after at least 5 trials."),
    key(Plan, "budget", ["time", ""], "\"1s\" to \"168h\"", "none",
        "After this time, limit each run to 5 trials plus warm-up trials, however wide its \
         intervals are."),
    key(Plan, "warmup_trials", ["integer", ""], "0 to 100", "0",
        "Number of initial trials of each run that don't count."),
    key(Plan, "order", ["text", ""],
        "\"blocks\", \"random\", \"sequential\" or \"grouped\"", "blocks; with hosts: grouped",
        "Order of trials: docs/statistics.md describes each."),
    key(Plan, "interference", ["text", ""], "\"repeat\" or \"keep\"", "repeat",
        "How to treat trials disturbed by the hypervisor, other programs, memory pressure or heat. \
         repeat: exclude them and run replacements, at most half as many as `trials`, unless most \
         are disturbed. keep: count all."),
    key(Plan, "fair", ["text", ""], "\"named\" or \"strict\"", "named",
        "What to do if the compared targets differ in more than the system. named: list each \
         difference next to the results. strict: reject the plan."),
    key(Plan, "quiet", ["time", ""], "\"0s\" to \"1h\"",
        "\"10s\" if systems are compared, else \"0s\"",
        "Maximum time that a trial waits until each disk and network of the hosts that are set up \
         moves less than 1 MB/s. Otherwise, it gets the caveat not-quiet."),
    key(Plan, "seed", ["integer", ""], "0 to 18446744073709551615", "drawn, and printed",
        "Seed for all random choices: offsets, mixes, data and the order of trials."),
    key(Plan, "server", ["table", ""], "", "its defaults",
        "The in-memory server, used by targets with `embedded = true`."),
    key(Plan, "host", ["tables", ""], "", "none",
        "Hosts to set up for targets with `server`; docs/lab.md describes what is done to them."),
    key(Plan, "target", ["tables", ""], "at least one", "required",
        "What is measured."),
    key(Plan, "factors", ["table", ""], "", "none",
        "Settings for all workloads; a setting with several values multiplies the runs."),
    key(Plan, "workload", ["tables", ""], "at least one", "required",
        "What is done to the targets."),
    key(Plan, "load", ["tables", ""], "2 to 5", "none",
        "Loads that run alone and together, in place of `workload`: what does each cost the \
         others?"),
    key(Plan, "disturb", ["tables", ""], "", "none",
        "Disturbances of hosts; only for `dfsbench soak`."),
    key(Plan, "conclusion", ["tables", ""], "", "none",
        "Claims for the report to check, such as those of a paper being reproduced."),
    key(Plan, "require", ["tables", ""], "", "none",
        "Limits that results must keep."),

    key(Server, "memory", ["size", "bytes"], "1 MiB to 1 TiB", "256MiB",
        "Maximum memory of the in-memory server: three quarters for files, the rest for \
         connections and clients."),
    key(Server, "threads", ["integer", ""], "1 to 64", "1",
        "Threads of the in-memory server."),
    key(Server, "discard", ["true or false", ""], "true or false", "false",
        "Discard written data and read zeros, to find the limits of client and network."),
    key(Server, "permissions", ["true or false", ""], "true or false", "true",
        "Enforce mode bits, owner, group and the sticky bit, like a kernel server without \
         root_squash. If false, every caller may do everything."),
    key(Server, "delegations", ["true or false", ""], "true or false", "true",
        "Grant read delegations to clients of v4.1 and later, like a kernel server."),
    key(Server, "nfsvers", ["list of versions", ""], "2, 3, 4.0, 4.1 or 4.2", "all",
        "NFS versions that the in-memory server offers."),
    key(Server, "data_servers", ["integer, or list of addresses", ""], "0 to 64, or HOST:PORT/EXPORT",
        "0",
        "Data servers, which make it the metadata server of a pNFS cluster: this number in the \
         same process, or others by address. See docs/pnfs.md."),
    key(Server, "layouts", ["text", ""], "flexfiles, flexfiles-v4.1, flexfiles-tight or files",
        "flexfiles",
        "Type of the layouts that clients of v4.1 and later get; docs/pnfs.md has the types."),
    key(Server, "stripe_unit", ["size", "bytes"], "0, or 4 KiB to 1 GiB", "0; 1MiB for files",
        "Consecutive bytes on one data server. 0 keeps each file on one: Linux 6.12 fails I/O on \
         striped flexible files."),
    key(Server, "mirrors", ["integer", ""], "1 to 16", "1",
        "Copies of the data, which clients write themselves. Only for flexible files."),
    key(Server, "faults", ["table", ""], "", "none",
        "Faults to inject in the in-memory server."),

    key(Faults, "seed", ["integer", ""], "0 to 18446744073709551615", "the plan's",
        "Seed for the random choices of faults."),
    fault(0), fault(1), fault(2), fault(3), fault(4), fault(5), fault(6), fault(7), fault(8),
    fault(9), fault(10), fault(11), fault(12), fault(13), fault(14), fault(15), fault(16),
    fault(17), fault(18), fault(19), fault(20), fault(21), fault(22), fault(23), fault(24),
    fault(25), fault(26), fault(27), fault(28), fault(29), fault(30), fault(31), fault(32),
    fault(33), fault(34), fault(35), fault(36), fault(37), fault(38),

    key(Host, "name", ["text", ""], "letters, digits, `-`, `_`, `.`", "required",
        "Name of the host in targets and tables."),
    key(Host, "ssh", ["text", ""], "[user@]host", "this host",
        "Destination for ssh; keys, ports and proxies come from your ssh configuration."),
    key(Host, "ssh_config", ["text", ""], "a file", "your own",
        "Configuration file for ssh (`ssh -F`)."),
    key(Host, "address", ["text", ""], "a name or an address", "that of `ssh`",
        "Its address for the other hosts, on the measured network."),
    key(Host, "more_addresses", ["text or list", ""], "names or addresses", "none",
        "Further addresses of the same host on other networks or cards, which max_connect lets \
         clients use at the same time."),
    key(Host, "interface", ["text", ""], "such as eth0", "none",
        "Its interface to that network; required for mtu, rate_limit and delay."),
    key(Host, "slots", ["integer", "agents"], "1 to 4096", "1",
        "Maximum number of concurrent clients on it, each an agent process; agents_per_host sets \
         how many of them work."),
    key(Host, "labels", ["table", ""], "names with texts of 1 to 200 characters", "none",
        "Properties that no program can read, such as `dram = \"ECC DDR2\"` in [host.labels]: facts \
         (label.dram), usable as factors across campaigns. Without any [[host]], of this host."),

    key(Target, "name", ["text", ""], "letters, digits, `-`, `_`, `.`", "required",
        "Name of the target in tables and in `targets`."),
    key(Target, "url", ["text", ""],
        "nfs://host[:port]/path[?version=4.1&proto=tcp&uid=..&gid=..&mountport=..]", "none",
        "An NFS server, accessed without the kernel client. Further addresses of the same server \
         follow the first, separated by commas: nfs://10.0.0.1,10.0.1.1/export. The query may \
         contain version, proto, xprtsec, nconnect, max_connect, transfer_size, timeo, retrans, \
         udp_window, sec, uid, gid, groups, resvport, mountport, family (ipv4 or ipv6), tls_ca, \
         tls_cert, tls_key and tls_server_name."),
    key(Target, "path", ["text or list", ""], "a directory, or several", "none",
        "A directory on this host; relative paths start at the current directory. The files of a \
         run are distributed over several in turn. With `server`: as `directory`."),
    key(Target, "spread", ["text", ""], "together, alone or both", "together",
        "Use several directories as one target (together), as one each (alone: name.1, name.2 \
         ...), or both. With `server`, also several devices."),
    key(Target, "temporary", ["true", ""], "true", "none",
        "A new directory in the system's temporary directory, or in /var/tmp if that is in \
         memory."),
    key(Target, "embedded", ["true", ""], "true", "none",
        "The in-memory server in this process, over NFS on loopback."),
    key(Target, "tcp", ["text", ""], "host:port, or \"embedded\"", "none",
        "A `dfsbench serve` at its NFS port, or the in-memory server in this process: the same \
         bytes in the same steps over TCP, without RPC."),
    key(Target, "faultless", ["true", ""], "true", "false",
        "With `embedded`: use a separate server without injected faults."),
    key(Target, "server", ["text", ""], "the name of a [[host]]", "none",
        "A directory on that host, on a file system and through a path chosen by settings; it is \
         set up before each run and restored afterwards."),
    key(Target, "client", ["text", ""], "the name of a [[host]]", "none",
        "The client host that mounts it and runs the workload, for data_path network and tunnel."),
    key(Target, "clients", ["list of texts", ""], "names of [[host]]s", "none",
        "Several hosts that mount it and work concurrently, instead of `client`; client_hosts sets \
         how many of them work."),
    key(Target, "hosts", ["list of texts", ""], "names of [[host]]s, or \"job\"", "this one",
        "Hosts that use a path, a url or null concurrently; nothing is set up there. \"job\" means \
         the hosts of a job found by a launcher. See docs/fleet.md."),
    key(Target, "devices", ["text or list", ""], "absolute paths on the server", "none",
        "Devices to create file systems on. Their contents are destroyed, and --allow-destroy must \
         repeat each. Without raid or spread, only the first is used."),
    key(Target, "loop_size", ["size", "bytes"], "16 MiB to 1 TiB", "none",
        "Create the devices as files of this size, which must not exist yet; no data is \
         destroyed."),
    key(Target, "directory", ["text or list", ""], "absolute paths on the server", "none",
        "Existing directory, for file_system existing; several are exported and mounted \
         separately."),
    key(Target, "tmpfs_size", ["size", "bytes"], "1 MiB to 1 TiB", "half the server's memory",
        "Maximum size of file_system tmpfs."),
    key(Target, "system", ["text", ""], "a name of `dfsbench systems`, or the path of a recipe", "none",
        "With `server`: the file system to set up there instead of an NFS server; see \
         docs/systems.md."),
    key(Target, "access", ["text", ""], "nfs, mount, fuse or re-export", "fuse, mount, nfs: the first that it has",
        "With `system`: how clients access it, out of the ways in its recipe. re-export: the \
         server's host mounts it, and its kernel exports that over NFS."),
    key(Target, "roles", ["table", ""], "roles of the recipe, each with names of [[host]]s", "all on `server`",
        "With `system`: the hosts of its servers, such as `data = [\"node1\", \"node2\"]`."),
    key(Target, "secrets", ["table", ""], "secrets of the recipe, each with `env` or `file`", "the recipe's",
        "With `system`: where its secrets come from, such as `key = { env = \"S3_KEY\" }`. Values are \
         neither shown nor stored."),
    key(Target, "settings", ["table", ""], "those of the recipe", "the recipe's",
        "With `system`: its settings; lists create a run for each combination, as levels of \
         system_settings."),
    key(Target, "mount", ["table", ""], "type, source, options", "none",
        "With `server`: a file system that already exists, mounted by the clients as with \
         mount(8); its servers are left alone."),
    key(Target, "uid", ["integer", ""], "0 to 4294967295", "the caller's",
        "User ID sent to the in-memory server; a `url` has its own."),
    key(Target, "gid", ["integer", ""], "0 to 4294967295", "the caller's",
        "Group ID sent to the in-memory server; a `url` has its own."),
    key(Target, "groups", ["integers", ""], "up to 16", "none",
        "Supplementary groups sent to the in-memory server; a `url` has its own."),
    key(Target, "sec", ["text", ""], "\"none\" or \"sys\"", "sys",
        "How the client authenticates: not at all, or by uid, gid and groups (AUTH_SYS); a `url` \
         has its own."),
    key(Target, "resvport", ["true or false", ""], "true or false", "false",
        "Send from a port below 1024, which requires privileges; a `url` has its own."),
    key(Target, "tls_ca", ["text", ""], "a file", "those of the system",
        "CA certificates (PEM) to verify the server's certificate with, for xprtsec tls."),
    key(Target, "tls_cert", ["text", ""], "a file", "none",
        "Client certificate (PEM) for servers that ask for one; requires tls_key."),
    key(Target, "tls_key", ["text", ""], "a file", "none",
        "Private key (PEM) of tls_cert."),
    key(Target, "tls_server_name", ["text", ""], "a host name or address", "the host",
        "Name that the server's certificate must match."),

    key(Workload, "kind", ["text", ""],
        "stream, mixed, metadata, listing, bonnie, transactions, op_mix, data_ops, checkpoint, \
         model_load, training, media, kv_cache, database, vm_boot, developer, io500, app, fio, \
         iozone, bonnie++ or dd",
        "required",
        "What is done; docs/workloads.md describes each workload."),
    key(Workload, "run", ["list of texts", ""], "a program and its arguments", "required for app",
        "Command that an app workload times, in the working directory; with fio, iozone, bonnie++ \
         and dd, additional arguments. It is run without a shell."),
    key(Workload, "setup", ["list of texts", ""], "a program and its arguments", "none",
        "Command to run before, untimed. Only for app."),
    key(Workload, "cleanup", ["list of texts", ""], "a program and its arguments", "none",
        "Command to run after, untimed. Only for app."),
    key(Workload, "shares", ["table", "percent"], "names of ops with their shares", "none",
        "Custom mix, such as { read = 60, write = 40 }, with a sum of 100. Only for op_mix."),
    key(Workload, "mix_from", ["text", ""], "a file", "none",
        "File with output of `nfsstat -c`, `nfsstat -s` or `mountstats` to take the shares from. \
         Only for op_mix."),
    key(Workload, "mix_since", ["text", ""], "a file", "none",
        "With `mix_from`: an earlier output of the same command; only calls since then count."),
    key(Workload, "targets", ["list of texts", ""], "names of targets", "all",
        "Only these targets."),
    key(Workload, "backends", ["list of texts", ""], "null, posix, uring or nfs", "all",
        "Only these of the targets' backends."),

    key(Load, "name", ["text", ""], "up to 24 letters, digits, `_`, `-` and `.`", "required",
        "Name of the load in tables."),
    key(Load, "hosts", ["list of texts", ""], "hosts of the target", "all",
        "Hosts on which it works. Loads on the same host have processes of their own."),
    key(Load, "start", ["time", "ms"], "0ms to 24h", "0ms",
        "When it starts, after the first load, if others run at the same time."),
    key(Load, "end", ["time", "ms"], "0ms to 24h", "after its `duration`",
        "When it ends, counted from the start of the first load."),

    key(Disturb, "kind", ["text", ""],
        "server-restart, server-stall, nfsd-stop, network-cut, disk-full, client-kill or \
         clock-step",
        "required",
        "Kind of disturbance, as docs/soak.md describes them."),
    key(Disturb, "host", ["text", ""], "the name of a [[host]]", "the one that serves",
        "The affected host; required for client-kill and clock-step."),
    key(Disturb, "at", ["time", "ms"], "0ms to 24h", "required",
        "When it begins, in measured time since the start of the soak."),
    key(Disturb, "for", ["time", "ms"], "0ms to 24h", "ends immediately",
        "How long it lasts; required except for server-restart and client-kill."),
    key(Disturb, "by", ["time", "ms"], "-24h to 24h", "none",
        "How far clock-step sets the wall clock forward, or back if negative."),

    key(Conclusion, "text", ["text", ""], "1 to 400 characters", "required",
        "The sentence."),
    key(Conclusion, "factor", ["text", ""],
        "a setting, target, backend, workload, tags, campaign, fact.NAME or label.NAME", "none",
        "The factor that the sentence is about. Without it, nothing is compared, and the sentence \
         is undecided."),
    key(Conclusion, "from", ["text or number", ""], "a level of the factor", "the first",
        "The level to compare with."),
    key(Conclusion, "to", ["text or number", ""], "a level of the factor", "the last",
        "The level whose rate is compared."),
    key(Conclusion, "passes", ["list of texts", ""], "names of passes, such as read", "all",
        "The passes that the sentence is about; each is judged separately."),
    key(Conclusion, "where", ["table", ""], "factors with a level or a list of them", "all runs",
        "Only runs with these settings: { workers = 1, io_size = [\"64KiB\", \"1MiB\"] }."),
    key(Conclusion, "expect", ["text", ""],
        "\"faster\", \"slower\", \"no difference\", \"matters most\" or \"ranking\"",
        "required with factor",
        "Claim about the rate of `to` relative to `from`; ranking, without factor, asks which \
         factor matters most."),
    key(Conclusion, "why", ["text", ""], "1 to 400 characters", "none",
        "Why no comparison can confirm it; only without `factor`."),
    key(Require, "limit", ["text", ""], "[PASS.]METRIC < VALUE", "required",
        "A limit such as `read.p99 < 20ms`."),
    key(Require, "where", ["table", ""], "factors with a level or a list of them", "all runs",
        "Only runs with these settings."),
];
