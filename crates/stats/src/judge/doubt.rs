//! The doubts about a pass: those raised in its trials, and those that only the trials together
//! can raise (too few of them, an interval too wide, outliers).
//!
//! The thresholds are those of `criteria`; the evidence says the number and its limit.

use model::CaveatCode;

use super::{Extent, Judged, JudgedCaveat, Sorted};
use crate::criteria::{HALF_WIDTH_SHARE_MAX, OUTLIER_SCORE_MAX, OUTLIER_TRIALS_MIN, TRIALS_MIN};
use crate::outlier::{is_outlier, modified_z_scores};
use crate::summary::Summary;

/// Every doubt, worst first, then in the order of the codes.
pub(super) fn caveats(sorted: &Sorted<'_>, judged: &Judged) -> Vec<JudgedCaveat> {
    let mut caveats = of_trials(sorted);
    if let (Some(rate), false) = (&judged.rate, sorted.sound.is_empty()) {
        caveats.extend(too_few(rate));
        caveats.extend(too_wide(rate, judged));
        caveats.extend(outliers(rate, judged));
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
fn outliers(rate: &Summary, judged: &Judged) -> Option<JudgedCaveat> {
    if rate.n < OUTLIER_TRIALS_MIN {
        return None;
    }
    let used: Vec<_> = judged.points.iter().filter(|point| point.used).collect();
    let figures: Vec<f64> = used.iter().map(|point| point.per_s).collect();
    let scores = modified_z_scores(&figures);
    let far: Vec<_> =
        used.iter().zip(&scores).filter(|(_, score)| is_outlier(score, rate.median)).collect();
    let (point, score) = far.iter().max_by(|a, b| a.1.distance.total_cmp(&b.1.distance))?;
    let evidence = format!(
        "{} of {} sound trials; trial {} made {}, the median is {} (modified z-score {:.1}, at \
         most {OUTLIER_SCORE_MAX})",
        far.len(),
        rate.n,
        point.trial_index + 1,
        judged.shown(point.per_s),
        judged.shown(rate.median),
        score.z.abs(),
    );
    Some(of_run(CaveatCode::Outlier, evidence))
}
