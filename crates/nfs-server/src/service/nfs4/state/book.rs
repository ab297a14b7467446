//! The book of clients by name: the confirmed one, and one that still has to confirm itself.
//!
//! Both versions keep a book of their own with the same two lines for each name; the rules of who
//! replaces whom are in `setclientid` and `exchange`.
//!
//! **Source:** RFC 7530 section 16.33.5, RFC 8881 section 18.35.4.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use nfs_proto::Status;

use super::Tables;
use super::client::Client;
use crate::limits::NFS4_CLIENTS_MAX;

/// A client and the verifier that it confirms, or confirmed, itself with; v4.1 has none.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) client: Arc<Client>,
    pub(super) confirm: [u8; 8],
}

/// The record under one name.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) confirmed: Option<Line>,
    pub(super) pending: Option<Line>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Book {
    records: HashMap<Arc<[u8]>, Record>,
    /// Names of the pending clients by their id.
    pending: HashMap<u64, Arc<[u8]>>,
}

impl Book {
    /// The record of a name; an empty one where there is none.
    ///
    /// # Errors
    /// `Jukebox` where the book is full.
    pub(super) fn record(&mut self, name: &[u8]) -> Result<&mut Record, Status> {
        if !self.records.contains_key(name) {
            if self.records.len() >= NFS4_CLIENTS_MAX {
                return Err(Status::Jukebox);
            }
            self.records.insert(Arc::from(name), Record::default());
        }
        Ok(self.records.get_mut(name).expect("it was just put in"))
    }

    /// Writes a client down that has to confirm itself, in place of another.
    pub(super) fn set_pending(&mut self, line: Line) {
        let name = Arc::clone(&line.client.owner);
        let id = line.client.id;
        let record = self.records.entry(Arc::clone(&name)).or_default();
        if let Some(old) = record.pending.replace(line) {
            self.pending.remove(&old.client.id);
        }
        self.pending.insert(id, name);
    }

    /// Finds the pending client of an id.
    pub(super) fn pending(&self, id: u64) -> Option<&Line> {
        let record = self.records.get(self.pending.get(&id)?)?;
        record.pending.as_ref().filter(|line| line.client.id == id)
    }

    /// Turns the pending client of an id into the confirmed one; returns whom it replaces.
    pub(super) fn confirm(&mut self, id: u64) -> Option<Arc<Client>> {
        let name = self.pending.remove(&id)?;
        let record = self.records.get_mut(&name)?;
        let line = record.pending.take()?;
        let old = record.confirmed.replace(line)?;
        (old.client.id != id).then_some(old.client)
    }

    /// Strikes a client out wherever it is written.
    pub(super) fn strike(&mut self, client: &Client) {
        let Some(record) = self.records.get_mut(&client.owner) else { return };
        let is_it = |line: &Option<Line>| line.as_ref().is_some_and(|l| l.client.id == client.id);
        if is_it(&record.confirmed) {
            record.confirmed = None;
        }
        if is_it(&record.pending) {
            record.pending = None;
            self.pending.remove(&client.id);
        }
        if record.confirmed.is_none() && record.pending.is_none() {
            self.records.remove(&client.owner);
        }
    }

    /// Takes a name out that has no client.
    pub(super) fn drop_if_empty(&mut self, name: &[u8]) {
        let empty = |record: &Record| record.confirmed.is_none() && record.pending.is_none();
        if self.records.get(name).is_some_and(empty) {
            self.records.remove(name);
        }
    }

    /// Strikes out all whose lease is over.
    pub(super) fn tidy(&mut self, is_over: impl Fn(&Client) -> bool) {
        let pending = &mut self.pending;
        self.records.retain(|_, record| {
            record.confirmed.take_if(|line| is_over(&line.client));
            if let Some(line) = record.pending.take_if(|line| is_over(&line.client)) {
                pending.remove(&line.client.id);
            }
            record.confirmed.is_some() || record.pending.is_some()
        });
    }
}

impl Tables {
    /// The book of a version.
    pub(super) fn book(&self, has_sessions: bool) -> MutexGuard<'_, Book> {
        self.books[usize::from(has_sessions)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an id was given to a client that has not confirmed itself.
    pub(super) fn is_pending(&self, id: u64) -> bool {
        [false, true].into_iter().any(|sessions| self.book(sessions).pending(id).is_some())
    }

    /// Makes a client one of the confirmed.
    pub(super) fn admit(&self, client: &Arc<Client>) {
        let mut confirmed = self.confirmed.write().unwrap_or_else(PoisonError::into_inner);
        confirmed.insert(client.id, Arc::clone(client));
    }

    /// The confirmed client of a record, where its lease still runs; an expired one is forgotten.
    pub(super) fn living(&self, record: &mut Record, now_ns: u64) -> Option<Line> {
        let line = record.confirmed.clone()?;
        let dead = line.client.is_expired(now_ns, self.lease_ns) || line.client.lock().dead;
        if dead {
            record.confirmed = None;
            self.forget(&line.client);
            return None;
        }
        Some(line)
    }
}
