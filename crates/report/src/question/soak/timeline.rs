//! Timeline of a soak: throughput, response times, failures, and uncommitted data.
//!
//! Segments follow each other in measured time. Bands are faults from start to end; dots and lines
//! are those of [`Track`].

use maud::html;
use model::units::Nanos;
use model::{IntervalStats, Pass, Soak, Trial};

use crate::chart::{Picture, Track};
use crate::humanize::counted;

/// Maximum number of intervals; more would be finer than a pixel.
const INTERVALS_MAX: usize = 2_000;
/// Fraction of the timeline (1/n) drawn as the width of a fault without a duration.
const BAND_SHARE: u64 = 250;
/// Multiple of the median above which throughput is cut off.
const BURST_TIMES: f64 = 3.0;
/// Heights of tracks in pixels.
const HIGH: f64 = 80.0;
const TIMES: f64 = 110.0;
const LOW: f64 = 36.0;

/// Draws the timeline; `None` if there are no intervals.
pub(super) fn picture(soak: &Soak, trials: &[Trial]) -> Option<Picture> {
    let mut intervals = Vec::new();
    let mut events = Vec::new();
    for trial in trials {
        let Some(load) = trial.passes.iter().find(|pass| pass.pass == Pass::Mix) else { continue };
        // A segment starts where the previous one should have ended, even if that was cut short.
        let start_ns = u64::from(trial.index) * soak.segment_ms.saturating_mul(1_000_000);
        for interval in without_rest(&load.intervals) {
            intervals.push(IntervalStats { at_ns: start_ns + interval.at_ns, ..*interval });
        }
        for event in &load.fault_events {
            if event.failed.is_none() {
                events.push((start_ns, event));
            }
        }
    }
    let ends_ns = intervals.last()?.at_ns;
    let mut bands: Vec<(u64, u64, String)> = Vec::new();
    let mut names = Vec::new();
    for (start_ns, event) in events {
        let ended_ns = event.ended_ns.unwrap_or(event.begun_ns);
        let lasts_ns = ended_ns.saturating_sub(event.begun_ns).max(ends_ns / BAND_SHARE);
        let begun_ns = start_ns + event.begun_ns;
        names.push(format!("{} at {}", event.fault, Nanos(begun_ns)));
        bands.push((begun_ns, lasts_ns, event.fault.to_string()));
    }
    let tracks = draw_tracks(&merge_intervals(&intervals), &bands);
    let (drawn, below) = Track::draw_all(&tracks, ends_ns);
    let described = format!(
        "{} over {}, with {}",
        counted(intervals.len(), "interval"),
        Nanos(ends_ns),
        counted(bands.len(), "fault")
    );
    let svg = html! {
        svg.chart role="img" width="100%" height=(below + 12.0)
            aria-labelledby="soak-title" aria-describedby="soak-desc" {
            title id="soak-title" { "Timeline of the soak" }
            desc id="soak-desc" { (described) }
            (drawn)
            text.tick x="0" y=(below + 8.0) { "0" }
            text.tick x="100%" y=(below + 8.0) text-anchor="end" { (Nanos(ends_ns)) }
        }
    };
    let notes =
        if names.is_empty() { vec![] } else { vec![format!("Bands: {}.", names.join(", "))] };
    let caption = "Load, response times and failures over the measured time".to_owned();
    Some(Picture { id: "soak".to_owned(), caption, svg, notes })
}

/// Cuts off a burst of delayed ops, which would flatten all other values.
fn without_burst(mut track: Track) -> Track {
    let [line] = track.lines.as_mut_slice() else { return track };
    let values: Vec<f64> = line.iter().map(|(_, value)| *value).collect();
    let most = stats::median(&values).unwrap_or(0.0) * BURST_TIMES;
    if most > 0.0 && track.most > most {
        for (_, value) in line {
            *value = value.min(most);
        }
        track.label =
            format!("throughput, 0 to {most:.0} op/s, cut off; maximum {:.0}", track.most);
        track.most = most;
    }
    track
}

/// Value at the end of each interval.
type Line = Vec<(u64, f64)>;

/// Builds the tracks of a soak, each with the values of all intervals.
fn draw_tracks(intervals: &[(u64, IntervalStats)], bands: &[(u64, u64, String)]) -> Vec<Track> {
    let mut lines: [Line; 8] = Default::default();
    for (lasts_ns, interval) in intervals {
        let values = [
            interval.ops as f64 * 1e9 / (*lasts_ns).max(1) as f64,
            interval.p50_ns as f64,
            interval.p95_ns as f64,
            interval.p99_ns as f64,
            interval.max_ns as f64,
            interval.errors as f64,
            interval.uncommitted as f64,
            interval.rss_bytes as f64 / 1_048_576.0,
        ];
        for (number, value) in values.into_iter().enumerate() {
            lines[number].push((interval.at_ns, value));
        }
    }
    let [ops, p50, p95, p99, max, errors, uncommitted, memory] = lines;
    let times = vec![("p50", p50), ("p95", p95), ("p99", p99), ("max", max)];
    vec![
        without_burst(draw_track("throughput", "op/s", ops, HIGH, bands)),
        Track { bands: bands.to_vec(), ..Track::of_times("response time", times, TIMES) },
        draw_track("failed ops", "per interval", errors, LOW, bands),
        draw_track("blocks not safe yet", "", uncommitted, LOW, bands),
        draw_track("memory of dfsbench", "MiB", memory, LOW, bands),
    ]
}

fn draw_track(
    name: &str,
    unit: &str,
    line: Line,
    height: f64,
    bands: &[(u64, u64, String)],
) -> Track {
    let mut most = 0.0_f64;
    for (_, value) in &line {
        most = most.max(*value);
    }
    // Below ten, a whole number would hide the difference between tracks.
    let digits = usize::from(most > 0.0 && most < 10.0);
    let label = format!("{name}, 0 to {most:.digits$} {unit}");
    Track { label, lines: vec![line], bands: bands.to_vec(), most, height, ..Track::default() }
}

/// Drops a partial interval at the end of a segment in which no op completed: the load was over,
/// and a rate of 0 would look like a stall.
fn without_rest(intervals: &[IntervalStats]) -> &[IntervalStats] {
    let [whole @ .., rest] = intervals else { return intervals };
    let [.., earlier, before] = whole else { return intervals };
    let usual_ns = before.at_ns.saturating_sub(earlier.at_ns);
    let is_rest = rest.at_ns.saturating_sub(before.at_ns) < usual_ns / 2;
    if is_rest && rest.ops == 0 && rest.errors == 0 { whole } else { intervals }
}

/// Intervals with their lengths. If there are thousands, several are merged.
fn merge_intervals(intervals: &[IntervalStats]) -> Vec<(u64, IntervalStats)> {
    let together = intervals.len().div_ceil(INTERVALS_MAX).max(1);
    let mut begins_ns = 0;
    let mut all = Vec::with_capacity(intervals.len().div_ceil(together));
    for chunk in intervals.chunks(together) {
        let mut sum = chunk[0];
        for interval in &chunk[1..] {
            let uncommitted = sum.uncommitted;
            let rss_bytes = sum.rss_bytes;
            sum.add(interval);
            // Values at a point in time cannot be summed, so take the maximum.
            sum.uncommitted = uncommitted.max(interval.uncommitted);
            sum.rss_bytes = rss_bytes.max(interval.rss_bytes);
        }
        let lasts_ns = sum.at_ns.saturating_sub(begins_ns);
        begins_ns = sum.at_ns;
        all.push((lasts_ns, sum));
    }
    all
}
