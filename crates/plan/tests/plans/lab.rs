//! Plans with hosts that are set up: the requirements of runs, their order, and the data that would
//! be lost.

use std::path::{Path, PathBuf};

use crate::common::{around, plan};
use crate::round_trip::reads_back;
use model::FileSystem::Tmpfs;
use model::Invalidation::Remount;
use model::lab::{MOUNT_POINT, STORAGE_POINT, TUNNEL_PORT};
use model::setting::Setting;
use model::{
    BackendKind, DataPath, Fresh, LabSpec, NfsVersion, Order, Proto, RunSpec, ServerKind, Target,
};
use plan::{Overrides, Plan, RawPlan, estimate, parse_target};

const HOSTS: &str = "name = \"t\"\ntrials = 2\nseed = 5\n\
    [[host]]\nname = \"s\"\nssh = \"root@10.0.0.1\"\nssh_config = \"c f\"\ninterface = \"eth0\"\n\
    [[host]]\nname = \"c\"\naddress = \"10.0.0.2\"\ninterface = \"eth1\"\n";

/// A plan of one target on two hosts, with these lines of it and these factors.
fn on_hosts(target: &str, factors: &str) -> Plan {
    plan(&text(target, factors)).unwrap()
}

fn text(target: &str, factors: &str) -> String {
    format!(
        "{HOSTS}[[target]]\nname = \"n\"\nserver = \"s\"\nclient = \"c\"\n{target}\n\
         [factors]\n{factors}\n[[workload]]\nkind = \"stream\"\n"
    )
}

fn lab(run: &RunSpec) -> &LabSpec {
    run.lab.as_deref().unwrap()
}

