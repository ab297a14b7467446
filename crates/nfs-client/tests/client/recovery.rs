//! Connections to our real server that it closes, leaves idle, answers twice or not at all, and
//! settings of a mount that are not available.

use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nfs_client::proto::client::{Event, Operation, ProtocolVersion};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::{
    Connection, ConnectionError, ConnectionOptions, Family, Mount, MountError, MountOptions, Proto,
    Scratch,
};
use nfs_server::{FaultPlan, PartsPerMillion, Server, ServerConfig, Versions};

const LIMIT: Duration = Duration::from_secs(20);

fn server(faults: FaultPlan) -> Server {
    Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap()
}

fn options(server: &Server, version: ProtocolVersion, proto: Proto) -> MountOptions {
    let mut options = MountOptions::new("127.0.0.1", "/export");
    options.port = Some(server.address().port());
    options.mount_port = options.port;
    options.version = version;
    options.proto = proto;
    options.timeo = Duration::from_millis(50);
    options
}

#[expect(clippy::disallowed_methods, reason = "tests read the clock themselves")]
fn clock() -> impl Fn() -> u64 {
    let start = Instant::now();
    move || start.elapsed().as_nanos() as u64
}

/// Makes `calls` GETATTRs, four at a time, and checks that each succeeds.
fn call(connection: &mut Connection, mount: &Mount, calls: u32) -> Result<(), ConnectionError> {
    let clock = clock();
    let mut scratch = Scratch::new();
    let root = mount.root();
    let mut started = 0;
    let mut ended = 0;
    while ended < calls as usize {
        assert!(Duration::from_nanos(clock()) < LIMIT, "{:?}", connection.counters());
        while started < calls && connection.free_slots() > 0 {
            connection.start(clock(), started, &Operation::Getattr { file: &root }).unwrap();
            started += 1;
        }
        let mut check = |event: &Event<'_>| assert!(event.result.is_ok(), "{event:?}");
        ended += connection.wait(&mut scratch, &clock, Duration::from_millis(100), &mut check)?;
    }
    Ok(())
}

fn open(mount: &Mount, reconnect: bool) -> Connection {
    let options = ConnectionOptions { slots: 4, reconnect, ..ConnectionOptions::default() };
    Connection::open(mount, &options).unwrap()
}

#[test]
fn reconnects_after_each_close() {
    let faults = FaultPlan { close_after_calls: Some(25), ..FaultPlan::default() };
    let server = server(faults);
    for version in
        [ProtocolVersion::V2, ProtocolVersion::V3, ProtocolVersion::V4_0, ProtocolVersion::V4_1]
    {
        let mount = Mount::connect(&options(&server, version, Proto::Tcp)).unwrap();
        let mut connection = open(&mount, true);
        call(&mut connection, &mount, 200).unwrap();
        let counters = connection.counters();
        assert!(counters.reconnects >= 7, "{version}: {counters:?}");
        assert_eq!((counters.lost_calls, counters.rebinds), (0, 0), "{version}: {counters:?}");
    }
}

#[test]
fn loses_connection_without_reconnect() {
    let faults = FaultPlan { close_after_calls: Some(25), ..FaultPlan::default() };
    let server = server(faults);
    let mount = Mount::connect(&options(&server, ProtocolVersion::V3, Proto::Tcp)).unwrap();
    let error = call(&mut open(&mount, false), &mount, 200).unwrap_err();
    assert!(matches!(error, ConnectionError::ConnectionLost { .. }), "{error}");
}

#[test]
fn replaces_forgotten_session() {
    let server = server(FaultPlan::default());
    for version in [ProtocolVersion::V4_1, ProtocolVersion::V4_2] {
        let mount = Mount::connect(&options(&server, version, Proto::Tcp)).unwrap();
        let mut first = open(&mount, true);
        let mut second = open(&mount, true);
        call(&mut first, &mount, 10).unwrap();
        server.restart_now();
        for connection in [&mut first, &mut second] {
            call(connection, &mount, 10).unwrap();
            let counters = connection.counters();
            assert_eq!(counters.rebinds, 1, "{version}: {counters:?}");
        }
    }
}

#[test]
fn gives_up_dead_server_in_time() {
    let server = server(FaultPlan::default());
    let mut options = options(&server, ProtocolVersion::V3, Proto::Tcp);
    options.timeout = Duration::from_millis(300);
    let mount = Mount::connect(&options).unwrap();
    let mut connection = open(&mount, true);
    call(&mut connection, &mount, 4).unwrap();
    server.shutdown();
    let error = call(&mut connection, &mount, 4).unwrap_err();
    assert!(matches!(error, ConnectionError::ConnectionLost { .. }), "{error}");
}

/// Occupies a port such that no connection is answered until it is dropped.
fn deaf(address: SocketAddr) -> (OwnedFd, Vec<std::thread::JoinHandle<()>>) {
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&fd, true).unwrap();
    bind(&fd, &address).unwrap();
    listen(&fd, 0).unwrap();
    // They fill the backlog of connections to be accepted.
    let limit = Duration::from_millis(300);
    let fill = move || drop(TcpStream::connect_timeout(&address, limit).map(std::mem::forget));
    (fd, (0..3).map(|_| std::thread::spawn(fill)).collect())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test waits between two checks")]
