//! A replay on a server: mounts it, builds the tree, replays, and removes the tree.
//!
//! [`Replayer`] has the mount. Setup and cleanup use blocking calls; the measured part is done by
//! the executor. It only removes the directory that it created.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::Clock;
use model::work::{is_replay_directory, mark_of};
use nfs_client::proto::Status;
use nfs_client::proto::client::File;
use nfs_client::proto::client::ProtocolVersion;
use nfs_client::{
    CALLS_MAX, CallFailure, Connection, ConnectionOptions, Identity, Mount, MountError,
    MountOptions, SessionPlan,
};
use rustix::io::Errno;

use crate::action::DIRECTORY;
use crate::executor::{BatchSchedule, BatchWork, ExecuteError, Executor, Purpose};
use crate::lanes::Pace;
use crate::operation::{Files, write_pool};
use crate::outcome::{PlannedValues, Record, ShareRecord, name_of_kind};
use crate::plan::ReplayPlan;
use crate::prepare::{self, CONNECTIONS, DEPTH, Fill};
use crate::recorder::{Recorder, StepOutcome};
use crate::step::Batch;
use crate::target_kind::TargetKind;

/// Maximum number of calls in flight per client: as many as Linux's client over TCP, and four times
/// as many as in one of its sessions. Any more have to wait, which counts as the server's fault.
const CLIENT_SLOTS: usize = 256;
/// A v4 mount that was idle for longer than this is renewed, since the server may have forgotten
/// the client. Leases are 10 s or longer.
const IDLE_NS_MAX: u64 = 2_000_000_000;
/// Maximum depth of nested directories to remove.
const LEVELS_MAX: u32 = 4096;

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The export cannot be used.
    #[error(transparent)]
    Mount(Box<MountError>),
    /// A call during setup or cleanup failed.
    #[error("cannot {what} `{name}`: {reason}")]
    Call {
        /// The attempted operation.
        what: &'static str,
        /// Name of the directory.
        name: String,
        /// How it failed.
        reason: Box<CallFailure>,
    },
    /// The tree could not be built.
    #[error(
        "cannot build the tree in `{directory}`: {count} of {objects} objects failed; the first \
         one: {kind} {reason} (hint: is there enough space, and may this user write there?)"
    )]
    Tree {
        /// Name of the directory.
        directory: String,
        /// Number of objects that failed.
        count: u64,
        /// Number of objects in the tree.
        objects: usize,
        /// The first operation that failed.
        kind: &'static str,
        /// How it failed.
        reason: String,
    },
    /// A system call during setup or cleanup on a directory failed.
    #[error("cannot {what} `{}`: {reason}", path.display())]
    File {
        /// The attempted operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// How it failed.
        reason: Errno,
    },
    /// The server no longer answers.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
}

impl ReplayError {
    /// Creates the error for a failed system call.
    pub(crate) fn file(what: &'static str, path: &Path, reason: Errno) -> Self {
        Self::File { what, path: path.to_owned(), reason }
    }
}

impl From<MountError> for ReplayError {
    fn from(error: MountError) -> Self {
        Self::Mount(Box::new(error))
    }
}

/// Settings of a replay.
#[derive(Debug, Clone)]
pub struct ReplaySettings {
    /// Name of the directory in the export in which the tree is built. If the name comes from
    /// [`replay_directory`](model::work::replay_directory), the directory is marked as ours, and
    /// the tree is built in `tree` next to the mark, so that the mark doesn't show up in any
    /// listing of the trace.
    pub directory: String,
    /// Content of its files.
    pub fill: Fill,
}

/// Entry of a marked directory in which the tree is built.
pub(crate) const TREE: &str = "tree";

/// Replays a plan on one server.
pub struct Replayer<'a> {
    options: MountOptions,
    mount: Mount,
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
    /// When the mount itself was last used.
    used_ns: u64,
}

impl<'a> Replayer<'a> {
    /// Mounts an export.
    ///
    /// # Errors
    /// [`ReplayError::Mount`].
    pub fn connect(
        options: &MountOptions,
        clock: &'a dyn Clock,
        stop: &'a AtomicBool,
    ) -> Result<Self, ReplayError> {
        let mut options = options.clone();
        options.session = SessionPlan { connections: CONNECTIONS, slots: DEPTH };
        let mount = Mount::connect(&options)?;
        Ok(Self { mount, options, clock, stop, used_ns: clock.now_ns() })
    }

    pub fn version(&self) -> ProtocolVersion {
        self.mount.version()
    }

