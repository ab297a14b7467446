//! Time series of passes: the rate in each interval, with a line for each trial, and the response
//! times of all trials together.
//!
//! Drawn if a trial has several intervals. All trials of a row share axes that start at 0. Times
//! without a completion are bands behind the lines, and host activity is below them. JSON and the
//! results file have the numbers.

use maud::{Markup, html};
use model::units::Nanos;
use model::{IntervalTimes, Pass, PassResult, Stall, Telemetry};

use crate::campaign::host_activity::HostActivity;
use crate::chart::{Picture, Track, figures};
use crate::humanize::counted;
use crate::table::{Row, Sheet};

/// Minimum number of intervals for a line to be informative.
const INTERVALS_MIN: usize = 3;
/// Maximum number of rows to draw; JSON has all of them.
const ROWS_MAX: usize = 24;
/// Maximum number of trials of a row to draw.
const TRIALS_MAX: usize = 20;
/// Maximum number of intervals of a trial; more would be finer than a pixel.
const INTERVALS_MAX: usize = 2_000;
/// Maximum number of hosts to draw tracks for.
const HOSTS_MAX: usize = 3;
/// Height in pixels of the tracks of rates and response times, and of a host's track.
const RATE: f64 = 80.0;
const TIMES: f64 = 90.0;
const HOST: f64 = 36.0;

/// Observed quantity of a host: name, unit, and value over a span.
type Watch = (&'static str, &'static str, fn(&HostActivity) -> f64);

const WATCHES: [Watch; 3] = [
    ("CPUs busy", "%", HostActivity::busy_percent),
    ("disks", "MB/s", |watched| watched.sum_of(&["dkrdMB/s", "dkwrMB/s"])),
    ("network", "MB/s", |watched| watched.sum_of(&["rxMB/s", "txMB/s"])),
];

/// Renders the pictures with their legend; empty if no trial has several intervals.
pub(super) fn part(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    let all = sheet.rows.iter().filter(|row| !trial_lines(row).is_empty()).count();
    html! {
        @if !drawn.is_empty() {
            p.legend {
                "The rate in each interval, one line per trial, after ramp and warm-up. Bands mark \
                 times in which workers completed nothing, the longest in front. Below: response \
                 times of the ops of all trials that completed in each interval, from the median \
                 to the longest; and host activity in the first trial that recorded it."
            }
            (figures(&drawn))
            @if all > ROWS_MAX {
                p.legend { (counted(all - ROWS_MAX, "more row")) ": see JSON" }
            }
        }
    }
}

/// Draws the pictures without a legend.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    // If there are many rows, draw those with the longest stalls, longest first.
    let mut rows: Vec<&Row<'_>> = sheet.rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(longest_stall_ns(row)));
    let mut drawn = Vec::new();
    for row in rows {
        let lines = trial_lines(row);
        if drawn.len() < ROWS_MAX && !lines.is_empty() {
            drawn.push(draw_series(drawn.len(), sheet.name(row), row, &lines));
        }
    }
    drawn
}

/// One trial: the end and rate of each interval.
struct Line {
    points: Vec<(u64, f64)>,
    stall: Option<Stall>,
}

/// Results of a row's pass in each trial.
fn pass_results<'a>(row: &'a Row<'_>) -> Vec<&'a PassResult> {
    row.run
        .trials
        .iter()
        .flat_map(|trial| trial.passes.iter().filter(|result| result.pass == row.judged.pass))
        .collect()
}

/// Longest stall in any trial of a row; 0 if there is none.
fn longest_stall_ns(row: &Row<'_>) -> u64 {
    let mut longest_ns = 0;
    for result in pass_results(row) {
        if let Some(stalls) = result.scope.stalls {
            longest_ns = longest_ns.max(stalls.longest.lasts_ns);
        }
    }
    longest_ns
}

fn trial_lines(row: &Row<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    for result in pass_results(row) {
        if lines.len() < TRIALS_MAX && result.samples.len() >= INTERVALS_MIN {
            lines.push(Line::from_pass(result));
        }
    }
    lines
}

impl Line {
    fn from_pass(result: &PassResult) -> Self {
        // A sample is stamped with the end of its interval, which starts at the end of the previous
        // one.
        let mut begins_ns = 0;
        let mut points = Vec::with_capacity(result.samples.len());
        for (at_ns, ops, bytes) in merge_intervals(result) {
            let lasts_ns = at_ns.saturating_sub(begins_ns);
            let amount = if result.pass.is_byte_rate() { bytes } else { ops };
            // The remainder at the end may be too short for a rate.
            if lasts_ns > 0 && (lasts_ns >= begins_ns / points.len().max(1) as u64 / 2) {
                points.push((at_ns, amount as f64 * 1e9 / lasts_ns as f64));
            }
            begins_ns = at_ns;
        }
        let stall = match result.scope.stalls {
            Some(stalls) if stalls.count > 0 => Some(stalls.longest),
            _ => None,
        };
        Self { points, stall }
    }

    fn ends_ns(&self) -> u64 {
        self.points.last().map_or(0, |(at_ns, _)| *at_ns)
    }
}

