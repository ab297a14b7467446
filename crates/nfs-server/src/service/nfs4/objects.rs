//! Operations on the current object: handles, attributes, rights, security.
//!
//! **Source:** RFC 7530 sections 16.1, 16.7, 16.8, 16.20 to 16.22, 16.25, 16.28 to 16.31;
//! RFC 8881 sections 18.29 and 18.45.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Bitmap, Fattr, FileHandle, List, Op, OpOk, SecurityFlavor, access, encode_getattr_ok,
};
use nfs_proto::rpc::{AUTH_NONE, AUTH_SYS};

use super::answer::Answer;
use super::attributes::{Owners, check_readable};
use super::names::{check_name, v4_status};
use super::{Outcome, Run};
use crate::fs::{FileKind, InodeId};
use crate::service::Service;
use crate::service::convert::handle;

/// All rights that v4 knows. **Source:** RFC 7530 section 16.1.
const ACCESS_ALL: u32 = access::READ
    | access::LOOKUP
    | access::MODIFY
    | access::EXTEND
    | access::DELETE
    | access::EXECUTE;
/// Rights that mean something for a directory, and for anything else.
const ACCESS_DIRECTORY: u32 = ACCESS_ALL & !access::EXECUTE;
const ACCESS_OTHER: u32 = access::READ | access::MODIFY | access::EXTEND | access::EXECUTE;

/// SECINFO_NO_NAME about the parent. **Source:** RFC 8881 section 18.45, secinfo_style4.
const STYLE_PARENT: u32 = 1;

impl Service {
    /// Carries out an operation on the current object.
    pub(super) fn object(
        &mut self,
        op: &Op<'_>,
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        match *op {
            Op::Putfh { file } => {
                let id = self.shared.fs.inode_id(file.as_slice()).map_err(v4_status)?;
                self.shared.fs.check(id).map_err(v4_status)?;
                run.set_current(id);
                answer.ok(&OpOk::Putfh);
            }
            Op::Putrootfh => {
                run.set_current(self.shared.fs.root());
                answer.ok(&OpOk::Putrootfh);
            }
            Op::Putpubfh => {
                run.set_current(self.shared.fs.root());
                answer.ok(&OpOk::Putpubfh);
            }
            Op::Getfh => answer.ok(&OpOk::Getfh { file: self.handle_of(run.current()?) }),
            Op::Savefh => {
                (run.saved, run.saved_stateid) = (Some(run.current()?), run.stateid);
                answer.ok(&OpOk::Savefh);
            }
            Op::Restorefh => {
                run.set_current(run.saved.ok_or(Status::RestoreFh)?);
                run.stateid = run.saved_stateid;
                answer.ok(&OpOk::Restorefh);
            }
            Op::Getattr { request } => self.getattr(request, run, answer)?,
            Op::Verify { attributes } => {
                if !self.is_like(&attributes, run)? {
                    return Err(Status::NotSame.into());
                }
                answer.ok(&OpOk::Verify);
            }
            Op::Nverify { attributes } => {
                if self.is_like(&attributes, run)? {
                    return Err(Status::Same.into());
                }
                answer.ok(&OpOk::Nverify);
            }
            Op::Access { access } => self.access4(access, run, answer)?,
            Op::Readlink => {
                let found = self.shared.fs.read_link(run.current()?).map_err(v4_status)?;
                answer.ok(&OpOk::Readlink { target: &found.1 });
            }
            Op::Secinfo { name } => self.secinfo(name, run, answer)?,
            Op::SecinfoNoName { style } => self.secinfo_no_name(style, run, answer)?,
            _ => unreachable!("dispatch sends {:?} elsewhere", op.code()),
        }
        Ok(())
    }

    /// The handle of an inode.
    pub(super) fn handle_of(&self, id: InodeId) -> FileHandle {
        handle(&self.shared.fs, id)
    }

    fn getattr(&self, asked: Bitmap, run: &Run<'_>, answer: &mut Answer<'_>) -> Result<(), Status> {
        let id = run.current()?;
        check_readable(asked)?;
        let found = self.shared.fs.attributes(id).map_err(v4_status)?;
        let owners = Owners::of(&found);
        let told = self.wire_attributes((&found, &owners), id, (run.minor, asked));
        answer.with(|writer| encode_getattr_ok(writer, &told, asked));
        Ok(())
    }

    fn is_like(&self, attributes: &Fattr<'_>, run: &Run<'_>) -> Result<bool, Status> {
        let id = run.current()?;
        let found = self.shared.fs.attributes(id).map_err(v4_status)?;
        self.has_attributes((&found, id), run.minor, attributes)
    }

    fn access4(&self, asked: u32, run: &Run<'_>, answer: &mut Answer<'_>) -> Result<(), Status> {
        let found = self.shared.fs.attributes(run.current()?).map_err(v4_status)?;
        if asked & !ACCESS_ALL != 0 {
            return Err(Status::Inval);
        }
        let known = match found.kind {
            FileKind::Directory => asked & ACCESS_DIRECTORY,
            _ => asked & ACCESS_OTHER,
        };
        // Everybody may do everything, so what is known is granted.
        answer.ok(&OpOk::Access { supported: known, access: known });
        Ok(())
    }

    fn secinfo(
        &mut self,
        name: &[u8],
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<(), Status> {
        let directory = run.current()?;
        check_name(name)?;
        self.shared.fs.lookup(directory, name).map_err(v4_status)?;
        let flavors = flavors(&mut self.page);
        answer.ok(&OpOk::Secinfo { flavors });
        forget_current(run);
        Ok(())
    }

    fn secinfo_no_name(
        &mut self,
        style: u32,
        run: &mut Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<(), Status> {
        let id = run.current()?;
        match style {
            0 => {}
            STYLE_PARENT if id == self.shared.fs.root() => return Err(Status::NoEnt),
            STYLE_PARENT => drop(self.shared.fs.lookup(id, b"..").map_err(v4_status)?),
            _ => return Err(Status::Inval),
        }
        let flavors = flavors(&mut self.page);
        answer.ok(&OpOk::SecinfoNoName { flavors });
        forget_current(run);
        Ok(())
    }
}

/// From v4.1 on SECINFO leaves no current handle. **Source:** RFC 8881 section 2.6.3.1.1.8.
fn forget_current(run: &mut Run<'_>) {
    if run.minor > 0 {
        (run.current, run.stateid) = (None, None);
    }
}

fn flavors(scratch: &mut Vec<u8>) -> List<'_, SecurityFlavor<'_>> {
    List::build(scratch, [AUTH_SYS, AUTH_NONE].map(SecurityFlavor::Plain))
}
