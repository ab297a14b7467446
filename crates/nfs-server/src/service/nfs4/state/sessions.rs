//! Making, finding and ending sessions.
//!
//! **Source:** RFC 8881 sections 18.36 (CREATE_SESSION) and 18.37 (DESTROY_SESSION).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_proto::Status;

use super::Tables;
use super::client::{Client, Principal};
use super::session::{Channel, CreatedSession, Session};

/// The request of CREATE_SESSION, with channels already cut to what the server grants.
#[derive(Clone, Copy, Debug)]
pub(in crate::service) struct SessionAsk {
    /// Id of the client.
    pub(in crate::service) client: u64,
    /// Value of csa_sequence.
    pub(in crate::service) sequence: u32,
    /// The principal that calls.
    pub(in crate::service) principal: Principal,
    /// Flags to grant.
    pub(in crate::service) flags: u32,
    /// From client to server.
    pub(in crate::service) fore: Channel,
    /// From server to client.
    pub(in crate::service) back: Channel,
}

impl Tables {
    /// Makes a session, or returns the one that the same call made before. The first session of a
    /// client confirms it. `check` is asked about a call that is not a repetition.
    ///
    /// # Errors
    /// `StaleClientId`, `SeqMisordered`, `ClidInUse` for another user, `NoSpc` where there are too
    /// many sessions, and what `check` says.
    pub(in crate::service) fn create_session(
        &self,
        ask: &SessionAsk,
        check: impl FnOnce() -> Result<(), Status>,
        now_ns: u64,
    ) -> Result<CreatedSession, Status> {
        let pending = self.book(true).pending(ask.client).cloned();
        let client = match &pending {
            Some(line) if line.client.is_expired(now_ns, self.lease_ns) => {
                return Err(Status::StaleClientId);
            }
            Some(line) => Arc::clone(&line.client),
            None => self.client(ask.client, now_ns).map_err(|_| Status::StaleClientId)?,
        };
        if !client.has_sessions {
            return Err(Status::StaleClientId);
        }
        let created = {
            let mut holdings = client.lock();
            let (last, result) = holdings.creation;
            if holdings.dead {
                return Err(Status::StaleClientId);
            }
            if ask.sequence == last {
                return result.ok_or(Status::SeqMisordered);
            }
            if ask.sequence != last.wrapping_add(1) {
                return Err(Status::SeqMisordered);
            }
            if pending.is_some() && client.principal != ask.principal {
                return Err(Status::ClidInUse);
            }
            check()?;
            let created = self.add_session(&client, ask)?;
            holdings.sessions.push(session_key(created.id));
            holdings.creation = (ask.sequence, Some(created));
            created
        };
        client.renew(now_ns);
        if pending.is_some() {
            self.admit(&client);
            let replaced = self.book(true).confirm(client.id);
            if let Some(replaced) = replaced {
                self.forget(&replaced);
            }
        }
        Ok(created)
    }

    fn add_session(
        &self,
        client: &Arc<Client>,
        ask: &SessionAsk,
    ) -> Result<CreatedSession, Status> {
        let slots = self.take_slots(ask.fore.slots)?;
        let fore = Channel { slots, ..ask.fore };
        let kept = Arc::clone(&self.kept_bytes);
        let make = |key| Session::new(key, Arc::clone(client), fore, kept);
        let Some(session) = self.sessions.insert(make) else {
            self.slots_left.fetch_add(slots as usize, Ordering::Relaxed);
            return Err(Status::NoSpc);
        };
        let (sequence, flags, back) = (ask.sequence, ask.flags, ask.back);
        Ok(CreatedSession { id: session.id(), sequence, flags, fore, back })
    }

    /// Takes up to `asked` slots, at least one.
    fn take_slots(&self, asked: u32) -> Result<u32, Status> {
        let mut taken = 0;
        let take = |left: usize| {
            taken = left.min(asked as usize);
            left.checked_sub(taken.max(1))
        };
        let order = Ordering::Relaxed;
        self.slots_left.fetch_update(order, order, take).map_err(|_| Status::NoSpc)?;
        Ok(taken.max(1) as u32)
    }

    /// Finds a session and starts its client's lease anew.
    ///
    /// # Errors
    /// `BadSession`, also where the client's lease had run out.
    pub(in crate::service) fn session(
        &self,
        id: [u8; 16],
        now_ns: u64,
    ) -> Result<Arc<Session>, Status> {
        let session = self.sessions.get(session_key(id)).ok_or(Status::BadSession)?;
        if session.id() != id {
            return Err(Status::BadSession);
        }
        if session.client.is_expired(now_ns, self.lease_ns) {
            self.forget(&session.client);
            return Err(Status::BadSession);
        }
        session.client.renew(now_ns);
        Ok(session)
    }

    /// Ends a session; its client stays.
    ///
    /// # Errors
    /// `BadSession`.
    pub(in crate::service) fn destroy_session(
        &self,
        id: [u8; 16],
        now_ns: u64,
    ) -> Result<(), Status> {
        let session = self.session(id, now_ns)?;
        session.client.lock().sessions.retain(|key| *key != session.key);
        self.end_session(session.key);
        Ok(())
    }

    /// Takes a session out of the table and its slots back.
    pub(super) fn end_session(&self, key: u64) {
        if let Some(session) = self.sessions.remove(key) {
            self.slots_left.fetch_add(session.fore.slots as usize, Ordering::Relaxed);
        }
    }
}

/// The session's number in its name; the client's id is before it.
fn session_key(id: [u8; 16]) -> u64 {
    u64::from_be_bytes(id[8..].try_into().expect("eight bytes"))
}
