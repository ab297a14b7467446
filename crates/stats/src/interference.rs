//! Sets trials aside that were disturbed by something outside of the run.
//!
//! [`disturbance`] only uses the interference recorded during a pass, never its rate. The remaining
//! trials are therefore an unbiased sample of undisturbed trials with a valid interval, and a
//! target with two speeds keeps both. If most trials were disturbed, that is normal for this
//! machine, so [`sets_aside`] keeps all of them. [`explanation`] finds the source with which the
//! rates correlate.

use model::{Evidence, Interference, InterferenceSource, PassResult};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::criteria::{
    COVARIATE_PROBABILITY_MAX, COVARIATE_TRIALS_MIN, INTERFERENCE_DISK_BYTES_MAX,
    INTERFERENCE_SHARE_MAX, PRESSURE_SHARE_MAX,
};

/// Source that disturbed a trial most, and by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    pub source: InterferenceSource,
    /// Amount of interference, in the unit of the source.
    pub found: u64,
}

impl Disturbance {
    /// Returns the amount as a multiple of the limit.
    pub fn excess(&self) -> f64 {
        self.found as f64 / limit_of(self.source) as f64
    }

    /// Describes the disturbance with its limit.
    pub fn describe(&self) -> String {
        let Self { source, found } = *self;
        let limit = source.show(limit_of(source));
        format!("{} (limit {limit})", source.describe(&source.show(found)))
    }

    /// Returns the amount and its limit as data.
    pub(crate) fn evidence(&self) -> Evidence {
        let Self { source, found } = *self;
        let limit = limit_of(source);
        let from = source.cause();
        if source.is_share() {
            Evidence::shares(found as f64 / 1e3, limit as f64 / 1e3, from)
        } else {
            Evidence::counts(found, limit, "B/s", from)
        }
    }
}

/// Returns the maximum amount for a trial that is kept, in the unit of the source.
pub fn limit_of(source: InterferenceSource) -> u64 {
    let share = match source {
        InterferenceSource::Disk => return INTERFERENCE_DISK_BYTES_MAX,
        InterferenceSource::Steal | InterferenceSource::Programs => INTERFERENCE_SHARE_MAX,
        InterferenceSource::Memory | InterferenceSource::Heat => PRESSURE_SHARE_MAX,
    };
    (share * 1e3).round() as u64
}

/// Returns the largest disturbance of a pass among the sources above their limits.
pub fn disturbance(recorded: &Interference) -> Option<Disturbance> {
    let of_source = |source: &InterferenceSource| {
        let found = recorded.get(*source).filter(|found| *found > limit_of(*source))?;
        Some(Disturbance { source: *source, found })
    };
    let found = InterferenceSource::ALL.iter().filter_map(of_source);
    found.max_by(|one, other| one.excess().total_cmp(&other.excess()))
}

/// Returns true if disturbed trials are set aside, which is the case unless most are disturbed.
pub const fn sets_aside(disturbed: usize, trials: usize) -> bool {
    disturbed > 0 && disturbed <= trials / 2
}

/// What may explain the rates of some trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Explanation {
    /// Higher values go along with lower rates.
    Follows {
        /// Covariate that explains the rates best.
        covariate: Covariate,
        /// Its correlation with the rates.
        correlation: f64,
        /// Number of trials above twice its limit.
        trials_above: usize,
    },
    /// No recorded value explains the rates.
    Nothing {
        /// Number of sources that were recorded and varied.
        looked_at: usize,
    },
}

/// Recorded value that may explain why rates differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covariate {
    /// Source outside of the run.
    Outside(InterferenceSource),
    /// Time that runnable workers waited for a CPU, whoever used it.
    Wait,
}

