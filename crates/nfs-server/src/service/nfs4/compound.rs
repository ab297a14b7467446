//! COMPOUND: operations one by one, up to the first that fails.
//!
//! In v4.1 and later SEQUENCE comes first and takes a slot for the whole compound: the slot stays
//! locked until the reply is kept, so a call that comes again gets the reply of the first.
//!
//! **Source:** RFC 7530 section 15.2, RFC 8881 sections 2.10.6, 16.2 and 18.46.

use nfs_proto::nfs4::{BadOp, Call, Compound, Op, OpCode, OpOk, OpResult, Ops, SessionId};
use nfs_proto::server::encode_reply;
use nfs_proto::{Status, program};

use super::answer::{Answer, Failure};
use super::state::{Asked, Session, Slot, SlotTurn};
use super::{Outcome, Run};
use crate::clock::monotonic_ns;
use crate::fault::FaultedCalls;
use crate::fs::Context;
use crate::limits::{NFS4_CHANGE_RESULT_BYTES, NFS4_OPERATIONS_MAX, NFS4_REPLY_BYTES_MAX};
use crate::outbox::Outbox;
use crate::service::Service;

impl Service {
    /// Carries out one call and appends its reply.
    pub(in crate::service) fn answer_nfs4(
        &mut self,
        call: &Call<'_>,
        context: Context,
        xid: u32,
        out: &mut Outbox,
    ) {
        let Call::Compound(compound) = call else {
            let reply = program::Reply::Nfs4(nfs_proto::nfs4::Reply::Null);
            return encode_reply(out.head(), xid, &reply);
        };
        self.counters.nfs4_compounds.add(1);
        let mut answer = Answer::begin(out, xid, compound.tag, NFS4_REPLY_BYTES_MAX);
        let mut run = Run {
            minor: compound.minor,
            context,
            now_ns: monotonic_ns(),
            session: None,
            current: None,
            saved: None,
            stateid: None,
            saved_stateid: None,
            planned: None,
            left: 0,
        };
        let versions = self.shared.versions;
        let status = match compound.minor {
            0 if versions.v4_0 => match compound.count() {
                0..=NFS4_OPERATIONS_MAX => self.evaluate(compound.ops(), &mut run, &mut answer),
                _ => Status::Resource,
            },
            1 if versions.v4_1 => return self.start(compound, run, answer),
            2 if versions.v4_2 => return self.start(compound, run, answer),
            _ => Status::MinorVersMismatch,
        };
        self.conclude(answer, status);
    }

