//! The single commands that an action is made of: shown by a dry run, done by [`Step::perform`].
//!
//! Principal type: [`Step`]. What a dry run prints and what is run come from the same value.

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::Peer;
use rustix::process::{getegid, geteuid};

use crate::commands::{self, LONG, RunAs, Runner, SOON};
use crate::error::LabError;
use crate::host::{calendar, filler, grace, path_probe};
use crate::safety::{self, OverwrittenDevice};
use crate::servers::Awaited;
use crate::{RUN, packages, processes, servers, trust};

/// A command, or another change that is as small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a program to its end.
    Run {
        /// The program and its arguments.
        argv: Vec<String>,
        /// How long it may take.
        limit: Duration,
    },
    /// Runs a program that overwrites devices, once its final arguments were looked at again.
    Overwrite {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Devices that the command may overwrite.
        devices: Vec<OverwrittenDevice>,
    },
    /// Does nothing, and says why.
    Refuse(String),
    /// Writes to a setting of the kernel.
    Write {
        /// The setting's file.
        path: PathBuf,
        /// Text that is written.
        text: String,
    },
    /// Writes as [`Step::Write`] does, where a refusal is fine.
    Offer {
        /// The setting's file.
        path: PathBuf,
        /// Text that is written.
        text: String,
    },
    /// Makes a folder where it is missing.
    Folder(PathBuf),
    /// Writes a file of ours, below /run/dfsbench.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Text of the file.
        text: String,
    },
    /// Starts a program that goes on running, by a link of ours so that it can be found again.
    Start {
        /// Path of the link.
        link: PathBuf,
        /// The program that it leads to, and its arguments.
        argv: Vec<String>,
        /// The user that it runs as.
        user: RunAs,
    },
    /// Waits until something answers on a TCP port of the loopback.
    Await(u16),
    /// Starts a program of a system, which goes on running or ends by itself.
    Launch {
        /// The program and its arguments.
        argv: Vec<String>,
        /// File of its error messages.
        stderr: PathBuf,
    },
    /// Kills the processes that carry a mark, at once.
    KillMarked(PathBuf),
    /// Runs a command again until it succeeds.
    AwaitCommand {
        /// The program and its arguments.
        argv: Vec<String>,
        /// How long at most.
        limit: Duration,
        /// Mark of the programs that shall answer; the folder of their messages, too.
        mark: PathBuf,
        /// Whether one runs on this host: what answers may be elsewhere.
        has_program: bool,
    },
    /// Waits until a program of a system answers on a TCP port of the loopback.
    AwaitService {
        /// Number of the port.
        port: u16,
        /// How long at most.
        limit: Duration,
        /// Mark of the programs, as above.
        mark: PathBuf,
        /// Whether one runs on this host, as above.
        has_program: bool,
    },
    /// Waits until a program of a system has mounted it.
    AwaitMount {
        /// The mount point.
        point: PathBuf,
        /// How long at most.
        limit: Duration,
        /// Mark of the program, as above.
        mark: PathBuf,
    },
    /// Runs a command again until it succeeds and doesn't print a text.
    AwaitQuiet {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The text that it prints while something goes on.
        busy: String,
        /// How long at most.
        limit: Duration,
    },
    /// Tries whether packets of full size get through to another host.
    TryPath {
        /// The other host.
        peer: Peer,
        /// Bytes of a packet, its IP header included.
        bytes: u32,
    },
    /// Waits until the kernel's server lets clients open files.
    AwaitGrace,
    /// Takes all space of a file system, but for a mebibyte, by a file of ours.
    Fill(PathBuf),
    /// Sets the wall clock.
    Calendar {
        /// How far ahead of the time since boot, in nanoseconds.
        offset_ns: i64,
        /// How far that moves it forward, in milliseconds.
        by_ms: i64,
    },
}

impl Step {
    /// A program that ends soon.
    pub fn run<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Self {
        Self::within(SOON, argv)
    }

