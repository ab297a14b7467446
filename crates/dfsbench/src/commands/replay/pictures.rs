//! Plots of replays over time.

use replay::Outcome;
use report::Picture;
use report::over_time::{Event, OverTime, Scale, TimeLine, TimePoint};

/// Plots a replay over time: response times compared with those of the trace, and completed
/// compared with scheduled operations. A replay as fast as the order allows has no plots.
pub(super) fn draw_outcome(outcome: &Outcome, id: &str) -> Vec<Picture> {
    if outcome.speed.is_none() {
        return Vec::new();
    }
    let event = outcome
        .behind
        .map(|behind| Event { at_ns: behind.from_ns, name: "fell behind".to_owned() });
    let origin: Vec<_> = outcome
        .timeline
        .iter()
        .filter(|slice| slice.origin_ns > 0)
        .map(|slice| TimePoint { at_ns: slice.from_ns, value: slice.origin_ns })
        .collect();
    let responses = [("here", responses(outcome)), ("in the trace", origin)];
    let (scheduled, done) = progress(outcome);
    let counts = [("scheduled", scheduled), ("done", done)];
    let notes = vec!["The server is behind when the lines diverge.".to_owned()];
    draw(id, lines(responses), event, lines(counts), notes)
}

/// Plots two replays over time in the same charts.
pub(super) fn draw_pair(first: &Outcome, second: &Outcome, id: &str) -> Vec<Picture> {
    if first.speed.is_none() {
        return Vec::new();
    }
    let (scheduled, done_first) = progress(first);
    let (_, done_second) = progress(second);
    let responses = [("A", responses(first)), ("B", responses(second))];
    let counts = [("scheduled", scheduled), ("done, A", done_first), ("done, B", done_second)];
    draw(id, lines(responses), None, lines(counts), Vec::new())
}

/// Builds lines from names and points.
fn lines<const N: usize>(named: [(&str, Vec<TimePoint>); N]) -> Vec<TimeLine> {
    named.into_iter().map(|(name, points)| TimeLine { name: name.to_owned(), points }).collect()
}

/// Plots response times, with an event if there is one, and completed operations over time.
fn draw(
    id: &str,
    responses: Vec<TimeLine>,
    event: Option<Event>,
    counts: Vec<TimeLine>,
    notes: Vec<String>,
) -> Vec<Picture> {
    let times = OverTime {
        id: format!("times-{id}"),
        title: "Mean response time (logarithmic)".to_owned(),
        scale: Scale::Times,
        lines: responses,
        event,
        notes: Vec::new(),
    };
    let counts = OverTime {
        id: format!("progress-{id}"),
        title: "Operations scheduled and done".to_owned(),
        scale: Scale::Counts,
        lines: counts,
        event: None,
        notes,
    };
    let mut pictures = Vec::new();
    pictures.extend(times.picture());
    pictures.extend(counts.picture());
    pictures
}

/// Returns the mean response time of operations scheduled within a time range.
pub(super) fn mean_response_ns(outcome: &Outcome, from_ns: u64, to_ns: u64) -> Option<u64> {
    let mut count = 0_u64;
    let mut sum_ns = 0_u128;
    for slice in &outcome.timeline {
        if (from_ns..to_ns).contains(&slice.from_ns) {
            count += slice.started;
            sum_ns += u128::from(slice.started) * u128::from(slice.response_ns);
        }
    }
    if count == 0 { None } else { u64::try_from(sum_ns / u128::from(count)).ok() }
}

fn responses(outcome: &Outcome) -> Vec<TimePoint> {
    outcome
        .timeline
        .iter()
        .filter(|slice| slice.response_ns > 0)
        .map(|slice| TimePoint { at_ns: slice.from_ns, value: slice.response_ns })
        .collect()
}

/// Accumulates the scheduled and completed operations at the end of each slice.
fn progress(outcome: &Outcome) -> (Vec<TimePoint>, Vec<TimePoint>) {
    let mut scheduled = Vec::new();
    let mut done = Vec::new();
    let mut scheduled_ops = 0;
    let mut done_ops = 0;
    let mut slices = outcome.timeline.iter().peekable();
    while let Some(slice) = slices.next() {
        scheduled_ops += slice.started;
        done_ops += slice.done;
        let end_ns = slices.peek().map_or(slice.from_ns + 1, |next| next.from_ns);
        scheduled.push(TimePoint { at_ns: end_ns, value: scheduled_ops });
        done.push(TimePoint { at_ns: end_ns, value: done_ops });
    }
    (scheduled, done)
}
