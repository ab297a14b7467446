//! Agents on other hosts, started through the user's own OpenSSH.
//!
//! [`Launcher`] copies this program to a host, unless it is already there, and starts it as an
//! agent. ssh never prompts; the user's own configuration decides which hosts to trust. All
//! sessions to a host share one connection. The program is sent compressed and without debug
//! information, and only to hosts that have no installed copy of it. Files on the host are kept in
//! a private folder and removed along with the agent. We run nothing there except the agent and the
//! scripts that install and remove it.
//!
//! **Source:** ssh(1), ssh_config(5): BatchMode, ControlMaster, ControlPath, ControlPersist.

#![allow(clippy::disallowed_methods, reason = "measures how long a copy takes")]

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

use crate::{PeerGone, Remote};
use binary::Binary;
use bounded::ProcessExit;
use content::ContentReader;
use copy::CountingReader;
use refusal::{
    SSH_FAILED, describe_failed_try, describe_refusal, describe_unfinished, host_error, ssh_address,
};
use scripts::{HostProbe, parse_time};

pub use copy::{CopiedProgram, CopyEvent, CopyObserver};
pub use packed::{RemovedPrograms, remove_cached_programs};

/// Time limit for a command on a host, including a slow login.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);

/// Time limit for copying the program to a host.
const COPY_WITHIN: Duration = Duration::from_secs(300);

/// Time limit for the cleanup on a host. If it fails, there is nothing we can do about it.
const LEAVE_WITHIN: Duration = Duration::from_secs(4);

/// Maximum number of simultaneous connections; each takes a process and some file descriptors.
pub const AT_ONCE_MAX: usize = 64;

/// Prefix of the folders for connection sockets, and the lock file in each of them.
const CONTROL: &str = "dfsbench-ssh-";
const LOCK: &str = "lock";

/// Content of the lock file once it is locked.
const LOCKED: &[u8] = b"locked while it is used\n";

/// Options for every ssh we start, besides the path of its socket.
const OPTIONS: [&str; 7] = [
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ControlMaster=auto",
    "ControlPersist=10",
    "ServerAliveInterval=3",
    "ServerAliveCountMax=2",
    "RequestTTY=no",
];

/// Command-line arguments that start an agent.
const AGENT: &str = "agent --stdio";

/// Placeholder for a host that cannot report a file's modification time.
const UNSEEN: &str = "unknown";

/// Starts agents on other hosts. Threads can share it to start several at once.
pub struct Launcher {
    binaries: Vec<LazyBinary>,
    /// Folder for compressed programs.
    cache: Option<PathBuf>,
    on_copy: CopyObserver,
    control: TempDir,
    /// Held as long as the folder is in use.
    _lock: File,
    removals: Mutex<Vec<Removal>>,
}

/// A program that is read the first time a host needs it.
struct LazyBinary {
    path: PathBuf,
    binary: OnceLock<Result<Binary, String>>,
}

/// A program to remove from a host at the end.
struct Removal {
    host: Host,
    /// Command that removes it.
    command: String,
}

/// Settings of a launcher.
pub struct LauncherOptions {
    /// Candidate programs. Each host gets the first one that it can run.
    pub binaries: Vec<PathBuf>,
    /// Folder in which compressed programs are kept for later campaigns.
    pub cache: Option<PathBuf>,
    /// Receives the progress of copies.
    pub on_copy: CopyObserver,
}

/// A program on a host.
struct InstalledProgram {
    path: String,
    /// When a launcher last looked for it, in seconds since 1970. `None` for an installed copy.
    seen: Option<String>,
    /// Set if it was copied just now.
    copied: Option<CopiedProgram>,
}

