//! User-space servers that we start: waits until they answer, or reports why they don't.
//!
//! An NFS server counts as up when it answers a NULL call, not when its port is open.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::net::{TcpNetEntry, TcpState};
use procfs::{Current as _, Uptime};

use crate::commands::{self, Runner, SOON, filled_lines, join_last};
use crate::error::LabError;
use crate::host::processes::{self, pause};
use crate::mounts;

/// How often a server is polled.
const POLL: Duration = Duration::from_millis(50);
/// Maximum number of attempts if there is no other limit.
const TRIES: u32 = 200;
/// Time limit for a single answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How often we check whether a system is ready.
const SERVICE_POLL: Duration = Duration::from_millis(100);
/// How often we check whether a system is idle.
const QUIET_POLL: Duration = Duration::from_millis(500);
/// How long a system's programs may be missing before we conclude that they have exited.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// RPC program number of NFS. **Source:** RFC 1813, 3.
const NFS: u32 = 100_003;

/// Port of NFS. **Source:** RFC 7530, 1.5.4.
const NFS_PORT: u16 = 2049;

/// Returns true if a client is connected to an NFS server on this host.
pub fn is_serving_clients() -> bool {
    // An IPv6 socket that accepts both families also lists the IPv4 connections.
    let connections = [procfs::net::tcp(), procfs::net::tcp6()];
    connections.into_iter().flatten().flatten().any(|entry| is_client(&entry))
}

fn is_client(entry: &TcpNetEntry) -> bool {
    entry.local_address.port() == NFS_PORT && entry.state == TcpState::Established
}

/// Waits until a program that was started through `link` is up.
///
/// # Errors
/// If it exits or doesn't answer. The error contains the end of its log.
pub(crate) fn await_up(
    what: &str,
    link: &Path,
    log: &Path,
    patience: Duration,
    is_up: impl Fn() -> bool,
) -> Result<(), LabError> {
    let mut waited = Duration::ZERO;
    // It may take a moment to appear in /proc.
    let startup = Duration::from_secs(1);
    loop {
        if is_up() {
            return Ok(());
        }
        let is_gone = waited > startup && processes::pids_running(link).is_empty();
        if is_gone || waited > patience {
            let why = if is_gone { "it exited" } else { "it does not answer" };
            let log = fs::read_to_string(log).unwrap_or_default();
            let why = format!("{why}; {}", last_lines(&log));
            return Err(LabError::Silent { what: what.to_owned(), why });
        }
        pause(POLL);
        waited += POLL;
    }
}

/// The condition that shows that a system's programs have started.
pub(crate) struct StartCondition<'a> {
    /// Description for messages.
    pub what: &'a str,
    /// Mark of the programs, which is also the folder of their logs.
    pub mark: &'a Path,
    /// Whether one of the programs runs on this host. If so, there is no point in waiting once they
    /// have all exited.
    pub has_program: bool,
}

/// Repeats an attempt until it succeeds, for at most `limit` and only while the programs are
/// running.
///
/// # Errors
/// If it never succeeds. The error contains the last failure and the end of the programs' logs.
pub(crate) fn await_service(
    runner: &mut Runner,
    awaited: &StartCondition<'_>,
    limit: Duration,
    attempt: impl Fn(&Runner) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let StartCondition { what, mark, has_program } = *awaited;
    let mut waiting = Waiting::start();
    loop {
        let tried = attempt(runner);
        let Err(error) = tried else { return Ok(()) };
        if let LabError::Stopped { .. } = error {
            return Err(error);
        }
        runner.reap();
        let waited = waiting.time();
        // A program that daemonizes is invisible for a moment.
        let is_gone = has_program && waited >= GONE_AFTER && processes::marked(mark).is_empty();
        if is_gone || waited >= limit {
            let why = if is_gone {
                "its program exited".to_owned()
            } else {
                format!("not within {} s", limit.as_secs())
            };
            let why = format!("{why}: {error}; {}", last_words(mark));
            return Err(LabError::Silent { what: what.to_owned(), why });
        }
        runner.check_stop(what)?;
        waiting.pause(SERVICE_POLL);
    }
}

/// Waits until a command succeeds without printing `busy`.
///
/// # Errors
/// If this doesn't happen within the limit. The error contains the end of its output.
pub(crate) fn await_quiet(
    runner: &Runner,
    argv: &[String],
    busy: &str,
    limit: Duration,
) -> Result<(), LabError> {
    let mut waiting = Waiting::start();
    loop {
        let output = runner.output(argv, SOON)?;
        let is_busy = !busy.is_empty() && output.stdout.contains(busy);
        if output.status.success() && !is_busy {
            return Ok(());
        }
        if waiting.time() >= limit {
            let what = commands::show(argv);
            let seconds = limit.as_secs();
            let text = [output.stdout, output.stderr].join("\n");
            let why = format!("still busy after {seconds} s; {}", last_lines(&text));
            return Err(LabError::Silent { what, why });
        }
        runner.check_stop(&commands::show(argv))?;
        waiting.pause(QUIET_POLL);
    }
}

/// Time spent with attempts, which may take longer than the pauses between them.
struct Waiting {
    /// Time since the host was booted; `None` if /proc doesn't have it.
    began: Option<Duration>,
    paused: Duration,
}

impl Waiting {
    fn start() -> Self {
        Self { began: uptime(), paused: Duration::ZERO }
    }

    fn pause(&mut self, duration: Duration) {
        pause(duration);
        self.paused += duration;
    }

