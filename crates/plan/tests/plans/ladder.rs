//! Ladders: a plan with one target becomes one with a target for each layer.

use crate::common::around;
use model::question::ladder::{Ladder, Layer};
use model::setting::Setting;
use model::{BackendKind, DataPath, Order, RunSpec, ServerKind, Target, Workload, XprtSec};
use plan::{BesideServer, Overrides, Plan, PlanError, RawPlan, parse_target};

fn ladder(raw: RawPlan, beside: BesideServer) -> Result<(Plan, Ladder), PlanError> {
    let (raw, ladder) = raw.into_ladder(beside)?;
    let plan = Plan::resolve(&raw, &around())?;
    plan.check_ladder()?;
    // The stored plan is parsed again when a ladder is resumed.
    let again = RawPlan::parse(&plan.to_toml(), "again").unwrap();
    assert_eq!(Plan::resolve(&again, &around()).unwrap().runs, plan.runs);
    Ok((plan, ladder))
}

fn of_target(text: &str, flags: &Overrides) -> Result<(Plan, Ladder), PlanError> {
    let mut raw = RawPlan::for_target(parse_target(text)?);
    raw.apply(flags)?;
    ladder(raw, BesideServer::default())
}

fn layers(ladder: &Ladder) -> Vec<Layer> {
    ladder.layers.iter().map(|placed| placed.layer).collect()
}

#[test]
fn lists_layers_of_each_target() {
    use Layer::{Disk, Local, Memory, Null, Own, Server, Tcp, Whole};
    let small = Overrides::default().with(Setting::TransferSize, &["4KiB"]);
    let none = Overrides::default();
    for (target, flags, expected) in [
        ("embedded", &none, vec![Null, Memory, Local, Tcp, Own]),
        ("embedded", &small, vec![Null, Memory, Local, Tcp, Whole, Own]),
        ("nfs://h/e", &none, vec![Null, Memory, Local, Tcp, Own, Server]),
        ("nfs://h/e", &small, vec![Null, Memory, Local, Tcp, Own, Whole, Server]),
        ("/srv", &none, vec![Null, Memory, Disk]),
    ] {
        let (plan, ladder) = of_target(target, flags).unwrap();
        assert_eq!(layers(&ladder), expected, "{target}");
        let streams = plan.runs.iter().filter(|run| run.workload == Workload::Stream);
        assert_eq!(streams.count(), expected.len(), "{target}");
        assert_eq!(plan.order, Order::Blocks);
    }
}

/// A plan whose target is the in-memory server with these keys of `[server]`.
fn of_cluster(server: &str, pnfs: &str) -> (Plan, Ladder) {
    let text = format!(
        "name = \"c\"\n[server]\n{server}\n[[target]]\nname = \"c\"\nembedded = true\n\
         nfsvers = 4.1\n[[workload]]\nkind = \"stream\"\npnfs = \"{pnfs}\"\n"
    );
    ladder(RawPlan::parse(&text, "c").unwrap(), BesideServer::default()).unwrap()
}

#[test]
fn compares_cluster_with_one_data_server() {
    let (plan, found) = of_cluster("data_servers = 4", "on");
    assert_eq!(layers(&found)[4..], [Layer::OneDataServer, Layer::Own]);
    let servers = |name: &str| {
        let run = plan.runs.iter().find(|run| run.target_name == name).unwrap();
        run.nfs().data_servers
    };
    assert_eq!((servers("one-data-server"), servers("c")), (Some(1), Some(4)));
    for (server, pnfs) in [("data_servers = 1", "on"), ("data_servers = 4", "off")] {
        let (_, found) = of_cluster(server, pnfs);
        assert!(!layers(&found).contains(&Layer::OneDataServer), "{server}, {pnfs}");
        assert!(found.missing.is_empty(), "{server}, {pnfs}");
    }
    let (_, mirrored) = of_cluster("data_servers = 4\nmirrors = 2", "on");
    let [missing] = mirrored.missing.as_slice() else { panic!("{mirrored:?}") };
    assert!(missing.layer == Layer::OneDataServer && missing.why.contains("each copy"));
    let flags = Overrides::default().with(Setting::Pnfs, &["on"]);
    let (_, foreign) = of_target("nfs://127.0.0.1:7/e?version=4.1", &flags).unwrap();
    let missing = foreign.missing.iter().find(|one| one.layer == Layer::OneDataServer);
    assert!(missing.unwrap().why.contains("targets with fewer of them"), "{foreign:?}");
}

