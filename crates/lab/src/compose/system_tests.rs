//! Tests of the steps that set up file systems other than NFS.

use model::lab::Mounting;
use model::system::{AccessWay, FilledStep, MountAccess, Quiet, Recipe, Role};

use model::{NfsVersion, SiteMount, System};

use super::tests::{shape, spec};
use super::*;
use crate::compose::reuse::reusable_steps;

/// Returns a recipe with one program on the server and one that mounts.
fn system(text: &str) -> Box<System> {
    use model::system::{AccessWays, FuseAccess, NfsAccess, RecipeStep};
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let start = RecipeStep { start: words("served {address} {storage}"), ..RecipeStep::default() };
    let fuse = FuseAccess { run: words("mounter {address} {point}"), ..FuseAccess::default() };
    let nfs = NfsAccess { port: 20_500, export: "/x".to_owned(), ..NfsAccess::default() };
    let quiet = Quiet { run: words("is-quiet"), busy: String::new(), within_s: 9 };
    let recipe = Recipe {
        name: text.to_owned(),
        storage: true,
        steps: vec![start],
        quiet: Some(quiet),
        access: AccessWays { nfs: Some(nfs), fuse: Some(fuse), mount: None },
        ..Recipe::default()
    };
    Box::new(System { source: text.to_owned(), recipe, ..System::default() })
}

#[test]
fn starts_system_on_our_storage() {
    let mut spec = spec();
    spec.system = Some(system("plain"));
    let expected = [
        "server Format",
        "server Mount",
        "server Service",
        "server SystemSteps",
        "server AwaitQuiet",
        "client FuseMount",
    ];
    assert_eq!(shape(&spec), expected);
    let steps = compose(&spec).unwrap();
    let Action::Service(service) = &steps[2].action else { panic!("{steps:?}") };
    let Action::SystemSteps(started) = &steps[3].action else { panic!("{steps:?}") };
    let words = ["served", "10.0.0.1", "/run/dfsbench/storage"].map(str::to_owned).to_vec();
    assert_eq!(started.steps, [FilledStep::Start(words)]);
    assert!(!service.keeps_storage, "the recipe declares no restart");
    // Only the wait and the mount are repeated; the server keeps running.
    let again = redo_from(&steps, Invalidation::Remount);
    assert_eq!(shape(&spec)[again..], ["server AwaitQuiet", "client FuseMount"]);
    let restart = redo_from(&steps, Invalidation::ServerRestart);
    assert_eq!(shape(&spec)[restart], "server Mount");
    // If its settings change, the system is restarted and mounted again.
    let other = LabSpec { system: Some(system("other")), ..spec.clone() };
    let (kept, _) = reusable_steps(&steps, &compose(&other).unwrap());
    assert_eq!(kept, [false; 6], "it begins on a new file system");
    // Our own client speaks NFS with it and mounts nothing.
    spec.own_client = true;
    assert_eq!(shape(&spec)[4..], ["server AwaitQuiet"]);
    // A restarted server would lose its files.
    let served = &compose(&spec).unwrap()[..4];
    assert_eq!(redo_from(served, Invalidation::Remount), served.len());
    assert_eq!((spec.export(), spec.ports()), (std::path::Path::new("/x"), Some((20_500, 20_500))));
    // A fault for the kernel's server doesn't apply to a system.
    assert!(disturbance(&spec, FaultKind::NfsdStop).is_err());
}

/// Returns a system with data on two hosts besides the server: one step on each host, one on the
/// server, and three copies on the data hosts.
fn spread_system(spec: &LabSpec) -> Box<System> {
    use model::system::RecipeStep;
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut system = system("spread");
    let recipe = &mut system.recipe;
    recipe.storage = false;
    let role = Role { meaning: "data".into(), hosts_max: 9, storage: true, ..Role::default() };
    recipe.roles.insert("data".into(), role);
    let on = |on: &str| RecipeStep { on: on.into(), within_s: 5, ..RecipeStep::default() };
    recipe.steps = vec![
        RecipeStep { start: words("each {host}"), ..on("all") },
        RecipeStep { run: words("make"), ..on("") },
        RecipeStep { start: words("data {n} {host}"), count: "3".into(), ..on("data") },
    ];
    let node = |name: &str, address: &str| Host {
        name: name.into(),
        address: Some(address.into()),
        ..spec.server.clone()
    };
    system.roles.insert("data".into(), vec![node("n1", "10.0.0.8"), node("n2", "10.0.0.9")]);
    system
}

