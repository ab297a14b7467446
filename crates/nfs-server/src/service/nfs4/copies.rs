//! Copies within this server: COPY, at once or in the background, OFFLOAD_STATUS, OFFLOAD_CANCEL.
//!
//! A client that can be called back may let a copy continue after its reply; each event loop copies
//! a step of one such copy per turn, so that its other clients are served in between. Copies
//! between servers are refused.
//!
//! **Source:** RFC 7862 sections 4, 15.2, 15.8 and 15.9.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::{List, NetLocation, OpOk, OpResult, StableHow, Stateid};

use super::sparse::CopyEnd;
use super::state::{BackgroundCopy, CopyRange, CopyStart, READ, WRITE};
use super::{Outcome, Run};
use crate::clock::monotonic_ns;
use crate::fault::{CopyFault, FaultKind};
use crate::fs::Context;
use crate::limits::{NFS4_COPY_BYTES_MAX, NFS4_COPY_STEP_BYTES};
use crate::service::{Service, Shared};

impl Service {
    pub(super) fn op_copy(
        &mut self,
        source: CopyEnd,
        destination: CopyEnd,
        count: u64,
        synchronous: bool,
        servers: &List<'_, NetLocation<'_>>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let from = run.saved()?;
        let to = run.current()?;
        if !servers.is_empty() {
            return Err(Status::NotSupp.into());
        }
        self.check_regular(from)?;
        self.check_regular(to)?;
        self.check_access_on(from, source.stateid, READ, run)?;
        self.check_access_on(to, destination.stateid, WRITE, run)?;
        self.require_own_data()?;
        let wanted = CopyRange { from: (from, source.offset), to: (to, destination.offset), count };
        let range = self.limit_to_source(wanted)?;
        // Read before the data is copied, as for a write.
        let verifier = self.shared.verifier();
        let committed = self.claimed_stability(StableHow::FileSync);
        let is_planned = !synchronous && self.shared.faults.copies == Some(CopyFault::Synchronous);
        if is_planned {
            self.counters.fault(FaultKind::CopyReport);
        }
        let is_whole = synchronous || is_planned || range.count == 0;
        let begun = if is_whole { None } else { self.begin_copy(&range, run) };
        let callback_id = begun.as_ref().map(|copy| copy.stateid());
        let count = match begun {
            Some(copy) => {
                self.counters.background_copies.add(1);
                self.copies.push_back(copy);
                0
            }
            // A copy of any length would block the other clients of this thread. A short count is a
            // success, and the client continues after it.
            None => self.copy_data(&range.part(0, NFS4_COPY_BYTES_MAX), &run.context)?,
        };
        run.answer.write_op_result(&OpResult::Ok(OpOk::Copy {
            callback_id,
            count,
            committed,
            verifier,
            consecutive: true,
            synchronous: callback_id.is_none(),
        }));
        Ok(())
    }

    pub(super) fn op_offload_status(&mut self, stateid: Stateid, run: &mut Run<'_>) -> Outcome {
        let copy = self.find_copy(stateid, run)?;
        // In this order: a copy that has ended copies no more.
        let complete = copy.status();
        if complete.is_some() {
            self.tables().check_report(&copy);
        }
        run.succeed(&OpOk::OffloadStatus { count: copy.copied_bytes(), complete })
    }

    pub(super) fn op_offload_cancel(&mut self, stateid: Stateid, run: &mut Run<'_>) -> Outcome {
        let copy = self.find_copy(stateid, run)?;
        self.tables().forget_copy(&copy);
        run.succeed(&OpOk::OffloadCancel)
    }

    /// Finds a copy to the current file.
    fn find_copy(&self, stateid: Stateid, run: &Run<'_>) -> Result<Arc<BackgroundCopy>, Status> {
        let to = run.current()?;
        let copy = self.tables().find_copy(&stateid, run.requester(), run.now_ns)?;
        if copy.range.to.0 == to { Ok(copy) } else { Err(Status::BadStateid) }
    }

