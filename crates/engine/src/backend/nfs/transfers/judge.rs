//! What the end of a call means for its op.
//!
//! [`judge`] compares an answer with what was asked: bytes that came or went, bytes that differ,
//! data that is safe. It tracks unstable writes; it starts nothing.

use model::{OpError, OpKind};
use nfs_client::proto::CallError;
use nfs_client::proto::client::{Event, File, Outcome};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::status::Status;

use super::super::set::Common;
use super::{Stage, Transfer};
use crate::backend::BadReply;
use crate::backend::posix::get_each;

/// The result of a call that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It moved so many bytes.
    Moved(u32),
    /// It made a file, which the server named or not.
    PreparedFixtures(Option<File>),
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
        return missing(event);
    }
    let outcome = match event.result {
        Ok(outcome) => outcome,
        Err(error) => return Err(note_error(event, error, common)),
    };
    match outcome {
        Outcome::Read { count, eof } => {
            if count > transfer.len || (count < transfer.len && (eof || count == 0)) {
                return Err(OpError::SHORT);
            }
            if transfer.kind == OpKind::GetChars {
                get_each(event.payload);
            }
            let pattern = &common.set.pattern;
            if common.set.verify {
                if event.payload.len() != count as usize {
                    return Err(OpError::SHORT);
                }
                let checked = pattern.check(event.payload, transfer.file, transfer.offset);
                checked.map_err(|mismatch| {
                    common.mismatches.note(mismatch);
                    OpError::MISMATCH
                })?;
            }
            Ok(Judged::Moved(count))
        }
        Outcome::Written { count, committed, verifier } => {
            if count == 0 || count > transfer.len {
                return Err(OpError::SHORT);
            }
            // What is opened by name is written FILE_SYNC.
            let in_set = !matches!(transfer.kind, OpKind::Create | OpKind::Append);
            let asked = if in_set { common.set.stable } else { StableHow::FileSync };
            // RFC 1813, 3.3.7 and RFC 8881, 18.32.3: a reply may claim more than was asked for, and
            // never less. What it claims, and not what was asked for, says if a COMMIT is needed.
            if committed < asked {
                return Err(OpError::LESS_STABLE);
            }
            let index = common.index(transfer.file);
            let is_uncommitted = in_set && committed == StableHow::Unstable;
            if let Some(uncommitted) = common.uncommitted.as_mut().filter(|_| is_uncommitted) {
                uncommitted.written(index, transfer.offset, count, verifier);
                if !transfer.writes_again() {
                    uncommitted.note_progress();
                }
            }
            Ok(Judged::Moved(count))
        }
        Outcome::Committed { verifier } => {
            let index = common.index(transfer.file);
            let is_safe = common
                .uncommitted
                .as_mut()
                .is_none_or(|uncommitted| uncommitted.committed(index, verifier));
            Ok(if is_safe { Judged::Moved(0) } else { Judged::Unsafe })
        }
        Outcome::Object { .. } if matches!(transfer.stage, Stage::Find | Stage::Make) => {
            Ok(Judged::PreparedFixtures(event.file.copied()))
        }
        _ => Ok(Judged::Moved(0)),
    }
}

/// A name that is not there is what was asked for.
fn missing(event: &Event<'_>) -> Result<Judged, OpError> {
    match event.result.map_err(|error| error_of(&error)) {
        Err(error) if error.0 == Status::NoEnt.number() => Ok(Judged::Moved(0)),
        Err(error) => Err(error),
        Ok(_) => Err(OpError(Status::Exist.number())),
    }
}

/// The file that an OPEN brought.
pub(super) fn opened(event: &Event<'_>) -> Result<File, OpError> {
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
