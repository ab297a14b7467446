//! Programs that run on this host: those that we started, and those that hold something.
//!
//! A program that we started is known by the path it was started by, below /run/dfsbench: numbers
//! of processes are used again, that path isn't. **Source:** proc_pid_cmdline(5), pidfd_open(2).

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

/// The longest time for a server to end by itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Environment variable that marks the processes of a system: its value is a folder of ours.
pub const MARK: &str = "DFSBENCH_SERVICE";

/// How often processes that shall end are looked at.
const POLL: Duration = Duration::from_millis(50);

/// Returns a command that marks the process and all that it starts. **Source:** env(1).
pub fn marked_command(mark: &Path, words: &[String]) -> Vec<String> {
    let mut argv = vec!["env".to_owned(), format!("{MARK}={}", mark.display())];
    argv.extend_from_slice(words);
    argv
}

/// Numbers of the processes that carry a mark. **Source:** proc_pid_environ(5).
pub fn marked(mark: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    for pid in numbers() {
        if carries_mark(pid, mark) {
            found.push(pid);
        }
    }
    found
}

/// Says whether a process carries a mark.
fn carries_mark(pid: u32, mark: &Path) -> bool {
    mark_of(pid).is_some_and(|known| Path::new(&known) == mark)
}

/// Returns the mark of a process of this host; `None` for one without a mark.
pub(crate) fn mark_of(pid: u32) -> Option<String> {
    // A process that has ended and isn't reaped yet has no environment.
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let lead = format!("{MARK}=");
    for entry in environment.split(|byte| *byte == 0) {
        if let Some(mark) = entry.strip_prefix(lead.as_bytes())
            && is_of_this_host(pid)
        {
            return Some(String::from_utf8_lossy(mark).into_owned());
        }
    }
    None
}

/// Says whether a process has the network of this one: hosts that are namespaces of one machine see
/// each other's processes, and may have started the same system.
fn is_of_this_host(pid: u32) -> bool {
    let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let own = network("self");
    own.is_none() || network(&pid.to_string()) == own
}

/// Ends the processes that carry a mark: politely, and after so many seconds not.
///
/// # Errors
/// Where one of them doesn't end.
pub fn end_marked(runner: &mut Runner, mark: &Path, within_s: u64) -> Result<(), LabError> {
    let patient = Duration::from_secs(within_s);
    signal_marked(runner, mark, &[(Signal::TERM, patient), (Signal::KILL, PATIENCE)])
}

/// Kills the processes that carry a mark, and returns how many there were.
///
/// # Errors
/// Where one of them doesn't end.
pub fn kill_marked(runner: &mut Runner, mark: &Path) -> Result<usize, LabError> {
    let killed = marked(mark);
    signal_marked(runner, mark, &[(Signal::KILL, PATIENCE)])?;
    // Until its parent has reaped it a process has a number, by which a system that is started
    // again would take it for one that still runs.
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
            // One that is started meanwhile is found by a later look.
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
            // Our own children would be listed until they are reaped.
            runner.reap();
        }
    }
    match marked(mark).first() {
        None => Ok(()),
        Some(pid) => {
            let what = mark.display();
            Err(LabError::Unable(format!("pid {pid} of {what} doesn't end when it is killed")))
        }
    }
}

