//! The grace period: the time after a restart in which clients reclaim what they had open.
//!
//! [`Grace`] remembers, for as long as it lasts, which client had which files open. Until it ends
//! no client opens or locks anything else; it ends early once every client of v4.1 that was known
//! has sent RECLAIM_COMPLETE and none of v4.0, which has no such operation, was known. A restart
//! before that end takes nothing from those that have not reclaimed yet: no client could open or
//! lock anything that conflicts with what they had.
//!
//! **Source:** RFC 7530 section 9.6.2, RFC 8881 sections 8.4.2 and 18.51.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nfs_proto::Status;

use super::Tables;
use super::client::{Client, Principal};
use crate::fs::InodeId;
use crate::sync;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Grace {
    /// When it ends; 0 where there is none.
    until_ns: AtomicU64,
    /// Opens that clients had, by their names.
    known: Mutex<HashMap<Arc<[u8]>, Known>>,
}

/// The memory of a client.
#[derive(Debug)]
struct Known {
    principal: Principal,
    files: HashSet<InodeId>,
}

impl Grace {
    /// Begins at a restart at `now_ns`, for those clients and for those that an earlier grace
    /// period, which has not ended, still waits for.
    pub(super) fn begin_period(&self, now_ns: u64, until_ns: u64, clients: &[Arc<Client>]) {
        let mut known = sync::lock(&self.known);
        // What was not reclaimed in time is free for others, and may be theirs by now.
        if self.until_ns.load(Ordering::Relaxed) <= now_ns {
            known.clear();
        }
        for client in clients {
            let mut files = HashSet::new();
            for owner in client.lock().open_owners.values() {
                files.extend(owner.states.keys().copied());
            }
            files.extend(client.lock().delegations.keys().copied());
            let entry = known
                .entry(Arc::clone(&client.owner))
                .or_insert_with(|| Known { principal: client.principal, files: HashSet::new() });
            // Another principal under the name of a client that is waited for had nothing open.
            if entry.principal == client.principal {
                entry.files.extend(files);
            }
        }
        let until_ns = if known.is_empty() { 0 } else { until_ns };
        self.until_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Forgets what there was to reclaim, at a restart without a grace period.
    pub(super) fn clear_period(&self) {
        sync::lock(&self.known).clear();
        self.until_ns.store(0, Ordering::Relaxed);
    }

    /// Ends early where the last known client needs it no more.
    fn is_done_with(&self, client: &Client) {
        let mut known = sync::lock(&self.known);
        if known.remove(&client.owner).is_some() && known.is_empty() {
            self.until_ns.store(0, Ordering::Relaxed);
        }
    }
}

impl Tables {
    /// Whether only what was open before a restart may be opened now.
    pub(crate) fn is_in_grace(&self, now_ns: u64) -> bool {
        self.grace.until_ns.load(Ordering::Relaxed) > now_ns
    }

    /// Checks that a client may reclaim a file that it had open before the restart.
    ///
    /// # Errors
    /// `NoGrace` outside of the grace period and for a client that has sent RECLAIM_COMPLETE;
    /// `ReclaimBad` for what it had not open.
    pub(crate) fn may_reclaim(
        &self,
        client: &Client,
        file: InodeId,
        now_ns: u64,
    ) -> Result<(), Status> {
        if !self.is_in_grace(now_ns) || client.has_sessions() && Self::has_reclaimed(client) {
            return Err(Status::NoGrace);
        }
        let known = sync::lock(&self.grace.known);
        match known.get(&client.owner) {
            Some(known) if known.principal == client.principal && known.files.contains(&file) => {
                Ok(())
            }
            _ => Err(Status::ReclaimBad),
        }
    }

    /// Confirms an owner of v4.0 that took something back: it need not confirm itself.
    ///
    /// **Source:** RFC 7530 section 16.18.5.
    pub(crate) fn confirm_reclaimed(client: &Client, name: &[u8]) {
        if let Some(owner) = client.lock().open_owners.get_mut(name) {
            owner.confirmed = true;
        }
    }

    /// Notes that a client has reclaimed all that it wanted to.
    ///
    /// # Errors
    /// `CompleteAlready` the second time.
    pub(crate) fn reclaim_complete(&self, client: &Client) -> Result<(), Status> {
        let before = std::mem::replace(&mut client.lock().reclaim_complete, true);
        // Once all have sent it nothing is left to protect, and new opens need not wait for the
        // time to run out (RFC 8881 section 8.4.2.1).
        self.grace.is_done_with(client);
        if before { Err(Status::CompleteAlready) } else { Ok(()) }
    }

    /// Whether a client has sent RECLAIM_COMPLETE.
    pub(crate) fn has_reclaimed(client: &Client) -> bool {
        client.lock().reclaim_complete
    }
}
