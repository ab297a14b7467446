//! Agents on other hosts, through the user's own OpenSSH.
//!
//! [`Launcher`] puts this program on a host, unless it is there, and starts it there as an agent.
//! ssh decides by the user's own configuration whom it trusts and never prompts; all sessions to a
//! host share one connection. The program is sent compressed and without debug information, and
//! only to hosts where no copy of it is installed. Files on the host lie in a folder of ours and go
//! away with the agent. Nothing but the agent is run there, save what puts it there and removes it.
//!
//! **Source:** ssh(1), ssh_config(5): BatchMode, ControlMaster, ControlPath, ControlPersist.

#![allow(clippy::disallowed_methods, reason = "how long a copy takes is a matter of real time")]

mod binary;
mod bounded;
mod content;
mod copy;
mod elf;
mod packed;
mod refusal;
mod scripts;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use model::Host;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::{Gone, Remote};
use binary::Binary;
use bounded::Ended;
use content::ContentReader;
use copy::Counted;
use refusal::{
    SSH_FAILED, describe_failed_try, describe_refusal, describe_unfinished, host_error, ssh_address,
};
use scripts::{Found, parse_time};

pub use copy::{Copied, CopyEvent, CopyObserver};
pub use packed::{RemovedPrograms, remove_cached_programs};

/// How long a command on a host may take, a slow login included.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);

/// How long the program may take to get to a host.
const COPY_WITHIN: Duration = Duration::from_secs(300);

/// How long the clean-up on a host may take: nothing can be done about a failure of it.
const LEAVE_WITHIN: Duration = Duration::from_secs(4);

/// Hosts that are connected to at one moment, at most: each takes a process and some files.
pub const AT_ONCE_MAX: usize = 64;

/// How the folders of the connections' sockets begin, and the file that is locked in each.
const CONTROL: &str = "dfsbench-ssh-";
const LOCK: &str = "lock";

/// The content of that file once it is locked.
const LOCKED: &[u8] = b"locked while it is used\n";

/// Options of every ssh of ours, beside the place of its socket.
const OPTIONS: [&str; 7] = [
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ControlMaster=auto",
    "ControlPersist=10",
    "ServerAliveInterval=3",
    "ServerAliveCountMax=2",
    "RequestTTY=no",
];

/// The words that start an agent.
const AGENT: &str = "agent --stdio";

/// The time of a program on a host that does not report the times of files.
const UNSEEN: &str = "unknown";

/// The starter of agents on other hosts, on several at one moment where threads share it.
pub struct Launcher {
    binaries: Vec<LazyBinary>,
    /// The folder for compressed programs.
    cache: Option<PathBuf>,
    on_copy: CopyObserver,
    control: TempDir,
    /// Locked as long as the folder is in use.
    _lock: File,
    removals: Mutex<Vec<Removal>>,
}

/// A program that is read when a host first needs it.
struct LazyBinary {
    path: PathBuf,
    binary: OnceLock<Result<Binary, String>>,
}

/// A program that is removed from a host at the end.
struct Removal {
    host: Host,
    /// The command that removes it there.
    command: String,
}

/// The programs of a launcher, and the means by which it copies them.
pub struct LauncherOptions {
    /// Programs: agents are started from the first one that a host can run.
    pub binaries: Vec<PathBuf>,
    /// The folder in which compressed programs are kept for later campaigns.
    pub cache: Option<PathBuf>,
    /// Gets the progress of programs that are copied to hosts.
    pub on_copy: CopyObserver,
}

/// A program on a host.
struct Put {
    path: String,
    /// The time of the last look at it, in seconds since 1970; `None` for one that is installed.
    seen: Option<String>,
    /// It was copied there now.
    copied: Option<Copied>,
}

impl Launcher {
    /// Prepares to start agents.
    ///
    /// # Errors
    /// When no private folder can be made for the connections' sockets.
    pub fn new(options: LauncherOptions) -> Result<Self, Gone> {
        let folder = socket_folder();
        let (control, lock) = match Self::prepare_folder(&folder) {
            Ok(both) => both,
            Err(error) => {
                return Err(Gone(format!("can't make a folder in {}: {error}", folder.display())));
            }
        };
        let LauncherOptions { binaries, cache, on_copy } = options;
        let mut unread = Vec::new();
        for path in binaries {
            unread.push(LazyBinary { path, binary: OnceLock::new() });
        }
        let removals = Mutex::default();
        Ok(Self { binaries: unread, cache, on_copy, control, _lock: lock, removals })
    }

