//! Estimates based on a short probe of the targets instead of assumed rates.
//!
//! The time of a trial has a constant part (setup, connecting, settling, removal) and a part that
//! grows with its work. Two trials with different amounts of work are enough to separate them, so a
//! probe runs reduced trials ([`reduced`]), and [`Pace`] fits a straight line through the first and
//! the last. Passes with a time limit last as long as their run specifies. This module only
//! computes; the trials are made elsewhere.

use model::{RunSpec, Workload};

use crate::resolve::estimate::{
    Estimate, NS_PER_MS, Rates, RunEstimate, estimate_files, estimate_pass, estimate_run, sum_up,
};
use crate::resolve::plan::Plan;

/// Work of an op in addition to its bytes: that of a page, since metadata ops move no bytes.
const OP_WORK: u64 = 4_096;

/// Maximum duration of a pass with a time limit in a probe.
const TIMED_MS_MAX: u64 = 300;

/// Minimum size of the file set of an op mix in a probe.
const MIX_SET_BYTES_MIN: u64 = 1 << 20;

/// One trial of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTrial {
    /// Amount of work, from [`work_of`].
    pub work: u64,
    /// Duration of the trial without passes that have a time limit, in nanoseconds.
    pub took_ns: u64,
    /// Duration of the passes that end with their work, in nanoseconds.
    pub passes_ns: u64,
    /// Rates of the passes with a time limit; 0 if there are none.
    pub timed: TimedRates,
}

/// Rates of passes with a time limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedRates {
    /// Ops per second of all workers together.
    pub ops_per_s: u64,
    /// Bytes per second of all workers together.
    pub bytes_per_s: u64,
}

/// Cost of the trials of a run, measured by a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The part that does not depend on the work, in nanoseconds.
    pub base_ns: u64,
    /// An amount of work, and its duration in nanoseconds.
    work: u64,
    work_ns: u64,
    timed: TimedRates,
}

impl Pace {
    /// Computes the pace from trials of growing work; `None` if there are none.
    pub fn from_trials(trials: &[ProbeTrial]) -> Option<Self> {
        let first = trials.first()?;
        let last = trials.last()?;
        let (work, work_ns) = match last.work.saturating_sub(first.work) {
            // With a single amount of work, assume that the time of the passes grows with it.
            0 => (last.work.max(1), last.passes_ns.min(last.took_ns)),
            // If more work took less time, that is noise, and the work counts as free.
            more => (more, last.took_ns.saturating_sub(first.took_ns)),
        };
        let base_ns = last.took_ns.saturating_sub(scale(last.work, work_ns, work));
        Some(Self { base_ns, work, work_ns, timed: last.timed })
    }

    /// Returns the duration of a trial of a run, in milliseconds.
    fn trial_ms(&self, run: &RunSpec) -> u64 {
        let mut timed_ns = 0_u64;
        for pass in run.passes() {
            let warmup_ns = run.warmup_ns();
            let time_ns = run.time_max_ns(*pass).unwrap_or(0);
            timed_ns = timed_ns.saturating_add(time_ns).saturating_add(warmup_ns);
        }
        let work_ns = scale(work_of(run), self.work_ns, self.work);
        self.base_ns.saturating_add(work_ns).saturating_add(timed_ns) / NS_PER_MS
    }
}

/// Estimates the cost of a plan from the pace of its runs, or from assumed rates for runs without.
pub fn estimate_by(plan: &Plan, paces: &[Option<Pace>], rates: &Rates) -> Estimate {
    let mut runs = Vec::with_capacity(plan.runs.len());
    for (number, run) in plan.runs.iter().enumerate() {
        let assumed = rates.within(run);
        let Some(pace) = paces.get(number).copied().flatten() else {
            runs.push(estimate_run(run, &assumed));
            continue;
        };
        // The data moved by a pass with a time limit depends on the measured rate.
        let measured = match pace.timed.ops_per_s {
            0 => assumed,
            ops => Rates {
                random_ops_per_s: ops,
                // A run that was not probed itself may have much larger ops.
                bytes_per_s: pace.timed.bytes_per_s.max(assumed.bytes_per_s),
                ..assumed
            },
        };
        let moved = estimate_run(run, &measured.within(run));
        runs.push(match run.impossible() {
            Some(_) => moved,
            None => RunEstimate { duration_ms: pace.trial_ms(run), ..moved },
        });
    }
    sum_up(plan, runs)
}

