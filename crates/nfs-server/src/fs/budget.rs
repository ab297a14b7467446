//! The memory limit of the store, as charges that give themselves back.
//!
//! A `Budget` is one counter with a limit; a `Charge` is a part of it that some object owns and
//! that returns when the object is dropped. Data that is still on its way to a socket thus remains
//! charged until it is sent. Counts bytes requested from the allocator, not its overhead.
//!
//! A few buffers of freed blocks are kept uncharged for the next blocks: fresh memory costs a page
//! fault for every 4 KiB, which halves the rate of writing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::types::FsError;
use crate::sync;

/// Buffers kept for the next blocks: 64 MiB at 256 KiB each.
const SPARE_BUFFERS_MAX: usize = 256;

/// A limit on bytes and the count of those in use.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    used_bytes: AtomicU64,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Budget {
    /// Makes an empty budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, used_bytes: AtomicU64::new(0), spare: Mutex::default() })
    }

    /// The limit in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes charged at this moment.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// An empty buffer that held a block before, where there is one.
    pub fn take_spare(&self) -> Option<Vec<u8>> {
        self.lock_spare().pop()
    }

    /// Keeps the buffer of a freed block, as long as there are few.
    pub fn keep_spare(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut spare = self.lock_spare();
        if spare.len() < SPARE_BUFFERS_MAX {
            spare.push(buffer);
        }
    }

    fn lock_spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        sync::lock(&self.spare)
    }

    fn take(&self, bytes: u64) -> Result<(), FsError> {
        // Added first and checked after, so that two threads can't both take the last bytes.
        // Another thread may be refused for the moment in which this one is over the limit.
        let after = self.used_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if after > self.limit_bytes {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(FsError::NoSpace);
        }
        Ok(())
    }
}

/// Bytes of a budget owned by one object; dropping it gives them back.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    /// Takes `bytes` from the budget.
    ///
    /// # Errors
    /// `NoSpace` where the limit would be passed; nothing is taken then.
    pub fn take(budget: &Arc<Budget>, bytes: u64) -> Result<Self, FsError> {
        budget.take(bytes)?;
        Ok(Self { budget: Arc::clone(budget), bytes })
    }

    /// Takes `bytes` even past the limit: for the copy made because data being sent is
    /// overwritten, which lives only until the original has left.
    pub fn force(budget: &Arc<Budget>, bytes: u64) -> Self {
        budget.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        Self { budget: Arc::clone(budget), bytes }
    }

    /// Returns the number of bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget that the bytes belong to.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Changes the bytes held.
    ///
    /// # Errors
    /// `NoSpace` where growing would pass the limit; the charge is unchanged then.
    pub fn resize(&mut self, bytes: u64) -> Result<(), FsError> {
        if bytes > self.bytes {
            self.budget.take(bytes - self.bytes)?;
        } else {
            self.budget.used_bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_return_when_dropped() {
        let budget = Budget::new(100);
        let mut first = Charge::take(&budget, 60).unwrap();
        assert_eq!(Charge::take(&budget, 41).unwrap_err(), FsError::NoSpace);
        assert_eq!(budget.used_bytes(), 60);
        first.resize(100).unwrap();
        assert_eq!(first.resize(101), Err(FsError::NoSpace));
        first.resize(10).unwrap();
        let forced = Charge::force(&budget, 500);
        assert_eq!((forced.bytes(), budget.used_bytes()), (500, 510));
        drop(forced);
        drop(first);
        assert_eq!(budget.used_bytes(), 0);
    }
}