    /// Makes the folder of the sockets, and locks a file in it: a folder whose lock is free belongs
    /// to a controller that was killed.
    fn prepare_folder(folder: &Path) -> std::io::Result<(TempDir, File)> {
        let control = tempfile::Builder::new().prefix(CONTROL).tempdir_in(folder)?;
        let lock = File::create(control.path().join(LOCK))?;
        lock.lock()?;
        // Written only now, so that an empty file means a lock that is not held yet.
        (&lock).write_all(LOCKED)?;
        remove_stale_folders(folder);
        Ok((control, lock))
    }

    /// Puts an agent on a host and starts it.
    ///
    /// # Errors
    /// When the host can't be reached or used; one sentence with ssh's own last line.
    pub fn launch(&self, host: &Host, stop: &Arc<AtomicBool>) -> Result<Remote, Gone> {
        self.launch_as(host, AGENT, stop)
    }

    /// Puts this program on a host and starts it there with these words, as an agent that speaks
    /// in other messages.
    ///
    /// # Errors
    /// When the host can't be reached or used; one sentence with ssh's own last line.
    pub fn launch_as<In, Out>(
        &self,
        host: &Host,
        words: &str,
        stop: &Arc<AtomicBool>,
    ) -> Result<Remote<In, Out>, Gone>
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
    {
        let Put { path, seen, copied } = self.put_program(host)?;
        let mut command = self.ssh_command(host);
        command.arg(match seen.as_deref() {
            // The agent removes the program at its end, unless the time shows another campaign's
            // use.
            Some("") => format!("{path} {words} --pushed {UNSEEN}"),
            Some(seen) => format!("{path} {words} --pushed {seen}"),
            None => format!("{path} {words}"),
        });
        let mut remote = Remote::start(&mut command, &host.name, Arc::clone(stop))?;
        if let Some(copied) = copied {
            remote.add_fact(copied.as_fact(&host.name));
        }
        Ok(remote)
    }

    /// Makes sure that a host has this program, and returns its path there. It is removed at the
    /// end of this launcher, unless it was there before.
    ///
    /// # Errors
    /// When the host can't be reached or used; one sentence with ssh's own last line.
    pub fn program_on(&self, host: &Host) -> Result<String, Gone> {
        Ok(self.put_program(host)?.path)
    }

    /// Makes a command that runs a line on a host.
    pub fn command_on(&self, host: &Host, line: &str) -> Command {
        let mut command = self.ssh_command(host);
        command.arg(line);
        command
    }

    /// Makes sure that a host has a program that runs there, and returns where it is.
    fn put_program(&self, host: &Host) -> Result<Put, Gone> {
        let mut refused = None;
        for LazyBinary { path, binary } in &self.binaries {
            let binary = match binary.get_or_init(|| Binary::read(path)) {
                Ok(binary) => binary,
                Err(error) => return Err(host_error(host, error)),
            };
            let found = self.inspect_host(host, binary)?;
            if found.system != "Linux" || found.machine != binary.machine {
                return Err(host_error(
                    host,
                    &format!(
                        "it is {} on {}, and {} is for Linux on {} (hint: DFSBENCH_AGENT_BINARY \
                         names one for it)",
                        found.system,
                        found.machine,
                        path.display(),
                        binary.machine
                    ),
                ));
            }
            if let Some(path) = &found.installed {
                let ended = self.run_command(host, &scripts::try_program(path))?;
                if ended.worked() {
                    return Ok(Put { path: path.clone(), seen: None, copied: None });
                }
                refused = Some(ended);
                continue;
            }
            let program = format!("{}/dfsbench-{}", found.directory, binary.hash);
            // The folder was made by looking, so it is removed even if the program never gets
            // there.
            let mut remove = self.note_removal(host, &found, binary, &found.seen);
            let (mut seen, mut copied) = (found.seen.clone(), None);
            // The name holds the hash, but only the content proves what is there.
            if found.hash != binary.hash {
                let begun = Instant::now();
                let (wire_bytes, at) = self.copy_program(host, binary, &found)?;
                let program_bytes = binary.content.len_bytes;
                copied = Some(Copied { wire_bytes, program_bytes, took: begun.elapsed() });
                seen = at;
                remove = self.note_removal(host, &found, binary, &seen);
            }
            let ended = self.run_command(host, &scripts::try_program(&program))?;
            if ended.worked() {
                return Ok(Put { path: program, seen: Some(seen), copied });
            }
            refused = Some(ended);
            // A host may have space for one of them only.
            let _ = self.run_command(host, &remove);
        }
        Err(match refused {
            Some(ended) => describe_failed_try(host, &ended),
            None => host_error(host, &"there is no program for its agent"),
        })
    }

