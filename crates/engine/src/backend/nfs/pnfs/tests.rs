//! Layouts made by hand over real servers, with exact counts at each of them.

mod network;
mod simulated;

use std::sync::Arc;

use model::testing::{RunBuilder, nfs_target};
use model::{Completion, ConnectionPolicy, NfsSettings, NfsVersion, Op, OpKind, Outcome, Workload};
use nfs_client::pnfs::{FileLayout, Mirror, StripeFile};
use nfs_client::proto::client::{File, OperationKind};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::nfs4::{
    DeviceId, FileRecall, FilesLayout, LayoutIoMode, LayoutRecall, List, Stateid, layout_type,
};
use nfs_client::proto::striping::Striping;
use nfs_client::{Connection, ConnectionOptions, Mount};
use nfs_server::{Server, ServerConfig};
use workload::{Pattern, Places};

use super::super::{NfsFiles, PlusListing};
use super::{Pnfs, PnfsParts, RecallBoard};
use crate::SystemClock;
use crate::backend::find::FindRule;
use crate::backend::sparse::SparseLayout;
use crate::backend::{Backend, NO_LIMIT, PnfsCounts};
use crate::clients::ClientRecords;
use crate::target::mount_options;

const UNIT: u32 = 64 << 10;
const IO: u32 = 160 << 10;
/// A whole number of ops and of rounds of three stripes.
const FILE_BYTES: u64 = 3 * IO as u64 * 2;

/// A server with a mount of its own.
struct Node {
    server: Server,
    mount: Mount,
}

impl Node {
    fn start(version: NfsVersion) -> Self {
        let server = Server::start(ServerConfig::default()).unwrap();
        let settings = NfsSettings { version, ..NfsSettings::default() };
        let target = nfs_target(server.address().port(), settings);
        let mount = Mount::connect(&mount_options(&target)).unwrap();
        Self { server, mount }
    }

    fn create(&mut self, name: &str) -> File {
        let root = self.mount.root();
        self.mount.create(root, name).unwrap()
    }

    fn connect(&self, pattern: &Pattern) -> Connection {
        let options = ConnectionOptions {
            slots: 8,
            write_pool: pattern.pool(),
            keep_payload: Some(IO),
            reconnect: true,
            identity: None,
            path: 0,
        };
        Connection::open(&self.mount, &options).unwrap()
    }

    fn commits(&self) -> u64 {
        self.server.counters().calls_of_kind(OperationKind::Commit)
    }

    /// Payload written to and read from this server.
    fn moved(&self) -> (u64, u64) {
        let counters = self.server.counters();
        (counters.payload_written_bytes, counters.payload_read_bytes)
    }
}

/// A metadata server with a file, and data servers with the stripes of its mirrors.
struct Cluster {
    metadata: Node,
    data: Vec<Node>,
    file: File,
    pattern: Pattern,
    board: Arc<RecallBoard>,
    layout: FileLayout,
}

fn layout_of(mirrors: Vec<Mirror>) -> FileLayout {
    FileLayout {
        stateid: Stateid::default(),
        layout_type: layout_type::FLEX_FILES,
        iomode: LayoutIoMode::ReadWrite,
        written_mirrors: mirrors.len(),
        mirrors,
        commits_through_mds: false,
        // The server of this test has no layouts.
        needs_layoutcommit: false,
        allows_reads: true,
        stats_interval_s: 0,
    }
}

impl Cluster {
    /// Starts `mirrors` times `stripes` data servers.
    fn start(version: NfsVersion, striping: Striping, mirrors: usize) -> Self {
        let mut pattern = Pattern::new(1, 1 << 20);
        pattern.generate_all();
        let mut metadata = Node::start(NfsVersion::V4_1);
        let file = metadata.create("f");
        let mut data = Vec::new();
        let mut made = Vec::new();
        for _ in 0..mirrors {
            let mut stripes = Vec::new();
            for _ in 0..striping.stripes() {
                let mut node = Node::start(version);
                let file = node.create("stripe");
                data.push(node);
                stripes.push(StripeFile {
                    server: data.len() as u32,
                    file,
                    device: DeviceId::default(),
                    user: None,
                });
            }
            made.push(Mirror { striping, stripes });
        }
        let layout = layout_of(made);
        let board = Arc::default();
        Self { metadata, data, file, pattern, board, layout }
    }

    fn backend(&self, layout: Option<FileLayout>) -> Pnfs {
        let parts = PnfsParts {
            metadata: self.metadata.connect(&self.pattern),
            data: self.data.iter().map(|node| (node.connect(&self.pattern), IO, IO)).collect(),
            layouts: vec![layout],
            devices: Default::default(),
            board: Arc::clone(&self.board),
            tally: Arc::default(),
        };
        let set = files_of(&self.metadata.mount, self.file, &self.pattern, IO);
        Pnfs::new(parts, set, Arc::new(SystemClock::new())).unwrap()
    }

