//! Judges the conclusions declared in a plan against the data: borne out, contradicted or
//! undecided.
//!
//! [`judge`] is the entry point and returns a [`JudgedConclusion`] for each. A conclusion is about
//! the effect of one factor between two of its levels, with all other settings equal, computed as
//! in `dfsbench factors`. "Faster" requires a ratio beyond the smallest effect that matters and an
//! interval that excludes 1; "no difference" requires an interval within the smallest effect.
//! Anything the interval cannot decide is undecided.

mod comparison;
pub(crate) mod section;

use std::collections::BTreeMap;

use model::{Conclusion, Expectation, Pass};

use crate::factor_effects::PassFactors;
use crate::table::setting_number::quantity;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

pub(crate) use comparison::{Comparison, Outcome};

/// Conclusion with its outcome.
pub(crate) struct JudgedConclusion {
    /// Conclusion and the comparison it is based on.
    pub conclusion: Conclusion,
    /// Outcome over all passes.
    pub standing: ConclusionVerdict,
    /// Comparison in each kind of pass, in order of appearance.
    pub comparisons: Vec<Comparison>,
    /// Reason why nothing was compared; empty if something was.
    pub why: String,
}

/// Outcome of a conclusion over all passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConclusionVerdict {
    /// All passes confirm it.
    BorneOut,
    /// Some passes confirm it; others contradict it or are undecided.
    Partly,
    /// No pass confirms it, and at least one contradicts it.
    Contradicted,
    /// All passes are undecided.
    Undecided,
    /// The conclusion is a question that is answered by ranking the factors.
    Answered,
}

impl ConclusionVerdict {
    /// Name shown in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::BorneOut => "borne out",
            Self::Partly => "partly borne out",
            Self::Contradicted => "contradicted",
            Self::Undecided => "undecided",
            Self::Answered => "answered",
        }
    }

    fn from_comparisons(comparisons: &[Comparison]) -> Self {
        let count = |outcome| comparisons.iter().filter(|one| one.outcome == outcome).count();
        let borne = count(Outcome::BorneOut);
        let contradicted = count(Outcome::Contradicted);
        match (borne, contradicted) {
            _ if comparisons.iter().any(|one| one.outcome == Outcome::Answered) => Self::Answered,
            (0, 0) => Self::Undecided,
            (0, _) => Self::Contradicted,
            (all, 0) if all == comparisons.len() => Self::BorneOut,
            _ => Self::Partly,
        }
    }
}

/// Judges all conclusions, in the order of the plan.
pub(crate) fn judge(sheet: &Sheet<'_>) -> Vec<JudgedConclusion> {
    let conclusions = sheet.conclusions();
    conclusions.into_iter().map(|conclusion| judge_one(sheet, conclusion)).collect()
}

fn judge_one(sheet: &Sheet<'_>, conclusion: Conclusion) -> JudgedConclusion {
    let compared = match compare(sheet, &conclusion) {
        Ok(comparisons) => (comparisons, String::new()),
        Err(why) => (Vec::new(), why),
    };
    let (comparisons, why) = compared;
    JudgedConclusion {
        standing: ConclusionVerdict::from_comparisons(&comparisons),
        conclusion,
        comparisons,
        why,
    }
}

/// Compares the two levels in each kind of pass that the conclusion covers.
fn compare(sheet: &Sheet<'_>, conclusion: &Conclusion) -> Result<Vec<Comparison>, String> {
    let Conclusion { factor, .. } = conclusion;
    let is_ranking = conclusion.expect == Expectation::Ranking;
    if factor.is_empty() && !is_ranking {
        let why =
            if conclusion.why.is_empty() { "no comparison is defined" } else { &conclusion.why };
        return Err(why.to_owned());
    }
    let mut chosen: Vec<&Row<'_>> = Vec::new();
    for row in &sheet.rows {
        if is_about(conclusion, row) && has_conditions(sheet, row, &conclusion.only) {
            chosen.push(row);
        }
    }
    if chosen.is_empty() {
        return Err("no runs have these settings".to_owned());
    }
    if is_ranking {
        let mut rankings = Vec::new();
        for (name, pass, rows) in group_by_pass(&chosen) {
            rankings.push(Comparison::rank_all(&PassFactors::new(name, pass, sheet, &rows, None)));
        }
        return Ok(rankings);
    }
    let levels = list_levels(sheet, &chosen, factor);
    let [from, to] = find_ends(conclusion, &levels)?;
    // Whether a factor matters most depends on all of its levels and on the other factors; all
    // other expectations concern only two levels.
    if conclusion.expect != Expectation::MattersMost {
        chosen.retain(|row| {
            let value = sheet.value(row, factor);
            value == from || value == to
        });
    }
    let mut comparisons = Vec::new();
    for (name, pass, rows) in group_by_pass(&chosen) {
        let effects = PassFactors::new(name, pass, sheet, &rows, Some(factor));
        let mut one = Comparison::new(&effects, conclusion, [&from, &to]);
        one.add_missing(sheet, &rows, factor);
        comparisons.push(one);
    }
    Ok(comparisons)
}

