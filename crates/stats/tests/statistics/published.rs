//! Statistics compared with numbers that others published or computed, each with its source.
//!
//! R's numbers are those that its manual prints; where it prints none, SciPy 1.17.1 and statsmodels
//! 0.15.0 computed them from the same data. Tests next to the code add properties and cases by
//! hand; `docs/design/statistics.md` lists them.

use stats::{
    Effects, Observation, compare, effects, median, modified_z_scores, rank_test, summary,
};

fn near(found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{found}, expected {expected}");
}

#[test]
fn matches_trimmed_mean_of_scipy() {
    // Seven passes, with the highest and lowest discarded: scipy.stats.trim_mean(x, 1/7) and
    // numpy.std(x, ddof=1).
    let passes = summary(&[27.0, 34.0, 25.0, 26.5, 27.2, 28.0, 26.0]).unwrap();
    near(passes.trimmed_mean.unwrap(), 26.94, 1e-12);
    near(passes.standard_deviation, 2.947_719_053_615_46, 1e-12);
}

/// Ozone in New York in May and in August 1973, from R's `airquality`.
const MAY: [f64; 26] = [
    41.0, 36.0, 12.0, 18.0, 28.0, 23.0, 19.0, 8.0, 7.0, 16.0, 11.0, 14.0, 18.0, 14.0, 34.0, 6.0,
    30.0, 11.0, 1.0, 11.0, 4.0, 32.0, 23.0, 45.0, 115.0, 37.0,
];
const AUGUST: [f64; 26] = [
    39.0, 9.0, 16.0, 78.0, 35.0, 66.0, 122.0, 89.0, 110.0, 44.0, 28.0, 65.0, 22.0, 59.0, 23.0,
    31.0, 44.0, 21.0, 9.0, 45.0, 168.0, 73.0, 76.0, 118.0, 84.0, 85.0,
];

#[test]
fn matches_r_rank_test_with_ties() {
    // R, example(wilcox.test): W = 127.5, p-value = 0.0001208. SciPy's mannwhitneyu(...,
    // method="asymptotic") gives more digits.
    near(rank_test(&MAY, &AUGUST), 0.000_120_807_830_768_774_34, 1e-12);
    near(rank_test(&AUGUST, &MAY), 0.000_120_807_830_768_774_34, 1e-12);
}

#[test]
fn matches_exact_permutation_test() {
    // scipy.stats.permutation_test of the midranks, all 462 choices: 31/462.
    let a = [12.0, 15.0, 15.0, 18.0, 20.0, 15.0];
    let b = [15.0, 18.0, 22.0, 22.0, 25.0];
    near(rank_test(&a, &b), 0.067_099_567_099_567_1, 1e-12);
}

#[test]
fn matches_exact_bootstrap_of_ratio() {
    // Enumerating all 5^5 * 5^5 resamples, 1.84 % of the ratios are below 1.06731 and 3.34 % up to
    // it, and the same from 1.21212 on. scipy.stats.bootstrap(method="percentile") agrees.
    let before = [100.0, 104.0, 97.0, 103.0, 99.0];
    let after = [112.0, 109.0, 118.0, 111.0, 120.0];
    for seed in 0..20 {
        let found = compare(&before, &after, 0.05, seed).unwrap();
        near(found.ratio, 1.12, 1e-12);
        near(found.interval.0, 1.067_307_692_307_692_3, 1e-12);
        near(found.interval.1, 1.212_121_212_121_212_1, 1e-12);
    }
}

#[test]
fn scores_single_deviation_by_mean() {
    // IBM's formula if more than half of the values are equal: the distance divided by 1.253314
    // times the mean deviation, here 9 / (1.253314 * 9 / 7).
    let scores = modified_z_scores(&[5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 14.0]);
    near(scores[6].z, 7.0 / 1.253_314, 1e-9);
    assert_eq!(median(&[5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 14.0]), Some(5.0));
}

/// Breaks of yarn, from R's `warpbreaks`: wool A and B, each under tension L, M and H, with nine
/// looms.
const BREAKS: [[[f64; 9]; 3]; 2] = [
    [
        [26.0, 30.0, 54.0, 25.0, 70.0, 52.0, 51.0, 26.0, 67.0],
        [18.0, 21.0, 29.0, 17.0, 12.0, 18.0, 35.0, 30.0, 36.0],
        [36.0, 21.0, 24.0, 18.0, 10.0, 43.0, 28.0, 15.0, 26.0],
    ],
    [
        [27.0, 14.0, 29.0, 19.0, 29.0, 31.0, 41.0, 20.0, 44.0],
        [42.0, 26.0, 19.0, 16.0, 39.0, 28.0, 21.0, 39.0, 29.0],
        [20.0, 21.0, 24.0, 17.0, 13.0, 15.0, 15.0, 16.0, 28.0],
    ],
];

