//! Factor effects: which factor dominates a result, by how much, and how certain that is.
//!
//! [`effects`] returns [`Effects`]. Factors multiply: the model is additive in the logarithm of the
//! result, so an effect is a ratio of each level to the first one. If a factor is nested in another
//! one, the comparison is with the first level under the same level of the outer factor. A factor's
//! share is what the fit loses without the factor, relative to the total variance. Two factors
//! interact if their levels together explain more than each on its own. The intervals are based on
//! Student's t; anything that the factors don't explain counts as noise.
//!
//! **Source:** Montgomery, "Design and Analysis of Experiments", chapters 5 and 6; Jain, "The Art
//! of Computer Systems Performance Analysis" (1991), chapters 18 and 22 (multiplicative models,
//! allocation of variation).

mod nesting;

use std::collections::BTreeSet;

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor, StudentsT};

use crate::criteria::{CONFIDENCE, INTERACTION_PROBABILITY_MAX, INTERACTION_SHARE_MIN};
use crate::regression::{CrossProducts, Fit};
use nesting::Nesting;

/// A result, and the level of each factor under which it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Level number of each factor, from 0.
    pub levels: Vec<usize>,
    /// The result; must be positive.
    pub figure: f64,
}

/// Effects of the factors on the results.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// The factors, largest share first.
    pub factors: Vec<FactorEffect>,
    /// Pairs of interacting factors, largest share first.
    pub interactions: Vec<Interaction>,
    /// Share of the variance not explained by factors or interactions, 0 to 1.
    pub unexplained: f64,
}

impl Effects {
    /// Returns the largest ratio, or inverse of a ratio, in any interval. This is half the
    /// logarithmic axis of a chart, so it is at least 1.05 in order to show "no difference" as
    /// well.
    pub fn largest_ratio(&self) -> f64 {
        let mut reach = 1.05_f64;
        for factor in &self.factors {
            for level in &factor.levels {
                for end in [level.interval.1, 1.0 / level.interval.0] {
                    if end.is_finite() {
                        reach = reach.max(end);
                    }
                }
            }
        }
        reach
    }
}

/// Effect of one factor.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorEffect {
    /// Number of the factor.
    pub factor: usize,
    /// Share of the variance that it explains, 0 to 1.
    pub share: f64,
    /// Numbers of the factors that it is nested in: each of its levels occurs with only one of
    /// theirs.
    pub within: Vec<usize>,
    pub levels: Vec<LevelEffect>,
}

impl FactorEffect {
    /// Returns true if any level certainly differs from its baseline.
    pub fn is_certain(&self) -> bool {
        self.levels.iter().any(LevelEffect::is_apart)
    }
}

/// Effect of one level on the result, other factors being equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelEffect {
    /// The baseline level, usually the first one; a baseline has itself.
    pub against: usize,
    /// The result at this level divided by the result at the baseline.
    pub ratio: f64,
    /// The 95 % confidence interval of the ratio; from 0 to infinity if too little is known.
    pub interval: (f64, f64),
}

impl LevelEffect {
    /// Returns true if the ratio certainly differs from 1.
    pub fn is_apart(&self) -> bool {
        let (lo, hi) = self.interval;
        lo > 0.0 && hi.is_finite() && (lo > 1.0 || hi < 1.0)
    }
}

/// Two interacting factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Interaction {
    /// Numbers of the factors, smaller one first.
    pub factors: (usize, usize),
    /// Share of the variance that they explain beyond their own effects, 0 to 1.
    pub share: f64,
    /// Probability of such a share by chance, 0 to 1.
    pub probability: f64,
    /// Ratios of the levels of the second factor under each level of the first, if measured.
    pub within: Vec<ConditionalEffect>,
}

/// The effect of a level of one factor under a certain level of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConditionalEffect {
    /// Level of the other factor.
    pub under: usize,
    /// Level of the factor itself.
    pub level: usize,
    /// Its baseline level.
    pub against: usize,
    /// The result under both levels divided by the result under `under` and the baseline.
    pub ratio: f64,
}

