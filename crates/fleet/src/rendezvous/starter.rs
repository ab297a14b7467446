//! A process of ours that starts agents elsewhere, such as `srun` or `mpirun`.
//!
//! [`Starter`] gets the agents' environment and passes on their lines on stderr. It ends by
//! itself when they have; one that doesn't gets SIGTERM, and then SIGKILL. Agents whose starter is
//! gone notice by their controller alone.
#![allow(clippy::disallowed_methods, reason = "whether a process ends is a matter of real time")]

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Gone;
use crate::remote::{LEAVE_WITHIN, StderrReader, with_last_line};

/// How long it may take to end what it started after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(5);

/// How often its end is checked.
const TICK: Duration = Duration::from_millis(20);

/// The starter of agents on other hosts.
pub struct Starter {
    name: String,
    child: Child,
    stderr: StderrReader,
}

impl Starter {
    /// Starts it; `on_line` gets each line that it, or an agent through it, writes to stderr.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn start(
        command: &mut Command,
        on_line: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, Gone> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A ctrl-C is for the controller, which then ends things in order.
        command.process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Err(Gone(format!("can't start `{name}`: {error}"))),
        };
        let Some(stderr) = child.stderr.take() else { unreachable!("stderr is a pipe") };
        Ok(Self { name, child, stderr: StderrReader::start(stderr, on_line) })
    }

    /// Checks that it runs.
    ///
    /// # Errors
    /// When it has ended; in a sentence with its last line on stderr.
    pub fn check_running(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let reason = format!("`{}` ended with {status}", self.name);
                Err(with_last_line(reason, self.stderr.last_line()))
            }
            Err(error) => Err(format!("`{}` is lost: {error}", self.name)),
        }
    }

    /// Says whether it has ended within a time.
    fn ends_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(TICK);
        }
        true
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        if self.ends_within(LEAVE_WITHIN) {
            return;
        }
        // It passes the signal on to what it started.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if !self.ends_within(END_WITHIN) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
