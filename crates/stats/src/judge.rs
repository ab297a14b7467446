//! Judges one pass of a run: the result of its valid trials, its caveats and the verdict.
//!
//! [`pass`] is the entry point and returns [`Judged`]. Trials that were interrupted or whose pass
//! has an invalid caveat are set aside. They are only used if there is no valid trial, in which
//! case the whole row is invalid. Trials disturbed from outside are set aside as well, unless most
//! were ([`crate::interference`]). A failed trial keeps the passes it finished. Histograms are
//! merged; percentiles are never averaged.

use model::{
    CaveatCode, Discard, Evidence, FrameDelivery, Histogram, InterferenceRule, ListingWork, Pass,
    PassResult, ProgramUse, Run, Severity, Trial, TrialState, Verdict, WorkerTime, WorkingSet,
};

use crate::criteria::{
    ADVISED_AGAINST_OUTLIERS, ADVISED_TRIALS_MAX, HALF_WIDTH_SHARE_MAX, SETTLED_TRIALS_MIN,
};
use crate::fairness::Fairness;
use crate::host_balance::HostsCompared;
use crate::interference::{Disturbance, disturbance, sets_aside};
use crate::outlier;
use crate::ranks::RanksCompared;
use crate::rate::Rate;
use crate::summary::{Summary, median, summary};
use crate::training::{TrainingJudged, samples_per_s, utilization};

mod bursts;
mod caveats;
mod parts;
mod rates;

pub use parts::CpuUnit;
pub use parts::{Cpu, KindShare, WireUse};
use rates::{
    RateOf, append_rate, byte_rate, common_byte_rate, common_op_rate, common_share,
    comparable_rate, first_byte_rate, first_op_rate, op_rate, pass_rate, rate_per_cpu,
    slowest_rank_seconds, whole_rate,
};

/// Judgment of one pass over all trials of a run.
#[derive(Clone, Debug)]
pub struct Judged {
    pub pass: Pass,
    /// Whether the result can be used.
    pub verdict: Verdict,
    /// Trials that were started, however they ended.
    pub trials_made: u32,
    /// Trials that count.
    pub trials_used: u32,
    /// The main result over the whole window (`last_done`): bytes per second for reads and writes,
    /// otherwise ops per second. `None` if no trial has a result; see [`Judged::reason`].
    pub rate: Option<Summary>,
    pub ops_per_s: Option<Summary>,
    /// Bytes per second, for passes that transfer data.
    pub bytes_per_s: Option<Summary>,
    /// The result up to the time at which the first worker finished (`first_done`).
    pub first_done: Option<Summary>,
    /// The result in the window in which all workers were busy, from the last start to the first
    /// end.
    pub common: Option<Summary>,
    /// Share of the window in which all workers were busy, 0 to 1, as the median over the trials.
    pub common_window_share: Option<f64>,
    /// Rates of all trials that have one, including those set aside.
    pub points: Vec<Point>,
    /// Trials that were set aside because they were disturbed from outside.
    pub set_aside: Vec<DisturbedTrial>,
    /// Times from schedule to completion, merged over the trials that count.
    pub response_time: Histogram,
    /// Times from sending to completion, merged over the trials that count.
    pub service_time: Histogram,
    /// Estimate of the response times that evenly spaced arrivals would have seen if a closed loop
    /// had not waited for replies; `None` in open loops.
    pub estimated_response_time: Option<Histogram>,
    /// CPU time over all trials that count.
    pub cpu: Option<Cpu>,
    /// Result per second of CPU time of client and server, instead of per second of wall time.
    pub rate_per_cpu: Option<Summary>,
    /// CPU time of the client as a share of the window, in percent of one core.
    pub cpu_percent: Option<f64>,
    /// Ops scheduled per second in an open loop, as the median over the trials.
    pub offered_per_s: Option<f64>,
    /// Bytes on the wire and bytes moved, medians over the trials, if the former are counted.
    pub wire: Option<WireUse>,
    /// Time from the end of a pass until what it wrote had drained, as the median over the trials,
    /// if the system's recipe has a check for that.
    pub drain_ns: Option<u64>,
    /// The largest working set of any trial, if known.
    pub working_set: Option<WorkingSet>,
    /// What a pass over whole directories listed in a typical trial.
    pub listing: Option<ListingWork>,
    /// How frames met their deadlines in the trial with the most late ones.
    pub frames: Option<FrameDelivery>,
    /// The 95th percentile of the slowest worker for each kind of op; the median of the trials.
    pub worst_p95: Vec<WorkerTime>,
    /// Resources used by a command: medians of its times, and the maximum memory of any trial.
    pub program: Option<ProgramUse>,
    /// Shares of each kind of op, if there are several.
    pub kinds: Vec<KindShare>,
    /// Fairness among the emulated clients, if they were recorded separately.
    pub clients: Option<Fairness>,
    /// Comparison of the client hosts, if there were several.
    pub hosts: Option<HostsCompared>,
    /// Transactions committed per second, if the pass commits any. Response and service times are
    /// then those of the commits.
    pub commits_per_s: Option<Summary>,
    /// Comparison of the ranks, if the pass is done when the slowest of them is.
    pub ranks: Option<RanksCompared>,
    /// How accelerators were used, in a training.
    pub training: Option<TrainingJudged>,
    /// Caveats, worst first, with each code only once.
    pub caveats: Vec<JudgedCaveat>,
    /// Why the settings allow no trial at all.
    pub impossible: Option<String>,
    /// Why trials have no result for this pass, without repetitions, in order of appearance.
    pub failures: Vec<Failure>,
}

