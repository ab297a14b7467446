//! Probes of our own servers, of ports without a server, and of silent servers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use nfs_client::probe::{
    Flavor, Limits, NoAnswer, Probe, ProbeError, ProbeOptions, ReservedPort, Service, Trunking,
};
use nfs_client::proto::ProtocolVersion;
use nfs_client::{Mount, MountOptions, Proto};
use nfs_server::{
    DataServers, FaultPlan, LayoutKind, Network, PnfsConfig, Portmap, Server, ServerConfig,
    TlsConfig, Versions,
};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

const V2_AND_V3: Versions = Versions { v2: true, v3: true, ..Versions::NONE };

fn start(config: ServerConfig) -> Server {
    Server::start(config).expect("the server starts")
}

/// Reserves a loopback port on which nothing listens, with either transport, as long as this
/// process lives: it is bound but not listened on, so that no server gets it.
fn closed_port() -> u16 {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
    std::mem::forget(socket);
    address.port()
}

/// Options to probe one address, with short timeouts and few samples.
fn options(address: SocketAddr, portmap: Option<SocketAddr>) -> ProbeOptions {
    ProbeOptions {
        port: Some(address.port()),
        portmap_port: portmap.map_or_else(closed_port, |portmap| portmap.port()),
        timeout: Duration::from_secs(5),
        samples: 5,
        ..ProbeOptions::new(address.ip().to_string())
    }
}

fn answers(services: &[Service], version: u32, transport: Proto) -> bool {
    let found =
        services.iter().find(|found| (found.version, found.transport) == (version, transport));
    found.expect("every version was probed").null.is_ok()
}

#[test]
fn tells_addresses_of_one_server() {
    // All of 127.0.0.0/8 leads to this server.
    let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let allowed = vec![Network::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8)];
    let server = start(ServerConfig { listen: everywhere, allowed, ..ServerConfig::default() });
    let other = start(ServerConfig::default());
    let port = server.address().port();
    let first = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let second = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), port));
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, closed_port()));
    let also = vec![second, other.address(), nobody];
    let probe = Probe::run(&ProbeOptions { also, ..options(first, None) }).unwrap();
    let expected = [
        (second, Ok(Trunking::Session)),
        (other.address(), Ok(Trunking::Nothing)),
        (nobody, Err(NoAnswer::Refused)),
    ];
    assert_eq!(probe.trunking, expected);
    let identity = probe.identity.unwrap();
    assert_eq!((identity.roles, identity.minor_id), (vec!["no pNFS"], 0));
    assert!(identity.implementation.unwrap().starts_with("dfsbench "));
    assert_eq!(probe.layouts[0].types, Ok(Vec::new()));
    // Older versions have no owner to compare.
    let versions = V2_AND_V3;
    let old = start(ServerConfig { versions, ..ServerConfig::default() });
    let also = vec![second];
    let probe = Probe::run(&ProbeOptions { also, ..options(old.address(), None) }).unwrap();
    assert!(probe.identity.is_err() && probe.trunking.is_empty() && probe.layouts.is_empty());
}

#[test]
fn lists_layouts_and_their_devices() {
    for (layout, number, version) in
        [(LayoutKind::FlexFiles, 4, None), (LayoutKind::Files, 1, Some("4.1"))]
    {
        let servers = DataServers::Own(3);
        let pnfs = PnfsConfig { servers, layout, stripe_unit: 65_536, mirrors: 1 };
        let server = start(ServerConfig { pnfs: Some(pnfs), ..ServerConfig::default() });
        let mut probe = Probe::run(&options(server.address(), None)).unwrap();
        let found = probe.layouts.remove(0);
        assert_eq!((found.path.as_str(), &found.types), ("/export", &Ok(vec![number])));
        assert!(matches!(found.devices, Err(NoAnswer::NotRequested(_))), "no file: {found:?}");
        let roles = probe.identity.unwrap().roles;
        assert_eq!(roles, ["metadata server"]);
        let mut mount = MountOptions::new("127.0.0.1", "/export");
        mount.port = Some(server.address().port());
        mount.version = ProtocolVersion::V4_1;
        let mut mount = Mount::connect(&mount).unwrap();
        let file = mount.create(mount.root(), "f").unwrap();
        mount.close(file).unwrap();
        let mut probe = Probe::run(&options(server.address(), None)).unwrap();
        let devices = probe.layouts.remove(0).devices.unwrap();
        let addresses: Vec<_> = devices.iter().flat_map(|device| &device.addresses).collect();
        assert_eq!(addresses.len(), 3, "{devices:?}");
        assert!(addresses.iter().all(|address| address.starts_with("127.0.0.1:")), "{devices:?}");
        if let Some(version) = version {
            assert_eq!(devices[0].versions, [version]);
        }
        assert_eq!(server.counters().nfs4_operations[50], 1, "one LAYOUTGET");
    }
}

