//! Ends a wait for a server before its own limit, where the caller requests it.
//!
//! Everything in this crate that blocks asks an [`Interrupt`] a few times a second. What makes it
//! end is the caller's to say: a flag, or a limit for more than one call. The measured path never
//! asks; its callers look at their own flags between two short waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How often a wait asks whether it should end.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Why a wait was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// The user, or the controller, wants everything to stop.
    #[error("interrupted")]
    Stopped,
    /// A job of many calls took too long as a whole.
    #[error("given up: {job} took longer than {} s", limit.as_secs_f64())]
    TooLong {
        /// The job that was in progress.
        job: &'static str,
        /// Limit of the job.
        limit: Duration,
    },
    /// A job of many calls made no progress.
    #[error("given up: {job} made no progress for {} s after the interruption", idle.as_secs_f64())]
    Stuck {
        /// The job that was in progress.
        job: &'static str,
        /// For how long.
        idle: Duration,
    },
}

type Ask = dyn Fn() -> Option<Interrupted> + Send + Sync;

/// Says whether a wait should end; the default never does.
#[derive(Clone, Default)]
pub struct Interrupt(Option<Arc<Ask>>);

impl Interrupt {
    /// Makes one that ends waits as soon as `ask` says why.
    pub fn new(ask: impl Fn() -> Option<Interrupted> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// Asks whether the wait shall end.
    pub(crate) fn reason(&self) -> Option<Interrupted> {
        match &self.0 {
            Some(ask) => ask(),
            None => None,
        }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Interrupt(..)" } else { "Interrupt(never)" })
    }
}

/// Two are the same where they ask the same question.
impl PartialEq for Interrupt {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // Closures have no equality of their own: two are the same where they are one.
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Interrupt {}
