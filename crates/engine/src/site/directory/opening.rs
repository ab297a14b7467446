//! Opens the files of a worker's pass and puts a backend on them.
//!
//! A file that is to be read must hold all that will be asked for: one that is too short, or has
//! holes, is refused, since reading what was never written measures nothing.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};

use model::units::Size;
use model::{BackendKind, Caveat, CaveatCode, Durability, Fill, Opens, Pass, RunSpec, Workload};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use workload::FileSet;
use workload::names::Sort;

use super::super::{Opened, SiteConfig, SiteError, largest_op, opened_files};
use super::{DirectorySite, io_error};
use crate::backend::files::{Files, Handles};
use crate::backend::mapping::Mapping;
use crate::backend::posix::Posix;
use crate::backend::uring::{Uring, calls_instead};

/// Allows as many open files as the system lets this process have; a pass opens all its files.
pub(super) fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // A refusal is told where a file can't be opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

impl DirectorySite {
    pub(super) fn open_backend(
        &self,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        config: &SiteConfig,
    ) -> Result<Opened, SiteError> {
        let clock = Arc::clone(&config.clock);
        let queue_depth = spec.queue_depth as usize;
        let set = self.open_files(spec, pass, worker, config)?;
        let kernel_counts = set.maps.is_empty();
        if spec.backend == BackendKind::Uring {
            match Uring::new(set, clock.clone()) {
                Ok(uring) => {
                    let caveats = calls_instead(pass).into_iter().collect();
                    let backend = Box::new(uring);
                    return Ok(Opened { backend, caveats, kernel_counts: false, queue_depth });
                }
                Err(error) => {
                    let set = self.open_files(spec, pass, worker, config)?;
                    let reason = format!("io_uring_setup: {error}; posix did the work");
                    let caveats = vec![CaveatCode::BackendFallback.because(reason)];
                    let backend = Box::new(Posix::new(set, clock));
                    return Ok(Opened { backend, caveats, kernel_counts, queue_depth });
                }
            }
        }
        let caveats = one_at_a_time(spec.queue_depth).into_iter().collect();
        let backend = Box::new(Posix::new(set, clock));
        Ok(Opened { backend, caveats, kernel_counts, queue_depth })
    }

    fn open_files(
        &self,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        config: &SiteConfig,
    ) -> Result<Files, SiteError> {
        let (first, stride) = opened_files(spec, pass, worker);
        let set = FileSet::of(spec, config.seed);
        let numbers = if pass.opens() == Opens::Nothing { 0..0 } else { first..set.files() };
        let numbers = numbers.step_by(stride as usize);
        let files = if pass == Pass::OpMix {
            Handles::Shared(self.open_shared(spec, &set, pass, numbers)?)
        } else {
            Handles::Own(self.open_each(spec, &set, pass, numbers)?)
        };
        let is_mapped = spec.layout.mmap && spec.backend == BackendKind::Posix;
        let maps =
            if is_mapped { self.map(spec.file_size_bytes, pass, &files)? } else { Vec::new() };
        let root = |work: &super::Work| {
            work.handle()?.try_clone().map_err(|error| io_error("open", &work.path, &error))
        };
        Ok(Files {
            roots: self.works.iter().map(root).collect::<Result<_, _>>()?,
            places: Arc::clone(&self.places),
            files,
            maps,
            stride,
            pattern: config.pattern.in_pass(spec, pass),
            verify: spec.verify,
            mismatches: Cell::default(),
            direct: spec.direct,
            durable: durable(spec.durability),
            sync_each: spec.durability == Durability::Sync
                && spec.workload == Workload::Transactions,
            io_size_bytes: largest_op(spec) as usize,
            queue_depth: spec.queue_depth as usize,
        })
    }

    /// Opens files for all workers together; whoever comes first does it.
    fn open_shared(
        &self,
        spec: &RunSpec,
        set: &FileSet,
        pass: Pass,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<Arc<[OwnedFd]>, SiteError> {
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
    ) -> Result<Vec<OwnedFd>, SiteError> {
        let mut flags = match pass.opens() {
            // A mapping that is written to is one that can be read.
            Opens::Anew if spec.layout.mmap => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
            Opens::Anew => OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC,
            Opens::ToRead => OFlags::RDONLY,
            Opens::Both => OFlags::RDWR,
            Opens::Nothing => OFlags::empty(),
        };
        flags.set(OFlags::DIRECT, spec.direct);
        if pass.writes() {
            flags |= durable(spec.durability);
        }
        let open = |number| {
            let wanted = set.size(number).unwrap_or(0);
            self.open_one(spec.data.fill, wanted, pass, number, flags | OFlags::CLOEXEC)
        };
        numbers.map(open).collect()
    }

    fn open_one(
        &self,
        fill: Fill,
        wanted: u64,
        pass: Pass,
        number: u32,
        flags: OFlags,
    ) -> Result<OwnedFd, SiteError> {
        let failed = |errno: Errno| io_error("open", &self.path(Sort::File, number), &errno.into());
        let place = self.places.of_number(number);
        let path = self.places.path(place, workload::Name::file(number));
        let (work, mode) = (self.work_of(number), Mode::from_raw_mode(0o644));
        let file = rustix::fs::openat(work.handle()?, path.as_c_str(), flags, mode);
        let file = file.map_err(failed)?;
        if pass.reads() {
            let written = written_bytes(&file, fill).map_err(failed)?;
            if written < wanted {
                return Err(SiteError::Unwritten {
                    place: self.path(Sort::File, number).display().to_string(),
                    written: Size(written).to_string(),
                    wanted: Size(wanted).to_string(),
                });
            }
        }
        Ok(file)
    }

    /// Maps files; those that are written anew get their size and their space first.
    fn map(&self, bytes: u64, pass: Pass, files: &[OwnedFd]) -> Result<Vec<Mapping>, SiteError> {
        let map = |file: &OwnedFd| -> Result<Mapping, Errno> {
            if pass.opens() == Opens::Anew {
                match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(file, bytes)?,
                    reserved => reserved?,
                }
            }
            match pass.opens() {
                Opens::ToRead => Mapping::read_only(file, bytes as usize),
                _ => Mapping::writable(file, bytes as usize),
            }
        };
        let place = &self.works[0].path;
        let map = |file| map(file).map_err(|errno| io_error("map a file in", place, &errno.into()));
        files.iter().map(map).collect()
    }
}

/// Bytes from the start of a file on that somebody has written: up to its first hole. Where zeros
/// are written a file system may keep them as a hole, and the size has to do.
fn written_bytes(file: &OwnedFd, fill: Fill) -> Result<u64, Errno> {
    let size = rustix::fs::fstat(file)?.st_size.cast_unsigned();
    if fill == Fill::Zeros || size == 0 {
        return Ok(size);
    }
    match rustix::fs::seek(file, SeekFrom::Hole(0)) {
        Ok(hole) => Ok(hole),
        // Whoever knows no holes has none to tell.
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NXIO) => Ok(size),
        Err(errno) => Err(errno),
    }
}

const fn durable(durability: Durability) -> OFlags {
    match durability {
        Durability::Dsync => OFlags::DSYNC,
        Durability::Osync => OFlags::SYNC,
        Durability::None | Durability::Close | Durability::Sync => OFlags::empty(),
    }
}

fn one_at_a_time(queue_depth: u32) -> Option<Caveat> {
    (queue_depth > 1).then(|| {
        CaveatCode::OptionNotInForce.because(format!(
            "queue_depth {queue_depth} asked for, 1 in force: posix calls are synchronous"
        ))
    })
}
