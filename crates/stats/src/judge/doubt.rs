//! The doubts about a pass: those raised in its trials, and those that only the trials together
//! can raise (too few of them, an interval too wide, outliers, a drift), or that only the course of
//! a trial shows (a rate that had not settled).
//!
//! The thresholds are those of `criteria`; the evidence says the number and its limit.

use model::units::{Nanos, three_digits};
use model::{CaveatCode, RunSpec};

use super::{Extent, Judged, JudgedCaveat, Sorted};
use crate::criteria::{
    DRIFT_PROBABILITY_MAX, DRIFT_SHARE_MIN, DRIFT_TRIALS_MIN, HALF_WIDTH_SHARE_MAX,
    STEADY_RANGE_MAX, STEADY_SLOPE_MAX, TRIALS_MIN,
};
use crate::outlier::{modified_z_scores, outliers, score_max};
use crate::steady::{self, Steadiness};
use crate::summary::Summary;
use crate::trend::trend;

/// Every doubt, worst first, then in the order of the codes.
pub(super) fn caveats(spec: &RunSpec, sorted: &Sorted<'_>, judged: &Judged) -> Vec<JudgedCaveat> {
    let mut caveats = of_trials(sorted);
    caveats.extend(not_steady(spec, sorted));
    if let (Some(rate), false) = (&judged.rate, sorted.sound.is_empty()) {
        caveats.extend(too_few(rate));
        caveats.extend(too_wide(rate, judged));
        caveats.extend(far_trials(rate, judged));
        caveats.extend(drift(sorted, judged));
    }
    caveats.sort_by_key(|caveat| (std::cmp::Reverse(caveat.code.severity()), caveat.code));
    caveats
}

/// Each code once, with the first evidence and the number of trials that had it.
fn of_trials(sorted: &Sorted<'_>) -> Vec<JudgedCaveat> {
    let mut found: Vec<(JudgedCaveat, u32)> = Vec::new();
    let mut add = |code, evidence: &str, trial_index| match found
        .iter_mut()
        .find(|(caveat, _)| caveat.code == code)
    {
        Some((_, last)) if *last == trial_index => {}
        Some((caveat, last)) => {
            *last = trial_index;
            if let Extent::Trials { seen, .. } = &mut caveat.extent {
                *seen += 1;
            }
        }
        None => {
            let extent = Extent::Trials { seen: 1, made: sorted.made };
            let evidence = evidence.to_owned();
            found.push((JudgedCaveat { code, extent, evidence }, trial_index));
        }
    };
    for shot in sorted.sound.iter().chain(&sorted.set_aside) {
        for caveat in &shot.result.caveats {
            add(caveat.code, &caveat.evidence, shot.trial.index);
        }
        if shot.trial.state == model::TrialState::Interrupted {
            let evidence = format!("trial {} did not reach its end", shot.trial.index + 1);
            add(CaveatCode::Interrupted, &evidence, shot.trial.index);
        }
    }
    found.into_iter().map(|(caveat, _)| caveat).collect()
}

fn of_run(code: CaveatCode, evidence: String) -> JudgedCaveat {
    JudgedCaveat { code, extent: Extent::Run, evidence }
}

fn too_few(rate: &Summary) -> Option<JudgedCaveat> {
    let plural = if rate.n == 1 { "" } else { "s" };
    (rate.n < TRIALS_MIN).then(|| {
        let evidence = format!("{} sound trial{plural} (at least {TRIALS_MIN})", rate.n);
        of_run(CaveatCode::TooFewTrials, evidence)
    })
}

fn too_wide(rate: &Summary, judged: &Judged) -> Option<JudgedCaveat> {
    let share = rate.half_width_share().filter(|_| rate.n >= TRIALS_MIN)?;
    (share > HALF_WIDTH_SHARE_MAX).then(|| {
        let evidence = format!(
            "the interval from {} to {} is ±{:.0} % of the median {} (at most ±{:.0} %)",
            judged.shown(rate.interval.0),
            judged.shown(rate.interval.1),
            share * 100.0,
            judged.shown(rate.median),
            HALF_WIDTH_SHARE_MAX * 100.0,
        );
        of_run(CaveatCode::WideInterval, evidence)
    })
}

