//! `dfsbench ramp TRACE` and `dfsbench curve TRACE`: the multiple of a load that breaks a target.

use replay::{LimitSearch, Outcome, Pace, Verdict};

use super::document::failures_text;
use super::{ReplayWork, SPEEDS_MAX};
use crate::exit::Failure;

/// The result of a search.
pub struct SearchOutcome {
    /// The answer as a sentence.
    pub answer: String,
    /// Whether it is one: neither interrupted nor limited by the client.
    pub is_known: bool,
    /// The replays, the slowest first.
    pub outcomes: Vec<Outcome>,
}

/// Searches the limit, and for a curve replays at evenly spaced loads below it.
///
/// # Errors
/// When the target or a host can't be used.
pub(super) fn run(work: &mut ReplayWork<'_, '_>) -> Result<SearchOutcome, Failure> {
    let args = work.args;
    let max = args.max.min(fastest_speed(work.plan.duration_ns));
    let mut search = LimitSearch::new(max);
    let mut outcomes: Vec<Outcome> = Vec::new();
    while let Some(speed) = search.next_speed() {
        let pace = Pace::Open { speed };
        let Some(outcome) = work.replay_rounds(pace)? else { break };
        if work.is_stopped() {
            break;
        }
        search.note(speed, outcome.judge(lightest(&outcomes)));
        outcomes.push(outcome);
    }
    if args.curve
        && let Some(top) = search.broke.or(search.held)
    {
        for speed in missing_speeds(top, args.points, &outcomes) {
            let pace = Pace::Open { speed };
            match work.replay_rounds(pace)? {
                Some(outcome) if !work.is_stopped() => outcomes.push(outcome),
                _ => break,
            }
        }
    }
    outcomes.sort_by(|one, other| {
        let (one, other) = (one.speed.unwrap_or(0.0), other.speed.unwrap_or(0.0));
        one.total_cmp(&other)
    });
    outcomes.truncate(SPEEDS_MAX);
    let is_interrupted = work.is_stopped();
    let failures = outcomes.first().and_then(failures_words);
    let is_known = !is_interrupted
        && search.client_limit.is_none()
        && !outcomes.is_empty()
        && failures.is_none();
    let mut answer = if is_interrupted {
        "Interrupted before the limit was known.".to_owned()
    } else {
        words(&search, max < args.max)
    };
    answer.extend(failures);
    Ok(SearchOutcome { answer, is_known, outcomes })
}

/// Says that operations failed at the lightest load already; `None` if none did.
fn failures_words(lightest: &Outcome) -> Option<String> {
    (lightest.verdict() == Verdict::Failed).then(|| {
        format!(
            " But this is not the load of the trace: at the lightest, {}.",
            failures_text(lightest).join("; ")
        )
    })
}

/// Returns how fast a trace may be replayed: what takes less than a second says nothing about a
/// load that lasts.
fn fastest_speed(duration_ns: u64) -> f64 {
    (duration_ns as f64 / 1e9).max(1.0)
}

/// Says what was found; the trace may have been too short for faster replays.
fn words(search: &LimitSearch, is_too_short: bool) -> String {
    let LimitSearch { held, broke, client_limit, .. } = *search;
    match (held, broke, client_limit) {
        (held, _, Some(late)) => {
            let sustained = match held {
                Some(held) => format!("The target sustains {held} times this load; at"),
                None => "At".to_owned(),
            };
            format!(
                "{sustained} {late} times this client was late itself, so that its limit is not known \
                 (hint: use a faster host)."
            )
        }
        (Some(held), Some(broke), None) => {
            format!("The target sustains {held} times this load, and breaks at {broke} times.")
        }
        (Some(held), None, None) => {
            let why = if is_too_short {
                "; faster, this trace takes less than a second (hint: a longer trace)"
            } else {
                ", the most that was tried"
            };
            format!("The target sustains {held} times this load{why}.")
        }
        (None, Some(broke), None) => {
            format!("The target breaks at {broke} times this load, the least that was tried.")
        }
        (None, None, None) => "Nothing was replayed.".to_owned(),
    }
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

#[cfg(test)]
mod tests {
    use replay::Judgement;

    use super::super::document::tests::stored;
    use super::*;

    #[test]
    fn the_answer_says_what_is_known_and_what_is_not() {
        let mut search = LimitSearch::new(8.0);
        search.note(4.0, Judgement::Held);
        assert_eq!(
            words(&search, false),
            "The target sustains 4 times this load, the most that was tried."
        );
        assert!(words(&search, true).contains("takes less than a second"));
        search.note(4.4, Judgement::Broke);
        assert_eq!(
            words(&search, false),
            "The target sustains 4 times this load, and breaks at 4.4 times."
        );
        search.note(4.2, Judgement::ClientLimited);
        assert!(words(&search, false).contains("at 4.2 times this client was late itself"));
    }

    #[test]
    fn the_answer_names_failures_at_the_lightest_load() {
        let mut lightest = stored(1_000_000).outcomes.remove(0);
        let words = failures_words(&lightest).unwrap();
        assert!(
            words.ends_with(
                "at the lightest, 2 of 20 operations failed that did not fail in \
                                 the trace."
            ),
            "{words}"
        );
        lightest.kinds[0].unexpected_errors = 0;
        assert_eq!(failures_words(&lightest), None);
    }

    #[test]
    #[allow(clippy::float_cmp)] // exact figures are the point
    fn a_replay_takes_a_second_at_least() {
        assert_eq!((fastest_speed(8_000_000_000), fastest_speed(1000)), (8.0, 1.0));
    }

    #[test]
    fn a_curve_fills_the_loads_that_the_search_has_left_out() {
        assert_eq!(missing_speeds(8.0, 4, &[]), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(missing_speeds(8.0, 100, &[]).len(), SPEEDS_MAX);
    }
}
