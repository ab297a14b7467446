//! Converts blocks of calls to columns and back.
//!
//! A block contains three tables: calls, operations (each call has a count of them), and directory
//! entries. The same list of columns is used for reading and writing. To allow for new columns, a
//! reader skips unknown columns and uses zeros for missing ones.

use super::columns::{ColumnReader, ColumnWriter, Encoding};
use crate::record::{Call, Op, Version};

/// A file that appeared in a directory listing for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// Number of the call with the listing.
    pub call: u64,
    /// Number of the directory.
    pub dir: u32,
    /// Hash of the name.
    pub name: u64,
    /// Number of the file.
    pub file: u32,
    /// Type of the file as v3's `ftype3`, or 0 if unknown.
    pub file_type: u8,
    /// Size of the file, in bytes.
    pub size: Option<u64>,
}

/// Bytes of the counts before the directory of columns: calls, operations, entries, columns.
const COUNTS_BYTES: usize = 16;
/// Bytes per column in the directory: ID, encoding, two zeros, length.
const COLUMN_BYTES: usize = 8;
/// Maximum number of rows per table when reading a block.
pub(crate) const ROWS_MAX: u32 = 1 << 18;
/// Number of known columns.
pub(crate) const COLUMNS: usize = 33;

/// Indices of the columns in the arrays below, and their numbers in a file.
mod column {
    pub(crate) const NUMBER: usize = 0;
    pub(crate) const START_NS: usize = 1;
    pub(crate) const RESPONSE_NS: usize = 2;
    pub(crate) const CONNECTION: usize = 3;
    pub(crate) const VERSION: usize = 4;
    pub(crate) const CALL_FLAGS: usize = 5;
    pub(crate) const RETRANSMISSIONS: usize = 6;
    pub(crate) const CALL_BYTES: usize = 7;
    pub(crate) const REPLY_BYTES: usize = 8;
    pub(crate) const OPS: usize = 9;
    pub(crate) const KIND: usize = 10;
    pub(crate) const STATUS: usize = 11;
    pub(crate) const FILE: usize = 12;
    pub(crate) const OTHER: usize = 13;
    pub(crate) const RESULT: usize = 14;
    pub(crate) const NAME: usize = 15;
    pub(crate) const OTHER_NAME: usize = 16;
    pub(crate) const OFFSET: usize = 17;
    pub(crate) const SOURCE_OFFSET: usize = 18;
    pub(crate) const LENGTH: usize = 19;
    pub(crate) const COUNT: usize = 20;
    pub(crate) const HOW: usize = 21;
    pub(crate) const COMMITTED: usize = 22;
    pub(crate) const FILE_TYPE: usize = 23;
    pub(crate) const SIZE: usize = 24;
    pub(crate) const OP_FLAGS: usize = 25;
    pub(crate) const ENTRY_CALL: usize = 26;
    pub(crate) const ENTRY_DIR: usize = 27;
    pub(crate) const ENTRY_NAME: usize = 28;
    pub(crate) const ENTRY_FILE: usize = 29;
    pub(crate) const ENTRY_TYPE: usize = 30;
    pub(crate) const ENTRY_SIZE: usize = 31;
    pub(crate) const SIZE_BEFORE: usize = 32;
}

/// Columns with numbers that increase slowly or are close together.
const DELTAS: [usize; 8] = [
    column::NUMBER,
    column::START_NS,
    column::CONNECTION,
    column::FILE,
    column::RESULT,
    column::ENTRY_CALL,
    column::ENTRY_DIR,
    column::ENTRY_FILE,
];

/// Columns of a block being written.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    columns: Vec<ColumnWriter>,
    calls: u32,
    ops: u32,
    entries: u32,
}

impl Default for BlockWriter {
    fn default() -> Self {
        let mut columns = Vec::new();
        for id in 0..COLUMNS {
            let encoding = if DELTAS.contains(&id) { Encoding::Delta } else { Encoding::Plain };
            columns.push(ColumnWriter::new(encoding));
        }
        Self { columns, calls: 0, ops: 0, entries: 0 }
    }
}

impl BlockWriter {
    /// Appends a call with its operations.
    pub(crate) fn push(&mut self, call: &Call) {
        let columns = &mut self.columns;
        columns[column::NUMBER].push(call.number);
        columns[column::START_NS].push(call.start_ns);
        columns[column::RESPONSE_NS].push(one_above(call.response_ns));
        columns[column::CONNECTION].push(call.connection.into());
        columns[column::VERSION].push(call.version.number().into());
        columns[column::CALL_FLAGS].push(call.flags.into());
        columns[column::RETRANSMISSIONS].push(call.retransmissions.into());
        columns[column::CALL_BYTES].push(call.call_bytes.into());
        columns[column::REPLY_BYTES].push(call.reply_bytes.into());
        columns[column::OPS].push(call.ops.len() as u64);
        for op in &call.ops {
            push_op(columns, op);
        }
        self.calls += 1;
        self.ops += call.ops.len() as u32;
    }

