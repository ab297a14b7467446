//! COMPOUND: a list of operations in one call, and their results in one reply.
//!
//! [`Compound`] and [`CompoundReply`] are views whose operations are decoded one by one, since
//! those after a failure don't count. [`CompoundBuilder`] and [`ReplyBuilder`] write them straight
//! into the send buffer, and fill in count and status at the end. **Source:** RFC 7530 sections
//! 15.2 and 16.2, RFC 8881 section 16.2.

use super::attributes::Attributes;
use super::bitmap::Bitmap;
use super::op::Op;
use super::opcode::OpCode;
use super::result::{OpOk, OpResult, encode_getattr_ok, encode_read_header};
use crate::error::DecodeError;
use crate::limits::COMPOUND_TAG_BYTES_MAX;
use crate::status::Status;
use crate::xdr::{Reader, Writer};

/// Minimum size of an operation in a compound: one word.
const OP_BYTES_MIN: usize = 4;

fn check_count(count: u32, reader: &Reader<'_>) -> Result<(), DecodeError> {
    // The count comes from the network. A message that is too short even for the numbers of its
    // operations is malformed as a whole (GARBAGE_ARGS); an error within an operation is returned
    // for that operation (BADXDR), after the earlier ones were executed. RFC 7530 section 15.2.
    let needed = (count as usize).saturating_mul(OP_BYTES_MIN);
    let left = reader.remaining();
    if needed > left { Err(DecodeError::Truncated { needed, left }) } else { Ok(()) }
}

/// A list of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compound<'a> {
    /// Returned in the reply; for people who read captures.
    pub tag: &'a [u8],
    /// The minor version.
    pub minor: u32,
    count: u32,
    ops: &'a [u8],
}

impl<'a> Compound<'a> {
    /// Decodes a compound, which must be all that is left; its operations are only counted.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers GARBAGE_ARGS.
    pub fn decode(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let tag = reader.opaque(COMPOUND_TAG_BYTES_MAX)?;
        let minor = reader.u32()?;
        let count = reader.u32()?;
        check_count(count, &reader)?;
        Ok(Self { tag, minor, count, ops: reader.rest() })
    }

    /// Appends the compound.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.tag);
        writer.u32(self.minor);
        writer.u32(self.count);
        writer.raw(self.ops);
    }

    /// Returns the number of operations.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns a reader at the first operation.
    pub(crate) const fn ops_reader(&self) -> Reader<'a> {
        Reader::new(self.ops)
    }

    /// Iterates over the operations.
    pub const fn ops(&self) -> Ops<'a> {
        Ops { minor: self.minor, left: self.count, reader: Reader::new(self.ops) }
    }
}

/// An operation that can't be executed, with the answer to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadOp {
    /// The operation code of the answer.
    pub code: OpCode,
    /// OP_ILLEGAL for a number that is not an operation of this minor version, NOTSUPP for one that
    /// is not supported here or obsolete, BADXDR for malformed arguments.
    pub status: Status,
}

/// Iterates over the operations of a compound; ends after the first bad one.
#[derive(Debug, Clone)]
pub struct Ops<'a> {
    minor: u32,
    left: u32,
    reader: Reader<'a>,
}

impl Ops<'_> {
    /// Returns the number of operations left.
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Returns true if bytes follow the last operation.
    pub const fn has_trailing(&self) -> bool {
        self.left == 0 && self.reader.remaining() > 0
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Result<Op<'a>, BadOp>;

    fn next(&mut self) -> Option<Self::Item> {
        // Nothing after a bad operation is decoded. Arguments have no length, so the start of the
        // next operation is only known if they are understood.
        self.left = self.left.checked_sub(1)?;
        let bad = |code, status| Some(Err(BadOp { code, status }));
        let number = self.reader.u32().ok();
        let code = number.and_then(|number| OpCode::in_minor(number, self.minor));
        let Some(code) = code.filter(|code| *code != OpCode::Illegal) else {
            self.left = 0;
            return bad(OpCode::Illegal, Status::OpIllegal);
        };
        // Three answers, according to RFC 8881 section 2.7: OP_ILLEGAL for a number that this minor
        // version does not define, NOTSUPP for one that it defines and this server lacks, BADXDR
        // for arguments that can't be decoded.
        let decoded = if code.is_obsolete_in(self.minor) {
            Ok(None)
        } else {
            Op::decode(code, &mut self.reader)
        };
        match decoded {
            Ok(Some(op)) => return Some(Ok(op)),
            _ => self.left = 0,
        }
        match decoded {
            Err(_) => bad(code, Status::BadXdr),
            Ok(_) => bad(code, Status::NotSupp),
        }
    }
}

/// The results of a compound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompoundReply<'a> {
    /// Status of the last executed operation.
    pub status: Status,
    /// Tag of the call.
    pub tag: &'a [u8],
    count: u32,
    results: &'a [u8],
}

impl<'a> CompoundReply<'a> {
    /// Decodes a reply, which must be all that is left; its results are only counted.
    ///
    /// # Errors
    /// [`DecodeError`] if it is malformed.
    pub fn decode(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let status = Status::from_number(reader.u32()?);
        let tag = reader.opaque(COMPOUND_TAG_BYTES_MAX)?;
        let count = reader.u32()?;
        check_count(count, &reader)?;
        Ok(Self { status, tag, count, results: reader.rest() })
    }

