//! Counted and limited memory for fuzz targets.
//!
//! [`Bounded`] is the allocator of every target. libFuzzer's own limit on single allocations needs
//! a sanitizer, so this allocator replaces it: an allocation that is too large aborts, and
//! libFuzzer keeps the input.
#![allow(unsafe_code, reason = "an allocator is made of nothing else")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Maximum size of one allocation, in bytes: far above any limit of `nfs_proto::limits`, and far
/// below the largest length that a message can claim.
pub const ALLOCATION_BYTES_MAX: usize = 64 << 20;

thread_local! {
    static ALLOCATED_BYTES: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

/// The system's allocator with a limit, and a count per thread.
#[derive(Debug)]
pub struct Bounded;

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory that
// is handed out, and a thread-local `Cell` without a destructor allocates nothing.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count(len.saturating_sub(layout.size()));
        // SAFETY: the caller keeps to the contract of `realloc`.
        unsafe { System.realloc(memory, layout, len) }
    }
}

fn count(bytes: usize) {
    if bytes > ALLOCATION_BYTES_MAX {
        std::process::abort();
    }
    // A thread that is ending no longer counts.
    let _ = ALLOCATED_BYTES.try_with(|total| total.set(total.get() + bytes as u64));
}

/// Returns the result of `act`, and how many bytes it allocated on this thread, freed or not.
pub fn allocated_by<T>(act: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATED_BYTES.get();
    let result = act();
    (result, ALLOCATED_BYTES.get() - before)
}

/// Runs a decoder and checks that it allocates nothing, whatever its result.
pub fn without_allocation<T>(decode: impl FnOnce() -> T) -> T {
    let (result, bytes) = allocated_by(decode);
    assert_eq!(bytes, 0, "a decoder allocates");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted() {
        let (vector, bytes) = allocated_by(|| vec![0_u8; 1000]);
        assert_eq!((vector.len(), bytes), (1000, 1000));
        assert_eq!(without_allocation(|| 7), 7);
    }

    #[test]
    #[should_panic(expected = "a decoder allocates")]
    fn a_decoder_that_allocates_is_found() {
        drop(without_allocation(|| vec![0_u8; 1]));
    }
}
