//! A working directory on an NFS server, reached without a mount.
//!
//! Set-up and clean-up go over one blocking connection, shared by the workers while they open;
//! each worker then measures on a connection of its own.

mod filling;
mod opening;
mod walking;

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::units::Size;
use model::work::mark_of;
use model::{Caveat, CaveatCode, Fact, NfsTarget, Pass, RunSpec, Workload};
use nfs_client::proto::client::File;
use nfs_client::{CallFailure, DelegationCounts, Identity, Mount, MountError, MountOptions};
use workload::{FileSet, Places};

use super::access::{TargetAccess, WorkerPass};
use super::fixtures::Preparation;
use super::job_timer::{Job, JobTimer};
use super::mount_options::mount_options;
use super::neighbor_search;
use super::neighbors::Neighbors;
use super::{Inventory, InventoryScope, Opened, TargetConfig, TargetError};
use crate::backend::nfs::PlusListing;
use crate::limits::{LISTED_SPARE, LISTED_SPARE_UNBOUNDED};
use filling::make_or_join;
use walking::ByCall;
pub(super) use walking::{WalkFailure, empty_leftover, remove_emptied};

/// The permissions that a mark is made with: setting them again changes nothing but its time.
const MARK_MODE: u32 = 0o755;

/// A working directory below the mounted path.
pub(super) struct NfsAccess {
    mount: Mutex<Mount>,
    work: File,
    /// We made it; else another agent did, and removes it.
    is_ours: bool,
    work_name: String,
    target: NfsTarget,
    shown: String,
    timeout: Duration,
    /// Handles of the directories that everything stands in, once they are made.
    places: Mutex<Arc<[File]>>,
    /// Files that the server holds open for the workers, in version 4.
    opened: Mutex<Vec<File>>,
    /// Files that all workers of a pass have open together.
    shared: Mutex<Option<SharedFiles>>,
    /// How long the server is waited for.
    timer: JobTimer,
    /// Names that a directory may have before it is held to be endless.
    names_max: u64,
    /// Counts of delegations up to the end of the last pass.
    delegations: Mutex<DelegationCounts>,
}

/// Files and links that all workers of a pass work on.
#[derive(Clone)]
struct SharedFiles {
    files: Vec<File>,
    links: Arc<[File]>,
    plus_listing: PlusListing,
}

impl NfsAccess {
    pub(super) fn create(
        target: &NfsTarget,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<Self, TargetError> {
        let timeout = Duration::from_millis(spec.timeout_ms);
        let job = Job::Mount(timeout);
        let timer = JobTimer::new(config.stop.clone(), Arc::clone(&config.clock), job);
        let options = MountOptions {
            interrupt: timer.interrupt(),
            rsize: spec.transfer_size_bytes,
            wsize: spec.transfer_size_bytes,
            session: opening::session_plan(spec),
            timeout,
            // Some hosts default to bbr, which paces a loopback stream to a third of its speed.
            congestion_control: target.is_loopback().then(|| "cubic".to_owned()),
            ..mount_options(target)
        };
        let shown = target.to_string();
        let mut mount = connect(&options).map_err(|error| mount_error(&shown, &error))?;
        let work_name = config.work_name.clone();
        let root = mount.root();
        timer.begin(Job::SetUp);
        let work = make_or_join(&mut mount, root, &work_name, spec.nfs().client_uids);
        let (work, is_ours) = work.map_err(|failure| {
            // Without an answer it is unknown whether the directory was made.
            let left = if failure.answered().is_some() { "" } else { &work_name };
            not_writable(&shown, target, &failure, left)
        })?;
        if is_ours {
            let marked = mark(&mut mount, work, &work_name);
            marked.map_err(|failure| not_writable(&shown, target, &failure, &work_name))?;
        }
        if !is_ours && !config.joins {
            let reason = "it is there already".to_owned();
            return Err(TargetError::Io { what: "create", location: work_name, reason });
        }
        Ok(Self {
            mount: Mutex::new(mount),
            work,
            is_ours,
            places: Mutex::default(),
            work_name,
            target: target.clone(),
            shown,
            timeout,
            opened: Mutex::default(),
            shared: Mutex::default(),
            timer,
            names_max: names_max(spec.workload, spec.files),
            delegations: Mutex::default(),
        })
    }

    /// Returns the identity of a client, if it is not that of the mount. The connections of the
    /// first client of each worker are further ones of the mount, unless its uid is another; every
    /// other client has a name, and in version 4 a state, of its own.
    fn identity_of(&self, mount: &Mount, client: u32, workers: u32) -> Option<Identity> {
        let own = &mount.options().identity;
        let uid = self.target.uid_of(client);
        if client < workers && uid == own.uid {
            return None;
        }
        let machine_name = format!("{}-{client}", own.machine_name);
        Some(Identity { machine_name, uid, ..own.clone() })
    }

    fn close_opened(&self) {
        for file in self.opened.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A server that has forgotten the open has nothing to close.
            let closed = self.mount().close(file);
            // One that does not answer is not called again for each of a million files.
            if closed.is_err_and(|failure| failure.answered().is_none()) {
                return;
            }
        }
    }

