//! One state: an open, an owner's locks on a file, a delegation, or the layouts of a file.
//!
//! The generation and the share are atomics: READ and WRITE read them without a lock, and only
//! calls that hold the lock of the file's entry change them.
//!
//! **Source:** RFC 7530 section 9.1.4, RFC 8881 section 8.2.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use nfs_proto::Status;
use nfs_proto::nfs4::{FileHandle, Stateid};

use super::client::{Client, OwnerKind, Requester};
use super::layout_ranges::LayoutRanges;
use super::recall::Recall;
use crate::fs::{Charge, InodeId, Pin};
use crate::sync;

/// Reading: allowed, or denied to others. **Source:** OPEN4_SHARE_ACCESS_READ, _DENY_READ.
pub(crate) const READ: u32 = 1;
/// Writing: allowed, or denied to others. **Source:** OPEN4_SHARE_ACCESS_WRITE, _DENY_WRITE.
pub(crate) const WRITE: u32 = 2;

/// Share reservation: the access an open has and the access it denies to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// `READ`, `WRITE` or both.
    pub(crate) access: u32,
    /// `READ`, `WRITE`, both or 0.
    pub(crate) deny: u32,
}

impl Share {
    /// Returns true if two opens can't coexist.
    pub(super) fn conflicts(self, other: Self) -> bool {
        self.access & other.deny != 0 || self.deny & other.access != 0
    }

    /// Returns the union of both.
    pub(super) fn union(self, other: Self) -> Self {
        Self { access: self.access | other.access, deny: self.deny | other.deny }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    /// Its key in the registry.
    pub(super) key: u64,
    pub(crate) client: Arc<Client>,
    /// Name of the owner.
    pub(crate) owner: Arc<[u8]>,
    pub(super) file: InodeId,
    /// The open that a lock state belongs to; `None` for an open.
    pub(super) open: Option<Arc<Self>>,
    /// The recall of a delegation; `None` for an open and for locks.
    pub(super) delegation: Option<Recall>,
    /// The layouts that a client has of a file.
    pub(super) layout: Option<Box<HeldLayout>>,
    generation: AtomicU32,
    /// Access and deny bits: the effective ones, then one bit per value that OPENs requested.
    share: AtomicU32,
    live: AtomicBool,
    pin: Mutex<Option<Pin>>,
    _charge: Charge,
}

impl State {
    /// Makes an open.
    pub(super) fn open(
        key: u64,
        client: &Arc<Client>,
        owner: &Arc<[u8]>,
        pin: Pin,
        share: Share,
        charge: Charge,
    ) -> Self {
        Self {
            key,
            client: Arc::clone(client),
            owner: Arc::clone(owner),
            file: pin.id(),
            open: None,
            delegation: None,
            layout: None,
            generation: AtomicU32::new(1),
            share: AtomicU32::new(pack_share(share) | requested_bits(share)),
            live: AtomicBool::new(true),
            pin: Mutex::new(Some(pin)),
            _charge: charge,
        }
    }

    /// Makes a lock state under an open; its first LOCK makes it generation 1.
    pub(super) fn locks(key: u64, owner: &Arc<[u8]>, open: &Arc<Self>, charge: Charge) -> Self {
        Self {
            key,
            client: Arc::clone(&open.client),
            owner: Arc::clone(owner),
            file: open.file,
            open: Some(Arc::clone(open)),
            delegation: None,
            layout: None,
            generation: AtomicU32::new(0),
            share: AtomicU32::new(0),
            live: AtomicBool::new(true),
            pin: Mutex::new(None),
            _charge: charge,
        }
    }

    /// Makes a read delegation: its stateid allows the same as an open for reading.
    pub(super) fn delegation(
        key: u64,
        client: &Arc<Client>,
        pin: Pin,
        handle: FileHandle,
        charge: Charge,
    ) -> Self {
        let share = Share { access: READ, deny: 0 };
        let open = Self::open(key, client, &Arc::from([]), pin, share, charge);
        Self { delegation: Some(Recall::new(handle)), ..open }
    }

    /// Makes the state of the layouts that a client has of a file: its stateid allows no I/O here.
    pub(super) fn layouts(
        key: u64,
        client: &Arc<Client>,
        pin: Pin,
        handle: FileHandle,
        layout_type: u32,
        charge: Charge,
    ) -> Self {
        let share = Share { access: 0, deny: 0 };
        let open = Self::open(key, client, &Arc::from([]), pin, share, charge);
        let recall = Recall::new(handle);
        let layout = HeldLayout { layout_type, recall, ranges: Mutex::default() };
        // The first grant makes it generation 1.
        let generation = AtomicU32::new(0);
        Self { layout: Some(Box::new(layout)), generation, ..open }
    }

    /// Progress of its recall, if it can be recalled.
    pub(super) fn recall(&self) -> Option<&Recall> {
        self.delegation.as_ref().or(self.layout.as_ref().map(|layout| &layout.recall))
    }

    /// Whether it is an open.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_none() && self.delegation.is_none() && self.layout.is_none()
    }

