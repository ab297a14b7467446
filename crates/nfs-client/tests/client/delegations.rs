//! Read delegations from our real server: kept and used if requested, recalled when others write,
//! and returned in every case. The server counts them.

use std::time::{Duration, Instant};

use nfs_client::proto::client::{Event, File, OpenAccess, Operation, ProtocolVersion};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::status::Status;
use nfs_client::{
    Connection, ConnectionOptions, DelegationCounts, Mount, MountOptions, Scratch, SessionPlan,
};
use nfs_server::{Delegations, Server, ServerConfig};

const OPEN: usize = 18;
const CLOSE: usize = 4;
const DELEGRETURN: usize = 8;

const LIMIT: Duration = Duration::from_secs(20);
const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V4_1, ProtocolVersion::V4_2];

fn server(delegations: Delegations) -> Server {
    Server::start(ServerConfig { delegations, ..ServerConfig::default() }).unwrap()
}

fn mount(server: &Server, version: ProtocolVersion, delegations: bool) -> Mount {
    let mut options = MountOptions::new("127.0.0.1", "/export");
    options.port = Some(server.address().port());
    options.version = version;
    options.delegations = delegations;
    options.session = SessionPlan { connections: 2, slots: 4 };
    Mount::connect(&options).unwrap()
}

/// A working client, and one that interferes with it.
struct Rig {
    server: Server,
    mount: Mount,
    connection: Connection,
    scratch: Scratch,
    start: Instant,
}

impl Rig {
    /// Creates `/export/f` with three bytes, without a delegation.
    #[expect(clippy::disallowed_methods, reason = "tests read the clock themselves")]
    fn new(version: ProtocolVersion, delegations: Delegations, wanted: bool) -> Self {
        let server = server(delegations);
        let mut writer = mount(&server, ProtocolVersion::V3, false);
        let file = writer.create(writer.root(), "f").unwrap();
        writer.write(file, 0, b"old", StableHow::FileSync).unwrap();
        let mount = mount(&server, version, wanted);
        let connection = open(&mount);
        Self { server, mount, connection, scratch: Scratch::new(), start: Instant::now() }
    }

    /// Makes one call; returns its outcome, with the opened file.
    fn call(&mut self, operation: &Operation<'_>) -> (Result<(), Status>, Option<File>) {
        self.connection.start(0, 7, operation).unwrap();
        let mut end = None;
        while end.is_none() {
            self.receive(&mut |event| {
                let status = event.result.map(drop).map_err(|error| error.status().unwrap());
                end = Some((status, event.file.copied()));
            });
        }
        end.unwrap()
    }

