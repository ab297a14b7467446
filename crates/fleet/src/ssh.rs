//! Agents on other hosts, through the user's own OpenSSH.
//!
//! [`Launcher`] puts this program on a host, unless it is there, and starts it there as an agent.
//! ssh decides by the user's own configuration whom it trusts and never prompts; all sessions to a
//! host share one connection. Files on the host lie in a folder of ours and go away with the
//! agent. Nothing but the agent is run there, save what puts it there and removes it.
//!
//! **Source:** ssh(1), ssh_config(5): BatchMode, ControlMaster, ControlPath, ControlPersist.

mod binary;
mod bounded;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use model::Host;
use tempfile::TempDir;

use crate::{Gone, Remote};
use binary::Binary;
use bounded::Ended;

/// How long a command on a host may take, a slow login included.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);

/// How long the program may take to get to a host.
const PUSH_WITHIN: Duration = Duration::from_secs(300);

/// How long the clean-up on a host may take: nothing can be done about a failure of it.
const LEAVE_WITHIN: Duration = Duration::from_secs(4);

/// Hosts that are connected to at one moment, at most: each takes a process and some files.
pub const AT_ONCE_MAX: usize = 64;

/// How the folders of the connections' sockets begin, and the file that is locked in each.
const CONTROL: &str = "dfsbench-ssh-";
const LOCK: &str = "lock";

/// The content of that file once it is locked.
const LOCKED: &[u8] = b"locked while it is used\n";

/// Exit code of ssh itself, where it isn't that of the command. **Source:** ssh(1), EXIT STATUS.
const SSH_FAILED: i32 = 255;

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

/// A script that prints where our folder is, after checking that it is ours, and its program.
///
/// Programs of other versions are removed that killed campaigns left there: those that no process
/// executes, and that no launcher has looked for of late. A launcher starts a program well within
/// that time ([`PUSH_WITHIN`]), so none is removed that is about to be started.
///
/// It is fed to `sh`; the only thing that is put into it is a hash.
const LOOK: &str = r#"umask 077
if [ -n "$XDG_CACHE_HOME" ]; then dir=$XDG_CACHE_HOME/dfsbench; else dir=/tmp/dfsbench-$(id -u); fi
mkdir -p "$dir" || exit 1
if [ -h "$dir" ] || [ ! -O "$dir" ]; then echo "$dir belongs to another user" >&2; exit 1; fi
chmod 700 "$dir" || exit 1
touch -c "$dir/dfsbench-HASH"
find "$dir" -maxdepth 1 -type f -mmin +15 2>/dev/null | while read -r old; do
  name=${old##*/}
  case $name in
    dfsbench-*[!0-9a-f]*) continue ;;
    dfsbench-*) [ ${#name} -eq 73 ] || continue ;;
    new-*[!0-9]*) continue ;;
    new-[0-9]*) ;;
    *) continue ;;
  esac
  for program in /proc/[0-9]*/exe; do [ "$program" -ef "$old" ] && continue 2; done
  rm -f "$old"
done
there=$(sha256sum < "$dir/dfsbench-HASH" 2>/dev/null)
seen=$(stat -c %.9Y "$dir/dfsbench-HASH" 2>/dev/null)
echo "dfsbench-host $(uname -s) $(uname -m) ${there%% *} $seen"
echo "$dir"
"#;

/// A command that reads the program from stdin and prints its time. The folder was checked, and a
/// hash is hexadecimal.
const TAKE: &str = r#"sh -c 'umask 077; cd DIR && cat > new-$$ && chmod 700 new-$$ &&
 there=$(sha256sum < new-$$) && if [ "${there%% *}" = HASH ]; then mv new-$$ dfsbench-HASH &&
 { stat -c %.9Y dfsbench-HASH; true; }; else echo "what arrived is not what was sent" >&2; false; fi || { rm -f new-$$; exit 1; }'"#;

