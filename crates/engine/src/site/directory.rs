//! A working directory on a file system of this host.
//!
//! Checks come before anything is made: the directory must be there and have room for the set.
//! Files are opened relative to the working directory's handle, never again by path.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use model::units::Size;
use model::{BackendKind, CaveatCode, Fact, Opens, Pass, RunSpec};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use workload::Name;

use super::{Census, Opened, SiteConfig, SiteError, interrupted};
use crate::backend::posix::{Files, Posix};
use crate::backend::uring::Uring;
use crate::limits::PREPARE_IO;

/// A working directory below the target.
pub(super) struct DirectorySite {
    work: PathBuf,
    handle: OwnedFd,
}

impl DirectorySite {
    pub(super) fn create(
        target: &Path,
        work_name: &str,
        spec: &RunSpec,
    ) -> Result<Self, SiteError> {
        match fs::metadata(target) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(SiteError::Missing(target.to_owned()));
            }
            Err(error) => return Err(io("look at", target, &error)),
            Ok(found) if !found.is_dir() => {
                return Err(SiteError::NotADirectory(target.to_owned()));
            }
            Ok(_) => {}
        }
        check_space(target, spec)?;
        let work = target.join(work_name);
        fs::create_dir(&work).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                SiteError::NotWritable { path: target.to_owned(), reason: error.to_string() }
            }
            _ => io("create", &work, &error),
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&work, flags, Mode::empty())
            .map_err(|errno| io("open", &work, &errno.into()))?;
        let site = Self { work, handle };
        if spec.direct
            && let Err(error) = site.try_direct()
        {
            // What was made above goes with the refusal.
            site.remove()?;
            return Err(error);
        }
        Ok(site)
    }

    /// Opens a file with `O_DIRECT`, so that a file system without it is refused at once.
    fn try_direct(&self) -> Result<(), SiteError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::DIRECT | OFlags::CLOEXEC;
        let name = Name::file(0);
        match rustix::fs::openat(&self.handle, name.as_c_str(), flags, Mode::from_raw_mode(0o644)) {
            Err(Errno::INVAL) => return Err(SiteError::NoDirect(self.target().to_owned())),
            // Other refusals are told where the file is really needed.
            Err(_) => return Ok(()),
            Ok(_) => {}
        }
        rustix::fs::unlinkat(&self.handle, name.as_c_str(), AtFlags::empty())
            .map_err(|errno| io("remove the trial file in", &self.work, &errno.into()))
    }

    fn target(&self) -> &Path {
        self.work.parent().unwrap_or(&self.work)
    }

    /// Writes every file whole and waits until it is on storage.
    pub(super) fn fill(&self, spec: &RunSpec, config: &SiteConfig) -> Result<(), SiteError> {
        let pattern = &config.pattern;
        let step = u64::from(PREPARE_IO.min(spec.io_size_bytes.max(4096)));
        for number in 0..spec.files {
            let path = self.work.join(Name::file(number).as_str());
            interrupted(config)?;
            let write = || -> std::io::Result<()> {
                let file = File::create(&path)?;
                for offset in (0..spec.file_size_bytes).step_by(step as usize) {
                    if config.stop.load(Relaxed) {
                        return Ok(());
                    }
                    let len = step.min(spec.file_size_bytes - offset) as u32;
                    file.write_all_at(pattern.slice(number, offset, len), offset)?;
                }
                file.sync_all()
            };
            write().map_err(|error| io("prepare", &path, &error))?;
        }
        interrupted(config)
    }

    pub(super) fn open(
        &self,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        config: &SiteConfig,
    ) -> Result<Opened, SiteError> {
        let clock = Arc::clone(&config.clock);
        let queue_depth = spec.queue_depth as usize;
        let set = self.open_files(spec, pass, worker, config)?;
        if spec.backend == BackendKind::Uring {
            match Uring::new(set, clock.clone()) {
                Ok(uring) => {
                    return Ok(Opened {
                        backend: Box::new(uring),
                        caveats: Vec::new(),
                        kernel_counts: false,
                        queue_depth,
                    });
                }
                Err(error) => {
                    let set = self.open_files(spec, pass, worker, config)?;
                    let reason = format!("io_uring_setup: {error}; posix did the work");
                    return Ok(Opened {
                        backend: Box::new(Posix::new(set, clock)),
                        caveats: vec![CaveatCode::BackendFallback.because(reason)],
                        kernel_counts: true,
                        queue_depth,
                    });
                }
            }
        }
        let mut caveats = Vec::new();
        if spec.queue_depth > 1 {
            let evidence = format!(
                "queue_depth {} asked for, 1 in force: posix calls are synchronous",
                spec.queue_depth
            );
            caveats.push(CaveatCode::OptionNotInForce.because(evidence));
        }
        let backend = Box::new(Posix::new(set, clock));
        Ok(Opened { backend, caveats, kernel_counts: true, queue_depth })
    }

    fn open_files(
        &self,
        spec: &RunSpec,
        pass: Pass,
        worker: u32,
        config: &SiteConfig,
    ) -> Result<Files, SiteError> {
        let access = match pass.opens() {
            Opens::Anew => OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC,
            Opens::ToRead => OFlags::RDONLY,
            Opens::Both => OFlags::RDWR,
            Opens::Nothing => OFlags::empty(),
        };
        // A sequential pass gives each worker every `workers`-th file, a mix the whole set.
        let (first, stride) = if pass == Pass::Mix { (0, 1) } else { (worker, spec.workers) };
        let by_name = pass.opens() == Opens::Nothing;
        let numbers = if by_name { 0..0 } else { first..spec.files };
        let direct = if spec.direct { OFlags::DIRECT } else { OFlags::empty() };
        let open = |number: u32| {
            let name = Name::file(number);
            let flags = access | direct | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o644);
            rustix::fs::openat(&self.handle, name.as_c_str(), flags, mode)
                .map_err(|errno| io("open", &self.work.join(name.as_str()), &errno.into()))
        };
        let largest = if by_name { spec.file_size_bytes } else { u64::from(spec.io_size_bytes) };
        Ok(Files {
            directory: self.handle.try_clone().map_err(|e| io("open", &self.work, &e))?,
            files: numbers.step_by(stride as usize).map(open).collect::<Result<_, _>>()?,
            stride,
            pattern: config.pattern.clone(),
            verify: spec.verify,
            direct: spec.direct,
            io_size_bytes: largest as usize,
            queue_depth: spec.queue_depth as usize,
        })
    }

    pub(super) fn census(&self) -> Result<Census, SiteError> {
        let count = || -> std::io::Result<Census> {
            let mut census = Census::default();
            for entry in fs::read_dir(&self.work)? {
                census.files += 1;
                census.bytes += entry?.metadata()?.len();
            }
            Ok(census)
        };
        count().map_err(|error| io("list", &self.work, &error))
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        vec![Fact::new("target", "path", self.target().display().to_string(), "plan")]
    }

    pub(super) fn work_path(&self) -> PathBuf {
        self.work.clone()
    }

    pub(super) fn remove(self) -> Result<(), SiteError> {
        fs::remove_dir_all(&self.work).map_err(|error| io("remove", &self.work, &error))
    }
}

fn check_space(target: &Path, spec: &RunSpec) -> Result<(), SiteError> {
    let Ok(found) = rustix::fs::statvfs(target) else { return Ok(()) };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let whole_blocks = spec.file_size_bytes.next_multiple_of(found.f_frsize.max(1));
    let needed = whole_blocks.saturating_mul(u64::from(spec.files));
    // Some file systems (ramfs, some FUSE) count no blocks at all; that is not "full".
    if found.f_blocks > 0 && free < needed {
        return Err(SiteError::NoSpace {
            place: target.display().to_string(),
            needed: Size(needed).to_string(),
            free: Size(free).to_string(),
        });
    }
    Ok(())
}

fn io(what: &'static str, place: &Path, error: &std::io::Error) -> SiteError {
    SiteError::Io { what, place: place.display().to_string(), reason: error.to_string() }
}
