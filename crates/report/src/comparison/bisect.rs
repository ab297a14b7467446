//! Judges a step of a search for the commit that made a system slower.
//!
//! [`BisectRequest`] is what to look for, and [`BisectRequest::judge`] judges the trials so far:
//! the rows of the build against those of the good one with the same settings. The answer follows
//! [`stats::bisect`]; a row that must not be used, or that did not measure the target, has none.

use std::fmt::Write as _;

use model::units::three_digits;
use model::{CaveatCode, RunSpec};
use stats::bisect::{BisectRule, BisectVerdict, STORED_SHARES, pairs_to_decide};
use stats::{criteria, median, summary};

use super::rows::{REPETITION, is_chosen, row_settings};
use super::{Measure, Reservations, Selection};
use crate::humanize::{counted, listed};
use crate::question::trial_result;
use crate::table::{Row, Sheet};

/// Settings that differ between a build and the good one.
const SIDE: [&str; 1] = ["target"];

/// A measure to watch, and the pass that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BisectMetric {
    /// Pass or workload, such as `read`, `stream read` or `mixed`; empty for all.
    pub pass: String,
    pub measure: Measure,
}

/// What a search looks for.
#[derive(Clone, Debug)]
pub struct BisectRequest {
    /// The difference as a share: 0.1 is a rate that falls by 10 %, or a time that rises by 10 %.
    pub difference: f64,
    pub metrics: Vec<BisectMetric>,
    /// Trials of both builds alternate, so that they can be compared in pairs.
    pub is_paired: bool,
}

/// What the trials so far show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BisectJudgment {
    pub verdict: BisectVerdict,
    /// The result that decides, or that keeps the answer open.
    pub sentence: String,
    /// Smallest number of trials of a row that count.
    pub trials: usize,
    /// True if more trials may give an answer.
    pub is_worth_more: bool,
}

impl BisectMetric {
    /// Parses `[PASS.]MEASURE`, such as `write.rate`, `stream read.p99` or `rate`.
    ///
    /// # Errors
    /// If there is no such measure; contains a sentence with a hint.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (pass, name) = text.rsplit_once('.').unwrap_or(("", text));
        let known = Measure::ALL.iter().find(|measure| measure.name() == name.trim());
        let Some(measure) = known else {
            let names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
            return Err(format!(
                "`{}` is not a measure; it must be {} (hint: write.rate or read.p99)",
                name.trim(),
                names.join(", ")
            ));
        };
        Ok(Self { pass: pass.trim().to_owned(), measure: *measure })
    }

    /// Returns true if it is about this pass of a run.
    fn covers(&self, spec: &RunSpec, pass: model::Pass) -> bool {
        self.pass.is_empty() || spec.workload.has_pass_named(&self.pass, pass)
    }
}

impl BisectRequest {
    /// Returns how many results of these runs the request is about.
    ///
    /// # Errors
    /// If a metric is about none; contains the passes that there are.
    pub fn count_results(&self, runs: &[&RunSpec]) -> Result<usize, String> {
        let mut count = 0;
        let mut names: Vec<&str> = Vec::new();
        for metric in &self.metrics {
            let mut own = 0;
            for spec in runs {
                for pass in spec.passes() {
                    own += usize::from(metric.covers(spec, *pass));
                    names.push(pass.name());
                }
            }
            if own == 0 {
                names.sort_unstable();
                names.dedup();
                let known = names.join(", ");
                return Err(format!("no run has a pass `{}` (available: {known})", metric.pass));
            }
            count += own;
        }
        Ok(count)
    }

    /// Judges the trials of a build.
    ///
    /// # Errors
    /// If the good build has no usable result with the same settings; contains a sentence.
    pub fn judge(
        &self,
        rule: &BisectRule,
        good: Selection<'_>,
        now: Selection<'_>,
    ) -> Result<BisectJudgment, String> {
        let good_sheet = Sheet::from_campaign(good.campaign);
        let now_sheet = Sheet::from_campaign(now.campaign);
        let good_rows: Vec<&Row<'_>> =
            good_sheet.rows.iter().filter(|row| is_chosen(row, good.only)).collect();
        let mut results = Vec::new();
        for row in now_sheet.rows.iter().filter(|row| is_chosen(row, now.only)) {
            if row.judged.impossible.is_some() {
                continue;
            }
            for metric in &self.metrics {
                if metric.covers(&row.run.spec, row.judged.pass) {
                    let name = now_sheet.name_without(row, &REPETITION);
                    let pair = ResultPair { name, good: partner(row, &good_rows)?, now: row };
                    results.push(pair.judge(self, rule, metric.measure)?);
                }
            }
        }
        Ok(join(&results))
    }

    /// Returns the logarithm of the difference, in terms of the cost.
    fn size(&self, measure: Measure) -> f64 {
        if measure.is_gain() { -(-self.difference).ln_1p() } else { self.difference.ln_1p() }
    }
}

