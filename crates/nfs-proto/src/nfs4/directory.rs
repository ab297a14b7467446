//! Directory listings: read as a view, written within a budget of bytes.
//!
//! [`Entries`] holds the encoded chain of entries, checked once, so that iterating can't fail.
//! [`EntriesBuilder`] stops before a reply would exceed what its caller requested.
//! **Source:** RFC 7530 section 16.24.

use super::attributes::{Attributes, Fattr};
use super::bitmap::Bitmap;
use super::wire::Wire;
use crate::error::DecodeError;
use crate::xdr::{Reader, Writer, pad_len};

/// Bytes that surround the entries in READDIR4resok: verifier, end of chain, eof.
const RESOK_BYTES: u32 = 8 + 4 + 4;

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The cookie with which the listing goes on after this entry.
    pub cookie: u64,
    /// Name of the entry.
    pub name: &'a [u8],
    /// Those of the attributes that were requested.
    pub attributes: Fattr<'a>,
}

impl<'a> Entry<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let cookie = reader.u64()?;
        let name = reader.opaque(u32::MAX)?;
        Ok(Self { cookie, name, attributes: Fattr::decode(reader)? })
    }
}

/// The entries of a READDIR reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entries<'a> {
    chain: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Iterates over the entries.
    pub fn iter(&self) -> Iter<'a> {
        Iter { reader: Reader::new(self.chain) }
    }
}

impl<'a> Wire<'a> for Entries<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let whole = reader.rest();
        loop {
            let len = whole.len() - reader.remaining();
            if !reader.bool("entry_follows")? {
                return Ok(Self { chain: &whole[..len] });
            }
            Entry::decode(reader)?;
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.raw(self.chain);
        writer.bool(false);
    }
}

impl<'a> IntoIterator for &Entries<'a> {
    type Item = Entry<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterates over the entries of a READDIR reply.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.reader.u32().ok()?;
        Entry::decode(&mut self.reader).ok()
    }
}

/// Builds the entries of a READDIR reply within `dircount` and `maxcount` of its call.
#[derive(Debug)]
pub struct EntriesBuilder<'b> {
    out: &'b mut Vec<u8>,
    budget: usize,
    names_budget: usize,
}

impl<'b> EntriesBuilder<'b> {
    /// Starts an empty listing in `scratch`, which is cleared: at most `dircount` bytes of names
    /// and cookies (0 means no such limit), and `maxcount` bytes in all.
    pub fn new(scratch: &'b mut Vec<u8>, dircount: u32, maxcount: u32) -> Self {
        scratch.clear();
        let budget = maxcount.saturating_sub(RESOK_BYTES) as usize;
        let names_budget = if dircount == 0 { usize::MAX } else { dircount as usize };
        Self { out: scratch, budget, names_budget }
    }

    /// Appends an entry, or returns false and changes nothing when it does not fit.
    ///
    /// The first entry is never refused for `dircount`, which is a hint; clients send tiny ones.
    pub fn push(
        &mut self,
        cookie: u64,
        name: &[u8],
        attributes: &Attributes<'_>,
        requested: Bitmap,
    ) -> bool {
        let start = self.out.len();
        let names = 8 + 4 + name.len() + pad_len(name.len());
        if start > 0 && names > self.names_budget {
            return false;
        }
        let mut writer = Writer::new(self.out);
        writer.bool(true);
        writer.u64(cookie);
        writer.opaque(name);
        attributes.encode(requested, &mut writer);
        if self.out.len() > self.budget {
            self.out.truncate(start);
            return false;
        }
        self.names_budget = self.names_budget.saturating_sub(names);
        true
    }

    /// Tells whether nothing was appended; with entries left, the status is NFS4ERR_TOOSMALL.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the listing.
    pub fn finish(self) -> Entries<'b> {
        Entries { chain: self.out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs4::attribute;

    #[test]
    fn a_listing_keeps_to_both_budgets() {
        let attributes = Attributes { fileid: Some(7), ..Attributes::default() };
        let requested = Bitmap::of(&[attribute::FILEID]);
        // One entry is 4 + 8 + 8 bytes, and 8 + 4 + 8 bytes of attributes.
        for (dircount, maxcount, expected) in
            [(0, 16 + 79, 1), (0, 16 + 80, 2), (32, 9999, 2), (1, 9999, 1), (0, 55, 0)]
        {
            let mut scratch = Vec::new();
            let mut builder = EntriesBuilder::new(&mut scratch, dircount, maxcount);
            let mut cookie = 3;
            while cookie < 9 && builder.push(cookie, b"abcd", &attributes, requested) {
                cookie += 1;
            }
            let entries = builder.finish();
            assert_eq!(entries.iter().count(), expected, "{dircount} {maxcount}");
            for (entry, cookie) in entries.iter().zip(3..) {
                assert_eq!((entry.cookie, entry.name), (cookie, &b"abcd"[..]));
                assert_eq!(entry.attributes.decode_values(), Ok(attributes));
            }
        }
    }
}
