//! Clients of v4.1 and later: EXCHANGE_ID, DESTROY_CLIENTID and RECLAIM_COMPLETE.
//!
//! The numbered cases are those of the RFC's table.
//!
//! **Source:** RFC 8881 section 18.35.4 (cases 1 to 9), 18.50, 18.51.

use std::sync::Arc;

use nfs_proto::Status;

use super::Tables;
use super::book::Line;
use super::client::{Client, Identity};

/// The client that EXCHANGE_ID found or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct Exchanged {
    /// The client id.
    pub(in crate::service) id: u64,
    /// The sequence that its next CREATE_SESSION has to have.
    pub(in crate::service) sequence: u32,
    /// Whether the client is confirmed already.
    pub(in crate::service) confirmed: bool,
}

impl Tables {
    /// Notes a client that wants to be known, or finds it.
    ///
    /// # Errors
    /// `ClidInUse` where another user's client of that name holds state; with `update`: `NoEnt`,
    /// `NotSame` or `Perm` where there is nobody that may be updated.
    pub(in crate::service) fn exchange_id(
        &self,
        identity: Identity<'_>,
        update: bool,
        now_ns: u64,
    ) -> Result<Exchanged, Status> {
        self.sweep(now_ns);
        let mut book = self.book(true);
        let record = book.record(identity.owner)?;
        let known = self.living(record, now_ns);
        let same_user = |line: &Line| line.client.principal == identity.principal;
        let same_start = |line: &Line| line.client.verifier == identity.verifier;
        let found = match (&known, update) {
            (None, true) => Err(Status::NoEnt),
            (Some(line), true) if !same_start(line) => Err(Status::NotSame),
            (Some(line), true) if !same_user(line) => Err(Status::Perm),
            (Some(line), false) if !same_user(line) && line.client.lock().has_state() => {
                Err(Status::ClidInUse)
            }
            (Some(line), _) if same_user(line) && same_start(line) => Ok(Some(line.client.clone())),
            // Unknown, in the way without need, or started anew.
            _ => Ok(None),
        };
        if let (Some(line), Ok(None)) = (&known, &found)
            && !same_user(line)
        {
            // Case 3: it is in the way and holds nothing.
            record.confirmed = None;
            self.forget(&line.client);
        }
        match found {
            Ok(Some(client)) => {
                client.renew(now_ns);
                let sequence = client.lock().creation.0.wrapping_add(1);
                Ok(Exchanged { id: client.id, sequence, confirmed: true })
            }
            Ok(None) => {
                let client = Client::new(self.new_client_id(), true, identity, now_ns);
                let id = client.id;
                book.set_pending(Line { client, confirm: [0; 8] });
                Ok(Exchanged { id, sequence: 1, confirmed: false })
            }
            Err(status) => {
                book.drop_if_empty(identity.owner);
                Err(status)
            }
        }
    }

    /// Forgets a client that holds nothing.
    ///
    /// # Errors
    /// `ClientIdBusy` while it has sessions or state; `StaleClientId` for nobody's id.
    pub(in crate::service) fn destroy_client(&self, id: u64, now_ns: u64) -> Result<(), Status> {
        let pending = self.book(true).pending(id).map(|line| Arc::clone(&line.client));
        let client = match pending {
            Some(client) => client,
            None => self.client(id, now_ns).map_err(|_| Status::StaleClientId)?,
        };
        if !client.has_sessions {
            return Err(Status::StaleClientId);
        }
        {
            let holdings = client.lock();
            if !holdings.sessions.is_empty() || holdings.has_state() {
                return Err(Status::ClientIdBusy);
            }
        }
        self.book(true).strike(&client);
        self.forget(&client);
        Ok(())
    }
}
