//! The part of a trace to replay.

use std::ops::Range;

use serde::{Deserialize, Serialize};

const DAY_NS: u64 = 86_400_000_000_000;

/// A part of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Start of the window.
    pub from: TracePoint,
    /// End of the window. Calls that start at this time are not included.
    pub to: TracePoint,
}

/// A point in time of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TracePoint {
    /// Nanoseconds since the start of the trace.
    After(u64),
    /// Nanoseconds since midnight UTC, meaning the first such time of day in the trace.
    Daytime(u64),
}

impl Window {
    /// The whole trace.
    pub const ALL: Self = Self::between(0, u64::MAX);

    /// Returns the part between two points in time, in nanoseconds since the start of the trace.
    pub const fn between(from_ns: u64, to_ns: u64) -> Self {
        Self { from: TracePoint::After(from_ns), to: TracePoint::After(to_ns) }
    }

    /// Returns the window in nanoseconds since the start of the trace. `begin_ns` is the start of
    /// the trace in nanoseconds since 1970 UTC.
    pub(crate) fn range_in(self, begin_ns: u64) -> Range<u64> {
        let from_ns = match self.from {
            TracePoint::After(from_ns) => from_ns,
            TracePoint::Daytime(daytime_ns) => until_daytime(begin_ns, daytime_ns),
        };
        let to_ns = match self.to {
            TracePoint::After(to_ns) => to_ns,
            TracePoint::Daytime(daytime_ns) => {
                let from_here_ns = begin_ns.saturating_add(from_ns);
                let length_ns = until_daytime(from_here_ns, daytime_ns);
                // From a time of day to the same one is a whole day.
                from_ns.saturating_add(if length_ns == 0 { DAY_NS } else { length_ns })
            }
        };
        from_ns..to_ns
    }
}

/// Returns the time from an instant until the next time of day.
fn until_daytime(instant_ns: u64, daytime_ns: u64) -> u64 {
    (DAY_NS + daytime_ns % DAY_NS - instant_ns % DAY_NS) % DAY_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    #[test]
    fn finds_first_matching_time_of_day() {
        // The trace starts at nine.
        let begin_ns = 20_000 * DAY_NS + 9 * HOUR_NS;
        let at = |hours| TracePoint::Daytime(hours * HOUR_NS);
        let range = |from, to| Window { from, to }.range_in(begin_ns);
        assert_eq!(range(at(10), at(11)), HOUR_NS..2 * HOUR_NS);
        assert_eq!(range(at(23), at(1)), 14 * HOUR_NS..16 * HOUR_NS);
        assert_eq!(range(at(8), TracePoint::After(u64::MAX)), 23 * HOUR_NS..u64::MAX);
        assert_eq!(range(TracePoint::After(0), at(10)), 0..HOUR_NS);
        assert_eq!(range(at(9), at(9)), 0..DAY_NS);
        assert_eq!(Window::ALL.range_in(begin_ns), 0..u64::MAX);
    }
}
