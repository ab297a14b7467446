//! Small multiples of a matrix: a panel for each level of the factors that matter most.
//!
//! [`Layout`] is the main type: which settings determine the panels, the axis and the colors.
//! The panels are static, but the page's script can redraw them by other settings, using the table
//! of results. The constants of a panel must match those in `picture/plot.rs` and `explore.js`.

use maud::{Markup, html};

use super::varied_settings::{VariedSetting, dominant_names};
use crate::chart::{
    ChartText, Dot, DotKind, Plot, RateAxis, SERIES_MAX, Series, Tick, describe_series, key,
};
use crate::factor_effects::FactorEffects;
use crate::humanize::counted;
use crate::table::rate_metric::RateMetric;
use crate::table::{Row, Sheet};

/// Minimum number of rows of a pass; fewer are compared by bars.
const ROWS_MIN: usize = 6;
/// Maximum number of panels that can be viewed together.
const PANELS_MAX: usize = 12;
/// Maximum number of panels per line.
const COLUMNS_MAX: usize = 6;
/// Maximum number of kinds of pass to draw.
const PASSES_MAX: usize = 4;
/// Maximum number of rows of a pass to draw as dots; more would merge into one patch.
const DOTS_MAX: usize = 600;
/// Maximum number of labels that fit below a panel.
const TICKS_MAX: usize = 5;

/// Settings by which the rows of a kind of pass are laid out.
pub(super) struct Layout<'v> {
    /// One panel for each level, or pair of levels: columns, then lines.
    facets: Vec<&'v VariedSetting>,
    /// Setting on the horizontal axis of each panel.
    x: &'v VariedSetting,
    /// Setting with one line per level, at most [`SERIES_MAX`].
    pub colour: Option<&'v VariedSetting>,
}

/// Kind of pass with its rows.
struct Multiples<'s, 'a> {
    name: &'s str,
    rows: &'s [&'s Row<'a>],
    metric: RateMetric,
    axis: RateAxis,
}

/// Returns true if a campaign is laid out in panels, because two settings vary in a kind of pass.
pub(super) fn is_matrix(sheet: &Sheet<'_>) -> bool {
    for (_, pass, mut rows) in sheet.groups() {
        rows.retain(|row| row.counts());
        if !pass.is_timed_as_whole() && rows.len() >= ROWS_MIN {
            let varied = VariedSetting::together(VariedSetting::all(sheet, &rows, &[]), &rows);
            if varied.len() >= 2 && Layout::new(&varied).is_some() {
                return true;
            }
        }
    }
    false
}

/// Renders the section; empty unless two settings vary.
pub(super) fn section(sheet: &Sheet<'_>, effects: &FactorEffects) -> Markup {
    if !is_matrix(sheet) {
        return Markup::default();
    }
    let mut drawn = Vec::new();
    for (name, pass, mut rows) in sheet.groups() {
        rows.retain(|row| row.counts());
        let varied = VariedSetting::all(sheet, &rows, &dominant_names(effects, &name));
        let varied = VariedSetting::together(varied, &rows);
        if pass.is_timed_as_whole() || rows.len() < ROWS_MIN || drawn.len() == PASSES_MAX {
            continue;
        }
        if let Some(layout) = Layout::new(&varied) {
            drawn.push(render_pass(drawn.len(), &name, &rows, &layout));
        }
    }
    html! {
        section.explore aria-labelledby="explore" {
            h2 #explore { "Rates by the dominant factors" }
            p.legend {
                "One panel for each level of the factors that explain most of the variance. Lines \
                 connect medians over all other settings, and dots are the individual results; \
                 levels are evenly spaced."
            }
            @for pass in &drawn { (pass) }
        }
    }
}

impl<'v> Layout<'v> {
    /// Chooses among settings sorted by effect.
    ///
    /// The two dominant factors determine the panels if there are others for the axis. With only
    /// two settings, the one with more numeric levels is the axis and the other determines the
    /// panels.
    pub(super) fn new(varied: &'v [VariedSetting]) -> Option<Self> {
        let mut colour = varied.iter().find(|setting| setting.is_target());
        let mut rest: Vec<&VariedSetting> =
            varied.iter().filter(|setting| !setting.is_target()).collect();
        let facets_max = rest.len().saturating_sub(1).min(2);
        let mut facets: Vec<&VariedSetting> = Vec::new();
        let mut panels = 1;
        let axis = (rest.len() == 2).then(|| longest_axis(&rest)).flatten();
        for setting in rest.clone() {
            let is_free = axis.is_none_or(|axis| setting.name != axis.name);
            if facets.len() < facets_max && is_free && panels * setting.levels.len() <= PANELS_MAX {
                panels *= setting.levels.len();
                facets.push(setting);
            }
        }
        rest.retain(|setting| !facets.iter().any(|facet| facet.name == setting.name));
        let x = longest_axis(&rest)?;
        if colour.is_none() {
            colour = rest.into_iter().find(|setting| setting.name != x.name);
        }
        // The setting with more levels goes across, because rows of panels are short.
        facets.sort_by_key(|facet| std::cmp::Reverse(facet.levels.len()));
        Some(Self { facets, x, colour })
    }

