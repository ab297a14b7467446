//! Caveats about how a pass went: stalls, the clock of the day.
//!
//! Each function sees the figures of one pass and decides by a rule with a reason; what it saw
//! and the limit stand in the evidence.

use model::units::Nanos;
use model::{Caveat, CaveatCode, PassResult, RunSpec};

/// Smaller steps of the clock of the day are slewed.
///
/// **Source:** ntpd(8): offsets beyond 128 ms are stepped, smaller ones slewed.
pub const CALENDAR_STEP_MIN_NS: u64 = 128_000_000;

/// How fast a clock that is slewed may run off.
///
/// **Source:** adjtime(3), ntpd(8): at most 500 millionths.
pub const CALENDAR_SLEW_MAX: f64 = 500e-6;

/// Times in which workers ended nothing.
pub(super) fn stalled(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    let stalls = result.scope.stalls.filter(|stalls| stalls.count > 0)?;
    let longest = stalls.longest;
    Some(CaveatCode::Stalled.because(format!(
        "{} x no op ended for {} or more; the longest time was {} or more, from {} on, at {} of {} \
         workers (their counters, ten times a second)",
        stalls.count,
        Nanos(spec.sampling.stall_ns()),
        Nanos(longest.lasts_ns),
        Nanos(longest.at_ns),
        longest.workers,
        spec.workers,
    )))
}

/// Steps of the clock of the day that are told of one pass.
const STEPS_MAX: usize = 8;

/// The clock of the day while a pass runs: its steps, as they happen.
pub struct Calendar {
    begun_ns: u64,
    /// How far the clock of the day was ahead of the monotonic one at the last look.
    ahead_ns: i128,
    /// When, from the begin of the pass, and how far ahead.
    steps: Vec<(u64, i128)>,
}

/// Readings of both clocks: the wall clock, and the monotonic clock.
type Clocks = (u64, u64);

const fn ahead_ns((calendar_ns, monotonic_ns): Clocks) -> i128 {
    calendar_ns as i128 - monotonic_ns as i128
}

impl Calendar {
    /// Watches from now on.
    pub const fn begin(now: Clocks) -> Self {
        Self { begun_ns: now.1, ahead_ns: ahead_ns(now), steps: Vec::new() }
    }

    /// Looks again. Whoever is interrupted between reading one clock and the other sees a step that
    /// is none, so that both are read once more.
    pub fn look(&mut self, read: impl Fn() -> Clocks) {
        let is_step =
            |ahead: i128| (ahead - self.ahead_ns).unsigned_abs() > u128::from(CALENDAR_STEP_MIN_NS);
        let mut now = read();
        if is_step(ahead_ns(now)) {
            now = read();
            if is_step(ahead_ns(now)) && self.steps.len() < STEPS_MAX {
                let at_ns = now.1.saturating_sub(self.begun_ns);
                self.steps.push((at_ns, ahead_ns(now) - self.ahead_ns));
            }
        }
        self.ahead_ns = ahead_ns(now);
    }

    /// Says whether there was one.
    pub const fn has_stepped(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Returns the caveat about instants that people read; what was measured is not affected by it.
    pub fn caveat(&self) -> Option<Caveat> {
        let told = self.steps.iter().map(|(at_ns, by_ns)| {
            let way = if *by_ns > 0 { "ahead" } else { "back" };
            let size = u64::try_from(by_ns.unsigned_abs()).unwrap_or(u64::MAX);
            format!("{} {way} at {}", Nanos(size), Nanos(*at_ns))
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| {
            CaveatCode::Clock.because(format!(
                "the clock of the day stepped {} (CLOCK_REALTIME against CLOCK_MONOTONIC, by which \
                 everything is measured)",
                told.join(", and ")
            ))
        })
    }
}

/// Doubts about the instants that people read: the clock of the day went `calendar_ns` ahead while
/// `monotonic_ns` passed.
pub fn about_calendar(calendar_ns: i128, monotonic_ns: u64) -> Option<Caveat> {
    let step_ns = calendar_ns - i128::from(monotonic_ns);
    let slewed_ns = (monotonic_ns as f64 * CALENDAR_SLEW_MAX) as u64;
    let size_ns = u64::try_from(step_ns.unsigned_abs()).unwrap_or(u64::MAX);
    (size_ns > CALENDAR_STEP_MIN_NS.saturating_add(slewed_ns)).then(|| {
        let way = if step_ns > 0 { "ahead" } else { "back" };
        CaveatCode::Clock.because(format!(
            "the clock of the day went {} {way} in {} (CLOCK_REALTIME against CLOCK_MONOTONIC)",
            Nanos(size_ns),
            Nanos(monotonic_ns),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_step_and_its_way_back_are_told_with_their_instants() {
        let mut calendar = Calendar::begin((1_000 * SECOND, 10 * SECOND));
        for at in 1..10 {
            let ahead = if (3..8).contains(&at) { 5 } else { 0 };
            calendar.look(|| ((1_000 + at + ahead) * SECOND, (10 + at) * SECOND));
        }
        assert!(calendar.has_stepped());
        let told = calendar.caveat().unwrap().evidence;
        let words = "stepped 5.00 s ahead at 3.00 s, and 5.00 s back at 8.00 s (CLOCK_REALTIME";
        assert!(told.contains(words), "{told}");
    }

    #[test]
    fn who_is_interrupted_between_two_clocks_sees_no_step() {
        let mut calendar = Calendar::begin((1_000 * SECOND, 10 * SECOND));
        let looks = std::cell::Cell::new(0);
        calendar.look(|| {
            looks.set(looks.get() + 1);
            // The first reading of the monotonic clock comes a second late.
            let late = if looks.get() == 1 { SECOND } else { 0 };
            (1_001 * SECOND, 11 * SECOND + late)
        });
        assert_eq!((looks.get(), calendar.has_stepped()), (2, false));
        // What is slewed is no step.
        calendar.look(|| (1_002 * SECOND + SECOND / 20, 12 * SECOND));
        assert!(calendar.caveat().is_none());
    }
}