#[test]
fn ignores_mount_settings_on_disk() {
    let plan = on_hosts(
        "",
        "data_path = [\"disk\", \"loopback\", \"network\", \"tunnel\"]\nnfsvers = [3, 4.2]\n\
         transfer_size = [\"server\", \"64KiB\"]\ntunnel_compression = [false, true]\n",
    );
    let count = |path| plan.runs.iter().filter(|run| lab(run).path == path).count();
    let counts = [DataPath::Disk, DataPath::Loopback, DataPath::Network, DataPath::Tunnel];
    assert_eq!(counts.map(count), [1, 4, 4, 8]);
    let last = plan.runs.last().unwrap();
    assert_eq!(lab(last).mounting.nfs.version, NfsVersion::V4_2);
    let options = lab(last).mounting.all_options();
    assert_eq!(options, ["vers=4.2", "proto=tcp", "rsize=65536", "wsize=65536"]);
    let at = |run: &RunSpec| match &run.target {
        Target::Directory { path } => path.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(at(&plan.runs[0]), Path::new(STORAGE_POINT));
    assert!(plan.runs[1..].iter().all(|run| at(run) == Path::new(MOUNT_POINT)));
    assert_eq!(plan.varying(), ["data_path", "nfsvers", "transfer_size", "tunnel_compression"]);
    reads_back(&plan);
}

#[test]
fn infers_layout_from_given_keys() {
    let first = |target: &str, factors: &str| on_hosts(target, factors).runs[0].clone();
    let of = |target: &str| lab(&first(target, "")).storage.file_system.name();
    assert_eq!(of(""), "tmpfs");
    assert_eq!(of("devices = \"/dev/vdb\""), "ext4");
    assert_eq!(of("directory = \"/srv\""), "existing");
    let plain = first("", "");
    assert_eq!((lab(&plain).path, plain.invalidate), (DataPath::Network, true));
    assert!(!first("", "invalidation = \"none\"").invalidate);
    let disk = first("directory = \"/srv\"", "data_path = \"disk\"");
    assert_eq!(disk.target, Target::Directory { path: "/srv".into() });
    // The program's own client talks to the server, so no kernel mounts anything.
    let own = |path: &str| {
        let factors = format!("data_path = \"{path}\"\nproto = [\"udp\", \"tcp\"]");
        on_hosts("backend = \"nfs\"", &factors).runs
    };
    let network = own("network");
    let Target::Nfs(nfs) = &network[0].target else { panic!("{}", network[0].target) };
    assert_eq!((nfs.host.as_str(), nfs.port, nfs.identity.uid), ("10.0.0.1", None, 0));
    assert_eq!((nfs.path.as_str(), nfs.settings.proto), (STORAGE_POINT, Proto::Udp));
    assert!(lab(&network[0]).serving.udp && !lab(&network[1]).serving.udp);
    let Target::Nfs(nfs) = &own("tunnel")[1].target else { panic!() };
    assert_eq!((nfs.host.as_str(), nfs.port), ("127.0.0.1", Some(TUNNEL_PORT)));
}

#[test]
fn tunnels_udp_only_as_packets() {
    let factors = "data_path = \"tunnel\"\nproto = \"udp\"\n\
                   tunnel_forwards = [\"ports\", \"packets\"]\n";
    let runs = on_hosts("backend = \"nfs\"", factors).runs;
    let why = runs[0].impossible().unwrap().to_string();
    insta::assert_snapshot!(why, @"a tunnel that forwards ports carries TCP only");
    assert_eq!(runs[1].impossible(), None);
    let Target::Nfs(nfs) = &runs[1].target else { panic!("{}", runs[1].target) };
    assert_eq!((nfs.host.as_str(), nfs.port), ("169.254.77.1", None));
}

#[test]
fn every_setting_of_hosts_reads_back() {
    let plan = on_hosts(
        "devices = [\"/var/a\", \"/var/b c\"]\nloop_size = \"64MiB\"\ndirectory = \"/srv\"\n\
         tmpfs_size = \"1GiB\"\nnfsvers = 4.2\nbackend = [\"posix\", \"nfs\"]\n",
        "data_path = [\"network\", \"tunnel\"]\ncpu_frequency = [\"unchanged\", \"1200MHz\"]\n\
         cores = 2\nserver_sysctl = [\"\", \"vm.dirty_ratio=5+net.ipv4.tcp_rmem=4096 1 2\"]\n\
         client_sysctl = \"vm.x=1\"\nmtu = [\"unchanged\", 9000]\nrate_limit = \"100mbit\"\n\
         delay = \"500us\"\ncongestion = \"bbr\"\ntcp_buffer = \"4MiB\"\nslots = 128\n\
         file_system = [\"xfs\", \"tmpfs\", \"existing\"]\n\
         raid = [\"none\", 0]\nraid_chunk = \"64KiB\"\ncrypt = [true, false]\n\
         crypt_cipher = \"aes-cbc-essiv:sha256\"\ncrypt_key = 256\n\
         format_options = \"-d su=64k\"\nfs_mount_options = \"noatime,nodiratime\"\n\
         server_ram = \"1GiB\"\nclient_ram = \"2GiB\"\n\
         server_kind = [\"knfsd\", \"ganesha\"]\nexport_options = [\"\", \"async,no_wdelay\"]\n\
         nfsd_threads = \"4..64\"\nmax_block_size = \"64KiB\"\n\
         nfsd_io_read = \"direct\"\nnfsd_io_write = \"dontcache\"\n\
         tunnel_forwards = [\"packets\", \"ports\"]\n\
         tunnel_compression = true\ntunnel_cipher = \"aes128-ctr\"\n\
         mount_options = [\"noac\", \"\"]\nbdi_read_ahead = 15360\n\
         localio = false\n\
         server_delegations = [true, \"unchanged\"]\ndelegated_timestamps = false\n\
         directory_delegations = true\nsec = \"krb5\"\nmax_connect = 4\n\
         invalidation = [\"none\", \"remount\"]\nfresh = [\"trial\", \"pass\"]\nstrict = true\n",
    );
    assert!(plan.to_toml().contains("\ndelay = \"500us\"\n"));
    reads_back(&plan);
    // None of them is shown unless it was set.
    let shown = |run: &RunSpec, name: &str| {
        let settings = run.settings();
        let found = settings.into_iter().find(|(known, _)| *known == name);
        found.is_some_and(|(_, value)| !run.is_unset(name, &value))
    };
    let of_hosts = Setting::ALL.into_iter().filter(|s| s.family() == model::setting::Family::Lab);
    let always = [Setting::DataPath, Setting::FileSystem, Setting::Invalidation];
    let quiet = on_hosts("", "");
    for setting in of_hosts {
        // Only systems have them; they are tested below.
        if setting == Setting::SystemSettings {
            continue;
        }
        let is_shown = plan.runs.iter().any(|run| shown(run, setting.key()));
        assert!(is_shown, "{setting:?} is not shown");
        let idle = !shown(&quiet.runs[0], setting.key());
        assert!(idle || always.contains(&setting), "{setting:?} is shown by itself");
    }
}

#[test]
fn targets_disks_alone_and_together() {
    let devices = "devices = [\"/dev/b\", \"/dev/c\"]\n";
    let plan = on_hosts(&format!("{devices}spread = \"both\"\n"), "file_system = \"ext2\"\n");
    let names: Vec<_> = plan.runs.iter().map(|run| run.target_name.as_str()).collect();
    assert_eq!(names, ["n.1", "n.2", "n"]);
    let points: Vec<_> = plan.runs.iter().map(|run| run.target.paths().len()).collect();
    assert_eq!(points, [1, 1, 2]);
    assert_eq!(plan.runs[2].target.paths()[1], Path::new("/run/dfsbench/mount-2"));
    let lost: Vec<_> = plan.destroys().into_iter().map(|(_, device)| device).collect();
    assert_eq!(lost, [Path::new("/dev/b"), Path::new("/dev/c")]);
    reads_back(&plan);
    // Without it the second device is not touched.
    let plan = on_hosts(devices, "");
    assert_eq!((plan.runs.len(), plan.runs[0].target.paths().len()), (1, 1));
    assert_eq!(plan.destroys().len(), 1);
    reads_back(&plan);
}

#[test]
fn mounts_directories_separately() {
    for key in ["path", "directory"] {
        let both = format!("{key} = [\"/srv/1\", \"/srv/2\"]\nspread = \"both\"\n");
        let plan = on_hosts(&both, "data_path = [\"disk\", \"network\"]\n");
        let shown: Vec<_> = plan.runs.iter().map(|run| run.target.paths().to_vec()).collect();
        assert_eq!(shown.len(), 6);
        assert_eq!(shown[0], [PathBuf::from("/srv/1")]);
        assert_eq!(shown[4], ["/srv/1", "/srv/2"].map(PathBuf::from));
        assert_eq!(shown[5], [MOUNT_POINT, "/run/dfsbench/mount-2"].map(PathBuf::from));
        reads_back(&plan);
    }
}

#[test]
fn reads_back_host_labels() {
    let labels = "interface = \"eth1\"\n[host.labels]\ndram = \"ECC DDR2\"\n\"rack.a\" = \"1\"\n";
    let with_labels = text("", "").replace("interface = \"eth1\"\n", labels);
    let plan = plan(&with_labels).unwrap();
    let facts = lab(&plan.runs[0]).client.label_facts();
    let shown: Vec<_> =
        facts.iter().map(|fact| (&*fact.scope, &*fact.name, &*fact.value)).collect();
    assert_eq!(shown, [("c", "label.dram", "ECC DDR2"), ("c", "label.rack.a", "1")]);
    assert!(lab(&plan.runs[0]).server.label_facts().is_empty());
    reads_back(&plan);
}

#[test]
fn assigns_unnamed_labels_to_this_host() {
    let text = "name = \"t\"\nseed = 1\n[host.labels]\ndram = \"ECC DDR2\"\n[[target]]\nname = \"n\"\n\
                path = \"/mnt\"\n[[workload]]\nkind = \"stream\"\n";
    let labelled = plan(text).unwrap();
    assert_eq!(labelled.labels.get("dram").map(String::as_str), Some("ECC DDR2"));
    reads_back(&labelled);
    let plain = plan(&text.replace("[host.labels]\ndram = \"ECC DDR2\"\n", "")).unwrap();
    assert!(plain.labels.is_empty() && !plain.to_toml().contains("labels"));
}

#[test]
fn rejects_file_systems_of_memory_server() {
    let plan = on_hosts(
        "devices = \"/dev/vdb\"",
        "file_system = [\"xfs\", \"tmpfs\"]\nserver_kind = [\"dfsbench\", \"knfsd\"]\n",
    );
    let made: Vec<_> = plan.runs.iter().map(|run| lab(run).serving.kind.to_string()).collect();
    assert_eq!(made, ["dfsbench", "knfsd", "knfsd"]);
    reads_back(&plan);
    let mut raw = RawPlan::parse(&text("", "server_kind = \"dfsbench\""), "p.toml").unwrap();
    raw.apply(&Overrides::default().with(Setting::FileSystem, &["xfs", "tmpfs"])).unwrap();
    let error = Plan::resolve(&raw, &around()).unwrap_err().to_string();
    assert!(error.starts_with("--file-system: applies only to targets"), "{error}");
}

#[test]
fn groups_runs_by_hosts() {
    let factors = "io_size = [\"4KiB\", \"1MiB\"]\nnfsvers = [3, 4.1]\n\
                   file_system = [\"xfs\", \"tmpfs\"]\nqueue_depth = [1, 2]\n";
    let target = "devices = \"/dev/vdb\"\nbackend = \"uring\"";
    let plan = on_hosts(target, factors);
    assert_eq!(plan.order, Order::Grouped);
    let groups = plan.groups();
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [4; 4]);
    let of = |run: usize| {
        let lab = lab(&plan.runs[run]);
        (lab.storage.file_system.name(), lab.mounting.nfs.version.name())
    };
    let states = [("xfs", "3"), ("xfs", "4.1"), ("tmpfs", "3"), ("tmpfs", "4.1")];
    assert_eq!(groups.iter().map(|group| of(group[0])).collect::<Vec<_>>(), states);
    // Both blocks of a group come before the next group begins, each run once in each.
    let order = plan.order();
    for (steps, state) in order.chunks(8).zip(states) {
        assert!(steps.iter().all(|step| of(step.run) == state), "{steps:?}");
        assert!(steps[..4].iter().all(|step| step.trial == 0), "{steps:?}");
        assert!(steps[4..].iter().all(|step| step.trial == 1), "{steps:?}");
    }
    let mut all: Vec<_> = order.iter().map(|step| (step.run, step.trial)).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 32);
    let blocks = text(target, factors).replace("seed = 5", "seed = 5\norder = \"blocks\"");
    assert_eq!(self::plan(&blocks).unwrap().order, Order::Blocks);
}

