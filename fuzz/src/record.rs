//! Reassembly of records, compared with a model of five lines for any segmentation of the stream.
//!
//! The fuzzer generates a [`Stream`]: fragments, stray marks and stray bytes, and where the stream
//! is cut. The model sees it as a whole, the [`Inbox`] in pieces; both must find the same records
//! and stop at the same error.

use arbitrary::Arbitrary;
use nfs_proto::limits::{EMPTY_FRAGMENTS_MAX, MARK_BYTES, RECORD_BYTES_MAX};
use nfs_proto::record::{Inbox, Mark};

use crate::memory::allocated_by;

/// Maximum length of a stream, in bytes; longer ones are not worth the time.
const STREAM_BYTES_MAX: usize = 1 << 20;

/// A part of a stream.
#[derive(Arbitrary, Clone, Debug)]
pub enum StreamPart<'a> {
    /// A well-formed fragment.
    Fragment {
        /// Its bytes, 0 to 65,535.
        len: u16,
        /// Whether its record ends here.
        last: bool,
    },
    /// A mark that need not be followed by anything.
    Mark(u32),
    /// Arbitrary bytes.
    Bytes(&'a [u8]),
}

/// A stream, and the pieces in which it arrives.
#[derive(Arbitrary, Clone, Debug)]
pub struct Stream<'a> {
    /// Maximum length of an accepted record, in bytes; 0 is the crate's default.
    pub record_bytes_max: u16,
    /// Lengths of the pieces, used cyclically; after a 0, the rest arrives at once.
    pub cuts: Vec<u16>,
    pub parts: Vec<StreamPart<'a>>,
}

impl Stream<'_> {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            match part {
                StreamPart::Fragment { len, last } => {
                    let mark = Mark { len: usize::from(*len), last: *last };
                    bytes.extend_from_slice(&mark.to_bytes());
                    bytes.resize(bytes.len() + mark.len, number as u8);
                }
                StreamPart::Mark(word) => bytes.extend_from_slice(&word.to_be_bytes()),
                StreamPart::Bytes(part) => bytes.extend_from_slice(part),
            }
            if bytes.len() > STREAM_BYTES_MAX {
                break;
            }
        }
        bytes
    }

    fn record_limit(&self) -> usize {
        match usize::from(self.record_bytes_max) {
            0 => RECORD_BYTES_MAX,
            limit => limit,
        }
    }
}

/// Records found in a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReadRecords {
    records: Vec<Vec<u8>>,
    fragments: u64,
    refused: bool,
    is_partial: bool,
}

/// Reads a whole stream at once, as simply as possible.
fn read_at_once(mut stream: &[u8], record_bytes_max: usize) -> ReadRecords {
    let mut found = ReadRecords::default();
    let mut record = Vec::new();
    let mut empty_fragments = 0;
    while let Some((mark, rest)) = stream.split_first_chunk::<MARK_BYTES>() {
        let mark = Mark::from_bytes(*mark);
        empty_fragments += u32::from(mark.len == 0);
        if record.len() + mark.len > record_bytes_max || empty_fragments > EMPTY_FRAGMENTS_MAX {
            found.refused = true;
            return found;
        }
        let Some((fragment, rest)) = rest.split_at_checked(mark.len) else { break };
        record.extend_from_slice(fragment);
        found.fragments += 1;
        stream = rest;
        if mark.last {
            empty_fragments = 0;
            found.records.push(std::mem::take(&mut record));
        }
    }
    found.is_partial = !record.is_empty() || !stream.is_empty();
    found
}

/// Cuts a stream into pieces, and compares the results of the inbox and the model.
pub fn check_stream(stream: &Stream<'_>) {
    let bytes = stream.to_bytes();
    let want = read_at_once(&bytes, stream.record_limit());
    let mut inbox = Inbox::new(stream.record_limit());
    let mut got = ReadRecords::default();
    let ((), allocated) =
        allocated_by(|| feed_in_pieces(&mut inbox, &bytes, &stream.cuts, &mut got));
    got.fragments = inbox.fragments();
    got.is_partial = !got.refused && inbox.is_partial();
    assert_eq!(got, want);
    // Allow for doubling, and one copy of every record for the comparison (with its vector's
    // growth).
    let arrived = bytes.len() + 48 * got.records.len();
    assert!(allocated <= 8 * arrived as u64 + (256 << 10), "{allocated} bytes for {arrived}");
}

fn feed_in_pieces(inbox: &mut Inbox, mut bytes: &[u8], cuts: &[u16], got: &mut ReadRecords) {
    let mut cuts = cuts.iter().map(|len| usize::from(*len)).filter(|len| *len > 0);
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(cuts.next().unwrap_or(usize::MAX).min(bytes.len()));
        bytes = rest;
        receive_piece(inbox, piece);
        loop {
            match inbox.next_record() {
                Ok(Some(record)) => got.records.push(record.to_vec()),
                Ok(None) => break,
                Err(_) => {
                    got.refused = true;
                    return;
                }
            }
        }
    }
}

/// Every other piece is delivered as a socket would.
fn receive_piece(inbox: &mut Inbox, piece: &[u8]) {
    if piece.len().is_multiple_of(2) {
        return inbox.push(piece);
    }
    let space = inbox.free_space(piece.len());
    assert!(space.len() >= piece.len(), "as much space as was requested");
    space[..piece.len()].copy_from_slice(piece);
    inbox.mark_filled(piece.len());
}
