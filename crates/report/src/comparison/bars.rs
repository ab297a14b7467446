//! Pictures of a comparison: a bar for each ratio with its interval, largest regression first.
//!
//! There is one picture per measure, all with the same rows in the same order. Bars start at 1,
//! which is no change. The axis is logarithmic, so that doubling and halving have the same length.
//! A line across all bars marks a bound. Each color is explained by a word.

use maud::{Markup, html};

use super::measure::Change;
use super::{CampaignComparison, ComparedFigure, Measure, RowPair};
use crate::chart::{
    ARROW_LEFT, ARROW_RIGHT, ChartRow, ChartText, Picture, STRIP, Tick, describe_strips, panel,
    percent, shape,
};
use crate::text_grid::wrap;

/// Maximum number of bars per measure; the table has all of them.
const BARS_MAX: usize = 24;
/// Maximum number of characters per line of a name that fit on a phone.
const NAME_MAX: usize = 44;
/// Ratios for tick labels on both sides of 1.
const TICKS: [f64; 8] = [1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0, 100.0];
/// Minimum distance between ticks, in percent.
const TICK_DISTANCE: f64 = 10.0;
/// Minimum reach of the axis, and its reach relative to the longest bar, as logarithms. Longer
/// intervals are cut off.
const REACH_MIN: f64 = 0.08;
const REACH_BEYOND: f64 = 1.5;

/// Draws a picture for each measure that was compared.
pub(super) fn pictures(compared: &CampaignComparison) -> Vec<Picture> {
    pictures_of(&compared.pairs, ["after", "before"])
}

/// Draws a picture for each measure of some rows, whose sides have names.
pub(super) fn pictures_of(pairs: &[RowPair], sides: [&str; 2]) -> Vec<Picture> {
    let mut pairs: Vec<&RowPair> = pairs.iter().collect();
    pairs.sort_by(|one, other| largest_loss(other).total_cmp(&largest_loss(one)));
    let mut drawn = Vec::new();
    for measure in Measure::ALL {
        let mut figures: Vec<(&RowPair, &ComparedFigure)> = Vec::new();
        for pair in &pairs {
            let known = pair.figures.iter().find(|figure| figure.measure == measure);
            figures.extend(known.map(|figure| (*pair, figure)));
        }
        if !figures.is_empty() {
            drawn.push(draw(measure, &figures, sides));
        }
    }
    drawn
}

/// Largest loss among the measures of a row.
fn largest_loss(pair: &RowPair) -> f64 {
    pair.figures.iter().map(ComparedFigure::loss).fold(f64::NEG_INFINITY, f64::max)
}

fn draw(
    measure: Measure,
    figures: &[(&RowPair, &ComparedFigure)],
    [after, before]: [&str; 2],
) -> Picture {
    let axis = RatioAxis::new(figures);
    let strips: Vec<_> = figures
        .iter()
        .take(BARS_MAX)
        .map(|(pair, figure)| ratio_strip(pair, figure, &axis))
        .collect();
    let name = measure.name();
    let worse = if measure == Measure::Rate { "less" } else { "more" };
    let about = ChartText {
        id: format!("ratios-{name}"),
        title: format!("Ratios of {name}, {after} to {before}"),
        description: describe_strips(&strips),
        unit: if before == "before" { "after / before" } else { "together / alone" },
    };
    let mut notes = Vec::new();
    if figures[0].1.bound.is_some() {
        notes.push(format!("Dashed line: the bound, {}.", figures[0].1.limit()));
    }
    let is_cut = |(_, figure): &(&RowPair, &ComparedFigure)| {
        let (lo, hi) = figure.comparison.interval;
        !axis.is_on_axis(lo) || !axis.is_on_axis(hi)
    };
    if figures.iter().take(BARS_MAX).any(is_cut) {
        notes.push("Arrows: the interval extends beyond the axis.".to_owned());
    }
    if figures.len() > BARS_MAX {
        let left_out = figures.len() - BARS_MAX;
        notes.push(format!("{left_out} more with smaller losses: see the table."));
    }
    Picture {
        id: about.id.clone(),
        caption: format!("{name}, {after} to {before} ({worse} is worse)"),
        svg: panel(&about, &strips, &axis.ticks()),
        notes,
    }
}

fn ratio_strip(pair: &RowPair, figure: &ComparedFigure, axis: &RatioAxis) -> ChartRow {
    let mut names = wrap(&pair.name, NAME_MAX).into_iter();
    let name = names.next().unwrap_or_default();
    let mut lines: Vec<_> = names.map(|more| ("factors", more)).collect();
    let (class, word) = class_and_word(figure);
    let (lo, hi) = figure.comparison.interval;
    lines.push((
        if figure.is_regression() { "caveat" } else { "factors" },
        format!("{word}; {} → {}; {lo:.3} to {hi:.3}", figure.shown(0), figure.shown(1)),
    ));
    let value = format!("{:.3}", figure.comparison.ratio);
    ChartRow { name, value, lines, marks: ratio_marks(figure, class, axis) }
}

