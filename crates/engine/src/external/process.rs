//! Runs a program to its end in its own process group, measures its time, and limits its output.
//!
//! No shell is involved, since commands are argument vectors. [`run`] returns when the program
//! exits, when its time limit is reached, or when a stop is requested. In the latter two cases, the
//! whole group is terminated, first with SIGTERM. Anything the program leaves behind in its group
//! is killed in any case, so nothing keeps running. Memory is bounded no matter what the program
//! prints.
//!
//! **Source:** wait4(2), getrusage(2), pidfd_open(2), setpgid(2).
#![allow(unsafe_code)]

use std::io::{ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::clock::Clock;
use crate::limits::TICK;
use crate::stop::Stop;

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum number of bytes of stderr to keep, taken from its end.
const STDERR_KEPT: usize = 4 << 10;

/// Maximum number of lines to show in an error.
const LINES_SHOWN: usize = 5;

/// A command and its limits.
pub(super) struct Request<'a> {
    /// Program and arguments.
    pub command: &'a [String],
    /// The directory to run in.
    pub directory: &'a Path,
    /// Time limit in nanoseconds.
    pub limit_ns: Option<u64>,
    /// Maximum number of bytes of stdout to keep, taken from its end.
    pub(crate) stdout_kept: usize,
    /// Use the C locale, so that numbers and messages can be parsed.
    pub(crate) plain_locale: bool,
}

/// The environment in which a program is watched.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    /// Set to make the program stop.
    pub stop: &'a Stop,
    /// The clock that measures it.
    pub clock: &'a dyn Clock,
    /// Called at certain moments of the program, outside of it.
    pub observe: &'a dyn Fn(ProgramMoment),
}

/// A moment at which a program can be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramMoment {
    /// The process with this ID is running; reported about twenty times per second.
    Running(u32),
    /// It has exited but hasn't been reaped, so its counters can still be read.
    Ended(u32),
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// We stopped it after its time limit.
    TimedOut,
    /// We stopped it because a stop was requested.
    Stopped,
}

/// Resources used by a program and the children it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Peak resident memory of the largest process, in bytes.
    pub rss_max_bytes: u64,
    /// Bytes read from storage, including processes that were waited for.
    pub storage_read_bytes: u64,
}

/// A program that has ended.
#[derive(Debug)]
pub(super) struct FinishedProgram {
    pub how: ProgramEnd,
    /// Time from start to end.
    pub wall_ns: u64,
    /// Resources that it used.
    pub usage: Usage,
    /// The end of its stdout.
    pub stdout: Vec<u8>,
    /// The end of its stderr.
    stderr: Vec<u8>,
}

impl FinishedProgram {
    /// Returns its stderr as text.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Describes how it failed, with its last lines of output. Returns `None` if it succeeded.
    pub(crate) fn failure(&self) -> Option<String> {
        let wall = model::units::Nanos(self.wall_ns);
        let how = match self.how {
            ProgramEnd::Exited(0) => return None,
            ProgramEnd::Exited(code) => format!("exit code {code}"),
            ProgramEnd::Killed(signal) => format!("killed by signal {signal}"),
            ProgramEnd::TimedOut => {
                format!("still running after {wall} and killed (hint: use a longer timeout)")
            }
            ProgramEnd::Stopped => format!("stopped after {wall}"),
        };
        // Some tools report errors on stdout.
        let output = if self.stderr.is_empty() { &self.stdout } else { &self.stderr };
        let output = String::from_utf8_lossy(output);
        let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        Some(if last.is_empty() { how } else { format!("{how}: {}", last.join(" | ")) })
    }
}

/// Runs a command to its end.
///
/// # Errors
/// If it cannot be started: the error of the system call.
pub(super) fn run(request: &Request<'_>, watch: Watch<'_>) -> std::io::Result<FinishedProgram> {
    let begun_ns = watch.clock.now_ns();
    let mut running = Running::start(request)?;
    let mut how = None;
    // First the end of the time limit, later the end of the grace period after SIGTERM.
    let mut deadline_ns = request.limit_ns.map(|limit| begun_ns + limit);
    let pid = running.group.as_raw_nonzero().get().cast_unsigned();
    while !running.wait(TICK)? {
        (watch.observe)(ProgramMoment::Running(pid));
        let now_ns = watch.clock.now_ns();
        let late = deadline_ns.is_some_and(|deadline| now_ns >= deadline);
        let stopped = watch.stop.is_set();
        match how {
            None if late || stopped => {
                how = Some(if stopped { ProgramEnd::Stopped } else { ProgramEnd::TimedOut });
                running.signal(Signal::TERM);
                deadline_ns = Some(now_ns + GRACE.as_nanos() as u64);
            }
            // The grace period is over.
            Some(_) if late => running.signal(Signal::KILL),
            _ => {}
        }
    }
    let wall_ns = watch.clock.now_ns() - begun_ns;
    (watch.observe)(ProgramMoment::Ended(pid));
    // Kill the rest of the group before draining the pipes, since it may hold them open.
    let (ended, usage) = running.reap();
    running.drain()?;
    let [stdout, stderr] = running.pipes.map(|pipe| pipe.kept);
    Ok(FinishedProgram { how: how.unwrap_or(ended), wall_ns, usage, stdout, stderr })
}

