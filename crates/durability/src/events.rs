//! The events of a durability measurement, and how to trigger and undo them.
//!
//! [`ArrangedEvent`] is an event named on the command line, with everything it needs. Nothing else
//! is ever killed, cut off or reset. The command that undoes an event is started in a separate
//! process before the event is triggered. It runs when this process asks for it or exits for any
//! reason.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use controller::FaultInjector;
use model::durability::CrashEvent;
use model::soak::FaultKind;

use crate::protocol::now_ns;

/// Maximum time a command may take.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);

/// Polling interval while waiting.
const TICK: Duration = Duration::from_millis(20);

const NOTHING_AT_RISK: &str = "the in-memory server keeps its data when it restarts, unless a \
                               fault makes it lose some (hint: use --fault lose-unstable)";

/// An event and how to trigger it.
#[derive(Debug)]
pub(crate) struct ArrangedEvent {
    pub event: CrashEvent,
    pub way: EventTrigger,
}

/// Ways to trigger an event.
#[derive(Debug)]
pub(crate) enum EventTrigger {
    /// Restart the in-memory server of this process.
    RestartEmbedded {
        /// Whether a planned fault makes the server lose data on restart.
        loses_data: bool,
    },
    /// Keep the in-memory server of this process from answering for a while.
    StallEmbedded(Duration),
    /// Kill and restart the servers of a system that the plan has set up.
    CrashSystem,
    /// Cut the power of the server of a system that the plan has set up, in this way, then set the
    /// server up again on the file systems that are left.
    SystemPower(Box<Self>),
    /// Kill the client process.
    KillClient,
    /// Run commands that trigger and undo the event.
    Commands {
        /// Command that triggers the event.
        make: String,
        /// Command that undoes it, unless the event ends by itself.
        undo: Option<String>,
        /// Time between the two commands.
        lasts: Duration,
    },
    /// Reset a host through its kernel, over ssh.
    Sysrq {
        /// Host name as ssh resolves it.
        host: String,
        ssh_config: Option<PathBuf>,
        /// Command that makes the target available after the host has booted.
        power_on: Option<String>,
    },
}

/// Kills and restarts the servers of a running system.
#[derive(Clone, Copy)]
pub(crate) struct SystemControl<'a> {
    pub kill: &'a dyn Fn() -> Result<(), String>,
    /// Restarts the servers that were killed.
    pub restart: &'a dyn Fn() -> Result<(), String>,
    /// Remounts the file system on all clients.
    pub mount_again: &'a dyn Fn() -> Result<(), String>,
    /// Sets the server up again after it lost power.
    pub start_again: &'a dyn Fn() -> Result<(), String>,
}

impl ArrangedEvent {
    /// Returns true for a crash that can be repeated: the target restarts with the data it kept,
    /// and it is able to lose some.
    pub(crate) const fn can_be_repeated(&self) -> bool {
        matches!(self.event, CrashEvent::KillServer | CrashEvent::PowerCut)
            && !matches!(self.way, EventTrigger::RestartEmbedded { loses_data: false })
    }

    /// Explains why the event can't destroy any data, if it can't.
    pub(crate) fn nothing_at_risk(&self) -> Option<String> {
        if matches!(self.way, EventTrigger::RestartEmbedded { loses_data: false }) {
            Some(NOTHING_AT_RISK.to_owned())
        } else {
            None
        }
    }

    /// Describes in a few words how the event is triggered.
    pub(crate) fn describe(&self) -> String {
        self.way.describe()
    }

    /// Triggers the event and undoes it. Returns the time by which it had happened, in nanoseconds
    /// of the clock used for acknowledgements.
    ///
    /// # Errors
    /// If the event could not be triggered or undone; the message is a full sentence.
    pub(crate) fn make(
        &self,
        inject_fault: Option<&FaultInjector<'_>>,
        system: Option<SystemControl<'_>>,
        kill_client: &mut dyn FnMut(),
    ) -> Result<u64, String> {
        self.way.make(inject_fault, system, kill_client)
    }
}

impl EventTrigger {
    fn describe(&self) -> String {
        match self {
            Self::RestartEmbedded { .. } => "the in-memory server was restarted".to_owned(),
            Self::StallEmbedded(_) => {
                "the in-memory server did not answer for some time".to_owned()
            }
            Self::CrashSystem => "the system's servers were killed and restarted".to_owned(),
            Self::SystemPower(way) => {
                format!("{}, then the system was set up again", way.describe())
            }
            Self::KillClient => "the writing process was killed".to_owned(),
            Self::Commands { make, .. } => format!("`{make}`"),
            Self::Sysrq { host, .. } => format!("{host} was reset (sysrq b)"),
        }
    }

