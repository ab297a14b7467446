//! Operations on the current object: handles, attributes, access rights, security.
//!
//! **Source:** RFC 7530 sections 16.1, 16.7, 16.8, 16.20 to 16.22, 16.25, 16.28 to 16.31; RFC 8881
//! sections 18.29 and 18.45.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Bitmap, Fattr, FileHandle, List, OpOk, SecurityFlavor, access, encode_getattr_ok,
};
use nfs_proto::rpc::{AUTH_NONE, AUTH_SYS};

use super::attributes::{Owners, check_readable};
use super::names::check_name;
use super::xattrs::{XATTR_ACCESS_ALL, xattr_access_on};
use super::{Outcome, Run};
use crate::fs::InodeId;
use crate::service::Service;
use crate::service::convert::{granted_access, handle, meaningful_access};

/// All rights of ACCESS except those of v4.2. **Source:** RFC 7530 section 16.1.
const ACCESS_ALL: u32 = access::READ
    | access::LOOKUP
    | access::MODIFY
    | access::EXTEND
    | access::DELETE
    | access::EXECUTE;

/// SECINFO_NO_NAME for the parent. **Source:** RFC 8881 section 18.45, secinfo_style4.
const STYLE_PARENT: u32 = 1;

impl Service {
    pub(super) fn op_putfh(&mut self, file: &FileHandle, run: &mut Run<'_>) -> Outcome {
        let id = self.shared.fs.inode_id(file.as_slice())?;
        self.shared.fs.check(id)?;
        run.put_handle(id, &OpOk::Putfh)
    }

    pub(super) fn op_getfh(&mut self, run: &mut Run<'_>) -> Outcome {
        let file = self.handle_of(run.current()?);
        run.succeed(&OpOk::Getfh { file })
    }

    /// Answers VERIFY and NVERIFY, which succeed if the attributes are equal, or differ.
    pub(super) fn op_verify(
        &mut self,
        attributes: &Fattr<'_>,
        ok: &OpOk<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = run.current()?;
        let found = self.shared.fs.attributes(id)?;
        let same = self.has_attributes(&found, id, run.minor, attributes)?;
        match (same, *ok) {
            (true, OpOk::Nverify) => Err(Status::Same.into()),
            (false, OpOk::Verify) => Err(Status::NotSame.into()),
            _ => {
                run.answer.write_ok(ok);
                Ok(())
            }
        }
    }

    pub(super) fn op_readlink(&mut self, run: &mut Run<'_>) -> Outcome {
        let found = self.shared.fs.read_link(run.current()?)?;
        run.succeed(&OpOk::Readlink { target: &found.1 })
    }

    /// The handle of an inode.
    pub(super) fn handle_of(&self, id: InodeId) -> FileHandle {
        handle(&self.shared.fs, id)
    }

    pub(super) fn op_getattr(&mut self, requested: Bitmap, run: &mut Run<'_>) -> Outcome {
        let id = run.current()?;
        check_readable(requested)?;
        let found = self.shared.fs.attributes(id)?;
        let owners = Owners::from_attributes(&found);
        let values = self.wire_attributes(&found, &owners, id, run.minor, requested);
        run.answer.write_result(|writer| encode_getattr_ok(writer, &values, requested));
        Ok(())
    }

    pub(super) fn op_access(&mut self, requested: u32, run: &mut Run<'_>) -> Outcome {
        let found = self.shared.fs.attributes(run.current()?)?;
        let known = if run.minor < 2 { ACCESS_ALL } else { ACCESS_ALL | XATTR_ACCESS_ALL };
        if requested & !known != 0 {
            return Err(Status::Inval.into());
        }
        let caller = &run.context.caller;
        let xattrs = xattr_access_on(requested, &found, caller);
        let supported = meaningful_access(requested, found.kind) | xattrs.supported;
        let access = granted_access(requested, &found, caller) | xattrs.granted;
        run.succeed(&OpOk::Access { supported, access })
    }

    pub(super) fn op_secinfo(&mut self, name: &[u8], run: &mut Run<'_>) -> Outcome {
        let directory = run.current()?;
        check_name(name)?;
        self.shared.fs.lookup(directory, name, &run.context.caller)?;
        let flavors = flavors(&mut self.page);
        run.answer.write_ok(&OpOk::Secinfo { flavors });
        forget_current(run);
        Ok(())
    }

    pub(super) fn op_secinfo_no_name(&mut self, style: u32, run: &mut Run<'_>) -> Outcome {
        let id = run.current()?;
        match style {
            0 => {}
            STYLE_PARENT if id == self.shared.fs.root() => return Err(Status::NoEnt.into()),
            STYLE_PARENT => drop(self.shared.fs.lookup(id, b"..", &run.context.caller)?),
            _ => return Err(Status::Inval.into()),
        }
        let flavors = flavors(&mut self.page);
        run.answer.write_ok(&OpOk::SecinfoNoName { flavors });
        forget_current(run);
        Ok(())
    }
}

/// From v4.1 on SECINFO clears the current handle. **Source:** RFC 8881 section 2.6.3.1.1.8.
fn forget_current(run: &mut Run<'_>) {
    if run.minor > 0 {
        run.current = None;
        run.stateid = None;
    }
}

fn flavors(scratch: &mut Vec<u8>) -> List<'_, SecurityFlavor<'_>> {
    List::build(scratch, [AUTH_SYS, AUTH_NONE].map(SecurityFlavor::Plain))
}