/// A process group, which is killed when this value is dropped.
struct Running {
    group: Pid,
    ended: OwnedFd,
    pipes: [Pipe; 2],
    guard: Guard,
}

/// Kills and reaps a group that was not reaped.
struct Guard {
    group: Pid,
    reaped: bool,
}

/// One of a program's streams, and the part of its output we keep.
struct Pipe {
    stream: Option<std::fs::File>,
    kept: Vec<u8>,
    kept_max: usize,
}

impl Running {
    fn start(request: &Request<'_>) -> std::io::Result<Self> {
        let child = spawn_program(request)?;
        let group = Pid::from_child(&child);
        let guard = Guard { group, reaped: false };
        let ended = pidfd_open(group, PidfdFlags::empty())?;
        let stdout = child.stdout.map(|stream| OwnedFd::from(stream).into());
        let stderr = child.stderr.map(|stream| OwnedFd::from(stream).into());
        let pipes = [Pipe::new(stdout, request.stdout_kept)?, Pipe::new(stderr, STDERR_KEPT)?];
        Ok(Self { group, ended, pipes, guard })
    }

    fn signal(&self, signal: Signal) {
        // Fails if the group is gone.
        let _ = kill_process_group(self.group, signal);
    }

    /// Waits for the end or for output, at most for `most`. Returns true if the program has ended.
    fn wait(&mut self, most: Duration) -> std::io::Result<bool> {
        let most = Timespec::try_from(most).map_err(std::io::Error::other)?;
        let mut polled = Vec::with_capacity(3);
        polled.push(PollFd::new(&self.ended, PollFlags::IN));
        // Maps the further entries to pipes, since closed ones have none.
        let mut open = Vec::with_capacity(2);
        for (number, pipe) in self.pipes.iter().enumerate() {
            if let Some(stream) = &pipe.stream {
                polled.push(PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN));
                open.push(number);
            }
        }
        match poll(&mut polled, Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (number, is_ready) in open.into_iter().zip(&ready[1..]) {
            if *is_ready {
                self.pipes[number].read_available()?;
            }
        }
        Ok(ready[0])
    }

    /// Reads the rest of the pipes.
    fn drain(&mut self) -> std::io::Result<()> {
        for pipe in &mut self.pipes {
            pipe.read_available()?;
        }
        Ok(())
    }

    /// Kills what the program left behind, and returns its status and usage.
    fn reap(&mut self) -> (ProgramEnd, Usage) {
        // Signal before reaping: until then, no other process can get this ID.
        self.signal(Signal::KILL);
        self.guard.reaped = true;
        wait4(self.group)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = kill_process_group(self.group, Signal::KILL);
            wait4(self.group);
        }
    }
}

impl Pipe {
    fn new(stream: Option<std::fs::File>, kept_max: usize) -> std::io::Result<Self> {
        if let Some(stream) = &stream {
            let flags = fcntl_getfl(stream)?;
            fcntl_setfl(stream, flags | OFlags::NONBLOCK)?;
        }
        Ok(Self { stream, kept: Vec::new(), kept_max })
    }

    /// Reads what is available. Closes a stream that has ended.
    fn read_available(&mut self) -> std::io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut piece = [0; 16 << 10];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => {
                    self.stream = None;
                    return Ok(());
                }
                Ok(len) => self.kept.extend_from_slice(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            // Keep only the end, since results and errors are printed last.
            let surplus = self.kept.len().saturating_sub(self.kept_max);
            self.kept.drain(..surplus);
        }
    }
}

fn spawn_program(request: &Request<'_>) -> std::io::Result<Child> {
    let Some((program, arguments)) = request.command.split_first() else {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "the command is empty"));
    };
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(request.directory).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if request.plain_locale {
            command.env("LC_ALL", "C");
        }
        command.spawn()
    };
    match start(program) {
        // Some programs are in a folder that isn't in the PATH of a normal user.
        Err(error) if error.kind() == ErrorKind::NotFound && !program.contains('/') => {
            start(&format!("/usr/sbin/{program}")).map_err(|_| error)
        }
        started => started,
    }
}

