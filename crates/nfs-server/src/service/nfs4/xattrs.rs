//! Extended attributes of v4.2: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR, and the rights to
//! them.
//!
//! Names are sent without a prefix: Linux clients show them below `user.`. Objects other than files
//! and directories have no attributes and accept none.
//!
//! **Source:** RFC 8276 sections 8.4 and 8.5.

use nfs_proto::Status;
use nfs_proto::nfs4::{List, OpOk, XattrOption, xattr_access};
use nfs_proto::xdr::opaque_bytes;

use super::names::change_info;
use super::{Outcome, Run};
use crate::fs::{Attributes, Caller, READ, WRITE, XattrMode};
use crate::service::Service;

/// All rights to extended attributes.
pub(super) const XATTR_ACCESS_ALL: u32 =
    xattr_access::READ | xattr_access::WRITE | xattr_access::LIST;

/// Size of a listing besides its names, in bytes: cookie, number of names, end of list.
const RESOK_BYTES: usize = 8 + 4 + 4;
/// Size of a result before its listing, in bytes: operation and status.
const RESULT_BYTES: usize = 4 + 4;

/// The rights to an object's extended attributes, as requested by ACCESS.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct XattrAccess {
    /// Rights that are meaningful for this kind of object.
    pub(super) supported: u32,
    /// Rights that the caller has.
    pub(super) granted: u32,
}

/// Determines which of the `requested` rights to extended attributes a caller has. Reading and
/// listing need the same right.
pub(super) fn xattr_access_on(requested: u32, found: &Attributes, caller: &Caller) -> XattrAccess {
    let requested = requested & XATTR_ACCESS_ALL;
    let mut access = XattrAccess::default();
    if requested == 0 || !found.kind.has_xattrs() {
        return access;
    }
    access.supported = requested;
    let rights = [(READ, xattr_access::READ | xattr_access::LIST), (WRITE, xattr_access::WRITE)];
    for (need, bits) in rights {
        if caller.check_xattrs(found.kind, found.protection(), need).is_ok() {
            access.granted |= requested & bits;
        }
    }
    access
}

impl Service {
    pub(super) fn op_getxattr(&mut self, name: &[u8], run: &mut Run<'_>) -> Outcome {
        let id = run.current()?;
        let value = self.shared.fs.xattr(id, name, &run.context.caller)?;
        run.succeed(&OpOk::Getxattr { value: &value })
    }

    pub(super) fn op_setxattr(
        &mut self,
        option: XattrOption,
        name: &[u8],
        value: &[u8],
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = run.current()?;
        let mode = match option {
            XattrOption::Either => XattrMode::Either,
            XattrOption::Create => XattrMode::Create,
            XattrOption::Replace => XattrMode::Replace,
        };
        self.recall_for(id, run)?;
        let change = self.shared.fs.set_xattr(id, name, value, mode, &run.context)?;
        run.succeed(&OpOk::Setxattr { change: change_info(&change) })
    }

    pub(super) fn op_removexattr(&mut self, name: &[u8], run: &mut Run<'_>) -> Outcome {
        let id = run.current()?;
        self.recall_for(id, run)?;
        let change = self.shared.fs.remove_xattr(id, name, &run.context)?;
        run.succeed(&OpOk::Removexattr { change: change_info(&change) })
    }

    /// Lists as many names as the client's `maxcount` and the reply's limit allow.
    pub(super) fn op_listxattrs(
        &mut self,
        cookie: u64,
        maxcount: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = run.current()?;
        let granted = maxcount.min(self.granted.read_bytes_max) as usize;
        if granted < RESOK_BYTES {
            return Err(Status::TooSmall.into());
        }
        let mut left = granted.min(run.answer.bytes_left().saturating_sub(RESULT_BYTES));
        left = left.saturating_sub(RESOK_BYTES);
        let listing = self.shared.fs.list_xattrs(id, cookie, &run.context.caller, |name| {
            let bytes = opaque_bytes(name.len());
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        })?;
        if listing.names.is_empty() && !listing.eof {
            // Not even one name fits. If the limit is the session's rather than the client's
            // `maxcount`, the status says so, as for READDIR.
            run.answer.check_room(granted)?;
            return Err(Status::TooSmall.into());
        }
        let names = List::build(&mut self.page, listing.names.iter().map(|name| &name[..]));
        run.answer.write_ok(&OpOk::Listxattrs { cookie: listing.cookie, names, eof: listing.eof });
        Ok(())
    }
}
