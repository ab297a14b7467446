//! A track of a time series: lines over a time that all tracks of a picture share.
//!
//! [`Track`] is the principal type. The ground of a track is stretched to the width of the picture;
//! its label above it is not. A track begins at 0 and says its largest value, or has an axis of
//! times.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::axis::TimeAxis;

/// The ground, in its own units: it is stretched.
const WIDTH: f64 = 1_000.0;
/// Pixels of the label above a track, and below it.
const LABEL: f64 = 18.0;
const GAP: f64 = 8.0;

/// One track of a timeline.
#[derive(Default)]
pub struct Track {
    /// The name of the quantity, with its largest value.
    pub label: String,
    /// Each line: the end of each interval in nanoseconds, and the value in it.
    pub lines: Vec<Vec<(u64, f64)>>,
    /// Times that stand out: begin and length in nanoseconds, and why.
    pub bands: Vec<(u64, u64, String)>,
    /// The value at its top.
    pub most: f64,
    /// The axis of a track of times, whose values are nanoseconds; in place of `most`.
    pub times: Option<TimeAxis>,
    /// The names of lines of several kinds; empty where all are of one.
    pub names: Vec<&'static str>,
    /// Pixels of its ground.
    pub height: f64,
}

/// How lines of several kinds are dashed, for their legend.
const DASHES: [&str; 3] = ["—", "- -", "···"];

impl Track {
    /// Draws tracks below each other, over the time up to `ends_ns`; returns the pixel below them,
    /// too.
    pub fn draw_all(tracks: &[Self], ends_ns: u64) -> (Markup, f64) {
        let mut top = 0.0;
        let mut drawn = String::new();
        for track in tracks {
            drawn.push_str(&track.draw(top, ends_ns).into_string());
            top += LABEL + track.height + GAP;
        }
        (PreEscaped(drawn), top)
    }

    /// Draws it with its top at a pixel.
    fn draw(&self, top: f64, ends_ns: u64) -> Markup {
        let height = self.height;
        html! {
            text.tick x="0" y=(top + LABEL - 5.0) { (self.label) }
            svg.series x="0" y=(top + LABEL) width="100%" height=(height)
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
                @for (number, line) in self.lines.iter().enumerate() {
                    @let class = (!self.names.is_empty()).then(|| format!("line s{number}"));
                    path class=[class] d=(self.steps(line, ends_ns)) {}
                }
            }
            @for (at, label) in self.ticks() {
                // The name of the track stands above the topmost line.
                @let lift = if at > 90.0 { -11.0 } else { 2.0 };
                text.tick.scale x="2" y=(format!("{:.1}", top + LABEL + self.y_of(at) - lift)) {
                    (label)
                }
            }
            @if !self.names.is_empty() {
                text.tick x="100%" y=(top + LABEL - 5.0) text-anchor="end" {
                    @for (number, name) in self.names.iter().enumerate() {
                        tspan.{ "name s" (number) } { (DASHES[number % 3]) " " (name) "\u{a0}\u{a0}" }
                    }
                }
            }
        }
    }

    fn ticks(&self) -> Vec<super::axis::Tick> {
        match &self.times {
            Some(axis) => axis.ticks(),
            None => Vec::new(),
        }
    }

    /// The pixel of a position in percent of the height, from the top.
    fn y_of(&self, at: f64) -> f64 {
        // Four pixels are left free above the largest value, or its line would be half cut off.
        self.height - at.clamp(0.0, 100.0) / 100.0 * (self.height - 4.0)
    }

    fn y_percent(&self, at: f64) -> String {
        format!("{:.1}", self.y_of(at))
    }

    /// A value holds for its whole interval: the line goes in steps.
    fn steps(&self, line: &[(u64, f64)], ends_ns: u64) -> String {
        let mut path = String::from("M0,");
        for (number, (at_ns, value)) in line.iter().enumerate() {
            let at = match &self.times {
                Some(axis) => axis.at(*value as u64),
                None => value / self.most.max(1e-9) * 100.0,
            };
            let height = self.y_of(at);
            if number > 0 {
                path.push_str(" V");
            }
            // Writing to a string can't fail.
            let _ = write!(path, "{height:.1} H{}", x_position(*at_ns, ends_ns));
        }
        path
    }
}

fn x_position(ns: u64, ends_ns: u64) -> String {
    format!("{:.1}", ns as f64 / ends_ns.max(1) as f64 * WIDTH)
}