/// Names the worst outlier and says how many there are.
fn far_trials(rate: &Summary, judged: &Judged) -> Option<JudgedCaveat> {
    let used: Vec<_> = judged.points.iter().filter(|point| point.used).collect();
    let figures: Vec<f64> = used.iter().map(|point| point.per_s).collect();
    let limit = score_max(figures.len())?;
    let is_far = outliers(&figures);
    let scores = modified_z_scores(&figures);
    let scored = used.iter().zip(&scores).zip(&is_far);
    let far: Vec<_> = scored.filter(|(_, far)| **far).map(|(scored, _)| scored).collect();
    let (point, score) = far.iter().max_by(|a, b| a.1.distance.total_cmp(&b.1.distance))?;
    let evidence = format!(
        "{} of {} sound trials; trial {} made {}, the median is {} (modified z-score {:.1}, at \
         most {limit} of so many)",
        far.len(),
        rate.n,
        point.trial_index + 1,
        judged.shown(point.per_s),
        judged.shown(rate.median),
        score.z.abs(),
    );
    Some(of_run(CaveatCode::Outlier, evidence))
}

/// Trials in the course of which the rate changed, with the numbers of the first of them.
fn not_steady(spec: &RunSpec, sorted: &Sorted<'_>) -> Option<JudgedCaveat> {
    let uneven = |shot: &super::Shot<'_>| {
        let rounds = steady::rounds(spec, shot.result)?;
        let found = Steadiness::of(&rounds.rates).filter(|found| !found.is_steady())?;
        Some((rounds.shortest_ns, found))
    };
    let mut found = sorted.sound.iter().filter_map(uneven);
    let (round_ns, first) = found.next()?;
    let way = if first.slope < 0.0 { "fell" } else { "rose" };
    let evidence = format!(
        "over five rounds of {} or more the rate ranged over {} % of its mean (at most {:.0} %), \
         and its trend {way} by {} % (at most {:.0} %)",
        Nanos(round_ns),
        three_digits(first.range * 100.0),
        STEADY_RANGE_MAX * 100.0,
        three_digits(first.slope.abs() * 100.0),
        STEADY_SLOPE_MAX * 100.0,
    );
    let seen = 1 + found.count() as u32;
    let extent = Extent::Trials { seen, made: sorted.made };
    Some(JudgedCaveat { code: CaveatCode::NotSteady, extent, evidence })
}

/// Sound trials that rise or fall in the order in which they were made.
fn drift(sorted: &Sorted<'_>, judged: &Judged) -> Option<JudgedCaveat> {
    let mut in_order: Vec<_> = sorted.sound.iter().collect();
    in_order.sort_by_key(|shot| shot.trial.position);
    let rate = |trial| judged.points.iter().find(|p| p.trial_index == trial).map(|p| p.per_s);
    let rates: Vec<f64> = in_order.iter().filter_map(|shot| rate(shot.trial.index)).collect();
    let found = trend(&rates).filter(|_| rates.len() >= DRIFT_TRIALS_MIN)?;
    let is_drift =
        found.probability <= DRIFT_PROBABILITY_MAX && found.change.abs() >= DRIFT_SHARE_MIN;
    is_drift.then(|| {
        let way = if found.change < 0.0 { "fall" } else { "rise" };
        let evidence = format!(
            "{} trials {way} by {} % of their median from the first to the last (at most {:.0} %); \
             by chance {} % of all orders are as regular (Mann and Kendall)",
            rates.len(),
            three_digits(found.change.abs() * 100.0),
            DRIFT_SHARE_MIN * 100.0,
            three_digits(found.probability * 100.0),
        );
        of_run(CaveatCode::Drift, evidence)
    })
}
