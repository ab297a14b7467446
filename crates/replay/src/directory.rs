//! Replays on a local directory, which may be a mounted file system.
//!
//! [`DirectoryReplayer`] builds the tree, replays with system calls, and removes the tree. Files
//! are found by path and stay open once their data has been accessed. Nothing outside of the
//! directory it created is touched: names in a trace that would lead out of it are rejected.

mod call;
mod driver;
mod places;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;

use engine::target::marked_directories::remove_directory;
use engine::{Clock, Stop};
use model::work::{is_replay_directory, mark_of};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::{fs, io};

use crate::action::{Action, DIRECTORY, SYMLINK};
use crate::lanes::Pace;
use crate::operation::{LINK_TARGET, write_pool};
use crate::outcome::{PlannedValues, Record, Wire};
use crate::plan::{InitialObject, ReplayPlan};
use crate::prepare::Fill;
use crate::recorder::Recorder;
use crate::replayer::{ReplayError, ReplaySettings, TREE};
use crate::step::Batch;
use crate::target_kind::TargetKind;
use crate::tree::DirectoryEntry;
use call::{Caller, Job, XATTR_VALUE_BYTES, open_directory};
use driver::{Driver, IdleWorker, Opens, serve};
use places::{PathText, Places, is_plain};

/// Maximum size of a READ or WRITE in bytes, which is the maximum of Linux's client.
pub const TRANSFER_BYTES: u32 = 4 << 20;
/// Maximum size of a page of directory entries, in bytes.
const PAGE_BYTES: u32 = 1 << 20;
/// Number of threads for system calls: four times as many as calls were in flight, within these
/// limits.
const THREADS: std::ops::RangeInclusive<usize> = 8..=256;
/// File descriptors reserved for everything except opens of the trace.
const SPARE_DESCRIPTORS: usize = 64;
/// Stack size of a thread.
const STACK_BYTES: usize = 256 << 10;

/// Replays a plan on a directory.
pub struct DirectoryReplayer<'a> {
    path: PathBuf,
    root: OwnedFd,
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
}

/// A tree that was built.
#[derive(Debug)]
pub struct DirectoryTree {
    top: OwnedFd,
    places: Places,
    /// Text of each name, including those of objects at the top.
    names: Vec<String>,
}

impl<'a> DirectoryReplayer<'a> {
    /// Opens the directory.
    ///
    /// # Errors
    /// [`ReplayError::File`] if it isn't a directory.
    pub fn open(
        path: &Path,
        clock: &'a dyn Clock,
        stop: &'a AtomicBool,
    ) -> Result<Self, ReplayError> {
        let root =
            open_directory(path).map_err(|reason| ReplayError::file("open", path, reason))?;
        Ok(Self { path: path.to_owned(), root, clock, stop })
    }

    /// Builds the tree that a plan requires. Existing objects of the right size are used as they
    /// are.
    ///
    /// # Errors
    /// [`ReplayError::File`] with the first object that failed.
    pub fn prepare(
        &self,
        plan: &ReplayPlan,
        settings: &ReplaySettings,
    ) -> Result<DirectoryTree, ReplayError> {
        let mut below = PathBuf::from(&settings.directory);
        self.make_directory(&below)?;
        if is_replay_directory(&settings.directory) {
            self.make_directory(&below.join(mark_of(&settings.directory)))?;
            below.push(TREE);
            self.make_directory(&below)?;
        }
        let path = self.path.join(below);
        let top =
            open_directory(&path).map_err(|reason| ReplayError::file("open", &path, reason))?;
        let mut places = Places::new(plan.objects);
        let mut names = plan.names.clone();
        let pool = if settings.fill == Fill::Data { write_pool(FILL_BYTES) } else { Vec::new() };
        let mut text = PathText::new();
        for initial in &plan.initial {
            if self.stop.load(Relaxed) {
                break;
            }
            let place = place_of(initial, plan.objects, &mut names);
            let name = names.get(place.name as usize).map(String::as_str);
            let written = places.write_path(&mut text, place.dir, name, &names);
            let made = match written {
                Some(()) => make_object(&top, &text, initial, &pool),
                None => Err(Errno::NAMETOOLONG),
            };
            made.map_err(|reason| {
                let below = text.as_c_str().to_string_lossy();
                ReplayError::file("create", &path.join(&*below), reason)
            })?;
            places.bind(place, initial.object);
        }
        self.make_links(plan, &top, &mut places, &names)?;
        Ok(DirectoryTree { top, places, names })
    }