impl Judged {
    /// Returns the number of trials at which a caveat about the trials would probably disappear, or
    /// `None` if more trials don't help or too many would be needed.
    pub fn trials_to_settle(&self, code: CaveatCode) -> Option<u32> {
        let made = self.trials_made;
        let needed = match code {
            CaveatCode::TooFewTrials => SETTLED_TRIALS_MIN as u32,
            // Among ten trials, an outlier hardly affects the median, and a rule may exclude it.
            CaveatCode::Outlier => ADVISED_AGAINST_OUTLIERS,
            CaveatCode::WideInterval => {
                // The width of an interval is inversely proportional to the square root of the
                // number of trials. Trials will be set aside in the same proportion, so scale all
                // of them.
                let excess = self.rate.as_ref()?.half_width_share()? / HALF_WIDTH_SHARE_MAX;
                let needed = (f64::from(made) * excess * excess).ceil();
                // The width is an estimate itself, so round the number up to a multiple of five.
                if needed > f64::from(ADVISED_TRIALS_MAX) {
                    return None;
                }
                (needed as u32).next_multiple_of(5)
            }
            _ => return None,
        };
        if needed > made { Some(needed) } else { None }
    }

    /// Converts a number per second to the unit of this pass.
    pub const fn shown(&self, per_s: f64) -> Rate {
        Rate::for_pass(self.pass, per_s)
    }

    /// Returns why there is no result, or `None` if there is one.
    pub fn reason(&self) -> Option<&str> {
        match (&self.rate, self.failures.first()) {
            (Some(_), _) => None,
            (None, Some(failure)) => Some(&failure.reason),
            (None, None) if self.trials_made == 0 => {
                Some(self.impossible.as_deref().unwrap_or("no trial was run"))
            }
            (None, None) => Some("no trial finished this pass"),
        }
    }
}

/// Rate of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Number of the trial within the run, from 0.
    pub trial_index: u32,
    /// Rate in the unit of the pass, per second.
    pub per_s: f64,
    /// The rate for comparing trials, in which the random arrivals of an open loop are compensated.
    pub comparable_per_s: f64,
    /// It counts toward the result; otherwise it was set aside as invalid.
    pub used: bool,
}

/// Trial that does not count because something outside of the run disturbed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisturbedTrial {
    /// Number of the trial within the run, from 0.
    pub trial_index: u32,
    pub disturbance: Disturbance,
}

/// The trials in which a caveat was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaveatExtent {
    /// All trials together.
    Run,
    /// The arrangement of the run: a note about the campaign that doesn't mark rows.
    Arrangement,
    /// Some trials.
    Trials {
        /// Number of trials that raised it.
        seen: u32,
        /// Number of trials that were run.
        made: u32,
    },
}

/// A caveat about the result of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedCaveat {
    pub code: CaveatCode,
    /// The severity of its code, or only a note if it cannot change the result by more than the
    /// requested accuracy.
    pub severity: Severity,
    /// Which trials it applies to.
    pub extent: CaveatExtent,
    /// Evidence from the first trial that raised it.
    pub evidence: String,
    /// The decisive number from the same trial.
    pub data: Option<Evidence>,
    /// How to avoid it in this run; see [`CaveatCode::advice_for`].
    pub advice: String,
}

impl JudgedCaveat {
    /// Creates a caveat with the severity of its code. The advice is added once all caveats are
    /// known.
    fn new(
        code: CaveatCode,
        extent: CaveatExtent,
        evidence: String,
        data: Option<Evidence>,
    ) -> Self {
        let severity = code.severity();
        Self { code, severity, extent, evidence, data, advice: String::new() }
    }

