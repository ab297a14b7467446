//! The file format `.dfst`, as `docs/trace.md` has it to the byte.
//!
//! A file is a magic number and sections, each with its length and a CRC-32, compressed with zlib:
//! a header, blocks of calls with the connections and names that they need before them, and an end.
//! [`TraceWriter`] writes it in one pass and [`TraceReader`] reads it so, with one block in memory.
//! A file without its end is cut off.

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

/// The first bytes of a trace. As in PNG, a high bit, line ends and an end-of-file character show
/// what a transfer as text has done to it.
pub const MAGIC: [u8; 8] = *b"\x89DFST\r\n\x1a";
/// The version of the format that is written, and the newest that is read.
pub const FORMAT: u16 = 1;
/// Bytes of the magic number, the version, and two that are zero.
pub const FILE_HEADER_BYTES: usize = 12;
/// Bytes before each section: kind and three zeros, stored length, raw length, CRC-32.
pub const SECTION_HEADER_BYTES: usize = 16;
/// Calls in one block.
pub const BLOCK_CALLS: usize = 16 << 10;
/// The most bytes of a section, packed or not, that are read: a block has some MB.
pub const SECTION_BYTES_MAX: usize = 32 << 20;

/// Kinds of sections.
mod kind {
    pub const HEADER: u8 = b'H';
    pub const CONNECTIONS: u8 = b'C';
    pub const NAMES: u8 = b'N';
    pub const BLOCK: u8 = b'B';
    pub const END: u8 = b'E';
}

/// The facts that are known when a trace begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// When the first packet was captured, in nanoseconds since 1970-01-01 UTC.
    pub begin_ns: u64,
    /// Whether names and addresses are kept.
    pub keeps_names: bool,
    /// Name and version of the program that made it.
    pub made_by: String,
}

/// A name that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameText {
    /// Hash by which operations refer to it.
    pub hash: u64,
    /// The name, with what is no UTF-8 replaced.
    pub text: String,
}

/// The facts that are known when a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// Time from the first packet to the last, in nanoseconds.
    pub duration_ns: u64,
    /// How complete the trace is.
    pub counters: Counters,
}

/// A part of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section {
    /// Connections that calls from here on use.
    Connections(Vec<Connection>),
    /// Names that calls from here on use.
    Names(Vec<NameText>),
    /// Calls, in the order of their starts but for those whose reply was very late.
    Block {
        /// The calls of the block.
        calls: Vec<Call>,
        /// Files that listings of directories named for the first time.
        entries: Vec<Entry>,
    },
    /// The end of the trace.
    End(End),
}
