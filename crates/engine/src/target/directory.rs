//! Working directories on local file systems: one, or one for each of several targets.
//!
//! Before anything is created, we check that the directories exist and have enough space. Files are
//! opened relative to the handles of the working directories ([`opening`]), never by path. What a
//! pass expects to find is written by [`filling`].

mod filling;
mod opening;
mod spread;

pub(super) use opening::sync_flags;
pub(super) use spread::empty_top;

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use model::units::Size;
use model::work::{is_mark, mark_of};
use model::{Fact, Io500Part, Pass, RunSpec, Workload};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use workload::names::Sort;
use workload::{DeveloperSet, FileSet, Name, Places, Trees};

use super::access::{TargetAccess, WorkerPass, is_removed_but_open};
use super::fixtures::Preparation;
use super::marked_directories::remove_directory;
use super::neighbor_search;
use super::neighbors::Neighbors;
use super::{Inventory, InventoryScope, OpenedBackend, TargetConfig, TargetError};
use crate::file_system::FileSystemType;
use crate::limits::PREPARE_IO;

/// Time for a kernel's NFS client to write back files that are being removed.
const WRITTEN_BACK_NS: u64 = 30_000_000_000;
/// Pause between attempts, in nanoseconds.
const TRY_AGAIN_NS: u64 = 100_000_000;

/// A working directory below each target.
pub(super) struct DirectoryAccess {
    works: Vec<Work>,
    places: Arc<Places>,
    /// Open files shared by all workers.
    shared: Mutex<Option<Arc<[OwnedFd]>>>,
}

/// One working directory.
struct Work {
    path: PathBuf,
    /// True if this agent created it. Otherwise, another agent did and will remove it.
    is_ours: bool,
    /// Handle of the open directory; `None` while it is released.
    held: Option<OwnedFd>,
}

