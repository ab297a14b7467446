//! The answer in three sentences: what was reached, what makes the difference, how far to trust it.
//!
//! [`lead`] is the way in. What makes the difference is the setting whose levels lie farthest
//! apart, all else alike, where one varies; else what was found among the targets: what compares
//! like with like before what doesn't, and the largest first. Its qualifications stand with it.

use model::CaveatCode;
use stats::effects::FactorEffect;

use super::findings::{Finding, Ratios};
use super::group::{Figure, Group};
use super::{caveats, qualifiers};
use crate::factor_effects::{FactorEffects, PassFactors};
use crate::sheet::Sheet;
use crate::show::{counted, percent};

/// So many kinds of pass are named with what was reached in them.
const PASSES_MAX: usize = 3;

/// A setting that governs less of the variance than this makes no difference worth a sentence.
const SHARE_MIN: f64 = 0.1;

/// The settings that are reported with the targets, where like is compared with like.
const OF_TARGETS: [&str; 2] = ["target", "backend"];

/// The sentences, at most three.
pub fn lead(
    sheet: &Sheet<'_>,
    effects: &FactorEffects,
    groups: &[Group<'_>],
    findings: &[Option<Finding>],
) -> Vec<String> {
    let mut sentences = vec![highest_figures(groups)];
    sentences.extend(largest_difference(sheet, effects, groups, findings));
    sentences.extend(caveats::remark(sheet));
    sentences
}

/// The highest figure of the first kinds of pass.
fn highest_figures(groups: &[Group<'_>]) -> String {
    if groups.is_empty() {
        return "There is no figure that may be used.".to_owned();
    }
    let highest = |group: &Group<'_>| {
        let (_, highest) = group.extremes();
        let up_to = if group.measured().len() > 1 { "up to " } else { "" };
        let (figure, place) = (group.shown(&highest), group.place(&highest));
        format!("{} {up_to}{figure} on {place}{}", group.name, qualify_figure(&highest))
    };
    let named: Vec<String> = groups.iter().take(PASSES_MAX).map(highest).collect();
    let more = match groups.len().saturating_sub(PASSES_MAX) {
        0 => String::new(),
        1 => "; and one more kind of pass".to_owned(),
        more => format!("; and {more} more kinds of pass"),
    };
    format!("Reached: {}{more}.", named.join("; "))
}

/// Returns the qualification without which a figure must not be reported.
fn qualify_figure(figure: &Figure<'_>) -> String {
    let known = figure.row.judged.caveats.iter().map(|caveat| caveat.code);
    let telling = known.filter(|code| matches!(code, CaveatCode::Cached | CaveatCode::NotDurable));
    telling.fold(String::new(), |told, code| told + ", " + code.code())
}

/// Returns the setting with the largest effect; `None` where every pass has one figure only.
fn largest_difference(
    sheet: &Sheet<'_>,
    effects: &FactorEffects,
    groups: &[Group<'_>],
    findings: &[Option<Finding>],
) -> Option<String> {
    if !sheet.columns.is_empty()
        && let Some((pass, sentence)) = dominant_factor(effects)
    {
        let group = groups.iter().find(|group| group.name == pass);
        return Some(
            group.map_or(format!("{sentence}."), |of| qualifiers::with_notes(of, &sentence)),
        );
    }
    let found =
        groups.iter().zip(findings).filter_map(|(group, found)| Some((group, found.as_ref()?)));
    let weight = |(group, finding): &(&Group<'_>, &Finding)| {
        // Of ratios within a tenth of each other the first is as good.
        let tenths = (finding.apart.ln() * 10.0).round() as i64;
        (finding.by_intervals, !qualifiers::is_qualified(group), tenths)
    };
    let heavier = |best, next| if weight(&next) > weight(&best) { next } else { best };
    let (group, finding) = found.reduce(heavier)?;
    let told = format!("{}: {}", group.name, lower_first_letter(&finding.sentence));
    Some(qualifiers::with_notes(group, &told))
}

/// The setting with the largest effect of all kinds of pass, and how large it is; first in which.
fn dominant_factor(effects: &FactorEffects) -> Option<(String, String)> {
    let mut largest: Option<(&PassFactors, &FactorEffect, usize, f64)> = None;
    for pass in &effects.passes {
        let Ok(effects) = &pass.found else { continue };
        let told = |effect: &&FactorEffect| {
            effect.share >= SHARE_MIN && !OF_TARGETS.contains(&pass.factors[effect.factor].name)
        };
        for effect in effects.factors.iter().filter(told) {
            for (number, level) in effect.levels.iter().enumerate() {
                let size = level.ratio.ln().abs();
                let is_larger = largest.is_none_or(|(.., known)| size > known);
                if level.is_apart() && is_larger {
                    largest = Some((pass, effect, number, size));
                }
            }
        }
    }
    let (pass, effect, number, _) = largest?;
    let factor = &pass.factors[effect.factor];
    let level = &effect.levels[number];
    let (first, other) = (&factor.levels[level.against], &factor.levels[number]);
    let (high, low) = if level.ratio < 1.0 { (first, other) } else { (other, first) };
    let ratio = Ratios::of_effect(level);
    let told = format!(
        "{} matters most, in {}: {high} is {} {low}{}, all else alike; it explains {} of the \
         variance there ({})",
        factor.name,
        pass.name,
        ratio.as_times(),
        ratio.as_interval(),
        percent(effect.share),
        counted(pass.trials, "trial"),
    );
    Some((pass.name.clone(), told))
}

/// A sentence that goes on behind a colon; names keep their first letter.
fn lower_first_letter(sentence: &str) -> String {
    let begins = ["Within ", "Too ", "Not ", "The "];
    let mut text = sentence.to_owned();
    if begins.iter().any(|begin| text.starts_with(begin)) {
        text[..1].make_ascii_lowercase();
    }
    text
}