    /// Notes what is to be removed at the end, and returns the command that does it.
    fn note_removal(&self, host: &Host, found: &Found, binary: &Binary, seen: &str) -> String {
        let words = scripts::remove(&found.directory, &binary.hash, seen);
        let mut removals = self.removals.lock().unwrap_or_else(PoisonError::into_inner);
        removals.push(Removal { host: host.clone(), command: words.clone() });
        words
    }

    /// Finds out what a host is, and which program it has.
    fn inspect_host(&self, host: &Host, binary: &Binary) -> Result<Found, Gone> {
        let mut command = self.ssh_command(host);
        command.arg("sh");
        let ended = bounded::with_input(&mut command, scripts::look(binary), COMMAND_WITHIN);
        let ended = ended.map_err(|unfinished| describe_unfinished(host, &unfinished))?;
        if !ended.worked() {
            let what = "it has no folder for the agent's program: ";
            return Err(describe_refusal(host, &ended, what, binary.content.len_bytes));
        }
        if let Some(found) = Found::parse(&ended.stdout) {
            return Ok(found);
        }
        let line = bounded::first_line(ended.stdout.as_bytes());
        Err(host_error(
            host,
            &format!("its shell answers `{line}` (hint: nothing in its start-up files may print)"),
        ))
    }

    /// Copies the program to a host, compressed if the host can unpack it. Returns how many bytes
    /// were sent, and the time that the file has there.
    fn copy_program(
        &self,
        host: &Host,
        binary: &Binary,
        found: &Found,
    ) -> Result<(u64, String), Gone> {
        let packed = if found.has_gzip { binary.packed(self.cache.as_deref()) } else { None };
        let (content, unpack) = match packed {
            Some(packed) => (packed, "gzip -dc"),
            None => (&binary.content, "cat"),
        };
        let mut command = self.ssh_command(host);
        command.arg(scripts::take(&found.directory, &binary.hash, unpack));
        let input = Counted::new(ContentReader::new(content), Arc::clone(&self.on_copy));
        let wire_bytes = content.len_bytes;
        (self.on_copy)(CopyEvent::Begun { wire_bytes });
        let ended = bounded::with_reader(&mut command, input, COPY_WITHIN);
        let worked = ended.as_ref().is_ok_and(Ended::worked);
        (self.on_copy)(CopyEvent::Ended { worked });
        let ended = ended.map_err(|error| host_error(host, &error))?;
        if worked {
            return Ok((wire_bytes, parse_time(&ended.stdout).to_owned()));
        }
        let program_bytes = binary.content.len_bytes;
        let what = format!(
            "{} does not take the agent of {} MiB: ",
            found.directory,
            program_bytes.div_ceil(1 << 20)
        );
        Err(describe_refusal(host, &ended, &what, program_bytes))
    }

    /// Runs a command on a host; its own failure is a result, only that of ssh is an error.
    fn run_command(&self, host: &Host, words: &str) -> Result<Ended, Gone> {
        let mut command = self.ssh_command(host);
        command.arg(words);
        let ended = bounded::with_input(&mut command, String::new(), COMMAND_WITHIN);
        let ended = ended.map_err(|unfinished| describe_unfinished(host, &unfinished))?;
        if ended.code == Some(SSH_FAILED) {
            return Err(describe_refusal(host, &ended, "", 0));
        }
        Ok(ended)
    }

    /// Removes the program from a host.
    fn remove_program(&self, host: &Host, remove: &str) {
        // An agent that ended as it should has removed itself; `clean` can do it later.
        let _ =
            bounded::with_input(self.ssh_command(host).arg(remove), String::new(), LEAVE_WITHIN);
    }

    /// Ends the connection to a host.
    fn close_connection(&self, host: &Host) {
        let mut leave = self.ssh_options(host);
        leave.args(["-O", "exit", "--"]).arg(ssh_address(host));
        let _ = bounded::with_input(&mut leave, String::new(), LEAVE_WITHIN);
    }