    /// Appends the reply.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.status.number());
        writer.opaque(self.tag);
        writer.u32(self.count);
        writer.raw(self.results);
    }

    /// Returns the number of results.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns a reader of the individual results.
    pub const fn results(&self) -> Results<'a> {
        Results { left: self.count, reader: Reader::new(self.results) }
    }
}

/// Decodes the results of a compound one by one.
#[derive(Debug, Clone, Copy)]
pub struct Results<'a> {
    left: u32,
    reader: Reader<'a>,
}

impl<'a> Results<'a> {
    /// Returns the next result, of any operation; `None` at the end.
    ///
    /// # Errors
    /// [`DecodeError`] if it is malformed or not understood.
    pub fn next_result(&mut self) -> Result<Option<OpResult<'a>>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        OpResult::decode(&mut self.reader).map(Some)
    }

    /// Ends the reply.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        self.reader.finish()
    }
}

/// Writes a compound.
#[derive(Debug)]
pub struct CompoundBuilder<'b> {
    out: &'b mut Vec<u8>,
    count_at: usize,
    count: u32,
}

impl<'b> CompoundBuilder<'b> {
    /// Starts a compound after the current content of `out`.
    pub fn new(out: &'b mut Vec<u8>, tag: &[u8], minor: u32) -> Self {
        let mut writer = Writer::new(out);
        writer.opaque(tag);
        writer.u32(minor);
        let count_at = writer.position();
        writer.u32(0);
        Self { out, count_at, count: 0 }
    }

    /// Appends an operation.
    pub fn push(&mut self, op: &Op<'_>) {
        self.push_with(|writer| op.encode(writer));
    }

    /// Appends an operation written by `encode`, number and arguments.
    pub fn push_with(&mut self, encode: impl FnOnce(&mut Writer<'_>)) {
        encode(&mut Writer::new(self.out));
        self.count += 1;
    }

    /// Returns the offset of the next operation in the buffer, in bytes.
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Fills in the count.
    pub fn finish(self) {
        Writer::new(self.out).set_u32(self.count_at, self.count);
    }
}

/// A position in a reply that [`ReplyBuilder::rewind`] can return to.
#[derive(Debug, Clone, Copy)]
pub struct ReplyMark {
    len: usize,
    count: u32,
}

/// Writes the reply to a compound.
#[derive(Debug)]
pub struct ReplyBuilder<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    count_at: usize,
    count: u32,
    status: Status,
}

impl<'b> ReplyBuilder<'b> {
    /// Starts a reply with the call's tag after the current content of `out`.
    pub fn new(out: &'b mut Vec<u8>, tag: &[u8]) -> Self {
        // Status and count precede the results but are only known at the end: `finish` fills them
        // in.
        let start = out.len();
        let mut writer = Writer::new(out);
        writer.u32(0);
        writer.opaque(tag);
        let count_at = writer.position();
        writer.u32(0);
        Self { out, start, count_at, count: 0, status: Status::Ok }
    }

    /// Appends the results of an operation that succeeded.
    pub fn ok(&mut self, ok: &OpOk<'_>) {
        self.push(&OpResult::Ok(*ok));
    }

    /// Appends a failure, which should be the last result.
    pub fn fail(&mut self, code: OpCode, status: Status) {
        self.push(&OpResult::Failed(code, status));
    }

    /// Appends a result.
    pub fn push(&mut self, result: &OpResult<'_>) {
        // A compound ends at its first failure, so the status of the last result is that of the
        // whole reply.
        self.status = result.status();
        self.push_with(|writer| result.encode(writer));
    }

    /// Appends the result of a GETATTR: the `requested` attributes that are present.
    pub fn getattr_ok(&mut self, attributes: &Attributes<'_>, requested: Bitmap) {
        self.push_with(|writer| encode_getattr_ok(writer, attributes, requested));
    }

    /// Appends the result of a READ up to its payload of `len` bytes. Payload and padding have to
    /// follow: through [`ReplyBuilder::payload`], or sent by the caller after the last result.
    pub fn read_header(&mut self, eof: bool, len: u32) {
        self.push_with(|writer| encode_read_header(writer, eof, len));
    }

    /// Returns the buffer for appending the payload announced by [`ReplyBuilder::read_header`].
    pub fn payload(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Appends a result written by `encode`: number, status of success, results.
    pub fn push_with(&mut self, encode: impl FnOnce(&mut Writer<'_>)) {
        encode(&mut Writer::new(self.out));
        self.count += 1;
    }

    /// Sets the overall status without a result, such as MINOR_VERS_MISMATCH.
    pub fn set_status(&mut self, status: Status) {
        self.status = status;
    }

    /// Returns the bytes of the reply so far; its status is not filled in yet.
    pub fn bytes(&self) -> &[u8] {
        &self.out[self.start..]
    }

    /// Returns the number of results so far.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns a mark for [`ReplyBuilder::rewind`].
    pub fn mark(&self) -> ReplyMark {
        ReplyMark { len: self.out.len(), count: self.count }
    }

    /// Undoes all results since the mark; all except the last must be successes.
    pub fn rewind(&mut self, mark: ReplyMark) {
        self.out.truncate(mark.len);
        self.count = mark.count;
        self.status = Status::Ok;
    }

    /// Fills in status and count, and returns the status.
    pub fn finish(self) -> Status {
        let mut writer = Writer::new(self.out);
        writer.set_u32(self.start, self.status.number());
        writer.set_u32(self.count_at, self.count);
        self.status
    }
}
