//! Sessions and clients of v4.1 with our real server: all connections of a client share one
//! session, each owns some of its slots, and every session and client is destroyed in the end. The
//! server counts the operations.

use std::time::{Duration, Instant};

use nfs_client::proto::client::{Event, Operation, ProtocolVersion};
use nfs_client::{
    Connection, ConnectionOptions, Identity, Mount, MountOptions, Scratch, SessionPlan,
};
use nfs_server::{FaultPlan, Server, ServerConfig};

/// Numbers of operations. **Source:** RFC 8881 section 16.2.3.
const BIND_CONN_TO_SESSION: usize = 41;
const EXCHANGE_ID: usize = 42;
const CREATE_SESSION: usize = 43;
const DESTROY_SESSION: usize = 44;
const DESTROY_CLIENTID: usize = 57;

const LIMIT: Duration = Duration::from_secs(20);

fn mount(server: &Server, version: ProtocolVersion, session: SessionPlan) -> Mount {
    let mut options = MountOptions::new("127.0.0.1", "/export");
    options.port = Some(server.address().port());
    options.version = version;
    options.session = session;
    Mount::connect(&options).unwrap()
}

/// A server that grants a session at most this number of slots.
fn server(session_slots_max: Option<u32>) -> Server {
    let faults = FaultPlan { session_slots_max, ..FaultPlan::default() };
    Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap()
}

/// Opens a connection of the mount's client, or of one with its own name.
fn open(mount: &Mount, name: Option<&str>, slots: usize) -> Connection {
    let identity =
        name.map(|name| Identity { machine_name: name.to_owned(), ..Identity::default() });
    let options = ConnectionOptions { identity, slots, ..ConnectionOptions::default() };
    Connection::open(mount, &options).unwrap()
}

fn count(server: &Server, operation: usize) -> u64 {
    server.counters().nfs4_operations[operation]
}

/// Counts sessions created, destroyed and bound to, and clients created and destroyed.
fn counts(server: &Server) -> [u64; 5] {
    [CREATE_SESSION, DESTROY_SESSION, BIND_CONN_TO_SESSION, EXCHANGE_ID, DESTROY_CLIENTID]
        .map(|operation| count(server, operation))
}

#[expect(clippy::disallowed_methods, reason = "tests read the clock themselves")]
fn clock() -> impl Fn() -> u64 {
    let start = Instant::now();
    move || start.elapsed().as_nanos() as u64
}

/// Starts as many GETATTRs as there are free slots, and returns their number.
fn start_all(connection: &mut Connection, mount: &Mount) -> usize {
    let slots = connection.free_slots();
    let root = mount.root();
    for tag in 0..slots {
        connection.start(0, tag as u32, &Operation::Getattr { file: &root }).unwrap();
    }
    slots
}

/// Waits for the given number of calls, each of which must succeed.
fn finish(connection: &mut Connection, calls: usize) {
    let clock = clock();
    let mut scratch = Scratch::new();
    let mut ended = 0;
    let mut check = |event: &Event<'_>| assert!(event.result.is_ok(), "{event:?}");
    while ended < calls {
        assert!(Duration::from_nanos(clock()) < LIMIT, "{:?}", connection.counters());
        let wait = Duration::from_millis(100);
        ended += connection.wait(&mut scratch, &clock, wait, &mut check).unwrap();
    }
}

/// Uses all slots of a connection at once, the given number of times.
fn call(connection: &mut Connection, mount: &Mount, rounds: usize) {
    for _ in 0..rounds {
        let calls = start_all(connection, mount);
        finish(connection, calls);
    }
}

#[test]
fn destroys_one_session_per_client() {
    for version in [ProtocolVersion::V4_1, ProtocolVersion::V4_2] {
        let server = server(None);
        let mount = mount(&server, version, SessionPlan { connections: 2, slots: 1 });
        for _ in 0..3 {
            let connections =
                [open(&mount, None, 1), open(&mount, None, 1), open(&mount, Some("other"), 1)];
            // One belongs to the mount, the other to the client in use.
            let alive = count(&server, CREATE_SESSION) - count(&server, DESTROY_SESSION);
            assert_eq!(alive, 2, "{version}");
            drop(connections);
        }
        mount.unmount().unwrap();
        // In each round, two connections of the mount are bound, and one to destroy the other
        // client's session.
        assert_eq!(counts(&server), [4, 4, 9, 4, 4], "{version}");
        assert_eq!(server.counters().errors, [].into(), "{version}");
    }
}

