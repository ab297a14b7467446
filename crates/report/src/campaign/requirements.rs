//! Checks the limits that results must keep: met, missed or undecided.
//!
//! [`check`] is the entry point and returns a [`RequirementCheck`] for each. A limit is met or
//! missed only if the whole 95 % interval of a result is on one side of it, as with the bounds of
//! `dfsbench compare`; otherwise it is undecided. A result that may not be used, or that came from
//! a cache, meets nothing.

use std::fmt::Write as _;

use model::units::Nanos;
use model::{CaveatCode, Limit, LimitMetric, PassResult, Requirement, TrialState, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Rate, Summary};

use crate::campaign::conclusions::has_conditions;
use crate::document::{Block, Cell, Column, Form, Role, Section, Table, TableRow};
use crate::humanize::{self, counted};
use crate::table::{Row, Sheet};

/// Explanation below the table.
const READING: &str = "A limit is met or missed if the whole 95 % interval is on one side of it; \
                       otherwise it is undecided.";

/// Caveats of results that are better than what the target can do.
const FLATTERED: [CaveatCode; 4] =
    [CaveatCode::Cached, CaveatCode::MixedTrials, CaveatCode::Localio, CaveatCode::Delegated];

/// Outcome of one limit, or of all of them: the worst one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequirementOutcome {
    Met,
    Undecided,
    Missed,
}

/// A requirement and its outcome in every result that it covers.
pub(crate) struct RequirementCheck {
    pub limit: String,
    /// Outcomes in the order of the rows.
    pub results: Vec<ResultCheck>,
}

/// Outcome of a limit in one row.
pub(crate) struct ResultCheck {
    /// Name of the row.
    pub row: String,
    pub outcome: RequirementOutcome,
    /// Measured value with its interval; empty if there is none.
    pub measured: String,
    /// Reason why it is undecided although there may be an interval; empty if it is decided.
    pub why: String,
}

impl RequirementOutcome {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Undecided => "undecided",
            Self::Missed => "missed",
        }
    }
}

impl RequirementCheck {
    /// Returns the worst outcome; undecided if the requirement covers no result.
    pub(crate) fn outcome(&self) -> RequirementOutcome {
        let outcomes = self.results.iter().map(|result| result.outcome);
        outcomes.max().unwrap_or(RequirementOutcome::Undecided)
    }

    /// Describes the results that decide the outcome.
    fn describe(&self) -> String {
        let outcome = self.outcome();
        let deciding: Vec<&ResultCheck> =
            self.results.iter().filter(|result| result.outcome == outcome).collect();
        let Some(first) = deciding.first() else {
            return "no run was made under these conditions".to_owned();
        };
        let mut text = first.describe();
        // Writing to a string cannot fail.
        if deciding.len() > 1 {
            let _ = write!(text, "; {} more", deciding.len() - 1);
        }
        if deciding.len() < self.results.len() {
            let _ = write!(text, " ({} of {})", deciding.len(), self.results.len());
        }
        text
    }
}

impl ResultCheck {
    /// `nfs stream read: 24.1 ms (22.0 ms to 26.3 ms)`, with the reason if it is undecided.
    pub(crate) fn describe(&self) -> String {
        let parts: Vec<&str> = [&self.measured, &self.why]
            .into_iter()
            .filter(|s| !s.is_empty())
            .map(|s| &**s)
            .collect();
        format!("{}: {}", self.row, parts.join(", "))
    }
}

/// Returns the worst outcome of all requirements; `None` if there are none.
pub(crate) fn worst_outcome(sheet: &Sheet<'_>) -> Option<RequirementOutcome> {
    check(sheet).iter().map(RequirementCheck::outcome).max()
}

/// Checks all requirements in the order of the plan.
pub(crate) fn check(sheet: &Sheet<'_>) -> Vec<RequirementCheck> {
    let requirements = sheet.requirements.iter();
    requirements.filter_map(|requirement| check_one(sheet, requirement)).collect()
}

/// Returns `None` for a limit that cannot be parsed, which a plan never contains.
fn check_one(sheet: &Sheet<'_>, requirement: &Requirement) -> Option<RequirementCheck> {
    let limit = Limit::parse(&requirement.limit).ok()?;
    let is_covered = |row: &&Row<'_>| {
        limit.covers(row.run.spec.workload, row.judged.pass)
            && row.judged.impossible.is_none()
            && has_conditions(sheet, row, &requirement.only)
    };
    let covered = sheet.rows.iter().filter(is_covered);
    let results = covered.map(|row| check_row(sheet, &limit, row)).collect();
    Some(RequirementCheck { limit: requirement.limit.clone(), results })
}

