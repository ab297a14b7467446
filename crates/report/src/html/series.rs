//! The time series of passes: the rate in each interval, a line for each trial.
//!
//! Drawn where a trial has several intervals. All trials of a row share its axes, which begin at 0;
//! times without a completion lie behind the lines as bands, and below them is what the hosts did
//! meanwhile. The numbers stand in JSON and in the results file.

use maud::{Markup, html};
use model::units::Nanos;
use model::{Pass, PassResult, Stall, Telemetry};

use crate::picture::Picture;
use crate::picture::Track;
use crate::sheet::{Row, Sheet};
use crate::show::counted;
use crate::watched::Watched;

/// Intervals from which on a line says something.
const INTERVALS_MIN: usize = 3;
/// Rows that are drawn; more are read by nobody, and JSON has them all.
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
type Watch = (&'static str, &'static str, fn(&Watched) -> f64);

const WATCHES: [Watch; 3] = [
    ("processors busy", "%", Watched::busy_percent),
    ("disks", "MB/s", |watched| watched.sum_of(&["dkrdMB/s", "dkwrMB/s"])),
    ("network", "MB/s", |watched| watched.sum_of(&["rxMB/s", "txMB/s"])),
];

/// The section, where any trial has several intervals.
pub fn section(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    let all = sheet.rows.iter().filter(|row| !trial_lines(row).is_empty()).count();
    html! {
        @if !drawn.is_empty() {
            section aria-labelledby="series" {
                h2 #series { "Time series" }
                p.legend {
                    "The rate in each interval, a line for each trial, after ramp and warm-up. "
                    "Bands are times in which workers ended nothing. Below, what the hosts did in \
                     the first trial that was watched."
                }
                @for picture in &drawn {
                    figure {
                        figcaption { (picture.caption) }
                        (picture.svg)
                    }
                }
                @if all > ROWS_MAX {
                    p.legend { (counted(all - ROWS_MAX, "more row")) ": see JSON" }
                }
            }
        }
    }
}

/// The pictures alone.
pub fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    let rows = sheet.rows.iter().map(|row| (row, trial_lines(row))).filter(|(_, l)| !l.is_empty());
    let figures = rows.take(ROWS_MAX).enumerate();
    figures
        .map(|(number, (row, lines))| draw_series(number, sheet.name(row), row, &lines))
        .collect()
}

/// One trial: the end of each interval, and the rate in it.
struct Line {
    points: Vec<(u64, f64)>,
    stall: Option<Stall>,
}

fn of_row<'a>(row: &'a Row<'_>) -> impl Iterator<Item = &'a PassResult> {
    let passes = row.run.trials.iter().flat_map(|trial| &trial.passes);
    passes.filter(|result| result.pass == row.judged.pass)
}

fn trial_lines(row: &Row<'_>) -> Vec<Line> {
    let told = of_row(row).filter(|result| result.samples.len() >= INTERVALS_MIN);
    told.take(TRIALS_MAX).map(Line::of).collect()
}

impl Line {
    fn of(result: &PassResult) -> Self {
        let mut begins_ns = 0;
        let mut points = Vec::with_capacity(result.samples.len());
        for sample in merge_intervals(result) {
            let (at_ns, ops, bytes) = sample;
            let lasts_ns = at_ns.saturating_sub(begins_ns);
            let amount = if result.pass.is_byte_rate() { bytes } else { ops };
            // What is left at the end may be too short for a rate.
            if lasts_ns > 0 && (lasts_ns >= begins_ns / points.len().max(1) as u64 / 2) {
                points.push((at_ns, amount as f64 * 1e9 / lasts_ns as f64));
            }
            begins_ns = at_ns;
        }
        let stalls = result.scope.stalls.filter(|stalls| stalls.count > 0);
        Self { points, stall: stalls.map(|stalls| stalls.longest) }
    }

    fn ends_ns(&self) -> u64 {
        self.points.last().map_or(0, |(at_ns, _)| *at_ns)
    }
}

