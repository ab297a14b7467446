//! NFS v3: READDIR and READDIRPLUS.
//!
//! The builders of the codec decide what fits a reply; this module only stops gathering where
//! they surely would. The cookie verifier is that of the server's start: cookies never go stale
//! while it runs.
//!
//! **Source:** RFC 1813 sections 3.3.16 and 3.3.17.

use nfs_proto::nfs3::{
    Call, EntriesBuilder, EntriesPlusBuilder, Entry, EntryPlus, Listing as WireListing,
    ListingPlus, Reply, Status, Verifier,
};
use nfs_proto::server::encode_nfs3_reply;

use super::Service;
use super::convert::{fattr, handle};
use crate::fs::{FsError, ListedEntry, Listing};
use crate::outbox::Outbox;

/// Least bytes of an entry besides its name: fileid, length, cookie, and the word before.
const ENTRY_BYTES: usize = 24;

impl Service {
    /// Carries out READDIR or READDIRPLUS.
    pub(super) fn answer_listing(&mut self, call: &Call<'_>, xid: u32, out: &mut Outbox) {
        let mut page = std::mem::take(&mut self.page);
        let reply = match *call {
            Call::Readdir { dir, cookie, verifier, count } => {
                let count = count.min(self.granted.read_bytes_max);
                self.readdir(dir, (cookie, verifier), count, &mut page)
            }
            Call::Readdirplus { dir, cookie, verifier, dircount, maxcount } => {
                let counts = (dircount, maxcount.min(self.granted.read_bytes_max));
                self.readdirplus(dir, (cookie, verifier), counts, &mut page)
            }
            _ => unreachable!("answer_nfs3 sends only these here"),
        };
        encode_nfs3_reply(out.head(), xid, &reply);
        self.page = page;
    }

    fn readdir<'p>(
        &self,
        dir: &[u8],
        cursor: (u64, Verifier),
        count: u32,
        page: &'p mut Vec<u8>,
    ) -> Reply<'p> {
        let listing = match self.gather(dir, cursor, count) {
            Ok(listing) => listing,
            Err(error) => {
                let dir = self.attributes_after(dir);
                return Reply::Readdir { dir, result: Err(self.count(error)) };
            }
        };
        let mut builder = EntriesBuilder::new(page, count);
        let fitted = listing.entries.iter().take_while(|entry| builder.push(&wire(entry))).count();
        let result = self.page_end(&listing, fitted).map(|eof| WireListing {
            verifier: self.shared.cookie_verifier(),
            entries: builder.finish(),
            eof,
        });
        Reply::Readdir { dir: Some(fattr(&listing.directory)), result }
    }

    fn readdirplus<'p>(
        &self,
        dir: &[u8],
        cursor: (u64, Verifier),
        (dircount, maxcount): (u32, u32),
        page: &'p mut Vec<u8>,
    ) -> Reply<'p> {
        let listing = match self.gather(dir, cursor, maxcount) {
            Ok(listing) => listing,
            Err(error) => {
                let dir = self.attributes_after(dir);
                return Reply::Readdirplus { dir, result: Err(self.count(error)) };
            }
        };
        let mut builder = EntriesPlusBuilder::new(page, dircount, maxcount);
        let mut push = |entry: &ListedEntry| {
            let attributes = self.shared.fs.attributes(entry.id).ok();
            builder.push(&EntryPlus {
                entry: wire(entry),
                attributes: attributes.map(|attributes| fattr(&attributes)),
                file: attributes.map(|_| handle(&self.shared.fs, entry.id)),
            })
        };
        let fitted = listing.entries.iter().take_while(|entry| push(entry)).count();
        let result = self.page_end(&listing, fitted).map(|eof| ListingPlus {
            verifier: self.shared.cookie_verifier(),
            entries: builder.finish(),
            eof,
        });
        Reply::Readdirplus { dir: Some(fattr(&listing.directory)), result }
    }

    /// Lists at least as many entries as a reply of `count` bytes can hold.
    fn gather(
        &self,
        dir: &[u8],
        (cookie, verifier): (u64, Verifier),
        count: u32,
    ) -> Result<Listing, FsError> {
        let id = self.id(dir)?;
        if cookie != 0 && verifier != self.shared.cookie_verifier() {
            return Err(FsError::BadCookie);
        }
        let mut room = count as usize;
        self.shared.fs.list(id, cookie, |name| {
            let bytes = ENTRY_BYTES + name.len();
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        })
    }

    /// Whether a page ends the directory; an error where not even one entry fitted.
    fn page_end(&self, listing: &Listing, fitted: usize) -> Result<bool, Status> {
        let all = fitted == listing.entries.len();
        if fitted == 0 && !(all && listing.eof) {
            self.counters.error(Status::TooSmall);
            return Err(Status::TooSmall);
        }
        Ok(all && listing.eof)
    }
}

fn wire(entry: &ListedEntry) -> Entry<'_> {
    Entry { fileid: entry.id.fileid(), name: &entry.name, cookie: entry.cookie }
}