/// Sends a signal to a process if it still carries the mark: its number may be another's by now.
fn send_to_marked(pid: u32, mark: &Path, signal: Signal) {
    let number = Pid::from_raw(pid.cast_signed()).expect("a process has a number above 0");
    let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return };
    // The handle stays that of one process, whatever becomes of the number.
    if carries_mark(pid, mark) {
        // One that has just ended needs no signal.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// Names the process that listens on a TCP port, as `name (pid n)`.
pub fn listener(port: u16) -> Option<String> {
    listeners(port).first().map(|pid| describe(*pid))
}

/// Returns the processes that listen on a TCP port, as far as their open files may be seen.
pub fn listeners(port: u16) -> Vec<u32> {
    let sockets = [procfs::net::tcp(), procfs::net::tcp6()];
    let mut wanted = Vec::new();
    for entry in sockets.into_iter().flatten().flatten() {
        if entry.local_address.port() == port && entry.state == TcpState::Listen {
            wanted.push(format!("socket:[{}]", entry.inode));
        }
    }
    if wanted.is_empty() {
        return Vec::new();
    }
    let is_wanted = |to: PathBuf| wanted.iter().any(|socket| to.as_os_str() == socket.as_str());
    holding(|link| fs::read_link(link).is_ok_and(is_wanted))
}

/// Waits for a moment.
#[expect(clippy::disallowed_methods, reason = "a host that is set up isn't measured")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Numbers of the processes that run by this path, or that `sudo` is about to run by it.
pub fn running_by(program: &Path) -> Vec<u32> {
    let mut pids = numbers();
    pids.retain(|pid| runs_by(*pid, program));
    pids
}

/// Ends the processes that run by this path: politely, then not.
///
/// # Errors
/// Where one of them doesn't end.
pub fn end(runner: &mut Runner, program: &Path) -> Result<(), LabError> {
    for signal in [Signal::TERM, Signal::KILL] {
        for pid in running_by(program) {
            signal_and_wait(runner, pid, program, signal)?;
        }
        // Our own children would be listed until they are reaped.
        runner.reap();
    }
    match running_by(program).first() {
        None => Ok(()),
        Some(pid) => {
            let what = program.display();
            Err(LabError::Unable(format!("{what} (pid {pid}) doesn't end when it is killed")))
        }
    }
}

/// Processes that have an open file, as `name (pid n)`.
pub fn with_open_file(path: &Path) -> Vec<String> {
    let Ok(wanted) = path.metadata() else { return Vec::new() };
    // By device and inode: the file may be open by another of its names.
    holders(|link| match link.metadata() {
        Ok(found) => (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()),
        Err(_) => false,
    })
}

/// Processes that hold something below a mount point: open files, mapped files, working and root
/// directories; as `name (pid n)`.
pub fn below(point: &Path) -> Vec<String> {
    holders(|link| leads_below(link, point))
}

/// Says whether each process that holds something below a mount point waits there in a way that no
/// signal ends (state D).
pub fn all_below_wait(point: &Path) -> bool {
    holding(|link| leads_below(link, point)).into_iter().all(waits_in_kernel)
}

/// Links are read and not followed: the server behind the mount may be gone.
fn leads_below(link: &Path, point: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.starts_with(point))
}

/// Says whether every thread of a process waits in the kernel, or has ended. **Source:**
/// proc_pid_stat(5).
fn waits_in_kernel(pid: u32) -> bool {
    let Ok(tasks) = Process::new(pid.cast_signed()).and_then(|process| process.tasks()) else {
        return false;
    };
    for task in tasks {
        // One that can't be read has ended meanwhile.
        if let Ok(state) = task.and_then(|task| task.stat()?.state())
            && !matches!(state, ProcState::Waiting | ProcState::Zombie | ProcState::Dead)
        {
            return false;
        }
    }
    true
}

/// A process has this name, as the kernel shortens names.
pub fn is_running(name: &str) -> bool {
    for pid in numbers() {
        if let Ok(found) = fs::read_to_string(format!("/proc/{pid}/comm"))
            && found.trim() == name
        {
            return true;
        }
    }
    false
}

/// Lists the processes of which a link in /proc satisfies `holds`, as `name (pid n)`.
fn holders(holds: impl Fn(&Path) -> bool) -> Vec<String> {
    holding(holds).into_iter().map(describe).collect()
}

/// Names a process, as `name (pid n)`.
fn describe(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} (pid {pid})", name.trim())
}

/// Numbers of the processes of which a link in /proc satisfies `holds`. **Source:** proc_pid_fd(5),
/// proc_pid_map_files(5): for root, or the process's own user.
fn holding(holds: impl Fn(&Path) -> bool) -> Vec<u32> {
    let mut found = Vec::new();
    for pid in numbers() {
        let base = PathBuf::from(format!("/proc/{pid}"));
        let mut links = entries(&base.join("fd"));
        if links.is_empty() {
            // The first thread of a process may have ended before the others, which then have its
            // files.
            for task in entries(&base.join("task")) {
                links.extend(entries(&task.join("fd")));
            }
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
        for entry in entries.flatten() {
            paths.push(entry.path());
        }
    }
    paths
}

/// Numbers of all processes: the entries of /proc whose names are numbers.
pub(crate) fn numbers() -> Vec<u32> {
    numbers_in(Path::new("/proc"))
}

/// Entries of a folder whose names are numbers.
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

fn runs_by(pid: u32, program: &Path) -> bool {
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
    let number = Pid::from_raw(pid.cast_signed()).expect("a process has a number above 0");
    // It may have ended by now.
    let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return Ok(()) };
    // The handle is that of one process for ever, while its number may be used again: what is read
    // now holds for the handle if the process still runs, and a signal to one that ended is none.
    if !runs_by(pid, program) {
        return Ok(());
    }
    if is_root() || pidfd_send_signal(&handle, signal).is_ok() {
        // One that has just ended needs no signal.
        let _ = pidfd_send_signal(&handle, signal);
    } else {
        let (name, pid) = (if signal == Signal::TERM { "-TERM" } else { "-KILL" }, pid.to_string());
        runner.run(&["kill", name, pid.as_str()], SOON)?;
    }
    let limit = Timespec::try_from(PATIENCE).expect("ten seconds fit");
    // An interrupted wait is a short one; what still runs is killed next.
    let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit));
    Ok(())
}