#[test]
fn starts_servers_in_order() {
    let mut spec = spec();
    spec.system = Some(spread_system(&spec));
    let steps = compose(&spec).unwrap();
    let expected = [
        "n1 Format",
        "n1 Mount",
        "n2 Format",
        "n2 Mount",
        "server Service",
        "n1 Service",
        "n2 Service",
        "server SystemSteps",
        "n1 SystemSteps",
        "n2 SystemSteps",
        "server SystemSteps",
        "n1 SystemSteps",
        "n2 SystemSteps",
        "n1 SystemSteps",
        "server AwaitQuiet",
        "client FuseMount",
    ];
    assert_eq!(shape(&spec), expected);
    let mut started = Vec::new();
    for step in &steps {
        let Action::SystemSteps(action) = &step.action else { continue };
        for made in &action.steps {
            let (FilledStep::Start(words) | FilledStep::Run { words, .. }) = made else { panic!() };
            started.push(format!("{} {}: {}", action.first, step.host, words.join(" ")));
        }
    }
    let expected = [
        "0 server: each 10.0.0.1",
        "1 n1: each 10.0.0.8",
        "2 n2: each 10.0.0.9",
        "3 server: make",
        "4 n1: data 1 10.0.0.8",
        "5 n2: data 2 10.0.0.9",
        "6 n1: data 3 10.0.0.8",
    ];
    assert_eq!(started, expected);
    // Hosts without files have no storage.
    let Action::Service(server) = &steps[4].action else { panic!("{steps:?}") };
    let Action::Service(node) = &steps[5].action else { panic!("{steps:?}") };
    assert_eq!((&server.storage, node.storage.is_some()), (&None, true));
    // The numbers are those of the files with their stderr.
    let watched: Vec<_> = exits_of_system(&spec)
        .unwrap()
        .into_iter()
        .map(|step| {
            let Action::SystemExits(exits) = step.action else { panic!("{step:?}") };
            (step.host, exits.started.iter().map(|(number, _)| *number).collect::<Vec<_>>())
        })
        .collect();
    let on = |host: &str, numbers: &[usize]| (host.to_owned(), numbers.to_vec());
    assert_eq!(watched, [on("server", &[1]), on("n1", &[2, 5, 7]), on("n2", &[3, 6])]);
    let hosts_of =
        |steps: Vec<LabStep>| -> Vec<String> { steps.into_iter().map(|step| step.host).collect() };
    assert_eq!(hosts_of(kill_of_system(&spec).unwrap()), ["server", "n1", "n2"]);
    let started_again = hosts_of(restart_of_system(&spec).unwrap());
    assert_eq!(started_again, ["server", "n1", "n2", "n1", "n2", "n1"]);
    // If one part changes, no other part is kept.
    let mut other = spec.clone();
    let recipe = &mut other.system.as_mut().unwrap().recipe;
    recipe.steps[2].start.push("more".to_owned());
    let (kept, _) = reusable_steps(&steps, &compose(&other).unwrap());
    assert!(kept.iter().all(|is_kept| !is_kept), "{kept:?}");
}

#[test]
fn prepares_clients_before_mounting() {
    use model::system::{CLIENT_ROLE, RecipeStep};
    let mut spec = spec();
    spec.more_clients = vec![Host { name: "c2".into(), ..spec.client.clone() }];
    let mut system = system("plain");
    let role = Role { meaning: "mounts it".into(), hosts_max: 9, ..Role::default() };
    system.recipe.roles.insert(CLIENT_ROLE.into(), role);
    system.recipe.steps.push(RecipeStep {
        start: vec!["join".to_owned()],
        on: CLIENT_ROLE.to_owned(),
        within_s: 5,
        ..RecipeStep::default()
    });
    spec.system = Some(system);
    let parts = |spec: &LabSpec| {
        let mut shape = shape(spec);
        shape.retain(|step| step.ends_with("Service") || step.ends_with("SystemSteps"));
        shape
    };
    let on_server = ["server Service", "server SystemSteps"];
    let [service, steps] = on_server;
    let each =
        [service, "client Service", "c2 Service", steps, "client SystemSteps", "c2 SystemSteps"];
    assert_eq!(parts(&spec), each);
    assert_eq!(shape(&spec).last().unwrap(), "c2 FuseMount");
    // Clients don't serve, so killing the servers doesn't affect them.
    for steps in [kill_of_system(&spec).unwrap(), restart_of_system(&spec).unwrap()] {
        assert!(steps.iter().all(|step| step.host == "server"), "{steps:?}");
    }
    // The server needs that part if it mounts and re-exports the system.
    spec.system.as_mut().unwrap().access = Some(AccessWay::ReExport);
    assert_eq!(parts(&spec), on_server);
    // Our own client mounts nothing.
    spec.system.as_mut().unwrap().access = None;
    spec.own_client = true;
    assert_eq!(parts(&spec), on_server);
}

#[test]
fn keeps_memory_system_during_restart() {
    let mut spec = spec();
    spec.storage.file_system = FileSystem::Tmpfs;
    spec.system = Some(spread_system(&spec));
    let from = redo_from(&compose(&spec).unwrap(), Invalidation::ServerRestart);
    assert_eq!(shape(&spec)[..from], ["n1 Mount", "n2 Mount"]);
}

