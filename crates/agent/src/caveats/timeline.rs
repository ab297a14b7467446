//! Caveats about events during a pass: stalls, and steps of the wall clock.
//!
//! Each function checks one pass against a rule. The evidence contains the numbers and limits.

use fleet::ClockReading;
use model::units::Nanos;
use model::{Caveat, CaveatCode, Evidence, PassResult, RunSpec};

/// Minimum size of a step of the wall clock. Smaller offsets are slewed.
///
/// **Source:** ntpd(8): offsets beyond 128 ms are stepped, smaller ones slewed.
pub(crate) const CALENDAR_STEP_MIN_NS: u64 = 128_000_000;

/// Maximum rate at which a clock is slewed.
///
/// **Source:** adjtime(3), ntpd(8): at most 500 ppm.
pub(crate) const CALENDAR_SLEW_MAX: f64 = 500e-6;

/// The clocks that are compared.
const CLOCKS: &str = "CLOCK_REALTIME relative to CLOCK_MONOTONIC";

/// Maximum number of steps to list in the evidence of a pass.
const STEPS_MAX: usize = 8;

/// Raises a caveat about periods in which workers completed no op.
pub(super) fn stalled(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    let stalls = result.scope.stalls?;
    if stalls.count == 0 {
        return None;
    }
    // Stalls are detected between two readings of the workers' counters, so the length is a lower
    // bound.
    let longest = stalls.longest;
    let evidence = format!(
        "no op completed for at least {}, starting at {}, on {} of {} workers (stalls of {} or \
         more: {}; the workers' counters, read ten times a second)",
        Nanos(longest.lasts_ns),
        Nanos(longest.at_ns),
        longest.workers,
        spec.workers,
        Nanos(spec.sampling.stall_ns()),
        stalls.count,
    );
    let source = "counters of the workers, read ten times a second";
    let data = Evidence::nanos(longest.lasts_ns, spec.sampling.stall_ns(), source);
    Some(CaveatCode::Stalled.because(evidence).with_data(data))
}

/// Tracks steps of the wall clock during a pass.
///
/// All measurements use the monotonic clock, which never steps. This compares how far the wall
/// clock is ahead of it. Slewing changes that by 0.05 ms between two readings 100 ms apart, so only
/// a step changes it by more than `CALENDAR_STEP_MIN_NS`.
pub struct Calendar {
    begun_ns: u64,
    /// How far the wall clock was ahead of the monotonic clock at the last reading.
    ahead_ns: i128,
    steps: Vec<ClockStep>,
}

/// A step of the wall clock.
struct ClockStep {
    /// When it happened, in nanoseconds from the start of the pass.
    at_ns: u64,
    /// Size of the step; negative if the clock was set back.
    by_ns: i128,
}

/// Returns how far the wall clock is ahead of the monotonic clock.
const fn ahead_ns(clocks: ClockReading) -> i128 {
    clocks.wall_ns as i128 - clocks.mono_ns as i128
}

impl Calendar {
    /// Starts watching.
    pub const fn begin(now: ClockReading) -> Self {
        Self { begun_ns: now.mono_ns, ahead_ns: ahead_ns(now), steps: Vec::new() }
    }

    /// Reads both clocks and records a step since the last call.
    pub fn look(&mut self, read: impl Fn() -> ClockReading) {
        let mut now = read();
        if self.is_step(now) {
            // If a thread is interrupted between reading the two clocks, it sees a false step. Only
            // if a second reading confirms it is the step real.
            now = read();
            if self.is_step(now) && self.steps.len() < STEPS_MAX {
                let at_ns = now.mono_ns.saturating_sub(self.begun_ns);
                self.steps.push(ClockStep { at_ns, by_ns: ahead_ns(now) - self.ahead_ns });
            }
        }
        // Update this even without a step. Otherwise, slewing would add up to a step in a long
        // pass.
        self.ahead_ns = ahead_ns(now);
    }

    const fn is_step(&self, now: ClockReading) -> bool {
        (ahead_ns(now) - self.ahead_ns).unsigned_abs() > CALENDAR_STEP_MIN_NS as u128
    }

