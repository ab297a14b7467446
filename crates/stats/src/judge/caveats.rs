//! Caveats about a pass, from three sources: its trials, all trials together (too few, wide
//! interval, outliers, drift), and the timeline of a trial (unsteady rate).
//!
//! The thresholds are in `criteria`; the evidence contains the number and its limit. Outliers,
//! drifts and dependent trials are always detected, but are only notes if they cannot change the
//! result by more than the requested accuracy ([`accuracy_max`]).

use std::fmt::Write as _;

use model::units::{Nanos, three_digits};
use model::{Caveat, CaveatCode, Evidence, InterferenceRule, Repetition, RunSpec, Severity};

use super::bursts::{check_burst, drop_of};
use super::rates::{comparable_rate, pass_rate};
use super::{CaveatExtent, Judged, JudgedCaveat, PassTrial, TrialGroups};
use crate::criteria::{
    DRIFT_SHARE_MIN, DRIFT_TRIALS_MIN, EFFECT_MIN, HALF_WIDTH_SHARE_MAX, INTERACT_PROBABILITY_MAX,
    INTERACT_RANGE_MIN, INTERACT_TRIALS_MIN, OUTLIER_DISCARD_SHARE_MAX, RESULTS_SHARE_MAX,
    STEADY_RANGE_MAX, STEADY_SLOPE_MAX, TRIALS_MIN, drift_probability_max,
};
use crate::dependence::{Dependence, neighbours};
use crate::interference::{Disturbance, Explanation, explanation, limit_of};
use crate::outlier::{modified_z_scores, outliers, score_max};
use crate::rate::Rate;
use crate::steady::{self, Steadiness};
use crate::summary::{Summary, median, summary};
use crate::trend::trend;

/// Collects all caveats, worst first, then in the order of the codes.
pub(super) fn collect(
    spec: &RunSpec,
    sorted: &TrialGroups<'_>,
    judged: &Judged,
) -> Vec<JudgedCaveat> {
    let mut caveats = from_trials(sorted);
    caveats.extend(check_burst(spec, sorted, judged.pass));
    caveats.extend(check_steady(spec, sorted));
    caveats.extend(check_interference(spec, sorted));
    // If all trials were set aside, the verdict is invalid whatever their spread.
    if let Some(rate) = &judged.rate
        && !sorted.sound.is_empty()
    {
        caveats.extend(check_count(rate));
        caveats.extend(check_width(rate, sorted, judged));
        caveats.extend(check_kinds(sorted, judged));
        caveats.extend(check_outliers(rate, judged, accuracy_max(&spec.repetition)));
        // Trials that rise or fall all the way also depend on previous ones, but that has already
        // been reported.
        match check_drift(sorted, judged, accuracy_max(&spec.repetition)) {
            Some(drift) => caveats.push(drift),
            None => caveats.extend(check_interaction(
                rate,
                sorted,
                judged,
                accuracy_max(&spec.repetition),
            )),
        }
    }
    caveats.extend(check_ranks(judged, &caveats));
    for caveat in &mut caveats {
        // A server in this process shares the host with its client, which users know when they
        // choose it.
        if caveat.code == CaveatCode::SharedHost && spec.target.is_embedded() {
            caveat.extent = CaveatExtent::Arrangement;
        }
        if caveat.code == CaveatCode::ResultsOnTarget && !are_results_large(sorted) {
            caveat.extent = CaveatExtent::Arrangement;
        }
        // A straggler has a single number: over all trials, as displayed next to its host.
        if caveat.code == CaveatCode::Straggler
            && caveat.extent != CaveatExtent::Run
            && let Some(hosts) = &judged.hosts
            && let Some(slowest) = hosts.describe_stragglers().into_iter().next()
        {
            let plural = if hosts.trials == 1 { "" } else { "s" };
            caveat.evidence = format!("host {slowest}, over {} trial{plural}", hosts.trials);
            caveat.data = hosts.slowest_share();
        }
        caveat.advice = caveat.code.advice_for(spec, judged.pass);
    }
    caveats.sort_by_key(|caveat| (std::cmp::Reverse(caveat.severity), caveat.code));
    caveats
}

