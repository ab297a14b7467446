//! The two streams: data to stdout, messages to stderr.
//!
//! They never share a stream, so that `--format json` can be piped. A reader of stdout that went
//! away is no error: the results are in their file by then.

use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why data could not be written to stdout.
#[derive(Debug)]
pub struct StdoutError(pub io::Error);

/// Writes data to stdout.
///
/// # Errors
/// When stdout can't be written.
pub fn data(bytes: &[u8]) -> Result<(), StdoutError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(StdoutError)
}

/// Lines that are held back while something else has the terminal; `None` while nothing has.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

fn lock_held_output() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds messages back from now on.
pub fn hold() {
    lock_held_output().get_or_insert_default();
}

/// Writes the messages that were held back, and holds back none any more.
pub fn release() {
    for line in lock_held_output().take().unwrap_or_default() {
        message(&line);
    }
}

/// Writes a line to stderr; a stderr that is gone is nobody's loss.
pub fn message(line: &str) {
    match lock_held_output().as_mut() {
        Some(lines) => lines.push(line.to_owned()),
        None => _ = writeln!(anstream::stderr().lock(), "{line}"),
    }
}

/// Pads the cells of each column to the same width; each row has as many as the first.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
