//! Estimates from a short probe of the targets themselves, instead of assumed rates.
//!
//! A trial costs a part that is always the same (set-up, connecting, settling, removal) and a part
//! that grows with its work. Two trials of different work tell both, so a probe makes small trials
//! of a run ([`reduced`]), and [`Pace`], the principal type, draws a straight line through the
//! first and the last. Passes that end by time last as long as their run says. Pure: the trials
//! are made elsewhere.

use model::{RunSpec, Workload};

use crate::resolve::estimate::{
    Estimate, NS_PER_MS, Rates, RunEstimate, estimate_files, estimate_pass, estimate_run, sum_up,
};
use crate::resolve::plan::Plan;

/// The work of an op beside its bytes: as that of a page, since names move no bytes at all.
const OP_WORK: u64 = 4_096;

/// Passes that end by time last so long in a probe.
const TIMED_MS_MAX: u64 = 300;

/// A file set of an op mix is not made smaller than this.
const MIX_SET_BYTES_MIN: u64 = 1 << 20;

/// One trial of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTrial {
    /// The amount of its work, from [`work_of`].
    pub work: u64,
    /// Duration of all of it, without the passes that end by time, in nanoseconds.
    pub took_ns: u64,
    /// Duration of the passes that end with their work, in nanoseconds.
    pub passes_ns: u64,
    /// Ops and bytes per second of the passes that end by time; 0 without one.
    pub timed: TimedRates,
}

/// The rates of passes that end by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedRates {
    /// The ops per second, all workers together.
    pub ops_per_s: u64,
    /// The bytes per second, all workers together.
    pub bytes_per_s: u64,
}

/// The cost of trials of a run, as a probe found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The part that does not depend on the work, in nanoseconds.
    pub base_ns: u64,
    /// An amount of work, and how long it takes, in nanoseconds.
    work: u64,
    work_ns: u64,
    timed: TimedRates,
}

impl Pace {
    /// Computes it from trials of growing work; `None` without any.
    pub fn of(trials: &[ProbeTrial]) -> Option<Self> {
        let (first, last) = (trials.first()?, trials.last()?);
        let (work, work_ns) = match last.work.saturating_sub(first.work) {
            // One amount of work alone tells no two parts apart: what the passes took grows.
            0 => (last.work.max(1), last.passes_ns.min(last.took_ns)),
            // More work that took less time is noise: then the work costs nothing that counts.
            more => (more, last.took_ns.saturating_sub(first.took_ns)),
        };
        let base_ns = last.took_ns.saturating_sub(scale(last.work, work_ns, work));
        Some(Self { base_ns, work, work_ns, timed: last.timed })
    }