/// Waits for a child and returns its status and usage.
fn wait4(child: Pid) -> (ProgramEnd, Usage) {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let result = loop {
        // SAFETY: both pointers are to our own memory, which is large enough and outlives the call.
        let result = unsafe {
            libc::wait4(child.as_raw_nonzero().get(), &raw mut status, 0, usage.as_mut_ptr())
        };
        if result >= 0 || std::io::Error::last_os_error().kind() != ErrorKind::Interrupted {
            break result;
        }
    };
    if result < 0 {
        return (ProgramEnd::Killed(0), Usage::default());
    }
    // SAFETY: it was zeroed, which is a valid value, and wait4 may have written to it.
    let usage = unsafe { usage.assume_init() };
    let how = if libc::WIFSIGNALED(status) {
        ProgramEnd::Killed(libc::WTERMSIG(status))
    } else {
        ProgramEnd::Exited(libc::WEXITSTATUS(status))
    };
    let usage = Usage {
        user_ns: timeval_ns(usage.ru_utime),
        system_ns: timeval_ns(usage.ru_stime),
        // The kernel reports memory in KiB and I/O in sectors of 512 bytes: getrusage(2).
        rss_max_bytes: usage.ru_maxrss as u64 * 1024,
        storage_read_bytes: usage.ru_inblock as u64 * 512,
    };
    (how, usage)
}
const fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn run_for(command: &[String], limit_ns: Option<u64>, is_stopped: bool) -> FinishedProgram {
        let clock = SystemClock::new();
        let stop = Stop::default();
        if is_stopped {
            stop.set();
        }
        let directory = Path::new("/");
        let request =
            Request { command, directory, limit_ns, stdout_kept: 100, plain_locale: true };
        run(&request, Watch { stop: &stop, clock: &clock, observe: &|_| {} }).unwrap()
    }

    #[test]
    fn reports_running_and_ended_program() {
        let clock = SystemClock::new();
        let stop = Stop::default();
        let moments = std::cell::RefCell::new(Vec::new());
        let observe = |moment| {
            if let ProgramMoment::Ended(pid) = moment {
                let times = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat"));
                assert!(times.is_ok(), "{times:?}");
            }
            moments.borrow_mut().push(moment);
        };
        let command = words("sleep 0.3");
        let request = Request {
            command: &command,
            directory: Path::new("/"),
            limit_ns: None,
            stdout_kept: 0,
            plain_locale: true,
        };
        run(&request, Watch { stop: &stop, clock: &clock, observe: &observe }).unwrap();
        let moments = moments.into_inner();
        let (Some(ProgramMoment::Running(first)), Some(ProgramMoment::Ended(last))) =
            (moments.first(), moments.last())
        else {
            panic!("{moments:?}")
        };
        assert_eq!(first, last);
    }

    #[test]
    fn records_time_and_resources() {
        let ended = run_for(&words("dd if=/dev/zero of=/dev/null bs=1M count=2000"), None, false);
        assert_eq!((ended.how, ended.failure()), (ProgramEnd::Exited(0), None));
        let Usage { user_ns, system_ns, rss_max_bytes, .. } = ended.usage;
        assert!(user_ns + system_ns > 0 && user_ns + system_ns <= ended.wall_ns * 2, "{ended:?}");
        assert!((1 << 20..1 << 28).contains(&rss_max_bytes), "{ended:?}");
        assert!(ended.stderr().contains("2097152000 bytes"), "{}", ended.stderr());
    }

    #[test]
    fn includes_code_and_last_lines() {
        let ended = run_for(&words("dd if=/not/there of=/dev/null"), None, false);
        assert_eq!(ended.how, ProgramEnd::Exited(1));
        let failure = ended.failure().unwrap();
        assert!(failure.starts_with("exit code 1: dd: ") && failure.contains("/not/there"));
    }

    #[test]
    fn keeps_end_of_long_output() {
        let ended = run_for(&words("seq 1 200000"), None, false);
        assert_eq!(ended.stdout.len(), 100);
        assert!(ended.stdout.ends_with(b"199999\n200000\n"));
    }

    #[test]
    fn ends_process_group_on_timeout() {
        // The shell's child outlives it unless the whole group is killed.
        let command = ["sh", "-c", "sleep 77.25 & echo $!; wait"].map(str::to_owned);
        for (limit_ns, stop, how) in
            [(Some(300_000_000), false, ProgramEnd::TimedOut), (None, true, ProgramEnd::Stopped)]
        {
            let ended = run_for(&command, limit_ns, stop);
            assert_eq!(ended.how, how);
            assert!(ended.wall_ns < 2_000_000_000, "{ended:?}");
            let child = String::from_utf8(ended.stdout).unwrap();
            let child = child.trim();
            let is_gone = (0..200).any(|_| {
                let state = std::fs::read_to_string(format!("/proc/{child}/stat"));
                let gone = state.map_or(true, |state| state.contains(") Z"));
                if !gone {
                    std::thread::park_timeout(Duration::from_millis(10));
                }
                gone
            });
            assert!(child.is_empty() || is_gone, "{child} goes on");
        }
    }
}