/// A result of a build beside that of the good one.
struct ResultPair<'a> {
    name: String,
    good: &'a Row<'a>,
    now: &'a Row<'a>,
}

impl ResultPair<'_> {
    fn judge(
        &self,
        request: &BisectRequest,
        rule: &BisectRule,
        measure: Measure,
    ) -> Result<BisectJudgment, String> {
        let name = format!("{}: {}", self.name, measure.name());
        if !self.good.counts() {
            return Err(format!(
                "the good build has no usable result of {}: {}",
                self.name,
                why_unusable(self.good)
            ));
        }
        let open = |why: &str, trials| BisectJudgment {
            verdict: BisectVerdict::Open,
            sentence: format!("{name}: {why}"),
            trials,
            is_worth_more: false,
        };
        if !self.now.counts() {
            return Ok(open(&format!("no usable result: {}", why_unusable(self.now)), 0));
        }
        let [good_caveats, now_caveats] = [self.good, self.now].map(caveats);
        let reservations = Reservations::new(&good_caveats, &now_caveats);
        if let Some(code) = reservations.flattered.iter().flatten().next() {
            let raised = [self.good, self.now].into_iter().flat_map(|row| &row.judged.caveats);
            let advice = raised.filter(|it| it.code == *code).map(|it| it.advice.as_str()).next();
            let why = format!("`{code}`: {}", code.sentence().trim_end_matches('.'));
            return Ok(open(&format!("{why} (hint: {})", advice.unwrap_or(code.advice())), 0));
        }
        let compared = if request.is_paired {
            self.compare_pairs(request, rule, measure)
        } else {
            self.compare_stored(request, rule, measure)
        };
        let Some(compared) = compared else {
            return Ok(open("a trial has no such result", 0));
        };
        let doubts = if request.is_paired { &[][..] } else { &reservations.doubts };
        if doubts.is_empty() {
            let describe = compared.describe(&name, request, measure);
            return Ok(BisectJudgment { sentence: describe, ..compared.judgment });
        }
        let codes: Vec<String> = doubts.iter().map(|code| format!("`{code}`")).collect();
        let why = format!(
            "{} of stored trials leave it open (hint: compare with a good build that runs, so \
             that trials alternate)",
            listed(&codes)
        );
        // Nothing changes what was stored; trials to come may agree better.
        let is_worth_more = !good_caveats.iter().any(|code| doubts.contains(code));
        Ok(BisectJudgment { is_worth_more, ..open(&why, compared.judgment.trials) })
    }

    fn compare_pairs(
        &self,
        request: &BisectRequest,
        rule: &BisectRule,
        measure: Measure,
    ) -> Option<Compared> {
        let mut slowdowns = Vec::new();
        for here in costs(self.now, measure)? {
            let beside = costs(self.good, measure)?.into_iter().find(|one| one.trial == here.trial);
            if let Some(beside) = beside {
                slowdowns.push(here.log - beside.log);
            }
        }
        let size = request.size(measure);
        let verdict = rule.judge_pairs(&slowdowns, size);
        let ratios: Vec<f64> = slowdowns.iter().map(|one| shown_ratio(*one, measure)).collect();
        let summary = summary(&ratios);
        Some(Compared {
            ratio: summary.map(|it| it.median),
            interval: summary.and_then(|it| it.confidence_interval()),
            wanted: pairs_to_decide(&slowdowns, size),
            judgment: BisectJudgment::undescribed(verdict, slowdowns.len()),
        })
    }

    fn compare_stored(
        &self,
        request: &BisectRequest,
        rule: &BisectRule,
        measure: Measure,
    ) -> Option<Compared> {
        let logs = |row| -> Option<Vec<f64>> {
            Some(costs(row, measure)?.into_iter().map(|cost| cost.log).collect())
        };
        let good = logs(self.good)?;
        let now = logs(self.now)?;
        let verdict = rule.judge_stored(&good, &now, request.size(measure));
        let [usual, here] =
            [&good, &now].map(|logs| logs.iter().map(|log| log.exp()).collect::<Vec<f64>>());
        // A rate is the reciprocal of a cost.
        let sides = if measure.is_gain() { [&here, &usual] } else { [&usual, &here] };
        let compared =
            stats::compare(sides[0], sides[1], request.difference, criteria::BOOTSTRAP_SEED);
        Some(Compared {
            ratio: median(&now).zip(median(&good)).map(|(a, b)| shown_ratio(a - b, measure)),
            interval: compared.map(|it| it.interval),
            wanted: None,
            judgment: BisectJudgment::undescribed(verdict, now.len()),
        })
    }
}

/// A comparison before it is put into words.
struct Compared {
    /// Ratio of the build to the good one, with its 95 % interval.
    ratio: Option<f64>,
    interval: Option<(f64, f64)>,
    /// Number of pairs that would decide.
    wanted: Option<usize>,
    judgment: BisectJudgment,
}

