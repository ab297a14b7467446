//! Lists of values, as views of the message that contains them.
//!
//! [`List`] is a counted array and [`Chain`] a linked list; both are checked once, left in place,
//! and decoded again element by element, so that iterating can't fail and does not allocate.
//! [`ChainBuilder`] makes a page of a directory. **Source:** RFC 4506 sections 4.13 and 4.19.

use std::marker::PhantomData;

use crate::error::DecodeError;
use crate::wire::{BoundedWire, Wire};
use crate::xdr::{Reader, Writer};

/// A counted array whose elements have been checked and are decoded one by one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct List<'a, T> {
    count: u32,
    bytes: &'a [u8],
    element: PhantomData<fn() -> T>,
}

impl<'a, T: Wire<'a>> List<'a, T> {
    /// Writes elements to `scratch`, which is cleared, and returns a list of them.
    pub fn build(scratch: &'a mut Vec<u8>, elements: impl IntoIterator<Item = T>) -> Self {
        scratch.clear();
        let mut count = 0;
        for element in elements {
            element.encode(&mut Writer::new(scratch));
            count += 1;
        }
        Self { count, bytes: scratch, element: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| T::decode(&mut reader).ok())
    }
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self { count: 0, bytes: &[], element: PhantomData }
    }
}

impl<T> std::fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List({} elements, {} bytes)", self.count, self.bytes.len())
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for List<'a, T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        // The count comes from the network and reserves nothing. Every element takes at least one
        // word, so with a count of four billion the loop ends at the end of the message.
        let count = reader.u32()?;
        let whole = reader.rest();
        for _ in 0..count {
            T::decode(reader)?;
        }
        let bytes = &whole[..whole.len() - reader.remaining()];
        Ok(Self { count, bytes, element: PhantomData })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.count);
        writer.raw(self.bytes);
    }
}

/// Limits the number of elements.
impl<'a, T: Wire<'a>> BoundedWire<'a> for List<'a, T> {
    fn decode_up_to(reader: &mut Reader<'a>, max: u32) -> Result<Self, DecodeError> {
        let len = Reader::new(reader.rest()).u32()?;
        if len > max {
            return Err(DecodeError::TooLong { len, max });
        }
        Self::decode(reader)
    }
}

/// A linked list, as used for directory entries: the word 1 before each element, 0 after the last.
/// The elements have been checked and are decoded one by one.
#[derive(Debug)]
pub struct Chain<'a, T> {
    /// All elements with the word before each; the terminating word is left out, so that the output
    /// of a [`ChainBuilder`] and received lists are the same bytes.
    bytes: &'a [u8],
    element: PhantomData<fn() -> T>,
}

impl<'a, T: Wire<'a>> Chain<'a, T> {
    /// Iterates over the elements.
    pub fn iter(&self) -> ChainIter<'a, T> {
        ChainIter { reader: Reader::new(self.bytes), element: PhantomData }
    }
}

impl<T> Clone for Chain<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Chain<'_, T> {}

impl<T> PartialEq for Chain<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Chain<'_, T> {}

impl<T> Default for Chain<'_, T> {
    fn default() -> Self {
        Self { bytes: &[], element: PhantomData }
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Chain<'a, T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let whole = reader.rest();
        loop {
            let len = whole.len() - reader.remaining();
            if !reader.bool("entry_follows")? {
                return Ok(Self { bytes: &whole[..len], element: PhantomData });
            }
            T::decode(reader)?;
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.raw(self.bytes);
        writer.bool(false);
    }
}

impl<'a, T: Wire<'a>> IntoIterator for &Chain<'a, T> {
    type Item = T;
    type IntoIter = ChainIter<'a, T>;

    fn into_iter(self) -> ChainIter<'a, T> {
        self.iter()
    }
}

/// Iterates over the elements of a [`Chain`].
#[derive(Debug, Clone)]
pub struct ChainIter<'a, T> {
    reader: Reader<'a>,
    element: PhantomData<fn() -> T>,
}

impl<'a, T: Wire<'a>> Iterator for ChainIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.reader.u32().ok()?;
        T::decode(&mut self.reader).ok()
    }
}

/// An entry of a directory that can be appended to a page.
pub trait PageEntry {
    /// Returns the size of id, name and cookie, which `dircount` limits.
    fn name_bytes(&self) -> usize;

    /// Appends the entry.
    fn append_to(&self, writer: &mut Writer<'_>);
}

/// Builds a page of a directory within the requested sizes.
///
/// READDIR limits the whole reply (`count`, `maxcount`), READDIRPLUS and v4 also the part of it
/// that is names (`dircount`). If a page is too small for even one entry, that is an error
/// (TOOSMALL), which the caller returns if nothing was appended and entries are left. **Source:**
/// RFC 1813 sections 3.3.16 and 3.3.17, RFC 7530 section 16.24.
#[derive(Debug)]
pub struct ChainBuilder<'b> {
    out: &'b mut Vec<u8>,
    budget: usize,
    names_budget: usize,
}

impl<'b> ChainBuilder<'b> {
    /// Starts an empty page in `scratch`, which is cleared: at most `budget` bytes of entries, and
    /// `names_budget` bytes of names.
    pub(crate) fn with_budget(scratch: &'b mut Vec<u8>, budget: u32, names_budget: usize) -> Self {
        scratch.clear();
        Self { out: scratch, budget: budget as usize, names_budget }
    }

    /// Appends an entry, or returns false without changes if it does not fit.
    pub fn push(&mut self, entry: &impl PageEntry) -> bool {
        let start = self.out.len();
        let names = entry.name_bytes();
        // `dircount` is a hint, and clients send tiny ones: it never refuses the first entry, or
        // such a client would get TOOSMALL forever.
        if start > 0 && names > self.names_budget {
            return false;
        }
        // The length of an entry with its attributes is only known once it is written; if it is too
        // long, it is removed again. That costs one entry per page.
        let mut writer = Writer::new(self.out);
        writer.bool(true);
        entry.append_to(&mut writer);
        if self.out.len() > self.budget {
            self.out.truncate(start);
            return false;
        }
        self.names_budget = self.names_budget.saturating_sub(names);
        true
    }

    /// Returns true if nothing was appended; if entries are left, the status is TOOSMALL.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the entries.
    pub fn finish<T>(self) -> Chain<'b, T> {
        Chain { bytes: self.out, element: PhantomData }
    }
}