    /// The status of a call that refers to it after its end.
    pub(super) fn ended_status(&self) -> Status {
        match &self.delegation {
            Some(delegation) if delegation.is_revoked() => Status::DelegRevoked,
            _ => Status::BadStateid,
        }
    }

    /// Returns the kind of its owner.
    pub(crate) fn kind(&self) -> OwnerKind {
        if self.open.is_some() { OwnerKind::Lock } else { OwnerKind::Open }
    }

    /// Returns the share of its open.
    pub(super) fn share(&self) -> Share {
        let open = self.open.as_deref().unwrap_or(self);
        unpack_share(open.share.load(Ordering::Relaxed))
    }

    /// Widens or narrows the share.
    pub(super) fn set_share(&self, share: Share, request: Share) {
        let kept = self.share.load(Ordering::Relaxed) & !0xf;
        self.share.store(kept | pack_share(share) | requested_bits(request), Ordering::Relaxed);
    }

    /// Returns true if some OPEN requested each part of the share before.
    pub(super) fn was_requested(&self, share: Share) -> bool {
        self.share.load(Ordering::Relaxed) & requested_bits(share) == requested_bits(share)
    }

    /// Forgets requested shares beyond the one that was downgraded to.
    pub(super) fn downgrade(&self, share: Share) {
        let old = self.share.load(Ordering::Relaxed);
        // An access (or deny) value that goes beyond the new one is no longer a valid target of a
        // downgrade: only its subsets that an OPEN requested are.
        let mut kept = 0;
        for (limit, base) in [(share.access, REQUESTED_ACCESS), (share.deny, REQUESTED_DENY)] {
            for value in 0..4 {
                if value & !limit == 0 {
                    kept |= old & 1 << (base + value);
                }
            }
        }
        self.share.store(kept | pack_share(share) | requested_bits(share), Ordering::Relaxed);
    }

    /// Advances the generation and returns the new stateid.
    pub(super) fn advance_generation(&self) -> Stateid {
        // Zero means "the current one" in v4.1.
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.generation.store(next, Ordering::Relaxed);
        self.stateid()
    }

    /// Returns the current stateid.
    pub(super) fn stateid(&self) -> Stateid {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.client.number().to_be_bytes());
        other[4..].copy_from_slice(&self.key.to_be_bytes());
        Stateid { seqid: self.generation.load(Ordering::Relaxed), other }
    }

    /// Checks a generation sent by a client.
    ///
    /// # Errors
    /// `OldStateid`, or `BadStateid` for a future one.
    pub(super) fn check_generation(
        &self,
        seqid: u32,
        requester: Requester<'_>,
    ) -> Result<(), Status> {
        let current = self.generation.load(Ordering::Relaxed);
        // From v4.1 on, 0 means the current generation, for calls that the client sends in parallel
        // and can't order (RFC 8881 section 8.2.2).
        let zero_is_current = matches!(requester, Requester::Session(_));
        if seqid == current || zero_is_current && seqid == 0 {
            return Ok(());
        }
        // Generations wrap around, so half of the range counts as old and the other half as future.
        let behind = current.wrapping_sub(seqid) < 1 << 31;
        Err(if behind { Status::OldStateid } else { Status::BadStateid })
    }

    /// Whether it has not been closed yet.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire) && self.open.as_ref().is_none_or(|open| open.is_live())
    }

    /// Ends it and releases the file.
    pub(super) fn end(&self) {
        drop(self.end_keeping_file());
    }

    /// Ends it and returns what keeps the file.
    pub(super) fn end_keeping_file(&self) -> Option<Pin> {
        self.live.store(false, Ordering::Release);
        sync::lock(&self.pin).take()
    }
}

/// The part of a state that only layouts have.
#[derive(Debug)]
pub(super) struct HeldLayout {
    pub(super) layout_type: u32,
    pub(super) recall: Recall,
    pub(super) ranges: Mutex<LayoutRanges>,
}

/// Extracts the client number and the key from a stateid.
pub(super) fn client_and_key(stateid: &Stateid) -> (u32, u64) {
    let (client, key) = stateid.other.split_at(4);
    let client = u32::from_be_bytes(client.try_into().expect("four bytes"));
    (client, u64::from_be_bytes(key.try_into().expect("eight bytes")))
}

// OPEN_DOWNGRADE may only go to a combination that some OPEN of the owner requested (RFC 7530
// section 16.19.4). Access has the values 1 to 3 and deny 0 to 3, so one bit per requested value,
// starting at these bits, fits in the same word as the effective share.
const REQUESTED_ACCESS: u32 = 4;
const REQUESTED_DENY: u32 = 8;

fn pack_share(share: Share) -> u32 {
    share.access | share.deny << 2
}

fn unpack_share(bits: u32) -> Share {
    Share { access: bits & 3, deny: bits >> 2 & 3 }
}

fn requested_bits(share: Share) -> u32 {
    1 << (REQUESTED_ACCESS + share.access) | 1 << (REQUESTED_DENY + share.deny)
}
