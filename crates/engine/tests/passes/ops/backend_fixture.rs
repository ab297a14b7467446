//! Ops written by hand, executed by a backend in a working directory, and an independent check of
//! the result.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use engine::backend::{Backend, BackendCounts, NO_LIMIT};
use engine::target::mount_options;
use engine::testing::{measure_pass, target_config};
use engine::{Clock as _, OpenedBackend, SystemClock, TargetConfig, TrialTarget};
use model::testing::{RunBuilder, nfs_target};
use model::{
    BackendKind, Completion, NfsSettings, NfsVersion, Op, OpKind, Outcome, Pass, RunSpec, Target,
    Workload,
};
use nfs_client::Mount;
use nfs_client::proto::client::File;
use nfs_client::proto::nfs3::StableHow;
use nfs_server::{Server, ServerConfig};
use tempfile::TempDir;
use workload::Pattern;

pub const FILE_BYTES: u64 = 20_000;
pub const IO_BYTES: u32 = 6_000;
pub const FILES: u32 = 4;

/// A backend that works in its own directory.
pub struct BackendFixture {
    pub pattern: Pattern,
    pub target: TrialTarget,
    pub backend: Box<dyn Backend>,
    eyes: DirectView,
    /// The server, if any, stops with the fixture.
    pub server: Option<Server>,
}

/// How the test inspects the target without the backend.
enum DirectView {
    Directory(TempDir, String),
    Nfs(Box<RefCell<Mount>>, String),
}

impl BackendFixture {
    /// A backend on a directory of this host, with files, directories and links to work on.
    pub fn on_directory(backend: BackendKind, change: impl FnOnce(&mut RunSpec)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::Directory { path: directory.path().to_owned() };
        let mut spec = RunBuilder::from(mix()).target(target).backend(backend).build();
        change(&mut spec);
        Self::new(&spec, Pass::OpMix, |name| DirectView::Directory(directory, name))
    }

    /// A backend on one of our servers in this process, which stores everything in memory.
    pub fn on_nfs(version: NfsVersion, change: impl FnOnce(&mut RunSpec)) -> Self {
        let server = Server::start(ServerConfig::default()).unwrap();
        let settings = NfsSettings { version, ..NfsSettings::default() };
        let target = nfs_target(server.address().port(), settings);
        let eyes = Mount::connect(&mount_options(&target)).unwrap();
        let mut spec =
            RunBuilder::from(mix()).target(Target::Nfs(target)).backend(BackendKind::Nfs).build();
        change(&mut spec);
        let mut fixture =
            Self::new(&spec, Pass::OpMix, |name| DirectView::Nfs(Box::new(eyes.into()), name));
        fixture.server = Some(server);
        fixture
    }

    /// A target, and the directory that it works in.
    pub fn target(spec: &RunSpec) -> (TrialTarget, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::Directory { path: directory.path().to_owned() };
        (
            TrialTarget::create(&RunBuilder::from(spec.clone()).target(target).build(), config())
                .unwrap(),
            directory,
        )
    }

    fn new(spec: &RunSpec, pass: Pass, eyes: impl FnOnce(String) -> DirectView) -> Self {
        let config = config();
        let work_name = config.work_name.clone();
        let pattern = config.pattern.clone();
        let target = TrialTarget::create(spec, config).unwrap();
        target.prepare(spec, pass).unwrap();
        let OpenedBackend { backend, .. } = target.open(spec, pass, 0).unwrap();
        let mut fixture = Self { pattern, target, backend, eyes: eyes(work_name), server: None };
        // Files of a mix have different sizes; here all of them are equal.
        for file in 0..FILES {
            for offset in (0..FILE_BYTES).step_by(4_000) {
                fixture.op(OpKind::Write, file, offset, 4_000);
            }
        }
        fixture
    }

    /// Executes an op and returns its outcome.
    pub fn try_op(&mut self, op: Op) -> Outcome {
        self.all(&[op])[0]
    }

    /// Executes an op that must succeed, and returns the number of bytes transferred.
    pub fn op(&mut self, kind: OpKind, file: u32, offset_bytes: u64, len_bytes: u32) -> u32 {
        match self.try_op(Op { scheduled_ns: 0, offset_bytes, len_bytes, file, kind }) {
            Outcome::Done(bytes) => bytes,
            Outcome::Failed(error) => panic!("{kind} of {file}: {error}"),
        }
    }

    /// Executes an op that identifies its file only by number.
    pub fn name_op(&mut self, kind: OpKind, number: u32) {
        assert_eq!(self.op(kind, number, 0, 0), 0, "{kind}");
    }

    /// Executes ops together, submitting as many at once as the backend accepts.
    pub fn all(&mut self, ops: &[Op]) -> Vec<Outcome> {
        let mut ended: Vec<Completion> = Vec::with_capacity(ops.len());
        let mut given = 0;
        let clock = SystemClock::new();
        while ended.len() < ops.len() {
            given += self.backend.submit(&ops[given..]);
            let min = usize::from(given > ended.len());
            self.backend.reap(min, NO_LIMIT, &mut ended).unwrap();
            assert!(
                clock.now_ns() < 20_000_000_000,
                "only {} of {} ops completed",
                ended.len(),
                ops.len()
            );
        }
        assert!(ended.iter().all(|end| end.done_ns >= end.sent_ns));
        let outcome_of =
            |op: &Op| ended.iter().find(|end| end.op == *op).expect("every op completes").outcome;
        ops.iter().map(outcome_of).collect()
    }

