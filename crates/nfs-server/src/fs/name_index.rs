//! The names of one directory, found by name.
//!
//! A hash map that grows moves all its entries at once: in a directory of a million names, the
//! CREATE that causes it would take a fifth of a second. This index consists of small maps and
//! splits one that is full, so that no insertion moves more than [`BUCKET_NAMES`].
//!
//! **Source:** R. Fagin et al., Extendible Hashing, ACM TODS 4(3), 1979.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::mem;

use super::handle::InodeId;
use super::types::Name;

/// Most names of one map.
const BUCKET_NAMES: usize = 2048;

/// The cookie and the inode of a name.
type Entry = (u64, InodeId);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    /// The bucket for each pattern of the last bits of a hash; empty for a single bucket.
    bucket_of: Vec<usize>,
    buckets: Vec<Bucket>,
    hashes: RandomState,
    len: usize,
}

#[derive(Debug, Default)]
struct Bucket {
    /// How many of their last bits the hashes of all names here share.
    shared_bits: u32,
    entries: HashMap<Name, Entry>,
}

impl NameIndex {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Entry> {
        self.buckets.get(self.bucket(name))?.entries.get(name).copied()
    }

    /// Adds a name, or returns what it replaces.
    pub(super) fn insert(&mut self, name: Name, entry: Entry) -> Option<Entry> {
        if self.buckets.is_empty() {
            self.buckets.push(Bucket::default());
        }
        let mut index = self.bucket(&name);
        while self.buckets[index].entries.len() >= BUCKET_NAMES {
            self.split(index);
            index = self.bucket(&name);
        }
        let replaced = self.buckets[index].entries.insert(name, entry);
        self.len += usize::from(replaced.is_none());
        replaced
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Entry> {
        let index = self.bucket(name);
        let removed = self.buckets.get_mut(index)?.entries.remove(name)?;
        self.len -= 1;
        Some(removed)
    }

    fn bucket(&self, name: &[u8]) -> usize {
        // Most directories have one bucket, and their names are hashed only once.
        if self.bucket_of.is_empty() {
            return 0;
        }
        self.bucket_of[self.hashes.hash_one(name) as usize & (self.bucket_of.len() - 1)]
    }

    /// Moves the names whose next bit of the hash is set to a new bucket.
    fn split(&mut self, index: usize) {
        if self.bucket_of.is_empty() {
            self.bucket_of.push(0);
        }
        let bit = 1 << self.buckets[index].shared_bits;
        if bit == self.bucket_of.len() {
            self.bucket_of.extend_from_within(..);
        }
        let added = self.buckets.len();
        for (pattern, bucket) in self.bucket_of.iter_mut().enumerate() {
            if *bucket == index && pattern & bit != 0 {
                *bucket = added;
            }
        }
        let full = &mut self.buckets[index];
        full.shared_bits += 1;
        let shared_bits = full.shared_bits;
        let (moved, kept) = mem::take(&mut full.entries)
            .into_iter()
            .partition(|(name, _)| self.hashes.hash_one(&**name) as usize & bit != 0);
        full.entries = kept;
        self.buckets.push(Bucket { shared_bits, entries: moved });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> Name {
        Name::from(format!("file{number}").as_bytes())
    }

    fn entry(cookie: u64) -> Entry {
        (cookie, InodeId { index: cookie as u32, generation: 1 })
    }

    #[test]
    fn finds_names_in_small_buckets() {
        let mut index = NameIndex::default();
        assert_eq!((index.get(b"file1"), index.remove(b"file1")), (None, None));
        let names = 20 * BUCKET_NAMES as u64;
        for number in 0..names {
            assert_eq!(index.insert(name(number), entry(number)), None);
        }
        assert_eq!(index.insert(name(7), entry(names)), Some(entry(7)));
        for number in (0..names).step_by(2) {
            assert_eq!(index.remove(&name(number)), Some(entry(number)));
            assert_eq!(index.remove(&name(number)), None);
        }
        assert_eq!(index.len() as u64, names / 2);
        for number in 0..names {
            let expected = match number {
                7 => Some(entry(names)),
                number if number % 2 == 0 => None,
                number => Some(entry(number)),
            };
            assert_eq!(index.get(&name(number)), expected, "{number}");
        }
        assert!(index.buckets.len() > 20, "{} buckets", index.buckets.len());
        assert!(index.buckets.iter().all(|bucket| bucket.entries.len() <= BUCKET_NAMES));
    }
}
