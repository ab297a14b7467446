//! Runs other programs: to completion, captured, or in the background until dropped.
//!
//! Main type: [`Background`], a child that is killed and reaped when it goes out of scope, even if
//! a check panics; [`guard`] ends it if this process is killed. Every error contains the command
//! line that failed. [`check`] is told what we are waiting for.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::check;
use crate::guard::{self, Ticket};

/// Pause between two checks of a condition.
const POLL: Duration = Duration::from_millis(20);

/// Returns the command line of `command`, for messages.
pub fn command_line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

fn spawn_command(command: &mut Command) -> Result<Child> {
    let name = command_line(command);
    let child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
    check::note_start(child.id());
    check::note_wait(&format!("`{name}`"));
    Ok(child)
}

/// Runs a command with its output on the terminal.
///
/// # Errors
/// If it can't be started, or its exit code isn't 0.
pub fn run_command(command: &mut Command) -> Result<()> {
    let mut child = spawn_command(command)?;
    let status = child.wait();
    check::note_end(child.id());
    let status = status?;
    ensure!(status.success(), "`{}` exited with {status}", command_line(command));
    Ok(())
}

/// Runs a command like [`run_command`], and kills it if it exceeds a time limit.
///
/// # Errors
/// If it can't be started, takes longer, or its exit code isn't 0.
pub fn run_within(limit: Duration, command: &mut Command) -> Result<()> {
    // Only the command itself is killed. Compilers started by cargo end by themselves, each after
    // its crate.
    let code = Background::start(command)?.await_end(limit)?;
    ensure!(code == Some(0), "`{}` exited with {}", command_line(command), describe_code(code));
    Ok(())
}

fn describe_code(code: Option<i32>) -> String {
    match code {
        Some(code) => format!("exit code {code}"),
        None => "a signal".to_owned(),
    }
}

/// Runs a command and returns its output, whatever its exit code.
pub fn capture_output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = spawn_command(command)?;
    let id = child.id();
    let output = child.wait_with_output();
    check::note_end(id);
    Ok(output?)
}

/// Runs a command and returns its stdout as bytes.
///
/// # Errors
/// If it can't be started or fails; the message contains the end of its stderr.
pub fn capture_stdout(command: &mut Command) -> Result<Vec<u8>> {
    let output = capture_output(command)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = stderr.lines().collect();
        let tail = lines[lines.len().saturating_sub(8)..].join("\n");
        bail!("`{}` exited with {}:\n{tail}", command_line(command), output.status);
    }
    Ok(output.stdout)
}

/// Runs a command and returns its stdout as text.
///
/// # Errors
/// Same as [`capture_stdout`]; also if the output isn't UTF-8.
pub fn capture_text(command: &mut Command) -> Result<String> {
    let bytes = capture_stdout(command)?;
    String::from_utf8(bytes)
        .with_context(|| format!("`{}` printed invalid UTF-8", command_line(command)))
}

/// Returns a program with its environment, preceded by a shell line, which gets one word as `$0`.
pub fn through_shell(line: &str, word: &Path, program: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{line}; exec \"$@\"")]).arg(word);
    command.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

/// Returns the same command in its own session, which the kernel schedules separately from
/// everything else its user runs. fio does that by itself, and would otherwise get a larger share
/// of a busy machine than the programs it is compared with.
///
/// **Source:** sched(7), "The autogroup feature"; setsid(1); fio's `fork_main`.
pub fn in_own_session(command: &Command) -> Command {
    let mut apart = Command::new("setsid");
    apart.arg("--wait").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => apart.env(name, value),
            None => apart.env_remove(name),
        };
    }
    apart
}

/// Returns true if a program of this name is on PATH.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Some servers are in directories that are not on a plain user's PATH.
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    dirs.into_iter().any(|dir| dir.join(program).is_file())
}

/// A program running in the background until dropped.
pub struct Background {
    child: Child,
    name: String,
    // Withdrawn when the process is gone.
    _ticket: Ticket,
}

