//! The two streams: data to stdout, messages to stderr.
//!
//! They never share a stream, so that `--format json` can be piped. A reader of stdout that went
//! away is no error: the results are in their file by then.
//!
//! All text passes here on its way to a terminal, and loses what would steer one: see
//! [`Printable`] and [`message`]. The bar and the full screen of `progress` do the same.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Mutex, MutexGuard};

use model::printable;
use report::Format;

use crate::wrap::wrap_line;

/// Why data could not be written to stdout.
#[derive(Debug)]
pub struct StdoutError(pub io::Error);

/// Text to print or to write to a file: nothing in it steers a terminal.
///
/// Servers, agents, traces and results files put texts of their own into what is printed, so all
/// text goes through this type, whatever it is made of.
pub struct Printable<'a>(Cow<'a, str>);

impl<'a> Printable<'a> {
    /// Makes text for people printable.
    pub fn text(text: &'a str) -> Self {
        Self(printable::to_printable(text))
    }

    /// Makes JSON printable, without changing its value.
    pub fn json(json: &'a str) -> Self {
        Self(printable::to_printable_json(json))
    }

    /// Makes a rendered report printable.
    pub fn report(text: &'a str, format: Format) -> Self {
        if format == Format::Json { Self::json(text) } else { Self::text(text) }
    }

    /// Returns the bytes to write.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Writes text to stdout.
///
/// # Errors
/// When stdout can't be written.
pub fn text(text: &str) -> Result<(), StdoutError> {
    print(&Printable::text(text))
}

/// Writes text that was made printable to stdout.
///
/// # Errors
/// When stdout can't be written.
pub fn print(text: &Printable<'_>) -> Result<(), StdoutError> {
    raw(text.as_bytes())
}

/// Writes bytes to stdout as they are: the content of a file, or what is for a shell or `man`.
///
/// # Errors
/// When stdout can't be written.
pub fn raw(bytes: &[u8]) -> Result<(), StdoutError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes) {
        Ok(()) => stdout.flush().map_err(StdoutError),
        Err(error) => Err(StdoutError(error)),
    }
}

/// Columns of a report where nothing says how wide the terminal is.
const COLUMNS_USUAL: usize = 100;

/// The screen that a report is written for: as wide as `COLUMNS` says, else as the terminal is.
pub fn screen(extent: report::Extent) -> report::Screen {
    report::Screen::new(columns().unwrap_or(COLUMNS_USUAL), extent)
}

#[allow(clippy::disallowed_methods)] // the binary owns the environment
fn columns() -> Option<usize> {
    if let Ok(text) = std::env::var("COLUMNS")
        && let Ok(columns) = text.parse()
    {
        return Some(columns);
    }
    let stdout = io::stdout();
    if stdout.is_terminal() { terminal_columns(stdout.as_fd()) } else { None }
}

/// Writes a report to stdout, with colours where that is a terminal that shows them and NO_COLOR
/// is not set.
///
/// # Errors
/// When stdout can't be written.
pub fn painted(text: &str) -> Result<(), StdoutError> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(report::paint(&printable::to_printable(text)).as_bytes()) {
        Ok(()) => stdout.flush().map_err(StdoutError),
        Err(error) => Err(StdoutError(error)),
    }
}

/// Locks state that is whole after every statement, so that a panic of its last holder does not
/// matter: messages and clean-ups must go on then.
pub fn lock_always<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// Lines that are held back while something else has the terminal; `None` while nothing has.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

fn lock_held_output() -> MutexGuard<'static, Option<Vec<String>>> {
    lock_always(&HELD)
}

/// Holds messages back from now on.
pub fn hold() {
    lock_held_output().get_or_insert_default();
}

/// Writes the messages that were held back, and holds back none any more.
pub fn release() {
    // The guard must be gone before the first message, which takes the lock again: in the head of a
    // loop it would live as long as the loop.
    let lines = lock_held_output().take();
    for line in lines.unwrap_or_default() {
        message(&line);
    }
}

/// Calls what writes, at a moment when nothing is drawn.
pub type WriteBeside = dyn Fn(&dyn Fn()) + Send;

/// What is drawn on stderr, which messages must not run into.
pub struct DrawnBar {
    /// Writes while nothing is drawn.
    pub suspend: Box<WriteBeside>,
    /// Removes it for good.
    pub clear: Box<dyn Fn() + Send>,
}

/// The bar that is drawn on stderr at the moment.
static BAR: Mutex<Option<DrawnBar>> = Mutex::new(None);

/// Names the bar that is drawn from now on, or says that there is none any more.
pub fn set_bar(bar: Option<DrawnBar>) {
    *lock_always(&BAR) = bar;
}

/// Removes the bar, for a process that ends without unwinding.
pub fn clear_bar() {
    if let Some(bar) = lock_always(&BAR).take() {
        (bar.clear)();
    }
}

/// Writes a line to stderr, above the bar if one is drawn, and broken between words on a terminal;
/// a stderr that is closed is no error.
pub fn message(line: &str) {
    if let Some(lines) = lock_held_output().as_mut() {
        lines.push(line.to_owned());
        return;
    }
    let text = fit_terminal(&printable::to_printable(line));
    let write = || _ = writeln!(io::stderr().lock(), "{text}");
    match &*lock_always(&BAR) {
        Some(bar) => (bar.suspend)(&write),
        None => write(),
    }
}

/// Breaks the lines of a message that are wider than the terminal on stderr.
pub fn fit_terminal(text: &str) -> String {
    let Some(columns) = message_columns() else { return text.to_owned() };
    let lines = text.split('\n').flat_map(|line| wrap_line(line, columns));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the width of the terminal on stderr; `None` if stderr is not a terminal.
pub fn message_columns() -> Option<usize> {
    let stderr = io::stderr();
    if stderr.is_terminal() { terminal_columns(stderr.as_fd()) } else { None }
}

fn terminal_columns(terminal: BorrowedFd<'_>) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    if size.ws_col == 0 { None } else { Some(size.ws_col.into()) }
}

/// Lists names with what each is, which is wrapped beside the names as the terminal is wide.
pub fn name_list(names: &[(&str, &str)]) -> String {
    let columns = screen(report::Extent::Whole).columns();
    let mut indent = 0;
    for (name, _) in names {
        indent = indent.max(name.chars().count() + 2);
    }
    let mut text = String::new();
    for (name, what) in names {
        report::document::text::push_beside(&mut text, name, indent, what, columns);
    }
    text
}

/// Pads the cells of each column to the same width; each row has as many as the first. A line break
/// in a cell is replaced, for a name must not add rows.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len(), 0);
        for (width, cell) in std::iter::zip(&mut widths, row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in std::iter::zip(&widths, row) {
            let width = *width;
            // Writing to a String never fails.
            let _ = write!(line, "{:<width$}  ", printable::to_printable_line(cell));
        }
        // A last column that is narrow in this row would end in blanks.
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
