//! Agents on other hosts, through the user's own OpenSSH.
//!
//! [`Launcher`] puts this program on a host, unless it is there, and starts it there as an agent.
//! ssh decides by the user's own configuration whom it trusts and asks nobody; all sessions to a
//! host share one connection. What is on the host lies in a folder of ours and goes away with the
//! agent. Nothing but the agent is run there, save what puts it there and takes it away.
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

/// How long a word with a host may take, a slow login included.
const WORD_WITHIN: Duration = Duration::from_secs(30);

/// How long the program may take to get to a host.
const PUSH_WITHIN: Duration = Duration::from_secs(300);

/// How long a host may take to be left, which nobody can do anything about.
const LEAVE_WITHIN: Duration = Duration::from_secs(4);

/// Hosts that are talked to at one moment, at most: each takes a process and some files.
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

/// Says where our folder is, after seeing that it is ours, and which program is in it.
///
/// Programs of other versions are removed that campaigns left there which were killed: those that
/// no process executes, and that nobody has looked for of late. Whoever looks for a program starts
/// it well within that time ([`PUSH_WITHIN`]), so none is removed that is about to be started.
///
/// It is fed to `sh`; the only thing that is put into it is a hash.
const LOOK: &str = r#"umask 077
if [ -n "$XDG_CACHE_HOME" ]; then dir=$XDG_CACHE_HOME/dfsbench; else dir=/tmp/dfsbench-$(id -u); fi
mkdir -p "$dir" || exit 1
if [ -h "$dir" ] || [ ! -O "$dir" ]; then echo "$dir belongs to somebody else" >&2; exit 1; fi
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

/// Takes the program from stdin and says its time. The folder has been looked at, and a hash is
/// hexadecimal.
const TAKE: &str = r#"sh -c 'umask 077; cd DIR && cat > new-$$ && chmod 700 new-$$ &&
 there=$(sha256sum < new-$$) && if [ "${there%% *}" = HASH ]; then mv new-$$ dfsbench-HASH &&
 { stat -c %.9Y dfsbench-HASH; true; }; else echo "what arrived is not what was sent" >&2; false; fi || { rm -f new-$$; exit 1; }'"#;

/// Takes away what [`TAKE`] put there, unless another campaign has looked at it since, which then
/// takes it away; a folder that others use stays.
const REMOVE: &str = r#"sh -c '[ "$(stat -c %.9Y DIR/dfsbench-HASH 2>/dev/null)" = "SEEN" ] &&
 rm -f DIR/dfsbench-HASH; rmdir DIR 2>/dev/null; true'"#;

/// A host that does not tell the times of files.
const UNSEEN: &str = "unknown";

/// Starts agents on other hosts, on several at one moment where threads share it.
pub struct Launcher {
    /// Programs, each read when a host first needs it.
    binaries: Vec<(PathBuf, OnceLock<Result<Binary, String>>)>,
    control: TempDir,
    /// Locked as long as somebody uses the folder.
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
    /// When it was last looked at: by us, just now.
    seen: String,
}

