//! Messages of a durability measurement and its clients: a job in, a line for each event out.
//!
//! A client is a process of its own, so that it can be killed, and so that each reading back is
//! done by a fresh one. It gets one [`ClientJob`] as the first line of stdin, and ends when its
//! stdin is closed. Each line of its stdout is a [`ClientMessage`].

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

/// Name of the hidden command that a client is.
const CLIENT_COMMAND: &str = "durability-client";

/// The work of one client.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClientJob {
    /// The target to work on.
    pub target: Target,
    /// Name of the campaign, by which the names of its working directories begin.
    pub campaign_name: String,
    /// Name of the working directory below the target.
    pub folder: String,
    /// The campaign that blocks are stamped with.
    pub campaign: u64,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
    /// The task of the client.
    pub task: Task,
}

/// The task of a client.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Makes the working directory and writes under each promise.
    Write {
        /// The promises, in turns; the last op is one of the last of them.
        promises: Vec<Durability>,
        /// Rounds to make.
        rounds: u32,
        /// Rounds after which the event may be made; later ones keep the server busy meanwhile.
        event_after: u32,
    },
    /// Reads files back.
    ReadBack {
        /// The files, whether they are there or not.
        files: Vec<TestFile>,
        /// The identity of the target, as the writer reported it; `None` where it is known to be
        /// the same, which may have lost even that.
        identity: Option<String>,
        /// Whether a file that can't be read is a finding; else it ends the reading.
        accepts_unreadable: bool,
    },
    /// Removes all working directories of the campaign.
    Remove,
}

/// A message of a client.
#[derive(Debug, Serialize, Deserialize)]
pub enum ClientMessage {
    /// The target is open, and is this one.
    Opened {
        /// The identity, which tells it from others.
        identity: String,
    },
    /// An op is about to be made.
    Sent(TestOp),
    /// The promise of the ops that were sent with these numbers, from 0, was fulfilled.
    Acked {
        /// The numbers of the ops.
        ops: Vec<usize>,
        /// The instant, in nanoseconds of the monotonic clock.
        at_ns: u64,
    },
    /// So many rounds are done that the event may be made.
    Ready,
    /// A file was read back.
    Found(FoundFile),
    /// All is done.
    Done,
    /// The client gave up, for this reason.
    Failed(String),
}

/// Returns the instant in nanoseconds of the clock that all processes of a host share.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Makes a command that runs a program with a word.
pub type MakeCommand = dyn Fn(&str) -> io::Result<Command>;

/// The program that clients are processes of, on one host.
pub struct ClientProgram {
    pub command: Box<MakeCommand>,
    /// It runs on another host.
    pub is_remote: bool,
}

/// A client that runs.
pub struct ClientProcess {
    child: Child,
    // It ends when this is closed.
    _stdin: ChildStdin,
    messages: Receiver<ClientMessage>,
}

impl ClientProcess {
    /// Starts a client with its job, by a program on this or another host.
    ///
    /// # Errors
    /// When the program can't be started.
    pub fn start(job: &ClientJob, program: &ClientProgram) -> Result<Self, DurabilityError> {
        let failed = |error: &dyn std::fmt::Display| {
            DurabilityError::Unusable(format!("can't start a client process: {error}"))
        };
        let is_remote = program.is_remote;
        let mut command = (program.command)(CLIENT_COMMAND).map_err(|error| failed(&error))?;
        // In a group of its own: ctrl-C of a terminal is for the parent, which ends it in order.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"it has no pipes"));
        };
        let mut line = serde_json::to_vec(job).map_err(|error| failed(&error))?;
        line.push(b'\n');
        // A client that ended at once says so by the end of its messages.
        let _ = stdin.write_all(&line);
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                // The last line of a process that was killed may be a part of one.
                let Ok(mut message) = serde_json::from_str(&line) else { return };
                // The clock of another host is not this one's: what was acknowledged counts from
                // when that is known here, where no event can take it back.
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

    /// Waits for the next message, so long at most; `None` where there is none yet.
    ///
    /// # Errors
    /// When the client has ended, and no message is left.
    pub fn receive(&self, wait: Duration) -> Result<Option<ClientMessage>, Ended> {
        match self.messages.recv_timeout(wait) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended),
        }
    }

    /// Kills the process. One that hangs in the kernel ends when its file system answers.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // Not waited for where it hangs in the kernel, which may be for ever.
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The end of a client.
#[derive(Clone, Copy, Debug)]
pub struct Ended;