/// Intervals of a pass as end, ops and bytes. If there are thousands, several are merged.
fn merge_intervals(result: &PassResult) -> Vec<(u64, u64, u64)> {
    let together = result.samples.len().div_ceil(INTERVALS_MAX).max(1);
    let mut merged = Vec::new();
    for samples in result.samples.chunks(together) {
        let mut end_ns = 0;
        let mut ops = 0_u64;
        let mut bytes = 0_u64;
        for sample in samples {
            end_ns = sample.at_ns;
            ops = ops.saturating_add(sample.ops);
            bytes = bytes.saturating_add(sample.bytes);
        }
        merged.push((end_ns, ops, bytes));
    }
    merged
}

fn draw_series(number: usize, name: String, row: &Row<'_>, lines: &[Line]) -> Picture {
    let (rates, described) = rate_track(lines, row.judged.pass);
    let mut ends_ns = 1;
    for line in lines {
        ends_ns = ends_ns.max(line.ends_ns());
    }
    let mut tracks = vec![rates];
    tracks.extend(times_track(row));
    // Trials repeat the same work, so show the hosts of one of them.
    for result in pass_results(row) {
        if result.telemetry.iter().any(|host| host.times_ns.len() > INTERVALS_MIN) {
            tracks.extend(result.telemetry.iter().take(HOSTS_MAX).flat_map(host_tracks));
            break;
        }
    }
    let (drawn, below) = Track::draw_all(&tracks, ends_ns);
    let id = format!("series-{number}");
    let title = format!("{id}-title");
    let description = format!("{id}-desc");
    let svg = html! {
        svg.chart role="img" width="100%" height=(below + 12.0)
            aria-labelledby=(title) aria-describedby=(description) {
            title id=(title) { (name) ": rate in each interval" }
            desc id=(description) { (described) }
            (drawn)
            text.tick x="0" y=(below + 8.0) { "0" }
            text.tick x="100%" y=(below + 8.0) text-anchor="end" { (Nanos(ends_ns)) }
        }
    };
    Picture { id, caption: name, svg, notes: Vec::new() }
}

/// Builds the track of the rates, and its description in words.
fn rate_track(lines: &[Line], pass: Pass) -> (Track, String) {
    let mut least = f64::INFINITY;
    let mut most = 0.0_f64;
    let mut track = Track { most, height: RATE, ..Track::default() };
    for line in lines {
        for (_, rate) in &line.points {
            least = least.min(*rate);
            most = most.max(*rate);
        }
        track.lines.push(line.points.clone());
        if let Some(stall) = line.stall {
            let why = format!("no op completed for {}", Nanos(stall.lasts_ns));
            track.bands.push((stall.at_ns, stall.lasts_ns, why));
        }
    }
    track.most = most;
    track.label = format!("rate, 0 to {}", stats::Rate::of_ops(pass, most));
    let [least, most] = [least, most].map(|per_s| stats::Rate::of_ops(pass, per_s));
    (track, format!("from {least} to {most} in {}", counted(lines.len(), "trial")))
}

/// Builds the track of response times: p50, p99 and maximum over all trials. `None` if there are
/// too few intervals.
fn times_track(row: &Row<'_>) -> Option<Track> {
    let mut intervals = Vec::new();
    for result in pass_results(row).into_iter().take(TRIALS_MAX) {
        IntervalTimes::merge_all(&mut intervals, result.interval_times.clone());
    }
    if intervals.len() < INTERVALS_MIN {
        return None;
    }
    let together = intervals.len().div_ceil(INTERVALS_MAX);
    let mut lines: [Vec<(u64, f64)>; 3] = Default::default();
    for chunk in intervals.chunks_mut(together) {
        let (last, others) = chunk.split_last_mut()?;
        for interval in others {
            last.times.merge(&interval.times);
        }
        let times = &last.times;
        let values = [times.quantile(0.5), times.quantile(0.99), times.max()];
        for (line, value_ns) in lines.iter_mut().zip(values) {
            line.push((last.at_ns, value_ns as f64));
        }
    }
    let named = ["p50", "p99", "max"].into_iter().zip(lines).collect();
    Some(Track { is_filled: true, ..Track::of_times("response time", named, TIMES) })
}

/// Builds the tracks of a host, without quantities that did not change.
fn host_tracks(host: &Telemetry) -> Vec<Track> {
    // Counters only increase, so the value of a span is the difference of two readings.
    let mut spans = Vec::new();
    for end in 1..host.times_ns.len() {
        let mut watched = HostActivity::default();
        watched.add(host, end - 1, end);
        spans.push((host.times_ns[end], watched));
    }
    let mut tracks = Vec::new();
    for (name, unit, value) in &WATCHES {
        let mut line = Vec::new();
        let mut most = 0.0_f64;
        for (at_ns, watched) in &spans {
            most = most.max(value(watched));
            line.push((*at_ns, value(watched)));
        }
        if most > 0.0 {
            tracks.push(Track {
                label: format!("{name} on {}, maximum {most:.1} {unit}", host.host),
                lines: vec![line],
                bands: Vec::new(),
                most: if *unit == "%" { 100.0 } else { most },
                height: HOST,
                ..Track::default()
            });
        }
    }
    tracks
}
