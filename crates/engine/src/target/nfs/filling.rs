//! Creates what a pass expects to find on a server, before anything is timed.
//!
//! Everything goes over the target's single blocking connection. Everything in the working
//! directory is ours, and the first letter of a name shows its type.

use model::{RunSpec, Workload};
use nfs_client::proto::client::File;
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::status::Status;
use nfs_client::{CallFailure, Mount};
use workload::names::Sort;
use workload::{FileSet, Name, Places, Trees};

use super::super::fixtures::{Fixtures, Preparation, pieces_to_write};
use super::super::{TargetConfig, TargetError, check_stop, content_of};
use super::NfsAccess;
use crate::limits::PREPARE_IO;

impl NfsAccess {
    /// Empties the working directory if we own it, and forgets what it contained.
    pub(super) fn wipe(&self) -> Result<(), TargetError> {
        if self.is_ours
            && let Err(failure) = self.with_mount(|mount| self.empty(mount))
        {
            return Err(self.failed("empty", "", &failure));
        }
        self.set_places(Vec::new());
        Ok(())
    }

    /// Creates a share's files, directories and symlinks.
    pub(super) fn write_fixtures(
        &self,
        todo: Preparation,
        set: &FileSet,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<(), TargetError> {
        let places = Places::new(spec);
        // Passes may have created and removed places since the last preparation.
        if self.places().is_empty() || places.are_made_by_passes() {
            self.set_places(self.make_places(&places, todo.trees, spec, config)?);
        }
        let Fixtures { files, hole_bytes, directories, links, trees } = todo.make;
        for number in 0..files {
            if let Some(bytes) = set.size(number)
                && set.is_in(trees, number)
                && config.share.owns(number, spec.workers)
            {
                self.fill_file(number, bytes, hole_bytes, &places, spec, config)?;
            }
        }
        for (sort, count) in [(Sort::Directory, directories), (Sort::Link, links)] {
            for number in 0..count {
                if config.share.owns(number, spec.workers) {
                    check_stop(config)?;
                    self.make_entry(sort, number, &places, spec.nfs().client_uids)?;
                }
            }
        }
        Ok(())
    }

    /// Creates the directories that will contain everything else. Returns their handles. If passes
    /// create them, it is only those of `trees` for the workers of this share; the others have the
    /// handle of the working directory.
    fn make_places(
        &self,
        places: &Places,
        trees: Trees,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<Vec<File>, TargetError> {
        let mut made: Vec<File> = Vec::with_capacity(places.count() as usize);
        for place in 0..places.count() {
            check_stop(config)?;
            let is_shared = !places.are_made_by_passes();
            let is_ours = is_shared || config.share.owns(place, spec.workers);
            if places.is_root(place) || !is_ours || !places.is_in(trees, place) {
                made.push(self.work);
                continue;
            }
            // Parents have lower numbers than their contents, so they already exist.
            let parent = places.parent(place).map_or(self.work, |parent| made[parent as usize]);
            let name = places.name(place);
            match make_or_join(&mut self.mount(), parent, name.as_str(), spec.nfs().client_uids) {
                Ok((directory, _)) => made.push(directory),
                Err(failure) => return Err(self.failed("make", name.as_str(), &failure)),
            }
        }
        Ok(made)
    }

    /// Creates a directory or a symlink.
    fn make_entry(
        &self,
        sort: Sort,
        number: u32,
        places: &Places,
        client_uids: u32,
    ) -> Result<(), TargetError> {
        let dir = self.place_of(places, number);
        let name = Name::new(sort, number);
        let mut mount = self.mount();
        let made = if sort == Sort::Directory {
            make_directory(&mut mount, dir, name.as_str(), client_uids).map(drop)
        } else {
            mount.symlink(dir, name.as_str(), Name::file(number).as_str())
        };
        made.map_err(|failure| self.failed("prepare", name.as_str(), &failure))
    }

    /// Writes a complete file and commits it.
    fn fill_file(
        &self,
        number: u32,
        bytes: u64,
        hole_bytes: u32,
        places: &Places,
        spec: &RunSpec,
        config: &TargetConfig,
    ) -> Result<(), TargetError> {
        let dir = self.place_of(places, number);
        let mut mount = self.mount();
        // Ignore the run's own op size: with one call at a time, writes of 4 KiB would take longer
        // than many passes.
        let step = mount.wsize().min(PREPARE_IO);
        let name = Name::file(number);
        let failed = |failure| self.failed("prepare", name.as_str(), &failure);
        let file =
            make_file(&mut mount, dir, name.as_str(), spec.nfs().client_uids).map_err(failed)?;
        let mut buffer = vec![0; if config.pattern.is_copied() { step as usize } else { 0 }];
        let mut weakest = StableHow::FileSync;
        for (offset, len) in pieces_to_write(bytes, hole_bytes, step) {
            check_stop(config)?;
            let data = content_of(&config.pattern, &mut buffer, number, offset, len);
            let written = mount.write(file, offset, data, StableHow::Unstable).map_err(failed)?;
            weakest = weakest.min(written);
        }
        if hole_bytes > 0 {
            mount.set_size(file, bytes).map_err(failed)?;
        }
        // A server that acknowledges all WRITEs as durable may not even support COMMIT.
        // Files that are only listed need none.
        if weakest == StableHow::Unstable && spec.workload != Workload::Listing {
            mount.commit(file).map_err(failed)?;
        }
        mount.close(file).map_err(failed)
    }
}

/// Creates a directory, or finds the one another agent created. The flag is true if it is ours.
pub(super) fn make_or_join(
    mount: &mut Mount,
    parent: File,
    name: &str,
    client_uids: u32,
) -> Result<(File, bool), CallFailure> {
    match make_directory(mount, parent, name, client_uids) {
        Ok(made) => Ok((made, true)),
        Err(failure) if failure.status() == Some(Status::Exist) => {
            Ok((mount.lookup(parent, name)?, false))
        }
        Err(failure) => Err(failure),
    }
}

/// Creates a directory. If there are several client UIDs, it is accessible to all.
pub(super) fn make_directory(
    mount: &mut Mount,
    parent: File,
    name: &str,
    client_uids: u32,
) -> Result<File, CallFailure> {
    let made = mount.mkdir(parent, name)?;
    if client_uids > 1 {
        mount.chmod(made, 0o777)?;
    }
    Ok(made)
}

/// Creates an empty file for all clients that work in the directory.
pub(super) fn make_file(
    mount: &mut Mount,
    directory: File,
    name: &str,
    client_uids: u32,
) -> Result<File, CallFailure> {
    let made = mount.create(directory, name)?;
    if client_uids > 1 {
        mount.chmod(made, 0o666)?;
    }
    Ok(made)
}
