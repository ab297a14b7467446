//! Picture of two factors at once: a cell for each pair of levels, darker if it is faster.
//!
//! Drawn if two settings vary with at least six pairs. Each cell also states its result. If further
//! settings vary, it is the best result under any of them, since a map is meant to show where to
//! be.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::varied_settings::VariedSetting;
use crate::chart::RateAxis;
use crate::chart::{ChartText, Picture, cut, figures, percent};
use crate::table::rate_metric::RateMetric;
use crate::table::{Row, Sheet};

/// Minimum number of cells; fewer are compared by bars.
const CELLS_MIN: usize = 6;
/// Maximum number of columns or rows that remain readable.
const LEVELS_MAX: usize = 12;
/// Maximum number of pictures.
const PICTURES_MAX: usize = 12;
/// Height of a cell and of the headings above, in pixels.
const CELL: f64 = 30.0;
const HEAD: f64 = 34.0;
/// Percent of the width for the names of the rows.
const SIDE: f64 = 20.0;
/// Opacity of the darkest cell, on which text is still readable.
const DARKEST: f64 = 0.45;

/// Cell of the map.
struct HeatCell {
    per_s: f64,
    /// Combination of levels with its rate, in words.
    name: String,
}

/// Renders the section; empty unless two factors vary.
pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    html! {
        @if !drawn.is_empty() {
            section aria-labelledby="maps" {
                h2 #maps { "Two factors at once" }
                p.legend {
                    "The median for each pair of levels: the stronger the color, the faster. If \
                     further settings vary, the best of them."
                }
                (figures(&drawn))
            }
        }
    }
}

/// Draws the pictures without a section.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for (name, pass, mut rows) in sheet.groups() {
        if pass.is_timed_as_whole() {
            continue;
        }
        rows.retain(|row| row.counts());
        let mut factors = VariedSetting::all(sheet, &rows, &[]);
        factors.retain(|factor| !factor.is_target() && factor.levels.len() <= LEVELS_MAX);
        let factors = VariedSetting::together(factors, &rows);
        // The settings are sorted by number of levels. Use the first two, the one with more levels
        // across.
        if let [across, down, ..] = &factors[..]
            && across.levels.len() * down.levels.len() >= CELLS_MIN
        {
            let id = format!("map-{}", drawn.len());
            drawn.push(heat_map(sheet, id, &name, &rows, [across, down]));
        }
    }
    drawn.truncate(PICTURES_MAX);
    drawn
}

fn heat_map(
    sheet: &Sheet<'_>,
    id: String,
    name: &str,
    rows: &[&Row<'_>],
    [across, down]: [&VariedSetting; 2],
) -> Picture {
    let metric = RateMetric::for_rows(rows[0].judged.pass, rows.iter().copied());
    let best = best_cells(sheet, metric, rows, [across, down]);
    let mut most = 0.0_f64;
    let mut described = Vec::new();
    for (cells, level) in best.iter().zip(&down.levels) {
        for (cell, other) in cells.iter().zip(&across.levels) {
            if let Some(cell) = cell {
                most = most.max(cell.per_s);
                described.push(format!("{level}, {other}: {}", metric.rate(cell.per_s)));
            }
        }
    }
    let axis = RateAxis::new(metric.counted(), most);
    let about = ChartText {
        title: format!("{name}: rate in {} by {} and {}", axis.unit, down.name, across.name),
        description: described.join("; "),
        unit: axis.unit,
        id,
    };
    let caption = format!("{name}: {} by {}", down.name, across.name);
    let svg = draw_map(&about, [across, down], &best, &axis);
    Picture { id: about.id, caption, svg, notes: Vec::new() }
}

/// Finds the best row for each pair of levels. Settings that are on neither axis are left at their
/// best value, since the map shows what is possible.
fn best_cells(
    sheet: &Sheet<'_>,
    metric: RateMetric,
    rows: &[&Row<'_>],
    [across, down]: [&VariedSetting; 2],
) -> Vec<Vec<Option<HeatCell>>> {
    let mut cells = Vec::new();
    for y in 0..down.levels.len() {
        let mut line = Vec::new();
        for x in 0..across.levels.len() {
            let mut here = rows.to_vec();
            here.retain(|row| across.level_of(row) == Some(x) && down.level_of(row) == Some(y));
            line.push(best_cell(sheet, metric, &here));
        }
        cells.push(line);
    }
    cells
}

/// Best of the rows; `None` if none has a result.
fn best_cell(sheet: &Sheet<'_>, metric: RateMetric, rows: &[&Row<'_>]) -> Option<HeatCell> {
    let best = rows
        .iter()
        .filter(|row| metric.figure(&row.judged).is_some())
        .max_by(|a, b| metric.median(&a.judged).total_cmp(&metric.median(&b.judged)))?;
    let per_s = metric.median(&best.judged);
    let mut name = format!("{}: {}", sheet.name(best), metric.rate(per_s));
    if rows.len() > 1 {
        // Writing to a string cannot fail.
        let _ = write!(name, ", the best of {} combinations", rows.len());
    }
    Some(HeatCell { per_s, name })
}

fn draw_map(
    about: &ChartText,
    [across, down]: [&VariedSetting; 2],
    best: &[Vec<Option<HeatCell>>],
    axis: &RateAxis,
) -> Markup {
    let wide = (100.0 - SIDE) / across.levels.len() as f64;
    let left = |x: usize| SIDE + wide * x as f64;
    let letters = 60 / across.levels.len().max(6);
    let height = HEAD + CELL * down.levels.len() as f64 + 6.0;
    let title = format!("{}-title", about.id);
    let description = format!("{}-desc", about.id);
    let middle = |x: usize| percent(left(x) + wide / 2.0);
    html! {
        svg.chart.map role="img" width="100%" height=(height)
            aria-labelledby=(title) aria-describedby=(description) {
            title id=(title) { (about.title) }
            desc id=(description) { (about.description) }
            text.tick x="0" y="28" { (cut(&down.name, 12)) }
            text.tick x="100%" y="12" text-anchor="end" { (across.name) ", in " (about.unit) }
            @for (x, level) in across.levels.iter().enumerate() {
                text.tick x=(middle(x)) y="28" text-anchor="middle" { (cut(level, letters)) }
            }
            @for (y, (cells, level)) in best.iter().zip(&down.levels).enumerate() {
                @let top = HEAD + CELL * y as f64;
                text.tick x="0" y=(top + 19.0) { (cut(level, 12)) }
                @for (x, cell) in cells.iter().enumerate() {
                    @if let Some(cell) = cell {
                        @let shade = axis.at(cell.per_s) / 100.0 * DARKEST;
                        g.pick {
                            title { (cell.name) }
                            rect.cell x=(percent(left(x))) y=(top) width=(percent(wide))
                                height=(CELL) fill-opacity=(format!("{shade:.3}")) {}
                            text.figure x=(middle(x)) y=(top + 19.0) text-anchor="middle" {
                                (axis.shown(cell.per_s))
                            }
                        }
                    }
                }
            }
        }
    }
}
