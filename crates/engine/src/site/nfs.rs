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
use workload::{FileName, Pattern};

use super::{Census, Opened, SiteConfig, SiteError, interrupted};
use crate::backend::Backend;
use crate::backend::nfs::{Many, Nfs, NfsFiles};

/// A working directory below the mounted path.
pub(super) struct NfsSite {
    mount: Mutex<Mount>,
    work: File,
    work_name: String,
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
        let work = mount
            .mkdir(mount.root(), &work_name)
            .map_err(|failure| not_writable(&shown, target, &failure))?;
        let (mount, opened) = (Mutex::new(mount), Mutex::default());
        Ok(Self { mount, work, work_name, shown, timeout, opened })
    }

    /// Writes every file whole and commits it.
    pub(super) fn fill(&self, spec: &RunSpec, config: &SiteConfig) -> Result<(), SiteError> {
        let pattern: &Pattern = &config.pattern;
        let mut mount = self.mount();
        let step = mount.wsize();
        for number in 0..spec.files {
            let name = FileName::new(number);
            let failed = |failure| self.failed("prepare", name.as_str(), &failure);
            let file = mount.create(self.work, name.as_str()).map_err(failed)?;
            for offset in (0..spec.file_size_bytes).step_by(step as usize) {
                interrupted(config)?;
                let len = u64::from(step).min(spec.file_size_bytes - offset) as u32;
                let data = pattern.slice(number, offset, len);
                mount.write(file, offset, data, StableHow::Unstable).map_err(failed)?;
            }
            mount.commit(file).map_err(failed)?;
            mount.close(file).map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn open(
        &self,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        config: &SiteConfig,
    ) -> Result<Opened, SiteError> {
        let (first, stride) = if pass == Pass::Mix { (0, 1) } else { (worker, spec.workers) };
        let by_name = pass.opens() == Opens::Nothing;
        let numbers = if by_name { 0..0 } else { first..spec.files };
        let mut files = Vec::with_capacity(numbers.len());
        for number in numbers.step_by(stride as usize) {
            interrupted(config)?;
            let name = FileName::new(number);
            let access =
                if pass.opens() == Opens::ToRead { OpenAccess::Read } else { OpenAccess::Both };
            let file = self.with_mount(|mount| match pass.opens() {
                Opens::Anew => mount.create(self.work, name.as_str()),
                _ => mount.open(self.work, name.as_str(), access),
            });
            files.push(file.map_err(|failure| self.failed("open", name.as_str(), &failure))?);
        }
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).extend(&files);
        let mount = self.mount();
        let (rsize, wsize) = (mount.rsize(), mount.wsize());
        let largest = if by_name { spec.file_size_bytes } else { u64::from(spec.io_size_bytes) };
        let per_op = largest.div_ceil(u64::from(rsize.min(wsize))).max(1) as usize;
        let queue_depth = depth(spec, pass, per_op as u32) as usize;
        let nconnect = spec.nfs().nconnect as usize;
        let per_connection = queue_depth.div_ceil(nconnect);
        let options = ConnectionOptions {
            slots: (per_op * per_connection).min(SLOTS_MAX),
            write_pool: config.pattern.pool(),
            keep_payload: spec.verify.then_some(rsize.min(spec.io_size_bytes)),
            ..ConnectionOptions::default()
        };
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
        };
        let clock = Arc::clone(&config.clock);
        let mut connections = Vec::new();
        for client in (worker..spec.clients()).step_by(spec.workers as usize) {
            interrupted(config)?;
            for _ in 0..nconnect {
                connections.push(self.connect(&mount, &options, client, spec.workers)?);
            }
        }
        let queue_depth = per_connection * connections.len();
        let backend: Box<dyn Backend> = if connections.len() == 1 {
            let connection = connections.remove(0);
            Box::new(Nfs::new(connection, set, clock))
        } else {
            let many = Many::new(connections, (per_connection, nconnect), set, clock);
            Box::new(many.map_err(|error| SiteError::Nfs(format!("epoll: {error}")))?)
        };
        Ok(Opened { backend, caveats: Vec::new(), kernel_counts: false, queue_depth })
    }

    /// Opens a connection of a client. Those of the first client of each worker are further
    /// connections of the mount; every other client has a name, and in version 4 a state, of its
    /// own.
    fn connect(
        &self,
        mount: &Mount,
        options: &ConnectionOptions,
        client: u32,
        workers: u32,
    ) -> Result<Connection, SiteError> {
        let identity = (client >= workers).then(|| {
            let own = &mount.options().identity;
            let machine_name = format!("{}-{client}", own.machine_name);
            Identity { machine_name, ..own.clone() }
        });
        let options = ConnectionOptions { identity, ..options.clone() };
        Connection::open(mount, &options).map_err(|error| told(&self.shown, &error))
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
