//! The search for the multiple of a load at which a target breaks.
//!
//! [`find_limit`] replays at one speed after the other, until it knows the lowest that breaks the
//! target and the highest that doesn't, close to each other. If the client itself was late, the
//! search ends, because that says nothing about the target.

use stats::{LoadRange, LoadSearch, Spacing};

use crate::outcome::Outcome;

/// The load that breaks the target is at most this far above one that doesn't, in thousandths.
const ACCURACY_PERMILLE: u32 = 100;
/// Minimum speed to try.
const SLOWEST: f64 = 1.0 / 64.0;
/// Maximum number of speeds at which a trace is replayed by one command.
pub const SPEEDS_MAX: usize = 16;

/// How a target coped with a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoadVerdict {
    /// It kept up.
    Held,
    /// It fell behind, or operations failed that succeeded at lower loads.
    Broke,
    /// The client itself was late.
    ClientLimited,
}

/// The speeds of a search, as multiples of the load of the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchedSpeeds {
    /// The highest speed to try.
    pub max: f64,
    /// Duration of the trace, in nanoseconds. A replay should take a second at least.
    pub trace_ns: u64,
    /// Number of evenly spaced speeds up to the limit, for a curve. Those that the search has not
    /// tried are replayed after it.
    pub points: Option<u32>,
}

/// Result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// The highest speed that was sustained.
    pub held: Option<f64>,
    /// The lowest speed that was not.
    pub broke: Option<f64>,
    /// The speed at which the client itself was late.
    pub client_limit: Option<f64>,
    /// The trace is too short for the highest speed that was requested.
    pub is_too_short: bool,
    pub is_interrupted: bool,
    /// All replays, the slowest first.
    pub outcomes: Vec<Outcome>,
}

/// Searches for the limit of a target. `replay_at` replays at a speed, and returns `None` if it was
/// interrupted.
///
/// # Errors
/// Those of `replay_at`.
pub fn find_limit<E>(
    speeds: SearchedSpeeds,
    mut replay_at: impl FnMut(f64) -> Result<Option<Outcome>, E>,
) -> Result<SearchResult, E> {
    let max = speeds.max.min(fastest_speed(speeds.trace_ns));
    let mut search = LoadSearch::new(LoadRange {
        first: max.min(1.0),
        min: SLOWEST,
        max,
        accuracy_permille: ACCURACY_PERMILLE,
        spacing: Spacing::ThreeDigits,
    });
    let mut client_limit = None;
    let mut is_interrupted = false;
    let mut outcomes: Vec<Outcome> = Vec::new();
    while client_limit.is_none()
        && let Some(speed) = search.next()
    {
        let Some(outcome) = replay_at(speed)? else {
            is_interrupted = true;
            break;
        };
        match judge(&outcome, lightest(&outcomes)) {
            LoadVerdict::Held => search.note_good(speed),
            LoadVerdict::Broke => search.note_bad(speed),
            LoadVerdict::ClientLimited => client_limit = Some(speed),
        }
        outcomes.push(outcome);
    }
    let held = search.heaviest_good();
    let broke = search.lightest_bad();
    if !is_interrupted
        && let Some(points) = speeds.points
        && let Some(top) = broke.or(held)
    {
        for speed in missing_speeds(top, points, &outcomes) {
            let Some(outcome) = replay_at(speed)? else {
                is_interrupted = true;
                break;
            };
            outcomes.push(outcome);
        }
    }
    let speed_of = |outcome: &Outcome| outcome.speed.unwrap_or(0.0);
    outcomes.sort_by(|one, other| speed_of(one).total_cmp(&speed_of(other)));
    outcomes.truncate(SPEEDS_MAX);
    let is_too_short = max < speeds.max;
    Ok(SearchResult { held, broke, client_limit, is_too_short, is_interrupted, outcomes })
}

/// Returns the maximum speed for replaying a trace: a replay of less than a second doesn't show the
/// effect of a lasting load.
fn fastest_speed(duration_ns: u64) -> f64 {
    (duration_ns as f64 / 1e9).max(1.0)
}

/// Returns the lightest load that was tried.
fn lightest(outcomes: &[Outcome]) -> Option<&Outcome> {
    let mut lightest: Option<&Outcome> = None;
    for outcome in outcomes {
        if lightest.is_none_or(|lightest| outcome.speed < lightest.speed) {
            lightest = Some(outcome);
        }
    }
    lightest
}

