//! Notices before a campaign begins that the host has other work.
//!
//! The processors are watched while the tool's own ceiling is measured, so that it takes no time of
//! its own. What other processes and the hypervisor use then is not there for the trials: figures
//! vary more, and are lower.
//!
//! **Source:** `proc_stat(5)`; time used by this process by `clock_gettime(2)`.

use std::fs;

use model::units::three_digits;
use rustix::time::{ClockId, clock_gettime};

/// The most that others may use of all processors, as a share, before it is reported: from twice
/// as much on, a pass has the caveat `processor-contention`.
const OTHERS_SHARE_MAX: f64 = 0.05;

/// Ticks of all processors below which shares are too coarse.
const TICKS_MIN: u64 = 20;

/// Ticks in a second: what the kernel shows to programs, whatever it counts in.
///
/// **Source:** `proc_stat(5)`, `USER_HZ`; include/asm-generic/param.h of Linux.
const TICKS_PER_S: f64 = 100.0;

/// Processor time up to a moment.
#[derive(Clone, Copy)]
pub struct ProcessorTimes {
    /// Ticks in which processors worked, for whatever process or other machine.
    busy_ticks: u64,
    /// Ticks of processors that worked or were idle.
    all_ticks: u64,
    /// Processor time of this process, in seconds.
    own_s: f64,
}

impl ProcessorTimes {
    /// Reads them; `None` where the kernel does not tell.
    pub fn read() -> Option<Self> {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own_s = own.tv_sec as f64 + own.tv_nsec as f64 / 1e9;
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, own_s)
    }

    fn parse(stat: &str, own_s: f64) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let (mut busy_ticks, mut all_ticks) = (0, 0);
        // user nice system idle iowait irq softirq steal; guest time is part of user.
        for (at, word) in line.split_whitespace().take(8).enumerate() {
            let ticks: u64 = word.parse().ok()?;
            all_ticks += ticks;
            let is_idle = at == 3 || at == 4;
            busy_ticks += if is_idle { 0 } else { ticks };
        }
        Some(Self { busy_ticks, all_ticks, own_s })
    }

    /// Describes the work of other processes between two moments, where it is enough to matter.
    pub fn describe_others(self, after: Self) -> Option<String> {
        let all_ticks = after.all_ticks.saturating_sub(self.all_ticks);
        if all_ticks < TICKS_MIN {
            return None;
        }
        let busy_ticks = after.busy_ticks.saturating_sub(self.busy_ticks) as f64;
        let own_ticks = (after.own_s - self.own_s) * TICKS_PER_S;
        let others = ((busy_ticks - own_ticks) / all_ticks as f64).max(0.0);
        if others <= OTHERS_SHARE_MAX {
            return None;
        }
        Some(format!(
            "this host is busy: others use {} % of its processors, so figures will be lower and \
             vary more than on a quiet host (hint: `top` names them; stop them, or repeat later)",
            three_digits(others * 100.0)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(user: u64, idle: u64, steal: u64, own_s: f64) -> ProcessorTimes {
        let stat = format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3\n");
        ProcessorTimes::parse(&stat, own_s).unwrap()
    }

    #[test]
    fn work_of_others_is_reported_and_our_own_is_not() {
        let before = times(1_000, 5_000, 0, 2.0);
        // 60 ticks of two processors in 300 ms: 30 are ours, 2 those of other processes.
        assert_eq!(before.describe_others(times(1_032, 5_028, 0, 2.3)), None);
        let busy = before.describe_others(times(1_054, 5_006, 0, 2.3)).unwrap();
        assert!(busy.starts_with("this host is busy: others use 40"), "{busy}");
        let stolen = before.describe_others(times(1_030, 5_015, 15, 2.3)).unwrap();
        assert!(stolen.contains("25"), "{stolen}");
    }

    #[test]
    fn what_is_too_short_or_no_count_says_nothing() {
        let before = times(1_000, 5_000, 0, 0.0);
        assert_eq!(before.describe_others(times(1_010, 5_000, 0, 0.0)), None);
        assert!(ProcessorTimes::parse("intr 1 2 3", 0.0).is_none());
        assert!(ProcessorTimes::parse("cpu  one two", 0.0).is_none());
    }
}