    fn make(
        &self,
        inject_fault: Option<&FaultInjector<'_>>,
        system: Option<SystemControl<'_>>,
        kill_client: &mut dyn FnMut(),
    ) -> Result<u64, String> {
        let set_up = || system.ok_or_else(|| "the plan has set up no system".to_owned());
        match self {
            Self::CrashSystem => {
                let system = set_up()?;
                (system.kill)()?;
                let made_ns = now_ns();
                (system.restart)()?;
                Ok(made_ns)
            }
            Self::SystemPower(way) => {
                let system = set_up()?;
                let made_ns = way.make(inject_fault, Some(system), kill_client)?;
                (system.start_again)()?;
                Ok(made_ns)
            }
            Self::RestartEmbedded { .. } => {
                inject(inject_fault, FaultKind::ServerRestart, Duration::ZERO)?;
                Ok(now_ns())
            }
            Self::StallEmbedded(lasts) => {
                inject(inject_fault, FaultKind::ServerStall, *lasts)?;
                let made_ns = now_ns();
                thread::sleep(*lasts);
                Ok(made_ns)
            }
            Self::KillClient => {
                kill_client();
                Ok(now_ns())
            }
            Self::Commands { make, undo, lasts } => {
                let guard = undo.as_deref().map(Guard::start).transpose()?;
                let made = run_shell(make);
                let made_ns = now_ns();
                if made.is_ok() {
                    thread::sleep(*lasts);
                }
                // A command that failed halfway is undone as well.
                let undone = guard.map_or(Ok(()), Guard::run);
                made.and(undone).map(|()| made_ns)
            }
            Self::Sysrq { host, ssh_config, power_on } => {
                let ssh = Ssh { host, config: ssh_config.as_ref() };
                let made_ns = ssh.reset()?;
                power_on.as_deref().map_or(Ok(()), run_shell)?;
                Ok(made_ns)
            }
        }
    }
}

fn inject(
    inject_fault: Option<&FaultInjector<'_>>,
    fault: FaultKind,
    lasts: Duration,
) -> Result<(), String> {
    let Some(inject) = inject_fault else { return Err("there is no in-memory server".to_owned()) };
    inject(fault, lasts.as_millis() as u64)
}

/// A command waiting in a separate process until it is time to run it.
struct Guard {
    child: Child,
    stdin: ChildStdin,
    line: String,
    output: File,
}

impl Guard {
    /// Starts the process. It runs the command as soon as its stdin is closed, for whatever reason.
    fn start(line: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot start a shell for `{line}`: {error}");
        let output = tempfile::tempfile().map_err(failed)?;
        let script = "cat >/dev/null; exec sh -c \"$1\" </dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", line]).stdin(Stdio::piped());
        let mut child = start_aside(command, &output).map_err(failed)?;
        let Some(stdin) = child.stdin.take() else { return Err(format!("`{line}` has no stdin")) };
        Ok(Self { child, stdin, line: line.to_owned(), output })
    }

    /// Runs the command now and waits for it to finish.
    fn run(self) -> Result<(), String> {
        drop(self.stdin);
        await_command(self.child, &self.line, self.output)
    }
}

/// Runs a shell command and waits for it to finish, but not for processes it leaves running.
///
/// # Errors
/// If it fails or takes too long; the message contains the last line of its output.
pub(crate) fn run_shell(line: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot start a shell for `{line}`: {error}");
    let output = tempfile::tempfile().map_err(failed)?;
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    let child = start_aside(command, &output).map_err(failed)?;
    await_command(child, line, output)
}

/// Starts a command in its own process group, so that Ctrl-C doesn't reach it. Output goes to a
/// file because a server left running by the command would keep a pipe open.
fn start_aside(mut command: Command, output: &File) -> std::io::Result<Child> {
    command.process_group(0).stdout(output.try_clone()?).stderr(output.try_clone()?);
    command.spawn()
}

fn await_command(mut child: Child, line: &str, output: File) -> Result<(), String> {
    let deadline = Instant::now() + COMMAND_WITHIN;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                return Err(format!("`{line}` failed ({status}){}", last_words(output)));
            }
            Ok(None) if Instant::now() < deadline => thread::sleep(TICK),
            Ok(None) => {
                let _ = child.kill();
                let limit = COMMAND_WITHIN.as_secs();
                return Err(format!("`{line}` took more than {limit} s{}", last_words(output)));
            }
            Err(error) => return Err(format!("cannot wait for `{line}`: {error}")),
        }
    }
}