/// Returns evenly spaced speeds up to the top that nothing near was replayed at.
fn missing_speeds(top: f64, points: u32, outcomes: &[Outcome]) -> Vec<f64> {
    let mut speeds = Vec::new();
    for number in 1..=points {
        let speed = (top * f64::from(number) / f64::from(points) * 1000.0).round() / 1000.0;
        let mut is_known = speed < 0.001;
        for outcome in outcomes {
            is_known |= outcome.speed.is_some_and(|known| (known / speed - 1.0).abs() < 0.05);
        }
        if !is_known && outcomes.len() + speeds.len() < SPEEDS_MAX {
            speeds.push(speed);
        }
    }
    speeds
}

/// Judges how a target coped with a load. `lightest` is the lowest load that was tried; its
/// failures have other reasons.
fn judge(outcome: &Outcome, lightest: Option<&Outcome>) -> LoadVerdict {
    match outcome.behind {
        Some(behind) if behind.is_own_fault => return LoadVerdict::ClientLimited,
        Some(_) => return LoadVerdict::Broke,
        None => {}
    }
    let usual = failed_share(lightest.unwrap_or(outcome));
    // A difference of a thousandth may be chance.
    if failed_share(outcome) > usual + 0.001 { LoadVerdict::Broke } else { LoadVerdict::Held }
}

fn failed_share(outcome: &Outcome) -> f64 {
    outcome.unexpected_errors() as f64 / outcome.ops.max(1) as f64
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use crate::outcome::BehindPeriod;

    use super::*;

    /// Searches a target that falls behind at `limit`, and a client that is late at `client_limit`.
    fn found(speeds: SearchedSpeeds, limit: f64, client_limit: f64) -> (SearchResult, Vec<f64>) {
        let mut tried = Vec::new();
        let found = find_limit(speeds, |speed| {
            tried.push(speed);
            let is_own_fault = speed >= client_limit;
            let is_behind = speed >= limit || is_own_fault;
            let behind = is_behind.then_some(BehindPeriod { from_ns: 0, is_own_fault });
            Ok::<_, ()>(Some(Outcome { speed: Some(speed), behind, ..Outcome::default() }))
        });
        (found.unwrap(), tried)
    }

    #[test]
    fn finds_limit_within_tenth() {
        let speeds = SearchedSpeeds { max: 1000.0, trace_ns: u64::MAX, points: None };
        for limit in [5.3, 0.3] {
            let (found, tried) = found(speeds, limit, f64::INFINITY);
            let held = found.held.unwrap();
            let broke = found.broke.unwrap();
            assert!(held < limit && broke >= limit && broke <= held * 1.1, "{tried:?}");
            assert!(found.outcomes.is_sorted_by_key(|outcome| outcome.speed));
        }
    }

    #[test]
    fn ends_search_at_each_limit() {
        let speeds = SearchedSpeeds { max: 10.0, trace_ns: u64::MAX, points: None };
        let (strong, tried) = found(speeds, f64::INFINITY, f64::INFINITY);
        assert_eq!((strong.held, strong.broke), (Some(10.0), None));
        assert_eq!(tried, [1.0, 2.0, 4.0, 8.0, 10.0]);
        let (dead, tried) = found(speeds, 0.0, f64::INFINITY);
        assert!(dead.held.is_none() && tried.len() < 10, "{tried:?}");
        let (late, tried) = found(speeds, f64::INFINITY, 2.0);
        assert_eq!((tried, late.held, late.client_limit), (vec![1.0, 2.0], Some(1.0), Some(2.0)));
    }

    #[test]
    fn replay_takes_at_least_a_second() {
        assert_eq!((fastest_speed(8_000_000_000), fastest_speed(1000)), (8.0, 1.0));
    }

    #[test]
    fn fills_loads_skipped_by_search() {
        assert_eq!(missing_speeds(8.0, 4, &[]), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(missing_speeds(8.0, 100, &[]).len(), SPEEDS_MAX);
        let speeds = SearchedSpeeds { max: 9.0, trace_ns: 8_000_000_000, points: Some(4) };
        let (found, tried) = found(speeds, 9.0, 9.0);
        assert_eq!((found.is_too_short, tried), (true, vec![1.0, 2.0, 4.0, 8.0, 6.0]));
    }
}
