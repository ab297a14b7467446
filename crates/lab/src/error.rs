//! Errors when setting up a host, each with a hint.
//!
//! They don't name the host, since the caller knows it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a host could not be set up, checked or restored.
#[derive(Debug, Error)]
pub enum LabError {
    /// A program isn't installed.
    #[error("program `{program}` is not installed; as root: `apt-get install {package}`")]
    Missing {
        program: String,
        /// The package that contains it.
        package: String,
    },
    /// A program isn't installed, and its package is not known.
    #[error(
        "program `{program}` is not in {folders} (hint: install it; the `path` of a recipe names \
         other folders)"
    )]
    NotFound {
        program: String,
        /// The folders in which it was looked for, separated by colons.
        folders: String,
    },
    /// Only root may do this.
    #[error(
        "`{command}` needs root, and `sudo -n` is not allowed; run as root, or allow sudo without \
         a password"
    )]
    NotRoot {
        /// The command line.
        command: String,
    },
    /// A program failed.
    #[error("`{command}` failed with {status}: {message}")]
    Failed {
        /// The command line.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of its output.
        message: String,
    },
    /// A program ran for too long and was killed.
    #[error("`{command}` did not finish within {seconds} s and was killed")]
    TooSlow {
        /// The command line.
        command: String,
        /// The time limit, in seconds.
        seconds: u64,
    },
    /// A program was killed because the campaign was stopped.
    #[error("`{command}` was killed because the campaign was stopped")]
    Stopped {
        /// The command line.
        command: String,
    },
    /// A mount cannot be removed because the kernel is waiting for an answer that never comes.
    #[error(
        "the mount on {} is stuck: {why} (hint: run `umount -f` on it once its server answers \
         again; if that fails, reboot this host)",
        point.display()
    )]
    Stuck {
        /// The mount point.
        point: PathBuf,
        /// The last attempt and its outcome.
        why: String,
    },
    /// An operation on a file, or on a kernel setting, failed.
    #[error("cannot {doing} {}: {error}", path.display())]
    File {
        /// The attempted operation, such as `write`.
        doing: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// The action would harm something that isn't ours.
    #[error("{0}")]
    Refused(String),
    /// The mount is in use.
    #[error("{} is busy: {}", point.display(), holders.join(", "))]
    Busy {
        /// The mount point.
        point: PathBuf,
        /// The processes using it, such as `bash (pid 17)`.
        holders: Vec<String>,
    },
    /// This host doesn't support it.
    #[error("{0}")]
    Unable(String),
    /// A server was started but doesn't answer.
    #[error("{what} did not start: {why}")]
    Silent {
        /// The server or program that was started.
        what: String,
        /// The reason, if known, such as the end of its log.
        why: String,
    },
    /// Another dfsbench is setting up this host.
    #[error("another dfsbench is setting up this host: {holders}; wait until it finishes")]
    Locked {
        /// The processes that hold the lock.
        holders: String,
    },
    /// An earlier dfsbench was killed here and left changes behind.
    #[error("{0} changes made by an earlier campaign have not been undone; run `dfsbench clean`")]
    Leftovers(usize),
    /// Several errors occurred.
    #[error("{}", join_messages(.0))]
    Several(Vec<LabError>),
}

impl LabError {
    /// Creates the error for a failed operation on a file.
    pub fn file(doing: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), error }
    }

    /// Creates the error for a command that cannot be started.
    pub fn start(argv: &[impl AsRef<str>], error: io::Error) -> Self {
        let program = argv.first().map_or("", |program| program.as_ref());
        Self::file("run", Path::new(program), error)
    }

    /// Combines errors into one.
    ///
    /// # Errors
    /// If there is at least one.
    pub fn join(mut errors: Vec<Self>) -> Result<(), Self> {
        let Some(last) = errors.pop() else { return Ok(()) };
        if errors.is_empty() {
            return Err(last);
        }
        errors.push(last);
        Err(Self::Several(errors))
    }
}

fn join_messages(errors: &[LabError]) -> String {
    let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
    messages.join("; ")
}