/// Analyzes results; `levels` contains the number of levels of each factor.
///
/// Returns `None` if no factor has two levels, if there are fewer observations than effects, if a
/// result is not positive, or if all results are equal.
pub fn effects(levels: &[usize], observations: &[Observation]) -> Option<Effects> {
    for observation in observations {
        if observation.figure <= 0.0 || !observation.figure.is_finite() {
            return None;
        }
    }
    if levels.iter().max()? < &2 {
        return None;
    }
    let nesting = Nesting::from_observations(levels, observations);
    let columns = Columns::new(&nesting);
    let products = columns.sum_products(observations);
    // The main model: all factors without pairs. It needs an additional observation to estimate
    // noise.
    let main = products.fit(columns.main_columns(&[]));
    let whole = products.fit([INTERCEPT]).residual();
    if main.degrees_of_freedom() == 0 || whole <= f64::EPSILON {
        return None;
    }
    // The full model also contains all pairs. Its residual is the noise for testing interactions.
    let mut all_columns = columns.main_columns(&[]);
    all_columns.extend(columns.pairs.iter().flat_map(|pair| pair.columns.clone()));
    let full = products.fit(all_columns);
    let ground = EffectFits {
        columns: &columns,
        nesting: &nesting,
        products: &products,
        main: &main,
        full: &full,
        whole,
    };
    let mut factors: Vec<_> = levels
        .iter()
        .enumerate()
        .map(|(factor, count)| ground.factor_effect(factor, *count))
        .collect();
    factors.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut interactions = Vec::new();
    let mut explained = columns.main_columns(&[]);
    for pair in &columns.pairs {
        if let Some(interaction) = ground.interaction(pair, observations) {
            interactions.push(interaction);
            explained.extend(pair.columns.clone());
        }
    }
    interactions.sort_by(|a, b| b.share.total_cmp(&a.share));
    let unexplained = products.fit(explained).residual() / whole;
    Some(Effects { factors, interactions, unexplained })
}

/// The column that is 1 in every observation.
const INTERCEPT: usize = 0;

/// Columns of the model: one for each level of each factor that has a baseline, and one for each
/// pair of such levels of two factors that are not nested.
struct Columns {
    /// Column of each level of each factor.
    factors: Vec<Vec<Option<usize>>>,
    pairs: Vec<Pair>,
    count: usize,
}

struct Pair {
    factors: (usize, usize),
    columns: std::ops::Range<usize>,
}

impl Columns {
    /// Numbers the columns: the intercept, then the levels of all factors, then the pairs.
    fn new(nesting: &Nesting) -> Self {
        let mut count = INTERCEPT + 1;
        let mut factors = Vec::with_capacity(nesting.against.len());
        for levels in &nesting.against {
            let mut columns = Vec::with_capacity(levels.len());
            for (level, against) in levels.iter().enumerate() {
                // A baseline level has no column, because its effect is the reference.
                if level == *against {
                    columns.push(None);
                } else {
                    columns.push(Some(count));
                    count += 1;
                }
            }
            factors.push(columns);
        }
        let mut pairs = Vec::new();
        for second in 0..factors.len() {
            for first in 0..second {
                if nesting.are_nested(first, second) {
                    continue;
                }
                let width = factors[first].len() * factors[second].len();
                pairs.push(Pair { factors: (first, second), columns: count..count + width });
                count += width;
            }
        }
        Self { factors, pairs, count }
    }

    /// Returns the column of two levels together, or `None` if either is a baseline.
    fn pair_column(&self, pair: &Pair, first: usize, second: usize) -> Option<usize> {
        let of_first = &self.factors[pair.factors.0];
        let of_second = &self.factors[pair.factors.1];
        if of_first[first].is_none() || of_second[second].is_none() {
            return None;
        }
        Some(pair.columns.start + second * of_first.len() + first)
    }

    fn sum_products(&self, observations: &[Observation]) -> CrossProducts {
        // Sums of squares of values far from 0 would lose significant digits.
        let logs: Vec<_> = observations.iter().map(|observation| observation.figure.ln()).collect();
        let origin = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        let mut products = CrossProducts::new(self.count);
        let mut ones = Vec::new();
        for (observation, log) in observations.iter().zip(&logs) {
            self.fill_ones(&observation.levels, &mut ones);
            products.add(&ones, log - origin);
        }
        products
    }

    /// Fills in the columns that are 1 under these levels.
    fn fill_ones(&self, levels: &[usize], ones: &mut Vec<usize>) {
        ones.clear();
        ones.push(INTERCEPT);
        for (columns, &level) in self.factors.iter().zip(levels) {
            ones.extend(columns[level]);
        }
        for pair in &self.pairs {
            ones.extend(self.pair_column(pair, levels[pair.factors.0], levels[pair.factors.1]));
        }
    }

    /// Returns the columns of all factors except for some.
    fn main_columns(&self, without: &[usize]) -> Vec<usize> {
        let mut columns = vec![INTERCEPT];
        for (factor, levels) in self.factors.iter().enumerate() {
            if !without.contains(&factor) {
                columns.extend(levels.iter().flatten());
            }
        }
        columns
    }
}

