//! Whether loads that belong together really ran at the same time.
//!
//! A load that starts late or ends early leaves the others alone for part of their window, and
//! their figures then show less than what it costs them. This module is pure.

use model::units::Nanos;
use model::{Caveat, CaveatCode, Evidence, Span};

/// Minimum share of a load's window in which all others must be working.
///
/// Below it, the effect of the others on a rate is diluted by more than a tenth.
const SHARED_SHARE_MIN: f64 = 0.9;

/// When a load worked, by the clock of the controller.
#[derive(Clone, Copy, Debug)]
pub struct LoadTime {
    /// Measured part, as of all workers.
    pub span: Span,
    /// How long its workers had been working before they were measured, in nanoseconds.
    pub warmup_ns: u64,
}

/// Raises a caveat if others did not work during most of a load's window. `others` have the names
/// of the other loads.
pub fn about_overlap(own: LoadTime, others: &[(&str, LoadTime)]) -> Option<Caveat> {
    let Span { first_start_ns, last_end_ns, .. } = own.span;
    let window_ns = last_end_ns.saturating_sub(first_start_ns);
    let mut from_ns = first_start_ns;
    let mut until_ns = last_end_ns;
    let mut parts = Vec::with_capacity(others.len());
    for (name, other) in others {
        // From its last worker's start to its first worker's end, a load is complete.
        let starts_ns = other.span.last_start_ns.saturating_sub(other.warmup_ns);
        let ends_ns = other.span.first_end_ns;
        from_ns = from_ns.max(starts_ns);
        until_ns = until_ns.min(ends_ns);
        let worked_ns = ends_ns.min(last_end_ns).saturating_sub(starts_ns.max(first_start_ns));
        parts.push(format!("{name} in {}", Nanos(worked_ns)));
    }
    let shared_ns = until_ns.saturating_sub(from_ns);
    let share = shared_ns as f64 / window_ns.max(1) as f64;
    if share >= SHARED_SHARE_MIN {
        return None;
    }
    let evidence = format!(
        "all loads worked in {} of the window of {} ({:.0} %): {}",
        Nanos(shared_ns),
        Nanos(window_ns),
        share * 100.0,
        parts.join(", "),
    );
    let source = "start and end times of the loads";
    let data = Evidence::shares(share, SHARED_SHARE_MIN, source);
    Some(CaveatCode::PartlyAlone.because(evidence).with_data(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn time(from_s: u64, until_s: u64) -> LoadTime {
        let span = Span {
            first_start_ns: from_s * SECOND,
            last_start_ns: from_s * SECOND,
            first_end_ns: until_s * SECOND,
            last_end_ns: until_s * SECOND,
        };
        LoadTime { span, warmup_ns: 0 }
    }

    #[test]
    fn accepts_loads_of_one_window() {
        assert_eq!(about_overlap(time(10, 20), &[("b", time(10, 20))]), None);
        assert_eq!(about_overlap(time(10, 20), &[("b", time(0, 30))]), None);
        assert_eq!(about_overlap(time(10, 20), &[("b", time(10, 19))]), None);
        let warmed = LoadTime { warmup_ns: 2 * SECOND, ..time(12, 20) };
        assert_eq!(about_overlap(time(10, 20), &[("b", warmed)]), None);
    }

    #[test]
    fn reports_loads_ending_early() {
        let others = [("b", time(10, 15)), ("c", time(12, 20))];
        let caveat = about_overlap(time(10, 20), &others).unwrap();
        insta::assert_snapshot!(
            caveat.evidence,
            @"all loads worked in 3.00 s of the window of 10.0 s (30 %): b in 5.00 s, c in 8.00 s"
        );
        assert!(about_overlap(time(10, 15), &others[1..]).is_some());
        assert!(about_overlap(time(10, 20), &[("b", time(30, 40))]).is_some());
    }
}
