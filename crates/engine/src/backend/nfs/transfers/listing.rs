//! Lists whole directories, page by page, in bounded memory.
//!
//! An op is a chain of calls: READDIR or READDIRPLUS from where the last page ended, and a LOOKUP
//! for each name of a page whose attributes are needed but were not returned with it. Only such
//! names are kept, in a buffer that was allocated before the start.

use model::{OpError, OpKind};
use nfs_client::proto::client::{Attributes, Cursor, Entry, Event, Operation, Outcome};
use nfs_client::proto::nfs4::FileType;
use nfs_client::proto::status::Status;
use workload::has_find_text;

use super::super::set::{PlusListing, WorkerState};
use super::judge::{CallResult, note_error};
use super::{OpSlot, Stage, Transfers};
use crate::backend::find::FindRule;
use crate::limits::{LISTED_SPARE, NAME_BYTES_MAX};

/// A directory that is being listed.
#[derive(Debug, Default)]
pub(super) struct Listing {
    cursor: Cursor,
    /// The last page has been read.
    is_read: bool,
    /// Number of entries so far, without `.` and `..`.
    pub(super) entries: u32,
    matches: u64,
    /// Names to look up, each after its length, and the position of the next one.
    names: Vec<u8>,
    next_name: usize,
}

impl Listing {
    /// Creates a listing with room for names that take `bytes`.
    pub(super) fn with_names(bytes: usize) -> Self {
        Self { names: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Starts over with another directory.
    pub(super) fn begin(&mut self) {
        let mut names = std::mem::take(&mut self.names);
        names.clear();
        *self = Self { names, ..Self::default() };
    }

    /// Returns the next name to look up.
    fn name(&self) -> Option<&[u8]> {
        let (len, rest) = self.names.get(self.next_name..)?.split_first()?;
        rest.get(..usize::from(*len))
    }

    fn skip_name(&mut self) {
        self.next_name += self.name().map_or(0, |name| name.len() + 1);
    }

    /// Returns the stage that follows, or `None` at the end of the directory.
    fn next_stage(&self) -> Option<Stage> {
        match self.name() {
            Some(_) => Some(Stage::Find),
            None if self.is_read => None,
            None => Some(Stage::Act),
        }
    }

    /// Takes an entry of a page.
    fn take_entry(&mut self, entry: &Entry<'_>, kind: OpKind, rule: &FindRule) {
        if entry.name == b"." || entry.name == b".." {
            return;
        }
        self.entries += 1;
        if kind == OpKind::List || (kind == OpKind::Find && !has_find_text(entry.name)) {
            return;
        }
        if let Some(attributes) = &entry.attributes {
            self.matches += u64::from(kind == OpKind::Find && is_match(rule, attributes));
            return;
        }
        // No protocol version has longer names, and a page has no more bytes than there is room.
        let Ok(len) = u8::try_from(entry.name.len()) else { return };
        if self.names.len() + entry.name.len() < self.names.capacity() {
            self.names.push(len);
            self.names.extend_from_slice(entry.name);
        }
    }

    /// Takes a page.
    fn take_page(
        &mut self,
        event: &Event<'_>,
        expected: u32,
        kind: OpKind,
        rule: &FindRule,
    ) -> Result<(), OpError> {
        let Ok(page) = event.listing() else { return Err(OpError::MALFORMED) };
        let before = self.cursor.cookie;
        self.names.clear();
        self.next_name = 0;
        let mut last = None;
        for entry in &page {
            last = Some(entry.cookie);
            self.take_entry(&entry, kind, rule);
        }
        self.is_read = page.eof;
        self.cursor = Cursor { cookie: last.unwrap_or(before), verifier: page.verifier };
        // A page without progress, or far too many names, would never end.
        let is_stuck = !page.eof && (last.is_none() || last == Some(before));
        let is_endless = u64::from(self.entries) > u64::from(expected) + LISTED_SPARE;
        if is_stuck || is_endless { Err(OpError::MALFORMED) } else { Ok(()) }
    }
}

const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize);

/// Returns true if a file has the properties that a find looks for.
fn is_match(rule: &FindRule, attributes: &Attributes) -> bool {
    attributes.file_type == FileType::Regular
        && rule.matches_attributes(attributes.size, i64::from(attributes.mtime.seconds))
}

/// Returns the next call of an op that lists a directory.
pub(super) fn call_of<'a>(
    state: &OpSlot,
    listing: &'a Listing,
    common: &'a WorkerState,
) -> Operation<'a> {
    let dir = common.listed(state.op.file);
    if state.stage == Stage::Find
        && let Some(name) = listing.name()
    {
        return Operation::Lookup { dir, name };
    }
    let Listing { cursor, .. } = *listing;
    let bytes = common.set.listing_bytes;
    let is_plain = state.op.kind == OpKind::List || common.set.plus_listing == PlusListing::Readdir;
    if is_plain {
        Operation::Readdir { dir, cursor, bytes }
    } else {
        Operation::ReaddirPlus { dir, cursor, bytes }
    }
}

impl Transfers {
    /// Handles the completion of a call of an op that lists a directory.
    pub(super) fn end_listing_call(
        &mut self,
        event: &Event<'_>,
        slot: u32,
        common: &mut WorkerState,
    ) {
        let state = &mut self.ops[slot as usize];
        let listing = &mut self.listings[slot as usize];
        common.listed.bytes += event.body.len() as u64;
        let rule = &common.set.find;
        let read = match event.result {
            Ok(Outcome::Listing) => {
                listing.take_page(event, state.op.len_bytes, state.op.kind, rule)
            }
            Ok(Outcome::Object { attributes }) => {
                listing.skip_name();
                match attributes {
                    Some(found) if state.op.kind == OpKind::Find => {
                        listing.matches += u64::from(is_match(rule, &found));
                    }
                    _ => {}
                }
                Ok(())
            }
            Ok(_) => Err(OpError::MALFORMED),
            // The name was removed after it had been listed.
            Err(error)
                if state.stage == Stage::Find
                    && error.status().is_some_and(|status| status == Status::NoEnt) =>
            {
                listing.skip_name();
                Ok(())
            }
            Err(error) => Err(note_error(event, error, common)),
        };
        let state = &mut self.ops[slot as usize];
        state.more = match read {
            Ok(()) => listing.next_stage(),
            Err(_) => None,
        };
        if read.is_ok() && state.more.is_none() {
            common.listed.note_directory(listing.entries, listing.matches, state.op.offset_bytes);
        }
        let tag = event.tag;
        self.end_transfer(tag, read.map(|()| CallResult::Moved(0)), event.done_ns, common);
    }

    /// Returns the number of entries that unfinished ops have listed.
    pub(in super::super) fn entries_in_progress(&self) -> u64 {
        self.listings.iter().map(|listing| u64::from(listing.entries)).sum()
    }
}
