//! Data of a file: READ, WRITE, COMMIT and SETATTR.
//!
//! READ payload goes from the store into the reply as it is. WRITE is answered with the stability
//! that was asked, as in v3. One short lock finds the state behind a stateid.
//!
//! **Source:** RFC 7530 sections 16.3, 16.23, 16.32 and 16.36.

use nfs_proto::Status;
use nfs_proto::nfs4::{Fattr, OpOk, StableHow, Stateid, encode_read_header};

use super::attributes::to_set;
use super::names::v4_status;
use super::state::{READ, WRITE};
use super::{Outcome, Run};
use crate::fs::{FileKind, InodeId};
use crate::service::Service;

/// Bytes of a READ's result besides its payload.
const READ_RESULT_BYTES: usize = 16;

impl Service {
    pub(super) fn write4(
        &mut self,
        stateid: Stateid,
        offset: u64,
        stable: StableHow,
        data: &[u8],
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = self.allow(stateid, WRITE, run)?;
        let unstable = stable == StableHow::Unstable;
        let written = self.write_data(id, offset, data, unstable).map_err(v4_status)?;
        let (count, verifier) = (written.count, written.verifier);
        let committed = self.claimed_stability(stable);
        run.succeed(&OpOk::Write { count, committed, verifier })
    }

    pub(super) fn commit4(&mut self, offset: u64, count: u32, run: &mut Run<'_>) -> Outcome {
        let id = run.current()?;
        self.check_regular(id)?;
        if offset.checked_add(u64::from(count)).is_none() {
            return Err(Status::Inval.into());
        }
        let verifier = self.commit_data(id).map_err(v4_status)?;
        run.succeed(&OpOk::Commit { verifier })
    }

    pub(super) fn set_attributes4(
        &mut self,
        stateid: Stateid,
        attributes: &Fattr<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = run.current()?;
        let (set, mask) = to_set(run.minor, attributes)?;
        // Only a change of size is I/O, which shares and locks of others can forbid.
        if set.size.is_some() {
            self.check_regular(id)?;
            self.allow(stateid, WRITE, run)?;
        }
        self.shared.fs.set_attributes(id, &set, None, run.context.now).map_err(v4_status)?;
        run.succeed(&OpOk::Setattr { set: mask })
    }

    /// Lets a stateid open the way to the current file for `need`; returns the file.
    pub(super) fn allow(
        &self,
        stateid: Stateid,
        need: u32,
        run: &Run<'_>,
    ) -> Result<InodeId, Status> {
        let id = run.current()?;
        self.allow_on(id, stateid, need, run)?;
        Ok(id)
    }

    /// Lets a stateid open the way to a file for `need`.
    pub(super) fn allow_on(
        &self,
        id: InodeId,
        stateid: Stateid,
        need: u32,
        run: &Run<'_>,
    ) -> Result<(), Status> {
        let stateid = run.meant(stateid)?;
        if stateid != Stateid::ANONYMOUS && stateid != Stateid::READ_BYPASS {
            let (speaker, now_ns) = (run.speaker(), run.now_ns);
            return self.tables().check_io(&stateid, speaker, id, need, now_ns);
        }
        if stateid == Stateid::READ_BYPASS && need == READ {
            return Ok(());
        }
        self.check_regular(id)?;
        self.tables().check_anonymous(id, need, run.now_ns)
    }

    /// Refuses what has no data.
    pub(super) fn check_regular(&self, id: InodeId) -> Result<(), Status> {
        match self.shared.fs.attributes(id).map_err(v4_status)?.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Status::IsDir),
            FileKind::Symlink => Err(Status::Symlink),
            _ => Err(Status::Inval),
        }
    }

    pub(super) fn read4(
        &mut self,
        stateid: Stateid,
        offset: u64,
        count: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = self.allow(stateid, READ, run)?;
        let count = count.min(self.granted.read_bytes_max);
        let read = self.shared.fs.read(id, offset, count, self.now, &mut self.pieces);
        let (_, span) = match read {
            Ok(read) => read,
            Err(error) => {
                self.check_regular(id)?;
                return Err(v4_status(error).into());
            }
        };
        if let Err(status) = run.answer.check_room(READ_RESULT_BYTES + span.count as usize) {
            self.pieces.clear();
            return Err(status.into());
        }
        run.answer.with(|writer| encode_read_header(writer, span.eof, span.count));
        run.answer.payload(self.pieces.drain(..));
        self.counters.payload_read_bytes.add(u64::from(span.count));
        Ok(())
    }
}