    /// Returns true if it is less severe here than its code is elsewhere.
    pub fn is_minor(&self) -> bool {
        self.severity < self.code.severity()
    }

    /// Returns the evidence, preceded by the number of trials it applies to.
    pub fn evidence_line(&self) -> String {
        match self.extent {
            CaveatExtent::Run | CaveatExtent::Arrangement => self.evidence.clone(),
            CaveatExtent::Trials { seen, made } => {
                format!("{seen} of {made} trials: {}", self.evidence)
            }
        }
    }
}

/// Why some trials have no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason as a sentence.
    pub reason: String,
    /// Number of trials that failed for this reason.
    pub trials: u32,
}

/// Judges all passes of a run in order.
pub fn run(run: &Run) -> Vec<Judged> {
    run.spec.passes().iter().map(|kind| pass(run, *kind)).collect()
}

/// Returns the results of a pass that count.
pub fn used_results(run: &Run, pass: Pass) -> Vec<&PassResult> {
    TrialGroups::from_run(run, pass).used_results()
}

pub fn pass(run: &Run, pass: Pass) -> Judged {
    let sorted = TrialGroups::from_run(run, pass);
    let used = sorted.used_results();
    let is_bytes = pass.is_byte_rate();
    let is_whole = pass.is_of_developer();
    let ops_per_s = sorted.summarize(op_rate);
    let bytes_per_s = sorted.summarize(byte_rate);
    let mut judged = Judged {
        pass,
        verdict: Verdict::Valid,
        trials_made: sorted.made,
        trials_used: used.len() as u32,
        rate: sorted.summarize(comparable_rate(pass)),
        ops_per_s,
        bytes_per_s: if moves_data(pass) { bytes_per_s } else { None },
        first_done: sorted
            .summarize(if is_bytes { first_byte_rate } else { first_op_rate })
            .filter(|_| !is_whole),
        common: sorted
            .summarize(if is_bytes { common_byte_rate } else { common_op_rate })
            .filter(|_| !is_whole),
        common_window_share: median(&rates_of(sorted.used_trials(), common_share)),
        points: sorted.list_points(pass),
        set_aside: sorted.list_set_aside(),
        response_time: parts::merge_histograms(&used, PassResult::response_time),
        service_time: parts::merge_histograms(&used, PassResult::service_time),
        estimated_response_time: parts::estimated_response_time(&run.spec.load, &used),
        cpu: parts::cpu_per_work(&used, CpuUnit::for_pass(pass)),
        rate_per_cpu: sorted.summarize(rate_per_cpu(pass)),
        cpu_percent: parts::cpu_percent(&used),
        offered_per_s: parts::offered_per_s(&used),
        wire: parts::wire_use(&used),
        drain_ns: parts::drain_ns(&used),
        working_set: parts::working_set(&used),
        listing: parts::listing(&used),
        frames: parts::frames(&used),
        worst_p95: parts::worst_p95(&used),
        program: parts::program_use(&used),
        kinds: parts::kind_shares(&used),
        clients: Fairness::from_passes(&used),
        hosts: HostsCompared::from_passes(&used),
        commits_per_s: sorted
            .summarize(append_rate)
            .map(|appends| appends.scaled(run.spec.database.group_commit.into())),
        ranks: RanksCompared::from_passes(run, &used, sorted.summarize(slowest_rank_seconds)),
        training: TrainingJudged::from_passes(
            &run.spec,
            &used,
            sorted.summarize(utilization),
            sorted.summarize(samples_per_s),
        ),
        caveats: Vec::new(),
        impossible: run.spec.impossible().map(|why| why.to_string()),
        failures: sorted.failures.clone(),
    };
    // Comparable rates decide whether trials agree; the achieved ones are displayed.
    judged.caveats = caveats::collect(&run.spec, &sorted, &judged);
    judged.verdict = verdict_of(&sorted, &judged);
    judged.rate = match pass {
        _ if is_whole => sorted.summarize(whole_rate),
        _ if is_bytes => bytes_per_s,
        _ => ops_per_s,
    };
    judged
}

/// Returns true if a run needs no more trials, because half the interval of each pass is as narrow
/// as the plan wants. Always false if the plan has no such limit or there is no result yet.
pub fn is_settled(run: &Run) -> bool {
    let until = f64::from(run.spec.repetition.until_permille) / 1_000.0;
    if until <= 0.0 {
        return false;
    }
    for pass in run.spec.passes() {
        // A run ends as a whole, so all of its passes must have settled.
        let summary = TrialGroups::from_run(run, *pass).summarize(comparable_rate(*pass));
        let Some(summary) = summary else { return false };
        match summary.half_width_share() {
            Some(share) if share <= until && summary.n >= SETTLED_TRIALS_MIN => {}
            _ => return false,
        }
    }
    true
}

