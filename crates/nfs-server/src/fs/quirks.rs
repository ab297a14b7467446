//! Planned faults in the file system itself: endless directories, loops, handles that change.
//!
//! [`Quirks`] lists the faults; the methods here are called when names are listed or looked up and
//! when handles are made. They apply to all protocol versions, since every version goes through
//! them. No server that follows its RFC behaves like this.

use std::sync::atomic::{AtomicU64, Ordering};

use model::server_fault::EndlessListing;

use super::handle::InodeId;
use super::listing::{ListedEntry, Listing};
use super::types::{FileKind, FsError, Name};
use super::{Context, FileSystem, NewObject, SetAttributes};
use crate::clock::mix;

/// Faults in the file system; the default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// READDIR never ends.
    pub endless_listing: Option<EndlessListing>,
    /// LOOKUP of a directory below an export returns the directory it was looked up in.
    pub directory_loops: bool,
    /// LOOKUP of a directory below an export returns a symbolic link to itself.
    pub symlink_loops: bool,
    /// Number of calls after which handles go stale; it may take up to twice as many.
    pub handle_calls: Option<u64>,
    /// A file whose data is read and written slowly.
    pub slow_file: Option<SlowFile>,
}

/// A file that is slower than others, as if it were on a failing disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowFile {
    /// The number that its name ends with; it is the last file created with such a name.
    pub number: u32,
    /// Service time of each READ and WRITE of it, in nanoseconds.
    pub time_ns: u64,
}

impl SlowFile {
    /// Returns true if a name ends with the number of this file.
    fn has_name(self, name: &[u8]) -> bool {
        let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let number = &name[name.len() - digits..];
        std::str::from_utf8(number).is_ok_and(|number| number.parse() == Ok(self.number))
    }
}

/// The quirks of one file system, and their state.
#[derive(Debug, Default)]
pub(super) struct QuirkState {
    pub(super) quirks: Quirks,
    /// The symbolic link to itself, if there is one.
    loop_link: Option<InodeId>,
    /// Number of handles decoded so far.
    handles_read: AtomicU64,
    /// The slow file, once it was created: slot and generation of its inode.
    slow_inode: AtomicU64,
}

/// Packs slot and generation of an inode into a number.
fn inode_number(id: InodeId) -> u64 {
    u64::from(id.index) << 32 | u64::from(id.generation)
}

/// Name and target of the symbolic link to itself.
const LOOP_NAME: &[u8] = b"loop";

impl FileSystem {
    /// Gives a file system its quirks; creates a symbolic link to itself in `export` if they need
    /// one.
    ///
    /// # Errors
    /// Same as [`FileSystem::make`].
    pub fn set_quirks(
        &mut self,
        quirks: Quirks,
        export: InodeId,
        context: &Context,
    ) -> Result<(), FsError> {
        let mut loop_link = None;
        if quirks.symlink_loops {
            let object = NewObject::Symlink(LOOP_NAME);
            let set = SetAttributes::default();
            loop_link = Some(self.make(export, LOOP_NAME, object, &set, context)?.id);
        }
        self.quirks = QuirkState { quirks, loop_link, ..QuirkState::default() };
        self.quirks.slow_inode.store(u64::MAX, Ordering::Relaxed);
        Ok(())
    }

    /// Remembers a file that was created under this name if it is the slow one.
    pub(super) fn note_created(&self, name: &[u8], id: InodeId) {
        if self.quirks.quirks.slow_file.is_some_and(|slow| slow.has_name(name)) {
            self.quirks.slow_inode.store(inode_number(id), Ordering::Relaxed);
        }
    }

    /// Returns the service time of a READ or WRITE of this file in nanoseconds, if it is the slow
    /// one.
    pub(crate) fn slow_file_ns(&self, id: InodeId) -> Option<u64> {
        let slow = self.quirks.quirks.slow_file?;
        let is_slow = self.quirks.slow_inode.load(Ordering::Relaxed) == inode_number(id);
        is_slow.then_some(slow.time_ns)
    }

    /// Returns the object that a LOOKUP returns instead of the found one, if there are loops. The
    /// exports themselves are spared, or nothing could be mounted.
    pub(super) fn looped(&self, parent: InodeId, found: InodeId, kind: FileKind) -> InodeId {
        let QuirkState { quirks, loop_link, .. } = &self.quirks;
        if kind != FileKind::Directory || parent == self.root || found == parent {
            return found;
        }
        match loop_link {
            Some(link) => *link,
            None if quirks.directory_loops => parent,
            None => found,
        }
    }

    /// Extends the last page of a directory if directories never end.
    pub(super) fn extend_page(
        &self,
        directory: InodeId,
        cookie: u64,
        listing: &mut Listing,
        fits: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<(), FsError> {
        match self.quirks.quirks.endless_listing {
            None => {}
            _ if !listing.eof => {}
            Some(EndlessListing::RepeatedCookies) => {
                if listing.entries.is_empty() {
                    listing.entries = self.list_stored(directory, 0, fits)?.entries;
                }
                // A directory that has only `.` and `..`, which v4 does not list, has to end.
                listing.eof = listing.entries.is_empty();
            }
            Some(EndlessListing::InventedNames) => {
                let last = listing.entries.last().map_or(cookie, |entry| entry.cookie);
                listing.eof = false;
                for cookie in last + 1.. {
                    let name = format!("endless-{cookie}");
                    if !fits(name.as_bytes()) {
                        break;
                    }
                    let name = Name::from(name.as_bytes());
                    listing.entries.push(ListedEntry { cookie, name, id: directory });
                }
            }
        }
        Ok(())
    }

    /// The start number that goes into a handle made now.
    pub(super) fn handle_epoch(&self) -> u64 {
        match self.quirks.quirks.handle_calls {
            None => self.boot_id,
            Some(calls) => self.epoch(self.quirks.handles_read.load(Ordering::Relaxed) / calls),
        }
    }

    /// The start numbers accepted in a handle decoded now: that of this epoch, or the one before.
    pub(super) fn valid_epochs(&self) -> [u64; 2] {
        let Some(calls) = self.quirks.quirks.handle_calls else { return [self.boot_id; 2] };
        let number = self.quirks.handles_read.fetch_add(1, Ordering::Relaxed) / calls;
        [self.epoch(number), self.epoch(number.saturating_sub(1))]
    }

    fn epoch(&self, number: u64) -> u64 {
        mix(self.boot_id ^ number)
    }
}
