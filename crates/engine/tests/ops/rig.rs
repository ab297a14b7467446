//! Ops written by hand, executed by a backend in a working directory, and another pair of eyes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use engine::backend::{Backend, NO_LIMIT, Tally};
use engine::{Opened, Site, SiteConfig, SystemClock};
use model::{BackendKind, Completion, Op, OpKind, Outcome, Pass, RunSpec, Target, Workload};
use tempfile::TempDir;
use workload::Pattern;

pub const FILE_BYTES: u64 = 20_000;
pub const IO_BYTES: u32 = 6_000;
pub const FILES: u32 = 4;

/// A backend at work in a directory of its own.
pub struct Rig {
    pub spec: RunSpec,
    pub pattern: Pattern,
    pub site: Site,
    pub backend: Box<dyn Backend>,
    eyes: Eyes,
}

/// How what is there is seen, without the backend.
enum Eyes {
    Directory(TempDir, String),
}

impl Rig {
    /// A backend on a directory of this host, with files, directories and links to work on.
    pub fn on_directory(backend: BackendKind, change: impl FnOnce(&mut RunSpec)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::Directory { path: directory.path().to_owned() };
        let mut spec = RunSpec { target, backend, ..mix() };
        change(&mut spec);
        Self::new(spec, Pass::OpMix, |name| Eyes::Directory(directory, name))
    }

    fn new(spec: RunSpec, pass: Pass, eyes: impl FnOnce(String) -> Eyes) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let work_name = format!(".dfsbench-ops-{}", NUMBER.fetch_add(1, Relaxed));
        let pattern = Pattern::new(7, 1 << 20);
        let config = SiteConfig {
            work_name: work_name.clone(),
            pattern: pattern.clone(),
            clock: Arc::new(SystemClock::new()),
            keep: false,
            stop: Arc::default(),
        };
        let site = Site::create(&spec, config).unwrap();
        site.prepare(&spec, pass).unwrap();
        let Opened { backend, .. } = site.open(&spec, pass, 0).unwrap();
        Self { spec, pattern, site, backend, eyes: eyes(work_name) }
    }

    /// Executes an op and says what became of it.
    pub fn try_op(&mut self, op: Op) -> Outcome {
        self.all(&[op])[0]
    }

    /// Executes an op that must be done, and says how many bytes moved.
    pub fn op(&mut self, kind: OpKind, file: u32, offset_bytes: u64, len_bytes: u32) -> u32 {
        match self.try_op(Op { due_ns: 0, offset_bytes, len_bytes, file, kind }) {
            Outcome::Done(bytes) => bytes,
            Outcome::Failed(error) => panic!("{kind} of {file}: {error}"),
        }
    }

    /// Executes an op that works by number alone.
    pub fn name_op(&mut self, kind: OpKind, number: u32) {
        assert_eq!(self.op(kind, number, 0, 0), 0, "{kind}");
    }

    /// Executes ops together, as many at once as the backend takes.
    pub fn all(&mut self, ops: &[Op]) -> Vec<Outcome> {
        let mut ended: Vec<Completion> = Vec::with_capacity(ops.len());
        let mut given = 0;
        let until = Instant::now() + Duration::from_secs(20);
        while ended.len() < ops.len() {
            given += self.backend.submit(&ops[given..]);
            let min = usize::from(given > ended.len());
            self.backend.reap(min, NO_LIMIT, &mut ended).unwrap();
            assert!(Instant::now() < until, "{} of {} ops ended", ended.len(), ops.len());
        }
        assert!(ended.iter().all(|end| end.done_ns >= end.sent_ns));
        let outcome_of =
            |op: &Op| ended.iter().find(|end| end.op == *op).expect("every op comes back").outcome;
        ops.iter().map(outcome_of).collect()
    }

    pub fn tally(&self) -> Tally {
        self.backend.tally()
    }

    /// The content of a file of the working directory; `None` where there is none.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        match &self.eyes {
            Eyes::Directory(..) => fs::read(self.local(path)).ok(),
        }
    }

    /// Says whether something has this name.
    pub fn is_there(&self, path: &str) -> bool {
        match &self.eyes {
            Eyes::Directory(..) => self.local(path).symlink_metadata().is_ok(),
        }
    }

    /// Where a link leads to.
    pub fn target(&self, path: &str) -> String {
        match &self.eyes {
            Eyes::Directory(..) => {
                self.local(path).read_link().unwrap().to_str().unwrap().to_owned()
            }
        }
    }

    /// Changes the mode of a file, so that it can be seen to be changed back.
    pub fn set_mode(&self, path: &str, mode: u32) {
        match &self.eyes {
            Eyes::Directory(..) => {
                fs::set_permissions(self.local(path), fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }

    pub fn mode(&self, path: &str) -> u32 {
        match &self.eyes {
            Eyes::Directory(..) => {
                self.local(path).metadata().unwrap().permissions().mode() & 0o777
            }
        }
    }

    /// Overwrites a byte behind the backend's back.
    pub fn spoil(&self, path: &str) {
        let mut content = self.content(path).unwrap();
        content[100] ^= 1;
        match &self.eyes {
            Eyes::Directory(..) => fs::write(self.local(path), content).unwrap(),
        }
    }

    fn local(&self, path: &str) -> PathBuf {
        let Eyes::Directory(directory, work) = &self.eyes;
        directory.path().join(work).join(path)
    }
}

/// A mix on a few small files in directories of two, all of whose bytes are compared.
fn mix() -> RunSpec {
    let mut spec = RunSpec {
        target_name: "test".into(),
        io_size_bytes: IO_BYTES,
        file_size_bytes: FILE_BYTES,
        files: FILES,
        queue_depth: 4,
        verify: true,
        ..RunSpec::null(Workload::OpMix)
    };
    spec.op_mix.files_per_directory = 2;
    spec
}
