//! LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER, FREE_STATEID and TEST_STATEID.
//!
//! **Source:** RFC 7530 sections 16.10 to 16.12 and 16.37, RFC 8881 sections 18.38 and 18.48.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::{
    ClientId, Denied as WireDenied, List, LockType, Locker, OpCode, OpOk, OpResult, StateOwner,
    Stateid,
};

use super::answer::Failure;
use super::numbered_calls::NumberedCall;
use super::state::{
    Client, ConflictingLock, LockMode, LockRefusal, LockRequest, OwnerKind, Requester, Span, State,
};
use super::{Outcome, Run};
use crate::service::Service;

/// Whether a LOCK is new, or reclaims one from before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locking {
    New,
    Reclaim,
}

/// LOCK by an owner that is new to the file.
#[derive(Clone, Copy, Debug)]
struct NewLocker<'a> {
    open_seqid: u32,
    lock_seqid: u32,
    owner: &'a [u8],
}

/// The lock that LOCK requests.
#[derive(Clone, Copy, Debug)]
struct WantedLock {
    span: Span,
    mode: LockMode,
}

impl WantedLock {
    /// Returns the lock as a request of an owner.
    fn request_of(self, owner: &[u8]) -> LockRequest<'_> {
        LockRequest { owner, span: self.span, mode: self.mode }
    }
}

impl Service {
    /// Refuses a LOCK at the wrong time: new locks wait for the end of the grace period, and
    /// nothing can be reclaimed after it (RFC 7530 section 9.6.2).
    fn check_grace(&self, locking: Locking, run: &Run<'_>) -> Result<(), Status> {
        match (locking, self.tables().is_in_grace(run.now_ns)) {
            // A client that reclaims a lock has already reclaimed the open it belongs to.
            (Locking::Reclaim, true) | (Locking::New, false) => Ok(()),
            (Locking::Reclaim, false) => Err(Status::NoGrace),
            (Locking::New, true) => Err(Status::Grace),
        }
    }

    pub(super) fn op_lock(
        &mut self,
        lock_type: LockType,
        locking: Locking,
        offset: u64,
        length: u64,
        locker: &Locker<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        run.current()?;
        let span = Span::new(offset, length)?;
        self.check_grace(locking, run)?;
        self.lock_by(locker, WantedLock { span, mode: mode_of(lock_type) }, run)?;
        if locking == Locking::Reclaim {
            self.tables().note_reclaim(run.now_ns);
        }
        Ok(())
    }

    pub(super) fn op_lockt(
        &mut self,
        lock_type: LockType,
        offset: u64,
        length: u64,
        owner: &StateOwner<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let span = Span::new(offset, length)?;
        let request = LockRequest { owner: owner.owner, span, mode: mode_of(lock_type) };
        let file = run.current()?;
        self.check_regular(file)?;
        let client = self.client_of(owner, run)?;
        match self.tables().test_lock(client.id, file, request, run.now_ns) {
            Ok(()) => run.succeed(&OpOk::Lockt),
            Err(denied) => Err(deny_lock(OpCode::Lockt, &denied, run)),
        }
    }

    pub(super) fn op_release_lockowner(
        &mut self,
        owner: &StateOwner<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let ClientId(id) = owner.client;
        let client = self.tables().client(id, run.now_ns)?;
        client.renew(run.now_ns);
        self.tables().release_lock_owner(&client, owner.owner)?;
        run.succeed(&OpOk::ReleaseLockowner)
    }

    pub(super) fn op_free_stateid(&mut self, stateid: Stateid, run: &mut Run<'_>) -> Outcome {
        let stateid = run.resolve_stateid(stateid)?;
        let state = self.tables().find_state(&stateid, run.requester(), run.now_ns)?;
        self.tables().free_state(&state)?;
        run.succeed(&OpOk::FreeStateid)
    }

