//! Plot as inline SVG: lines with marks over two axes, and a legend below.
//!
//! [`Plot`] is the main type. As in `chart`, horizontal positions are percentages and vertical
//! ones pixels, so that text keeps its size on a phone. Lines are therefore drawn segment by
//! segment. Series differ in color, mark and dashes, so that color is never the only distinction.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::axis::{Label, Tick, keep_apart};
use super::{ARROW_UP, ChartText, Picture, cut, percent, shape};
use crate::text_grid::wrap;

/// Maximum number of series that can be told apart by eye.
pub(crate) const SERIES_MAX: usize = 6;
/// Pixels above the highest value, for the labels of the axis.
const TOP: f64 = 18.0;
/// Height of the plot area.
const GROUND: f64 = 200.0;
/// Pixels below the plot area for the axis.
const AXIS: f64 = 38.0;
/// Pixels per line of the legend.
const LINE: f64 = 19.0;
/// Percent of the width kept free, on the left for the labels of the vertical axis, on the right
/// for marks at the edge.
const LEFT: f64 = 13.0;
const RIGHT: f64 = 3.0;
/// Distance from the right edge, in percent, within which a centered tick label would not fit on a
/// phone.
const EDGE: f64 = 5.0;
/// Maximum number of characters in a line of a name that fit on a phone, and maximum number of
/// lines.
const NAME_MAX: usize = 46;
const NAME_LINES_MAX: usize = 3;

/// Mark of each series.
const MARKS: [&str; SERIES_MAX] = [
    "M-4,0 a4,4 0 1,0 8,0 a4,4 0 1,0 -8,0 Z",
    "M-5,0 L0,-5 L5,0 L0,5 Z",
    "M-4,-4 H4 V4 H-4 Z",
    "M-5,4 L0,-5 L5,4 Z",
    "M-5,-2.5 H5 V2.5 H-5 Z",
    "M-5,-4 L0,5 L5,-4 Z",
];

/// A cross, and a ring around a cross. Neither looks like the mark of any series.
const CROSS: &str = "M-4,-4 L4,4 M-4,4 L4,-4";
const RING_WITH_CROSS: &str = "M-5.5,0 a5.5,5.5 0 1,0 11,0 a5.5,5.5 0 1,0 -11,0 Z M-3,-3 L3,3 \
                               M-3,3 L3,-3";

/// Content of a line plot.
pub(crate) struct Plot {
    pub about: ChartText,
    /// Ticks of the horizontal axis, in percent.
    pub x_ticks: Vec<Tick>,
    /// Name below the horizontal axis.
    pub x_name: String,
    /// Ticks of the vertical axis, in percent of the height.
    pub y_ticks: Vec<Tick>,
    /// Position in percent and label of an event.
    pub upright: Option<(f64, String)>,
    /// Lines, at most [`SERIES_MAX`].
    pub series: Vec<Series>,
}

/// Line of a plot.
pub(crate) struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points from left to right.
    pub dots: Vec<Dot>,
    /// True if the points are connected, except for points that do not belong to the line.
    pub is_joined: bool,
}

/// How far a point can be trusted, which determines its mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DotKind {
    /// Usable: the mark of its series.
    #[default]
    Counts,
    /// The client was at its limit: an unfilled mark.
    ClientLimited,
    /// The load was not sustained, or a trial failed: a cross.
    NotSustained,
    /// Both: a cross in a ring.
    NotSustainedByClient,
}

impl DotKind {
    pub(crate) const fn new(is_sustained: bool, is_client_limited: bool) -> Self {
        match (is_sustained, is_client_limited) {
            (true, false) => Self::Counts,
            (true, true) => Self::ClientLimited,
            (false, false) => Self::NotSustained,
            (false, true) => Self::NotSustainedByClient,
        }
    }

    /// Returns true if the line may pass through the point.
    const fn is_on_line(self) -> bool {
        matches!(self, Self::Counts | Self::ClientLimited)
    }

    /// CSS classes and shape of the mark in a series.
    fn mark(self, number: usize) -> (String, &'static str) {
        match self {
            Self::Counts => (format!("mark s{number}"), MARKS[number]),
            Self::ClientLimited => (format!("mark unfilled s{number}"), MARKS[number]),
            Self::NotSustained => (format!("mark unfilled s{number}"), CROSS),
            Self::NotSustainedByClient => (format!("mark unfilled s{number}"), RING_WITH_CROSS),
        }
    }

