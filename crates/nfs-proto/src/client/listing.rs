//! Directory listings of any version, as a view of the reply.
//!
//! [`Listing`] can be iterated; names are not copied.

use super::event::Attributes;
use super::file_attributes::read_described;
use crate::nfs2;
use crate::nfs3::{self, FileHandle, Verifier};
use crate::nfs4;

/// A page of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing<'a> {
    /// To be sent with the cookie for the next page.
    pub verifier: Verifier,
    /// Whether the directory ends here.
    pub eof: bool,
    /// The entries as encoded, checked.
    pub(super) entries: Entries<'a>,
}

/// The entries in the encoding of their version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entries<'a> {
    V2(nfs2::Entries<'a>),
    V3(nfs3::Entries<'a>),
    V3Plus(nfs3::EntriesPlus<'a>),
    V4(nfs4::Entries<'a>),
}

/// One name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Id of the file within its file system.
    pub fileid: u64,
    /// Name of the entry.
    pub name: &'a [u8],
    /// Cookie for continuing the listing after this entry.
    pub cookie: u64,
    /// Its attributes, if requested and returned.
    pub attributes: Option<Attributes>,
    /// Its handle, if requested and returned.
    pub handle: Option<FileHandle>,
}

impl<'a> Listing<'a> {
    /// Iterates over the entries.
    pub fn iter(&self) -> EntryIter<'a> {
        EntryIter(match self.entries {
            Entries::V2(entries) => Iter::V2(entries.iter()),
            Entries::V3(entries) => Iter::V3(entries.iter()),
            Entries::V3Plus(entries) => Iter::V3Plus(entries.iter()),
            Entries::V4(entries) => Iter::V4(entries.iter()),
        })
    }
}

impl<'a> IntoIterator for &Listing<'a> {
    type Item = Entry<'a>;
    type IntoIter = EntryIter<'a>;

    fn into_iter(self) -> EntryIter<'a> {
        self.iter()
    }
}

/// Iterates over the entries of a [`Listing`].
#[derive(Debug, Clone)]
pub struct EntryIter<'a>(Iter<'a>);

#[derive(Debug, Clone)]
enum Iter<'a> {
    V2(nfs2::Iter<'a>),
    V3(nfs3::Iter<'a>),
    V3Plus(nfs3::IterPlus<'a>),
    V4(nfs4::Iter<'a>),
}

impl<'a> Iterator for EntryIter<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        match &mut self.0 {
            Iter::V2(entries) => {
                let nfs2::Entry { fileid, name, cookie } = entries.next()?;
                Some(Entry {
                    fileid: fileid.into(),
                    name,
                    cookie: cookie.into(),
                    attributes: None,
                    handle: None,
                })
            }
            Iter::V3(entries) => {
                let nfs3::Entry { fileid, name, cookie } = entries.next()?;
                Some(Entry { fileid, name, cookie, attributes: None, handle: None })
            }
            Iter::V3Plus(entries) => {
                let nfs3::EntryPlus { entry, attributes, file } = entries.next()?;
                let nfs3::Entry { fileid, name, cookie } = entry;
                Some(Entry { fileid, name, cookie, attributes, handle: file })
            }
            Iter::V4(entries) => {
                let nfs4::Entry { cookie, name, attributes } = entries.next()?;
                // An entry whose attributes can't be decoded does not end the page: it keeps its
                // name.
                let Ok(described) = read_described(&attributes) else {
                    return Some(Entry { fileid: 0, name, cookie, attributes: None, handle: None });
                };
                let fileid = described.attributes.fileid;
                let attributes = if described.is_whole { Some(described.attributes) } else { None };
                Some(Entry { fileid, name, cookie, attributes, handle: described.handle })
            }
        }
    }
}