/// A command that removes what [`TAKE`] put there, unless another campaign has looked at it since,
/// which then removes it; a folder that others use is kept.
const REMOVE: &str = r#"sh -c '[ "$(stat -c %.9Y DIR/dfsbench-HASH 2>/dev/null)" = "SEEN" ] &&
 rm -f DIR/dfsbench-HASH; rmdir DIR 2>/dev/null; true'"#;

/// The time of a program on a host that does not report the times of files.
const UNSEEN: &str = "unknown";

/// The starter of agents on other hosts, on several at one moment where threads share it.
pub struct Launcher {
    /// Programs, each read when a host first needs it.
    binaries: Vec<(PathBuf, OnceLock<Result<Binary, String>>)>,
    control: TempDir,
    /// Locked as long as the folder is in use.
    _lock: File,
    /// Files that are left to be removed, each with its host.
    left: Mutex<Vec<(Host, String)>>,
}

/// The state in which a host was found.
struct Found {
    directory: String,
    system: String,
    machine: String,
    /// The hash of the program that is there under the name that was looked for.
    hash: String,
    /// The time of the last look at it: ours, just now.
    seen: String,
}

/// A program on a host.
struct Put {
    path: String,
    /// The time of the last look at it, in seconds since 1970.
    seen: String,
}

impl Launcher {
    /// Starts agents from the first of these programs that a host can run.
    ///
    /// # Errors
    /// When no private folder can be made for the connections' sockets.
    pub fn new(binaries: Vec<PathBuf>) -> Result<Self, Gone> {
        // The path of a socket has 107 bytes at most, and ssh's own part takes 57.
        let long = std::env::temp_dir().as_os_str().len() > 30;
        let folder = if long { "/tmp".into() } else { std::env::temp_dir() };
        let (control, lock) = match Self::prepare_folder(&folder) {
            Ok(both) => both,
            Err(error) => {
                return Err(Gone(format!("can't make a folder in {}: {error}", folder.display())));
            }
        };
        let mut unread = Vec::new();
        for path in binaries {
            unread.push((path, OnceLock::new()));
        }
        Ok(Self { binaries: unread, control, _lock: lock, left: Mutex::default() })
    }

    /// Makes the folder of the sockets, and locks a file in it: a folder whose lock is free belongs
    /// to a controller that was killed.
    fn prepare_folder(folder: &Path) -> std::io::Result<(TempDir, File)> {
        let control = tempfile::Builder::new().prefix(CONTROL).tempdir_in(folder)?;
        let lock = File::create(control.path().join(LOCK))?;
        lock.lock()?;
        // Written only now, so that an empty file means a lock that is not held yet.
        (&lock).write_all(LOCKED)?;
        remove_stale_folders(folder, control.path());
        Ok((control, lock))
    }

    /// Puts an agent on a host and starts it.
    ///
    /// # Errors
    /// When the host can't be reached or used; one sentence with ssh's own last line.
    pub fn launch(&self, host: &Host, stop: &Arc<AtomicBool>) -> Result<Remote, Gone> {
        let Put { path, seen } = self.put_program(host)?;
        let seen = if seen.is_empty() { UNSEEN } else { &seen };
        let mut command = self.ssh_command(host);
        // The agent removes the program at its end, unless the time shows another campaign's use.
        command.arg(format!("{path} agent --stdio --pushed {seen}"));
        Remote::start(&mut command, &host.name, Arc::clone(stop))
    }

    /// Makes sure that a host has a program that runs there, and returns where it is.
    fn put_program(&self, host: &Host) -> Result<Put, Gone> {
        let mut refused = None;
        for (path, binary) in &self.binaries {
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
            let program = format!("{}/dfsbench-{}", found.directory, binary.hash);
            // The folder was made by looking, so it is removed even if the program never gets
            // there.
            let mut remove = self.note_removal(host, &found, binary, &found.seen);
            let mut seen = found.seen.clone();
            // The name holds the hash, but only the content proves what is there.
            if found.hash != binary.hash {
                seen = self.push_program(host, binary, &found.directory)?;
                remove = self.note_removal(host, &found, binary, &seen);
            }
            match self.run_command(host, &format!("{program} --version"))? {
                ended if ended.worked() => return Ok(Put { path: program, seen }),
                ended => refused = ended.last_line,
            }
            // A host may have space for one of them only.
            let _ = self.run_command(host, &remove);
        }
        let why = refused.unwrap_or_else(|| "it ends at once".to_owned());
        Err(host_error(
            host,
            &format!(
                "it can't run this dfsbench: {why} (hint: `cargo xtask static` builds one that \
                 needs nothing; put it beside this one as `dfsbench-static`, or name it in \
                 DFSBENCH_AGENT_BINARY)"
            ),
        ))
    }

