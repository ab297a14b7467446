//! Pictures as inline SVG: the building blocks for the pictures of pages and of answers.
//!
//! [`Picture`] is the main type: a drawing with a caption and notes, for a page or a separate
//! file. This module provides axes, row charts, plots and timelines, and is independent of
//! campaigns; its users decide what to draw.
//!
//! [`panel`] draws a chart: rows with a name, a value and a strip of marks, above a common axis.
//! Horizontal positions are percentages and vertical ones pixels, so a chart is as wide as the page
//! while its text keeps its size. Each chart has a title and a description for screen readers.

mod axis;
pub mod over_time;
mod plot;
mod track;

use maud::{Markup, html};

use crate::text_grid::width;

pub(crate) use axis::*;
pub(crate) use plot::*;
pub(crate) use track::Track;

/// Pixels from the top of a row to the baseline of its name.
const NAME: u32 = 15;
/// Pixels for each further line of text.
const LINE: u32 = 17;
/// Height of the strip with the marks, in pixels.
pub(crate) const STRIP: u32 = 20;
/// Space below a strip, in pixels.
const GAP: u32 = 14;
/// Space for the axis and, below it, the unit, which may not fit next to the last label.
const AXIS: u32 = 22;
const UNIT: u32 = 15;

/// Arrowheads at the edge of an axis for intervals that extend beyond it.
pub(crate) const ARROW_LEFT: &str = "M6,-4 L0,0 L6,4";
pub(crate) const ARROW_RIGHT: &str = "M-6,-4 L0,0 L-6,4";
pub(crate) const ARROW_UP: &str = "M-4,6 L0,0 L4,6";

/// Picture for a page or a separate file.
#[derive(Debug)]
pub struct Picture {
    /// Unique within the page; also the file name.
    pub id: String,
    /// Caption above the picture.
    pub caption: String,
    pub svg: Markup,
    /// Notes below the drawing.
    pub notes: Vec<String>,
}

/// Lays out pictures side by side as space allows.
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

pub(crate) struct ChartRow {
    pub name: String,
    /// Formatted result of the row.
    pub value: String,
    /// Further lines, each with a CSS class.
    pub lines: Vec<(&'static str, String)>,
    /// Marks, drawn around a center line at 0.
    pub marks: Markup,
}

/// Describes the rows for screen readers: each name with its value.
pub(crate) fn describe_strips(strips: &[ChartRow]) -> String {
    let described: Vec<_> =
        strips.iter().map(|strip| format!("{}: {}", strip.name, strip.value)).collect();
    described.join("; ")
}

pub(crate) struct ChartText {
    /// Unique within the page.
    pub id: String,
    /// What the chart shows.
    pub title: String,
    /// The numbers in words, for screen readers.
    pub description: String,
    /// Unit of the ticks; empty if each tick has its own.
    pub unit: &'static str,
}

pub(crate) fn panel(about: &ChartText, strips: &[ChartRow], ticks: &[Tick]) -> Markup {
    // Row heights depend on the number of text lines, so add them up.
    let mut tops = Vec::new();
    let mut foot = 0;
    for strip in strips {
        tops.push(foot);
        foot += strip.height();
    }
    let height = foot + AXIS + if about.unit.is_empty() { 0 } else { UNIT };
    let title = format!("{}-title", about.id);
    let description = format!("{}-desc", about.id);
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

impl ChartRow {
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
        // Centered labels would be cut off at the edges.
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

/// Formats a position as an SVG percentage.
pub(crate) fn percent(at: f64) -> String {
    format!("{at:.2}%")
}

/// Draws a shape of fixed size at a position in percent.
pub(crate) fn shape(at: f64, class: &str, path: &str) -> Markup {
    html! {
        svg x=(percent(at)) overflow="visible" { path class=(class) d=(path) {} }
    }
}

/// Truncates a name that is too long for a chart.
pub(crate) fn cut(text: &str, length_max: usize) -> String {
    if width(text) <= length_max {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while width(&kept) >= length_max && kept.pop().is_some() {}
    kept + "…"
}