impl DirectoryAccess {
    pub(super) fn create(
        targets: &[PathBuf],
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<Self, TargetError> {
        for target in targets {
            check_target(target)?;
            check_space(target, spec, targets.len())?;
        }
        opening::raise_descriptors();
        let works = Vec::with_capacity(targets.len());
        let places = Arc::new(Places::new(spec));
        let mut target = Self { works, places, shared: Mutex::default() };
        if let Err(error) = target.make_works(targets, spec.direct, config) {
            // Remove what was created. The original error is more useful than a failure to do so.
            let _ = target.remove_all(config);
            return Err(error);
        }
        Ok(target)
    }

    fn make_works(
        &mut self,
        targets: &[PathBuf],
        direct: bool,
        config: &TargetConfig,
    ) -> Result<(), TargetError> {
        for target in targets {
            self.works.push(Work::create(target, config)?);
        }
        if direct {
            for work in &self.works {
                if work.is_ours {
                    work.try_direct()?;
                }
            }
        }
        Ok(())
    }

    /// Returns the working directory for a number: files are distributed round-robin.
    fn work_of(&self, number: u32) -> &Work {
        &self.works[number as usize % self.works.len()]
    }

    /// Removes all working directories that we own, with their contents.
    ///
    /// If the kernel's NFS client is still writing a file back, removing the file only renames it
    /// (`.nfs...`), and it disappears later. So if a directory is unexpectedly not empty, we try
    /// again for a while.
    ///
    /// **Source:** fs/nfs/unlink.c of Linux (`nfs_sillyrename`).
    fn remove_all(&mut self, config: &TargetConfig) -> Result<(), TargetError> {
        self.close_handles();
        let end_ns = config.clock.now_ns() + WRITTEN_BACK_NS;
        let mut result = Ok(());
        for work in &self.works {
            // If one cannot be removed, continue with the others and report the first failure.
            if work.is_ours {
                result = result.and(work.remove_until(config, end_ns));
            }
        }
        result
    }
}

impl TargetAccess for DirectoryAccess {
    fn prepare(
        &self,
        todo: Preparation,
        set: &FileSet,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<(), TargetError> {
        // Files that were removed and created again are different files.
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if todo.wipe {
            self.wipe(&config.stop)?;
        }
        self.make_places(todo.make.trees, spec.workers, config)?;
        self.write_fixtures(todo.make, set, spec.workers, config)
    }

    fn open(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError> {
        self.open_backend(work)
    }

    fn part(
        &self,
        name: Name,
        spec: &RunSpec,
        _config: &TargetConfig,
    ) -> Result<Box<dyn TargetAccess>, TargetError> {
        let mut works = Vec::with_capacity(self.works.len());
        for work in &self.works {
            let path = work.path.join(name.as_str());
            match fs::create_dir(&path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(io_error("create", &path, &error));
                }
                _ => {}
            }
            let mut part = Work { path, is_ours: false, held: None };
            part.reopen()?;
            works.push(part);
        }
        let places = Arc::new(Places::new(spec));
        Ok(Box::new(Self { works, places, shared: Mutex::default() }))
    }

    fn inventory(&self, whose: InventoryScope) -> Result<Option<Inventory>, TargetError> {
        let mut inventory = Inventory::default();
        for Work { path, .. } in &self.works {
            count_entries(path, whose, &mut inventory)
                .map_err(|error| io_error("list", path, &error))?;
        }
        Ok(Some(inventory))
    }

    fn read_file(
        &self,
        sort: Sort,
        number: u32,
        _spec: &RunSpec,
        check: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), TargetError> {
        let path = self.path(sort, number);
        let failed = |error| io_error("read", &path, &error);
        let file = fs::File::open(&path).map_err(failed)?;
        let mut buffer = vec![0; PREPARE_IO as usize];
        let mut offset = 0;
        loop {
            let read = file.read_at(&mut buffer, offset).map_err(failed)?;
            if read == 0 {
                return Ok(());
            }
            check(offset, &buffer[..read]);
            offset += read as u64;
        }
    }

    fn made_directory(&self) -> bool {
        self.works.iter().any(|work| work.is_ours)
    }

    fn adopt_directory(&mut self) {
        for work in &mut self.works {
            work.is_ours = true;
        }
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = Vec::with_capacity(self.works.len());
        for work in &self.works {
            let path = work.target().display().to_string();
            facts.push(Fact::new("target", "path", path, "plan"));
        }
        facts
    }

    fn local_paths(&self) -> Vec<PathBuf> {
        self.works.iter().map(|work| work.path.clone()).collect()
    }

    fn show_life(&self, config: &TargetConfig) {
        for work in &self.works {
            neighbor_search::touch(&work.path.join(mark_of(&config.work_name)));
        }
    }

    fn neighbors(&self, config: &TargetConfig) -> Option<Neighbors> {
        let mut neighbors = Neighbors::default();
        for work in &self.works {
            neighbor_search::look_into(&mut neighbors, work.target(), &config.work_name).ok()?;
        }
        Some(neighbors)
    }

    fn close_handles(&mut self) {
        self.shared = Mutex::default();
        for work in &mut self.works {
            work.held = None;
        }
    }

    fn reopen_handles(&mut self) -> Result<(), TargetError> {
        for work in &mut self.works {
            work.reopen()?;
        }
        Ok(())
    }

    fn remove(mut self: Box<Self>, config: &TargetConfig) -> Result<(), TargetError> {
        self.remove_all(config)
    }
}

impl Work {
    fn create(target: &Path, config: &TargetConfig) -> Result<Self, TargetError> {
        let path = target.join(&config.work_name);
        let mut is_ours = true;
        if let Err(error) = spread::create_directory(target, &config.work_name) {
            match error.kind() {
                ErrorKind::AlreadyExists if config.joins => is_ours = false,
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    let reason = error.to_string();
                    return Err(TargetError::NotWritable { path: target.to_owned(), reason });
                }
                _ => return Err(io_error("create", &path, &error)),
            }
        }
        let mut work = Self { path, is_ours, held: None };
        work.reopen()?;
        if is_ours {
            let mark = work.path.join(mark_of(&config.work_name));
            fs::create_dir(&mark).map_err(|error| io_error("create", &mark, &error))?;
        }
        Ok(work)
    }

    /// Removes the directory. If it isn't empty, tries again until `end_ns`.
    fn remove_until(&self, config: &TargetConfig, end_ns: u64) -> Result<(), TargetError> {
        let clock = &*config.clock;
        loop {
            let Err(error) = remove_directory(&self.path, &config.stop) else { return Ok(()) };
            match error.kind() {
                // The agent that took over the directory was faster.
                ErrorKind::NotFound => return Ok(()),
                ErrorKind::DirectoryNotEmpty | ErrorKind::ResourceBusy
                    if clock.now_ns() < end_ns =>
                {
                    clock.sleep_until(clock.now_ns() + TRY_AGAIN_NS);
                }
                _ => return Err(io_error("remove", &self.path, &error)),
            }
        }
    }

    /// Opens the directory unless it is open.
    fn reopen(&mut self) -> Result<(), TargetError> {
        if self.held.is_none() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let handle = rustix::fs::open(&self.path, flags, Mode::empty())
                .map_err(|errno| io_error("open", &self.path, &errno.into()))?;
            neighbor_search::hold(&handle);
            self.held = Some(handle);
        }
        Ok(())
    }

    /// Returns the handle relative to which files are opened.
    fn handle(&self) -> Result<&OwnedFd, TargetError> {
        let Some(handle) = &self.held else {
            let error = std::io::Error::other("it has been released");
            return Err(io_error("open", &self.path, &error));
        };
        Ok(handle)
    }