/// Returns the amount of work in a run that has no time limit, including its preparation. The unit
/// is bytes, with a page added for each op, so that runs can be compared.
pub fn work_of(run: &RunSpec) -> u64 {
    let rates = Rates::default();
    let passes = run.passes();
    let Some(first) = passes.first() else { return 0 };
    let mut work = estimate_files(run, *first, &rates).bytes_written;
    for pass in passes {
        if run.time_max_ns(*pass).is_some() {
            continue;
        }
        let cost = estimate_pass(run, *pass, &rates);
        let bytes = cost.bytes_written.saturating_add(cost.bytes_read);
        work = work.saturating_add(bytes).saturating_add(cost.ops.saturating_mul(OP_WORK));
    }
    work
}

/// Returns true if a reduced trial of a run is representative. A command of the user can't be
/// reduced, and trials of the null target take no time.
pub fn can_be_reduced(run: &RunSpec) -> bool {
    run.impossible().is_none() && run.workload != Workload::App && run.target != model::Target::Null
}

/// Reduces a run to about `work_max`, unless it has less work already. Passes with a time limit
/// become short, and nothing is warmed up.
pub fn reduced(run: &RunSpec, work_max: u64) -> RunSpec {
    let all = work_of(run).max(1);
    let part = work_max.min(all);
    let mut small = run.clone();
    small.duration_ms = run.duration_ms.min(TIMED_MS_MAX);
    small.load.time_max_ms = run.load.time_max_ms.min(TIMED_MS_MAX);
    small.load.warmup_ms = 0;
    small.load.ramp_ms = 0;
    small.checkpoint.pause_ms = 0;
    // Each worker and each client keeps at least one file.
    let special = run.workload == Workload::Database || run.vm_boot.base_image;
    let files_min = run.all_workers() + u32::from(special);
    let files_min = files_min.max(run.clients).max(1).min(run.files);
    let wanted = scale(run.files.into(), part, all);
    small.files =
        u32::try_from(wanted).unwrap_or(run.files).clamp(files_min, run.files.max(files_min));
    let of_fixed_size = [
        Workload::Metadata,
        Workload::Transactions,
        Workload::OpMix,
        Workload::Media,
        Workload::KvCache,
        Workload::Developer,
    ];
    small.training.epochs = 1;
    if run.workload == Workload::Training {
        // Samples keep their size, and there must be enough of them for two steps.
        let of_step = u64::from(run.training.batch) * u64::from(run.training.accelerators);
        let least = 2 * of_step * u64::from(run.agents());
        let least = least.div_ceil(run.training.samples_per_file.into()) as u32;
        small.files = small.files.max(least).min(run.files);
        if least > run.files {
            small.training.epochs = run.training.epochs;
        }
    } else if !of_fixed_size.contains(&run.workload) {
        // If there are not fewer files, make them smaller.
        let set_bytes = scale(run.set_bytes(), part, all);
        let block = u64::from(run.io_size_bytes).max(run.layout.block_size_bytes).max(1);
        let least = block * u64::from(run.all_workers().max(1));
        let wanted = set_bytes / u64::from(small.files.max(1));
        let whole = wanted.max(least).div_ceil(least) * least;
        small.file_size_bytes = whole.min(run.file_size_bytes);
    }
    if let Some(sizes) = &run.file_sizes {
        let [by, of] = [small.file_size_bytes, run.file_size_bytes];
        small = small.with_sizes(sizes.map_sizes(|size| scale(size, by, of).max(size.min(1))));
    }
    let workers = u64::from(run.all_workers().max(1));
    let fewer = |count: u64| scale(count, part, all).max(workers).min(count);
    small.transactions.count = fewer(run.transactions.count);
    small.vm_boot.bytes = scale(run.vm_boot.bytes, part, all).max(64 << 10).min(run.vm_boot.bytes);
    small.load.ops_max = fewer(run.load.ops_max);
    small.load.bytes_max =
        scale(run.load.bytes_max, part, all).max(workers << 20).min(run.load.bytes_max);
    let mix_bytes = run.op_mix.set_bytes_per_rate;
    small.op_mix.set_bytes_per_rate =
        scale(mix_bytes, part, all).max(MIX_SET_BYTES_MIN).min(mix_bytes);
    small
}