#[test]
fn groups_runs_without_setup() {
    let both = text("", "nfsvers = [3, 4.1]")
        + "[[target]]\nname = \"d\"\npath = \"m\"\n[[workload]]\nkind = \"mixed\"\n";
    let plan = plan(&both).unwrap();
    let groups = plan.groups();
    let names = groups.iter().map(|group| {
        let names = group.iter().map(|run| plan.runs[*run].target_name.as_str());
        names.collect::<Vec<_>>()
    });
    assert_eq!(names.collect::<Vec<_>>(), [vec!["n", "n"], vec!["n", "n"], vec!["d", "d"]]);
}

#[test]
fn requires_devices_twice() {
    let target = "devices = [\"/dev/vdb\", \"/dev/vdc\"]";
    let raid = on_hosts(target, "raid = [\"none\", 1]");
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    let refused = |plan: &Plan, names: &[&str]| {
        plan.check_destroy(&paths(names)).err().map(|error| error.to_string())
    };
    assert_eq!(raid.destroys().len(), 2);
    let [none, one] = [&[][..], &["/dev/vdb"]].map(|names| refused(&raid, names).unwrap());
    assert_eq!(refused(&raid, &["/dev/vdb", "/dev/vdc"]), None);
    // No data is lost on a device that isn't formatted, nor with files that don't exist yet.
    let first = on_hosts(target, "");
    assert_eq!(refused(&first, &["/dev/vdb"]), None);
    let other = refused(&first, &["/dev/vdb", "/dev/vdd"]).unwrap();
    insta::assert_snapshot!([none, one, other].join("\n"));
    let files = on_hosts(&format!("{target}\nloop_size = \"1GiB\""), "");
    assert_eq!(refused(&files, &[]), None);
}

