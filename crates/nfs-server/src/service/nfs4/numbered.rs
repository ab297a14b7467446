//! The numbered calls of v4.0: carried out once, and answered again as often as they come.
//!
//! The result of an operation is kept as it was written. Errors that say that the call was not
//! understood as one of its owner's do not count. From v4.1 on sessions do all this, and the
//! numbers are passed over.
//!
//! **Source:** RFC 7530 section 9.1.7.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::OpCode;

use super::answer::Failure;
use super::state::{Client, LastReply, OwnerKind, OwnerTurn, Tables};
use super::{Outcome, Run};
use crate::service::Service;

/// A numbered call of one owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered<'a> {
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

    /// Answers a call again. The same number on another operation is no retransmission: its
    /// client would take the reply for that of the other, and believe that it was carried out.
    ///
    /// # Errors
    /// `BadSeqid` where the last call of the owner was another operation.
    pub(super) fn replay(last: &LastReply, code: OpCode, run: &mut Run<'_>) -> Outcome {
        if !last.bytes.starts_with(&code.number().to_be_bytes()) {
            return Err(Status::BadSeqid.into());
        }
        let status = run.answer.again(&last.bytes);
        if status != Status::Ok {
            return Err(Failure::Told(status));
        }
        if let Some(file) = last.file {
            run.set_current(file);
        }
        Ok(())
    }

    /// Carries out a call whose turn it is, and keeps its result.
    pub(super) fn carry_out_numbered(
        &mut self,
        call: Numbered<'_>,
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
                run.answer.fail(call.code, status);
                Err(Failure::Told(status))
            }
            other => other,
        };
        let status = match outcome {
            Ok(()) => Status::Ok,
            Err(Failure::Status(status) | Failure::Told(status)) => status,
        };
        let reply = counts(status).then(|| LastReply {
            bytes: Arc::from(run.answer.since(mark)),
            file: run.current.filter(|_| call.code == OpCode::Open),
        });
        Tables::finish(call.client, call.kind, call.owner, call.sequence, reply);
        outcome
    }

    /// Begins a call of the owner of a state; a replay is written and ends it.
    pub(super) fn begin_numbered(
        &self,
        code: OpCode,
        state: &super::state::State,
        sequence: u32,
        run: &mut Run<'_>,
    ) -> Result<bool, Failure> {
        match self.tables().begin_on(state, sequence, run.now_ns)? {
            OwnerTurn::New => Ok(true),
            OwnerTurn::Replay(last) => Self::replay(&last, code, run).map(|()| false),
        }
    }
}

/// Whether a result counts as the owner's call. **Source:** RFC 7530 section 9.1.7.
fn counts(status: Status) -> bool {
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
