//! Tests that known effects are found with their size and certainty.

use super::*;
use model::random::SplitMix64;

/// Returns an approximately normal variate with deviation 1: the sum of twelve draws minus six.
fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

/// Known effects of three factors: transfer size, transport, version.
const PLANTED: [&[f64]; 3] = [&[1.0, 1.5, 2.2], &[1.0, 0.8], &[1.0, 1.02]];

/// Returns three trials of each of the twelve runs with the given noise.
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
fn recovers_planted_model_thousand_times() {
    let mut random = SplitMix64::new(3);
    let mut ranked = 0;
    let mut covered = 0;
    let mut intervals_checked = 0;
    let mut imagined = 0;
    for _ in 0..1_000 {
        let found = effects(&[3, 2, 2], &planted(&mut random, 0.05, 1.0)).unwrap();
        let order: Vec<usize> = found.factors.iter().map(|effect| effect.factor).collect();
        ranked += u32::from(order == [0, 1, 2]);
        imagined += found.interactions.len();
        for effect in &found.factors {
            for (level, true_ratio) in effect.levels.iter().zip(PLANTED[effect.factor]).skip(1) {
                intervals_checked += 1;
                let (lo, hi) = level.interval;
                covered += u32::from(lo <= *true_ratio && *true_ratio <= hi);
            }
        }
    }
    assert_eq!((ranked, intervals_checked), (1_000, 4_000));
    // 95 % of 4,000, four standard deviations of a binomial (55) either way.
    assert!((3_745..=3_855).contains(&covered), "{covered} of {intervals_checked}");
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
    // The transport has a factor of 0.8 under the first two transfer sizes, and 0.8 * 1.4 under the
    // third.
    for (within, expected) in found.interactions[0].within.iter().zip([0.8, 0.8, 1.12]) {
        assert!((within.ratio - expected).abs() < 0.03, "{within:?}");
    }
    assert_eq!(found.interactions[0].within.len(), 3);
}

#[test]
fn matches_shares_of_worked_example() {
    // Jain (1991), 17.1: memory and cache, 15 45 25 75 MIPS without repetition. Effects are
    // additive there, so the values are used as exponents: log ratios 20 and 40 (per 100), q_AB =
    // 5.
    let figure = |mips: f64| (mips / 100.0).exp();
    let observations: Vec<Observation> = [(0, 0, 15.0), (1, 0, 45.0), (0, 1, 25.0), (1, 1, 75.0)]
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
fn tolerates_holes_in_matrix() {
    let mut random = SplitMix64::new(6);
    let mut observations = planted(&mut random, 0.001, 1.0);
    // Neither the largest transfer with the second transport, nor any third version.
    observations.retain(|o| !(o.levels[0] == 2 && o.levels[1] == 1));
    let found = effects(&[3, 2, 3], &observations).unwrap();
    let transfer = &found.factors[0].levels;
    assert!((transfer[2].ratio - 2.2).abs() < 0.01, "{transfer:?}");
    let version = found.factors.iter().find(|effect| effect.factor == 2).unwrap();
    assert_eq!(version.levels[2].interval, (0.0, f64::INFINITY));
}

/// Returns three trials each of a server, of a directory using system calls, and of one using
/// io_uring. The server has half the speed of system calls, and io_uring 1.2 times.
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
fn compares_nested_levels_within_factor() {
    let found = effects(&[2, 3], &servers_and_directories(&mut SplitMix64::new(7))).unwrap();
    let [target, backend] =
        [0, 1].map(|number| found.factors.iter().find(|effect| effect.factor == number).unwrap());
    assert_eq!((&target.within[..], &backend.within[..]), (&[][..], &[0][..]));
    // The average of both backends for the directory relative to the server: 2 * sqrt(1.2).
    assert!((target.levels[1].ratio - 2.0 * 1.2_f64.sqrt()).abs() < 0.03, "{target:?}");
    assert!(target.share > 0.9 && target.share + backend.share > 0.99, "{found:?}");
    // The server has only one backend.
    assert_eq!(backend.levels[0].interval, (0.0, f64::INFINITY));
    let against: Vec<usize> = backend.levels.iter().map(|level| level.against).collect();
    assert_eq!(against, [0, 1, 1]);
    let (lo, hi) = backend.levels[2].interval;
    assert!(lo <= 1.2 && 1.2 <= hi && hi - lo < 0.1, "{backend:?}");
    assert_eq!(found.interactions, []);
}

#[test]
fn attributes_confounded_effect_to_first_factor() {
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
fn rejects_inseparable_factors() {
    let one = |level, figure| Observation { levels: vec![level], figure };
    assert!(effects(&[1], &[one(0, 1.0), one(0, 2.0)]).is_none());
    assert!(effects(&[2], &[one(0, 1.0), one(1, 2.0)]).is_none());
    assert!(effects(&[2], &[one(0, 1.0), one(1, 1.0), one(1, 1.0)]).is_none());
    assert!(effects(&[2], &[one(0, 0.0), one(1, 1.0), one(1, 2.0)]).is_none());
    assert!(effects(&[], &[]).is_none());
}
