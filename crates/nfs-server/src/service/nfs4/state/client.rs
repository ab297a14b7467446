//! One client: who it is, how long its lease runs, and everything it holds.
//!
//! The lease is one atomic, so renewing it takes no lock. What a client holds stands under one
//! mutex of its own: two clients never wait for each other, and READ and WRITE never take it.
//! A `dead` client has lost everything; whoever still has the `Arc` finds that under the lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::owner::Owner;
use super::session::CreatedSession;
use crate::fs::InodeId;

/// Who made a call: a user id.
pub(in crate::service) type Principal = u32;

/// See the module.
#[derive(Debug)]
pub(in crate::service) struct Client {
    /// The client id on the wire: number of the server's start above, number of the client below.
    pub(in crate::service) id: u64,
    /// Whether it speaks v4.1 or later.
    pub(in crate::service) has_sessions: bool,
    pub(super) owner: Arc<[u8]>,
    pub(super) verifier: [u8; 8],
    pub(super) principal: Principal,
    renewed_ns: AtomicU64,
    holdings: Mutex<Holdings>,
}

/// Everything a client holds.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    /// Expired, replaced or forgotten: it may hold nothing any more.
    pub(super) dead: bool,
    pub(super) open_owners: HashMap<Arc<[u8]>, Owner>,
    pub(super) lock_owners: HashMap<Arc<[u8]>, Owner>,
    /// Numbers of its sessions.
    pub(super) sessions: Vec<u64>,
    /// Sequence of the last CREATE_SESSION, and its result where there was one.
    pub(super) creation: (u32, Option<CreatedSession>),
    /// Whether RECLAIM_COMPLETE was called.
    pub(super) reclaim_complete: bool,
}

/// The kind of an owner; the names of both kinds are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) enum OwnerKind {
    /// An owner of opens.
    Open,
    /// An owner of byte-range locks.
    Lock,
}

impl Client {
    /// Makes a client whose lease starts now.
    pub(super) fn new(
        id: u64,
        has_sessions: bool,
        identity: Identity<'_>,
        now_ns: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            has_sessions,
            owner: Arc::from(identity.owner),
            verifier: identity.verifier,
            principal: identity.principal,
            renewed_ns: AtomicU64::new(now_ns),
            holdings: Mutex::default(),
        })
    }

    /// The number in its stateids.
    pub(super) fn number(&self) -> u32 {
        self.id as u32
    }

    /// Starts its lease anew.
    pub(super) fn renew(&self, now_ns: u64) {
        self.renewed_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Whether its lease has run out.
    pub(super) fn is_expired(&self, now_ns: u64, lease_ns: u64) -> bool {
        now_ns.saturating_sub(self.renewed_ns.load(Ordering::Relaxed)) > lease_ns
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Holdings> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a client names itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::service) struct Identity<'a> {
    /// Its name, the same over its restarts.
    pub(in crate::service) owner: &'a [u8],
    /// Differs for each of its starts.
    pub(in crate::service) verifier: [u8; 8],
    /// The principal that calls.
    pub(in crate::service) principal: Principal,
}

impl Holdings {
    /// The owners of a kind.
    pub(super) fn owners(&mut self, kind: OwnerKind) -> &mut HashMap<Arc<[u8]>, Owner> {
        match kind {
            OwnerKind::Open => &mut self.open_owners,
            OwnerKind::Lock => &mut self.lock_owners,
        }
    }

    /// Whether it has opens or locks.
    pub(super) fn has_state(&self) -> bool {
        let mut owners = self.open_owners.values().chain(self.lock_owners.values());
        owners.any(|owner| !owner.states.is_empty())
    }

    /// The number of an owner's state for a file.
    pub(super) fn state_of(&mut self, kind: OwnerKind, name: &[u8], file: InodeId) -> Option<u64> {
        self.owners(kind).get(name)?.states.get(&file).copied()
    }
}
