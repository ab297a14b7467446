//! Counters kept by the kernel for this process and for the CPUs.
//!
//! **Source:** proc_pid_io(5), proc_pid_task(5) (`schedstat`), proc_stat(5), clock_gettime(2).

use std::fs;

use procfs::{CurrentSI as _, KernelStats};
use rustix::time::{ClockId, clock_gettime};

use crate::facts::meminfo_bytes;
use crate::telemetry::host::times_by_state;

/// Returns the CPU time of all threads of this process, including `io_uring` workers.
pub fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Time of all CPUs of this host since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTime {
    /// Time the CPUs were busy, including time stolen by other virtual machines, in nanoseconds.
    pub busy_ns: u64,
    /// Busy plus idle time, in nanoseconds.
    pub all_ns: u64,
}

impl HostTime {
    /// Reads the counters. Returns `None` if the kernel doesn't report them.
    pub fn read() -> Option<Self> {
        Some(Self::from_kernel(&KernelStats::current().ok()?))
    }

    fn from_kernel(kernel: &KernelStats) -> Self {
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

/// Pending work of this host's storage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StorageWork {
    /// Dirty pages and those under writeback, in bytes.
    pub unwritten_bytes: u64,
    /// Percentage of the last ten seconds in which some task was waiting for I/O; 0 if the kernel
    /// doesn't track it.
    pub stalled_percent: f64,
    /// Total time since boot in which some task was waiting for I/O, in microseconds.
    pub stalled_us: u64,
}

impl StorageWork {
    /// Reads the counters. Returns `None` if the kernel doesn't report them.
    pub fn read() -> Option<Self> {
        let memory = fs::read_to_string("/proc/meminfo").ok()?;
        let pressure = fs::read_to_string("/proc/pressure/io").unwrap_or_default();
        Self::parse(&memory, &pressure)
    }

    fn parse(memory: &str, pressure: &str) -> Option<Self> {
        let dirty = meminfo_bytes(memory, "Dirty:")?;
        let unwritten_bytes = dirty + meminfo_bytes(memory, "Writeback:").unwrap_or(0);
        let mut work = Self { unwritten_bytes, ..Self::default() };
        // some avg10=2.12 avg60=5.12 avg300=10.22 total=21613741958
        let some = pressure.lines().find(|line| line.starts_with("some "));
        for word in some.unwrap_or_default().split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("avg10", value)) => work.stalled_percent = value.parse().unwrap_or(0.0),
                Some(("total", value)) => work.stalled_us = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        Some(work)
    }
}

/// Returns the CPU time of one thread of this process, or `None` if it no longer exists.
pub fn thread_cpu_ns(thread_id: u32) -> Option<u64> {
    // Fields: nanoseconds on a CPU, nanoseconds waiting in the run queue, number of time slices.
    let text = fs::read_to_string(format!("/proc/self/task/{thread_id}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the bytes that storage has read for this process, or `None` if the kernel doesn't count
/// them.
///
/// Reads from the page cache or an in-memory file system aren't included.
pub fn storage_read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    for line in text.lines() {
        if let Some(bytes) = line.strip_prefix("read_bytes:") {
            return bytes.trim().parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use procfs::FromBufReadSI as _;

    use super::*;

    #[test]
    fn reads_processor_times() {
        let stat = |cpu: &str| {
            let text = format!("{cpu}\ncpu0 1 2 3 4\nctxt 1\nbtime 1\nprocesses 1\n");
            let system = procfs::current_system_info();
            Some(HostTime::from_kernel(&KernelStats::from_buf_read(text.as_bytes(), system).ok()?))
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
    fn reads_storage_counters_and_pressure() {
        let memory = "MemTotal: 2 kB\nDirty:             20 kB\nWriteback:          4 kB\n";
        let pressure = "some avg10=2.12 avg60=0.91 avg300=2.00 total=1188\n\
                        full avg10=0.05 avg60=0.21 avg300=1.10 total=400\n";
        let found = StorageWork::parse(memory, pressure);
        let expected =
            StorageWork { unwritten_bytes: 24 << 10, stalled_percent: 2.12, stalled_us: 1_188 };
        assert_eq!(found, Some(expected));
        assert_eq!(StorageWork::parse(memory, "").unwrap().stalled_us, 0);
        assert_eq!(StorageWork::parse("MemTotal: 2 kB\n", pressure), None);
        assert!(StorageWork::read().is_some());
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
    }
}
