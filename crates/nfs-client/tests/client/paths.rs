//! Several addresses of our real server: they share a session or are refused, and when one fails,
//! its calls move to the other and are executed exactly once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nfs_client::proto::client::{Event, Operation, ProtocolVersion};
use nfs_client::proto::nfs3::{CreateHow, Sattr};
use nfs_client::{
    Connection, ConnectionOptions, Difference, Mount, MountError, MountOptions, Scratch,
    SessionPlan,
};
use nfs_server::{FaultPlan, Server, ServerConfig};

use crate::relay::Relay;

/// Numbers of operations. **Source:** RFC 8881 section 16.2.3.
const BIND_CONN_TO_SESSION: usize = 41;
const EXCHANGE_ID: usize = 42;
const CREATE_SESSION: usize = 43;

const LIMIT: Duration = Duration::from_secs(20);
const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V3, ProtocolVersion::V4_1, ProtocolVersion::V4_2];

fn server() -> Server {
    Server::start(ServerConfig::default()).unwrap()
}

fn options(first: SocketAddr, more: &[String], version: ProtocolVersion) -> MountOptions {
    let mut options = MountOptions::new("127.0.0.1", "/export");
    options.port = Some(first.port());
    options.more_addresses = more.to_vec();
    options.version = version;
    options.session = SessionPlan { connections: 2, slots: 16 };
    options.timeout = Duration::from_secs(4);
    options
}

/// A server, a relay to it, and a mount through both.
fn mount(version: ProtocolVersion) -> (Server, Relay, Mount) {
    let server = server();
    let relay = Relay::start(server.address());
    let more = [relay.address().to_string()];
    let mount = Mount::connect(&options(server.address(), &more, version)).unwrap();
    (server, relay, mount)
}

fn open(mount: &Mount, path: usize) -> Connection {
    let options = ConnectionOptions { slots: 16, path, ..ConnectionOptions::default() };
    let mut connection = Connection::open(mount, &options).unwrap();
    connection.begin_tcp_counters();
    connection
}

#[expect(clippy::disallowed_methods, reason = "tests read the clock themselves")]
fn clock() -> impl Fn() -> u64 {
    let start = Instant::now();
    move || start.elapsed().as_nanos() as u64
}

/// Waits for the calls in flight, and returns how many failed.
fn finish(connection: &mut Connection, clock: &dyn Fn() -> u64, silent: Duration) -> usize {
    let mut scratch = Scratch::new();
    let mut failed = 0;
    let mut count = |event: &Event<'_>| failed += usize::from(event.result.is_err());
    while connection.in_flight() > 0 {
        assert!(Duration::from_nanos(clock()) < LIMIT, "{:?}", connection.counters());
        let wait = Duration::from_millis(20);
        connection.wait(&mut scratch, clock, wait, &mut count).unwrap();
        connection.leave_silent_path(clock(), silent.as_nanos() as u64).unwrap();
    }
    failed
}

/// Starts calls that create files, which fail if they are executed twice.
fn start_creates(connection: &mut Connection, mount: &Mount, now_ns: u64, names: &[String]) {
    let dir = &mount.root();
    for (tag, name) in (0..).zip(names) {
        let how = CreateHow::Guarded(Sattr::default());
        let create = Operation::Create { dir, name: name.as_bytes(), how };
        connection.start(now_ns, tag, &create).unwrap();
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("file-{number}")).collect()
}

#[test]
fn addresses_share_a_session() {
    let (server, relay, mount) = mount(ProtocolVersion::V4_1);
    assert_eq!(mount.addresses().collect::<Vec<_>>(), [server.address(), relay.address()]);
    let clock = clock();
    for path in [0, 1] {
        let mut connection = open(&mount, path);
        let getattr = Operation::Getattr { file: &mount.root() };
        connection.start(clock(), 0, &getattr).unwrap();
        assert_eq!(finish(&mut connection, &clock, LIMIT), 0);
        assert_eq!((connection.path(), connection.path_counters(path).calls), (path, 1));
        assert_eq!(connection.path_counters(1 - path).calls, 0);
    }
    mount.unmount().unwrap();
    let operations = &server.counters().nfs4_operations;
    let count = |operation: usize| operations[operation];
    assert_eq!(count(CREATE_SESSION), 1, "the addresses belong to one server");
    // One is the check that the further address knows the session.
    assert_eq!((count(EXCHANGE_ID), count(BIND_CONN_TO_SESSION)), (2, 3));
    assert_eq!(server.counters().errors, [].into());
}

#[test]
fn refuses_addresses_of_other_servers() {
    let (first, second) = (server(), server());
    for version in VERSIONS {
        let more = [second.address().to_string()];
        let error = Mount::connect(&options(first.address(), &more, version)).unwrap_err();
        let MountError::NotTrunked(refused) = error else { panic!("{version}: {error}") };
        assert_eq!((refused.first, refused.server), (first.address(), second.address()));
        let is_expected = match refused.why {
            Difference::Owner { .. } => version != ProtocolVersion::V3,
            Difference::Handle { .. } => version == ProtocolVersion::V3,
            _ => false,
        };
        assert!(is_expected, "{version}: {refused}");
    }
}

#[test]
fn refuses_addresses_without_use() {
    let server = server();
    let port = server.address().port();
    for version in VERSIONS {
        let connect = |more: &str| {
            Mount::connect(&options(server.address(), &[more.to_owned()], version)).unwrap_err()
        };
        let same = connect(&format!("localhost:{port}"));
        assert!(matches!(same, MountError::SameAddress { .. }), "{version}: {same}");
        let missing = connect("127.0.0.1:1");
        assert!(matches!(missing, MountError::Connect { .. }), "{version}: {missing}");
        assert!(missing.to_string().contains("127.0.0.1:1:"), "{missing}");
    }
}

