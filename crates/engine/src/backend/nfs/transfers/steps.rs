//! The stages of an op, and their order.
//!
//! | op | stages |
//! |---|---|
//! | Read, Write and the like | data |
//! | Update | data in, data out |
//! | Create | make, data out, close |
//! | ReadFile, Append | find (OPEN, or LOOKUP before v4), data, close |
//! | SetXattr, GetXattr | find (LOOKUP), act |
//! | List, ListStat, Find | act: a call for each page; find (LOOKUP) |
//! | ops that need the handle of an unknown object | find (LOOKUP), act |
//! | all others | act: one call |
//!
//! Close is a call in version 4 only. A failed op still closes what it opened.

use model::{Op, OpKind};

use super::super::set::WorkerState;
use super::OpSlot;

/// The stage of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Stage {
    /// Finds or opens a file by name.
    Find,
    /// Creates a file.
    Make,
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Makes the single call of the op.
    Act,
    /// Closes the file that was opened or created.
    Close,
}

impl Stage {
    /// Returns true if data is transferred, with as many calls as necessary.
    pub(in super::super) const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

pub(super) fn first(op: &Op, common: &WorkerState) -> Stage {
    match op.kind {
        OpKind::Read | OpKind::GetChars | OpKind::Update | OpKind::ReadPlus => Stage::Read,
        OpKind::Write | OpKind::PutChars | OpKind::LogAppend => Stage::Write,
        OpKind::Create => Stage::Make,
        OpKind::ReadFile | OpKind::Append | OpKind::SetXattr | OpKind::GetXattr => Stage::Find,
        OpKind::Readlink if common.link(op.file).is_none() => Stage::Find,
        OpKind::Getattr
        | OpKind::Setattr
        | OpKind::Access
        | OpKind::Link
        | OpKind::Commit
        | OpKind::Sync
            if common.open_file(op.file).is_none() =>
        {
            Stage::Find
        }
        _ => Stage::Act,
    }
}

/// Returns the stage after the current one, once all of its calls have completed. `None` completes
/// the op.
pub(super) fn next(state: &OpSlot) -> Option<Stage> {
    let OpSlot { op, stage, is_open, error, .. } = state;
    // Close what was opened even after a failure, since a leftover open would tie up state on the
    // server and keep some servers' exports busy.
    let close = if *is_open && *stage != Stage::Close { Some(Stage::Close) } else { None };
    if error.is_some() {
        return close;
    }
    if op.kind.counts_entries() {
        return state.more;
    }
    let has_data = op.len_bytes > 0;
    match (op.kind, stage) {
        (OpKind::Update, Stage::Read) => Some(Stage::Write),
        (OpKind::Create, Stage::Make) | (OpKind::Append, Stage::Find) if has_data => {
            Some(Stage::Write)
        }
        (OpKind::ReadFile, Stage::Find) if has_data => Some(Stage::Read),
        (OpKind::Append | OpKind::ReadFile, Stage::Find) => close,
        (_, Stage::Find) => Some(Stage::Act),
        _ => close,
    }
}

/// Returns true if the op opens what it finds or creates, and therefore must close it.
pub(super) fn opens(op: &Op, common: &WorkerState) -> bool {
    common.set.version.is_stateful()
        && matches!(op.kind, OpKind::Create | OpKind::ReadFile | OpKind::Append)
}

/// Returns true if an op cannot continue without the handle of what it found or created.
pub(super) const fn needs_object(op: &Op) -> bool {
    !matches!(op.kind, OpKind::Create) || op.len_bytes > 0
}

/// Returns a sync of a file for the backend's own use.
pub(super) const fn sync_of(file: u32) -> Op {
    Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 0, file, kind: OpKind::Sync }
}