/// Raises a caveat for a rank that holds the others up, unless its whole host does.
fn check_ranks(judged: &Judged, known: &[JudgedCaveat]) -> Option<JudgedCaveat> {
    let ranks = judged.ranks.as_ref()?;
    if known.iter().any(|caveat| caveat.code == CaveatCode::Straggler) {
        return None;
    }
    let evidence = ranks.describe_straggler()?;
    let data = ranks.straggler_share();
    Some(JudgedCaveat::new(CaveatCode::Straggler, CaveatExtent::Run, evidence, data))
}

/// Returns true if results on the same file system are large compared with the data of a pass.
fn are_results_large(sorted: &TrialGroups<'_>) -> bool {
    let is_large = |PassTrial { result, .. }: &PassTrial<'_>| {
        let limit_bytes = result.bytes() as f64 * RESULTS_SHARE_MAX;
        let mut data = result.caveats.iter().filter_map(|caveat| match caveat.code {
            CaveatCode::ResultsOnTarget => caveat.data.as_ref(),
            _ => None,
        });
        // Passes on names transfer no data to compare with.
        limit_bytes > 0.0 && data.any(|data| data.found > limit_bytes)
    };
    sorted.sound.iter().chain(&sorted.set_aside).any(is_large)
}

/// Returns the caveats of trials: each code once, with the first evidence and the number of trials.
fn from_trials(sorted: &TrialGroups<'_>) -> Vec<JudgedCaveat> {
    let mut found = RaisedCaveats { made: sorted.made, caveats: Vec::new() };
    for pass_trials in [&sorted.sound, &sorted.set_aside] {
        for PassTrial { trial, result } in pass_trials {
            for caveat in &result.caveats {
                found.add(caveat, trial.index);
            }
            if trial.state == model::TrialState::Interrupted {
                let evidence = format!("trial {} was stopped before its end", trial.index + 1);
                found.add(&CaveatCode::Interrupted.because(evidence), trial.index);
            }
        }
    }
    let mut caveats = Vec::with_capacity(found.caveats.len());
    for (caveat, _) in found.caveats {
        caveats.push(caveat);
    }
    caveats
}

/// The caveats raised so far, each with the last trial that raised it.
struct RaisedCaveats {
    made: u32,
    caveats: Vec<(JudgedCaveat, u32)>,
}

impl RaisedCaveats {
    /// Adds a caveat of a trial. If the trial raises the same code again, it is only counted once.
    fn add(&mut self, raised: &Caveat, trial_index: u32) {
        for (caveat, last) in &mut self.caveats {
            if caveat.code != raised.code {
                continue;
            }
            if *last != trial_index
                && let CaveatExtent::Trials { seen, .. } = &mut caveat.extent
            {
                *seen += 1;
            }
            *last = trial_index;
            return;
        }
        let extent = CaveatExtent::Trials { seen: 1, made: self.made };
        let Caveat { code, evidence, data } = raised.clone();
        self.caveats.push((JudgedCaveat::new(code, extent, evidence, data), trial_index));
    }
}

/// Creates a caveat that applies to all trials together.
fn of_run(code: CaveatCode, evidence: String, data: Evidence) -> JudgedCaveat {
    JudgedCaveat::new(code, CaveatExtent::Run, evidence, Some(data))
}

/// Returns the requested accuracy as a share of the median: the half-width at which the run may end
/// or, if it has a fixed number of trials, the smallest effect worth mentioning. Never as much as
/// what makes an interval wide.
fn accuracy_max(repetition: &Repetition) -> f64 {
    match repetition.until_permille {
        0 => EFFECT_MIN,
        permille => (f64::from(permille) / 1_000.0).min(HALF_WIDTH_SHARE_MAX),
    }
}

fn check_count(rate: &Summary) -> Option<JudgedCaveat> {
    if rate.n >= TRIALS_MIN {
        return None;
    }
    let plural = if rate.n == 1 { "" } else { "s" };
    let evidence = format!("{} valid trial{plural} (at least {TRIALS_MIN})", rate.n);
    let data =
        Evidence::counts(rate.n as u64, TRIALS_MIN as u64, "trials", "valid trials of the run");
    Some(of_run(CaveatCode::TooFewTrials, evidence, data))
}

