//! The one place where the server reads a clock.
//!
//! File times come from `ServerConfig::clock`, whose default is [`wall_time`]; timers of planned
//! faults run on [`monotonic_ns`]; [`new_boot_id`] makes each server start distinct.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::fs::FileTime;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

static STARTS: AtomicU64 = AtomicU64::new(0);

/// Current time of day.
pub fn wall_time() -> FileTime {
    let time = clock_gettime(ClockId::Realtime);
    FileTime(nanoseconds(time.tv_sec, time.tv_nsec))
}

/// Nanoseconds since some fixed point; never goes back.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    nanoseconds(time.tv_sec, time.tv_nsec)
}

/// Waits; only for threads that serve nobody.
pub fn pause(time_ns: u64) {
    // A signal shortens it, which does no harm.
    let _ = rustix::thread::nanosleep(&timespec(time_ns));
}

/// Converts nanoseconds to the kernel's type.
pub fn timespec(time_ns: u64) -> Timespec {
    Timespec {
        tv_sec: (time_ns / NANOSECONDS_PER_SECOND).cast_signed(),
        tv_nsec: (time_ns % NANOSECONDS_PER_SECOND).cast_signed(),
    }
}

/// Returns a number that no other server start has: time of day, process id and start count, mixed.
pub fn new_boot_id() -> u64 {
    let count = STARTS.fetch_add(1, Ordering::Relaxed);
    let process = u64::from(std::process::id());
    mix(wall_time().0 ^ process.rotate_left(40) ^ count.rotate_left(56))
}

/// Spreads a number over all 64 bits. **Source:** SplitMix64, Steele, Lea and Flood 2014.
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    seconds.cast_unsigned() * NANOSECONDS_PER_SECOND + nanoseconds.cast_unsigned()
}