#[test]
fn keeps_session_in_use_on_unmount() {
    let server = server(None);
    let mount = mount(&server, ProtocolVersion::V4_1, SessionPlan::default());
    let connection = open(&mount, None, 1);
    drop(open(&mount, None, 1));
    mount.unmount().unwrap();
    assert_eq!(counts(&server), [1, 0, 2, 1, 0]);
    assert_eq!(server.counters().errors, [].into());
    drop(connection);
}

#[test]
fn continues_slot_numbers_of_connection() {
    let server = server(None);
    let mount = mount(&server, ProtocolVersion::V4_1, SessionPlan { connections: 3, slots: 8 });
    for rounds in 1..4 {
        let mut connections: Vec<_> = (0..3).map(|_| open(&mount, None, 8)).collect();
        // All slots of all connections have a call at the same time.
        for _ in 0..rounds {
            let calls: Vec<usize> =
                connections.iter_mut().map(|connection| start_all(connection, &mount)).collect();
            assert_eq!(calls, [8; 3]);
            for connection in &mut connections {
                finish(connection, 8);
            }
        }
    }
    mount.unmount().unwrap();
    assert_eq!(counts(&server), [1, 1, 9, 1, 1]);
    assert_eq!(server.counters().errors, [].into());
}

#[test]
fn does_not_reuse_unanswered_slots() {
    let server = server(None);
    let mount = mount(&server, ProtocolVersion::V4_1, SessionPlan { connections: 1, slots: 4 });
    let mut connection = open(&mount, None, 4);
    assert_eq!(start_all(&mut connection, &mount), 4);
    connection.flush(&clock()).unwrap();
    drop(connection);
    // Too few slots remain, so the next connection gets a session of its own.
    call(&mut open(&mount, None, 4), &mount, 3);
    assert_eq!(count(&server, CREATE_SESSION), 2);
    mount.unmount().unwrap();
    assert_eq!(counts(&server), [2, 2, 3, 1, 1]);
    assert_eq!(server.counters().errors, [].into());
}

#[test]
fn shares_few_slots_evenly() {
    // One slot belongs to the mount; 12 are left for three connections.
    let server = server(Some(13));
    let plan = SessionPlan { connections: 3, slots: 8 };
    let mount = mount(&server, ProtocolVersion::V4_1, plan);
    let mut connections = [open(&mount, None, 8), open(&mount, None, 8), open(&mount, None, 8)];
    assert_eq!(connections.each_ref().map(Connection::free_slots), [4; 3]);
    for connection in &mut connections {
        call(connection, &mount, 3);
    }
    assert_eq!(counts(&server), [1, 0, 3, 1, 0]);
    let mut fourth = open(&mount, None, 8);
    call(&mut fourth, &mount, 3);
    assert_eq!(count(&server, CREATE_SESSION), 2);
    drop((connections, fourth));
    mount.unmount().unwrap();
    assert_eq!(count(&server, DESTROY_SESSION), 2);
    assert_eq!(server.counters().errors, [].into());
}

#[test]
fn recovers_once_for_all_connections() {
    let server = server(None);
    let mount = mount(&server, ProtocolVersion::V4_1, SessionPlan { connections: 3, slots: 4 });
    let mut connections = [open(&mount, None, 4), open(&mount, None, 4), open(&mount, None, 4)];
    for restarts in 1..3 {
        server.restart_now();
        for connection in &mut connections {
            call(connection, &mount, 2);
            assert_eq!(connection.counters().rebinds, restarts);
        }
        // The client is registered again only once, and then has one session.
        assert_eq!(count(&server, EXCHANGE_ID), restarts + 1);
        assert_eq!(count(&server, DESTROY_SESSION), 0);
    }
    let created = count(&server, CREATE_SESSION);
    // The first connection uses the client id that the server has forgotten.
    assert_eq!(created, 5, "one at first, and two for each restart");
    for connection in &connections {
        assert_eq!(connection.free_slots(), 4);
    }
}
