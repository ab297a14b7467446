//! The individual commands that make up an action.
//!
//! A dry run prints a [`Step`], and [`Step::perform`] executes it, so both are based on the same
//! value.

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::Peer;
use rustix::process::{getegid, geteuid};

use super::mount_needs;
use crate::RUN;
use crate::commands::{self, LONG, RunAs, Runner, SOON, packages};
use crate::error::LabError;
use crate::host::safety::{self, OverwrittenDevice};
use crate::host::servers::StartCondition;
use crate::host::{calendar, filler, grace, path_probe, processes, servers, trust};

/// A command, or another small change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Runs a program to its end.
    Run {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Time limit.
        limit: Duration,
    },
    /// Mounts an NFS export.
    MountNfs {
        /// The command.
        argv: Vec<String>,
        /// Time limit.
        limit: Duration,
        /// Its mount options, which may explain a failure.
        options: Vec<String>,
    },
    /// Runs a program that overwrites devices, after checking its final arguments again.
    Overwrite {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Devices that the command may overwrite.
        devices: Vec<OverwrittenDevice>,
    },
    /// Fails with this reason.
    Refuse(String),
    /// Writes a kernel setting.
    Write {
        /// The setting's file.
        path: PathBuf,
        /// Text to write.
        text: String,
    },
    /// Like [`Step::Write`], for one of several numbers or words that not every kernel knows.
    WriteMode {
        /// The setting's file.
        path: PathBuf,
        /// Text to write.
        text: String,
        /// The error if the kernel doesn't know it.
        not_supported: String,
    },
    /// Like [`Step::Write`], but ignores failures.
    Offer {
        /// The setting's file.
        path: PathBuf,
        /// Text to write.
        text: String,
    },
    /// Creates a folder if it doesn't exist.
    Folder(PathBuf),
    /// Writes one of our files below /run/dfsbench.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Contents of the file.
        text: String,
    },
    /// Starts a program that keeps running, through a symlink by which we can find it again.
    Start {
        /// Path of the symlink.
        link: PathBuf,
        /// The program it points to, and its arguments.
        argv: Vec<String>,
        user: RunAs,
    },
    /// Waits until something answers on a loopback TCP port.
    Await(u16),
    /// Starts a system's program, which may keep running or exit on its own.
    Launch {
        /// The program and its arguments.
        argv: Vec<String>,
        /// File for its stderr.
        stderr: PathBuf,
    },
    /// Kills the processes that carry a mark immediately.
    KillMarked(PathBuf),
    /// Repeats a command until it succeeds.
    AwaitCommand {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Time limit for all attempts.
        limit: Duration,
        /// Mark of the programs that should answer, which is also the folder of their logs.
        mark: PathBuf,
        /// Whether one of them runs on this host; the answer may come from another one.
        has_program: bool,
    },
    /// Waits until a system's program answers on a loopback TCP port.
    AwaitService {
        port: u16,
        /// Time limit.
        limit: Duration,
        /// Mark of the programs, as above.
        mark: PathBuf,
        /// Whether one of them runs on this host, as above.
        has_program: bool,
    },
    /// Waits until a system's program has mounted it.
    AwaitMount {
        /// The mount point.
        point: PathBuf,
        /// Time limit.
        limit: Duration,
        /// Mark of the program, as above.
        mark: PathBuf,
    },
    /// Repeats a command until it succeeds without printing a certain text.
    AwaitQuiet {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Text that it prints while the system is busy.
        busy: String,
        /// Time limit.
        limit: Duration,
    },
    /// Tests whether full-size packets reach another host.
    TryPath {
        /// The other host.
        peer: Peer,
        /// Packet size in bytes, including the IP header.
        bytes: u32,
    },
    /// Waits until the kernel's server lets clients open files.
    AwaitGrace,
    /// Fills up a file system, except for one mebibyte, with the given file.
    Fill(PathBuf),
    /// Sets the wall clock.
    Calendar {
        /// New offset from the time since boot, in nanoseconds.
        offset_ns: i64,
        /// How far that moves the clock forward, in milliseconds.
        by_ms: i64,
    },
}

