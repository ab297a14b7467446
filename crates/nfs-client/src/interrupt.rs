//! Ends a wait for a server early, at the caller's request.
//!
//! Everything in this crate that blocks checks an [`Interrupt`] a few times a second. The caller
//! decides what triggers it: a flag, or a limit for a group of calls. The measured path never
//! checks it; its callers look at their own flags between two short waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How often a wait checks whether it should end.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Why a wait was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// The user, or the controller, wants everything to stop.
    #[error("interrupted")]
    Stopped,
    /// A job of many calls took too long in total.
    #[error("{job} took longer than {} s and was aborted", limit.as_secs_f64())]
    TooLong {
        /// The job in progress.
        job: &'static str,
        /// Limit of the job.
        limit: Duration,
    },
    /// A job of many calls made no progress.
    #[error(
        "{job} made no progress for {} s after the interruption and was aborted",
        idle.as_secs_f64()
    )]
    Stuck {
        /// The job in progress.
        job: &'static str,
        /// How long there was no progress.
        idle: Duration,
    },
}

type Ask = dyn Fn() -> Option<Interrupted> + Send + Sync;

/// Determines whether a wait should end; the default never does.
#[derive(Clone, Default)]
pub struct Interrupt(Option<Arc<Ask>>);

impl Interrupt {
    /// Makes one that ends waits as soon as `ask` returns a reason.
    pub fn new(ask: impl Fn() -> Option<Interrupted> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// Returns the reason if the wait should end.
    pub(crate) fn reason(&self) -> Option<Interrupted> {
        self.0.as_ref().and_then(|ask| ask())
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Interrupt(..)" } else { "Interrupt(never)" })
    }
}

/// Two are equal if they share the same closure.
impl PartialEq for Interrupt {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // Closures can't be compared: two are equal if they are the same one.
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Interrupt {}
