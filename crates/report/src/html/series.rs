//! The time series of passes: the rate in each interval, a line for each trial.
//!
//! Drawn where a trial has several intervals. All trials of a row share its axes, which begin at 0;
//! times without a completion lie behind the lines as bands. The numbers stand in JSON and in the
//! results file.

use std::fmt::Write as _;

use maud::{Markup, html};
use model::units::Nanos;
use model::{Pass, PassResult, Stall};

use crate::sheet::{Row, Sheet};
use crate::show::counted;

/// Intervals from which on a line says something.
const INTERVALS_MIN: usize = 3;

/// Rows that are drawn; more are read by nobody, and JSON has them all.
const ROWS_MAX: usize = 24;

/// The drawing, in its own units: it is stretched to the width of the page.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 80.0;

/// The section, where any trial has several intervals.
pub fn section(sheet: &Sheet<'_>) -> Markup {
    let rows: Vec<(&Row<'_>, Vec<Line>)> =
        sheet.rows.iter().map(|row| (row, lines(row))).filter(|(_, l)| !l.is_empty()).collect();
    html! {
        @if !rows.is_empty() {
            section aria-labelledby="series" {
                h2 #series { "Time series" }
                p.legend {
                    "The rate in each interval, a line for each trial, after ramp and warm-up. "
                    "Bands are times in which workers ended nothing."
                }
                @for (number, (row, lines)) in rows.iter().take(ROWS_MAX).enumerate() {
                    (figure(number, &sheet.name(row), lines, row.judged.pass))
                }
                @if rows.len() > ROWS_MAX {
                    p.legend { (counted(rows.len() - ROWS_MAX, "more row")) ": see JSON" }
                }
            }
        }
    }
}

/// One trial: the end of each interval, and the rate in it.
struct Line {
    points: Vec<(u64, f64)>,
    stall: Option<Stall>,
}

fn lines(row: &Row<'_>) -> Vec<Line> {
    let passes = row.run.trials.iter().flat_map(|trial| &trial.passes);
    let of_row = passes.filter(|result| result.pass == row.judged.pass);
    of_row.filter(|result| result.samples.len() >= INTERVALS_MIN).map(Line::of).collect()
}

impl Line {
    fn of(result: &PassResult) -> Self {
        let mut begins_ns = 0;
        let mut points = Vec::with_capacity(result.samples.len());
        for sample in &result.samples {
            let lasts_ns = sample.at_ns.saturating_sub(begins_ns);
            let amount = if result.pass.is_byte_rate() { sample.bytes } else { sample.ops };
            // What is left at the end may be too short for a rate.
            if lasts_ns > 0 && (lasts_ns >= begins_ns / points.len().max(1) as u64 / 2) {
                points.push((sample.at_ns, amount as f64 * 1e9 / lasts_ns as f64));
            }
            begins_ns = sample.at_ns;
        }
        let stalls = result.scope.stalls.filter(|stalls| stalls.count > 0);
        Self { points, stall: stalls.map(|stalls| stalls.longest) }
    }

    fn ends_ns(&self) -> u64 {
        self.points.last().map_or(0, |(at_ns, _)| *at_ns)
    }
}

fn figure(number: usize, name: &str, lines: &[Line], pass: Pass) -> Markup {
    let ends_ns = lines.iter().map(Line::ends_ns).max().unwrap_or(0).max(1);
    let rates = lines.iter().flat_map(|line| &line.points).map(|(_, rate)| *rate);
    let (least, most) = rates
        .fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
    let shown = |rate| stats::Rate::of_pass(pass, rate);
    let (title, description) = (format!("series-{number}-title"), format!("series-{number}-desc"));
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    html! {
        figure {
            figcaption { (name) }
            p.legend { "0 to " (shown(most)) " in " (Nanos(ends_ns)) }
            svg.series role="img" width="100%" height=(HEIGHT) viewBox=(view)
                preserveAspectRatio="none" aria-labelledby=(title) aria-describedby=(description) {
                title id=(title) { (name) ": rate in each interval" }
                desc id=(description) {
                    "from " (shown(least)) " to " (shown(most)) " in "
                    (counted(lines.len(), "trial"))
                }
                rect.band x="0" y="0" width=(WIDTH) height=(HEIGHT) {}
                @for stall in lines.iter().filter_map(|line| line.stall) {
                    rect.stall x=(across(stall.at_ns, ends_ns)) y="0"
                        width=(across(stall.lasts_ns, ends_ns)) height=(HEIGHT) {
                        title { "no op ended for " (Nanos(stall.lasts_ns)) }
                    }
                }
                @for line in lines { path d=(steps(line, ends_ns, most)) {} }
            }
        }
    }
}

fn across(ns: u64, ends_ns: u64) -> String {
    format!("{:.1}", ns as f64 / ends_ns as f64 * WIDTH)
}

/// A rate holds for its whole interval: the line goes in steps.
fn steps(line: &Line, ends_ns: u64, most: f64) -> String {
    let mut path = String::from("M0,");
    for (number, (at_ns, rate)) in line.points.iter().enumerate() {
        let height = HEIGHT - rate / most.max(1e-9) * (HEIGHT - 4.0);
        if number > 0 {
            path.push_str(" V");
        }
        let _ = write!(path, "{height:.1} H{}", across(*at_ns, ends_ns));
    }
    path
}