impl Background {
    /// Starts a command in the background.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = spawn_command(command)?;
        let ticket = guard::kill_process(child.id());
        Ok(Self { child, name: command_line(command), _ticket: ticket })
    }

    /// Starts `command` and returns it with the first line that it prints on stdout.
    ///
    /// The rest of its stdout is read and dropped, so that it never blocks on a full pipe.
    ///
    /// # Errors
    /// If it can't be started, or ends, or is silent for `patience`.
    pub fn start_with_first_line(
        command: &mut Command,
        patience: Duration,
    ) -> Result<(Self, String)> {
        command.stdout(Stdio::piped()).stdin(Stdio::null());
        let mut started = Self::start(command)?;
        let stdout = started.child.stdout.take().expect("stdout is a pipe");
        let (sender, first) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Only the first line is awaited; later sends may fail.
                let _ = sender.send(line);
            }
        });
        check::note_wait(&format!("the first line of `{}`", started.name));
        let line = first.recv_timeout(patience).with_context(|| {
            format!("`{}` printed no line within {} s", started.name, patience.as_secs())
        })?;
        Ok((started, line))
    }

    /// Waits until something accepts TCP connections on the loopback `port`.
    ///
    /// # Errors
    /// If the program ends first, or nothing answers for `patience`.
    pub fn await_port(&mut self, port: u16, patience: Duration) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        check::note_wait(&format!("`{}` to accept connections on port {port}", self.name));
        let deadline = Instant::now() + patience;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("`{}` exited with {status} before port {port} answered", self.name);
            }
            ensure!(Instant::now() < deadline, "`{}`: port {port} does not answer", self.name);
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has ended, without waiting.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it at once (SIGKILL) and reaps it.
    pub fn kill(&mut self) {
        // Both fail only if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
        check::note_end(self.child.id());
    }

    /// Interrupts it like Ctrl-C (SIGINT), and waits for it like [`Background::await_end`].
    pub fn interrupt(&mut self, patience: Duration) -> Result<Option<i32>> {
        capture_stdout(Command::new("kill").args(["-INT", &self.id().to_string()]))?;
        self.await_end(patience)
    }

    /// Waits for its end and returns the exit code; `None` if a signal ended it.
    ///
    /// # Errors
    /// If it hasn't ended within `patience`.
    pub fn await_end(&mut self, patience: Duration) -> Result<Option<i32>> {
        check::note_wait(&format!("the end of `{}`", self.name));
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            let seconds = patience.as_secs();
            ensure!(
                Instant::now() < deadline,
                "the time limit of {seconds} s was exceeded by `{}`",
                self.name
            );
            thread::sleep(POLL);
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a loopback port that is currently free for TCP.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Unit of CPU time in the kernel's user interface: `USER_HZ` is 100 on every architecture that we
/// build for.
const TICK_NS: u64 = 10_000_000;

/// Returns the CPU time of all children that have ended and been waited for, including all of their
/// threads, in nanoseconds.
///
/// **Source:** proc_pid_stat(5), `cutime` and `cstime`, fields 16 and 17.
///
/// # Errors
/// If there is no `/proc`.
pub fn children_cpu_ns() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The name, field 2, may contain spaces; it ends with the last parenthesis.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The rest starts with field 3.
    let [user, system] = *fields.get(13..15).context("/proc/self/stat has changed")? else {
        bail!("/proc/self/stat has changed");
    };
    Ok((user.parse::<u64>()? + system.parse::<u64>()?) * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_command_at_time_limit() {
        let begun = Instant::now();
        let error = run_within(Duration::from_secs(1), Command::new("sleep").arg("60"));
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "the time limit of 1 s was exceeded by `sleep 60`");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn reports_exit_code_of_command() {
        let run = |script: &str| {
            run_within(Duration::from_secs(60), Command::new("sh").args(["-c", script]))
        };
        assert!(run("exit 0").is_ok());
        assert_eq!(
            run("exit 7").unwrap_err().to_string(),
            "`sh -c exit 7` exited with exit code 7"
        );
    }
}
