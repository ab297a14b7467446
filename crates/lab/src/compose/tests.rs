//! Tests which steps are taken on which host, and in what order.

use model::{NfsVersion, NfsdIo, RemotePort, Storage, Tuning};

use super::*;
use crate::compose::reuse::reusable_steps;

pub(super) fn spec() -> LabSpec {
    let host = |name: &str, address: &str| Host {
        address: Some(address.to_owned()),
        interface: Some("eth0".to_owned()),
        ssh: Some(name.to_owned()),
        ..Host::local(name)
    };
    let mut spec = LabSpec::new(host("server", "10.0.0.1"), host("client", "10.0.0.2"));
    let devices = vec!["/dev/vdb".into()];
    spec.storage = Storage { devices, file_system: FileSystem::Ext4, ..Storage::default() };
    spec.mounting.read_ahead_kib = Some(512);
    spec
}

/// Returns the host and kind of each step.
pub(super) fn shape(spec: &LabSpec) -> Vec<String> {
    let steps = compose(spec).unwrap();
    let word = |action: &Action| {
        let text = format!("{action:?}");
        text.split('(').next().unwrap().to_owned()
    };
    steps.iter().map(|step| format!("{} {}", step.host, word(&step.action))).collect()
}

#[test]
fn orders_steps_by_dependency() {
    let mut spec = spec();
    spec.tuning = Tuning { mtu_bytes: Some(9_000), slots: Some(128), ..Tuning::default() };
    spec.storage.crypt = true;
    let expected = [
        "server Mtu",
        "client Mtu",
        "client Sysctl",
        "server Crypt",
        "server Format",
        "server Nfsd",
        "server Mount",
        "server Export",
        "server TryPaths",
        "client TryPaths",
        "client NfsMount",
        "client ReadAhead",
    ];
    assert_eq!(shape(&spec), expected);
    spec.path = DataPath::Disk;
    assert_eq!(shape(&spec), ["server Crypt", "server Format", "server Mount"]);
}

#[test]
fn limits_memory_on_right_host() {
    let mut spec = spec();
    let rams = |spec: &LabSpec| -> Vec<(String, u64)> {
        let steps = compose(spec).unwrap().into_iter();
        let rams = steps.filter_map(|step| match step.action {
            Action::Ram(action::Ram { left_bytes }) => Some((step.host, left_bytes)),
            _ => None,
        });
        rams.collect()
    };
    assert_eq!(rams(&spec), []);
    spec.tuning.server_ram_bytes = Some(1 << 30);
    assert_eq!(rams(&spec), [("server".to_owned(), 1 << 30)]);
    spec.tuning.client_ram_bytes = Some(1 << 28);
    assert_eq!(rams(&spec), [("server".to_owned(), 1 << 30), ("client".to_owned(), 1 << 28)]);
}

#[test]
fn tunes_clients_in_parallel() {
    let mut spec = spec();
    let third = Host { address: Some("10.0.0.3".into()), ..spec.client.clone() };
    spec.more_clients = vec![Host { name: "third".into(), ..third }];
    spec.tuning = Tuning { mtu_bytes: Some(9_000), slots: Some(128), ..Tuning::default() };
    spec.storage = Storage { file_system: FileSystem::Tmpfs, ..Storage::default() };
    let expected = [
        "server Mtu",
        "client Mtu",
        "third Mtu",
        "client Sysctl",
        "third Sysctl",
        "server Mount",
        "server Nfsd",
        "server Export",
        "server TryPaths",
        "client TryPaths",
        "third TryPaths",
        "client NfsMount",
        "third NfsMount",
        "client ReadAhead",
        "third ReadAhead",
    ];
    assert_eq!(shape(&spec), expected);
    // Each host tests the path to all others.
    let tried = compose(&spec).unwrap().into_iter().find_map(|step| match step.action {
        Action::TryPaths(action::TryPaths { peers, bytes: 9_000 }) if step.host == "client" => {
            Some(peers)
        }
        _ => None,
    });
    let tried = tried.unwrap().into_iter().map(|peer| format!("{} {}", peer.name, peer.address));
    assert_eq!(tried.collect::<Vec<_>>(), ["server 10.0.0.1", "third 10.0.0.3"]);
    let exports = compose(&spec).unwrap().into_iter().filter_map(|step| match step.action {
        Action::Export(action::Export { clients, .. }) => Some(clients),
        _ => None,
    });
    assert_eq!(exports.collect::<Vec<_>>(), ["10.0.0.2 10.0.0.3"]);
    let from = redo_from(&compose(&spec).unwrap(), Invalidation::Remount);
    assert_eq!(shape(&spec)[from], "client NfsMount");
    // If the data stays on the server, clients don't take part.
    spec.path = DataPath::Loopback;
    assert!(shape(&spec).iter().all(|step| step.starts_with("server")));
}

