//! Planned faults in the file system itself: endless directories, loops, handles that change.
//!
//! [`Quirks`] lists the faults; the methods here are called when names are listed or looked up and
//! when handles are made. They apply to all protocol versions, since every version goes through
//! them. No server that follows its RFC behaves like this.

use std::sync::atomic::{AtomicU64, Ordering};

use model::server_fault::EndlessListing;

use super::directory::Name;
use super::handle::InodeId;
use super::listing::{ListedEntry, Listing};
use super::types::{FileKind, FsError};
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
}

/// The quirks of one file system, and their state.
#[derive(Debug, Default)]
pub(super) struct QuirkState {
    pub(super) quirks: Quirks,
    /// The symbolic link to itself, if there is one.
    loop_link: Option<InodeId>,
    /// Number of handles decoded so far.
    handles_read: AtomicU64,
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
        self.quirks = QuirkState { quirks, loop_link, handles_read: AtomicU64::new(0) };
        Ok(())
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