    /// Returns the part of a range that the source has; a count of 0 means to its end.
    fn limit_to_source(&self, wanted: CopyRange) -> Result<CopyRange, Status> {
        let CopyRange { from, to, count } = wanted;
        let size = self.shared.fs.attributes(from.0)?.size;
        if from.1 > size || count > 0 && from.1.checked_add(count).is_none() {
            return Err(Status::Inval);
        }
        let count = if count == 0 { size - from.1 } else { count.min(size - from.1) };
        let end = to.1.checked_add(count).ok_or(Status::Inval)?;
        // Within one file the ranges must not overlap (RFC 7862 section 15.2.3).
        if from.0 == to.0 && from.1 < end && to.1 < from.1 + count {
            return Err(Status::Inval);
        }
        Ok(CopyRange { from, to, count })
    }

    /// Begins a copy in the background; `None` if it has to be made at once.
    fn begin_copy(&self, range: &CopyRange, run: &Run<'_>) -> Option<Arc<BackgroundCopy>> {
        let Shared { fs, nfs4, .. } = &*self.shared;
        nfs4.begin_copy(
            run.session?,
            CopyStart {
                range: *range,
                pins: [fs.pin(range.from.0).ok()?, fs.pin(range.to.0).ok()?],
                handle: self.handle_of(range.to.0),
                context: run.context,
                committed: self.claimed_stability(StableHow::FileSync),
                verifier: self.shared.verifier(),
            },
        )
    }

    /// Copies the next step of the first copy in the background, and puts it behind the others.
    pub(crate) fn continue_copies(&mut self) {
        let Some(copy) = self.copies.pop_front() else { return };
        if !copy.is_live() {
            return;
        }
        let done = copy.copied_bytes();
        let part = copy.range.part(done, NFS4_COPY_STEP_BYTES);
        let context = Context { now: self.now, ..copy.context };
        // Once the client has closed the file, others may get delegations of it. Nobody could be
        // told "later" here, so the copy goes on while they are being recalled.
        let tables = &self.shared.nfs4;
        let _ = tables.recall_from_others(part.to.0, Some(&copy.client), monotonic_ns());
        let status = match self.copy_data(&part, &context) {
            Ok(count) => {
                copy.add_copied(count);
                if count == part.count && done + count < copy.range.count {
                    self.copies.push_back(copy);
                    return;
                }
                Status::Ok
            }
            // As for a synchronous copy, a part of the data is a success.
            Err(_) if done > 0 => Status::Ok,
            Err(status) => status,
        };
        let Shared { nfs4, faults, .. } = &*self.shared;
        if nfs4.end_copy(&copy, status) {
            if faults.copies == Some(CopyFault::Unreported) {
                self.counters.fault(FaultKind::CopyReport);
            } else {
                nfs4.report_copy(&copy);
            }
        }
    }

    /// Copies a range; returns the number of bytes, which is only smaller at the end of the source
    /// or if an error follows.
    fn copy_data(&mut self, range: &CopyRange, context: &Context) -> Result<u64, Status> {
        let CopyRange { from, to, count: wanted } = *range;
        let step = u64::from(self.shared.granted.write_bytes_max);
        let mut copied = 0;
        while copied < wanted {
            let chunk = (wanted - copied).min(step) as u32;
            let read =
                self.shared.fs.read(from.0, from.1 + copied, chunk, context, &mut self.pieces);
            let count = read?.1.count;
            let pieces = std::mem::take(&mut self.pieces);
            for piece in pieces {
                let bytes = piece.bytes();
                let write = self.shared.fs.write(to.0, to.1 + copied, bytes, context);
                match write {
                    Ok((_, written)) => {
                        self.counters.copied_bytes.add(written as u64);
                        copied += written as u64;
                        if written < bytes.len() {
                            return Ok(copied);
                        }
                    }
                    Err(_) if copied > 0 => return Ok(copied),
                    Err(error) => return Err(error.into()),
                }
            }
            if count == 0 {
                break;
            }
        }
        Ok(copied)
    }
}