impl Step {
    /// Creates a step for a program that finishes soon.
    pub(crate) fn run<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Self {
        Self::with_time_limit(SOON, argv)
    }

    /// Creates a step for a program with the given time limit.
    pub(crate) fn with_time_limit<T: Into<String>>(
        limit: Duration,
        argv: impl IntoIterator<Item = T>,
    ) -> Self {
        Self::Run { argv: argv.into_iter().map(Into::into).collect(), limit }
    }

    /// Creates a step for a program that overwrites the devices of an action.
    pub(crate) const fn overwrite(argv: Vec<String>, devices: Vec<OverwrittenDevice>) -> Self {
        Self::Overwrite { argv, devices }
    }

    /// Creates a step that writes a kernel setting.
    pub(crate) fn write(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self::Write { path: path.into(), text: text.into() }
    }

    /// Returns true if the step only waits, so that it doesn't describe what an action did.
    pub(crate) const fn only_waits(&self) -> bool {
        matches!(self, Self::Await(_) | Self::AwaitGrace | Self::AwaitCommand { .. })
            || matches!(self, Self::AwaitService { .. } | Self::AwaitMount { .. })
    }

    /// Returns the file that contains the stderr of a program started through this symlink.
    pub(crate) fn stderr_of(link: &Path) -> PathBuf {
        link.with_file_name("stderr")
    }

    /// Performs the step.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn perform(&self, runner: &mut Runner) -> Result<(), LabError> {
        match self {
            Self::Run { argv, limit } => runner.run(argv, *limit).map(drop),
            Self::MountNfs { argv, limit, options } => match runner.run(argv, *limit) {
                Ok(_) => Ok(()),
                Err(error) => Err(mount_needs::explain(error, options)),
            },
            Self::Overwrite { argv, devices } => {
                // Check again right before it runs, since a device may have come into use after the
                // action was prepared.
                safety::check_final_arguments(argv, devices)?;
                runner.run(argv, LONG).map(drop)
            }
            Self::Refuse(why) => Err(LabError::Refused(why.clone())),
            Self::Write { path, text } => runner.write(path, text),
            Self::WriteMode { path, text, not_supported } => {
                runner.write(path, text).map_err(|error| explain_refusal(error, not_supported))
            }
            Self::Offer { path, text } => {
                // If it matters, the action's check will notice.
                let _ = runner.write(path, text);
                Ok(())
            }
            Self::Folder(path) => make_folder(runner, path),
            Self::File { path, text } => {
                let Ok(text) = runner.secrets.reveal(text) else {
                    let what = "the host was not sent a secret of";
                    return Err(LabError::Refused(format!("{what} {}", path.display())));
                };
                // Readable only by its owner, whether it contains secrets or not.
                let written = trust::create_file(path)?.write_all(text.as_bytes());
                written.map_err(|error| LabError::file("write", path, error))
            }
            Self::Start { link, argv, user } => start(runner, link, argv, *user),
            Self::Await(port) => servers::await_port(*port),
            Self::Launch { argv, stderr } => {
                // If the system was killed before, the file still contains the output of its
                // previous start.
                let _ = fs::remove_file(stderr);
                let file = trust::create_file(stderr)?;
                runner.start(argv, Stdio::from(file), RunAs::Root)
            }
            Self::KillMarked(mark) => processes::kill_marked(runner, mark).map(drop),
            Self::AwaitCommand { argv, limit, mark, has_program } => {
                let what = commands::show(argv);
                let awaited = StartCondition { what: &what, mark, has_program: *has_program };
                servers::await_service(runner, &awaited, *limit, |runner| {
                    runner.run(argv, SOON).map(drop)
                })
            }
            Self::AwaitService { port, limit, mark, has_program } => {
                let what = format!("port {port} on the loopback address");
                let awaited = StartCondition { what: &what, mark, has_program: *has_program };
                servers::await_service(runner, &awaited, *limit, |_| {
                    servers::connect_loopback(*port)
                })
            }
            Self::AwaitMount { point, limit, mark } => {
                let what = format!("the mount on {}", point.display());
                let awaited = StartCondition { what: &what, mark, has_program: true };
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
            Self::Run { argv, .. } | Self::MountNfs { argv, .. } | Self::Overwrite { argv, .. } => {
                f.write_str(&commands::show(argv))
            }
            Self::Refuse(why) => write!(f, "refused: {why}"),
            Self::Write { path, text }
            | Self::WriteMode { path, text, .. }
            | Self::Offer { path, text } => {
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
                write!(f, "wait until `{}` no longer prints `{busy}`", commands::show(argv))
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
                write!(f, "send unfragmented packets of {bytes} bytes to {name} ({address})")
            }
            Self::AwaitGrace => f.write_str(&grace::shown_command()),
            Self::Fill(file) => {
                write!(f, "fallocate --length (all but 1 MiB) -- {}", file.display())
            }
            Self::Calendar { by_ms, .. } => {
                write!(f, "date --set '{:+.3} seconds'", *by_ms as f64 / 1e3)
            }
        }
    }
}

