//! A working directory on an NFS server, accessed without a kernel mount.
//!
//! Setup and clean-up use a single blocking connection, which the workers share while opening. For
//! the measurement, each worker has its own connection.

mod filling;
mod layout_shape;
mod layouts;
mod opening;
mod walking;

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::units::Size;
use model::work::mark_of;
use model::{Caveat, CaveatCode, Fact, NfsTarget, Pass, RunSpec, Workload};
use nfs_client::proto::client::{File, OpenAccess};
use nfs_client::{CallFailure, DelegationCounts, Identity, Mount, MountError, MountOptions};
use workload::names::Sort;
use workload::{FileSet, Name, Places};

use super::access::{TargetAccess, WorkerPass};
use super::fixtures::Preparation;
use super::job_timer::{Job, JobTimer};
use super::mount_options::mount_options;
use super::neighbor_search;
use super::neighbors::Neighbors;
use super::{Inventory, InventoryScope, OpenedBackend, TargetConfig, TargetError};
use crate::backend::nfs::PlusListing;
use crate::limits::{LISTED_SPARE, LISTED_SPARE_UNBOUNDED, PREPARE_IO};
use filling::make_or_join;
use layouts::PnfsAccess;
use walking::ByCall;

pub(super) use opening::stable_how;
pub(super) use walking::{WalkFailure, empty_leftover, remove_emptied};

/// Permissions of a mark. Setting them again only changes its time.
const MARK_MODE: u32 = 0o755;

/// A working directory below the mounted path.
pub(super) struct NfsAccess {
    mount: Mutex<Mount>,
    work: File,
    /// True if we created it. Otherwise, another agent did and will remove it.
    is_ours: bool,
    work_name: String,
    target: NfsTarget,
    shown: String,
    timeout: Duration,
    /// Handles of the directories that contain everything else, once they have been created.
    places: Mutex<Arc<[File]>>,
    /// Files that the server holds open for the workers, in version 4.
    opened: Mutex<Vec<File>>,
    /// Open files shared by all workers of a pass.
    shared: Mutex<Option<SharedFiles>>,
    /// Limits how long we wait for the server.
    timer: JobTimer,
    /// Maximum number of names in a directory before we assume that it is endless.
    names_max: u64,
    /// Delegation counts at the end of the last pass.
    delegations: Mutex<DelegationCounts>,
    pnfs: PnfsAccess,
}

