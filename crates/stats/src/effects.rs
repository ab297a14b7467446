//! Which factor governs a figure, by how much, and how sure that is.
//!
//! [`effects`] is the way in, [`Effects`] what comes out. Factors multiply: the model is additive
//! in the logarithm of the figure, so an effect is a ratio, here of each level to the first one,
//! or, where a factor lies within another one, to the first one under the same level of that.
//! A factor's share is what the fit loses when the factor is left out, as a share of the whole
//! variance; two factors interact where their levels together say more than each alone. The
//! intervals are those of Student's t; what the factors don't explain counts as noise.
//!
//! **Source:** Montgomery, "Design and Analysis of Experiments", chapters 5 and 6; Jain, "The Art
//! of Computer Systems Performance Analysis" (1991), chapters 18 and 22 (multiplicative models,
//! allocation of variation).

mod nesting;

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor, StudentsT};

use crate::criteria::{CONFIDENCE, INTERACTION_PROBABILITY_MAX, INTERACTION_SHARE_MIN};
use crate::regression::{CrossProducts, Fit};
use nesting::Nesting;

/// A figure, and the level of each factor that it was measured under.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Number of the level of each factor, from 0.
    pub levels: Vec<usize>,
    /// The figure; above 0.
    pub figure: f64,
}

/// What governs the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// The factors, that with the largest share first.
    pub factors: Vec<FactorEffect>,
    /// The pairs of factors that matter together, that with the largest share first.
    pub interactions: Vec<Interaction>,
    /// Share of the variance that neither factors nor interactions explain, 0 to 1.
    pub unexplained: f64,
}

impl Effects {
    /// The largest ratio, or inverse of one, that an interval reaches: half of a picture's
    /// logarithmic axis. At least 1.05, so that "no difference" is a picture too.
    pub fn reach(&self) -> f64 {
        let levels = self.factors.iter().flat_map(|factor| &factor.levels);
        let ends = levels.flat_map(|level| [level.interval.1, 1.0 / level.interval.0]);
        ends.filter(|end| end.is_finite()).fold(1.05, f64::max)
    }
}

/// One factor's effect.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorEffect {
    /// Number of the factor.
    pub factor: usize,
    /// Share of the variance that it governs, 0 to 1.
    pub share: f64,
    /// Numbers of the factors that it lies within: each of its levels comes with one of theirs.
    pub within: Vec<usize>,
    /// One for each level.
    pub levels: Vec<LevelEffect>,
}

/// What one level does to the figure, all else alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelEffect {
    /// The level that it is compared with: the first one, as a rule; itself where it is that.
    pub against: usize,
    /// The figure under it, divided by that under the level that it is compared with.
    pub ratio: f64,
    /// The 95 % confidence interval of the ratio; from 0 to infinity where too little is known.
    pub interval: (f64, f64),
}

impl LevelEffect {
    /// Says whether the ratio is surely another one than 1.
    pub fn is_apart(&self) -> bool {
        let (lo, hi) = self.interval;
        lo > 0.0 && hi.is_finite() && (lo > 1.0 || hi < 1.0)
    }
}

/// Two factors whose levels together do more than each alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Interaction {
    /// Numbers of the factors, the smaller one first.
    pub factors: (usize, usize),
    /// Share of the variance that they govern beyond their own effects, 0 to 1.
    pub share: f64,
    /// How probable such a share is by chance: 0 to 1.
    pub probability: f64,
    /// What the levels of the second do under each level of the first, where that was measured.
    pub within: Vec<Within>,
}

/// What a level of one factor does to the figure where another factor has a certain level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Within {
    /// The other factor's level.
    pub under: usize,
    /// The level.
    pub level: usize,
    /// The level that it is compared with.
    pub against: usize,
    /// The figure under both, divided by that under `under` and the level it is compared with.
    pub ratio: f64,
}

