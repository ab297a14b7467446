//! Waits before a campaign until this host's disks have written out the data of earlier work.
//!
//! A build or a copy finishes long before its data is on disk. Write-back during the first trials
//! makes them slower and their intervals wider. [`settle`] starts the write-back immediately and
//! waits for it, up to a part of the campaign's time budget. Campaigns without a budget start right
//! away with a warning. Only campaigns that use local directories depend on local disks.
//!
//! **Source:** proc(5), `/proc/meminfo` (Dirty, Writeback); the kernel's
//! `Documentation/accounting/psi.rst`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use engine::Clock;
use lab::telemetry::counters::StorageWork;
use model::units::{Nanos, Size, three_digits};
use plan::Plan;

/// Dirty data beyond this is worth waiting for. An idle host has a few MiB of logs.
const UNWRITTEN_BYTES_MAX: u64 = 32 << 20;
/// Maximum share of time that programs may wait for I/O, in percent.
const STALLED_PERCENT_MAX: f64 = 10.0;
/// The wait may take up to one part in this many of the campaign's budget.
const BUDGET_PART: u64 = 8;
/// Pause between two readings.
const PAUSE_NS: u64 = 250_000_000;

/// Side effects of the wait, so that tests need neither a clock nor a disk.
pub(crate) struct Effects<'a> {
    pub clock: &'a dyn Clock,
    /// Set when the campaign is to stop.
    pub stop: &'a AtomicBool,
    /// Reads how much work the disks have; `None` if the kernel doesn't report it.
    pub read: &'a mut dyn FnMut() -> Option<StorageWork>,
    /// Makes the kernel start writing dirty data, without waiting for it.
    pub begin_sync: &'a mut dyn FnMut(),
    pub report: &'a mut dyn FnMut(&str),
}

/// Waits up to `wait_ns_max` until disks are idle, and reports the outcome. If it is 0, only
/// reports.
pub(crate) fn settle(wait_ns_max: u64, effects: &mut Effects<'_>) {
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
    let mut last = first;
    let mut last_ns = begun_ns;
    loop {
        effects.clock.sleep_until(last_ns + PAUSE_NS);
        let now_ns = effects.clock.now_ns();
        let Some(now) = (effects.read)() else { return };
        // Use the share between two readings. The kernel's ten-second average includes the past.
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
        last = now;
        last_ns = now_ns;
    }
}

/// Returns how long a plan may wait for disks, and the local directories it uses; `None` if it uses
/// none.
pub(crate) fn need_of(plan: &Plan) -> Option<(u64, Vec<PathBuf>)> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for spec in &plan.runs {
        // Hosts that are set up have their own disks.
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

/// Starts syncing the file systems of directories in a separate thread. If a disk hangs, the
/// campaign will detect that, but the wait must not hang with it.
pub(crate) fn begin_sync(directories: Vec<PathBuf>) {
    thread::spawn(move || {
        for directory in directories {
            if let Ok(directory) = File::open(directory) {
                // A failed write is an error of the program that wrote the data.
                let _ = rustix::fs::syncfs(&directory);
            }
        }
    });
}

/// Describes the work of the disks, if there is enough to matter.
fn describe_work(work: StorageWork, stalled_percent: f64) -> Option<String> {
    let mut parts = Vec::new();
    if work.unwritten_bytes > UNWRITTEN_BYTES_MAX {
        // Round to whole MiB.
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

    /// Returns the messages of a wait with these readings, and the number of syncs.
    fn wait(wait_s: u64, readings: &[StorageWork]) -> (Vec<String>, u32) {
        let clock = SetClock::default();
        let stop = AtomicBool::new(false);
        let mut messages = Vec::new();
        let synced = Cell::new(0);
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
        assert_eq!(synced, 1);
        insta::assert_snapshot!(messages.join("\n"));
    }

    #[test]
    fn reports_busy_host_after_bounded_wait() {
        let (messages, synced) = wait(2, &[work(900, 0.0, 0)]);
        assert_eq!((messages.len(), synced), (2, 1));
        insta::assert_snapshot!(messages[1]);
        // Without a budget there is no wait.
        let (messages, synced) = wait(0, &[work(900, 0.0, 0)]);
        assert_eq!((messages.len(), synced), (1, 0));
        assert!(messages[0].starts_with("warning: "), "{messages:?}");
    }
}
