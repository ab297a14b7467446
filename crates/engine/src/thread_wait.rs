//! How long this thread was runnable but not running.
//!
//! For each thread, the scheduler adds up the time spent in the run queue. Only this number
//! distinguishes a client that is short of CPUs from one that waits for its target. A control group
//! that has used up its quota is throttled as a whole, which newer kernels don't include in that
//! number. Read before a worker starts and after it ends, never while it works.
//!
//! **Source:** Linux, Documentation/scheduler/sched-stats.rst: the numbers of
//! `/proc/<pid>/schedstat` are the time spent running and that spent waiting on a run queue, in
//! nanoseconds; Documentation/scheduler/sched-bwc.rst and admin-guide/cgroup-v2.rst, `cpu.stat`.

use std::fs::{File, read_to_string};
use std::io::Read as _;

use model::ProcessorWait;

/// How long a thread has been running and waiting for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    /// Total running time in nanoseconds.
    pub(crate) ran_ns: u64,
    /// Total time it was runnable but waiting, in nanoseconds.
    pub waited_ns: u64,
    /// Total time its control group was throttled in nanoseconds, added up over all CPUs.
    pub throttled_ns: u64,
}

impl ThreadTimes {
    /// Reads the times of the calling thread. Returns `None` if the kernel does not count them.
    pub(crate) fn now() -> Option<Self> {
        let mut text = [0_u8; 128];
        let len = File::open("/proc/thread-self/schedstat").ok()?.read(&mut text).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
        let ran_ns = numbers.next()??;
        let waited_ns = numbers.next()??;
        Some(Self { ran_ns, waited_ns, throttled_ns: throttled_ns().unwrap_or(0) })
    }

    /// Returns how long the thread was kept from running since `before`, out of `of_ns` elapsed:
    /// either in the run queue or because its group was throttled. Never more than the time it
    /// wasn't running.
    pub(crate) fn waited_since(self, before: Self, of_ns: u64) -> ProcessorWait {
        let ran_ns = self.ran_ns.saturating_sub(before.ran_ns);
        let idle_ns = of_ns.saturating_sub(ran_ns);
        let waited_ns = self.waited_ns.saturating_sub(before.waited_ns);
        let held_ns = self.throttled_ns.saturating_sub(before.throttled_ns).min(idle_ns);
        ProcessorWait { waited_ns: waited_ns.max(held_ns).min(idle_ns), held_ns, of_ns }
    }
}

/// Returns how long this process's control group was throttled, added up over all CPUs.
fn throttled_ns() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    let stat = |folder: String| read_to_string(format!("/sys/fs/cgroup/{folder}/cpu.stat")).ok();
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        if !controllers.is_empty() && controllers.split(',').all(|name| name != "cpu") {
            return None;
        }
        held_back_ns(&stat(format!("{controllers}{path}")).or_else(|| stat(path.to_owned()))?)
    })
}

/// Parses the time in a `cpu.stat` of either cgroup version.
fn held_back_ns(stat: &str) -> Option<u64> {
    let value = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(known, _)| *known == name)?.1.trim().parse::<u64>().ok()
    };
    let by_usec = || Some(value("throttled_usec")?.saturating_mul(1_000));
    value("throttled_time").or_else(by_usec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn threads_that_share_processors_wait() {
        let threads = std::thread::available_parallelism().map_or(2, usize::from) * 3;
        let stop = AtomicBool::new(false);
        let waited: u64 = std::thread::scope(|scope| {
            let work = || {
                let before = ThreadTimes::now().unwrap();
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
                ThreadTimes::now().unwrap().waited_ns - before.waited_ns
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            std::thread::park_timeout(std::time::Duration::from_millis(200));
            stop.store(true, Relaxed);
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(waited > 1_000_000, "{waited} ns");
    }

    #[test]
    fn detects_throttled_control_group() {
        let at = |ran_ns, waited_ns, throttled_ns| ThreadTimes { ran_ns, waited_ns, throttled_ns };
        let before = at(5, 7, 100);
        let kept = |now: ThreadTimes| {
            let ProcessorWait { waited_ns, held_ns, of_ns } = now.waited_since(before, 100);
            assert_eq!(of_ns, 100);
            (waited_ns, held_ns)
        };
        assert_eq!(kept(at(15, 17, 100)), (10, 0));
        assert_eq!(kept(at(15, 17, 140)), (40, 40));
        // Two CPUs were throttled at the same time; limited to the time it wasn't running.
        assert_eq!(kept(at(15, 17, 280)), (90, 90));
        // It was also throttled before there was anything to do.
        assert_eq!(kept(at(15, 900, 100)), (90, 0));
    }

    #[test]
    fn reads_both_cgroup_versions() {
        let first = "nr_periods 9\nnr_throttled 4\nthrottled_time 12345\n";
        let second = "usage_usec 1\nnr_throttled 4\nthrottled_usec 12\nburst_usec 0\n";
        assert_eq!((held_back_ns(first), held_back_ns(second)), (Some(12_345), Some(12_000)));
        assert_eq!(held_back_ns("usage_usec 1\n"), None);
    }
}
