//! A plot as inline SVG: lines with marks over two axes, and a legend below.
//!
//! [`Plot`] is the principal type. As in `chart`, horizontal positions are percentages and vertical
//! ones pixels, so that text keeps its size on a phone; a line is therefore drawn piece by piece.
//! Series differ in colour, mark and dashes: colour never tells them apart alone.

use maud::{Markup, html};

use super::axis::Tick;
use super::chart::{About, Picture, cut, percent, shape};

/// So many series are told apart by eye.
pub const SERIES_MAX: usize = 6;
/// Pixels above the highest value, for the labels of the axis.
const TOP: f64 = 18.0;
/// Height of the ground.
const GROUND: f64 = 200.0;
/// Pixels below it for the axis.
const AXIS: f64 = 38.0;
/// Pixels of a line of the legend.
const LINE: f64 = 19.0;
/// Percent of the width that are left free at each side, for marks at the ends.
const MARGIN: f64 = 3.0;
/// Characters of a name that fit on a phone.
const NAME_MAX: usize = 46;

/// The mark of each series.
const MARKS: [&str; SERIES_MAX] = [
    "M-4,0 a4,4 0 1,0 8,0 a4,4 0 1,0 -8,0 Z",
    "M-5,0 L0,-5 L5,0 L0,5 Z",
    "M-4,-4 H4 V4 H-4 Z",
    "M-5,4 L0,-5 L5,4 Z",
    "M-4,-4 L4,4 M-4,4 L4,-4",
    "M-5,-4 L0,5 L5,-4 Z",
];

/// What is drawn.
pub struct Plot {
    /// What it is about.
    pub about: About,
    /// Ticks of the horizontal axis, in percent.
    pub x_ticks: Vec<Tick>,
    /// What stands below it.
    pub x_name: String,
    /// Ticks of the vertical axis, in percent of its height.
    pub y_ticks: Vec<Tick>,
    /// The lines, at most [`SERIES_MAX`].
    pub series: Vec<Series>,
}

/// A line.
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// Its points, from left to right.
    pub dots: Vec<Dot>,
    /// Lines lead from one to the next.
    pub is_joined: bool,
}

/// A point of a line; positions are percentages of the axes.
pub struct Dot {
    /// From the left.
    pub x: f64,
    /// From below.
    pub y: f64,
    /// The ends of its interval, from below.
    pub reach: Option<(f64, f64)>,
    /// The trials behind it, from below.
    pub trials: Vec<f64>,
    /// What it says in words.
    pub said: String,
}

impl Plot {
    /// Draws it.
    pub fn picture(self, caption: String, notes: Vec<String>) -> Picture {
        let height = TOP + GROUND + AXIS + LINE * self.series.len() as f64;
        let (title, description) =
            (format!("{}-title", self.about.id), format!("{}-desc", self.about.id));
        let svg = html! {
            svg.chart role="img" width="100%" height=(height)
                aria-labelledby=(title) aria-describedby=(description) {
                title id=(title) { (self.about.title) }
                desc id=(description) { (self.about.description) }
                rect.band x="0" y=(TOP) width="100%" height=(GROUND) rx="2" {}
                (self.axes())
                @for (number, series) in self.series.iter().enumerate() { (line(number, series)) }
                (self.legend())
            }
        };
        Picture { id: self.about.id, caption, svg, notes }
    }

    fn axes(&self) -> Markup {
        let foot = TOP + GROUND;
        html! {
            @for (at, label) in &self.y_ticks {
                line.grid x1="0" x2="100%" y1=(down(*at)) y2=(down(*at)) {}
                text.tick x="2" y=(format!("{:.1}", height_of(*at) - 3.0)) { (label) }
            }
            @for (number, (at, label)) in self.x_ticks.iter().enumerate() {
                @let last = number + 1 == self.x_ticks.len();
                @let anchor = match (number, last) {
                    (0, _) => "start",
                    (_, true) => "end",
                    _ => "middle",
                };
                line.grid x1=(across(*at)) x2=(across(*at)) y1=(TOP) y2=(foot) {}
                text.tick x=(edge(number, last, *at)) y=(foot + 15.0) text-anchor=(anchor) {
                    (label)
                }
            }
            text.tick x="50%" y=(foot + 31.0) text-anchor="middle" { (self.x_name) }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            @for (number, series) in self.series.iter().enumerate() {
                @let base = TOP + GROUND + AXIS + LINE * (number as f64 + 0.7);
                g.lines transform={"translate(0 " (format!("{:.1}", base - 4.0)) ")"} {
                    line.{ "line s" (number) } x1="0" x2="28" y1="0" y2="0" {}
                    path.{ "mark s" (number) } transform="translate(14 0)" d=(MARKS[number]) {}
                }
                text.factors x="36" y=(format!("{base:.1}")) { (cut(&series.name, NAME_MAX)) }
            }
        }
    }
}

fn line(number: usize, series: &Series) -> Markup {
    html! {
        g.lines {
            @for pair in series.dots.windows(2).filter(|_| series.is_joined) {
                line.{ "line s" (number) } x1=(across(pair[0].x)) y1=(down(pair[0].y))
                    x2=(across(pair[1].x)) y2=(down(pair[1].y)) {}
            }
            @for dot in &series.dots {
                @if let Some((lo, hi)) = dot.reach {
                    line.whisker x1=(across(dot.x)) x2=(across(dot.x)) y1=(down(lo))
                        y2=(down(hi)) {}
                }
                @for trial in &dot.trials {
                    circle.{ "point s" (number) } cx=(across(dot.x)) cy=(down(*trial)) r="1.8" {}
                }
                g transform={"translate(0 " (down(dot.y)) ")"} {
                    title { (dot.said) }
                    (shape(inside(dot.x), &format!("mark s{number}"), MARKS[number]))
                }
            }
        }
    }
}

/// Where the text of a tick stands: the first and the last one at the edges.
fn edge(number: usize, last: bool, at: f64) -> String {
    match (number, last) {
        (0, _) => "0%".to_owned(),
        (_, true) => "100%".to_owned(),
        _ => across(at),
    }
}

fn inside(at: f64) -> f64 {
    MARGIN + at.clamp(0.0, 100.0) * (100.0 - 2.0 * MARGIN) / 100.0
}

fn across(at: f64) -> String {
    percent(inside(at))
}

fn height_of(at: f64) -> f64 {
    TOP + GROUND * (1.0 - at.clamp(0.0, 100.0) / 100.0)
}

fn down(at: f64) -> String {
    format!("{:.1}", height_of(at))
}