/// Takes figures apart; `levels` says how many each factor has.
///
/// `None` where there is no factor with two levels, fewer observations than effects, a figure that
/// is not above 0, or no difference at all between the figures.
pub fn effects(levels: &[usize], observations: &[Observation]) -> Option<Effects> {
    let sound = |o: &Observation| o.figure > 0.0 && o.figure.is_finite();
    if !levels.iter().any(|count| *count > 1) || !observations.iter().all(sound) {
        return None;
    }
    let nesting = Nesting::of(levels, observations);
    let columns = Columns::new(&nesting);
    let products = columns.products(observations);
    let main = products.fit(columns.main(&[]));
    let whole = products.fit([INTERCEPT]).residual();
    if main.freedom() == 0 || whole <= f64::EPSILON {
        return None;
    }
    let mut factors: Vec<FactorEffect> = (0..levels.len())
        .map(|factor| {
            // What lies within it would say all that it does.
            let mut without: Vec<usize> = nesting.inner(factor).collect();
            let fit = products.fit(columns.main(&without));
            without.push(factor);
            let lost = products.fit(columns.main(&without)).residual() - fit.residual();
            let level = |level| level_effect(&fit, &columns, &nesting, factor, level);
            FactorEffect {
                factor,
                share: (lost / whole).max(0.0),
                within: nesting.outer[factor].clone(),
                levels: (0..levels[factor]).map(level).collect(),
            }
        })
        .collect();
    factors.sort_by(|a, b| b.share.total_cmp(&a.share));
    let full = products.fit(columns.main(&[]).chain(columns.all_pairs()));
    let ground = Ground {
        columns: &columns,
        nesting: &nesting,
        products: &products,
        main: &main,
        full: &full,
        whole,
    };
    let mut interactions: Vec<Interaction> =
        columns.pairs.iter().filter_map(|pair| ground.interaction(pair, observations)).collect();
    interactions.sort_by(|a, b| b.share.total_cmp(&a.share));
    let explained = columns.main(&[]).chain(
        columns
            .pairs
            .iter()
            .filter(|p| interactions.iter().any(|i| i.factors == p.factors))
            .flat_map(|p| p.columns.clone()),
    );
    let unexplained = products.fit(explained).residual() / whole;
    Some(Effects { factors, interactions, unexplained })
}

/// The column that is 1 in every observation.
const INTERCEPT: usize = 0;

/// Which columns stand for what: one for each level of each factor that is compared with another
/// one, and one for each pair of such levels of two factors that don't lie within each other.
struct Columns {
    /// The column of each level of each factor.
    factors: Vec<Vec<Option<usize>>>,
    pairs: Vec<Pair>,
    count: usize,
}

struct Pair {
    factors: (usize, usize),
    columns: std::ops::Range<usize>,
}

impl Columns {
    fn new(nesting: &Nesting) -> Self {
        let mut count = INTERCEPT + 1;
        let mut next = |width| {
            count += width;
            count - width..count
        };
        let mut column =
            |(level, against): (usize, &usize)| (level != *against).then(|| next(1).start);
        let factors: Vec<Vec<Option<usize>>> = nesting
            .against
            .iter()
            .map(|levels| levels.iter().enumerate().map(&mut column).collect())
            .collect();
        let mut pairs = Vec::new();
        for second in 0..factors.len() {
            for first in (0..second).filter(|first| !nesting.are_nested(*first, second)) {
                let width = factors[first].len() * factors[second].len();
                pairs.push(Pair { factors: (first, second), columns: next(width) });
            }
        }
        Self { factors, pairs, count }
    }

    /// The column of two levels together; none where one of them is what others are compared with.
    fn both(&self, pair: &Pair, first: usize, second: usize) -> Option<usize> {
        let [of_first, of_second] = [pair.factors.0, pair.factors.1].map(|f| &self.factors[f]);
        (of_first[first].is_some() && of_second[second].is_some())
            .then(|| pair.columns.start + second * of_first.len() + first)
    }

    fn products(&self, observations: &[Observation]) -> CrossProducts {
        // Sums of squares of figures far from 0 would lose the digits that matter.
        let logs: Vec<f64> = observations.iter().map(|o| o.figure.ln()).collect();
        let origin = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        let mut products = CrossProducts::new(self.count);
        let mut ones = Vec::new();
        for (observation, log) in observations.iter().zip(&logs) {
            self.ones(&observation.levels, &mut ones);
            products.add(&ones, log - origin);
        }
        products
    }

