//! Interprets the completion of a call for its op.
//!
//! [`judge`] compares a reply with its request: bytes transferred, content, and durability. It
//! tracks unstable writes but doesn't start anything.

use model::{OpError, OpKind, PLACE};
use nfs_client::proto::client::{Event, File, Outcome};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::status::Status;
use nfs_client::proto::{CallError, DecodeError};

use super::super::set::WorkerState;
use super::ranges::{judge_seek, judge_segments};
use super::{Stage, Transfer};
use crate::backend::BadReply;
use crate::backend::files::XATTR_VALUE;
use crate::backend::posix::get_each;

/// The result of a call that didn't fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CallResult {
    /// It transferred this many bytes.
    Moved(u32),
    /// It created a file, whose handle the server may or may not have returned.
    Created(Option<File>),
    /// It committed, but not everything that was written before is safe.
    Unsafe,
}

/// Interprets the completion of a call.
pub(in super::super) fn judge(
    event: &Event<'_>,
    transfer: &Transfer,
    common: &mut WorkerState,
) -> Result<CallResult, OpError> {
    if transfer.kind == OpKind::LookupMissing {
        return judge_missing(event);
    }
    let outcome = match event.result {
        Ok(outcome) => outcome,
        Err(error) if transfer.kind == OpKind::Seek => {
            let error = note_error(event, error, common);
            return judge_seek(Err(error), transfer, common).map(|()| CallResult::Moved(0));
        }
        Err(error) => return Err(note_error(event, error, common)),
    };
    match outcome {
        Outcome::Read { count, eof } => {
            // A short READ is continued, unless there is nothing more: either nothing was returned,
            // or it ended at the end of the file.
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
            Ok(CallResult::Moved(count))
        }
        Outcome::Written { count, committed, verifier } => {
            if count == 0 || count > transfer.len {
                return Err(OpError::SHORT);
            }
            common.short_transfers.note_write(count, transfer.len);
            let in_set = !matches!(transfer.kind, OpKind::Create | OpKind::Append);
            let requested = common.set.stability_of(transfer.kind, !in_set);
            // RFC 1813, 3.3.7 and RFC 8881, 18.32.3: a reply may claim more durability than
            // requested, but never less. Whether a COMMIT is needed depends on the claim, not on
            // the request.
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
            Ok(CallResult::Moved(count))
        }
        Outcome::Committed { verifier } => {
            let index = common.index(transfer.file);
            let is_safe = match &mut common.uncommitted {
                Some(uncommitted) => uncommitted.note_committed(index, verifier),
                None => true,
            };
            Ok(if is_safe { CallResult::Moved(0) } else { CallResult::Unsafe })
        }
        Outcome::Object { .. } if matches!(transfer.stage, Stage::Find | Stage::Make) => {
            Ok(CallResult::Created(event.file.copied()))
        }
        // Files that are created in it need its handle.
        Outcome::Object { .. } if transfer.kind == OpKind::Mkdir && transfer.offset == PLACE => {
            let made = event.file.copied().ok_or(OpError(Status::NotSupp.number()))?;
            common.note_place(transfer.file, made);
            Ok(CallResult::Moved(0))
        }
        Outcome::Copied { count, committed, verifier } => {
            if count == 0 || count > u64::from(transfer.len) {
                return Err(OpError::SHORT);
            }
            common.ranges.copied_bytes += count;
            let index = common.index(transfer.file);
            if let Some(uncommitted) = &mut common.uncommitted
                && committed == StableHow::Unstable
            {
                uncommitted.note_written(index, transfer.offset, count as u32, verifier);
            }
            Ok(CallResult::Moved(count as u32))
        }
        // Only one that was requested can be followed.
        Outcome::Copying { .. } => {
            let error =
                DecodeError::BadValue { what: "callback id of a synchronous COPY", value: 1 };
            Err(note_error(event, error.into(), common))
        }
        Outcome::Found { offset, eof } => {
            judge_seek(Ok((offset, eof)), transfer, common).map(|()| CallResult::Moved(0))
        }
        Outcome::Segments { .. } => judge_segments(event, transfer, common).map(CallResult::Moved),
        Outcome::XattrValue { len } if len as usize != XATTR_VALUE.len() => Err(OpError::SHORT),
        _ => Ok(CallResult::Moved(0)),
    }
}

/// Interprets the lookup of a name that must not exist.
fn judge_missing(event: &Event<'_>) -> Result<CallResult, OpError> {
    match &event.result {
        Err(error) if error_of(error).0 == Status::NoEnt.number() => Ok(CallResult::Moved(0)),
        Err(error) => Err(error_of(error)),
        Ok(_) => Err(OpError(Status::Exist.number())),
    }
}

/// Returns the file from the reply to an OPEN.
pub(super) fn opened_file(event: &Event<'_>) -> Result<File, OpError> {
    event.result.map_err(|error| error_of(&error))?;
    event.file.copied().ok_or(OpError::MALFORMED)
}

/// Returns true if the server doesn't know the open that a call relied on.
///
/// **Source:** RFC 8881, 15.1.5 and 8.4.
pub(super) fn is_state_lost(event: &Event<'_>) -> bool {
    let Err(error) = &event.result else { return false };
    matches!(
        error.status(),
        Some(Status::BadStateid | Status::StaleStateid | Status::OldStateid | Status::Expired)
    )
}

/// Returns true if the server doesn't know the delegation or the file that a call relied on. It may
/// have been returned by another connection, revoked, or removed along with its file.
///
/// **Source:** RFC 8881, 15.1.5.
pub(super) fn is_delegation_lost(event: &Event<'_>) -> bool {
    let Err(error) = &event.result else { return false };
    let is_gone = matches!(error.status(), Some(Status::DelegRevoked | Status::Stale));
    is_gone || is_state_lost(event)
}

/// Returns the op's error. Also keeps the first reply whose reason doesn't fit into an error code.
#[cold]
pub(in super::super) fn note_error(
    event: &Event<'_>,
    error: CallError,
    common: &mut WorkerState,
) -> OpError {
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
