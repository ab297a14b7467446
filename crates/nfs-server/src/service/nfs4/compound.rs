//! COMPOUND: operations one by one, up to the first that fails.
//!
//! In v4.1 and later SEQUENCE comes first and takes a slot for the whole compound: the slot is
//! locked until the reply is cached, so a repeated call gets the reply of the first.
//!
//! **Source:** RFC 7530 section 15.2, RFC 8881 sections 2.10.6, 16.2 and 18.46.

use std::sync::{Arc, MutexGuard};

use nfs_proto::nfs4::{BadOp, Call, Compound, Op, OpCode, OpOk, OpResult, Ops, SessionId};
use nfs_proto::server::encode_reply;
use nfs_proto::{Status, program};

use super::answer::{CompoundAnswer, Failure};
use super::layouts::{WantedLayout, WrittenRange};
use super::locks::Locking;
use super::opens::ShareBits;
use super::sessions::{Channels, SessionCreation};
use super::sparse::CopyEnd;
use super::state::{CallFingerprint, CallbackCaller, Session, Slot, SlotTurn};
use super::{Outcome, Run};
use crate::clock::monotonic_ns;
use crate::fault::{CallPart, FaultedCalls};
use crate::fs::Context;
use crate::limits::{NFS4_CHANGE_RESULT_BYTES, NFS4_OPERATIONS_MAX, NFS4_REPLY_BYTES_MAX};
use crate::origin::Origin;
use crate::outbox::Outbox;
use crate::service::Service;

impl Service {
    /// Executes one call and appends its reply.
    pub(crate) fn answer_nfs4(
        &mut self,
        call: &Call<'_>,
        context: Context,
        xid: u32,
        origin: &Origin,
        out: &mut Outbox,
    ) {
        let Call::Compound(compound) = call else {
            let reply = program::Reply::Nfs4(nfs_proto::nfs4::Reply::Null);
            return encode_reply(out.head(), xid, &reply);
        };
        self.counters.nfs4_compounds.add(1);
        let answer = CompoundAnswer::begin(out, xid, compound.tag, NFS4_REPLY_BYTES_MAX);
        let mut run = Run {
            minor: compound.minor,
            context,
            line: origin.line.as_ref(),
            local_ip: origin.local_ip,
            now_ns: monotonic_ns(),
            answer,
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
            0 if versions.v4_0 && compound.count() > NFS4_OPERATIONS_MAX => Status::Resource,
            0 if versions.v4_0 => self.evaluate_all(compound.ops(), &mut run),
            1 if versions.v4_1 => return self.start_v4_1(compound, run),
            2 if versions.v4_2 => return self.start_v4_1(compound, run),
            _ => Status::MinorVersMismatch,
        };
        self.finish_reply(run, status);
    }

