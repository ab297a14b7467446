//! The inode table: from a slot and its generation to a living inode.
//!
//! Slots are spread over shards, each with its own lock, so threads that look up different
//! handles seldom meet. Removing an inode frees its slot and makes every handle to it stale;
//! whoever holds the `Arc` may finish with it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::handle::InodeId;
use super::inode::Inode;
use super::types::FsError;

const SHARDS: u32 = 16;

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    inode: Option<Arc<Inode>>,
}

#[derive(Debug, Default)]
struct Shard {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// All inodes of the file system.
#[derive(Debug)]
pub struct InodeTable {
    shards: Vec<RwLock<Shard>>,
    inserted: AtomicU64,
    removed: AtomicU64,
}

impl InodeTable {
    /// Makes an empty table; the first inode inserted gets slot 0.
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            inserted: AtomicU64::new(0),
            removed: AtomicU64::new(0),
        }
    }

    /// Finds an inode.
    ///
    /// # Errors
    /// `Stale` where it was removed, `BadHandle` where the slot never existed.
    pub fn get(&self, id: InodeId) -> Result<Arc<Inode>, FsError> {
        let shard = &self.shards[(id.index % SHARDS) as usize];
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        let slot = shard.slots.get((id.index / SHARDS) as usize).ok_or(FsError::BadHandle)?;
        match &slot.inode {
            Some(inode) if slot.generation == id.generation => Ok(Arc::clone(inode)),
            _ => Err(FsError::Stale),
        }
    }

    /// Takes a free slot and fills it with what `make` builds for it.
    pub fn insert(&self, make: impl FnOnce(InodeId) -> Inode) -> Arc<Inode> {
        let turn = self.inserted.fetch_add(1, Ordering::Relaxed);
        let shard_index = (turn % u64::from(SHARDS)) as u32;
        let mut shard = self.lock(shard_index);
        let place = shard.free.pop().unwrap_or_else(|| {
            shard.slots.push(Slot::default());
            shard.slots.len() as u32 - 1
        });
        let slot = &mut shard.slots[place as usize];
        let id = InodeId { index: place * SHARDS + shard_index, generation: slot.generation };
        let inode = Arc::new(make(id));
        slot.inode = Some(Arc::clone(&inode));
        inode
    }

    /// Frees the slot of an inode.
    pub fn remove(&self, id: InodeId) {
        let mut shard = self.lock(id.index % SHARDS);
        let place = id.index / SHARDS;
        let slot = &mut shard.slots[place as usize];
        assert_eq!(slot.generation, id.generation, "an inode is removed once");
        let inode = slot.inode.take();
        slot.generation = slot.generation.wrapping_add(1);
        shard.free.push(place);
        drop(shard);
        self.removed.fetch_add(1, Ordering::Relaxed);
        drop(inode);
    }

    /// All living inodes, in no order.
    pub fn all(&self) -> Vec<Arc<Inode>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            all.extend(shard.slots.iter().filter_map(|slot| slot.inode.clone()));
        }
        all
    }

    /// Number of living inodes.
    pub fn len(&self) -> u64 {
        let removed = self.removed.load(Ordering::Relaxed);
        self.inserted.load(Ordering::Relaxed).saturating_sub(removed)
    }

    fn lock(&self, shard: u32) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard as usize].write().unwrap_or_else(PoisonError::into_inner)
    }
}
