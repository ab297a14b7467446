//! A table of shared objects by number: inodes, sessions, opens and lock states.
//!
//! A number is a slot and the slot's generation, so a lookup takes one short read lock and no hash,
//! and the number of an object that is gone is never mistaken for its successor's. Slots are spread
//! over shards, each with its own lock, so threads that look up different numbers seldom meet.
//! Removing an object frees its slot; an operation that holds the `Arc` may finish with it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use crate::sync;

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
pub(crate) struct Registry<T> {
    shards: Vec<RwLock<Shard<T>>>,
    turn: AtomicU64,
    len: AtomicUsize,
    limit: usize,
}

impl<T> Registry<T> {
    /// Creates an empty table for at most `limit` objects; the first one inserted gets slot 0.
    pub(crate) fn new(limit: usize) -> Self {
        let shard = || RwLock::new(Shard { slots: Vec::new(), free: Vec::new() });
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            turn: AtomicU64::new(0),
            len: AtomicUsize::new(0),
            limit,
        }
    }

    /// Finds an object.
    pub(crate) fn get(&self, key: u64) -> Option<Arc<T>> {
        let index = key as u32;
        let generation = (key >> 32) as u32;
        let shard = sync::read(&self.shards[(index % SHARDS) as usize]);
        let slot = shard.slots.get((index / SHARDS) as usize)?;
        if slot.generation != generation {
            return None;
        }
        slot.object.clone()
    }

    /// Whether a number's slot was ever in use.
    pub(crate) fn has_slot(&self, key: u64) -> bool {
        let index = key as u32;
        let shard = sync::read(&self.shards[(index % SHARDS) as usize]);
        (index / SHARDS) < shard.slots.len() as u32
    }

    /// Inserts the object that `make` builds for its number; `None` if the table is full.
    pub(crate) fn insert(&self, make: impl FnOnce(u64) -> T) -> Option<Arc<T>> {
        // Counted before the check, so that two threads can't both take the last slot.
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // Round robin keeps the shards equally long.
        let shard_index = (self.turn.fetch_add(1, Ordering::Relaxed) % u64::from(SHARDS)) as u32;
        let mut shard = sync::write(&self.shards[shard_index as usize]);
        let row = shard.free.pop().unwrap_or_else(|| {
            // Generations start at 1: no number is 0.
            shard.slots.push(Slot { generation: 1, object: None });
            shard.slots.len() as u32 - 1
        });
        let slot = &mut shard.slots[row as usize];
        let key = u64::from(slot.generation) << 32 | u64::from(row * SHARDS + shard_index);
        let object = Arc::new(make(key));
        slot.object = Some(Arc::clone(&object));
        Some(object)
    }

    /// Removes an object, if it exists, and returns it.
    pub(crate) fn remove(&self, key: u64) -> Option<Arc<T>> {
        let index = key as u32;
        let generation = (key >> 32) as u32;
        let mut shard = sync::write(&self.shards[(index % SHARDS) as usize]);
        let row = index / SHARDS;
        let slot = shard.slots.get_mut(row as usize)?;
        if slot.generation != generation {
            return None;
        }
        let object = slot.object.take()?;
        slot.generation = slot.generation.wrapping_add(1).max(1);
        shard.free.push(row);
        self.len.fetch_sub(1, Ordering::Relaxed);
        // The caller drops the object after the lock is released: freeing a large file takes long.
        Some(object)
    }

    /// All objects, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(sync::read(shard).slots.iter().filter_map(|slot| slot.object.clone()));
        }
        all
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_reuses_numbers() {
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