/// A program on a host.
struct Put {
    path: String,
    /// When it was last looked at, in seconds since 1970.
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
        let control = tempfile::Builder::new().prefix(CONTROL).tempdir_in(&folder);
        let control = control.and_then(|control| {
            let lock = File::create(control.path().join(LOCK))?;
            lock.lock()?;
            (&lock).write_all(LOCKED)?;
            sweep(&folder, control.path());
            Ok((control, lock))
        });
        let (control, lock) = control.map_err(|error| {
            Gone(format!("can't make a folder in {}: {error}", folder.display()))
        })?;
        let binaries = binaries.into_iter().map(|path| (path, OnceLock::new())).collect();
        Ok(Self { binaries, control, _lock: lock, left: Mutex::default() })
    }

    /// Puts an agent on a host and starts it.
    ///
    /// # Errors
    /// When the host can't be reached or used; one sentence with ssh's own last words.
    pub fn launch(&self, host: &Host, stop: &Arc<AtomicBool>) -> Result<Remote, Gone> {
        let Put { path, seen } = self.put(host)?;
        let seen = if seen.is_empty() { UNSEEN } else { &seen };
        let mut command = self.ssh(host);
        command.arg(format!("{path} agent --stdio --pushed {seen}"));
        Remote::start(&mut command, &host.name, Arc::clone(stop))
    }

    /// Sees that a host has a program that runs there, and says where.
    fn put(&self, host: &Host) -> Result<Put, Gone> {
        let mut refused = None;
        for (path, binary) in &self.binaries {
            let binary = binary.get_or_init(|| Binary::read(path)).as_ref();
            let binary = binary.map_err(|error| of(host, error))?;
            let found = self.look(host, binary)?;
            if found.system != "Linux" || found.machine != binary.machine {
                return Err(of(
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
            // Whatever comes of it, the folder goes, too.
            let mut remove = self.will_remove(host, &found, binary, &found.seen);
            let mut seen = found.seen.clone();
            if found.hash != binary.hash {
                seen = self.push(host, binary, &found.directory)?;
                remove = self.will_remove(host, &found, binary, &seen);
            }
            match self.word(host, &format!("{program} --version"))? {
                ended if ended.worked() => return Ok(Put { path: program, seen }),
                ended => refused = ended.last_words,
            }
            // A host may have room for one of them.
            let _ = self.word(host, &remove);
        }
        let why = refused.unwrap_or_else(|| "it ends at once".to_owned());
        Err(of(
            host,
            &format!(
                "it can't run this dfsbench: {why} (hint: `cargo xtask static` builds one that \
                 needs nothing; put it beside this one as `dfsbench-static`, or name it in \
                 DFSBENCH_AGENT_BINARY)"
            ),
        ))
    }

    /// Keeps in mind what is to be taken away, with the words that do it.
    fn will_remove(&self, host: &Host, found: &Found, binary: &Binary, seen: &str) -> String {
        let words = filled(REMOVE, &found.directory, &binary.hash);
        let words = words.replace("SEEN", seen).replace('\n', "");
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.push((host.clone(), words.clone()));
        words
    }

    fn look(&self, host: &Host, binary: &Binary) -> Result<Found, Gone> {
        let mut command = self.ssh(host);
        command.arg("sh");
        let script = LOOK.replace("HASH", &binary.hash);
        let ended = bounded::with_input(&mut command, script, WORD_WITHIN);
        let ended = ended.map_err(|error| of(host, &error))?;
        if !ended.worked() {
            return Err(refusal(host, &ended, "there is no room for the agent"));
        }
        Found::parse(&ended.stdout).ok_or_else(|| {
            let line = ended.stdout.lines().next().unwrap_or_default();
            of(
                host,
                &format!(
                    "its shell answers `{line}` (hint: nothing in its start-up files may print)"
                ),
            )
        })
    }

    /// Says when the program was put there.
    fn push(&self, host: &Host, binary: &Binary, directory: &str) -> Result<String, Gone> {
        let mut command = self.ssh(host);
        command.arg(filled(TAKE, directory, &binary.hash).replace('\n', ""));
        let file = binary.open().map_err(|error| of(host, &error))?;
        let ended = bounded::with_file(&mut command, file, PUSH_WITHIN);
        let ended = ended.map_err(|error| of(host, &error))?;
        if ended.worked() {
            return Ok(time(&ended.stdout).to_owned());
        }
        let mib = binary.len_bytes.div_ceil(1 << 20);
        Err(refusal(host, &ended, &format!("{directory} does not take the agent of {mib} MiB")))
    }

    /// Runs a command on a host whose exit code is worth to be known.
    fn word(&self, host: &Host, words: &str) -> Result<Ended, Gone> {
        let mut command = self.ssh(host);
        command.arg(words);
        let ended = bounded::with_input(&mut command, String::new(), WORD_WITHIN);
        let ended = ended.map_err(|error| of(host, &error))?;
        if ended.code == Some(SSH_FAILED) {
            return Err(refusal(host, &ended, ""));
        }
        Ok(ended)
    }

    /// Takes the program away.
    fn take_away(&self, host: &Host, remove: &str) {
        // An agent that ended as it should has taken itself away; `clean` can do it later.
        let _ = bounded::with_input(self.ssh(host).arg(remove), String::new(), LEAVE_WITHIN);
    }

    /// Ends the connection to a host.
    fn hang_up(&self, host: &Host) {
        let mut leave = self.options(host);
        leave.args(["-O", "exit", "--"]).arg(address(host));
        let _ = bounded::with_input(&mut leave, String::new(), LEAVE_WITHIN);
    }

    /// An ssh to a host, without the words for its shell.
    fn ssh(&self, host: &Host) -> Command {
        let mut command = self.options(host);
        command.arg("--").arg(address(host));
        command
    }

    /// An ssh that doesn't know yet to which host.
    fn options(&self, host: &Host) -> Command {
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
        for some in left.chunks(AT_ONCE_MAX) {
            thread::scope(|scope| {
                for (host, remove) in some {
                    scope.spawn(|| self.take_away(host, remove));
                }
            });
        }
        // One host may have several agents, whose sessions share a connection.
        let mut hosts: Vec<&Host> = Vec::new();
        for (host, _) in &left {
            let is_like =
                |other: &&Host| (&other.ssh, &other.ssh_config) == (&host.ssh, &host.ssh_config);
            if !hosts.iter().any(is_like) {
                hosts.push(host);
            }
        }
        for some in hosts.chunks(AT_ONCE_MAX) {
            thread::scope(|scope| {
                for host in some {
                    scope.spawn(|| self.hang_up(host));
                }
            });
        }
    }
}

impl Found {
    fn parse(text: &str) -> Option<Self> {
        let (head, directory) = text.trim_end().rsplit_once('\n')?;
        let mut words = head.lines().last()?.strip_prefix("dfsbench-host ")?.split(' ');
        let (system, machine, hash) = (words.next()?, words.next()?, words.next()?);
        let seen = time(words.next().unwrap_or_default());
        // It is put into words for a shell.
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        (directory.starts_with('/') && directory.chars().all(plain)).then(|| Self {
            directory: directory.to_owned(),
            system: system.to_owned(),
            machine: machine.to_owned(),
            hash: hash.to_owned(),
            seen: seen.to_owned(),
        })
    }
}

/// Removes the folders of our controllers that were killed: nobody holds their locks any more.
fn sweep(folder: &Path, mine: &Path) {
    let owner = |path: &Path| fs::symlink_metadata(path).map(|it| (it.is_dir(), it.uid())).ok();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_name().to_string_lossy().starts_with(CONTROL)) {
        let path = entry.path();
        if owner(&path) != owner(mine) {
            continue;
        }
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        let was_locked = lock.metadata().is_ok_and(|it| it.len() == LOCKED.len() as u64);
        if was_locked && lock.try_lock().is_ok() {
            // What can't be removed now is met again.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Returns the address of a host, in ssh's words.
fn address(host: &Host) -> &str {
    host.ssh.as_deref().unwrap_or("localhost")
}

/// The time in what a host's `stat` printed; nothing where that is none.
fn time(text: &str) -> &str {
    let text = text.trim();
    let is_time = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_time { text } else { "" }
}

fn filled(words: &str, directory: &str, hash: &str) -> String {
    words.replace("DIR", directory).replace("HASH", hash)
}

fn of(host: &Host, why: &dyn std::fmt::Display) -> Gone {
    Gone(format!("host {}: {why}", host.name))
}

/// Why a word with a host failed: ssh's own reason where it is ssh's, else `what`.
fn refusal(host: &Host, ended: &Ended, what: &str) -> Gone {
    let said = ended.last_words.as_deref().unwrap_or("ssh says nothing");
    if ended.code != Some(SSH_FAILED) {
        return of(host, &format!("{what}: {said}"));
    }
    let with_config = host.ssh_config.as_ref().map(|config| format!("-F {} ", config.display()));
    let name = format!("{}{}", with_config.unwrap_or_default(), address(host));
    let why = if ended.is_another {
        format!(
            "it has another host key than ssh knows: {said} (hint: `ssh {name}` says which; make \
             sure that it is the host you mean)"
        )
    } else if said.contains("Host key verification failed") {
        format!("ssh does not know it: {said} (hint: log in by hand once: `ssh {name}`)")
    } else if said.contains("Permission denied") || said.contains("authentication failures") {
        format!("it does not let us in: {said} (hint: `ssh {name} true` must work and ask nothing)")
    } else {
        format!("it can't be reached: {said}")
    };
    of(host, &why)
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
    fn programs_that_killed_campaigns_left_are_removed_unless_somebody_needs_them() {
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
        let said = look.output();
        agent.kill().unwrap();
        agent.wait().unwrap();
        let found = Found::parse(&String::from_utf8(said.unwrap().stdout).unwrap()).unwrap();
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
            filled(REMOVE, &empty.directory, &hash).replace("SEEN", seen).replace('\n', "")
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
        sweep(folder.path(), &used.0);
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
    fn ssh_is_asked_in_its_own_words_and_a_host_is_never_an_option() {
        let launcher = Launcher::new(Vec::new()).unwrap();
        let host = Host {
            ssh: Some("-oProxyCommand=reboot".into()),
            ssh_config: Some("/cfg".into()),
            ..Host::here("h")
        };
        let command = launcher.ssh(&host);
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        assert_eq!(args[..4], ["-T", "-F", "/cfg", "-o"]);
        assert_eq!(args[args.len() - 2..], ["--", "-oProxyCommand=reboot"]);
    }

    #[test]
    fn each_way_to_be_refused_has_its_own_sentence() {
        let host = Host { ssh: Some("root@h".into()), ..Host::here("web") };
        let said = |words: &str| {
            let last_words = Some(words.to_owned());
            let is_another = words.contains("known otherwise");
            let stdout = String::new();
            let ended = Ended { code: Some(SSH_FAILED), stdout, last_words, is_another };
            refusal(&host, &ended, "").to_string()
        };
        let known = [
            ("Host key verification failed.", "host web: ssh does not know it: Host key"),
            ("Host key, known otherwise.", "host web: it has another host key than ssh knows: H"),
            ("root@h: Permission denied (publickey).", "host web: it does not let us in: root@h"),
            ("ssh: connect to host h port 22: No route", "host web: it can't be reached: ssh: con"),
        ];
        for (words, start) in known {
            assert!(said(words).starts_with(start), "{}", said(words));
        }
    }
}