#[test]
fn finds_server_without_portmapper() {
    let server = start(ServerConfig {
        versions: V2_AND_V3,
        udp: false,
        read_bytes_max: 65_536,
        write_bytes_max: 32_768,
        directory_bytes_preferred: 16_384,
        exports: vec!["/one".into(), "/two/deep".into()],
        ..ServerConfig::default()
    });
    let probe = Probe::run(&options(server.address(), None)).unwrap();
    assert_eq!(probe.portmap, Err(NoAnswer::Refused));
    assert_eq!(probe.rpcbind, Err(NoAnswer::Refused));
    assert_eq!(probe.versions(), [ProtocolVersion::V2, ProtocolVersion::V3]);
    for version in [2, 3] {
        let found = probe.nfs_over(version, Proto::Tcp).unwrap();
        assert_eq!(found.address, Some(server.address()));
        let trip = found.null.clone().unwrap();
        assert_eq!(trip.samples, 5);
        assert!(0 < trip.least_ns && trip.least_ns <= trip.median_ns, "{trip:?}");
        let udp = probe.nfs_over(version, Proto::Udp).unwrap();
        assert_eq!(udp.null, Err(NoAnswer::Refused));
    }
    let mismatch = NoAnswer::VersionMismatch { low: 2, high: 3 };
    assert_eq!(probe.nfs_over(4, Proto::Tcp).unwrap().null, Err(mismatch.clone()));
    assert!(probe.minor_versions.iter().all(|(_, spoken)| *spoken == Err(mismatch.clone())));
    assert_eq!(probe.root.names, Err(mismatch));
    assert!(answers(&probe.mount, 1, Proto::Tcp) && answers(&probe.mount, 3, Proto::Tcp));
    assert!(!answers(&probe.mount, 2, Proto::Tcp));
    assert_eq!(probe.tls, Ok(false));
}

#[test]
fn lists_flavors_and_limits_without_trace() {
    let server = start(ServerConfig {
        versions: V2_AND_V3,
        read_bytes_max: 65_536,
        write_bytes_max: 4_096,
        directory_bytes_preferred: 16_384,
        exports: vec!["/one".into(), "/two/deep".into(), "/three".into()],
        ..ServerConfig::default()
    });
    let mut options = options(server.address(), None);
    options.exports_max = 2;
    let probe = Probe::run(&options).unwrap();
    let exports = probe.exports.unwrap();
    let paths: Vec<_> = exports.iter().map(|export| export.path.as_str()).collect();
    assert_eq!(paths, ["/one", "/two/deep", "/three"]);
    assert_eq!(probe.exports_not_examined, 1);
    for export in &exports[..2] {
        assert!(export.groups.is_empty());
        assert_eq!(export.flavors, Ok(vec![Flavor(1), Flavor(0)]));
        let v2 = Limits {
            read_bytes_max: 4_096,
            write_bytes_max: 4_096,
            file_bytes_max: (1 << 31) - 1,
            ..Limits::default()
        };
        let v3 = Limits {
            read_bytes_max: 65_536,
            read_bytes_preferred: Some(65_536),
            write_bytes_max: 4_096,
            write_bytes_preferred: Some(4_096),
            directory_bytes_preferred: Some(16_384),
            file_bytes_max: i64::MAX as u64,
        };
        assert_eq!(export.limits, [(ProtocolVersion::V2, Ok(v2)), (ProtocolVersion::V3, Ok(v3))]);
    }
    assert!(matches!(exports[2].flavors, Err(NoAnswer::NotRequested(_))));
    assert!(exports[2].limits.is_empty());
    assert_eq!(probe.mounted, Ok(vec![]));
    let again = Probe::run(&options).unwrap();
    assert_eq!(again.mounted, Ok(vec![]), "each MNT was undone");
}

