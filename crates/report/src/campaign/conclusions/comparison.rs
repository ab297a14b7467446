//! Comparison of two levels of a factor in one kind of pass, as evidence for a conclusion.

use model::{Conclusion, Expectation};
use stats::Effects;
use stats::criteria::EFFECT_MIN;
use stats::effects::{FactorEffect, LevelEffect};

use crate::factor_effects::PassFactors;
use crate::humanize::{listed, percent};
use crate::table::{Row, Sheet};

/// Maximum multiple of the trials to recommend.
const TIMES_MAX: f64 = 20.0;

/// What a comparison means for the conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    BorneOut,
    Contradicted,
    /// The data cannot decide.
    Undecided,
    /// The conclusion is a question, and this answers it.
    Answered,
}

/// Two levels of a factor, compared in one kind of pass.
pub(crate) struct Comparison {
    /// Workload and pass, such as `stream read`.
    pub pass: String,
    /// Baseline level and compared level, as displayed in tables.
    pub levels: [String; 2],
    /// Rate under the second level divided by that under the first, if known.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    pub interval: Option<(f64, f64)>,
    /// Share of the variance explained by the factor (0 to 1), if the conclusion is about that.
    pub share: Option<f64>,
    /// Number of trials compared.
    pub trials: usize,
    pub outcome: Outcome,
    /// Clauses that qualify the ratio or explain its absence.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Ranks all factors of a kind of pass by the variance they explain.
    pub(super) fn rank_all(pass: &PassFactors) -> Self {
        let mut one = Self::undecided(pass, ["", ""]);
        match &pass.found {
            Ok(effects) => {
                let mut ranked = Vec::new();
                // Already sorted by share.
                for effect in &effects.factors {
                    let name = &pass.factors[effect.factor].name;
                    ranked.push(format!("{name} {}", percent(effect.share)));
                }
                one.outcome = Outcome::Answered;
                one.notes.push(ranked.join(", "));
            }
            Err(why) => one.notes.push(why.sentence().to_owned()),
        }
        one
    }

    fn undecided(pass: &PassFactors, levels: [&str; 2]) -> Self {
        Self {
            pass: pass.name.clone(),
            levels: levels.map(str::to_owned),
            ratio: None,
            interval: None,
            share: None,
            trials: pass.trials,
            outcome: Outcome::Undecided,
            notes: Vec::new(),
        }
    }

    /// Judges a conclusion by the factor effects in one kind of pass.
    pub(super) fn new(pass: &PassFactors, conclusion: &Conclusion, levels: [&str; 2]) -> Self {
        let mut one = Self::undecided(pass, levels);
        let effects = match &pass.found {
            Ok(effects) => effects,
            Err(why) => {
                one.notes.push(why.sentence().to_owned());
                return one;
            }
        };
        let is_meant =
            |effect: &&FactorEffect| pass.factors[effect.factor].name == conclusion.factor;
        let Some(effect) = effects.factors.iter().find(is_meant) else {
            one.notes.push("only one of the two levels has usable results".to_owned());
            return one;
        };
        if conclusion.expect == Expectation::MattersMost {
            one.rank(pass, effects, effect);
            return one;
        }
        let Some(level) = level_effect(pass, effect, levels) else {
            let outer: Vec<String> =
                effect.within.iter().map(|outer| pass.factors[*outer].name.clone()).collect();
            one.notes.push(if outer.is_empty() {
                "too few results to compare the two levels".to_owned()
            } else {
                format!("it changes only together with {}", listed(&outer))
            });
            return one;
        };
        one.ratio = Some(level.ratio);
        one.interval = Some(level.interval);
        one.outcome = judge_ratio(conclusion.expect, &level);
        one.note_company(pass, effects, effect);
        if one.outcome == Outcome::Undecided
            && let Some(times) = trials_to_decide(conclusion.expect, &level)
        {
            let trials = (one.trials as f64 * times).ceil();
            one.notes.push(format!("about {trials:.0} trials would decide"));
        }
        one
    }

