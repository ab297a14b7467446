//! The inode table: from inode ids to live inodes.
//!
//! A [`Registry`] without its own limit, since each inode is charged to the memory budget. A handle
//! whose slot never existed is distinguished from one whose inode was removed.

use std::sync::Arc;

use super::handle::InodeId;
use super::inode::Inode;
use super::types::FsError;
use crate::registry::Registry;

/// All inodes of the file system.
#[derive(Debug)]
pub struct InodeTable(Registry<Inode>);

impl InodeTable {
    /// Creates an empty table; the first inode inserted gets slot 0.
    pub fn new() -> Self {
        Self(Registry::new(usize::MAX))
    }

    /// Finds an inode.
    ///
    /// # Errors
    /// `Stale` if it was removed, `BadHandle` if the slot never existed.
    pub fn get(&self, id: InodeId) -> Result<Arc<Inode>, FsError> {
        match self.0.get(id.key()) {
            Some(inode) => Ok(inode),
            None if self.0.has_slot(id.key()) => Err(FsError::Stale),
            None => Err(FsError::BadHandle),
        }
    }

    /// Takes a free slot and fills it with the result of `make`.
    pub fn insert(&self, make: impl FnOnce(InodeId) -> Inode) -> Arc<Inode> {
        self.0.insert(|key| make(InodeId::from_key(key))).expect("the table has no limit")
    }

    /// Frees the slot of an inode.
    pub fn remove(&self, id: InodeId) {
        assert!(self.0.remove(id.key()).is_some(), "an inode is removed only once");
    }

    /// All live inodes, in no particular order.
    pub fn all(&self) -> Vec<Arc<Inode>> {
        self.0.all()
    }

    /// Number of live inodes.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }
}
