//! Keeps a file that has lost its last name for as long as someone has it open.
//!
//! Each open of NFS v4 holds a [`Pin`]. The last name of a pinned inode is removed like any other,
//! but its slot and its handle stay until the last pin is dropped.

use std::sync::Arc;

use super::FileSystem;
use super::handle::InodeId;
use super::inode::Inode;
use super::table::InodeTable;
use super::types::FsError;

/// Keeps one inode alive until it is dropped.
#[derive(Debug)]
pub struct Pin {
    inode: Arc<Inode>,
    table: Arc<InodeTable>,
}

impl Pin {
    /// The pinned inode.
    pub fn id(&self) -> InodeId {
        self.inode.id
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let last = {
            let mut state = self.inode.write();
            state.pins -= 1;
            state.pins == 0 && state.nlink == 0
        };
        if last {
            self.table.remove(self.inode.id);
        }
    }
}

impl FileSystem {
    /// Keeps an inode for as long as the pin lives.
    ///
    /// # Errors
    /// `Stale` if it is already gone.
    pub fn pin(&self, id: InodeId) -> Result<Pin, FsError> {
        let inode = self.table.get(id)?;
        {
            let mut state = inode.write();
            // Its last name was removed between the two locks.
            if state.nlink == 0 && state.pins == 0 {
                return Err(FsError::Stale);
            }
            state.pins += 1;
        }
        Ok(Pin { inode, table: Arc::clone(&self.table) })
    }
}

#[cfg(test)]
mod tests {
    use crate::fs::{Context, CreateMode, FileSystem, FileTime, FsError, SetAttributes, StoreMode};

    #[test]
    fn keeps_pinned_file_after_unlink() {
        let fs = FileSystem::new(StoreMode::Keep, 1 << 20, 1, FileTime(1));
        let set = SetAttributes::default();
        let make = |name: &[u8]| {
            let mode = CreateMode::Guarded;
            fs.create(fs.root(), name, mode, &set, &Context::default()).unwrap().id
        };
        let id = make(b"f");
        fs.write(id, 0, b"data", &Context::default()).unwrap();
        let one = fs.pin(id).unwrap();
        let two = fs.pin(id).unwrap();
        fs.remove(fs.root(), b"f", &Context::default()).unwrap();
        assert_eq!(fs.attributes(id).map(|found| (found.nlink, found.size)), Ok((0, 4)));
        drop(one);
        let mut pieces = Vec::new();
        fs.read(id, 0, 9, &Context::default(), &mut pieces).unwrap();
        assert_eq!(pieces[0].bytes(), b"data");
        drop(two);
        assert_eq!(fs.attributes(id), Err(FsError::Stale));
        assert_eq!(fs.pin(id).map(|pin| pin.id()), Err(FsError::Stale));
        let other = make(b"g");
        drop(fs.pin(other).unwrap());
        assert_eq!(fs.attributes(other).map(|found| found.nlink), Ok(1));
    }
}