/// Reads the effect of a level from a fit, with Student's interval of its coefficient.
fn level_effect(
    fit: &Fit,
    columns: &Columns,
    nesting: &Nesting,
    factor: usize,
    level: usize,
) -> LevelEffect {
    let against = nesting.against[factor][level];
    let unknown = LevelEffect { against, ratio: 1.0, interval: (0.0, f64::INFINITY) };
    let Some(column) = columns.factors[factor][level] else {
        let is_alone = nesting.is_alone(factor, level);
        return if is_alone { unknown } else { LevelEffect { interval: (1.0, 1.0), ..unknown } };
    };
    let Some(log) = fit.coefficient(column) else { return unknown };
    let freedom = fit.degrees_of_freedom() as f64;
    let deviation = (fit.residual() / freedom * fit.variance_share(column)).sqrt();
    let t = match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) => student.inverse_cdf(f64::midpoint(CONFIDENCE, 1.0)),
        Err(_) => f64::INFINITY,
    };
    // The model uses logarithms, so the interval is that of a ratio.
    let half = if deviation > 0.0 { t * deviation } else { 0.0 };
    LevelEffect { against, ratio: log.exp(), interval: ((log - half).exp(), (log + half).exp()) }
}

/// The fits that effects and interactions are derived from.
struct EffectFits<'a> {
    columns: &'a Columns,
    nesting: &'a Nesting,
    products: &'a CrossProducts,
    /// All factors without pairs.
    main: &'a Fit,
    /// All factors and all pairs; its residual is noise.
    full: &'a Fit,
    /// The total variance.
    whole: f64,
}

impl EffectFits<'_> {
    /// Returns the effect of a factor. Its share is what the fit loses without it.
    fn factor_effect(&self, factor: usize, count: usize) -> FactorEffect {
        // Factors nested in it would explain everything that it does, so leave them out of both
        // fits.
        let mut without = self.nesting.inner_factors(factor);
        let fit = self.products.fit(self.columns.main_columns(&without));
        without.push(factor);
        let rest = self.products.fit(self.columns.main_columns(&without));
        let lost = rest.residual() - fit.residual();
        let levels: Vec<_> = (0..count)
            .map(|level| level_effect(&fit, self.columns, self.nesting, factor, level))
            .collect();
        let within = self.nesting.outer[factor].clone();
        FactorEffect { factor, share: (lost / self.whole).max(0.0), within, levels }
    }

    /// Tests what a pair adds to the factors. Returns `None` if that is too little or may be
    /// chance.
    ///
    /// **Source:** the extra-sum-of-squares F test; Montgomery, section 10.4.
    fn interaction(&self, pair: &Pair, observations: &[Observation]) -> Option<Interaction> {
        let mut columns = self.columns.main_columns(&[]);
        columns.extend(pair.columns.clone());
        let with = self.products.fit(columns);
        let added = self.main.degrees_of_freedom() - with.degrees_of_freedom();
        let gained = (self.main.residual() - with.residual()).max(0.0);
        let share = gained / self.whole;
        if added == 0 || self.full.degrees_of_freedom() == 0 || share < INTERACTION_SHARE_MIN {
            return None;
        }
        // Noise is the residual of all pairs together, so that one pair is not blamed for another.
        let noise = self.full.residual() / self.full.degrees_of_freedom() as f64;
        let f = gained / added as f64 / noise;
        let distribution =
            FisherSnedecor::new(added as f64, self.full.degrees_of_freedom() as f64).ok()?;
        let probability = if f.is_finite() { distribution.sf(f) } else { 0.0 };
        if probability > INTERACTION_PROBABILITY_MAX {
            return None;
        }
        let within = self.ratios_within(pair, &with, observations);
        Some(Interaction { factors: pair.factors, share, probability, within })
    }

    /// Returns the ratios of the second factor's levels under each level of the first, other
    /// factors being equal, if both were measured.
    fn ratios_within(
        &self,
        pair: &Pair,
        with: &Fit,
        observations: &[Observation],
    ) -> Vec<ConditionalEffect> {
        let (first, second) = pair.factors;
        let measured: BTreeSet<_> = observations
            .iter()
            .map(|observation| (observation.levels[first], observation.levels[second]))
            .collect();
        let unders = &self.columns.factors[first];
        let levels = &self.columns.factors[second];
        let mut found = Vec::new();
        for under in 0..unders.len() {
            for (level, column) in levels.iter().enumerate() {
                let against = self.nesting.against[second][level];
                let Some(column) = column else { continue };
                if !measured.contains(&(under, against)) || !measured.contains(&(under, level)) {
                    continue;
                }
                // A column determined by others is left out of the fit. Its coefficient counts as
                // 0, because the others represent it.
                let mut log = with.coefficient(*column).unwrap_or(0.0);
                if let Some(together) = self.columns.pair_column(pair, under, level) {
                    log += with.coefficient(together).unwrap_or(0.0);
                }
                let ratio = log.exp();
                found.push(ConditionalEffect { under, level, against, ratio });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
