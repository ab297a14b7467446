//! Operations that v4.2 adds for data: holes, clones and hints.
//!
//! Clones share blocks.
//!
//! **Source:** RFC 7862 sections 15.1, 15.4, 15.5, 15.10, 15.11 and 15.13.

use nfs_proto::Status;
use nfs_proto::nfs4::{Bitmap, OpCode, OpOk, Stateid, content};

use super::state::{READ, WRITE};
use super::{Outcome, Run};
use crate::fs::{CloneRange, Extent, ExtentKind, ExtentsRead, FILE_BYTES_MAX};
use crate::limits::NFS4_SEGMENTS_MAX;
use crate::service::Service;

/// Size of a READ_PLUS result before its segments, and of a segment besides its payload, in bytes.
const READ_PLUS_RESULT_BYTES: usize = 16;
const SEGMENT_BYTES: usize = 4 + 8 + 8 + 4;

/// The stateid and offset of one of the files of a COPY or CLONE.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyEnd {
    pub(super) stateid: Stateid,
    pub(super) offset: u64,
}

impl Service {
    pub(super) fn op_allocate(
        &mut self,
        stateid: Stateid,
        offset: u64,
        length: u64,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = self.check_access(stateid, WRITE, run)?;
        check_range(offset, length)?;
        self.require_own_data()?;
        self.shared.fs.allocate(id, offset, length, &run.context)?;
        run.succeed(&OpOk::Allocate)
    }

    pub(super) fn op_deallocate(
        &mut self,
        stateid: Stateid,
        offset: u64,
        length: u64,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = self.check_access(stateid, WRITE, run)?;
        check_range(offset, length)?;
        self.require_own_data()?;
        self.shared.fs.punch(id, offset, length, &run.context)?;
        run.succeed(&OpOk::Deallocate)
    }

    pub(super) fn op_seek(
        &mut self,
        stateid: Stateid,
        offset: u64,
        what: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = self.check_access(stateid, READ, run)?;
        self.require_own_data()?;
        let kind = match what {
            content::DATA => ExtentKind::Data,
            content::HOLE => ExtentKind::Hole,
            _ => return Err(Status::UnionNotSupp.into()),
        };
        let found = self.shared.fs.seek(id, offset, kind, &run.context)?;
        let size = self.shared.fs.attributes(id)?.size;
        let eof = found.is_none_or(|found| found >= size);
        run.succeed(&OpOk::Seek { eof, offset: found.unwrap_or(size) })
    }

    /// Accepts a hint on how a range will be used; none of the hints makes a difference in memory.
    pub(super) fn op_io_advise(&mut self, stateid: Stateid, run: &mut Run<'_>) -> Outcome {
        self.check_access(stateid, READ, run)?;
        run.succeed(&OpOk::IoAdvise { hints: Bitmap::EMPTY })
    }

    pub(super) fn op_read_plus(
        &mut self,
        stateid: Stateid,
        offset: u64,
        count: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        let id = self.check_access(stateid, READ, run)?;
        self.check_regular(id)?;
        self.require_own_data()?;
        let count = self.granted_read(count);
        let mut extents = Vec::new();
        let mut into = ExtentsRead {
            extents: &mut extents,
            extents_max: NFS4_SEGMENTS_MAX,
            pieces: &mut self.pieces,
        };
        let read = self.shared.fs.read_extents(id, offset, count, &run.context, &mut into);
        let eof = read?;
        let data: u64 = extents
            .iter()
            .filter(|extent| extent.kind == ExtentKind::Data)
            .map(|extent| extent.length)
            .sum();
        let bytes = READ_PLUS_RESULT_BYTES + extents.len() * SEGMENT_BYTES + data as usize;
        if let Err(status) = run.answer.check_room(bytes) {
            self.pieces.clear();
            return Err(status.into());
        }
        run.answer.write_result(|writer| {
            writer.u32(OpCode::ReadPlus.number());
            writer.u32(Status::Ok.number());
            writer.bool(eof);
            writer.u32(extents.len() as u32);
        });
        for extent in &extents {
            self.write_segment(extent, run);
        }
        self.pieces.clear();
        self.counters.payload_read_bytes.add(data);
        Ok(())
    }

    /// Writes one data or hole segment; its data is at the front of the pieces.
    fn write_segment(&mut self, extent: &Extent, run: &mut Run<'_>) {
        run.answer.write_more(|writer| {
            // The length of a hole has 64 bits; data is opaque bytes, so its length has 32.
            match extent.kind {
                ExtentKind::Data => {
                    writer.u32(content::DATA);
                    writer.u64(extent.offset);
                    writer.u32(extent.length as u32);
                }
                ExtentKind::Hole => {
                    writer.u32(content::HOLE);
                    writer.u64(extent.offset);
                    writer.u64(extent.length);
                }
            }
        });
        if extent.kind == ExtentKind::Hole {
            return;
        }
        let mut left = extent.length as usize;
        let mut count = 0;
        while left > 0 && count < self.pieces.len() {
            left = left.saturating_sub(self.pieces[count].bytes().len());
            count += 1;
        }
        run.answer.push_payload(self.pieces.drain(..count));
    }

    /// Makes a range of the current file share the blocks of the saved one.
    pub(super) fn op_clone(
        &mut self,
        source: CopyEnd,
        destination: CopyEnd,
        count: u64,
        run: &mut Run<'_>,
    ) -> Outcome {
        let from = run.saved()?;
        let to = run.current()?;
        self.check_regular(from)?;
        self.check_regular(to)?;
        self.check_access_on(from, source.stateid, READ, run)?;
        self.check_access_on(to, destination.stateid, WRITE, run)?;
        self.require_own_data()?;
        let range =
            CloneRange { from: (from, source.offset), to: (to, destination.offset), length: count };
        let cloned = self.shared.fs.clone_range(&range, &run.context)?;
        self.counters.copied_bytes.add(cloned);
        run.succeed(&OpOk::Clone)
    }
}

/// Refuses ranges that are empty or overflow.
fn check_range(offset: u64, length: u64) -> Result<(), Status> {
    let end = offset.checked_add(length).ok_or(Status::Inval)?;
    if length == 0 || end > FILE_BYTES_MAX { Err(Status::Inval) } else { Ok(()) }
}
