//! The request to stop: everything for good, or only what is in progress.
//!
//! Preparations, passes and programs look at a [`Stop`] now and then. An agent gets the
//! second request from its controller, when the trial can't go on elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Two requests, of which each is enough.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    everything: Arc<AtomicBool>,
    current: Arc<AtomicBool>,
}

impl Stop {
    /// Set by either flag.
    pub const fn new(everything: Arc<AtomicBool>, current: Arc<AtomicBool>) -> Self {
        Self { everything, current }
    }

    /// Says whether a stop was requested.
    pub fn is_set(&self) -> bool {
        self.everything.load(Relaxed) || self.current.load(Relaxed)
    }

    /// Requests that everything stops.
    pub fn set(&self) {
        self.everything.store(true, Relaxed);
    }

    /// Requests that only what is in progress stops.
    pub fn cancel(&self) {
        self.current.store(true, Relaxed);
    }
}
