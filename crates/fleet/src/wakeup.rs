//! Wakes up a controller that waits for many agents.
//!
//! All transports signal the same [`Wakeup`], each with its own number, when their agent has sent
//! something. This avoids polling a thousand agents over and over.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A signal to a thread that is waiting or will wait.
#[derive(Clone, Debug, Default)]
pub struct Wakeup {
    shared: Arc<Shared>,
    number: u32,
}

#[derive(Debug, Default)]
struct Shared {
    signals: Mutex<Signals>,
    condition: Condvar,
}

/// Signals since the last wait.
#[derive(Debug, Default)]
struct Signals {
    /// Whether there was a signal since the last wait. Kept apart from the numbers, which are read
    /// by a separate call: a wait must not return again because of numbers that are still unread.
    is_signalled: bool,
    /// Numbers of the transports that have signaled since the numbers were last read.
    numbers: BTreeSet<u32>,
}

impl Wakeup {
    /// Returns the same wakeup with another number.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Self {
        Self { shared: Arc::clone(&self.shared), number }
    }

    /// Wakes up the thread that is waiting or waits next.
    pub fn notify(&self) {
        let mut signals = self.lock_signals();
        signals.is_signalled = true;
        signals.numbers.insert(self.number);
        // Unlock first, since the woken thread takes the lock immediately.
        drop(signals);
        self.shared.condition.notify_one();
    }

    /// Waits up to `limit` for a signal. Returns at once if there was one since the last wait.
    pub fn wait(&self, limit: Duration) {
        let signals = self.lock_signals();
        let waited =
            self.shared.condition.wait_timeout_while(signals, limit, |now| !now.is_signalled);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_signalled = false;
    }

    /// Returns the numbers that have signaled since the last call.
    pub fn take_notified(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.lock_signals().numbers)
    }

    fn lock_signals(&self) -> MutexGuard<'_, Signals> {
        // Nothing panics under this lock, and the signals are valid at any time.
        self.shared.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wakeup of one transport, once it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct WakeupSlot(Arc<OnceLock<Wakeup>>);

impl WakeupSlot {
    /// Sets the wakeup if there is none yet.
    pub(crate) fn attach_to(&self, wakeup: &Wakeup) {
        // A controller has only one wakeup, so the first one is right.
        let _ = self.0.set(wakeup.clone());
    }

    /// Signals the wakeup, if there is one.
    pub(crate) fn notify(&self) {
        if let Some(wakeup) = self.0.get() {
            wakeup.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_signal_before_wait() {
        let wakeup = Wakeup::default();
        let slot = WakeupSlot::default();
        slot.notify();
        slot.attach_to(&wakeup);
        slot.notify();
        // Without a signal, this would wait forever.
        wakeup.wait(Duration::MAX);
        wakeup.wait(Duration::from_millis(1));
        assert_eq!(wakeup.take_notified(), BTreeSet::from([0]));
        let other = wakeup.numbered(7);
        let notifier = std::thread::spawn(move || other.notify());
        wakeup.wait(Duration::MAX);
        notifier.join().unwrap();
        assert_eq!(wakeup.take_notified(), BTreeSet::from([7]));
        assert_eq!(wakeup.take_notified(), BTreeSet::new());
    }
}
