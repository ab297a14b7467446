//! Counters of this process that the kernel keeps.
//!
//! **Source:** proc_pid_io(5), proc_pid_task(5) (`schedstat`), clock_gettime(2).

use std::fs;

use rustix::time::{ClockId, clock_gettime};

use crate::facts::meminfo_bytes;

/// Processor time of this process, all its threads together, `io_uring` workers included.
pub fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of one thread of this process; `None` when it is gone.
pub fn thread_cpu_ns(thread_id: u32) -> Option<u64> {
    // Nanoseconds on a processor, nanoseconds ready and waiting, number of time slices.
    let text = fs::read_to_string(format!("/proc/self/task/{thread_id}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Bytes that storage read for this process; `None` where the kernel does not count them.
///
/// Pages of the page cache, or that a memory file system holds, are not in it.
pub fn storage_read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    for line in text.lines() {
        if let Some(bytes) = line.strip_prefix("read_bytes:") {
            return bytes.trim().parse().ok();
        }
    }
    None
}

/// The largest resident memory of this process so far, in bytes.
pub fn peak_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    meminfo_bytes(&text, "VmHWM:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_counters() {
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let before = (process_cpu_ns(), thread_cpu_ns(thread_id).unwrap());
        let mut x = 1_u64;
        for i in 0..20_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        std::hint::black_box(x);
        assert!(process_cpu_ns() - before.0 > 1_000_000);
        assert!(thread_cpu_ns(thread_id).unwrap() > before.1);
        assert!(peak_memory_bytes().unwrap() > 1 << 20);
    }
}