    fn receive(&mut self, events: &mut dyn FnMut(&Event<'_>)) {
        let start = self.start;
        let clock = move || start.elapsed().as_nanos() as u64;
        assert!(start.elapsed() < LIMIT, "{:?}", self.connection.counters());
        let wait = Duration::from_millis(10);
        self.connection.wait(&mut self.scratch, &clock, wait, events).unwrap();
    }

    fn open_to_read(&mut self) -> File {
        let dir = self.mount.root();
        let (result, file) =
            self.call(&Operation::Open { dir: &dir, name: b"f", access: OpenAccess::Read });
        assert_eq!(result, Ok(()));
        file.unwrap()
    }

    fn delegated(&self) -> Option<File> {
        self.connection.delegated(&self.mount.root(), b"f")
    }

    fn return_all(&mut self) {
        let start = self.start;
        let clock = move || start.elapsed().as_nanos() as u64;
        let until_ns = LIMIT.as_nanos() as u64;
        self.connection.return_delegations(&mut self.scratch, &clock, until_ns);
    }

    /// OPEN, CLOSE and DELEGRETURN as counted by the server.
    fn calls(&self) -> [u64; 3] {
        let counted = self.server.counters().nfs4_operations;
        [OPEN, CLOSE, DELEGRETURN].map(|operation| counted[operation])
    }
}

fn open(mount: &Mount) -> Connection {
    let options = ConnectionOptions { slots: 4, ..ConnectionOptions::default() };
    Connection::open(mount, &options).unwrap()
}

const fn counts(granted: u64, recalled: u64, returned: u64) -> DelegationCounts {
    DelegationCounts { granted, recalled, returned }
}

#[test]
fn reads_delegated_file_without_opens() {
    for version in VERSIONS {
        let mut rig = Rig::new(version, Delegations::Read, true);
        let opened = rig.open_to_read();
        assert_eq!(rig.call(&Operation::Close { file: &opened }).0, Ok(()));
        for _ in 0..3 {
            let file = rig.delegated().expect("the file is delegated");
            assert_ne!(file.stateid, opened.stateid);
            let read = Operation::Read { file: &file, offset: 0, count: 3 };
            assert_eq!(rig.call(&read).0, Ok(()));
        }
        assert_eq!(rig.calls(), [1, 1, 0], "{version}");
        // Another connection of the client may use it, too.
        let second = open(&rig.mount);
        assert_eq!(second.delegated(&rig.mount.root(), b"f"), rig.delegated());
        assert_eq!(second.delegated(&rig.mount.root(), b"g"), None);
        drop(second);
        rig.return_all();
        assert_eq!(rig.delegated(), None);
        assert_eq!(rig.calls(), [1, 1, 1], "{version}");
        assert_eq!(rig.mount.return_delegations(), counts(1, 0, 1));
        assert_eq!(rig.server.counters().errors, [].into());
    }
}

#[test]
fn returns_delegation_on_recall() {
    for version in VERSIONS {
        let mut rig = Rig::new(version, Delegations::Read, true);
        let opened = rig.open_to_read();
        let file = rig.delegated().unwrap();
        let mut options = MountOptions::new("127.0.0.1", "/export");
        options.port = Some(rig.server.address().port());
        let mut writer = Mount::connect(&options).unwrap();
        let writing = std::thread::spawn(move || {
            let file = writer.lookup(writer.root(), "f").unwrap();
            writer.write(file, 0, b"new", StableHow::FileSync)
        });
        while rig.delegated().is_some() || rig.server.counters().delegations_returned == 0 {
            rig.receive(&mut |event| panic!("no call is in flight: {event:?}"));
        }
        // After "try later", the write is repeated and succeeds once the delegation is returned.
        writing.join().unwrap().unwrap();
        let read = |file| Operation::Read { file, offset: 0, count: 3 };
        assert_eq!(rig.call(&read(&opened)).0, Ok(()), "the open outlives the delegation");
        assert_eq!(rig.call(&read(&file)).0, Err(Status::BadStateid));
        let counters = rig.server.counters();
        assert_eq!((counters.delegations_recalled, counters.delegations_revoked), (1, 0));
        assert_eq!(rig.mount.return_delegations(), counts(1, 1, 1), "{version}");
    }
}

#[test]
fn returns_delegation_before_own_change() {
    let mut rig = Rig::new(ProtocolVersion::V4_1, Delegations::Read, true);
    let opened = rig.open_to_read();
    assert_eq!(rig.call(&Operation::Close { file: &opened }).0, Ok(()));
    let dir = rig.mount.root();
    assert_eq!(rig.call(&Operation::Remove { dir: &dir, name: b"f" }).0, Ok(()));
    rig.return_all();
    assert_eq!((rig.delegated(), rig.calls()), (None, [1, 1, 1]));
    assert_eq!(
        rig.server.counters().errors,
        [].into(),
        "the delegation is returned before the file is removed"
    );
}

#[test]
fn returns_unrequested_delegation() {
    for version in VERSIONS {
        let mut rig = Rig::new(version, Delegations::Unasked, false);
        let opened = rig.open_to_read();
        assert_eq!(rig.delegated(), None);
        while rig.calls() != [1, 0, 1] {
            rig.receive(&mut |event| panic!("no call is in flight: {event:?}"));
        }
        let read = Operation::Read { file: &opened, offset: 0, count: 3 };
        assert_eq!(rig.call(&read).0, Ok(()));
        // The mount's blocking connection behaves in the same way.
        let root = rig.mount.root();
        let mount = &mut rig.mount;
        let file = mount.open(root, "f", OpenAccess::Read).unwrap();
        mount.close(file).unwrap();
        assert_eq!(rig.mount.return_delegations(), counts(2, 0, 2), "{version}");
        assert_eq!(rig.server.counters().errors, [].into());
    }
}

#[test]
fn requests_no_delegation_if_unwanted() {
    for version in VERSIONS {
        let mut rig = Rig::new(version, Delegations::Read, false);
        rig.open_to_read();
        assert_eq!(rig.calls(), [1, 0, 0]);
        assert_eq!(rig.mount.return_delegations(), counts(0, 0, 0), "{version}");
        assert_eq!(rig.server.counters().delegations_granted, 0);
    }
}
