//! Clients by name: the confirmed one of each name, and one that has yet to confirm itself.
//!
//! v4.0 and later versions each have an index, with the same two entries per name; the rules of who
//! replaces whom are in `setclientid` and `exchange`.
//!
//! **Source:** RFC 7530 section 16.33.5, RFC 8881 section 18.35.4.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use nfs_proto::Status;

use super::Tables;
use super::client::{Client, ClientKind};
use crate::fs::Charge;
use crate::limits::{NFS4_CLIENT_BYTES, NFS4_CLIENTS_MAX};
use crate::sync;

/// A client and the verifier that confirms it; v4.1 has none.
#[derive(Clone, Debug)]
pub(super) struct ClientRegistration {
    pub(super) client: Arc<Client>,
    pub(super) confirm: [u8; 8],
}

/// The clients of one name.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) confirmed: Option<ClientRegistration>,
    pub(super) pending: Option<ClientRegistration>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ClientIndex {
    records: HashMap<Arc<[u8]>, Record>,
    /// Names of pending clients by id.
    pending: HashMap<u64, Arc<[u8]>>,
}

impl ClientIndex {
    /// Returns the record of a name, creating an empty one if necessary.
    ///
    /// # Errors
    /// `Jukebox` if the index is full.
    pub(super) fn record_of(&mut self, name: &[u8]) -> Result<&mut Record, Status> {
        if !self.records.contains_key(name) {
            if self.records.len() >= NFS4_CLIENTS_MAX {
                return Err(Status::Jukebox);
            }
            self.records.insert(Arc::from(name), Record::default());
        }
        Ok(self.records.get_mut(name).expect("it was just inserted"))
    }

    /// Adds a client that has to confirm itself, replacing another pending one.
    pub(super) fn set_pending(&mut self, entry: ClientRegistration) {
        let name = Arc::clone(&entry.client.owner);
        let id = entry.client.id;
        let record = self.records.entry(Arc::clone(&name)).or_default();
        if let Some(old) = record.pending.replace(entry) {
            self.pending.remove(&old.client.id);
        }
        self.pending.insert(id, name);
    }

    /// Finds the pending client with an id.
    pub(super) fn find_pending(&self, id: u64) -> Option<&ClientRegistration> {
        let record = self.records.get(self.pending.get(&id)?)?;
        record.pending.as_ref().filter(|entry| entry.client.id == id)
    }

    // With SETCLIENTID_CONFIRM or CREATE_SESSION a client proves that it received the reply with
    // its id. Until then the confirmed one of the same name keeps everything it holds, or a forged
    // or delayed call could end another client's opens (RFC 7530 section 16.33.5).
    /// Makes the pending client with an id the confirmed one; returns the one it replaces.
    pub(super) fn confirm_pending(&mut self, id: u64) -> Option<Arc<Client>> {
        let name = self.pending.remove(&id)?;
        let record = self.records.get_mut(&name)?;
        let entry = record.pending.take()?;
        let old = record.confirmed.replace(entry)?;
        (old.client.id != id).then_some(old.client)
    }

    /// Removes a client from its record, and the record if it was the last client.
    pub(super) fn remove_client(&mut self, client: &Client) {
        let Some(record) = self.records.get_mut(&client.owner) else { return };
        record.confirmed.take_if(|entry| entry.client.id == client.id);
        if record.pending.take_if(|entry| entry.client.id == client.id).is_some() {
            self.pending.remove(&client.id);
        }
        self.drop_if_empty(&client.owner);
    }

    /// Removes the record of a name that has no client.
    pub(super) fn drop_if_empty(&mut self, name: &[u8]) {
        if let Some(Record { confirmed: None, pending: None }) = self.records.get(name) {
            self.records.remove(name);
        }
    }

    /// Removes all clients whose lease has expired.
    pub(super) fn remove_expired(&mut self, is_over: impl Fn(&Client) -> bool) {
        let pending = &mut self.pending;
        self.records.retain(|_, record| {
            record.confirmed.take_if(|entry| is_over(&entry.client));
            if let Some(entry) = record.pending.take_if(|entry| is_over(&entry.client)) {
                pending.remove(&entry.client.id);
            }
            record.confirmed.is_some() || record.pending.is_some()
        });
    }
}

impl Tables {
    /// Locks the index of one kind of clients: the same name in both means two clients.
    pub(super) fn lock_index(&self, kind: ClientKind) -> MutexGuard<'_, ClientIndex> {
        sync::lock(&self.client_indexes[kind as usize])
    }

    /// Charges the memory of a client with that name.
    ///
    /// # Errors
    /// `Jukebox` if there is none until leases expire.
    pub(super) fn charge_client(&self, name: &[u8]) -> Result<Charge, Status> {
        // The client and the index each have a copy of the name.
        let bytes = NFS4_CLIENT_BYTES + 2 * name.len() as u64;
        self.memory.take_for_client(bytes).ok_or(Status::Jukebox)
    }

    /// Returns true if the id was assigned to a client that has not confirmed itself.
    pub(super) fn is_pending(&self, id: u64) -> bool {
        let kinds = [ClientKind::V4_0, ClientKind::WithSessions];
        kinds.into_iter().any(|kind| self.lock_index(kind).find_pending(id).is_some())
    }

    /// Adds a client to the confirmed ones.
    pub(super) fn add_confirmed(&self, client: &Arc<Client>) {
        let mut confirmed = sync::write(&self.confirmed);
        confirmed.insert(client.id, Arc::clone(client));
    }

    /// The confirmed client of a record if its lease has not expired; otherwise it is forgotten.
    pub(super) fn unexpired_client(
        &self,
        record: &mut Record,
        now_ns: u64,
    ) -> Option<ClientRegistration> {
        let entry = record.confirmed.clone()?;
        let dead = entry.client.is_expired(now_ns, self.lease_ns) || entry.client.lock().dead;
        if dead {
            record.confirmed = None;
            self.forget(&entry.client);
            return None;
        }
        Some(entry)
    }
}