    /// Judges whether a factor explains more of the variance than any other.
    fn rank(&mut self, pass: &PassFactors, effects: &Effects, effect: &FactorEffect) {
        self.share = Some(effect.share);
        // Sorted by share. Targets are excluded, because they are compared elsewhere.
        let is_factor = |other: &&FactorEffect| pass.factors[other.factor].name != "target";
        let Some(first) = effects.factors.iter().find(is_factor) else { return };
        if first.factor == effect.factor {
            let is_apart = effect.levels.iter().any(LevelEffect::is_apart);
            self.outcome = if is_apart { Outcome::BorneOut } else { Outcome::Undecided };
            if !is_apart {
                self.notes.push("no levels differ significantly".to_owned());
            }
            return;
        }
        self.outcome = Outcome::Contradicted;
        let name = &pass.factors[first.factor].name;
        self.notes.push(format!("{name} explains {}", percent(first.share)));
    }

    /// Notes what the ratio depends on, and which settings cannot be separated from the factor.
    fn note_company(&mut self, pass: &PassFactors, effects: &Effects, effect: &FactorEffect) {
        let mut inseparable = pass.factors[effect.factor].together.clone();
        inseparable.extend(effects.factors.iter().filter_map(|other| {
            let is_unknown = other.levels.iter().all(|level| level.interval.1.is_infinite());
            (other.within.contains(&effect.factor) && is_unknown)
                .then(|| pass.factors[other.factor].name.clone())
        }));
        if !inseparable.is_empty() {
            self.notes.push(format!("together with {}", listed(&inseparable)));
        }
        let mut depends = Vec::new();
        for interaction in &effects.interactions {
            let (first, second) = interaction.factors;
            if [first, second].contains(&effect.factor) {
                let other = if first == effect.factor { second } else { first };
                depends.push(pass.factors[other].name.clone());
            }
        }
        if !depends.is_empty() {
            self.notes.push(format!("depends on {}", listed(&depends)));
        }
    }

    /// If no row of a level has a result, notes the reason.
    pub(super) fn add_missing(&mut self, sheet: &Sheet<'_>, rows: &[&Row<'_>], factor: &str) {
        if self.ratio.is_some() || self.share.is_some() {
            return;
        }
        for level in &self.levels {
            let of_level = rows.iter().filter(|row| sheet.value(row, factor) == *level);
            let mut why: Option<String> = None;
            let mut any = false;
            for row in of_level {
                any |= row.counts();
                // Prefer the reason of other rows to a combination of settings that is impossible.
                let is_first = why.is_none() || row.judged.impossible.is_none();
                if is_first && row.judged.rate.is_none() {
                    why = Some(row.missing());
                } else if is_first && !row.counts() {
                    why = Some(format!("invalid: {}", row.codes()));
                }
            }
            if !any && let Some(why) = why {
                self.notes = vec![format!("{factor} {level}: {why}")];
                return;
            }
        }
    }
}

/// Effect of the second level relative to the first.
fn level_effect(
    pass: &PassFactors,
    effect: &FactorEffect,
    [from, to]: [&str; 2],
) -> Option<LevelEffect> {
    let levels = &pass.factors[effect.factor].levels;
    let place = |level: &str| levels.iter().position(|known| known == level);
    let from = place(from)?;
    let to = place(to)?;
    let mut found = effect.levels[to];
    if found.against != from {
        // Inverted, if the analysis used the second level as the baseline.
        found = effect.levels[from];
        if found.against != to {
            return None;
        }
        let (lo, hi) = found.interval;
        found.ratio = 1.0 / found.ratio;
        found.interval = (1.0 / hi, 1.0 / lo);
    }
    let (lo, hi) = found.interval;
    if lo > 0.0 && hi.is_finite() { Some(found) } else { None }
}

