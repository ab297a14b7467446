//! Intervals of factors that differ only between campaigns, treating each campaign as one
//! observation.
//!
//! The trials of a campaign share its day, host and disk state, so a hundred of them say no more
//! about two kernels than two campaigns do. If a level has several campaigns, their means over the
//! runs that all campaigns have in common are compared instead of trials.
//!
//! **Source:** Montgomery, "Design and Analysis of Experiments", chapter 14 (split plots: a factor
//! of whole plots is tested against the differences between whole plots).

use std::collections::BTreeMap;

use stats::{Effects, Observation, effects};

use super::Factor;
use super::confounding::NO_CAUSE;
use crate::table::rate_metric::RateMetric;
use crate::table::{Row, Sheet};

/// Running mean of the logarithmic rates of one campaign under one combination of its own factors.
#[derive(Default)]
struct Mean {
    sum: f64,
    count: f64,
}

/// Replaces the intervals of factors between campaigns by those of the campaign means. Returns the
/// number of campaigns behind them; `None` if no level has two.
pub(super) fn widen(
    sheet: &Sheet<'_>,
    rows: &[&Row<'_>],
    metric: RateMetric,
    factors: &[Factor],
    found: &mut Effects,
) -> Option<usize> {
    let joined = sheet.joined?;
    let between = between_factors(factors);
    if between.is_empty() || joined.members().len() < 2 {
        return None;
    }
    // Mean of each campaign for each combination of the factors that vary within campaigns.
    let mut means: BTreeMap<(usize, Vec<usize>), Mean> = BTreeMap::new();
    let mut levels: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for row in rows {
        let member = joined.number_of_member(row.run.index as usize)?;
        let of_row = levels_of(sheet, row, factors);
        let pick = |is_between: bool| -> Vec<usize> {
            let numbers = 0..factors.len();
            let meant = numbers.filter(|number| {
                factors[*number].name != NO_CAUSE && between.contains(number) == is_between
            });
            meant.map(|number| of_row[number]).collect()
        };
        levels.insert(member, pick(true));
        let mean = means.entry((member, pick(false))).or_default();
        for point in &row.judged.points {
            let figure = metric.point(&row.judged, point.comparable_per_s);
            if point.used && figure > 0.0 {
                mean.sum += figure.ln();
                mean.count += 1.0;
            }
        }
    }
    let observations = campaign_observations(&means, &levels)?;
    let counts: Vec<usize> = between.iter().map(|number| factors[*number].levels.len()).collect();
    let of_campaigns = effects(&counts, &observations)?;
    for effect in of_campaigns.factors {
        let number = between[effect.factor];
        for of_trials in found.factors.iter_mut().filter(|known| known.factor == number) {
            for (level, wider) in of_trials.levels.iter_mut().zip(&effect.levels) {
                if level.against == wider.against {
                    *level = *wider;
                }
            }
        }
    }
    Some(observations.len())
}

/// Factors that no campaign varies, except for the campaign itself.
fn between_factors(factors: &[Factor]) -> Vec<usize> {
    factors
        .iter()
        .enumerate()
        .filter(|(_, factor)| factor.is_between && factor.name != NO_CAUSE)
        .map(|(number, _)| number)
        .collect()
}

fn levels_of(sheet: &Sheet<'_>, row: &Row<'_>, factors: &[Factor]) -> Vec<usize> {
    let mut levels = Vec::with_capacity(factors.len());
    for factor in factors {
        let value = sheet.value(row, &factor.name);
        levels.push(factor.levels.iter().position(|known| *known == value).unwrap_or(0));
    }
    levels
}

/// One observation per campaign: its mean over the combinations that all campaigns have.
fn campaign_observations(
    means: &BTreeMap<(usize, Vec<usize>), Mean>,
    levels: &BTreeMap<usize, Vec<usize>>,
) -> Option<Vec<Observation>> {
    let mut sums: BTreeMap<usize, Mean> = BTreeMap::new();
    for ((member, key), mean) in means {
        let is_common = levels
            .keys()
            .all(|other| means.get(&(*other, key.clone())).is_some_and(|mean| mean.count > 0.0));
        if is_common {
            let sum = sums.entry(*member).or_default();
            sum.sum += mean.sum / mean.count;
            sum.count += 1.0;
        }
    }
    let mut observations = Vec::new();
    for (member, levels) in levels {
        let sum = sums.get(member)?;
        let figure = (sum.sum / sum.count).exp();
        observations.push(Observation { levels: levels.clone(), figure });
    }
    Some(observations)
}
