//! Lists a directory page by page, and detects listings that would never end.
//!
//! A listing ends when the server says so. One that repeats a cookie would go on forever, and so
//! would one that keeps making up names: [`DirListing`] reports the former and bounds the latter,
//! in names and in bytes. **Source:** RFC 1813 section 3.3.16, RFC 7530 section 16.24 (cookies are
//! opaque, and unique within a directory).

use std::collections::HashSet;

use nfs_proto::client::{Attributes, Entry};

/// Maximum number of names listed per directory.
pub const LISTED_ENTRIES_MAX: u64 = 1 << 25;
/// Maximum total length of the names of a directory, in bytes.
pub const LISTED_BYTES_MAX: u64 = 1 << 30;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Id of the file within its file system.
    pub fileid: u64,
    /// Its name; listings leave out `.` and `..`.
    pub name: Vec<u8>,
    /// Its attributes, if they were requested and the server returned them with the name.
    pub attributes: Option<Attributes>,
}

/// Reason why a directory was not listed completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unlistable {
    /// A page ended with the cookie of an earlier one.
    #[error(
        "the server sent the cookie {cookie} twice, after {entries} names, so the listing would \
         never end"
    )]
    RepeatedCookie {
        /// The repeated cookie.
        cookie: u64,
        /// Number of names until then.
        entries: u64,
    },
    /// There are too many names.
    #[error(
        "the listing has not ended after {entries} names of {bytes} bytes (the limit is \
         {max_entries} names)"
    )]
    TooLong {
        /// Number of names so far.
        entries: u64,
        /// Their total length in bytes.
        bytes: u64,
        /// The limit on names.
        max_entries: u64,
    },
}

/// The names of a directory listed so far.
#[derive(Debug)]
pub(crate) struct DirListing {
    pub(crate) entries: Vec<DirEntry>,
    max_entries: u64,
    /// Includes `.` and `..`: a server could send nothing else.
    count: u64,
    bytes: u64,
    /// Cookies at the ends of pages.
    page_ends: HashSet<u64>,
}

impl DirListing {
    /// Starts a listing of at most `max_entries` names, also limited by the maximum of this crate.
    pub(crate) fn begin(max_entries: u64) -> Self {
        let max_entries = max_entries.min(LISTED_ENTRIES_MAX);
        // Cookie 0 starts a listing: a page that ends with it would lead back to the start.
        let page_ends = HashSet::from([0]);
        Self { entries: Vec::new(), max_entries, count: 0, bytes: 0, page_ends }
    }

    /// Adds a name; beyond the limit, names are only counted.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        let Entry { fileid, name, attributes, .. } = *entry;
        self.count += 1;
        self.bytes += name.len() as u64;
        if name != b"." && name != b".." && !self.is_too_long() {
            self.entries.push(DirEntry { fileid, name: name.to_vec(), attributes });
        }
    }

    fn is_too_long(&self) -> bool {
        self.count > self.max_entries || self.bytes > LISTED_BYTES_MAX
    }

    /// Ends a page that is not the last one: checks that the next one makes progress.
    pub(crate) fn end_page(&mut self, cookie: u64) -> Result<(), Unlistable> {
        let Self { count: entries, bytes, max_entries, .. } = *self;
        // Cookies are opaque and need not increase (RFC 1813 section 3.3.16), so only a repeated
        // one indicates an endless listing.
        if !self.page_ends.insert(cookie) {
            return Err(Unlistable::RepeatedCookie { cookie, entries });
        }
        if self.is_too_long() {
            return Err(Unlistable::TooLong { entries, bytes, max_entries });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &[u8]) -> Entry<'_> {
        Entry { fileid: 1, name, cookie: 0, attributes: None, handle: None }
    }

    #[test]
    fn ends_listing_at_repeated_cookie() {
        let mut listing = DirListing::begin(100);
        listing.push(&named(b"a"));
        assert_eq!(listing.end_page(7), Ok(()));
        assert_eq!(listing.end_page(9), Ok(()));
        listing.push(&named(b"b"));
        let again = Unlistable::RepeatedCookie { cookie: 7, entries: 2 };
        assert_eq!(listing.end_page(7), Err(again));
        // It would start over.
        assert!(DirListing::begin(100).end_page(0).is_err());
    }

    #[test]
    fn names_and_bytes_are_bounded() {
        let mut listing = DirListing::begin(2);
        for name in [&b"."[..], b"a", b"b"] {
            listing.push(&named(name));
        }
        let too_long = Unlistable::TooLong { entries: 3, bytes: 3, max_entries: 2 };
        assert_eq!(listing.end_page(5), Err(too_long));
        assert_eq!(listing.entries.len(), 1, "names beyond the limit are dropped");
        let mut listing = DirListing::begin(u64::MAX);
        let name = vec![b'x'; 1 << 24];
        listing.bytes = LISTED_BYTES_MAX - (1 << 25);
        for _ in 0..3 {
            listing.push(&named(&name));
        }
        assert!(matches!(listing.end_page(5), Err(Unlistable::TooLong { .. })));
    }
}
