//! The wakeup of a controller that waits for many agents.
//!
//! Each transport signals the same [`Wakeup`] under a number of its own when its agent has sent
//! something, so that a thousand of them need not be polled over and over.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A signal to a thread that waits, or will.
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

/// The signals since the last wait.
#[derive(Debug, Default)]
struct Signals {
    /// Signalled since the last wait. It is kept apart from the numbers, which are read by another
    /// call: a wait must not return again for numbers that are still unread.
    is_signalled: bool,
    /// The numbers of the transports that signalled since they were last read.
    numbers: BTreeSet<u32>,
}

impl Wakeup {
    /// Returns the same wakeup, signalled under another number.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Self {
        Self { shared: Arc::clone(&self.shared), number }
    }

    /// Wakes the thread that waits, or waits next.
    pub fn notify(&self) {
        let mut signals = self.lock_signals();
        signals.is_signalled = true;
        signals.numbers.insert(self.number);
        // Released first: the woken thread takes the lock at once.
        drop(signals);
        self.shared.condition.notify_one();
    }

    /// Waits until it is signalled, or was since the last wait, but no longer than this.
    pub fn wait(&self, limit: Duration) {
        let signals = self.lock_signals();
        let waited =
            self.shared.condition.wait_timeout_while(signals, limit, |now| !now.is_signalled);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_signalled = false;
    }

    /// Returns the numbers under which it was signalled since this was called last.
    pub fn take_notified(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.lock_signals().numbers)
    }

    fn lock_signals(&self) -> MutexGuard<'_, Signals> {
        // Nothing panics under this lock, and half a signal is still a signal.
        self.shared.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wakeup of one transport, once it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct WakeupSlot(Arc<OnceLock<Wakeup>>);

impl WakeupSlot {
    /// Attaches it to a wakeup, where it has none.
    pub(crate) fn attach_to(&self, wakeup: &Wakeup) {
        // One controller has one wakeup, so the first is the only one.
        let _ = self.0.set(wakeup.clone());
    }

    /// Signals, where there is a wakeup.
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
    fn a_signal_before_the_wait_ends_one_wait() {
        let wakeup = Wakeup::default();
        let slot = WakeupSlot::default();
        slot.notify();
        slot.attach_to(&wakeup);
        slot.notify();
        // It would wait for ever.
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