    fn lock_by(&mut self, locker: &Locker<'_>, what: WantedLock, run: &mut Run<'_>) -> Outcome {
        match *locker {
            Locker::New { open_seqid, open, lock_seqid, owner } => {
                let open = run.resolve_stateid(open)?;
                let state = self.tables().find_state(&open, run.requester(), run.now_ns)?;
                if run.minor == 0 && owner.client != ClientId(state.client.id) {
                    return Err(Status::StaleClientId.into());
                }
                let new = NewLocker { open_seqid, lock_seqid, owner: owner.owner };
                if run.minor > 0 {
                    return self.set_lock(&state, open, what.request_of(new.owner), run);
                }
                self.lock_first(&state, open, new, what, run)
            }
            Locker::Existing { lock, lock_seqid } => {
                let stateid = run.resolve_stateid(lock)?;
                let state = self.tables().find_state(&stateid, run.requester(), run.now_ns)?;
                if state.kind() != OwnerKind::Lock {
                    return Err(Status::BadStateid.into());
                }
                let owner = Arc::clone(&state.owner);
                let act = |service: &mut Self, run: &mut Run<'_>| {
                    service.set_lock(&state, stateid, what.request_of(&owner), run)
                };
                self.carry_out_in_turn(OpCode::Lock, &state, lock_seqid, run, act)
            }
        }
    }

    /// The first LOCK of an owner in v4.0: numbered by both the open owner and the lock owner.
    fn lock_first(
        &mut self,
        state: &Arc<State>,
        open: Stateid,
        new: NewLocker<'_>,
        what: WantedLock,
        run: &mut Run<'_>,
    ) -> Outcome {
        if state.kind() != OwnerKind::Open {
            return Err(Status::BadStateid.into());
        }
        let act = |service: &mut Self, run: &mut Run<'_>| {
            let client = &state.client;
            let now_ns = run.now_ns;
            service.tables().begin_lock(client, new.owner, new.lock_seqid, now_ns)?;
            let call = NumberedCall {
                code: OpCode::Lock,
                client,
                kind: OwnerKind::Lock,
                owner: new.owner,
                sequence: new.lock_seqid,
            };
            service.carry_out_numbered(call, run, |service, run| {
                service.set_lock(state, open, what.request_of(new.owner), run)
            })
        };
        self.carry_out_in_turn(OpCode::Lock, state, new.open_seqid, run, act)
    }

    fn set_lock(
        &mut self,
        state: &Arc<State>,
        stateid: Stateid,
        request: LockRequest<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let requester = run.requester();
        let file = run.current()?;
        self.tables().find_on(&stateid, requester, file, run.now_ns)?;
        match self.tables().lock_range(state, request, run.now_ns) {
            Ok(stateid) => {
                run.stateid = Some(stateid);
                run.succeed(&OpOk::Lock { stateid })
            }
            Err(LockRefusal::Denied(denied)) => Err(deny_lock(OpCode::Lock, &denied, run)),
            Err(LockRefusal::Status(status)) => Err(status.into()),
        }
    }

    /// The client that an owner belongs to: that of the session, or the one in the request.
    fn client_of(&self, owner: &StateOwner<'_>, run: &Run<'_>) -> Result<Arc<Client>, Status> {
        if let Some(session) = run.session {
            return Ok(Arc::clone(&session.client));
        }
        let ClientId(id) = owner.client;
        let client = self.tables().client(id, run.now_ns)?;
        client.renew(run.now_ns);
        Ok(client)
    }

    pub(super) fn op_locku(
        &mut self,
        stateid: Stateid,
        sequence: u32,
        offset: u64,
        length: u64,
        run: &mut Run<'_>,
    ) -> Outcome {
        let file = run.current()?;
        let stateid = run.resolve_stateid(stateid)?;
        let state = self.tables().find_state(&stateid, run.requester(), run.now_ns)?;
        let act = |service: &mut Self, run: &mut Run<'_>| {
            service.tables().find_on(&stateid, run.requester(), file, run.now_ns)?;
            let next = service.tables().unlock_range(&state, Span::new(offset, length)?)?;
            run.stateid = Some(next);
            run.succeed(&OpOk::Locku { stateid: next })
        };
        self.carry_out_in_turn(OpCode::Locku, &state, sequence, run, act)
    }

    pub(super) fn op_test_stateid(
        &mut self,
        stateids: &List<'_, Stateid>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let Requester::Session(client) = run.requester() else {
            return Err(Status::OpNotInSession.into());
        };
        let mut page = std::mem::take(&mut self.page);
        let test = |stateid: Stateid| self.status_of(&stateid, client, run.now_ns);
        let statuses = List::build(&mut page, stateids.iter().map(test));
        run.answer.write_ok(&OpOk::TestStateid { statuses });
        self.page = page;
        Ok(())
    }

    fn status_of(&self, stateid: &Stateid, client: &Arc<Client>, now_ns: u64) -> Status {
        if stateid.is_special() {
            return Status::BadStateid;
        }
        match self.tables().test_stateid(stateid, client, now_ns) {
            Ok(()) => Status::Ok,
            Err(status) => status,
        }
    }
}

/// Answers with the conflicting lock.
fn deny_lock(code: OpCode, denied: &ConflictingLock, run: &mut Run<'_>) -> Failure {
    let values = WireDenied {
        offset: denied.span.first,
        length: denied.span.length(),
        lock_type: match denied.mode {
            LockMode::Exclusive => LockType::Write,
            LockMode::Shared => LockType::Read,
        },
        owner: StateOwner { client: ClientId(denied.client), owner: &denied.owner },
    };
    run.answer.write_op_result(&OpResult::Denied(code, values));
    Failure::Written(Status::Denied)
}

/// Blocking and non-blocking locks are treated alike: the client asks again (RFC 7530 section 9.4).
fn mode_of(lock_type: LockType) -> LockMode {
    match lock_type {
        LockType::Write | LockType::WriteBlocking => LockMode::Exclusive,
        LockType::Read | LockType::ReadBlocking => LockMode::Shared,
    }
}
