//! Calls on ranges of files that transfer no data, and READ_PLUS, which transfers only some.
//!
//! | op | call |
//! |---|---|
//! | Copy | COPY, as many as the server needs; each completes when its data is copied |
//! | Clone | CLONE |
//! | Allocate, Punch | ALLOCATE, DEALLOCATE |
//! | Seek | SEEK |
//! | ReadPlus | READ_PLUS, in pieces of `rsize` |
//!
//! **Source:** RFC 7862, 15.1, 15.2, 15.4, 15.10, 15.11 and 15.13.

use model::{OpError, OpKind};
use nfs_client::Connection;
use nfs_client::proto::client::{Event, File, Operation, SeekWhat};
use nfs_client::proto::nfs4::Segment;
use nfs_client::proto::status::Status;
use workload::Mismatch;

use super::super::set::WorkerState;
use super::{NotStarted, Opens, Transfer, Transfers};

impl Transfers {
    /// Starts the call of an op on a range.
    pub(super) fn start_range(
        &self,
        link: &mut Connection,
        now_ns: u64,
        tag: u32,
        common: &WorkerState,
    ) -> Result<(), NotStarted> {
        let Transfer { op, kind, file: number, offset, len: left, .. } = self.table[tag as usize];
        let len = op.map_or(0, |slot| u64::from(self.ops[slot as usize].op.len_bytes));
        let file = &self.usable(common.file(number));
        let to = &self.usable(common.written_file(number));
        let operation = match kind {
            OpKind::Copy => Operation::Copy {
                from: file,
                from_offset: offset,
                to,
                to_offset: offset,
                len: left.into(),
                synchronous: !common.set.async_copy,
            },
            OpKind::Clone => {
                Operation::Clone { from: file, from_offset: offset, to, to_offset: offset, len }
            }
            OpKind::Allocate => Operation::Allocate { file: to, offset, len },
            OpKind::Punch => Operation::Deallocate { file: to, offset, len },
            _ => {
                let is_hole = common.set.sparse.is_hole(offset);
                let what = if is_hole { SeekWhat::Data } else { SeekWhat::Hole };
                Operation::Seek { file, offset, what }
            }
        };
        link.start(now_ns, tag, &operation)?;
        common.calls.add(operation.kind());
        Ok(())
    }

    /// Returns a file as the connection's client may use it: an open is only valid for the client
    /// that made it.
    fn usable(&self, file: &File) -> File {
        if self.opens == Opens::OfAnother { File::from(file.handle) } else { *file }
    }
}

/// Judges what a SEEK has found, and whether the file ends there. If no data follows, a server says
/// so with the end of the file or the status NXIO.
pub(super) fn judge_seek(
    found: Result<(u64, bool), OpError>,
    transfer: &Transfer,
    common: &mut WorkerState,
) -> Result<(), OpError> {
    let found = match found {
        Ok((_, true)) if common.set.sparse.is_hole(transfer.offset) => None,
        Ok((found, _)) => Some(found),
        Err(error) if error.0 == Status::NxIo.number() => None,
        Err(error) => return Err(error),
    };
    common.set.sparse.judge_seek(transfer.offset, found, &mut common.ranges)
}

/// Adds up the segments in a reply to READ_PLUS, which follow each other, and compares their data
/// and holes with the file if the plan wants that. Returns the bytes that they cover.
pub(super) fn judge_segments(
    event: &Event<'_>,
    transfer: &Transfer,
    common: &mut WorkerState,
) -> Result<u32, OpError> {
    let segments = event.segments().map_err(|_| OpError::MALFORMED)?;
    let end = transfer.offset + u64::from(transfer.len);
    let mut position = transfer.offset;
    for segment in segments {
        let (offset, len) = match segment {
            Segment::Data(offset, data) => (offset, data.len() as u64),
            Segment::Hole(offset, len) => (offset, len),
        };
        // A hole may begin before the requested range and end after it.
        let is_hole = matches!(segment, Segment::Hole(..));
        let stop = offset.checked_add(len).ok_or(OpError::MALFORMED)?;
        if offset > position || stop < position || !is_hole && (offset < position || stop > end) {
            return Err(OpError::MALFORMED);
        }
        let stop = stop.min(end);
        let len = stop - position;
        if is_hole {
            common.ranges.hole_bytes += len;
        } else {
            common.ranges.data_bytes += len;
        }
        if common.set.verify {
            note_checked(check_segment(&segment, position, len, transfer.file, common), common)?;
        }
        position = stop;
    }
    match (position - transfer.offset) as u32 {
        0 => Err(OpError::SHORT),
        moved => Ok(moved),
    }
}

fn check_segment(
    segment: &Segment<'_>,
    offset: u64,
    len: u64,
    file: u32,
    common: &WorkerState,
) -> Result<(), Mismatch> {
    let sparse = &common.set.sparse;
    match segment {
        Segment::Data(_, data) => sparse.check(&common.set.pattern, data, file, offset),
        Segment::Hole(..) => sparse.check_hole(file, offset, len),
    }
}

fn note_checked(checked: Result<(), Mismatch>, common: &mut WorkerState) -> Result<(), OpError> {
    let Err(mismatch) = checked else { return Ok(()) };
    common.mismatches.note(mismatch);
    Err(OpError::MISMATCH)
}