impl Launcher {
    /// Prepares to start agents.
    ///
    /// # Errors
    /// If no private folder can be created for the connections' sockets.
    pub fn new(options: LauncherOptions) -> Result<Self, PeerGone> {
        let folder = socket_folder();
        let (control, lock) = match Self::prepare_folder(&folder) {
            Ok(both) => both,
            Err(error) => {
                return Err(PeerGone(format!(
                    "cannot create a folder in {}: {error}",
                    folder.display()
                )));
            }
        };
        let LauncherOptions { binaries, cache, on_copy } = options;
        let unread: Vec<_> =
            binaries.into_iter().map(|path| LazyBinary { path, binary: OnceLock::new() }).collect();
        let removals = Mutex::default();
        Ok(Self { binaries: unread, cache, on_copy, control, _lock: lock, removals })
    }

    /// Creates the folder for the sockets and locks a file in it. If a folder's lock is free, its
    /// controller was killed.
    fn prepare_folder(folder: &Path) -> std::io::Result<(TempDir, File)> {
        let control = tempfile::Builder::new().prefix(CONTROL).tempdir_in(folder)?;
        let lock = File::create(control.path().join(LOCK))?;
        lock.lock()?;
        // Written only now, so an empty file means that the lock isn't held yet.
        (&lock).write_all(LOCKED)?;
        remove_stale_folders(folder);
        Ok((control, lock))
    }

    /// Starts an agent on a host, copying the program first if necessary.
    ///
    /// # Errors
    /// If the host cannot be reached or used. The error is one sentence with ssh's last line.
    pub fn launch(&self, host: &Host, stop: &Arc<AtomicBool>) -> Result<Remote, PeerGone> {
        self.launch_as(host, AGENT, stop)
    }

