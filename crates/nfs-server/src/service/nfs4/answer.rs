//! The reply to a compound while it is being written.
//!
//! Results go straight into the outbox; READ payload follows as pieces of the store, so a reply
//! alternates between head bytes and pieces, and only its length, status and count are filled in at
//! the end. Positions in the head stay valid meanwhile: the outbox does not compact before it
//! sends.
//!
//! **Source:** RFC 7530 section 16.2, RFC 8881 section 16.2.

use nfs_proto::Status;
use nfs_proto::limits::MARK_BYTES;
use nfs_proto::nfs4::{OpCode, OpOk, OpResult};
use nfs_proto::record;
use nfs_proto::rpc::ReplyHeader;
use nfs_proto::xdr::{Writer, pad_len};

use crate::fs::{DataPiece, FsError};
use crate::outbox::Outbox;

/// How an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// With this status, which has not been written yet.
    Status(Status),
    /// With this status; its result has already been written.
    Written(Status),
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        Self::Status(error.into())
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// A position to which a reply can be rewound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    position: usize,
    count: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct CompoundAnswer<'o> {
    out: &'o mut Outbox,
    record: usize,
    /// Offset of the procedure's results.
    start: usize,
    count_at: usize,
    count: u32,
    /// Number of reply bytes that are pieces.
    payload_bytes: usize,
    /// Maximum length of the reply in bytes, and the status to return if it would be longer.
    limit: (usize, Status),
    /// Whether everything has to be in the head because the reply will be cached.
    pub(super) whole: bool,
}

impl<'o> CompoundAnswer<'o> {
    /// Starts a reply with the call's tag.
    pub(super) fn begin(out: &'o mut Outbox, xid: u32, tag: &[u8], bytes_max: usize) -> Self {
        let head = out.head();
        let record = record::begin(head);
        let mut writer = Writer::new(head);
        ReplyHeader { xid, result: Ok(()) }.encode(&mut writer);
        let start = writer.position();
        writer.u32(0);
        writer.opaque(tag);
        let count_at = writer.position();
        writer.u32(0);
        let limit = (bytes_max, Status::Resource);
        Self { out, record, start, count_at, count: 0, payload_bytes: 0, limit, whole: false }
    }

    /// Sets the maximum length of the reply in bytes, not counting the record mark.
    pub(super) fn set_limit(&mut self, bytes_max: usize, status: Status) {
        self.limit = (bytes_max, status);
    }

    /// Current length in bytes, not counting the record mark.
    pub(super) fn len(&mut self) -> usize {
        self.out.head().len() - self.record - MARK_BYTES + self.payload_bytes
    }

    /// Checks that `bytes` more would still be allowed.
    ///
    /// # Errors
    /// The status for a reply that would be too long.
    pub(super) fn check_room(&mut self, bytes: usize) -> Result<(), Status> {
        let (max, status) = self.limit;
        if self.len().saturating_add(bytes) > max { Err(status) } else { Ok(()) }
    }

    /// Number of bytes still allowed.
    pub(super) fn bytes_left(&mut self) -> usize {
        self.limit.0.saturating_sub(self.len())
    }

    /// Returns the current position.
    pub(super) fn mark(&mut self) -> Mark {
        Mark { position: self.out.head().len(), count: self.count }
    }

    /// Removes everything written since the mark, which must not include pieces.
    pub(super) fn rewind(&mut self, mark: Mark) {
        self.out.head().truncate(mark.position);
        self.count = mark.count;
    }

    /// The bytes written since the mark.
    pub(super) fn bytes_since(&mut self, mark: Mark) -> &[u8] {
        &self.out.head()[mark.position..]
    }

    /// Appends a success.
    pub(super) fn write_ok(&mut self, ok: &OpOk<'_>) {
        self.write_op_result(&OpResult::Ok(*ok));
    }

    /// Appends a failure.
    pub(super) fn write_failure(&mut self, code: OpCode, status: Status) {
        self.write_op_result(&OpResult::Failed(code, status));
    }

    /// Appends a result.
    pub(super) fn write_op_result(&mut self, result: &OpResult<'_>) {
        self.write_result(|writer| result.encode(writer));
    }

    /// Appends a result written by `encode`.
    pub(super) fn write_result(&mut self, encode: impl FnOnce(&mut Writer<'_>)) {
        encode(&mut Writer::new(self.out.head()));
        self.count += 1;
    }

    /// Appends more to the result written last.
    pub(super) fn write_more(&mut self, encode: impl FnOnce(&mut Writer<'_>)) {
        encode(&mut Writer::new(self.out.head()));
    }

    /// Appends a result exactly as it was sent before; returns its status.
    pub(super) fn write_again(&mut self, bytes: &[u8]) -> Status {
        self.write_result(|writer| writer.raw(bytes));
        // A result is the number of its operation, then its status.
        match bytes {
            [_, _, _, _, a, b, c, d, ..] => {
                Status::from_number(u32::from_be_bytes([*a, *b, *c, *d]))
            }
            _ => Status::Ok,
        }
    }

    /// Appends payload and its padding.
    pub(super) fn push_payload(&mut self, pieces: impl Iterator<Item = DataPiece>) {
        // A reply that goes into the slot's cache has to be in one buffer, so it is copied. Such
        // replies are short: the client limits them with `ca_maxresponsesize_cached`.
        let mut len = 0;
        for piece in pieces {
            len += piece.bytes().len();
            if self.whole {
                self.out.head().extend_from_slice(piece.bytes());
            } else {
                self.payload_bytes += piece.bytes().len();
                self.out.push(piece);
            }
        }
        self.write_more(|writer| writer.raw(&[0; 3][..pad_len(len)]));
    }

    /// Finishes the reply with the results of an earlier one.
    pub(super) fn finish_as(self, results: &[u8]) {
        let head = self.out.head();
        head.truncate(self.start);
        head.extend_from_slice(results);
        record::end(head, self.record, 0);
    }

    /// Finishes the reply; returns the procedure's results if they are in one buffer.
    pub(super) fn finish(self, status: Status) -> &'o [u8] {
        let head = self.out.head();
        let mut writer = Writer::new(head);
        writer.set_u32(self.start, status.number());
        writer.set_u32(self.count_at, self.count);
        record::end(head, self.record, self.payload_bytes);
        &head[self.start..]
    }
}
