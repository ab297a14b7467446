//! Factor effects as JSON.
//!
//! The names and order of the fields are those of the output, so this file is the reference of the
//! format. `schema` is incremented when a field changes its meaning or is removed.

use serde::Serialize;
use stats::effects::Effects;

use super::{FactorEffects, PassFactors};

/// Version of the format.
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
    /// The ratios are of bytes per second although the rate of the pass is in ops.
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
    /// Factors it is nested within: its levels are compared only if these are equal.
    within: Vec<&'a str>,
    /// Other factors that change together with it, if campaigns differ in more than one thing.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    together: &'a [String],
    levels: Vec<LevelPart<'a>>,
}

/// Level with its ratio, which is null if the data do not determine it.
#[derive(Serialize)]
struct LevelPart<'a> {
    level: &'a str,
    /// Baseline level: the first one, unless the factor is nested within others.
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

/// Rate under a level of the second factor relative to its baseline, while the first factor has the
/// level `under`.
#[derive(Serialize)]
struct WithinPart<'a> {
    under: &'a str,
    level: &'a str,
    ratio: f64,
}

/// Renders the document.
pub(super) fn render(effects: &FactorEffects) -> String {
    let document =
        Document { schema: SCHEMA, passes: effects.passes.iter().map(pass_part).collect() };
    serde_json::to_string_pretty(&document).expect("numbers and text can be serialized") + "\n"
}

fn pass_part(pass: &PassFactors) -> PassPart<'_> {
    let mut part = PassPart {
        name: &pass.name,
        trials: pass.trials,
        by_bytes: pass.by_bytes,
        rows_left_out: pass.left_out,
        reason: None,
        factors: Vec::new(),
        interactions: Vec::new(),
        unexplained_share: None,
    };
    match &pass.found {
        Ok(effects) => {
            part.factors = factor_parts(pass, effects);
            part.interactions = interaction_parts(pass, effects);
            part.unexplained_share = Some(effects.unexplained);
        }
        Err(reason) => part.reason = Some(reason.sentence()),
    }
    part
}

fn factor_parts<'a>(pass: &'a PassFactors, effects: &Effects) -> Vec<FactorPart<'a>> {
    let mut parts = Vec::new();
    for effect in &effects.factors {
        let factor = &pass.factors[effect.factor];
        let mut levels = Vec::new();
        for (level, found) in factor.levels.iter().zip(&effect.levels) {
            let mut part = LevelPart {
                level,
                against: &factor.levels[found.against],
                ratio: None,
                ratio_interval_lo: None,
                ratio_interval_hi: None,
            };
            // JSON has no infinity, so an undetermined ratio is null.
            if found.interval.1.is_finite() {
                part.ratio = Some(found.ratio);
                part.ratio_interval_lo = Some(found.interval.0);
                part.ratio_interval_hi = Some(found.interval.1);
            }
            levels.push(part);
        }
        let mut within = Vec::new();
        for outer in &effect.within {
            within.push(pass.factors[*outer].name.as_str());
        }
        parts.push(FactorPart {
            name: &factor.name,
            share: effect.share,
            within,
            together: &factor.together,
            levels,
        });
    }
    parts
}

fn interaction_parts<'a>(pass: &'a PassFactors, effects: &Effects) -> Vec<InteractionPart<'a>> {
    let mut parts = Vec::new();
    for interaction in &effects.interactions {
        let first = &pass.factors[interaction.factors.0];
        let second = &pass.factors[interaction.factors.1];
        let mut within = Vec::new();
        for found in &interaction.within {
            within.push(WithinPart {
                under: &first.levels[found.under],
                level: &second.levels[found.level],
                ratio: found.ratio,
            });
        }
        parts.push(InteractionPart {
            factors: [&first.name, &second.name],
            share: interaction.share,
            probability: interaction.probability,
            within,
        });
    }
    parts
}