    /// Returns the maximum sizes of READ and WRITE, in bytes.
    pub fn transfer_bytes(&self) -> [u32; 2] {
        [self.mount.rsize(), self.mount.wsize()]
    }

    /// Builds the tree that a plan requires. Returns the handles.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn prepare(
        &mut self,
        plan: &mut ReplayPlan,
        settings: &ReplaySettings,
    ) -> Result<Files, ReplayError> {
        let ReplaySettings { directory, fill } = settings;
        self.refresh_mount();
        let top = self.make_top(directory)?;
        let names = plan.names.len();
        let batch = prepare::make_batch(plan, *fill, self.mount.wsize());
        let mut files = Files::new(plan.objects as usize + 1, plan.slots as usize);
        files.objects[plan.objects as usize] = Some(top);
        for initial in &plan.initial {
            let is_directory = initial.file_type == DIRECTORY;
            files.wanted_bytes[initial.object as usize] =
                if is_directory { u64::MAX } else { initial.size };
        }
        let mut recorder = Recorder::new(1, 1, 0);
        let options = ConnectionOptions { slots: DEPTH as usize, ..connection_options(&batch) };
        let connections = (0..CONNECTIONS)
            .map(|_| Connection::open(&self.mount, &options))
            .collect::<Result<Vec<_>, _>>()?;
        let mut executor = self.executor(connections, &options)?;
        let work = BatchWork {
            batch: &batch,
            names: &plan.names,
            purpose: Purpose::Prepare,
            files: &mut files,
            recorder: &mut recorder,
        };
        let executed = executor.run(work, BatchSchedule::immediate(Pace::Closed));
        plan.names.truncate(names);
        executed?;
        drop(executor);
        self.refresh_mount();
        if let Some(problem) = recorder.problems.first()
            && !self.stop.load(Relaxed)
        {
            let mut count = 0;
            for problem in &recorder.problems {
                count += problem.count;
            }
            return Err(ReplayError::Tree {
                directory: directory.clone(),
                count,
                objects: plan.initial.len(),
                kind: name_of_kind(problem.kind),
                reason: match problem.ended {
                    StepOutcome::Status(status) => {
                        Status::from_number(status).name_in(self.version()).to_owned()
                    }
                    StepOutcome::Failed => "had no reply".to_owned(),
                },
            });
        }
        Ok(files)
    }

    /// Replays a plan on the tree that was built.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn replay(
        &mut self,
        plan: &ReplayPlan,
        files: &mut Files,
        pace: Pace,
    ) -> Result<Record, ReplayError> {
        let share = self.open_clients(plan)?.replay(plan, files, BatchSchedule::immediate(pace))?;
        let planned = PlannedValues::from_plan(plan, pace, TargetKind::Nfs(self.version()));
        Ok(Record::new(share.recorder, planned, share.wire))
    }

    /// Opens a connection for each client of a plan.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn open_clients(&mut self, plan: &ReplayPlan) -> Result<Clients<'a>, ReplayError> {
        self.refresh_mount();
        let mut options = connection_options(&plan.batch);
        options.slots = CLIENT_SLOTS.min(CALLS_MAX);
        let mut connections = Vec::with_capacity(plan.batch.clients.len());
        for client in 0..plan.batch.clients.len() as u32 {
            // Servers identify clients by name, so names must be unique across all hosts.
            let number = plan.number_of_client(client);
            let name = format!("{}-{number}", self.options.identity.machine_name);
            options.identity =
                Some(Identity { machine_name: name, ..self.options.identity.clone() });
            connections.push(Connection::open(&self.mount, &options)?);
        }
        let executor = self.executor(connections, &options)?;
        let calls_before = executor.wire().calls_sent;
        Ok(Clients { executor, calls_before })
    }

    /// Removes the tree.
    ///
    /// # Errors
    /// [`ReplayError::Call`] with the object that could not be removed.
    pub fn remove(&mut self, directory: &str) -> Result<(), ReplayError> {
        self.refresh_mount();
        let root = self.mount.root();
        let call = |reason: CallFailure| ReplayError::Call {
            what: "remove",
            name: directory.to_owned(),
            reason: Box::new(reason),
        };
        let top = self.mount.lookup(root, directory).map_err(call)?;
        if is_replay_directory(directory) {
            // Remove the mark last, so that `dfsbench clean` can finish an interrupted removal.
            match self.mount.lookup(top, TREE) {
                Ok(tree) => {
                    self.empty(tree, LEVELS_MAX).map_err(call)?;
                    self.mount.rmdir(top, TREE).map_err(call)?;
                }
                Err(failure) if failure.status() == Some(Status::NoEnt) => {}
                Err(failure) => return Err(call(failure)),
            }
        }
        self.empty(top, LEVELS_MAX).map_err(call)?;
        self.mount.rmdir(root, directory).map_err(call)
    }

    fn empty(&mut self, dir: File, levels: u32) -> Result<(), CallFailure> {
        for entry in self.mount.readdir(dir)? {
            // This program created all names here, so they are UTF-8.
            let name = &*String::from_utf8_lossy(&entry.name);
            if name == "." || name == ".." {
                continue;
            }
            // Most entries are files. REMOVE fails for directories in v3, and for nonempty ones in
            // v4.
            let Err(failure) = self.mount.remove(dir, name) else { continue };
            if failure.status() == Some(Status::NoEnt) {
                continue;
            }
            let child = self.mount.lookup(dir, name)?;
            if levels == 0 || self.mount.getattr(child)?.file_type.number() != u32::from(DIRECTORY)
            {
                return Err(failure);
            }
            self.empty(child, levels - 1)?;
            self.mount.rmdir(dir, name)?;
        }
        Ok(())
    }

    /// Tells the server that the export is no longer in use.
    ///
    /// # Errors
    /// [`ReplayError::Mount`], which does no harm.
    pub fn disconnect(self) -> Result<(), ReplayError> {
        Ok(self.mount.unmount()?)
    }

    /// Mounts again if the mount was idle for so long that its lease may have expired. If this
    /// fails, so will the next operation that needs the mount.
    fn refresh_mount(&mut self) {
        let now_ns = self.clock.now_ns();
        let idle_ns = now_ns.saturating_sub(self.used_ns);
        self.used_ns = now_ns;
        if self.version().is_stateful()
            && idle_ns > IDLE_NS_MAX
            && let Ok(mount) = Mount::connect(&self.options)
        {
            self.mount = mount;
        }
    }

    /// Creates a directory in the export and returns the top of the tree in it.
    fn make_top(&mut self, name: &str) -> Result<File, ReplayError> {
        let directory = self.make_directory(self.mount.root(), name)?;
        if !is_replay_directory(name) {
            return Ok(directory);
        }
        self.make_directory(directory, &mark_of(name))?;
        self.make_directory(directory, TREE)
    }

    fn make_directory(&mut self, parent: File, name: &str) -> Result<File, ReplayError> {
        let made = match self.mount.mkdir(parent, name) {
            Err(failure) if failure.status() == Some(Status::Exist) => {
                self.mount.lookup(parent, name)
            }
            made => made,
        };
        made.map_err(|reason| ReplayError::Call {
            what: "create",
            name: name.to_owned(),
            reason: Box::new(reason),
        })
    }

    fn executor(
        &self,
        connections: Vec<Connection>,
        options: &ConnectionOptions,
    ) -> Result<Executor<'a>, ReplayError> {
        let timeout_ns = self.options.timeout.as_nanos() as u64;
        let pool = Arc::clone(&options.write_pool);
        Ok(Executor::new(connections, self.clock, self.stop, timeout_ns, pool)?)
    }
}

/// The clients of a plan, connected to the server.
pub struct Clients<'a> {
    executor: Executor<'a>,
    /// Number of calls needed to connect them.
    calls_before: u64,
}

impl Clients<'_> {
    /// Replays the plan, or this host's part of it.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn replay(
        mut self,
        plan: &ReplayPlan,
        files: &mut Files,
        course: BatchSchedule<'_>,
    ) -> Result<ShareRecord, ReplayError> {
        let planned_ns = course.pace.instant_ns(0, plan.duration_ns);
        let mut recorder = Recorder::new(planned_ns, plan.duration_ns, plan.batch.steps.len());
        let work = BatchWork {
            batch: &plan.batch,
            names: &plan.names,
            purpose: Purpose::Replay,
            files,
            recorder: &mut recorder,
        };
        let notices = self.executor.run(work, course)?;
        let mut wire = self.executor.wire();
        wire.calls_sent -= self.calls_before;
        Ok(ShareRecord { recorder, wire, notices })
    }
}

fn connection_options(batch: &Batch) -> ConnectionOptions {
    let pool = write_pool(batch.write_bytes_max() as usize);
    ConnectionOptions { write_pool: Arc::new(pool), ..ConnectionOptions::default() }
}
