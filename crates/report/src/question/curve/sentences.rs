//! Describes a load-response curve in sentences.
//!
//! All numbers come from [`stats::curve`]; unknown results are named as such.

use model::question::{CurveRequest, ResponseBound};
use model::units::Nanos;
use stats::Rate;
use stats::curve::{Curve, Knee, LoadPoint, PointStatus, RuleViolation};

use super::NamedCurve;
use crate::humanize::counted;
use crate::table::Sheet;

/// Warm-up and duration of a load point in SPEC SFS, in milliseconds.
///
/// **Source:** SPEC SFS 3.0: 300 s each.
const SPEC_SFS_MS: u64 = 300_000;

/// Maximum number of load points to describe one by one.
const DESCRIBED_MAX: usize = 4;

pub(super) fn describe(named: &NamedCurve, request: &CurveRequest) -> Vec<String> {
    let name = &named.name;
    let curve = &named.curve;
    let mut sentences = Vec::new();
    if let Some(bound) = &request.bound {
        sentences.push(format!("{name}: {}", describe_bound(curve, bound)));
    } else {
        sentences.push(format!("{name}: {}", describe_peak(curve)));
        sentences.extend(describe_knee(curve));
    }
    sentences.extend(describe_uncounted(curve));
    sentences
}

fn format_ops(per_s: f64) -> String {
    Rate::Ops(per_s).to_string()
}

fn describe_peak(curve: &Curve) -> String {
    let Some(peak) = curve.peak() else {
        return "no load point was sustained, so there is no peak.".to_owned();
    };
    let overall = match curve.overall_ns() {
        Some(ns) => format!("overall response time {}", Nanos(ns as u64)),
        None => "a single load point has no overall response time".to_owned(),
    };
    let beyond = if curve.too_much().is_none() {
        " The highest load was sustained, so the peak may be higher (--max-load)."
    } else {
        ""
    };
    format!(
        "peak {} at a mean response time of {} (p99 {}); {overall}.{beyond}",
        format_ops(peak.achieved_per_s),
        Nanos(peak.mean_ns),
        Nanos(peak.response_time.quantile(0.99)),
    )
}

fn describe_knee(curve: &Curve) -> Option<String> {
    Some(match curve.knee() {
        Knee::Bend { at_per_s, interval_per_s: (low, high) } => format!(
            "The knee, where response times start to rise steeply, is at {} (95 % interval {} to {}).",
            format_ops(at_per_s),
            format_ops(low),
            format_ops(high)
        ),
        Knee::Cliff { sustained_per_s, short_per_s } => format!(
            "The curve shows no clear knee; it lies between {} and {}.",
            format_ops(sustained_per_s),
            format_ops(short_per_s)
        ),
        Knee::Straight => "The curve shows no clear knee up to the peak.".to_owned(),
        Knee::TooFew(_) if curve.peak().is_none() => return None,
        Knee::TooFew(points) => {
            format!("{} are too few to find a knee.", counted(points, "valid load point"))
        }
    })
}

/// Describes the highest load that meets a bound.
fn describe_bound(curve: &Curve, bound: &ResponseBound) -> String {
    let limit = bound.describe();
    let heaviest = curve.heaviest_within(|point| point.meets_bound(bound));
    let first_over = curve.points().iter().find(|point| !point.meets_bound(bound));
    match (heaviest, first_over) {
        (Some(best), None) => format!(
            "the highest load tried, {} ({}), has {limit}; raise --max-load to find the limit.",
            format_ops(best.achieved_per_s),
            Nanos(best.time_ns(bound))
        ),
        (Some(best), Some(over)) => format!(
            "the highest load with {limit} is {} ({}). At {}: {}. Found with {}.{}",
            format_ops(best.achieved_per_s),
            Nanos(best.time_ns(bound)),
            format_ops(over.requested_per_s as f64),
            explain_miss(over, bound),
            counted(curve.points().len(), "load point"),
            explain_client_limit(over)
        ),
        (None, Some(first)) => format!(
            "no load has {limit}, not even the lowest one tried, {} ({}).{}",
            format_ops(first.requested_per_s as f64),
            explain_miss(first, bound),
            explain_client_limit(first)
        ),
        (None, None) => format!("no load was tried that could have {limit}."),
    }
}

/// Notes if the client may be the reason that a load point exceeds a bound.
const fn explain_client_limit(point: &LoadPoint) -> &'static str {
    if point.client_saturated {
        " This host was short of CPU time there, so the limit may not be the server's."
    } else {
        ""
    }
}

/// Explains why a load point does not meet a bound.
fn explain_miss(point: &LoadPoint, bound: &ResponseBound) -> String {
    match point.status() {
        PointStatus::Sustained => format!("{} {}", bound.name(), Nanos(point.time_ns(bound))),
        _ => describe_standing(point),
    }
}