/// Returns the number of trials of a run set aside as disturbed: the maximum over its passes.
pub fn disturbed_trials(run: &Run) -> u32 {
    let of_pass = |pass: &Pass| TrialGroups::from_run(run, *pass).disturbed.len() as u32;
    run.spec.passes().iter().map(of_pass).max().unwrap_or(0)
}

/// The result of one trial for a pass.
struct PassTrial<'a> {
    trial: &'a Trial,
    result: &'a PassResult,
}

impl PassTrial<'_> {
    /// Returns true if any of the trial's data came from a cache.
    fn is_cached(&self) -> bool {
        self.result.caveats.iter().any(|caveat| caveat.code.is_cache_hit())
    }

    fn disturbance(&self) -> Option<Disturbance> {
        disturbance(&self.result.scope.interference)
    }
}

/// The trials of a run, grouped by their result for one pass.
struct TrialGroups<'a> {
    sound: Vec<PassTrial<'a>>,
    set_aside: Vec<PassTrial<'a>>,
    /// Valid, but disturbed from outside.
    disturbed: Vec<PassTrial<'a>>,
    /// Valid, but excluded by the plan's rule.
    discarded: Vec<PassTrial<'a>>,
    rule: Discard,
    failures: Vec<Failure>,
    made: u32,
}

impl<'a> TrialGroups<'a> {
    fn from_run(run: &'a Run, pass: Pass) -> Self {
        // Warm-up trials come first and never count.
        let warmup = run.spec.repetition.warmup_trials;
        let mut sorted = Self {
            sound: Vec::new(),
            set_aside: Vec::new(),
            disturbed: Vec::new(),
            discarded: Vec::new(),
            rule: run.spec.repetition.discard,
            failures: Vec::new(),
            made: 0,
        };
        for trial in &run.trials {
            if trial.index < warmup {
                continue;
            }
            sorted.made += 1;
            let result = trial.passes.iter().find(|result| result.pass == pass);
            match (result, &trial.state) {
                (Some(result), TrialState::Interrupted) => {
                    sorted.set_aside.push(PassTrial { trial, result });
                }
                (Some(result), _) if is_invalid(result) => {
                    sorted.set_aside.push(PassTrial { trial, result });
                }
                (Some(result), _) => sorted.sound.push(PassTrial { trial, result }),
                (None, TrialState::Failed(reason)) => sorted.add_failure(reason),
                (None, TrialState::Interrupted) => sorted.add_failure("the trial was interrupted"),
                (None, TrialState::Done) => sorted.add_failure("the trial does not have this pass"),
            }
        }
        let rule = run.spec.repetition.interference;
        // A soak disturbs its hosts on purpose, and each of its segments counts.
        if rule == InterferenceRule::Repeat && run.spec.soak.is_none() {
            sorted.set_disturbed_aside();
        }
        sorted.apply_discard(pass);
        sorted
    }

    /// Sets aside valid trials that were disturbed from outside, unless most were.
    fn set_disturbed_aside(&mut self) {
        let is_disturbed = |it: &PassTrial<'_>| it.disturbance().is_some();
        let disturbed = self.sound.iter().filter(|it| is_disturbed(it)).count();
        if sets_aside(disturbed, self.sound.len()) {
            let sound = std::mem::take(&mut self.sound);
            (self.disturbed, self.sound) = sound.into_iter().partition(is_disturbed);
        }
    }

    /// Excludes valid trials by the rule of the plan; they are still listed as points.
    fn apply_discard(&mut self, pass: Pass) {
        let rate = comparable_rate(pass);
        let mut rates = Vec::with_capacity(self.sound.len());
        let mut cached = Vec::with_capacity(self.sound.len());
        for pass_trial in &self.sound {
            rates.push(rate(pass_trial.result).unwrap_or(0.0));
            cached.push(pass_trial.is_cached());
        }
        let mut left_out = outlier::discarded(self.rule, &rates);
        if self.rule == Discard::Cached {
            // If all trials are cached, there is nothing else to keep.
            if cached.contains(&false) {
                left_out = cached;
            }
        }
        let sound = std::mem::take(&mut self.sound);
        for (pass_trial, is_out) in sound.into_iter().zip(left_out) {
            let list = if is_out { &mut self.discarded } else { &mut self.sound };
            list.push(pass_trial);
        }
    }