/// Replaces the error of a kernel that doesn't know a value.
fn explain_refusal(error: LabError, not_supported: &str) -> LabError {
    // Root gets it from write(2), others from the message of `tee`.
    if error.to_string().contains("Invalid argument") {
        return LabError::Unable(not_supported.to_owned());
    }
    error
}

/// Creates a folder, as root if necessary. Folders below /run/dfsbench are then given to us.
fn make_folder(runner: &Runner, path: &Path) -> Result<(), LabError> {
    // Whatever exists there must be ours, and no symlink of another user may lead to it.
    trust::check_path(path)?;
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    match builder.recursive(true).mode(0o755).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // Only root can create folders below /run, so root creates it and gives it to us. Our
            // mount points need it.
            let user = geteuid().as_raw().to_string();
            let group = getegid().as_raw().to_string();
            let folders = [RUN.to_owned(), path.display().to_string()];
            let skipped = usize::from(!path.starts_with(RUN));
            for folder in &folders[skipped..] {
                let argv =
                    ["install", "-d", "-o", user.as_str(), "-g", group.as_str(), "--", folder];
                runner.run(&argv, SOON)?;
            }
            Ok(())
        }
        Err(error) => Err(LabError::file("create", path, error)),
    }
}

/// Starts a program through a symlink. Its command line then begins with that path, which is
/// recorded in the undo log and used by no other program.
fn start(runner: &mut Runner, link: &Path, argv: &[String], user: RunAs) -> Result<(), LabError> {
    let (name, arguments) = argv.split_first().expect("a command is never empty");
    let Some(program) = commands::find(name) else { return Err(packages::missing(name)) };
    match symlink(&program, link) {
        // A symlink to something else would start the wrong program.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let found = fs::read_link(link).map_err(|error| LabError::file("read", link, error))?;
            if found != program {
                let link = link.display();
                let found = found.display();
                let what = format!("{link} is a symlink to {found}, not to {}", program.display());
                return Err(LabError::Refused(what));
            }
        }
        Err(error) => return Err(LabError::file("create", link, error)),
        Ok(()) => {}
    }
    // Its stderr is only needed for error messages, so the program may run without it.
    let stderr = match trust::create_file(&Step::stderr_of(link)) {
        Ok(file) => Stdio::from(file),
        Err(_) => Stdio::null(),
    };
    let mut argv = vec![link.display().to_string()];
    argv.extend_from_slice(arguments);
    runner.start(&argv, stderr, user)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn explains_unknown_mode() {
        let path = Path::new("/sys/kernel/debug/nfsd/io_cache_write");
        let explained = |errno: rustix::io::Errno| {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            explain_refusal(LabError::file("write", path, error), "not supported").to_string()
        };
        assert_eq!(explained(rustix::io::Errno::INVAL), "not supported");
        assert!(explained(rustix::io::Errno::PERM).contains("io_cache_write"));
    }
}
