//! Runs programs on the host, given as argument vectors with time limits, and reports helpful
//! errors.
//!
//! A [`Runner`] that isn't root uses `sudo -n`. Programs that it waits for get the undo log's lock
//! file as their stdin, and so hold the lock until they exit. Whoever gets the lock later can be
//! sure that nothing started by an earlier dfsbench is still running, no matter how that one ended.

pub(crate) mod packages;
pub(crate) mod search;

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use model::system::{Secrets, has_secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process_group, pidfd_open};

use crate::error::LabError;
use crate::host::kernel_settings;

/// Maximum output kept per stream, in bytes.
const KEPT_MAX: u64 = 1 << 20;
/// Time limit for a killed program to exit.
const GRACE: Duration = Duration::from_secs(2);
/// How often the campaign's stop flag is checked while a program is running.
const STOP_TICK: Duration = Duration::from_millis(100);
/// Where programs are looked for, independent of the environment.
const FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Time limit for most programs.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Time limit for programs that write to whole devices.
pub(crate) const LONG: Duration = Duration::from_secs(900);

/// The user that a program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunAs {
    /// Root, by means of sudo if necessary.
    Root,
    /// The current user, if the program needs their keys and files.
    Caller,
}

/// Runs programs as root.
#[derive(Debug, Default)]
pub(crate) struct Runner {
    lock: Option<File>,
    /// Interrupts programs we wait for when set. `None` to ignore stop requests.
    stop: Option<Arc<AtomicBool>>,
    /// Programs that keep running, so that we can reap them when they exit.
    started: Vec<Child>,
    /// Values of secrets, which commands and files contain as markers.
    pub(crate) secrets: Secrets,
}

/// The output of a program.
#[derive(Debug)]
pub(crate) struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Finds a program by name.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return if path.exists() { Some(path) } else { None };
    }
    FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

/// Returns true if this process runs as root.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

impl Runner {
    /// Creates a runner whose programs hold a lock while they run.
    pub(crate) const fn with_lock(lock: File) -> Self {
        Self { lock: Some(lock), stop: None, started: Vec::new(), secrets: Secrets::NONE }
    }

    /// Creates a runner without a lock that knows secrets.
    pub(crate) const fn with_secrets(secrets: Secrets) -> Self {
        Self { lock: None, stop: None, started: Vec::new(), secrets }
    }

    /// From now on, kills programs when `stop` is set, until [`Runner::ignore_stop`] is called.
    /// Meant for changes that may be abandoned halfway, not for restoring a host.
    pub(crate) fn heed_stop(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    /// From now on, waits for programs to finish even if the campaign is being stopped.
    pub(crate) fn ignore_stop(&mut self) {
        self.stop = None;
    }

    /// Runs a program to its end and returns its output, regardless of the exit code.
    ///
    /// # Errors
    /// If the program is missing, cannot be started, needs a password or exceeds its time limit.
    pub(crate) fn output(
        &self,
        argv: &[impl AsRef<str>],
        limit: Duration,
    ) -> Result<Output, LabError> {
        let mut command = command(argv, RunAs::Root, &self.secrets)?;
        command.stdin(self.stdin(argv)?);
        let mut child = spawn(&mut command, argv)?;
        self.await_end(&mut child, argv, limit)
    }

    /// Runs a program like [`Runner::output`] and returns its stdout.
    ///
    /// # Errors
    /// Same as [`Runner::output`]. Also if the exit code isn't 0; the error then contains the
    /// program's stderr.
    pub(crate) fn run(
        &self,
        argv: &[impl AsRef<str>],
        limit: Duration,
    ) -> Result<String, LabError> {
        let output = self.output(argv, limit)?;
        if output.status.success() { Ok(output.stdout) } else { Err(failed(argv, &output)) }
    }

    /// Runs a program as the current user and returns its output.
    ///
    /// # Errors
    /// If the program is missing, cannot be started or exceeds its time limit.
    pub(crate) fn as_caller(argv: &[impl AsRef<str>], limit: Duration) -> Result<Output, LabError> {
        let mut command = command(argv, RunAs::Caller, &Secrets::NONE)?;
        command.stdin(Stdio::null());
        let mut child = spawn(&mut command, argv)?;
        Self::default().await_end(&mut child, argv, limit)
    }

    /// Writes to a kernel setting, such as a file below /proc/sys.
    ///
    /// # Errors
    /// If the kernel rejects the value.
    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), LabError> {
        kernel_settings::check(path)?;
        if is_root() {
            let written = write_existing(path, text);
            return written.map_err(|error| LabError::file("write", path, error));
        }
        // A shell redirection would open the file as the current user. `tee` opens it as root.
        let name = path.display().to_string();
        let argv = ["tee", "--", name.as_str()];
        let mut command = command(&argv, RunAs::Root, &Secrets::NONE)?;
        command.stdin(Stdio::piped());
        let mut child = spawn(&mut command, &argv)?;
        if let Some(mut stdin) = child.stdin.take() {
            // If tee failed, its exit code and stderr say why.
            let _ = stdin.write_all(text.as_bytes());
        }
        let output = self.await_end(&mut child, &argv, SOON)?;
        if output.status.success() { Ok(()) } else { Err(failed(&argv, &output)) }
    }