impl Compared {
    fn describe(&self, name: &str, request: &BisectRequest, measure: Measure) -> String {
        let Some(ratio) = self.ratio else { return format!("{name}: no trial counts") };
        let at_share =
            |share: f64| three_digits(shown_ratio(request.size(measure) * share, measure));
        let limit = if request.is_paired {
            format!("limit {}", at_share(0.5))
        } else {
            let (good, bad) = STORED_SHARES;
            format!("limits {} and {}", at_share(good), at_share(bad))
        };
        let interval = self.interval.map_or(String::new(), |(lo, hi)| {
            format!("95 %: {} to {}; ", three_digits(lo), three_digits(hi))
        });
        let trials = counted(self.judgment.trials, "trial");
        let mut text = format!(
            "{name} is {} of the good one's ({interval}{limit}) after {trials}",
            three_digits(ratio)
        );
        if request.is_paired {
            text.push_str(" of each");
        }
        if let (BisectVerdict::Open, Some(wanted)) = (self.judgment.verdict, self.wanted)
            && wanted > self.judgment.trials
        {
            // Writing to a string cannot fail.
            let _ = write!(text, "; about {wanted} would decide");
        }
        text
    }
}

impl BisectJudgment {
    const fn undescribed(verdict: BisectVerdict, trials: usize) -> Self {
        Self { verdict, sentence: String::new(), trials, is_worth_more: true }
    }
}

/// Joins the results: any may be bad, and all have to be good.
fn join(results: &[BisectJudgment]) -> BisectJudgment {
    let trials = results.iter().map(|result| result.trials).min().unwrap_or(0);
    let is_worth_more = results.iter().all(|result| result.is_worth_more);
    for verdict in [BisectVerdict::Bad, BisectVerdict::Open] {
        let mut with = results.iter().filter(|result| result.verdict == verdict);
        // What more trials can't help keeps the answer open for good.
        let first = with.clone().find(|result| !result.is_worth_more).or_else(|| with.next());
        if let Some(first) = first {
            return BisectJudgment { verdict, trials, is_worth_more, ..first.clone() };
        }
    }
    let sentence = match results {
        [] => "no result".to_owned(),
        [one] => one.sentence.clone(),
        [first, rest @ ..] => format!("{}; {} more are good", first.sentence, rest.len()),
    };
    let verdict = if results.is_empty() { BisectVerdict::Open } else { BisectVerdict::Good };
    BisectJudgment { verdict, sentence, trials, is_worth_more }
}

struct TrialCost {
    trial: u32,
    /// Logarithm of the time of an op or a byte.
    log: f64,
}

/// Returns the costs of the trials that count; `None` if one has no such result.
fn costs(row: &Row<'_>, measure: Measure) -> Option<Vec<TrialCost>> {
    let mut costs = Vec::new();
    for point in row.judged.points.iter().filter(|point| point.used) {
        let cost = if measure.is_gain() {
            1.0 / point.comparable_per_s
        } else {
            measure.time_ns(trial_result(row, point.trial_index)?)?
        };
        let log = cost.ln();
        if !log.is_finite() {
            return None;
        }
        costs.push(TrialCost { trial: point.trial_index, log });
    }
    Some(costs)
}

/// Returns the ratio that tables show for a logarithm of costs.
fn shown_ratio(slowdown: f64, measure: Measure) -> f64 {
    if measure.is_gain() { (-slowdown).exp() } else { slowdown.exp() }
}

/// Finds the row of the good build with the same pass and settings.
fn partner<'a>(row: &Row<'_>, good: &[&'a Row<'a>]) -> Result<&'a Row<'a>, String> {
    let own = row_settings(row);
    let is_same = |other: &&&Row<'_>| {
        let others = row_settings(other);
        own.iter().all(|(name, value)| {
            let other = others.iter().find(|(known, _)| known == name);
            SIDE.contains(name)
                || REPETITION.contains(name)
                || other.is_none_or(|(_, other)| other == value)
        })
    };
    let mut partners = good.iter().filter(is_same);
    match (partners.next(), partners.next()) {
        (Some(partner), None) => Ok(partner),
        (Some(_), Some(_)) => Err(format!(
            "the good build has several results of {} with the same settings (hint: store it in a \
             campaign of its own)",
            row.pass_name()
        )),
        (None, _) => Err(format!(
            "the good build has no result of {} with the same settings (hint: measure both with \
             the same plan and flags)",
            row.pass_name()
        )),
    }
}

fn caveats(row: &Row<'_>) -> Vec<CaveatCode> {
    row.judged.caveats.iter().filter(|one| !one.is_minor()).map(|one| one.code).collect()
}

fn why_unusable(row: &Row<'_>) -> String {
    if row.judged.rate.is_some() { format!("invalid: {}", row.codes()) } else { row.missing() }
}