    /// Appends a directory entry.
    pub(crate) fn push_entry(&mut self, entry: &Entry) {
        let columns = &mut self.columns;
        columns[column::ENTRY_CALL].push(entry.call);
        columns[column::ENTRY_DIR].push(entry.dir.into());
        columns[column::ENTRY_NAME].push(entry.name);
        columns[column::ENTRY_FILE].push(entry.file.into());
        columns[column::ENTRY_TYPE].push(entry.file_type.into());
        columns[column::ENTRY_SIZE].push(one_above(entry.size));
        self.entries += 1;
    }

    /// Returns true if there are neither calls nor entries.
    pub(crate) const fn is_empty(&self) -> bool {
        self.calls == 0 && self.entries == 0
    }

    /// Replaces the contents of `out` with the encoded block, and clears the block.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        out.clear();
        for count in [self.calls, self.ops, self.entries, COLUMNS as u32] {
            out.extend_from_slice(&count.to_le_bytes());
        }
        for (id, column) in self.columns.iter().enumerate() {
            out.extend_from_slice(&[id as u8, column.encoding() as u8, 0, 0]);
            out.extend_from_slice(&(column.bytes.len() as u32).to_le_bytes());
        }
        for column in &mut self.columns {
            out.extend_from_slice(&column.bytes);
            column.clear();
        }
        self.calls = 0;
        self.ops = 0;
        self.entries = 0;
    }
}

fn push_op(columns: &mut [ColumnWriter], op: &Op) {
    columns[column::KIND].push(op.kind.into());
    columns[column::STATUS].push(one_above(op.status.map(u64::from)));
    columns[column::FILE].push(op.file.into());
    columns[column::OTHER].push(op.other.into());
    columns[column::RESULT].push(op.result.into());
    columns[column::NAME].push(op.name);
    columns[column::OTHER_NAME].push(op.other_name);
    columns[column::OFFSET].push(op.offset);
    columns[column::SOURCE_OFFSET].push(op.source_offset);
    columns[column::LENGTH].push(op.length);
    columns[column::COUNT].push(op.count);
    columns[column::HOW].push(op.how.into());
    columns[column::COMMITTED].push(op.committed.into());
    columns[column::FILE_TYPE].push(op.file_type.into());
    columns[column::SIZE].push(one_above(op.size));
    columns[column::OP_FLAGS].push(op.flags.into());
    columns[column::SIZE_BEFORE].push(one_above(op.size_before));
}

/// Returns 0 for `None`, otherwise the number plus 1. The maximum number is treated as unknown.
fn one_above(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.saturating_add(1))
}

/// A decoded block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub calls: Vec<Call>,
    pub entries: Vec<Entry>,
}

/// Reads the columns of a block.
struct Columns<'a> {
    columns: [ColumnReader<'a>; COLUMNS],
    is_present: [bool; COLUMNS],
}

/// Decodes a block. The error names the part that is wrong.
pub(crate) fn read_block(bytes: &[u8]) -> Result<Block, &'static str> {
    let short = "a block is too short for its counts";
    let (counts, rest) = bytes.split_at_checked(COUNTS_BYTES).ok_or(short)?;
    let [calls, ops, entries, columns] =
        [word(counts, 0), word(counts, 4), word(counts, 8), word(counts, 12)];
    if calls > ROWS_MAX || ops > ROWS_MAX || entries > ROWS_MAX {
        return Err("a block has too many rows");
    }
    let mut columns = Columns::read(rest, columns)?;
    let mut block = Block::default();
    // Don't allocate by count: rows only come from bytes that are really there.
    let mut ops_left = u64::from(ops);
    for _ in 0..calls {
        let call = columns.next_call(&mut ops_left)?;
        block.calls.push(call);
    }
    for _ in 0..entries {
        block.entries.push(columns.next_entry()?);
    }
    for column in &columns.columns {
        if ops_left > 0 || !column.is_at_end() {
            return Err("a column has more numbers than rows");
        }
    }
    Ok(block)
}