#[test]
fn forwards_ports_of_version() {
    let mut spec = spec();
    spec.path = DataPath::Tunnel;
    let tunnels =
        |spec: &LabSpec| shape(spec).iter().filter(|step| step.as_str() == "client Tunnel").count();
    let ends = |spec: &LabSpec| {
        let steps = compose(spec).unwrap().into_iter();
        let ends = steps.filter_map(|step| match step.action {
            Action::Tunnel(action::Tunnel { address, remote_port, .. }) => {
                Some((address, remote_port))
            }
            _ => None,
        });
        ends.collect::<Vec<_>>()
    };
    let at = |address: &str, port| (address.to_owned(), port);
    spec.mounting.nfs.version = NfsVersion::V2;
    assert_eq!(ends(&spec)[1].1, RemotePort::Mount { version: 1 });
    spec.mounting.nfs.version = NfsVersion::V3;
    assert_eq!(tunnels(&spec), 2);
    let nfs = RemotePort::Number(2_049);
    let mount = RemotePort::Mount { version: 3 };
    assert_eq!(ends(&spec), [at("10.0.0.1", nfs), at("10.0.0.1", mount)]);
    let address = spec.server.address.take();
    assert_eq!(ends(&spec), [at("127.0.0.1", nfs), at("127.0.0.1", mount)]);
    spec.server.address = address;
    spec.mounting.nfs.version = NfsVersion::V4_1;
    assert_eq!(tunnels(&spec), 1);
    let export = compose(&spec).unwrap().into_iter().find_map(|step| match step.action {
        Action::Export(action::Export { clients, options, .. }) => Some((clients, options)),
        _ => None,
    });
    let (clients, options) = export.unwrap();
    // Forwarded connections come from the server's own address.
    assert_eq!(clients, "127.0.0.1 10.0.0.1");
    assert!(options.contains(&"insecure".to_owned()), "{options:?}");
}

#[test]
fn export_allows_only_requested_flavor() {
    let mut spec = spec();
    let options = |spec: &LabSpec| {
        let (mut export, mut mount) = (Vec::new(), Vec::new());
        for step in compose(spec).unwrap() {
            match step.action {
                Action::Export(action) => export = action.options,
                Action::NfsMount(action) => mount = action.options,
                _ => {}
            }
        }
        let about = |options: Vec<String>| {
            let names = ["sec=", "anonuid=", "anongid="];
            let is_about = |option: &String| names.iter().any(|name| option.starts_with(name));
            options.into_iter().filter(is_about).collect::<Vec<_>>().join(",")
        };
        (about(export), about(mount))
    };
    let pair = |export: &str, mount: &str| (export.to_owned(), mount.to_owned());
    assert_eq!(options(&spec), pair("", ""));
    spec.mounting.sec = MountSec::Sys;
    assert_eq!(options(&spec), pair("sec=sys", "sec=sys"));
    spec.mounting.sec = MountSec::Krb5p;
    assert_eq!(options(&spec), pair("sec=krb5p,anonuid=0,anongid=0", "sec=krb5p"));
    // Options of the plan win.
    spec.serving.export_options = ["sec=sys:krb5p", "anonuid=7"].map(str::to_owned).to_vec();
    assert_eq!(options(&spec), pair("sec=sys:krb5p,anonuid=7,anongid=0", "sec=krb5p"));
    // Our own client mounts nothing.
    spec.serving.export_options = Vec::new();
    spec.own_client = true;
    assert_eq!(options(&spec), pair("", ""));
}

#[test]
fn mounts_through_further_addresses() {
    let mut spec = spec();
    spec.server.more_addresses = ["10.0.1.1", "fe80::2"].map(str::to_owned).to_vec();
    let trunks = |spec: &LabSpec| {
        let mounts = compose(spec).unwrap().into_iter().filter_map(|step| match step.action {
            Action::NfsMount(mount) => Some(mount),
            _ => None,
        });
        let shown = |mount: action::NfsMount| {
            let host = mount.source.rsplit_once(":/").unwrap().0.to_owned();
            (host, mount.trunk_connections)
        };
        mounts.map(shown).collect::<Vec<_>>()
    };
    let main = ("10.0.0.1".to_owned(), None);
    assert_eq!(trunks(&spec), std::slice::from_ref(&main));
    spec.mounting.nfs.max_connect = Some(2);
    assert_eq!(trunks(&spec), [main.clone(), ("10.0.1.1".to_owned(), Some(2))]);
    (spec.mounting.nfs.max_connect, spec.mounting.nfs.nconnect) = (Some(8), 2);
    let both = [("10.0.1.1".to_owned(), Some(3)), ("[fe80::2]".to_owned(), Some(4))];
    assert_eq!(trunks(&spec), [vec![main.clone()], both.to_vec()].concat());
    // The addresses are on the network.
    spec.path = DataPath::Loopback;
    assert_eq!(trunks(&spec), [("127.0.0.1".to_owned(), None)]);
}