#[test]
fn lists_registrations_of_portmapper() {
    let server = start(ServerConfig {
        versions: V2_AND_V3,
        portmap: Portmap::Port(0),
        ..ServerConfig::default()
    });
    let mut options = options(server.address(), server.portmap_address());
    options.port = None;
    let probe = Probe::run(&options).unwrap();
    assert_eq!(probe.versions(), [ProtocolVersion::V2, ProtocolVersion::V3]);
    let found = probe.nfs_over(3, Proto::Tcp).unwrap();
    assert_eq!(found.address, Some(server.address()));
    assert!(answers(&probe.mount, 3, Proto::Tcp));
    let listed = |list: &[nfs_client::probe::Registration]| {
        let nfs = list.iter().find(|found| {
            (found.program, found.version, found.netid.as_str()) == (100_003, 3, "tcp")
        });
        nfs.expect("NFS v3 is registered").clone()
    };
    let portmap = listed(probe.portmap.as_ref().unwrap());
    assert_eq!((portmap.port, portmap.name), (Some(server.address().port()), Some("nfs")));
    let rpcbind = listed(probe.rpcbind.as_ref().unwrap());
    assert_eq!((rpcbind.port, rpcbind.owner.as_str()), (portmap.port, "dfsbench"));
    assert!(rpcbind.address.starts_with("127.0.0.1."), "{rpcbind:?}");
    let programs = rpcbind_programs(&probe);
    assert!([100_000, 100_003, 100_005].iter().all(|program| programs.contains(program)));
}

fn rpcbind_programs(probe: &Probe) -> Vec<u32> {
    probe.rpcbind.iter().flatten().map(|listed| listed.program).collect()
}

#[test]
fn datagrams_are_answered_and_timed_too() {
    let server = start(ServerConfig { versions: V2_AND_V3, ..ServerConfig::default() });
    let probe = Probe::run(&options(server.address(), None)).unwrap();
    for version in [2, 3] {
        let trip = probe.nfs_over(version, Proto::Udp).unwrap().null.clone().unwrap();
        assert_eq!(trip.samples, 5);
    }
    let mismatch = NoAnswer::VersionMismatch { low: 2, high: 3 };
    assert_eq!(probe.nfs_over(4, Proto::Udp).unwrap().null, Err(mismatch));
    assert!(answers(&probe.mount, 1, Proto::Udp) && answers(&probe.mount, 3, Proto::Udp));
}

#[test]
fn queries_udp_only_server() {
    let server = start(ServerConfig { versions: V2_AND_V3, tcp: false, ..ServerConfig::default() });
    let probe = Probe::run(&options(server.address(), None)).unwrap();
    assert_eq!(probe.nfs_over(3, Proto::Tcp).unwrap().null, Err(NoAnswer::Refused));
    assert_eq!(probe.versions(), [ProtocolVersion::V2, ProtocolVersion::V3]);
    let exports = probe.exports.unwrap();
    assert!(exports[0].limits.iter().all(|(_, limits)| limits.is_ok()), "{exports:?}");
}

#[test]
fn distinguishes_offered_from_required_tls() {
    for required in [false, true] {
        let tls = Some(TlsConfig { required, ..TlsConfig::default() });
        let server = start(ServerConfig { versions: V2_AND_V3, tls, ..ServerConfig::default() });
        let probe = Probe::run(&options(server.address(), None)).unwrap();
        assert_eq!(probe.tls, Ok(true), "required: {required}");
        assert_eq!(probe.versions().is_empty(), required);
    }
}