#[test]
fn calls_of_cut_address_move_once() {
    let clock = clock();
    for version in VERSIONS {
        let (server, relay, mut mount) = mount(version);
        let mut connection = open(&mount, 1);
        // The server executes these calls, but their replies are lost with the connection.
        relay.drop_replies();
        let names = names(12);
        start_creates(&mut connection, &mount, clock(), &names);
        connection.flush(&clock).unwrap();
        while mount.lookup(mount.root(), &names[11]).is_err() {
            assert!(Duration::from_nanos(clock()) < LIMIT, "{version}");
        }
        relay.cut();
        let failed = finish(&mut connection, &clock, LIMIT);
        let has_sessions = version != ProtocolVersion::V3;
        // Without a session, a call that must not be repeated is lost.
        assert_eq!(failed, if has_sessions { 0 } else { 12 }, "{version}");
        let moved = connection.path_counters(1);
        assert_eq!((connection.path(), moved.losses, moved.moved_calls), (0, 1, 12), "{version}");
        assert_eq!(connection.path_counters(0).calls, if has_sessions { 12 } else { 0 });
        assert_eq!(connection.counters().rebinds, 0, "{version}");
        // The address is used no more, and the other one is not left for it.
        start_creates(&mut connection, &mount, clock(), &["later".to_owned()]);
        assert_eq!(finish(&mut connection, &clock, LIMIT), 0, "{version}");
        assert_eq!(connection.server(), server.address());
        let mut fresh = open(&mount, 1);
        assert_eq!((fresh.path(), fresh.path_counters(1).losses), (0, 1), "{version}");
        start_creates(&mut fresh, &mount, clock(), &["last".to_owned()]);
        assert_eq!(finish(&mut fresh, &clock, LIMIT), 0, "{version}");
        let entries = mount.readdir(mount.root()).unwrap();
        assert_eq!(entries.len(), 12 + 2, "{version}");
    }
}

#[test]
fn parts_of_server_have_own_sessions() {
    let clock = clock();
    let faults = FaultPlan { minor_ids: true, ..FaultPlan::default() };
    let server = Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap();
    let relay = Relay::start(server.address());
    let more = [relay.address().to_string()];
    let options = options(server.address(), &more, ProtocolVersion::V4_1);
    let mount = Mount::connect(&options).unwrap();
    assert_eq!(mount.session_groups(), 2);
    let count = |operation: usize| server.counters().nfs4_operations[operation];
    let mut connections = [open(&mount, 0), open(&mount, 1), open(&mount, 1)];
    assert_eq!((count(EXCHANGE_ID), count(CREATE_SESSION)), (2, 2), "one for each part");
    let [_, second, third] = &mut connections;
    // Calls in another session are new calls: those that may be repeated are.
    relay.drop_replies();
    let root = mount.root();
    second.start(clock(), 0, &Operation::Getattr { file: &root }).unwrap();
    start_creates(third, &mount, clock(), &names(1));
    for connection in [&mut *second, &mut *third] {
        connection.flush(&clock).unwrap();
    }
    while relay.dropped_bytes() == 0 || server.list_directory("/export").unwrap().is_empty() {
        assert!(Duration::from_nanos(clock()) < LIMIT);
    }
    relay.cut();
    for (connection, failed) in [(second, 0), (third, 1)] {
        assert_eq!(finish(connection, &clock, LIMIT), failed);
        assert_eq!((connection.path(), connection.counters().rebinds), (0, 1));
        assert_eq!(connection.path_counters(1).moved_calls, 1);
    }
}

#[test]
fn leaves_silent_address() {
    let clock = clock();
    for version in VERSIONS {
        let (_server, relay, mount) = mount(version);
        let mut connection = open(&mount, 1);
        let root = mount.root();
        relay.drop_replies();
        for tag in 0..5 {
            connection.start(clock(), tag, &Operation::Getattr { file: &root }).unwrap();
        }
        let silent = Duration::from_millis(100);
        assert_eq!(finish(&mut connection, &clock, silent), 0, "{version}");
        let left = connection.path_counters(1);
        assert_eq!((connection.path(), left.losses, left.moved_calls), (0, 1, 5), "{version}");
        assert!(relay.dropped_bytes() > 0, "{version}");
    }
}

#[test]
fn mounts_again_through_another_address() {
    for version in VERSIONS {
        let (server, relay, _) = mount(version);
        let more = [server.address().to_string()];
        let mut mount = Mount::connect(&options(relay.address(), &more, version)).unwrap();
        relay.cut();
        mount.getattr(mount.root()).unwrap_err();
        let mut again = mount.reconnect().unwrap();
        again.getattr(again.root()).unwrap();
        assert_eq!(again.server(), server.address(), "{version}");
        let connection = open(&again, 0);
        assert_eq!((connection.path(), connection.path_counters(0).losses), (1, 1), "{version}");
    }
}

#[test]
fn single_address_stays() {
    let server = server();
    let relay = Relay::start(server.address());
    let options = options(relay.address(), &[], ProtocolVersion::V4_1);
    let mount = Mount::connect(&options).unwrap();
    let mut connection = open(&mount, 0);
    let clock = clock();
    relay.drop_replies();
    connection.start(clock(), 0, &Operation::Getattr { file: &mount.root() }).unwrap();
    connection.flush(&clock).unwrap();
    connection.leave_silent_path(clock() + 10_000_000_000, 1).unwrap();
    let counters = connection.path_counters(0);
    assert_eq!((connection.path(), counters.losses, counters.calls), (0, 0, 1));
}
