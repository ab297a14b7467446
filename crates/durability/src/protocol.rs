//! Messages between a durability measurement and its clients: one job in, a line per event out.
//!
//! Each client is a separate process, so that it can be killed and files are always read back by a
//! fresh one. It gets a [`ClientJob`] as the first line of stdin and exits when its stdin is
//! closed. Each line of its stdout is a [`ClientMessage`].

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use model::durability::{FoundFile, TestFile, TestOp};
use model::{Durability, Target};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::DurabilityError;

/// Name of the hidden command that runs a client.
const CLIENT_COMMAND: &str = "durability-client";

/// Job of one client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClientJob {
    pub target: Target,
    /// Name of the campaign, used as a prefix for its working directories.
    pub campaign_name: String,
    /// Name of the working directory below the target.
    pub folder: String,
    /// ID of the campaign that blocks are stamped with.
    pub campaign: u64,
    /// Maximum time a call may take, in milliseconds.
    pub timeout_ms: u64,
    pub task: Task,
}

/// What a client has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Create the working directory and write under each promise.
    Write {
        /// Promises, which alternate. The last op is made under the last one.
        promises: Vec<Durability>,
        /// Number of rounds to write.
        rounds: u32,
        /// Rounds to write before the event; the remaining ones keep the server busy during it.
        event_after: u32,
    },
    /// Read files back.
    ReadBack {
        /// The files, including those that may not exist.
        files: Vec<TestFile>,
        /// Identity of the target as reported by the writer. `None` if the target is known to be
        /// the same one; it may have lost its identity, too.
        identity: Option<String>,
        /// Whether an unreadable file is a finding. If false, reading stops there.
        accepts_unreadable: bool,
    },
    /// Remove all working directories of the campaign.
    Remove,
}

/// Message from a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ClientMessage {
    /// The target was opened.
    Opened {
        /// Identifies the target's file system.
        identity: String,
    },
    /// An op is about to be sent.
    Sent(TestOp),
    /// The ops with these numbers, counted from 0, have been acknowledged as promised.
    Acked {
        ops: Vec<usize>,
        /// Time of the acknowledgement, in nanoseconds of the monotonic clock.
        at_ns: u64,
    },
    /// Enough rounds were written to trigger the event.
    Ready,
    /// A file was read back.
    Found(FoundFile),
    /// The job is complete.
    Done,
    /// The client gave up for this reason.
    Failed(String),
}

/// Returns the time in nanoseconds of the clock that all processes of a host share.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Builds a command that runs the program with the given subcommand.
pub(crate) type MakeCommand = dyn Fn(&str) -> io::Result<Command>;

/// The program that runs clients on one host.
pub struct ClientProgram {
    pub command: Box<MakeCommand>,
    /// Whether it runs on another host.
    pub is_remote: bool,
}

/// A running client process.
pub(crate) struct ClientProcess {
    child: Child,
    // The client exits when this is closed.
    _stdin: ChildStdin,
    messages: Receiver<ClientMessage>,
}

impl ClientProcess {
    /// Starts a client, here or on another host, and gives it its job.
    pub(crate) fn start(job: &ClientJob, program: &ClientProgram) -> Result<Self, DurabilityError> {
        let failed = |error: &dyn std::fmt::Display| {
            DurabilityError::Unusable(format!("cannot start a client process: {error}"))
        };
        let is_remote = program.is_remote;
        let mut command = (program.command)(CLIENT_COMMAND).map_err(|error| failed(&error))?;
        // In its own process group: Ctrl-C is for the parent, which then stops the client in order.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"it has no pipes"));
        };
        let mut line = serde_json::to_vec(job).map_err(|error| failed(&error))?;
        line.push(b'\n');
        // If the client has already exited, `receive` reports that.
        let _ = stdin.write_all(&line);
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                // The last line of a killed process may be incomplete.
                let Ok(mut message) = serde_json::from_str(&line) else { return };
                // Clocks of different hosts aren't comparable. An acknowledgement counts from the
                // moment it arrives here, where no event can undo it.
                if let ClientMessage::Acked { at_ns, .. } = &mut message
                    && is_remote
                {
                    *at_ns = now_ns();
                }
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, _stdin: stdin, messages })
    }

    /// Waits for the next message, for at most `wait`. Returns `None` if there is none yet.
    ///
    /// # Errors
    /// If the client has exited and all messages were received.
    pub(crate) fn receive(&self, wait: Duration) -> Result<Option<ClientMessage>, ClientExited> {
        match self.messages.recv_timeout(wait) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ClientExited),
        }
    }

    /// Kills the process. If it hangs in the kernel, it only exits once its file system answers.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // Don't wait any longer: a process that hangs in the kernel may never exit.
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The client has exited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientExited;
