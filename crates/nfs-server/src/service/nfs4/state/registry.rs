//! A table of shared objects by number: sessions and states.
//!
//! A number is a slot and the slot's generation, so finding takes one short read lock and no hash,
//! and the number of something that is gone is never mistaken for its successor's. Slots are
//! spread over shards, as in `fs::table`. The number of objects is bounded.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

const SHARDS: u32 = 32;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    object: Option<Arc<T>>,
}

#[derive(Debug)]
struct Shard<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Registry<T> {
    shards: Vec<RwLock<Shard<T>>>,
    turn: AtomicU64,
    len: AtomicUsize,
    limit: usize,
}

impl<T> Registry<T> {
    /// Makes an empty table for at most `limit` objects.
    pub(super) fn new(limit: usize) -> Self {
        let shard = || RwLock::new(Shard { slots: Vec::new(), free: Vec::new() });
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            turn: AtomicU64::new(0),
            len: AtomicUsize::new(0),
            limit,
        }
    }

    /// Finds an object.
    pub(super) fn get(&self, key: u64) -> Option<Arc<T>> {
        let (index, generation) = (key as u32, (key >> 32) as u32);
        let shard = &self.shards[(index % SHARDS) as usize];
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        let slot = shard.slots.get((index / SHARDS) as usize)?;
        slot.object.as_ref().filter(|_| slot.generation == generation).cloned()
    }

    /// Puts in what `make` builds for its number; `None` where the table is full.
    pub(super) fn insert(&self, make: impl FnOnce(u64) -> T) -> Option<Arc<T>> {
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let shard_index = (self.turn.fetch_add(1, Ordering::Relaxed) % u64::from(SHARDS)) as u32;
        let mut shard = self.lock(shard_index);
        let place = shard.free.pop().unwrap_or_else(|| {
            // Generations start at 1: no number is 0.
            shard.slots.push(Slot { generation: 1, object: None });
            shard.slots.len() as u32 - 1
        });
        let slot = &mut shard.slots[place as usize];
        let key = u64::from(slot.generation) << 32 | u64::from(place * SHARDS + shard_index);
        let object = Arc::new(make(key));
        slot.object = Some(Arc::clone(&object));
        Some(object)
    }

    /// Takes an object out, where it is there.
    pub(super) fn remove(&self, key: u64) -> Option<Arc<T>> {
        let (index, generation) = (key as u32, (key >> 32) as u32);
        let mut shard = self.lock(index % SHARDS);
        let place = index / SHARDS;
        let slot = shard.slots.get_mut(place as usize)?;
        if slot.generation != generation {
            return None;
        }
        let object = slot.object.take()?;
        slot.generation = slot.generation.wrapping_add(1).max(1);
        shard.free.push(place);
        drop(shard);
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(object)
    }

    /// Number of objects.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn lock(&self, shard: u32) -> RwLockWriteGuard<'_, Shard<T>> {
        self.shards[shard as usize].write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_until_removed_and_never_used_again() {
        let registry = Registry::new(100);
        let keys: Vec<u64> =
            (0..100_u64).map(|value| registry.insert(|key| (key, value)).unwrap().0).collect();
        assert!(registry.insert(|key| (key, 0)).is_none(), "full");
        for (value, key) in (0..).zip(&keys) {
            assert_eq!(*registry.get(*key).unwrap(), (*key, value));
        }
        for key in &keys {
            assert!(registry.remove(*key).is_some());
            assert!(registry.remove(*key).is_none());
        }
        assert_eq!(registry.len(), 0);
        let again: Vec<u64> =
            (0..100).map(|value| registry.insert(|key| (key, value)).unwrap().0).collect();
        assert!(again.iter().all(|key| !keys.contains(key)));
        assert!(keys.iter().all(|key| registry.get(*key).is_none()));
        assert!(registry.get(u64::MAX).is_none());
    }
}
