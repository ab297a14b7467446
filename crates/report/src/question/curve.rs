//! Answers `dfsbench curve`: peak, overall response time and knee of each curve.
//!
//! A curve consists of the rows that differ only in the offered load. Loads that were not sustained
//! are described and drawn, but are never a peak. The results are not SPEC SFS results.

mod picture;
mod sentences;

use model::question::{CurveRequest, ResponseBound};
use model::units::{Nanos, three_digits};
use serde_json::{Value, json};
use stats::Rate;
use stats::curve::{
    CLIENT_SHARE_MIN, Curve, FAILED_SHARE_MAX, Knee, LoadPoint, MIX_OPS_MIN, MIX_POINTS_MAX,
};

use super::QuestionAnswer;
use crate::document::{Column, Role, Table, TableRow};
use crate::table::{Row, Sheet};

pub(crate) use picture::{pictures, pictures_of_two};

/// Curve with its name.
#[derive(Clone, Debug)]
pub(crate) struct NamedCurve {
    /// Target, workload, and the settings that distinguish it from other curves.
    pub name: String,
    pub curve: Curve,
}

/// Curves among the rows of a campaign, in order of appearance. `omitted` settings are not part of
/// their names.
pub(crate) fn curves<'a>(
    sheet: &Sheet<'_>,
    rows: impl Iterator<Item = &'a Row<'a>>,
    request: &CurveRequest,
    omitted: &[&str],
) -> Vec<NamedCurve> {
    let mut named: Vec<(String, Vec<LoadPoint>)> = Vec::new();
    for row in rows {
        // A closed loop offers no load, so it is not a point of a curve.
        if row.run.spec.load.rate_per_s == 0 {
            continue;
        }
        let name = sheet.name_without(row, omitted);
        let point = LoadPoint::from_run(row.run, &row.judged, &request.mix);
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => named.push((name, vec![point])),
        }
    }
    named.into_iter().map(|(name, points)| NamedCurve { name, curve: Curve::new(points) }).collect()
}

/// Answers a load-response campaign.
pub(crate) fn answer(sheet: &Sheet<'_>, request: &CurveRequest) -> QuestionAnswer {
    let curves = curves(sheet, sheet.rows.iter(), request, &["rate"]);
    let mut found = QuestionAnswer { title: "Sustained load", ..QuestionAnswer::default() };
    let mut json_curves = Vec::new();
    for named in &curves {
        found.sentences.extend(sentences::describe(named, request));
        found.tables.push(curve_table(named, request.bound.as_ref()));
        json_curves.push(curve_json(named, request.bound.as_ref()));
    }
    found.sentences.extend(sentences::conditions(sheet, request));
    found.pictures = pictures(&curves);
    found.json = json!({ "maximum": request.maximum, "curves": json_curves });
    found
}

fn curve_table(named: &NamedCurve, bound: Option<&ResponseBound>) -> Table {
    let columns = [
        ("offered", Role::Number),
        ("done", Role::Rate),
        ("share", Role::Number),
        ("mean", Role::Number),
        ("p50", Role::Number),
        ("p95", Role::Number),
        ("p99", Role::Number),
        ("load point", Role::Words),
    ];
    let mut rows = Vec::new();
    for point in named.curve.points() {
        let times = &point.response_time;
        let mut cells = vec![Rate::Ops(point.requested_per_s as f64).to_string()];
        if point.missing.is_some() {
            cells.resize(7, "–".to_owned());
        } else {
            cells.push(Rate::Ops(point.achieved_per_s).to_string());
            cells.push(format!("{} %", three_digits(point.share() * 100.0)));
            cells.push(Nanos(point.mean_ns).to_string());
            cells.extend(
                [0.5, 0.95, 0.99].into_iter().map(|q| Nanos(times.quantile(q)).to_string()),
            );
        }
        cells.push(sentences::cell(point, bound));
        rows.push(cells);
    }
    let mut columns = Column::all(&columns);
    Column::leave_in_order(&mut columns, &["p95", "p50", "share", "mean"]);
    Table {
        caption: format!(
            "Load points of {}; response times: scheduled start to completion",
            named.name
        ),
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: vec![
            "share: completed ops as a share of the scheduled ones. Below 95 %, a load point is \
             not sustained, and its response times are those of the completed ops."
                .to_owned(),
            format!(
                "Other rules: each kind of op is within {MIX_POINTS_MAX} percentage points of its \
                 share (from {MIX_OPS_MIN} ops on), less than {:.0} % of the ops fail, and each \
                 client does at least {:.0} % of its share.",
                FAILED_SHARE_MAX * 100.0,
                CLIENT_SHARE_MIN * 100.0
            ),
        ],
        ..Table::default()
    }
}

fn curve_json(named: &NamedCurve, bound: Option<&ResponseBound>) -> Value {
    let curve = &named.curve;
    let mut load_points = Vec::new();
    for point in curve.points() {
        let times = &point.response_time;
        let broken: Vec<String> = point.broken.iter().map(ToString::to_string).collect();
        load_points.push(json!({
            "asked_ops_per_s": point.requested_per_s,
            "offered_ops_per_s": point.offered_per_s,
            "achieved_ops_per_s": point.achieved_per_s,
            "response_time_mean_ns": point.mean_ns,
            "response_time_p50_ns": times.quantile(0.5),
            "response_time_p90_ns": times.quantile(0.9),
            "response_time_p95_ns": times.quantile(0.95),
            "response_time_p99_ns": times.quantile(0.99),
            "standing": point.status().name(),
            "broken_rules": broken,
            "client_saturated": point.client_saturated,
            "missing": point.missing,
        }));
    }
    // A knee always has an interval. If the curve ends in a cliff, it is between the last load that
    // was sustained and the first that was not.
    let knee = match curve.knee() {
        Knee::Bend { at_per_s, interval_per_s: (low, high) } => json!({
            "kind": "bend", "ops_per_s": at_per_s,
            "interval_lo_ops_per_s": low, "interval_hi_ops_per_s": high,
        }),
        Knee::Cliff { sustained_per_s, short_per_s } => json!({
            "kind": "cliff",
            "interval_lo_ops_per_s": sustained_per_s, "interval_hi_ops_per_s": short_per_s,
        }),
        Knee::Straight => json!({ "kind": "none" }),
        Knee::TooFew(points) => json!({ "kind": "unknown", "load_points": points }),
    };
    // `null` if there is no bound or no load point meets it.
    let mut under_bound = None;
    if let Some(bound) = bound
        && let Some(point) = curve.heaviest_within(|point| point.meets_bound(bound))
    {
        under_bound = Some(point.achieved_per_s);
    }
    json!({
        "name": named.name,
        "peak_ops_per_s": curve.peak().map(|peak| peak.achieved_per_s),
        "overall_response_time_ns": curve.overall_ns(),
        "knee": knee,
        "under_bound_ops_per_s": under_bound,
        "is_whole": curve.holes().is_empty(),
        "load_points": load_points,
    })
}