#[test]
fn switches_localio_before_mounting() {
    let mut spec = spec();
    spec.storage = Storage { file_system: FileSystem::Tmpfs, ..Storage::default() };
    (spec.mounting.localio, spec.mounting.read_ahead_kib) = (Some(false), None);
    let export = ["server Mount", "server Nfsd", "server Export"];
    let on = |client: &str| vec![format!("{client} Localio"), format!("{client} NfsMount")];
    assert_eq!(shape(&spec), [export.map(str::to_owned).to_vec(), on("client")].concat());
    spec.path = DataPath::Loopback;
    let steps = compose(&spec).unwrap();
    assert_eq!(shape(&spec), [export.map(str::to_owned).to_vec(), on("server")].concat());
    // A new mount between two passes keeps it, another level mounts again.
    assert_eq!(redo_from(&steps, Invalidation::Remount), 4);
    spec.mounting.localio = Some(true);
    let (kept, _) = reusable_steps(&steps, &compose(&spec).unwrap());
    assert_eq!(kept, [true, true, true, false, false]);
    // Our own client is no kernel's.
    spec.own_client = true;
    assert_eq!(shape(&spec), export);
}

#[test]
fn changes_modes_without_restart() {
    let mut spec = spec();
    spec.storage = Storage { file_system: FileSystem::Tmpfs, ..Storage::default() };
    spec.mounting.read_ahead_kib = None;
    let plain = ["server Mount", "server Nfsd", "server Export", "client NfsMount"];
    assert_eq!(shape(&spec), plain);
    spec.serving.io_read = Some(NfsdIo::Direct);
    let steps = compose(&spec).unwrap();
    let expected = [&plain[..3], &["server NfsdModes"], &plain[3..]].concat();
    assert_eq!(shape(&spec), expected);
    spec.serving.io_write = Some(NfsdIo::DontCache);
    let (kept, _) = reusable_steps(&steps, &compose(&spec).unwrap());
    assert_eq!(kept, [true, true, true, false, false]);
    // Other servers have no such modes.
    spec.serving.kind = ServerKind::Running;
    assert_eq!(shape(&spec).iter().filter(|step| step.contains("Nfsd")).count(), 0);
}

#[test]
fn limits_server_after_its_start() {
    let mut spec = spec();
    spec.serving.threads = ServerThreads { min: 0, max: 16 };
    let nfsd = |spec: &LabSpec| {
        let mut found = Vec::new();
        for step in compose(spec).unwrap() {
            if let Action::Nfsd(action) = step.action {
                found.push((action.threads_min, action.threads, action.transfer_max_bytes));
            }
        }
        found
    };
    assert_eq!(nfsd(&spec), [(0, 16, 0)]);
    spec.serving.threads.min = 4;
    assert_eq!(nfsd(&spec), [(0, 4, 0), (4, 16, 0)]);
    spec.serving.max_block_bytes = Some(64 << 10);
    assert_eq!(nfsd(&spec), [(0, 4, 0), (4, 16, 64 << 10)]);
    let options = |spec: &LabSpec| {
        let steps = compose(spec).unwrap().into_iter();
        let mut mounts = steps.filter_map(|step| match step.action {
            Action::NfsMount(mount) => Some(mount.options.join(",")),
            _ => None,
        });
        mounts.next().unwrap()
    };
    // The mount should use all of it, which is compared with what it negotiated.
    assert!(options(&spec).ends_with("rsize=65536,wsize=65536"), "{}", options(&spec));
    spec.mounting.transfer_size_bytes = Some(4_096);
    assert!(options(&spec).ends_with("rsize=4096,wsize=4096"), "{}", options(&spec));
}