impl Covariate {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let outside = InterferenceSource::ALL.iter().copied().map(Self::Outside);
        outside.chain([Self::Wait])
    }

    fn value_in(self, result: &PassResult) -> Option<f64> {
        match self {
            Self::Outside(source) => {
                result.scope.interference.get(source).map(|found| found as f64)
            }
            Self::Wait => result.scope.processor_wait.map(|wait| wait.share() * 1e3),
        }
    }

    /// Returns the value above which a trial counts as strongly affected.
    fn strong_threshold(self) -> f64 {
        match self {
            Self::Outside(source) => 2.0 * limit_of(source) as f64,
            Self::Wait => 2.0 * INTERFERENCE_SHARE_MAX * 1e3,
        }
    }

    /// Names it as a cause.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Outside(source) => source.cause(),
            Self::Wait => "the time that workers waited for a CPU",
        }
    }

    /// Formats the threshold of [`Explanation::Follows::trials_above`] with its unit.
    pub(crate) fn format_threshold(self) -> String {
        match self {
            Self::Outside(source) => source.show(2 * limit_of(source)),
            Self::Wait => InterferenceSource::Steal.show(self.strong_threshold() as u64),
        }
    }
}

/// Finds the recorded value that best explains why the rates of trials differ; `None` if there are
/// too few trials to tell. A rate that rises with interference is not an explanation.
pub fn explanation(trials: &[(&PassResult, f64)]) -> Option<Explanation> {
    if trials.len() < COVARIATE_TRIALS_MIN {
        return None;
    }
    let rates: Vec<f64> = trials.iter().map(|(_, rate)| *rate).collect();
    let mut looked_at = 0;
    let mut best = None;
    for covariate in Covariate::all() {
        let values: Option<Vec<f64>> =
            trials.iter().map(|(it, _)| covariate.value_in(it)).collect();
        let Some(values) = values else { continue };
        let Some(correlation) = correlation(&values, &rates) else { continue };
        looked_at += 1;
        if best.as_ref().is_none_or(|(_, known, _)| correlation < *known) {
            best = Some((covariate, correlation, values));
        }
    }
    match best {
        // With several sources, the best one is more likely to correlate by chance (Bonferroni).
        Some((covariate, correlation, values))
            if correlation < 0.0
                && probability(correlation, rates.len()) * looked_at as f64
                    <= COVARIATE_PROBABILITY_MAX =>
        {
            let trials_above =
                values.iter().filter(|value| **value > covariate.strong_threshold()).count();
            Some(Explanation::Follows { covariate, correlation, trials_above })
        }
        _ => Some(Explanation::Nothing { looked_at }),
    }
}

/// Returns Pearson's correlation of two series; `None` if either does not vary.
fn correlation(xs: &[f64], ys: &[f64]) -> Option<f64> {
    let n = xs.len() as f64;
    let mean_x = xs.iter().sum::<f64>() / n;
    let mean_y = ys.iter().sum::<f64>() / n;
    let mut xx = 0.0;
    let mut yy = 0.0;
    let mut xy = 0.0;
    for (x, y) in xs.iter().zip(ys) {
        let dx = x - mean_x;
        let dy = y - mean_y;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    let product = (xx * yy).sqrt();
    if product > 0.0 { Some((xy / product).clamp(-1.0, 1.0)) } else { None }
}

/// Returns the probability that `n` pairs correlate at least this strongly by chance, in either
/// direction.
///
/// **Source:** Student's t of a correlation coefficient, `n - 2` degrees of freedom.
fn probability(correlation: f64, n: usize) -> f64 {
    let freedom = n as f64 - 2.0;
    let rest = 1.0 - correlation * correlation;
    if rest <= 0.0 {
        return 0.0;
    }
    let t = correlation.abs() * (freedom / rest).sqrt();
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| 2.0 * student.sf(t))
}

#[cfg(test)]
mod tests {
    use model::{Pass, ProcessorWait};

    use super::*;

    fn recorded(source: InterferenceSource, found: u64) -> Interference {
        Interference::default().with(source, Some(found))
    }

