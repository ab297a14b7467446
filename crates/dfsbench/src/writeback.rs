//! Waits before a campaign until the storage of this host has written what is left from before.
//!
//! A build or a copy has ended long before its data is on the disk; what is written back meanwhile
//! is missing to the first trials, and makes intervals wide. [`settle`] has it written at once and
//! waits, in a campaign with a budget for a part of it; others begin at once and say so.
//! Only campaigns that work on directories of this host need its storage.
//!
//! **Source:** proc(5), `/proc/meminfo` (Dirty, Writeback); the kernel's
//! `Documentation/accounting/psi.rst`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use engine::Clock;
use lab::counters::StorageWork;
use model::units::{Nanos, Size, three_digits};
use plan::Plan;

/// More than this is worth a wait: a quiet host has a few MiB of logs.
const UNWRITTEN_BYTES_MAX: u64 = 32 << 20;
/// The largest share of the time in which programs may wait for storage, in percent.
const STALLED_PERCENT_MAX: f64 = 10.0;
/// The part of a campaign's budget that is waited at most.
const BUDGET_PART: u64 = 8;
/// Pause between two readings.
const PAUSE_NS: u64 = 250_000_000;

/// The effects of the wait, so that tests need neither a clock nor a disk.
pub struct Effects<'a> {
    /// The clock that is waited by.
    pub clock: &'a dyn Clock,
    /// Set where the campaign is stopped.
    pub stop: &'a AtomicBool,
    /// Reads how much work storage has; `None` where the kernel does not tell.
    pub read: &'a mut dyn FnMut() -> Option<StorageWork>,
    /// Has the kernel write what is dirty, and does not wait for it.
    pub begin_sync: &'a mut dyn FnMut(),
    /// Prints a message.
    pub report: &'a mut dyn FnMut(&str),
}

/// Waits until storage is quiet, so long at most, and reports both; a wait of 0 reports alone.
pub fn settle(wait_ns_max: u64, effects: &mut Effects<'_>) {
    let Some(first) = (effects.read)() else { return };
    let Some(work) = describe_work(first, first.stalled_percent) else { return };
    if wait_ns_max == 0 {
        warn(&work, effects.report);
        return;
    }
    (effects.report)(&format!(
        "waiting up to {} for this host's disks: {work}",
        Nanos(wait_ns_max)
    ));
    (effects.begin_sync)();
    let begun_ns = effects.clock.now_ns();
    let (mut last, mut last_ns) = (first, begun_ns);
    loop {
        effects.clock.sleep_until(last_ns + PAUSE_NS);
        let now_ns = effects.clock.now_ns();
        let Some(now) = (effects.read)() else { return };
        // Between two readings, not the mean over ten seconds: that remembers what is over.
        let stalled_ns = now.stalled_us.saturating_sub(last.stalled_us) * 1_000;
        let stalled_percent = stalled_ns as f64 / (now_ns - last_ns).max(1) as f64 * 100.0;
        let Some(work) = describe_work(now, stalled_percent) else {
            let waited = Nanos(now_ns - begun_ns);
            (effects.report)(&format!("this host's disks are idle after {waited}"));
            return;
        };
        if now_ns - begun_ns >= wait_ns_max || effects.stop.load(Relaxed) {
            warn(&work, effects.report);
            return;
        }
        (last, last_ns) = (now, now_ns);
    }
}

/// Returns how long a plan waits for storage, and the directories of this host that it works on;
/// `None` where it works on none.
pub fn need_of(plan: &Plan) -> Option<(u64, Vec<PathBuf>)> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for spec in &plan.runs {
        // A host that is set up has storage of its own.
        if spec.lab.is_some() {
            continue;
        }
        for path in spec.target.paths() {
            if !directories.contains(path) {
                directories.push(path.clone());
            }
        }
    }
    if directories.is_empty() {
        return None;
    }
    Some((plan.budget_ms * 1_000_000 / BUDGET_PART, directories))
}

