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
use crate::fs::{self, FileKind, InodeId};
use crate::service::Service;

/// Size of a READ result besides its payload, in bytes.
const READ_RESULT_BYTES: usize = 16;

impl Service {
    pub(super) fn op_write(
        &mut self,
        stateid: Stateid,
        offset: u64,
        stable: StableHow,
        data: &[u8],
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = self.check_access(stateid, WRITE, run)?;
        let written = self.write_data(id, offset, data, stable, &run.context)?;
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
        let id = self.check_access(stateid, READ, run)?;
        self.hold_slow_file(id);
        let count = self.granted_read(count);
        let read = self.read_data(id, offset, count, &run.context);
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
