//! A working directory on an NFS server, reached without a mount.
//!
//! Set-up and clean-up go over one blocking connection, shared by the workers while they open;
//! each worker then measures on a connection of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::units::Size;
use model::{Caveat, CaveatCode, Fact, NfsTarget, Opens, Pass, RunSpec, Stable};
use nfs_client::proto::client::{File, OpenAccess};
use nfs_client::proto::limits::SLOTS_MAX;
use nfs_client::proto::nfs3::StableHow;
use nfs_client::{
    CallFailure, Connection, ConnectionOptions, Identity, Mount, MountError, MountOptions,
};
use workload::{Name, Pattern};

use super::stock::Todo;
use super::{Census, Opened, SiteConfig, SiteError, interrupted, opened_files};
use crate::backend::Backend;
use crate::backend::nfs::{Many, Nfs, NfsFiles};
use crate::clients::ClientBooks;
use crate::clock::Clock;

/// A working directory below the mounted path.
pub(super) struct NfsSite {
    mount: Mutex<Mount>,
    work: File,
    work_name: String,
    target: NfsTarget,
    shown: String,
    timeout: Duration,
    /// What the server holds open for the workers, in version 4.
    opened: Mutex<Vec<File>>,
}

impl NfsSite {
    pub(super) fn create(
        target: &NfsTarget,
        spec: &RunSpec,
        config: &SiteConfig,
    ) -> Result<Self, SiteError> {
        let timeout = Duration::from_millis(spec.timeout_ms);
        let options = MountOptions {
            rsize: spec.transfer_size_bytes,
            wsize: spec.transfer_size_bytes,
            timeout,
            // Some hosts default to bbr, which paces a loopback stream to a third of its speed.
            congestion_control: target.is_loopback().then(|| "cubic".to_owned()),
            ..MountOptions::from_target(target)
        };
        let shown = target.to_string();
        let mut mount = connect(&options).map_err(|error| told(&shown, &error))?;
        let work_name = config.work_name.clone();
        let work = make_directory(&mut mount, &work_name, spec);
        let work = work.map_err(|failure| not_writable(&shown, target, &failure))?;
        let (mount, opened) = (Mutex::new(mount), Mutex::default());
        Ok(Self { mount, work, work_name, target: target.clone(), shown, timeout, opened })
    }

    /// Removes and makes what has to be.
    pub(super) fn prepare(
        &self,
        todo: Todo,
        spec: &RunSpec,
        config: &SiteConfig,
    ) -> Result<(), SiteError> {
        for number in 0..todo.make.files {
            self.fill(number, spec, config)?;
        }
        Ok(())
    }

    /// Writes a file whole and commits it.
    fn fill(&self, number: u32, spec: &RunSpec, config: &SiteConfig) -> Result<(), SiteError> {
        let pattern: &Pattern = &config.pattern;
        let mut mount = self.mount();
        let step = mount.wsize();
        let name = Name::file(number);
        let failed = |failure| self.failed("prepare", name.as_str(), &failure);
        let file = make_file(&mut mount, self.work, name.as_str(), spec).map_err(failed)?;
        for offset in (0..spec.file_size_bytes).step_by(step as usize) {
            interrupted(config)?;
            let len = u64::from(step).min(spec.file_size_bytes - offset) as u32;
            let data = pattern.slice(number, offset, len);
            mount.write(file, offset, data, StableHow::Unstable).map_err(failed)?;
        }
        mount.commit(file).map_err(failed)?;
        mount.close(file).map_err(failed)
    }

    pub(super) fn open(
        &self,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        config: &SiteConfig,
    ) -> Result<Opened, SiteError> {
        let (first, stride) = opened_files(spec, pass, worker);
        let by_name = pass.opens() == Opens::Nothing;
        let numbers = if by_name { 0..0 } else { first..spec.files };
        let files = self.files(spec, pass, numbers.step_by(stride as usize), config)?;
        let clients: Vec<u32> = (worker..spec.clients()).step_by(spec.workers as usize).collect();
        let mount = self.mount();
        let (rsize, wsize) = (mount.rsize(), mount.wsize());
        let largest = if by_name { spec.file_size_bytes } else { u64::from(spec.io_size_bytes) };
        let per_op = largest.div_ceil(u64::from(rsize.min(wsize))).max(1) as usize;
        let queue_depth = depth(spec, pass, per_op as u32) as usize;
        let nconnect = spec.nfs().nconnect;
        let is_owner = self.identity_of(&mount, worker, spec.workers).is_none();
        let recorded = if spec.nfs().per_client { clients.len() } else { 0 };
        let writes = !by_name && pass.writes();
        let set = NfsFiles {
            version: mount.version(),
            directory: self.work,
            files,
            first,
            stride,
            written: writes.then_some((spec.file_size_bytes, spec.io_size_bytes)),
            stable: stable_how(spec.nfs().stable),
            rsize,
            wsize,
            pattern: config.pattern.clone(),
            verify: spec.verify,
            queue_depth,
            timeout_ns: self.timeout.as_nanos() as u64,
            own: if is_owner { nconnect as usize } else { 0 },
            clients: ClientBooks::new(recorded, (worker, spec.workers), nconnect),
        };
        let per_connection = queue_depth.div_ceil(nconnect as usize);
        let options = ConnectionOptions {
            slots: (per_op * per_connection).min(SLOTS_MAX),
            write_pool: config.pattern.pool(),
            keep_payload: spec.verify.then_some(rsize.min(spec.io_size_bytes)),
            ..ConnectionOptions::default()
        };
        let connections = self.connections(&mount, &options, (spec, &clients), config)?;
        let queue_depth = per_connection * connections.len();
        let backend = backend(connections, per_connection, set, &config.clock)?;
        Ok(Opened { backend, caveats: Vec::new(), kernel_counts: false, queue_depth })
    }

