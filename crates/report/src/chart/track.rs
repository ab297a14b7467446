//! Track of a timeline: lines over a time axis that all tracks of a picture share.
//!
//! [`Track`] is the main type. The drawing area is stretched to the width of the picture; the
//! label above it is not. A track starts at 0 and states its largest value, or has an axis of
//! times.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::axis::TimeAxis;

/// Width of the drawing area in its own units, because it is stretched.
const WIDTH: f64 = 1_000.0;
/// Pixels for the label above a track, for the line names and topmost axis label below it, and
/// below the track.
const LABEL: f64 = 18.0;
const NAMES: f64 = 27.0;
const GAP: f64 = 8.0;
/// Distance in pixels between baselines below which axis labels would overlap.
const APART: f64 = 13.0;

#[derive(Default)]
pub(crate) struct Track {
    /// Name of the quantity, with its largest value.
    pub label: String,
    /// Each line as pairs of interval end in nanoseconds and value.
    pub lines: Vec<Vec<(u64, f64)>>,
    /// Highlighted spans: start and length in nanoseconds, and the reason.
    pub bands: Vec<(u64, u64, String)>,
    /// Value at the top.
    pub most: f64,
    /// Axis of a track whose values are times in nanoseconds; replaces `most`.
    pub times: Option<TimeAxis>,
    /// Names of the lines if they are of different kinds; empty otherwise.
    pub names: Vec<&'static str>,
    /// Fills the space between each line and the next one.
    pub is_filled: bool,
    /// Height of the drawing area in pixels.
    pub height: f64,
}

/// Dash styles in the legend.
const DASHES: [&str; 3] = ["—", "- -", "···"];

