//! Access to a trial's target: one implementation per kind of target, each in its own module.
//!
//! The defaults are suitable for a target that stores nothing, which only has to open its backend.

use std::path::PathBuf;
use std::sync::Arc;

use model::{Caveat, Fact, Pass, RunSpec};
use workload::names::Sort;
use workload::{FileSet, Name};

use super::fixtures::Preparation;
use super::neighbors::Neighbors;
use super::{Inventory, InventoryScope, OpenedBackend, TargetConfig, TargetError};
use crate::backend::null::Null;

/// One worker's pass, for which files and connections are opened.
#[derive(Clone, Copy)]
pub(super) struct WorkerPass<'a> {
    pub spec: &'a RunSpec,
    pub pass: Pass,
    /// Number of the worker, starting at 0.
    pub worker: u32,
    /// Number of the worker that owns the files: another one if shards are restored.
    pub files_of: u32,
    pub config: &'a TargetConfig,
}

/// A trial's access to one kind of target.
pub(super) trait TargetAccess: Send + Sync {
    /// Creates this share of what a pass expects to find, as specified by `_todo`.
    fn prepare(
        &self,
        _todo: Preparation,
        _set: &FileSet,
        _spec: &RunSpec,
        _config: &TargetConfig,
    ) -> Result<(), TargetError> {
        Ok(())
    }

    fn open(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError>;

    /// Creates or joins a directory in the working directory and returns access to it, as to a
    /// working directory of another run. Removing the whole removes it, too.
    fn part(
        &self,
        _name: Name,
        _spec: &RunSpec,
        _config: &TargetConfig,
    ) -> Result<Box<dyn TargetAccess>, TargetError> {
        Ok(Box::new(NullAccess::default()))
    }

    /// Counts the contents of the working directory. Returns `None` if there are no files.
    fn inventory(&self, _whose: InventoryScope) -> Result<Option<Inventory>, TargetError> {
        Ok(None)
    }

    /// Passes the content of a file to `check`, piece by piece: offsets and bytes.
    fn read_file(
        &self,
        _sort: Sort,
        _number: u32,
        _spec: &RunSpec,
        _check: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), TargetError> {
        Ok(())
    }

    /// Returns true if a working directory was created here rather than joined.
    fn made_directory(&self) -> bool {
        false
    }

    /// Takes ownership of a working directory that was joined.
    fn adopt_directory(&mut self) {}

    /// Returns the effective settings of the target.
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// Releases what a pass has borrowed from the server, after its window. Returns facts about it.
    fn end_pass(&self, _pass: Pass) -> Vec<Fact> {
        Vec::new()
    }

    /// Returns caveats raised by the target itself.
    fn caveats(&self, _spec: &RunSpec) -> Vec<Caveat> {
        Vec::new()
    }

    /// Returns the working directories that are on this host.
    fn local_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Closes all handles on this host's file systems, so that they can be unmounted.
    fn close_handles(&mut self) {}

    /// Reopens the handles that were closed.
    fn reopen_handles(&mut self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Shows other campaigns that this one is active.
    fn show_life(&self, _config: &TargetConfig) {}

    /// Looks for working directories of other campaigns. Returns `None` if they cannot be listed.
    fn neighbors(&self, _config: &TargetConfig) -> Option<Neighbors> {
        None
    }

    /// Keeps the files but leaves nothing open.
    fn keep_files(self: Box<Self>) {}

    /// Removes the working directory and its contents.
    fn remove(self: Box<Self>, _config: &TargetConfig) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Returns true for a name that a client gives to a removed file that is still open. It disappears
/// after the last close, which FUSE may process after close(2) has returned.
///
/// **Source:** libfuse, lib/fuse.c (`hidden_name`); Linux, fs/nfs/unlink.c (`SILLYNAME_PREFIX`).
pub(super) fn is_removed_but_open(name: &[u8]) -> bool {
    let is_hex =
        |rest: &[u8], digits: usize| rest.len() >= digits && rest.iter().all(u8::is_ascii_hexdigit);
    let is_hidden =
        |prefix: &[u8], digits| name.strip_prefix(prefix).is_some_and(|rest| is_hex(rest, digits));
    is_hidden(b".fuse_hidden", 16) || is_hidden(b".nfs", 24)
}

/// Accesses no target and opens the null backend.
#[derive(Default)]
pub(super) struct NullAccess {
    /// An injected fault for tests: every n-th op is lost.
    pub(crate) loses_every: Option<u64>,
}

impl TargetAccess for NullAccess {
    fn open(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError> {
        let WorkerPass { spec, config, .. } = work;
        let mut null = Null::new(Arc::clone(&config.clock), spec.queue_depth as usize);
        if let Some(nth) = self.loses_every {
            null = null.losing_every(nth);
        }
        Ok(OpenedBackend::without_caveats(spec.queue_depth, Box::new(null)))
    }
}
