//! Opens the files for a worker's pass and creates its backend.
//!
//! A file must contain everything that will be read from it. Files that are too short or have holes
//! are rejected, because reading data that was never written measures nothing.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};

use model::work::mark_of;
use model::{BackendKind, Caveat, CaveatCode, Durability, Fill, Opens, Pass, RunSpec, Workload};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use workload::names::Sort;
use workload::{FileSet, Name};

use super::super::access::WorkerPass;
use super::super::{
    OpenedBackend, TargetConfig, TargetError, opened_files, opens_before, sparse_layout,
};
use super::{DirectoryAccess, io_error};
use crate::backend::files::{Files, Handles};
use crate::backend::find::{FIND_AGE_MAX_S, FindRule};
use crate::backend::mapping::Mapping;
use crate::backend::posix::Posix;
use crate::backend::posix::listing::Lister;
use crate::backend::uring::{Uring, calls_instead};

/// Workloads whose files are synced one by one, since they are opened by name.
const SYNCED_BY_NAME: [Workload; 3] = [Workload::Transactions, Workload::Media, Workload::KvCache];

/// Raises the limit on open files to the maximum for this process, since a pass opens all its
/// files.
pub(super) fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // If it fails, opening a file will report the problem.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

impl DirectoryAccess {
    pub(super) fn open_backend(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError> {
        let WorkerPass { spec, pass, config, .. } = work;
        let clock = Arc::clone(&config.clock);
        let queue_depth = spec.queue_depth as usize;
        let mut set = self.open_files(work)?;
        if pass.lists() {
            let rules = self.find_rules(spec, config)?;
            let lister = Lister::new(set, pass.kinds()[0], rules, clock);
            let mut backend = OpenedBackend::without_caveats(spec.queue_depth, Box::new(lister));
            if spec.backend == BackendKind::Uring {
                backend.caveats.extend(calls_instead(pass));
            } else {
                backend.caveats.extend(check_queue_depth(spec.queue_depth));
            }
            return Ok(backend);
        }
        // The kernel attributes I/O by system calls to the thread that makes them, but not that of
        // a ring or of page faults.
        let kernel_counts = set.maps.is_empty();
        let mut caveats = Vec::new();
        if spec.backend == BackendKind::Uring {
            match Uring::new(set, clock.clone()) {
                Ok(uring) => {
                    caveats.extend(calls_instead(pass));
                    let backend = Box::new(uring);
                    return Ok(OpenedBackend {
                        backend,
                        caveats,
                        kernel_counts: false,
                        queue_depth,
                    });
                }
                Err(error) => {
                    let reason = format!("io_uring_setup: {error}; posix calls were used instead");
                    caveats.push(CaveatCode::BackendFallback.because(reason));
                    // The ring has consumed the set, so open the files again.
                    set = self.open_files(work)?;
                }
            }
        } else {
            caveats.extend(check_queue_depth(spec.queue_depth));
        }
        let backend = Box::new(Posix::new(set, clock));
        Ok(OpenedBackend { backend, caveats, kernel_counts, queue_depth })
    }

    /// Returns what a find looks for below each of the working directories.
    fn find_rules(
        &self,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<Vec<FindRule>, TargetError> {
        let sizes = FileSet::found_sizes(spec);
        let mut rules = Vec::with_capacity(self.works.len());
        for work in &self.works {
            let mark = mark_of(&config.work_name);
            let found = rustix::fs::statat(work.handle()?, &*mark, AtFlags::SYMLINK_NOFOLLOW);
            let found = found
                .map_err(|errno| io_error("examine", &work.path.join(&mark), &errno.into()))?;
            rules.push(FindRule {
                size_min_bytes: *sizes.start(),
                size_max_bytes: *sizes.end(),
                after_s: found.st_mtime - FIND_AGE_MAX_S,
            });
        }
        Ok(rules)
    }

    fn open_files(&self, work: WorkerPass<'_>) -> Result<Files, TargetError> {
        let WorkerPass { spec, pass, files_of, config, .. } = work;
        let (first, stride) = opened_files(spec, pass, files_of);
        let set = FileSet::new(spec);
        let numbers =
            if opens_before(spec, pass) == Opens::Nothing { 0..0 } else { first..set.files() };
        let numbers = numbers.step_by(stride as usize);
        let sizes: Vec<u64> = numbers.clone().map(|number| set.size(number).unwrap_or(0)).collect();
        let mut twins = Vec::new();
        if pass.opens() == Opens::Twins {
            let flags = truncating_flags(spec);
            for number in numbers.clone() {
                twins.push(self.open_file(Sort::Twin, number, flags)?);
            }
        }
        let files = if matches!(pass, Pass::OpMix | Pass::Train) {
            Handles::Shared(self.open_shared(spec, &set, pass, numbers)?)
        } else {
            Handles::Own(self.open_each(spec, &set, pass, numbers)?)
        };
        let is_mapped = spec.layout.mmap && spec.backend == BackendKind::Posix;
        let maps = if is_mapped { self.map_files(&sizes, pass, &files)? } else { Vec::new() };
        let mut roots = Vec::with_capacity(self.works.len());
        for work in &self.works {
            match work.handle()?.try_clone() {
                Ok(root) => roots.push(root),
                Err(error) => return Err(io_error("open", &work.path, &error)),
            }
        }
        Ok(Files {
            roots,
            places: Arc::clone(&self.places),
            files,
            twins: Handles::Own(twins),
            maps,
            stride,
            pattern: config.pattern.in_pass(spec, pass),
            verify: spec.verify,
            mismatches: Cell::default(),
            sparse: sparse_layout(spec),
            ranges: Cell::default(),
            direct: spec.direct,
            durable: sync_flags(spec.durability),
            sync_each: spec.durability == Durability::Sync
                && SYNCED_BY_NAME.contains(&spec.workload),
            syncs_log: spec.durability == Durability::Sync,
            io_size_bytes: spec.largest_op_bytes() as usize,
            queue_depth: spec.queue_depth as usize,
        })
    }

    /// Opens the files shared by all workers. The first worker does it while holding the lock.
    fn open_shared(
        &self,
        spec: &RunSpec,
        set: &FileSet,
        pass: Pass,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<Arc<[OwnedFd]>, TargetError> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = &*shared {
            return Ok(Arc::clone(files));
        }
        let files: Arc<[OwnedFd]> = self.open_each(spec, set, pass, numbers)?.into();
        Ok(Arc::clone(shared.insert(files)))
    }

    fn open_each(
        &self,
        spec: &RunSpec,
        set: &FileSet,
        pass: Pass,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<Vec<OwnedFd>, TargetError> {
        let mut flags = match pass.opens() {
            // A mapping for writing must also be readable.
            Opens::Truncated if spec.layout.mmap => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
            Opens::Truncated => OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC,
            Opens::ToRead | Opens::Twins => OFlags::RDONLY,
            Opens::Both => OFlags::RDWR,
            Opens::Nothing => OFlags::empty(),
        };
        flags.set(OFlags::DIRECT, spec.direct);
        if pass.writes() && pass.opens() != Opens::Twins {
            flags |= sync_flags(spec.durability);
        }
        let mut files = Vec::with_capacity(numbers.size_hint().0);
        for number in numbers {
            let wanted = set.size(number).unwrap_or(0);
            let flags = flags | OFlags::CLOEXEC;
            files.push(self.open_one(spec.data.fill, wanted, pass, number, flags)?);
        }
        Ok(files)
    }

    fn open_one(
        &self,
        fill: Fill,
        wanted: u64,
        pass: Pass,
        number: u32,
        flags: OFlags,
    ) -> Result<OwnedFd, TargetError> {
        let file = self.open_file(Sort::File, number, flags)?;
        if pass.reads() && !pass.needs_holes() {
            let failed =
                |errno: Errno| io_error("open", &self.path(Sort::File, number), &errno.into());
            let written = written_bytes(&file, fill).map_err(failed)?;
            if written < wanted {
                let location = self.path(Sort::File, number).display().to_string();
                return Err(TargetError::unwritten(location, written, wanted));
            }
        }
        Ok(file)
    }

    /// Opens or creates a file by its number.
    fn open_file(&self, sort: Sort, number: u32, flags: OFlags) -> Result<OwnedFd, TargetError> {
        let path = self.places.path(self.places.of_number(number), Name::new(sort, number));
        let work = self.work_of(number);
        let mode = Mode::from_raw_mode(0o644);
        rustix::fs::openat(work.handle()?, path.as_c_str(), flags, mode)
            .map_err(|errno| io_error("open", &self.path(sort, number), &errno.into()))
    }

    /// Maps files into memory.
    fn map_files(
        &self,
        sizes: &[u64],
        pass: Pass,
        files: &[OwnedFd],
    ) -> Result<Vec<Mapping>, TargetError> {
        let mut maps = Vec::with_capacity(files.len());
        for (file, bytes) in files.iter().zip(sizes) {
            match map_file(file, *bytes, pass) {
                Ok(map) => maps.push(map),
                Err(errno) => {
                    return Err(io_error("map a file in", &self.works[0].path, &errno.into()));
                }
            }
        }
        Ok(maps)
    }
}

/// Maps a file. If it will be written, its size and space are set first, because storing to a page
/// without space would kill the process.
fn map_file(file: &OwnedFd, bytes: u64, pass: Pass) -> Result<Mapping, Errno> {
    if pass.opens() == Opens::Truncated {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(file, bytes)?,
            reserved => reserved?,
        }
    }
    match pass.opens() {
        Opens::ToRead => Mapping::read_only(file, bytes as usize),
        _ => Mapping::writable(file, bytes as usize),
    }
}

/// Returns the number of bytes from the start of a file that were written, up to its first hole. A
/// file system may store zeros as a hole, so for zeros the file's size is used.
fn written_bytes(file: &OwnedFd, fill: Fill) -> Result<u64, Errno> {
    let size = rustix::fs::fstat(file)?.st_size.cast_unsigned();
    if fill == Fill::Zeros || size == 0 {
        return Ok(size);
    }
    match rustix::fs::seek(file, SeekFrom::Hole(0)) {
        Ok(hole) => Ok(hole),
        // File systems without holes have written everything.
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NXIO) => Ok(size),
        Err(errno) => Err(errno),
    }
}

/// Returns the flags that create or truncate a file whose ranges are then written.
fn truncating_flags(spec: &RunSpec) -> OFlags {
    let mut flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, spec.direct);
    flags | sync_flags(spec.durability)
}

pub(in super::super) const fn sync_flags(durability: Durability) -> OFlags {
    match durability {
        Durability::Dsync => OFlags::DSYNC,
        Durability::Osync => OFlags::SYNC,
        Durability::None | Durability::Close | Durability::Sync => OFlags::empty(),
    }
}

fn check_queue_depth(queue_depth: u32) -> Option<Caveat> {
    if queue_depth <= 1 {
        return None;
    }
    Some(CaveatCode::OptionNotEffective.because(format!(
        "queue_depth {queue_depth} requested, 1 effective: posix calls are synchronous"
    )))
}
