//! NFS v3: READDIR and READDIRPLUS.
//!
//! The builders of the codec decide how much fits into a reply; this module only stops gathering
//! when the reply is sure to be full. The cookie verifier is that of the server's start: cookies
//! never go stale while it runs.
//!
//! **Source:** RFC 1813 sections 3.3.16 and 3.3.17.

use nfs_proto::nfs3::{
    Entry, EntryPlus, Listing as WireListing, ListingPlus, Reply, Status, Verifier, page_of,
    page_plus_of,
};
use nfs_proto::server::encode_nfs3_reply;

use super::Service;
use super::convert::{fattr, handle};
use crate::fs::{Caller, FsError, ListedEntry, Listing};
use crate::outbox::Outbox;

/// Minimum size of an entry besides its name, in bytes: fileid, length, cookie, and the word
/// before.
const ENTRY_BYTES: usize = 24;

/// The position in a directory at which a listing continues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub(super) cookie: u64,
    pub(super) verifier: Verifier,
}

/// The lengths in bytes that READDIRPLUS specifies: of names and cookies, and of the whole reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlusCounts {
    pub(super) dircount: u32,
    pub(super) maxcount: u32,
}

impl Service {
    /// Answers with the listing that `list` puts into this service's page, which is reused.
    pub(super) fn answer_listing(
        &mut self,
        xid: u32,
        out: &mut Outbox,
        list: impl for<'p> FnOnce(&Self, &'p mut Vec<u8>) -> Reply<'p>,
    ) {
        let mut page = std::mem::take(&mut self.page);
        let reply = list(self, &mut page);
        encode_nfs3_reply(out.head(), xid, &reply);
        self.page = page;
    }

    pub(super) fn readdir_v3<'p>(
        &self,
        dir: &[u8],
        cursor: Cursor,
        count: u32,
        caller: &Caller,
        page: &'p mut Vec<u8>,
    ) -> Reply<'p> {
        let count = count.min(self.granted.read_bytes_max);
        let listing = match self.gather_entries(dir, cursor, count, caller) {
            Ok(listing) => listing,
            Err(error) => {
                let dir = self.attributes_after(dir);
                return Reply::Readdir { dir, result: Err(self.count_error(error)) };
            }
        };
        let mut builder = page_of(page, count);
        let mut fitted = 0;
        for entry in &listing.entries {
            if !builder.push(&wire_entry(entry)) {
                break;
            }
            fitted += 1;
        }
        let result = self.page_end(&listing, fitted).map(|eof| WireListing {
            verifier: self.shared.cookie_verifier(),
            entries: builder.finish(),
            eof,
        });
        Reply::Readdir { dir: Some(fattr(&listing.directory)), result }
    }

    pub(super) fn readdirplus_v3<'p>(
        &self,
        dir: &[u8],
        cursor: Cursor,
        counts: PlusCounts,
        caller: &Caller,
        page: &'p mut Vec<u8>,
    ) -> Reply<'p> {
        let dircount = counts.dircount;
        let maxcount = counts.maxcount.min(self.granted.read_bytes_max);
        let listing = match self.gather_entries(dir, cursor, maxcount, caller) {
            Ok(listing) => listing,
            Err(error) => {
                let dir = self.attributes_after(dir);
                return Reply::Readdirplus { dir, result: Err(self.count_error(error)) };
            }
        };
        let mut builder = page_plus_of(page, dircount, maxcount);
        let mut fitted = 0;
        for entry in &listing.entries {
            // An entry that was removed since the page was gathered is listed without attributes
            // and handle, which the protocol allows: its cookie is still a valid position.
            let found = self.shared.fs.attributes(entry.id);
            let (attributes, file) = match &found {
                Ok(found) => (Some(fattr(found)), Some(handle(&self.shared.fs, entry.id))),
                Err(_) => (None, None),
            };
            if !builder.push(&EntryPlus { entry: wire_entry(entry), attributes, file }) {
                break;
            }
            fitted += 1;
        }
        let result = self.page_end(&listing, fitted).map(|eof| ListingPlus {
            verifier: self.shared.cookie_verifier(),
            entries: builder.finish(),
            eof,
        });
        Reply::Readdirplus { dir: Some(fattr(&listing.directory)), result }
    }

    /// Lists at least as many entries as a reply of `count` bytes can hold.
    fn gather_entries(
        &self,
        dir: &[u8],
        cursor: Cursor,
        count: u32,
        caller: &Caller,
    ) -> Result<Listing, FsError> {
        let id = self.inode_of(dir)?;
        // Cookies are numbers of this store, so those from another start are meaningless. The first
        // call of a listing has cookie 0 and no verifier yet (RFC 1813 section 3.3.16).
        if cursor.cookie != 0 && cursor.verifier != self.shared.cookie_verifier() {
            return Err(FsError::BadCookie);
        }
        self.list_entries(id, cursor.cookie, count, ENTRY_BYTES, caller)
    }

    /// Whether a page ends the directory; an error if not even one entry fit.
    fn page_end(&self, listing: &Listing, fitted: usize) -> Result<bool, Status> {
        let all = fitted == listing.entries.len();
        if fitted == 0 && !(all && listing.eof) {
            self.counters.error(Status::TooSmall);
            return Err(Status::TooSmall);
        }
        Ok(all && listing.eof)
    }
}

fn wire_entry(entry: &ListedEntry) -> Entry<'_> {
    Entry { fileid: entry.id.fileid(), name: &entry.name, cookie: entry.cookie }
}