    /// Makes an ssh to a host, without a command for its shell.
    fn ssh_command(&self, host: &Host) -> Command {
        let mut command = self.ssh_options(host);
        command.arg("--").arg(ssh_address(host));
        command
    }

    /// Makes an ssh with its options, without the address.
    fn ssh_options(&self, host: &Host) -> Command {
        let mut command = Command::new("ssh");
        // A ctrl-C is for the controller, which then ends things in order.
        command.process_group(0);
        command.arg("-T");
        if let Some(config) = &host.ssh_config {
            command.arg("-F").arg(config);
        }
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        command.arg("-o").arg(format!("ControlPath={}/%C", self.control.path().display()));
        command
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let noted = self.removals.get_mut().unwrap_or_else(PoisonError::into_inner);
        let removals = std::mem::take(noted);
        // Removals go over the shared connections, so these are closed only afterwards.
        for some in removals.chunks(AT_ONCE_MAX) {
            thread::scope(|scope| {
                for Removal { host, command } in some {
                    scope.spawn(|| self.remove_program(host, command));
                }
            });
        }
        // One host may have several agents, whose sessions share a connection.
        let mut hosts: Vec<&Host> = Vec::new();
        for Removal { host, .. } in &removals {
            let is_known = hosts
                .iter()
                .any(|known| known.ssh == host.ssh && known.ssh_config == host.ssh_config);
            if !is_known {
                hosts.push(host);
            }
        }
        for some in hosts.chunks(AT_ONCE_MAX) {
            thread::scope(|scope| {
                for host in some {
                    scope.spawn(|| self.close_connection(host));
                }
            });
        }
    }
}

/// Returns the folder in which each controller makes that of its sockets.
fn socket_folder() -> PathBuf {
    // The path of a socket has 107 bytes at most, and ssh's own part takes 57.
    let temporary = std::env::temp_dir();
    if temporary.as_os_str().len() > 30 { "/tmp".into() } else { temporary }
}

/// Removes the folders with sockets of this user's controllers that were killed, and returns how
/// many there were.
pub fn remove_abandoned_folders() -> usize {
    remove_stale_folders(&socket_folder())
}

/// Removes the folders of our controllers that were killed: their locks are free.
fn remove_stale_folders(folder: &Path) -> usize {
    let me = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(CONTROL) {
            continue;
        }
        let path = entry.path();
        // Another user's folder of that name is not ours to remove, nor is a link.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if !found.is_dir() || found.uid() != me {
            continue;
        }
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        let was_locked = lock.metadata().is_ok_and(|it| it.len() == LOCKED.len() as u64);
        if was_locked && lock.try_lock().is_ok() {
            // The next controller finds what can't be removed now.
            removed += usize::from(fs::remove_dir_all(path).is_ok());
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_controllers_that_were_killed_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &[u8]| {
            let path = folder.path().join(format!("{CONTROL}{name}"));
            fs::create_dir(&path).unwrap();
            let mut lock = File::create(path.join(LOCK)).unwrap();
            lock.write_all(text).unwrap();
            (path, lock)
        };
        let (dead, used, new) = (of("dead", LOCKED), of("used", LOCKED), of("new", b""));
        used.1.lock().unwrap();
        fs::create_dir(folder.path().join("other")).unwrap();
        assert_eq!(remove_stale_folders(folder.path()), 1);
        let there = |path: &Path| path.exists();
        assert_eq!((there(&dead.0), there(&used.0), there(&new.0)), (false, true, true));
        assert!(folder.path().join("other").exists());
    }

    #[test]
    fn ssh_gets_its_options_and_a_host_is_never_an_option() {
        let on_copy: CopyObserver = Arc::new(|_| ());
        let options = LauncherOptions { binaries: Vec::new(), cache: None, on_copy };
        let launcher = Launcher::new(options).unwrap();
        let host = Host {
            ssh: Some("-oProxyCommand=reboot".into()),
            ssh_config: Some("/cfg".into()),
            ..Host::here("h")
        };
        let command = launcher.ssh_command(&host);
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        assert_eq!(args[..4], ["-T", "-F", "/cfg", "-o"]);
        assert_eq!(args[args.len() - 2..], ["--", "-oProxyCommand=reboot"]);
    }
}