fn reconnecting_waits_for_no_server() {
    let server = server(FaultPlan::default());
    let address = server.address();
    let mount = Mount::connect(&options(&server, ProtocolVersion::V3, Proto::Tcp)).unwrap();
    let mut connection = open(&mount, true);
    call(&mut connection, &mount, 4).unwrap();
    server.shutdown();
    let (_line, filling) = deaf(address);
    for thread in filling {
        thread.join().unwrap();
    }
    let clock = clock();
    let mut scratch = Scratch::new();
    let mut longest_ns = 0;
    while clock() < 2_500_000_000 {
        let begun_ns = clock();
        connection.receive(&mut scratch, &clock, &mut |_: &Event<'_>| ()).unwrap();
        connection.handle_timeout(&clock).unwrap();
        longest_ns = longest_ns.max(clock() - begun_ns);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(connection.is_down());
    assert!(longest_ns < 500_000_000, "the longest wait was {longest_ns} ns");
}

#[test]
fn recovers_lost_and_duplicate_datagrams() {
    let faults = FaultPlan {
        seed: 11,
        drop_reply: PartsPerMillion(100_000),
        duplicate_reply: PartsPerMillion(100_000),
        ..FaultPlan::default()
    };
    let server = server(faults);
    for version in [ProtocolVersion::V2, ProtocolVersion::V3] {
        let mount = Mount::connect(&options(&server, version, Proto::Udp)).unwrap();
        let mut connection = open(&mount, true);
        call(&mut connection, &mount, 300).unwrap();
        let counters = connection.counters();
        assert!(counters.retransmissions > 0, "{counters:?}");
        assert!(counters.duplicate_replies + counters.late_replies > 0, "{counters:?}");
        assert_eq!(counters.calls_sent, 300, "each counted once: {counters:?}");
    }
}

#[test]
fn names_unsupported_protocol() {
    let versions = Versions { v3: true, v4_0: true, ..Versions::NONE };
    let config = ServerConfig { versions, ..ServerConfig::default() };
    let server = Server::start(config).unwrap();
    let error =
        |version| Mount::connect(&options(&server, version, Proto::Tcp)).expect_err("not spoken");
    let v2 = error(ProtocolVersion::V2);
    assert!(matches!(v2, MountError::Version { .. }), "{v2}");
    let v42 = error(ProtocolVersion::V4_2);
    assert!(
        matches!(v42, MountError::MinorVersion { requested: ProtocolVersion::V4_2, .. }),
        "{v42}"
    );
    let udp = Mount::connect(&options(&server, ProtocolVersion::V4_0, Proto::Udp)).unwrap_err();
    assert!(matches!(udp, MountError::NoUdp { .. }), "{udp}");
}

#[test]
fn speaks_every_version_over_ipv6() {
    let listen = Ipv6Addr::LOCALHOST.into();
    let server = Server::start(ServerConfig { listen, ..ServerConfig::default() }).unwrap();
    assert!(server.address().is_ipv6());
    for version in ProtocolVersion::ALL {
        for proto in [Proto::Tcp, Proto::Udp] {
            if proto == Proto::Udp && version.is_stateful() {
                continue;
            }
            let requested = MountOptions {
                host: "::1".to_owned(),
                family: Some(Family::V6),
                ..options(&server, version, proto)
            };
            let mut mount = Mount::connect(&requested).unwrap();
            let root = mount.root();
            let file = mount.create(root, "six").unwrap();
            mount.write(file, 0, b"over six", StableHow::FileSync).unwrap();
            assert_eq!(mount.read(file, 0, 100).unwrap(), b"over six", "{version} {proto}");
            mount.close(file).unwrap();
            let mut connection = open(&mount, true);
            call(&mut connection, &mount, 4).unwrap();
        }
    }
}

#[test]
fn uses_reserved_port_or_reports() {
    let server = server(FaultPlan::default());
    for proto in [Proto::Tcp, Proto::Udp] {
        let requested =
            MountOptions { resvport: true, ..options(&server, ProtocolVersion::V3, proto) };
        match Mount::connect(&requested) {
            Ok(mount) => {
                let mut connection = open(&mount, true);
                call(&mut connection, &mount, 2).unwrap();
            }
            Err(error) => {
                let is_allowed = rustix::process::geteuid().is_root();
                assert!(!is_allowed, "{error}");
                assert!(matches!(error, MountError::ReservedPort { .. }), "{error}");
            }
        }
    }
}

#[test]
fn reports_address_family_mismatch() {
    let server = server(FaultPlan::default());
    let mut options = options(&server, ProtocolVersion::V3, Proto::Tcp);
    options.family = Some(Family::V6);
    let error = Mount::connect(&options).unwrap_err();
    assert!(matches!(error, MountError::Family { .. }), "{error}");
    assert!(error.to_string().contains("no IPv6 address; it has 127.0.0.1"), "{error}");
}
