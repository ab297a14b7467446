//! The numbered calls of v4.0: executed once, and answered as often as they are repeated.
//!
//! The result of an operation is kept as it was written. Errors that mean that the call was not
//! recognized as one of its owner's do not count. From v4.1 on sessions do all this, and the
//! numbers are ignored.
//!
//! **Source:** RFC 7530 section 9.1.7.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::OpCode;

use super::answer::Failure;
use super::state::{Client, LastReply, OwnerKind, OwnerTurn, State, Tables};
use super::{Outcome, Run};
use crate::service::Service;

/// A numbered call of one owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedCall<'a> {
    pub(super) code: OpCode,
    pub(super) client: &'a Arc<Client>,
    pub(super) kind: OwnerKind,
    pub(super) owner: &'a [u8],
    pub(super) sequence: u32,
}

impl Service {
    /// Returns the tables of clients.
    pub(super) fn tables(&self) -> &Tables {
        &self.shared.nfs4
    }

    /// Answers a call again. The same number on another operation is not a retransmission: the
    /// client would take the reply for that of the other operation and believe that it was
    /// executed.
    ///
    /// # Errors
    /// `BadSeqid` if the owner's last call was another operation.
    pub(super) fn write_replay(last: &LastReply, code: OpCode, run: &mut Run<'_>) -> Outcome {
        if !last.bytes.starts_with(&code.number().to_be_bytes()) {
            return Err(Status::BadSeqid.into());
        }
        let status = run.answer.write_again(&last.bytes);
        if status != Status::Ok {
            return Err(Failure::Written(status));
        }
        if let Some(file) = last.file {
            run.set_current(file);
        }
        Ok(())
    }

    /// Executes a call whose turn it is, and keeps its result.
    pub(super) fn carry_out_numbered(
        &mut self,
        call: NumberedCall<'_>,
        run: &mut Run<'_>,
        act: impl FnOnce(&mut Self, &mut Run<'_>) -> Outcome,
    ) -> Outcome {
        let mark = run.answer.mark();
        let outcome = match run.planned.take() {
            Some(status) => Err(status.into()),
            None => act(self, run),
        };
        let outcome = match outcome {
            Err(Failure::Status(status)) => {
                run.answer.write_failure(call.code, status);
                Err(Failure::Written(status))
            }
            other => other,
        };
        let status = match outcome {
            Ok(()) => Status::Ok,
            Err(Failure::Status(status) | Failure::Written(status)) => status,
        };
        // Results that mean that the call is not one of the owner's leave its number unchanged; all
        // others advance it, including errors, and are kept for a retransmission.
        let reply = if advances_sequence(status) {
            let file = if call.code == OpCode::Open { run.current } else { None };
            Some(LastReply { bytes: Arc::from(run.answer.bytes_since(mark)), file })
        } else {
            None
        };
        Tables::finish_call(call.client, call.kind, call.owner, call.sequence, reply);
        outcome
    }

    /// Executes a call of a state's owner, in its turn if calls are numbered: from v4.1 on the
    /// session's slot has taken care of that.
    pub(super) fn carry_out_in_turn(
        &mut self,
        code: OpCode,
        state: &State,
        sequence: u32,
        run: &mut Run<'_>,
        act: impl FnOnce(&mut Self, &mut Run<'_>) -> Outcome,
    ) -> Outcome {
        if run.minor > 0 {
            return act(self, run);
        }
        match self.tables().begin_on(state, sequence, run.now_ns)? {
            OwnerTurn::Replay(last) => Self::write_replay(&last, code, run),
            OwnerTurn::New => {
                let call = NumberedCall {
                    code,
                    client: &state.client,
                    kind: state.kind(),
                    owner: &state.owner,
                    sequence,
                };
                self.carry_out_numbered(call, run, act)
            }
        }
    }
}

/// Returns true if a result counts as the owner's call. **Source:** RFC 7530 section 9.1.7.
fn advances_sequence(status: Status) -> bool {
    !matches!(
        status,
        Status::StaleClientId
            | Status::StaleStateid
            | Status::BadStateid
            | Status::BadSeqid
            | Status::BadXdr
            | Status::Resource
            | Status::NoFileHandle
            | Status::Moved
    )
}
