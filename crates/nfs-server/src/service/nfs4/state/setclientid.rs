//! Clients of v4.0: SETCLIENTID and SETCLIENTID_CONFIRM.
//!
//! **Source:** RFC 7530 sections 16.33 and 16.34.

use std::sync::Arc;

use nfs_proto::Status;

use super::Tables;
use super::book::Line;
use super::client::{Client, Identity, Principal};
use crate::clock::mix;

impl Tables {
    /// Notes a client that wants to be known; returns its id and what it confirms itself with.
    ///
    /// # Errors
    /// `ClidInUse` where another user's client of that name holds state.
    pub(in crate::service) fn set_client_id(
        &self,
        identity: Identity<'_>,
        now_ns: u64,
    ) -> Result<(u64, [u8; 8]), Status> {
        self.sweep(now_ns);
        let mut book = self.book(false);
        let record = book.record(identity.owner)?;
        let mut known = self.living(record, now_ns);
        if let Some(line) = &known
            && line.client.principal != identity.principal
        {
            if line.client.lock().has_state() {
                return Err(Status::ClidInUse);
            }
            // As another client altogether: confirming it will replace the one that is there.
            known = None;
        }
        let same_start = known.filter(|line| line.client.verifier == identity.verifier);
        let client = match same_start {
            // It tells a new address for callbacks and stays what it is.
            Some(line) => line.client,
            None => Client::new(self.new_client_id(), false, identity, now_ns),
        };
        let id = client.id;
        let confirm = mix(now_ns ^ mix(self.new_client_id())).to_be_bytes();
        book.set_pending(Line { client, confirm });
        Ok((id, confirm))
    }

    /// Makes a client known that has confirmed itself, and forgets whom it replaces.
    ///
    /// # Errors
    /// `StaleClientId` where id and verifier are not those of a pending or confirmed client;
    /// `ClidInUse` for another user.
    pub(in crate::service) fn confirm_client_id(
        &self,
        id: u64,
        confirm: [u8; 8],
        principal: Principal,
        now_ns: u64,
    ) -> Result<(), Status> {
        let replaced = {
            let mut book = self.book(false);
            let pending = book.pending(id).filter(|line| line.confirm == confirm).cloned();
            let Some(line) = pending else {
                drop(book);
                return self.confirm_again(id, confirm, principal, now_ns);
            };
            if line.client.principal != principal {
                return Err(Status::ClidInUse);
            }
            line.client.renew(now_ns);
            self.admit(&line.client);
            book.confirm(id)
        };
        if let Some(replaced) = replaced {
            self.forget(&replaced);
        }
        Ok(())
    }

    /// The call of before, sent again.
    fn confirm_again(
        &self,
        id: u64,
        confirm: [u8; 8],
        principal: Principal,
        now_ns: u64,
    ) -> Result<(), Status> {
        let client = self.client(id, now_ns).map_err(|_| Status::StaleClientId)?;
        let mut book = self.book(false);
        let record = book.record(&Arc::clone(&client.owner))?;
        let known = record.confirmed.as_ref().filter(|line| line.client.id == id);
        match known {
            Some(line) if line.confirm != confirm => Err(Status::StaleClientId),
            Some(line) if line.client.principal != principal => Err(Status::ClidInUse),
            Some(line) => {
                line.client.renew(now_ns);
                Ok(())
            }
            None => Err(Status::StaleClientId),
        }
    }
}
