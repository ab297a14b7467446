//! NFS v2: READDIR.
//!
//! A cookie is that of the file system, truncated to 32 bits; a directory that has used more is
//! listed up to there and then fails, rather than starting over.
//!
//! **Source:** RFC 1094 section 2.2.17.

use nfs_proto::Status;
use nfs_proto::limits::V2_TRANSFER_BYTES_MAX;
use nfs_proto::nfs2::{Entry, FileHandle, Listing, Reply, page_of};
use nfs_proto::server::encode_reply;

use super::convert::handle_bytes;
use crate::fs::{self, Caller};
use crate::outbox::Outbox;
use crate::service::Service;

/// Minimum size of an entry besides its name, in bytes: the word before, fileid, length and cookie.
const ENTRY_BYTES: usize = 16;

/// The page that a READDIR requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRequest {
    /// The cookie after which it starts.
    pub(super) cookie: u32,
    /// Maximum size in bytes.
    pub(super) count: u32,
}

impl Service {
    /// Executes READDIR.
    pub(super) fn readdir_v2(
        &mut self,
        dir: &FileHandle,
        request: PageRequest,
        caller: &Caller,
        xid: u32,
        out: &mut Outbox,
    ) {
        let mut page = std::mem::take(&mut self.page);
        let count = request.count.min(V2_TRANSFER_BYTES_MAX);
        let listed = self.list_v2(dir, PageRequest { count, ..request }, caller);
        let result = self.counted_v2(listed.and_then(|found| fill_page(&found, count, &mut page)));
        let reply = nfs_proto::program::Reply::Nfs2(Reply::Readdir(result));
        encode_reply(out.head(), xid, &reply);
        self.page = page;
    }

    fn list_v2(
        &self,
        dir: &FileHandle,
        request: PageRequest,
        caller: &Caller,
    ) -> Result<fs::Listing, Status> {
        let PageRequest { cookie, count } = request;
        let id = self.inode_of(handle_bytes(dir))?;
        Ok(self.list_entries(id, cookie.into(), count, ENTRY_BYTES, caller)?)
    }
}

/// Builds a page; an error if there are entries but not even one fits.
fn fill_page<'p>(
    found: &fs::Listing,
    count: u32,
    page: &'p mut Vec<u8>,
) -> Result<Listing<'p>, Status> {
    let mut builder = page_of(page, count);
    let mut fitted = 0;
    for entry in &found.entries {
        // A cookie that does not fit would be truncated and send the client back to the start. The
        // page ends here instead, and the next one fails.
        let Ok(cookie) = u32::try_from(entry.cookie) else { break };
        let fileid = entry.id.fileid() as u32;
        if !builder.push(&Entry { fileid, name: &entry.name, cookie }) {
            break;
        }
        fitted += 1;
    }
    let eof = found.eof && fitted == found.entries.len();
    if fitted == 0 && !eof {
        return Err(Status::Io);
    }
    Ok(Listing { entries: builder.finish(), eof })
}
