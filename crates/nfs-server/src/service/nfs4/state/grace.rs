//! The grace period: the time after a restart in which clients reclaim their state.
//!
//! While it lasts, [`Grace`] remembers the clients that the server knew before. Until it ends, no
//! client may open or lock anything else; it ends early once every known v4.1 client has sent
//! RECLAIM_COMPLETE, provided that no v4.0 client was known, since v4.0 has no such operation.
//! Another restart before that end takes nothing away from clients that have not reclaimed yet: no
//! client could open or lock anything that conflicts with their state.
//!
//! We remember clients but not their files, as Linux does; for the reasons see
//! `docs/design/nfs.md`.
//!
//! **Source:** RFC 7530 section 9.6.2, RFC 8881 sections 8.4.2, 8.4.3 and 18.51; Linux
//! fs/nfsd/nfs4state.c, `nfs4_check_open_reclaim` and `clients_still_reclaiming`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nfs_proto::Status;

use super::Tables;
use super::client::{Client, Principal};
use crate::fs::{Budget, Charge};
use crate::sync;

/// Minimum time left after each reclaim, for the next one.
const RECLAIM_INTERVAL_NS: u64 = 1_000_000_000;

/// Memory charged for a client's name besides its bytes.
const NAME_BYTES: u64 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Grace {
    /// When it ends; 0 if there is none.
    until_ns: AtomicU64,
    clients: Mutex<KnownClients>,
}

/// The clients that may reclaim.
#[derive(Debug, Default)]
struct KnownClients {
    /// Principals by client name.
    principals: HashMap<Arc<[u8]>, Principal>,
    /// When the period ends even if clients are still reclaiming.
    limit_ns: u64,
    /// The memory of the names.
    charge: Option<Charge>,
}

impl KnownClients {
    /// Forgets all clients.
    fn clear(&mut self) {
        self.principals = HashMap::new();
        self.charge = None;
    }
}

impl Grace {
    /// Starts at a restart at `now_ns`, for `clients` and for those that an unfinished earlier
    /// grace period is still waiting for.
    pub(super) fn begin_period(
        &self,
        now_ns: u64,
        duration_ns: u64,
        clients: &[Arc<Client>],
        budget: &Arc<Budget>,
    ) {
        let mut known = sync::lock(&self.clients);
        // State that was not reclaimed in time is free for others, and may be theirs by now.
        if self.until_ns.load(Ordering::Relaxed) <= now_ns {
            known.clear();
        }
        for client in clients {
            // If another principal uses the name of a client that we are waiting for, it had
            // nothing open.
            known.principals.entry(Arc::clone(&client.owner)).or_insert(client.principal);
        }
        // The clients themselves are forgotten right away, and took more memory than this.
        let names = known.principals.keys().map(|name| name.len() as u64 + NAME_BYTES).sum();
        known.charge = Some(Charge::force(budget, names));
        let until_ns = now_ns.saturating_add(duration_ns);
        known.limit_ns = until_ns.saturating_add(duration_ns);
        let until_ns = if known.principals.is_empty() { 0 } else { until_ns };
        self.until_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Forgets reclaimable state, at a restart without a grace period.
    pub(super) fn clear_period(&self) {
        sync::lock(&self.clients).clear();
        self.until_ns.store(0, Ordering::Relaxed);
    }

    /// Leaves time for the next reclaim, until the period has lasted twice its length.
    fn extend(&self, known: &KnownClients, now_ns: u64) {
        let until_ns = now_ns.saturating_add(RECLAIM_INTERVAL_NS).min(known.limit_ns);
        self.until_ns.fetch_max(until_ns, Ordering::Relaxed);
    }

    /// Ends early if this was the last known client that needed it.
    fn is_done_with(&self, client: &Client) {
        let mut known = sync::lock(&self.clients);
        if known.principals.remove(&client.owner).is_some() && known.principals.is_empty() {
            known.clear();
            self.until_ns.store(0, Ordering::Relaxed);
        }
    }
}

impl Tables {
    /// Whether clients may now only reclaim state from before a restart.
    pub(crate) fn is_in_grace(&self, now_ns: u64) -> bool {
        self.grace.until_ns.load(Ordering::Relaxed) > now_ns
    }

    /// Checks that a client may reclaim state from before the restart. This extends the period, so
    /// that a client is not cut off in the middle of its reclaims.
    ///
    /// # Errors
    /// `NoGrace` outside the grace period and for a client that has sent RECLAIM_COMPLETE;
    /// `ReclaimBad` for a client that the server did not know.
    pub(crate) fn may_reclaim(&self, client: &Client, now_ns: u64) -> Result<(), Status> {
        let known = sync::lock(&self.grace.clients);
        if !self.is_in_grace(now_ns) || client.has_sessions() && Self::has_reclaimed(client) {
            return Err(Status::NoGrace);
        }
        if known.principals.get(&client.owner) != Some(&client.principal) {
            return Err(Status::ReclaimBad);
        }
        self.grace.extend(&known, now_ns);
        Ok(())
    }

    /// Records that a lock was reclaimed.
    pub(crate) fn note_reclaim(&self, now_ns: u64) {
        let known = sync::lock(&self.grace.clients);
        if self.is_in_grace(now_ns) {
            self.grace.extend(&known, now_ns);
        }
    }

    /// Confirms a v4.0 owner that reclaimed state: it need not confirm itself.
    ///
    /// **Source:** RFC 7530 section 16.18.5.
    pub(crate) fn confirm_reclaimed(client: &Client, name: &[u8]) {
        if let Some(owner) = client.lock().open_owners.get_mut(name) {
            owner.confirmed = true;
        }
    }

    /// Records that a client has finished reclaiming.
    ///
    /// # Errors
    /// `CompleteAlready` the second time.
    pub(crate) fn reclaim_complete(&self, client: &Client) -> Result<(), Status> {
        let before = std::mem::replace(&mut client.lock().reclaim_complete, true);
        // Once all clients have sent it, nothing is left to protect, and new opens need not wait
        // for the period to expire (RFC 8881 section 8.4.2.1).
        self.grace.is_done_with(client);
        if before { Err(Status::CompleteAlready) } else { Ok(()) }
    }

    /// Whether a client has sent RECLAIM_COMPLETE.
    pub(crate) fn has_reclaimed(client: &Client) -> bool {
        client.lock().reclaim_complete
    }
}