/// Returns true if a conclusion covers the pass of a row.
fn is_about(conclusion: &Conclusion, row: &Row<'_>) -> bool {
    let workload = row.run.spec.workload;
    conclusion.passes.is_empty()
        || conclusion.passes.iter().any(|name| workload.has_pass_named(name, row.judged.pass))
}

/// Returns true if a row has one of the levels of each setting.
pub(crate) fn has_conditions(
    sheet: &Sheet<'_>,
    row: &Row<'_>,
    only: &BTreeMap<String, Vec<String>>,
) -> bool {
    only.iter().all(|(name, levels)| {
        let value = sheet.value(row, name);
        levels.iter().any(|level| is_level(name, &value, level))
    })
}

/// Returns true if a displayed value is the level named in a plan, such as `2000 MiB` and
/// `2000MiB`, or `256 KiB (granted 64 KiB)` and `256KiB`.
fn is_level(name: &str, shown: &str, level: &str) -> bool {
    let requested = shown.split(" (").next().unwrap_or(shown);
    if crate::is_same(requested, level) || crate::is_same(shown, level) {
        return true;
    }
    match (quantity(name, requested), quantity(name, level)) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => false,
    }
}

/// Levels of a factor among the rows; sorted if they are numbers, otherwise in row order.
fn list_levels(sheet: &Sheet<'_>, rows: &[&Row<'_>], factor: &str) -> Vec<String> {
    let mut levels: Vec<String> = Vec::new();
    for row in rows {
        let value = sheet.value(row, factor);
        if value != NOT_APPLICABLE && !levels.iter().any(|known| *known == value) {
            levels.push(value.into_owned());
        }
    }
    if levels.iter().all(|level| quantity(factor, level).is_some()) {
        levels.sort_by(|a, b| {
            let [a, b] = [a, b].map(|level| quantity(factor, level).unwrap_or_default());
            a.total_cmp(&b)
        });
    }
    levels
}

/// Finds the two levels to compare, as they are displayed.
fn find_ends(conclusion: &Conclusion, levels: &[String]) -> Result<[String; 2], String> {
    let Conclusion { factor, from, to, .. } = conclusion;
    let find = |wanted: &String, usual: Option<&String>| match usual {
        Some(usual) if wanted.is_empty() => Ok(usual.clone()),
        _ => match levels.iter().find(|level| is_level(factor, level, wanted)) {
            Some(level) => Ok(level.clone()),
            None if levels.is_empty() => Err(name_unvaried(factor)),
            None => Err(format!("no run has {factor} {wanted}, only {}", levels.join(", "))),
        },
    };
    let ends = [find(from, levels.first())?, find(to, levels.last())?];
    if ends[0] == ends[1] {
        return Err(format!("all runs have {factor} {}", ends[0]));
    }
    Ok(ends)
}

/// Explains that the factor does not vary between runs and, for properties of campaigns, how to
/// compare them.
fn name_unvaried(factor: &str) -> String {
    if Conclusion::PROPERTIES.iter().any(|begin| factor.starts_with(begin)) {
        return format!(
            "{factor} differs only between campaigns: compare two with `dfsbench report 1 2`"
        );
    }
    format!("no run has {factor}")
}

/// Groups rows by kind of pass, in order of appearance.
fn group_by_pass<'s, 'a>(rows: &[&'s Row<'a>]) -> Vec<(String, Pass, Vec<&'s Row<'a>>)> {
    let mut groups: Vec<(String, Pass, Vec<&'s Row<'a>>)> = Vec::new();
    for row in rows {
        let name = row.pass_name();
        match groups.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., of_pass)) => of_pass.push(row),
            None => groups.push((name, row.judged.pass, vec![row])),
        }
    }
    groups
}
