//! Waits until disks and networks of this host are idle.

use engine::{Clock, Stop};
use fleet::QuietWait;
use lab::telemetry::activity::Activity;

/// Time between two checks, in nanoseconds: long enough to compute rates.
const LOOK_NS: u64 = 250_000_000;

/// Number of idle checks in a row before the host counts as idle, because write-back comes in
/// bursts.
const QUIET_LOOKS: u32 = 2;

/// Waits until nothing is transferred, up to a time limit.
pub(crate) fn await_quiet(clock: &dyn Clock, stop: &Stop, within_ns: u64) -> QuietWait {
    await_quiet_of(clock, stop, within_ns, &mut Activity::read)
}

fn await_quiet_of(
    clock: &dyn Clock,
    stop: &Stop,
    within_ns: u64,
    read: &mut dyn FnMut() -> Activity,
) -> QuietWait {
    let begun_ns = clock.now_ns();
    let mut quiet_looks = 0;
    let mut before = read();
    let mut looked_ns = begun_ns;
    loop {
        clock.sleep_until(looked_ns + LOOK_NS);
        let now_ns = clock.now_ns();
        let after = read();
        // A signal may have ended the sleep early.
        let elapsed_s = now_ns.saturating_sub(looked_ns).max(1) as f64 / 1e9;
        let busy = after.busy_since(&before, elapsed_s);
        quiet_looks = if busy.is_empty() { quiet_looks + 1 } else { 0 };
        let waited_ns = now_ns.saturating_sub(begun_ns);
        if quiet_looks == QUIET_LOOKS || waited_ns >= within_ns || stop.is_set() {
            return QuietWait { waited_ms: waited_ns / 1_000_000, busy };
        }
        before = after;
        looked_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use engine::testing::SetClock;

    use super::*;

    /// Waits for a disk that transfers the given bytes between checks.
    fn wait_for(moves: &[u64], within_ms: u64) -> QuietWait {
        let mut moved = 0;
        let mut looks = 0;
        let mut read = || {
            let activity = Activity::new("disk vda", moved);
            moved += moves.get(looks).copied().unwrap_or(0);
            looks += 1;
            activity
        };
        let clock = SetClock::default();
        let stop = Stop::default();
        await_quiet_of(&clock, &stop, within_ms * 1_000_000, &mut read)
    }

    #[test]
    fn accepts_quiet_host_at_second_look() {
        assert_eq!(wait_for(&[], 10_000), QuietWait { waited_ms: 500, busy: Vec::new() });
        // A small amount doesn't count as busy.
        assert_eq!(wait_for(&[200_000; 9], 10_000).waited_ms, 500);
    }

    #[test]
    fn waits_for_host_flushing_in_bursts() {
        let wait = wait_for(&[9_000_000, 0, 9_000_000, 9_000_000], 10_000);
        assert_eq!(wait, QuietWait { waited_ms: 1_500, busy: Vec::new() });
    }

    #[test]
    fn names_processes_of_busy_host() {
        let wait = wait_for(&[9_000_000; 99], 2_000);
        assert_eq!((wait.waited_ms, wait.busy.len()), (2_000, 1));
        assert_eq!(wait.busy[0].bytes_per_s, 36_000_000);
        assert_eq!(wait_for(&[9_000_000; 99], 100).waited_ms, 250);
    }
}