    /// The columns that are 1 under these levels.
    fn ones(&self, levels: &[usize], ones: &mut Vec<usize>) {
        ones.clear();
        ones.push(INTERCEPT);
        ones.extend(self.factors.iter().zip(levels).filter_map(|(of, &level)| of[level]));
        let both = |pair: &Pair| self.both(pair, levels[pair.factors.0], levels[pair.factors.1]);
        ones.extend(self.pairs.iter().filter_map(both));
    }

    /// The columns of all factors, but for some.
    fn main(&self, without: &[usize]) -> impl Iterator<Item = usize> {
        let factors = self.factors.iter().enumerate();
        let kept = factors.filter(move |(factor, _)| !without.contains(factor));
        std::iter::once(INTERCEPT)
            .chain(kept.flat_map(|(_, levels)| levels.iter().flatten().copied()))
    }

    fn all_pairs(&self) -> impl Iterator<Item = usize> {
        self.pairs.iter().flat_map(|pair| pair.columns.clone())
    }
}

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
    let freedom = fit.freedom() as f64;
    let deviation = (fit.residual() / freedom * fit.variance_share(column)).sqrt();
    let t = StudentsT::new(0.0, 1.0, freedom)
        .map_or(f64::INFINITY, |t| t.inverse_cdf(f64::midpoint(CONFIDENCE, 1.0)));
    let half = if deviation > 0.0 { t * deviation } else { 0.0 };
    LevelEffect { against, ratio: log.exp(), interval: ((log - half).exp(), (log + half).exp()) }
}

/// What interactions are looked for with.
struct Ground<'a> {
    columns: &'a Columns,
    nesting: &'a Nesting,
    products: &'a CrossProducts,
    /// All factors, and no pair.
    main: &'a Fit,
    /// All factors and all pairs: what it leaves is noise.
    full: &'a Fit,
    /// The whole variance.
    whole: f64,
}

