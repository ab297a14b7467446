//! Tests of the rule, and searches over virtual commits: how often they end where.
//!
//! Trials of virtual builds have several kinds of noise, all drawn from seeds, so that a search
//! that fails can be repeated.

use model::random::SplitMix64;

use super::*;

/// A slowdown by 10 %, as the logarithm of the cost.
const TENTH: f64 = 0.105_360_5;

const COMMITS: usize = 10;

/// Noise of the trials of a virtual machine.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Normal, with this deviation.
    Normal(f64),
    /// The same, and one trial in ten takes up to twice as long.
    Stalls(f64),
    /// Normal with little noise, but one trial in five takes up to twice as long.
    Disturbed(f64),
    /// The same, while the machine becomes slower by 20 % over forty trials, again and again.
    Drift(f64),
}

/// Returns an approximately normal variate with deviation 1 (sum of twelve draws).
fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| share(random)).sum::<f64>() - 6.0
}

/// Returns an evenly distributed number between 0 and 1.
fn share(random: &mut SplitMix64) -> f64 {
    random.next() as f64 / u64::MAX as f64
}

/// Returns what a disturbance adds to the logarithm of a cost, with this probability.
fn stall(probability: f64, random: &mut SplitMix64) -> f64 {
    if share(random) < probability { share(random) * 0.7 } else { 0.0 }
}

impl Noise {
    /// Returns the logarithm of the cost of a trial.
    fn draw(self, trial: usize, random: &mut SplitMix64) -> f64 {
        match self {
            Self::Normal(scatter) => scatter * normal(random),
            Self::Stalls(scatter) => scatter * normal(random) + stall(0.1, random),
            Self::Disturbed(scatter) => scatter * normal(random) + stall(0.2, random),
            Self::Drift(scatter) => scatter * normal(random) + 0.005 * (trial % 40) as f64,
        }
    }
}

/// Judges a build that is slower by this much, pair by pair. Also returns the number of pairs.
fn judge_build(
    rule: &BisectRule,
    slowdown: f64,
    noise: Noise,
    random: &mut SplitMix64,
) -> (BisectVerdict, usize) {
    let mut pairs = Vec::new();
    let mut made = 0;
    while let Some(look) = rule.next_look(pairs.len()) {
        while pairs.len() < look {
            let first = noise.draw(made, random);
            let second = noise.draw(made + 1, random);
            made += 2;
            // Either build is the first one of a pair as often as the other.
            let difference = if share(random) < 0.5 { first - second } else { second - first };
            pairs.push(difference + slowdown);
        }
        let verdict = rule.judge_pairs(&pairs, TENTH);
        if verdict != BisectVerdict::Open {
            return (verdict, pairs.len());
        }
    }
    (BisectVerdict::Open, pairs.len())
}

/// Where a search may have ended.
#[derive(Debug, PartialEq, Eq)]
enum SearchEnd {
    /// At the only commit left.
    At(usize),
    /// At several, since those between them could not be judged.
    Among(Vec<usize>),
}

/// Searches as `git bisect run` does: commit 0 is good, the last one bad, and a commit that can't
/// be judged is skipped in favor of another one.
fn search(mut judge: impl FnMut(usize) -> BisectVerdict) -> SearchEnd {
    let mut good = 0;
    let mut bad = COMMITS - 1;
    let mut skipped = Vec::new();
    loop {
        let between: Vec<usize> =
            (good + 1..bad).filter(|commit| !skipped.contains(commit)).collect();
        let Some(commit) = between.get(between.len() / 2) else { break };
        match judge(*commit) {
            BisectVerdict::Good => good = *commit,
            BisectVerdict::Bad => bad = *commit,
            BisectVerdict::Open => skipped.push(*commit),
        }
    }
    if good + 1 == bad { SearchEnd::At(bad) } else { SearchEnd::Among((good + 1..=bad).collect()) }
}

fn rule() -> BisectRule {
    BisectRule::new(100, 1).unwrap()
}