#[test]
fn flags_of_hosts_are_levels_too() {
    let mut raw = RawPlan::parse(&text("", "nfsd_threads = 4"), "p.toml").unwrap();
    let flags = Overrides::default()
        .with(Setting::NfsdThreads, &["8", "64"])
        .with(Setting::MountOptions, &["noac,nocto", ""])
        .with(Setting::TunnelCipher, &["aes128-ctr"]);
    raw.apply(&flags).unwrap();
    // A flag without effect is refused: no data goes through a tunnel here.
    let error = Plan::resolve(&raw, &around()).unwrap_err().to_string();
    assert!(error.starts_with("--tunnel-cipher: "), "{error}");
    assert!(error.contains("data_path tunnel"), "{error}");
    let mut raw = RawPlan::parse(&text("", "data_path = \"tunnel\""), "p.toml").unwrap();
    raw.apply(&flags).unwrap();
    let plan = Plan::resolve(&raw, &around()).unwrap();
    let wanted: Vec<_> = plan
        .runs
        .iter()
        .map(|run| (lab(run).serving.threads.max, lab(run).mounting.options.join(",")))
        .collect();
    let both = "noac,nocto".to_owned();
    let none = String::new();
    let expected = [(8, both.clone()), (8, none.clone()), (64, both), (64, none)];
    assert_eq!(wanted, expected);
}

#[test]
fn reads_dynamic_numbers_of_threads() {
    let levels = |texts: &[&str]| {
        let mut raw = RawPlan::parse(&text("", ""), "p.toml").unwrap();
        raw.apply(&Overrides::default().with(Setting::NfsdThreads, texts)).unwrap();
        let plan = Plan::resolve(&raw, &around()).unwrap();
        reads_back(&plan);
        let threads = plan.runs.iter().map(|run| lab(run).serving.threads);
        threads.map(|threads| (threads.min, threads.max)).collect::<Vec<_>>()
    };
    assert_eq!(levels(&["4..64"]), [(4, 64)]);
    assert_eq!(levels(&["8", "1..2"]), [(0, 8), (1, 2)]);
    // With a step it is a list of fixed numbers, as for any other number.
    assert_eq!(levels(&["8..32*2"]), [(0, 8), (0, 16), (0, 32)]);
    let plan = on_hosts("", "server_kind = [\"knfsd\", \"ganesha\"]\nnfsd_threads = \"4..64\"\n");
    let possible: Vec<_> = plan.runs.iter().map(|run| run.impossible().is_none()).collect();
    assert_eq!(possible, [true, false]);
    let shown = plan.runs[0].settings();
    assert!(shown.contains(&("nfsd_threads", "4..64".to_owned())), "{shown:?}");
}

