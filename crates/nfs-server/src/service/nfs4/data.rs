//! File data: READ, WRITE, COMMIT and SETATTR.
//!
//! READ payload goes from the store into the reply without a copy. WRITE returns the requested
//! stability, as in v3. Finding the state behind a stateid takes one short lock.
//!
//! **Source:** RFC 7530 sections 16.3, 16.23, 16.32 and 16.36.

use nfs_proto::Status;
use nfs_proto::nfs4::{Fattr, OpOk, StableHow, Stateid, encode_read_header};

use super::attributes::to_set;
use super::state::{READ, WRITE};
use super::{Outcome, Run};
use crate::fs::{self, Caller, Context, FileKind, InodeId, Protection};
use crate::service::Service;

/// Size of a READ result besides its payload, in bytes.
const READ_RESULT_BYTES: usize = 16;
/// The rights of owner, group and others in a mode.
const MODE_RIGHTS: u32 = 0o777;
/// The start of a stateid for a tightly coupled data file, which distinguishes it from others.
const DATA_STATEID_TAG: [u8; 7] = *b"data fs";

/// The stateid with which a client uses a tightly coupled data file that has this group. It is
/// valid until the metadata server gives the data file another group.
pub(super) fn data_stateid(group: u32, is_writable: bool) -> Stateid {
    let mut other = [0; 12];
    other[..7].copy_from_slice(&DATA_STATEID_TAG);
    other[7] = u8::from(is_writable);
    other[8..].copy_from_slice(&group.to_be_bytes());
    Stateid { seqid: 1, other }
}

impl Service {
    pub(super) fn op_write(
        &mut self,
        stateid: Stateid,
        offset: u64,
        stable: StableHow,
        data: &[u8],
        run: &mut Run<'_>,
    ) -> Outcome {
        let (id, context) = self.check_data_access(stateid, WRITE, run)?;
        let written = self.write_data(id, offset, data, stable, &context)?;
        let count = written.count;
        let verifier = written.verifier;
        let committed = self.claimed_stability(stable);
        run.succeed(&OpOk::Write { count, committed, verifier })
    }

    pub(super) fn op_commit(&mut self, offset: u64, count: u32, run: &mut Run<'_>) -> Outcome {
        let id = run.current()?;
        self.check_regular(id)?;
        if offset.checked_add(u64::from(count)).is_none() {
            return Err(Status::Inval.into());
        }
        let verifier = self.commit_data(id)?;
        run.succeed(&OpOk::Commit { verifier })
    }

    pub(super) fn op_setattr(
        &mut self,
        stateid: Stateid,
        attributes: &Fattr<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = run.current()?;
        let (set, mask) = to_set(run.minor, attributes)?;
        // Only a change of size is I/O, which other clients' share reservations can forbid.
        if set.size.is_some() {
            self.check_regular(id)?;
            self.check_access(stateid, WRITE, run)?;
            self.recall_layouts_for(id, run)?;
        }
        // The attributes of a delegated file must not change any more than its data.
        self.recall_for(id, run)?;
        self.resize_data(id, &set, &run.context)?;
        self.shared.fs.set_attributes(id, &set, None, &run.context)?;
        run.succeed(&OpOk::Setattr { set: mask })
    }

    /// Checks that a stateid allows `need` on the current file; returns the file.
    pub(super) fn check_access(
        &self,
        stateid: Stateid,
        need: u32,
        run: &Run<'_>,
    ) -> Result<InodeId, Status> {
        let id = run.current()?;
        self.check_access_on(id, stateid, need, run)?;
        Ok(id)
    }

    /// Checks that a stateid allows `need` on a file.
    pub(super) fn check_access_on(
        &self,
        id: InodeId,
        stateid: Stateid,
        need: u32,
        run: &Run<'_>,
    ) -> Result<(), Status> {
        match self.tight_protection(id)? {
            Some(object) => check_data_stateid(object, stateid, need, run),
            None => self.check_state_on(id, stateid, need, run),
        }
    }