    /// The bytes written and read at each data server, and at the metadata server.
    fn moved(&self) -> (Vec<(u64, u64)>, (u64, u64)) {
        (self.data.iter().map(Node::moved).collect(), self.metadata.moved())
    }
}

/// A set of one file, read and written with this size.
fn files_of(mount: &Mount, file: File, pattern: &Pattern, io_bytes: u32) -> NfsFiles {
    let root = mount.root();
    NfsFiles {
        version: mount.version(),
        directory: root,
        places: Arc::new(Places::new(&RunBuilder::new(Workload::Stream).build())),
        place_files: [root].into(),
        links: Arc::default(),
        plus_listing: PlusListing::Readdir,
        lists: None,
        listing_bytes: 0,
        find: FindRule::default(),
        files: vec![file],
        twins: Vec::new(),
        sparse: SparseLayout { block_bytes: 1, file_bytes: 0 },
        first: 0,
        stride: 1,
        is_written: true,
        connections_per_client: 1,
        policy: ConnectionPolicy::Share,
        paths: Vec::new(),
        grid: None,
        stable: StableHow::Unstable,
        log_stable: StableHow::Unstable,
        rsize: io_bytes,
        wsize: io_bytes,
        pattern: pattern.clone(),
        verify: true,
        queue_depth: 4,
        async_copy: false,
        timeout_ns: 2_000_000_000,
        client_uids: 1,
        own: 1,
        closable: false,
        clients: ClientRecords::default(),
    }
}

fn op(kind: OpKind, offset_bytes: u64, len_bytes: u32) -> Op {
    Op { scheduled_ns: 0, offset_bytes, len_bytes, file: 0, kind }
}

/// Executes ops, and returns how they ended.
fn run(backend: &mut Pnfs, ops: &[Op]) -> Vec<Outcome> {
    let mut ended: Vec<Completion> = Vec::with_capacity(64);
    let mut next = 0;
    while ended.len() < ops.len() {
        next += backend.submit(&ops[next..]);
        backend.reap(1, NO_LIMIT, &mut ended).unwrap();
    }
    ended.sort_by_key(|completion| completion.op.offset_bytes);
    ended.iter().map(|completion| completion.outcome).collect()
}

fn over_file(kind: OpKind) -> Vec<Op> {
    (0..FILE_BYTES / u64::from(IO)).map(|at| op(kind, at * u64::from(IO), IO)).collect()
}

fn all_done(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done(_)))
}

fn counts_of(backend: &Pnfs) -> PnfsCounts {
    backend.tally().pnfs.unwrap()
}

fn flex(stripes: usize) -> Striping {
    Striping::of_flex_files(UNIT.into(), stripes).unwrap()
}

#[test]
fn sends_each_stripe_to_its_server() {
    let dense = FilesLayout {
        device: DeviceId::default(),
        util: FilesLayout::new_util(UNIT, true, false),
        first_stripe_index: 1,
        pattern_offset: 0,
        files: List::default(),
    };
    let dense = Striping::of_files(&dense, 3).unwrap();
    for (version, striping, stripe_bytes) in [
        (NfsVersion::V3, flex(3), [13, 14, 15].map(|units| units * u64::from(UNIT))),
        (NfsVersion::V4_1, dense, [5; 3].map(|units| units * u64::from(UNIT))),
    ] {
        let cluster = Cluster::start(version, striping, 1);
        let mut backend = cluster.backend(Some(cluster.layout.clone()));
        assert!(all_done(&run(&mut backend, &over_file(OpKind::Write))));
        assert!(all_done(&run(&mut backend, &[op(OpKind::Sync, 0, 0)])));
        assert!(all_done(&run(&mut backend, &over_file(OpKind::Read))));
        let third = FILE_BYTES / 3;
        assert_eq!(cluster.moved(), (vec![(third, third); 3], (0, 0)));
        for (node, bytes) in cluster.data.iter().zip(stripe_bytes) {
            assert_eq!(node.server.file_size("/export/stripe"), Some(bytes));
        }
        let tally = backend.tally();
        assert_eq!((tally.read_bytes, tally.write_bytes), (Some(FILE_BYTES), Some(FILE_BYTES)));
        assert_eq!(tally.syncs_without_commit, 0);
        let expected = PnfsCounts { data_bytes: 2 * FILE_BYTES, files: 1, ..PnfsCounts::default() };
        assert_eq!(counts_of(&backend), expected);
        assert_eq!(expected.metadata_share(), Some(0.0));
        backend.end();
        let work = backend.pnfs_work().unwrap();
        assert_eq!((work.data_servers.len(), work.metadata_bytes), (3, 0));
        for server in work.data_servers {
            assert_eq!((server.bytes, server.lost_connections), (2 * third, 0));
            assert!(server.ops > 0 && server.calls > server.ops, "{server:?}");
            assert!(server.sent_bytes > third && server.received_bytes > third, "{server:?}");
        }
    }
}

