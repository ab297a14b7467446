//! What the end of a call means for its op.
//!
//! [`judge`] compares an answer with its request: bytes that moved, bytes that differ,
//! data that is safe. It tracks unstable writes; it starts nothing.

use model::{OpError, OpKind};
use nfs_client::proto::CallError;
use nfs_client::proto::client::{Event, File, Outcome};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::status::Status;

use super::super::set::Common;
use super::{Stage, Transfer};
use crate::backend::BadReply;
use crate::backend::files::XATTR_VALUE;
use crate::backend::posix::get_each;

/// The result of a call that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It moved so many bytes.
    Moved(u32),
    /// It made a file, which the server named or not.
    Created(Option<File>),
    /// It committed, but not all of what was written before.
    Unsafe,
}

/// Looks at the end of a call.
pub(super) fn judge(
    event: &Event<'_>,
    transfer: &Transfer,
    common: &mut Common,
) -> Result<Judged, OpError> {
    if transfer.kind == OpKind::LookupMissing {
        return judge_missing(event);
    }
    let outcome = match event.result {
        Ok(outcome) => outcome,
        Err(error) => return Err(note_error(event, error, common)),
    };
    match outcome {
        Outcome::Read { count, eof } => {
            // Less is a short READ, which goes on behind it, unless there is nothing more: nothing
            // moved at all, or the file ends there.
            if count > transfer.len || (count < transfer.len && (eof || count == 0)) {
                return Err(OpError::SHORT);
            }
            common.short_transfers.note_read(count, transfer.len);
            if transfer.kind == OpKind::GetChars {
                get_each(event.payload);
            }
            let pattern = &common.set.pattern;
            if common.set.verify {
                if event.payload.len() != count as usize {
                    return Err(OpError::SHORT);
                }
                if let Err(mismatch) = pattern.check(event.payload, transfer.file, transfer.offset)
                {
                    common.mismatches.note(mismatch);
                    return Err(OpError::MISMATCH);
                }
            }
            Ok(Judged::Moved(count))
        }
        Outcome::Written { count, committed, verifier } => {
            if count == 0 || count > transfer.len {
                return Err(OpError::SHORT);
            }
            common.short_transfers.note_write(count, transfer.len);
            // What is opened by name is written FILE_SYNC.
            let in_set = !matches!(transfer.kind, OpKind::Create | OpKind::Append);
            let requested = if in_set { common.set.stable } else { StableHow::FileSync };
            // RFC 1813, 3.3.7 and RFC 8881, 18.32.3: a reply may claim more than was requested, and
            // never less. What it claims, and not what was requested, says if a COMMIT is needed.
            if committed < requested {
                return Err(OpError::LESS_STABLE);
            }
            let index = common.index(transfer.file);
            let is_uncommitted = in_set && committed == StableHow::Unstable;
            if let Some(uncommitted) = &mut common.uncommitted
                && is_uncommitted
            {
                uncommitted.note_written(index, transfer.offset, count, verifier);
                if !transfer.writes_again() {
                    uncommitted.note_progress();
                }
            }
            Ok(Judged::Moved(count))
        }
        Outcome::Committed { verifier } => {
            let index = common.index(transfer.file);
            let is_safe = match &mut common.uncommitted {
                Some(uncommitted) => uncommitted.note_committed(index, verifier),
                None => true,
            };
            Ok(if is_safe { Judged::Moved(0) } else { Judged::Unsafe })
        }
        Outcome::Object { .. } if matches!(transfer.stage, Stage::Find | Stage::Make) => {
            Ok(Judged::Created(event.file.copied()))
        }
        Outcome::XattrValue { len } if len as usize != XATTR_VALUE.len() => Err(OpError::SHORT),
        _ => Ok(Judged::Moved(0)),
    }
}

/// Judges the lookup of a name that must not be there.
fn judge_missing(event: &Event<'_>) -> Result<Judged, OpError> {
    match &event.result {
        Err(error) if error_of(error).0 == Status::NoEnt.number() => Ok(Judged::Moved(0)),
        Err(error) => Err(error_of(error)),
        Ok(_) => Err(OpError(Status::Exist.number())),
    }
}

/// The file that an OPEN brought.
pub(super) fn opened_file(event: &Event<'_>) -> Result<File, OpError> {
    event.result.map_err(|error| error_of(&error))?;
    event.file.copied().ok_or(OpError::MALFORMED)
}

/// Tells whether a server does not know the open that a call relied on.
///
/// **Source:** RFC 8881, 15.1.5 and 8.4.
pub(super) fn is_state_lost(event: &Event<'_>) -> bool {
    let Err(error) = &event.result else { return false };
    matches!(
        error.status(),
        Some(Status::BadStateid | Status::StaleStateid | Status::OldStateid | Status::Expired)
    )
}

/// Tells whether a server does not know the delegation, or the file, that a call relied on: it was
/// returned by another connection, revoked, or removed with its file.
///
/// **Source:** RFC 8881, 15.1.5.
pub(super) fn is_delegation_lost(event: &Event<'_>) -> bool {
    let Err(error) = &event.result else { return false };
    let is_gone = matches!(error.status(), Some(Status::DelegRevoked | Status::Stale));
    is_gone || is_state_lost(event)
}

/// Returns the op's error, and keeps the first reply whose reason a code can't hold.
#[cold]
fn note_error(event: &Event<'_>, error: CallError, common: &mut Common) -> OpError {
    if matches!(error, CallError::Rpc(_) | CallError::Malformed(_)) {
        common.bad_reply.get_or_insert(BadReply { call: event.kind, error });
    }
    error_of(&error)
}

fn error_of(error: &CallError) -> OpError {
    match error {
        CallError::Status(spoken) => OpError(spoken.status.number()),
        CallError::Lost => OpError::LOST,
        CallError::Rpc(_) => OpError::RPC,
        CallError::Malformed(_) => OpError::MALFORMED,
    }
}