    /// Summarizes a rate over the trials that count. The interval is based on all valid trials,
    /// including excluded ones, because the rule excludes what would widen it.
    fn summarize(&self, rate: fn(&PassResult) -> Option<f64>) -> Option<Summary> {
        let mut figures = rates_of(self.used_trials(), rate);
        let kept = self.adjust_trimmed(summary(&figures)?);
        // If all trials were set aside, their summary is displayed and nothing was excluded. Cached
        // trials measure something else, so they don't show how much the others vary.
        if self.sound.is_empty() || self.rule == Discard::Cached {
            return Some(kept);
        }
        figures.extend(rates_of(&self.discarded, rate));
        Some(kept.with_interval_of_all(&figures))
    }

    /// Corrects the trimmed mean: if the rule has already excluded the extremes, the rest must not
    /// be trimmed again.
    fn adjust_trimmed(&self, summary: Summary) -> Summary {
        let is_trimmed = self.rule == Discard::Extremes && !self.discarded.is_empty();
        let trimmed_mean = if is_trimmed { Some(summary.mean) } else { summary.trimmed_mean };
        Summary { trimmed_mean, ..summary }
    }

    fn add_failure(&mut self, reason: &str) {
        for failure in &mut self.failures {
            if failure.reason == reason {
                failure.trials += 1;
                return;
            }
        }
        self.failures.push(Failure { reason: reason.to_owned(), trials: 1 });
    }

    /// Returns the trials that count.
    fn used_trials(&self) -> &[PassTrial<'a>] {
        if self.sound.is_empty() { &self.set_aside } else { &self.sound }
    }

    fn used_results(&self) -> Vec<&'a PassResult> {
        self.used_trials().iter().map(|pass_trial| pass_trial.result).collect()
    }

    /// Lists the trials set aside as disturbed, in order.
    fn list_set_aside(&self) -> Vec<DisturbedTrial> {
        let mut set_aside = Vec::new();
        for pass_trial in &self.disturbed {
            if let Some(disturbance) = pass_trial.disturbance() {
                set_aside.push(DisturbedTrial { trial_index: pass_trial.trial.index, disturbance });
            }
        }
        set_aside
    }

    /// Lists the rates of all trials that have one, in order.
    fn list_points(&self, pass: Pass) -> Vec<Point> {
        let rate = pass_rate(pass);
        let comparable = comparable_rate(pass);
        let lists = [
            (&self.sound, true),
            (&self.set_aside, self.sound.is_empty()),
            (&self.disturbed, false),
            (&self.discarded, false),
        ];
        let mut points = Vec::new();
        for (pass_trials, used) in lists {
            for pass_trial in pass_trials {
                let PassTrial { trial, result } = pass_trial;
                if let (Some(per_s), Some(comparable_per_s)) = (rate(result), comparable(result)) {
                    points.push(Point { trial_index: trial.index, per_s, comparable_per_s, used });
                }
            }
        }
        points.sort_by_key(|point| point.trial_index);
        points
    }
}

/// Returns the main rate of one trial's pass, or zero if it took no time.
pub fn trial_rate(result: &PassResult) -> Rate {
    Rate::for_pass(result.pass, pass_rate(result.pass)(result).unwrap_or(0.0))
}

/// Returns the rates of the given trials that have one.
fn rates_of(pass_trials: &[PassTrial<'_>], rate: RateOf) -> Vec<f64> {
    pass_trials.iter().filter_map(|pass_trial| rate(pass_trial.result)).collect()
}

fn is_invalid(result: &PassResult) -> bool {
    result.caveats.iter().any(|caveat| caveat.code.severity() == Severity::Invalid)
}

/// Returns the verdict: invalid if no valid trial is left, degraded if some are missing or because
/// of a caveat.
fn verdict_of(sorted: &TrialGroups<'_>, judged: &Judged) -> Verdict {
    if sorted.sound.is_empty() || judged.rate.is_none() {
        return Verdict::Invalid;
    }
    let is_missing = !sorted.set_aside.is_empty() || !sorted.failures.is_empty();
    // Caveats are sorted by severity, so the first one is the worst.
    match judged.caveats.first() {
        Some(worst) if worst.severity >= Severity::Degraded => Verdict::Degraded,
        _ if is_missing => Verdict::Degraded,
        _ => Verdict::Valid,
    }
}

/// Returns true if a pass transfers data, whatever its main result is.
const fn moves_data(pass: Pass) -> bool {
    pass.is_byte_rate()
        || pass.is_mix()
        || matches!(pass, Pass::Seeks | Pass::ReadFiles | Pass::Transactions | Pass::Train)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
pub(crate) mod tests;
