//! Factors as JSON.
//!
//! The order and the names of the fields are those of the output, so this file is the format's
//! reference; `schema` grows when a field changes its meaning or goes.

use serde::Serialize;
use stats::effects::Effects;

use super::{FactorEffects, PassFactors};

/// Version of the format: grows when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    passes: Vec<PassPart<'a>>,
}

#[derive(Serialize)]
struct PassPart<'a> {
    name: &'a str,
    trials: usize,
    /// The ratios are of bytes per second, although the rate of the pass is one of ops.
    by_bytes: bool,
    rows_left_out: usize,
    reason: Option<&'a str>,
    factors: Vec<FactorPart<'a>>,
    interactions: Vec<InteractionPart<'a>>,
    unexplained_share: Option<f64>,
}

#[derive(Serialize)]
struct FactorPart<'a> {
    name: &'a str,
    share: f64,
    /// The factors that it lies within: its levels are compared where these are the same.
    within: Vec<&'a str>,
    levels: Vec<LevelPart<'a>>,
}

/// A ratio that can't be told has no numbers.
#[derive(Serialize)]
struct LevelPart<'a> {
    level: &'a str,
    /// The level that it is compared with: the first one, unless the factor lies within others.
    against: &'a str,
    ratio: Option<f64>,
    ratio_interval_lo: Option<f64>,
    ratio_interval_hi: Option<f64>,
}

#[derive(Serialize)]
struct InteractionPart<'a> {
    factors: [&'a str; 2],
    share: f64,
    probability: f64,
    within: Vec<WithinPart<'a>>,
}

/// The rate under a level of the second factor against that under the level it is compared with,
/// where the first factor has the level `under`.
#[derive(Serialize)]
struct WithinPart<'a> {
    under: &'a str,
    level: &'a str,
    ratio: f64,
}

/// Writes the document.
pub fn render(effects: &FactorEffects) -> String {
    let document =
        Document { schema: SCHEMA, passes: effects.passes.iter().map(pass_part).collect() };
    serde_json::to_string_pretty(&document).expect("numbers and text can be written") + "\n"
}

fn pass_part(pass: &PassFactors) -> PassPart<'_> {
    let effects = pass.found.as_ref().ok();
    PassPart {
        name: &pass.name,
        trials: pass.trials,
        by_bytes: pass.by_bytes,
        rows_left_out: pass.left_out,
        reason: pass.found.as_ref().err().map(|why| why.sentence()),
        factors: effects.map(|effects| factor_parts(pass, effects)).unwrap_or_default(),
        interactions: effects.map(|effects| interaction_parts(pass, effects)).unwrap_or_default(),
        unexplained_share: effects.map(|effects| effects.unexplained),
    }
}

fn factor_parts<'a>(pass: &'a PassFactors, effects: &Effects) -> Vec<FactorPart<'a>> {
    let part = |effect: &stats::effects::FactorEffect| {
        let factor = &pass.factors[effect.factor];
        let levels = factor.levels.iter().zip(&effect.levels).map(|(level, found)| {
            let known = found.interval.1.is_finite();
            LevelPart {
                level,
                against: &factor.levels[found.against],
                ratio: known.then_some(found.ratio),
                ratio_interval_lo: known.then_some(found.interval.0),
                ratio_interval_hi: known.then_some(found.interval.1),
            }
        });
        FactorPart {
            name: factor.name,
            share: effect.share,
            within: effect.within.iter().map(|outer| pass.factors[*outer].name).collect(),
            levels: levels.collect(),
        }
    };
    effects.factors.iter().map(part).collect()
}

fn interaction_parts<'a>(pass: &'a PassFactors, effects: &Effects) -> Vec<InteractionPart<'a>> {
    let part = |interaction: &stats::effects::Interaction| InteractionPart {
        factors: [interaction.factors.0, interaction.factors.1].map(|f| pass.factors[f].name),
        share: interaction.share,
        probability: interaction.probability,
        within: nested_parts(pass, interaction),
    };
    effects.interactions.iter().map(part).collect()
}

fn nested_parts<'a>(
    pass: &'a PassFactors,
    interaction: &stats::effects::Interaction,
) -> Vec<WithinPart<'a>> {
    let [first, second] =
        [interaction.factors.0, interaction.factors.1].map(|factor| &pass.factors[factor].levels);
    let part = |found: &stats::effects::Within| WithinPart {
        under: &first[found.under],
        level: &second[found.level],
        ratio: found.ratio,
    };
    interaction.within.iter().map(part).collect()
}