    /// A program that may take so long.
    pub fn within<T: Into<String>>(limit: Duration, argv: impl IntoIterator<Item = T>) -> Self {
        Self::Run { argv: argv.into_iter().map(Into::into).collect(), limit }
    }

    /// A program that overwrites the devices of an action.
    pub const fn overwrite(argv: Vec<String>, devices: Vec<OverwrittenDevice>) -> Self {
        Self::Overwrite { argv, devices }
    }

    /// A setting of the kernel.
    pub fn write(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self::Write { path: path.into(), text: text.into() }
    }

    /// Says whether the step changes nothing, and is not what an action did.
    pub const fn only_waits(&self) -> bool {
        matches!(self, Self::Await(_) | Self::AwaitGrace | Self::AwaitCommand { .. })
            || matches!(self, Self::AwaitService { .. } | Self::AwaitMount { .. })
    }

    /// Returns the file of the error messages of a program that was started by this link.
    pub fn stderr_of(link: &Path) -> PathBuf {
        link.with_file_name("stderr")
    }

    /// Performs the step.
    ///
    /// # Errors
    /// Where it can't be done.
    pub fn perform(&self, runner: &mut Runner) -> Result<(), LabError> {
        match self {
            Self::Run { argv, limit } => runner.run(argv, *limit).map(drop),
            Self::Overwrite { argv, devices } => {
                // Right before it runs: what was checked when the action was prepared may be in use
                // by now.
                safety::check_final_arguments(argv, devices)?;
                runner.run(argv, LONG).map(drop)
            }
            Self::Refuse(why) => Err(LabError::Refused(why.clone())),
            Self::Write { path, text } => runner.write(path, text),
            Self::Offer { path, text } => {
                // Where it matters the check finds out.
                let _ = runner.write(path, text);
                Ok(())
            }
            Self::Folder(path) => make_folder(runner, path),
            Self::File { path, text } => {
                let written = trust::create_file(path)?.write_all(text.as_bytes());
                written.map_err(|error| LabError::file("write", path, error))
            }
            Self::Start { link, argv, user } => start(runner, link, argv, *user),
            Self::Await(port) => servers::await_port(*port),
            Self::Launch { argv, stderr } => {
                // Where the system was killed it has messages of an earlier start.
                let _ = fs::remove_file(stderr);
                let file = trust::create_file(stderr)?;
                runner.start(argv, Stdio::from(file), RunAs::Root)
            }
            Self::KillMarked(mark) => processes::kill_marked(runner, mark).map(drop),
            Self::AwaitCommand { argv, limit, mark, has_program } => {
                let what = commands::show(argv);
                let awaited = Awaited { what: &what, mark, has_program: *has_program };
                servers::await_service(runner, &awaited, *limit, |runner| {
                    runner.run(argv, SOON).map(drop)
                })
            }
            Self::AwaitService { port, limit, mark, has_program } => {
                let what = format!("port {port} of the loopback");
                let awaited = Awaited { what: &what, mark, has_program: *has_program };
                servers::await_service(runner, &awaited, *limit, |_| servers::reach(*port))
            }
            Self::AwaitMount { point, limit, mark } => {
                let what = format!("the mount on {}", point.display());
                let awaited = Awaited { what: &what, mark, has_program: true };
                servers::await_service(runner, &awaited, *limit, |_| servers::mounted(point))
            }
            Self::AwaitQuiet { argv, busy, limit } => {
                servers::await_quiet(runner, argv, busy, *limit)
            }
            Self::TryPath { peer, bytes } => path_probe::try_path(peer, *bytes),
            Self::AwaitGrace => grace::await_end(),
            Self::Fill(file) => filler::fill(runner, file),
            Self::Calendar { offset_ns, .. } => calendar::set_offset(runner, *offset_ns),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { argv, .. } | Self::Overwrite { argv, .. } => {
                f.write_str(&commands::show(argv))
            }
            Self::Refuse(why) => write!(f, "refused: {why}"),
            Self::Write { path, text } | Self::Offer { path, text } => {
                write!(f, "echo {} > {}", commands::show(&[text]), path.display())
            }
            Self::Folder(path) => write!(f, "mkdir -p {}", path.display()),
            Self::File { path, text } => {
                write!(f, "write {} ({} lines)", path.display(), text.lines().count())
            }
            Self::Start { argv, .. } | Self::Launch { argv, .. } => {
                write!(f, "{} &", commands::show(argv))
            }
            Self::AwaitMount { point, .. } => {
                write!(f, "wait for the mount on {}", point.display())
            }
            Self::AwaitQuiet { argv, busy, .. } if !busy.is_empty() => {
                write!(f, "wait until `{}` prints no `{busy}`", commands::show(argv))
            }
            Self::KillMarked(mark) => {
                write!(f, "kill -9 the processes of {}", mark.display())
            }
            Self::AwaitCommand { argv, .. } | Self::AwaitQuiet { argv, .. } => {
                write!(f, "wait until `{}` succeeds", commands::show(argv))
            }
            Self::Await(port) | Self::AwaitService { port, .. } => {
                write!(f, "wait for port {port} of 127.0.0.1")
            }
            Self::TryPath { peer: Peer { name, address }, bytes } => {
                write!(f, "try packets of {bytes} bytes, not fragmented, to {name} ({address})")
            }
            Self::AwaitGrace => f.write_str(&grace::shown()),
            Self::Fill(file) => {
                write!(f, "fallocate --length (all but 1 MiB) -- {}", file.display())
            }
            Self::Calendar { by_ms, .. } => {
                write!(f, "date --set '{:+.3} seconds'", *by_ms as f64 / 1e3)
            }
        }
    }
}

