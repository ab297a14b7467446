//! Locks that ignore poisoning.
//!
//! A thread that panics in the server is a bug that ends the whole server when it is joined; until
//! then the other threads continue with the state as it is, rather than panic one after the other.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(test)]
thread_local! {
    /// Locks that this thread has taken.
    static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn count() {
    #[cfg(test)]
    TAKEN.with(|taken| taken.set(taken.get() + 1));
}

/// Counts the locks that are taken by `work`.
#[cfg(test)]
pub(crate) fn locks_of<T>(work: impl FnOnce() -> T) -> u64 {
    let before = TAKEN.with(std::cell::Cell::get);
    work();
    TAKEN.with(std::cell::Cell::get) - before
}

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    count();
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading.
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    count();
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing.
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    count();
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
