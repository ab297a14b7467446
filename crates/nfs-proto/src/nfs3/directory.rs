//! Directory listings: read as a view, written within a budget of bytes.
//!
//! [`Entries`] and [`EntriesPlus`] hold the encoded chain of entries, checked once, so that
//! iterating can't fail. Their builders stop before a reply would exceed what its caller requested
//! for. **Source:** RFC 1813 sections 3.3.16 and 3.3.17.

use super::{Fattr, FileHandle};
use crate::error::DecodeError;
use crate::xdr::{Reader, Writer, pad_len};

/// Bytes that surround the entries in READDIR3resok: attributes, verifier, end of chain, eof.
const RESOK_BYTES: u32 = 4 + Fattr::WIRE_BYTES as u32 + 8 + 4 + 4;

/// One entry of READDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Id of the file within its file system.
    pub fileid: u64,
    /// Name of the entry.
    pub name: &'a [u8],
    /// The cookie with which the listing goes on after this entry.
    pub cookie: u64,
}

impl<'a> Entry<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let fileid = reader.u64()?;
        let name = reader.opaque(u32::MAX)?;
        Ok(Self { fileid, name, cookie: reader.u64()? })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.fileid);
        writer.opaque(self.name);
        writer.u64(self.cookie);
    }

    fn wire_bytes(&self) -> usize {
        8 + 4 + self.name.len() + pad_len(self.name.len()) + 8
    }
}

/// One entry of READDIRPLUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPlus<'a> {
    /// Id, name and cookie.
    pub entry: Entry<'a>,
    /// Attributes, where the server gave them.
    pub attributes: Option<Fattr>,
    /// Handle, where the server gave it.
    pub file: Option<FileHandle>,
}

impl<'a> EntryPlus<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let entry = Entry::decode(reader)?;
        let attributes = Fattr::decode_optional(reader)?;
        let handle = reader.bool("handle_follows")?;
        let file = handle.then(|| FileHandle::decode(reader)).transpose()?;
        Ok(Self { entry, attributes, file })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        self.entry.encode(writer);
        Fattr::encode_optional(self.attributes.as_ref(), writer);
        writer.bool(self.file.is_some());
        if let Some(file) = &self.file {
            file.encode(writer);
        }
    }

    fn wire_bytes(&self) -> usize {
        let handle = self.file.map_or(0, |file| {
            let len = file.as_slice().len();
            4 + len + pad_len(len)
        });
        let attributes = self.attributes.map_or(0, |_| Fattr::WIRE_BYTES);
        self.entry.wire_bytes() + 4 + attributes + 4 + handle
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
        decode_chain(reader, |reader| Entry::decode(reader).map(drop)).map(|chain| Self { chain })
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

/// The entries of a READDIRPLUS reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntriesPlus<'a> {
    chain: &'a [u8],
}

impl<'a> EntriesPlus<'a> {
    /// Iterates over the entries.
    pub fn iter(&self) -> IterPlus<'a> {
        IterPlus { reader: Reader::new(self.chain) }
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let chain = decode_chain(reader, |reader| EntryPlus::decode(reader).map(drop))?;
        Ok(Self { chain })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.raw(self.chain);
        writer.bool(false);
    }
}

impl<'a> IntoIterator for &EntriesPlus<'a> {
    type Item = EntryPlus<'a>;
    type IntoIter = IterPlus<'a>;

    fn into_iter(self) -> IterPlus<'a> {
        self.iter()
    }
}

/// Iterates over the entries of a READDIRPLUS reply.
#[derive(Debug, Clone)]
pub struct IterPlus<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for IterPlus<'a> {
    type Item = EntryPlus<'a>;

    fn next(&mut self) -> Option<EntryPlus<'a>> {
        self.reader.u32().ok()?;
        EntryPlus::decode(&mut self.reader).ok()
    }
}

/// Builds the entries of a READDIR reply within the `count` of its call.
#[derive(Debug)]
pub struct EntriesBuilder<'b> {
    out: &'b mut Vec<u8>,
    budget: usize,
}