    /// Finishes the reply of a compound; returns its results if they are in one buffer.
    fn finish_reply<'o>(&self, run: Run<'o>, status: Status) -> &'o [u8] {
        if status != Status::Ok {
            self.counters.error(status);
        }
        run.answer.finish(status)
    }

    /// Executes a compound of v4.1 or later: in a session, or a single operation outside of one.
    fn start_v4_1(&mut self, compound: &Compound<'_>, mut run: Run<'_>) {
        let status = match compound.ops().next() {
            Some(Ok(Op::Sequence {
                session: SessionId(session),
                sequence,
                slot,
                cache_this,
                ..
            })) => {
                let place = SlotPosition { session, sequence, slot, cache_this };
                return self.carry_out_in_session(compound, place, run);
            }
            None => Status::Ok,
            Some(Ok(op)) if !op.code().is_sessionless() => {
                run.answer.write_failure(op.code(), Status::OpNotInSession);
                Status::OpNotInSession
            }
            Some(Ok(op)) if compound.count() > 1 => {
                run.answer.write_failure(op.code(), Status::NotOnlyOp);
                Status::NotOnlyOp
            }
            Some(_) => self.evaluate_all(compound.ops(), &mut run),
        };
        self.finish_reply(run, status);
    }

    /// Executes a compound that starts with SEQUENCE, which either fails or selects the session.
    fn carry_out_in_session(
        &mut self,
        compound: &Compound<'_>,
        place: SlotPosition,
        mut run: Run<'_>,
    ) {
        self.counters.nfs4_operation(OpCode::Sequence.number());
        let found = self.tables().find_session(place.session, run.now_ns);
        let failed = match found {
            Ok(session) => match session.lock_slot(place.slot) {
                // The slot is locked until the reply is cached.
                Ok(slot) => return self.carry_out_on_slot(compound, place, &session, slot, run),
                Err(status) => status,
            },
            Err(status) => status,
        };
        run.answer.write_failure(OpCode::Sequence, failed);
        self.finish_reply(run, failed);
    }

    /// Executes a compound on the slot that its SEQUENCE names.
    fn carry_out_on_slot(
        &mut self,
        compound: &Compound<'_>,
        place: SlotPosition,
        session: &Arc<Session>,
        mut slot: MutexGuard<'_, Slot>,
        run: Run<'_>,
    ) {
        let mut run = Run { session: Some(session), ..run };
        let fingerprint = CallFingerprint { operations: compound.count(), bytes: self.call_bytes };
        let turn = match place_on_slot(session, &slot, place, fingerprint) {
            Ok(SlotTurn::Kept) => return run.answer.finish_as(slot.reply()),
            Ok(turn) => turn,
            Err(status) => {
                if status == Status::Jukebox {
                    self.shared.memory.note_client_refused();
                }
                return self.refuse_sequence(run, status);
            }
        };
        run.answer.set_limit(session.fore.response_bytes_max as usize, Status::RepTooBig);
        if place.cache_this {
            let kept_bytes_max = session.fore.cached_bytes_max.min(session.fore.response_bytes_max);
            run.answer.set_limit(kept_bytes_max as usize, Status::RepTooBigToCache);
            run.answer.whole = true;
        }
        // SEQUENCE itself may exceed the limit, so its result is written and measured first: the
        // slot must not advance for a call that fails here (RFC 8881 section 18.46.3).
        let mark = run.answer.mark();
        let highest = session.slot_highest();
        run.answer.write_ok(&OpOk::Sequence {
            session: SessionId(place.session),
            sequence: place.sequence,
            slot: place.slot,
            highest_slot: highest,
            target_highest_slot: highest,
            flags: session.client.status_flags(),
        });
        if let Err(status) = run.answer.check_room(0) {
            run.answer.rewind(mark);
            return self.refuse_sequence(run, status);
        }
        let mut ops = compound.ops();
        ops.next();
        if turn == SlotTurn::NotKept {
            let status = not_kept(&mut ops, &mut run.answer);
            self.finish_reply(run, status);
            return;
        }
        slot.begin_call(place.sequence, fingerprint);
        let status = self.evaluate_all(ops, &mut run);
        let results = self.finish_reply(run, status);
        if place.cache_this {
            session.keep_reply(&mut slot, results);
        }
    }

    /// Answers a compound whose SEQUENCE fails.
    fn refuse_sequence(&self, mut run: Run<'_>, status: Status) {
        run.answer.write_failure(OpCode::Sequence, status);
        self.finish_reply(run, status);
    }

    /// Executes operations up to the first that fails; returns the status of the last.
    fn evaluate_all(&mut self, mut ops: Ops<'_>, run: &mut Run<'_>) -> Status {
        // The results up to the failed operation are kept: a compound is not a transaction, and
        // earlier operations are not undone (RFC 7530 section 15.2).
        let mut part = CallPart::First;
        while let Some(op) = ops.next() {
            run.left = ops.left();
            let (code, outcome) = match op {
                Ok(op) => (op.code(), self.evaluate_one(&op, part, run)),
                Err(BadOp { code, status }) => (code, Err(status.into())),
            };
            part = CallPart::Further;
            match outcome {
                Ok(()) => {}
                Err(Failure::Written(status)) => return status,
                Err(Failure::Status(status)) => {
                    let status = status_in_minor(run.minor, status);
                    run.answer.write_failure(code, status);
                    return status;
                }
            }
        }
        Status::Ok
    }

    fn evaluate_one(&mut self, op: &Op<'_>, part: CallPart, run: &mut Run<'_>) -> Outcome {
        let code = op.code();
        self.counters.nfs4_operation(code.number());
        let planned = self.planned_error(FaultedCalls::V4(code.number()), part);
        // An owner's numbered call in v4.0 advances its sequence even if it fails, so its error is
        // returned later, by the code that keeps the reply for a retransmission.
        if let Some(status) = planned {
            if !(run.minor == 0 && code.has_owner_seqid()) {
                return Err(status.into());
            }
            run.planned = Some(status);
        }
        let mark = run.answer.mark();
        // An operation that changes something can't be undone, so its result must fit before it is
        // executed; any other result is rewound if it turns out too long.
        run.answer.check_room(if code.changes() { NFS4_CHANGE_RESULT_BYTES } else { 0 })?;
        self.carry_out_operation(op, run)?;
        if let Err(status) = run.answer.check_room(0) {
            run.answer.rewind(mark);
            return Err(status.into());
        }
        Ok(())
    }

    /// Executes an operation on data, or passes it on: each operation has one arm in this function
    /// or the next two. Operations without an arm are not supported.
    fn carry_out_operation(&mut self, op: &Op<'_>, run: &mut Run<'_>) -> Outcome {
        match *op {
            Op::Allocate { stateid, offset, length } => {
                self.op_allocate(stateid, offset, length, run)
            }
            Op::Clone { source, destination, source_offset, destination_offset, count } => {
                let from = CopyEnd { stateid: source, offset: source_offset };
                let to = CopyEnd { stateid: destination, offset: destination_offset };
                self.op_clone(from, to, count, run)
            }
            Op::Commit { offset, count } => self.op_commit(offset, count, run),
            Op::Copy {
                source,
                destination,
                source_offset,
                destination_offset,
                count,
                synchronous,
                ref servers,
                ..
            } => {
                let from = CopyEnd { stateid: source, offset: source_offset };
                let to = CopyEnd { stateid: destination, offset: destination_offset };
                self.op_copy(from, to, count, synchronous, servers, run)
            }
            Op::Deallocate { stateid, offset, length } => {
                self.op_deallocate(stateid, offset, length, run)
            }
            Op::IoAdvise { stateid, .. } => self.op_io_advise(stateid, run),
            Op::OffloadCancel { stateid } => self.op_offload_cancel(stateid, run),
            Op::OffloadStatus { stateid } => self.op_offload_status(stateid, run),
            Op::Read { stateid, offset, count } => self.op_read(stateid, offset, count, run),
            Op::ReadPlus { stateid, offset, count } => {
                self.op_read_plus(stateid, offset, count, run)
            }
            Op::Seek { stateid, offset, what } => self.op_seek(stateid, offset, what, run),
            Op::Setattr { stateid, attributes } => self.op_setattr(stateid, &attributes, run),
            Op::Write { stateid, offset, stable, data } => {
                self.op_write(stateid, offset, stable, data, run)
            }
            _ => self.carry_out_on_object(op, run),
        }
    }

    /// Executes an operation on the current object or its names, or passes it on.
    fn carry_out_on_object(&mut self, op: &Op<'_>, run: &mut Run<'_>) -> Outcome {
        match *op {
            Op::Access { access } => self.op_access(access, run),
            Op::Create { kind, name, attributes } => self.op_create(kind, name, &attributes, run),
            Op::Getattr { request } => self.op_getattr(request, run),
            Op::Getfh => self.op_getfh(run),
            Op::Getxattr { name } => self.op_getxattr(name, run),
            Op::Link { name } => self.op_link(name, run),
            Op::Listxattrs { cookie, maxcount } => self.op_listxattrs(cookie, maxcount, run),
            Op::Lookup { name } => self.op_lookup(name, run),
            Op::Lookupp => self.op_lookupp(run),
            Op::Nverify { attributes } => self.op_verify(&attributes, &OpOk::Nverify, run),
            Op::Putfh { file } => self.op_putfh(&file, run),
            Op::Putpubfh => run.put_handle(self.shared.fs.root(), &OpOk::Putpubfh),
            Op::Putrootfh => run.put_handle(self.shared.fs.root(), &OpOk::Putrootfh),
            Op::Readdir { cookie, verifier, dircount, maxcount, request } => {
                self.op_readdir(cookie, verifier, dircount, maxcount, request, run)
            }
            Op::Readlink => self.op_readlink(run),
            Op::Remove { name } => self.op_remove(name, run),
            Op::Removexattr { name } => self.op_removexattr(name, run),
            Op::Rename { from, to } => self.op_rename(from, to, run),
            Op::Restorefh => run.restore_handle(),
            Op::Savefh => run.save_handle(),
            Op::Secinfo { name } => self.op_secinfo(name, run),
            Op::SecinfoNoName { style } => self.op_secinfo_no_name(style, run),
            Op::Setxattr { option, name, value } => self.op_setxattr(option, name, value, run),
            Op::Verify { attributes } => self.op_verify(&attributes, &OpOk::Verify, run),
            _ => self.carry_out_on_state(op, run),
        }
    }

    /// Executes an operation on the state of a client: sessions, opens, locks.
    fn carry_out_on_state(&mut self, op: &Op<'_>, run: &mut Run<'_>) -> Outcome {
        match *op {
            Op::BackchannelCtl { callback_program, security } => {
                Self::op_backchannel_ctl(callback_program, &security, run)
            }
            Op::BindConnToSession { session, direction, .. } => {
                self.op_bind_conn_to_session(session, direction, run)
            }
            Op::Close { seqid, stateid } => self.op_close(stateid, seqid, run),
            Op::CreateSession {
                client,
                sequence,
                flags,
                fore,
                back,
                callback_program,
                ref security,
            } => {
                let channels = Channels { fore, back };
                let caller = CallbackCaller::new(callback_program, run.minor, security);
                self.op_create_session(
                    client,
                    SessionCreation { sequence, flags },
                    channels,
                    caller,
                    run,
                )
            }
            Op::Delegreturn { stateid } => self.op_delegreturn(stateid, run),
            Op::DestroyClientid { client } => self.op_destroy_clientid(client, run),
            Op::DestroySession { session } => self.op_destroy_session(session, run),
            Op::ExchangeId { owner, flags, protection, .. } => {
                self.op_exchange_id(&owner, flags, protection, run)
            }
            Op::FreeStateid { stateid } => self.op_free_stateid(stateid, run),
            Op::Getdeviceinfo { .. }
            | Op::Layoutget { .. }
            | Op::Layoutcommit { .. }
            | Op::Layoutreturn { .. }
            | Op::Layouterror { .. }
            | Op::Layoutstats { .. } => self.carry_out_on_layouts(op, run),
            Op::Lock { lock_type, reclaim, offset, length, locker } => {
                let locking = if reclaim { Locking::Reclaim } else { Locking::New };
                self.op_lock(lock_type, locking, offset, length, &locker, run)
            }
            Op::Lockt { lock_type, offset, length, owner } => {
                self.op_lockt(lock_type, offset, length, &owner, run)
            }
            Op::Locku { seqid, stateid, offset, length, .. } => {
                self.op_locku(stateid, seqid, offset, length, run)
            }
            Op::Open { seqid, share_access, share_deny, owner, how, claim } => {
                let shares = ShareBits { access: share_access, deny: share_deny };
                self.op_open(&owner, seqid, shares, how, claim, run)
            }
            Op::OpenConfirm { stateid, seqid } => self.op_open_confirm(stateid, seqid, run),
            Op::OpenDowngrade { stateid, seqid, share_access, share_deny } => {
                let shares = ShareBits { access: share_access, deny: share_deny };
                self.op_open_downgrade(stateid, seqid, shares, run)
            }
            // For a single file system (after a migration) there is nothing to record.
            Op::ReclaimComplete { one_fs: true } => {
                run.current()?;
                run.succeed(&OpOk::ReclaimComplete)
            }
            Op::ReclaimComplete { one_fs: false } => self.op_reclaim_complete(run),
            Op::ReleaseLockowner { owner } => self.op_release_lockowner(&owner, run),
            Op::Renew { client } => self.op_renew(client, run),
            // Valid only at the start of a compound, where it has already been handled.
            Op::Sequence { .. } => Err(Status::SequencePos.into()),
            Op::Setclientid { owner, callback_address, .. } => {
                self.op_setclientid(&owner, callback_address, run)
            }
            Op::SetclientidConfirm { client, confirm } => {
                self.op_setclientid_confirm(client, confirm, run)
            }
            Op::TestStateid { stateids } => self.op_test_stateid(&stateids, run),
            _ => Err(Status::NotSupp.into()),
        }
    }

    /// Executes an operation of pNFS.
    fn carry_out_on_layouts(&mut self, op: &Op<'_>, run: &mut Run<'_>) -> Outcome {
        match *op {
            Op::Getdeviceinfo { device, layout_type, maxcount, .. } => {
                self.op_getdeviceinfo(device, layout_type, maxcount, run)
            }
            Op::Layoutcommit { reclaim, stateid, last_write_offset, modified, .. } => {
                let written = WrittenRange { reclaim, last_offset: last_write_offset, modified };
                self.op_layoutcommit(stateid, written, run)
            }
            Op::Layouterror { ref errors, .. } => self.op_layouterror(errors, run),
            Op::Layoutget {
                layout_type,
                iomode,
                offset,
                length,
                min_length,
                stateid,
                maxcount,
                ..
            } => {
                let wanted =
                    WantedLayout { layout_type, iomode, offset, length, min_length, maxcount };
                self.op_layoutget(stateid, wanted, run)
            }
            Op::Layoutreturn { reclaim, layout_type, iomode, layouts } => {
                self.op_layoutreturn(reclaim, layout_type, iomode, layouts, run)
            }
            Op::Layoutstats { update, .. } => self.op_layoutstats(update, run),
            _ => Err(Status::NotSupp.into()),
        }
    }
}

