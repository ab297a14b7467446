//! File handles as numbers.
//!
//! [`FileNumbers`] gives each handle of each server a number, in the order in which they appear.
//! A handle is kept as a keyed hash of 64 bits: with 10 million files the chance that any two have
//! the same is 1 in 370,000. Two generations bound the memory: when the young one is full it
//! becomes the old one, and what was not used meanwhile is forgotten. A forgotten file that appears
//! again has a new number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::secret::{Domain, Secret};

/// Files in one generation; both together take some 200 MB.
const GENERATION_FILES: usize = 4 << 20;

/// Passes a hash through: the keys are keyed hashes already.
#[derive(Debug, Default)]
pub struct PassThrough(u64);

impl Hasher for PassThrough {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type Numbers = HashMap<u64, u32, BuildHasherDefault<PassThrough>>;

/// Numbers of files.
#[derive(Debug)]
pub struct FileNumbers {
    young: Numbers,
    old: Numbers,
    next: u32,
    generation_files: usize,
    /// Files that were forgotten.
    pub forgotten: u64,
}

impl Default for FileNumbers {
    fn default() -> Self {
        Self::with_generations_of(GENERATION_FILES)
    }
}

/// A file by its number, and whether the number is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// Number of the file.
    pub number: u32,
    /// Whether it was not known before.
    pub is_new: bool,
}

impl FileNumbers {
    /// Makes the table with generations of this many files.
    pub fn with_generations_of(generation_files: usize) -> Self {
        let (young, old) = (Numbers::default(), Numbers::default());
        Self { young, old, next: 1, generation_files, forgotten: 0 }
    }

    /// Returns the number of a handle at a server.
    pub fn of_handle(&mut self, secret: &Secret, server: u32, handle: &[u8]) -> Numbered {
        self.number(secret.hash64(Domain::Handle, u64::from(server), handle))
    }

    /// Returns the number of a file of which only directory and name are known.
    pub fn of_name(&mut self, secret: &Secret, dir: u32, name: u64) -> u32 {
        self.number(secret.hash64(Domain::Path, u64::from(dir), &name.to_le_bytes())).number
    }

    fn number(&mut self, hash: u64) -> Numbered {
        if let Some(number) = self.young.get(&hash) {
            return Numbered { number: *number, is_new: false };
        }
        let known = self.old.remove(&hash);
        let is_new = known.is_none();
        let number = known.unwrap_or(self.next);
        if is_new {
            self.next = self.next.checked_add(1).unwrap_or(1);
        }
        if self.young.len() >= self.generation_files {
            self.forgotten += self.old.len() as u64;
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, number);
        Numbered { number, is_new }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_keeps_its_number_and_servers_have_their_own() {
        let (secret, mut files) = (Secret::default(), FileNumbers::default());
        let first = files.of_handle(&secret, 0, b"a");
        assert_eq!(first, Numbered { number: 1, is_new: true });
        assert_eq!(files.of_handle(&secret, 0, b"a"), Numbered { number: 1, is_new: false });
        assert_eq!(files.of_handle(&secret, 0, b"b").number, 2);
        assert_eq!(files.of_handle(&secret, 1, b"a").number, 3);
        let named = files.of_name(&secret, 1, 77);
        assert_eq!((named, files.of_name(&secret, 1, 77)), (4, 4));
        assert_eq!(files.of_name(&secret, 2, 77), 5);
    }

    #[test]
    fn memory_is_bounded_and_what_is_in_use_is_kept() {
        let (secret, mut files) = (Secret::default(), FileNumbers::with_generations_of(100));
        for number in 0..10_000_u32 {
            files.of_handle(&secret, 0, &number.to_be_bytes());
            assert_eq!(files.of_handle(&secret, 0, b"hot").number, 2, "after {number}");
            assert!(files.young.len() + files.old.len() <= 200);
        }
        assert!(files.forgotten > 9000);
    }
}