    /// Returns how long a trial of a run takes, in milliseconds.
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

/// Estimates what a plan will cost by the pace of its runs; at assumed rates where a run has none.
pub fn estimate_by(plan: &Plan, paces: &[Option<Pace>], rates: &Rates) -> Estimate {
    let mut runs = Vec::with_capacity(plan.runs.len());
    for (number, run) in plan.runs.iter().enumerate() {
        let assumed = rates.within(run);
        let Some(pace) = paces.get(number).copied().flatten() else {
            runs.push(estimate_run(run, &assumed));
            continue;
        };
        // What a pass moves until its time is over depends on the rate that was measured.
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

/// Returns the amount of work of a run that no time ends, its preparation included, in units that
/// are the same for all runs alike: bytes, and as many as of a page for each op.
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

/// Says whether a smaller trial of a run tells what a whole one takes: a command of the user's
/// takes as long as it takes, and nothing is waited for where there is no target.
pub fn can_be_reduced(run: &RunSpec) -> bool {
    run.impossible().is_none() && run.workload != Workload::App && run.target != model::Target::Null
}

/// Makes a run smaller, so that its work is about `work_max`; what is smaller already is kept.
/// Passes that end by time are short, and nothing is warmed up.
pub fn reduced(run: &RunSpec, work_max: u64) -> RunSpec {
    let all = work_of(run).max(1);
    let part = work_max.min(all);
    let mut small = run.clone();
    small.duration_ms = run.duration_ms.min(TIMED_MS_MAX);
    small.load.time_max_ms = run.load.time_max_ms.min(TIMED_MS_MAX);
    (small.load.warmup_ms, small.load.ramp_ms) = (0, 0);
    // Each worker and each client keeps at least one file.
    let files_min = run.all_workers().max(run.clients).max(1).min(run.files);
    let wanted = scale(run.files.into(), part, all);
    small.files =
        u32::try_from(wanted).unwrap_or(run.files).clamp(files_min, run.files.max(files_min));
    if !matches!(run.workload, Workload::Metadata | Workload::Transactions | Workload::OpMix) {
        // What fewer files don't save, smaller files do.
        let set_bytes = scale(run.set_bytes(), part, all);
        let block = u64::from(run.io_size_bytes).max(run.layout.block_size_bytes).max(1);
        let least = block * u64::from(run.all_workers().max(1));
        let wanted = set_bytes / u64::from(small.files.max(1));
        let whole = wanted.max(least).div_ceil(least) * least;
        small.file_size_bytes = whole.min(run.file_size_bytes);
    }
    let workers = u64::from(run.all_workers().max(1));
    let fewer = |count: u64| scale(count, part, all).max(workers).min(count);
    small.transactions.count = fewer(run.transactions.count);
    small.load.ops_max = fewer(run.load.ops_max);
    small.load.bytes_max =
        scale(run.load.bytes_max, part, all).max(workers << 20).min(run.load.bytes_max);
    let mix_bytes = run.op_mix.set_bytes_per_rate;
    small.op_mix.set_bytes_per_rate =
        scale(mix_bytes, part, all).max(MIX_SET_BYTES_MIN).min(mix_bytes);
    small
}

/// Returns `amount * by / of` without an overflow on the way.
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
        (run.io_size_bytes, run.file_size_bytes, run.files, run.workers) = (1 << 20, 1 << 30, 1, 1);
        run
    }

    /// A trial of a target that takes 200 ms around the passes and 1 ns for each unit of work.
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
        let pace = Pace::of(&trials).unwrap();
        assert_eq!(
            (pace.base_ns, pace.trial_ms(&whole)),
            (200_000_000, trial(&whole).took_ns / 1_000_000)
        );
        // One trial alone tells it by the time of its passes.
        let pace = Pace::of(&trials[..1]).unwrap();
        assert_eq!(
            (pace.base_ns, pace.trial_ms(&whole)),
            (200_000_000, trial(&whole).took_ns / 1_000_000)
        );
        assert_eq!(Pace::of(&[]), None);
    }

    #[test]
    fn estimates_no_negative_cost() {
        let slow =
            ProbeTrial { work: 1, took_ns: 9_000_000, passes_ns: 0, timed: TimedRates::default() };
        let fast = ProbeTrial { work: 5, took_ns: 8_000_000, ..slow };
        assert_eq!(Pace::of(&[slow, fast]).unwrap().trial_ms(&stream()), 8);
    }

    #[test]
    fn keeps_duration_of_timed_passes() {
        let mut mixed = RunBuilder::new(Workload::Mixed).on_directory(Path::new("/srv")).build();
        (mixed.duration_ms, mixed.load.warmup_ms) = (7_000, 2_000);
        let small = reduced(&mixed, 1);
        assert_eq!((small.duration_ms, small.load.warmup_ms), (TIMED_MS_MAX, 0));
        let quick = ProbeTrial {
            work: work_of(&small),
            took_ns: 0,
            passes_ns: 0,
            timed: TimedRates { ops_per_s: 9, bytes_per_s: 9 },
        };
        assert_eq!(Pace::of(&[quick]).unwrap().trial_ms(&mixed), 9_000);
    }

    #[test]
    fn keeps_minimum_work_per_worker() {
        let mut names = RunBuilder::new(Workload::Metadata).on_directory(Path::new("/srv")).build();
        (names.files, names.workers) = (100_000, 4);
        let small = reduced(&names, 1);
        assert_eq!((small.files, small.file_size_bytes), (4, names.file_size_bytes));
        assert_eq!(reduced(&names, u64::MAX).files, 100_000);
        let mut shared = stream();
        shared.workers = 3;
        assert!(reduced(&shared, 1).file_size_bytes >= 3 << 20);
        assert_eq!(reduced(&shared, u64::MAX).file_size_bytes, shared.file_size_bytes);
    }
}
