//! Caveats about how a pass went over time: stalls, and steps of the wall clock.
//!
//! Each function reads the figures of one pass and decides by a rule with a reason; the figures and
//! the limit stand in the evidence.

use fleet::ClockReading;
use model::units::Nanos;
use model::{Caveat, CaveatCode, Evidence, PassResult, RunSpec};

/// Smaller steps of the wall clock are slewed.
///
/// **Source:** ntpd(8): offsets beyond 128 ms are stepped, smaller ones slewed.
pub const CALENDAR_STEP_MIN_NS: u64 = 128_000_000;

/// How fast a clock that is slewed may run off.
///
/// **Source:** adjtime(3), ntpd(8): at most 500 millionths.
pub const CALENDAR_SLEW_MAX: f64 = 500e-6;

/// The clocks that are compared.
const CLOCKS: &str = "CLOCK_REALTIME against CLOCK_MONOTONIC";

/// Steps of the wall clock that the evidence of one pass lists at most.
const STEPS_MAX: usize = 8;

/// Raises a caveat about times in which workers ended no op.
pub(super) fn stalled(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    let stalls = result.scope.stalls?;
    if stalls.count == 0 {
        return None;
    }
    // A stall is seen between two readings of the workers' counters, so its length is a lower
    // bound.
    let longest = stalls.longest;
    let evidence = format!(
        "no op completed for at least {}, starting at {}, on {} of {} workers (stalls of {} or \
         more: {}; the workers' counters, ten times a second)",
        Nanos(longest.lasts_ns),
        Nanos(longest.at_ns),
        longest.workers,
        spec.workers,
        Nanos(spec.sampling.stall_ns()),
        stalls.count,
    );
    let source = "counters of the workers, ten times a second";
    let data = Evidence::nanos(longest.lasts_ns, spec.sampling.stall_ns(), source);
    Some(CaveatCode::Stalled.because(evidence).with_data(data))
}

/// Wall clock during a pass, with its steps.
///
/// Everything is measured by the monotonic clock, which never steps. What is compared is how far
/// the wall clock is ahead of it: slewing moves that by 0.05 ms in a tenth of a second, between two
/// readings, and only a step moves it by more than [`CALENDAR_STEP_MIN_NS`].
pub struct Calendar {
    begun_ns: u64,
    /// How far the wall clock was ahead of the monotonic one at the last reading.
    ahead_ns: i128,
    steps: Vec<ClockStep>,
}

/// A step of the wall clock.
struct ClockStep {
    /// When, in nanoseconds from the begin of the pass.
    at_ns: u64,
    /// By how much; negative where it was set back.
    by_ns: i128,
}

/// Returns how far the wall clock is ahead of the monotonic one.
const fn ahead_ns(clocks: ClockReading) -> i128 {
    clocks.wall_ns as i128 - clocks.mono_ns as i128
}

impl Calendar {
    /// Watches from now on.
    pub const fn begin(now: ClockReading) -> Self {
        Self { begun_ns: now.mono_ns, ahead_ns: ahead_ns(now), steps: Vec::new() }
    }

    /// Reads both clocks, and notes a step since the last time.
    pub fn look(&mut self, read: impl Fn() -> ClockReading) {
        let mut now = read();
        if self.is_step(now) {
            // A thread that is interrupted between reading one clock and the other sees a step that
            // is none: it is real only where a second reading shows it, too.
            now = read();
            if self.is_step(now) && self.steps.len() < STEPS_MAX {
                let at_ns = now.mono_ns.saturating_sub(self.begun_ns);
                self.steps.push(ClockStep { at_ns, by_ns: ahead_ns(now) - self.ahead_ns });
            }
        }
        // Also without a step: else slewing over a long pass would add up to one.
        self.ahead_ns = ahead_ns(now);
    }

    const fn is_step(&self, now: ClockReading) -> bool {
        (ahead_ns(now) - self.ahead_ns).unsigned_abs() > CALENDAR_STEP_MIN_NS as u128
    }

    /// Says whether there was one.
    pub const fn has_stepped(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Returns the caveat about instants that people read; what was measured is not affected by it.
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
            "the wall clock stepped {} (CLOCK_REALTIME against CLOCK_MONOTONIC, by which \
             everything is measured)",
            steps.join(", and ")
        );
        let data = Evidence::nanos(largest_ns, CALENDAR_STEP_MIN_NS, CLOCKS);
        Some(CaveatCode::Clock.because(evidence).with_data(data))
    }
}

/// Raises a caveat about the instants that people read: the wall clock went `calendar_ns` ahead
/// while `monotonic_ns` passed.
pub fn about_calendar(calendar_ns: i128, monotonic_ns: u64) -> Option<Caveat> {
    let step_ns = calendar_ns - i128::from(monotonic_ns);
    // Over a whole pass slewing adds up, and is allowed for at its fastest.
    let slewed_ns = (monotonic_ns as f64 * CALENDAR_SLEW_MAX) as u64;
    let allowed_ns = CALENDAR_STEP_MIN_NS.saturating_add(slewed_ns);
    if step_ns.unsigned_abs() <= u128::from(allowed_ns) {
        return None;
    }
    let evidence = format!(
        "the wall clock went {} in {} (CLOCK_REALTIME against CLOCK_MONOTONIC)",
        describe_step(step_ns),
        Nanos(monotonic_ns),
    );
    let found_ns = u64::try_from(step_ns.unsigned_abs()).unwrap_or(u64::MAX);
    let data = Evidence::nanos(found_ns, allowed_ns, CLOCKS);
    Some(CaveatCode::Clock.because(evidence).with_data(data))
}

/// Describes a step with its direction: `5.00 s ahead`.
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
    fn a_step_and_its_way_back_are_reported_with_their_instants() {
        let mut calendar = Calendar::begin(at(1_000 * SECOND, 10 * SECOND));
        for second in 1..10 {
            let ahead = if (3..8).contains(&second) { 5 } else { 0 };
            calendar.look(|| at((1_000 + second + ahead) * SECOND, (10 + second) * SECOND));
        }
        assert!(calendar.has_stepped());
        let evidence = calendar.caveat().unwrap().evidence;
        let words = "stepped 5.00 s ahead at 3.00 s, and 5.00 s back at 8.00 s (CLOCK_REALTIME";
        assert!(evidence.contains(words), "{evidence}");
    }

    #[test]
    fn an_interruption_between_two_clocks_is_no_step() {
        let mut calendar = Calendar::begin(at(1_000 * SECOND, 10 * SECOND));
        let looks = std::cell::Cell::new(0);
        calendar.look(|| {
            looks.set(looks.get() + 1);
            // The first reading of the monotonic clock comes a second late.
            let late = if looks.get() == 1 { SECOND } else { 0 };
            at(1_001 * SECOND, 11 * SECOND + late)
        });
        assert_eq!((looks.get(), calendar.has_stepped()), (2, false));
        // What is slewed is no step.
        calendar.look(|| at(1_002 * SECOND + SECOND / 20, 12 * SECOND));
        assert!(calendar.caveat().is_none());
    }
}
