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

/// The lock that LOCK asks for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    span: Span,
    exclusive: bool,
}

impl Wanted {
    /// Returns the lock as asked for by an owner.
    fn of(self, owner: &[u8]) -> LockAsk<'_> {
        LockAsk { owner, span: self.span, exclusive: self.exclusive }
    }
}

impl Service {
    pub(super) fn lock4(
        &mut self,
        lock_type: LockType,
        reclaim: bool,
        offset: u64,
        length: u64,
        locker: &Locker<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        run.current()?;
        let span = Span::new(offset, length)?;
        // Whoever reclaims a lock has reclaimed the open that it is under.
        match (reclaim, self.tables().is_in_grace(run.now_ns)) {
            (true, false) => return Err(Status::NoGrace.into()),
            (false, true) => return Err(Status::Grace.into()),
            (true, true) | (false, false) => {}
        }
        self.lock(locker, Wanted { span, exclusive: is_exclusive(lock_type) }, run)
    }

    pub(super) fn test_lock4(
        &mut self,
        lock_type: LockType,
        offset: u64,
        length: u64,
        owner: &StateOwner<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let span = Span::new(offset, length)?;
        let ask = LockAsk { owner: owner.owner, span, exclusive: is_exclusive(lock_type) };
        let file = run.current()?;
        self.check_regular(file)?;
        let client = self.client_of(owner, run)?;
        match self.tables().test_lock(client.id, file, ask, run.now_ns) {
            Ok(()) => run.succeed(&OpOk::Lockt),
            Err(denied) => Err(tell_denied(OpCode::Lockt, &denied, run)),
        }
    }

    pub(super) fn release_lock_owner(
        &mut self,
        owner: &StateOwner<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let ClientId(id) = owner.client;
        let client = self.tables().client(id, run.now_ns)?;
        Tables::renew(&client, run.now_ns);
        self.tables().release_lock_owner(&client, owner.owner)?;
        run.succeed(&OpOk::ReleaseLockowner)
    }

    pub(super) fn free_stateid(&mut self, stateid: Stateid, run: &mut Run<'_>) -> Outcome {
        let stateid = run.meant(stateid)?;
        let state = self.tables().find(&stateid, run.speaker(), run.now_ns)?;
        self.tables().free(&state)?;
        run.succeed(&OpOk::FreeStateid)
    }

    fn lock(&mut self, locker: &Locker<'_>, what: Wanted, run: &mut Run<'_>) -> Outcome {
        match *locker {
            Locker::New { open_seqid, open, lock_seqid, owner } => {
                let open = run.meant(open)?;
                let state = self.tables().find(&open, run.speaker(), run.now_ns)?;
                if run.minor == 0 && owner.client != ClientId(state.client().id) {
                    return Err(Status::StaleClientId.into());
                }
                let new = NewLocker { open_seqid, lock_seqid, owner: owner.owner };
                if run.minor > 0 {
                    return self.set_lock(&state, open, what.of(new.owner), run);
                }
                self.lock_first(&state, open, new, what, run)
            }
            Locker::Existing { lock, lock_seqid } => {
                let stateid = run.meant(lock)?;
                let state = self.tables().find(&stateid, run.speaker(), run.now_ns)?;
                if state.kind() != OwnerKind::Lock {
                    return Err(Status::BadStateid.into());
                }
                let owner = Arc::clone(state.owner());
                let act = |service: &mut Self, run: &mut Run<'_>| {
                    service.set_lock(&state, stateid, what.of(&owner), run)
                };
                self.in_turn(OpCode::Lock, &state, lock_seqid, run, act)
            }
        }
    }

    /// The first LOCK of an owner in v4.0: a call of the open's owner and of its own.
    fn lock_first(
        &mut self,
        state: &Arc<State>,
        open: Stateid,
        new: NewLocker<'_>,
        what: Wanted,
        run: &mut Run<'_>,
    ) -> Outcome {
        if state.kind() != OwnerKind::Open {
            return Err(Status::BadStateid.into());
        }
        let act = |service: &mut Self, run: &mut Run<'_>| {
            let (client, now_ns) = (state.client(), run.now_ns);
            service.tables().begin_lock(client, new.owner, new.lock_seqid, now_ns)?;
            let (code, kind) = (OpCode::Lock, OwnerKind::Lock);
            let (owner, sequence) = (new.owner, new.lock_seqid);
            let call = Numbered { code, client, kind, owner, sequence };
            service.carry_out_numbered(call, run, |service, run| {
                service.set_lock(state, open, what.of(new.owner), run)
            })
        };
        self.in_turn(OpCode::Lock, state, new.open_seqid, run, act)
    }

    /// Carries out a call of a state's owner, in its turn where calls are numbered.
    fn in_turn(
        &mut self,
        code: OpCode,
        state: &Arc<State>,
        sequence: u32,
        run: &mut Run<'_>,
        act: impl FnOnce(&mut Self, &mut Run<'_>) -> Outcome,
    ) -> Outcome {
        if run.minor > 0 {
            return act(self, run);
        }
        if !self.begin_numbered(code, state, sequence, run)? {
            return Ok(());
        }
        let (client, owner) = (state.client(), state.owner());
        let call = Numbered { code, client, kind: state.kind(), owner, sequence };
        self.carry_out_numbered(call, run, act)
    }

    fn set_lock(
        &mut self,
        state: &Arc<State>,
        stateid: Stateid,
        ask: LockAsk<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (speaker, file) = (run.speaker(), run.current()?);
        self.tables().find_on(&stateid, speaker, file, run.now_ns)?;
        match self.tables().lock(state, ask, run.now_ns) {
            Ok(stateid) => {
                run.stateid = Some(stateid);
                run.succeed(&OpOk::Lock { stateid })
            }
            Err(Refused::Denied(denied)) => Err(tell_denied(OpCode::Lock, &denied, run)),
            Err(Refused::Status(status)) => Err(status.into()),
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

    pub(super) fn unlock4(
        &mut self,
        stateid: Stateid,
        sequence: u32,
        offset: u64,
        length: u64,
        run: &mut Run<'_>,
    ) -> Outcome {
        let file = run.current()?;
        let stateid = run.meant(stateid)?;
        let state = self.tables().find(&stateid, run.speaker(), run.now_ns)?;
        let act = |service: &mut Self, run: &mut Run<'_>| {
            service.tables().find_on(&stateid, run.speaker(), file, run.now_ns)?;
            let next = service.tables().unlock(&state, Span::new(offset, length)?)?;
            run.stateid = Some(next);
            run.succeed(&OpOk::Locku { stateid: next })
        };
        self.in_turn(OpCode::Locku, &state, sequence, run, act)
    }

    pub(super) fn test_stateids(
        &mut self,
        stateids: &List<'_, Stateid>,
        run: &mut Run<'_>,
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
        run.answer.ok(&OpOk::TestStateid { statuses });
        self.page = page;
        Ok(())
    }
}

/// Answers with the lock that is in the way.
fn tell_denied(code: OpCode, denied: &Denied, run: &mut Run<'_>) -> Failure {
    let told = WireDenied {
        offset: denied.span.first,
        length: denied.span.length(),
        lock_type: if denied.exclusive { LockType::Write } else { LockType::Read },
        owner: StateOwner { client: ClientId(denied.client), owner: &denied.owner },
    };
    run.answer.result(&OpResult::Denied(code, told));
    Failure::Told(Status::Denied)
}

fn is_exclusive(lock_type: LockType) -> bool {
    matches!(lock_type, LockType::Write | LockType::WriteBlocking)
}
