//! Imports what other tools recorded of a program's own I/O: strace's output and fio's logs.
//!
//! [`import`] reads text line by line and writes a trace whose operations are those that NFS has
//! for the system calls: OPEN, READ, COMMIT and so on of v4.2. [`builder`] keeps track of files,
//! [`strace`] of processes and their file descriptors, [`iolog`] of fio's actions.
//!
//! Invariants are those of the crate: no input causes a panic, and what isn't in the trace is
//! counted. The text is foreign, so lines, calls and processes are limited.

mod builder;
mod file_calls;
mod iolog;
mod strace;
mod strace_line;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use self::builder::Builder;
use crate::connections::Names;
use crate::error::TraceError;

/// Maximum length of a line in bytes; what exceeds it is dropped.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of names of calls without a counterpart.
const SKIPPED_MAX: usize = 200;

/// The kind of text to import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportSource {
    /// Output of `strace -f -ttt -T -y`.
    Strace,
    /// Log of fio, version 2 or 3.
    Iolog,
}

/// What to import and how.
#[derive(Debug, Clone)]
pub struct ImportSettings {
    pub source: ImportSource,
    /// Absolute path of the directory whose files are imported.
    pub root: Option<String>,
    /// Absolute path of the directory in which the program started.
    pub directory: Option<String>,
    pub names: Names,
    /// Name and version of the program that creates the trace.
    pub made_by: String,
}

/// What was imported, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// Lines of the text.
    pub lines: u64,
    /// Calls in the trace.
    pub calls: u64,
    /// Processes with calls in the trace, or threads if they have file descriptors of their own.
    pub processes: u64,
    /// Files and directories in the trace.
    pub files: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// The directory whose files were imported.
    pub root: String,
    /// Calls with files outside of it.
    pub outside: u64,
    /// Files that were mapped; what is done through a mapping is no system call.
    pub mapped_files: u64,
    /// File descriptors that were open before the first line.
    pub inherited: u64,
    /// Calls on files that have no counterpart, by name.
    pub skipped: BTreeMap<String, u64>,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// Number of the first of them, from 1.
    pub first_unreadable: u64,
    /// Calls that had not ended at the end of the text.
    pub unfinished: u64,
}

impl ImportSummary {
    /// Counts a call that has no counterpart.
    fn skip(&mut self, name: &str) {
        if self.skipped.len() < SKIPPED_MAX || self.skipped.contains_key(name) {
            *self.skipped.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
}

/// Why a text cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The system could not read it.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is not of this kind.
    #[error("{0}")]
    Foreign(String),
    /// A line is wrong.
    #[error("line {line}: {what}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        what: String,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Imports a text and writes the trace.
///
/// # Errors
/// If it can't be read, is of another kind, or has nothing to import.
pub fn import<W: Write>(
    text: impl BufRead,
    settings: &ImportSettings,
    out: W,
) -> Result<ImportSummary, ImportError> {
    let mut lines = Lines { text, buffer: Vec::new(), number: 0 };
    let mut builder = Builder::new(settings.names);
    let mut summary = ImportSummary::default();
    match settings.source {
        ImportSource::Strace => strace::read(&mut lines, settings, &mut builder, &mut summary)?,
        ImportSource::Iolog => iolog::read(&mut lines, settings, &mut builder, &mut summary)?,
    }
    summary.lines = lines.number;
    builder.write(out, &settings.made_by, &mut summary)?;
    Ok(summary)
}

/// Lines of a text, each limited in length.
struct Lines<R> {
    text: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Returns the next line without its end.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.clear();
        let mut is_begun = false;
        loop {
            let part = self.text.fill_buf()?;
            if part.is_empty() {
                break;
            }
            is_begun = true;
            let end = part.iter().position(|byte| *byte == b'\n');
            let content = &part[..end.unwrap_or(part.len())];
            let room = LINE_BYTES_MAX - self.buffer.len();
            self.buffer.extend_from_slice(&content[..content.len().min(room)]);
            let used = end.map_or(part.len(), |end| end + 1);
            self.text.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !is_begun {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer)))
    }
}
