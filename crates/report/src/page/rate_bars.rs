//! Pictures of the rates: for each pass a bar per row, with its interval and trials.
//!
//! Every pass has its own axis, starting at 0, because bars can only be compared within a pass.

use maud::{Markup, html};
use model::{Severity, Verdict};
use stats::Summary;

use super::extreme_rows::ExtremeRows;
use crate::chart::RateAxis;
use crate::chart::{
    ARROW_RIGHT, ChartRow, ChartText, Picture, RateUnit, cut, describe_strips, figures, panel,
    percent, shape,
};
use crate::humanize;
use crate::table::rate_metric::RateMetric;
use crate::table::{Row, Sheet};
use crate::text_grid::wrap;

/// Maximum number of characters per line that fit on a phone.
const LINE_MAX: usize = 46;

/// Pictures of passes whose rates have the same unit.
struct Kind {
    title: &'static str,
    id: &'static str,
    counted: RateUnit,
}

const KINDS: [Kind; 2] = [
    Kind { title: "Bytes per second", id: "byte-rates", counted: RateUnit::Bytes },
    Kind { title: "Ops per second", id: "op-rates", counted: RateUnit::Ops },
];

const CROSS: &str = "M-4,-4 L4,4 M-4,4 L4,-4";

/// Renders the section with the pictures of both kinds, and the collapsed content below them.
pub(crate) fn section(sheet: &Sheet<'_>, folds: &Markup) -> Markup {
    let kinds = KINDS.each_ref().map(|kind| (kind, draw_kind(sheet, kind)));
    html! {
        @if kinds.iter().any(|(_, drawn)| !drawn.is_empty()) {
            section aria-labelledby="rates" {
                h2 #rates { "Rates" }
                (draw_legend())
                @for (kind, drawn) in &kinds {
                    @if !drawn.is_empty() {
                        h3 id=(kind.id) { (kind.title) }
                        (figures(drawn))
                    }
                }
                (folds)
            }
        }
    }
}

/// Draws the pictures without a section.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    KINDS.iter().flat_map(|kind| draw_kind(sheet, kind)).collect()
}

fn draw_kind(sheet: &Sheet<'_>, kind: &Kind) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for (name, pass, rows) in sheet.groups() {
        let metric = RateMetric::for_rows(pass, rows.iter().copied());
        // A command has a time instead of a rate.
        if pass.is_timed_as_whole() || metric.counted() != kind.counted {
            continue;
        }
        let id = format!("{}-{}", kind.id, drawn.len());
        let ends = ExtremeRows::new(&rows, metric);
        let svg = draw_chart(&id, &name, metric, &ends.rows, sheet);
        drawn.push(Picture { id, caption: name, svg, notes: ends.notes() });
    }
    drawn
}

fn draw_legend() -> Markup {
    html! {
        p.legend {
            svg width="34" height="14" aria-hidden="true" {
                rect.bar.valid x="0" y="1" width="34" height="12" {}
            }
            " median   "
            svg width="34" height="14" aria-hidden="true" {
                rect.bar.degraded x="0" y="1" width="34" height="12" {}
            }
            " median, degraded   "
            svg width="34" height="14" aria-hidden="true" {
                line.whisker x1="2" x2="32" y1="7" y2="7" {}
                line.whisker x1="2" x2="2" y1="2" y2="12" {}
                line.whisker x1="32" x2="32" y1="2" y2="12" {}
            }
            " 95 % interval of the median   "
            svg width="12" height="14" aria-hidden="true" {
                circle.trial cx="6" cy="7" r="3.5" {}
            }
            " a trial   "
            svg width="12" height="14" aria-hidden="true" {
                g transform="translate(6 7)" { path.aside d=(CROSS) {} }
            }
            " a trial set aside as invalid or disturbed   "
            svg width="34" height="14" aria-hidden="true" {
                line.whisker x1="2" x2="32" y1="7" y2="7" {}
                g transform="translate(32 7)" { path.arrow d=(ARROW_RIGHT) {} }
            }
            " extends beyond the axis"
        }
    }
}