#[test]
fn varies_localio_only_for_mounts() {
    let plan = on_hosts(
        "backend = [\"posix\", \"nfs\"]\n",
        "data_path = [\"disk\", \"loopback\", \"network\"]\nlocalio = [true, false]\n",
    );
    let mut levels: Vec<_> = plan
        .runs
        .iter()
        .map(|run| (run.backend, lab(run).path, lab(run).mounting.localio))
        .collect();
    // Our own client and the server's disk have no mount.
    levels.retain(|(_, _, localio)| localio.is_some());
    let posix = |path, localio| (BackendKind::Posix, path, Some(localio));
    let expected = [
        posix(DataPath::Loopback, true),
        posix(DataPath::Loopback, false),
        posix(DataPath::Network, true),
        posix(DataPath::Network, false),
    ];
    assert_eq!(levels, expected);
    // A mount that exists already is left as it is.
    let mut raw = RawPlan::for_target(parse_target("/mnt").unwrap());
    raw.apply(&Overrides::default().with(Setting::Localio, &["false"])).unwrap();
    let error = Plan::resolve(&raw, &around()).unwrap_err().to_string();
    assert_eq!(error, "--localio: applies only to NFS mounts that a plan makes");
}

#[test]
fn varies_delegations_only_for_v4() {
    let plan = on_hosts(
        "nfsvers = [3, 4.0, 4.1, 4.2]\nbackend = [\"posix\", \"nfs\"]\n",
        "server_kind = [\"knfsd\", \"ganesha\"]\nserver_delegations = false\n\
         delegated_timestamps = false\ndirectory_delegations = false\n",
    );
    let levels = |backend, kind| {
        let runs = plan.runs.iter().filter(|run| run.backend == backend);
        runs.filter(|run| lab(run).serving.kind == kind)
            .map(|run| {
                let LabSpec { serving, mounting, .. } = lab(run);
                [serving.delegations, serving.delegated_timestamps, mounting.directory_delegations]
                    .map(|level| level.is_some())
            })
            .collect::<Vec<_>>()
    };
    let knfsd = [[false; 3], [true, false, false], [true, false, true], [true; 3]];
    assert_eq!(levels(BackendKind::Posix, ServerKind::Knfsd), knfsd);
    // Our own client has a setting of its own.
    let without_mount = knfsd.map(|[server, timestamps, _]| [server, timestamps, false]);
    assert_eq!(levels(BackendKind::Nfs, ServerKind::Knfsd), without_mount);
    let mounted = knfsd.map(|[_, _, client]| [false, false, client]);
    assert_eq!(levels(BackendKind::Posix, ServerKind::Ganesha), mounted);
    // A mount that exists already is left as it is.
    let mut raw = RawPlan::for_target(parse_target("/mnt").unwrap());
    raw.apply(&Overrides::default().with(Setting::ServerDelegations, &["false"])).unwrap();
    let error = Plan::resolve(&raw, &around()).unwrap_err().to_string();
    let begin = "--server-delegations: applies only to knfsd with v4.0 and later";
    assert!(error.starts_with(begin), "{error}");
}

#[test]
fn refuses_settings_of_mounts_elsewhere() {
    for (setting, level) in [(Setting::Sec, "krb5p"), (Setting::MaxConnect, "4")] {
        for target in ["nfs://h/e", "/mnt"] {
            let mut raw = RawPlan::for_target(parse_target(target).unwrap());
            raw.apply(&Overrides::default().with(setting, &[level])).unwrap();
            let error = Plan::resolve(&raw, &around()).unwrap_err().to_string();
            let expected = format!("{}: applies only to NFS mounts", setting.flag());
            assert!(error.starts_with(&expected), "{target}: {error}");
        }
    }
}

#[test]
fn further_addresses_follow_max_connect() {
    let plan = |hosts: &str, backend: &str| {
        let text = format!(
            "name = \"t\"\n[[host]]\nname = \"s\"\naddress = \"a\"\n{hosts}\n[[host]]\nname = \"c\"\n\
             ssh = \"c\"\n[[target]]\nname = \"n\"\nserver = \"s\"\nclient = \"c\"\n{backend}\
             [factors]\nnfsvers = 4.2\nmax_connect = [\"unchanged\", 1, 2, 4]\n[[workload]]\nkind = \"stream\"\n"
        );
        plan(&text)
    };
    let of_runs = plan("more_addresses = [\"b\", \"c2\"]", "").unwrap();
    let trunks: Vec<_> = of_runs.runs.iter().map(|run| lab(run).trunk_addresses().len()).collect();
    assert_eq!(trunks, [0, 0, 1, 2]);
    let own = plan("more_addresses = [\"b\", \"c2\"]", "backend = \"nfs\"\n").unwrap();
    let further = |run: &RunSpec| run.target.nfs().unwrap().further_addresses().len();
    assert_eq!(own.runs.iter().map(further).collect::<Vec<_>>(), [0, 0, 1, 2]);
    assert!(of_runs.to_toml().contains("more_addresses = [\"b\", \"c2\"]"));
    let error = plan("more_addresses = [\"b\", \"b\"]", "").unwrap_err().to_string();
    assert!(error.contains("more_addresses: `b` is listed twice"), "{error}");
}