/// Returns `amount * by / of` without intermediate overflow.
fn scale(amount: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(amount) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing::RunBuilder;
    use std::path::Path;

    fn stream() -> RunSpec {
        let mut run = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv")).build();
        run.io_size_bytes = 1 << 20;
        run.file_size_bytes = 1 << 30;
        run.files = 1;
        run.workers = 1;
        run
    }

    /// A trial of a target that takes 200 ms around the passes and 1 ns per unit of work.
    fn trial(run: &RunSpec) -> ProbeTrial {
        let work = work_of(run);
        let took_ns = 200_000_000 + work;
        ProbeTrial { work, took_ns, passes_ns: work, timed: TimedRates::default() }
    }

    #[test]
    fn extrapolates_from_two_trials() {
        let whole = stream();
        let trials = [2 << 20, 64 << 20].map(|work| trial(&reduced(&whole, work)));
        assert!(trials[0].work < trials[1].work && trials[1].work < work_of(&whole) / 10);
        let pace = Pace::from_trials(&trials).unwrap();
        assert_eq!(
            (pace.base_ns, pace.trial_ms(&whole)),
            (200_000_000, trial(&whole).took_ns / 1_000_000)
        );
        // A single trial is enough if the time of its passes is known.
        let pace = Pace::from_trials(&trials[..1]).unwrap();
        assert_eq!(
            (pace.base_ns, pace.trial_ms(&whole)),
            (200_000_000, trial(&whole).took_ns / 1_000_000)
        );
        assert_eq!(Pace::from_trials(&[]), None);
    }

    #[test]
    fn estimates_no_negative_cost() {
        let slow =
            ProbeTrial { work: 1, took_ns: 9_000_000, passes_ns: 0, timed: TimedRates::default() };
        let fast = ProbeTrial { work: 5, took_ns: 8_000_000, ..slow };
        assert_eq!(Pace::from_trials(&[slow, fast]).unwrap().trial_ms(&stream()), 8);
    }

    #[test]
    fn keeps_duration_of_timed_passes() {
        let mut mixed = RunBuilder::new(Workload::Mixed).on_directory(Path::new("/srv")).build();
        mixed.duration_ms = 7_000;
        mixed.load.warmup_ms = 2_000;
        let small = reduced(&mixed, 1);
        assert_eq!((small.duration_ms, small.load.warmup_ms), (TIMED_MS_MAX, 0));
        let quick = ProbeTrial {
            work: work_of(&small),
            took_ns: 0,
            passes_ns: 0,
            timed: TimedRates { ops_per_s: 9, bytes_per_s: 9 },
        };
        assert_eq!(Pace::from_trials(&[quick]).unwrap().trial_ms(&mixed), 9_000);
    }

    #[test]
    fn keeps_minimum_work_per_worker() {
        let mut names = RunBuilder::new(Workload::Metadata).on_directory(Path::new("/srv")).build();
        names.files = 100_000;
        names.workers = 4;
        let small = reduced(&names, 1);
        assert_eq!((small.files, small.file_size_bytes), (4, names.file_size_bytes));
        assert_eq!(reduced(&names, u64::MAX).files, 100_000);
        let mut shared = stream();
        shared.workers = 3;
        assert!(reduced(&shared, 1).file_size_bytes >= 3 << 20);
        assert_eq!(reduced(&shared, u64::MAX).file_size_bytes, shared.file_size_bytes);
    }
}
