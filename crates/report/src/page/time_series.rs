//! The time series of passes: the rate in each interval, a line for each trial.
//!
//! Drawn where a trial has several intervals. All trials of a row share its axes, which begin at 0;
//! times without a completion lie behind the lines as bands, and below them is what the hosts did
//! meanwhile. The numbers stand in JSON and in the results file.

use maud::{Markup, html};
use model::units::Nanos;
use model::{Pass, PassResult, Stall, Telemetry};

use crate::campaign::host_activity::HostActivity;
use crate::chart::{Picture, Track, figures};
use crate::humanize::counted;
use crate::table::{Row, Sheet};

/// Intervals from which on a line says something.
const INTERVALS_MIN: usize = 3;
/// Rows that are drawn; nothing is gained by more, and JSON has them all.
const ROWS_MAX: usize = 24;
/// Trials of a row that are drawn.
const TRIALS_MAX: usize = 20;
/// Intervals of a trial beyond which a line is no finer than a pixel.
const INTERVALS_MAX: usize = 2_000;
/// Hosts whose tracks are drawn.
const HOSTS_MAX: usize = 3;
/// Pixels of the track of rates, and of one of a host.
const RATE: f64 = 80.0;
const HOST: f64 = 36.0;

/// A watched quantity of a host: a name, its unit, and its value over a span.
type Watch = (&'static str, &'static str, fn(&HostActivity) -> f64);

const WATCHES: [Watch; 3] = [
    ("processors busy", "%", HostActivity::busy_percent),
    ("disks", "MB/s", |watched| watched.sum_of(&["dkrdMB/s", "dkwrMB/s"])),
    ("network", "MB/s", |watched| watched.sum_of(&["rxMB/s", "txMB/s"])),
];

/// The pictures with their legend; nothing if no trial has several intervals.
pub(super) fn part(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    let mut all = 0;
    for row in &sheet.rows {
        all += usize::from(!trial_lines(row).is_empty());
    }
    html! {
        @if !drawn.is_empty() {
            p.legend {
                "The rate in each interval, a line for each trial, after ramp and warm-up. \
                 Bands are times in which workers ended nothing; the longest are in front. Below, \
                 what the hosts did in the first trial that was watched."
            }
            (figures(&drawn))
            @if all > ROWS_MAX {
                p.legend { (counted(all - ROWS_MAX, "more row")) ": see JSON" }
            }
        }
    }
}

/// The pictures alone.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    // Of many rows those with the longest stalls are drawn, in front.
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

/// One trial: the end of each interval, and the rate in it.
struct Line {
    points: Vec<(u64, f64)>,
    stall: Option<Stall>,
}

/// The results of a row's pass, a trial after the other.
fn pass_results<'a>(row: &'a Row<'_>) -> Vec<&'a PassResult> {
    let mut results = Vec::new();
    for trial in &row.run.trials {
        results.extend(trial.passes.iter().filter(|result| result.pass == row.judged.pass));
    }
    results
}

/// The longest stall in any trial of a row; 0 without one.
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
        // A sample has the end of its interval; it begins where the one before it ended.
        let mut begins_ns = 0;
        let mut points = Vec::with_capacity(result.samples.len());
        for (at_ns, ops, bytes) in merge_intervals(result) {
            let lasts_ns = at_ns.saturating_sub(begins_ns);
            let amount = if result.pass.is_byte_rate() { bytes } else { ops };
            // What is left at the end may be too short for a rate.
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

/// The intervals of a pass, several taken together where there are thousands: end, ops and bytes.
fn merge_intervals(result: &PassResult) -> Vec<(u64, u64, u64)> {
    let together = result.samples.len().div_ceil(INTERVALS_MAX).max(1);
    let mut merged = Vec::new();
    for samples in result.samples.chunks(together) {
        let (mut end_ns, mut ops, mut bytes) = (0, 0_u64, 0_u64);
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
    // Trials repeat the same work, so the hosts of one of them stand for all.
    for result in pass_results(row) {
        if result.telemetry.iter().any(|host| host.times_ns.len() > INTERVALS_MIN) {
            for host in result.telemetry.iter().take(HOSTS_MAX) {
                tracks.extend(host_tracks(host));
            }
            break;
        }
    }
    let (drawn, below) = Track::draw_all(&tracks, ends_ns);
    let id = format!("series-{number}");
    let (title, description) = (format!("{id}-title"), format!("{id}-desc"));
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

/// The track of the rates, and what it shows in words.
fn rate_track(lines: &[Line], pass: Pass) -> (Track, String) {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    let mut track = Track { most, height: RATE, ..Track::default() };
    for line in lines {
        for (_, rate) in &line.points {
            (least, most) = (least.min(*rate), most.max(*rate));
        }
        track.lines.push(line.points.clone());
        if let Some(stall) = line.stall {
            let why = format!("no op ended for {}", Nanos(stall.lasts_ns));
            track.bands.push((stall.at_ns, stall.lasts_ns, why));
        }
    }
    track.most = most;
    track.label = format!("rate, 0 to {}", stats::Rate::of_pass(pass, most));
    let range = stats::Rate::interval(pass, least, most);
    (track, format!("from {range} in {}", counted(lines.len(), "trial")))
}

/// The tracks of a host; what did not move has none.
fn host_tracks(host: &Telemetry) -> Vec<Track> {
    // Counters only rise: a span is what lies between two readings of them.
    let mut spans = Vec::new();
    for end in 1..host.times_ns.len() {
        let mut watched = HostActivity::default();
        watched.add(host, end - 1, end);
        spans.push((host.times_ns[end], watched));
    }
    let mut tracks = Vec::new();
    for (name, unit, value) in &WATCHES {
        let (mut line, mut most) = (Vec::new(), 0.0_f64);
        for (at_ns, watched) in &spans {
            most = most.max(value(watched));
            line.push((*at_ns, value(watched)));
        }
        if most > 0.0 {
            tracks.push(Track {
                label: format!("{name} on {}, at most {most:.1} {unit}", host.host),
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