    /// Starts this program on a host with the given arguments, as an agent that uses other message
    /// types. Copies the program first if necessary.
    ///
    /// # Errors
    /// If the host cannot be reached or used. The error is one sentence with ssh's last line.
    pub fn launch_as<In, Out>(
        &self,
        host: &Host,
        words: &str,
        stop: &Arc<AtomicBool>,
    ) -> Result<Remote<In, Out>, PeerGone>
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
    {
        let InstalledProgram { path, seen, copied } = self.put_program(host)?;
        let mut command = self.ssh_command(host);
        command.arg(match seen.as_deref() {
            // The agent removes the program when it exits, unless the time shows that another
            // campaign uses it.
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

    /// Makes sure that a host has this program, and returns its path there. The launcher removes it
    /// when dropped, unless it is an installed copy.
    ///
    /// # Errors
    /// If the host cannot be reached or used. The error is one sentence with ssh's last line.
    pub fn program_on(&self, host: &Host) -> Result<String, PeerGone> {
        Ok(self.put_program(host)?.path)
    }

    /// Builds a command that runs a line on a host.
    pub fn command_on(&self, host: &Host, line: &str) -> Command {
        let mut command = self.ssh_command(host);
        command.arg(line);
        command
    }

    /// Makes sure that a host has a program it can run, and returns its location.
    fn put_program(&self, host: &Host) -> Result<InstalledProgram, PeerGone> {
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
                        "it runs {} on {}, but {} is for Linux on {} (hint: set \
                         DFSBENCH_AGENT_BINARY to a dfsbench built for it)",
                        found.system,
                        found.machine,
                        path.display(),
                        binary.machine
                    ),
                ));
            }
            if let Some(path) = &found.installed {
                let ended = self.run_command(host, &scripts::try_program(path))?;
                if ended.is_success() {
                    return Ok(InstalledProgram { path: path.clone(), seen: None, copied: None });
                }
                refused = Some(ended);
                continue;
            }
            let program = format!("{}/dfsbench-{}", found.directory, binary.hash);
            // `inspect_host` created the folder, so remove it even if the program is never copied.
            let mut remove = self.note_removal(host, &found, binary, &found.seen);
            let mut seen = found.seen.clone();
            let mut copied = None;
            // The file name contains the hash, but only the content proves what the file is.
            if found.hash != binary.hash {
                let begun = Instant::now();
                let (wire_bytes, at) = self.copy_program(host, binary, &found)?;
                let program_bytes = binary.content.len_bytes;
                copied = Some(CopiedProgram { wire_bytes, program_bytes, took: begun.elapsed() });
                seen = at;
                remove = self.note_removal(host, &found, binary, &seen);
            }
            let ended = self.run_command(host, &scripts::try_program(&program))?;
            if ended.is_success() {
                return Ok(InstalledProgram { path: program, seen: Some(seen), copied });
            }
            refused = Some(ended);
            // The host may not have space for more than one program.
            let _ = self.run_command(host, &remove);
        }
        Err(match refused {
            Some(ended) => describe_failed_try(host, &ended),
            None => host_error(host, &"no program is available for its agent"),
        })
    }

    /// Registers a removal for the end and returns its command.
    fn note_removal(&self, host: &Host, found: &HostProbe, binary: &Binary, seen: &str) -> String {
        let words = scripts::remove(&found.directory, &binary.hash, seen);
        let mut removals = self.removals.lock().unwrap_or_else(PoisonError::into_inner);
        removals.push(Removal { host: host.clone(), command: words.clone() });
        words
    }

    /// Finds out what kind of host it is and which program it already has.
    fn inspect_host(&self, host: &Host, binary: &Binary) -> Result<HostProbe, PeerGone> {
        let mut command = self.ssh_command(host);
        command.arg("sh");
        let ended =
            bounded::with_input(&mut command, scripts::probe_command(binary), COMMAND_WITHIN);
        let ended = ended.map_err(|unfinished| describe_unfinished(host, &unfinished))?;
        if !ended.is_success() {
            let what = "no folder for the agent's program: ";
            return Err(describe_refusal(host, &ended, what, binary.content.len_bytes));
        }
        if let Some(found) = HostProbe::parse(&ended.stdout) {
            return Ok(found);
        }
        let line = bounded::first_line(ended.stdout.as_bytes());
        Err(host_error(
            host,
            &format!(
                "its shell printed `{line}` (hint: shell startup files must not print anything)"
            ),
        ))
    }

    /// Copies the program to a host, compressed if the host can decompress it. Returns the number
    /// of bytes sent and the file's modification time on the host.
    fn copy_program(
        &self,
        host: &Host,
        binary: &Binary,
        found: &HostProbe,
    ) -> Result<(u64, String), PeerGone> {
        let packed = if found.has_gzip { binary.packed(self.cache.as_deref()) } else { None };
        let (content, unpack) = match packed {
            Some(packed) => (packed, "gzip -dc"),
            None => (&binary.content, "cat"),
        };
        let mut command = self.ssh_command(host);
        command.arg(scripts::receive_command(&found.directory, &binary.hash, unpack));
        let input = CountingReader::new(ContentReader::new(content), Arc::clone(&self.on_copy));
        let wire_bytes = content.len_bytes;
        (self.on_copy)(CopyEvent::Begun { wire_bytes });
        let ended = bounded::with_reader(&mut command, input, COPY_WITHIN);
        let worked = ended.as_ref().is_ok_and(ProcessExit::is_success);
        (self.on_copy)(CopyEvent::Ended { worked });
        let ended = ended.map_err(|error| host_error(host, &error))?;
        if worked {
            return Ok((wire_bytes, parse_time(&ended.stdout).to_owned()));
        }
        let program_bytes = binary.content.len_bytes;
        let what = format!(
            "cannot store the agent ({1} MiB) in {0}: ",
            found.directory,
            program_bytes.div_ceil(1 << 20)
        );
        Err(describe_refusal(host, &ended, &what, program_bytes))
    }

    /// Runs a command on a host. Only a failure of ssh itself is an error; a failure of the command
    /// is part of the result.
    fn run_command(&self, host: &Host, words: &str) -> Result<ProcessExit, PeerGone> {
        let mut command = self.ssh_command(host);
        command.arg(words);
        let ended = bounded::with_input(&mut command, String::new(), COMMAND_WITHIN);
        let ended = ended.map_err(|unfinished| describe_unfinished(host, &unfinished))?;
        if ended.code == Some(SSH_FAILED) {
            return Err(describe_refusal(host, &ended, "", 0));
        }
        Ok(ended)
    }

    fn remove_program(&self, host: &Host, remove: &str) {
        // An agent that exits normally has removed its program itself, and `clean` can do it later.
        let _ =
            bounded::with_input(self.ssh_command(host).arg(remove), String::new(), LEAVE_WITHIN);
    }

    fn close_connection(&self, host: &Host) {
        let mut leave = self.ssh_options(host);
        leave.args(["-O", "exit", "--"]).arg(ssh_address(host));
        let _ = bounded::with_input(&mut leave, String::new(), LEAVE_WITHIN);
    }

    /// Builds an ssh command for a host, without the command to run there.
    fn ssh_command(&self, host: &Host) -> Command {
        let mut command = self.ssh_options(host);
        command.arg("--").arg(ssh_address(host));
        command
    }

    /// Builds an ssh command with our options, without the address.
    fn ssh_options(&self, host: &Host) -> Command {
        let mut command = Command::new("ssh");
        // Ctrl-C is meant for the controller, which then shuts things down in order.
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
        // Removals use the shared connections, so close those only afterwards.
        for some in removals.chunks(AT_ONCE_MAX) {
            thread::scope(|scope| {
                for Removal { host, command } in some {
                    scope.spawn(|| self.remove_program(host, command));
                }
            });
        }
        // A host may run several agents, whose sessions share one connection.
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

/// Returns the folder in which controllers create their socket folders.
fn socket_folder() -> PathBuf {
    // A socket path has at most 107 bytes, and ssh's own part takes 57 of them.
    let temporary = std::env::temp_dir();
    if temporary.as_os_str().len() > 30 { "/tmp".into() } else { temporary }
}

/// Removes the socket folders of this user's killed controllers. Returns the number of folders.
pub fn remove_abandoned_folders() -> usize {
    remove_stale_folders(&socket_folder())
}

/// Removes the folders of killed controllers, which are those with a free lock.
fn remove_stale_folders(folder: &Path) -> usize {
    let me = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(CONTROL) {
            continue;
        }
        let path = entry.path();
        // Another user's folder with such a name, or a symlink, isn't ours to remove.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if !found.is_dir() || found.uid() != me {
            continue;
        }
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        let was_locked = lock.metadata().is_ok_and(|it| it.len() == LOCKED.len() as u64);
        if was_locked && lock.try_lock().is_ok() {
            // If it fails, the next controller will try again.
            removed += usize::from(fs::remove_dir_all(path).is_ok());
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_folders_of_killed_controllers() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &[u8]| {
            let path = folder.path().join(format!("{CONTROL}{name}"));
            fs::create_dir(&path).unwrap();
            let mut lock = File::create(path.join(LOCK)).unwrap();
            lock.write_all(text).unwrap();
            (path, lock)
        };
        let dead = of("dead", LOCKED);
        let used = of("used", LOCKED);
        let new = of("new", b"");
        used.1.lock().unwrap();
        fs::create_dir(folder.path().join("other")).unwrap();
        assert_eq!(remove_stale_folders(folder.path()), 1);
        let there = |path: &Path| path.exists();
        assert_eq!((there(&dead.0), there(&used.0), there(&new.0)), (false, true, true));
        assert!(folder.path().join("other").exists());
    }

    #[test]
    fn passes_host_safely_to_ssh() {
        let on_copy: CopyObserver = Arc::new(|_| ());
        let options = LauncherOptions { binaries: Vec::new(), cache: None, on_copy };
        let launcher = Launcher::new(options).unwrap();
        let host = Host {
            ssh: Some("-oProxyCommand=reboot".into()),
            ssh_config: Some("/cfg".into()),
            ..Host::local("h")
        };
        let command = launcher.ssh_command(&host);
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        assert_eq!(args[..4], ["-T", "-F", "/cfg", "-o"]);
        assert_eq!(args[args.len() - 2..], ["--", "-oProxyCommand=reboot"]);
    }
}