impl<'a> Columns<'a> {
    fn read(bytes: &'a [u8], count: u32) -> Result<Self, &'static str> {
        let short = "a block is too short for its columns";
        let mut found =
            Self { columns: [ColumnReader::zeros(); COLUMNS], is_present: [false; COLUMNS] };
        let directory_bytes = (count as usize).checked_mul(COLUMN_BYTES).ok_or(short)?;
        let (directory, mut data) = bytes.split_at_checked(directory_bytes).ok_or(short)?;
        for line in directory.chunks_exact(COLUMN_BYTES) {
            let id = usize::from(line[0]);
            let encoding = line[1];
            let (column, rest) = data.split_at_checked(word(line, 4) as usize).ok_or(short)?;
            data = rest;
            if id < COLUMNS {
                let encoding =
                    Encoding::from_number(encoding).ok_or("a column has an unknown encoding")?;
                found.columns[id] = ColumnReader::new(column, encoding);
                found.is_present[id] = true;
            }
        }
        // A row is useless without these; all others may be missing and are zero.
        for id in [column::NUMBER, column::START_NS, column::VERSION, column::OPS, column::KIND] {
            if !found.is_present[id] {
                return Err("a required column is missing");
            }
        }
        Ok(found)
    }

    fn next(&mut self, id: usize) -> Result<u64, &'static str> {
        if !self.is_present[id] {
            return Ok(0);
        }
        self.columns[id].next().ok_or("a column ends early or has a number of more than 64 bits")
    }

    fn next_u32(&mut self, id: usize) -> Result<u32, &'static str> {
        u32::try_from(self.next(id)?).map_err(|_| "a number exceeds 32 bits")
    }

    fn next_u8(&mut self, id: usize) -> Result<u8, &'static str> {
        u8::try_from(self.next(id)?).map_err(|_| "a number exceeds 8 bits")
    }

    fn next_call(&mut self, ops_left: &mut u64) -> Result<Call, &'static str> {
        let mut call = Call {
            number: self.next(column::NUMBER)?,
            start_ns: self.next(column::START_NS)?,
            response_ns: self.next(column::RESPONSE_NS)?.checked_sub(1),
            connection: self.next_u32(column::CONNECTION)?,
            version: Version::from_number(self.next(column::VERSION)?)
                .ok_or("a call has an unknown NFS version")?,
            flags: self.next_u8(column::CALL_FLAGS)?,
            retransmissions: self.next_u32(column::RETRANSMISSIONS)?,
            call_bytes: self.next_u32(column::CALL_BYTES)?,
            reply_bytes: self.next_u32(column::REPLY_BYTES)?,
            ops: Vec::new(),
        };
        let ops = self.next(column::OPS)?;
        *ops_left =
            ops_left.checked_sub(ops).ok_or("the calls have more operations than the block")?;
        for _ in 0..ops {
            call.ops.push(self.next_op()?);
        }
        Ok(call)
    }

    fn next_op(&mut self) -> Result<Op, &'static str> {
        let status = self.next(column::STATUS)?.checked_sub(1);
        Ok(Op {
            kind: self.next_u8(column::KIND)?,
            status: match status {
                Some(status) => {
                    Some(u32::try_from(status).map_err(|_| "a status exceeds 32 bits")?)
                }
                None => None,
            },
            file: self.next_u32(column::FILE)?,
            other: self.next_u32(column::OTHER)?,
            result: self.next_u32(column::RESULT)?,
            name: self.next(column::NAME)?,
            other_name: self.next(column::OTHER_NAME)?,
            offset: self.next(column::OFFSET)?,
            source_offset: self.next(column::SOURCE_OFFSET)?,
            length: self.next(column::LENGTH)?,
            count: self.next(column::COUNT)?,
            how: self.next_u8(column::HOW)?,
            committed: self.next_u8(column::COMMITTED)?,
            file_type: self.next_u8(column::FILE_TYPE)?,
            size: self.next(column::SIZE)?.checked_sub(1),
            flags: self.next_u8(column::OP_FLAGS)?,
            size_before: self.next(column::SIZE_BEFORE)?.checked_sub(1),
        })
    }

    fn next_entry(&mut self) -> Result<Entry, &'static str> {
        Ok(Entry {
            call: self.next(column::ENTRY_CALL)?,
            dir: self.next_u32(column::ENTRY_DIR)?,
            name: self.next(column::ENTRY_NAME)?,
            file: self.next_u32(column::ENTRY_FILE)?,
            file_type: self.next_u8(column::ENTRY_TYPE)?,
            size: self.next(column::ENTRY_SIZE)?.checked_sub(1),
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}
