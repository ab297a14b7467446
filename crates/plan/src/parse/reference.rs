//! The keys of a plan with all that a reference page says of them.
//!
//! Settings have their rows in `model::setting`, and `keys` adds them. Limits and defaults of the
//! others are repeated here in words; the tests of `keys` compare them with `limits`.

use std::borrow::Cow;

use model::target::{OF_DIRECTORIES, OF_NFS, TargetRow};

use crate::parse::section::Section::{
    Conclusion, Disturb, Faults, Host, Plan, Server, Target, Workload,
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
    let (legal, default) = (Cow::Borrowed(legal), Cow::Borrowed(default));
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
    for target in model::Target::PLAIN {
        kinds.push((target.row().usual_name, target.row()));
    }
    kinds.push(("tcp", TargetArg::tcp_embedded().row()));
    kinds.push(("server", &OF_LAB));
    let (mut legal, mut default) = (Vec::new(), Vec::new());
    for (keys, row) in kinds {
        let mut names = Vec::new();
        for backend in row.backends {
            names.push(backend.name());
        }
        default.push(format!("{keys}: {}", names[0]));
        legal.push(format!("{keys}: {}", names.join(", ")));
    }
    let meaning = "How ops are executed; a list makes runs with each.";
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
        "What the campaign is called in results and tables."),
    key(Plan, "trials", ["integer", ""], "1 to 1000", "5",
        "How often each run is repeated; with `until`, at most so often (30 by default)."),
    key(Plan, "discard", ["text", ""], "\"none\", \"extremes\", \"outliers\" or \"cached\"", "none",
        "Which trials are left out of the figures: the highest and the lowest, those that lie far \
         from the others, or those that were read from a cache. All trials are kept in the results."),
    key(Plan, "until", ["share", "percent"], "\"0.1%\" to \"50%\"", "none",
        "No more trials of a run once half the 95 % interval of each of its passes is at most this \
         share of the median; at least 5 are made."),
    key(Plan, "budget", ["time", ""], "\"1s\" to \"168h\"", "none",
        "After so long no run gets more than 5 trials beside those that warm up, however wide its \
         intervals are."),
    key(Plan, "warmup_trials", ["integer", ""], "0 to 100", "0",
        "Trials of each run that are made first and never count."),
    key(Plan, "order", ["text", ""],
        "\"blocks\", \"random\", \"sequential\" or \"grouped\"", "blocks; with hosts: grouped",
        "blocks: a trial of every run, shuffled, then the next, so that drift falls on all alike. \
         random: all shuffled. sequential: run after run. grouped: runs whose hosts are set up \
         alike together, in blocks, so that file systems, servers and mounts are made once."),
    key(Plan, "interference", ["text", ""], "\"repeat\" or \"keep\"", "repeat",
        "Trials that the hypervisor, other programs, memory pressure or heat disturbed: repeat sets \
         them aside and makes others in their place, at most half as many as `trials`, unless most \
         are disturbed. keep lets all count."),
    key(Plan, "fair", ["text", ""], "\"named\" or \"strict\"", "named",
        "What to do where the targets that are compared differ in more than the system. named: each \
         difference is named beside the figures. strict: the plan is refused."),
    key(Plan, "quiet", ["time", ""], "\"0s\" to \"1h\"",
        "\"10s\" where systems are compared, else \"0s\"",
        "How long a trial waits at most until disks and networks of the hosts that are set up move \
         less than 1 MB/s each. Where they don't, it has the caveat not-quiet."),
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
    key(Plan, "conclusion", ["tables", ""], "", "none",
        "Sentences that the report judges by the data, such as those of a report that is repeated."),

    key(Server, "memory", ["size", "bytes"], "1 MiB to 1 TiB", "256MiB",
        "How much the in-memory server holds at most: three quarters for files, the rest for \
         connections and clients."),
    key(Server, "threads", ["integer", ""], "1 to 64", "1",
        "Threads of the in-memory server."),
    key(Server, "discard", ["true or false", ""], "true or false", "false",
        "Throw written data away and read zeros: the limits of client and wire."),
    key(Server, "permissions", ["true or false", ""], "true or false", "true",
        "Mode bits, owner, group and the sticky bit decide what a caller may do, as on a kernel's \
         server without root_squash; without, every caller may do everything."),
    key(Server, "delegations", ["true or false", ""], "true or false", "true",
        "Clients of v4.1 and later get delegations to read, as from a kernel's server, and return \
         them when another client changes the file."),
    key(Server, "nfsvers", ["list of versions", ""], "2, 3, 4.0, 4.1 or 4.2", "all",
        "Versions of NFS that the in-memory server offers."),
    key(Server, "faults", ["table", ""], "", "none",
        "What the in-memory server does wrong on purpose."),

    key(Faults, "seed", ["integer", ""], "0 to 18446744073709551615", "the plan's",
        "Where the random choices of faults come from."),
    fault(0), fault(1), fault(2), fault(3), fault(4), fault(5), fault(6), fault(7), fault(8),
    fault(9), fault(10), fault(11), fault(12), fault(13), fault(14), fault(15), fault(16),
    fault(17), fault(18), fault(19), fault(20), fault(21), fault(22), fault(23), fault(24),
    fault(25), fault(26), fault(27), fault(28), fault(29), fault(30), fault(31), fault(32),
    fault(33),

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
        "Clients that it may play at one moment, each by an agent, a process of its own; \
         agents_per_host says how many of them work."),
    key(Host, "labels", ["table", ""], "names with texts of 1 to 200 characters", "none",
        "Words about the host that no program reads there, such as `dram = \"ECC DDR2\"` below \
         [host.labels]: kept with its facts as label.dram, and a factor over campaigns. Without \
         any [[host]] they are those of this very host."),

    key(Target, "name", ["text", ""], "letters, digits, `-`, `_`, `.`", "required",
        "What the target is called in tables and in `targets`."),
    key(Target, "url", ["text", ""],
        "nfs://host[:port]/path[?version=4.1&proto=tcp&uid=..&gid=..&mountport=..]", "none",
        "An NFS server, spoken to without the kernel's client. The query may hold version, \
         proto, xprtsec, nconnect, transfer_size, timeo, retrans, udp_window, sec, uid, gid, \
         groups, resvport, mountport, family (ipv4 or ipv6), tls_ca, tls_cert, tls_key and tls_server_name."),
    key(Target, "path", ["text or list", ""], "a directory, or several", "none",
        "A directory of this host; a relative one starts where the program was called. The files of \
         a run are dealt out to several in turn. With `server`: as `directory`."),
    key(Target, "spread", ["text", ""], "together, alone or both", "together",
        "Several directories as one target, as one each (name.1, name.2 ...), or both. With `server` \
         also several devices, each with a file system of its own that is exported and mounted."),
    key(Target, "temporary", ["true", ""], "true", "none",
        "A directory of our own under the system's temporary folder; under /var/tmp where that is in memory."),
    key(Target, "embedded", ["true", ""], "true", "none",
        "The in-memory server of this very process, over NFS on loopback."),
    key(Target, "tcp", ["text", ""], "host:port, or \"embedded\"", "none",
        "A `dfsbench serve`, at its port of NFS, or the in-memory server of this very process: the \
         same bytes in the same steps over TCP, without RPC."),
    key(Target, "faultless", ["true", ""], "true", "false",
        "With `embedded`: a server beside the usual one that does nothing wrong on purpose."),
    key(Target, "server", ["text", ""], "the name of a [[host]]", "none",
        "A directory of that host, on a file system and through a path that settings say; it is \
         set up before each run, and restored."),
    key(Target, "client", ["text", ""], "the name of a [[host]]", "none",
        "The host that mounts it and works there, for data_path network and tunnel."),
    key(Target, "clients", ["list of texts", ""], "names of [[host]]s", "none",
        "Several hosts that mount it and work there at one moment, in the place of `client`; \
         client_hosts says how many of them work."),
    key(Target, "hosts", ["list of texts", ""], "names of [[host]]s, or \"job\"", "this one",
        "The hosts that use a path, a url or null at one moment; nothing is set up there. \"job\" \
         stands for those of a job that a launcher found. docs/fleet.md says more."),
    key(Target, "devices", ["text or list", ""], "whole paths on the server", "none",
        "Devices that file systems are made on: what is on them is lost, and --allow-destroy must \
         repeat each. Without raid and spread the first alone is used."),
    key(Target, "loop_size", ["size", "bytes"], "16 MiB to 1 TiB", "none",
        "Make the devices as files of this size, which must not exist yet; nothing is lost."),
    key(Target, "directory", ["text or list", ""], "whole paths on the server", "none",
        "What is there already, for file_system existing; several are exported and mounted each on \
         its own."),
    key(Target, "tmpfs_size", ["size", "bytes"], "1 MiB to 1 TiB", "half the server's memory",
        "Most bytes of file_system tmpfs."),
    key(Target, "system", ["text", ""], "a name of `dfsbench systems`, or the path of a recipe", "none",
        "With `server`: the file system that is set up there in the place of an NFS server; \
         docs/systems.md."),
    key(Target, "access", ["text", ""], "nfs, mount, fuse or re-export", "fuse, mount, nfs: the first that it has",
        "With `system`: the way by which clients reach it, of those that its recipe has; re-export: the \
         server's host mounts it, and its kernel exports that by NFS."),
    key(Target, "roles", ["table", ""], "roles of the recipe, each with names of [[host]]s", "all on `server`",
        "With `system`: the hosts that its servers are on, such as `data = [\"node1\", \"node2\"]`."),
    key(Target, "settings", ["table", ""], "those of the recipe", "the recipe's",
        "With `system`: its settings; lists make a run with each combination, as levels of \
         system_settings."),
    key(Target, "mount", ["table", ""], "type, source, options", "none",
        "With `server`: a file system that the site has set up itself, mounted by the clients as \
         mount(8) does; nothing is done to its servers."),
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
        "Takes the shares from what `nfsstat -c`, `nfsstat -s` or `mountstats` printed. Only for \
         op_mix."),
    key(Workload, "mix_since", ["text", ""], "a file", "none",
        "Beside `mix_from`: the same counters from before, so that only calls since then count."),
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

    key(Conclusion, "text", ["text", ""], "1 to 400 characters", "required",
        "The sentence."),
    key(Conclusion, "factor", ["text", ""],
        "a setting, target, backend, workload, tags, campaign, fact.NAME or label.NAME", "none",
        "What the sentence is about. Without it nothing is compared, and the sentence is \
         undecided."),
    key(Conclusion, "from", ["text or number", ""], "a level of the factor", "the first",
        "The level that is compared with."),
    key(Conclusion, "to", ["text or number", ""], "a level of the factor", "the last",
        "The level whose rate is compared."),
    key(Conclusion, "passes", ["list of texts", ""], "names of passes, such as read", "all",
        "The passes that the sentence is about; each is judged on its own."),
    key(Conclusion, "where", ["table", ""], "factors with a level or a list of them", "all runs",
        "Only runs with these settings: { workers = 1, io_size = [\"64KiB\", \"1MiB\"] }."),
    key(Conclusion, "expect", ["text", ""],
        "\"faster\", \"slower\", \"no difference\", \"matters most\" or \"ranking\"",
        "required with factor",
        "What the sentence claims of `to` against `from`: a rate higher or lower by 5 % or more, \
         or a difference smaller than that; matters most: no factor explains more of the variance. \
         ranking, without factor: the sentence is a question, and all factors are ranked by that."),
    key(Conclusion, "why", ["text", ""], "1 to 400 characters", "none",
        "Why no comparison can bear it out; only without `factor`."),
];
