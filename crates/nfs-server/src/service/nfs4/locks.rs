//! LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER, FREE_STATEID and TEST_STATEID.
//!
//! **Source:** RFC 7530 sections 16.10 to 16.12 and 16.37, RFC 8881 sections 18.38 and 18.48.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::{
    ClientId, Denied as WireDenied, List, LockType, Locker, Op, OpCode, OpOk, OpResult, StateOwner,
    Stateid,
};

use super::answer::{Answer, Failure};
use super::numbered::Numbered;
use super::state::{Client, Denied, LockAsk, OwnerKind, Refused, Span, Speaker, State, Tables};
use super::{Outcome, Run};
use crate::service::Service;

/// LOCK by an owner that is new to the file.
#[derive(Clone, Copy, Debug)]
struct NewLocker<'a> {
    open_seqid: u32,
    lock_seqid: u32,
    owner: &'a [u8],
}

impl Service {
    /// Carries out an operation on locks.
    pub(super) fn locking(
        &mut self,
        op: &Op<'_>,
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        match *op {
            Op::Lock { lock_type, reclaim, offset, length, locker } => {
                run.current()?;
                let span = Span::new(offset, length)?;
                // Whoever reclaims a lock has reclaimed the open that it is under.
                match (reclaim, self.tables().is_in_grace(run.now_ns)) {
                    (true, false) => return Err(Status::NoGrace.into()),
                    (false, true) => return Err(Status::Grace.into()),
                    (true, true) | (false, false) => {}
                }
                self.lock(&locker, (span, is_exclusive(lock_type)), run, answer)
            }
            Op::Lockt { lock_type, offset, length, owner } => {
                let span = Span::new(offset, length)?;
                let exclusive = is_exclusive(lock_type);
                let ask = LockAsk { owner: owner.owner, span, exclusive };
                self.lockt(&owner, ask, run, answer)
            }
            Op::Locku { seqid, stateid, offset, length, .. } => {
                self.locku((stateid, seqid), (offset, length), run, answer)
            }
            Op::ReleaseLockowner { owner } => {
                let ClientId(id) = owner.client;
                let client = self.tables().client(id, run.now_ns)?;
                Tables::renew(&client, run.now_ns);
                self.tables().release_lock_owner(&client, owner.owner)?;
                answer.ok(&OpOk::ReleaseLockowner);
                Ok(())
            }
            Op::FreeStateid { stateid } => {
                let stateid = run.meant(stateid)?;
                let state = self.tables().find(&stateid, run.speaker(), run.now_ns)?;
                self.tables().free(&state)?;
                answer.ok(&OpOk::FreeStateid);
                Ok(())
            }
            Op::TestStateid { stateids } => self.test_stateids(&stateids, run, answer),
            _ => unreachable!("dispatch sends {:?} elsewhere", op.code()),
        }
    }

    fn lock(
        &mut self,
        locker: &Locker<'_>,
        what: (Span, bool),
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        match *locker {
            Locker::New { open_seqid, open, lock_seqid, owner } => {
                let open = run.meant(open)?;
                let state = self.tables().find(&open, run.speaker(), run.now_ns)?;
                if run.minor == 0 && owner.client != ClientId(state.client().id) {
                    return Err(Status::StaleClientId.into());
                }
                let new = NewLocker { open_seqid, lock_seqid, owner: owner.owner };
                if run.minor > 0 {
                    return self.set_lock(&state, (open, new.owner), what, run, answer);
                }
                self.lock_first((&state, open), new, what, run, answer)
            }
            Locker::Existing { lock, lock_seqid } => {
                let stateid = run.meant(lock)?;
                let state = self.tables().find(&stateid, run.speaker(), run.now_ns)?;
                if state.kind() != OwnerKind::Lock {
                    return Err(Status::BadStateid.into());
                }
                let owner = Arc::clone(state.owner());
                let act = |service: &mut Self, run: &mut Run<'_>, answer: &mut Answer<'_>| {
                    service.set_lock(&state, (stateid, &owner), what, run, answer)
                };
                self.in_turn(OpCode::Lock, (&state, lock_seqid), run, answer, act)
            }
        }
    }

    /// The first LOCK of an owner in v4.0: a call of the open's owner and of its own.
    fn lock_first(
        &mut self,
        (state, open): (&Arc<State>, Stateid),
        new: NewLocker<'_>,
        what: (Span, bool),
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        if state.kind() != OwnerKind::Open {
            return Err(Status::BadStateid.into());
        }
        let act = |service: &mut Self, run: &mut Run<'_>, answer: &mut Answer<'_>| {
            let (client, now_ns) = (state.client(), run.now_ns);
            service.tables().begin_lock(client, new.owner, new.lock_seqid, now_ns)?;
            let (code, kind) = (OpCode::Lock, OwnerKind::Lock);
            let (owner, sequence) = (new.owner, new.lock_seqid);
            let call = Numbered { code, client, kind, owner, sequence };
            service.carry_out_numbered(call, run, answer, |service, run, answer| {
                service.set_lock(state, (open, new.owner), what, run, answer)
            })
        };
        self.in_turn(OpCode::Lock, (state, new.open_seqid), run, answer, act)
    }

