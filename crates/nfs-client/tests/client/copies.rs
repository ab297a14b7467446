//! Asynchronous copies on our real server: reports on the connection that made the copy or on
//! another one, missing reports, servers that copy at once, restarts and cancellation.

use std::time::{Duration, Instant};

use nfs_client::proto::CallError;
use nfs_client::proto::client::{
    CopyCounts, Event, File, Operation, OperationKind, Outcome, ProtocolVersion,
};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::status::Status;
use nfs_client::{Connection, ConnectionOptions, Mount, MountOptions, Scratch, SessionPlan};
use nfs_server::{CopyFault, FaultPlan, Server, ServerConfig, StoreMode};

const LIMIT: Duration = Duration::from_secs(20);
const BYTES: u64 = (3 << 20) + 5;
const OFFLOAD_CANCEL: usize = 66;

/// A client with a file to copy and one to copy to.
struct Rig {
    server: Server,
    mount: Mount,
    connections: Vec<Connection>,
    from: File,
    to: File,
    scratch: Scratch,
    start: Instant,
}

impl Rig {
    #[expect(clippy::disallowed_methods, reason = "tests read the clock themselves")]
    fn new(copies: Option<CopyFault>, store: StoreMode, connections: u32) -> Self {
        let faults = FaultPlan { copies, ..FaultPlan::default() };
        let server = Server::start(ServerConfig { faults, store, ..ServerConfig::default() });
        let server = server.unwrap();
        let mut options = MountOptions::new("127.0.0.1", "/export");
        options.port = Some(server.address().port());
        options.version = ProtocolVersion::V4_2;
        options.async_copies = true;
        options.session = SessionPlan { connections, slots: 4 };
        let mut mount = Mount::connect(&options).unwrap();
        let from = mount.create(mount.root(), "from").unwrap();
        let data: Vec<u8> = (0..BYTES as u32).map(|n| (n / 7) as u8).collect();
        mount.write(from, 0, &data, StableHow::FileSync).unwrap();
        let to = mount.create(mount.root(), "to").unwrap();
        let options = ConnectionOptions { slots: 4, ..ConnectionOptions::default() };
        let open = |_| Connection::open(&mount, &options).unwrap();
        let connections = (0..connections).map(open).collect();
        let start = Instant::now();
        Self { server, mount, connections, from, to, scratch: Scratch::new(), start }
    }

    fn start_copy(&mut self, connection: usize, tag: u32, len: u64) {
        let now_ns = self.start.elapsed().as_nanos() as u64;
        let (from, to, to_offset) = (&self.from, &self.to, u64::from(tag) << 24);
        let copy = Operation::Copy { from, from_offset: 0, to, to_offset, len, synchronous: false };
        self.connections[connection].start(now_ns, tag, &copy).unwrap();
    }

