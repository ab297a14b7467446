//! One state: an open, or an owner's locks on a file.
//!
//! The generation and the share are atomics: READ and WRITE look at them without a lock, and only
//! calls that hold the lock of the file's entry change them.
//!
//! **Source:** RFC 7530 section 9.1.4, RFC 8881 section 8.2.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nfs_proto::Status;
use nfs_proto::nfs4::Stateid;

use super::client::{Client, OwnerKind};
use crate::fs::{InodeId, Pin};

/// Reading is allowed, or denied to others. **Source:** OPEN4_SHARE_ACCESS_READ, _DENY_READ.
pub(in crate::service) const READ: u32 = 1;
/// Writing is allowed, or denied to others. **Source:** OPEN4_SHARE_ACCESS_WRITE, _DENY_WRITE.
pub(in crate::service) const WRITE: u32 = 2;

/// The access that an open allows itself and denies to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct Share {
    /// `READ`, `WRITE` or both.
    pub(in crate::service) access: u32,
    /// `READ`, `WRITE`, both or 0.
    pub(in crate::service) deny: u32,
}

impl Share {
    /// Whether two opens can't be at the same time.
    pub(super) fn conflicts(self, other: Self) -> bool {
        self.access & other.deny != 0 || self.deny & other.access != 0
    }

    /// Returns the access of both together.
    pub(super) fn union(self, other: Self) -> Self {
        Self { access: self.access | other.access, deny: self.deny | other.deny }
    }
}

/// See the module.
#[derive(Debug)]
pub(in crate::service) struct State {
    /// Its number in the registry.
    pub(super) key: u64,
    pub(super) client: Arc<Client>,
    /// Name of the owner.
    pub(super) owner: Arc<[u8]>,
    pub(super) file: InodeId,
    /// The open that a state of locks belongs to; `None` for an open.
    pub(super) open: Option<Arc<Self>>,
    generation: AtomicU32,
    /// Access and deny bits: those in force, then each value that was asked for, one bit each.
    share: AtomicU32,
    live: AtomicBool,
    pin: Mutex<Option<Pin>>,
}

impl State {
    /// Makes an open.
    pub(super) fn open(
        key: u64,
        client: &Arc<Client>,
        owner: &Arc<[u8]>,
        pin: Pin,
        share: Share,
    ) -> Self {
        Self {
            key,
            client: Arc::clone(client),
            owner: Arc::clone(owner),
            file: pin.id(),
            open: None,
            generation: AtomicU32::new(1),
            share: AtomicU32::new(pack(share) | asked(share)),
            live: AtomicBool::new(true),
            pin: Mutex::new(Some(pin)),
        }
    }

    /// Makes the state of an owner's locks under an open; its first LOCK makes it generation 1.
    pub(super) fn locks(key: u64, owner: &Arc<[u8]>, open: &Arc<Self>) -> Self {
        Self {
            key,
            client: Arc::clone(&open.client),
            owner: Arc::clone(owner),
            file: open.file,
            open: Some(Arc::clone(open)),
            generation: AtomicU32::new(0),
            share: AtomicU32::new(0),
            live: AtomicBool::new(true),
            pin: Mutex::new(None),
        }
    }

    /// Whose it is.
    pub(in crate::service) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Name of the owner.
    pub(in crate::service) fn owner(&self) -> &Arc<[u8]> {
        &self.owner
    }

    /// Returns the kind of owner that it has.
    pub(in crate::service) fn kind(&self) -> OwnerKind {
        if self.open.is_some() { OwnerKind::Lock } else { OwnerKind::Open }
    }

    /// Returns the access that its open allows and denies.
    pub(super) fn share(&self) -> Share {
        let open = self.open.as_deref().unwrap_or(self);
        unpack(open.share.load(Ordering::Relaxed))
    }

    /// Opens more, or less.
    pub(super) fn set_share(&self, share: Share, ask: Share) {
        let kept = self.share.load(Ordering::Relaxed) & !0xf;
        self.share.store(kept | pack(share) | asked(ask), Ordering::Relaxed);
    }

    /// Whether both parts of a share were asked for by some OPEN before.
    pub(super) fn was_asked(&self, share: Share) -> bool {
        self.share.load(Ordering::Relaxed) & asked(share) == asked(share)
    }

    /// Forgets what was asked for beyond a share that was downgraded to.
    pub(super) fn downgrade(&self, share: Share) {
        let old = self.share.load(Ordering::Relaxed);
        let within = |limit: u32, value: u32| value & !limit == 0;
        let mut kept = 0;
        for value in 0..4 {
            let bits = [(share.access, ASKED_ACCESS), (share.deny, ASKED_DENY)];
            for (limit, base) in bits {
                let bit = 1 << (base + value);
                kept |= if within(limit, value) { old & bit } else { 0 };
            }
        }
        self.share.store(kept | pack(share) | asked(share), Ordering::Relaxed);
    }

    /// Marks a change and names the state after it.
    pub(super) fn bump(&self) -> Stateid {
        // Zero means "whichever is current" in v4.1.
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.generation.store(next, Ordering::Relaxed);
        self.stateid()
    }

    /// Its name as it stands.
    pub(super) fn stateid(&self) -> Stateid {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.client.number().to_be_bytes());
        other[4..].copy_from_slice(&self.key.to_be_bytes());
        Stateid { seqid: self.generation.load(Ordering::Relaxed), other }
    }

    /// Compares a generation that a client sent. `zero_is_current` holds from v4.1 on.
    ///
    /// # Errors
    /// `OldStateid`, or `BadStateid` for one that is yet to come.
    pub(super) fn check_generation(&self, seqid: u32, zero_is_current: bool) -> Result<(), Status> {
        let current = self.generation.load(Ordering::Relaxed);
        if seqid == current || zero_is_current && seqid == 0 {
            return Ok(());
        }
        // Half of the circle lies behind.
        let behind = current.wrapping_sub(seqid) < 1 << 31;
        Err(if behind { Status::OldStateid } else { Status::BadStateid })
    }

    /// Whether it was not closed yet.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire) && self.open.as_ref().is_none_or(|open| open.is_live())
    }

    /// Ends it, and lets the file go.
    pub(super) fn end(&self) {
        self.live.store(false, Ordering::Release);
        drop(self.pin.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The numbers of client and state in a stateid.
pub(super) fn numbers(stateid: &Stateid) -> (u32, u64) {
    let (client, key) = stateid.other.split_at(4);
    let client = u32::from_be_bytes(client.try_into().expect("four bytes"));
    (client, u64::from_be_bytes(key.try_into().expect("eight bytes")))
}

const ASKED_ACCESS: u32 = 4;
const ASKED_DENY: u32 = 8;

fn pack(share: Share) -> u32 {
    share.access | share.deny << 2
}

fn unpack(bits: u32) -> Share {
    Share { access: bits & 3, deny: bits >> 2 & 3 }
}

fn asked(share: Share) -> u32 {
    1 << (ASKED_ACCESS + share.access) | 1 << (ASKED_DENY + share.deny)
}