    fn unmount(self: Box<Self>) {
        // A server that no longer answers MOUNT loses nothing by it.
        let _ = self.mount.into_inner().unwrap_or_else(PoisonError::into_inner).unmount();
    }

    /// Does something that may be done twice, and again over a new connection where the old one was
    /// lost: servers close connections that were idle for a long pass.
    fn with_mount<T, E: ByCall>(
        &self,
        mut job: impl FnMut(&mut Mount) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut mount = self.mount();
        let first = job(&mut mount);
        let call = first.as_ref().err().and_then(ByCall::call);
        if !call.is_some_and(CallFailure::is_connection_lost) {
            return first;
        }
        // Without a new connection the first failure says more than the second.
        let Ok(fresh) = connect(mount.options()) else { return first };
        *mount = fresh;
        job(&mut mount)
    }

    fn places(&self) -> Arc<[File]> {
        Arc::clone(&self.places.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_places(&self, places: Vec<File>) {
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = places.into();
    }

    /// Returns the directory that a number stands in.
    fn place_of(&self, places: &Places, number: u32) -> File {
        self.places()[places.of_number(number) as usize]
    }

    fn lock_shared(&self) -> MutexGuard<'_, Option<SharedFiles>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mount(&self) -> MutexGuard<'_, Mount> {
        self.mount.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, what: &'static str, name: &str, failure: &impl Display) -> TargetError {
        TargetError::Io {
            what,
            location: format!("{}/{}/{name}", self.shown, self.work_name),
            reason: failure.to_string(),
        }
    }
}

impl TargetAccess for NfsAccess {
    fn prepare(
        &self,
        todo: Preparation,
        set: &FileSet,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<(), TargetError> {
        self.timer.begin(Job::SetUp);
        *self.lock_shared() = None;
        if todo.wipe {
            self.wipe()?;
        }
        self.write_fixtures(todo.make, set, spec, config)
    }

    fn open(&self, work: WorkerPass<'_>) -> Result<Opened, TargetError> {
        self.open_backend(work)
    }

    fn inventory(&self, whose: InventoryScope) -> Result<Option<Inventory>, TargetError> {
        self.count_entries(whose).map(Some)
    }

    fn adopt_directory(&mut self) {
        self.is_ours = true;
    }

    fn facts(&self) -> Vec<Fact> {
        let mount = self.mount();
        let limits = mount.fsinfo();
        let size = |bytes: u32| Size(u64::from(bytes)).to_string();
        let fact =
            |name: &str, value: String, source: &str| Fact::new("target", name, value, source);
        vec![
            fact("server", mount.server().to_string(), "connect(2)"),
            fact("path", mount.options().export.clone(), "plan"),
            fact("rtmax", size(limits.read_bytes_max), "FSINFO"),
            fact("wtmax", size(limits.write_bytes_max), "FSINFO"),
            fact("rsize", size(mount.rsize()), "effective"),
            fact("wsize", size(mount.wsize()), "effective"),
            fact(
                "congestion control",
                mount.congestion_control().unwrap_or("none").to_owned(),
                "TCP_CONGESTION",
            ),
        ]
    }

    /// Returns the delegations that are held, and reports what became of those of this pass where
    /// there were any.
    fn end_pass(&self, pass: Pass) -> Vec<Fact> {
        let now = self.mount().return_delegations();
        let mut last = self.delegations.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *last, now);
        if now == before {
            return Vec::new();
        }
        let value = format!(
            "{} granted, {} recalled, {} returned",
            now.granted - before.granted,
            now.recalled - before.recalled,
            now.returned - before.returned
        );
        vec![Fact::new("target", format!("{pass}: delegations"), value, "counted by the client")]
    }

    fn caveats(&self, spec: &RunSpec) -> Vec<Caveat> {
        let mount = self.mount();
        let Some(requested) = spec.transfer_size_bytes else { return Vec::new() };
        if mount.rsize() == requested && mount.wsize() == requested {
            return Vec::new();
        }
        vec![CaveatCode::OptionNotEffective.because(format!(
            "transfer_size {} requested, rsize {} and wsize {} effective (FSINFO)",
            Size(u64::from(requested)),
            Size(u64::from(mount.rsize())),
            Size(u64::from(mount.wsize())),
        ))]
    }

    fn show_life(&self, _config: &TargetConfig) {
        self.timer.begin(Job::SetUp);
        // A server that refuses this hides the campaign from others, and does no harm.
        let _: Result<(), CallFailure> = self.with_mount(|mount| {
            let mark = mount.lookup(self.work, &mark_of(&self.work_name))?;
            mount.chmod(mark, MARK_MODE)
        });
    }

    fn neighbors(&self, _config: &TargetConfig) -> Option<Neighbors> {
        if self.target.embedded {
            return None;
        }
        self.timer.begin(Job::SetUp);
        let looked = self.with_mount(|mount| {
            let mut neighbors = Neighbors::default();
            neighbor_search::look_over_nfs(&mut neighbors, mount, &self.shown, &self.work_name)?;
            Ok::<_, CallFailure>(neighbors)
        });
        looked.ok()
    }

    /// Leaves the files behind, but nothing open: servers of v4 keep an export busy over that.
    fn keep_files(self: Box<Self>) {
        self.timer.begin(Job::CleanUp);
        self.close_opened();
        self.unmount();
    }

    /// Removes the working directory with all that is in it, where it is ours.
    fn remove(self: Box<Self>, _config: &TargetConfig) -> Result<(), TargetError> {
        if !self.is_ours {
            self.keep_files();
            return Ok(());
        }
        self.timer.begin(Job::CleanUp);
        self.close_opened();
        let remove = |mount: &mut Mount| -> Result<(), WalkFailure> {
            self.empty(mount)?;
            remove_emptied(mount, self.work, &self.work_name)
        };
        let removed = self.with_mount(remove);
        match removed {
            Ok(()) => {
                self.unmount();
                Ok(())
            }
            Err(failure) => {
                let failed = self.failed("remove", "", &failure);
                // A server that does not answer here does not answer there either.
                if failure.call().is_some_and(|call| call.answered().is_some()) {
                    self.unmount();
                }
                Err(failed)
            }
        }
    }
}

/// Makes the directory by which a working directory is known for ours.
fn mark(mount: &mut Mount, work: File, work_name: &str) -> Result<(), CallFailure> {
    mount.mkdir(work, &mark_of(work_name)).map(drop)
}

/// Says in one line what the client says in two.
pub(super) fn mount_error(shown: &str, error: &MountError) -> TargetError {
    let text = error.to_string();
    TargetError::Nfs(match text.split_once("\n  hint: ") {
        Some((what, hint)) => format!("{shown}: {what} (hint: {hint})"),
        None => format!("{shown}: {text}"),
    })
}

/// Mounts; a congestion control that is only preferred and not allowed here is done without.
pub(super) fn connect(options: &MountOptions) -> Result<Mount, MountError> {
    match Mount::connect(options) {
        Err(MountError::CongestionControl { .. }) => {
            Mount::connect(&MountOptions { congestion_control: None, ..options.clone() })
        }
        result => result,
    }
}

/// Names that one directory of a run may have before it is held to be endless.
fn names_max(workload: Workload, files: u32) -> u64 {
    // Streams and mixes of reads and writes have the files of their set, and never more.
    let is_unbounded = !matches!(workload, Workload::Stream | Workload::Mixed);
    let spare = if is_unbounded { LISTED_SPARE_UNBOUNDED } else { LISTED_SPARE };
    spare.saturating_add(u64::from(files).saturating_mul(4))
}

/// Says what a server refused; `left` names what it may have made, where it gave no answer.
fn not_writable(shown: &str, target: &NfsTarget, failure: &CallFailure, left: &str) -> TargetError {
    if !left.is_empty() {
        return TargetError::Nfs(format!(
            "can't create a directory in {shown}: {failure} (hint: `{left}` may be left there)"
        ));
    }
    TargetError::Nfs(format!(
        "can't create a directory in {shown} as uid {} and gid {}: {failure} \
         (hint: the export may squash this uid, as root_squash does, or be read-only; ask for \
         another ?uid=)",
        target.identity.uid, target.identity.gid
    ))
}