fn check_width(rate: &Summary, sorted: &TrialGroups<'_>, judged: &Judged) -> Option<JudgedCaveat> {
    let share = rate.half_width_share()?;
    if rate.n < TRIALS_MIN || share <= HALF_WIDTH_SHARE_MAX {
        return None;
    }
    let mut evidence = format!(
        "the interval from {} is ±{:.0} % of the median {} (limit ±{:.0} %)",
        Rate::interval(judged.pass, rate.interval.0, rate.interval.1),
        share * 100.0,
        judged.shown(rate.median),
        HALF_WIDTH_SHARE_MAX * 100.0,
    );
    if let Some(why) = explain_width(sorted, judged) {
        let _ = write!(evidence, "; {why}");
    }
    let source = "half of the 95 % interval, relative to the median";
    let data = Evidence::shares(share, HALF_WIDTH_SHARE_MAX, source);
    Some(of_run(CaveatCode::WideInterval, evidence, data))
}

/// Describes what the rates of the valid trials correlate with, or that they correlate with nothing
/// that was recorded; `None` if there are too few trials or no records.
fn explain_width(sorted: &TrialGroups<'_>, judged: &Judged) -> Option<String> {
    let rate_of = comparable_rate(judged.pass);
    let mut trials = Vec::new();
    for PassTrial { result, .. } in &sorted.sound {
        trials.push((*result, rate_of(result)?));
    }
    match explanation(&trials)? {
        Explanation::Follows { covariate, correlation, trials_above } => Some(format!(
            "rates follow {}, r = {correlation:.2}; {trials_above} of {} trials had more than {}",
            covariate.name(),
            trials.len(),
            covariate.format_threshold(),
        )),
        Explanation::Nothing { looked_at: 0 } => None,
        Explanation::Nothing { .. } => {
            Some("none of the recorded interference explains that".to_owned())
        }
    }
}

/// Notes that most trials were disturbed from outside, so that none was set aside, with the worst
/// value of the most frequent source.
fn check_interference(spec: &RunSpec, sorted: &TrialGroups<'_>) -> Option<JudgedCaveat> {
    if spec.repetition.interference != InterferenceRule::Repeat || !sorted.disturbed.is_empty() {
        return None;
    }
    let found: Vec<Disturbance> = sorted.sound.iter().filter_map(PassTrial::disturbance).collect();
    // A single trial does not show what is normal for this machine.
    if sorted.sound.len() < TRIALS_MIN {
        return None;
    }
    let of_source = |source| found.iter().filter(|it| it.source == source).count();
    let source = found.iter().map(|it| it.source).max_by_key(|source| of_source(*source))?;
    let of_source = found.iter().filter(|it| it.source == source);
    let worst = of_source.max_by_key(|it| it.found)?;
    let most = format!("up to {}", source.show(worst.found));
    let evidence = format!("{} (limit {})", source.describe(&most), source.show(limit_of(source)));
    let extent = CaveatExtent::Trials { seen: found.len() as u32, made: sorted.made };
    Some(JudgedCaveat::new(CaveatCode::Interference, extent, evidence, Some(worst.evidence())))
}

/// Compares the medians of cached and other trials, if there are both.
fn check_kinds(sorted: &TrialGroups<'_>, judged: &Judged) -> Option<JudgedCaveat> {
    let rate = pass_rate(judged.pass);
    let mut cached = Vec::new();
    let mut others = Vec::new();
    for pass_trial in &sorted.sound {
        let list = if pass_trial.is_cached() { &mut cached } else { &mut others };
        list.extend(rate(pass_trial.result));
    }
    let of_cached = median(&cached)?;
    let of_others = median(&others)?;
    let evidence = format!(
        "{} cached trials reached {}, {} others {} (medians)",
        cached.len(),
        judged.shown(of_cached),
        others.len(),
        judged.shown(of_others),
    );
    let source = "trials with a caveat about a cache among others";
    let data = Evidence::counts(cached.len() as u64, 0, "trials", source);
    Some(of_run(CaveatCode::MixedTrials, evidence, data))
}

