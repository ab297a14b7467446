//! Passes that do one thing to every name: create, stat, read, rename, remove.
//!
//! Number n belongs to worker `n mod workers`. A rename pass first renames everything, then renames
//! everything back, so that neither touches names that have just been used.

use model::{Op, OpKind, Pass, RunSpec};

use crate::file_set::FileSet;

/// Names of one worker.
#[derive(Clone, Debug)]
pub(super) struct ByName {
    kind: OpKind,
    set: FileSet,
    /// Ops contain the size of the file.
    is_sized: bool,
    count: u32,
    /// Rounds after this one, in the opposite direction.
    rounds_left: u32,
    way: u64,
    worker: u32,
    workers: u32,
    next: u32,
}

impl ByName {
    pub(super) fn new(spec: &RunSpec, pass: Pass, kind: OpKind, worker: u32) -> Self {
        let set = FileSet::new(spec);
        Self {
            kind,
            is_sized: matches!(kind, OpKind::Create | OpKind::ReadFile),
            count: set.files(),
            set,
            rounds_left: u32::from(matches!(pass, Pass::Rename | Pass::RenameDirs)),
            way: 0,
            worker,
            workers: spec.workers,
            next: worker,
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Op> {
        if self.next >= self.count {
            if self.rounds_left == 0 || self.worker >= self.count {
                return None;
            }
            self.rounds_left -= 1;
            self.way += 1;
            self.next = self.worker;
        }
        let file = self.next;
        self.next = self.next.saturating_add(self.workers);
        let len = if self.is_sized { self.set.size(file).unwrap_or(0) as u32 } else { 0 };
        Some(Op::new(self.kind, file, self.way, len))
    }
}
