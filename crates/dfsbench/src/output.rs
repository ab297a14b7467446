//! The two streams: data to stdout, messages to stderr.
//!
//! They never share a stream, so that `--format json` can be piped. A reader of stdout that went
//! away is no error: the results are in their file by then.

use std::io::{self, Write as _};

use crate::exit::Failure;

/// Writes data to stdout.
///
/// # Errors
/// When stdout can't be written; a reader that went away is [`Failure::BrokenPipe`].
pub fn data(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::Output {
            what: "to stdout".to_owned(),
            reason: error.to_string(),
            hint: "check where stdout leads",
        },
    })
}

/// Writes a line to stderr; a stderr that is gone is nobody's loss.
pub fn message(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}
