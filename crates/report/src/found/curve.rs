//! The answer to `dfsbench curve`: peak, overall response time and knee of each curve.
//!
//! A curve is made of the rows that differ in the offered load alone. What was not carried is told
//! of and drawn, and is never a peak. Results go by no benchmark's name.

mod figure;
mod words;

use model::question::{CurveRequest, ResponseBound};
use model::units::{Nanos, three_digits};
use serde_json::{Value, json};
use stats::Rate;
use stats::curve::{
    CLIENT_SHARE_MIN, Curve, FAILED_SHARE_MAX, Knee, LoadPoint, MIX_OPS_MIN, MIX_POINTS_MAX,
};

use super::Found;
use crate::document::{Column, Role, Table, TableRow};
use crate::sheet::{Row, Sheet};

pub use figure::pictures;

/// A curve and what it is called.
#[derive(Clone, Debug)]
pub struct Named {
    /// Target and workload, and settings that tell it from the others.
    pub name: String,
    /// Its load points.
    pub curve: Curve,
}

/// The curves of some rows of a campaign, in order of appearance; their names leave some settings
/// unsaid.
pub fn curves<'a>(
    sheet: &Sheet<'_>,
    rows: impl Iterator<Item = &'a Row<'a>>,
    asked: &CurveRequest,
    unsaid: &[&str],
) -> Vec<Named> {
    let mut named: Vec<(String, Vec<LoadPoint>)> = Vec::new();
    for row in rows.filter(|row| row.run.spec.load.rate_per_s > 0) {
        let name = sheet.name_without(row, unsaid);
        let point = LoadPoint::of(row.run, &row.judged, &asked.mix);
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => named.push((name, vec![point])),
        }
    }
    let curve = |(name, points)| Named { name, curve: Curve::new(points) };
    named.into_iter().map(curve).collect()
}

/// Answers a load-response campaign.
pub fn of(sheet: &Sheet<'_>, asked: &CurveRequest) -> Found {
    let curves = curves(sheet, sheet.rows.iter(), asked, &["rate"]);
    let mut sentences = Vec::new();
    for named in &curves {
        sentences.extend(words::of(named, asked));
    }
    sentences.extend(words::conditions(sheet, asked));
    let json = curves.iter().map(|named| curve_json(named, asked.bound.as_ref()));
    Found {
        title: "How much it carries",
        sentences,
        tables: curves.iter().map(|named| curve_table(named, asked.bound.as_ref())).collect(),
        pictures: pictures(&curves),
        json: json!({ "maximum": asked.maximum, "curves": json.collect::<Vec<Value>>() }),
    }
}

fn curve_table(named: &Named, bound: Option<&ResponseBound>) -> Table {
    let columns = [
        ("offered", Role::Number),
        ("done", Role::Number),
        ("share", Role::Number),
        ("mean", Role::Number),
        ("p50", Role::Number),
        ("p90", Role::Number),
        ("p99", Role::Number),
        ("load point", Role::Words),
    ];
    let row = |point: &LoadPoint| {
        let time = |q: f64| Nanos(point.response_time.quantile(q)).to_string();
        let figures = match &point.missing {
            Some(_) => vec!["–".to_owned(); 6],
            None => vec![
                Rate::Ops(point.achieved_per_s).to_string(),
                format!("{} %", three_digits(point.share() * 100.0)),
                Nanos(point.mean_ns).to_string(),
                time(0.5),
                time(0.9),
                time(0.99),
            ],
        };
        let offered = vec![Rate::Ops(point.requested_per_s as f64).to_string()];
        [offered, figures, vec![words::cell(point, bound)]].concat()
    };
    Table {
        caption: format!("Load points of {}, response times from due to done", named.name),
        columns: Column::all(&columns),
        rows: TableRow::all(named.curve.points().iter().map(row)),
        reading: vec![
            "share: of the ops that fell due, those that were done; below 95 % a load point is \
             not carried, and its response times are of what was done."
                .to_owned(),
            format!(
                "Other rules: each kind of op within {MIX_POINTS_MAX} points of its share (judged \
                 from {MIX_OPS_MIN} ops on), less than {:.0} % of the ops fail, each client does \
                 at least {:.0} % of its part.",
                FAILED_SHARE_MAX * 100.0,
                CLIENT_SHARE_MIN * 100.0
            ),
        ],
        ..Table::default()
    }
}

/// A curve for programs.
fn curve_json(named: &Named, bound: Option<&ResponseBound>) -> Value {
    let curve = &named.curve;
    let point = |point: &LoadPoint| {
        let time = |q: f64| point.response_time.quantile(q);
        let broken: Vec<String> = point.broken.iter().map(ToString::to_string).collect();
        json!({
            "asked_ops_per_s": point.requested_per_s,
            "offered_ops_per_s": point.offered_per_s,
            "achieved_ops_per_s": point.achieved_per_s,
            "response_time_mean_ns": point.mean_ns,
            "response_time_p50_ns": time(0.5),
            "response_time_p90_ns": time(0.9),
            "response_time_p99_ns": time(0.99),
            "standing": point.standing().name(),
            "broken_rules": broken,
            "client_saturated": point.client_saturated,
            "missing": point.missing,
        })
    };
    let knee = match curve.knee() {
        Knee::Bend { at_per_s, interval_per_s: (low, high) } => json!({
            "kind": "bend", "ops_per_s": at_per_s,
            "interval_lo_ops_per_s": low, "interval_hi_ops_per_s": high,
        }),
        Knee::Cliff { carried_per_s, short_per_s } => json!({
            "kind": "cliff",
            "interval_lo_ops_per_s": carried_per_s, "interval_hi_ops_per_s": short_per_s,
        }),
        Knee::Straight => json!({ "kind": "none" }),
        Knee::TooFew(points) => json!({ "kind": "unknown", "load_points": points }),
    };
    json!({
        "name": named.name,
        "peak_ops_per_s": curve.peak().map(|peak| peak.achieved_per_s),
        "overall_response_time_ns": curve.overall_ns(),
        "knee": knee,
        "under_bound_ops_per_s":
            bound.map(|bound| curve.under(|point| point.keeps(bound)).map(|p| p.achieved_per_s)),
        "is_whole": curve.holes().is_empty(),
        "load_points": curve.points().iter().map(point).collect::<Vec<Value>>(),
    })
}
