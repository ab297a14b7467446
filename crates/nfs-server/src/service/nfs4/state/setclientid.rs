//! Clients of v4.0: SETCLIENTID and SETCLIENTID_CONFIRM.
//!
//! **Source:** RFC 7530 sections 16.33 and 16.34.

use std::sync::Arc;

use nfs_proto::Status;

use super::Tables;
use super::client::{Client, ClientKind, Identity, Principal};
use super::client_index::ClientRegistration;
use crate::clock::mix;

impl Tables {
    /// Registers a client; returns its id and the verifier that confirms it.
    ///
    /// # Errors
    /// `ClidInUse` if another user's client of that name holds state; `Jukebox` if there is no
    /// memory.
    pub(crate) fn set_client_id(
        &self,
        identity: Identity<'_>,
        now_ns: u64,
    ) -> Result<(u64, [u8; 8]), Status> {
        self.sweep(now_ns);
        let mut index = self.lock_index(ClientKind::V4_0);
        let record = index.record_of(identity.owner)?;
        let mut known = self.unexpired_client(record, now_ns);
        if let Some(entry) = &known
            && entry.client.principal != identity.principal
        {
            if entry.client.lock().has_state() {
                return Err(Status::ClidInUse);
            }
            // Treat it as a different client: confirming it will replace the existing one.
            known = None;
        }
        let same_start = known.filter(|entry| entry.client.verifier == identity.verifier);
        let client = if let Some(entry) = same_start {
            // The same start of the same client sends a new callback address: it keeps its id.
            entry.client
        } else {
            let charge = self.charge_client(identity.owner).inspect_err(|_| {
                index.drop_if_empty(identity.owner);
            })?;
            Client::new(self.new_client_id(), ClientKind::V4_0, identity, charge, now_ns)
        };
        let id = client.id;
        let confirm = mix(now_ns ^ mix(self.new_client_id())).to_be_bytes();
        index.set_pending(ClientRegistration { client, confirm });
        Ok((id, confirm))
    }

    /// Confirms a client, and forgets the one it replaces.
    ///
    /// # Errors
    /// `StaleClientId` if id and verifier are not those of a pending or confirmed client;
    /// `ClidInUse` for another user.
    pub(crate) fn confirm_client_id(
        &self,
        id: u64,
        confirm: [u8; 8],
        principal: Principal,
        now_ns: u64,
    ) -> Result<(), Status> {
        let replaced = {
            let mut index = self.lock_index(ClientKind::V4_0);
            let pending = index.find_pending(id).filter(|entry| entry.confirm == confirm).cloned();
            let Some(entry) = pending else {
                drop(index);
                return self.repeat_confirmation(id, confirm, principal, now_ns);
            };
            if entry.client.principal != principal {
                return Err(Status::ClidInUse);
            }
            entry.client.renew(now_ns);
            self.add_confirmed(&entry.client);
            index.confirm_pending(id)
        };
        if let Some(replaced) = replaced {
            self.forget(&replaced);
        }
        Ok(())
    }

    /// The same call as before, repeated.
    fn repeat_confirmation(
        &self,
        id: u64,
        confirm: [u8; 8],
        principal: Principal,
        now_ns: u64,
    ) -> Result<(), Status> {
        let client = self.client(id, now_ns).map_err(|_| Status::StaleClientId)?;
        let mut index = self.lock_index(ClientKind::V4_0);
        let record = index.record_of(&Arc::clone(&client.owner))?;
        let known = record.confirmed.as_ref().filter(|entry| entry.client.id == id);
        match known {
            Some(entry) if entry.confirm != confirm => Err(Status::StaleClientId),
            Some(entry) if entry.client.principal != principal => Err(Status::ClidInUse),
            Some(entry) => {
                entry.client.renew(now_ns);
                Ok(())
            }
            None => Err(Status::StaleClientId),
        }
    }
}
