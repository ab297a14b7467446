//! Record marking: messages on a byte stream.
//!
//! [`Inbox`] turns stream bytes into whole records, in place, whatever the number of fragments;
//! the bytes of a record and its empty fragments are bounded. [`begin`] and [`end`] frame a record
//! that is written.
//! The inbox grows as bytes arrive, never because a mark announces them.
//! **Source:** RFC 5531 section 11.

use crate::error::StreamError;
use crate::limits::{EMPTY_FRAGMENTS_MAX, INPUT_BYTES_START, MARK_BYTES, RECORD_BYTES_MAX};

/// A fragment that lacks at least this many bytes is received by itself.
const LARGE_FRAGMENT_BYTES: usize = 16 * 1024;

/// The bit of a mark that says that a fragment is its record's last.
pub const LAST_FRAGMENT: u32 = 1 << 31;

/// A fragment mark, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bytes of the fragment, the mark not counted.
    pub len: usize,
    /// Whether the record ends with this fragment.
    pub last: bool,
}

impl Mark {
    /// Decodes the four bytes of a mark.
    pub const fn from_bytes(bytes: [u8; MARK_BYTES]) -> Self {
        let word = u32::from_be_bytes(bytes);
        Self { len: (word & !LAST_FRAGMENT) as usize, last: word & LAST_FRAGMENT != 0 }
    }

    /// Encodes the mark; `len` is below 2^31.
    pub const fn to_bytes(self) -> [u8; MARK_BYTES] {
        let last = if self.last { LAST_FRAGMENT } else { 0 };
        (self.len as u32 | last).to_be_bytes()
    }
}

/// Returns the length of the longest buffer that an [`Inbox`] takes for a record of `bytes` bytes,
/// its marks counted, beyond the one it starts with. Records of nearly one length have buffers of
/// one, so that it need not grow by a few bytes for each.
pub const fn buffer_len(bytes: usize) -> usize {
    (bytes + LARGE_FRAGMENT_BYTES).next_multiple_of(INPUT_BYTES_START)
}

/// Counts the empty fragments of the record that is arriving.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EmptyFragments(u32);

impl EmptyFragments {
    /// Takes note of a fragment.
    ///
    /// # Errors
    /// [`StreamError::EmptyFragments`] when its record has too many empty ones.
    pub(crate) fn note(&mut self, mark: Mark) -> Result<(), StreamError> {
        self.0 += u32::from(mark.len == 0);
        if self.0 > EMPTY_FRAGMENTS_MAX {
            return Err(StreamError::EmptyFragments { max: EMPTY_FRAGMENTS_MAX });
        }
        if mark.last {
            self.0 = 0;
        }
        Ok(())
    }
}

/// Reserves room for a mark at the end of `out` and returns where it is, for [`end`].
pub fn begin(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; MARK_BYTES]);
    at
}

/// Completes the mark at `at`: the record is what follows it in `out`, and `external` bytes that
/// are sent after `out`, padding included.
pub fn end(out: &mut [u8], at: usize, external: usize) {
    // The mark goes before the record and its length is known last. One fragment for each record: a
    // sender that knows the length has no use for more.
    let len = out.len() - at - MARK_BYTES + external;
    debug_assert!(len <= RECORD_BYTES_MAX, "a record of {len} bytes");
    out[at..at + MARK_BYTES].copy_from_slice(&Mark { len, last: true }.to_bytes());
}

/// Appends `record` to `out` in fragments of at most `fragment_bytes_max`, as some servers do.
///
/// # Panics
/// When `fragment_bytes_max` is 0.
pub fn append_fragmented(out: &mut Vec<u8>, record: &[u8], fragment_bytes_max: usize) {
    let mut chunks = record.chunks(fragment_bytes_max).peekable();
    if chunks.peek().is_none() {
        out.extend_from_slice(&Mark { len: 0, last: true }.to_bytes());
    }
    while let Some(chunk) = chunks.next() {
        let mark = Mark { len: chunk.len(), last: chunks.peek().is_none() };
        out.extend_from_slice(&mark.to_bytes());
        out.extend_from_slice(chunk);
    }
}