fn check_row(sheet: &Sheet<'_>, limit: &Limit, row: &Row<'_>) -> ResultCheck {
    let (outcome, measured, why) = match limit.metric {
        LimitMetric::Errors => check_errors(limit, row),
        LimitMetric::LateFrames => check_late_frames(limit, row),
        _ => check_interval(limit, row),
    };
    ResultCheck { row: sheet.name(row), outcome, measured, why }
}

/// Counts failed ops and trials without a result. Trials that were interrupted don't count.
fn check_errors(limit: &Limit, row: &Row<'_>) -> (RequirementOutcome, String, String) {
    let passes = || {
        let passes = row.run.trials.iter().flat_map(|trial| &trial.passes);
        passes.filter(|pass| pass.pass == row.judged.pass)
    };
    let failed_ops: u64 = passes().map(PassResult::errors).sum();
    let is_failed = |state: &TrialState| matches!(state, TrialState::Failed(_));
    let failed = row.run.trials.iter().filter(|trial| is_failed(&trial.state)).count();
    let mut measured = counted(failed_ops as usize, "failed op");
    if failed > 0 {
        let _ = write!(measured, ", {}", counted(failed, "failed trial"));
    }
    let errors = failed_ops as f64 + failed as f64;
    if !limit.relation.is_met(errors, limit.value) {
        return (RequirementOutcome::Missed, measured, String::new());
    }
    if passes().next().is_none() {
        return (RequirementOutcome::Undecided, String::new(), row.missing());
    }
    (RequirementOutcome::Met, measured, String::new())
}

/// Counts late frames in the trial that had most of them.
fn check_late_frames(limit: &Limit, row: &Row<'_>) -> (RequirementOutcome, String, String) {
    let Some(frames) = row.judged.frames else {
        return (RequirementOutcome::Undecided, String::new(), row.missing());
    };
    let measured = format!("{} late of {}", frames.late_frames, frames.frames);
    if !limit.relation.is_met(frames.late_frames as f64, limit.value) {
        return (RequirementOutcome::Missed, measured, String::new());
    }
    if row.judged.verdict == Verdict::Invalid {
        let why = format!("must not be used: {}", row.codes());
        return (RequirementOutcome::Undecided, measured, why);
    }
    match row.marks().iter().find(|mark| FLATTERED.contains(&mark.code)) {
        Some(mark) => {
            (RequirementOutcome::Undecided, measured, format!("`{}` can't meet a limit", mark.code))
        }
        None => (RequirementOutcome::Met, measured, String::new()),
    }
}

fn check_interval(limit: &Limit, row: &Row<'_>) -> (RequirementOutcome, String, String) {
    let undecided = |measured, why| (RequirementOutcome::Undecided, measured, why);
    let Some(summary) = summarize(limit.metric, row) else {
        return undecided(String::new(), row.missing());
    };
    let Some((lo, hi)) = summary.confidence_interval() else {
        let why = format!("no interval from {}", counted(summary.n, "trial"));
        return undecided(show(limit.metric, summary.median), why);
    };
    let measured = format!(
        "{} ({} to {})",
        show(limit.metric, summary.median),
        show(limit.metric, lo),
        show(limit.metric, hi)
    );
    if row.judged.verdict == Verdict::Invalid {
        return undecided(measured, format!("must not be used: {}", row.codes()));
    }
    let is_met = |value| limit.relation.is_met(value, limit.value);
    match [is_met(lo), is_met(hi)] {
        [false, false] => (RequirementOutcome::Missed, measured, String::new()),
        [true, true] => match row.marks().iter().find(|mark| FLATTERED.contains(&mark.code)) {
            Some(mark) => undecided(measured, format!("`{}` can't meet a limit", mark.code)),
            None => (RequirementOutcome::Met, measured, String::new()),
        },
        _ => undecided(measured, "the limit is within the interval".to_owned()),
    }
}

