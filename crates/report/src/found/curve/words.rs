//! Describes a load-response curve in sentences.
//!
//! Nothing here is computed but what [`stats::curve`] computes; what can't be told is said so.

use model::question::{CurveRequest, ResponseBound};
use model::units::Nanos;
use stats::Rate;
use stats::curve::{Broken, Curve, Knee, LoadPoint, Standing};

use super::Named;
use crate::sheet::Sheet;
use crate::show::counted;

/// Warm-up and run that the field asks of a load point, in milliseconds.
///
/// **Source:** SPEC SFS 3.0: 300 s each.
const FIELD_MS: u64 = 300_000;

/// So many load points are told of one by one.
const TOLD_MAX: usize = 4;

/// Describes one curve.
pub fn of(named: &Named, asked: &CurveRequest) -> Vec<String> {
    let (name, curve) = (&named.name, &named.curve);
    let mut said = Vec::new();
    if let Some(bound) = &asked.bound {
        said.push(format!("{name}: {}", describe_bound(curve, bound)));
    } else {
        said.push(format!("{name}: {}", describe_peak(curve)));
        said.extend(describe_knee(curve));
    }
    said.extend(describe_uncounted(curve));
    said
}

fn format_ops(per_s: f64) -> String {
    Rate::Ops(per_s).to_string()
}

fn describe_peak(curve: &Curve) -> String {
    let Some(peak) = curve.peak() else {
        return "no load point was carried by the rules: there is no peak.".to_owned();
    };
    let overall = curve.overall_ns().map_or_else(
        || "one load point alone has no overall response time".to_owned(),
        |ns| format!("overall response time {}", Nanos(ns as u64)),
    );
    let beyond = if curve.too_much().is_none() {
        " The heaviest load that was offered was carried: the peak may lie above it (--max-load)."
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
            "Response times begin to rise steeply at {} (95 % interval {} to {}): the knee.",
            format_ops(at_per_s),
            format_ops(low),
            format_ops(high)
        ),
        Knee::Cliff { carried_per_s, short_per_s } => format!(
            "No bend can be told from noise up to the peak, and {} is not carried any more: the \
             knee lies between {} and that.",
            format_ops(short_per_s),
            format_ops(carried_per_s)
        ),
        Knee::Straight => "No knee can be told from noise up to the peak.".to_owned(),
        Knee::TooFew(_) if curve.peak().is_none() => return None,
        Knee::TooFew(points) => {
            format!("{} that count say nothing of a knee.", counted(points, "load point"))
        }
    })
}

/// The heaviest load under a bound.
fn describe_bound(curve: &Curve, bound: &ResponseBound) -> String {
    let told = bound.describe();
    let is_kept = |point: &LoadPoint| point.keeps(bound);
    let time = |point: &LoadPoint| Nanos(point.time_ns(bound));
    match (curve.under(is_kept), curve.points().iter().find(|point| !is_kept(point))) {
        (Some(best), None) => format!(
            "{} keep {told}, at {}, and no heavier load was tried (--max-load).",
            format_ops(best.achieved_per_s),
            time(best)
        ),
        (Some(best), Some(over)) => format!(
            "{} keep {told}, at {}; {} do not ({}). Found with {}.{}",
            format_ops(best.achieved_per_s),
            time(best),
            format_ops(over.requested_per_s as f64),
            explain_miss(over, bound),
            counted(curve.points().len(), "load point"),
            explain_client_limit(over)
        ),
        (None, Some(first)) => format!(
            "no load keeps {told}: the lightest that was tried, {}, does not ({}).{}",
            format_ops(first.requested_per_s as f64),
            explain_miss(first, bound),
            explain_client_limit(first)
        ),
        (None, None) => format!("no load was tried that could keep {told}."),
    }
}

/// Doubts whether a load point that does not keep a bound says so of the server.
const fn explain_client_limit(point: &LoadPoint) -> &'static str {
    if point.client_saturated {
        " The client was at its own limit there (client-saturated): that may be its doing, and not \
         the server's."
    } else {
        ""
    }
}

/// Why a load point does not keep a bound.
fn explain_miss(point: &LoadPoint, bound: &ResponseBound) -> String {
    match point.standing() {
        Standing::Carried => format!("{} {}", bound.name(), Nanos(point.time_ns(bound))),
        _ => describe_standing(point),
    }
}

