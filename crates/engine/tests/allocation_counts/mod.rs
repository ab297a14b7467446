//! Counts what the thread of a test allocates and frees.
#![allow(unsafe_code, reason = "a counting allocator must implement GlobalAlloc")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::thread::LocalKey;

struct CountingAllocator;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
}

fn count_one(count: &'static LocalKey<Cell<u64>>) {
    // A thread that is ending has no thread-locals left, and no test needs its counts.
    let _ = count.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one(&ALLOCATED);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count_one(&FREED);
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns how many allocations this thread has made and how many it has freed so far.
pub fn counts() -> (u64, u64) {
    (ALLOCATED.get(), FREED.get())
}
