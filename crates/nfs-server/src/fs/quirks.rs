//! Planned faults of the file system itself: directories without end, loops, handles that change.
//!
//! [`Quirks`] says what is wrong; the methods here are called where names are listed, looked up
//! and handles are made. They hold for all versions alike, since every version goes through them.
//! No server that obeys its RFC behaves so.

use std::sync::atomic::{AtomicU64, Ordering};

use model::server_fault::EndlessListing;

use super::directory::Name;
use super::handle::InodeId;
use super::listing::{ListedEntry, Listing};
use super::types::{FileKind, FsError};
use super::{Context, FileSystem, NewObject, SetAttributes};
use crate::clock::mix;

/// Faults of the file system; the default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// READDIR never comes to an end.
    pub endless_listing: Option<EndlessListing>,
    /// LOOKUP of a directory below an export leads back to where it was looked up.
    pub directory_loops: bool,
    /// LOOKUP of a directory below an export leads to a symbolic link that leads to itself.
    pub symlink_loops: bool,
    /// Handles go stale after so many calls, up to twice as many.
    pub handle_calls: Option<u64>,
}

/// The quirks of one file system, and what they need to remember.
#[derive(Debug, Default)]
pub(super) struct QuirkState {
    pub(super) quirks: Quirks,
    /// The symbolic link to itself, where there is one.
    loop_link: Option<InodeId>,
    /// Handles that were read so far.
    handles_read: AtomicU64,
}

/// Name and target of the symbolic link to itself.
const LOOP_NAME: &[u8] = b"loop";

impl FileSystem {
    /// Gives a file system its quirks; a symbolic link to itself is made in `export`, where they
    /// want one.
    ///
    /// # Errors
    /// As [`FileSystem::make`].
    pub fn set_quirks(
        &mut self,
        quirks: Quirks,
        export: InodeId,
        context: &Context,
    ) -> Result<(), FsError> {
        let mut loop_link = None;
        if quirks.symlink_loops {
            let (object, set) = (NewObject::Symlink(LOOP_NAME), SetAttributes::default());
            loop_link = Some(self.make(export, LOOP_NAME, object, &set, context)?.id);
        }
        self.quirks = QuirkState { quirks, loop_link, handles_read: AtomicU64::new(0) };
        Ok(())
    }

    /// Returns the object that a LOOKUP leads to instead of the found one, where there are loops.
    /// The exports themselves are spared, or nothing could be mounted.
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

    /// Goes on with a page where its directory ends, if directories never do.
    pub(super) fn prolong(
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
                // One that is empty but for `.` and `..`, which v4 does not list, has to end.
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

    /// The number of the start that goes into a handle made now.
    pub(super) fn handle_epoch(&self) -> u64 {
        match self.quirks.quirks.handle_calls {
            None => self.boot_id,
            Some(calls) => self.epoch(self.quirks.handles_read.load(Ordering::Relaxed) / calls),
        }
    }

    /// The numbers that a handle may have which is read now: of this epoch, or the one before.
    pub(super) fn valid_epochs(&self) -> [u64; 2] {
        let Some(calls) = self.quirks.quirks.handle_calls else { return [self.boot_id; 2] };
        let number = self.quirks.handles_read.fetch_add(1, Ordering::Relaxed) / calls;
        [self.epoch(number), self.epoch(number.saturating_sub(1))]
    }

    fn epoch(&self, number: u64) -> u64 {
        mix(self.boot_id ^ number)
    }
}