    /// Starts a program that keeps running, in its own process group and without the lock.
    ///
    /// `argv[0]` is a path by which it can be found later. Its stderr goes to `stderr`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(
        &mut self,
        argv: &[String],
        stderr: Stdio,
        user: RunAs,
    ) -> Result<(), LabError> {
        let mut command = command(argv, user, &self.secrets)?;
        // Without the lock: a server that outlives this process must not block `clean`.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        command.process_group(0);
        let child = command.spawn().map_err(|error| LabError::start(argv, error))?;
        self.started.push(child);
        Ok(())
    }

    /// Interrupts a wait if the campaign is being stopped.
    ///
    /// # Errors
    /// If it is.
    pub(crate) fn check_stop(&self, waiting_for: &str) -> Result<(), LabError> {
        if self.is_stopped() {
            return Err(LabError::Stopped { command: waiting_for.to_owned() });
        }
        Ok(())
    }

    /// Reaps started programs that have exited.
    pub(crate) fn reap(&mut self) {
        self.started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// Returns the stdin for a program we wait for: the lock file, if there is one.
    ///
    /// flock(2) locks belong to the open file description, which the duplicate shares. So the lock
    /// is held until the program exits, even if this process is killed before.
    fn stdin(&self, argv: &[impl AsRef<str>]) -> Result<Stdio, LabError> {
        let Some(lock) = &self.lock else { return Ok(Stdio::null()) };
        match lock.try_clone() {
            Ok(lock) => Ok(Stdio::from(lock)),
            Err(error) => Err(LabError::start(argv, error)),
        }
    }

    fn await_end(
        &self,
        child: &mut Child,
        argv: &[impl AsRef<str>],
        limit: Duration,
    ) -> Result<Output, LabError> {
        // Read both streams while the program is running, since it would block on a full pipe.
        let stdout = keep(child.stdout.take());
        let stderr = keep(child.stderr.take());
        let mut left = limit;
        loop {
            let tick = left.min(STOP_TICK);
            if wait(child, tick).map_err(|error| LabError::start(argv, error))? {
                break;
            }
            left -= tick;
            if self.is_stopped() || left.is_zero() {
                Self::kill(child);
                let command = show(argv);
                let seconds = limit.as_secs();
                if self.is_stopped() {
                    return Err(LabError::Stopped { command });
                }
                return Err(LabError::TooSlow { command, seconds });
            }
        }
        let status = child.wait().map_err(|error| LabError::start(argv, error))?;
        Ok(Output { status, stdout: wait_for_text(&stdout), stderr: wait_for_text(&stderr) })
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }

    /// Kills a program that takes too long, along with its children: `mount` waits for a
    /// `mount.nfs` that would retry forever. If it is stuck in the kernel, we leave it there.
    fn kill(child: &mut Child) {
        if !is_root() {
            // It runs as root, so only root can kill it. A negative number stands for a process
            // group.
            let group = format!("-{}", child.id());
            let _ = Self::default().output(&["kill", "-KILL", "--", group.as_str()], GRACE);
        }
        // Fails if it has just exited.
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        if let Ok(true) = wait(child, GRACE) {
            let _ = child.wait();
        }
    }
}

