//! Programs running on this host: those we started, and those that use something we need to remove.
//!
//! A program we started is recognized by the path it was started with, below /run/dfsbench. Process
//! IDs are reused, but that path isn't. **Source:** proc_pid_cmdline(5), pidfd_open(2).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::net::TcpState;
use procfs::process::{ProcState, Process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::commands::{Runner, SOON, is_root};
use crate::error::LabError;

/// Time limit for a server to exit on its own.
const PATIENCE: Duration = Duration::from_secs(10);

/// Environment variable that marks the processes of a system. Its value is one of our folders.
pub(crate) const MARK: &str = "DFSBENCH_SERVICE";

/// How often we check whether processes have exited.
const POLL: Duration = Duration::from_millis(50);

/// Environment variable with the number of the step that started a process of a system.
const STEP: &str = "DFSBENCH_STEP";

/// Returns a marked command whose processes also carry the number of their step.
pub(crate) fn command_of_step(mark: &Path, number: usize, words: &[String]) -> Vec<String> {
    let mut argv = marked_command(mark, words);
    argv.insert(2, format!("{STEP}={number}"));
    argv
}

/// Returns the numbers of the steps of which processes are running.
pub(crate) fn steps_running(mark: &Path) -> Vec<usize> {
    let number = |pid: u32| match variable_of(pid, STEP) {
        Some(number) => number.parse().ok(),
        None => marked_output(pid)?.1,
    };
    marked(mark).into_iter().filter_map(number).collect()
}

/// Returns a command whose process, and all its children, carry the mark. **Source:** env(1).
pub(crate) fn marked_command(mark: &Path, words: &[String]) -> Vec<String> {
    let mut argv = vec!["env".to_owned(), format!("{MARK}={}", mark.display())];
    argv.extend_from_slice(words);
    argv
}

/// Returns the IDs of the processes that carry a mark. **Source:** proc_pid_environ(5).
pub(crate) fn marked(mark: &Path) -> Vec<u32> {
    numbers().into_iter().filter(|pid| carries_mark(*pid, mark)).collect()
}

/// Returns true if a process carries a mark.
fn carries_mark(pid: u32, mark: &Path) -> bool {
    mark_of(pid).is_some_and(|known| Path::new(&known) == mark)
}

/// Returns the mark of a process of this host, or `None` if it has none.
pub(crate) fn mark_of(pid: u32) -> Option<String> {
    let mark = variable_of(pid, MARK).or_else(|| Some(marked_output(pid)?.0))?;
    Some(mark).filter(|_| is_of_this_host(pid))
}

/// Returns the mark and step of a process by the file that receives its stderr, which our child and
/// its children inherit. Programs that set their title, such as Redis and PostgreSQL, overwrite
/// what /proc shows as their environment.
fn marked_output(pid: u32) -> Option<(String, Option<usize>)> {
    let file = fs::read_link(format!("/proc/{pid}/fd/2")).ok()?;
    let name = file.file_name()?.to_str()?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let step = match name.strip_prefix("stderr")? {
        "" => None,
        number => Some(number.strip_prefix('-')?.parse().ok()?),
    };
    Some((file.parent()?.to_str()?.to_owned(), step))
}

/// Returns a variable of the environment that a process was started with.
fn variable_of(pid: u32, name: &str) -> Option<String> {
    // A zombie has no environment.
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let lead = format!("{name}=");
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(lead.as_bytes()))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Returns true if a process is in our network namespace. If hosts are simulated by namespaces on
/// one machine, they see each other's processes and may have started the same system.
fn is_of_this_host(pid: u32) -> bool {
    let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let own = network("self");
    own.is_none() || network(&pid.to_string()) == own
}

/// Terminates the processes that carry a mark, and kills them if they don't exit in time.
///
/// # Errors
/// If one of them doesn't exit.
pub(crate) fn end_marked(runner: &mut Runner, mark: &Path, within_s: u64) -> Result<(), LabError> {
    let patient = Duration::from_secs(within_s);
    signal_marked(runner, mark, &[(Signal::TERM, patient), (Signal::KILL, PATIENCE)])
}

/// Kills the processes that carry a mark. Returns how many there were.
///
/// # Errors
/// If one of them doesn't exit.
pub(crate) fn kill_marked(runner: &mut Runner, mark: &Path) -> Result<usize, LabError> {
    let killed = marked(mark);
    signal_marked(runner, mark, &[(Signal::KILL, PATIENCE)])?;
    // A zombie keeps its process ID, and a restarted system would believe that it is still running.
    // So wait until the parents have reaped them.
    let is_listed = |pid: &u32| Path::new("/proc").join(pid.to_string()).exists();
    let mut waited = Duration::ZERO;
    while killed.iter().any(is_listed) && waited < PATIENCE {
        pause(POLL);
        waited += POLL;
        runner.reap();
    }
    Ok(killed.len())
}

/// Sends each signal in turn to the processes that carry a mark, until none is left.
fn signal_marked(
    runner: &mut Runner,
    mark: &Path,
    signals: &[(Signal, Duration)],
) -> Result<(), LabError> {
    for (signal, limit) in signals {
        let mut waited = Duration::ZERO;
        let mut signalled = Vec::new();
        loop {
            let left = marked(mark);
            if left.is_empty() {
                return Ok(());
            }
            // Processes started in the meantime are found in the next round.
            for pid in left {
                if !signalled.contains(&pid) {
                    send_to_marked(pid, mark, *signal);
                    signalled.push(pid);
                }
            }
            if waited >= *limit {
                break;
            }
            pause(POLL);
            waited += POLL;
            // Reap our own children, since they would be listed otherwise.
            runner.reap();
        }
    }
    match marked(mark).first() {
        None => Ok(()),
        Some(pid) => {
            let what = mark.display();
            Err(LabError::Unable(format!("process {pid} of {what} is still there after SIGKILL")))
        }
    }
}

/// Sends a signal to a process if it still carries the mark, since its ID may have been reused.
fn send_to_marked(pid: u32, mark: &Path, signal: Signal) {
    let number = Pid::from_raw(pid.cast_signed()).expect("process IDs are positive");
    let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return };
    // From here on, the handle refers to this one process even if the ID is reused.
    if carries_mark(pid, mark) {
        // Fails if it has just exited.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// Describes the process listening on a TCP port, as `name (pid n)`.
pub(crate) fn listener(port: u16) -> Option<String> {
    listeners(port).first().map(|pid| describe(*pid))
}

/// Returns the processes listening on a TCP port, as far as we can see their open files.
pub fn listeners(port: u16) -> Vec<u32> {
    let sockets = [procfs::net::tcp(), procfs::net::tcp6()];
    let wanted: Vec<_> = sockets
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.local_address.port() == port && entry.state == TcpState::Listen)
        .map(|entry| format!("socket:[{}]", entry.inode))
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let is_wanted = |to: PathBuf| wanted.iter().any(|socket| to.as_os_str() == socket.as_str());
    pids_holding(|link| fs::read_link(link).is_ok_and(is_wanted))
}

#[expect(clippy::disallowed_methods, reason = "hosts are set up before anything is measured")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Returns the IDs of the processes of this host started with this path, or about to be started by
/// `sudo`.
pub(crate) fn pids_running(program: &Path) -> Vec<u32> {
    let mut pids = numbers();
    pids.retain(|pid| runs_program(*pid, program) && is_of_this_host(*pid));
    pids
}

/// Terminates the processes started with this path, and kills them if they don't exit.
///
/// # Errors
/// If one of them doesn't exit.
pub(crate) fn end(runner: &mut Runner, program: &Path) -> Result<(), LabError> {
    for signal in [Signal::TERM, Signal::KILL] {
        for pid in pids_running(program) {
            signal_and_wait(runner, pid, program, signal)?;
        }
        // Reap our own children, since they would be listed otherwise.
        runner.reap();
    }
    match pids_running(program).first() {
        None => Ok(()),
        Some(pid) => {
            let what = program.display();
            Err(LabError::Unable(format!("{what} (pid {pid}) is still there after SIGKILL")))
        }
    }
}

/// Lists the processes that have a file open, as `name (pid n)`.
pub(crate) fn with_open_file(path: &Path) -> Vec<String> {
    let Ok(wanted) = path.metadata() else { return Vec::new() };
    // Compare device and inode, since the file may have been opened under another name.
    holders(|link| {
        link.metadata()
            .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    })
}

/// Lists the processes that use anything below a mount point: open or mapped files, working or root
/// directories; as `name (pid n)`.
pub(crate) fn below(point: &Path) -> Vec<String> {
    holders(|link| leads_below(link, point))
}

/// Returns true if all processes that use something below a mount point are in uninterruptible
/// sleep (state D).
pub(crate) fn all_users_wait(point: &Path) -> bool {
    pids_holding(|link| leads_below(link, point)).into_iter().all(waits_in_kernel)
}

/// Read the symlinks without following them, since the mount's server may be gone.
fn leads_below(link: &Path, point: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.starts_with(point))
}

