//! What wakes a controller that waits for many agents.
//!
//! Each transport rings the same [`Bell`] when its agent has said something, so that nobody has to
//! look at a thousand of them over and over.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Rings for whoever waits, or will.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    /// Wakes whoever waits, or waits next.
    pub fn ring(&self) {
        let (rung, waiter) = &*self.0;
        *rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        waiter.notify_one();
    }

    /// Waits until it rings, or has rung since it was waited for last, but no longer than this.
    pub fn wait(&self, limit: Duration) {
        let (rung, waiter) = &*self.0;
        let guard = rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = waiter.wait_timeout_while(guard, limit, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// The bell of one transport, once it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rope(Arc<OnceLock<Bell>>);

impl Rope {
    /// Hangs it on a bell, where it hangs on none.
    pub(crate) fn hang(&self, bell: &Bell) {
        // One controller has one bell.
        let _ = self.0.set(bell.clone());
    }

    /// Rings, where there is a bell.
    pub(crate) fn pull(&self) {
        if let Some(bell) = self.0.get() {
            bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_rang_before_anybody_waited_is_heard_once() {
        let bell = Bell::default();
        let rope = Rope::default();
        rope.pull();
        rope.hang(&bell);
        rope.pull();
        // It would wait for ever.
        bell.wait(Duration::MAX);
        bell.wait(Duration::from_millis(1));
        let other = bell.clone();
        let ringer = std::thread::spawn(move || other.ring());
        bell.wait(Duration::MAX);
        ringer.join().unwrap();
    }
}
