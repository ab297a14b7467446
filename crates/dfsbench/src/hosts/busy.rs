//! Checks before a campaign begins whether the host is busy with other work.
//!
//! CPU usage is sampled while the tool's own ceiling is measured, so that it takes no extra time.
//! CPU time used by other processes or the hypervisor is not available to the trials, which makes
//! results lower and noisier.

use lab::telemetry::counters::{HostTime, process_cpu_ns};
use model::units::three_digits;

/// Share of all CPUs that others may use before we warn. At twice this share, a pass gets the
/// caveat `processor-contention`.
const OTHERS_SHARE_MAX: f64 = 0.05;

/// Minimum CPU time to compute shares from. The kernel counts in hundredths of a second, so shares
/// of less are too coarse.
const COUNTED_NS_MIN: u64 = 200_000_000;

/// CPU time up to some moment.
#[derive(Clone, Copy)]
pub(crate) struct ProcessorTimes {
    host: HostTime,
    /// CPU time of this process.
    own_ns: u64,
}

impl ProcessorTimes {
    /// Reads the current counters; `None` if the kernel doesn't provide them.
    pub(crate) fn read() -> Option<Self> {
        Some(Self { host: HostTime::read()?, own_ns: process_cpu_ns() })
    }

    /// Describes the work of other processes between two moments, if there was enough to matter.
    pub(crate) fn describe_others(self, after: Self) -> Option<String> {
        let all_ns = after.host.all_ns.saturating_sub(self.host.all_ns);
        if all_ns < COUNTED_NS_MIN {
            return None;
        }
        let busy_ns = after.host.busy_ns.saturating_sub(self.host.busy_ns);
        let own_ns = after.own_ns.saturating_sub(self.own_ns);
        let others = busy_ns.saturating_sub(own_ns) as f64 / all_ns as f64;
        if others <= OTHERS_SHARE_MAX {
            return None;
        }
        Some(format!(
            "this host is busy: other programs use {} % of the CPUs, so results will be lower and \
             vary more than on an idle host (hint: `top` names them; stop them, or repeat later)",
            three_digits(others * 100.0)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds times from hundredths of a second, except for this process's own, which are in
    /// seconds.
    fn times(user: u64, idle: u64, steal: u64, own_s: f64) -> ProcessorTimes {
        let busy_ns = (user + steal) * 10_000_000;
        let host = HostTime { busy_ns, all_ns: busy_ns + idle * 10_000_000 };
        ProcessorTimes { host, own_ns: (own_s * 1e9) as u64 }
    }

    #[test]
    fn reports_only_foreign_work() {
        let before = times(1_000, 5_000, 0, 2.0);
        // 60 ticks on two CPUs in 300 ms: 30 are ours, 2 belong to other processes.
        assert_eq!(before.describe_others(times(1_032, 5_028, 0, 2.3)), None);
        let busy = before.describe_others(times(1_054, 5_006, 0, 2.3)).unwrap();
        let stolen = before.describe_others(times(1_030, 5_015, 15, 2.3)).unwrap();
        insta::assert_snapshot!([busy, stolen].join("\n"));
    }

    #[test]
    fn what_is_too_short_says_nothing() {
        let before = times(1_000, 5_000, 0, 0.0);
        assert_eq!(before.describe_others(times(1_010, 5_000, 0, 0.0)), None);
    }
}