/// Writes to an existing file. Never creates one: a setting this kernel doesn't have must not turn
/// into a regular file.
fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Starts a program as the current user, sends it some input, reads `answer_bytes` of its answer,
/// and kills it.
///
/// # Errors
/// If the answer doesn't arrive in time. The error contains the last line of its stderr.
pub(crate) fn exchange(
    argv: &[impl AsRef<str>],
    input: &[u8],
    answer_bytes: usize,
    limit: Duration,
) -> Result<Vec<u8>, String> {
    let mut child = spawn_with_input(argv).map_err(|error| error.to_string())?;
    let (sender, answers) = mpsc::channel();
    let complaints = keep(child.stderr.take());
    if let Some(mut stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut answer = vec![0; answer_bytes];
            // If the answer is incomplete, the channel closes and ends the wait below.
            if stdout.read_exact(&mut answer).is_ok() {
                let _ = sender.send(answer);
            }
        });
    }
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &mut stdin {
        // If the program has already exited, its stderr says why.
        let _ = stdin.write_all(input);
    }
    let answer = answers.recv_timeout(limit);
    // Keep stdin open until now: ssh closes the connection when its input ends, which could be
    // before the answer arrives.
    drop(stdin);
    // Fails if it has just exited.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
    if let Ok(answer) = answer {
        return Ok(answer);
    }
    match filled_lines(&wait_for_text(&complaints)).last() {
        Some(last) => Err((*last).to_owned()),
        None => Err(format!("no answer within {} s", limit.as_secs())),
    }
}

fn spawn_with_input(argv: &[impl AsRef<str>]) -> Result<Child, LabError> {
    let mut command = command(argv, RunAs::Caller, &Secrets::NONE)?;
    command.stdin(Stdio::piped());
    spawn(&mut command, argv)
}

/// Formats an argument vector for people, with quotes around words that a shell would split.
pub(crate) fn show<T: AsRef<str>>(argv: &[T]) -> String {
    let mut words: Vec<_> = argv.iter().map(|word| quote(word.as_ref())).collect();
    // The folders and variables of a recipe's programs would hide the command.
    let lead = argv
        .windows(2)
        .position(|pair| pair[0].as_ref() == "env" && pair[1].as_ref().starts_with("PATH="));
    if let Some(at) = lead {
        let rest = argv[at + 1..].iter().position(|word| !word.as_ref().contains('='));
        words.drain(at..rest.map_or(words.len(), |rest| at + 1 + rest));
    }
    words.join(" ")
}

fn quote(word: &str) -> String {
    if word.is_empty() || word.contains(needs_quotes) {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        word.to_owned()
    }
}

fn needs_quotes(letter: char) -> bool {
    !letter.is_ascii_alphanumeric() && !"-_=/.,:@+%".contains(letter)
}

/// Returns the lines of a text that aren't blank.
pub(crate) fn filled_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// Joins the last `count` lines.
pub(crate) fn join_last(lines: &[&str], count: usize) -> String {
    lines[lines.len().saturating_sub(count)..].join("; ")
}

fn command(argv: &[impl AsRef<str>], user: RunAs, secrets: &Secrets) -> Result<Command, LabError> {
    let (name, arguments) = argv.split_first().expect("a command is never empty");
    let Some(path) = find(name.as_ref()) else { return Err(packages::missing(name.as_ref())) };
    let mut command = if user == RunAs::Root && !is_root() {
        let Some(sudo) = find("sudo") else {
            return Err(LabError::NotRoot { command: show(argv) });
        };
        let mut command = Command::new(sudo);
        // Nobody is there to type a password, so with `-n` sudo fails immediately if it needs one.
        command.arg("-n").arg(path);
        command
    } else {
        Command::new(path)
    };
    for argument in arguments {
        let argument = argument.as_ref();
        if has_secret(argument) {
            let (name, value) = reveal_assignment(argument, secrets)?;
            command.env(name, value);
        } else {
            command.arg(argument);
        }
    }
    // We look for words such as "busy" in messages, so they must not be translated.
    command.env("LC_ALL", "C").env("PATH", FOLDERS.join(":"));
    // Don't let blkid cache information about our temporary devices.
    command.env("BLKID_FILE", "/dev/null");
    Ok(command)
}

/// Returns the name and value of an environment variable whose value is secret. It is inherited
/// instead of being an argument of env(1), which every user of the host could see.
fn reveal_assignment<'a>(
    argument: &'a str,
    secrets: &Secrets,
) -> Result<(&'a str, String), LabError> {
    let refused = |what: &str| Err(LabError::Refused(format!("{what} in `{argument}`")));
    let Some((name, value)) = argument.split_once('=').filter(|(name, _)| !has_secret(name)) else {
        return refused("every user of the host could see the secret");
    };
    match secrets.reveal(value) {
        Ok(value) => Ok((name, value.into_owned())),
        Err(_) => refused("this host was not sent the secret"),
    }
}

fn spawn(command: &mut Command, argv: &[impl AsRef<str>]) -> Result<Child, LabError> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A separate process group, so that its children can be killed with it.
    command.process_group(0);
    command.spawn().map_err(|error| LabError::start(argv, error))
}

