//! Walks the working directory on a server, to count or remove its contents.
//!
//! A server may answer every call and still prevent a walk from ending, with an endless directory
//! or one that contains itself. So the number of names per directory is limited, no directory is
//! entered from within itself, depth is limited in case handles don't reveal that, and so is the
//! time for the whole walk.

use model::work::{is_mark, mark_of};
use nfs_client::proto::client::File;
use nfs_client::proto::nfs3::FileType;
use nfs_client::proto::status::Status;
use nfs_client::{CallFailure, DirEntry, Mount};
use workload::names::Sort;

use super::super::access::is_removed_but_open;
use super::super::job_timer::{Job, JobTimer};
use super::super::removal::Removal;
use super::super::{Inventory, InventoryScope, TargetError};
use super::NfsAccess;
use crate::limits::{LISTED_DEPTH_MAX, LISTED_SPARE_UNBOUNDED};

/// Why a walk ended early.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum WalkFailure {
    /// A call failed.
    #[error("{0}")]
    Call(#[from] CallFailure),
    /// A directory leads back to one of its ancestors.
    #[error(
        "the directory tree contains a loop: LOOKUP of `{0}` returns one of its parent directories"
    )]
    Loop(String),
    /// Directories are nested without end.
    #[error("directories are nested more than {LISTED_DEPTH_MAX} deep at `{0}`; is there a loop?")]
    TooDeep(String),
}

/// An error that may be caused by a failed call.
pub(super) trait ByCall {
    /// Returns the failed call, if there was one.
    fn call(&self) -> Option<&CallFailure>;
}

impl ByCall for CallFailure {
    fn call(&self) -> Option<&CallFailure> {
        Some(self)
    }
}

impl ByCall for WalkFailure {
    fn call(&self) -> Option<&CallFailure> {
        if let Self::Call(failure) = self { Some(failure) } else { None }
    }
}

/// A walk down from one directory.
struct Walk<'a> {
    mount: &'a mut Mount,
    timer: &'a JobTimer,
    /// The directories from the first one to the current one.
    path: Vec<File>,
    names_max: u64,
}

impl NfsAccess {
    /// Counts the part of the working directory given by `whose`.
    pub(super) fn count_entries(&self, whose: InventoryScope) -> Result<Inventory, TargetError> {
        self.timer.begin(Job::Count);
        let counted = self.with_mount(|mount| {
            let mut inventory = Inventory::default();
            let counted = self.walk(mount).count(self.work, whose, &mut inventory);
            counted.map(|()| inventory)
        });
        counted.map_err(|failure| self.failed("list", "", &failure))
    }

    /// Removes everything in the working directory, but not the directory itself.
    pub(super) fn empty(&self, mount: &mut Mount) -> Result<(), WalkFailure> {
        let place = format!("{}/{}", self.shown, self.work_name);
        Removal::run(place, |removal| self.walk(mount).empty(self.work, removal))
    }

    fn walk<'a>(&'a self, mount: &'a mut Mount) -> Walk<'a> {
        Walk { mount, timer: &self.timer, path: Vec::new(), names_max: self.names_max }
    }
}

/// Removes everything in a directory left by a killed process, except the directory itself and its
/// mark.
pub(in super::super) fn empty_leftover(
    mount: &mut Mount,
    timer: &JobTimer,
    directory: File,
    place: &str,
) -> Result<(), WalkFailure> {
    let names_max = LISTED_SPARE_UNBOUNDED;
    let mut walk = Walk { mount, timer, path: Vec::new(), names_max };
    Removal::run(place.to_owned(), |removal| walk.empty(directory, removal))
}

/// Removes an empty working directory: first its mark, then the directory. If this is interrupted,
/// a clean-up will still recognize the directory.
pub(in super::super) fn remove_emptied(
    mount: &mut Mount,
    directory: File,
    name: &str,
) -> Result<(), WalkFailure> {
    match mount.rmdir(directory, &mark_of(name)) {
        // The reply was lost, or there was no mark.
        Err(failure) if failure.status() == Some(Status::NoEnt) => {}
        removed => removed?,
    }
    let root = mount.root();
    Ok(mount.rmdir(root, name)?)
}