/// The slot and sequence that SEQUENCE gives to a compound.
#[derive(Clone, Copy, Debug)]
struct SlotPosition {
    session: [u8; 16],
    sequence: u32,
    slot: u32,
    /// Whether the reply should be cached for a repeated call.
    cache_this: bool,
}

/// Determines how a call relates to its slot, within the session's limits.
fn place_on_slot(
    session: &Session,
    slot: &Slot,
    place: SlotPosition,
    fingerprint: CallFingerprint,
) -> Result<SlotTurn, Status> {
    let CallFingerprint { operations, bytes } = fingerprint;
    let turn = slot.place_call(place.sequence)?;
    if turn != SlotTurn::New && slot.is_false_retry(fingerprint) {
        return Err(Status::SeqFalseRetry);
    }
    let is_new = turn == SlotTurn::New;
    if is_new && operations > session.fore.operations_max {
        return Err(Status::TooManyOps);
    }
    if is_new && bytes > session.fore.request_bytes_max as usize {
        return Err(Status::ReqTooBig);
    }
    if is_new && place.cache_this && !session.can_keep(slot) {
        return Err(Status::Jukebox);
    }
    Ok(turn)
}

/// Answers a repeated call whose first reply was not cached.
fn not_kept(ops: &mut Ops<'_>, answer: &mut CompoundAnswer<'_>) -> Status {
    let code = match ops.next() {
        None => return Status::Ok,
        Some(Ok(op)) => op.code(),
        Some(Err(bad)) => bad.code,
    };
    answer.write_op_result(&OpResult::Failed(code, Status::RetryUncachedRep));
    Status::RetryUncachedRep
}

/// Converts a status for a minor version. **Source:** RFC 8881 section 15.1.16 (obsolete errors).
fn status_in_minor(minor: u32, status: Status) -> Status {
    match status {
        Status::Resource if minor > 0 => Status::Jukebox,
        other => other,
    }
}