/// Reports the worst outlier and the number of outliers.
fn check_outliers(rate: &Summary, judged: &Judged, accuracy: f64) -> Option<JudgedCaveat> {
    let mut used = Vec::new();
    let mut figures = Vec::new();
    for point in &judged.points {
        if point.used {
            used.push(point);
            figures.push(point.comparable_per_s);
        }
    }
    let limit = score_max(figures.len())?;
    let is_far = outliers(&figures);
    let scores = modified_z_scores(&figures);
    let mut count = 0_usize;
    let mut worst: Option<usize> = None;
    for (at, score) in scores.iter().enumerate() {
        if !is_far[at] {
            continue;
        }
        count += 1;
        // Of two equally distant ones, report the later one.
        if worst.is_none_or(|known| score.distance >= scores[known].distance) {
            worst = Some(at);
        }
    }
    let worst = worst?;
    let point = used[worst];
    let score = scores[worst];
    let mut evidence = format!(
        "{} of {} valid trials; trial {} reached {}, the median is {} (modified z-score {:.1}, \
         limit {limit} for {} trials)",
        count,
        rate.n,
        point.trial_index + 1,
        judged.shown(point.comparable_per_s),
        judged.shown(rate.median),
        score.z.abs(),
        figures.len(),
    );
    let data = Evidence::new(score.z.abs(), limit, "z", "modified z-score of the worst trial");
    let is_minor = !outliers_mislead(rate, &figures, &is_far, accuracy);
    if is_minor && let Some(share) = rate.half_width_share() {
        let [share, requested] = [share, accuracy].map(|share| three_digits(share * 100.0));
        let _ = write!(
            evidence,
            "; the 95 % interval of all is ±{share} % (requested: ±{requested} %)"
        );
    }
    let mut caveat = of_run(CaveatCode::Outlier, evidence, data);
    if is_minor {
        caveat.severity = Severity::Note;
    }
    Some(caveat)
}

/// Returns true if outliers may change the median by more than the requested accuracy.
///
/// A median is not a mean: one extreme trial among many affects neither it nor the order statistics
/// of its interval. As long as the interval of all trials, including outliers, is as narrow as
/// requested, the result is as certain as requested. If it is wider, what matters is whether the
/// outliers caused that: if noisy trials include a single extreme one, the noise did.
fn outliers_mislead(rate: &Summary, figures: &[f64], is_far: &[bool], accuracy: f64) -> bool {
    let kept: Vec<_> = figures
        .iter()
        .zip(is_far)
        .filter(|(_, is_far)| !*is_far)
        .map(|(figure, _)| *figure)
        .collect();
    // With this many, the target may have a second mode.
    let outliers = figures.len() - kept.len();
    if outliers as f64 > OUTLIER_DISCARD_SHARE_MAX * figures.len() as f64 {
        return true;
    }
    let Some(without) = summary(&kept) else { return true };
    let limit = accuracy * rate.median;
    if (rate.median - without.median).abs() > limit {
        return true;
    }
    let moved_lo = (rate.interval.0 - without.interval.0).abs();
    let moved_hi = (rate.interval.1 - without.interval.1).abs();
    let is_wide = rate.half_width_share().is_none_or(|share| share > accuracy);
    is_wide && moved_lo.max(moved_hi) > limit
}

/// Counts trials in which the rate changed, with the numbers of the first one.
fn check_steady(spec: &RunSpec, sorted: &TrialGroups<'_>) -> Option<JudgedCaveat> {
    let mut seen = 0;
    let mut first = None;
    for pass_trial in &sorted.sound {
        let Some(rounds) = steady::cut_rounds(spec, pass_trial.result) else { continue };
        let Some(found) = Steadiness::from_rates(&rounds.rates) else { continue };
        // Two levels are more informative.
        if !found.is_steady() && drop_of(spec, pass_trial.result).is_none() {
            seen += 1;
            first = first.or(Some((rounds.shortest_ns, found)));
        }
    }
    let (round_ns, first) = first?;
    let way = if first.slope < 0.0 { "fell" } else { "rose" };
    let evidence = format!(
        "over five rounds of at least {}, the rate varied by {} % of its mean (limit {:.0} %), and \
         its trend {way} by {} % (limit {:.0} %)",
        Nanos(round_ns),
        three_digits(first.range * 100.0),
        STEADY_RANGE_MAX * 100.0,
        three_digits(first.slope.abs() * 100.0),
        STEADY_SLOPE_MAX * 100.0,
    );
    let extent = CaveatExtent::Trials { seen, made: sorted.made };
    // Either number may be decisive; if both are, report the range.
    let data = Some(if first.range > STEADY_RANGE_MAX {
        Evidence::shares(first.range, STEADY_RANGE_MAX, "range of the rates of five rounds")
    } else {
        Evidence::shares(first.slope.abs(), STEADY_SLOPE_MAX, "trend over five rounds")
    });
    Some(JudgedCaveat::new(CaveatCode::NotSteady, extent, evidence, data))
}

