//! A process that is run to its end, but not for longer than it may take.
//!
//! What it prints is kept up to [`STDOUT_BYTES_MAX`]; of stderr the last line.
#![allow(clippy::disallowed_methods, reason = "how long a process takes is a matter of real time")]

use std::fs::File;
use std::io::{Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::remote::StderrLines;

/// Bytes of stdout that are kept.
const STDOUT_BYTES_MAX: u64 = 64 << 10;

/// How often a process is looked at.
const TICK: Duration = Duration::from_millis(5);

/// How a process ended.
pub(super) struct Ended {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// The last line of its stderr.
    pub last_words: Option<String>,
    /// It is ssh, and a host has another key than it knows.
    pub is_another: bool,
}

/// StderrLines of ssh where a host has another key than the known one.
const ANOTHER: &str = "REMOTE HOST IDENTIFICATION HAS CHANGED";

impl Ended {
    /// Says whether it ended well.
    pub(super) fn worked(&self) -> bool {
        self.code == Some(0)
    }
}

/// Runs a process with text as its input.
///
/// # Errors
/// When it can't be started, or takes longer than it may; in a sentence.
pub(super) fn with_input(
    command: &mut Command,
    input: String,
    limit: Duration,
) -> Result<Ended, String> {
    let mut child = start(command.stdin(Stdio::piped()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A process that doesn't read can't hold us up.
        thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    end(command, child, limit)
}

/// Runs a process with a file as its input.
///
/// # Errors
/// As [`with_input`].
pub(super) fn with_file(
    command: &mut Command,
    input: File,
    limit: Duration,
) -> Result<Ended, String> {
    let child = start(command.stdin(input))?;
    end(command, child, limit)
}

fn start(command: &mut Command) -> Result<Child, String> {
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    spawned.map_err(|error| {
        let program = command.get_program().to_string_lossy();
        let hint = " (hint: it is in the package openssh-client)";
        let hint = if error.kind() == std::io::ErrorKind::NotFound { hint } else { "" };
        format!("can't start `{program}`: {error}{hint}")
    })
}

fn end(command: &Command, mut child: Child, limit: Duration) -> Result<Ended, String> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        unreachable!("two pipes were asked for");
    };
    let is_another = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&is_another);
    let words = StderrLines::read_lines(stderr, move |line| {
        heard.fetch_or(line.contains(ANOTHER), Relaxed);
    });
    let printed = thread::spawn(move || {
        let mut bytes = Vec::new();
        // What can't be read was not printed.
        let _ = stdout.take(STDOUT_BYTES_MAX).read_to_end(&mut bytes);
        bytes
    });
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => thread::sleep(TICK),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                let program = command.get_program().to_string_lossy();
                let said = words.last().map_or(String::new(), |line| format!(": {line}"));
                return Err(format!("no answer from `{program}` in {} s{said}", limit.as_secs()));
            }
        }
    };
    let stdout = printed.join().unwrap_or_default();
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    let last_words = words.last();
    Ok(Ended { code: status.code(), stdout, last_words, is_another: is_another.load(Relaxed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(words: &str, limit: Duration) -> Result<Ended, String> {
        with_input(Command::new("sh").args(["-c", words]), "given\n".to_owned(), limit)
    }

    #[test]
    fn what_a_process_says_and_how_it_ends_is_kept() {
        let ended = sh("cat; echo first >&2; echo last >&2; echo ---- >&2; exit 3", WIDE).unwrap();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), "given\n"));
        assert_eq!((ended.last_words.as_deref(), ended.is_another), (Some("last"), false));
        let shout = format!("echo '@ WARNING: {ANOTHER}! @' >&2; echo failed >&2; exit 255");
        assert!(sh(&shout, WIDE).unwrap().is_another);
    }

    #[test]
    fn a_process_that_takes_too_long_is_ended() {
        let error = sh("echo busy >&2; exec sleep 60", Duration::from_secs(1));
        assert_eq!(error.err().as_deref(), Some("no answer from `sh` in 1 s: busy"));
    }

    const WIDE: Duration = Duration::from_secs(60);
}
