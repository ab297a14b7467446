//! Record marking: messages on a byte stream.
//!
//! [`Inbox`] assembles stream bytes into whole records, in place, whatever the number of fragments;
//! the bytes of a record and its empty fragments are bounded. [`begin`] and [`end`] frame a record
//! being written. The inbox grows as bytes arrive, never because a mark announces them. **Source:**
//! RFC 5531 section 11.

use crate::error::StreamError;
use crate::limits::{EMPTY_FRAGMENTS_MAX, INPUT_BYTES_START, MARK_BYTES, RECORD_BYTES_MAX};

/// A fragment that lacks at least this many bytes is received separately.
const LARGE_FRAGMENT_BYTES: usize = 16 * 1024;

/// The bit of a mark that flags the last fragment of a record.
pub const LAST_FRAGMENT: u32 = 1 << 31;

/// A fragment mark, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Length of the fragment, not counting the mark.
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

/// Returns the length of the longest buffer that an [`Inbox`] allocates for a record of `bytes`
/// bytes, including its marks, beyond its initial one. Records of similar length share a buffer
/// size, so that it need not grow by a few bytes each time.
pub const fn buffer_len(bytes: usize) -> usize {
    (bytes + LARGE_FRAGMENT_BYTES).next_multiple_of(INPUT_BYTES_START)
}

/// Counts the empty fragments of the current record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EmptyFragments(u32);

impl EmptyFragments {
    /// Counts a fragment.
    ///
    /// # Errors
    /// [`StreamError::EmptyFragments`] if its record has too many empty ones.
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

/// Reserves room for a mark at the end of `out` and returns its offset, for [`end`].
pub fn begin(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; MARK_BYTES]);
    at
}

/// Completes the mark at `at`: the record is everything after it in `out`, and `external` bytes
/// sent after `out`, including padding.
pub fn end(out: &mut [u8], at: usize, external: usize) {
    // The mark precedes the record but its length is known last. One fragment per record: a sender
    // that knows the length needs no more.
    let len = out.len() - at - MARK_BYTES + external;
    debug_assert!(len <= RECORD_BYTES_MAX, "a record of {len} bytes");
    out[at..at + MARK_BYTES].copy_from_slice(&Mark { len, last: true }.to_bytes());
}