#[test]
fn switches_delegations_before_use() {
    let mut spec = spec();
    spec.storage = Storage { file_system: FileSystem::Tmpfs, ..Storage::default() };
    spec.mounting.read_ahead_kib = None;
    spec.serving.delegations = Some(true);
    spec.serving.delegated_timestamps = Some(false);
    spec.mounting.directory_delegations = Some(false);
    let expected = [
        "server KernelSwitch",
        "server KernelSwitch",
        "server Mount",
        "server Nfsd",
        "server Export",
        "client KernelSwitch",
        "client NfsMount",
    ];
    assert_eq!(shape(&spec), expected);
    let steps = compose(&spec).unwrap();
    let switched: Vec<_> = steps
        .iter()
        .filter_map(|step| match &step.action {
            Action::KernelSwitch(on) => Some((step.host.as_str(), on.switch.name(), on.is_on)),
            _ => None,
        })
        .collect();
    let server = [("server_delegations", true), ("delegated_timestamps", false)];
    let [server, timestamps] = server.map(|(name, is_on)| ("server", name, is_on));
    assert_eq!(switched, [server, timestamps, ("client", "directory_delegations", false)]);
    // What the server has granted is gone once it is restarted, and all clients mount again.
    spec.serving.delegations = Some(false);
    let (kept, _) = reusable_steps(&steps, &compose(&spec).unwrap());
    assert_eq!(kept, [false, false, false, false, false, true, false]);
    // Our own client is no kernel's, but its server is.
    spec.own_client = true;
    assert_eq!(shape(&spec), expected[..5]);
}

#[test]
fn offers_v2_if_mounted() {
    let versions = |version| {
        let mut spec = spec();
        spec.mounting.nfs.version = version;
        let Action::Nfsd(nfsd) = kernel_server(&spec).remove(0) else { panic!("no server") };
        nfsd.versions
    };
    assert_eq!(versions(NfsVersion::V2), [NfsVersion::V2, NfsVersion::V3]);
    assert_eq!(versions(NfsVersion::V3), []);
}

#[test]
fn gives_our_server_its_port() {
    let mut spec = spec();
    spec.serving.kind = ServerKind::Own;
    assert_eq!(shape(&spec), ["server OwnServer", "client NfsMount", "client ReadAhead"]);
    let steps = compose(&spec).unwrap();
    let Action::OwnServer(action::OwnServer { clients, memory_bytes: 0, udp: false }) =
        &steps[0].action
    else {
        panic!("{steps:?}")
    };
    assert_eq!(clients, "10.0.0.2");
    let Action::NfsMount(action::NfsMount { source, options, .. }) = &steps[1].action else {
        panic!("{steps:?}")
    };
    assert_eq!(source, "10.0.0.1:/export");
    assert!(options.join(",").contains("port=20492,mountport=20492"), "{options:?}");
    spec.path = DataPath::Tunnel;
    let steps = compose(&spec).unwrap();
    let remote = steps.iter().filter_map(|step| match &step.action {
        Action::Tunnel(action::Tunnel { remote_port, .. }) => Some(*remote_port),
        _ => None,
    });
    assert_eq!(remote.collect::<Vec<_>>(), [RemotePort::Number(20_492); 2]);
    let cut = disturbance(&spec, FaultKind::NetworkCut).unwrap().action;
    assert!(matches!(cut, Action::Cut(action::Cut { port: 20_492, .. })), "{cut:?}");
}

#[test]
fn limits_invalidation_to_named_steps() {
    let names = |spec: &LabSpec, how| {
        let from = redo_from(&compose(spec).unwrap(), how);
        shape(spec)[from..].first().cloned()
    };
    let mut spec = spec();
    assert_eq!(names(&spec, Invalidation::Caches), None);
    assert_eq!(names(&spec, Invalidation::Remount).as_deref(), Some("client NfsMount"));
    assert_eq!(names(&spec, Invalidation::ServerRemount).as_deref(), Some("server Mount"));
    assert_eq!(names(&spec, Invalidation::ServerRestart).as_deref(), Some("server Nfsd"));
    // Remounting tmpfs would lose its files.
    spec.storage.file_system = FileSystem::Tmpfs;
    assert_eq!(names(&spec, Invalidation::ServerRemount).as_deref(), Some("server Nfsd"));
    assert_eq!(names(&spec, Invalidation::ServerRestart).as_deref(), Some("server Nfsd"));
}