    /// Opens the connections of some clients, those of one after those of the other.
    fn connections(
        &self,
        mount: &Mount,
        options: &ConnectionOptions,
        (spec, clients): (&RunSpec, &[u32]),
        config: &SiteConfig,
    ) -> Result<Vec<Connection>, SiteError> {
        let nconnect = spec.nfs().nconnect;
        let mut connections = Vec::with_capacity(clients.len() * nconnect as usize);
        for &client in clients {
            interrupted(config)?;
            let identity = self.identity_of(mount, client, spec.workers);
            let options = ConnectionOptions { identity, ..options.clone() };
            for _ in 0..nconnect {
                let opened = Connection::open(mount, &options);
                connections.push(opened.map_err(|error| told(&self.shown, &error))?);
            }
        }
        Ok(connections)
    }

    /// Makes or opens the files that a worker's pass moves data of.
    fn files(
        &self,
        spec: &RunSpec,
        pass: Pass,
        numbers: impl Iterator<Item = u32>,
        config: &SiteConfig,
    ) -> Result<Vec<File>, SiteError> {
        let mut files = Vec::with_capacity(numbers.size_hint().0);
        for number in numbers {
            interrupted(config)?;
            let name = Name::file(number);
            let access =
                if pass.opens() == Opens::ToRead { OpenAccess::Read } else { OpenAccess::Both };
            let file = self.with_mount(|mount| match pass.opens() {
                Opens::Anew => make_file(mount, self.work, name.as_str(), spec),
                _ => mount.open(self.work, name.as_str(), access),
            });
            files.push(file.map_err(|failure| self.failed("open", name.as_str(), &failure))?);
        }
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).extend(&files);
        Ok(files)
    }

    /// Who a client is, if it is not the one that mounted. The connections of the first client of
    /// each worker are further ones of the mount, unless its uid is another; every other client has
    /// a name, and in version 4 a state, of its own.
    fn identity_of(&self, mount: &Mount, client: u32, workers: u32) -> Option<Identity> {
        let own = &mount.options().identity;
        let uid = self.target.uid_of(client);
        (client >= workers || uid != own.uid).then(|| Identity {
            machine_name: format!("{}-{client}", own.machine_name),
            uid,
            ..own.clone()
        })
    }

    pub(super) fn census(&self) -> Result<Census, SiteError> {
        let count = |mount: &mut Mount| -> Result<Census, CallFailure> {
            let mut census = Census::default();
            for name in names(mount, self.work)? {
                let file = mount.lookup(self.work, &name)?;
                census.files += 1;
                census.bytes += mount.getattr(file)?.size;
            }
            Ok(census)
        };
        self.with_mount(count).map_err(|failure| self.failed("list", "", &failure))
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
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
            fact("rsize", size(mount.rsize()), "in force"),
            fact("wsize", size(mount.wsize()), "in force"),
            fact(
                "congestion control",
                mount.congestion_control().unwrap_or("none").to_owned(),
                "TCP_CONGESTION",
            ),
        ]
    }

    pub(super) fn caveats(&self, spec: &RunSpec) -> Vec<Caveat> {
        let mount = self.mount();
        let Some(asked) = spec.transfer_size_bytes else { return Vec::new() };
        if mount.rsize() == asked && mount.wsize() == asked {
            return Vec::new();
        }
        vec![CaveatCode::OptionNotInForce.because(format!(
            "transfer_size {} asked for, rsize {} and wsize {} in force (FSINFO)",
            Size(u64::from(asked)),
            Size(u64::from(mount.rsize())),
            Size(u64::from(mount.wsize())),
        ))]
    }

    pub(super) fn remove(self) -> Result<(), SiteError> {
        for file in self.opened.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A server that has forgotten the open has nothing to close.
            let _ = self.mount().close(file);
        }
        let remove = |mount: &mut Mount| -> Result<(), CallFailure> {
            for name in names(mount, self.work)? {
                mount.remove(self.work, &name)?;
            }
            let root = mount.root();
            mount.rmdir(root, &self.work_name)
        };
        let removed = self.with_mount(remove);
        let removed = removed.map_err(|failure| self.failed("remove", "", &failure));
        // A server that no longer answers MOUNT loses nothing by it.
        let _ = self.mount.into_inner().unwrap_or_else(PoisonError::into_inner).unmount();
        removed
    }

    /// Does something that may be done twice, and once more over a new connection where the old
    /// one was lost: servers close connections that were idle for a long pass.
    fn with_mount<T>(
        &self,
        mut job: impl FnMut(&mut Mount) -> Result<T, CallFailure>,
    ) -> Result<T, CallFailure> {
        let mut mount = self.mount();
        let first = job(&mut mount);
        if !first.as_ref().is_err_and(|failure| failure.answered().is_none()) {
            return first;
        }
        let Ok(fresh) = connect(mount.options()) else { return first };
        *mount = fresh;
        job(&mut mount)
    }

    fn mount(&self) -> MutexGuard<'_, Mount> {
        self.mount.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, what: &'static str, name: &str, failure: &CallFailure) -> SiteError {
        SiteError::Io {
            what,
            place: format!("{}/{}/{name}", self.shown, self.work_name),
            reason: failure.to_string(),
        }
    }
}