#[test]
fn matches_tables_of_both_tests() {
    // R: psignrank(10, 10) = 0.0420 and psignrank(11, 10) = 0.0527, mirrored: 55 - 10, 55 - 11.
    // Of five signs, only one choice in 32 has the largest sum.
    assert_eq!(smallest_sums(10, |rank| rank, [0.05, 0.053]), [45, 44]);
    assert_eq!(smallest_sums(5, |rank| rank, [1.0 / 32.0, 0.03]), [15, 16]);
    // R: pbinom(1, 10, 0.5) = 0.0107 and pbinom(2, 10, 0.5) = 0.0547.
    assert_eq!(smallest_sums(10, |_| 1, [0.05, 0.0547]), [9, 8]);
    assert_eq!(positive_rank_sum(&[0.3, -0.1, 0.2, -0.4]), 2 + 3);
}

#[test]
fn ties_never_help() {
    assert_eq!(positive_rank_sum(&[0.1, -0.1, 0.1, -0.1]), 1 + 2);
    assert_eq!(positive_rank_sum(&[0.0; 15]), 0);
    assert_eq!(positive_rank_sum(&[f64::NAN, f64::INFINITY, 1.0]), 1);
    // Costs without any noise are decided, too, and a difference at the threshold is not.
    let rule = rule();
    for (slowdown, verdict) in
        [(0.0, BisectVerdict::Good), (1.0, BisectVerdict::Bad), (0.5, BisectVerdict::Open)]
    {
        assert_eq!(rule.judge_pairs(&[slowdown * TENTH; 15], TENTH), verdict, "{slowdown}");
    }
}

#[test]
fn looks_when_planned_only() {
    let rule = rule();
    let mut looks = Vec::new();
    while let Some(next) = rule.next_look(looks.last().copied().unwrap_or(0)) {
        looks.push(next);
    }
    assert_eq!(looks, [15, 19, 24, 30, 38, 48, 60, 75, 94, 100]);
    let slow = [TENTH; 40];
    assert_eq!(rule.judge_pairs(&slow[..14], TENTH), BisectVerdict::Open);
    assert_eq!(rule.judge_pairs(&slow[..15], TENTH), BisectVerdict::Bad);
    // The sixteenth pair waits for the next look.
    let mut pairs = slow.to_vec();
    pairs[15] = -1.0;
    assert_eq!(rule.judge_pairs(&pairs[..16], TENTH), BisectVerdict::Bad);
    // Too few trials can't decide anything; of several rows, each needs more of them.
    assert_eq!(BisectRule::new(9, 1).unwrap_err(), 11);
    assert_eq!(BisectRule::new(12, 8).unwrap_err(), 14);
}

#[test]
fn errs_rarely_at_threshold() {
    // At the threshold, each answer is wrong as often as the rule allows; nowhere more often.
    let rule = BisectRule::new(50, 1).unwrap();
    for noise in [Noise::Normal(0.05), Noise::Disturbed(0.03), Noise::Drift(0.03)] {
        let mut decided = 0;
        for seed in 0..4_000 {
            let mut random = SplitMix64::new(seed);
            let (verdict, _) = judge_build(&rule, TENTH / 2.0, noise, &mut random);
            decided += u32::from(verdict != BisectVerdict::Open);
        }
        // Two answers at 1 in 1000: 8 are expected at most, 17 are three deviations more.
        assert!(decided <= 17, "{noise:?}: {decided} of 4000");
    }
}

#[test]
fn decides_from_few_trials() {
    let rule = rule();
    for (scatter, pairs_max) in [(0.005, 15.0), (0.02, 17.0), (0.05, 58.0)] {
        let mut pairs = 0;
        let mut open = 0;
        for seed in 0..400 {
            let mut random = SplitMix64::new(seed);
            let slowdown = if seed % 2 == 0 { 0.0 } else { TENTH };
            let (verdict, made) = judge_build(&rule, slowdown, Noise::Normal(scatter), &mut random);
            let wrong = if seed % 2 == 0 { BisectVerdict::Bad } else { BisectVerdict::Good };
            assert_ne!(verdict, wrong, "seed {seed}, scatter {scatter}");
            open += u32::from(verdict == BisectVerdict::Open);
            pairs += made;
        }
        let mean = pairs as f64 / 400.0;
        assert!(mean <= pairs_max && open <= 4, "{scatter}: {mean} pairs, {open} of 400 open");
    }
}

