//! What a bundle states in a form that people and scripts can read: verdicts and facts.
//!
//! Both are computed from the campaign when it is packed and once more when it is verified.

use std::collections::BTreeSet;

use model::{Campaign, Fact, Verdict};
use serde::{Deserialize, Serialize};
use stats::Rate;

use crate::table::{Row, Sheet};

/// Relative difference up to which numbers are the same: they were computed on another machine.
const SAME_WITHIN: f64 = 1e-9;

/// The verdict of a row and the numbers that people cite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedVerdict {
    /// Position of the run in the matrix, from 0.
    pub run: u32,
    /// Target, pass and the settings that distinguish the row.
    pub row: String,
    pub pass: String,
    pub verdict: Verdict,
    /// Codes of its caveats, in alphabetical order.
    pub caveats: Vec<String>,
    pub trials_made: u32,
    pub trials_used: u32,
    /// Unit of the rate: `B/s`, `op/s`, `entry/s` or `command/s`.
    pub unit: String,
    /// Median; null if there is no result.
    pub rate: Option<f64>,
    /// Ends of its 95 % confidence interval; null for fewer than three trials.
    pub interval: Option<(f64, f64)>,
    pub response_time_p99_ns: Option<u64>,
}

/// Computes the verdicts of all rows of a campaign.
pub fn state_verdicts(campaign: &Campaign) -> Vec<StatedVerdict> {
    let sheet = Sheet::from_campaign(campaign);
    sheet.rows.iter().map(|row| state_verdict(&sheet, row)).collect()
}

fn state_verdict(sheet: &Sheet<'_>, row: &Row<'_>) -> StatedVerdict {
    let judged = &row.judged;
    let caveats: BTreeSet<_> = judged.caveats.iter().map(|caveat| caveat.code.code()).collect();
    let unit = match judged.shown(0.0) {
        Rate::Bytes(_) => "B/s",
        Rate::Ops(_) => "op/s",
        Rate::Entries(_) => "entry/s",
        Rate::Commands(_) => "command/s",
    };
    let times = &judged.response_time;
    StatedVerdict {
        run: row.run.index,
        row: sheet.name(row),
        pass: judged.pass.name().to_owned(),
        verdict: judged.verdict,
        caveats: caveats.into_iter().map(str::to_owned).collect(),
        trials_made: judged.trials_made,
        trials_used: judged.trials_used,
        unit: unit.to_owned(),
        rate: judged.rate.as_ref().map(|rate| rate.median),
        interval: judged.rate.as_ref().and_then(stats::Summary::confidence_interval),
        response_time_p99_ns: (times.count() > 0).then(|| times.quantile(0.99)),
    }
}

impl StatedVerdict {
    /// Describes the first difference from the verdict that was computed again.
    pub(super) fn difference(&self, again: &Self) -> Option<String> {
        let same = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => {
                (one - other).abs() <= SAME_WITHIN * one.abs().max(other.abs())
            }
            (one, other) => one.is_none() && other.is_none(),
        };
        let low = |row: &Self| row.interval.map(|interval| interval.0);
        let high = |row: &Self| row.interval.map(|interval| interval.1);
        let differs = |what: &str, stated: &dyn std::fmt::Debug, now: &dyn std::fmt::Debug| {
            Some(format!("{what} is stated as {stated:?}, and computed as {now:?}"))
        };
        if self.row != again.row || self.run != again.run || self.pass != again.pass {
            return differs("the row", &self.row, &again.row);
        }
        if self.verdict != again.verdict {
            return differs("the verdict", &self.verdict.name(), &again.verdict.name());
        }
        if self.caveats != again.caveats {
            return differs("the list of caveats", &self.caveats, &again.caveats);
        }
        let trials = [self.trials_made, self.trials_used];
        if trials != [again.trials_made, again.trials_used] {
            let now = [again.trials_made, again.trials_used];
            return differs("the number of trials made and used", &trials, &now);
        }
        if self.unit != again.unit || !same(self.rate, again.rate) {
            return differs("the rate", &self.rate, &again.rate);
        }
        if !same(low(self), low(again)) || !same(high(self), high(again)) {
            return differs("the interval", &self.interval, &again.interval);
        }
        if self.response_time_p99_ns != again.response_time_p99_ns {
            let now = &again.response_time_p99_ns;
            return differs("the response time p99", &self.response_time_p99_ns, now);
        }
        None
    }
}

/// Returns the facts of a campaign and of its trials, each once.
pub fn state_facts(campaign: &Campaign) -> Vec<&Fact> {
    let trials = campaign.runs.iter().flat_map(|run| &run.trials);
    let all = campaign.facts.iter().chain(trials.flat_map(|trial| &trial.facts));
    let mut seen = BTreeSet::new();
    all.filter(|fact| seen.insert((&fact.scope, &fact.name, &fact.value, &fact.source))).collect()
}