    /// Panels with their names and rows.
    fn panels<'r, 'a>(&self, rows: &[&'r Row<'a>]) -> Vec<(String, Vec<&'r Row<'a>>)> {
        let mut panels = vec![(String::new(), rows.to_vec())];
        // Lines of panels are the outer order, columns the inner one.
        for facet in self.facets.iter().rev() {
            let mut finer = Vec::new();
            for (name, rows) in panels {
                for level in &facet.levels {
                    let mut part = rows.clone();
                    part.retain(|row| facet.value(row) == level);
                    let comma = if name.is_empty() { "" } else { ", " };
                    finer.push((format!("{name}{comma}{} {level}", facet.name), part));
                }
            }
            panels = finer;
        }
        panels
    }

    /// Levels that get a color; if there are too many, those with the most rows.
    fn colours(&self, rows: &[&Row<'_>]) -> Vec<&str> {
        let Some(colour) = self.colour else { return vec![""] };
        let rows_of = |level: &str| rows.iter().filter(|row| colour.value(row) == level).count();
        let mut by_rows: Vec<&str> = colour.levels.iter().map(String::as_str).collect();
        by_rows.sort_by_key(|level| std::cmp::Reverse(rows_of(level)));
        by_rows.truncate(SERIES_MAX);
        let mut colours: Vec<&str> = colour.levels.iter().map(String::as_str).collect();
        colours.retain(|level| by_rows.contains(level));
        colours
    }
}

/// Setting with the most numeric levels; if there is none, the one that matters most.
fn longest_axis<'v>(settings: &[&'v VariedSetting]) -> Option<&'v VariedSetting> {
    let mut longest: Option<&VariedSetting> = None;
    for setting in settings.iter().copied().filter(|setting| setting.is_number) {
        if longest.is_none_or(|known| setting.levels.len() > known.levels.len()) {
            longest = Some(setting);
        }
    }
    longest.or_else(|| settings.first().copied())
}

fn render_pass(number: usize, name: &str, rows: &[&Row<'_>], layout: &Layout<'_>) -> Markup {
    let metric = RateMetric::for_rows(rows[0].judged.pass, rows.iter().copied());
    let mut most = 0.0_f64;
    for row in rows {
        most = most.max(metric.median(&row.judged));
    }
    let axis = RateAxis::new(metric.counted(), most);
    let pass = Multiples { name, rows, metric, axis };
    let columns = layout.facets.first().map_or(1, |facet| facet.levels.len().min(COLUMNS_MAX));
    let facet = |number: usize| layout.facets.get(number).map(|facet| facet.name.as_str());
    html! {
        div.multiples data-pass=(name) data-x=(layout.x.name)
            data-colour=[layout.colour.map(|colour| colour.name.as_str())]
            data-columns=[facet(0)] data-rows=[facet(1)] {
            h3 { (name) }
            (legend(layout, pass.rows))
            div.facets style={ "--columns:" (columns) } {
                @for (place, (title, rows)) in layout.panels(pass.rows).into_iter().enumerate() {
                    figure {
                        @if !title.is_empty() { figcaption { (title) } }
                        (pass.panel(format!("facet-{number}-{place}"), &title, &rows, layout))
                    }
                }
            }
        }
    }
}

fn legend(layout: &Layout<'_>, rows: &[&Row<'_>]) -> Markup {
    html! {
        @if let Some(colour) = layout.colour {
            p.legend.keys {
                (colour.name) ":"
                @for (number, level) in layout.colours(rows).into_iter().enumerate() {
                    span { (key(number)) " " (level) }
                }
                @if colour.levels.len() > SERIES_MAX {
                    " and " (counted(colour.levels.len() - SERIES_MAX, "more level"))
                }
            }
        }
    }
}