#[test]
fn waits_for_lost_prepared_host() {
    let text = "name = \"t\"\n[factors]\non_lost = \"30s\"\n[[host]]\nname = \"s\"\nssh = \"s\"\n\
                [[host]]\nname = \"c\"\nssh = \"c\"\n[[target]]\nname = \"n\"\nserver = \"s\"\n\
                client = \"c\"\ndirectory = \"/srv\"\n[[workload]]\nkind = \"stream\"\n";
    let plan = plan(text).unwrap();
    assert_eq!(plan.runs[0].placement.lost_wait_ms, Some(30_000));
    assert_eq!(plan.without_effect, []);
    reads_back(&plan);
    // Without any host there is nothing to wait for.
    let here = "name = \"t\"\n[factors]\non_lost = \"30s\"\n[[target]]\nname = \"n\"\n\
                path = \"/srv\"\n[[workload]]\nkind = \"stream\"\n";
    let plan = crate::common::plan(here).unwrap();
    assert_eq!(plan.without_effect.len(), 1);
}

#[test]
fn bounds_estimate_by_link_rate() {
    let duration_ms = |factors: &str| {
        let factors = format!("file_size = \"10MB\"\nio_size = \"10kB\"\n{factors}");
        estimate(&on_hosts("", &factors)).runs[0].duration_ms
    };
    // 20 MB are written and read: in 0.1 s at 200 MB/s, in 2 s over a link of 80 Mbit/s.
    assert_eq!(duration_ms("rate_limit = \"80mbit\"") - duration_ms(""), 2_000 - 100);
}

/// Returns the reason why a plan is refused.
fn refused(target: &str, factors: &str) -> String {
    plan(&text(target, factors)).unwrap_err().to_string()
}

#[test]
fn counts_files_that_systems_keep() {
    let planned = |system: &str, factors: &str| {
        let plan = on_hosts(&format!("system = \"{system}\""), factors);
        reads_back(&plan);
        (lab(&plan.runs[0]).fresh, estimate(&plan).targets[0].peak_bytes)
    };
    let set_bytes = 64 << 20;
    // Each trial starts with a new system, which has space for its files again.
    assert_eq!(planned("moosefs", ""), (Fresh::Trial, set_bytes));
    // Two trials on one system need space for the files of both.
    let kept = planned("moosefs", "fresh = \"campaign\"");
    assert_eq!(kept, (Fresh::Campaign, 2 * set_bytes));
    assert_eq!(planned("glusterfs", ""), (Fresh::Campaign, set_bytes));
}

#[test]
fn treats_system_settings_as_factor() {
    let target = "system = \"glusterfs\"\n[target.settings]\nlayout = [\"replica\", \"disperse\"]\n\
                  bricks = 4";
    let plan = on_hosts(target, "");
    let settings = |run: &RunSpec| Setting::SystemSettings.get(run);
    let words =
        |text: &str| model::setting::Value::Words(text.split('+').map(str::to_owned).collect());
    let runs: Vec<_> = plan.runs.iter().map(settings).collect();
    assert_eq!(runs, [words("layout=replica+bricks=4"), words("layout=disperse+bricks=4")]);
    assert_eq!(plan.varying(), ["system_settings"]);
    let lab = lab(&plan.runs[0]);
    assert_eq!(lab.system.as_ref().unwrap().recipe.name, "glusterfs");
    // How the recipe drops caches, on a file system that we create.
    assert_eq!((lab.invalidation, lab.storage.file_system), (Remount, Tmpfs));
    assert_eq!(plan.runs[0].target, Target::Directory { path: MOUNT_POINT.into() });
    // A FUSE client mounts it, without NFS.
    for setting in [Setting::NfsVers, Setting::Proto, Setting::TransferSize, Setting::Slots] {
        assert!(!setting.applies(&plan.runs[0]), "{setting:?}");
    }
    reads_back(&plan);
    let by_nfs = "system = \"ganesha\"\nbackend = \"nfs\"\nnfsvers = 4.1";
    let Target::Nfs(nfs) = &on_hosts(by_nfs, "").runs[0].target else { panic!() };
    assert_eq!((nfs.port, nfs.path.as_str()), (Some(20_493), "/export"));
}

