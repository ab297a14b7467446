//! Clients of v4.1 and later: EXCHANGE_ID, DESTROY_CLIENTID and RECLAIM_COMPLETE.
//!
//! Case numbers are those of the RFC.
//!
//! **Source:** RFC 8881 section 18.35.4 (cases 1 to 9), 18.50, 18.51.

use std::sync::Arc;

use nfs_proto::Status;

use super::Tables;
use super::client::{Client, ClientKind, Identity};
use super::client_index::ClientRegistration;

/// The client that EXCHANGE_ID found or created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExchangedClient {
    /// The client id.
    pub(crate) id: u64,
    /// The sequence expected in its next CREATE_SESSION.
    pub(crate) sequence: u32,
    /// Whether the client has already been confirmed.
    pub(crate) confirmed: bool,
}

/// The purpose of an EXCHANGE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeKind {
    /// A client introduces itself, whether new or already known.
    Introduce,
    /// A confirmed client changes its record: EXCHGID4_FLAG_UPD_CONFIRMED_REC_A is set.
    Update,
}

impl Tables {
    /// Registers a client, or finds it.
    ///
    /// # Errors
    /// `ClidInUse` if another user's client of that name holds state; `Jukebox` if there is no
    /// memory; for an update: `NoEnt`, `NotSame` or `Perm` if there is no client that may be
    /// updated.
    pub(crate) fn exchange_id(
        &self,
        identity: Identity<'_>,
        kind: ExchangeKind,
        now_ns: u64,
    ) -> Result<ExchangedClient, Status> {
        self.sweep(now_ns);
        let mut index = self.lock_index(ClientKind::WithSessions);
        let record = index.record_of(identity.owner)?;
        let known = self.unexpired_client(record, now_ns);
        let found = match (&known, kind) {
            (None, ExchangeKind::Update) => Err(Status::NoEnt), // Case 7.
            (None, ExchangeKind::Introduce) => Ok(None),        // Case 1.
            (Some(entry), kind) => {
                let same_user = entry.client.principal == identity.principal;
                // The verifier differs between starts of a client's host: after a restart it holds
                // nothing any more, and may replace its own record (case 5).
                let same_start = entry.client.verifier == identity.verifier;
                match kind {
                    ExchangeKind::Update if !same_start => Err(Status::NotSame), // Case 8.
                    ExchangeKind::Update if !same_user => Err(Status::Perm),     // Case 9.
                    _ if same_user && same_start => Ok(Some(Arc::clone(&entry.client))),
                    _ if same_user => Ok(None),
                    // Case 3: another user has the name. If it has state, that protects it;
                    // otherwise it gives way at once.
                    _ if entry.client.lock().has_state() => Err(Status::ClidInUse),
                    _ => {
                        record.confirmed = None;
                        self.forget(&entry.client);
                        Ok(None)
                    }
                }
            }
        };
        match found {
            Ok(Some(client)) => {
                client.renew(now_ns);
                let sequence = client.lock().creation.0.wrapping_add(1);
                Ok(ExchangedClient { id: client.id, sequence, confirmed: true })
            }
            Ok(None) => {
                let charge = self.charge_client(identity.owner).inspect_err(|_| {
                    index.drop_if_empty(identity.owner);
                })?;
                let kind = ClientKind::WithSessions;
                let client = Client::new(self.new_client_id(), kind, identity, charge, now_ns);
                let id = client.id;
                index.set_pending(ClientRegistration { client, confirm: [0; 8] });
                Ok(ExchangedClient { id, sequence: 1, confirmed: false })
            }
            Err(status) => {
                index.drop_if_empty(identity.owner);
                Err(status)
            }
        }
    }

    /// Forgets a client that holds nothing.
    ///
    /// # Errors
    /// `ClientIdBusy` while it has sessions or state; `StaleClientId` for an unknown id.
    pub(crate) fn destroy_client(&self, id: u64, now_ns: u64) -> Result<(), Status> {
        let pending = self.lock_index(ClientKind::WithSessions).find_pending(id).cloned();
        let client = match pending {
            Some(entry) => entry.client,
            None => self.client(id, now_ns).map_err(|_| Status::StaleClientId)?,
        };
        if !client.has_sessions() {
            return Err(Status::StaleClientId);
        }
        {
            let holdings = client.lock();
            if !holdings.sessions.is_empty() || holdings.has_state() {
                return Err(Status::ClientIdBusy);
            }
        }
        self.lock_index(ClientKind::WithSessions).remove_client(&client);
        self.forget(&client);
        Ok(())
    }
}
