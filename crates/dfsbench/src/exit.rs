//! How the program ends.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | ok |
//! | 1 | a comparison failed, or a required limit is missed |
//! | 2 | usage, plan, or a results file that can't be used |
//! | 3 | a server, host or output can't be used, has no room or isn't restored; or a bug |
//! | 4 | measured, but something is invalid, failed or was interrupted |
//!
//! `git bisect run` takes 1 to 127 for an answer about a commit and stops from 128 on. So with
//! `compare --bisect`, the codes of errors are 128 higher ([`use_git_codes`]).

use std::io::ErrorKind;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use controller::ControllerError;
use controller::leftovers::UnwritableRecord;
use durability::DurabilityError;
use fleet::job::JobError;
use model::{Panicked, panicked};
use plan::PlanError;
use report::RequirementOutcome;
use results::{ExportError, StoreError};

use crate::terminal::output::{self, StdoutError};

/// Outcomes that are not errors of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Ok,
    /// A comparison found a loss beyond its bound, or a required limit is missed.
    Lost,
    /// A result is invalid or incomplete.
    Invalid,
}

impl End {
    /// Judges by the requirements on results, and by whether all of them were measured and are
    /// valid. A missed limit is a certain loss; everything else only leaves something open.
    pub fn of_requirements(outcome: Option<RequirementOutcome>, is_complete: bool) -> Self {
        match outcome {
            Some(RequirementOutcome::Missed) => Self::Lost,
            Some(RequirementOutcome::Met) | None if is_complete => Self::Ok,
            _ => Self::Invalid,
        }
    }

    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Lost => 1,
            Self::Invalid => 4,
        }
    }
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        Self::from(end.code())
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Store(error) => Self::Store(error),
            ExportError::Write { path, source } => Self::Output {
                what: path.display().to_string(),
                reason: source.to_string(),
                hint: "name a directory with free space",
            },
            error @ (ExportError::Exists(_) | ExportError::NoParquet) => {
                Self::Usage(error.to_string())
            }
        }
    }
}

impl From<ControllerError> for Failure {
    fn from(error: ControllerError) -> Self {
        match error {
            ControllerError::Store(error) => Self::Store(error),
            // A local directory was named by the user, so this is a usage error; a server is not.
            ControllerError::UnusableHere(reason) | ControllerError::Request(reason) => {
                Self::Usage(reason)
            }
            ControllerError::Plan(error) => Self::Plan(error),
            error @ ControllerError::Interrupted => Self::Interrupted(error.to_string()),
            error => Self::Lab(error.to_string()),
        }
    }
}

impl From<UnwritableRecord> for Failure {
    fn from(error: UnwritableRecord) -> Self {
        let UnwritableRecord { folder, reason, hint } = error;
        Self::Output { what: format!("to the folder {}", folder.display()), reason, hint }
    }
}

impl From<DurabilityError> for Failure {
    fn from(error: DurabilityError) -> Self {
        match error {
            DurabilityError::Usage(reason) => Self::Usage(reason),
            DurabilityError::Unusable(reason) => Self::Lab(reason),
            DurabilityError::Store(error) => Self::Store(error),
        }
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Request(why) => Self::Usage(why),
            JobError::Agents(why) => Self::Lab(why),
        }
    }
}

/// A closed stdout is not an error: the reader has seen enough.
impl From<StdoutError> for Failure {
    fn from(StdoutError(error): StdoutError) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::Output {
            what: "to stdout".to_owned(),
            reason: error.to_string(),
            hint: "check the destination of stdout",
        }
    }
}

/// Reason why the program gives up.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// A plan is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A results file can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A server, host or directory can't be used.
    #[error("{0}")]
    Lab(String),
    /// The user or a batch system stopped the program before it had measured anything.
    #[error("{0}")]
    Interrupted(String),
    /// Output could not be written.
    #[error("can't write {what}: {reason} (hint: {hint})")]
    Output {
        /// What was being written, and where.
        what: String,
        reason: String,
        hint: &'static str,
    },
    /// The work is done, but hosts are not as they were before.
    #[error("not all changes to hosts were undone (hint: `{0}` tries again)")]
    NotRestored(String),
    /// The program panicked. Its changes to hosts have been undone.
    #[error(transparent)]
    Bug(#[from] Panicked),
    /// The reader has closed our output, which is fine.
    #[error("the reader of the output went away")]
    BrokenPipe,
}