    /// Returns true if there was a step.
    pub(crate) const fn has_stepped(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Returns a caveat about displayed times. Measurements are not affected by steps.
    pub fn caveat(&self) -> Option<Caveat> {
        if self.steps.is_empty() {
            return None;
        }
        let mut steps = Vec::with_capacity(self.steps.len());
        let mut largest_ns = 0;
        for step in &self.steps {
            largest_ns =
                largest_ns.max(u64::try_from(step.by_ns.unsigned_abs()).unwrap_or(u64::MAX));
            steps.push(format!("{} at {}", describe_step(step.by_ns), Nanos(step.at_ns)));
        }
        let evidence = format!(
            "the wall clock stepped {} (CLOCK_REALTIME relative to CLOCK_MONOTONIC, which is used \
             for all measurements)",
            steps.join(", and ")
        );
        let data = Evidence::nanos(largest_ns, CALENDAR_STEP_MIN_NS, CLOCKS);
        Some(CaveatCode::Clock.because(evidence).with_data(data))
    }
}

/// Raises a caveat about displayed times if the wall clock advanced by `calendar_ns` while
/// `monotonic_ns` passed.
pub fn about_calendar(calendar_ns: i128, monotonic_ns: u64) -> Option<Caveat> {
    let step_ns = calendar_ns - i128::from(monotonic_ns);
    // Over a whole pass, slewing adds up, so allow for it at its maximum rate.
    let slewed_ns = (monotonic_ns as f64 * CALENDAR_SLEW_MAX) as u64;
    let allowed_ns = CALENDAR_STEP_MIN_NS.saturating_add(slewed_ns);
    if step_ns.unsigned_abs() <= u128::from(allowed_ns) {
        return None;
    }
    let evidence = format!(
        "the wall clock moved {} in {} (CLOCK_REALTIME relative to CLOCK_MONOTONIC)",
        describe_step(step_ns),
        Nanos(monotonic_ns),
    );
    let found_ns = u64::try_from(step_ns.unsigned_abs()).unwrap_or(u64::MAX);
    let data = Evidence::nanos(found_ns, allowed_ns, CLOCKS);
    Some(CaveatCode::Clock.because(evidence).with_data(data))
}

/// Describes a step and its direction, such as `5.00 s ahead`.
fn describe_step(by_ns: i128) -> String {
    let direction = if by_ns > 0 { "ahead" } else { "back" };
    let size_ns = u64::try_from(by_ns.unsigned_abs()).unwrap_or(u64::MAX);
    format!("{} {direction}", Nanos(size_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    const fn at(wall_ns: u64, mono_ns: u64) -> ClockReading {
        ClockReading { mono_ns, wall_ns }
    }

    #[test]
    fn reports_clock_step_and_its_reversal() {
        let mut calendar = Calendar::begin(at(1_000 * SECOND, 10 * SECOND));
        for second in 1..10 {
            let ahead = if (3..8).contains(&second) { 5 } else { 0 };
            calendar.look(|| at((1_000 + second + ahead) * SECOND, (10 + second) * SECOND));
        }
        assert!(calendar.has_stepped());
        insta::assert_snapshot!(calendar.caveat().unwrap().evidence);
    }

    #[test]
    fn ignores_interruption_between_clock_reads() {
        let mut calendar = Calendar::begin(at(1_000 * SECOND, 10 * SECOND));
        let looks = std::cell::Cell::new(0);
        calendar.look(|| {
            looks.set(looks.get() + 1);
            // The first reading of the monotonic clock is one second late.
            let late = if looks.get() == 1 { SECOND } else { 0 };
            at(1_001 * SECOND, 11 * SECOND + late)
        });
        assert_eq!((looks.get(), calendar.has_stepped()), (2, false));
        // Slewing is not a step.
        calendar.look(|| at(1_002 * SECOND + SECOND / 20, 12 * SECOND));
        assert!(calendar.caveat().is_none());
    }
}
