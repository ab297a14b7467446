//! The entries of a READDIR reply of NFS v2, and how one is built within a budget of bytes.
//!
//! [`Entries`] holds the encoded chain of entries, checked once, so that iterating can't fail.
//! Cookies are four opaque bytes, here a number. **Source:** RFC 1094 section 2.2.17.

use crate::error::DecodeError;
use crate::xdr::{Reader, Writer, pad_len};

/// Bytes that surround the entries in a reply: status, end of chain, eof.
const SURROUNDING_BYTES: u32 = 4 + 4 + 4;

/// One entry of READDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Id of the file within its file system.
    pub fileid: u32,
    /// Name of the entry.
    pub name: &'a [u8],
    /// The cookie with which the listing goes on after this entry.
    pub cookie: u32,
}

impl<'a> Entry<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let fileid = reader.u32()?;
        let name = reader.opaque(u32::MAX)?;
        Ok(Self { fileid, name, cookie: reader.u32()? })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.fileid);
        writer.opaque(self.name);
        writer.u32(self.cookie);
    }

    fn wire_bytes(&self) -> usize {
        4 + 4 + self.name.len() + pad_len(self.name.len()) + 4
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

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let whole = reader.rest();
        loop {
            let len = whole.len() - reader.remaining();
            if !reader.bool("entry_follows")? {
                return Ok(Self { chain: &whole[..len] });
            }
            Entry::decode(reader)?;
        }
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
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

/// Builds the entries of a READDIR reply within the `count` of its call.
#[derive(Debug)]
pub struct EntriesBuilder<'b> {
    out: &'b mut Vec<u8>,
    budget: usize,
}

impl<'b> EntriesBuilder<'b> {
    /// Starts an empty listing in `scratch`, which is cleared, for results of `count` bytes.
    pub fn new(scratch: &'b mut Vec<u8>, count: u32) -> Self {
        scratch.clear();
        Self { out: scratch, budget: count.saturating_sub(SURROUNDING_BYTES) as usize }
    }

    /// Appends an entry, or returns false and changes nothing when it does not fit.
    pub fn push(&mut self, entry: &Entry<'_>) -> bool {
        let bytes = 4 + entry.wire_bytes();
        if self.out.len() + bytes > self.budget {
            return false;
        }
        let mut writer = Writer::new(self.out);
        writer.bool(true);
        entry.encode(&mut writer);
        true
    }

    /// Tells whether nothing was appended.
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

    #[test]
    fn a_listing_keeps_to_its_budget() {
        for count in 0..600 {
            let mut scratch = Vec::new();
            let mut builder = EntriesBuilder::new(&mut scratch, count);
            let mut pushed = 0;
            while builder.push(&Entry { fileid: pushed, name: b"name", cookie: pushed + 1 }) {
                pushed += 1;
            }
            let entries = builder.finish();
            assert_eq!(entries.iter().count() as u32, pushed);
            // One entry is 4 + 4 + 8 + 4 bytes.
            assert_eq!(pushed, count.saturating_sub(SURROUNDING_BYTES) / 20);
        }
    }
}