/// Checks for trials on names whose rate depends on the previous trial.
///
/// Trials on data may depend on each other as well, but whatever one leaves behind for the next (a
/// cache, a journal) is flushed before it begins.
fn check_interaction(
    rate: &Summary,
    sorted: &TrialGroups<'_>,
    judged: &Judged,
    accuracy: f64,
) -> Option<JudgedCaveat> {
    if judged.pass.is_byte_rate() {
        return None;
    }
    let rates = rates_in_order(sorted, judged);
    if rates.len() < INTERACT_TRIALS_MIN {
        return None;
    }
    let middle = median(&rates)?;
    let mut least = middle;
    let mut most = middle;
    for rate in &rates {
        least = least.min(*rate);
        most = most.max(*rate);
    }
    let range = (most - least) / middle;
    if range < INTERACT_RANGE_MIN {
        return None;
    }
    let found = neighbours(&rates)?;
    if found.probability > INTERACT_PROBABILITY_MAX {
        return None;
    }
    let how = match found.dependence {
        Dependence::Waves => "come in waves: neighbors are more alike",
        Dependence::Turns => "alternate: neighbors are less alike",
    };
    let mut evidence = format!(
        "{} trials {how} than in all but {} % of random orders (limit {} %; von Neumann), and they \
         vary by {:.0} % of their median",
        rates.len(),
        three_digits(found.probability * 100.0),
        INTERACT_PROBABILITY_MAX * 100.0,
        range * 100.0,
    );
    // Estimate the error. With waves, there are fewer independent trials than assumed, so the
    // interval is too narrow. If trials alternate, the result may be either of two.
    let error = match found.dependence {
        Dependence::Waves => rate.half_width_share().map(|share| share * found.interval_factor()),
        Dependence::Turns => Some(range / 2.0),
    };
    let is_minor = error.is_some_and(|error| error <= accuracy);
    if let Some(error) = error {
        let [error, requested] = [error, accuracy].map(|share| three_digits(share * 100.0));
        let _ = write!(
            evidence,
            "; this may put the result off by ±{error} % (requested: ±{requested} %)"
        );
    }
    let source = "share of random orders of the same rates that are as pronounced (von Neumann)";
    let data = Evidence::shares(found.probability, INTERACT_PROBABILITY_MAX, source);
    let mut caveat = of_run(CaveatCode::TrialsInteract, evidence, data);
    if is_minor {
        caveat.severity = Severity::Note;
    }
    Some(caveat)
}

/// Returns the rates of the valid trials in the order in which they ran.
///
/// Runs of a campaign are interleaved, so the position counts and not the number within the run.
fn rates_in_order(sorted: &TrialGroups<'_>, judged: &Judged) -> Vec<f64> {
    let mut in_order: Vec<&PassTrial<'_>> = sorted.sound.iter().collect();
    in_order.sort_by_key(|pass_trial| pass_trial.trial.position);
    let rate_of = pass_rate(judged.pass);
    in_order.into_iter().filter_map(|pass_trial| rate_of(pass_trial.result)).collect()
}

/// Checks whether valid trials rise or fall in the order in which they ran.
fn check_drift(sorted: &TrialGroups<'_>, judged: &Judged, accuracy: f64) -> Option<JudgedCaveat> {
    let rates = rates_in_order(sorted, judged);
    let found = trend(&rates)?;
    if rates.len() < DRIFT_TRIALS_MIN
        || found.probability > drift_probability_max(rates.len())
        || found.change.abs() < DRIFT_SHARE_MIN
    {
        return None;
    }
    let way = if found.change < 0.0 { "fall" } else { "rise" };
    let evidence = format!(
        "{} trials {way} by {} % of their median from the first to the last (limit {:.0} %); {} % \
         of random orders are as regular (Mann and Kendall)",
        rates.len(),
        three_digits(found.change.abs() * 100.0),
        DRIFT_SHARE_MIN * 100.0,
        three_digits(found.probability * 100.0),
    );
    let source = "Sen's slope over the trials in order";
    let data = Evidence::shares(found.change.abs(), DRIFT_SHARE_MIN, source);
    let mut caveat = of_run(CaveatCode::Drift, evidence, data);
    // The middle of a drift is not wrong for a repeated campaign. It is off if the first and last
    // trials differ by more than the requested accuracy and more than the interval allows.
    let half_width = judged.rate.as_ref().and_then(Summary::half_width_share).unwrap_or(0.0);
    if found.change.abs() <= accuracy.max(half_width) {
        caveat.severity = Severity::Note;
    }
    Some(caveat)
}