#[test]
fn lists_exports_in_every_version() {
    let server = start(ServerConfig {
        read_bytes_max: 65_536,
        write_bytes_max: 65_536,
        lease_s: 35,
        exports: vec!["/one".into(), "/two/deep".into()],
        ..ServerConfig::default()
    });
    let probe = Probe::run(&options(server.address(), None)).unwrap();
    assert_eq!(probe.versions(), ProtocolVersion::ALL);
    assert_eq!((probe.root.lease_seconds, probe.xattrs), (Ok(35), Ok(true)));
    assert_eq!(probe.root.names, Ok(vec!["one".to_owned(), "two".to_owned()]));
    assert!(probe.root.flavors.unwrap().contains(&Flavor(1)));
    for export in probe.exports.unwrap() {
        let found: Vec<_> = export.limits.iter().map(|(version, _)| *version).collect();
        assert_eq!(found, [ProtocolVersion::V2, ProtocolVersion::V3, ProtocolVersion::V4_0]);
        for (version, limits) in export.limits {
            let bytes = if version == ProtocolVersion::V2 { 8_192 } else { 65_536 };
            let limits = limits.unwrap();
            assert_eq!((limits.read_bytes_max, limits.write_bytes_max), (bytes, bytes));
        }
        assert!(export.flavors_v4.unwrap().contains(&Flavor(1)), "{}", export.path);
    }
}

#[test]
fn probes_from_reserved_port() {
    // The system accepts the connections, but no process answers.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut options = options(listener.local_addr().unwrap(), None);
    options.timeout = Duration::from_millis(200);
    options.resvport = true;
    let probe = Probe::run(&options).unwrap();
    let null = &probe.nfs_over(3, Proto::Tcp).unwrap().null;
    if matches!(null, Err(NoAnswer::System(_))) {
        // Without that privilege, every part reports this.
        return;
    }
    assert_eq!(*null, Err(NoAnswer::Silent));
    for _ in 0..6 {
        let (_, peer) = listener.accept().unwrap();
        assert!(peer.port() < 1024, "{peer}");
    }
}

#[test]
fn finds_only_offered_versions() {
    let only_3 = Versions { v3: true, ..Versions::NONE };
    let server = start(ServerConfig { versions: only_3, ..ServerConfig::default() });
    let probe = Probe::run(&options(server.address(), None)).unwrap();
    assert_eq!(probe.versions(), [ProtocolVersion::V3]);
    let mismatch = NoAnswer::VersionMismatch { low: 3, high: 3 };
    assert_eq!(probe.nfs_over(2, Proto::Tcp).unwrap().null, Err(mismatch));
    let exports = probe.exports.unwrap();
    let (version, limits) = &exports[0].limits[0];
    assert_eq!(*version, ProtocolVersion::V2);
    assert_eq!(*limits, Err(NoAnswer::VersionMismatch { low: 3, high: 3 }));
    assert!(exports[0].limits[1].1.is_ok());
}

