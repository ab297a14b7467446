//! Answers callbacks that a v4.1 server sends on the connection of its client.
//!
//! [`Callbacks`] holds the answers until they are sent, bounded in bytes, and the recalls until the
//! caller takes them in order to return the delegations and layouts, and reports of copies
//! likewise. Unless its caller holds layouts, this client has none to return. It requests no
//! notifications: it accepts the callbacks that a server may send to any client, and has no data of
//! its own to report. **Source:** RFC 8881 sections 2.10.3.1, 19 and 20.

use super::types::{CopyReport, Recall};
use crate::limits::{CALLBACK_ANSWERS_BYTES_MAX, COPY_REPORTS_MAX, RECALLS_MAX};
use crate::nfs4::{
    CALLBACK_PROGRAM, CALLBACK_VERSION, CallbackCompound, CallbackOk, CallbackOp, CallbackResult,
    LayoutRecall, SessionId, encode_callback_reply,
};
use crate::record;
use crate::rpc::{CallHeader, ReplyHeader, RpcError};
use crate::status::Status;
use crate::xdr::{Reader, Writer};

/// The answers of one connection.
#[derive(Debug, Default)]
pub(super) struct Callbacks {
    answers: Vec<u8>,
    received: Received,
}

/// What the caller has to act on.
#[derive(Debug, Default)]
struct Received {
    /// Delegations to return.
    recalls: Vec<Recall>,
    /// Ends of asynchronous copies.
    copies: Vec<CopyReport>,
    /// Layouts to return; `None` if the caller holds no layouts.
    layouts: Option<Vec<LayoutRecall>>,
}

impl Callbacks {
    /// Returns the bytes to send.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.answers
    }

    /// Drops bytes that were sent, or can't be sent any more.
    pub(super) fn clear(&mut self) {
        self.answers.clear();
    }

    /// Returns the next recalled delegation.
    pub(super) fn take_recall(&mut self) -> Option<Recall> {
        self.received.recalls.pop()
    }

    /// Returns the next report of a copy that has ended.
    pub(super) fn take_copy_report(&mut self) -> Option<CopyReport> {
        self.received.copies.pop()
    }

    /// Accepts recalls of layouts from now on.
    pub(super) fn hold_layouts(&mut self) {
        self.received.layouts.get_or_insert_with(|| Vec::with_capacity(RECALLS_MAX));
    }

    /// Returns the next recall of layouts.
    pub(super) fn take_layout_recall(&mut self) -> Option<LayoutRecall> {
        self.received.layouts.as_mut()?.pop()
    }

    /// Appends the answer to a call and returns true, unless it is not a call that can be answered,
    /// or too many answers are waiting for a server that does not read them.
    pub(super) fn answer_call(&mut self, call: &[u8], session: SessionId) -> bool {
        let mut reader = Reader::new(call);
        let header = CallHeader::decode(&mut reader);
        let Ok(header) = header else { return false };
        // A server that makes calls and never reads the answers would make them grow without bound.
        if self.answers.len() > CALLBACK_ANSWERS_BYTES_MAX {
            return false;
        }
        let compound = decode_call(&header, reader);
        let mark = record::begin(&mut self.answers);
        let mut writer = Writer::new(&mut self.answers);
        let result = compound.map(drop);
        ReplyHeader { xid: header.xid, result }.encode(&mut writer);
        if let Ok(Some(compound)) = compound {
            let results = carry_out_all(&compound, session, &mut self.received);
            encode_callback_reply(&mut writer, compound.tag, results);
        }
        record::end(&mut self.answers, mark, 0);
        true
    }
}

/// Decodes a call of the callback program; `None` is CB_NULL.
fn decode_call<'a>(
    header: &CallHeader<'_>,
    arguments: Reader<'a>,
) -> Result<Option<CallbackCompound<'a>>, RpcError> {
    if header.program != CALLBACK_PROGRAM {
        return Err(RpcError::ProgramUnavailable);
    }
    if header.version != CALLBACK_VERSION {
        return Err(RpcError::ProgramMismatch { low: CALLBACK_VERSION, high: CALLBACK_VERSION });
    }
    match header.procedure {
        0 => Ok(None),
        1 => CallbackCompound::decode(arguments).map(Some).map_err(|_| RpcError::GarbageArguments),
        _ => Err(RpcError::ProcedureUnavailable),
    }
}

/// Executes the operations, up to the first failure.
fn carry_out_all<'a>(
    compound: &CallbackCompound<'a>,
    session: SessionId,
    received: &mut Received,
) -> impl Iterator<Item = CallbackResult<'a>> {
    let mut failed = false;
    compound.ops().map_while(move |op| {
        if failed {
            return None;
        }
        let result = match op {
            Ok(op) => carry_out(&op, session, received),
            Err((code, status)) => CallbackResult::Failed(code, status),
        };
        failed = result.status() != Status::Ok;
        Some(result)
    })
}

fn carry_out<'a>(
    op: &CallbackOp<'a>,
    ours: SessionId,
    received: &mut Received,
) -> CallbackResult<'a> {
    let Received { recalls, copies, layouts } = received;
    CallbackResult::Ok(match *op {
        CallbackOp::Sequence { session, sequence, slot, highest_slot, .. } => {
            // A connection belongs to one session here. A callback of another one gets BADSESSION,
            // as required by RFC 8881 section 20.9.
            if session != ours {
                return CallbackResult::Failed(op.code(), Status::BadSession);
            }
            let target_highest_slot = highest_slot;
            CallbackOk::Sequence { session, sequence, slot, highest_slot, target_highest_slot }
        }
        CallbackOp::Recall { stateid, file, .. } => {
            // A caller that never takes any would make them grow without bound; the server will try
            // again.
            if recalls.len() >= RECALLS_MAX {
                return CallbackResult::Failed(op.code(), Status::Jukebox);
            }
            recalls.push(Recall { stateid, file });
            CallbackOk::Recall
        }
        CallbackOp::Offload { stateid, result, .. } => {
            if copies.len() >= COPY_REPORTS_MAX {
                return CallbackResult::Failed(op.code(), Status::Jukebox);
            }
            copies.push(CopyReport { stateid, result });
            CallbackOk::Offload
        }
        CallbackOp::RecallAny { .. } => CallbackOk::RecallAny,
        CallbackOp::RecallSlot { .. } => CallbackOk::RecallSlot,
        CallbackOp::NotifyLock { .. } => CallbackOk::NotifyLock,
        CallbackOp::LayoutRecall { recall, .. } => {
            let Some(layouts) = layouts else {
                return CallbackResult::Failed(op.code(), Status::NoMatchingLayout);
            };
            if layouts.len() >= RECALLS_MAX {
                return CallbackResult::Failed(op.code(), Status::Jukebox);
            }
            layouts.push(recall);
            CallbackOk::LayoutRecall
        }
        CallbackOp::Getattr { .. } | CallbackOp::NotifyDeviceid { .. } => {
            return CallbackResult::Failed(op.code(), Status::NotSupp);
        }
    })
}