/// The intervals of a pass, several taken together where there are thousands: end, ops and bytes.
fn merge_intervals(result: &PassResult) -> Vec<(u64, u64, u64)> {
    let together = result.samples.len().div_ceil(INTERVALS_MAX).max(1);
    let sum = |samples: &[model::IntervalSample]| {
        let at_ns = samples.last().map_or(0, |sample| sample.at_ns);
        let [ops, bytes] = samples.iter().fold([0, 0_u64], |[ops, bytes], sample| {
            [sample.ops.saturating_add(ops), sample.bytes.saturating_add(bytes)]
        });
        (at_ns, ops, bytes)
    };
    result.samples.chunks(together).map(sum).collect()
}

fn draw_series(number: usize, name: String, row: &Row<'_>, lines: &[Line]) -> Picture {
    let (rates, said) = rate_track(lines, row.judged.pass);
    let ends_ns = lines.iter().map(Line::ends_ns).max().unwrap_or(0).max(1);
    let mut watched = of_row(row).map(|result| &result.telemetry);
    let watched =
        watched.find(|hosts| hosts.iter().any(|host| host.times_ns.len() > INTERVALS_MIN));
    let hosts = watched.into_iter().flatten().take(HOSTS_MAX).flat_map(host_tracks);
    let tracks: Vec<Track> = std::iter::once(rates).chain(hosts).collect();
    let top = |number: usize| -> f64 { tracks[..number].iter().map(Track::whole_height).sum() };
    let below = top(tracks.len());
    let id = format!("series-{number}");
    let (title, description) = (format!("{id}-title"), format!("{id}-desc"));
    let svg = html! {
        svg.chart role="img" width="100%" height=(below + 12.0)
            aria-labelledby=(title) aria-describedby=(description) {
            title id=(title) { (name) ": rate in each interval" }
            desc id=(description) { (said) }
            @for (number, track) in tracks.iter().enumerate() {
                (track.draw(top(number), ends_ns))
            }
            text.tick x="0" y=(below + 8.0) { "0" }
            text.tick x="100%" y=(below + 8.0) text-anchor="end" { (Nanos(ends_ns)) }
        }
    };
    Picture { id, caption: name, svg, notes: Vec::new() }
}

/// The track of the rates, and what it shows in words.
fn rate_track(lines: &[Line], pass: Pass) -> (Track, String) {
    let rates = lines.iter().flat_map(|line| &line.points).map(|(_, rate)| *rate);
    let (least, most) = rates
        .fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
    let shown = |rate| stats::Rate::of_pass(pass, rate);
    let trials = counted(lines.len(), "trial");
    let said = format!("from {} to {} in {trials}", shown(least), shown(most));
    let bands = lines.iter().filter_map(|line| line.stall).map(|stall| {
        (stall.at_ns, stall.lasts_ns, format!("no op ended for {}", Nanos(stall.lasts_ns)))
    });
    let track = Track {
        label: format!("rate, 0 to {}", shown(most)),
        lines: lines.iter().map(|line| line.points.clone()).collect(),
        bands: bands.collect(),
        most,
        height: RATE,
    };
    (track, said)
}

/// The tracks of a host; what did not move has none.
fn host_tracks(host: &Telemetry) -> Vec<Track> {
    let spans: Vec<(u64, Watched)> = (1..host.times_ns.len())
        .map(|end| {
            let mut watched = Watched::default();
            watched.add(host, end - 1, end);
            (host.times_ns[end], watched)
        })
        .collect();
    let track = |(name, unit, value): &Watch| {
        let line: Vec<(u64, f64)> = spans.iter().map(|(at, span)| (*at, value(span))).collect();
        let most = line.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let top = if *unit == "%" { 100.0 } else { most };
        (most > 0.0).then(|| Track {
            label: format!("{name} on {}, at most {most:.1} {unit}", host.host),
            lines: vec![line],
            bands: Vec::new(),
            most: top,
            height: HOST,
        })
    };
    WATCHES.iter().filter_map(track).collect()
}
