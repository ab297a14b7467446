//! The entries of a READDIR reply of NFS v4, and how to build a page of them.
//!
//! A received [`Entry`] keeps its attributes encoded; a [`NewEntry`] has them by name. **Source:**
//! RFC 7530 section 16.24.

use super::attributes::{Attributes, Fattr};
use super::bitmap::Bitmap;
use crate::lists::{Chain, ChainBuilder, ChainIter, PageEntry};
use crate::wire::wire_struct;
use crate::xdr::{Writer, opaque_bytes};

/// Bytes around the entries in READDIR4resok: verifier, end of chain, eof.
const RESOK_BYTES: u32 = 8 + 4 + 4;

wire_struct! {
    /// An entry of a directory.
    pub struct Entry<'a> {
        /// Cookie for continuing the listing after this entry.
        cookie: u64,
        /// Name of the entry.
        name: &'a [u8],
        /// Requested attributes.
        attributes: Fattr<'a>,
    }
}

/// An entry to append to a page.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// Cookie for continuing the listing after this entry.
    pub cookie: u64,
    /// Name of the entry.
    pub name: &'a [u8],
    /// Attributes of the entry.
    pub attributes: &'a Attributes<'a>,
    /// Attributes to send, if present.
    pub requested: Bitmap,
}

impl PageEntry for NewEntry<'_> {
    fn name_bytes(&self) -> usize {
        8 + opaque_bytes(self.name.len())
    }

    fn append_to(&self, writer: &mut Writer<'_>) {
        writer.u64(self.cookie);
        writer.opaque(self.name);
        self.attributes.encode(self.requested, writer);
    }
}

/// The entries of a READDIR reply.
pub type Entries<'a> = Chain<'a, Entry<'a>>;
/// The iterator over the entries of a READDIR reply.
pub type Iter<'a> = ChainIter<'a, Entry<'a>>;

/// Starts an empty page in `scratch`, which is cleared: at most `dircount` bytes of names and
/// cookies (0 means no limit), and `maxcount` bytes in total.
pub fn page_of(scratch: &mut Vec<u8>, dircount: u32, maxcount: u32) -> ChainBuilder<'_> {
    // RFC 7530 section 16.24.4: a server may ignore `dircount`, and clients send 0 if they have no
    // preference.
    let names_budget = if dircount == 0 { usize::MAX } else { dircount as usize };
    ChainBuilder::with_budget(scratch, maxcount.saturating_sub(RESOK_BYTES), names_budget)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs4::attribute;

    #[test]
    fn a_listing_keeps_to_both_budgets() {
        let attributes = Attributes { fileid: Some(7), ..Attributes::default() };
        let requested = Bitmap::from_numbers(&[attribute::FILEID]);
        // One entry is 4 + 8 + 8 bytes, and 8 + 4 + 8 bytes of attributes.
        for (dircount, maxcount, expected) in
            [(0, 16 + 79, 1), (0, 16 + 80, 2), (32, 9999, 2), (1, 9999, 1), (0, 55, 0)]
        {
            let mut scratch = Vec::new();
            let mut builder = page_of(&mut scratch, dircount, maxcount);
            for cookie in 3..9 {
                let name = b"abcd";
                let attributes = &attributes;
                if !builder.push(&NewEntry { cookie, name, attributes, requested }) {
                    break;
                }
            }
            let entries: Entries<'_> = builder.finish();
            assert_eq!(entries.iter().count(), expected, "{dircount} {maxcount}");
            for (entry, cookie) in entries.iter().zip(3..) {
                assert_eq!((entry.cookie, entry.name), (cookie, &b"abcd"[..]));
                assert_eq!(entry.attributes.decode_values(), Ok(attributes));
            }
        }
    }
}