impl<'b> EntriesBuilder<'b> {
    /// Starts an empty listing in `scratch`, which is cleared, for a reply of `count` bytes.
    pub fn new(scratch: &'b mut Vec<u8>, count: u32) -> Self {
        scratch.clear();
        Self { out: scratch, budget: count.saturating_sub(RESOK_BYTES) as usize }
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

    /// Tells whether nothing was appended; with entries left, the status is NFS3ERR_TOOSMALL.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the listing.
    pub fn finish(self) -> Entries<'b> {
        Entries { chain: self.out }
    }
}

/// Builds the entries of a READDIRPLUS reply within `dircount` and `maxcount` of its call.
#[derive(Debug)]
pub struct EntriesPlusBuilder<'b> {
    out: &'b mut Vec<u8>,
    budget: usize,
    names_budget: usize,
}

impl<'b> EntriesPlusBuilder<'b> {
    /// Starts an empty listing in `scratch`, which is cleared: at most `dircount` bytes of ids,
    /// names and cookies, and `maxcount` bytes in all.
    pub fn new(scratch: &'b mut Vec<u8>, dircount: u32, maxcount: u32) -> Self {
        scratch.clear();
        let budget = maxcount.saturating_sub(RESOK_BYTES) as usize;
        Self { out: scratch, budget, names_budget: dircount as usize }
    }

    /// Appends an entry, or returns false and changes nothing when it does not fit.
    ///
    /// The first entry is never refused for `dircount`, which is a hint; clients send tiny ones.
    pub fn push(&mut self, entry: &EntryPlus<'_>) -> bool {
        let bytes = 4 + entry.wire_bytes();
        let names = entry.entry.wire_bytes();
        let names_fit = self.out.is_empty() || names <= self.names_budget;
        if self.out.len() + bytes > self.budget || !names_fit {
            return false;
        }
        self.names_budget = self.names_budget.saturating_sub(names);
        let mut writer = Writer::new(self.out);
        writer.bool(true);
        entry.encode(&mut writer);
        true
    }

    /// Tells whether nothing was appended; with entries left, the status is NFS3ERR_TOOSMALL.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the listing.
    pub fn finish(self) -> EntriesPlus<'b> {
        EntriesPlus { chain: self.out }
    }
}

/// Walks a chain of optional elements, which `element` checks, and returns it without its end.
fn decode_chain<'a>(
    reader: &mut Reader<'a>,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<(), DecodeError>,
) -> Result<&'a [u8], DecodeError> {
    let whole = reader.rest();
    loop {
        let len = whole.len() - reader.remaining();
        if !reader.bool("entry_follows")? {
            return Ok(&whole[..len]);
        }
        element(reader)?;
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
            assert_eq!(entries.iter().count() as u64, pushed);
            assert!(pushed == 0 || entries.chain.len() + RESOK_BYTES as usize <= count as usize);
            // One entry is 4 + 8 + 8 + 8 bytes.
            assert_eq!(pushed, u64::from(count.saturating_sub(RESOK_BYTES) / 28));
        }
    }

    #[test]
    fn a_plus_listing_keeps_to_both_budgets() {
        let mut scratch = Vec::new();
        let entry = Entry { fileid: 1, name: b"abcd", cookie: 1 };
        let plus = EntryPlus { entry, attributes: None, file: None };
        // Names take 24 bytes each; 60 is room for two.
        let mut builder = EntriesPlusBuilder::new(&mut scratch, 60, 4096);
        assert_eq!((0..9).filter(|_| builder.push(&plus)).count(), 2);
        // The whole entry takes 36 bytes; 100 is room for two.
        let mut builder = EntriesPlusBuilder::new(&mut scratch, 4096, RESOK_BYTES + 100);
        assert_eq!((0..9).filter(|_| builder.push(&plus)).count(), 2);
        assert_eq!(builder.finish().iter().count(), 2);
    }
}
