//! The memory limit of the store, as charges that give themselves back.
//!
//! A `Budget` is one counter with a limit; a `Charge` is a part of it that some object owns and
//! that returns when the object is dropped. So data on its way to a socket remains charged until it
//! is sent. Counts bytes requested from the allocator, not its overhead.
//!
//! The buffers of freed blocks are kept for the next blocks, as far as the limit allows: fresh
//! memory costs a page fault for every 4 KiB, which halves the rate of writing, and more in a
//! virtual machine. They are counted separately, and as many as needed are freed before anything is
//! refused for lack of memory. So a server that was full once keeps that memory, but never more
//! than its limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::types::FsError;
use crate::sync;

/// Divisor of the limit that gives how far copies of data being sent may exceed it.
pub(crate) const COPY_SHARE: u64 = 64;

/// A limit on bytes and the number of bytes in use.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    used_bytes: AtomicU64,
    /// Bytes in the buffers kept for the next blocks.
    spare_bytes: AtomicU64,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Budget {
    /// Creates an empty budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            spare_bytes: AtomicU64::new(0),
            spare: Mutex::default(),
        })
    }

    /// The limit in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes currently charged.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns a buffer that held a block before, if there is one, with some of its old bytes.
    pub fn take_spare(&self) -> Option<Vec<u8>> {
        // Taken from the count under the lock, as it is added: so the two never differ for others.
        let mut spare = self.lock_spare();
        let buffer = spare.pop()?;
        self.spare_bytes.fetch_sub(buffer.capacity() as u64, Ordering::Relaxed);
        Some(buffer)
    }

    /// Keeps the buffer of a block if the limit allows it. Its owner is about to return
    /// `returned_bytes` of its charge.
    pub fn keep_spare(&self, buffer: Vec<u8>, returned_bytes: u64) {
        let mut spare = self.lock_spare();
        let spare_bytes = self.spare_bytes.load(Ordering::Relaxed);
        let kept_bytes = spare_bytes + buffer.capacity() as u64;
        if self.used_bytes() + kept_bytes <= self.limit_bytes + returned_bytes {
            self.spare_bytes.fetch_add(buffer.capacity() as u64, Ordering::Relaxed);
            spare.push(buffer);
        }
    }

    /// Whether `bytes` more would be within the limit.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.limit_bytes
    }

    /// Counts bytes that their owner gives back with [`Budget::subtract`], even past the limit.
    pub(crate) fn add(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes from the count.
    pub(crate) fn subtract(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Frees spare buffers until they and `used_bytes` together are within the limit.
    fn free_spare(&self, used_bytes: u64) {
        let mut spare = self.lock_spare();
        while used_bytes.saturating_add(self.spare_bytes.load(Ordering::Relaxed)) > self.limit_bytes
            && let Some(buffer) = spare.pop()
        {
            self.spare_bytes.fetch_sub(buffer.capacity() as u64, Ordering::Relaxed);
        }
    }

    fn lock_spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        sync::lock(&self.spare)
    }

    /// Takes `bytes` if `allowed` returns true for the bytes in use before and after.
    fn take_if(&self, bytes: u64, allowed: impl Fn(u64, u64) -> bool) -> Result<(), FsError> {
        // Added first and checked after, so that two threads can't both take the last bytes.
        // Another thread may be refused during the moment in which this one is over the limit.
        let before = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        let after = before.saturating_add(bytes);
        if !allowed(before, after) {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(FsError::NoSpace);
        }
        if after.saturating_add(self.spare_bytes.load(Ordering::Relaxed)) > self.limit_bytes {
            self.free_spare(after);
        }
        Ok(())
    }

    fn take(&self, bytes: u64) -> Result<(), FsError> {
        self.take_if(bytes, |_, after| after <= self.limit_bytes)
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
    /// `NoSpace` if the limit would be exceeded; then nothing is taken.
    pub fn take(budget: &Arc<Budget>, bytes: u64) -> Result<Self, FsError> {
        budget.take(bytes)?;
        Ok(Self { budget: Arc::clone(budget), bytes })
    }

    /// Takes `bytes` for the copy of a block that is being sent while it is overwritten or cut. The
    /// original will be freed soon, so the copy may exceed the limit, but not by more than
    /// [`COPY_SHARE`] allows.
    ///
    /// # Errors
    /// `NoSpace` if that would be exceeded, too.
    pub fn take_copy(budget: &Arc<Budget>, bytes: u64) -> Result<Self, FsError> {
        let most = budget.limit_bytes.saturating_add(budget.limit_bytes / COPY_SHARE);
        budget.take_if(bytes, |_, after| after <= most)?;
        Ok(Self { budget: Arc::clone(budget), bytes })
    }

    /// Takes `bytes` even past the limit, for objects that must exist, such as the root directory.
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
    /// `NoSpace` if growing would exceed the limit; the charge is then unchanged.
    pub fn resize(&mut self, bytes: u64) -> Result<(), FsError> {
        let limit_bytes = self.budget.limit_bytes;
        self.resize_if(bytes, |_, after| after <= limit_bytes)
    }

    /// Changes the bytes held. Growing is allowed up to `most_bytes` of the budget, and always if
    /// others hold less than half of it: so one owner at a time gets what it needs, however small
    /// the budget is.
    ///
    /// # Errors
    /// `NoSpace`; the charge is then unchanged.
    pub(crate) fn resize_in_turn(&mut self, bytes: u64, most_bytes: u64) -> Result<(), FsError> {
        let own = self.bytes;
        let half = self.budget.limit_bytes / 2;
        self.resize_if(bytes, |before, after| {
            after <= most_bytes || before.saturating_sub(own) <= half
        })
    }

    fn resize_if(&mut self, bytes: u64, allowed: impl Fn(u64, u64) -> bool) -> Result<(), FsError> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.budget.take_if(more, allowed)?,
            None => self.budget.subtract(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Changes the bytes held even past the limit, for memory that is already in use.
    pub(crate) fn force_to(&mut self, bytes: u64) {
        self.budget.add(bytes);
        self.budget.subtract(self.bytes);
        self.bytes = bytes;
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
    fn limits_copies_beyond_budget() {
        let budget = Budget::new(COPY_SHARE * 100);
        let all = Charge::take(&budget, COPY_SHARE * 100).unwrap();
        let copy = Charge::take_copy(&budget, 100).unwrap();
        assert_eq!(Charge::take_copy(&budget, 1).unwrap_err(), FsError::NoSpace);
        assert_eq!(Charge::take(&budget, 1).unwrap_err(), FsError::NoSpace);
        drop((all, copy));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn grants_one_owner_at_a_time() {
        let budget = Budget::new(100);
        let [mut first, mut second] = [(); 2].map(|()| Charge::force(&budget, 10));
        assert_eq!(first.resize_in_turn(500, 75), Ok(()), "the other one has less than half");
        assert_eq!(second.resize_in_turn(500, 75), Err(FsError::NoSpace));
        assert_eq!(second.resize_in_turn(20, 75), Err(FsError::NoSpace));
        assert_eq!(first.resize_in_turn(600, 75), Ok(()), "it may continue");
        first.resize_in_turn(60, 75).unwrap();
        assert_eq!(second.resize_in_turn(16, 75), Err(FsError::NoSpace));
        assert_eq!(second.resize_in_turn(16, 100), Ok(()));
        assert_eq!((first.bytes(), budget.used_bytes()), (60, 76));
    }

    #[test]
    fn spare_buffers_stay_within_the_limit() {
        let budget = Budget::new(300);
        let mut charge = Charge::take(&budget, 100).unwrap();
        let kept = || (budget.spare_bytes.load(Ordering::Relaxed), budget.lock_spare().len());
        budget.keep_spare(Vec::with_capacity(100), 0);
        budget.keep_spare(Vec::with_capacity(100), 0);
        budget.keep_spare(Vec::with_capacity(1), 0);
        assert_eq!(kept(), (200, 2), "the last one would exceed the limit");
        budget.keep_spare(Vec::with_capacity(1), 1);
        assert_eq!(kept(), (201, 3), "its charge is about to be returned");
        assert_eq!(budget.take_spare().map(|buffer| buffer.capacity()), Some(1));
        charge.resize(101).unwrap();
        assert_eq!(kept(), (100, 1), "only as many as needed are freed");
        charge.resize(300).unwrap();
        assert_eq!(kept(), (0, 0), "all are freed before anything is rejected");
    }

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