/// Judges a ratio and its interval against the expectation.
fn judge_ratio(expect: Expectation, effect: &LevelEffect) -> Outcome {
    let ratio = effect.ratio;
    let (lo, hi) = effect.interval;
    // The smallest effect is a factor: 5 % faster is 1.05, and equally much slower is 1 / 1.05.
    let least = 1.0 / (1.0 + EFFECT_MIN);
    let most = 1.0 + EFFECT_MIN;
    let is_higher = lo > 1.0 && ratio >= most;
    let is_lower = hi < 1.0 && ratio <= least;
    let (borne, contradicted) = match expect {
        Expectation::Faster => (is_higher, hi < most),
        Expectation::Slower => (is_lower, lo > least),
        Expectation::NoDifference | Expectation::MattersMost | Expectation::Ranking => {
            (lo >= least && hi <= most, is_higher || is_lower)
        }
    };
    match (borne, contradicted) {
        (true, _) => Outcome::BorneOut,
        (false, true) => Outcome::Contradicted,
        (false, false) => Outcome::Undecided,
    }
}

/// How many times as many trials would decide, if they vary like these; `None` if that is more than
/// anyone would run.
///
/// On the logarithm of the ratio, an interval narrows with the square root of the number of trials.
fn trials_to_decide(expect: Expectation, effect: &LevelEffect) -> Option<f64> {
    let ratio = effect.ratio.ln();
    let (lo, hi) = effect.interval;
    let limit = (1.0 + EFFECT_MIN).ln();
    // The interval must exclude the limit at which the outcome changes.
    let is_beyond = match expect {
        Expectation::Faster => ratio >= limit,
        Expectation::Slower => ratio <= -limit,
        _ => ratio.abs() >= limit,
    };
    let distance = match expect {
        _ if is_beyond => ratio.abs(),
        Expectation::Faster => limit - ratio,
        Expectation::Slower => ratio + limit,
        _ => limit - ratio.abs(),
    };
    let width = (hi.ln() - ratio).max(ratio - lo.ln());
    let times = (width / distance).powi(2);
    if times > 1.0 && times <= TIMES_MAX { Some(times) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_sentence_by_interval() {
        use Expectation::{Faster, NoDifference, Slower};
        use Outcome::{BorneOut, Contradicted, Undecided};
        for (expect, ratio, interval, outcome) in [
            (Faster, 1.8, (1.7, 1.9), BorneOut),
            // Certainly faster, but by less than matters.
            (Faster, 1.02, (1.01, 1.03), Contradicted),
            (Faster, 0.5, (0.4, 0.6), Contradicted),
            (Faster, 1.2, (0.9, 1.6), Undecided),
            (Slower, 0.5, (0.4, 0.6), BorneOut),
            (Slower, 1.0, (0.99, 1.01), Contradicted),
            (Slower, 0.9, (0.7, 1.2), Undecided),
            (NoDifference, 1.0, (0.97, 1.04), BorneOut),
            (NoDifference, 1.0, (0.9, 1.1), Undecided),
            (NoDifference, 1.2, (1.1, 1.3), Contradicted),
            (NoDifference, 0.8, (0.7, 0.9), Contradicted),
        ] {
            let effect = LevelEffect { against: 0, ratio, interval };
            assert_eq!(judge_ratio(expect, &effect), outcome, "{expect:?} {ratio}");
        }
    }

    #[test]
    fn estimates_trials_needed() {
        use Expectation::{Faster, NoDifference, Slower};
        // Half the interval is 0.2 on the logarithmic scale; 5 % is 0.0488.
        for (expect, log, times) in [
            // An interval half as wide would show that the ratio is above 1.
            (Faster, 0.1_f64, Some(4.0)),
            (Slower, -0.1, Some(4.0)),
            (NoDifference, 0.1, Some(4.0)),
            (NoDifference, 0.0, Some(16.8)),
            (Faster, -0.05, Some(4.1)),
            (NoDifference, 0.04, None),
        ] {
            let interval = ((log - 0.2).exp(), (log + 0.2).exp());
            let effect = LevelEffect { against: 0, ratio: log.exp(), interval };
            let found = trials_to_decide(expect, &effect);
            let rounded = found.map(|times| (times * 10.0).round() / 10.0);
            assert_eq!(rounded, times, "{expect:?} {log}");
        }
    }
}