/// Has the file systems of directories write what is dirty, in a thread of its own: where storage
/// hangs, the campaign finds that out and not this wait.
pub fn begin_sync(directories: Vec<PathBuf>) {
    thread::spawn(move || {
        for directory in directories {
            if let Ok(directory) = File::open(directory) {
                // What can't be written is an error of those who wrote it.
                let _ = rustix::fs::syncfs(&directory);
            }
        }
    });
}

/// Describes the work of storage, where it is enough to matter.
fn describe_work(work: StorageWork, stalled_percent: f64) -> Option<String> {
    let mut parts = Vec::new();
    if work.unwritten_bytes > UNWRITTEN_BYTES_MAX {
        // Whole MiB say enough.
        let unwritten = Size(work.unwritten_bytes >> 20 << 20);
        parts.push(format!("{unwritten} of dirty pages are still being written"));
    }
    if stalled_percent > STALLED_PERCENT_MAX {
        let percent = three_digits(stalled_percent);
        parts.push(format!("programs waited for I/O {percent} % of the time"));
    }
    if parts.is_empty() { None } else { Some(parts.join(", and ")) }
}

fn warn(work: &str, report: &mut dyn FnMut(&str)) {
    report(&format!(
        "warning: this host's disks are busy: {work}, so results of directories will be lower \
         and vary more than on a quiet host (hint: repeat later)"
    ));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use engine::testing::SetClock;

    use super::*;

    const fn work(unwritten_mib: u64, stalled_percent: f64, stalled_us: u64) -> StorageWork {
        StorageWork { unwritten_bytes: unwritten_mib << 20, stalled_percent, stalled_us }
    }

    /// The messages of a wait during which storage reads so, and how often it was synced.
    fn wait(wait_s: u64, readings: &[StorageWork]) -> (Vec<String>, u32) {
        let (clock, stop) = (SetClock::default(), AtomicBool::new(false));
        let (mut messages, synced) = (Vec::new(), Cell::new(0));
        let mut readings = readings.iter().copied();
        let mut last = None;
        settle(
            wait_s * 1_000_000_000,
            &mut Effects {
                clock: &clock,
                stop: &stop,
                read: &mut || {
                    last = readings.next().or(last);
                    last
                },
                begin_sync: &mut || synced.set(synced.get() + 1),
                report: &mut |message| messages.push(message.to_owned()),
            },
        );
        (messages, synced.get())
    }

    #[test]
    fn does_not_wait_for_quiet_host() {
        assert_eq!(wait(10, &[work(5, 0.5, 0)]), (vec![], 0));
        assert_eq!(wait(10, &[]), (vec![], 0));
    }

    #[test]
    fn flushes_writes_of_build_first() {
        let (messages, synced) =
            wait(10, &[work(812, 34.0, 0), work(300, 34.0, 250_000), work(3, 33.0, 250_000)]);
        let expected = [
            "waiting up to 10.0 s for this host's disks: 812 MiB of dirty pages are still being \
             written, and programs waited for I/O 34.0 % of the time",
            "this host's disks are idle after 500 ms",
        ];
        assert_eq!((messages, synced), (expected.map(str::to_owned).to_vec(), 1));
    }

    #[test]
    fn reports_busy_host_after_bounded_wait() {
        let (messages, synced) = wait(2, &[work(900, 0.0, 0)]);
        assert_eq!((messages.len(), synced), (2, 1));
        assert!(
            messages[1].starts_with("warning: this host's disks are busy: 900 MiB of dirty pages"),
            "{messages:?}"
        );
        // Without a budget nothing is waited for.
        let (messages, synced) = wait(0, &[work(900, 0.0, 0)]);
        assert_eq!((messages.len(), synced), (1, 0));
        assert!(messages[0].starts_with("warning: "), "{messages:?}");
    }
}