    fn conclude<'o>(&self, answer: Answer<'o>, status: Status) -> &'o [u8] {
        if status != Status::Ok {
            self.counters.error(status);
        }
        answer.finish(status)
    }

    /// Carries out a compound of v4.1 or later: in a session, or the one operation outside.
    fn start(&mut self, compound: &Compound<'_>, mut run: Run<'_>, mut answer: Answer<'_>) {
        let first = compound.ops().next();
        let status = match first {
            Some(Ok(sequence @ Op::Sequence { .. })) => {
                return self.in_session(compound, &sequence, &run, answer);
            }
            None => Status::Ok,
            Some(Ok(op)) if !op.code().is_sessionless() => {
                answer.fail(op.code(), Status::OpNotInSession);
                Status::OpNotInSession
            }
            Some(Ok(op)) if compound.count() > 1 => {
                answer.fail(op.code(), Status::NotOnlyOp);
                Status::NotOnlyOp
            }
            Some(_) => self.evaluate(compound.ops(), &mut run, &mut answer),
        };
        self.conclude(answer, status);
    }

    /// Carries out a compound that starts with SEQUENCE.
    fn in_session(
        &mut self,
        compound: &Compound<'_>,
        sequence: &Op<'_>,
        run: &Run<'_>,
        mut answer: Answer<'_>,
    ) {
        let Op::Sequence { session: SessionId(id), sequence, slot: index, cache_this, .. } =
            *sequence
        else {
            unreachable!("start sends only SEQUENCE here")
        };
        self.counters.nfs4_operation(OpCode::Sequence.number());
        let fail = |service: &Self, mut answer: Answer<'_>, status| {
            answer.fail(OpCode::Sequence, status);
            service.conclude(answer, status);
        };
        let session = match self.tables().session(id, run.now_ns) {
            Ok(session) => session,
            Err(status) => return fail(self, answer, status),
        };
        let mut slot = match session.slot(index) {
            Ok(slot) => slot,
            Err(status) => return fail(self, answer, status),
        };
        let asked = Asked { operations: compound.count(), bytes: self.call_bytes };
        let turn = place(&session, &slot, (sequence, cache_this), asked);
        let turn = match turn {
            Ok(SlotTurn::Kept) => return answer.finish_as(slot.reply()),
            Ok(turn) => turn,
            Err(status) => return fail(self, answer, status),
        };
        answer.set_limit(session.fore.reply_bytes_max as usize, Status::RepTooBig);
        if cache_this {
            let kept_bytes_max = session.fore.kept_bytes_max.min(session.fore.reply_bytes_max);
            answer.set_limit(kept_bytes_max as usize, Status::RepTooBigToCache);
            answer.whole = true;
        }
        let mark = answer.mark();
        let highest = session.slot_highest();
        answer.ok(&OpOk::Sequence {
            session: SessionId(id),
            sequence,
            slot: index,
            highest_slot: highest,
            target_highest_slot: highest,
            flags: 0,
        });
        if let Err(status) = answer.check_room(0) {
            answer.rewind(mark);
            return fail(self, answer, status);
        }
        let mut ops = compound.ops();
        ops.next();
        if turn == SlotTurn::NotKept {
            let status = not_kept(&mut ops, &mut answer);
            self.conclude(answer, status);
            return;
        }
        slot.begin(sequence, asked);
        let mut run = Run { session: Some(&session), ..*run };
        let status = self.evaluate(ops, &mut run, &mut answer);
        let results = self.conclude(answer, status);
        if cache_this {
            session.keep(&mut slot, results);
        }
    }

    /// Carries out operations up to the first that fails; returns the status of the last.
    fn evaluate(&mut self, mut ops: Ops<'_>, run: &mut Run<'_>, answer: &mut Answer<'_>) -> Status {
        let mut first = true;
        while let Some(op) = ops.next() {
            run.left = ops.left();
            let (code, outcome) = match op {
                Ok(op) => (op.code(), self.evaluate_one(&op, first, run, answer)),
                Err(BadOp { code, status }) => (code, Err(status.into())),
            };
            first = false;
            match outcome {
                Ok(()) => {}
                Err(Failure::Told(status)) => return status,
                Err(Failure::Status(status)) => {
                    let status = in_words_of(run.minor, status);
                    answer.fail(code, status);
                    return status;
                }
            }
        }
        Status::Ok
    }

    fn evaluate_one(
        &mut self,
        op: &Op<'_>,
        first: bool,
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        let code = op.code();
        self.counters.nfs4_operation(code.number());
        let planned = self.planned_error(FaultedCalls::V4(code.number()), first);
        if let Some(status) = planned {
            if !(run.minor == 0 && code.has_owner_seqid()) {
                return Err(status.into());
            }
            run.planned = Some(status);
        }
        let mark = answer.mark();
        // What changes something must not be found too long afterwards.
        answer.check_room(if code.changes() { NFS4_CHANGE_RESULT_BYTES } else { 0 })?;
        self.dispatch(op, run, answer)?;
        if let Err(status) = answer.check_room(0) {
            answer.rewind(mark);
            return Err(status.into());
        }
        Ok(())
    }

    fn dispatch(&mut self, op: &Op<'_>, run: &mut Run<'_>, answer: &mut Answer<'_>) -> Outcome {
        match op {
            Op::Putfh { .. }
            | Op::Putpubfh
            | Op::Putrootfh
            | Op::Getfh
            | Op::Savefh
            | Op::Restorefh
            | Op::Getattr { .. }
            | Op::Verify { .. }
            | Op::Nverify { .. }
            | Op::Access { .. }
            | Op::Readlink
            | Op::Secinfo { .. }
            | Op::SecinfoNoName { .. } => self.object(op, run, answer),
            Op::Lookup { .. }
            | Op::Lookupp
            | Op::Create { .. }
            | Op::Link { .. }
            | Op::Remove { .. }
            | Op::Rename { .. } => self.name(op, run, answer),
            Op::Readdir { .. } => self.directory_page(op, run, answer),
            Op::Read { .. } | Op::Write { .. } | Op::Commit { .. } | Op::Setattr { .. } => {
                self.data(op, run, answer)
            }
            Op::Allocate { .. }
            | Op::Deallocate { .. }
            | Op::Seek { .. }
            | Op::ReadPlus { .. }
            | Op::Copy { .. }
            | Op::IoAdvise { .. } => self.sparse(op, run, answer),
            Op::Open { .. }
            | Op::OpenConfirm { .. }
            | Op::OpenDowngrade { .. }
            | Op::Close { .. } => self.opening(op, run, answer),
            Op::Lock { .. }
            | Op::Lockt { .. }
            | Op::Locku { .. }
            | Op::ReleaseLockowner { .. }
            | Op::FreeStateid { .. }
            | Op::TestStateid { .. } => self.locking(op, run, answer),
            Op::Setclientid { .. } | Op::SetclientidConfirm { .. } | Op::Renew { .. } => {
                self.client(op, run, answer)
            }
            Op::ExchangeId { .. }
            | Op::CreateSession { .. }
            | Op::DestroySession { .. }
            | Op::BindConnToSession { .. }
            | Op::BackchannelCtl { .. }
            | Op::DestroyClientid { .. }
            | Op::ReclaimComplete { .. } => self.session(op, run, answer),
            Op::Sequence { .. } => Err(Status::SequencePos.into()),
            Op::Delegreturn { .. } => Err(Status::BadStateid.into()),
            Op::Delegpurge { .. }
            | Op::Openattr { .. }
            | Op::OffloadCancel { .. }
            | Op::OffloadStatus { .. }
            | Op::Clone { .. } => Err(Status::NotSupp.into()),
        }
    }
}