    #[test]
    fn names_worst_source_above_its_limit() {
        for source in InterferenceSource::ALL {
            let limit = limit_of(*source);
            assert_eq!(disturbance(&recorded(*source, limit)), None);
            let found = limit + 1;
            let expected = Some(Disturbance { source: *source, found });
            assert_eq!(disturbance(&recorded(*source, found)), expected);
        }
        let both =
            recorded(InterferenceSource::Steal, 120).with(InterferenceSource::Programs, Some(130));
        let worst = disturbance(&both).unwrap();
        assert_eq!(worst.source, InterferenceSource::Programs);
        insta::assert_snapshot!(
            worst.describe(),
            @"other programs used 13.0 % of the CPUs (limit 5.00 %)"
        );
        assert_eq!(disturbance(&Interference::default()), None);
    }

    #[test]
    fn keeps_all_if_most_are_disturbed() {
        let decided = |disturbed, trials| sets_aside(disturbed, trials);
        assert_eq!([decided(0, 5), decided(1, 5), decided(2, 5)], [false, true, true]);
        assert_eq!([decided(3, 5), decided(5, 10), decided(6, 10)], [false, true, false]);
        // A single trial is never set aside.
        assert_eq!([decided(1, 1), decided(1, 2)], [false, true]);
    }

    /// Trials with their rates and steal in thousandths.
    fn explained(trials: &[(f64, u64)]) -> Option<Explanation> {
        let of = |steal| {
            let mut result = PassResult::new(Pass::Read);
            result.scope.interference = recorded(InterferenceSource::Steal, steal);
            result.scope.processor_wait =
                Some(ProcessorWait { waited_ns: 0, held_ns: 0, of_ns: 1_000 });
            result
        };
        let results: Vec<PassResult> = trials.iter().map(|(_, steal)| of(*steal)).collect();
        let pairs: Vec<_> = results.iter().zip(trials).map(|(it, (rate, _))| (it, *rate)).collect();
        explanation(&pairs)
    }

    #[test]
    fn explains_rates_by_steal() {
        let trials =
            [(100.0, 0), (99.0, 10), (71.0, 300), (101.0, 5), (60.0, 390), (88.0, 120), (97.0, 20)];
        let Some(Explanation::Follows { covariate, correlation, trials_above }) =
            explained(&trials)
        else {
            panic!("no explanation");
        };
        assert_eq!(covariate, Covariate::Outside(InterferenceSource::Steal));
        assert!((-1.0..-0.98).contains(&correlation), "{correlation}");
        assert_eq!((trials_above, covariate.format_threshold().as_str()), (3, "10.0 %"));
    }

    #[test]
    fn chance_explains_nothing() {
        let nothing = Some(Explanation::Nothing { looked_at: 1 });
        // No relation; a rate that rises with the steal; too few trials for a weak one.
        let none = [(100.0, 10), (60.0, 12), (98.0, 11), (62.0, 9), (99.0, 10), (61.0, 11)];
        assert_eq!(explained(&none), nothing);
        let rises = [(60.0, 0), (70.0, 100), (80.0, 200), (90.0, 300), (100.0, 400)];
        assert_eq!(explained(&rises), nothing);
        let weak = [(100.0, 0), (80.0, 50), (95.0, 60), (70.0, 110), (85.0, 100)];
        assert_eq!(explained(&weak), nothing);
        assert_eq!(explained(&none[..4]), None);
        // Steal that does not vary cannot explain anything.
        let same = [(100.0, 7), (60.0, 7), (98.0, 7), (62.0, 7), (99.0, 7)];
        assert_eq!(explained(&same), Some(Explanation::Nothing { looked_at: 0 }));
    }

    #[test]
    fn matches_tabulated_correlation_probability() {
        // Critical values of Pearson's r for a probability of 1 % on both sides.
        for (n, r) in [(5, 0.959), (10, 0.765), (20, 0.561)] {
            let found = probability(r, n);
            assert!((found - 0.01).abs() < 2e-4, "{n} {found}");
        }
    }
}