#[test]
fn search_ends_at_planted_commit() {
    let rule = rule();
    // With much noise, a few commits can't be judged, which leaves several, one of them right.
    for (noise, open_max) in [
        (Noise::Normal(0.005), 0),
        (Noise::Normal(0.03), 0),
        (Noise::Normal(0.05), 40),
        (Noise::Stalls(0.02), 8),
        (Noise::Disturbed(0.01), 20),
        (Noise::Drift(0.02), 0),
    ] {
        let mut open = 0;
        for seed in 0..400 {
            let mut random = SplitMix64::new(seed);
            let first_bad = 1 + (seed as usize) % (COMMITS - 1);
            let end = search(|commit| {
                let slowdown = if commit < first_bad { 0.0 } else { TENTH };
                judge_build(&rule, slowdown, noise, &mut random).0
            });
            match end {
                SearchEnd::At(commit) => assert_eq!(commit, first_bad, "{noise:?}, seed {seed}"),
                SearchEnd::Among(commits) => {
                    assert!(commits.contains(&first_bad), "{noise:?}, seed {seed}: {commits:?}");
                    open += 1;
                }
            }
        }
        assert!(open <= open_max, "{noise:?}: {open} of 400 undecided");
    }
}

#[test]
fn never_blames_commit_without_evidence() {
    let rule = rule();
    // Noise hides the difference, or all commits are in the middle between good and bad. Then a
    // search must leave several commits, and never end at the wrong one.
    let mut decided = 0;
    for seed in 0..400 {
        let mut random = SplitMix64::new(seed);
        let first_bad = 1 + (seed as usize) % (COMMITS - 1);
        let end = search(|commit| {
            let slowdown = if commit < first_bad { 0.0 } else { TENTH };
            judge_build(&rule, slowdown, Noise::Normal(0.4), &mut random).0
        });
        match end {
            SearchEnd::At(commit) => assert_eq!(commit, first_bad, "seed {seed}"),
            SearchEnd::Among(commits) => assert!(commits.contains(&first_bad), "seed {seed}"),
        }
        let end = search(|_| judge_build(&rule, TENTH / 2.0, Noise::Normal(0.02), &mut random).0);
        decided += u32::from(matches!(end, SearchEnd::At(_)));
    }
    assert_eq!(decided, 0);
}

#[test]
fn stored_trials_need_clearer_evidence() {
    let rule = rule();
    let mut wrong = 0;
    let mut decided = 0;
    let mut with_drift = 0;
    for seed in 0..400 {
        let mut random = SplitMix64::new(seed);
        let mut trials = |count: usize, cost: f64| -> Vec<f64> {
            (0..count).map(|_| cost + 0.007 * normal(&mut random)).collect()
        };
        let good = trials(7, 5.0);
        let [same, slow, half] =
            [0.0, TENTH, TENTH / 2.0].map(|slowdown| trials(40, 5.0 + slowdown));
        let judge = |now: &[f64]| rule.judge_stored(&good, now, TENTH);
        let verdicts = [judge(&same), judge(&slow)];
        wrong += u32::from(verdicts[0] == BisectVerdict::Bad);
        wrong += u32::from(verdicts[1] == BisectVerdict::Good);
        wrong += u32::from(judge(&half) != BisectVerdict::Open);
        decided += u32::from(verdicts == [BisectVerdict::Good, BisectVerdict::Bad]);
        // The machine became slower by half of the difference: no answer, instead of a wrong one.
        let drifted: Vec<f64> = same.iter().map(|cost| cost + TENTH / 2.0).collect();
        with_drift += u32::from(judge(&drifted) == BisectVerdict::Bad);
    }
    assert_eq!((wrong, with_drift), (0, 0));
    assert!(decided >= 380, "{decided} of 400");
    assert_eq!(rule.judge_stored(&[], &[1.0; 20], TENTH), BisectVerdict::Open);
}

#[test]
fn estimates_pairs_to_decide() {
    let noisy: Vec<f64> = (0..40).map(|pair| if pair % 2 == 0 { 0.1 } else { -0.1 }).collect();
    // 25 times the variance over the squared distance from half of the difference.
    assert_eq!(pairs_to_decide(&noisy, TENTH), Some(93));
    assert_eq!(pairs_to_decide(&[TENTH / 2.0; 3], TENTH), None);
}
