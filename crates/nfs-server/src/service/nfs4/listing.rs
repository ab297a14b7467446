//! READDIR: a page of names with the requested attributes.
//!
//! `.` and `..` are not listed, and their cookies are never used. The cookie verifier is that of
//! the store: cookies stay valid as long as it lives.
//!
//! **Source:** RFC 7530 section 16.24.

use nfs_proto::Status;
use nfs_proto::lists::ChainBuilder;
use nfs_proto::nfs4::{
    Attributes as WireAttributes, Bitmap, NewEntry, OpOk, Verifier, attribute as number, page_of,
};

use super::attributes::{Owners, check_readable};
use super::{Outcome, Run};
use crate::fs::{FsError, ListedEntry};
use crate::service::Service;

/// The last of the cookies that are never used. **Source:** RFC 7530 section 16.24.4.
const RESERVED_COOKIE: u64 = 2;
/// Minimum size of an entry besides its name, in bytes: mark, cookie, length, and empty attributes.
const ENTRY_BYTES: usize = 4 + 8 + 4 + 8;
/// Size of a listing besides its entries, in bytes: verifier, end of entries, end of directory.
const RESOK_BYTES: usize = 8 + 4 + 4;
/// Size of a result before and after its entries, in bytes.
const RESULT_BYTES: usize = 8 + 8 + 4 + 4;

impl Service {
    pub(super) fn op_readdir(
        &mut self,
        cookie: u64,
        verifier: Verifier,
        dircount: u32,
        maxcount: u32,
        request: Bitmap,
        run: &mut Run<'_>,
    ) -> Outcome {
        let directory = run.current()?;
        check_readable(request)?;
        let own = self.shared.cookie_verifier();
        if cookie != 0 && cookie <= RESERVED_COOKIE {
            return Err(Status::BadCookie.into());
        }
        // A client may not keep the verifier: libnfs 4.0 sends zeros with every cookie. Cookies are
        // valid here as long as the store is, so accepting them does no harm.
        if cookie != 0 && verifier != own && verifier != Verifier::default() {
            return Err(Status::NotSame.into());
        }
        if (maxcount as usize) < RESOK_BYTES {
            return Err(Status::TooSmall.into());
        }
        let granted = maxcount.min(self.granted.read_bytes_max) as usize;
        let maxcount = granted.min(run.answer.bytes_left().saturating_sub(RESULT_BYTES));
        // `.` and `..` use the cookies up to RESERVED_COOKIE, so the listing starts after them.
        let start = cookie.max(RESERVED_COOKIE);
        let caller = &run.context.caller;
        let listing = self.list_entries(directory, start, maxcount as u32, ENTRY_BYTES, caller)?;
        let mut page = std::mem::take(&mut self.page);
        let mut builder = page_of(&mut page, dircount, maxcount as u32);
        let mut taken = 0;
        for entry in &listing.entries {
            if !self.push_entry(entry, run, request, &mut builder) {
                break;
            }
            taken += 1;
        }
        let eof = listing.eof && taken == listing.entries.len();
        let too_small = taken == 0 && !eof;
        if !too_small {
            run.answer.write_ok(&OpOk::Readdir { verifier: own, entries: builder.finish(), eof });
        }
        self.page = page;
        if !too_small {
            return Ok(());
        }
        // Not even one entry fits. If the limit is the session's rather than the client's
        // `maxcount`, the status says so: a larger count would not help the client.
        run.answer.check_room(granted)?;
        Err(Status::TooSmall.into())
    }

    /// Adds an entry; returns false if it does not fit. An entry that has vanished meanwhile is
    /// skipped, unless the caller wants to know why it has no attributes.
    fn push_entry(
        &self,
        entry: &ListedEntry,
        run: &Run<'_>,
        requested: Bitmap,
        builder: &mut ChainBuilder<'_>,
    ) -> bool {
        let found = match self.shared.fs.attributes(entry.id) {
            Ok(found) => found,
            Err(error) => return push_vanished(error, entry, requested, builder),
        };
        let owners = Owners::from_attributes(&found);
        let values = self.wire_attributes(&found, &owners, entry.id, run.minor, requested);
        builder.push(&NewEntry {
            cookie: entry.cookie,
            name: &entry.name,
            attributes: &values,
            requested,
        })
    }
}

fn push_vanished(
    error: FsError,
    entry: &ListedEntry,
    requested: Bitmap,
    builder: &mut ChainBuilder<'_>,
) -> bool {
    if !requested.contains(number::RDATTR_ERROR) {
        return true;
    }
    let values = WireAttributes { read_error: Some(error.into()), ..WireAttributes::default() };
    builder.push(&NewEntry {
        cookie: entry.cookie,
        name: &entry.name,
        attributes: &values,
        requested,
    })
}