#[test]
fn mounts_clients_as_planned() {
    let mut spec = spec();
    let mut system = system("plain");
    let mount = MountAccess { kind: "x".into(), source: "{address}:/".into(), options: vec![] };
    system.recipe.access.mount = Some(mount);
    for (way, last) in [
        (None, "client FuseMount"),
        (Some(AccessWay::Fuse), "client FuseMount"),
        (Some(AccessWay::Mount), "client RemoteMount"),
        (Some(AccessWay::Nfs), "client ReadAhead"),
    ] {
        system.access = way;
        spec.system = Some(system.clone());
        assert_eq!(shape(&spec).last().unwrap(), last);
        assert_eq!(spec.mounts_nfs(), way == Some(AccessWay::Nfs));
        assert_eq!(spec.is_by_fuse(), last == "client FuseMount");
    }
}

#[test]
fn reexports_system_by_kernel() {
    let mut spec = spec();
    spec.mounting.read_ahead_kib = None;
    let mut system = system("plain");
    system.access = Some(AccessWay::ReExport);
    spec.system = Some(system);
    let steps = compose(&spec).unwrap();
    let expected = [
        "server AwaitQuiet",
        "server FuseMount",
        "server Nfsd",
        "server Export",
        "client NfsMount",
    ];
    assert_eq!(shape(&spec)[4..], expected);
    let Action::FuseMount(mount) = &steps[5].action else { panic!("{steps:?}") };
    assert_eq!(mount.run, ["mounter", "10.0.0.1", "/run/dfsbench/exported"]);
    let Action::Export(export) = &steps[7].action else { panic!("{steps:?}") };
    assert_eq!(export.directory, mount.point);
    assert!(export.options.contains(&"fsid=3573".to_owned()), "{export:?}");
    let Action::NfsMount(mounted) = &steps[8].action else { panic!("{steps:?}") };
    assert_eq!(mounted.source, "10.0.0.1:/run/dfsbench/exported");
    // Remounting the clients also drops what the server's own mount has cached.
    assert_eq!(redo_from(&steps, Invalidation::Remount), 4);
    // An export for an additional client is a different export, and is mounted again.
    let mut wider = spec.clone();
    wider.more_clients = vec![Host { address: Some("10.0.0.3".into()), ..Host::local("c2") }];
    let (kept, _) = reusable_steps(&steps, &compose(&wider).unwrap());
    assert_eq!(kept.iter().filter(|is_kept| **is_kept).count(), 4, "{kept:?}");
    spec.own_client = true;
    assert_eq!(shape(&spec).last().unwrap(), "server Export");
    assert_eq!(spec.ports(), None);
}

#[test]
fn only_mounts_existing_setup() {
    let mut spec = spec();
    let mount = |kind: &str| {
        Some(SiteMount {
            kind: kind.to_owned(),
            source: "10.0.0.9:/x".to_owned(),
            options: vec!["noatime".to_owned()],
        })
    };
    spec.mounting = Mounting::default();
    spec.site_mount = mount("lustre");
    assert_eq!(shape(&spec), ["client RemoteMount"]);
    assert!(!spec.mounts_nfs());
    assert_eq!(redo_from(&compose(&spec).unwrap(), Invalidation::Remount), 0);
    spec.site_mount = mount("nfs4");
    assert_eq!(shape(&spec), ["client NfsMount"]);
    assert!(spec.mounts_nfs());
    // NFS has the settings of a run as options; any mount has its read-ahead and mount_options.
    spec.mounting.nfs.version = NfsVersion::V4_1;
    spec.mounting.nfs.nconnect = 4;
    spec.mounting.transfer_size_bytes = Some(1 << 20);
    spec.mounting.options = vec!["hard".to_owned()];
    spec.mounting.read_ahead_kib = Some(15_360);
    assert_eq!(shape(&spec), ["client NfsMount", "client ReadAhead"]);
    let mounted = compose(&spec).unwrap().swap_remove(0).action;
    let Action::NfsMount(mounted) = mounted else { panic!("{mounted:?}") };
    let all = "vers=4.1,proto=tcp,nconnect=4,rsize=1048576,wsize=1048576,hard,noatime";
    assert_eq!(mounted.options.join(","), all);
    spec.site_mount = mount("lustre");
    assert_eq!(shape(&spec), ["client RemoteMount", "client ReadAhead"]);
    let mounted = compose(&spec).unwrap().swap_remove(0).action;
    let Action::RemoteMount(mounted) = mounted else { panic!("{mounted:?}") };
    assert_eq!(mounted.options, ["noatime", "hard"]);
    spec.mounting.read_ahead_kib = None;
    spec.site_mount = mount("nfs4");
    // If the server is the only host, it mounts the file system itself.
    spec.path = DataPath::Loopback;
    assert_eq!(shape(&spec), ["server NfsMount"]);
}