    /// Notes what is to be removed at the end, and returns the command that does it.
    fn note_removal(&self, host: &Host, found: &Found, binary: &Binary, seen: &str) -> String {
        let words = fill_in(REMOVE, &found.directory, &binary.hash);
        let words = words.replace("SEEN", seen).replace('\n', "");
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.push((host.clone(), words.clone()));
        words
    }

    /// Finds out what a host is, and which program it has.
    fn inspect_host(&self, host: &Host, binary: &Binary) -> Result<Found, Gone> {
        let mut command = self.ssh_command(host);
        command.arg("sh");
        let script = LOOK.replace("HASH", &binary.hash);
        let ended = bounded::with_input(&mut command, script, COMMAND_WITHIN);
        let ended = ended.map_err(|error| host_error(host, &error))?;
        if !ended.worked() {
            return Err(describe_refusal(host, &ended, "there is no space for the agent"));
        }
        if let Some(found) = Found::parse(&ended.stdout) {
            return Ok(found);
        }
        let line = ended.stdout.lines().next().unwrap_or_default();
        Err(host_error(
            host,
            &format!("its shell answers `{line}` (hint: nothing in its start-up files may print)"),
        ))
    }

    /// Copies the program to a host, and returns the time that the file has there.
    fn push_program(&self, host: &Host, binary: &Binary, directory: &str) -> Result<String, Gone> {
        let mut command = self.ssh_command(host);
        command.arg(fill_in(TAKE, directory, &binary.hash).replace('\n', ""));
        let file = binary.open().map_err(|error| host_error(host, &error))?;
        let ended = bounded::with_file(&mut command, file, PUSH_WITHIN);
        let ended = ended.map_err(|error| host_error(host, &error))?;
        if ended.worked() {
            return Ok(parse_time(&ended.stdout).to_owned());
        }
        let mib = binary.len_bytes.div_ceil(1 << 20);
        Err(describe_refusal(
            host,
            &ended,
            &format!("{directory} does not take the agent of {mib} MiB"),
        ))
    }

