//! File statistics: how many, how large, and which are hot.
//!
//! Files are identified by number and have the type and size last reported. Files beyond
//! [`FILES_MAX`] are counted but not told apart.

use std::collections::HashMap;

use model::Histogram;
use serde::Serialize;

use super::{Direction, Quantiles, direction_of};
use crate::format::Entry;
use crate::record::{Op, Version, op_flag};

/// Maximum number of files to tell apart.
const FILES_MAX: usize = 4 << 20;
/// Maximum number of hot files to list.
const HOT_MAX: usize = 10;
/// Types of regular files and directories. **Source:** RFC 1813 section 2.6.
const REGULAR: u8 = 1;
const DIRECTORY: u8 = 2;

/// Files of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FileDescription {
    /// Files of any type that appear in an operation or a listing.
    pub known: u64,
    /// Files that are the object of an operation.
    pub accessed: u64,
    /// Files from which data was read.
    pub read: u64,
    /// Files to which data was written.
    pub written: u64,
    /// Directories among the known files.
    pub directories: u64,
    /// Files that were created.
    pub created: u64,
    /// Names that were removed.
    pub removed: u64,
    /// OPENs that may create their file.
    pub creating_opens: u64,
    /// Writes that begin at or beyond the end of their file, if its size is known.
    pub appends: u64,
    /// Files beyond the limit, which are not told apart.
    pub(crate) beyond_bound: u64,
    /// Sizes of regular files, if known.
    pub sizes: Quantiles,
    /// Total size of these files.
    pub bytes: u64,
    /// Files with the most data accesses.
    pub hot: Vec<HotFile>,
    /// Share of data accesses that go to the busiest tenth of the files with any, in percent.
    pub hot_tenth_percent: u64,
}

/// A file with many data accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HotFile {
    /// Number of the file.
    pub file: u32,
    /// Number of data accesses.
    pub data_ops: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Size of the file, if known.
    pub size: Option<u64>,
}

#[derive(Debug, Default)]
struct File {
    file_type: u8,
    size: Option<u64>,
    bytes: u64,
    data_ops: u32,
    is_accessed: bool,
    is_read: bool,
    is_written: bool,
}

/// Files by number.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: HashMap<u32, File>,
    found: FileDescription,
}

impl Files {
    /// Adds a file that appears in a listing.
    pub(crate) fn list(&mut self, entry: &Entry) {
        if let Some(file) = self.file(entry.file) {
            file.file_type = entry.file_type;
            file.size = entry.size;
        }
    }

    /// Adds an operation.
    pub(crate) fn access(&mut self, op: &Op, version: Version) {
        let is_done = op.status == Some(0);
        match version.kind_name(op.kind) {
            "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD" if is_done => self.found.created += 1,
            "OPEN" if is_done && op.flags & op_flag::CREATES != 0 => {
                self.found.creating_opens += 1;
                // It certainly created the file only if the file must not have existed.
                self.found.created += u64::from(op.how >= 2);
            }
            "REMOVE" | "RMDIR" if is_done => self.found.removed += 1,
            _ => {}
        }
        let direction = direction_of(version, op.kind);
        let mut appended = false;
        if let Some(file) = self.file(op.file) {
            file.is_accessed = true;
            if direction.is_some() {
                file.data_ops = file.data_ops.saturating_add(1);
                file.bytes = file.bytes.saturating_add(op.count);
                file.is_read |= direction == Some(Direction::Read);
                file.is_written |= direction == Some(Direction::Write);
                if direction == Some(Direction::Write) && is_done {
                    let size = op.size_before.or(file.size);
                    appended = size.is_some_and(|size| op.offset >= size);
                    let end = op.offset.saturating_add(op.count);
                    file.size = file.size.map(|size| size.max(end));
                }
            }
        }
        self.found.appends += u64::from(appended);
        // Type and size belong to the file that was returned, if there is one.
        let described = if op.result == 0 { op.file } else { op.result };
        if op.file_type == 0 && op.size.is_none() && op.result == 0 {
            return;
        }
        if let Some(file) = self.file(described) {
            if op.file_type != 0 {
                file.file_type = op.file_type;
            }
            file.size = op.size.or(file.size);
        }
    }

    fn file(&mut self, number: u32) -> Option<&mut File> {
        if number == 0 {
            return None;
        }
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&number) {
            self.found.beyond_bound += 1;
            return None;
        }
        Some(self.files.entry(number).or_default())
    }

    pub(crate) fn describe(mut self) -> FileDescription {
        let mut sizes = Histogram::sparse();
        let mut busy = Vec::new();
        let found = &mut self.found;
        found.known = self.files.len() as u64;
        for (number, file) in &self.files {
            found.accessed += u64::from(file.is_accessed);
            found.read += u64::from(file.is_read);
            found.written += u64::from(file.is_written);
            found.directories += u64::from(file.file_type == DIRECTORY);
            // Without a known type, anything with data is a file.
            let is_file = file.file_type == REGULAR || file.file_type == 0 && file.data_ops > 0;
            if is_file && let Some(size) = file.size {
                sizes.record(size);
                found.bytes = found.bytes.saturating_add(size);
            }
            if file.data_ops > 0 {
                busy.push(HotFile {
                    file: *number,
                    data_ops: file.data_ops.into(),
                    bytes: file.bytes,
                    size: file.size,
                });
            }
        }
        found.sizes = Quantiles::from_histogram(&sizes);
        busy.sort_unstable_by_key(|hot| (std::cmp::Reverse(hot.data_ops), hot.file));
        let mut all = 0;
        let mut of_tenth = 0;
        let tenth = busy.len().div_ceil(10);
        for (rank, hot) in busy.iter().enumerate() {
            all += hot.data_ops;
            of_tenth += if rank < tenth { hot.data_ops } else { 0 };
        }
        found.hot_tenth_percent = (of_tenth * 100).checked_div(all).unwrap_or_default();
        busy.truncate(HOT_MAX);
        found.hot = busy;
        self.found
    }
}
