//! A plot as inline SVG: lines with marks over two axes, and a legend below.
//!
//! [`Plot`] is the principal type. As in `chart`, horizontal positions are percentages and vertical
//! ones pixels, so that text keeps its size on a phone; a line is therefore drawn piece by piece.
//! Series differ in colour, mark and dashes: colour never tells them apart alone.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::axis::{Label, Tick, keep_apart};
use super::{ARROW_UP, ChartText, Picture, cut, percent, shape};
use crate::text_grid::wrap;

/// So many series are distinguished by eye.
pub(crate) const SERIES_MAX: usize = 6;
/// Pixels above the highest value, for the labels of the axis.
const TOP: f64 = 18.0;
/// Height of the ground.
const GROUND: f64 = 200.0;
/// Pixels below it for the axis.
const AXIS: f64 = 38.0;
/// Pixels of a line of the legend.
const LINE: f64 = 19.0;
/// Percent of the width that are left free: for the labels of the vertical axis, and for marks at
/// the right end.
const LEFT: f64 = 13.0;
const RIGHT: f64 = 3.0;
/// So near to the right, in percent, half the text of a tick would not fit on a phone.
const EDGE: f64 = 5.0;
/// Characters of a line of a name that fit on a phone, and lines of it.
const NAME_MAX: usize = 46;
const NAME_LINES_MAX: usize = 3;

/// The mark of each series.
const MARKS: [&str; SERIES_MAX] = [
    "M-4,0 a4,4 0 1,0 8,0 a4,4 0 1,0 -8,0 Z",
    "M-5,0 L0,-5 L5,0 L0,5 Z",
    "M-4,-4 H4 V4 H-4 Z",
    "M-5,4 L0,-5 L5,4 Z",
    "M-5,-2.5 H5 V2.5 H-5 Z",
    "M-5,-4 L0,5 L5,-4 Z",
];

/// A cross, and a ring around one: no series has a mark that looks like them.
const CROSS: &str = "M-4,-4 L4,4 M-4,4 L4,-4";
const RING_WITH_CROSS: &str = "M-5.5,0 a5.5,5.5 0 1,0 11,0 a5.5,5.5 0 1,0 -11,0 Z M-3,-3 L3,3 \
                               M-3,3 L3,-3";

/// The content of a line plot.
pub(crate) struct Plot {
    /// The subject of the plot.
    pub about: ChartText,
    /// Ticks of the horizontal axis, in percent.
    pub x_ticks: Vec<Tick>,
    /// The name below the x axis.
    pub x_name: String,
    /// Ticks of the vertical axis, in percent of its height.
    pub y_ticks: Vec<Tick>,
    /// The position of an event in percent of the width, and its label.
    pub upright: Option<(f64, String)>,
    /// The lines, at most [`SERIES_MAX`].
    pub series: Vec<Series>,
}

/// A line of the plot.
pub(crate) struct Series {
    /// The name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub dots: Vec<Dot>,
    /// Lines lead from one to the next, except to points that say nothing of the line.
    pub is_joined: bool,
}

/// The use that a point is good for, which decides its mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DotKind {
    /// It counts: the mark of its series.
    #[default]
    Counts,
    /// The client was at its own limit: an unfilled mark.
    ClientLimited,
    /// The load was not sustained, or a trial failed: a cross.
    NotSustained,
    /// Both: a cross in a ring.
    NotSustainedByClient,
}

impl DotKind {
    /// Puts both reasons together.
    pub(crate) const fn new(is_sustained: bool, is_client_limited: bool) -> Self {
        match (is_sustained, is_client_limited) {
            (true, false) => Self::Counts,
            (true, true) => Self::ClientLimited,
            (false, false) => Self::NotSustained,
            (false, true) => Self::NotSustainedByClient,
        }
    }

    /// Whether a line may lead to the point.
    const fn is_on_line(self) -> bool {
        matches!(self, Self::Counts | Self::ClientLimited)
    }

    /// The classes and the shape of its mark in a series.
    fn mark(self, number: usize) -> (String, &'static str) {
        match self {
            Self::Counts => (format!("mark s{number}"), MARKS[number]),
            Self::ClientLimited => (format!("mark unfilled s{number}"), MARKS[number]),
            Self::NotSustained => (format!("mark unfilled s{number}"), CROSS),
            Self::NotSustainedByClient => (format!("mark unfilled s{number}"), RING_WITH_CROSS),
        }
    }

