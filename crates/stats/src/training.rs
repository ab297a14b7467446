//! Judges how well the storage feeds the accelerators of a training.

use model::{PassResult, RunSpec};

use crate::summary::{Summary, median};

/// How accelerators were used, over all trials that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingJudged {
    /// Accelerators over all client hosts.
    pub accelerators: u32,
    pub steps: u64,
    /// Share of the time that they computed, between 0 and 1.
    pub utilization: Summary,
    /// The share that is required.
    pub required: f64,
    /// Samples per second over all accelerators.
    pub samples_per_s: Summary,
    /// Time that each accelerator waited for batches, in seconds, as the median over the trials.
    pub waited_s: f64,
    /// Time until the first batches were complete, in seconds.
    pub first_batch_s: f64,
    /// Longest time that a step waited for its batch in any trial, in seconds.
    pub longest_wait_s: f64,
}

impl TrainingJudged {
    /// Judges a run's passes of the same kind. Returns `None` if there is no utilization.
    pub(crate) fn from_passes(
        spec: &RunSpec,
        passes: &[&PassResult],
        utilization: Option<Summary>,
        samples_per_s: Option<Summary>,
    ) -> Option<Self> {
        let works: Vec<_> = passes.iter().filter_map(|pass| pass.scope.training).collect();
        let middle = |seconds: Vec<f64>| median(&seconds);
        let each_s = |ns: u64, accelerators: u32| ns as f64 / 1e9 / f64::from(accelerators.max(1));
        let waited = works.iter().map(|work| each_s(work.waited_ns(), work.accelerators));
        Some(Self {
            accelerators: works.first()?.accelerators,
            steps: works.first()?.steps,
            utilization: utilization?,
            required: f64::from(spec.training.au_min_percent) / 100.0,
            samples_per_s: samples_per_s?,
            waited_s: middle(waited.collect())?,
            first_batch_s: middle(works.iter().map(|it| each_s(it.first_batch_ns, 1)).collect())?,
            longest_wait_s: works
                .iter()
                .map(|it| each_s(it.longest_wait_ns, 1))
                .fold(0.0, f64::max),
        })
    }

    /// Returns true if the accelerators computed for as much of the time as required.
    pub fn is_fed(&self) -> bool {
        self.utilization.median >= self.required
    }
}

/// Returns the accelerator utilization of a pass.
pub(crate) fn utilization(result: &PassResult) -> Option<f64> {
    result.scope.training?.utilization()
}

/// Returns the samples per second of a pass. Unlike the utilization, they include the first step.
pub(crate) fn samples_per_s(result: &PassResult) -> Option<f64> {
    let work = result.scope.training?;
    (result.window_ns > 0).then(|| work.samples as f64 * 1e9 / result.window_ns as f64)
}

#[cfg(test)]
mod tests {
    use model::testing::RunBuilder;
    use model::{Pass, TrainingWork, Workload};

    use super::*;
    use crate::summary::summary;

    #[test]
    fn judges_utilization_of_trials() {
        let spec = RunBuilder::new(Workload::Training).build();
        let pass = |waited_ms: u64| {
            let mut pass = PassResult::new(Pass::Train);
            pass.window_ns = 2_000_000_000;
            pass.scope.training = Some(TrainingWork {
                accelerators: 2,
                steps: 11,
                samples: 110,
                compute_ns: 2_000_000_000,
                span_ns: 2_000_000_000 + 2 * waited_ms * 1_000_000,
                first_batch_ns: 20_000_000,
                longest_wait_ns: waited_ms * 1_000_000,
                late_steps: 1,
            });
            pass
        };
        let judged = |waited: [u64; 3]| {
            let passes = waited.map(pass);
            let each: Vec<&PassResult> = passes.iter().collect();
            let of = |rate: fn(&PassResult) -> Option<f64>| {
                summary(&each.iter().filter_map(|pass| rate(pass)).collect::<Vec<_>>())
            };
            TrainingJudged::from_passes(&spec, &each, of(utilization), of(samples_per_s)).unwrap()
        };
        let good = judged([0, 100, 50]);
        assert_eq!((good.accelerators, good.steps, good.is_fed()), (2, 11, true));
        assert!((good.utilization.median - 1.0 / 1.05).abs() < 1e-9);
        assert!((good.samples_per_s.median - 55.0).abs() < 1e-9);
        assert_eq!((good.waited_s, good.longest_wait_s), (0.05, 0.1));
        assert!(!judged([200, 300, 250]).is_fed());
    }
}
