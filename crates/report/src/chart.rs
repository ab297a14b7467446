//! Pictures as inline SVG: the parts that the page and the answers to questions draw them from.
//!
//! [`Picture`] is the principal type: a drawing with a caption and notes, for a page or for a file
//! of its own. This module knows axes, charts of rows, plots and timelines, and nothing of
//! campaigns; what is drawn is decided by those who use it.
//!
//! [`panel`] draws a chart: rows with a name, a value and a strip with marks, above one axis.
//! Horizontal positions are percentages and vertical ones pixels, so the chart is as wide as the
//! page and its text never shrinks. Each chart has a title and a description for those who can't
//! see it.

mod axis;
pub mod over_time;
mod plot;
mod track;

use maud::{Markup, html};

use crate::text_grid::width;

pub(crate) use axis::*;
pub(crate) use plot::*;
pub(crate) use track::Track;

/// Pixels from a row's top to the base line of its name.
const NAME: u32 = 15;
/// Pixels for each further line of text.
const LINE: u32 = 17;
/// Height of the strip with the marks.
pub(crate) const STRIP: u32 = 20;
/// Space below a strip.
const GAP: u32 = 14;
/// Space for the axis, and for its unit below it: beside the last label there may be no room.
const AXIS: u32 = 22;
const UNIT: u32 = 15;

/// Heads of arrows at the edge of an axis that an interval goes beyond.
pub(crate) const ARROW_LEFT: &str = "M6,-4 L0,0 L6,4";
pub(crate) const ARROW_RIGHT: &str = "M-6,-4 L0,0 L-6,4";
pub(crate) const ARROW_UP: &str = "M-4,6 L0,0 L4,6";

/// A picture, for the page or for a file of its own.
#[derive(Debug)]
pub struct Picture {
    /// Unique in the page; the name of the file.
    pub id: String,
    /// Stands above it.
    pub caption: String,
    /// The SVG drawing.
    pub svg: Markup,
    /// The notes below the drawing.
    pub notes: Vec<String>,
}

/// Lays pictures out side by side, as far as there is room.
pub(crate) fn figures(pictures: &[Picture]) -> Markup {
    html! {
        div.panels {
            @for picture in pictures {
                figure {
                    figcaption { (picture.caption) }
                    (picture.svg)
                    @for note in &picture.notes { p.legend { (note) } }
                }
            }
        }
    }
}

/// One row of a chart.
pub(crate) struct Strip {
    /// The name of the row.
    pub name: String,
    /// Its figure, written out.
    pub value: String,
    /// Further lines: a class of the style sheet, and a text.
    pub lines: Vec<(&'static str, String)>,
    /// The marks, drawn around a centre line at 0.
    pub marks: Markup,
}

/// Describes rows for readers who don't see them: each name with its figure.
pub(crate) fn describe_strips(strips: &[Strip]) -> String {
    let mut described = Vec::new();
    for strip in strips {
        described.push(format!("{}: {}", strip.name, strip.value));
    }
    described.join("; ")
}

/// The subject of a chart.
pub(crate) struct ChartText {
    /// Unique in the page.
    pub id: String,
    /// Says what is shown.
    pub title: String,
    /// Says the numbers in words.
    pub description: String,
    /// Unit of the ticks; empty where the ticks have their own.
    pub unit: &'static str,
}

/// Draws a chart.
pub(crate) fn panel(about: &ChartText, strips: &[Strip], ticks: &[Tick]) -> Markup {
    // Rows differ in height by their lines of text, so each begins where all before it end.
    let (mut tops, mut foot) = (Vec::new(), 0);
    for strip in strips {
        tops.push(foot);
        foot += strip.height();
    }
    let height = foot + AXIS + if about.unit.is_empty() { 0 } else { UNIT };
    let (title, description) = (format!("{}-title", about.id), format!("{}-desc", about.id));
    html! {
        svg.chart role="img" width="100%" height=(height)
            aria-labelledby=(title) aria-describedby=(description) {
            title id=(title) { (about.title) }
            desc id=(description) { (about.description) }
            @for (strip, top) in strips.iter().zip(tops) {
                g transform={"translate(0 " (top) ")"} { (strip.draw(ticks)) }
            }
            g transform={"translate(0 " (foot) ")"} { (draw_axis(ticks, about.unit)) }
        }
    }
}

impl Strip {
    fn top_of_band(&self) -> u32 {
        NAME + LINE * self.lines.len() as u32 + 6
    }

    fn height(&self) -> u32 {
        self.top_of_band() + STRIP + GAP
    }

    fn draw(&self, ticks: &[Tick]) -> Markup {
        let top = self.top_of_band();
        html! {
            text.name x="0" y=(NAME) { (self.name) }
            text.value x="100%" y=(NAME) text-anchor="end" { (self.value) }
            @for (number, (class, line)) in self.lines.iter().enumerate() {
                text class=(class) x="0" y=(NAME + LINE * (number as u32 + 1)) { (line) }
            }
            rect.band x="0" y=(top) width="100%" height=(STRIP) rx="2" {}
            @for (at, _) in ticks {
                line.grid x1=(percent(*at)) x2=(percent(*at)) y1=(top) y2=(top + STRIP) {}
            }
            g transform={"translate(0 " (top + STRIP / 2) ")"} { (self.marks) }
        }
    }
}

fn draw_axis(ticks: &[Tick], unit: &str) -> Markup {
    let mut labels = Vec::new();
    for (number, (at, text)) in ticks.iter().enumerate() {
        // The first and the last label would be cut off at the edges if they were centred.
        let anchor = match *at {
            _ if number == 0 => "start",
            at if at > 96.0 => "end",
            _ => "middle",
        };
        labels.push(Label { x: *at, anchor, text: text.clone() });
    }
    html! {
        @for label in keep_apart(labels) {
            text.tick x=(percent(label.x)) y="4" text-anchor=(label.anchor) { (label.text) }
        }
        @if !unit.is_empty() {
            text.tick x="100%" y=(4 + UNIT) text-anchor="end" { (unit) }
        }
    }
}

/// A position as SVG takes it.
pub(crate) fn percent(at: f64) -> String {
    format!("{at:.2}%")
}

/// A shape of fixed size at a position in percent.
pub(crate) fn shape(at: f64, class: &str, path: &str) -> Markup {
    html! {
        svg x=(percent(at)) overflow="visible" { path class=(class) d=(path) {} }
    }
}

/// The first letters of a name that is too long for a chart.
pub(crate) fn cut(text: &str, length_max: usize) -> String {
    if width(text) <= length_max {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while width(&kept) >= length_max && kept.pop().is_some() {}
    kept + "…"
}