impl Ground<'_> {
    /// What a pair adds to the factors; `None` where that is too little or may well be chance.
    fn interaction(&self, pair: &Pair, observations: &[Observation]) -> Option<Interaction> {
        let with = self.products.fit(self.columns.main(&[]).chain(pair.columns.clone()));
        let added = self.main.freedom() - with.freedom();
        let gained = (self.main.residual() - with.residual()).max(0.0);
        let share = gained / self.whole;
        if added == 0 || self.full.freedom() == 0 || share < INTERACTION_SHARE_MIN {
            return None;
        }
        let noise = self.full.residual() / self.full.freedom() as f64;
        let f = gained / added as f64 / noise;
        let distribution = FisherSnedecor::new(added as f64, self.full.freedom() as f64).ok()?;
        let probability = if f.is_finite() { distribution.sf(f) } else { 0.0 };
        (probability <= INTERACTION_PROBABILITY_MAX).then(|| Interaction {
            factors: pair.factors,
            share,
            probability,
            within: self.within(pair, &with, observations),
        })
    }

    /// The ratios of the second factor's levels under each level of the first, all else alike.
    fn within(&self, pair: &Pair, with: &Fit, observations: &[Observation]) -> Vec<Within> {
        let (first, second) = pair.factors;
        let measured = |under: usize, level: usize| {
            observations.iter().any(|o| o.levels[first] == under && o.levels[second] == level)
        };
        // A column that others determine is left out of the fit, and the others stand for it.
        let log = |column: usize| with.coefficient(column).unwrap_or(0.0);
        let [unders, levels] = [first, second].map(|factor| &self.columns.factors[factor]);
        let mut found = Vec::new();
        for under in 0..unders.len() {
            for (level, column) in levels.iter().enumerate() {
                let against = self.nesting.against[second][level];
                let Some(column) = column else { continue };
                if !measured(under, against) || !measured(under, level) {
                    continue;
                }
                let together = self.columns.both(pair, under, level).map_or(0.0, log);
                let ratio = (log(*column) + together).exp();
                found.push(Within { under, level, against, ratio });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::random::SplitMix64;

    /// Normal with deviation 1, near enough: the sum of twelve draws, less six.
    fn normal(random: &mut SplitMix64) -> f64 {
        (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    /// What the levels of three factors do: transfer size, transport, version.
    const PLANTED: [&[f64]; 3] = [&[1.0, 1.5, 2.2], &[1.0, 0.8], &[1.0, 1.02]];

    /// Three trials of each of the twelve runs, with a noise of so much.
    fn planted(random: &mut SplitMix64, noise: f64, together: f64) -> Vec<Observation> {
        let mut observations = Vec::new();
        for run in 0..12 * 3 {
            let levels = vec![run % 3, run / 3 % 2, run / 6 % 2];
            let factors = levels.iter().zip(PLANTED).map(|(level, ratios)| ratios[*level]);
            let both = if levels[0] == 2 && levels[1] == 1 { together } else { 1.0 };
            let figure = 100.0 * factors.product::<f64>() * both * (noise * normal(random)).exp();
            observations.push(Observation { levels, figure });
        }
        observations
    }

    #[test]
    fn a_planted_model_is_recovered_a_thousand_times() {
        let mut random = SplitMix64::new(3);
        let (mut ranked, mut covered, mut asked, mut imagined) = (0, 0, 0, 0);
        for _ in 0..1_000 {
            let found = effects(&[3, 2, 2], &planted(&mut random, 0.05, 1.0)).unwrap();
            let order: Vec<usize> = found.factors.iter().map(|effect| effect.factor).collect();
            ranked += u32::from(order == [0, 1, 2]);
            imagined += found.interactions.len();
            for effect in &found.factors {
                for (level, true_ratio) in effect.levels.iter().zip(PLANTED[effect.factor]).skip(1)
                {
                    asked += 1;
                    let (lo, hi) = level.interval;
                    covered += u32::from(lo <= *true_ratio && *true_ratio <= hi);
                }
            }
        }
        assert_eq!((ranked, asked), (1_000, 4_000));
        // 95 % of 4,000, four standard deviations of a binomial (55) either way.
        assert!((3_745..=3_855).contains(&covered), "{covered} of {asked}");
        // One in a hundred of 3,000 tests may find something by chance.
        assert!(imagined <= 50, "{imagined} interactions");
    }

    #[test]
    fn an_interaction_is_found_and_named() {
        let mut random = SplitMix64::new(4);
        let found = effects(&[3, 2, 2], &planted(&mut random, 0.02, 1.4)).unwrap();
        let pairs: Vec<_> = found.interactions.iter().map(|i| i.factors).collect();
        assert_eq!(pairs, [(0, 1)]);
        assert!(found.unexplained < 0.01, "{}", found.unexplained);
        // The transport does 0.8 under the first two transfer sizes, and 0.8 * 1.4 under the third.
        for (within, expected) in found.interactions[0].within.iter().zip([0.8, 0.8, 1.12]) {
            assert!((within.ratio - expected).abs() < 0.03, "{within:?}");
        }
        assert_eq!(found.interactions[0].within.len(), 3);
    }

    #[test]
    fn shares_and_ratios_are_those_of_a_worked_example() {
        // Jain (1991), 17.1: memory and cache, 15 45 25 75 MIPS without repetition; additive there,
        // so the figures are given as powers: log ratios 20 and 40 (per 100), q_AB = 5.
        let figure = |mips: f64| (mips / 100.0).exp();
        let observations: Vec<Observation> =
            [(0, 0, 15.0), (1, 0, 45.0), (0, 1, 25.0), (1, 1, 75.0)]
                .map(|(memory, cache, mips)| Observation {
                    levels: vec![memory, cache],
                    figure: figure(mips),
                })
                .to_vec();
        let found = effects(&[2, 2], &observations).unwrap();
        // Allocation of variation there (17.3): memory 76 %, cache 19 %, both 5 %.
        let shares: Vec<f64> = found.factors.iter().map(|f| (f.share * 100.0).round()).collect();
        assert_eq!(shares, [76.0, 19.0]);
        assert!((found.unexplained * 100.0 - 4.76).abs() < 0.01, "{}", found.unexplained);
        assert!((found.factors[0].levels[1].ratio.ln() - 0.40).abs() < 1e-12);
        assert!((found.factors[1].levels[1].ratio.ln() - 0.20).abs() < 1e-12);
    }

    #[test]
    fn holes_in_the_matrix_are_no_trouble() {
        let mut random = SplitMix64::new(6);
        let mut observations = planted(&mut random, 0.001, 1.0);
        // Neither the largest transfer over the second transport, nor anything of a third version.
        observations.retain(|o| !(o.levels[0] == 2 && o.levels[1] == 1));
        let found = effects(&[3, 2, 3], &observations).unwrap();
        let transfer = &found.factors[0].levels;
        assert!((transfer[2].ratio - 2.2).abs() < 0.01, "{transfer:?}");
        let version = found.factors.iter().find(|effect| effect.factor == 2).unwrap();
        assert_eq!(version.levels[2].interval, (0.0, f64::INFINITY));
    }

    /// Three trials each of a server, of a directory by calls and of one by rings; the server at
    /// half the speed of calls, rings at 1.2 of it.
    fn servers_and_directories(random: &mut SplitMix64) -> Vec<Observation> {
        let runs = [([0, 0], 50.0), ([1, 1], 100.0), ([1, 2], 120.0)];
        let trials = runs.iter().flat_map(|run| std::iter::repeat_n(run, 3));
        let figure = |random: &mut SplitMix64, at: f64| at * (0.005 * normal(random)).exp();
        let observed = |(levels, at): &([usize; 2], f64)| Observation {
            levels: levels.to_vec(),
            figure: figure(random, *at),
        };
        trials.map(observed).collect()
    }

    #[test]
    fn levels_within_another_factor_are_compared_there_and_that_one_has_its_share() {
        let found = effects(&[2, 3], &servers_and_directories(&mut SplitMix64::new(7))).unwrap();
        let [target, backend] = [0, 1]
            .map(|number| found.factors.iter().find(|effect| effect.factor == number).unwrap());
        assert_eq!((&target.within[..], &backend.within[..]), (&[][..], &[0][..]));
        // The mean of both ways into a directory against the server: 2 * sqrt(1.2).
        assert!((target.levels[1].ratio - 2.0 * 1.2_f64.sqrt()).abs() < 0.03, "{target:?}");
        assert!(target.share > 0.9 && target.share + backend.share > 0.99, "{found:?}");
        // The server's way in is the only one that it has.
        assert_eq!(backend.levels[0].interval, (0.0, f64::INFINITY));
        let against: Vec<usize> = backend.levels.iter().map(|level| level.against).collect();
        assert_eq!(against, [0, 1, 1]);
        let (lo, hi) = backend.levels[2].interval;
        assert!(lo <= 1.2 && 1.2 <= hi && hi - lo < 0.1, "{backend:?}");
        assert_eq!(found.interactions, []);
    }

    #[test]
    fn of_two_factors_that_change_together_the_first_has_it_all() {
        let mut observations = servers_and_directories(&mut SplitMix64::new(8));
        for observation in &mut observations {
            observation.levels[0] = observation.levels[1];
        }
        let found = effects(&[3, 3], &observations).unwrap();
        assert_eq!((found.factors[0].factor, found.factors[1].share), (0, 0.0));
        assert!((found.factors[0].levels[2].ratio - 2.4).abs() < 0.05, "{found:?}");
        let unknown = |level: &LevelEffect| level.interval == (0.0, f64::INFINITY);
        assert!(found.factors[1].levels.iter().all(unknown), "{found:?}");
    }

    #[test]
    fn what_can_not_be_taken_apart_is_refused() {
        let one = |level, figure| Observation { levels: vec![level], figure };
        assert!(effects(&[1], &[one(0, 1.0), one(0, 2.0)]).is_none());
        assert!(effects(&[2], &[one(0, 1.0), one(1, 2.0)]).is_none());
        assert!(effects(&[2], &[one(0, 1.0), one(1, 1.0), one(1, 1.0)]).is_none());
        assert!(effects(&[2], &[one(0, 0.0), one(1, 1.0), one(1, 2.0)]).is_none());
        assert!(effects(&[], &[]).is_none());
    }
}
