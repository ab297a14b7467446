//! Writes what a pass expects to find, completely and to storage, before anything is timed.
//!
//! Files have the sizes of the run's file set and the content of its pattern. They have no holes
//! except those that a pass works on, and nothing is written twice.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};

use workload::names::Sort;
use workload::{FileSet, Name, Trees};

use super::super::fixtures::{Fixtures, pieces_to_write};
use super::super::marked_directories::empty_directory;
use super::super::{TargetConfig, TargetError, check_stop, content_of};
use super::{DirectoryAccess, io_error};
use crate::limits::PREPARE_IO;
use crate::stop::Stop;

impl DirectoryAccess {
    /// Empties the working directories that we own.
    pub(super) fn wipe(&self, stop: &Stop) -> Result<(), TargetError> {
        for work in self.works.iter().filter(|work| work.is_ours) {
            empty_directory(&work.path, stop)
                .map_err(|error| io_error("empty", &work.path, &error))?;
        }
        Ok(())
    }

    /// Creates the directories that will contain everything else, if they don't exist. If passes
    /// create them, it is only those of `trees` for the workers of this share.
    pub(super) fn make_places(
        &self,
        trees: Trees,
        workers: u32,
        config: &TargetConfig,
    ) -> Result<(), TargetError> {
        for work in &self.works {
            for place in 0..self.places.count() {
                if self.places.is_root(place) {
                    continue;
                }
                let is_shared = !self.places.are_made_by_passes();
                if !self.places.is_in(trees, place)
                    || !(is_shared || config.share.owns(place, workers))
                {
                    continue;
                }
                check_stop(config)?;
                let path = work.path.join(self.places.path_of(place).as_str());
                match fs::create_dir(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                        return Err(io_error("create", &path, &error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    pub(super) fn write_fixtures(
        &self,
        fixtures: Fixtures,
        set: &FileSet,
        workers: u32,
        config: &TargetConfig,
    ) -> Result<(), TargetError> {
        if fixtures == Fixtures::default() {
            return Ok(());
        }
        for number in 0..fixtures.files {
            if !config.share.owns(number, workers) {
                continue;
            }
            check_stop(config)?;
            let path = self.path(Sort::File, number);
            let Some(bytes) = set.size(number) else { continue };
            if !set.is_in(fixtures.trees, number) {
                continue;
            }
            let syncs = !set.is_only_listed();
            write_file(&path, number, bytes, fixtures.hole_bytes, syncs, config)
                .map_err(|error| io_error("prepare", &path, &error))?;
        }
        if set.is_only_listed() {
            self.sync_file_systems()?;
        }
        for number in 0..fixtures.directories {
            if !config.share.owns(number, workers) {
                continue;
            }
            check_stop(config)?;
            let path = self.path(Sort::Directory, number);
            fs::create_dir(&path).map_err(|error| io_error("prepare", &path, &error))?;
        }
        for number in 0..fixtures.links {
            if !config.share.owns(number, workers) {
                continue;
            }
            check_stop(config)?;
            let path = self.path(Sort::Link, number);
            symlink(Name::file(number).as_str(), &path)
                .map_err(|error| io_error("prepare", &path, &error))?;
        }
        check_stop(config)
    }

    /// Writes everything to storage at once, which takes a fraction of the time of a sync per file.
    fn sync_file_systems(&self) -> Result<(), TargetError> {
        for work in &self.works {
            rustix::fs::syncfs(work.handle()?)
                .map_err(|errno| io_error("sync", &work.path, &errno.into()))?;
        }
        Ok(())
    }

    /// Returns the path of a number with the given type of name.
    pub(super) fn path(&self, sort: Sort, number: u32) -> PathBuf {
        let place = self.places.of_number(number);
        let path = self.places.path(place, Name::new(sort, number));
        self.work_of(number).path.join(path.as_str())
    }
}

/// Writes a complete file and, with `syncs`, waits until it is on storage. It ignores the run's own
/// op size, since that makes no difference to the result and small writes would take longer than
/// many passes.
fn write_file(
    path: &Path,
    number: u32,
    bytes: u64,
    hole_bytes: u32,
    syncs: bool,
    config: &TargetConfig,
) -> std::io::Result<()> {
    let file = File::create(path)?;
    let mut buffer = vec![0; if config.pattern.is_copied() { PREPARE_IO as usize } else { 0 }];
    for (offset, len) in pieces_to_write(bytes, hole_bytes, PREPARE_IO) {
        if config.stop.is_set() {
            return Ok(());
        }
        file.write_all_at(content_of(&config.pattern, &mut buffer, number, offset, len), offset)?;
    }
    if hole_bytes > 0 {
        file.set_len(bytes)?;
    }
    if syncs { file.sync_all() } else { Ok(()) }
}