#[test]
fn writes_all_mirrors() {
    let cluster = Cluster::start(NfsVersion::V3, flex(2), 2);
    let mut backend = cluster.backend(Some(cluster.layout.clone()));
    assert!(all_done(&run(&mut backend, &over_file(OpKind::Write))));
    assert!(all_done(&run(&mut backend, &[op(OpKind::Sync, 0, 0)])));
    assert!(all_done(&run(&mut backend, &over_file(OpKind::Read))));
    let (data, metadata) = cluster.moved();
    let half = [8, 7].map(|units| units * u64::from(UNIT));
    let read = [(half[0], half[0]), (half[1], half[1])];
    assert_eq!(data, [read[0], read[1], (half[0], 0), (half[1], 0)]);
    assert_eq!(metadata, (0, 0));
    assert_eq!(backend.tally().write_bytes, Some(FILE_BYTES));
    assert_eq!(counts_of(&backend).data_bytes, 3 * FILE_BYTES);
}

#[test]
fn commits_through_metadata_server() {
    let cluster = Cluster::start(NfsVersion::V4_1, flex(2), 1);
    let layout = FileLayout { commits_through_mds: true, ..cluster.layout.clone() };
    let mut backend = cluster.backend(Some(layout));
    assert!(all_done(&run(&mut backend, &over_file(OpKind::Write)[..1])));
    // The servers of this test don't share a verifier, as those of a real cluster have to.
    assert!(!all_done(&run(&mut backend, &[op(OpKind::Sync, 0, 0)])));
    assert_eq!(cluster.data.iter().map(Node::commits).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(cluster.metadata.commits(), 1);
}

#[test]
fn falls_back_after_recall() {
    let cluster = Cluster::start(NfsVersion::V3, flex(2), 1);
    let mut backend = cluster.backend(Some(cluster.layout.clone()));
    let ops = over_file(OpKind::Write);
    assert!(all_done(&run(&mut backend, &ops[..2])));
    let recall = |file: File| {
        let stateid = Stateid::default();
        LayoutRecall::File(FileRecall { file: file.handle, offset: 0, length: u64::MAX, stateid })
    };
    // Another worker's file, then ours.
    cluster.board.post(recall(cluster.metadata.mount.root()));
    assert!(all_done(&run(&mut backend, &ops[2..3])));
    assert_eq!(counts_of(&backend).recalled, 0);
    cluster.board.post(recall(cluster.file));
    assert!(all_done(&run(&mut backend, &ops[3..4])));
    assert!(all_done(&run(&mut backend, &ops[4..])));
    assert!(all_done(&run(&mut backend, &[op(OpKind::Sync, 0, 0)])));
    let counts = counts_of(&backend);
    assert_eq!(counts.recalled, 1);
    assert_eq!(counts.data_bytes + counts.metadata_bytes, FILE_BYTES);
    assert!(counts.metadata_bytes >= 2 * u64::from(IO), "{counts:?}");
    assert_eq!(cluster.metadata.moved().0, counts.metadata_bytes);
    // What the data servers have was committed before the layout was returned.
    assert!(cluster.data.iter().all(|node| node.commits() > 0));
}

#[test]
fn reads_elsewhere_if_server_dies() {
    let mut cluster = Cluster::start(NfsVersion::V3, flex(2), 1);
    let mut written = cluster.backend(Some(cluster.layout.clone()));
    assert!(all_done(&run(&mut written, &over_file(OpKind::Write))));
    drop(written);
    // The metadata server has a copy, as it would have access to all data servers.
    let content = cluster.pattern.slice(0, 0, FILE_BYTES as u32).to_vec();
    cluster.metadata.mount.write(cluster.file, 0, &content, StableHow::FileSync).unwrap();
    let mut backend = cluster.backend(Some(cluster.layout.clone()));
    let ops = over_file(OpKind::Read);
    assert!(all_done(&run(&mut backend, &ops[..3])));
    cluster.data.remove(1).server.shutdown();
    assert!(all_done(&run(&mut backend, &ops)));
    let counts = counts_of(&backend);
    assert_eq!(counts.lost_servers, 1);
    let work = backend.pnfs_work().unwrap();
    let lost: Vec<_> = work.data_servers.iter().map(|server| server.lost_connections).collect();
    assert_eq!(lost, [0, 1]);
    assert!(counts.refused > 0 && counts.metadata_bytes > 0, "{counts:?}");
    assert_eq!(backend.tally().read_bytes, Some(FILE_BYTES + 3 * u64::from(IO)));
}

#[test]
fn uses_metadata_server_without_layout() {
    let cluster = Cluster::start(NfsVersion::V3, flex(2), 1);
    let mut backend = cluster.backend(None);
    assert!(all_done(&run(&mut backend, &over_file(OpKind::Write))));
    assert_eq!(cluster.moved(), (vec![(0, 0); 2], (FILE_BYTES, 0)));
    let counts = counts_of(&backend);
    assert_eq!((counts.without_layout, counts.metadata_share()), (1, Some(1.0)));
}
