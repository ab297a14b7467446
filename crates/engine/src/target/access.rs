//! How a trial reaches its target: one implementation for each kind, in a module of its own.
//!
//! The defaults are those of a target that keeps nothing, so such a one only opens its backend.

use std::path::PathBuf;
use std::sync::Arc;

use model::{Caveat, Fact, Pass, RunSpec};
use workload::FileSet;

use super::fixtures::Preparation;
use super::neighbors::Neighbors;
use super::{Inventory, InventoryScope, Opened, TargetConfig, TargetError};
use crate::backend::null::Null;

/// A pass of one worker, for which files and connections are opened.
#[derive(Clone, Copy)]
pub(super) struct WorkerPass<'a> {
    pub spec: &'a RunSpec,
    pub pass: Pass,
    /// Number of the worker, from 0 on.
    pub worker: u32,
    pub config: &'a TargetConfig,
}

/// The place where one trial works, on one kind of target.
pub(super) trait TargetAccess: Send + Sync {
    /// Makes what of its share a pass expects to find, as far as it is to do.
    fn prepare(
        &self,
        _todo: Preparation,
        _set: &FileSet,
        _spec: &RunSpec,
        _config: &TargetConfig,
    ) -> Result<(), TargetError> {
        Ok(())
    }

    /// Opens the backend of one worker for one pass.
    fn open(&self, work: WorkerPass<'_>) -> Result<Opened, TargetError>;

    /// Counts what is in the working directory; `None` where there are no files.
    fn inventory(&self, _whose: InventoryScope) -> Result<Option<Inventory>, TargetError> {
        Ok(None)
    }

    /// Says whether a working directory was made here, and not found as another agent's.
    fn made_directory(&self) -> bool {
        false
    }

    /// Takes a working directory that was joined for its own.
    fn adopt_directory(&mut self) {}

    /// Lists the effective settings of the target.
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// Ends what a pass began with the server, outside its window, and lists what became of it.
    fn end_pass(&self, _pass: Pass) -> Vec<Fact> {
        Vec::new()
    }

    /// Lists caveats that the target raised by itself.
    fn caveats(&self, _spec: &RunSpec) -> Vec<Caveat> {
        Vec::new()
    }

    /// Lists the working directories that are on this host.
    fn local_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Closes what it has open on file systems of this host, so that they can be unmounted.
    fn close_handles(&mut self) {}

    /// Opens again what was let go.
    fn reopen_handles(&mut self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Shows other campaigns that this one works here.
    fn show_life(&self, _config: &TargetConfig) {}

    /// Looks for working directories of other campaigns; `None` if they can't be listed.
    fn neighbors(&self, _config: &TargetConfig) -> Option<Neighbors> {
        None
    }

    /// Leaves the files behind, and nothing open.
    fn keep_files(self: Box<Self>) {}

    /// Removes the working directory with all that is in it.
    fn remove(self: Box<Self>, _config: &TargetConfig) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Returns true for the name that a client gives to a file that was removed and is still open: it
/// goes when the last open is closed, which FUSE does after close(2) has returned.
///
/// **Source:** libfuse, lib/fuse.c (`hidden_name`); Linux, fs/nfs/unlink.c (`SILLYNAME_PREFIX`).
pub(super) fn is_removed_but_open(name: &[u8]) -> bool {
    let is_hex =
        |rest: &[u8], digits: usize| rest.len() >= digits && rest.iter().all(u8::is_ascii_hexdigit);
    let is_hidden =
        |prefix: &[u8], digits| name.strip_prefix(prefix).is_some_and(|rest| is_hex(rest, digits));
    is_hidden(b".fuse_hidden", 16) || is_hidden(b".nfs", 24)
}

/// Reaches no target: opens the null backend.
#[derive(Default)]
pub(super) struct NullAccess {
    /// A planted fault, for tests: every so many ops one is lost.
    pub loses_every: Option<u64>,
}

impl TargetAccess for NullAccess {
    fn open(&self, work: WorkerPass<'_>) -> Result<Opened, TargetError> {
        let WorkerPass { spec, config, .. } = work;
        let mut null = Null::new(Arc::clone(&config.clock), spec.queue_depth as usize);
        if let Some(nth) = self.loses_every {
            null = null.losing_every(nth);
        }
        Ok(Opened::without_caveats(spec.queue_depth, Box::new(null)))
    }
}
