//! Picture of the response times: median, 99th percentile and maximum on a logarithmic axis.
//!
//! All passes share the axis, so that, for example, a stat can be compared with a write.

use maud::{Markup, html};
use model::units::Nanos;

use super::extreme_rows::ExtremeRows;
use crate::chart::TimeAxis;
use crate::chart::{
    ChartRow, ChartText, Picture, cut, describe_strips, figures, panel, percent, shape,
};
use crate::table::rate_metric::RateMetric;
use crate::table::{Row, Sheet};

const DISC: &str = "M-5,0 a5,5 0 1,0 10,0 a5,5 0 1,0 -10,0 Z";
const DIAMOND: &str = "M-6,0 L0,-6 L6,0 L0,6 Z";
const BAR: &str = "M0,-7 L0,7";

/// Renders a chart for each pass with a legend; empty if no times were recorded.
pub(super) fn part(sheet: &Sheet<'_>) -> Markup {
    let drawn = pictures(sheet);
    html! {
        @if !drawn.is_empty() {
            (draw_legend())
            (figures(&drawn))
        }
    }
}

/// Draws the pictures without a legend.
pub(super) fn pictures(sheet: &Sheet<'_>) -> Vec<Picture> {
    let mut smallest = u64::MAX;
    let mut largest = 0;
    for row in with_times(sheet.rows.iter()) {
        smallest = smallest.min(row.judged.response_time.quantile(0.5));
        largest = largest.max(row.judged.response_time.max());
    }
    if smallest == u64::MAX {
        return Vec::new();
    }
    // Use the same axis for all passes, to show how far apart a stat of 100 µs and a write of 100
    // ms are.
    let axis = TimeAxis::new(smallest, largest);
    let mut drawn = Vec::new();
    for (number, (name, pass, rows)) in sheet.groups().into_iter().enumerate() {
        let metric = RateMetric::for_rows(pass, rows.iter().copied());
        let ends = ExtremeRows::new(&with_times(rows.into_iter()), metric);
        if !ends.rows.is_empty() {
            let id = format!("times-{number}");
            let svg = draw_chart(&id, &name, &ends.rows, &axis, sheet);
            drawn.push(Picture { id, caption: name, svg, notes: ends.notes() });
        }
    }
    drawn
}

/// Rows with recorded response times.
fn with_times<'a, 'b: 'a>(rows: impl Iterator<Item = &'a Row<'b>>) -> Vec<&'a Row<'b>> {
    let mut timed: Vec<_> = rows.collect();
    timed.retain(|row| row.judged.response_time.count() > 0);
    timed
}

fn draw_legend() -> Markup {
    html! {
        p.legend {
            @for (shape, class, what) in [
                (DISC, "p50", " p50   "),
                (DIAMOND, "p99", " p99   "),
                (BAR, "max", " max   "),
            ] {
                svg width="16" height="16" aria-hidden="true" {
                    g transform="translate(8 8)" { path class=(class) d=(shape) {} }
                }
                (what)
            }
            "from scheduled start to completion, all trials merged (logarithmic). \"estimated\" \
             adds the "
            "requests that a closed loop would have sent while it waited for a reply"
        }
    }
}

fn draw_chart(
    id: &str,
    name: &str,
    rows: &[&Row<'_>],
    axis: &TimeAxis,
    sheet: &Sheet<'_>,
) -> Markup {
    let strips: Vec<_> = rows.iter().map(|row| row_strip(row, axis, sheet)).collect();
    let about = ChartText {
        id: id.to_owned(),
        title: format!("{name}: response times of each run, p50, p99 and max"),
        description: describe_strips(&strips),
        unit: "",
    };
    panel(&about, &strips, &axis.ticks())
}

/// Estimated response time, shown with the service times of a closed loop.
fn estimate_line(row: &Row<'_>) -> Option<(&'static str, String)> {
    let [p50, p99, max] = crate::humanize::times(row.judged.estimated_response_time.as_ref()?);
    Some(("factors", format!("estimated response time {p50} · {p99} · {max}")))
}

fn row_strip(row: &Row<'_>, axis: &TimeAxis, sheet: &Sheet<'_>) -> ChartRow {
    let times = &row.judged.response_time;
    let [p50, p99, max] = [times.quantile(0.5), times.quantile(0.99), times.max()];
    let mut lines = super::rate_bars::factors(row, sheet);
    lines.extend(estimate_line(row));
    ChartRow {
        name: cut(&row.run.spec.target_name, 16),
        value: format!("{} · {} · {}", Nanos(p50), Nanos(p99), Nanos(max)),
        lines,
        marks: html! {
            line.reach x1=(percent(axis.at(p50))) x2=(percent(axis.at(max))) y1="0" y2="0" {}
            (shape(axis.at(max), "max", BAR))
            (shape(axis.at(p99), "p99", DIAMOND))
            (shape(axis.at(p50), "p50", DISC))
        },
    }
}