/// Describes load points that do not count.
fn describe_uncounted(curve: &Curve) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut further = 0;
    let mut is_client_limited = false;
    for point in curve.points() {
        if point.status() == PointStatus::Sustained {
            continue;
        }
        is_client_limited |= point.client_saturated;
        if sentences.len() < DESCRIBED_MAX {
            sentences.push(describe_point(point));
        } else {
            further += 1;
        }
    }
    if further > 0 {
        let more = counted(further, "more load point");
        sentences.push(format!("{more}: see the table."));
    }
    if is_client_limited {
        sentences.push(
            "This host was short of CPU time there, so the limit may not be the server's."
                .to_owned(),
        );
    }
    sentences.extend(describe_client_limited(curve));
    let holes = curve.holes().len();
    if holes > 0 {
        sentences.push(format!(
            "{} below the peak {} not count, so the curve breaks the rules: repeat it on an idle \
             machine.",
            counted(holes, "load point"),
            if holes == 1 { "does" } else { "do" }
        ));
    }
    sentences
}

/// Counts the valid load points whose response times may have been limited by the client.
fn describe_client_limited(curve: &Curve) -> Option<String> {
    let mut all = 0;
    let mut limited = 0;
    for point in curve.points() {
        if point.status() == PointStatus::Sustained {
            all += 1;
            limited += usize::from(point.client_saturated);
        }
    }
    let which = match (limited, all) {
        (0, _) => return None,
        (1, 1) => "the only sustained load point".to_owned(),
        (some, _) if some == all => format!("all {all} sustained load points"),
        (some, _) => format!("{some} of the {all} sustained load points"),
    };
    Some(format!(
        "In {which}, this host was short of CPU time (client-saturated or processor-contention), \
         so response times include delays of the client."
    ))
}

fn describe_point(point: &LoadPoint) -> String {
    let offered = format_ops(point.requested_per_s as f64);
    match point.status() {
        PointStatus::Short => format!(
            "Of {offered} offered, {} were completed ({:.0} %): not sustained.",
            format_ops(point.achieved_per_s),
            point.share() * 100.0
        ),
        _ => format!("The load point of {offered} does not count: {}.", describe_standing(point)),
    }
}

/// Formats the rating of a load point in one cell, with the names of the rules it breaks.
pub(super) fn cell(point: &LoadPoint, bound: Option<&ResponseBound>) -> String {
    let name = match (point.status(), bound) {
        (PointStatus::Sustained, Some(bound)) if !point.meets_bound(bound) => "too slow",
        (standing, _) => standing.name(),
    };
    let rules: Vec<&str> = point.broken.iter().map(RuleViolation::name).collect();
    if rules.is_empty() { name.to_owned() } else { format!("{name}: {}", rules.join(", ")) }
}

/// Describes the rating of a load point with the reasons.
fn describe_standing(point: &LoadPoint) -> String {
    let reasons: Vec<String> = match &point.missing {
        Some(why) => vec![why.lines().next().unwrap_or_default().to_owned()],
        None => point.broken.iter().map(RuleViolation::to_string).collect(),
    };
    let name = point.status().name();
    if reasons.is_empty() { name.to_owned() } else { format!("{name}: {}", reasons.join(", ")) }
}

/// Describes the conditions of all curves: the mix, how the highest load was determined, and
/// deviations from common practice.
pub(super) fn conditions(sheet: &Sheet<'_>, request: &CurveRequest) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(found) = request.maximum.found {
        let files = match found.files {
            0 => String::new(),
            files => format!(" on {files} files"),
        };
        sentences.push(format!(
            "The heaviest load is the rate of a closed loop of {} with the same mix{files}: {}.",
            Nanos(found.window_ns),
            format_ops(found.per_s() as f64)
        ));
    }
    let mut warmup = u64::MAX;
    let mut run = u64::MAX;
    for run_of_point in &sheet.campaign.runs {
        warmup = warmup.min(run_of_point.spec.warmup_ns());
        run = run.min(run_of_point.spec.duration_ms);
    }
    if sheet.campaign.runs.is_empty() {
        warmup = 0;
        run = 0;
    }
    let mix = match request.mix_name.as_str() {
        "" => "The mix is one of reads and writes".to_owned(),
        name => format!("The mix is the LADDIS-like mix `{name}`"),
    };
    let lasts = Nanos(run * 1_000_000);
    let times = match warmup {
        0 => format!("for {lasts} without warm-up"),
        warmup => format!("for {lasts} after {} of warm-up", Nanos(warmup)),
    };
    let short = if warmup < SPEC_SFS_MS * 1_000_000 || run < SPEC_SFS_MS {
        "; SPEC SFS uses 300 s for each"
    } else {
        ""
    };
    sentences
        .push(format!("{mix}, each load point {times}{short}. These are not SPEC SFS results."));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sustained load points of 100, 200, ... op/s; the client was at its limit in those marked as
    /// `limited`.
    fn curve(limited: &[bool]) -> Curve {
        let point = |(number, client_saturated): (u64, &bool)| LoadPoint {
            offered_per_s: number as f64 * 100.0,
            achieved_per_s: number as f64 * 100.0,
            client_saturated: *client_saturated,
            missing: None,
            ..LoadPoint::missing(number * 100, String::new())
        };
        Curve::new((1..).zip(limited).map(point).collect())
    }

    #[test]
    fn describes_load_at_client_limit() {
        let describe = |limited: &[bool]| describe_uncounted(&curve(limited)).join(" ");
        assert_eq!(describe(&[false, false]), "");
        let limits = [&[false, true, true][..], &[true, true], &[true]].map(describe);
        insta::assert_snapshot!(limits.join("\n"));
    }
}