    /// Checks that a stateid allows `need` on a file that is not tightly coupled.
    fn check_state_on(
        &self,
        id: InodeId,
        stateid: Stateid,
        need: u32,
        run: &Run<'_>,
    ) -> Result<(), Status> {
        let stateid = run.resolve_stateid(stateid)?;
        if stateid != Stateid::ANONYMOUS && stateid != Stateid::READ_BYPASS {
            let requester = run.requester();
            let now_ns = run.now_ns;
            let checked = self.tables().check_io(&stateid, requester, id, need, now_ns);
            // A data server can't know the stateids of its metadata server.
            if checked != Err(Status::BadStateid) || !self.shared.is_data_server {
                return checked;
            }
        }
        self.check_regular(id)?;
        // The operation itself checks the right to the data; this check keeps a caller without it
        // from revoking other clients' delegations.
        let found = self.shared.fs.attributes(id)?;
        let right = if need == READ { fs::READ } else { fs::WRITE };
        run.context.caller.check_data(found.protection(), right)?;
        // The stateid of all ones bypasses other opens' share reservations for READ; for WRITE it
        // is the anonymous one (RFC 7530 section 9.1.4.3).
        if stateid == Stateid::READ_BYPASS && need == READ {
            return Ok(());
        }
        self.tables().check_anonymous(id, need, run.now_ns)?;
        if need == READ { Ok(()) } else { self.recall_for(id, run) }
    }

    /// Checks that a READ or WRITE is allowed on the current file; returns the file and the context
    /// for it. The metadata server has checked the rights to tightly coupled data files.
    fn check_data_access(
        &self,
        stateid: Stateid,
        need: u32,
        run: &Run<'_>,
    ) -> Result<(InodeId, Context), Status> {
        let id = run.current()?;
        if let Some(object) = self.tight_protection(id)? {
            check_data_stateid(object, stateid, need, run)?;
            return Ok((id, Context { caller: Caller::default(), ..run.context }));
        }
        self.check_state_on(id, stateid, need, run)?;
        Ok((id, run.context))
    }

    /// The protection of a tightly coupled data file: nobody has a right to it without a stateid of
    /// the metadata server. `None` for all other files.
    fn tight_protection(&self, id: InodeId) -> Result<Option<Protection>, Status> {
        if !self.shared.is_data_server {
            return Ok(None);
        }
        let found = self.shared.fs.attributes(id)?;
        let rights = found.mode & MODE_RIGHTS;
        let is_tight = found.kind == FileKind::Regular && rights == 0;
        Ok(is_tight.then(|| found.protection()))
    }

    /// Refuses objects without data.
    pub(super) fn check_regular(&self, id: InodeId) -> Result<(), Status> {
        match self.shared.fs.attributes(id)?.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Status::IsDir),
            FileKind::Symlink => Err(Status::Symlink),
            _ => Err(Status::Inval),
        }
    }

    pub(super) fn op_read(
        &mut self,
        stateid: Stateid,
        offset: u64,
        count: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (id, context) = self.check_data_access(stateid, READ, run)?;
        self.hold_slow_file(id);
        let count = self.granted_read(count);
        let read = self.read_data(id, offset, count, &context);
        let (_, span) = match read {
            Ok(read) => read,
            Err(error) => {
                self.check_regular(id)?;
                return Err(error.into());
            }
        };
        if let Err(status) = run.answer.check_room(READ_RESULT_BYTES + span.count as usize) {
            self.pieces.clear();
            return Err(status.into());
        }
        run.answer.write_result(|writer| encode_read_header(writer, span.eof, span.count));
        run.answer.push_payload(self.pieces.drain(..));
        self.counters.payload_read_bytes.add(u64::from(span.count));
        Ok(())
    }
}

/// Checks that a stateid of the metadata server allows `need` on a data file. Without one, only the
/// metadata server itself has access: user 0.
fn check_data_stateid(
    object: Protection,
    stateid: Stateid,
    need: u32,
    run: &Run<'_>,
) -> Result<(), Status> {
    let stateid = run.resolve_stateid(stateid)?;
    let is_writable = stateid.other[7] == 1;
    if stateid.other == data_stateid(object.gid, is_writable).other {
        return if need == WRITE && !is_writable { Err(Status::OpenMode) } else { Ok(()) };
    }
    if stateid.is_special() {
        let right = if need == READ { fs::READ } else { fs::WRITE };
        return Ok(run.context.caller.check_data(object, right)?);
    }
    // Fenced. RFC 8435 section 2.2 has BAD_STATEID for this, but Linux 7.2 then repeats its READs
    // forever with the same layout. This status makes it drop the layout (RFC 8881 section
    // 15.1.10), so it gets a new one.
    let is_ours = stateid.other.starts_with(&DATA_STATEID_TAG);
    Err(if is_ours { Status::PnfsNoLayout } else { Status::BadStateid })
}