/// CSS class of a bar, and the word that explains its color.
fn class_and_word(figure: &ComparedFigure) -> (&'static str, &'static str) {
    match figure.change_for_sure() {
        _ if figure.is_regression() => ("bar worse", "regression"),
        Some(Change::Worse) => ("bar worse", "worse"),
        Some(Change::Better) => ("bar better", "better"),
        None => ("bar", figure.comparison.outcome().name()),
    }
}

fn ratio_marks(figure: &ComparedFigure, class: &str, axis: &RatioAxis) -> Markup {
    let at = axis.at(figure.comparison.ratio);
    let one = axis.at(1.0);
    let (lo, hi) = figure.comparison.interval;
    let half = STRIP / 2;
    html! {
        rect class=(class) x=(percent(at.min(one))) width=(percent((at - one).abs()))
            y={"-" (half - 3)} height=(2 * half - 6) {}
        line.whisker x1=(percent(axis.at(lo))) x2=(percent(axis.at(hi))) y1="0" y2="0" {}
        @for (end, arrow) in [(lo, ARROW_LEFT), (hi, ARROW_RIGHT)] {
            @if axis.is_on_axis(end) {
                line.whisker x1=(percent(axis.at(end))) x2=(percent(axis.at(end))) y1="-4" y2="4" {}
            } @else {
                // An interval that extends beyond the axis has no end mark there.
                (shape(axis.at(end), "arrow", arrow))
            }
        }
        line.median x1=(percent(one)) x2=(percent(one)) y1={"-" (half)} y2=(half) {}
        @if let Some(bound) = figure.worst_ratio() {
            line.event x1=(percent(axis.at(bound))) x2=(percent(axis.at(bound)))
                y1={"-" (half)} y2=(half) {}
        }
    }
}

/// Logarithmic axis that covers the largest change in either direction, with 1 in the middle.
struct RatioAxis {
    /// Logarithm at either end.
    reach: f64,
}

impl RatioAxis {
    fn new(figures: &[(&RowPair, &ComparedFigure)]) -> Self {
        let mut reach = REACH_MIN;
        for (_, figure) in figures {
            reach = reach.max(figure.comparison.ratio.ln().abs());
            // A rate that may drop to nothing has a bound of 0, which a logarithmic axis cannot
            // show.
            if let Some(bound) = figure.worst_ratio()
                && bound > 0.0
            {
                reach = reach.max(bound.ln().abs());
            }
        }
        Self { reach: reach * REACH_BEYOND }
    }

    /// Position of a ratio in percent, clamped to the axis.
    fn at(&self, ratio: f64) -> f64 {
        let share = ratio.max(f64::MIN_POSITIVE).ln() / self.reach;
        50.0 + 50.0 * share.clamp(-1.0, 1.0)
    }

    /// Returns true if a ratio is within the axis; others are drawn at its ends.
    fn is_on_axis(&self, ratio: f64) -> bool {
        let at = self.at(ratio);
        at > 0.0 && at < 100.0
    }

    /// Ticks at 1 in the middle and at round ratios on both sides as space allows.
    fn ticks(&self) -> Vec<Tick> {
        let mut ratios = vec![1.0];
        let mut last = 50.0;
        for ratio in TICKS {
            let at = self.at(ratio);
            if at - last >= TICK_DISTANCE && ratio.ln() <= self.reach {
                last = at;
                ratios.extend([ratio, 1.0 / ratio]);
            }
        }
        ratios.sort_by(f64::total_cmp);
        let mut ticks = Vec::new();
        for ratio in ratios {
            let label = format!("{ratio:.2}");
            let short = label.trim_end_matches('0').trim_end_matches('.');
            ticks.push((self.at(ratio), short.to_owned()));
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_double_as_far_as_half() {
        let axis = RatioAxis { reach: 4.0_f64.ln() };
        assert!((axis.at(1.0) - 50.0).abs() < 1e-9);
        assert!((axis.at(2.0) - 75.0).abs() < 1e-9 && (axis.at(0.5) - 25.0).abs() < 1e-9);
        assert!(
            axis.is_on_axis(2.0)
                && !axis.is_on_axis(9.0)
                && !axis.is_on_axis(0.1)
                && !axis.is_on_axis(0.0)
        );
        // Ratios beyond the axis are clamped, including 0.
        assert!((axis.at(9.0) - 100.0).abs() < 1e-9 && axis.at(0.0).abs() < 1e-9);
        let labels: Vec<String> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0.25", "0.5", "0.67", "1", "1.5", "2", "4"]);
    }
}
