//! Creating, finding and destroying sessions.
//!
//! **Source:** RFC 8881 sections 18.36 (CREATE_SESSION) and 18.37 (DESTROY_SESSION).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_proto::Status;
use nfs_proto::nfs4::ChannelAttributes;

use super::Tables;
use super::client::{Client, ClientKind, CreatedSession, Principal};
use super::session::Session;
use crate::limits::{NFS4_SESSION_BYTES, NFS4_SLOT_BYTES};

/// A CREATE_SESSION request, with channels already reduced to what the server grants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionRequest {
    /// Id of the client.
    pub(crate) client: u64,
    /// Value of csa_sequence.
    pub(crate) sequence: u32,
    /// The calling principal.
    pub(crate) principal: Principal,
    /// Flags to grant.
    pub(crate) flags: u32,
    /// From client to server.
    pub(crate) fore: ChannelAttributes,
    /// From server to client.
    pub(crate) back: ChannelAttributes,
}

impl Tables {
    /// Creates a session, or returns the one that the same call created before. A client's first
    /// session confirms it. `check` decides on a call that is not a repeat.
    ///
    /// # Errors
    /// `StaleClientId`, `SeqMisordered`, `ClidInUse` for another user, `NoSpc` if there are too
    /// many sessions, and the errors of `check`.
    pub(crate) fn create_session(
        &self,
        request: &SessionRequest,
        check: impl FnOnce() -> Result<(), Status>,
        now_ns: u64,
    ) -> Result<CreatedSession, Status> {
        let pending =
            self.lock_index(ClientKind::WithSessions).find_pending(request.client).cloned();
        let client = match &pending {
            Some(entry) if entry.client.is_expired(now_ns, self.lease_ns) => {
                return Err(Status::StaleClientId);
            }
            Some(entry) => Arc::clone(&entry.client),
            None => self.client(request.client, now_ns).map_err(|_| Status::StaleClientId)?,
        };
        if !client.has_sessions() {
            return Err(Status::StaleClientId);
        }
        let created = {
            let mut holdings = client.lock();
            let (last, result) = holdings.creation;
            if holdings.dead {
                return Err(Status::StaleClientId);
            }
            // CREATE_SESSION has a cache of one reply per client, like a slot: the first valid
            // sequence is that of EXCHANGE_ID (RFC 8881 section 18.36.4, phase 2).
            if request.sequence == last {
                return result.ok_or(Status::SeqMisordered);
            }
            if request.sequence != last.wrapping_add(1) {
                return Err(Status::SeqMisordered);
            }
            if pending.is_some() && client.principal != request.principal {
                return Err(Status::ClidInUse);
            }
            check()?;
            let created = self.add_session(&client, request)?;
            holdings.sessions.push(session_key(created.id));
            holdings.creation = (request.sequence, Some(created));
            created
        };
        client.renew(now_ns);
        if pending.is_some() {
            self.add_confirmed(&client);
            let replaced = self.lock_index(ClientKind::WithSessions).confirm_pending(client.id);
            if let Some(replaced) = replaced {
                self.forget(&replaced);
            }
        }
        Ok(created)
    }

    fn add_session(
        &self,
        client: &Arc<Client>,
        request: &SessionRequest,
    ) -> Result<CreatedSession, Status> {
        let slots = self.take_slots(request.fore.requests_max)?;
        let fore = ChannelAttributes { requests_max: slots, ..request.fore };
        let bytes = NFS4_SESSION_BYTES + u64::from(slots) * NFS4_SLOT_BYTES;
        let session = self.memory.take_for_client(bytes).and_then(|charge| {
            self.sessions
                .insert(|key| Session::new(key, Arc::clone(client), fore, &request.back, charge))
        });
        let Some(session) = session else {
            self.slots_left.fetch_add(slots as usize, Ordering::Relaxed);
            return Err(Status::NoSpc);
        };
        Ok(CreatedSession {
            id: session.id(),
            sequence: request.sequence,
            flags: request.flags,
            fore,
            back: request.back,
        })
    }

    /// Takes up to `requested` slots, at least one.
    fn take_slots(&self, requested: u32) -> Result<u32, Status> {
        // Near the limit, of slots or of memory, a session gets fewer than it requested, which the
        // client has to accept (RFC 8881 section 18.36.3); without any it can't exist.
        let clients = &self.memory.clients;
        let free_bytes = clients.limit_bytes().saturating_sub(clients.used_bytes());
        let affordable = free_bytes / 4 / NFS4_SLOT_BYTES;
        let wanted = u64::from(requested).min(affordable).max(1) as usize;
        let take = |left: usize| left.checked_sub(left.min(wanted).max(1));
        let order = Ordering::Relaxed;
        match self.slots_left.fetch_update(order, order, take) {
            Ok(left) => Ok(left.min(wanted) as u32),
            Err(_) => Err(Status::NoSpc),
        }
    }

    /// Finds a session and renews its client's lease.
    ///
    /// # Errors
    /// `BadSession`, also if the client's lease has expired.
    pub(crate) fn find_session(&self, id: [u8; 16], now_ns: u64) -> Result<Arc<Session>, Status> {
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

    /// Destroys a session and keeps its client.
    ///
    /// # Errors
    /// `BadSession`.
    pub(crate) fn destroy_session(&self, id: [u8; 16], now_ns: u64) -> Result<(), Status> {
        let session = self.find_session(id, now_ns)?;
        session.client.lock().sessions.retain(|key| *key != session.key);
        self.end_session(session.key);
        Ok(())
    }

    /// Removes a session from the table and returns its slots.
    pub(super) fn end_session(&self, key: u64) {
        if let Some(session) = self.sessions.remove(key) {
            session.backchannel.close();
            self.slots_left.fetch_add(session.fore.requests_max as usize, Ordering::Relaxed);
        }
    }
}

/// Extracts the session's key from its id; the client's id comes before it.
pub(super) fn session_key(id: [u8; 16]) -> u64 {
    u64::from_be_bytes(id[8..].try_into().expect("eight bytes"))
}
