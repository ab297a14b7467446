//! The wakeup of a controller that waits for many agents.
//!
//! Each transport signals the same [`Bell`] under a number of its own when its agent has sent
//! something, so that a thousand of them need not be polled over and over.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A signal to a thread that waits, or will.
#[derive(Clone, Debug, Default)]
pub struct Bell {
    shared: Arc<(Mutex<Rung>, Condvar)>,
    number: u32,
}

/// The things that were signalled since the last wait.
#[derive(Debug, Default)]
struct Rung {
    /// Signalled since the last wait.
    has_rung: bool,
    /// The numbers of the transports that signalled since they were last read.
    numbers: BTreeSet<u32>,
}

impl Bell {
    /// Returns the same wakeup, signalled under another number.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Self {
        Self { shared: Arc::clone(&self.shared), number }
    }

    /// Wakes the thread that waits, or waits next.
    pub fn ring(&self) {
        let mut rung = self.lock_rung();
        rung.has_rung = true;
        rung.numbers.insert(self.number);
        drop(rung);
        self.shared.1.notify_one();
    }

    /// Waits until it is signalled, or was since the last wait, but no longer than this.
    pub fn wait(&self, limit: Duration) {
        let waited =
            self.shared.1.wait_timeout_while(self.lock_rung(), limit, |rung| !rung.has_rung);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_rung = false;
    }

    /// Returns the numbers under which it was signalled since this was called last.
    pub fn who_rang(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.lock_rung().numbers)
    }

    fn lock_rung(&self) -> MutexGuard<'_, Rung> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wakeup of one transport, once it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct BellHandle(Arc<OnceLock<Bell>>);

impl BellHandle {
    /// Attaches it to a wakeup, where it has none.
    pub(crate) fn attach_to(&self, bell: &Bell) {
        // One controller has one wakeup, so the first is the only one.
        let _ = self.0.set(bell.clone());
    }

    /// Signals, where there is a wakeup.
    pub(crate) fn ring_bell(&self) {
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
        let rope = BellHandle::default();
        rope.ring_bell();
        rope.attach_to(&bell);
        rope.ring_bell();
        // It would wait for ever.
        bell.wait(Duration::MAX);
        bell.wait(Duration::from_millis(1));
        assert_eq!(bell.who_rang(), BTreeSet::from([0]));
        let other = bell.numbered(7);
        let ringer = std::thread::spawn(move || other.ring());
        bell.wait(Duration::MAX);
        ringer.join().unwrap();
        assert_eq!((bell.who_rang(), bell.who_rang()), (BTreeSet::from([7]), BTreeSet::new()));
    }
}