/// Appends `record` to `out` in fragments of at most `fragment_bytes_max`, as some servers do.
///
/// # Panics
/// If `fragment_bytes_max` is 0.
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
/// The buffer contains, in this order: consumed bytes, the fragments of the current record (with
/// their marks squeezed out), a gap left by the marks, unparsed bytes, and free space.
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

    /// Creates an inbox without its own buffer, for [`Inbox::adopt_buffer`]; it allocates one if
    /// none is lent.
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

    /// Returns free space of at least `min` bytes to receive into; call [`Inbox::mark_filled`]
    /// afterwards.
    ///
    /// Take records out between two calls, or the buffer grows. In the middle of a large fragment
    /// the space ends at the end of the fragment, so that the next record starts with a fresh
    /// buffer and nothing has to be moved.
    pub fn free_space(&mut self, min: usize) -> &mut [u8] {
        let min = min.max(1);
        // First reclaim consumed bytes; the buffer only grows for a record that does not fit.
        if self.buffer.len() - self.filled < min {
            self.compact();
        }
        if self.buffer.len() - self.filled < min {
            // Doubling is paid for by received bytes, `min` by the caller. For a record of known
            // length, no more than needed is allocated.
            let fitting = buffer_len(self.bytes_needed());
            let len = (self.buffer.len() * 2).min(fitting).max(self.filled + min);
            self.buffer.resize(len, 0);
        }
        // Receive a large fragment exactly to its end. What follows then starts at the front of an
        // empty buffer, and a WRITE payload is never moved to make space for the next call. Small
        // records are received many at a time.
        let missing = self.missing_bytes();
        let len = if missing < LARGE_FRAGMENT_BYTES { INPUT_BYTES_START } else { missing };
        let end = self.buffer.len().min(self.filled + len.max(min));
        &mut self.buffer[self.filled..end]
    }

    /// Returns the length of the current buffer.
    pub fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Takes `buffer` if it is longer than the current one, which is returned in exchange. All of
    /// its length is used; its content is irrelevant.
    pub fn adopt_buffer(&mut self, buffer: &mut Vec<u8>) {
        if buffer.len() <= self.buffer.len() {
            return;
        }
        // Only unprocessed bytes are copied, which are few between two records: so one large buffer
        // serves all connections of a thread in turn.
        self.compact();
        buffer[..self.filled].copy_from_slice(&self.buffer[..self.filled]);
        std::mem::swap(&mut self.buffer, buffer);
    }

    /// Gives the buffer away if at most `keep_bytes_max` unprocessed bytes are in it, which move to
    /// a buffer of just that size: so an idle connection holds no large buffer. With more
    /// unprocessed bytes it is given away only if it is larger than the current record needs.
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

    /// Reports that `len` bytes of [`Inbox::free_space`] were received.
    ///
    /// # Panics
    /// If `len` is larger than the space was.
    pub fn mark_filled(&mut self, len: usize) {
        assert!(len <= self.buffer.len() - self.filled, "more bytes received than there was space");
        self.filled += len;
    }

    /// Copies bytes that were received elsewhere.
    pub fn push(&mut self, bytes: &[u8]) {
        self.free_space(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.mark_filled(bytes.len());
    }

    /// Returns the next whole record, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`StreamError::RecordTooLong`] or [`StreamError::EmptyFragments`]; the stream can't be used
    /// any further.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>, StreamError> {
        // Everything was consumed: starting over at the front is free now, moving bytes later would
        // not be.
        if self.parsed == self.filled && self.record_start == self.record_end {
            self.record_start = 0;
            self.record_end = 0;
            self.parsed = 0;
            self.filled = 0;
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

    /// Returns the number of fragments processed so far.
    pub fn fragments(&self) -> u64 {
        self.fragments
    }

    /// Returns true if there are bytes of an incomplete record.
    pub fn is_partial(&self) -> bool {
        self.record_start != self.record_end || self.parsed != self.filled
    }

    /// Returns the buffer size needed for the current record, as far as its marks tell: the maximum
    /// if more fragments follow, and just the unprocessed bytes between records.
    pub fn bytes_needed(&self) -> usize {
        let assembled = self.record_end - self.record_start;
        let waiting = &self.buffer[self.parsed..self.filled];
        match waiting.first_chunk::<MARK_BYTES>().map(|mark| Mark::from_bytes(*mark)) {
            Some(mark) if mark.last => assembled + MARK_BYTES + mark.len,
            None if assembled == 0 => waiting.len(),
            _ => self.record_bytes_max.max(assembled + waiting.len()),
        }
    }

    /// Returns the length of the record that is arriving and its bytes so far, if it is all in one
    /// fragment and not complete.
    pub(crate) fn arriving_record(&self) -> Option<(usize, &[u8])> {
        let waiting = &self.buffer[self.parsed..self.filled];
        let (mark, start) = waiting.split_first_chunk::<MARK_BYTES>()?;
        let Mark { len, last } = Mark::from_bytes(*mark);
        let is_whole = last && self.record_start == self.record_end;
        (is_whole && start.len() < len && len <= self.record_bytes_max).then_some((len, start))
    }

    /// Removes `len` bytes from position `at` of the record that is arriving, which has not arrived
    /// beyond them, and sets two of its words to 0: so it becomes a shorter record.
    pub(crate) fn cut_out(&mut self, at: usize, len: usize, words: [usize; 2]) {
        let body = self.parsed + MARK_BYTES;
        debug_assert!((body + at..body + at + len).contains(&self.filled), "{at}, {len}");
        if let Some(mark) = self.buffer[self.parsed..].first_chunk_mut::<MARK_BYTES>() {
            let whole = Mark::from_bytes(*mark);
            *mark = Mark { len: whole.len - len, ..whole }.to_bytes();
        }
        for word in words {
            self.buffer[body + word..body + word + 4].fill(0);
        }
        self.filled = body + at;
    }

    /// Returns how many bytes the current fragment lacks, or 0 between fragments.
    fn missing_bytes(&self) -> usize {
        let waiting = &self.buffer[self.parsed..self.filled];
        waiting.first_chunk::<MARK_BYTES>().map_or(0, |mark| {
            (MARK_BYTES + Mark::from_bytes(*mark).len).saturating_sub(waiting.len())
        })
    }

    /// Appends the next fragment to the current record, if it is complete.
    fn next_fragment(&mut self) -> Result<Option<Mark>, StreamError> {
        let Some(mark) = self.buffer[self.parsed..self.filled].first_chunk::<MARK_BYTES>() else {
            return Ok(None);
        };
        let mark = Mark::from_bytes(*mark);
        // The limit applies to the record, not the fragment: a peer may send any number of small
        // fragments (RFC 5531 section 11 sets no limit), and the sum is what has to be stored. It
        // is checked before the fragment has arrived, so that a mark by itself makes nothing grow.
        // Empty fragments add nothing to the sum and have their own limit.
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
        // The first fragment stays in place. Further ones are moved down over the marks between
        // them, so that the record is one slice; each byte is moved at most once.
        if self.record_start == self.record_end {
            self.record_start = body;
            self.record_end = self.parsed;
        } else {
            self.buffer.copy_within(body..self.parsed, self.record_end);
            self.record_end += mark.len;
        }
        Ok(Some(mark))
    }

    /// Moves the bytes still needed to the front of the buffer.
    fn compact(&mut self) {
        let assembled = self.record_end - self.record_start;
        self.buffer.copy_within(self.record_start..self.record_end, 0);
        self.buffer.copy_within(self.parsed..self.filled, assembled);
        self.filled = assembled + self.filled - self.parsed;
        self.record_start = 0;
        self.record_end = assembled;
        self.parsed = assembled;
    }
}