    /// Runs a command on a host; its own failure is a result, only that of ssh is an error.
    fn run_command(&self, host: &Host, words: &str) -> Result<Ended, Gone> {
        let mut command = self.ssh_command(host);
        command.arg(words);
        let ended = bounded::with_input(&mut command, String::new(), COMMAND_WITHIN);
        let ended = ended.map_err(|error| host_error(host, &error))?;
        if ended.code == Some(SSH_FAILED) {
            return Err(describe_refusal(host, &ended, ""));
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
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        // Removals go over the shared connections, so these are closed only afterwards.
        for some in left.chunks(AT_ONCE_MAX) {
            thread::scope(|scope| {
                for (host, remove) in some {
                    scope.spawn(|| self.remove_program(host, remove));
                }
            });
        }
        // One host may have several agents, whose sessions share a connection.
        let mut hosts: Vec<&Host> = Vec::new();
        for (host, _) in &left {
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

impl Found {
    /// Reads the last two lines of [`LOOK`]'s output: a login may print others before them.
    fn parse(text: &str) -> Option<Self> {
        let (head, directory) = text.trim_end().rsplit_once('\n')?;
        let mut words = head.lines().last()?.strip_prefix("dfsbench-host ")?.split(' ');
        let (system, machine, hash) = (words.next()?, words.next()?, words.next()?);
        let seen = parse_time(words.next().unwrap_or_default());
        // The directory becomes part of commands for a shell, so only plain ones are accepted.
        let is_plain = directory.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        if !directory.starts_with('/') || !is_plain {
            return None;
        }
        Some(Self {
            directory: directory.to_owned(),
            system: system.to_owned(),
            machine: machine.to_owned(),
            hash: hash.to_owned(),
            seen: seen.to_owned(),
        })
    }
}

/// Removes the folders of our controllers that were killed: their locks are free.
fn remove_stale_folders(folder: &Path, mine: &Path) {
    let Ok(our_folder) = fs::symlink_metadata(mine) else { return };
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(CONTROL) {
            continue;
        }
        let path = entry.path();
        // Another user's folder of that name is not ours to remove, nor is a link.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if !found.is_dir() || found.uid() != our_folder.uid() {
            continue;
        }
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        let was_locked = lock.metadata().is_ok_and(|it| it.len() == LOCKED.len() as u64);
        if was_locked && lock.try_lock().is_ok() {
            // The next controller finds what can't be removed now.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Returns the address of a host, in ssh's words.
fn ssh_address(host: &Host) -> &str {
    host.ssh.as_deref().unwrap_or("localhost")
}

/// Reads the time that a host's `stat` printed; empty where it printed something else.
fn parse_time(text: &str) -> &str {
    let text = text.trim();
    let is_time = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_time { text } else { "" }
}

fn fill_in(words: &str, directory: &str, hash: &str) -> String {
    words.replace("DIR", directory).replace("HASH", hash)
}

fn host_error(host: &Host, why: &dyn std::fmt::Display) -> Gone {
    Gone(format!("host {}: {why}", host.name))
}

/// Describes why a command on a host failed: ssh's own reason where it is ssh's, else `what`.
fn describe_refusal(host: &Host, ended: &Ended, what: &str) -> Gone {
    let reason = ended.last_line.as_deref().unwrap_or("ssh gives no reason");
    if ended.code != Some(SSH_FAILED) {
        return host_error(host, &format!("{what}: {reason}"));
    }
    let name = match &host.ssh_config {
        Some(config) => format!("-F {} {}", config.display(), ssh_address(host)),
        None => ssh_address(host).to_owned(),
    };
    let why = if ended.has_other_key {
        format!(
            "it has another host key than ssh knows: {reason} (hint: `ssh {name}` says which; make \
             sure that it is the host you mean)"
        )
    } else if reason.contains("Host key verification failed") {
        format!("ssh does not know it: {reason} (hint: log in by hand once: `ssh {name}`)")
    } else if reason.contains("Permission denied") || reason.contains("authentication failures") {
        format!(
            "it refuses the login: {reason} (hint: `ssh {name} true` must work without a prompt)"
        )
    } else {
        format!("it can't be reached: {reason}")
    };
    host_error(host, &why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_of_itself_is_read_after_whatever_its_shell_prints() {
        let found = Found::parse("welcome\ndfsbench-host Linux x86_64 ab12\n/tmp/dfsbench-0\n");
        let found = found.unwrap();
        assert_eq!((found.system.as_str(), found.machine.as_str()), ("Linux", "x86_64"));
        assert_eq!((found.hash.as_str(), found.directory.as_str()), ("ab12", "/tmp/dfsbench-0"));
        // Nothing is there yet.
        assert_eq!(Found::parse("dfsbench-host Linux x86_64 \n/x\n").unwrap().hash, "");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "files are made to look old")]
    fn programs_that_killed_campaigns_left_are_removed_unless_they_are_in_use() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("dfsbench");
        fs::create_dir(&folder).unwrap();
        let (mine, old, used, new) =
            ("a".repeat(64), "b".repeat(64), "c".repeat(64), "d".repeat(64));
        let of = |hash: &str| folder.join(format!("dfsbench-{hash}"));
        let others = ["dfsbench-notes", "dfsbench-12", "new-notes", "results.db"];
        for path in [of(&mine), of(&old), of(&used), of(&new), folder.join("new-12")] {
            fs::copy("/bin/sleep", path).unwrap();
        }
        for name in others {
            fs::write(folder.join(name), "").unwrap();
        }
        let an_hour_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
        for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if file != of(&new) {
                let file = File::options().write(true).open(file).unwrap();
                file.set_modified(an_hour_ago).unwrap();
            }
        }
        let mut agent = Command::new(of(&used)).arg("600").spawn().unwrap();
        let mut look = Command::new("sh");
        look.arg("-c").arg(LOOK.replace("HASH", &mine)).env("XDG_CACHE_HOME", cache.path());
        let printed = look.output();
        agent.kill().unwrap();
        agent.wait().unwrap();
        let found = Found::parse(&String::from_utf8(printed.unwrap().stdout).unwrap()).unwrap();
        assert_eq!((found.hash.len(), found.directory.as_str()), (64, folder.to_str().unwrap()));
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path()).collect();
        assert!(!left.contains(&of(&old)) && !left.contains(&folder.join("new-12")), "{left:?}");
        assert_eq!(left.len(), 3 + others.len(), "{left:?}");
        // Who looks for it next is not the one who would remove it.
        let touched = fs::metadata(of(&mine)).unwrap().modified().unwrap();
        assert!(touched > an_hour_ago + Duration::from_secs(60));
    }

    #[test]
    fn a_program_goes_unless_another_campaign_has_looked_at_it_since() {
        let cache = tempfile::tempdir().unwrap();
        let hash = "a".repeat(64);
        let sh = |words: &str| {
            let mut sh = Command::new("sh");
            let output = sh.arg("-c").arg(words).env("XDG_CACHE_HOME", cache.path()).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let look = || Found::parse(&sh(&LOOK.replace("HASH", &hash))).unwrap();
        let empty = look();
        assert_eq!((empty.hash.as_str(), empty.seen.as_str()), ("", ""));
        let program = cache.path().join("dfsbench").join(format!("dfsbench-{hash}"));
        fs::write(&program, "program").unwrap();
        let words = |seen: &str| {
            fill_in(REMOVE, &empty.directory, &hash).replace("SEEN", seen).replace('\n', "")
        };
        let first = look().seen;
        let second = (0..1_000).map(|_| look().seen).find(|seen| *seen != first).unwrap();
        for seen in [first.as_str(), ""] {
            sh(&words(seen));
            assert!(program.exists(), "{seen}");
        }
        sh(&words(&second));
        assert!(!program.parent().unwrap().exists());
    }

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
        remove_stale_folders(folder.path(), &used.0);
        let there = |path: &Path| path.exists();
        assert_eq!((there(&dead.0), there(&used.0), there(&new.0)), (false, true, true));
        assert!(folder.path().join("other").exists());
    }

    #[test]
    fn a_folder_that_a_shell_would_misread_is_refused() {
        for directory in ["/tmp/a b", "relative", "/tmp/$(reboot)", "/tmp/'x"] {
            let text = format!("dfsbench-host Linux x86_64 \n{directory}\n");
            assert!(Found::parse(&text).is_none(), "{directory}");
        }
    }

    #[test]
    fn ssh_gets_its_options_and_a_host_is_never_an_option() {
        let launcher = Launcher::new(Vec::new()).unwrap();
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

    #[test]
    fn each_way_to_be_refused_has_its_own_sentence() {
        let host = Host { ssh: Some("root@h".into()), ..Host::here("web") };
        let message = |line: &str| {
            let last_line = Some(line.to_owned());
            let has_other_key = line.contains("known otherwise");
            let stdout = String::new();
            let ended = Ended { code: Some(SSH_FAILED), stdout, last_line, has_other_key };
            describe_refusal(&host, &ended, "").to_string()
        };
        let known = [
            ("Host key verification failed.", "host web: ssh does not know it: Host key"),
            ("Host key, known otherwise.", "host web: it has another host key than ssh knows: H"),
            ("root@h: Permission denied (publickey).", "host web: it refuses the login: root@h"),
            ("ssh: connect to host h port 22: No route", "host web: it can't be reached: ssh: con"),
        ];
        for (words, start) in known {
            assert!(message(words).starts_with(start), "{}", message(words));
        }
    }
}