/// Assembles records from stream bytes.
///
/// The buffer holds, in this order: consumed bytes, the fragments of the record under assembly
/// (their marks squeezed out), a gap where marks were, bytes that were not looked at yet, and
/// free space.
#[derive(Debug)]
pub struct Inbox {
    buffer: Vec<u8>,
    record_start: usize,
    record_end: usize,
    parsed: usize,
    filled: usize,
    record_bytes_max: usize,
    fragments: u64,
    empty_fragments: EmptyFragments,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new(RECORD_BYTES_MAX)
    }
}

impl Inbox {
    /// Creates an inbox for records of at most `record_bytes_max` bytes, at most
    /// [`RECORD_BYTES_MAX`].
    pub fn new(record_bytes_max: usize) -> Self {
        Self { buffer: vec![0; INPUT_BYTES_START], ..Self::without_buffer(record_bytes_max) }
    }

    /// Creates an inbox without a buffer of its own, for [`Inbox::adopt_buffer`]; it makes one
    /// where none is lent.
    pub fn without_buffer(record_bytes_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            record_start: 0,
            record_end: 0,
            parsed: 0,
            filled: 0,
            record_bytes_max: record_bytes_max.min(RECORD_BYTES_MAX),
            fragments: 0,
            empty_fragments: EmptyFragments::default(),
        }
    }

    /// Returns free space of at least `min` bytes to receive into; [`Inbox::mark_filled`] follows.
    ///
    /// Take records out between two calls, or the buffer grows. In the middle of a large fragment
    /// the space ends where the fragment does, so that the next record starts a fresh buffer and
    /// nothing has to be moved.
    pub fn free_space(&mut self, min: usize) -> &mut [u8] {
        let min = min.max(1);
        // First the bytes that were consumed make space; only a record that is longer than the
        // buffer makes it grow.
        if self.buffer.len() - self.filled < min {
            self.compact();
        }
        if self.buffer.len() - self.filled < min {
            // Doubling is paid for by bytes that arrived; `min` by the caller. A record whose
            // length is known takes no more than fits it.
            let fitting = buffer_len(self.bytes_needed());
            let len = (self.buffer.len() * 2).min(fitting).max(self.filled + min);
            self.buffer.resize(len, 0);
        }
        // A large fragment is received up to its last byte and no further. What follows it then
        // starts at the front of an empty buffer, and a WRITE payload is never moved to make space
        // for the next call. Small records are received many at a time.
        let missing = self.missing_bytes();
        let len = if missing < LARGE_FRAGMENT_BYTES { INPUT_BYTES_START } else { missing };
        let end = self.buffer.len().min(self.filled + len.max(min));
        &mut self.buffer[self.filled..end]
    }

    /// Returns the length of the buffer held.
    pub fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Takes over `buffer` where it is longer than the own one, which is given instead. All of its
    /// length is used; what is in it means nothing.
    pub fn adopt_buffer(&mut self, buffer: &mut Vec<u8>) {
        if buffer.len() <= self.buffer.len() {
            return;
        }
        // Only what waits is copied, which is little between two records: so one large buffer
        // serves all connections of a thread in turn.
        self.compact();
        buffer[..self.filled].copy_from_slice(&self.buffer[..self.filled]);
        std::mem::swap(&mut self.buffer, buffer);
    }

    /// Gives the buffer away where at most `keep_bytes_max` bytes wait in it, which move to one of
    /// their size: so a connection that is idle holds no buffer at all. A longer one is given away
    /// where it is longer than fits the record that is arriving.
    pub fn release_buffer(&mut self, keep_bytes_max: usize) -> Option<Vec<u8>> {
        let waiting = self.record_end - self.record_start + self.filled - self.parsed;
        let mut own_len = waiting;
        if waiting > keep_bytes_max {
            let fitting = buffer_len(self.bytes_needed().max(waiting));
            own_len = fitting.min(buffer_len(2 * waiting));
            if self.buffer.len() <= fitting {
                return None;
            }
        }
        if self.buffer.len() == waiting {
            return None;
        }
        self.compact();
        let mut own = vec![0; own_len];
        own[..waiting].copy_from_slice(&self.buffer[..waiting]);
        Some(std::mem::replace(&mut self.buffer, own))
    }

    /// States that `len` bytes of [`Inbox::free_space`] were received.
    ///
    /// # Panics
    /// When that is more than the space was.
    pub fn mark_filled(&mut self, len: usize) {
        assert!(len <= self.buffer.len() - self.filled, "more bytes received than there was space");
        self.filled += len;
    }

    /// Takes bytes that were received elsewhere.
    pub fn push(&mut self, bytes: &[u8]) {
        self.free_space(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.mark_filled(bytes.len());
    }

    /// Returns the next whole record, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`StreamError::RecordTooLong`] or [`StreamError::EmptyFragments`]; the stream can't be used
    /// any further.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>, StreamError> {
        // Everything was consumed: starting over at the front costs nothing, moving bytes later
        // would.
        if self.parsed == self.filled && self.record_start == self.record_end {
            (self.record_start, self.record_end, self.parsed, self.filled) = (0, 0, 0, 0);
        }
        while let Some(mark) = self.next_fragment()? {
            if mark.last {
                let record = self.record_start..self.record_end;
                self.record_start = self.parsed;
                self.record_end = self.parsed;
                return Ok(Some(&self.buffer[record]));
            }
        }
        Ok(None)
    }

    /// Returns how many fragments were taken in so far.
    pub fn fragments(&self) -> u64 {
        self.fragments
    }

    /// Tells whether bytes wait that do not make a whole record.
    pub fn is_partial(&self) -> bool {
        self.record_start != self.record_end || self.parsed != self.filled
    }

    /// Returns how long a buffer the record that is arriving needs, as far as its marks tell: the
    /// longest there may be where more fragments follow, and the bytes that wait between records.
    pub fn bytes_needed(&self) -> usize {
        let assembled = self.record_end - self.record_start;
        let waiting = &self.buffer[self.parsed..self.filled];
        match waiting.first_chunk::<MARK_BYTES>().map(|mark| Mark::from_bytes(*mark)) {
            Some(mark) if mark.last => assembled + MARK_BYTES + mark.len,
            None if assembled == 0 => waiting.len(),
            _ => self.record_bytes_max.max(assembled + waiting.len()),
        }
    }

    /// Returns how many bytes the fragment that is arriving still lacks, or 0 between fragments.
    fn missing_bytes(&self) -> usize {
        let waiting = &self.buffer[self.parsed..self.filled];
        waiting.first_chunk::<MARK_BYTES>().map_or(0, |mark| {
            (MARK_BYTES + Mark::from_bytes(*mark).len).saturating_sub(waiting.len())
        })
    }

    /// Appends the next fragment to the record under assembly, if it is there as a whole.
    fn next_fragment(&mut self) -> Result<Option<Mark>, StreamError> {
        let Some(mark) = self.buffer[self.parsed..self.filled].first_chunk::<MARK_BYTES>() else {
            return Ok(None);
        };
        let mark = Mark::from_bytes(*mark);
        // The limit counts the record and not the fragment: a peer may send any number of small
        // fragments (RFC 5531 section 11 sets no bound), and the sum is what has to be held. It is
        // checked before the fragment has arrived, so that a mark alone makes nothing grow. Empty
        // fragments add nothing to the sum and have a limit of their own.
        let bytes = self.record_end - self.record_start + mark.len;
        if bytes > self.record_bytes_max {
            return Err(StreamError::RecordTooLong { bytes, max: self.record_bytes_max });
        }
        let body = self.parsed + MARK_BYTES;
        if self.filled - body < mark.len {
            return Ok(None);
        }
        self.empty_fragments.note(mark)?;
        self.fragments += 1;
        self.parsed = body + mark.len;
        // The first fragment is left in its place. Further ones are moved down over the marks
        // between them, so that the record is one slice, each byte being moved once at most.
        if self.record_start == self.record_end {
            (self.record_start, self.record_end) = (body, self.parsed);
        } else {
            self.buffer.copy_within(body..self.parsed, self.record_end);
            self.record_end += mark.len;
        }
        Ok(Some(mark))
    }

    /// Moves what is still needed to the front of the buffer.
    fn compact(&mut self) {
        let assembled = self.record_end - self.record_start;
        self.buffer.copy_within(self.record_start..self.record_end, 0);
        self.buffer.copy_within(self.parsed..self.filled, assembled);
        self.filled = assembled + self.filled - self.parsed;
        (self.record_start, self.record_end, self.parsed) = (0, assembled, assembled);
    }
}