    fn wait(&mut self, connection: usize, events: &mut dyn FnMut(&Event<'_>)) {
        let start = self.start;
        let clock = move || start.elapsed().as_nanos() as u64;
        let connection = &mut self.connections[connection];
        assert!(start.elapsed() < LIMIT, "{:?}", connection.counters());
        let wait = Duration::from_millis(10);
        connection.wait(&mut self.scratch, &clock, wait, events).unwrap();
    }

    /// Waits for the ends of `count` copies on some connections; returns their tags and results.
    fn ends(&mut self, among: &[usize], count: usize) -> Vec<(u32, Result<u64, CallError>)> {
        let mut ends = Vec::new();
        while ends.len() < count {
            for connection in among {
                self.wait(*connection, &mut |event| {
                    let result = event.result.map(|outcome| match outcome {
                        Outcome::Copied { count, .. } => count,
                        other => panic!("{other:?}"),
                    });
                    ends.push((event.tag, result));
                });
            }
        }
        ends.sort_by_key(|(tag, _)| *tag);
        ends
    }

    fn counts(&self, connection: usize) -> CopyCounts {
        self.connections[connection].copy_counts()
    }
}

#[test]
fn follows_copies_to_their_reports() {
    let mut rig = Rig::new(None, StoreMode::Keep, 1);
    for tag in 0..3 {
        rig.start_copy(0, tag, 0);
    }
    assert_eq!(rig.ends(&[0], 3), [0, 1, 2].map(|tag| (tag, Ok(BYTES))));
    let CopyCounts { reported, queried, synchronous, .. } = rig.counts(0);
    assert_eq!((reported, queried, synchronous), (3, 0, 0));
    let counters = rig.server.counters();
    assert_eq!((counters.background_copies, counters.copied_bytes), (3, 3 * BYTES));
    let copied = rig.server.read_file("/export/to").unwrap();
    assert!(copied[1 << 24..][..BYTES as usize] == copied[..BYTES as usize]);
    assert!(copied[..BYTES as usize] == rig.server.read_file("/export/from").unwrap());
}

#[test]
fn hands_reports_to_other_connections() {
    let mut rig = Rig::new(None, StoreMode::Keep, 3);
    // The server calls back over the connection that was bound last.
    for connection in 0..3 {
        rig.start_copy(connection, connection as u32, 0);
    }
    assert_eq!(rig.ends(&[0, 1, 2], 3), [0, 1, 2].map(|tag| (tag, Ok(BYTES))));
    let callbacks = [0, 1, 2].map(|number| rig.connections[number].counters().callbacks);
    assert_eq!(callbacks, [0, 0, 3]);
    for connection in 0..3 {
        let CopyCounts { reported, queried, .. } = rig.counts(connection);
        assert_eq!((reported, queried), (1, 0));
    }
}

#[test]
fn queries_copies_without_reports() {
    let mut rig = Rig::new(Some(CopyFault::Unreported), StoreMode::Keep, 1);
    for tag in 0..2 {
        rig.start_copy(0, tag, 0);
    }
    assert_eq!(rig.ends(&[0], 2), [0, 1].map(|tag| (tag, Ok(BYTES))));
    let CopyCounts { reported, queried, queries, .. } = rig.counts(0);
    assert_eq!((reported, queried), (0, 2));
    assert!(queries >= 2, "{queries}");
    assert_eq!(rig.connections[0].in_flight(), 0);
}

#[test]
fn counts_copies_made_at_once() {
    let mut rig = Rig::new(Some(CopyFault::Synchronous), StoreMode::Keep, 1);
    rig.start_copy(0, 0, BYTES);
    assert_eq!(rig.ends(&[0], 1), [(0, Ok(BYTES))]);
    assert_eq!(rig.counts(0), CopyCounts { synchronous: 1, ..CopyCounts::default() });
    // Errors of COPY itself are passed on as well.
    rig.to = rig.mount.root();
    rig.start_copy(0, 0, BYTES);
    let [(0, Err(error))] = rig.ends(&[0], 1)[..] else { panic!("copied to a directory") };
    assert_eq!(error.status(), Some(Status::IsDir));
}

/// A client whose copy never ends.
fn endless() -> Rig {
    let mut rig = Rig::new(None, StoreMode::Discard, 1);
    rig.mount.set_size(rig.from, 1 << 50).unwrap();
    rig.start_copy(0, 0, 0);
    while rig.server.counters().background_copies == 0 {
        rig.wait(0, &mut |event| panic!("{event:?}"));
    }
    rig
}

#[test]
fn loses_copies_with_restart() {
    let mut rig = endless();
    rig.server.restart_now();
    assert_eq!(rig.ends(&[0], 1), [(0, Err(CallError::Lost))]);
    rig.from.stateid = File::from(rig.from.handle).stateid;
    rig.to.stateid = rig.from.stateid;
    rig.start_copy(0, 1, BYTES);
    assert_eq!(rig.ends(&[0], 1), [(1, Ok(BYTES))]);
}

#[test]
fn cancels_abandoned_copies() {
    let mut rig = endless();
    let start = rig.start;
    let clock = move || start.elapsed().as_nanos() as u64;
    let until_ns = LIMIT.as_nanos() as u64;
    // The reply to the COPY may still be on its way.
    while rig.connections[0].in_flight() > 0 {
        rig.wait(0, &mut |event| panic!("{event:?}"));
    }
    rig.connections[0].finish_copies(&mut rig.scratch, &clock, until_ns);
    assert_eq!(rig.server.counters().nfs4_operations[OFFLOAD_CANCEL], 1);
    assert_eq!(rig.counts(0), CopyCounts { queries: rig.counts(0).queries, ..Default::default() });
    assert!(start.elapsed() < LIMIT);
}

#[test]
fn notices_copy_without_progress() {
    let mut rig = endless();
    let timeout_ns = 1;
    let stuck = rig.connections[0].check_timeout(u64::MAX / 2, timeout_ns).unwrap_err();
    assert!(stuck.to_string().contains(OperationKind::Copy.name()), "{stuck}");
    rig.connections[0].check_timeout(0, timeout_ns).unwrap();
}