#[test]
fn sets_transfer_size_only_for_target() {
    let flags = Overrides::default().with(Setting::TransferSize, &["4KiB"]);
    let (plan, ladder) = of_target("nfs://127.0.0.1:7/e", &flags).unwrap();
    let sizes = plan.runs.iter().filter(|run| run.workload == Workload::Stream);
    let sizes: Vec<_> = sizes.filter_map(|run| run.transfer_size_bytes).collect();
    assert_eq!(sizes, [4096]);
    assert!(!ladder.network_unknown, "the server is this host");
}

#[test]
fn leaves_network_unexplained_without_ours() {
    let raw = || RawPlan::for_target(parse_target("nfs://far/e").unwrap());
    let (_, alone) = ladder(raw(), BesideServer::default()).unwrap();
    let missing: Vec<Layer> = alone.missing.iter().map(|missing| missing.layer).collect();
    assert!(alone.network_unknown);
    assert_eq!(missing, [Layer::Tcp, Layer::Disk, Layer::Network]);
    let plan::TargetArg::Nfs(own) = parse_target("nfs://far:20490/export").unwrap() else {
        panic!("it is an address")
    };
    let beside = BesideServer { own_server: Some(own), disk: Some("/srv".into()) };
    let (plan, with_ours) = ladder(raw(), beside).unwrap();
    assert!(!with_ours.network_unknown);
    assert_eq!(with_ours.missing.len(), 1);
    let tcp = plan.runs.iter().find_map(|run| match &run.target {
        Target::Tcp(tcp) => Some((tcp.host.as_str(), tcp.port, tcp.embedded)),
        _ => None,
    });
    assert_eq!(tcp, Some(("far", Some(20_490), false)));
}

#[test]
fn includes_every_data_path() {
    use Layer::{Disk, Loopback, Memory, Network, Null, Own, Server, Tcp, Tunnel};
    let text = "name = \"t\"\n[[host]]\nname = \"s\"\nssh = \"s\"\n[[host]]\nname = \"c\"\n\
                ssh = \"c\"\n[[target]]\nname = \"nfs\"\nserver = \"s\"\nclient = \"c\"\n\
                directory = \"/srv\"\n[[workload]]\nkind = \"stream\"\ndata_path = \"tunnel\"\n";
    let raw = RawPlan::parse(text, "t").unwrap();
    let (plan, ladder) = ladder(raw, BesideServer::default()).unwrap();
    assert_eq!(layers(&ladder), [Null, Memory, Disk, Tcp, Own, Server, Loopback, Network, Tunnel]);
    assert!(!ladder.network_unknown && ladder.missing.is_empty());
    let path = |target: &str| {
        let mut runs = plan.runs.iter().filter(|run| run.workload == Workload::Stream);
        let run = runs.find(|run| run.target_name == target).unwrap();
        (run.lab.as_ref().unwrap().path, run.backend)
    };
    assert_eq!(path("disk"), (DataPath::Disk, BackendKind::Posix));
    assert_eq!(path("server"), (DataPath::Network, BackendKind::Nfs));
    assert_eq!(path("loopback"), (DataPath::Loopback, BackendKind::Posix));
    assert_eq!(path("nfs"), (DataPath::Tunnel, BackendKind::Posix));
    assert_eq!(path("own"), (DataPath::Network, BackendKind::Nfs));
    // Our server serves both layers, on its own port of the server's host.
    for target in ["tcp", "own"] {
        let run = plan.runs.iter().find(|run| run.target_name == target).unwrap();
        let at = match &run.target {
            Target::Tcp(tcp) => (tcp.host.as_str(), tcp.port),
            Target::Nfs(nfs) => (nfs.host.as_str(), nfs.port),
            other => panic!("{other:?}"),
        };
        assert_eq!(at, ("s", Some(model::lab::OWN_PORT)));
        let lab = run.lab.as_deref().unwrap();
        assert_eq!((lab.serving.kind, lab.has_storage()), (ServerKind::Own, false));
    }
}