/// Returns true if every thread of a process is in uninterruptible sleep or has exited. **Source:**
/// proc_pid_stat(5).
fn waits_in_kernel(pid: u32) -> bool {
    let Ok(tasks) = Process::new(pid.cast_signed()).and_then(|process| process.tasks()) else {
        return false;
    };
    for task in tasks {
        // A thread that cannot be read has exited.
        if let Ok(state) = task.and_then(|task| task.stat()?.state())
            && !matches!(state, ProcState::Waiting | ProcState::Zombie | ProcState::Dead)
        {
            return false;
        }
    }
    true
}

/// Returns true if a process with this name (as truncated by the kernel) is running.
pub(crate) fn is_running(name: &str) -> bool {
    numbers().into_iter().any(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|found| found.trim() == name)
    })
}

/// Lists the processes for which a symlink in /proc satisfies `holds`, as `name (pid n)`.
fn holders(holds: impl Fn(&Path) -> bool) -> Vec<String> {
    pids_holding(holds).into_iter().map(describe).collect()
}

/// Describes a process, as `name (pid n)`.
fn describe(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} (pid {pid})", name.trim())
}

/// Returns the IDs of the processes for which a symlink in /proc satisfies `holds`. **Source:**
/// proc_pid_fd(5), proc_pid_map_files(5): requires root or the process's own user.
fn pids_holding(holds: impl Fn(&Path) -> bool) -> Vec<u32> {
    let mut found = Vec::new();
    for pid in numbers() {
        let base = PathBuf::from(format!("/proc/{pid}"));
        let mut links = entries(&base.join("fd"));
        if links.is_empty() {
            // If the first thread has exited before the others, the files are listed with those.
            links.extend(
                entries(&base.join("task")).into_iter().flat_map(|task| entries(&task.join("fd"))),
            );
        }
        links.extend(entries(&base.join("map_files")));
        links.extend([base.join("cwd"), base.join("root"), base.join("exe")]);
        if links.iter().any(|link| holds(link)) {
            found.push(pid);
        }
    }
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Ok(entries) = fs::read_dir(folder) {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    paths
}

/// Returns the IDs of all processes.
pub(crate) fn numbers() -> Vec<u32> {
    numbers_in(Path::new("/proc"))
}

/// Returns the numeric names of a folder's entries.
pub(crate) fn numbers_in(folder: &Path) -> Vec<u32> {
    let mut numbers = Vec::new();
    for path in entries(folder) {
        if let Some(name) = path.file_name()
            && let Ok(number) = name.to_string_lossy().parse()
        {
            numbers.push(number);
        }
    }
    numbers
}

fn runs_program(pid: u32, program: &Path) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let mut words = line.split(|byte| *byte == 0);
    let program = program.as_os_str().as_encoded_bytes();
    let first = words.next().unwrap_or_default();
    first == program || (first.ends_with(b"sudo") && words.any(|word| word == program))
}

fn signal_and_wait(
    runner: &Runner,
    pid: u32,
    program: &Path,
    signal: Signal,
) -> Result<(), LabError> {
    let number = Pid::from_raw(pid.cast_signed()).expect("process IDs are positive");
    // It may have exited.
    let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return Ok(()) };
    // A process ID may be reused, but the handle always refers to the same process. If the check
    // below passes while that process is running, it applies to the handle; if it has exited, the
    // signal has no effect.
    if !runs_program(pid, program) {
        return Ok(());
    }
    if is_root() || pidfd_send_signal(&handle, signal).is_ok() {
        // Fails if it has just exited.
        let _ = pidfd_send_signal(&handle, signal);
    } else {
        let name = if signal == Signal::TERM { "-TERM" } else { "-KILL" };
        let pid = pid.to_string();
        runner.run(&["kill", name, pid.as_str()], SOON)?;
    }
    let limit = Timespec::try_from(PATIENCE).expect("10 s are in range");
    // If the wait is interrupted, it is merely shorter; whatever is still running gets killed next.
    let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit));
    Ok(())
}