    pub fn tally(&self) -> BackendCounts {
        self.backend.tally()
    }

    /// Returns true if the working directory exists.
    pub fn is_working_directory_there(&self) -> bool {
        self.eyes.is_work_there()
    }

    /// Ends the trial, and calls `look` with whether the working directory still exists.
    pub fn end_and_look(self, look: impl FnOnce(bool)) {
        drop(self.backend);
        self.target.remove().unwrap();
        look(self.eyes.is_work_there());
    }

    /// The content of a file in the working directory; `None` if it does not exist.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        match &self.eyes {
            DirectView::Directory(..) => fs::read(self.local(path)).ok(),
            DirectView::Nfs(mount, ..) => {
                let file = self.find(path)?;
                let file = File::from(file.handle);
                Some(mount.borrow_mut().read(file, 0, 1 << 20).unwrap())
            }
        }
    }

    /// Returns true if something with this name exists.
    pub fn is_there(&self, path: &str) -> bool {
        match &self.eyes {
            DirectView::Directory(..) => self.local(path).symlink_metadata().is_ok(),
            DirectView::Nfs(..) => self.find(path).is_some(),
        }
    }

    /// Changes the mode of a file, so that a test can see it being changed back.
    pub fn set_mode(&self, path: &str, mode: u32) {
        match &self.eyes {
            DirectView::Directory(..) => {
                fs::set_permissions(self.local(path), fs::Permissions::from_mode(mode)).unwrap();
            }
            DirectView::Nfs(mount, ..) => {
                let file = self.find(path).unwrap();
                mount.borrow_mut().chmod(file, mode).unwrap();
            }
        }
    }

    pub fn mode(&self, path: &str) -> u32 {
        match &self.eyes {
            DirectView::Directory(..) => {
                self.local(path).metadata().unwrap().permissions().mode() & 0o777
            }
            DirectView::Nfs(mount, ..) => {
                let file = self.find(path).unwrap();
                mount.borrow_mut().getattr(file).unwrap().mode & 0o777
            }
        }
    }

    /// Overwrites a byte without the backend's knowledge.
    pub fn spoil(&self, path: &str) {
        let mut content = self.content(path).unwrap();
        content[100] ^= 1;
        match &self.eyes {
            DirectView::Directory(..) => fs::write(self.local(path), content).unwrap(),
            DirectView::Nfs(mount, ..) => {
                let file = File::from(self.find(path).unwrap().handle);
                let mut mount = mount.borrow_mut();
                mount.write(file, 0, &content[..200], StableHow::FileSync).unwrap();
            }
        }
    }

    fn local(&self, path: &str) -> PathBuf {
        match &self.eyes {
            DirectView::Directory(directory, work) => directory.path().join(work).join(path),
            DirectView::Nfs(..) => unreachable!("the target is not a path on this host"),
        }
    }

    fn find(&self, path: &str) -> Option<File> {
        let DirectView::Nfs(mount, work) = &self.eyes else { return None };
        let mut mount = mount.borrow_mut();
        let mut at = mount.root();
        for name in std::iter::once(work.as_str()).chain(path.split('/')) {
            at = mount.lookup(at, name).ok()?;
        }
        Some(at)
    }
}

impl DirectView {
    fn is_work_there(&self) -> bool {
        match self {
            Self::Directory(directory, work) => directory.path().join(work).exists(),
            Self::Nfs(mount, work) => {
                let mut mount = mount.borrow_mut();
                let root = mount.root();
                mount.lookup(root, work).is_ok()
            }
        }
    }
}

/// Runs the passes of a run in a directory, each op of which must succeed, and inspects the result.
pub fn pass_on_directory(spec: &RunSpec, passes: &[Pass], look: impl FnOnce(&Path, &Pattern)) {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::Directory { path: directory.path().to_owned() };
    let spec = RunBuilder::from(spec.clone()).target(target).build();
    let target = TrialTarget::create(&spec, config()).unwrap();
    for pass in passes {
        let measured = measure_pass(&target, &spec, *pass);
        assert_eq!(measured.result.errors(), 0, "{pass}: {:?}", measured.result.kinds);
        assert!(measured.result.kinds[0].done > 0, "{pass}");
    }
    look(&target.local_paths()[0], &config().pattern);
}

pub fn config() -> TargetConfig {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    static PATTERN: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(7, 1 << 20));
    let work_name = format!(".dfsbench-ops-{}", NUMBER.fetch_add(1, Relaxed));
    TargetConfig { pattern: PATTERN.clone(), ..target_config(work_name) }
}

/// A mix on a few small files in directories of two; all their bytes are verified.
fn mix() -> RunSpec {
    let mut spec = RunBuilder::new(Workload::OpMix)
        .target_name("test".into())
        .io_size_bytes(IO_BYTES)
        .file_size_bytes(FILE_BYTES)
        .files(FILES)
        .queue_depth(4)
        .verify(true)
        .build();
    spec.op_mix.files_per_directory = 2;
    spec.op_mix.shares = vec![(OpKind::Read, 10_000)];
    spec
}