#[test]
fn what_is_left_out_is_named() {
    let mut spec = spec();
    spec.storage.devices.clear();
    let error = compose(&spec).unwrap_err();
    assert_eq!(error, ComposeError::NoDevice(FileSystem::Ext4));
    spec.storage.devices = vec!["/dev/vdb".into(), "/dev/vdc".into()];
    spec.storage.raid = Raid::Raid5;
    let few = ComposeError::FewDevices { level: Raid::Raid5, needed: 3, given: 2 };
    assert_eq!(compose(&spec).unwrap_err(), few);
    spec.storage.raid = Raid::Raid1;
    spec.client.address = None;
    spec.client.ssh = None;
    assert_eq!(compose(&spec).unwrap_err(), ComposeError::NoAddress("client".to_owned()));
    spec.serving.kind = ServerKind::Ganesha;
    spec.serving.export_options = vec!["async".to_owned()];
    spec.client.address = Some("10.0.0.2".to_owned());
    let ganesha = ComposeError::NoExportOptions(ServerKind::Ganesha);
    assert_eq!(compose(&spec).unwrap_err(), ganesha);
    spec.client.interface = None;
    spec.tuning.mtu_bytes = Some(9_000);
    assert_eq!(compose(&spec).unwrap_err(), ComposeError::NoInterface("client".to_owned()));
}

fn exported(change: fn(&mut LabSpec)) -> String {
    let mut spec = LabSpec::new(Host::local("s"), Host::local("c"));
    change(&mut spec);
    export_options(&spec).join(",")
}

#[test]
fn exports_with_writable_defaults() {
    assert_eq!(exported(|_| ()), "rw,no_subtree_check,no_root_squash");
    // Our own client and ssh use unprivileged ports.
    let open = "rw,no_subtree_check,no_root_squash,insecure";
    assert_eq!(exported(|spec| spec.own_client = true), open);
    assert_eq!(exported(|spec| spec.path = DataPath::Tunnel), open);
    let requested = exported(|spec| {
        spec.own_client = true;
        let options = ["ro", "root_squash", "secure", "async", "subtree_check"];
        spec.serving.export_options = options.map(str::to_owned).to_vec();
    });
    assert_eq!(requested, "ro,root_squash,secure,async,subtree_check");
}

#[test]
fn prepares_each_disk_separately() {
    let mut spec = spec();
    spec.storage.devices = vec!["/dev/vdb".into(), "/dev/vdc".into()];
    // Unless data is spread over the devices, the second one isn't used.
    assert!(!shape(&spec).contains(&"server Crypt".to_owned()));
    assert_eq!(spec.mount_points().len(), 1);
    spec.storage.is_spread = true;
    spec.storage.crypt = true;
    let expected = [
        "server Crypt",
        "server Crypt",
        "server Format",
        "server Format",
        "server Nfsd",
        "server Mount",
        "server Mount",
        "server Export",
        "server Export",
        "client NfsMount",
        "client NfsMount",
        "client ReadAhead",
        "client ReadAhead",
    ];
    assert_eq!(shape(&spec), expected);
    let sources = compose(&spec).unwrap().into_iter().filter_map(|step| match step.action {
        Action::NfsMount(mount) => Some(format!("{} {}", mount.source, mount.point.display())),
        _ => None,
    });
    assert_eq!(
        sources.collect::<Vec<_>>(),
        [
            "10.0.0.1:/run/dfsbench/storage /run/dfsbench/mount",
            "10.0.0.1:/run/dfsbench/storage-2 /run/dfsbench/mount-2"
        ]
    );
    let steps = compose(&spec).unwrap();
    assert_eq!(shape(&spec)[redo_from(&steps, Invalidation::ServerRemount)], "server Mount");
    spec.serving.kind = ServerKind::Ganesha;
    assert_eq!(compose(&spec), Err(ComposeError::OneExport(ServerKind::Ganesha, 2)));
}

#[test]
fn exports_several_directories() {
    let mut spec = spec();
    let directory = "/srv/1".into();
    let more = vec!["/srv/2".into()];
    let file_system = FileSystem::Existing;
    spec.storage = Storage { directory, more_directories: more, file_system, ..Storage::default() };
    spec.mounting.read_ahead_kib = None;
    let expected =
        ["server Nfsd", "server Export", "server Export", "client NfsMount", "client NfsMount"];
    assert_eq!(shape(&spec), expected);
}

#[test]
fn keeps_arrays_when_remaking() {
    let mut spec = spec();
    spec.tuning.mtu_bytes = Some(9_000);
    spec.storage.crypt = true;
    let first = |spec: &LabSpec| shape(spec)[fresh_from(&compose(spec).unwrap())].clone();
    assert_eq!(first(&spec), "server Format");
    // An existing directory is exported and mounted again.
    spec.storage.file_system = FileSystem::Existing;
    assert_eq!(first(&spec), "server Export");
    spec.storage.file_system = FileSystem::Tmpfs;
    assert_eq!(first(&spec), "server Mount");
    spec.serving.kind = ServerKind::Own;
    assert_eq!(first(&spec), "server OwnServer");
    assert_eq!(fresh_from(&[]), 0);
}
