//! Errors of setting up a host, each with a hint.
//!
//! The host isn't named here: the caller knows which it was.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a host could not be set up, checked or restored.
#[derive(Debug, Error)]
pub enum LabError {
    /// A program isn't installed.
    #[error("program `{program}` is missing; as root: `apt-get install {package}`")]
    Missing {
        /// Name of the program.
        program: String,
        /// The package that has it.
        package: String,
    },
    /// Only root may do this.
    #[error(
        "`{command}` needs root, and `sudo -n` isn't allowed; run as root, or let sudo do it \
         without a password"
    )]
    NotRoot {
        /// The command line.
        command: String,
    },
    /// A program failed.
    #[error("`{command}` ended with {status}: {message}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it printed.
        message: String,
    },
    /// A program ran for too long and was killed.
    #[error("`{command}` did not end within {seconds} s and was killed")]
    TooSlow {
        /// The command line.
        command: String,
        /// Its limit, in seconds.
        seconds: u64,
    },
    /// A program was ended, since the campaign was stopped meanwhile.
    #[error("`{command}` was ended, since the campaign was stopped")]
    Stopped {
        /// The command line.
        command: String,
    },
    /// A mount can't be removed: the answer that the kernel waits for never arrives.
    #[error(
        "the mount on {} is stuck: {why} (hint: `umount -f` it once its server answers again; \
         otherwise only a restart of this host frees it)",
        point.display()
    )]
    Stuck {
        /// The mount point.
        point: PathBuf,
        /// The last attempt and its outcome.
        why: String,
    },
    /// A file, or a setting that is one.
    #[error("cannot {doing} {}: {error}", path.display())]
    File {
        /// The attempted action, such as `write`.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// It would harm what isn't ours.
    #[error("{0}")]
    Refused(String),
    /// It is in use, and by whom.
    #[error("{} is busy: {}", point.display(), holders.join(", "))]
    Busy {
        /// The mount point.
        point: PathBuf,
        /// Who holds it, such as `bash (pid 17)`.
        holders: Vec<String>,
    },
    /// This host can't do that.
    #[error("this host can't do that: {0}")]
    Unable(String),
    /// A server that was started doesn't answer.
    #[error("{what} did not come up: {why}")]
    Silent {
        /// The server or program that was started.
        what: String,
        /// The known reason, such as the end of its log.
        why: String,
    },
    /// Another dfsbench is at work here.
    #[error("another dfsbench sets up this host: {holders}; wait until it has ended")]
    Locked {
        /// The processes that hold it.
        holders: String,
    },
    /// An earlier dfsbench was killed here.
    #[error("{0} changes of an earlier campaign are still there; `dfsbench clean` undoes them")]
    Leftovers(usize),
    /// Several went wrong.
    #[error("{}", join_messages(.0))]
    Several(Vec<LabError>),
}

impl LabError {
    /// Says what was tried with a file.
    pub fn file(doing: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), error }
    }

    /// Says that a command can't be started.
    pub fn start(argv: &[impl AsRef<str>], error: io::Error) -> Self {
        let program = match argv.first() {
            Some(program) => program.as_ref(),
            None => "",
        };
        Self::file("run", Path::new(program), error)
    }

    /// Joins errors into one.
    ///
    /// # Errors
    /// Where there is any.
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
    let mut messages = Vec::with_capacity(errors.len());
    for error in errors {
        messages.push(error.to_string());
    }
    messages.join("; ")
}