    fn make_directory(&self, below: &Path) -> Result<(), ReplayError> {
        match fs::mkdirat(&self.root, below, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(reason) => Err(ReplayError::file("create", &self.path.join(below), reason)),
        }
    }

    fn make_links(
        &self,
        plan: &ReplayPlan,
        top: &OwnedFd,
        places: &mut Places,
        names: &[String],
    ) -> Result<(), ReplayError> {
        let mut old = PathText::new();
        let mut new = PathText::new();
        for link in &plan.links {
            let name = names.get(link.place.name as usize).map(String::as_str);
            let is_usable = name.is_some_and(is_plain)
                && places.is_named(link.object)
                && places.is_named(link.place.dir);
            if !is_usable || self.stop.load(Relaxed) {
                continue;
            }
            let written = places
                .write_path(&mut old, link.object, None, names)
                .and_then(|()| places.write_path(&mut new, link.place.dir, name, names));
            let made = match written {
                Some(()) => fs::linkat(top, old.as_c_str(), top, new.as_c_str(), AtFlags::empty()),
                None => Err(Errno::NAMETOOLONG),
            };
            match made {
                Ok(()) | Err(Errno::EXIST) => places.bind(link.place, link.object),
                Err(reason) => {
                    let below = new.as_c_str().to_string_lossy();
                    return Err(ReplayError::file("link", &self.path.join(&*below), reason));
                }
            }
        }
        Ok(())
    }

    /// Replays a plan on the tree that was built.
    ///
    /// # Errors
    /// [`ReplayError::File`] if no threads can be started.
    pub fn replay(
        &self,
        plan: &ReplayPlan,
        tree: &mut DirectoryTree,
        pace: Pace,
    ) -> Result<Record, ReplayError> {
        let planned_ns = pace.instant_ns(0, plan.duration_ns);
        let mut recorder = Recorder::new(planned_ns, plan.duration_ns, plan.batch.steps.len());
        let batch = &plan.batch;
        let threads = threads_for(batch);
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // During a copy, a thread briefly has two files open.
        let places = usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .saturating_sub(SPARE_DESCRIPTORS + 2 * threads)
            .min(plan.objects as usize + plan.slots as usize);
        let mut opens = Opens::new(plan.objects as usize, plan.slots as usize, places);
        let pool = write_pool(batch.write_bytes_max() as usize);
        let DirectoryTree { top, places, names } = tree;
        let (to_driver, done) = sync_channel(threads);
        let clients = batch.clients.len();
        let calls = thread::scope(|scope| {
            let mut driver = Driver {
                batch,
                names,
                pace,
                clock: self.clock,
                stop: self.stop,
                places,
                opens: &mut opens,
                recorder: &mut recorder,
                workers: Vec::with_capacity(threads),
                idle: Vec::with_capacity(threads),
                held: Vec::with_capacity(clients),
                is_held: vec![false; clients],
                in_flight: 0,
                renames: 0,
                renames_in_flight: 0,
                calls: 0,
            };
            for worker in 0..threads {
                let (to_worker, jobs) = sync_channel(1);
                let caller = Caller {
                    top: top.as_fd(),
                    pool: &pool,
                    buffer: vec![0; read_bytes_max(batch)],
                    entries: vec![std::mem::MaybeUninit::uninit(); page_bytes_max(batch)],
                    calls: 0,
                };
                let to_driver = to_driver.clone();
                let clock = self.clock;
                thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, move || serve(worker, caller, clock, &jobs, &to_driver))
                    .map_err(|error| self.thread_error(&error))?;
                driver.workers.push(to_worker);
                driver.idle.push(IdleWorker { worker, job: Box::new(Job::new()) });
            }
            drop(to_driver);
            driver.run(&done);
            Ok::<u64, ReplayError>(driver.calls)
        })?;
        let wire = Wire { calls_sent: calls, clients: clients as u64, ..Wire::default() };
        let planned = PlannedValues::from_plan(plan, pace, TargetKind::Directory);
        Ok(Record::new(recorder, planned, wire))
    }

    fn thread_error(&self, error: &std::io::Error) -> ReplayError {
        let reason = Errno::from_io_error(error).unwrap_or(Errno::AGAIN);
        ReplayError::file("start threads for", &self.path, reason)
    }

    /// Removes the tree.
    ///
    /// # Errors
    /// [`ReplayError::File`] if something could not be removed.
    pub fn remove(&self, directory: &str) -> Result<(), ReplayError> {
        let path = self.path.join(directory);
        remove_directory(&path, &Stop::default()).map_err(|error| {
            let reason = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            ReplayError::file("remove", &path, reason)
        })
    }
}