fn draw_chart(
    id: &str,
    name: &str,
    metric: RateMetric,
    rows: &[&Row<'_>],
    sheet: &Sheet<'_>,
) -> Markup {
    let mut most = 0.0_f64;
    for row in rows {
        for point in &row.judged.points {
            most = most.max(metric.point(&row.judged, point.per_s));
        }
    }
    let axis = RateAxis::new(metric.counted(), most);
    let strips: Vec<_> = rows.iter().map(|row| row_strip(row, &axis, metric, sheet)).collect();
    let about = ChartText {
        id: id.to_owned(),
        title: format!("{name}: rate of each run in {}", axis.unit),
        description: describe_strips(&strips),
        unit: axis.unit,
    };
    panel(&about, &strips, &axis.ticks())
}

fn row_strip(row: &Row<'_>, axis: &RateAxis, metric: RateMetric, sheet: &Sheet<'_>) -> ChartRow {
    let figure = metric.figure(&row.judged);
    let sign = row.mark.map_or_else(String::new, |mark| format!("{} ", mark.extreme.sign()));
    let value = match figure {
        Some(rate) => format!("{sign}{} {}", metric.rate(rate.median), humanize::spread(rate)),
        None => "no figure".to_owned(),
    };
    ChartRow {
        name: cut(&row.run.spec.target_name, 24),
        value: value.trim_end_matches(" –").to_owned(),
        lines: row_lines(row, sheet),
        marks: figure.map_or_else(Markup::default, |rate| draw_marks(row, rate, axis, metric)),
    }
}

/// Settings of a row as lines that fit on a phone, without breaking within a setting.
pub(super) fn factors(row: &Row<'_>, sheet: &Sheet<'_>) -> Vec<(&'static str, String)> {
    // No-break spaces keep a name and its value together, so lines only break after a comma.
    let unbroken = sheet.factors(row).replace(' ', "\u{a0}").replace(",\u{a0}", ", ");
    wrap(&unbroken, LINE_MAX)
        .into_iter()
        .filter(|line| !line.is_empty())
        .map(|line| ("factors", line))
        .collect()
}

/// Settings of a row, followed by its reason or caveats.
fn row_lines(row: &Row<'_>, sheet: &Sheet<'_>) -> Vec<(&'static str, String)> {
    let mut lines = factors(row, sheet);
    if let Some(reason) = row.judged.reason() {
        lines.extend(wrap_caveat(&cut(reason, 2 * LINE_MAX - 8)));
    }
    let mut caveats = Vec::new();
    for caveat in &row.judged.caveats {
        // Notes do not affect whether the result can be used; the table has them.
        if caveat.severity > Severity::Note {
            caveats.push(caveat.code.code());
        }
    }
    if !caveats.is_empty() {
        let invalid = row.judged.verdict == Verdict::Invalid;
        let mark = if invalid { "✕ invalid:" } else { "!" };
        lines.extend(wrap_caveat(&format!("{mark} {}", caveats.join(", "))));
    }
    lines
}

fn wrap_caveat(text: &str) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for line in wrap(text, LINE_MAX) {
        // A single word may be longer than a line.
        lines.push(("caveat", cut(&line, LINE_MAX)));
    }
    lines
}

fn draw_marks(row: &Row<'_>, rate: &Summary, axis: &RateAxis, metric: RateMetric) -> Markup {
    let judged = &row.judged;
    let at = |per_s: f64| percent(axis.at(per_s));
    let of_trial = |per_s: f64| axis.at(metric.point(judged, per_s));
    let (lo, hi) = rate.interval;
    html! {
        rect.bar.(judged.verdict.name()) x="0" y="-7" width=(at(rate.median)) height="14" {}
        line.median x1=(at(rate.median)) x2=(at(rate.median)) y1="-7" y2="7" {}
        @if rate.n > 1 {
            // An arrow at the edge shows that an interval extends beyond the axis.
            line.whisker x1=(at(lo)) x2=(percent(axis.at(hi).min(100.0))) y1="0" y2="0" {}
            @for end in [lo, hi].into_iter().filter(|end| axis.at(*end) <= 100.0) {
                line.whisker x1=(at(end)) x2=(at(end)) y1="-5" y2="5" {}
            }
            @if axis.at(hi) > 100.0 { (shape(100.0, "arrow", ARROW_RIGHT)) }
        }
        @for point in &judged.points {
            @if point.used {
                circle.trial cx=(percent(of_trial(point.per_s))) cy="0" r="3.5" {
                    title { "trial " (point.trial_index + 1) ": "
                        (metric.rate(metric.point(judged, point.per_s))) }
                }
            } @else {
                (shape(of_trial(point.per_s), "aside", CROSS))
            }
        }
    }
}
