//! The timeline of a soak: throughput, response times, failures and what is not safe yet.
//!
//! The segments follow each other in measured time. Bands are disturbances, from their begin to
//! their end; dots and lines are those of [`Track`].

use maud::html;
use model::units::Nanos;
use model::{IntervalStats, Pass, Soak, Trial};

use crate::picture::{Picture, Track};
use crate::show::counted;

/// Intervals beyond which a line is no finer than a pixel.
const INTERVALS_MAX: usize = 2_000;
/// The divisor of the timeline that gives the drawn width of a disturbance without a duration.
const BAND_SHARE: u64 = 250;
/// Throughput beyond so many times its median is cut off.
const BURST_TIMES: f64 = 3.0;
/// Pixels of a track.
const HIGH: f64 = 80.0;
const LOW: f64 = 36.0;

/// The picture, where there are intervals.
pub(super) fn picture(soak: &Soak, trials: &[Trial]) -> Option<Picture> {
    let segments: Vec<_> = trials
        .iter()
        .filter_map(|trial| {
            let load = trial.passes.iter().find(|pass| pass.pass == Pass::Mix)?;
            let start_ns = u64::from(trial.index) * soak.segment_ms.saturating_mul(1_000_000);
            Some((start_ns, load))
        })
        .collect();
    let intervals: Vec<IntervalStats> = segments
        .iter()
        .flat_map(|(start_ns, load)| {
            load.intervals.iter().map(move |interval| IntervalStats {
                at_ns: start_ns + interval.at_ns,
                ..*interval
            })
        })
        .collect();
    let ends_ns = intervals.last()?.at_ns;
    let fault_events = segments.iter().flat_map(|(start_ns, load)| {
        load.fault_events.iter().filter(|event| event.failed.is_none()).map(move |event| {
            let ended_ns = event.ended_ns.unwrap_or(event.begun_ns);
            let lasts_ns = ended_ns.saturating_sub(event.begun_ns).max(ends_ns / BAND_SHARE);
            (start_ns + event.begun_ns, lasts_ns, event.fault.to_string())
        })
    });
    let bands: Vec<(u64, u64, String)> = fault_events.collect();
    let tracks = draw_tracks(&merge_intervals(&intervals), &bands);
    let top = |number: usize| -> f64 { tracks[..number].iter().map(Track::whole_height).sum() };
    let below = top(tracks.len());
    let described = format!(
        "{} over {}, with {}",
        counted(intervals.len(), "interval"),
        Nanos(ends_ns),
        counted(bands.len(), "disturbance")
    );
    let svg = html! {
        svg.chart role="img" width="100%" height=(below + 12.0)
            aria-labelledby="soak-title" aria-describedby="soak-desc" {
            title id="soak-title" { "Timeline of the soak" }
            desc id="soak-desc" { (described) }
            @for (number, track) in tracks.iter().enumerate() { (track.draw(top(number), ends_ns)) }
            text.tick x="0" y=(below + 8.0) { "0" }
            text.tick x="100%" y=(below + 8.0) text-anchor="end" { (Nanos(ends_ns)) }
        }
    };
    let named = bands.iter().map(|(at_ns, _, fault)| format!("{fault} at {}", Nanos(*at_ns)));
    let named = named.collect::<Vec<_>>().join(", ");
    let notes = if named.is_empty() { Vec::new() } else { vec![format!("Bands: {named}.")] };
    let caption = "Load, response times and failures over the measured time".to_owned();
    Some(Picture { id: "soak".to_owned(), caption, svg, notes })
}

/// Cuts off what was held up and then came all at once: it would leave the rest no height.
fn without_burst(mut track: Track) -> Track {
    let values: Vec<f64> = track.lines.iter().flatten().map(|(_, value)| *value).collect();
    let most = stats::median(&values).unwrap_or(0.0) * BURST_TIMES;
    if most > 0.0 && track.most > most {
        track.lines.iter_mut().flatten().for_each(|(_, value)| *value = value.min(most));
        track.label =
            format!("throughput, 0 to {most:.0} op/s, cut off; {:.0} at most", track.most);
        track.most = most;
    }
    track
}

fn draw_tracks(intervals: &[(u64, IntervalStats)], bands: &[(u64, u64, String)]) -> Vec<Track> {
    let track =
        |name: &str, unit: &str, value: &dyn Fn(u64, &IntervalStats) -> f64, height: f64| {
            let line: Vec<(u64, f64)> = intervals
                .iter()
                .map(|(lasts, interval)| (interval.at_ns, value(*lasts, interval)))
                .collect();
            let most = line.iter().map(|(_, value)| *value).fold(0.0, f64::max);
            let shown =
                if most > 0.0 && most < 10.0 { format!("{most:.1}") } else { format!("{most:.0}") };
            Track {
                label: format!("{name}, 0 to {shown} {unit}"),
                lines: vec![line],
                bands: bands.to_vec(),
                most,
                height,
            }
        };
    let per_s = |lasts_ns: u64, count: u64| count as f64 * 1e9 / lasts_ns.max(1) as f64;
    let ms = |ns: u64| ns as f64 / 1e6;
    vec![
        without_burst(track(
            "throughput",
            "op/s",
            &|lasts, interval| per_s(lasts, interval.ops),
            HIGH,
        )),
        track("p99 of the response time", "ms", &|_, interval| ms(interval.p99_ns), HIGH),
        track("failed ops", "per interval", &|_, interval| interval.errors as f64, LOW),
        track("blocks not safe yet", "", &|_, interval| interval.uncommitted as f64, LOW),
        track(
            "memory of dfsbench",
            "MiB",
            &|_, interval| interval.rss_bytes as f64 / 1_048_576.0,
            LOW,
        ),
    ]
}

/// Intervals with their lengths, several taken together where there are thousands.
fn merge_intervals(intervals: &[IntervalStats]) -> Vec<(u64, IntervalStats)> {
    let together = intervals.len().div_ceil(INTERVALS_MAX).max(1);
    let mut begins_ns = 0;
    let mut all = Vec::with_capacity(intervals.len().div_ceil(together));
    for chunk in intervals.chunks(together) {
        let mut sum = chunk[0];
        for interval in &chunk[1..] {
            let (uncommitted, rss_bytes) = (sum.uncommitted, sum.rss_bytes);
            sum.add(interval);
            // What holds at an instant does not add up.
            sum.uncommitted = uncommitted.max(interval.uncommitted);
            sum.rss_bytes = rss_bytes.max(interval.rss_bytes);
        }
        let lasts_ns = sum.at_ns.saturating_sub(begins_ns);
        begins_ns = sum.at_ns;
        all.push((lasts_ns, sum));
    }
    all
}