/// Reads a stream to its end on a separate thread and keeps the beginning. A missing stream yields
/// no text.
fn keep(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let Some(mut stream) = stream else { return receiver };
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        // If reading fails, use what we have. The exit code shows whether the program failed.
        let _ = stream.by_ref().take(KEPT_MAX).read_to_end(&mut kept);
        let _ = io::copy(&mut stream, &mut io::sink());
        // The receiver may have given up.
        let _ = sender.send(String::from_utf8_lossy(&kept).into_owned());
    });
    receiver
}

/// Waits for the text read by [`keep`], but not forever: a child left behind by the program may
/// keep the stream open.
fn wait_for_text(stream: &Receiver<String>) -> String {
    stream.recv_timeout(GRACE).unwrap_or_default()
}

/// Waits for a child to exit. Returns true if it does so within the limit.
///
/// A pidfd becomes readable when its process exits; the process isn't reaped. **Source:**
/// pidfd_open(2).
fn wait(child: &Child, limit: Duration) -> io::Result<bool> {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    loop {
        let mut polled = [PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut polled, Some(&limit)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn failed(argv: &[impl AsRef<str>], output: &Output) -> LabError {
    let printed = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    if printed.starts_with("sudo:") {
        return LabError::NotRoot { command: show(argv) };
    }
    let message = join_last(&filled_lines(printed), 4);
    LabError::Failed { command: show(argv), status: output.status.to_string(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_words_for_shell() {
        assert_eq!(show(&["mount", "-o", "size=64m,noatime"]), "mount -o size=64m,noatime");
        assert_eq!(show(&["a b", "", "it's"]), r"'a b' '' 'it'\''s'");
    }

    #[test]
    fn names_package_of_missing_program() {
        let error = packages::missing("mkfs.xfs").to_string();
        assert!(
            error.contains("mkfs.xfs") && error.contains("apt-get install xfsprogs"),
            "{error}"
        );
        let unknown = packages::missing("dittofs").to_string();
        assert!(unknown.contains("`dittofs`") && !unknown.contains("apt-get"), "{unknown}");
    }

    #[test]
    fn ends_slow_program() {
        if !is_root() && find("sudo").is_none() {
            return;
        }
        let error = Runner::default().output(&["sleep", "30"], Duration::from_millis(50));
        assert!(matches!(error, Err(LabError::TooSlow { .. })), "{error:?}");
    }

    /// Reads the process ID that a test's shell wrote to a file.
    fn written_number(file: &Path) -> Option<i32> {
        fs::read_to_string(file).ok()?.trim().parse().ok()
    }

    /// Returns true if a process is running and not a zombie.
    fn runs(number: i32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    #[test]
    fn ends_children_of_slow_program() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("number");
        // Like `mount` waiting for `mount.nfs`.
        let script = format!("sleep 300 & echo $! > {}; wait", file.display());
        let error = Runner::default().output(&["sh", "-c", &script], Duration::from_secs(2));
        assert!(matches!(error, Err(LabError::TooSlow { .. })), "{error:?}");
        let child = written_number(&file).unwrap();
        for _ in 0..100 {
            if !runs(child) {
                return;
            }
            crate::host::processes::pause(Duration::from_millis(50));
        }
        panic!("process {child} is still running");
    }

    #[test]
    fn reads_answer_while_program_waits() {
        // Like ssh, which runs until its input ends.
        let script = "head -c 4 > /dev/null; printf abcdef; cat";
        let answer = exchange(&["sh", "-c", script], b"call", 6, SOON);
        assert_eq!(answer, Ok(b"abcdef".to_vec()));
        let error = exchange(&["sh", "-c", "echo refused >&2; printf abc"], b"call", 6, SOON);
        assert_eq!(error, Err("refused".to_owned()));
    }

    #[test]
    fn ends_program_at_stop() {
        if !is_root() {
            return;
        }
        let mut runner = Runner::default();
        runner.heed_stop(Arc::new(AtomicBool::new(true)));
        let error = runner.output(&["sleep", "600"], Duration::from_secs(600)).unwrap_err();
        insta::assert_snapshot!(error, @"`sleep 600` was killed because the campaign was stopped");
        runner.ignore_stop();
        assert!(runner.output(&["sleep", "0.3"], SOON).is_ok());
    }

    #[test]
    fn includes_program_output_in_error() {
        if !is_root() && find("sudo").is_none() {
            return;
        }
        let error = Runner::default().run(&["ls", "/no/such/place"], SOON).unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}