    fn time(&self) -> Duration {
        let since = self.began.zip(uptime()).map(|(began, now)| now.saturating_sub(began));
        since.unwrap_or_default().max(self.paused)
    }
}

fn uptime() -> Option<Duration> {
    Uptime::current().ok().map(|uptime| uptime.uptime_duration())
}

/// Connects to a loopback TCP port.
///
/// # Errors
/// If nothing answers.
pub(crate) fn connect_loopback(port: u16) -> Result<(), LabError> {
    if answers(port) { Ok(()) } else { Err(LabError::Refused("nothing answers".to_owned())) }
}

/// Checks whether something is mounted on a point, without accessing it.
///
/// # Errors
/// If nothing is mounted there.
pub(crate) fn mounted(point: &Path) -> Result<(), LabError> {
    match mounts::find_named(point) {
        Some(_) => Ok(()),
        None => Err(LabError::Refused("not mounted yet".to_owned())),
    }
}

/// Returns the file with the stderr of a step's program.
pub(crate) fn stderr_of_step(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("stderr-{number}"))
}

/// Returns the last lines that a step's program wrote to stderr, or else those of all logs.
pub(crate) fn last_words_of_step(folder: &Path, number: usize) -> String {
    let text = fs::read(stderr_of_step(folder, number)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = filled_lines(&text);
    if lines.is_empty() { last_words(folder) } else { join_last(&lines, 3) }
}

/// Collects the last lines of the logs in one of our folders.
fn last_words(folder: &Path) -> String {
    let mut words = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return "its logs are empty".to_owned() };
    let mut paths = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("stderr") || name.ends_with("log") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    for path in paths {
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = filled_lines(&text);
        if !lines.is_empty() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            words.push(format!("{name}: {}", join_last(&lines, 3)));
        }
    }
    if words.is_empty() { "its logs are empty".to_owned() } else { words.join("; ") }
}

/// Returns true if something answers on a loopback TCP port.
pub(crate) fn answers(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, ANSWER).is_ok()
}

/// Waits until something answers on a loopback TCP port.
///
/// # Errors
/// If nothing answers in time.
pub(crate) fn await_port(port: u16) -> Result<(), LabError> {
    for _ in 0..TRIES {
        if answers(port) {
            return Ok(());
        }
        pause(POLL);
    }
    let (what, why) =
        (format!("port {port} on the loopback address"), "it does not answer".to_owned());
    Err(LabError::Silent { what, why })
}

/// Returns true if an NFS server answers a NULL call of this version on a loopback port.
pub(crate) fn serves(port: u16, version: u32) -> bool {
    call_null(port, version).unwrap_or(false)
}

/// Calls procedure 0 of NFS and returns whether it succeeded.
///
/// **Source:** RFC 5531, 9 and 11: a call of procedure 0 without credentials in a single fragment;
/// the reply must be accepted (0) with status success (0).
fn call_null(port: u16, version: u32) -> io::Result<bool> {
    const XID: u32 = 0x6466_7362;
    // Mark of the last fragment with its 40 bytes, XID, call (0), RPC version 2, program, version,
    // procedure 0; then credentials and verifier, both AUTH_NONE with 0 bytes.
    let call = [0x8000_0028, XID, 0, 2, NFS, version, 0, 0, 0, 0, 0];
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(&call.map(u32::to_be_bytes).concat())?;
    let mut reply = [[0; 4]; 7];
    stream.read_exact(reply.as_flattened_mut())?;
    // Mark, XID, reply (1), accepted (0), verifier's flavor and length, success (0).
    let [_, xid, kind, accepted, _, _, success] = reply.map(u32::from_be_bytes);
    Ok([xid, kind, accepted, success] == [XID, 1, 0, 0])
}

/// Returns the end of a log. ssh's debug output (`debug1: ...`) hides the actual problem, so it is
/// only included if there is nothing else.
fn last_lines(text: &str) -> String {
    let all = filled_lines(text);
    let mut plain = all.clone();
    plain.retain(|line| !is_debug(line));
    let lines = if plain.is_empty() { all } else { plain };
    if lines.is_empty() {
        return "it printed nothing".to_owned();
    }
    join_last(&lines, 6)
}

fn is_debug(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    matches!(name, "debug1" | "debug2" | "debug3") || line.starts_with("OpenSSH_")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn attempts_count_as_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let awaited = StartCondition { what: "it", mark: folder.path(), has_program: false };
        let tries = Cell::new(0);
        let slow = |_: &Runner| {
            tries.set(tries.get() + 1);
            pause(Duration::from_millis(150));
            Err(LabError::Refused("not yet".to_owned()))
        };
        let limit = Duration::from_millis(100);
        let error = await_service(&mut Runner::default(), &awaited, limit, slow).unwrap_err();
        assert_eq!(tries.get(), 1, "{error}");
    }

    #[test]
    fn filters_ssh_debug_lines() {
        let log = "OpenSSH_9.2p1 Debian\ndebug1: Connecting to s port 22.\r\n\
                   bind [127.0.0.1]:20490: Address already in use\r\ndebug1: a\ndebug1: b\n\
                   debug1: c\ndebug1: d\ndebug1: e\nCould not request local forwarding.\n\
                   debug1: channel 0: free\n";
        let expected = "bind [127.0.0.1]:20490: Address already in use; Could not request local \
                        forwarding.";
        assert_eq!(last_lines(log), expected);
        assert_eq!(last_lines("debug1: Connecting to s.\n"), "debug1: Connecting to s.");
        assert_eq!(last_lines("\n"), "it printed nothing");
    }
}
