//! The in-memory file system: everything an NFS server needs below the wire.
//!
//! [`FileSystem`] is shared by all threads. Locking in one paragraph: an operation that changes
//! names holds the single namespace mutex from start to end; every operation locks at most one
//! inode at a time, so nothing can deadlock; READ and WRITE never touch the namespace mutex. Mode
//! bits and owners are enforced (`permission`), as under `no_root_squash`, unless that is off. The
//! time of each change is an argument.
//!
//! **Source:** RFC 1813 section 3.3; where the RFC leaves the error open, we follow the Linux
//! server.

mod block;
mod budget;
mod clone;
mod content;
mod create;
mod data;
mod directory;
mod handle;
mod inode;
mod listing;
#[cfg(test)]
mod model_tests;
mod name_index;
mod namespace;
mod paths;
mod payload;
mod permission;
#[cfg(test)]
mod permission_tests;
mod pin;
mod placed;
mod quirks;
mod rename;
mod sparse;
#[cfg(test)]
mod stress_tests;
mod table;
#[cfg(test)]
mod tests;
mod types;
mod xattr;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) use self::block::ZEROS;
pub use self::block::{BLOCK_BYTES, DataPiece};
pub use self::clone::CLONE_BLOCK_BYTES;
pub use self::content::{ReadSpan, StoreMode};
pub use self::create::{CreatedObject, NewObject};
pub use self::data::{CloneRange, ExtentsRead, SpaceInfo};
pub use self::handle::{HANDLE_BYTES, InodeId};
pub use self::listing::{ListedEntry, Listing};
pub use self::namespace::LookupResult;
pub use self::payload::Payload;
pub use self::permission::{Caller, EXECUTE, Permissions, Protection, READ, Rights, WRITE};
pub use self::pin::Pin;
pub use self::quirks::{Quirks, SlowFile};
pub use self::rename::{DirectoryName, RenameChanges};
pub use self::sparse::{Extent, ExtentKind};
pub use self::types::{
    Attributes, AttributesBefore, Change, CreateMode, FILE_BYTES_MAX, FileKind, FileTime, FsError,
    LINKS_MAX, NAME_BYTES_MAX, Name, SYMLINK_BYTES_MAX, SetAttributes, SetTime,
};
pub use self::xattr::{XattrListing, XattrMode};

pub(crate) use self::budget::{Budget, COPY_SHARE, Charge};
use self::content::Stable;
use self::directory::Directory;
use self::inode::{Body, INODE_BYTES, Inode, NewInode};
use self::quirks::QuirkState;
use self::table::InodeTable;
use crate::sync;

/// The caller and the time of an operation that changes something or reads data. The default is the
/// server itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// The caller, who becomes the owner of new objects.
    pub caller: Caller,
    /// Time of the operation.
    pub now: FileTime,
}

/// Mode of the root and of exports: everyone may create names and remove their own, as in `/tmp`.
const OPEN_DIRECTORY_MODE: u32 = 0o1777;

/// The file system; see the module.
#[derive(Debug)]
pub struct FileSystem {
    table: Arc<InodeTable>,
    namespace: Mutex<()>,
    budget: Arc<Budget>,
    mode: StoreMode,
    boot_id: u64,
    root: InodeId,
    quirks: QuirkState,
    /// Undo data of the last writes, latest last; empty unless a loss is planned.
    last_writes: Mutex<VecDeque<(InodeId, Stable)>>,
}

impl FileSystem {
    /// Makes a file system with an empty root directory. `limit_bytes` bounds file data, names and
    /// inodes together; `boot_id` must differ from that of every earlier start, so that old handles
    /// are recognized.
    pub fn new(mode: StoreMode, limit_bytes: u64, boot_id: u64, now: FileTime) -> Self {
        let budget = Budget::new(limit_bytes);
        let table = Arc::new(InodeTable::new());
        let root = table.insert(|id| {
            let new = NewInode {
                kind: FileKind::Directory,
                body: Body::Directory(Directory::new(id, &budget)),
                rdev: (0, 0),
                create_verifier: None,
                caller: Caller::default(),
                charge: Charge::force(&budget, INODE_BYTES),
            };
            let set = SetAttributes { mode: Some(OPEN_DIRECTORY_MODE), ..SetAttributes::default() };
            Inode::new(id, new, &set, now)
        });
        let root = root.id;
        let namespace = Mutex::new(());
        let quirks = QuirkState::default();
        let last_writes = Mutex::default();
        Self { table, namespace, budget, mode, boot_id, root, quirks, last_writes }
    }

    /// The root directory.
    pub fn root(&self) -> InodeId {
        self.root
    }

    /// Number of this start: part of every handle, and used as write and cookie verifier.
    pub fn boot_id(&self) -> u64 {
        self.boot_id
    }

    /// Encodes the handle of an inode.
    pub fn handle(&self, id: InodeId) -> [u8; HANDLE_BYTES] {
        handle::encode(self.handle_epoch(), id)
    }

    /// Decodes a handle that a client sent; the inode may be gone by now.
    ///
    /// # Errors
    /// `BadHandle` or `Stale`.
    pub fn inode_id(&self, handle: &[u8]) -> Result<InodeId, FsError> {
        let [now, before] = self.valid_epochs();
        match handle::decode(now, handle) {
            Err(FsError::Stale) if before != now => handle::decode(before, handle),
            decoded => decoded,
        }
    }

    /// Memory currently charged, in bytes: data, names, inodes, and data being sent.
    pub fn memory_bytes(&self) -> u64 {
        self.budget.used_bytes()
    }

    /// Checks that an inode exists.
    ///
    /// # Errors
    /// `Stale` or `BadHandle`.
    pub fn check(&self, id: InodeId) -> Result<(), FsError> {
        self.table.get(id)?;
        Ok(())
    }

    /// Attributes of an inode.
    ///
    /// # Errors
    /// `Stale` or `BadHandle`.
    pub fn attributes(&self, id: InodeId) -> Result<Attributes, FsError> {
        Ok(self.table.get(id)?.attributes())
    }

    /// Serializes all changes of names.
    fn lock_names(&self) -> MutexGuard<'_, ()> {
        sync::lock(&self.namespace)
    }
}