/// Files and symlinks shared by all workers of a pass.
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
        let shown = target.to_string();
        let (timer, mut mount) = mount_target(target, spec, config)?;
        let work_name = config.work_name.clone();
        let root = mount.root();
        timer.begin(Job::SetUp);
        let work = make_or_join(&mut mount, root, &work_name, spec.nfs().client_uids);
        let (work, is_ours) = work.map_err(|failure| {
            // Without an answer, we don't know whether the directory was created.
            let left = if failure.answered().is_some() { "" } else { &work_name };
            not_writable(&shown, target, &failure, left)
        })?;
        if is_ours {
            let marked = mark(&mut mount, work, &work_name);
            marked.map_err(|failure| not_writable(&shown, target, &failure, &work_name))?;
        }
        if !target.further_addresses().is_empty() {
            let checked = mount.check_addresses(work);
            if let Err(error) = checked {
                if is_ours {
                    // Nothing else is in it; if that fails, clean finds it by its mark.
                    let _ = remove_emptied(&mut mount, work, &work_name);
                }
                return Err(mount_error(&shown, &error));
            }
        }
        if !is_ours && !config.joins {
            let reason = "it already exists".to_owned();
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
            pnfs: PnfsAccess::default(),
        })
    }

    /// Returns access to a directory in the working directory, by connections of its own.
    fn access_part(
        &self,
        name: Name,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<Self, TargetError> {
        let (timer, mut mount) = mount_target(&self.target, spec, config)?;
        let root = mount.root();
        timer.begin(Job::SetUp);
        let uids = spec.nfs().client_uids;
        let work = mount
            .lookup(root, &self.work_name)
            .and_then(|whole| make_or_join(&mut mount, whole, name.as_str(), uids));
        let (work, _) = work.map_err(|failure| self.failed("make", name.as_str(), &failure))?;
        Ok(Self {
            mount: Mutex::new(mount),
            work,
            is_ours: false,
            places: Mutex::default(),
            work_name: format!("{}/{}", self.work_name, name.as_str()),
            target: self.target.clone(),
            shown: self.shown.clone(),
            timeout: self.timeout,
            opened: Mutex::default(),
            shared: Mutex::default(),
            timer,
            names_max: names_max(spec.workload, spec.files),
            delegations: Mutex::default(),
            pnfs: PnfsAccess::default(),
        })
    }

    /// Returns the identity of a client if it differs from that of the mount. The first client of
    /// each worker uses further connections of the mount, unless it has a different UID. Every
    /// other client has its own name, and in version 4 its own state.
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
            // If the server doesn't answer, don't call it again for each of a million files.
            if closed.is_err_and(|failure| failure.answered().is_none()) {
                return;
            }
        }
    }

    fn unmount(self: Box<Self>) {
        self.pnfs.leave();
        // It does no harm if the server no longer answers MOUNT.
        let _ = self.mount.into_inner().unwrap_or_else(PoisonError::into_inner).unmount();
    }

    /// Runs a job that is safe to repeat, and repeats it on a new connection if the old one was
    /// lost: servers close connections that were idle during a long pass.
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
        // If there is no new connection, the first failure is more informative.
        let Ok(fresh) = mount.reconnect() else { return first };
        *mount = fresh;
        job(&mut mount)
    }

    fn places(&self) -> Arc<[File]> {
        Arc::clone(&self.places.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_places(&self, places: Vec<File>) {
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = places.into();
    }

    /// Returns the directory that contains a number.
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
        self.write_fixtures(todo, set, spec, config)
    }

    fn open(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError> {
        self.open_backend(work)
    }

    fn part(
        &self,
        name: Name,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<Box<dyn TargetAccess>, TargetError> {
        Ok(Box::new(self.access_part(name, spec, config)?))
    }

    fn inventory(&self, whose: InventoryScope) -> Result<Option<Inventory>, TargetError> {
        self.count_entries(whose).map(Some)
    }

    fn read_file(
        &self,
        sort: Sort,
        number: u32,
        spec: &RunSpec,
        check: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), TargetError> {
        let dir = self.place_of(&Places::new(spec), number);
        let name = Name::new(sort, number);
        let read = self.with_mount(|mount| {
            let file = mount.open(dir, name.as_str(), OpenAccess::Read)?;
            let mut offset = 0;
            loop {
                let data = mount.read(file, offset, PREPARE_IO as usize)?;
                check(offset, &data);
                if data.len() < PREPARE_IO as usize {
                    return mount.close(file);
                }
                offset += data.len() as u64;
            }
        });
        // This was no part of a pass: the next one must not find its delegations.
        let delegations = self.mount().return_delegations();
        *self.delegations.lock().unwrap_or_else(PoisonError::into_inner) = delegations;
        read.map_err(|failure| self.failed("read", name.as_str(), &failure))
    }

    fn adopt_directory(&mut self) {
        self.is_ours = true;
    }

    fn facts(&self) -> Vec<Fact> {
        let mount = self.mount();
        let addresses: Vec<String> = mount.addresses().map(|at| at.to_string()).collect();
        let limits = mount.fsinfo();
        let size = |bytes: u32| Size(u64::from(bytes)).to_string();
        let fact =
            |name: &str, value: String, source: &str| Fact::new("target", name, value, source);
        let mut facts = vec![
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
        ];
        if addresses.len() > 1 {
            let (shared, source) = match mount.session_groups() {
                0 => ("the same files", "GETATTR"),
                1 => ("the same sessions", "EXCHANGE_ID, BIND_CONN_TO_SESSION"),
                _ => ("the same client, with sessions of their own", "EXCHANGE_ID"),
            };
            let value = format!("{} have {shared}", addresses.join(" and "));
            facts.push(fact("addresses", value, source));
        }
        facts
    }

    /// Returns all delegations, and reports what happened to those of this pass, if there were any,
    /// and what there is to tell about layouts.
    fn end_pass(&self, pass: Pass) -> Vec<Fact> {
        let now = self.mount().return_delegations();
        let mut last = self.delegations.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *last, now);
        let mut facts = self.pnfs.end_pass(pass);
        if now == before {
            return facts;
        }
        let value = format!(
            "{} granted, {} recalled, {} returned",
            now.granted - before.granted,
            now.recalled - before.recalled,
            now.returned - before.returned
        );
        let name = format!("{pass}: delegations");
        facts.push(Fact::new("target", name, value, "counted by the client"));
        facts
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
        // If the server doesn't allow it, other campaigns won't see this one, which does no harm.
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

    /// Keeps the files but leaves nothing open, because open files keep an export busy on v4
    /// servers.
    fn keep_files(self: Box<Self>) {
        self.timer.begin(Job::CleanUp);
        self.close_opened();
        self.unmount();
    }

    /// Removes the working directory and its contents if we own it.
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
                // Skip unmounting if the server didn't answer, since it wouldn't answer that
                // either.
                if failure.call().is_some_and(|call| call.answered().is_some()) {
                    self.unmount();
                }
                Err(failed)
            }
        }
    }
}

