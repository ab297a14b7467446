//! A local process that starts agents on other hosts, such as `srun` or `mpirun`.
//!
//! [`Starter`] passes the agents' environment to the process and relays its lines on stderr. The
//! process normally exits when the agents do; otherwise it gets SIGTERM, and SIGKILL if that
//! doesn't help. Agents don't notice that their starter is gone, only that their controller is.
#![allow(clippy::disallowed_methods, reason = "waits for a process with a timeout")]

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::PeerGone;
use crate::remote::{LEAVE_WITHIN, StderrReader, with_last_line};

/// Time for it to stop its processes after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(5);

/// How often we check whether it has exited.
const TICK: Duration = Duration::from_millis(20);

/// A process that starts agents on other hosts.
pub struct Starter {
    name: String,
    child: Child,
    stderr: StderrReader,
}

impl Starter {
    /// Starts the process. `on_line` gets each line that it, or an agent through it, writes to
    /// stderr.
    pub fn start(
        command: &mut Command,
        on_line: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, PeerGone> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C is meant for the controller, which then shuts things down in order.
        command.process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Err(PeerGone(format!("cannot start `{name}`: {error}"))),
        };
        let Some(stderr) = child.stderr.take() else { unreachable!("stderr is a pipe") };
        Ok(Self { name, child, stderr: StderrReader::start(stderr, on_line) })
    }

    /// Checks that the process is running.
    ///
    /// # Errors
    /// If it has exited. The error is a sentence with its last line on stderr.
    pub fn check_running(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let reason = format!("`{}` ended with {status}", self.name);
                Err(with_last_line(reason, self.stderr.last_line()))
            }
            Err(error) => Err(format!("cannot wait for `{}`: {error}", self.name)),
        }
    }

    /// Waits up to `limit` and returns true if the process has exited.
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
        // It forwards the signal to the processes it started.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if !self.ends_within(END_WITHIN) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
