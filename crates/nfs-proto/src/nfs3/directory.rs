//! The entries of READDIR and READDIRPLUS replies, and how to build a page of them.
//!
//! **Source:** RFC 1813 sections 3.3.16 and 3.3.17.

use super::types::HANDLE_MAX;
use super::{Fattr, FileHandle};
use crate::lists::{Chain, ChainBuilder, ChainIter, PageEntry};
use crate::wire::{Wire, wire_struct};
use crate::xdr::{Writer, opaque_bytes};

/// Bytes around the entries in READDIR3resok: attributes, verifier, end of chain, eof.
const RESOK_BYTES: u32 = 4 + Fattr::WIRE_BYTES as u32 + 8 + 4 + 4;

wire_struct! {
    /// One entry of READDIR.
    pub struct Entry<'a> {
        /// Id of the file within its file system.
        fileid: u64,
        /// Name of the entry.
        name: &'a [u8],
        /// Cookie for continuing the listing after this entry.
        cookie: u64,
    }
}

wire_struct! {
    /// One entry of READDIRPLUS.
    pub struct EntryPlus<'a> {
        /// Id, name and cookie.
        entry: Entry<'a>,
        /// Attributes, if the server returned them.
        attributes: Option<Fattr>,
        /// Handle, if the server returned it.
        file: Option<FileHandle> where len <= HANDLE_MAX,
    }
}

impl PageEntry for Entry<'_> {
    fn name_bytes(&self) -> usize {
        8 + opaque_bytes(self.name.len()) + 8
    }

    fn append_to(&self, writer: &mut Writer<'_>) {
        self.encode(writer);
    }
}

impl PageEntry for EntryPlus<'_> {
    fn name_bytes(&self) -> usize {
        self.entry.name_bytes()
    }

    fn append_to(&self, writer: &mut Writer<'_>) {
        self.encode(writer);
    }
}

/// The entries of a READDIR reply.
pub type Entries<'a> = Chain<'a, Entry<'a>>;
/// The entries of a READDIRPLUS reply.
pub type EntriesPlus<'a> = Chain<'a, EntryPlus<'a>>;
/// The iterator over the entries of a READDIR reply.
pub type Iter<'a> = ChainIter<'a, Entry<'a>>;
/// The iterator over the entries of a READDIRPLUS reply.
pub type IterPlus<'a> = ChainIter<'a, EntryPlus<'a>>;

/// Starts an empty page of READDIR in `scratch`, which is cleared, for a reply of `count` bytes.
pub fn page_of(scratch: &mut Vec<u8>, count: u32) -> ChainBuilder<'_> {
    ChainBuilder::with_budget(scratch, count.saturating_sub(RESOK_BYTES), usize::MAX)
}

/// Starts an empty page of READDIRPLUS in `scratch`, which is cleared: at most `dircount` bytes of
/// ids, names and cookies, and `maxcount` bytes in total.
pub fn page_plus_of(scratch: &mut Vec<u8>, dircount: u32, maxcount: u32) -> ChainBuilder<'_> {
    ChainBuilder::with_budget(scratch, maxcount.saturating_sub(RESOK_BYTES), dircount as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_keeps_to_its_budget() {
        for count in 0..600 {
            let mut scratch = Vec::new();
            let mut builder = page_of(&mut scratch, count);
            let mut pushed = 0;
            while builder.push(&Entry { fileid: pushed, name: b"name", cookie: pushed + 1 }) {
                pushed += 1;
            }
            let entries: Entries<'_> = builder.finish();
            assert_eq!(entries.iter().count() as u64, pushed);
            let mut encoded = Vec::new();
            entries.encode(&mut Writer::new(&mut encoded));
            let whole = encoded.len() - 4 + RESOK_BYTES as usize;
            assert!(pushed == 0 || whole <= count as usize);
            // One entry is 4 + 8 + 8 + 8 bytes.
            assert_eq!(pushed, u64::from(count.saturating_sub(RESOK_BYTES) / 28));
        }
    }

    #[test]
    fn limits_readdirplus_by_both_counts() {
        let mut scratch = Vec::new();
        let entry = Entry { fileid: 1, name: b"abcd", cookie: 1 };
        let plus = EntryPlus { entry, attributes: None, file: None };
        // Names take 24 bytes each; 60 is room for two.
        let mut builder = page_plus_of(&mut scratch, 60, 4096);
        assert_eq!((0..9).filter(|_| builder.push(&plus)).count(), 2);
        // The whole entry takes 36 bytes; 100 is room for two.
        let mut builder = page_plus_of(&mut scratch, 4096, RESOK_BYTES + 100);
        assert_eq!((0..9).filter(|_| builder.push(&plus)).count(), 2);
        let entries: EntriesPlus<'_> = builder.finish();
        assert_eq!(entries.iter().count(), 2);
    }
}