#[test]
fn takes_roles_from_recipe() {
    let text = |target: &str| {
        let nodes = ["n1", "n2"].map(|name| {
            format!("[[host]]\nname = \"{name}\"\naddress = \"10.0.0.8\"\nssh = \"{name}\"\n")
        });
        text(target, "").replacen("[[target]]", &format!("{}[[target]]", nodes.concat()), 1)
    };
    let spread = "system = \"cephfs\"\naccess = \"mount\"\ndevices = [\"/dev/vdb\"]\n\
                  roles = { data = [\"n1\", \"n2\"] }";
    let spread = plan(&text(spread)).unwrap();
    let lab = lab(&spread.runs[0]);
    let names = |hosts: Vec<&model::Host>| -> Vec<String> {
        hosts.into_iter().map(|host| host.name.clone()).collect()
    };
    assert_eq!(names(lab.servers()), ["s", "n1", "n2"]);
    assert_eq!(names(lab.storage_hosts()), ["n1", "n2"]);
    assert_eq!(names(spread.hosts()), ["s", "n1", "n2", "c"]);
    assert!(!lab.is_by_fuse() && !lab.mounts_nfs());
    assert_eq!(spread.destroys().len(), 2, "one disk on each storage host");
    let error = spread.check_destroy(&[]).unwrap_err().to_string();
    assert!(error.contains("/dev/vdb on host `n1`, `n2`"), "{error}");
    reads_back(&spread);
    let messages = [
        "system = \"cephfs\"\naccess = \"nfs\"",
        "system = \"cephfs\"\naccess = \"smb\"",
        "access = \"fuse\"",
        "system = \"cephfs\"\nroles = { date = [\"n1\"] }",
        "system = \"cephfs\"\nroles = { metadata = [\"n1\", \"n2\"] }",
        "system = \"cephfs\"\nroles = { data = [\"n3\"] }",
    ]
    .map(|target| plan(&text(target)).unwrap_err().to_string());
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn rejects_what_system_lacks() {
    let system = |settings: &str| format!("system = \"glusterfs\"\n[target.settings]\n{settings}");
    let messages = [
        ("system = \"glusterf\"", ""),
        (&system("layuot = \"replica\""), ""),
        (&system("bricks = 10"), ""),
        (&system("layout = \"a=b\""), ""),
        ("[target.settings]\nx = 1", ""),
        ("system = \"mine.toml\"", ""),
        ("system = \"moosefs\"\nbackend = \"nfs\"", ""),
        ("system = \"ganesha\"", "nfsvers = 3"),
        ("system = \"glusterfs\"", "invalidation = \"server-restart\""),
        ("system = \"glusterfs\"", "data_path = \"disk\""),
        ("system = \"glusterfs\"\ndirectory = \"/srv\"", ""),
    ]
    .map(|(target, factors)| refused(target, factors));
    insta::assert_snapshot!(messages.join("\n"));
    // A recipe in a file is read by its path and checked.
    let mut raw = RawPlan::parse(&text("system = \"a/b.toml\"", ""), "p.toml").unwrap();
    let wrong = raw.read_systems(|_| Ok("name = 1".to_owned())).unwrap_err().to_string();
    assert!(wrong.starts_with("a/b.toml: key `title` is missing"), "{wrong}");
    assert!(wrong.contains("`dfsbench systems check` lists 6 more"), "{wrong}");
    let missing = raw.read_systems(|_| Err("no such file".to_owned())).unwrap_err().to_string();
    assert!(missing.contains("p.toml:") && missing.contains("no such file"), "{missing}");
    let own = plan::built_in_recipe("moosefs").unwrap();
    raw.read_systems(|path| {
        assert_eq!(path, "a/b.toml");
        Ok(own.to_owned())
    })
    .unwrap();
    assert_eq!(Plan::resolve(&raw, &around()).unwrap().runs.len(), 1);
}

#[test]
fn takes_secrets_from_other_source() {
    let own = plan::built_in_recipe("unfs3").unwrap();
    let recipe = format!("{own}\n[secrets]\nkey = {{ env = \"S3_KEY\" }}\n");
    let resolve = |secrets: &str| {
        let target = format!("system = \"a/b.toml\"\nnfsvers = 3\n{secrets}");
        let mut raw = RawPlan::parse(&text(&target, ""), "p.toml")?;
        raw.read_systems(|_| Ok(recipe.clone())).unwrap();
        Plan::resolve(&raw, &around())
    };
    let source = |secrets: &str| {
        let plan = resolve(secrets).unwrap();
        let written = plan.to_toml();
        assert_eq!(written.contains("secrets = "), !secrets.is_empty(), "{written}");
        assert!(written.contains(secrets), "{written}");
        lab(&plan.runs[0]).system.as_ref().unwrap().recipe.secrets["key"].to_string()
    };
    assert_eq!(source(""), "environment variable S3_KEY");
    assert_eq!(source("secrets = { key = { file = \"~/.key\" } }"), "file ~/.key");
    let refused = [
        "secrets = { kye = { env = \"A\" } }",
        "secrets = { key = { env = \"A\", file = \"/b\" } }",
        "secrets = { key = { file = \"b\" } }",
        "secrets = { key = { var = \"A\" } }",
        "secrets = { key = \"hunter22\" }",
    ]
    .map(|secrets| resolve(secrets).unwrap_err().to_string());
    insta::assert_snapshot!(refused.join("\n"));
}

#[test]
fn mounts_existing_site_setup() {
    let mount = "mount = { type = \"ceph\", source = \"10.0.0.9:/\", options = [\"noatime\"] }";
    let plan = on_hosts(mount, "");
    on_hosts("mount = { type = \"afs\", source = \"%cell:volume.\" }", "");
    let mounted = lab(&plan.runs[0]).site_mount.as_ref().unwrap();
    assert_eq!((mounted.kind.as_str(), mounted.source.as_str()), ("ceph", "10.0.0.9:/"));
    assert_eq!(lab(&plan.runs[0]).invalidation, Remount);
    assert_eq!(plan.runs[0].target, Target::Directory { path: MOUNT_POINT.into() });
    reads_back(&plan);
    let messages = [
        "mount = { type = \"ceph\" }",
        "mount = { type = \"-t\", source = \"x\" }",
        "mount = { type = \"ceph\", source = \"-x\" }",
        "mount = { kind = \"ceph\" }",
        "mount = { type = \"x\", source = \"y\", options = [\"remount\"] }",
        "mount = { type = \"x\", source = \"y\", options = [\"a,b\"] }",
        "mount = { type = \"nfs\", source = \"x:/\", options = [\"sec=sys\", \"nconnect=4\"] }",
        "mount = { type = \"nfs4\", source = \"x:/\" }",
        "mount = { type = \"x\", source = \"y\" }\ndirectory = \"/srv\"",
        "mount = { type = \"x\", source = \"y\" }\nbackend = \"nfs\"",
    ]
    .map(|target| refused(target, ""));
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn rejects_unfair_plan_with_differences() {
    let contenders = |fair: &str, version: &str| {
        let target = |name: &str, more: &str| {
            format!(
                "[[target]]\nname = \"{name}\"\nserver = \"s\"\nclient = \"c\"\n\
                 system = \"{name}\"\nbackend = \"nfs\"\n{more}\n"
            )
        };
        let ganesha = target("ganesha", "nfsvers = 4.1");
        let ours = target("dfsbench", version);
        plan(&format!(
            "fair = \"{fair}\"\n{HOSTS}{ganesha}{ours}[factors]\nfile_system = \"tmpfs\"\n\
             [[workload]]\nkind = \"stream\"\n"
        ))
    };
    let unlike = contenders("strict", "nfsvers = 4.2").unwrap_err().to_string();
    // `named` is the default and refuses nothing; both are stored with the campaign.
    let named = contenders("named", "nfsvers = 4.2").unwrap();
    assert!(!named.to_toml().contains("fair"));
    // Contenders wait for idle hosts, other runs don't; another time is stored as well.
    assert_eq!(named.quiet_ms, 10_000);
    assert!(!named.to_toml().contains("quiet"));
    let hasty = contenders("named\"\nquiet = \"0s", "nfsvers = 4.2").unwrap();
    assert!(hasty.quiet_ms == 0 && hasty.to_toml().contains("quiet = \"0ms\""));
    let long = contenders("named\"\nquiet = \"2h", "").unwrap_err().to_string();
    let unknown = contenders("very", "").unwrap_err().to_string();
    let factors = "layout = [\"replica\", \"distribute\"]";
    let target = format!("system = \"glusterfs\"\n[target.settings]\n{factors}");
    let copies = plan(&format!("fair = \"strict\"\n{}", text(&target, "")));
    let copies = copies.unwrap_err().to_string();
    insta::assert_snapshot!([unlike, long, unknown, copies].join("\n"));
    let alike = "system = \"glusterfs\"\n[target.settings]\ncache = [\"32MB\", \"128MB\"]";
    let alike = plan(&format!("fair = \"strict\"\n{}", text(alike, ""))).unwrap();
    assert!(alike.to_toml().contains("\nfair = \"strict\"\n"));
    reads_back(&alike);
}
