//! The answer in three sentences: the highest results, what makes the difference, how far to trust
//! it.
//!
//! [`lead`] is the entry point. If settings vary, the difference is the one with the largest
//! effect, other settings equal. Otherwise, it is the largest difference between targets,
//! preferring comparisons of like with like. If a conclusion of the plan asks for a ranking of all
//! factors, that comes first.

use model::{CaveatCode, Expectation};
use stats::Judged;
use stats::effects::FactorEffect;

use super::findings::{Finding, Ratios};
use super::group::{Group, UsableRow};
use super::relation::level_with;
use super::{caveats, qualifiers};
use crate::campaign::row_excerpt::SHARE_MIN;
use crate::factor_effects::{Factor, FactorEffects, PassFactors};
use crate::humanize::{counted, percent};
use crate::table::Sheet;

/// Maximum number of passes to name with their highest result.
const PASSES_MAX: usize = 3;

/// Maximum number of factors in a ranking.
const RANKED_MAX: usize = 8;

/// Settings that are never reported as the largest effect. Targets and backends are compared in
/// sentences of their own; offered load and client counts are inputs of a test.
const NOT_EFFECTS: [&str; 6] =
    ["target", "backend", "rate", "clients", "client_hosts", "agents_per_host"];

/// Builds at most three sentences. A ranking replaces the sentence about the difference.
pub(super) fn lead(
    sheet: &Sheet<'_>,
    effects: &FactorEffects,
    groups: &[Group<'_>],
    findings: &[Option<Finding>],
) -> Vec<String> {
    let mut sentences = Vec::new();
    let ranking = if asks_for_ranking(sheet) { rank_factors(effects) } else { None };
    let is_ranked = ranking.is_some();
    sentences.extend(ranking);
    sentences.push(highest_figures(groups));
    if !is_ranked {
        sentences.extend(largest_difference(sheet, effects, groups, findings));
    }
    sentences.extend(caveats::remark(sheet));
    sentences
}

/// Returns true if the plan asks which factors matter.
fn asks_for_ranking(sheet: &Sheet<'_>) -> bool {
    sheet.conclusions().iter().any(|one| one.expect == Expectation::Ranking)
}

/// Ranks the factors of the first few kinds of pass by explained variance, each with its largest
/// effect; `None` if no pass has effects.
fn rank_factors(effects: &FactorEffects) -> Option<String> {
    let mut ranked = Vec::new();
    for pass in &effects.passes {
        let Ok(found) = &pass.found else { continue };
        if found.factors.is_empty() || ranked.len() == PASSES_MAX {
            continue;
        }
        let mut certain = Vec::new();
        let mut noise = Vec::new();
        // Already sorted by share.
        for effect in found.factors.iter().take(RANKED_MAX) {
            let list = if effect.is_certain() { &mut certain } else { &mut noise };
            list.push(rank_one(&pass.factors[effect.factor], effect, pass.are_times));
        }
        if !noise.is_empty() {
            certain.push(format!("no measurable effect of {}", noise.join(", ")));
        }
        ranked.push(format!("n {}: {}.", pass.name, certain.join(", ")));
    }
    if ranked.is_empty() {
        return None;
    }
    Some(format!("How much each factor matters (share of the variance), i{}", ranked.join(" I")))
}

/// Names a factor with its share and largest effect; without the share if the effect is within the
/// noise.
fn rank_one(factor: &Factor, effect: &FactorEffect, are_times: bool) -> String {
    let mut farthest: Option<(usize, f64)> = None;
    for (number, level) in effect.levels.iter().enumerate() {
        let size = level.ratio.ln().abs();
        if level.against != number && farthest.is_none_or(|(_, known)| size > known) {
            farthest = Some((number, size));
        }
    }
    let share = percent(effect.share);
    let Some((number, _)) = farthest else { return format!("{} {share}", factor.name) };
    let level = &effect.levels[number];
    let first = &factor.levels[level.against];
    let other = &factor.levels[number];
    let (high, low) = if level.ratio < 1.0 { (first, other) } else { (other, first) };
    let ratio = Ratios::from_effect(level).as_times();
    if !effect.is_certain() {
        return format!("{} {ratio}", factor.name);
    }
    if are_times {
        return format!("{} {share} ({high} takes {ratio} as long as {low})", factor.name);
    }
    format!("{} {share} ({high} is {ratio} {low})", factor.name)
}

/// Names the highest result of the first few kinds of pass.
fn highest_figures(groups: &[Group<'_>]) -> String {
    if groups.is_empty() {
        return "No result is usable.".to_owned();
    }
    let named: Vec<_> = groups
        .iter()
        .take(PASSES_MAX)
        .map(|group| format!("{} {}", group.name, highest_figure(group)))
        .collect();
    let more = match groups.len().saturating_sub(PASSES_MAX) {
        0 => String::new(),
        1 => "; 1 more test below".to_owned(),
        more => format!("; {more} more tests below"),
    };
    let lead =
        if groups.iter().any(|group| group.measured().len() > 1) { "Fastest" } else { "Measured" };
    format!("{lead}: {}{more}.", named.join("; "))
}

/// Names the highest result of a group with the settings it needs, or the range if all results are
/// level.
fn highest_figure(group: &Group<'_>) -> String {
    let (lowest, highest) = group.extremes();
    let level = level_with(group, &highest);
    if level.len() > 1 && level.len() == group.measured().len() {
        let range = group.format_range(&lowest, &highest);
        return format!("{range} (intervals overlap){}", qualify_figure(&highest));
    }
    let place = group.shared_place(&highest, &level);
    format!("{} ({place}){}", group.shown(&highest), qualify_figure(&highest))
}

/// Caveats without which a result must not be quoted.
fn qualify_figure(figure: &UsableRow<'_>) -> String {
    qualify_judged(&figure.row.judged)
}

/// Like [`qualify_figure`], for any result.
pub(super) fn qualify_judged(judged: &Judged) -> String {
    let mut text = String::new();
    for caveat in &judged.caveats {
        // With either of these, the result may be the speed of memory rather than storage.
        if matches!(caveat.code, CaveatCode::Cached | CaveatCode::NotDurable) {
            text.extend([", ", caveat.code.code()]);
        }
    }
    text
}

/// Describes the setting with the largest effect; `None` if every pass has only one result.
fn largest_difference(
    sheet: &Sheet<'_>,
    effects: &FactorEffects,
    groups: &[Group<'_>],
    findings: &[Option<Finding>],
) -> Option<String> {
    if !sheet.columns.is_empty()
        && let Some((pass, sentence)) = dominant_factor(effects)
    {
        return Some(match groups.iter().find(|group| group.name == pass) {
            Some(group) => qualifiers::with_notes(group, &sentence),
            None => format!("{sentence}."),
        });
    }
    let mut heaviest: Option<((bool, bool, i64), &Group<'_>, &Finding)> = None;
    for (group, finding) in groups.iter().zip(findings) {
        let Some(finding) = finding else { continue };
        // Ratios within 10 % of each other count as equal; the first one wins.
        let tenths = (finding.apart.ln() * 10.0).round() as i64;
        let weight = (finding.by_intervals, !qualifiers::is_qualified(group), tenths);
        if heaviest.as_ref().is_none_or(|(known, ..)| weight > *known) {
            heaviest = Some((weight, group, finding));
        }
    }
    let (_, group, finding) = heaviest?;
    let sentence = format!("{}: {}", group.name, lower_first_letter(&finding.sentence));
    Some(qualifiers::with_notes(group, &sentence))
}

/// Finds the pass in which its dominant setting has the largest effect. Returns the pass and the
/// sentence.
fn dominant_factor(effects: &FactorEffects) -> Option<(String, String)> {
    let mut largest: Option<(&PassFactors, &FactorEffect, usize, f64)> = None;
    for pass in &effects.passes {
        // A setting with a larger ratio may explain less of the variance, if most of its levels are
        // close together.
        let Some(effect) = largest_share(pass) else { continue };
        for (number, level) in effect.levels.iter().enumerate() {
            // The logarithm gives twice and half as fast the same size.
            let size = level.ratio.ln().abs();
            let is_larger = largest.is_none_or(|(.., known)| size > known);
            if level.is_apart() && is_larger {
                largest = Some((pass, effect, number, size));
            }
        }
    }
    let (pass, effect, number, _) = largest?;
    let factor = &pass.factors[effect.factor];
    let level = &effect.levels[number];
    let first = &factor.levels[level.against];
    let other = &factor.levels[number];
    let (high, low) = if level.ratio < 1.0 { (first, other) } else { (other, first) };
    let ratio = Ratios::from_effect(level);
    let times = ratio.as_times();
    let interval = ratio.as_interval();
    let comparison = if pass.are_times {
        // The figures are times here, so the higher one is slower.
        format!("{high} takes {times} as long as {low}{interval}")
    } else {
        format!("{high} is {times} {low}{interval}")
    };
    let sentence = format!(
        "{} has the largest effect, in {}: {comparison}, other settings equal{}; it explains {} of \
         the variance there ({})",
        factor.name,
        pass.name,
        name_together(factor),
        percent(effect.share),
        counted(pass.trials, "trial"),
    );
    Some((pass.name.clone(), sentence))
}

/// The setting that explains most of the variance of a kind of pass, among those with a level that
/// differs measurably from another.
fn largest_share(pass: &PassFactors) -> Option<&FactorEffect> {
    let effects = pass.found.as_ref().ok()?;
    let mut largest: Option<&FactorEffect> = None;
    for effect in &effects.factors {
        let name = pass.factors[effect.factor].name.as_str();
        if effect.share < SHARE_MIN || NOT_EFFECTS.contains(&name) || !effect.is_certain() {
            continue;
        }
        if largest.is_none_or(|known| effect.share > known.share) {
            largest = Some(effect);
        }
    }
    largest
}

/// Qualifies "other settings equal" if another setting changes together with the factor.
fn name_together(factor: &Factor) -> String {
    if factor.together.is_empty() {
        return String::new();
    }
    format!(" but {}, which changes together with it", factor.list_together())
}

/// Lowercases the first letter so that the sentence can follow a colon, unless it starts with a
/// name.
fn lower_first_letter(sentence: &str) -> String {
    let begins = ["No ", "Too ", "Not ", "The "];
    let mut text = sentence.to_owned();
    if begins.iter().any(|begin| text.starts_with(begin)) {
        text[..1].make_ascii_lowercase();
    }
    text
}