/// Summarizes what a limit is about over the trials that count.
fn summarize(metric: LimitMetric, row: &Row<'_>) -> Option<Summary> {
    match metric {
        LimitMetric::ByteRate => row.judged.bytes_per_s,
        LimitMetric::Utilization => row.judged.training.map(|training| training.utilization),
        LimitMetric::OpRate => row.judged.ops_per_s,
        LimitMetric::WallTime => {
            let used = stats::judge::used_results(row.run, row.judged.pass);
            let times: Vec<f64> = used.iter().map(|pass| pass.window_ns as f64).collect();
            stats::summary(&times)
        }
        LimitMetric::ResponseTime(quantile) => {
            let used = stats::judge::used_results(row.run, row.judged.pass);
            let times: Vec<f64> =
                used.iter().map(|pass| pass.response_time().quantile(quantile) as f64).collect();
            stats::summary(&times)
        }
        LimitMetric::Errors | LimitMetric::LateFrames => None,
    }
}

fn show(metric: LimitMetric, value: f64) -> String {
    match metric {
        LimitMetric::ByteRate => Rate::Bytes(value).to_string(),
        LimitMetric::OpRate => Rate::Ops(value).to_string(),
        LimitMetric::Utilization => humanize::share(value),
        LimitMetric::WallTime | LimitMetric::ResponseTime(_) => Nanos(value as u64).to_string(),
        LimitMetric::Errors | LimitMetric::LateFrames => value.to_string(),
    }
}

/// Counts the outcomes in a sentence: `2 of 3 requirements are met; missed: read.p99 < 20ms.`
pub(crate) fn sentence(checks: &[RequirementCheck]) -> Option<String> {
    if checks.is_empty() {
        return None;
    }
    let with = |outcome| checks.iter().filter(move |check| check.outcome() == outcome);
    let met = with(RequirementOutcome::Met).count();
    let mut text = match (met, checks.len()) {
        (1, 1) => "The requirement is met".to_owned(),
        (met, all) if met == all => format!("All {all} requirements are met"),
        (met, all) => format!("{met} of {} are met", counted(all, "requirement")),
    };
    for outcome in [RequirementOutcome::Missed, RequirementOutcome::Undecided] {
        let limits: Vec<&str> = with(outcome).map(|check| check.limit.as_str()).collect();
        if !limits.is_empty() {
            let _ = write!(text, "; {}: {}", outcome.name(), limits.join(", "));
        }
    }
    Some(text + ".")
}

/// Builds the section with the requirements; `None` if there are none.
pub(crate) fn section(checks: &[RequirementCheck], form: Form) -> Option<Section> {
    if checks.is_empty() {
        return None;
    }
    let block = match form {
        Form::Text => Block::List(
            checks
                .iter()
                .map(|check| {
                    format!("{}: {}: {}", check.outcome().name(), check.limit, check.describe())
                })
                .collect(),
        ),
        Form::Markdown | Form::Html => Block::Table(table(checks)),
    };
    let heading = "Requirements".to_owned();
    Some(Section { id: "requirements", heading, blocks: vec![block], ..Section::default() })
}

fn table(checks: &[RequirementCheck]) -> Table {
    let columns = Column::all(&[
        ("limit", Role::Words),
        ("outcome", Role::Words),
        ("measured (95 % interval)", Role::Prose),
    ]);
    let row = |check: &RequirementCheck| {
        let outcome = check.outcome().name();
        let cells =
            vec![Cell::text(&check.limit), Cell::text(outcome), Cell::text(check.describe())];
        TableRow { cells, ..TableRow::default() }
    };
    let rows = checks.iter().map(row).collect();
    Table { columns, rows, reading: vec![READING.to_owned()], ..Table::default() }
}

/// A requirement in JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Requirement")]
pub(crate) struct RequirementPart {
    /// The limit as it was written.
    limit: String,
    /// The worst outcome of all results.
    #[schemars(extend("enum" = ["met", "undecided", "missed"]))]
    outcome: &'static str,
    results: Vec<RequirementResultPart>,
}

/// A requirement in one result.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RequirementResult")]
struct RequirementResultPart {
    /// Target, pass and settings.
    row: String,
    #[schemars(extend("enum" = ["met", "undecided", "missed"]))]
    outcome: &'static str,
    /// The value with its 95 % interval in words; empty if there is none.
    measured: String,
    /// Why it is undecided; empty if it is decided.
    why: String,
}

impl RequirementPart {
    pub(crate) fn all(sheet: &Sheet<'_>) -> Vec<Self> {
        let result = |one: ResultCheck| RequirementResultPart {
            row: one.row,
            outcome: one.outcome.name(),
            measured: one.measured,
            why: one.why,
        };
        let part = |check: RequirementCheck| Self {
            outcome: check.outcome().name(),
            limit: check.limit,
            results: check.results.into_iter().map(result).collect(),
        };
        check(sheet).into_iter().map(part).collect()
    }
}
