//! The stages of an op, and which one follows which.
//!
//! | op | stages |
//! |---|---|
//! | Read, Write and the like | their data |
//! | Update | data in, data out |
//! | Create | make, data out, close |
//! | ReadFile, Append | find (OPEN, or a LOOKUP before v4), data, close |
//! | SetXattr, GetXattr | find (LOOKUP), act |
//! | what needs the handle of something that is not known | find (LOOKUP), act |
//! | all others | act: one call |
//!
//! Close is a call in version 4 only; an op that failed closes what it opened all the same.

use model::{Op, OpKind};

use super::super::set::Common;
use super::OpSlot;

/// The stage of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Stage {
    /// Finds, or opens, a file by name.
    Find,
    /// Creates a file.
    Make,
    /// Brings data in.
    Read,
    /// Sends data out.
    Write,
    /// Makes the one call that the op stands for.
    Act,
    /// Closes what was opened or created.
    Close,
}

impl Stage {
    /// Says whether data moves, in as many calls as that takes.
    pub(in super::super) const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// The stage that an op begins with.
pub(super) fn first(op: &Op, common: &Common) -> Stage {
    match op.kind {
        OpKind::Read | OpKind::GetChars | OpKind::Update => Stage::Read,
        OpKind::Write | OpKind::PutChars => Stage::Write,
        OpKind::Create => Stage::Make,
        OpKind::ReadFile | OpKind::Append | OpKind::SetXattr | OpKind::GetXattr => Stage::Find,
        OpKind::Readlink if common.link(op.file).is_none() => Stage::Find,
        OpKind::Getattr
        | OpKind::Setattr
        | OpKind::Access
        | OpKind::Link
        | OpKind::Commit
        | OpKind::Sync
            if common.known(op.file).is_none() =>
        {
            Stage::Find
        }
        _ => Stage::Act,
    }
}

/// The stage that follows once all calls of the present one have ended; `None` ends the op.
pub(super) fn next(state: &OpSlot) -> Option<Stage> {
    let OpSlot { op, stage, is_open, error, .. } = state;
    // What was opened is closed whatever failed before: an open left behind would keep the server's
    // state, and some servers' exports, busy.
    let close = if *is_open && *stage != Stage::Close { Some(Stage::Close) } else { None };
    if error.is_some() {
        return close;
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

/// Says whether what an op finds or makes is an open that has to be closed.
pub(super) fn opens(op: &Op, common: &Common) -> bool {
    common.set.version.is_stateful()
        && matches!(op.kind, OpKind::Create | OpKind::ReadFile | OpKind::Append)
}

/// Says whether an op can't go on without a handle of what it found or made.
pub(super) const fn needs_object(op: &Op) -> bool {
    !matches!(op.kind, OpKind::Create) || op.len_bytes > 0
}

/// A sync of a file, for the backend's own use.
pub(super) const fn sync_of(file: u32) -> Op {
    Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 0, file, kind: OpKind::Sync }
}