/// Makes the working directory; clients with other uids than the mount's work in it too.
fn make_directory(mount: &mut Mount, name: &str, spec: &RunSpec) -> Result<File, CallFailure> {
    let made = mount.mkdir(mount.root(), name)?;
    if spec.nfs().client_uids > 1 {
        mount.chmod(made, 0o777)?;
    }
    Ok(made)
}

/// Makes an empty file for everybody who works in the directory.
fn make_file(
    mount: &mut Mount,
    work: File,
    name: &str,
    spec: &RunSpec,
) -> Result<File, CallFailure> {
    let made = mount.create(work, name)?;
    if spec.nfs().client_uids > 1 {
        mount.chmod(made, 0o666)?;
    }
    Ok(made)
}

/// Puts the connections of a worker behind the contract of backends.
fn backend(
    mut connections: Vec<Connection>,
    per_connection: usize,
    set: NfsFiles,
    clock: &Arc<dyn Clock>,
) -> Result<Box<dyn Backend>, SiteError> {
    let clock = Arc::clone(clock);
    if connections.len() == 1 {
        let connection = connections.remove(0);
        return Ok(Box::new(Nfs::new(connection, set, clock)));
    }
    let many = Many::new(connections, per_connection, set, clock);
    Ok(Box::new(many.map_err(|error| SiteError::Nfs(format!("epoll: {error}")))?))
}

/// Ops that a worker has in flight: those that were asked for, and in a sequential pass as many
/// more as carry the transfers that are read ahead or written behind.
fn depth(spec: &RunSpec, pass: Pass, transfers_per_op: u32) -> u32 {
    let ahead = match pass {
        Pass::Read => spec.nfs().read_ahead,
        Pass::Write => spec.nfs().write_behind,
        _ => 0,
    };
    spec.queue_depth + ahead.div_ceil(transfers_per_op)
}

const fn stable_how(stable: Stable) -> StableHow {
    match stable {
        Stable::Unstable => StableHow::Unstable,
        Stable::DataSync => StableHow::DataSync,
        Stable::FileSync => StableHow::FileSync,
    }
}

/// Says in one line what the client says in two.
fn told(shown: &str, error: &MountError) -> SiteError {
    let text = error.to_string();
    SiteError::Nfs(match text.split_once("\n  hint: ") {
        Some((what, hint)) => format!("{shown}: {what} (hint: {hint})"),
        None => format!("{shown}: {text}"),
    })
}

/// Mounts; a congestion control that is only preferred and not allowed here is done without.
fn connect(options: &MountOptions) -> Result<Mount, MountError> {
    match Mount::connect(options) {
        Err(MountError::CongestionControl { .. }) => {
            Mount::connect(&MountOptions { congestion_control: None, ..options.clone() })
        }
        result => result,
    }
}

/// Lists what is in our directory; names that are no text are not ours.
fn names(mount: &mut Mount, directory: File) -> Result<Vec<String>, CallFailure> {
    let entries = mount.readdir(directory)?;
    let names = entries.into_iter().filter_map(|entry| String::from_utf8(entry.name).ok());
    Ok(names.filter(|name| name != "." && name != "..").collect())
}

fn not_writable(shown: &str, target: &NfsTarget, failure: &CallFailure) -> SiteError {
    SiteError::Nfs(format!(
        "can't create a directory in {shown} as uid {} and gid {}: {failure} \
         (hint: the export may squash this uid, as root_squash does, or be read-only; ask for \
         another ?uid=)",
        target.identity.uid, target.identity.gid
    ))
}