#[test]
fn reports_every_part_without_server() {
    let unused = SocketAddr::from((Ipv4Addr::LOCALHOST, closed_port()));
    let probe = Probe::run(&options(unused, None)).unwrap();
    let refused = Err(NoAnswer::Refused);
    assert!(probe.nfs.iter().all(|found| found.null == refused));
    assert!(probe.mount.iter().all(|found| found.null == refused));
    assert_eq!(probe.nfs.len(), 6);
    assert_eq!(probe.exports, Err(NoAnswer::Refused));
    assert_eq!(probe.mounted, Err(NoAnswer::Refused));
    assert_eq!(probe.portmap, Err(NoAnswer::Refused));
    assert_eq!(probe.root.lease_seconds, Err(NoAnswer::Refused));
    assert!(matches!(probe.tls, Err(NoAnswer::NotRequested(_))));
    assert!(probe.versions().is_empty());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time is bounded")]
fn limits_timeouts_of_silent_server() {
    // The system accepts connections and queues datagrams, but no process reads them.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let socket = UdpSocket::bind(address).unwrap();
    let mut options = options(address, Some(address));
    options.timeout = Duration::from_millis(200);
    let start = Instant::now();
    let probe = Probe::run(&options).unwrap();
    let elapsed = start.elapsed();
    assert!(probe.nfs.iter().all(|found| found.null == Err(NoAnswer::Silent)));
    assert_eq!(probe.portmap, Err(NoAnswer::Silent));
    assert_eq!(probe.exports, Err(NoAnswer::Silent));
    // The portmapper over TCP and UDP, then all services at once.
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    drop((listener, socket));
}

#[test]
fn probes_ipv6_server() {
    let Ok(_has) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
    let server = start(ServerConfig {
        listen: IpAddr::V6(Ipv6Addr::LOCALHOST),
        versions: V2_AND_V3,
        portmap: Portmap::Port(0),
        ..ServerConfig::default()
    });
    let mut options = options(server.address(), server.portmap_address());
    options.port = None;
    options.host = "[::1]".into();
    let probe = Probe::run(&options).unwrap();
    assert_eq!(probe.address, IpAddr::V6(Ipv6Addr::LOCALHOST));
    assert_eq!(probe.versions(), [ProtocolVersion::V2, ProtocolVersion::V3]);
    let list = probe.rpcbind.unwrap();
    assert!(list.iter().all(|listed| listed.netid.ends_with('6')), "{list:?}");
    assert!(probe.exports.unwrap()[0].limits[1].1.is_ok());
}

#[test]
fn reports_unresolvable_name_once() {
    let error = Probe::run(&ProbeOptions::new("no-such-host.invalid")).unwrap_err();
    let ProbeError::Name { host, .. } = error;
    assert_eq!(host, "no-such-host.invalid");
}

/// Returns options to probe one of our servers, which serves MOUNT and NFS on the same port.
fn quick(address: SocketAddr) -> ProbeOptions {
    ProbeOptions { mount_port: Some(address.port()), ..options(address, None) }
}

#[test]
fn detects_need_for_reserved_port() {
    let faults = FaultPlan { reserved_ports_only: true, ..FaultPlan::default() };
    let open = start(ServerConfig::default());
    let secure = start(ServerConfig { faults, ..ServerConfig::default() });
    let ask = |server: &Server| {
        let probe = Probe::run(&quick(server.address())).unwrap();
        assert_eq!(probe.stopped, None);
        probe.reserved_port
    };
    assert_eq!(ask(&open), Ok(ReservedPort::NotNeeded));
    let found = ask(&secure);
    if rustix::process::geteuid().is_root() {
        assert_eq!(found, Ok(ReservedPort::Needed));
    } else {
        let why = found.unwrap_err().to_string();
        assert!(why.contains("cannot try a reserved port"), "{why}");
    }
    let v4_only = Versions { v4_0: true, v4_1: true, ..Versions::NONE };
    let server = start(ServerConfig { versions: v4_only, ..ServerConfig::default() });
    assert_eq!(ask(&server), Ok(ReservedPort::NotNeeded));
}

#[test]
fn explains_how_versions_were_tried() {
    let versions = Versions { v3: true, v4_0: true, v4_1: true, ..Versions::NONE };
    let server = start(ServerConfig { versions, udp: false, ..ServerConfig::default() });
    let probe = Probe::run(&quick(server.address())).unwrap();
    let reported: Vec<_> = probe
        .tried_versions()
        .into_iter()
        .map(|one| (one.version.name(), one.call, one.outcome, one.spoken))
        .collect();
    let row = |version, call: &str, outcome: &str, spoken| {
        (version, call.to_owned(), outcome.to_owned(), spoken)
    };
    let compound = "COMPOUND of PUTROOTFH over tcp";
    assert_eq!(
        reported,
        [
            row("2", "NULL over tcp", "version mismatch: 3 to 4", false),
            row("2", "NULL over udp", "refused", false),
            row("3", "NULL over tcp", "answered", true),
            row("3", "NULL over udp", "refused", false),
            row("4.0", compound, "NFS4_OK (0)", true),
            row("4.1", compound, "NFS4ERR_OP_NOT_IN_SESSION (10071)", true),
            row("4.2", compound, "NFS4ERR_MINOR_VERS_MISMATCH (10021)", false),
        ]
    );
}