/// Mounts a run's export for setup and clean-up. Returns the timer that interrupts its calls, too.
fn mount_target(
    target: &NfsTarget,
    spec: &RunSpec,
    config: &TargetConfig,
) -> Result<(JobTimer, Mount), TargetError> {
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
    let mount = connect(&options).map_err(|error| mount_error(&target.to_string(), &error))?;
    Ok((timer, mount))
}

/// Creates the mark that identifies a working directory as ours.
fn mark(mount: &mut Mount, work: File, work_name: &str) -> Result<(), CallFailure> {
    mount.mkdir(work, &mark_of(work_name)).map(drop)
}

/// Puts the client's two-line error on one line.
pub(super) fn mount_error(shown: &str, error: &MountError) -> TargetError {
    let text = error.to_string();
    TargetError::Nfs(match text.split_once("\n  hint: ") {
        Some((what, hint)) => format!("{shown}: {what} (hint: {hint})"),
        None => format!("{shown}: {text}"),
    })
}

/// Mounts the export. If the preferred congestion control isn't allowed here, mounts without it.
pub(super) fn connect(options: &MountOptions) -> Result<Mount, MountError> {
    match Mount::connect(options) {
        Err(MountError::CongestionControl { .. }) => {
            Mount::connect(&MountOptions { congestion_control: None, ..options.clone() })
        }
        result => result,
    }
}

/// Returns the maximum number of names in a run's directory before we assume that it is endless.
fn names_max(workload: Workload, files: u32) -> u64 {
    // Streams and mixes of reads and writes never create files beyond their set.
    let is_unbounded = !matches!(
        workload,
        Workload::Stream | Workload::Mixed | Workload::Database | Workload::VmBoot
    );
    let spare = if is_unbounded { LISTED_SPARE_UNBOUNDED } else { LISTED_SPARE };
    spare.saturating_add(u64::from(files).saturating_mul(4))
}

/// Describes why the server did not create the directory. If there was no answer, `left` is the
/// name of what it may have created.
fn not_writable(shown: &str, target: &NfsTarget, failure: &CallFailure, left: &str) -> TargetError {
    if !left.is_empty() {
        return TargetError::Nfs(format!(
            "cannot create a directory in {shown}: {failure} (hint: `{left}` may be left there)"
        ));
    }
    TargetError::Nfs(format!(
        "cannot create a directory in {shown} as uid {} and gid {}: {failure} (hint: check whether \
         the export is read-only or squashes this uid, as root_squash does, or try another ?uid=)",
        target.identity.uid, target.identity.gid
    ))
}