    /// The shape in the legend, and what it says; nothing for points that count.
    const fn legend(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Counts => None,
            Self::ClientLimited => Some((MARKS[0], "unfilled: this host was short of CPU time")),
            Self::NotSustained => Some((CROSS, "cross: not sustained, or failed")),
            Self::NotSustainedByClient => {
                Some((RING_WITH_CROSS, "ring: not sustained, this host short of CPU time"))
            }
        }
    }
}

/// A point of a line; positions are percentages of the axes.
pub(crate) struct Dot {
    /// From the left.
    pub x: f64,
    /// The distance from the bottom, in percent.
    pub y: f64,
    /// The ends of its interval, from below.
    pub reach: Option<(f64, f64)>,
    /// The trials behind it, from below.
    pub trials: Vec<f64>,
    /// The use that it is good for.
    pub standing: DotKind,
    /// The description in words.
    pub text: String,
}

/// Describes lines for readers who don't see them: each name with its points.
pub(crate) fn describe_series(series: &[Series]) -> String {
    let mut described = Vec::new();
    for line in series {
        let mut dots = Vec::new();
        for dot in &line.dots {
            dots.push(dot.text.as_str());
        }
        described.push(format!("{}: {}", line.name, dots.join(", ")));
    }
    described.join("; ")
}

impl Series {
    /// Its name as the legend has it: what tells series apart may stand at its end, so it is not
    /// cut short but where even a third line would not hold it.
    fn lines(&self) -> Vec<String> {
        let unbroken = self.name.replace(' ', "\u{a0}").replace(",\u{a0}", ", ");
        let mut lines = wrap(&unbroken, NAME_MAX);
        if lines.len() > NAME_LINES_MAX {
            lines[NAME_LINES_MAX - 1].push_str(" …");
            lines.truncate(NAME_LINES_MAX);
        }
        lines.iter().map(|line| cut(line, NAME_MAX)).collect()
    }
}

impl Plot {
    /// Draws the plot with its legend.
    pub(crate) fn picture(self, caption: String, notes: Vec<String>) -> Picture {
        // The legend lies below the ground, so its lines decide the height.
        let mut lines = self.standings().len();
        for series in &self.series {
            lines += series.lines().len();
        }
        let svg = self.draw(LINE * (lines as f64 + 0.3), &self.legend());
        Picture { id: self.about.id, caption, svg, notes }
    }

    /// Draws the plot alone, as one of several that share a legend.
    pub(crate) fn panel(&self) -> Markup {
        self.draw(0.0, &Markup::default())
    }

    fn draw(&self, legend_height: f64, legend: &Markup) -> Markup {
        let height = TOP + GROUND + AXIS + legend_height;
        let (title, description) =
            (format!("{}-title", self.about.id), format!("{}-desc", self.about.id));
        html! {
            svg.chart role="img" width="100%" height=(height)
                aria-labelledby=(title) aria-describedby=(description) {
                title id=(title) { (self.about.title) }
                desc id=(description) { (self.about.description) }
                rect.band x="0" y=(TOP) width="100%" height=(GROUND) rx="2" {}
                (self.axes())
                (self.marked())
                @for (number, series) in self.series.iter().enumerate() {
                    (draw_line(number, series))
                }
                (self.scale())
                (legend)
            }
        }
    }

    /// The kinds of points besides those that count, each once: they need a legend.
    fn standings(&self) -> BTreeSet<DotKind> {
        let mut standings = BTreeSet::new();
        for dot in self.series.iter().flat_map(|series| &series.dots) {
            if dot.standing.legend().is_some() {
                standings.insert(dot.standing);
            }
        }
        standings
    }

    fn axes(&self) -> Markup {
        let foot = TOP + GROUND;
        html! {
            @for (at, _) in &self.y_ticks {
                line.grid x1="0" x2="100%" y1=(y_percent(*at)) y2=(y_percent(*at)) {}
            }
            @for (at, _) in &self.x_ticks {
                line.grid x1=(x_percent(*at)) x2=(x_percent(*at)) y1=(TOP) y2=(foot) {}
            }
            @for label in keep_apart(place_labels(&self.x_ticks)) {
                text.tick x=(percent(label.x)) y=(foot + 15.0) text-anchor=(label.anchor) {
                    (label.text)
                }
            }
            text.tick x="50%" y=(foot + 31.0) text-anchor="middle" { (self.x_name) }
        }
    }

    /// The line that marks an event, its name towards the middle.
    fn marked(&self) -> Markup {
        html! {
            @if let Some((at, name)) = &self.upright {
                @let (anchor, aside) = if *at > 50.0 { ("end", -5) } else { ("start", 5) };
                line.event x1=(x_percent(*at)) x2=(x_percent(*at)) y1="0" y2=(TOP + GROUND) {}
                text.caveat x=(x_percent(*at)) dx=(aside) y="12" text-anchor=(anchor) { (name) }
            }
        }
    }