impl Multiples<'_, '_> {
    fn panel(&self, id: String, title: &str, rows: &[&Row<'_>], layout: &Layout<'_>) -> Markup {
        let mut series = Vec::new();
        for level in layout.colours(self.rows) {
            let mut of_colour = rows.to_vec();
            of_colour.retain(|row| layout.colour.is_none_or(|colour| colour.value(row) == level));
            let dots = self.dots(&of_colour, layout.x);
            series.push(Series { name: level.to_owned(), dots, is_joined: true });
        }
        let comma = if title.is_empty() { "" } else { ", " };
        let about = ChartText {
            id,
            title: format!("{}{comma}{title}: rate by {}", self.name, layout.x.name),
            description: describe_series(&series),
            unit: "",
        };
        let x_ticks = level_ticks(layout.x);
        let y_ticks = self.axis.ticks_with_unit();
        Plot { about, x_ticks, x_name: layout.x.name.clone(), y_ticks, upright: None, series }
            .panel()
    }

    /// One dot per level, at the median of its rows.
    fn dots(&self, rows: &[&Row<'_>], x: &VariedSetting) -> Vec<Dot> {
        let mut dots = Vec::new();
        for (number, level) in x.levels.iter().enumerate() {
            let mut rates: Vec<_> = rows
                .iter()
                .filter(|row| x.value(row) == level)
                .map(|row| self.metric.median(&row.judged))
                .collect();
            rates.sort_by(f64::total_cmp);
            let (Some(least), Some(most)) = (rates.first(), rates.last()) else { continue };
            let median = f64::midpoint(rates[(rates.len() - 1) / 2], rates[rates.len() / 2]);
            let mut text = format!("{level} {}", self.metric.rate(median));
            if rates.len() > 1 {
                text = format!(
                    "{text} ({} to {} in {})",
                    self.axis.shown(*least),
                    self.axis.shown(*most),
                    counted(rates.len(), "result")
                );
            }
            let mut trials = Vec::new();
            if rates.len() > 1 && self.rows.len() <= DOTS_MAX {
                trials.extend(rates.iter().map(|rate| self.axis.at(*rate)));
            }
            dots.push(Dot {
                x: even_place(number, x),
                y: self.axis.at(median),
                reach: None,
                trials,
                standing: DotKind::Counts,
                text,
            });
        }
        dots
    }
}

/// Position of a level in percent; a single level is in the middle.
fn even_place(number: usize, x: &VariedSetting) -> f64 {
    match x.levels.len() {
        1 => 50.0,
        levels => number as f64 * 100.0 / (levels - 1) as f64,
    }
}

/// Ticks for the levels, thinned out so that they do not overlap.
fn level_ticks(x: &VariedSetting) -> Vec<Tick> {
    let step = (x.levels.len() - 1).div_ceil(TICKS_MAX - 1).max(1);
    x.levels
        .iter()
        .enumerate()
        .step_by(step)
        .map(|(number, level)| (even_place(number, x), level.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Setting with the given number of levels, all numbers or all words.
    fn varied(name: &str, levels: usize, is_number: bool) -> VariedSetting {
        let column = if name == "target" { None } else { Some(0) };
        let levels = (1..=levels).map(|level| level.to_string()).collect();
        VariedSetting { column, name: name.to_owned(), levels, is_number }
    }

    /// Settings of the layout: axis, color, columns, lines of panels.
    fn layout(settings: &[VariedSetting]) -> Option<[&str; 4]> {
        let layout = Layout::new(settings)?;
        let facet = |number: usize| layout.facets.get(number).map_or("", |facet| &facet.name);
        let colour = layout.colour.map_or("", |colour| &colour.name);
        Some([&layout.x.name, colour, facet(0), facet(1)])
    }

    #[test]
    fn the_dominant_factors_make_the_panels() {
        let settings = [
            varied("sync", 2, false),
            varied("target", 3, false),
            varied("size", 5, true),
            varied("cache", 2, false),
            varied("workers", 4, true),
            varied("depth", 3, true),
        ];
        assert_eq!(layout(&settings), Some(["workers", "target", "size", "sync"]));
        // Without several targets, the next factor determines the colors.
        assert_eq!(layout(&settings[2..]), Some(["workers", "depth", "size", "cache"]));
    }

    #[test]
    fn assigns_settings_to_panels_and_axis() {
        let settings = [varied("size", 5, true), varied("sync", 2, false)];
        assert_eq!(layout(&settings), Some(["size", "", "sync", ""]));
        assert_eq!(layout(&settings[..1]), Some(["size", "", "", ""]));
        assert_eq!(layout(&[varied("target", 3, false)]), None);
    }

    #[test]
    fn limits_panels_to_comparable_settings() {
        let settings =
            [varied("size", 9, true), varied("files", 4, true), varied("workers", 3, true)];
        assert_eq!(layout(&settings), Some(["files", "workers", "size", ""]));
    }
}