    /// Shape and text in the legend; `None` for usable points.
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

/// Point of a line. Positions are percentages of the axes.
pub(crate) struct Dot {
    /// From the left.
    pub x: f64,
    /// From the bottom.
    pub y: f64,
    /// Ends of the interval, measured from the bottom.
    pub reach: Option<(f64, f64)>,
    /// Trials behind the point, measured from the bottom.
    pub trials: Vec<f64>,
    pub standing: DotKind,
    /// Description in words.
    pub text: String,
}

/// Describes the lines for screen readers: each name with its points.
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
    /// Name in the legend. The distinguishing part may be at its end, so it is wrapped, and
    /// truncated only if it does not fit into three lines.
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
        self.picture_beside(&[], caption, notes)
    }

    /// Draws the plot with its legend, and the ideal of each series as a dotted line; an empty one
    /// has none. Points are percentages of the axes; what is above the plot is cut off.
    pub(crate) fn picture_beside(
        self,
        ideals: &[Vec<(f64, f64)>],
        caption: String,
        notes: Vec<String>,
    ) -> Picture {
        let has_ideal = ideals.iter().any(|points| !points.is_empty());
        // The legend is below the plot area, so its lines determine the height.
        let mut lines = self.legend_kinds().len() + usize::from(has_ideal);
        for series in &self.series {
            lines += series.lines().len();
        }
        let marks = html! {
            @for (number, points) in ideals.iter().enumerate() { (draw_ideal(number, points)) }
            (self.legend())
            @if has_ideal { (ideal_key(TOP + GROUND + AXIS + LINE * (lines as f64 - 0.3))) }
        };
        let svg = self.draw(LINE * (lines as f64 + 0.3), &marks);
        Picture { id: self.about.id, caption, svg, notes }
    }

    /// Draws the plot without a legend, as one of several that share one.
    pub(crate) fn panel(&self) -> Markup {
        self.draw(0.0, &Markup::default())
    }

    fn draw(&self, legend_height: f64, legend: &Markup) -> Markup {
        let height = TOP + GROUND + AXIS + legend_height;
        let title = format!("{}-title", self.about.id);
        let description = format!("{}-desc", self.about.id);
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

    /// Kinds of points, apart from usable ones, that need a legend entry.
    fn legend_kinds(&self) -> BTreeSet<DotKind> {
        self.series
            .iter()
            .flat_map(|series| &series.dots)
            .filter(|dot| dot.standing.legend().is_some())
            .map(|dot| dot.standing)
            .collect()
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

    /// Line that marks an event, with its name on the side of the center.
    fn marked(&self) -> Markup {
        html! {
            @if let Some((at, name)) = &self.upright {
                @let (anchor, aside) = if *at > 50.0 { ("end", -5) } else { ("start", 5) };
                line.event x1=(x_percent(*at)) x2=(x_percent(*at)) y1="0" y2=(TOP + GROUND) {}
                text.caveat x=(x_percent(*at)) dx=(aside) y="12" text-anchor=(anchor) { (name) }
            }
        }
    }

    /// Labels of the vertical axis, drawn over the lines.
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
            // A long name takes several lines; its mark is next to the first.
            let lines = series.lines();
            let base = TOP + GROUND + AXIS + LINE * (above as f64 + 0.7);
            above += lines.len();
            entries.push((base, lines));
        }
        let mut marks = Vec::new();
        for (shape, text) in self.legend_kinds().into_iter().filter_map(DotKind::legend) {
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

/// Line and mark of a series, for a legend shared by several plots.
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

/// Draws the ideal of a series up to the top of the plot.
fn draw_ideal(number: usize, points: &[(f64, f64)]) -> Markup {
    html! {
        g.lines {
            @for pair in points.windows(2) {
                @let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
                @if y < 100.0 {
                    @let share = if to_y > 100.0 { (100.0 - y) / (to_y - y) } else { 1.0 };
                    line.{ "ideal s" (number) } x1=(x_percent(x)) y1=(y_percent(y))
                        x2=(x_percent(x + (to_x - x) * share))
                        y2=(y_percent(y + (to_y - y) * share)) {}
                }
            }
        }
    }
}

/// Line of the legend that explains ideals.
fn ideal_key(base: f64) -> Markup {
    html! {
        g.lines transform={"translate(0 " (format!("{:.1}", base - 4.0)) ")"} {
            line.ideal.any x1="0" x2="28" y1="0" y2="0" {}
        }
        text.factors x="36" y=(format!("{base:.1}")) {
            "ideal: the rate with the fewest times their ratio"
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

/// Places tick labels below their lines, except for those that would extend beyond the picture.
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