    /// Carries out a call of a state's owner, in its turn where calls are numbered.
    fn in_turn(
        &mut self,
        code: OpCode,
        (state, sequence): (&Arc<State>, u32),
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
        act: impl FnOnce(&mut Self, &mut Run<'_>, &mut Answer<'_>) -> Outcome,
    ) -> Outcome {
        if run.minor > 0 {
            return act(self, run, answer);
        }
        if !self.begin_numbered(code, state, sequence, run, answer)? {
            return Ok(());
        }
        let (client, owner) = (state.client(), state.owner());
        let call = Numbered { code, client, kind: state.kind(), owner, sequence };
        self.carry_out_numbered(call, run, answer, act)
    }

    fn set_lock(
        &mut self,
        state: &Arc<State>,
        (stateid, owner): (Stateid, &[u8]),
        (span, exclusive): (Span, bool),
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        let (speaker, file) = (run.speaker(), run.current()?);
        self.tables().find_on(&stateid, speaker, file, run.now_ns)?;
        match self.tables().lock(state, LockAsk { owner, span, exclusive }, run.now_ns) {
            Ok(stateid) => {
                run.stateid = Some(stateid);
                answer.ok(&OpOk::Lock { stateid });
                Ok(())
            }
            Err(Refused::Denied(denied)) => Err(tell_denied(OpCode::Lock, &denied, answer)),
            Err(Refused::Status(status)) => Err(status.into()),
        }
    }

    fn lockt(
        &mut self,
        owner: &StateOwner<'_>,
        ask: LockAsk<'_>,
        run: &Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        let file = run.current()?;
        self.check_regular(file)?;
        let client = self.client_of(owner, run)?;
        match self.tables().test_lock(client.id, file, ask, run.now_ns) {
            Ok(()) => {
                answer.ok(&OpOk::Lockt);
                Ok(())
            }
            Err(denied) => Err(tell_denied(OpCode::Lockt, &denied, answer)),
        }
    }

    /// The client that an owner belongs to: that of the session, or the one that is named.
    fn client_of(&self, owner: &StateOwner<'_>, run: &Run<'_>) -> Result<Arc<Client>, Status> {
        if let Some(session) = run.session {
            return Ok(Arc::clone(&session.client));
        }
        let ClientId(id) = owner.client;
        let client = self.tables().client(id, run.now_ns)?;
        Tables::renew(&client, run.now_ns);
        Ok(client)
    }

    fn locku(
        &mut self,
        (stateid, sequence): (Stateid, u32),
        (offset, length): (u64, u64),
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        let file = run.current()?;
        let stateid = run.meant(stateid)?;
        let state = self.tables().find(&stateid, run.speaker(), run.now_ns)?;
        let act = |service: &mut Self, run: &mut Run<'_>, answer: &mut Answer<'_>| {
            service.tables().find_on(&stateid, run.speaker(), file, run.now_ns)?;
            let next = service.tables().unlock(&state, Span::new(offset, length)?)?;
            run.stateid = Some(next);
            answer.ok(&OpOk::Locku { stateid: next });
            Ok(())
        };
        self.in_turn(OpCode::Locku, (&state, sequence), run, answer, act)
    }

    fn test_stateids(
        &mut self,
        stateids: &List<'_, Stateid>,
        run: &Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        let Speaker::Session(client) = run.speaker() else {
            return Err(Status::OpNotInSession.into());
        };
        let mut page = std::mem::take(&mut self.page);
        let test = |stateid: Stateid| {
            let tested = if stateid.is_special() {
                Err(Status::BadStateid)
            } else {
                self.tables().test(&stateid, client, run.now_ns)
            };
            tested.err().unwrap_or(Status::Ok)
        };
        let statuses = List::build(&mut page, stateids.iter().map(test));
        answer.ok(&OpOk::TestStateid { statuses });
        self.page = page;
        Ok(())
    }
}

/// Tells of the lock that is in the way.
fn tell_denied(code: OpCode, denied: &Denied, answer: &mut Answer<'_>) -> Failure {
    let told = WireDenied {
        offset: denied.span.first,
        length: denied.span.length(),
        lock_type: if denied.exclusive { LockType::Write } else { LockType::Read },
        owner: StateOwner { client: ClientId(denied.client), owner: &denied.owner },
    };
    answer.result(&OpResult::Denied(code, told));
    Failure::Told(Status::Denied)
}

fn is_exclusive(lock_type: LockType) -> bool {
    matches!(lock_type, LockType::Write | LockType::WriteBlocking)
}