    /// Creates a file with `O_DIRECT`, so that an unsupported file system is rejected immediately.
    /// An existing file belongs to someone else and is left alone.
    fn try_direct(&self) -> Result<(), TargetError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::DIRECT | OFlags::CLOEXEC;
        let name = Name::file(0);
        match rustix::fs::openat(self.handle()?, name.as_c_str(), flags, Mode::from_raw_mode(0o644))
        {
            Err(Errno::INVAL) => return Err(TargetError::NoDirect(self.target().to_owned())),
            // Other errors are reported when the file is really needed.
            Err(_) => return Ok(()),
            Ok(_) => {}
        }
        rustix::fs::unlinkat(self.handle()?, name.as_c_str(), AtFlags::empty())
            .map_err(|errno| io_error("remove the test file in", &self.path, &errno.into()))
    }

    fn target(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// Counts the entries in and below a directory.
fn count_entries(
    directory: &Path,
    whose: InventoryScope,
    inventory: &mut Inventory,
) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if is_mark(entry.file_name().as_bytes()) {
            continue;
        }
        let is_counted = whose.counts_name(entry.file_name().as_bytes());
        if entry.file_type()?.is_dir() {
            inventory.directories += u64::from(is_counted);
            count_entries(&entry.path(), whose, inventory)?;
            continue;
        }
        if !is_counted {
            continue;
        }
        // It may disappear at any moment, so don't query its attributes.
        if is_removed_but_open(entry.file_name().as_bytes()) {
            inventory.removed_but_open += 1;
            continue;
        }
        let found = entry.metadata()?;
        if found.is_symlink() {
            inventory.links += 1;
        } else {
            inventory.files += 1;
            inventory.bytes += found.len();
        }
    }
    Ok(())
}

fn check_target(target: &Path) -> Result<(), TargetError> {
    match fs::metadata(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(TargetError::Missing(target.to_owned()))
        }
        Err(error) => Err(io_error("inspect", target, &error)),
        Ok(found) if !found.is_dir() => Err(TargetError::NotADirectory(target.to_owned())),
        Ok(_) => Ok(()),
    }
}

/// Largest block that a small file is assumed to occupy, in bytes.
const BLOCK_BYTES_MAX: u64 = 64 << 10;

/// Block size that the file systems of NFS servers are assumed to have, in bytes.
const BLOCK_BYTES_OF_SERVERS: u64 = 4 << 10;

/// Checks that a target has enough space for its share of the files.
fn check_space(target: &Path, spec: &RunSpec, targets: usize) -> Result<(), TargetError> {
    // If the file system doesn't report its space, assume that there is enough.
    let Ok(found) = rustix::fs::statvfs(target) else { return Ok(()) };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    // NFS clients report their transfer size instead of the block size.
    let block = match FileSystemType::from_path(target) {
        FileSystemType::Nfs => BLOCK_BYTES_OF_SERVERS,
        _ => found.f_frsize.clamp(1, BLOCK_BYTES_MAX),
    };
    let needed = needed_bytes(spec, block, targets);
    // Some file systems (ramfs, some FUSE) report zero blocks, which doesn't mean that they are
    // full.
    if found.f_blocks > 0 && free < needed {
        return Err(TargetError::NoSpace {
            location: target.display().to_string(),
            needed: Size(needed).to_string(),
            free: Size(free).to_string(),
        });
    }
    Ok(())
}

/// Returns the space that a run needs on each of its targets.
fn needed_bytes(spec: &RunSpec, block: u64, targets: usize) -> u64 {
    if spec.workload == Workload::Io500 {
        // What is written until a time is up is not known beforehand.
        if spec.load.time_max_ms > 0 {
            return 0;
        }
        let parts = Io500Part::ALL.map(|part| needed_bytes(&spec.io500_part(part), block, targets));
        return parts.into_iter().fold(0, u64::saturating_add);
    }
    if spec.workload == Workload::Developer {
        let all = Trees::needed_by(Pass::RemoveTree);
        let (files, bytes) = DeveloperSet::new(spec).totals(all, |_| true);
        // Half a block of each file is unused on average.
        return bytes.saturating_add(files.saturating_mul(block / 2));
    }
    let whole_blocks = FileSet::new(spec).sum_sizes(|size| size.next_multiple_of(block));
    // Clones share their space with the original.
    let has_twins = spec.passes().iter().any(|pass| pass.fills_twins());
    let needed = whole_blocks / (targets as u64).max(1);
    needed.saturating_mul(1 + u64::from(has_twins))
}

pub(super) fn io_error(what: &'static str, path: &Path, error: &std::io::Error) -> TargetError {
    let mut reason = error.to_string();
    if matches!(Errno::from_io_error(error), Some(Errno::NFILE | Errno::MFILE)) {
        reason.push_str(" (hint: raise `ulimit -n`, or use fewer workers or files)");
    }
    TargetError::Io { what, location: path.display().to_string(), reason }
}