/// Load points that don't count.
fn describe_uncounted(curve: &Curve) -> Vec<String> {
    let bad: Vec<&LoadPoint> =
        curve.points().iter().filter(|point| point.standing() != Standing::Carried).collect();
    let holes = curve.holes().len();
    let mut said: Vec<String> =
        bad.iter().take(TOLD_MAX).map(|point| describe_point(point)).collect();
    if bad.len() > TOLD_MAX {
        let more = counted(bad.len() - TOLD_MAX, "more load point");
        said.push(format!("The same of {more}: see the table."));
    }
    if bad.iter().any(|point| point.client_saturated) {
        said.push(
            "The client was at its own limit there (client-saturated): what is not carried may be \
             its doing, and not the server's."
                .to_owned(),
        );
    }
    said.extend(limited_ones(curve));
    if holes > 0 {
        said.push(format!(
            "{} below the peak {} not count, so the curve is not one by the rules: repeat it when \
             nothing else is going on.",
            counted(holes, "load point"),
            if holes == 1 { "does" } else { "do" }
        ));
    }
    said
}

/// Counts the valid load points whose response times the client may have limited.
fn limited_ones(curve: &Curve) -> Option<String> {
    let counts = |point: &&LoadPoint| point.standing() == Standing::Carried;
    let all = curve.points().iter().filter(counts).count();
    let limited = curve.points().iter().filter(counts).filter(|point| point.client_saturated);
    let which = match (limited.count(), all) {
        (0, _) => return None,
        (1, 1) => "the one load point that was carried".to_owned(),
        (some, _) if some == all => format!("all {all} load points that were carried"),
        (some, _) => format!("{some} of the {all} load points that were carried"),
    };
    Some(format!(
        "In {which} the client was at its own limit (client-saturated): response times there are \
         its own as much as the server's."
    ))
}

fn describe_point(point: &LoadPoint) -> String {
    let offered = format_ops(point.requested_per_s as f64);
    match point.standing() {
        Standing::Short => format!(
            "Of {offered} offered, {} were done ({:.0} %): not carried.",
            format_ops(point.achieved_per_s),
            point.share() * 100.0
        ),
        _ => format!("The load point of {offered} does not count: {}.", describe_standing(point)),
    }
}

/// Rates a load point in one cell, with the names of the rules that it breaks.
pub fn cell(point: &LoadPoint, bound: Option<&ResponseBound>) -> String {
    let name = match (point.standing(), bound) {
        (Standing::Carried, Some(bound)) if !point.keeps(bound) => "too slow",
        (standing, _) => standing.name(),
    };
    let rules: Vec<&str> = point.broken.iter().map(Broken::name).collect();
    if rules.is_empty() { name.to_owned() } else { format!("{name}: {}", rules.join(", ")) }
}

/// Rates a load point, with the reasons.
fn describe_standing(point: &LoadPoint) -> String {
    let reasons: Vec<String> = match &point.missing {
        Some(why) => vec![why.lines().next().unwrap_or_default().to_owned()],
        None => point.broken.iter().map(Broken::to_string).collect(),
    };
    let name = point.standing().name();
    if reasons.is_empty() { name.to_owned() } else { format!("{name}: {}", reasons.join(", ")) }
}

/// Returns the conditions of all curves: the mix, where the heaviest load comes from, and
/// deviations from the field's practice.
pub fn conditions(sheet: &Sheet<'_>, asked: &CurveRequest) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(found) = asked.maximum.found {
        let files = match found.files {
            0 => String::new(),
            files => format!(" on {files} files"),
        };
        said.push(format!(
            "The heaviest load is what a closed loop of {} with the same mix{files} got done: {}.",
            Nanos(found.window_ns),
            format_ops(found.per_s() as f64)
        ));
    }
    let runs = || sheet.campaign.runs.iter().map(|run| &run.spec);
    let mix = match asked.mix_name.as_str() {
        "" => "The mix is one of reads and writes".to_owned(),
        name => format!("The mix is the LADDIS-like mix `{name}`"),
    };
    let warmup = runs().map(model::RunSpec::warmup_ns).min().unwrap_or(0);
    let run = runs().map(|run| run.duration_ms).min().unwrap_or(0);
    let times = format!("after {} of warm-up for {}", Nanos(warmup), Nanos(run * 1_000_000));
    let short = if warmup < FIELD_MS * 1_000_000 || run < FIELD_MS {
        "; the field takes 300 s for each"
    } else {
        ""
    };
    said.push(format!("{mix}, each load point {times}{short}. These are results of no benchmark."));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Load points of 100, 200 ... op/s, carried all of them, in some of which the client was at
    /// its own limit.
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
    fn what_was_carried_while_the_client_was_at_its_limit_is_told() {
        let describe = |limited: &[bool]| describe_uncounted(&curve(limited)).join(" ");
        assert_eq!(describe(&[false, false]), "");
        let which = |said: String| said.split(" the client was").next().unwrap().to_owned();
        assert_eq!(
            which(describe(&[false, true, true])),
            "In 2 of the 3 load points that were carried"
        );
        assert_eq!(which(describe(&[true, true])), "In all 2 load points that were carried");
        assert_eq!(which(describe(&[true])), "In the one load point that was carried");
    }
}
