//! The score of a run of io500, computed as IO500 computes its own.
//!
//! The score of a trial is the geometric mean of two figures: the geometric mean of the bandwidths
//! of four phases in GiB/s, and that of the rates of eight phases in thousands of ops per second.
//! Random reads have no part in it. [`Io500Score`] summarizes the trials that have all phases.
//!
//! **Source:** IO500, src/main.c, `calc_score`.

use model::Pass;

use crate::judge::Judged;
use crate::summary::{Summary, summary};

/// The phases whose bandwidth counts.
const BANDWIDTHS: [Pass; 4] =
    [Pass::IorEasyWrite, Pass::IorHardWrite, Pass::IorEasyRead, Pass::IorHardRead];

/// The phases whose op rate counts.
const METADATA: [Pass; 8] = [
    Pass::MdtestEasyWrite,
    Pass::MdtestHardWrite,
    Pass::Io500Find,
    Pass::MdtestEasyStat,
    Pass::MdtestHardStat,
    Pass::MdtestEasyDelete,
    Pass::MdtestHardRead,
    Pass::MdtestHardDelete,
];

const GIB: f64 = (1_u64 << 30) as f64;

/// The score of a run, over all trials in which every phase counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Io500Score {
    /// Geometric mean of the bandwidths, in GiB/s.
    pub bandwidth_gib_per_s: Summary,
    /// Geometric mean of the rates of names, in thousands of ops per second.
    pub metadata_kops_per_s: Summary,
    /// Geometric mean of both.
    pub score: Summary,
}

impl Io500Score {
    /// Computes the score of a run from the results of its phases. Returns `None` if no trial has
    /// them all.
    pub fn from_phases(phases: &[&Judged]) -> Option<Self> {
        let trials = phases.iter().flat_map(|phase| &phase.points).map(|point| point.trial_index);
        let last = trials.max()?;
        let mut scores = [Vec::new(), Vec::new(), Vec::new()];
        for trial in 0..=last {
            let rate = |pass| rate_of(phases, pass, trial);
            let bandwidth = mean_of(&BANDWIDTHS, GIB, rate);
            let metadata = mean_of(&METADATA, 1e3, rate);
            if let (Some(bandwidth), Some(metadata)) = (bandwidth, metadata) {
                let score = (bandwidth * metadata).sqrt();
                for (all, one) in scores.iter_mut().zip([bandwidth, metadata, score]) {
                    all.push(one);
                }
            }
        }
        let [bandwidth_gib_per_s, metadata_kops_per_s, score] = scores.map(|all| summary(&all));
        Some(Self {
            bandwidth_gib_per_s: bandwidth_gib_per_s?,
            metadata_kops_per_s: metadata_kops_per_s?,
            score: score?,
        })
    }
}

/// Returns the rate of a phase in a trial, if the trial counts there.
fn rate_of(phases: &[&Judged], pass: Pass, trial: u32) -> Option<f64> {
    let phase = phases.iter().find(|phase| phase.pass == pass)?;
    let point = phase.points.iter().find(|point| point.trial_index == trial)?;
    point.used.then_some(point.per_s)
}

/// Returns the geometric mean of the rates of phases in a unit, or `None` if one is missing or 0.
fn mean_of(phases: &[Pass], unit: f64, rate: impl Fn(Pass) -> Option<f64>) -> Option<f64> {
    let mut logarithms = 0.0;
    for phase in phases {
        logarithms += (rate(*phase).filter(|rate| *rate > 0.0)? / unit).ln();
    }
    Some((logarithms / phases.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use model::testing::RunBuilder;
    use model::{Histogram, KindResult, PassResult, Run, Trial, TrialState, Workload};

    use super::*;

    /// Ops or bytes per second of the phases, in the published order without random reads.
    const RATES: [u64; 12] = [
        4 << 30,
        20_000,
        1 << 30,
        5_000,
        400_000,
        8 << 30,
        80_000,
        2 << 30,
        40_000,
        10_000,
        25_000,
        4_000,
    ];

    /// A phase that took a second.
    fn phase(pass: Pass, rate: u64) -> PassResult {
        let is_bytes = pass.is_byte_rate();
        let kind = KindResult {
            kind: pass.kinds()[0],
            issued: rate,
            done: if is_bytes { 1_000 } else { rate },
            bytes: if is_bytes { rate } else { 0 },
            errors: Vec::new(),
            service_time: Histogram::new(),
            response_time: Histogram::new(),
        };
        PassResult { window_ns: 1_000_000_000, kinds: vec![kind], ..PassResult::new(pass) }
    }

    fn trial(index: u32, factor: u64) -> Trial {
        let passes = Workload::Io500.passes().iter().zip(RATES);
        Trial {
            index,
            position: index,
            started_unix_ms: 0,
            state: TrialState::Done,
            passes: passes.map(|(pass, rate)| phase(*pass, rate * factor)).collect(),
            facts: Vec::new(),
        }
    }

    fn score(trials: Vec<Trial>) -> Option<Io500Score> {
        let spec = RunBuilder::new(Workload::Io500).build();
        let run = Run { index: 0, spec, trials };
        let judged: Vec<Judged> =
            Workload::Io500.passes().iter().map(|pass| crate::judge::pass(&run, *pass)).collect();
        Io500Score::from_phases(&judged.iter().collect::<Vec<_>>())
    }

    #[test]
    fn agrees_with_calculation_by_hand() {
        let found = score(vec![trial(0, 1)]).unwrap();
        // (4 * 1 * 8 * 2)^(1/4) GiB/s.
        assert!((found.bandwidth_gib_per_s.median - 64_f64.powf(0.25)).abs() < 1e-9);
        // The product of 20, 5, 400, 80, 40, 10, 25 and 4 is 1.28e11; its eighth root is 24.457.
        assert!((found.metadata_kops_per_s.median - 24.456_9).abs() < 1e-3);
        // The root of 2.8284 * 24.4569.
        assert!((found.score.median - 8.317_1).abs() < 1e-3, "{:?}", found.score);
    }

    #[test]
    fn scores_only_whole_trials() {
        let mut cut = trial(1, 100);
        cut.passes.truncate(5);
        let found = score(vec![trial(0, 1), cut.clone(), trial(2, 2), trial(3, 4)]).unwrap();
        assert_eq!(found.score.n, 3);
        assert!((found.score.median / score(vec![trial(0, 2)]).unwrap().score.median - 1.0) < 1e-9);
        assert_eq!(score(vec![cut]), None);
        assert_eq!(score(Vec::new()), None);
    }
}
