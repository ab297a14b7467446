//! Stop requests: for everything, or only for the current work.
//!
//! Preparations, passes and programs check their [`Stop`] now and then. An agent gets the second
//! kind from its controller if the trial cannot continue elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Two flags, either of which is a stop request.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    everything: Arc<AtomicBool>,
    current: Arc<AtomicBool>,
}

impl Stop {
    /// Creates a stop request from its two flags.
    pub const fn new(everything: Arc<AtomicBool>, current: Arc<AtomicBool>) -> Self {
        Self { everything, current }
    }

    /// Returns true if a stop was requested.
    pub fn is_set(&self) -> bool {
        self.everything.load(Relaxed) || self.current.load(Relaxed)
    }

    /// Requests everything to stop.
    pub fn set(&self) {
        self.everything.store(true, Relaxed);
    }

    /// Requests only the current work to stop.
    pub fn cancel(&self) {
        self.current.store(true, Relaxed);
    }
}
