//! Pictures with every result of a matrix: rates over response times, and how far the trials of a
//! run are from their median.
//!
//! Colors and rows are targets if several were measured, otherwise levels of the dominant factor.
//! Drawn if a kind of pass has enough results.

use maud::{Markup, html};
use model::units::Nanos;

use super::varied_settings::{VariedSetting, dominant_names};
use crate::chart::{
    ChartRow, ChartText, Dot, DotKind, Picture, Plot, RateAxis, SERIES_MAX, Series, TimeAxis,
};
use crate::chart::{cut, describe_strips, figures, panel, percent};
use crate::factor_effects::FactorEffects;
use crate::humanize::counted;
use crate::table::rate_metric::RateMetric;
use crate::table::{Row, Sheet};

/// Minimum number of results; fewer are better read one by one.
const ROWS_MIN: usize = 12;
/// Maximum number of results of a pass to draw, chosen evenly.
const DOTS_MAX: usize = 400;
/// Maximum number of kinds of pass to draw.
const PASSES_MAX: usize = 4;
/// Number of classes of deviations on either side of the median.
const CLASSES: usize = 20;

/// Rows of the same color, with their name.
type Group<'s, 'a> = (String, Vec<&'s Row<'a>>);

/// Renders the sections; empty if no kind of pass has enough results.
pub(super) fn section(sheet: &Sheet<'_>, effects: &FactorEffects) -> Markup {
    let clouds = clouds(sheet, effects);
    let scatters = draw_scatters(&clouds, sheet);
    let spreads = draw_spreads(&clouds);
    html! {
        @if !scatters.is_empty() {
            section aria-labelledby="scatter" {
                h2 #scatter { "Rate over response time" }
                p.legend {
                    "Each result by its rate and its p99 (logarithmic); up and to the left is \
                     better." }
                (figures(&scatters))
            }
        }
        @if !spreads.is_empty() {
            section aria-labelledby="spread" {
                h2 #spread { "Distribution of the trials" }
                p.legend {
                    "Deviation of trials from the median of their run: the darker, the more \
                     trials. Larger deviations count at the ends." }
                (figures(&spreads))
            }
        }
    }
}

/// Draws rates over response times, one picture for each kind of pass.
pub(super) fn pictures(sheet: &Sheet<'_>, effects: &FactorEffects) -> Vec<Picture> {
    draw_scatters(&clouds(sheet, effects), sheet)
}

/// Draws the distributions of the trials, one picture for each kind of pass.
pub(super) fn spreads(sheet: &Sheet<'_>, effects: &FactorEffects) -> Vec<Picture> {
    draw_spreads(&clouds(sheet, effects))
}

fn draw_scatters(clouds: &[PassCloud<'_, '_>], sheet: &Sheet<'_>) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for PassCloud { name, rows, groups } in clouds {
        let timed = rows.iter().filter(|row| row.judged.response_time.count() > 0).count();
        if timed >= ROWS_MIN {
            drawn.push(draw_scatter(
                format!("scatter-{}", drawn.len()),
                name.clone(),
                groups,
                sheet,
            ));
        }
    }
    drawn
}

fn draw_spreads(clouds: &[PassCloud<'_, '_>]) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for PassCloud { name, groups, .. } in clouds {
        drawn.extend(draw_spread(format!("spread-{}", drawn.len()), name.clone(), groups));
    }
    drawn
}

/// Kind of pass with many rows.
struct PassCloud<'s, 'a> {
    name: String,
    rows: Vec<&'s Row<'a>>,
    /// The same rows by color.
    groups: Vec<Group<'s, 'a>>,
}

/// Lists the kinds of pass with many rows.
fn clouds<'s, 'a>(sheet: &'s Sheet<'a>, effects: &FactorEffects) -> Vec<PassCloud<'s, 'a>> {
    let mut clouds = Vec::new();
    for (name, pass, mut rows) in sheet.groups() {
        rows.retain(|row| row.counts());
        if pass.is_timed_as_whole() || rows.len() < ROWS_MIN || clouds.len() == PASSES_MAX {
            continue;
        }
        let varied = VariedSetting::all(sheet, &rows, &dominant_names(effects, &name));
        let target = varied.iter().find(|setting| setting.is_target());
        let first = varied.iter().find(|setting| setting.levels.len() <= SERIES_MAX);
        let groups = match target.or(first) {
            Some(colour) => group_by(colour, &rows),
            None => vec![(name.clone(), rows.clone())],
        };
        clouds.push(PassCloud { name, rows, groups });
    }
    clouds
}

fn group_by<'s, 'a>(colour: &VariedSetting, rows: &[&'s Row<'a>]) -> Vec<Group<'s, 'a>> {
    let mut groups = Vec::new();
    for level in colour.levels.iter().take(SERIES_MAX) {
        let mut of_level = rows.to_vec();
        of_level.retain(|row| colour.value(row) == level);
        groups.push((format!("{} {level}", colour.name), of_level));
    }
    groups
}

