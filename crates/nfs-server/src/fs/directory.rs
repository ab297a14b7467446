//! One directory: names to inodes, in an order that a client can resume.
//!
//! Each entry gets the next number of its directory as its cookie and keeps it for life; numbers
//! are never reused. So a listing that continues after cookie N neither repeats nor skips an entry
//! that stayed, whatever was added or removed meanwhile. `.` and `..` have cookies 1 and 2 and are
//! not stored.
//!
//! **Source:** RFC 1813 section 3.3.16 (READDIR).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::{Budget, Charge};
use super::handle::InodeId;
use super::name_index::NameIndex;
use super::types::{FsError, Name};

/// Cookie of `.`.
pub const COOKIE_SELF: u64 = 1;
/// Cookie of `..`.
pub const COOKIE_PARENT: u64 = 2;

/// Memory charged for one entry besides its name: two index entries and the shared name.
const ENTRY_BYTES: u64 = 128;
/// Size reported per entry, and the unit to which the sum is rounded up.
const SHOWN_ENTRY_BYTES: u64 = 64;
const SHOWN_UNIT_BYTES: u64 = 4096;

/// Entries of one directory.
#[derive(Debug)]
pub struct Directory {
    /// The directory above; the root is its own parent.
    pub parent: InodeId,
    by_name: NameIndex,
    by_cookie: BTreeMap<u64, (Name, InodeId)>,
    next_cookie: u64,
    charge: Charge,
}

impl Directory {
    /// Creates an empty directory; its entries will be charged to `budget`.
    pub fn new(parent: InodeId, budget: &Arc<Budget>) -> Self {
        Self {
            parent,
            by_name: NameIndex::default(),
            by_cookie: BTreeMap::new(),
            next_cookie: COOKIE_PARENT + 1,
            charge: Charge::force(budget, 0),
        }
    }

    /// Number of entries besides `.` and `..`.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether only `.` and `..` are there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size reported to clients: at least 4 KiB, growing with the entries.
    pub fn reported_bytes(&self) -> u64 {
        (self.len() as u64 * SHOWN_ENTRY_BYTES).next_multiple_of(SHOWN_UNIT_BYTES).max(4096)
    }

    /// Memory held, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// Finds an entry by name; does not resolve `.` or `..`.
    pub fn find(&self, name: &[u8]) -> Option<InodeId> {
        let (_, id) = self.by_name.get(name)?;
        Some(id)
    }

    /// Adds an entry, or makes an existing one point to `id` under a new cookie.
    ///
    /// # Errors
    /// `NoSpace` if the budget does not allow a new entry; then nothing changes.
    pub fn insert(&mut self, name: &[u8], id: InodeId) -> Result<(), FsError> {
        if self.by_name.get(name).is_none() {
            self.charge.resize(self.charge.bytes() + entry_bytes(name))?;
        }
        let name = Name::from(name);
        // A replaced entry gets a new cookie as well: a listing that has passed the old one would
        // otherwise never show the new object.
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        if let Some((replaced, _)) = self.by_name.insert(Arc::clone(&name), (cookie, id)) {
            self.by_cookie.remove(&replaced);
        }
        self.by_cookie.insert(cookie, (name, id));
        Ok(())
    }

    /// Removes an entry and returns the inode it pointed to.
    pub fn remove(&mut self, name: &[u8]) -> Option<InodeId> {
        let (cookie, id) = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie);
        let smaller = self.charge.resize(self.charge.bytes() - entry_bytes(name));
        debug_assert!(smaller.is_ok(), "releasing memory never fails");
        Some(id)
    }

    /// Iterates over the entries after a cookie, in cookie order.
    pub fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &Name, InodeId)> {
        let from = cookie.max(COOKIE_PARENT).saturating_add(1);
        self.by_cookie.range(from..).map(|(&cookie, (name, id))| (cookie, name, *id))
    }
}

fn entry_bytes(name: &[u8]) -> u64 {
    ENTRY_BYTES + name.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: InodeId = InodeId { index: 0, generation: 0 };

    fn id(index: u32) -> InodeId {
        InodeId { index, generation: 0 }
    }

    fn names(directory: &Directory, cookie: u64) -> Vec<String> {
        directory.after(cookie).map(|(_, n, _)| String::from_utf8_lossy(n).into()).collect()
    }

    #[test]
    fn keeps_cookies_while_entries_change() {
        let budget = Budget::new(1 << 20);
        let mut directory = Directory::new(ROOT, &budget);
        for (index, name) in ["a", "b", "c", "d"].iter().enumerate() {
            directory.insert(name.as_bytes(), id(index as u32 + 1)).unwrap();
        }
        let (cookie_b, _, _) = directory.after(0).nth(1).unwrap();
        assert_eq!(directory.remove(b"a"), Some(id(1)));
        assert_eq!(directory.remove(b"b"), Some(id(2)));
        directory.insert(b"e", id(5)).unwrap();
        assert_eq!(names(&directory, cookie_b), ["c", "d", "e"]);
        assert_eq!(directory.remove(b"a"), None);
        assert_eq!(directory.len(), 3);
    }

    #[test]
    fn moves_replaced_entry_to_end() {
        let budget = Budget::new(1 << 20);
        let mut directory = Directory::new(ROOT, &budget);
        directory.insert(b"a", id(1)).unwrap();
        directory.insert(b"b", id(2)).unwrap();
        let charged = budget.used_bytes();
        directory.insert(b"a", id(3)).unwrap();
        assert_eq!(names(&directory, 0), ["b", "a"]);
        assert_eq!((directory.find(b"a"), budget.used_bytes()), (Some(id(3)), charged));
        directory.remove(b"a");
        directory.remove(b"b");
        assert_eq!((directory.is_empty(), budget.used_bytes()), (true, 0));
    }

    #[test]
    fn a_full_budget_refuses_the_entry() {
        let budget = Budget::new(200);
        let mut directory = Directory::new(ROOT, &budget);
        directory.insert(b"a", id(1)).unwrap();
        assert_eq!(directory.insert(b"b", id(2)), Err(FsError::NoSpace));
        assert_eq!(names(&directory, 0), ["a"]);
    }
}