impl Failure {
    pub const fn code(&self) -> u8 {
        match self {
            Self::Store(error) if error.is_failed_write() => 3,
            Self::Usage(_) | Self::Plan(_) | Self::Store(_) => 2,
            Self::Lab(_) | Self::NotRestored(_) | Self::Output { .. } | Self::Bug(_) => 3,
            Self::Interrupted(_) => End::Invalid.code(),
            Self::BrokenPipe => 0,
        }
    }

    /// Converts the failure of a program that was asked to stop: if something could not be reached
    /// or set up, the stop is the reason.
    pub fn after_stop(self) -> Self {
        match self {
            Self::Lab(reason) => Self::Interrupted(format!("interrupted: {reason}")),
            other => other,
        }
    }

    /// Builds the failure of a host, a server or a fleet.
    pub fn lab(error: impl std::fmt::Display) -> Self {
        Self::Lab(error.to_string())
    }

    /// Prints the error message once, and returns the exit code.
    pub fn end(failure: &Self) -> ExitCode {
        match failure {
            Self::BrokenPipe => {}
            Self::Interrupted(what) => output::message(what),
            _ => output::message(&format!("error: {failure}")),
        }
        ExitCode::from(process_code(failure.code()))
    }
}

/// Number added to the exit codes of errors, so that git stops a search.
const GIT_ABORTS: u8 = 128;

/// Set if git reads the exit code.
static HAS_GIT_CODES: AtomicBool = AtomicBool::new(false);

/// Makes this process end with 128 or more after any error, usage and interruption included.
pub(crate) fn use_git_codes() {
    HAS_GIT_CODES.store(true, Relaxed);
}

/// Returns true if git reads the exit code.
pub(crate) fn has_git_codes() -> bool {
    HAS_GIT_CODES.load(Relaxed)
}

/// Returns the exit code of a process that gives up with this code.
pub(crate) fn process_code(code: u8) -> u8 {
    if has_git_codes() { GIT_ABORTS + code } else { code }
}

/// Set when a change to a host could not be undone.
static IS_NOT_RESTORED: AtomicBool = AtomicBool::new(false);

/// Records that a change to a host could not be undone. The process then ends with an error,
/// whatever it has measured.
pub(crate) fn note_not_restored() {
    IS_NOT_RESTORED.store(true, Relaxed);
}

/// Returns the exit code of a process that ended like this.
pub(crate) fn code_of(end: End) -> u8 {
    check_restored(ExitCode::SUCCESS).map_or_else(|failure| failure.code(), |_| end.code())
}

/// Makes it an error that hosts could not be restored.
pub(crate) fn check_restored(code: ExitCode) -> Result<ExitCode, Failure> {
    if IS_NOT_RESTORED.load(Relaxed) {
        return Err(Failure::NotRestored("dfsbench clean PLAN".to_owned()));
    }
    Ok(code)
}

/// Prints why the process can't exit cleanly and exits immediately: threads may hang in the kernel
/// forever, so they can't be joined.
#[allow(clippy::disallowed_methods, reason = "this file owns the exit codes")]
pub(crate) fn end_now(why: &str, code: u8) -> ! {
    output::clear_bar();
    output::message(why);
    process::exit(i32::from(process_code(code)))
}

/// Exits an agent whose threads are stuck in a mount.
pub(crate) fn give_up(why: &str) {
    end_now(&format!("gave up: {why}"), Failure::Lab(String::new()).code())
}

/// Records panics for the code that catches them, without printing them: each one is reported as an
/// error later. With RUST_BACKTRACE they are printed as well.
pub(crate) fn note_panics() {
    let is_traced = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        panicked::note(info);
        if is_traced || !panicked::is_caught() {
            before(info);
        }
    }));
}

/// Runs a command and converts a panic to a failure.
pub(crate) fn catch_panics(
    command: impl FnOnce() -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    panicked::catch(command).unwrap_or_else(|panicked| Err(panicked.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_how_to_report_panic() {
        let failure = catch_panics(|| panic!("planted")).unwrap_err();
        assert_eq!(failure.code(), 3);
        let message = failure.to_string();
        assert!(message.starts_with("panicked: planted"), "{message}");
        assert!(message.contains("bug") && message.contains("report it"), "{message}");
    }
}
