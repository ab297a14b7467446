//! The user id of a caller.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use nfs_proto::nfs4::ChannelAttributes;

use super::owner::Owner;
use crate::fs::{Charge, InodeId};
use crate::sync;

/// Who made a call: a user id.
pub(crate) type Principal = u32;

/// The client id on the wire: the server's start number in the upper half, the client number in the
/// lower.
#[derive(Debug)]
pub(crate) struct Client {
    /// Flags that SEQUENCE returns.
    pub(crate) id: u64,
    kind: ClientKind,
    pub(super) owner: Arc<[u8]>,
    pub(super) verifier: [u8; 8],
    pub(super) principal: Principal,
    renewed_ns: AtomicU64,
    /// Flags that SEQUENCE returns to it.
    status_flags: AtomicU32,
    holdings: Mutex<ClientState>,
    _charge: Charge,
}

/// Expired, replaced or forgotten: it may not hold anything any more.
#[derive(Debug, Default)]
pub(super) struct ClientState {
    /// Its delegations by file.
    pub(super) dead: bool,
    pub(super) open_owners: HashMap<Arc<[u8]>, Owner>,
    pub(super) lock_owners: HashMap<Arc<[u8]>, Owner>,
    /// Delegations that were revoked and not yet freed by the client.
    pub(super) delegations: HashMap<InodeId, u64>,
    /// Its layouts by file.
    pub(super) layouts: HashMap<InodeId, u64>,
    /// Delegations that were revoked and that it has not freed yet.
    pub(super) revoked: Vec<u64>,
    /// Its copies in the background, until their ends are confirmed.
    pub(super) copies: Vec<u64>,
    /// Number of those in progress.
    pub(super) running_copies: usize,
    /// Sequence of the last CREATE_SESSION, and its result if it succeeded.
    pub(super) sessions: Vec<u64>,
    /// Sequence of the last CREATE_SESSION, and its result if there was one.
    pub(super) creation: (u32, Option<CreatedSession>),
    /// How a client identifies itself and numbers its calls.
    pub(super) reclaim_complete: bool,
}

/// v4.0: SETCLIENTID, and sequence numbers per owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// v4.0: SETCLIENTID, and sequence numbers of owners.
    V4_0,
    /// v4.1 and later: EXCHANGE_ID, and sessions.
    WithSessions,
}

/// A v4.0 client, identified only by the stateid itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Requester<'a> {
    /// A client of v4.0, which only the stateid itself identifies.
    WithoutSession,
    /// The client of a session.
    Session(&'a Arc<Client>),
}

/// The session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreatedSession {
    /// The csa_sequence that created it.
    pub(crate) id: [u8; 16],
    /// Granted flags.
    pub(crate) sequence: u32,
    /// Flags that were granted.
    pub(crate) flags: u32,
    /// From client to server.
    pub(crate) fore: ChannelAttributes,
    /// The kind of an owner; each kind has its own names.
    pub(crate) back: ChannelAttributes,
}

/// The kind of an owner; the names of both kinds are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    /// An owner of opens.
    Open,
    /// An owner of byte-range locks.
    Lock,
}

impl Client {
    /// Creates a client whose lease starts now.
    pub(super) fn new(
        id: u64,
        kind: ClientKind,
        identity: Identity<'_>,
        charge: Charge,
        now_ns: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            kind,
            owner: Arc::from(identity.owner),
            verifier: identity.verifier,
            principal: identity.principal,
            renewed_ns: AtomicU64::new(now_ns),
            status_flags: AtomicU32::new(0),
            holdings: Mutex::default(),
            _charge: charge,
        })
    }

    /// Whether it uses v4.1 or later.
    pub(crate) fn has_sessions(&self) -> bool {
        self.kind == ClientKind::WithSessions
    }

    /// The number in its stateids.
    pub(super) fn number(&self) -> u32 {
        self.id as u32
    }

    /// Renews its lease.
    pub(crate) fn renew(&self, now_ns: u64) {
        // Calls of one client run on several threads, each with its own reading of the clock, so
        // the latest one wins. Relaxed is enough: a lease orders no other memory.
        self.renewed_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Whether its lease has run out.
    pub(super) fn is_expired(&self, now_ns: u64, lease_ns: u64) -> bool {
        now_ns.saturating_sub(self.renewed_ns.load(Ordering::Relaxed)) > lease_ns
    }

    /// The flags that SEQUENCE returns to it.
    pub(crate) fn status_flags(&self) -> u32 {
        // Relaxed: the flags announce something that the client will ask about in further calls.
        self.status_flags.load(Ordering::Relaxed)
    }

    /// Sets flags that SEQUENCE returns.
    pub(super) fn raise_flags(&self, flags: u32) {
        self.status_flags.fetch_or(flags, Ordering::Relaxed);
    }

    /// Clears flags that SEQUENCE returns.
    pub(super) fn clear_flags(&self, flags: u32) {
        self.status_flags.fetch_and(!flags, Ordering::Relaxed);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ClientState> {
        sync::lock(&self.holdings)
    }
}

/// The identity a client claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    /// Its name, which survives its restarts.
    pub(crate) owner: &'a [u8],
    /// Differs between its starts.
    pub(crate) verifier: [u8; 8],
    /// The calling principal.
    pub(crate) principal: Principal,
}

impl ClientState {
    /// The owners of a kind.
    pub(super) fn owners_of(&mut self, kind: OwnerKind) -> &mut HashMap<Arc<[u8]>, Owner> {
        match kind {
            OwnerKind::Open => &mut self.open_owners,
            OwnerKind::Lock => &mut self.lock_owners,
        }
    }

    /// Whether it has opens, locks, delegations or copies in progress.
    pub(super) fn has_state(&self) -> bool {
        let has_states = |owner: &Owner| !owner.states.is_empty();
        !self.delegations.is_empty()
            || self.running_copies > 0
            || !self.layouts.is_empty()
            || self.open_owners.values().any(has_states)
            || self.lock_owners.values().any(has_states)
    }

    /// Returns the key of an owner's state for a file.
    pub(super) fn state_of(&mut self, kind: OwnerKind, name: &[u8], file: InodeId) -> Option<u64> {
        self.owners_of(kind).get(name)?.states.get(&file).copied()
    }
}