/// Returns the last line of a command's output, for use in a message.
fn last_words(mut output: File) -> String {
    let mut bytes = Vec::new();
    let read = output.rewind().and_then(|()| output.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    match (read, text.lines().rfind(|line| !line.trim().is_empty())) {
        (Ok(_), Some(line)) => format!(": {}", line.trim()),
        _ => String::new(),
    }
}

/// A host reachable over ssh.
struct Ssh<'a> {
    host: &'a str,
    config: Option<&'a PathBuf>,
}

impl Ssh<'_> {
    /// Resets the host immediately, without a sync, and waits until it has booted again. Returns
    /// the time at which it went down.
    ///
    /// **Source:** Linux Documentation/admin-guide/sysrq.rst: `b` reboots without syncing or
    /// unmounting.
    fn reset(&self) -> Result<u64, String> {
        let before = self.boot_id()?;
        // ssh exits when the host stops answering; that is not a failure.
        let _ = self.run("echo 1 >/proc/sys/kernel/sysrq && echo b >/proc/sysrq-trigger");
        let made_ns = now_ns();
        let deadline = Instant::now() + COMMAND_WITHIN;
        loop {
            match self.boot_id() {
                Ok(after) if after != before => return Ok(made_ns),
                _ if Instant::now() < deadline => thread::sleep(Duration::from_secs(1)),
                Ok(_) => return Err(format!("{}: sysrq did not reset the host", self.host)),
                Err(why) => return Err(format!("the host has not come back: {why}")),
            }
        }
    }

    /// Returns an ID that changes with every boot of the host.
    fn boot_id(&self) -> Result<String, String> {
        let output = self.run("cat /proc/sys/kernel/random/boot_id");
        let output = output.map_err(|error| format!("cannot start ssh: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let why = text.lines().last().unwrap_or("ssh failed").trim().to_owned();
            return Err(format!("{}: {why}", self.host));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn run(&self, line: &str) -> std::io::Result<std::process::Output> {
        let mut command = Command::new("ssh");
        if let Some(config) = self.config {
            command.arg("-F").arg(config);
        }
        // Don't share a connection: a shared one would hang along with the host.
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=5",
            "ServerAliveInterval=2",
            "ServerAliveCountMax=2",
            "ControlPath=none",
        ] {
            command.args(["-o", option]);
        }
        command.arg("--").arg(self.host).arg(line).process_group(0);
        command.stdin(Stdio::null()).output()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn orders_acknowledgements_after_restart() {
        let killed_ns = Cell::new(0);
        let restarted_ns = Cell::new(0);
        let kill = || {
            killed_ns.set(now_ns());
            Ok(())
        };
        let restart = || {
            restarted_ns.set(now_ns());
            Ok(())
        };
        let system = SystemControl {
            kill: &kill,
            restart: &restart,
            mount_again: &kill,
            start_again: &restart,
        };
        let power = EventTrigger::SystemPower(Box::new(EventTrigger::Commands {
            make: "true".to_owned(),
            undo: None,
            lasts: Duration::ZERO,
        }));
        for way in [EventTrigger::CrashSystem, power] {
            let begun_ns = now_ns();
            let mut kill_client = || panic!("the client must not be killed");
            let made_ns = way.make(None, Some(system), &mut kill_client).unwrap();
            assert!(begun_ns < made_ns && made_ns < restarted_ns.get(), "{way:?}: {made_ns}");
            assert!(killed_ns.get() < made_ns, "{way:?}: {made_ns}");
        }
        let why = EventTrigger::CrashSystem.make(None, None, &mut || {}).unwrap_err();
        assert_eq!(why, "the plan has set up no system");
    }

    #[test]
    fn includes_last_output_of_command() {
        assert_eq!(run_shell("true"), Ok(()));
        let why = run_shell("echo first; echo no such host >&2; exit 3").unwrap_err();
        assert!(why.contains("exit status: 3") && why.ends_with(": no such host"), "{why}");
    }

    #[test]
    fn undoes_event_when_released() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let line = format!("touch {}", made.display());
        let guard = Guard::start(&line).unwrap();
        assert!(!made.exists());
        guard.run().unwrap();
        assert!(made.exists());
    }

    #[test]
    fn undoes_event_without_parent() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let guard = Guard::start(&format!("touch {}", made.display())).unwrap();
        let Guard { mut child, stdin, .. } = guard;
        // The kernel also closes the pipe when a process is killed.
        drop(stdin);
        assert!(child.wait().unwrap().success());
        assert!(made.exists());
    }
}
