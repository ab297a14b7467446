//! Counters of this process and of the processors that the kernel keeps.
//!
//! **Source:** proc_pid_io(5), proc_pid_task(5) (`schedstat`), proc_stat(5), clock_gettime(2).

use std::fs;

use procfs::{CurrentSI as _, KernelStats};
use rustix::time::{ClockId, clock_gettime};

use crate::facts::meminfo_bytes;
use crate::telemetry::host::times_by_state;

/// Processor time of this process, all its threads together, `io_uring` workers included.
pub fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Time of all processors of this host since it was booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTime {
    /// Time in which they worked, for whatever process or other machine, in nanoseconds.
    pub busy_ns: u64,
    /// Time in which they worked or were idle, in nanoseconds.
    pub all_ns: u64,
}

impl HostTime {
    /// Reads it; `None` where the kernel does not report it.
    pub fn read() -> Option<Self> {
        Some(Self::of(&KernelStats::current().ok()?))
    }

    fn of(kernel: &KernelStats) -> Self {
        let mut time = Self { busy_ns: 0, all_ns: 0 };
        for (state, ns) in times_by_state(&kernel.total) {
            time.all_ns += ns;
            if state != "idle" && state != "iowait" {
                time.busy_ns += ns;
            }
        }
        time
    }
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
    use procfs::FromBufReadSI as _;

    use super::*;

    #[test]
    fn time_of_processors_is_read_and_what_is_no_count_is_not() {
        let stat = |cpu: &str| {
            let text = format!("{cpu}\ncpu0 1 2 3 4\nctxt 1\nbtime 1\nprocesses 1\n");
            let system = procfs::current_system_info();
            Some(HostTime::of(&KernelStats::from_buf_read(text.as_bytes(), system).ok()?))
        };
        let second_ns = 1_000_000_000;
        // In hundredths of a second: user nice system idle iowait irq softirq steal.
        let expected = HostTime { busy_ns: 21 * second_ns, all_ns: 30 * second_ns };
        assert_eq!(stat("cpu  1000 100 200 700 200 100 200 500 0 0"), Some(expected));
        assert!(stat("intr 1 2 3").is_none());
        assert!(stat("cpu  one two").is_none());
        assert!(HostTime::read().unwrap().busy_ns > 0);
    }

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
