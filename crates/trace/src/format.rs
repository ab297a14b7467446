//! The file format `.dfst`, specified byte by byte in `docs/design/trace-format.md`.
//!
//! A file consists of a magic number and sections, each with its length and a CRC-32, compressed
//! with zlib: a header, blocks of calls preceded by the connections and names that they need, and
//! an end. [`TraceWriter`] writes it and [`TraceReader`] reads it in one pass, with one block in
//! memory. A file without its end was truncated.

mod block;
mod columns;
mod reader;
mod writer;

use serde::{Deserialize, Serialize};

use crate::connections::Connection;
use crate::counters::Counters;
use crate::record::Call;

pub use block::Entry;
pub use reader::TraceReader;
pub use writer::TraceWriter;

/// The first bytes of a trace. As in PNG, a high bit, line ends and an end-of-file character reveal
/// damage from a transfer in text mode.
pub const MAGIC: [u8; 8] = *b"\x89DFST\r\n\x1a";
/// Version of the format that is written, and the newest that can be read.
pub const FORMAT: u16 = 1;
/// Bytes of the magic number, the version, and two zeros.
pub const FILE_HEADER_BYTES: usize = 12;
/// Bytes before each section: kind and three zeros, stored length, raw length, CRC-32.
pub const SECTION_HEADER_BYTES: usize = 16;
/// Calls per block.
pub const BLOCK_CALLS: usize = 16 << 10;
/// Maximum size of a section in bytes, compressed or not; a block has a few MB.
pub const SECTION_BYTES_MAX: usize = 32 << 20;

/// Kinds of sections.
mod kind {
    pub const HEADER: u8 = b'H';
    pub const CONNECTIONS: u8 = b'C';
    pub const NAMES: u8 = b'N';
    pub const BLOCK: u8 = b'B';
    pub const END: u8 = b'E';
}

/// What is known at the start of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// When the first packet was captured, in nanoseconds since 1970-01-01 UTC.
    pub begin_ns: u64,
    /// Names and addresses are stored in plain text.
    pub keeps_names: bool,
    /// Name and version of the program that created the trace.
    pub made_by: String,
}

/// A name kept in plain text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameText {
    /// Hash by which operations refer to it.
    pub hash: u64,
    /// The name, with invalid UTF-8 replaced.
    pub text: String,
}

/// What is known at the end of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// Time from the first packet to the last, in nanoseconds.
    pub duration_ns: u64,
    /// How complete the trace is.
    pub counters: Counters,
}

/// A section of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section {
    /// Connections used by calls from here on.
    Connections(Vec<Connection>),
    /// Names used by calls from here on.
    Names(Vec<NameText>),
    /// Calls in the order of their starts, except for those with a very late reply.
    Block {
        calls: Vec<Call>,
        /// Files that appeared in a directory listing for the first time.
        entries: Vec<Entry>,
    },
    /// The end of the trace.
    End(End),
}
