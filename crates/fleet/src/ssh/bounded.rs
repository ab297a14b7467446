//! Runs a process to its end, with limits on its time and output.
//!
//! At most [`STDOUT_BYTES_MAX`] of stdout are kept. A process that prints more is killed right
//! away: no valid answer is that long, and a shell that prints forever would never finish. Only the
//! last line of stderr is kept.
#![allow(clippy::disallowed_methods, reason = "limits how long a process takes")]

use std::fmt;
use std::io::{self, Cursor, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::remote::{StderrReader, with_last_line};
use crate::wire::printable;

/// Maximum number of bytes of stdout.
const STDOUT_BYTES_MAX: u64 = 64 << 10;

/// How often a process is polled.
const TICK: Duration = Duration::from_millis(5);

/// How a process exited.
pub(super) struct ProcessExit {
    /// Exit code, or `None` if it was killed by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    /// Last line of its stderr.
    pub(crate) last_line: Option<String>,
    /// The process is ssh, and the host's key differs from the known one.
    pub(crate) has_other_key: bool,
}

/// Printed by ssh when a host's key differs from the known one.
const OTHER_KEY: &str = "REMOTE HOST IDENTIFICATION HAS CHANGED";

impl ProcessExit {
    /// Returns true if it exited successfully.
    pub(super) fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

/// Why a process did not run to its end.
#[derive(Debug)]
pub(super) enum ProcessFailure {
    /// It could not be started; contains a sentence.
    NotStarted(String),
    /// It exceeded its time limit; contains a sentence.
    TimedOut(String),
    /// It printed too much; contains the beginning of the output.
    TooMuchOutput(String),
}

impl fmt::Display for ProcessFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(why) | Self::TimedOut(why) => f.write_str(why),
            Self::TooMuchOutput(first) => write!(
                f,
                "its shell printed more than {} KiB, starting with `{first}`, instead of a few \
                 lines (hint: shell startup files must not print anything)",
                STDOUT_BYTES_MAX >> 10
            ),
        }
    }
}

/// Runs a process with text as its input.
///
/// # Errors
/// If it cannot be started, takes too long, or prints too much.
pub(super) fn with_input(
    command: &mut Command,
    input: String,
    limit: Duration,
) -> Result<ProcessExit, ProcessFailure> {
    with_reader(command, Cursor::new(input), limit)
}

/// Runs a process with the contents of a reader as its input.
pub(super) fn with_reader(
    command: &mut Command,
    mut input: impl Read + Send + 'static,
    limit: Duration,
) -> Result<ProcessExit, ProcessFailure> {
    let mut child = spawn_piped(command.stdin(Stdio::piped()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Written by a thread, so that a process that doesn't read its input cannot block us.
        thread::spawn(move || io::copy(&mut input, &mut stdin));
    }
    wait_bounded(command, child, limit)
}

fn spawn_piped(command: &mut Command) -> Result<Child, ProcessFailure> {
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let error = match spawned {
        Ok(child) => return Ok(child),
        Err(error) => error,
    };
    let program = command.get_program().to_string_lossy();
    let hint = " (hint: install the package openssh-client)";
    let hint = if error.kind() == io::ErrorKind::NotFound { hint } else { "" };
    Err(ProcessFailure::NotStarted(format!("cannot start `{program}`: {error}{hint}")))
}

fn wait_bounded(
    command: &Command,
    mut child: Child,
    limit: Duration,
) -> Result<ProcessExit, ProcessFailure> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        unreachable!("stdout and stderr are pipes");
    };
    let has_other_key = Arc::new(AtomicBool::new(false));
    let found_other_key = Arc::clone(&has_other_key);
    let stderr = StderrReader::start(stderr, move |line| {
        found_other_key.fetch_or(line.contains(OTHER_KEY), Relaxed);
    });
    let is_too_much = Arc::new(AtomicBool::new(false));
    let found_too_much = Arc::clone(&is_too_much);
    // Read by a thread: a process blocks when its pipe is full and would never exit.
    let printed = thread::spawn(move || {
        let mut bytes = Vec::new();
        // If reading fails, treat it as the end of the output.
        let _ = stdout.take(STDOUT_BYTES_MAX + 1).read_to_end(&mut bytes);
        found_too_much.store(bytes.len() as u64 > STDOUT_BYTES_MAX, Relaxed);
        bytes
    });
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if is_too_much.load(Relaxed) => break None,
            Ok(None) if Instant::now() < deadline => thread::sleep(TICK),
            Ok(None) | Err(_) => {
                end(&mut child);
                let program = command.get_program().to_string_lossy();
                let reason = format!("no answer from `{program}` within {} s", limit.as_secs());
                return Err(ProcessFailure::TimedOut(with_last_line(reason, stderr.last_line())));
            }
        }
    };
    let stdout = printed.join().unwrap_or_default();
    // The process may have died because we closed its pipe, so check the output before its status.
    let (Some(status), false) = (status, is_too_much.load(Relaxed)) else {
        end(&mut child);
        return Err(ProcessFailure::TooMuchOutput(first_line(&stdout)));
    };
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    let last_line = stderr.last_line();
    let has_other_key = has_other_key.load(Relaxed);
    Ok(ProcessExit { code: status.code(), stdout, last_line, has_other_key })
}

fn end(child: &mut Child) {
    // It may already have exited.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the start of the first line, made safe for a terminal.
pub(super) fn first_line(output: &[u8]) -> String {
    const BYTES_MAX: usize = 80;
    let mut lines = output.split(|byte| *byte == b'\n');
    let line = lines.next().unwrap_or_default();
    printable(&line[..line.len().min(BYTES_MAX)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(words: &str, limit: Duration) -> Result<ProcessExit, ProcessFailure> {
        with_input(Command::new("sh").args(["-c", words]), "given\n".to_owned(), limit)
    }

    #[test]
    fn keeps_output_and_exit_status() {
        let ended = sh("cat; echo first >&2; echo last >&2; echo ---- >&2; exit 3", WIDE).unwrap();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), "given\n"));
        assert_eq!((ended.last_line.as_deref(), ended.has_other_key), (Some("last"), false));
        let shout = format!("echo '@ WARNING: {OTHER_KEY}! @' >&2; echo failed >&2; exit 255");
        assert!(sh(&shout, WIDE).unwrap().has_other_key);
    }

    #[test]
    fn ends_slow_process() {
        let error = sh("echo busy >&2; exec sleep 60", Duration::from_secs(1));
        let Err(ProcessFailure::TimedOut(why)) = error else { panic!("it was not too slow") };
        insta::assert_snapshot!(why, @"no answer from `sh` within 1 s: busy");
    }

    #[test]
    fn ends_shell_that_prints_forever() {
        // The first one prints 100 MB before it answers, the second one never stops.
        for words in [
            "printf '\\033[1mMOTD\\n'; head -c 100000000 /dev/zero; echo answer",
            "while :; do echo MOTD; done",
        ] {
            let begun = Instant::now();
            let error = sh(words, WIDE).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("`{words}` was accepted"));
            assert!(error.contains("more than 64 KiB") && error.contains("MOTD`"), "{error}");
            assert!(!error.contains(char::is_control) && error.len() < 250, "{error}");
            assert!(begun.elapsed() < WIDE, "it waited for the shell");
        }
        // Output of exactly the limit is accepted.
        let words = format!("head -c {STDOUT_BYTES_MAX} /dev/zero");
        assert_eq!(sh(&words, WIDE).unwrap().stdout.len() as u64, STDOUT_BYTES_MAX);
    }

    const WIDE: Duration = Duration::from_secs(60);
}