/// Size of writes when filling files of a tree, in bytes.
const FILL_BYTES: usize = 1 << 20;

/// Returns the place of an object. If it has none, or its name leads out of its directory, it gets
/// a place at the top under a generated name.
fn place_of(initial: &InitialObject, top: u32, names: &mut Vec<String>) -> DirectoryEntry {
    if let Some(place) = initial.place
        && names.get(place.name as usize).is_some_and(|name| is_plain(name))
    {
        return place;
    }
    let sort = if initial.file_type == DIRECTORY { 'd' } else { 'f' };
    names.push(format!("{sort}{}", initial.object));
    DirectoryEntry { dir: top, name: names.len() as u32 - 1 }
}

fn make_object(
    top: &OwnedFd,
    path: &PathText,
    initial: &InitialObject,
    pool: &[u8],
) -> Result<(), Errno> {
    let path = path.as_c_str();
    match initial.file_type {
        DIRECTORY => {
            return match fs::mkdirat(top, path, Mode::from_raw_mode(0o755)) {
                Err(Errno::EXIST) => {
                    let found = fs::statat(top, path, AtFlags::SYMLINK_NOFOLLOW)?;
                    let is_directory =
                        FileType::from_raw_mode(found.st_mode) == FileType::Directory;
                    if is_directory { Ok(()) } else { Err(Errno::NOTDIR) }
                }
                made => made,
            };
        }
        SYMLINK => {
            let target = &LINK_TARGET[..(initial.size.clamp(1, 1024)) as usize];
            return match fs::symlinkat(target, top, path) {
                Err(Errno::EXIST) => Ok(()),
                made => made,
            };
        }
        _ => {}
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(top, path, flags, Mode::from_raw_mode(0o644))?;
    if fs::fstat(&file)?.st_size.cast_unsigned() == initial.size {
        return Ok(());
    }
    if pool.is_empty() {
        return fs::ftruncate(&file, initial.size);
    }
    fs::ftruncate(&file, 0)?;
    let mut offset = 0;
    while offset < initial.size {
        let part = (initial.size - offset).min(FILL_BYTES as u64) as usize;
        offset += io::pwrite(&file, &pool[..part], offset)? as u64;
    }
    Ok(())
}

/// Returns the number of threads a batch needs so that slow calls don't delay the start of others.
fn threads_for(batch: &Batch) -> usize {
    let mut depths = vec![0_usize; batch.clients.len()];
    for step in &batch.steps {
        let depth = &mut depths[step.client as usize];
        *depth = (*depth).max(step.depth as usize);
    }
    let depth: usize = depths.iter().sum();
    depth.saturating_mul(4).clamp(*THREADS.start(), *THREADS.end())
}

/// Returns the maximum number of bytes returned by a call.
fn read_bytes_max(batch: &Batch) -> usize {
    let mut max = 4096;
    for step in &batch.steps {
        max = max.max(match step.action {
            Action::Read { count, .. } | Action::ReadPlus { count, .. } => {
                count.min(TRANSFER_BYTES) as usize
            }
            Action::Getxattr | Action::Listxattrs { .. } => XATTR_VALUE_BYTES,
            _ => 0,
        });
    }
    max
}

fn page_bytes_max(batch: &Batch) -> usize {
    let mut max = 4096;
    for step in &batch.steps {
        if let Action::Readdir { bytes, .. } | Action::ReaddirPlus { bytes, .. } = step.action {
            max = max.max(bytes.min(PAGE_BYTES));
        }
    }
    max as usize
}