impl Track {
    /// Creates a track of named lines of times in nanoseconds, on a logarithmic axis. A time of 0
    /// means that nothing was timed in the interval.
    pub(crate) fn of_times(
        label: &str,
        named: Vec<(&'static str, Vec<(u64, f64)>)>,
        height: f64,
    ) -> Self {
        let mut quickest_ns = u64::MAX;
        let mut slowest_ns = 0;
        let mut names = Vec::new();
        let mut lines = Vec::new();
        for (name, line) in named {
            for (_, time_ns) in &line {
                if *time_ns > 0.0 {
                    quickest_ns = quickest_ns.min(*time_ns as u64);
                    slowest_ns = slowest_ns.max(*time_ns as u64);
                }
            }
            names.push(name);
            lines.push(line);
        }
        let times = Some(TimeAxis::new(quickest_ns.min(slowest_ns), slowest_ns));
        Self {
            label: format!("{label}, logarithmic"),
            lines,
            times,
            names,
            height,
            ..Self::default()
        }
    }

    /// Draws tracks below each other, over the time up to `ends_ns`. Also returns the total height
    /// in pixels.
    pub(crate) fn draw_all(tracks: &[Self], ends_ns: u64) -> (Markup, f64) {
        let mut top = 0.0;
        let mut drawn = String::new();
        for track in tracks {
            drawn.push_str(&track.draw(top, ends_ns).into_string());
            top += track.head() + track.height + GAP;
        }
        (PreEscaped(drawn), top)
    }

    /// Draws the track with its top at the given pixel.
    fn draw(&self, top: f64, ends_ns: u64) -> Markup {
        let height = self.height;
        let ground = top + self.head();
        html! {
            text.tick x="0" y=(top + LABEL - 5.0) { (self.label) }
            @if !self.names.is_empty() {
                text.tick x="0" y=(top + LABEL + 11.0) {
                    @for (number, name) in self.names.iter().enumerate() {
                        tspan.{ "name s" (number) } { (DASHES[number % 3]) " " (name) "\u{a0}\u{a0}" }
                    }
                }
            }
            svg.series x="0" y=(ground) width="100%" height=(height)
                viewBox={"0 0 " (WIDTH) " " (height)} preserveAspectRatio="none" {
                rect.band x="0" y="0" width=(WIDTH) height=(height) {}
                @for (at_ns, lasts_ns, why) in &self.bands {
                    rect.stall x=(x_position(*at_ns, ends_ns)) y="0"
                        width=(x_position(*lasts_ns, ends_ns)) height=(height) {
                        title { (why) }
                    }
                }
                @for (at, _) in self.ticks() {
                    line.grid x1="0" x2=(WIDTH) y1=(self.y_percent(at)) y2=(self.y_percent(at)) {}
                }
                @if self.is_filled {
                    @for (number, pair) in self.lines.windows(2).enumerate() {
                        path.{ "fill s" (number) } d=(self.area(&pair[0], &pair[1], ends_ns)) {}
                    }
                }
                @for (number, line) in self.lines.iter().enumerate() {
                    @let class = (!self.names.is_empty()).then(|| format!("line s{number}"));
                    path class=[class] d=(self.steps(line, ends_ns)) {}
                }
            }
            @for (base, label) in self.labels() {
                text.tick.scale x="2" y=(format!("{:.1}", ground + base)) { (label) }
            }
        }
    }

    /// Pixels above the drawing area.
    const fn head(&self) -> f64 {
        if self.names.is_empty() { LABEL } else { LABEL + NAMES }
    }

    /// Axis labels that fit below each other, topmost first, with the pixel of each baseline.
    fn labels(&self) -> Vec<(f64, String)> {
        let mut labels: Vec<(f64, String)> = Vec::new();
        for (at, label) in self.ticks().into_iter().rev() {
            let base = self.y_pixel(at) - 2.0;
            if labels.last().is_none_or(|(above, _)| base - above >= APART) {
                labels.push((base, label));
            }
        }
        labels
    }

    fn ticks(&self) -> Vec<super::axis::Tick> {
        self.times.as_ref().map_or_else(Vec::new, TimeAxis::ticks)
    }

    /// Pixel from the top for a position in percent of the height.
    fn y_pixel(&self, at: f64) -> f64 {
        // Keep four pixels free at the top, so that the line of the largest value is not cut in
        // half.
        self.height - at.clamp(0.0, 100.0) / 100.0 * (self.height - 4.0)
    }

    fn y_percent(&self, at: f64) -> String {
        format!("{:.1}", self.y_pixel(at))
    }

    /// Outlines the space between two lines with the same intervals, without those in which nothing
    /// was timed.
    fn area(&self, lower: &[(u64, f64)], upper: &[(u64, f64)], ends_ns: u64) -> String {
        let mut path = String::new();
        let mut begins_ns = 0;
        for ((at_ns, low), (_, high)) in lower.iter().zip(upper) {
            if self.is_shown(*low) && self.is_shown(*high) {
                let begin = x_position(begins_ns, ends_ns);
                let end = x_position(*at_ns, ends_ns);
                let [top, bottom] = [self.y_of(*high), self.y_of(*low)];
                // Writing to a string cannot fail.
                let _ = write!(path, "M{begin},{top:.1} H{end} V{bottom:.1} H{begin} Z");
            }
            begins_ns = *at_ns;
        }
        path
    }

    /// Returns false for the time of an interval in which nothing was timed.
    fn is_shown(&self, value: f64) -> bool {
        self.times.is_none() || value > 0.0
    }

    /// Pixel from the top for a value.
    fn y_of(&self, value: f64) -> f64 {
        self.y_pixel(match &self.times {
            Some(axis) => axis.at(value as u64),
            None => value / self.most.max(1e-9) * 100.0,
        })
    }

    /// Draws the line in steps, because a value applies to its whole interval. The line is
    /// interrupted if no op completed in an interval, because then nothing was timed.
    fn steps(&self, line: &[(u64, f64)], ends_ns: u64) -> String {
        let mut path = String::new();
        let mut begins_ns = 0;
        let mut is_drawn = false;
        for (at_ns, value) in line {
            let is_timed = self.is_shown(*value);
            if is_timed {
                let begin = x_position(begins_ns, ends_ns);
                let end = x_position(*at_ns, ends_ns);
                let start = if is_drawn { " V".to_owned() } else { format!("M{begin},") };
                // Writing to a string cannot fail.
                let _ = write!(path, "{start}{:.1} H{end}", self.y_of(*value));
            }
            begins_ns = *at_ns;
            is_drawn = is_timed;
        }
        path
    }
}

fn x_position(ns: u64, ends_ns: u64) -> String {
    format!("{:.1}", ns as f64 / ends_ns.max(1) as f64 * WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(max_ns: u64) -> Track {
        Track { times: Some(TimeAxis::new(1_000, max_ns)), height: 72.0, ..Track::default() }
    }

    #[test]
    fn interrupts_line_without_ops() {
        let line = [(25, 1_000.0), (50, 0.0), (75, 0.0), (100, 1_000_000.0)];
        assert_eq!(times(1_000_000).steps(&line, 100), "M0.0,72.0 H250.0M750.0,4.0 H1000.0");
        // A rate of 0 is still a rate.
        let rate = Track { most: 10.0, height: 24.0, ..Track::default() };
        assert_eq!(rate.steps(&[(50, 0.0), (100, 10.0)], 100), "M0.0,24.0 H500.0 V4.0 H1000.0");
    }

    #[test]
    fn fills_between_lines_with_ops() {
        let line = |value: f64| [(25, value), (50, 0.0), (100, value)];
        let area = times(1_000_000).area(&line(1_000.0), &line(1_000_000.0), 100);
        assert_eq!(area, "M0.0,4.0 H250.0 V72.0 H0.0 ZM500.0,4.0 H1000.0 V72.0 H500.0 Z");
    }

    #[test]
    fn omits_overlapping_decade_labels() {
        let labels = times(10_000_000_000).labels();
        assert_eq!(labels[0].1, "10 s");
        for pair in labels.windows(2) {
            assert!(pair[1].0 - pair[0].0 >= APART, "{labels:?}");
        }
        assert_eq!(times(1_000_000).labels().len(), 4);
    }
}
