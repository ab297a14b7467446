//! Listing a directory page by page.
//!
//! A page is gathered under the directory's lock and its attributes are looked up afterwards, so
//! only one inode is locked at a time. An entry whose object has vanished meanwhile has no
//! attributes.
//!
//! **Source:** RFC 1813 sections 3.3.16 and 3.3.17.

use std::sync::Arc;

use super::FileSystem;
use super::directory::{COOKIE_PARENT, COOKIE_SELF};
use super::handle::InodeId;
use super::permission::{Caller, READ};
use super::types::{Attributes, FsError, Name};

/// One entry of a page.
#[derive(Clone, Debug)]
pub struct ListedEntry {
    /// The cookie to resume from for the next page.
    pub cookie: u64,
    /// Name of the entry.
    pub name: Name,
    /// The object it refers to.
    pub id: InodeId,
}

/// One page of a directory.
#[derive(Debug)]
pub struct Listing {
    /// Attributes of the directory.
    pub directory: Attributes,
    /// Entries in the order of their cookies.
    pub entries: Vec<ListedEntry>,
    /// Whether no entries follow.
    pub eof: bool,
}

impl FileSystem {
    /// Lists the entries after `cookie` (0: from the start) as long as `fits` accepts the next
    /// name; a planned fault may turn it into an endless directory.
    ///
    /// # Errors
    /// `NotDirectory`, `Stale`, `BadHandle`, `AccessDenied`.
    pub fn list(
        &self,
        directory: InodeId,
        cookie: u64,
        caller: &Caller,
        mut fits: impl FnMut(&[u8]) -> bool,
    ) -> Result<Listing, FsError> {
        {
            let inode = self.table.get(directory)?;
            let state = inode.read();
            state.directory()?;
            caller.check(state.protection(), READ)?;
        }
        let mut listing = self.list_stored(directory, cookie, &mut fits)?;
        self.extend_page(directory, cookie, &mut listing, &mut fits)?;
        Ok(listing)
    }

    /// Lists like [`FileSystem::list`], without planned faults.
    pub(super) fn list_stored(
        &self,
        directory: InodeId,
        cookie: u64,
        fits: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<Listing, FsError> {
        let inode = self.table.get(directory)?;
        let state = inode.read();
        let stored = state.directory()?;
        let dots = [(COOKIE_SELF, &b"."[..], directory), (COOKIE_PARENT, b"..", stored.parent)];
        let mut entries = Vec::new();
        let mut eof = true;
        for (at, name, id) in dots {
            if at <= cookie || !eof {
                continue;
            }
            eof = fits(name);
            if eof {
                entries.push(ListedEntry { cookie: at, name: Name::from(name), id });
            }
        }
        for (at, name, id) in stored.after(cookie) {
            eof = eof && fits(name);
            if !eof {
                break;
            }
            entries.push(ListedEntry { cookie: at, name: Arc::clone(name), id });
        }
        Ok(Listing { directory: inode.attributes_of(&state), entries, eof })
    }
}
