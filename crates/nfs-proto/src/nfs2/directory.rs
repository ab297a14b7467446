//! The entries of a READDIR reply of NFS v2, and how to build a page of them.
//!
//! Cookies are four opaque bytes, treated as a number here. **Source:** RFC 1094 section 2.2.17.

use crate::lists::{Chain, ChainBuilder, ChainIter, PageEntry};
use crate::wire::{Wire, wire_struct};
use crate::xdr::{Writer, opaque_bytes};

/// Bytes around the entries in a reply: status, end of chain, eof.
const SURROUNDING_BYTES: u32 = 4 + 4 + 4;

wire_struct! {
    /// One entry of READDIR.
    pub struct Entry<'a> {
        /// Id of the file within its file system.
        fileid: u32,
        /// Name of the entry.
        name: &'a [u8],
        /// Cookie for continuing the listing after this entry.
        cookie: u32,
    }
}

impl PageEntry for Entry<'_> {
    fn name_bytes(&self) -> usize {
        4 + opaque_bytes(self.name.len()) + 4
    }

    fn append_to(&self, writer: &mut Writer<'_>) {
        self.encode(writer);
    }
}

/// The entries of a READDIR reply.
pub type Entries<'a> = Chain<'a, Entry<'a>>;
/// The iterator over the entries of a READDIR reply.
pub type Iter<'a> = ChainIter<'a, Entry<'a>>;

/// Starts an empty page in `scratch`, which is cleared, for results of `count` bytes.
pub fn page_of(scratch: &mut Vec<u8>, count: u32) -> ChainBuilder<'_> {
    ChainBuilder::with_budget(scratch, count.saturating_sub(SURROUNDING_BYTES), usize::MAX)
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
            assert_eq!(entries.iter().count() as u32, pushed);
            // One entry is 4 + 4 + 8 + 4 bytes.
            assert_eq!(pushed, count.saturating_sub(SURROUNDING_BYTES) / 20);
        }
    }
}