#[test]
fn applies_server_settings_to_layers() {
    use Layer::{Disk, Loopback, Memory, Network, Null, Own, Server, Tcp, Tunnel};
    let of = |backend: &str, work: &str| {
        let text = format!(
            "name = \"t\"\n[[host]]\nname = \"s\"\nssh = \"s\"\n[[host]]\nname = \"c\"\nssh = \
             \"c\"\n[[target]]\nname = \"nfs\"\nserver = \"s\"\nclient = \"c\"\n\
             backend = \"{backend}\"\n[[workload]]\nkind = \"stream\"\n{work}\n"
        );
        ladder(RawPlan::parse(&text, "t").unwrap(), BesideServer::default()).unwrap()
    };
    let (plan, _) = of("posix", "server_kind = \"ganesha\"");
    let kind = |target: &str| {
        let run = plan.runs.iter().find(|run| run.target_name == target).unwrap();
        run.lab.as_ref().unwrap().serving.kind
    };
    assert_eq!(
        ["own", "server", "loopback", "nfs"].map(kind),
        [ServerKind::Own, ServerKind::Ganesha, ServerKind::Ganesha, ServerKind::Ganesha]
    );
    let (_, ours) = of("posix", "server_kind = \"dfsbench\"");
    assert_eq!(layers(&ours), [Null, Memory, Tcp, Own, Loopback, Network]);
    let (_, tunnel) = of("nfs", "data_path = \"tunnel\"");
    assert_eq!(layers(&tunnel), [Null, Memory, Disk, Tcp, Own, Server, Tunnel]);
    let (_, disk) = of("posix", "data_path = \"disk\"");
    assert_eq!(layers(&disk), [Null, Memory, Disk]);

    // Our own servers have no certificate there, and are used without TLS below the others.
    let (tls, _) = of("posix", "xprtsec = \"tls\"");
    let secured = |target: &str| {
        let run = tls.runs.iter().find(|run| run.target_name == target).unwrap();
        run.lab.as_ref().unwrap().mounting.nfs.xprtsec
    };
    assert_eq!(["own", "nfs"].map(secured), [XprtSec::None, XprtSec::Tls]);
}

#[test]
fn loopback_layer_turns_localio_off() {
    let of = |clients: &str, work: &str| {
        let text = format!(
            "name = \"t\"\n[[host]]\nname = \"s\"\nssh = \"s\"\n[[host]]\nname = \"c\"\nssh = \
             \"c\"\n[[target]]\nname = \"nfs\"\nserver = \"s\"\n{clients}[[workload]]\n\
             kind = \"stream\"\n{work}\n"
        );
        let raw = RawPlan::parse(&text, "t").unwrap();
        let (plan, _) = ladder(raw, BesideServer::default()).unwrap();
        assert_eq!(plan.without_effect, []);
        let mut runs = plan.runs;
        runs.retain(|run| run.workload == Workload::Stream && run.lab.is_some());
        let localio = |run: &RunSpec| run.lab.as_ref().unwrap().mounting.localio;
        runs.iter().map(|run| (run.target_name.clone(), localio(run))).collect::<Vec<_>>()
    };
    let level = |layers: &[(String, Option<bool>)], name: &str| {
        layers.iter().find(|(layer, _)| layer == name).unwrap().1
    };
    let usual = of("client = \"c\"\n", "");
    let loopback = level(&usual, "loopback");
    let top = level(&usual, "nfs");
    assert_eq!((loopback, top), (Some(false), None));
    // The server's own mount may be the top of the ladder.
    assert_eq!(level(&of("", ""), "nfs"), Some(false));
    // What the plan writes takes precedence.
    let asked = of("client = \"c\"\n", "localio = true");
    assert_eq!(["loopback", "nfs"].map(|name| level(&asked, name)), [Some(true); 2]);
}

#[test]
fn several_targets_or_levels_are_refused() {
    let two = "name = \"t\"\n[[target]]\nname = \"a\"\nnull = true\n[[target]]\nname = \"b\"\n\
               path = \"/\"\n[[workload]]\nkind = \"stream\"\n";
    let targets = RawPlan::parse(two, "two").unwrap().into_ladder(BesideServer::default());
    let layer = of_target("null", &Overrides::default());
    let text = "name = \"t\"\n[[host]]\nname = \"s\"\n[[target]]\nname = \"nfs\"\nserver = \"s\"\n\
                [[workload]]\nkind = \"stream\"\n";
    let beside = BesideServer { disk: Some("/srv".into()), ..BesideServer::default() };
    let disk = RawPlan::parse(text, "t").unwrap().into_ladder(beside);
    let levels = Overrides::default().with(Setting::IoSize, &["4KiB", "8KiB"]);
    let levels = of_target("embedded", &levels);
    let errors = [targets.err(), layer.err(), disk.err(), levels.err()];
    insta::assert_snapshot!(errors.map(|error| error.unwrap().to_string()).join("\n"));
}