/// Places a call on its slot, within what the session allows.
fn place(
    session: &Session,
    slot: &Slot,
    (sequence, cache_this): (u32, bool),
    asked: Asked,
) -> Result<SlotTurn, Status> {
    let Asked { operations, bytes } = asked;
    let turn = slot.turn(sequence)?;
    if turn != SlotTurn::New && slot.is_false_retry(asked) {
        return Err(Status::SeqFalseRetry);
    }
    let is_new = turn == SlotTurn::New;
    if is_new && operations > session.fore.operations_max {
        return Err(Status::TooManyOps);
    }
    if is_new && bytes > session.fore.request_bytes_max as usize {
        return Err(Status::ReqTooBig);
    }
    if is_new && cache_this && !session.can_keep(slot) {
        return Err(Status::Jukebox);
    }
    Ok(turn)
}

/// Answers a call that came again and whose reply was not asked to be kept.
fn not_kept(ops: &mut Ops<'_>, answer: &mut Answer<'_>) -> Status {
    let code = match ops.next() {
        None => return Status::Ok,
        Some(Ok(op)) => op.code(),
        Some(Err(bad)) => bad.code,
    };
    answer.result(&OpResult::Failed(code, Status::RetryUncachedRep));
    Status::RetryUncachedRep
}

/// The status as a minor version knows it. **Source:** RFC 8881 section 15.1.16 (obsolete errors).
fn in_words_of(minor: u32, status: Status) -> Status {
    match status {
        Status::Resource if minor > 0 => Status::Jukebox,
        other => other,
    }
}
