//! Assembles RPC records from the pieces of a stream.
//!
//! [`Record`] parses marks and fragments, and keeps the head and the end of a record. The payload
//! in between is skipped as a hole, just like bytes that were not captured. **Source:** RFC 5531
//! section 11.

use nfs_proto::limits::MARK_BYTES;
use nfs_proto::record::Mark;

use crate::counters::Counters;
use crate::sparse::{Hole, Sparse};

/// Bytes to keep from the beginning of a record: enough for a page of a directory.
const HEAD_BYTES: usize = 64 << 10;
/// Bytes to keep from the end of a record.
const TAIL_BYTES: usize = 4 << 10;
/// Maximum plausible length of a record in bytes; servers allow 1 MiB of payload, ours 4 MiB.
pub(crate) const RECORD_BYTES_MAX: usize = 8 << 20;
/// Maximum number of fragments in a record. Nobody sends more.
const FRAGMENTS_MAX: u32 = 4096;
/// Maximum number of holes in a record. With more, its end is dropped.
const HOLES_MAX: usize = 256;

/// An RPC record or datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    /// The message without record marks.
    pub body: Sparse<'a>,
    /// When the first byte was captured, in nanoseconds since 1970.
    pub first_ns: u64,
    /// When the last byte was captured.
    pub last_ns: u64,
}

/// Bytes with a known position in the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub bytes: &'a [u8],
    /// When they were captured, in nanoseconds since 1970.
    pub time_ns: u64,
}

/// The stream is not at a record mark.
#[derive(Debug)]
pub(crate) struct NoRecord;

/// A record being assembled.
#[derive(Debug, Default)]
pub(crate) struct Record {
    mark: [u8; MARK_BYTES],
    mark_len: usize,
    /// Remaining bytes of the current fragment.
    fragment_left: usize,
    is_last: bool,
    fragments: u32,
    /// Length of the record so far.
    position: usize,
    bytes: Vec<u8>,
    holes: Vec<Hole>,
    first_ns: u64,
    last_ns: u64,
    is_complete: bool,
}

impl Record {
    /// Returns true if a part of a record has been read.
    pub(crate) const fn is_begun(&self) -> bool {
        self.position > 0
    }

    /// Discards the record but keeps its memory.
    pub(crate) fn clear(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut holes = std::mem::take(&mut self.holes);
        bytes.clear();
        holes.clear();
        *self = Self { bytes, holes, ..Self::default() };
    }

    /// Returns the body of a complete record at the start of the bytes, and the rest.
    pub(crate) fn split_whole<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        if self.mark_len > 0 || self.position > 0 || self.fragments > 0 {
            return None;
        }
        let (mark, rest) = bytes.split_first_chunk::<MARK_BYTES>()?;
        let mark = Mark::from_bytes(*mark);
        if !mark.last || mark.len > RECORD_BYTES_MAX {
            return None;
        }
        rest.split_at_checked(mark.len)
    }

    /// Reads up to the end of a mark or fragment, and returns the rest.
    pub(crate) fn read<'a>(&mut self, piece: Piece<'a>) -> Result<&'a [u8], NoRecord> {
        let Piece { bytes, time_ns } = piece;
        if self.position == 0 && self.mark_len == 0 && self.fragments == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = self.last_ns.max(time_ns);
        if self.fragment_left == 0 {
            let (part, rest) = bytes.split_at(bytes.len().min(MARK_BYTES - self.mark_len));
            self.mark[self.mark_len..self.mark_len + part.len()].copy_from_slice(part);
            self.mark_len += part.len();
            if self.mark_len == MARK_BYTES {
                self.begin_fragment()?;
            }
            return Ok(rest);
        }
        let (part, rest) = bytes.split_at(bytes.len().min(self.fragment_left));
        self.keep(part);
        self.fragment_left -= part.len();
        self.end_fragment();
        Ok(rest)
    }

    fn begin_fragment(&mut self) -> Result<(), NoRecord> {
        let mark = Mark::from_bytes(self.mark);
        self.mark_len = 0;
        self.fragments += 1;
        let is_sane = self.position + mark.len <= RECORD_BYTES_MAX
            && self.fragments <= FRAGMENTS_MAX
            && mark.len.is_multiple_of(4);
        if !is_sane {
            self.clear();
            return Err(NoRecord);
        }
        self.fragment_left = mark.len;
        self.is_last = mark.last;
        self.end_fragment();
        Ok(())
    }

    fn end_fragment(&mut self) {
        self.is_complete = self.fragment_left == 0 && self.is_last;
    }

    /// Keeps the bytes of a part that belong to the head or the end of the record.
    fn keep(&mut self, part: &[u8]) {
        // The end of the record is known once its last fragment is being read.
        let tail_from = if self.is_last {
            (self.position + self.fragment_left).saturating_sub(TAIL_BYTES)
        } else {
            usize::MAX
        };
        let head = part.len().min(HEAD_BYTES.saturating_sub(self.position));
        let (head, rest) = part.split_at(head);
        self.bytes.extend_from_slice(head);
        self.position += head.len();
        let dropped = rest.len().min(tail_from.saturating_sub(self.position));
        let (dropped, tail) = rest.split_at(dropped);
        self.add_hole(dropped.len());
        if self.holes.len() < HOLES_MAX {
            self.bytes.extend_from_slice(tail);
            self.position += tail.len();
        } else {
            self.add_hole(tail.len());
        }
    }

    fn add_hole(&mut self, len: usize) {
        if len == 0 {
            return;
        }
        let is_full = self.holes.len() >= HOLES_MAX;
        match self.holes.last_mut() {
            Some(last) if is_full || last.at + last.len == self.position => {
                last.len = self.position + len - last.at;
            }
            _ => self.holes.push(Hole { at: self.position, len }),
        }
        self.position += len;
    }

    /// Skips missing bytes up to the end of the fragment. Returns how many are beyond it.
    pub(crate) fn skip(&mut self, missing: usize, time_ns: u64) -> usize {
        if self.fragment_left == 0 {
            return missing;
        }
        self.last_ns = self.last_ns.max(time_ns);
        let within = missing.min(self.fragment_left);
        self.add_hole(within);
        self.fragment_left -= within;
        self.end_fragment();
        missing - within
    }

    /// Passes the record on if its last fragment is complete.
    pub(crate) fn pass_on_if_complete(
        &mut self,
        counters: &mut Counters,
        sink: &mut impl FnMut(Message<'_>, &mut Counters),
    ) {
        if !self.is_complete {
            return;
        }
        let body = Sparse { bytes: &self.bytes, holes: &self.holes, len: self.position };
        sink(Message { body, first_ns: self.first_ns, last_ns: self.last_ns }, counters);
        self.clear();
    }
}
