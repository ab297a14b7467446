//! Quantile plot: how long the slowest op in ten, a hundred or a thousand took.
//!
//! The axis is scaled by nines, so that the tail gets as much room as the rest. There is a line for
//! each row; if there are many rows, only the fastest and slowest are drawn.

use maud::{Markup, html};
use model::Histogram;
use model::units::Nanos;

use crate::chart::{ChartText, Picture, figures};
use crate::chart::{Dot, DotKind, Plot, SERIES_MAX, Series};
use crate::chart::{Tick, TimeAxis};
use crate::table::{Row, Sheet};

/// Maximum number of nines on the axis.
const NINES_MAX: f64 = 6.0;
/// Steps within each nine.
const STEPS: u32 = 4;
/// Minimum number of ops beyond a quantile for it to be more than chance.
const BEYOND_MIN: f64 = 5.0;
/// Maximum number of pictures.
const PICTURES_MAX: usize = 24;

/// Renders the pictures with their legend; empty if too few ops were recorded for a tail.
pub(super) fn part(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    html! {
        @if !drawn.is_empty() {
            p.legend {
                "Response time that each share of all ops did not exceed, all trials merged; both \
                 axes are logarithmic. A line ends where too few ops are left."
            }
            (figures(&drawn))
        }
    }
}

/// Draws the pictures without a legend.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for (name, _, mut rows) in sheet.groups() {
        rows.retain(|row| nines_of_row(row) > 0.9);
        let left_out = rows.len().saturating_sub(SERIES_MAX);
        let mut notes = Vec::new();
        if left_out > 0 {
            rows.sort_by_key(|row| row.judged.response_time.quantile(0.99));
            let end = SERIES_MAX / 2;
            rows.drain(end..rows.len() - end);
            // In campaign order, as in the other panels.
            rows.sort_by_key(|row| row.run.index);
            notes.push(format!(
                "The fastest and the slowest; the {left_out} rows in between are in the table."
            ));
        }
        if !rows.is_empty() && drawn.len() < PICTURES_MAX {
            let id = format!("quantiles-{}", drawn.len());
            drawn.push(Picture { notes, ..draw_quantiles(id, name, &rows, sheet) });
        }
    }
    drawn
}

/// Number of nines for which a row has enough ops: 1 for 90 %, 2 for 99 %.
fn nines_of_row(row: &Row<'_>) -> f64 {
    // A quantile determined by one or two ops is chance, so the line ends where five ops are beyond
    // it.
    (row.judged.response_time.count() as f64 / BEYOND_MIN).max(1.0).log10().min(NINES_MAX)
}

fn draw_quantiles(id: String, name: String, rows: &[&Row<'_>], sheet: &Sheet<'_>) -> Picture {
    let mut reach = 1.0_f64;
    let mut least = u64::MAX;
    let mut most = 1;
    for row in rows {
        let times = &row.judged.response_time;
        let nines = nines_of_row(row);
        reach = reach.max(nines.ceil());
        least = least.min(times.quantile(0.5));
        most = most.max(times.quantile(1.0 - 0.1_f64.powf(nines)));
    }
    let axis = TimeAxis::new(least, most);
    let mut series = Vec::new();
    let mut described = Vec::new();
    for row in rows {
        let name = sheet.name(row);
        let times = &row.judged.response_time;
        let [p50, p99, _] = crate::humanize::times(times);
        described.push(format!("{name}: p50 {p50}, p99 {p99}"));
        let dots = quantile_dots(times, nines_of_row(row), reach, &axis);
        series.push(Series { name, dots, is_joined: true });
    }
    let about = ChartText {
        id,
        title: format!("{name}: quantiles of the response times"),
        description: described.join("; "),
        unit: "",
    };
    let x_name = "share of the ops".to_owned();
    Plot { about, x_ticks: nine_ticks(reach), x_name, y_ticks: axis.ticks(), upright: None, series }
        .picture(name, Vec::new())
}

/// Median, then points at even steps of nines as far as the ops suffice.
fn quantile_dots(times: &Histogram, nines: f64, reach: f64, axis: &TimeAxis) -> Vec<Dot> {
    let median = 2.0_f64.log10();
    let mut places = vec![median];
    places.extend((1..=(NINES_MAX as u32 * STEPS)).filter_map(|step| {
        let place = f64::from(step) / f64::from(STEPS);
        (place > median && place <= nines).then_some(place)
    }));
    let mut dots = Vec::new();
    for place in places {
        // One nine is a share of 0.9, two are 0.99, and so on.
        let share = 1.0 - 0.1_f64.powf(place);
        let time = times.quantile(share);
        dots.push(Dot {
            x: (place - median) / (reach - median) * 100.0,
            y: axis.at(time),
            reach: None,
            trials: Vec::new(),
            standing: DotKind::Counts,
            text: format!("{:.4} %: {}", share * 100.0, Nanos(time)),
        });
    }
    dots
}

fn nine_ticks(reach: f64) -> Vec<Tick> {
    const LABELS: [&str; 6] = ["90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
    let median = 2.0_f64.log10();
    let mut ticks = vec![(0.0, "50 %".to_owned())];
    for (label, nines) in LABELS.iter().zip(1..=reach as u32) {
        let place = (f64::from(nines) - median) / (reach - median) * 100.0;
        ticks.push((place, (*label).to_owned()));
    }
    ticks
}
