//! The two output streams: data goes to stdout, messages go to stderr.
//!
//! They are never mixed, so that `--format json` can be piped. A closed stdout is not an error,
//! because the results are in their file by then.
//!
//! All text passes through here on its way to the terminal, and control characters are removed: see
//! [`Printable`] and [`message`]. The progress bar and the full-screen display in `progress` do the
//! same.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Mutex, MutexGuard};

use model::printable;
use report::Format;

use crate::terminal::wrap::wrap_line;

/// Reason why data could not be written to stdout.
#[derive(Debug)]
pub struct StdoutError(pub io::Error);

/// Text to print or to write to a file, without terminal control characters.
///
/// Servers, agents, traces and results files can all contribute to what is printed, so all text
/// goes through this type, whatever its origin.
pub(crate) struct Printable<'a>(Cow<'a, str>);

impl<'a> Printable<'a> {
    /// Makes text for people printable.
    pub(crate) fn text(text: &'a str) -> Self {
        Self(printable::to_printable(text))
    }

    /// Makes JSON printable without changing its value.
    pub(crate) fn json(json: &'a str) -> Self {
        Self(printable::to_printable_json(json))
    }

    /// Makes a rendered report printable.
    pub(crate) fn report(text: &'a str, format: Format) -> Self {
        if format == Format::Json { Self::json(text) } else { Self::text(text) }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Writes text to stdout.
pub(crate) fn text(text: &str) -> Result<(), StdoutError> {
    print(&Printable::text(text))
}

/// Writes printable text to stdout.
pub(crate) fn print(text: &Printable<'_>) -> Result<(), StdoutError> {
    raw(text.as_bytes())
}

/// Writes bytes to stdout unchanged: the contents of a file, or input for a shell or `man`.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), StdoutError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes) {
        Ok(()) => stdout.flush().map_err(StdoutError),
        Err(error) => Err(StdoutError(error)),
    }
}

/// Columns of a report if the width of the terminal is unknown.
const COLUMNS_USUAL: usize = 100;

/// Returns the screen to render a report for, as wide as `COLUMNS` or else the terminal.
pub(crate) fn screen(extent: report::ReportDetail) -> report::Screen {
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

/// Writes a report to stdout. It is colored if stdout is a terminal that supports colors and
/// NO_COLOR is not set.
pub(crate) fn print_colored(text: &str) -> Result<(), StdoutError> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(report::paint(&printable::to_printable(text)).as_bytes()) {
        Ok(()) => stdout.flush().map_err(StdoutError),
        Err(error) => Err(StdoutError(error)),
    }
}

/// Locks state that is consistent after every statement, so that a poisoned lock doesn't matter:
/// messages and cleanup must still work after a panic.
pub(crate) fn lock_always<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// Messages held back while something else uses the terminal; `None` if nothing does.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

fn lock_held_output() -> MutexGuard<'static, Option<Vec<String>>> {
    lock_always(&HELD)
}

/// Starts holding back messages.
pub(crate) fn hold() {
    lock_held_output().get_or_insert_default();
}

/// Writes the messages that were held back, and stops holding them back.
pub(crate) fn release() {
    // Release the lock before the first `message`, which takes it again: in the head of the `for`
    // loop the guard would live as long as the loop.
    let lines = lock_held_output().take();
    for line in lines.unwrap_or_default() {
        message(&line);
    }
}

/// Runs a function that writes, while nothing is drawn.
pub(crate) type WriteBeside = dyn Fn(&dyn Fn()) + Send;

/// A progress bar drawn on stderr, which messages must not run into.
pub(crate) struct DrawnBar {
    /// Hides the bar while a function writes.
    pub suspend: Box<WriteBeside>,
    /// Removes the bar for good.
    pub clear: Box<dyn Fn() + Send>,
}

/// The bar that is currently drawn on stderr.
static BAR: Mutex<Option<DrawnBar>> = Mutex::new(None);

/// Sets the bar that is drawn from now on, if any.
pub(crate) fn set_bar(bar: Option<DrawnBar>) {
    *lock_always(&BAR) = bar;
}

/// Removes the bar, for a process that exits without unwinding.
pub(crate) fn clear_bar() {
    if let Some(bar) = lock_always(&BAR).take() {
        (bar.clear)();
    }
}

/// Writes a line to stderr, above the bar if one is drawn, wrapped between words on a terminal. A
/// closed stderr is not an error.
pub(crate) fn message(line: &str) {
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

/// Wraps the lines of a message that are wider than the terminal on stderr.
pub(crate) fn fit_terminal(text: &str) -> String {
    let Some(columns) = message_columns() else { return text.to_owned() };
    let lines = text.split('\n').flat_map(|line| wrap_line(line, columns));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the width of the terminal on stderr; `None` if stderr is not a terminal.
pub(crate) fn message_columns() -> Option<usize> {
    let stderr = io::stderr();
    if stderr.is_terminal() { terminal_columns(stderr.as_fd()) } else { None }
}

fn terminal_columns(terminal: BorrowedFd<'_>) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    if size.ws_col == 0 { None } else { Some(size.ws_col.into()) }
}

/// Lists names with their descriptions, which are wrapped to fit the terminal.
pub(crate) fn name_list(names: &[(&str, &str)]) -> String {
    let columns = screen(report::ReportDetail::Whole).columns();
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
