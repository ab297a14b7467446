//! How long this thread could have run and was not let.
//!
//! The scheduler adds up for each thread what it spent in the queue of those that are ready: the
//! one figure that tells a client whose processors are taken from one that waits for its target.
//! Read before the start and after the end of a worker, never in between.
//!
//! **Source:** Linux, Documentation/scheduler/sched-stats.rst: the second
//! number of `/proc/<pid>/schedstat` is the time spent waiting on a run queue, in nanoseconds.

use std::fs::File;
use std::io::Read as _;

/// Nanoseconds that the calling thread waited for a processor since it began; `None` where the
/// kernel does not count them.
pub fn thread_wait_ns() -> Option<u64> {
    let mut text = [0_u8; 128];
    let len = File::open("/proc/thread-self/schedstat").ok()?.read(&mut text).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
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
                let before = thread_wait_ns().unwrap();
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
                thread_wait_ns().unwrap() - before
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            std::thread::park_timeout(std::time::Duration::from_millis(200));
            stop.store(true, Relaxed);
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(waited > 1_000_000, "{waited} ns");
    }
}