impl Walk<'_> {
    /// Counts the contents of a directory, recursively.
    fn count(
        &mut self,
        directory: File,
        whose: InventoryScope,
        inventory: &mut Inventory,
    ) -> Result<(), WalkFailure> {
        self.path.push(directory);
        // Get attributes along with the names: a LOOKUP and a GETATTR for each of ten thousand
        // files would take longer than the pass that created them.
        for DirEntry { name, attributes, .. } in
            self.mount.readdirplus_up_to(directory, self.names_max)?
        {
            // Names that aren't UTF-8 aren't ours.
            let Ok(name) = String::from_utf8(name) else { continue };
            let is_counted = whose.counts_name(name.as_bytes());
            let is_file = !Sort::is_directory(name.as_bytes());
            if (is_file && !is_counted) || is_mark(name.as_bytes()) {
                continue;
            }
            if is_removed_but_open(name.as_bytes()) {
                inventory.removed_but_open += 1;
                continue;
            }
            let found = if let Some(attributes) = attributes {
                attributes
            } else {
                let file = self.mount.lookup(directory, &name)?;
                self.mount.getattr(file)?
            };
            match found.file_type {
                FileType::Directory => {
                    let file = self.mount.lookup(directory, &name)?;
                    self.check_below(file, &name)?;
                    inventory.directories += u64::from(is_counted);
                    self.count(file, whose, inventory)?;
                }
                FileType::Symlink => inventory.links += 1,
                _ => {
                    inventory.files += 1;
                    inventory.bytes += found.size;
                }
            }
        }
        self.path.pop();
        Ok(())
    }

    /// Removes everything in a directory except its mark, but not the directory itself.
    fn empty(&mut self, directory: File, removal: &Removal) -> Result<(), WalkFailure> {
        let is_top = self.path.is_empty();
        self.path.push(directory);
        let mut names = self.list(directory)?;
        names.retain(|name| !(is_top && is_mark(name.as_bytes())));
        removal.record_found(names.len() as u64);
        if is_top && !names.iter().any(|name| Sort::is_directory(name.as_bytes())) {
            removal.record_left(names.len() as u64);
        }
        for name in names {
            self.remove_entry(directory, &name, removal)?;
            removal.note_removed();
            self.timer.note_progress();
        }
        self.path.pop();
        Ok(())
    }

    /// Removes an entry. Its type is determined by its name if that is a trial's name, otherwise by
    /// its attributes.
    fn remove_entry(
        &mut self,
        directory: File,
        name: &str,
        removal: &Removal,
    ) -> Result<(), WalkFailure> {
        let looks_like_directory = Sort::is_directory(name.as_bytes());
        let failure = if looks_like_directory {
            match self.remove_directory(directory, name, removal) {
                Err(WalkFailure::Call(failure)) if failure.answered().is_some() => failure,
                done => return done,
            }
        } else {
            match self.mount.remove(directory, name) {
                Err(failure) if failure.answered().is_some() => failure,
                done => return Ok(done?),
            }
        };
        // In a replay's tree, names come from the trace.
        let found = self.mount.lookup(directory, name).and_then(|entry| self.mount.getattr(entry));
        match found.map(|found| found.file_type == FileType::Directory) {
            Ok(true) if !looks_like_directory => self.remove_directory(directory, name, removal),
            Ok(false) if looks_like_directory && self.mount.remove(directory, name).is_ok() => {
                Ok(())
            }
            // If the server contradicts itself, the first failure shows what is wrong.
            _ => Err(failure.into()),
        }
    }

    fn remove_directory(
        &mut self,
        directory: File,
        name: &str,
        removal: &Removal,
    ) -> Result<(), WalkFailure> {
        let depth = self.path.len();
        let below = self.mount.lookup(directory, name)?;
        self.check_below(below, name)?;
        let emptied = self.empty(below, removal);
        self.path.truncate(depth);
        emptied?;
        Ok(self.mount.rmdir(directory, name)?)
    }

    /// Lists one of our directories. Names that aren't UTF-8 aren't ours.
    fn list(&mut self, directory: File) -> Result<Vec<String>, WalkFailure> {
        let entries = self.mount.readdir_up_to(directory, self.names_max)?;
        Ok(entries.into_iter().flat_map(|entry| String::from_utf8(entry.name)).collect())
    }

    /// Checks that a directory may be entered because it isn't one of its own ancestors.
    fn check_below(&self, below: File, name: &str) -> Result<(), WalkFailure> {
        if self.path.contains(&below) {
            return Err(WalkFailure::Loop(name.to_owned()));
        }
        if self.path.len() >= LISTED_DEPTH_MAX {
            return Err(WalkFailure::TooDeep(name.to_owned()));
        }
        Ok(())
    }
}