fn draw_scatter(id: String, name: String, groups: &[Group<'_, '_>], sheet: &Sheet<'_>) -> Picture {
    let all: Vec<_> = groups.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
    let metric = RateMetric::for_rows(all[0].judged.pass, all.iter().copied());
    let mut most = 0.0_f64;
    let mut least_ns = u64::MAX;
    let mut most_ns = 1;
    for row in &all {
        let time = row.judged.response_time.quantile(0.99);
        most = most.max(metric.median(&row.judged));
        least_ns = least_ns.min(time);
        most_ns = most_ns.max(time);
    }
    let axis = RateAxis::new(metric.counted(), most);
    let times = TimeAxis::new(least_ns, most_ns);
    let step = all.len().div_ceil(DOTS_MAX).max(1);
    let mut series = Vec::new();
    let mut described = Vec::new();
    for (group, rows) in groups {
        let mut dots = Vec::new();
        for row in rows.iter().step_by(step) {
            let rate = metric.median(&row.judged);
            let time = row.judged.response_time.quantile(0.99);
            let text = format!("{}: {}, p99 {}", sheet.name(row), metric.rate(rate), Nanos(time));
            let x = times.at(time);
            let y = axis.at(rate);
            let standing = DotKind::Counts;
            dots.push(Dot { x, y, reach: None, trials: Vec::new(), standing, text });
        }
        described.push(format!("{group}: {}", counted(rows.len(), "result")));
        series.push(Series { name: group.clone(), dots, is_joined: false });
    }
    let notes = match step {
        1 => Vec::new(),
        _ => vec![format!("One of {step} of {} results.", all.len())],
    };
    let about = ChartText {
        id,
        title: format!("{name}: rate in {} over the p99 of the response times", axis.unit),
        description: format!(
            "{}; p99 from {} to {}, rates up to {}",
            described.join("; "),
            Nanos(least_ns),
            Nanos(most_ns),
            metric.rate(most)
        ),
        unit: "",
    };
    let x_ticks = times.ticks();
    let y_ticks = axis.ticks_with_unit();
    let x_name = "p99 of the response times (logarithmic)".to_owned();
    Plot { about, x_ticks, x_name, y_ticks, upright: None, series }.picture(name, notes)
}

/// Sorted deviations of the trials in percent.
fn deviations(rows: &[&Row<'_>]) -> Vec<f64> {
    let mut all = Vec::new();
    for row in rows {
        let Some(rate) = row.judged.rate.as_ref().filter(|rate| rate.median > 0.0) else {
            continue;
        };
        for point in row.judged.points.iter().filter(|point| point.used) {
            all.push((point.per_s / rate.median - 1.0) * 100.0);
        }
    }
    all.sort_by(f64::total_cmp);
    all
}

/// Draws the distribution of one kind of pass; `None` if no run has several trials.
fn draw_spread(id: String, name: String, groups: &[Group<'_, '_>]) -> Option<Picture> {
    let mut reach = 0.0_f64;
    for (_, rows) in groups {
        let all = deviations(rows);
        // Ignore the most extreme percent, which would leave no room for the others.
        let end = all.len() / 100;
        if all.len() > ROWS_MIN {
            reach = reach.max(-all[end]).max(all[all.len() - 1 - end]);
        }
    }
    if reach == 0.0 {
        return None;
    }
    let mut strips = Vec::new();
    for (group, rows) in groups {
        let all = deviations(rows);
        if all.is_empty() {
            continue;
        }
        let tenth = all.len() / 10;
        let low = all[tenth];
        let high = all[all.len() - 1 - tenth];
        strips.push(ChartRow {
            name: cut(group, 24),
            value: format!("{low:+.1} % to {high:+.1} %").replace('-', "−"),
            lines: vec![("factors", format!("80 % of {}", counted(all.len(), "trial")))],
            marks: draw_density(&all, reach),
        });
    }
    let about = ChartText {
        id,
        title: format!("{name}: deviation of trials from the median of their run"),
        description: describe_strips(&strips),
        unit: "",
    };
    let ticks = [
        (0.0, format!("−{reach:.1} %")),
        (50.0, "0".to_owned()),
        (100.0, format!("+{reach:.1} %")),
    ];
    let svg = panel(&about, &strips, &ticks);
    Some(Picture { id: about.id, caption: name, svg, notes: Vec::new() })
}

/// Draws the number of deviations in each class, darker if there are more.
fn draw_density(deviations: &[f64], reach: f64) -> Markup {
    let classes = 2 * CLASSES + 1;
    let mut counts = vec![0_u32; classes];
    for deviation in deviations {
        let share = (deviation / reach).clamp(-1.0, 1.0).midpoint(1.0);
        counts[(share * (classes - 1) as f64).round() as usize] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let wide = 100.0 / classes as f64;
    html! {
        @for (number, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            @let shade = 0.15 + 0.85 * f64::from(*count) / f64::from(most);
            rect.density x=(percent(number as f64 * wide)) y="-10" width=(percent(wide))
                height="20" fill-opacity=(format!("{shade:.2}")) {
                title { (counted(*count as usize, "trial")) }
            }
        }
    }
}