    /// The labels of the vertical axis, over the lines: they lie on the ground.
    fn scale(&self) -> Markup {
        html! {
            @for (at, label) in &self.y_ticks {
                text.tick.scale x="2" y=(format!("{:.1}", height_of(*at) - 3.0)) { (label) }
            }
        }
    }

    fn legend(&self) -> Markup {
        let mut above = 0;
        let mut entries = Vec::new();
        for series in &self.series {
            // A long name takes several lines; the mark stands beside the first of them.
            let lines = series.lines();
            let base = TOP + GROUND + AXIS + LINE * (above as f64 + 0.7);
            above += lines.len();
            entries.push((base, lines));
        }
        let mut marks = Vec::new();
        for (shape, text) in self.standings().into_iter().filter_map(DotKind::legend) {
            marks.push((TOP + GROUND + AXIS + LINE * (above as f64 + 0.7), shape, text));
            above += 1;
        }
        html! {
            @for (number, (base, lines)) in entries.iter().enumerate() {
                g.lines transform={"translate(0 " (format!("{:.1}", base - 4.0)) ")"} {
                    line.{ "line s" (number) } x1="0" x2="28" y1="0" y2="0" {}
                    path.{ "mark s" (number) } transform="translate(14 0)" d=(MARKS[number]) {}
                }
                @for (line, text) in lines.iter().enumerate() {
                    text.factors x="36" y=(format!("{:.1}", base + LINE * line as f64)) { (text) }
                }
            }
            @for (base, shape, text) in &marks {
                g.lines transform={"translate(14 " (format!("{:.1}", base - 4.0)) ")"} {
                    path.mark.unfilled.any d=(shape) {}
                }
                text.factors x="36" y=(format!("{base:.1}")) { (text) }
            }
        }
    }
}

/// Draws the line and the mark of a series, for a legend of several plots.
pub(crate) fn key(number: usize) -> Markup {
    html! {
        svg width="28" height="14" aria-hidden="true" {
            g.lines transform="translate(0 7)" {
                line.{ "line s" (number) } x1="0" x2="28" y1="0" y2="0" {}
                path.{ "mark s" (number) } transform="translate(14 0)" d=(MARKS[number]) {}
            }
        }
    }
}

fn draw_line(number: usize, series: &Series) -> Markup {
    html! {
        g.lines {
            @for pair in series.dots.windows(2) {
                @if series.is_joined && pair.iter().all(|dot| dot.standing.is_on_line()) {
                    line.{ "line s" (number) } x1=(x_percent(pair[0].x)) y1=(y_percent(pair[0].y))
                        x2=(x_percent(pair[1].x)) y2=(y_percent(pair[1].y)) {}
                }
            }
            @for dot in &series.dots {
                @if let Some((lo, hi)) = dot.reach {
                    line.whisker x1=(x_percent(dot.x)) x2=(x_percent(dot.x)) y1=(y_percent(lo))
                        y2=(y_percent(hi)) {}
                    @if hi > 100.0 {
                        g transform={"translate(0 " (y_percent(hi)) ")"} {
                            (shape(inset_percent(dot.x), "arrow", ARROW_UP))
                        }
                    }
                }
                @for trial in &dot.trials {
                    circle.{ "point s" (number) }
                        cx=(x_percent(dot.x)) cy=(y_percent(*trial)) r="1.8" {}
                }
                g transform={"translate(0 " (y_percent(dot.y)) ")"} {
                    title { (dot.text) }
                    @let (class, path) = dot.standing.mark(number);
                    (shape(inset_percent(dot.x), &class, path))
                }
            }
        }
    }
}

/// The labels of ticks: below their lines, but for what would leave the picture.
fn place_labels(ticks: &[Tick]) -> Vec<Label> {
    let mut labels = Vec::new();
    for (at, text) in ticks {
        let (x, anchor) =
            if *at > 100.0 - EDGE { (100.0, "end") } else { (inset_percent(*at), "middle") };
        labels.push(Label { x, anchor, text: text.clone() });
    }
    labels
}

fn inset_percent(at: f64) -> f64 {
    LEFT + at.clamp(0.0, 100.0) * (100.0 - LEFT - RIGHT) / 100.0
}

fn x_percent(at: f64) -> String {
    percent(inset_percent(at))
}

fn height_of(at: f64) -> f64 {
    TOP + GROUND * (1.0 - at.clamp(0.0, 100.0) / 100.0)
}

fn y_percent(at: f64) -> String {
    format!("{:.1}", height_of(at))
}