fn breaks() -> Vec<Observation> {
    let mut observations = Vec::new();
    for (wool, tensions) in BREAKS.iter().enumerate() {
        for (tension, looms) in tensions.iter().enumerate() {
            observations
                .extend(looms.map(|figure| Observation { levels: vec![wool, tension], figure }));
        }
    }
    observations
}

/// Returns the shares of wool and tension, and the unexplained share.
fn shares(found: &Effects) -> [f64; 3] {
    let share = |factor| found.factors.iter().find(|f| f.factor == factor).unwrap().share;
    [share(0), share(1), found.unexplained]
}

/// Returns ratios and intervals of wool B, tension M and tension H.
fn ratios(found: &Effects) -> [[f64; 3]; 3] {
    let level = |factor, level: usize| {
        let effect = found.factors.iter().find(|f| f.factor == factor).unwrap().levels[level];
        [effect.ratio, effect.interval.0, effect.interval.1]
    };
    [level(0, 1), level(1, 1), level(1, 2)]
}

fn all_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).for_each(|(found, expected)| near(*found, *expected, 1e-9));
}

#[test]
fn effects_are_those_of_statsmodels() {
    // ols("log(breaks) ~ wool + tension"), anova_lm(typ=2) and exp(conf_int()).
    let found = effects(&[2, 3], &breaks()).unwrap();
    assert_eq!(found.factors[0].factor, 1);
    all_near(
        &shares(&found),
        &[0.030_896_011_170_157, 0.215_128_026_314_244, 0.753_975_962_515_599],
    );
    all_near(
        ratios(&found).as_flattened(),
        [
            [0.858_856_378_768_371, 0.693_739_201_395_767, 1.063_273_169_322_187],
            [0.750_418_860_070_530, 0.577_750_217_995_257, 0.974_691_913_580_856],
            [0.613_070_870_972_778, 0.472_005_500_125_322, 0.796_295_578_622_553],
        ]
        .as_flattened(),
    );
    // The interaction is significant only at 4.7 %, which is too weak with ten pairs.
    assert!(found.interactions.is_empty());
}

#[test]
fn matches_effects_of_statsmodels() {
    // The same without seven looms: three of A under L, one of A under M, two of B under L and one
    // of B under H.
    let gone = [0, 1, 2, 9, 30, 31, 45];
    let kept = breaks().into_iter().enumerate().filter(|(at, _)| !gone.contains(at));
    let found = effects(&[2, 3], &kept.map(|(_, o)| o).collect::<Vec<_>>()).unwrap();
    all_near(
        &shares(&found),
        &[0.030_609_303_387_612, 0.232_233_422_884_978, 0.745_420_193_164_590],
    );
    all_near(
        ratios(&found).as_flattened(),
        [
            [0.855_992_819_830_233, 0.676_054_338_735_888, 1.083_823_689_336_85],
            [0.732_603_766_318_005, 0.544_122_841_899_971, 0.986_373_364_788_815],
            [0.582_435_486_812_824, 0.432_406_082_374_213, 0.784_519_714_515_289],
        ]
        .as_flattened(),
    );
}

#[test]
fn matches_interaction_of_statsmodels() {
    // Every loom twice, so that wool and tension interact: anova_lm(typ=2) of "log(breaks) ~ wool *
    // tension".
    let twice = [breaks(), breaks()].concat();
    let found = effects(&[2, 3], &twice).unwrap();
    assert_eq!(found.interactions.len(), 1);
    let together = &found.interactions[0];
    near(together.share, 0.090_270_591_035_674, 1e-9);
    near(together.probability, 0.001_497_991_806_022, 1e-9);
    near(found.unexplained, 0.663_705_371_479_925, 1e-9);
    // In a complete matrix of two factors, these are ratios of geometric means.
    let log = |looms: &[f64; 9]| looms.iter().map(|breaks| breaks.ln()).sum::<f64>() / 9.0;
    for within in &together.within {
        let wool = &BREAKS[within.under];
        near(within.ratio.ln(), log(&wool[within.level]) - log(&wool[0]), 1e-9);
    }
    assert_eq!(together.within.len(), 4);
}