/// Makes a folder, by root where we may not; what lies below /run/dfsbench is then ours.
fn make_folder(runner: &Runner, path: &Path) -> Result<(), LabError> {
    // What stands there already must be ours, and may be reached by no link of another user's.
    trust::check_path(path)?;
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    match builder.recursive(true).mode(0o755).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // Root makes it and gives it to us: below /run only root may make folders, and mount
            // points of ours lie in one.
            let (user, group) = (geteuid().as_raw().to_string(), getegid().as_raw().to_string());
            let folders = [RUN.to_owned(), path.display().to_string()];
            let skipped = usize::from(!path.starts_with(RUN));
            for folder in &folders[skipped..] {
                let argv =
                    ["install", "-d", "-o", user.as_str(), "-g", group.as_str(), "--", folder];
                runner.run(&argv, SOON)?;
            }
            Ok(())
        }
        Err(error) => Err(LabError::file("make", path, error)),
    }
}

/// Starts a program by a link to it, which its command line then begins with: the undo log names
/// the link, and no other program runs by it.
fn start(runner: &mut Runner, link: &Path, argv: &[String], user: RunAs) -> Result<(), LabError> {
    let (name, arguments) = argv.split_first().expect("a command has a name");
    let Some(program) = commands::find(name) else { return Err(packages::missing(name)) };
    match symlink(&program, link) {
        // One that leads elsewhere would start another program.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let found = fs::read_link(link).map_err(|error| LabError::file("read", link, error))?;
            if found != program {
                let (link, found) = (link.display(), found.display());
                let what = format!("{link} leads to {found}, not to {}", program.display());
                return Err(LabError::Refused(what));
            }
        }
        Err(error) => return Err(LabError::file("make", link, error)),
        Ok(()) => {}
    }
    // Its complaints are only for an error message: without a file for them it runs all the same.
    let stderr = match trust::create_file(&Step::stderr_of(link)) {
        Ok(file) => Stdio::from(file),
        Err(_) => Stdio::null(),
    };
    let mut argv = vec![link.display().to_string()];
    argv.extend_from_slice(arguments);
    runner.start(&argv, stderr, user)
}
