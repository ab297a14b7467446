//! Estimates how much data a plan will move and how long it will take.
//!
//! Bytes and ops of sequential and metadata passes are exact. Times are based on assumed [`Rates`],
//! by default those of a laptop's disk and of NFS over a fast network; they can tell a minute from
//! an hour, not more. No pass is assumed to be faster than its run allows, with a limited load or a
//! limited link between hosts.

use std::collections::HashMap;

use model::units::{Nanos, Size, Wait, parse_size, parse_time_ns};
use model::{
    Fresh, Invalidation, Io500Files, Io500Part, Pass, RunSpec, Target, Transactions, Workload,
};
use workload::opmix::OpMixSet;
use workload::{DeveloperSet, FileSet, MovedBytes, TrainingSteps, Trees, mean_bytes, pass_size};

use crate::resolve::plan::Plan;

/// Assumed speed of sequential reads and writes, in bytes per second.
pub(crate) const BYTES_PER_S: u64 = 200_000_000;

/// Assumed random ops per second, all workers together.
pub(crate) const RANDOM_OPS_PER_S: u64 = 10_000;

/// Assumed creates, stats or removes per second, all workers together.
pub(crate) const METADATA_OPS_PER_S: u64 = 5_000;

/// Number of names that a call typically returns.
const ENTRIES_PER_CALL: u64 = 100;

pub(super) const NS_PER_MS: u64 = 1_000_000;

/// Assumed time per trial for connecting, dropping caches and cleaning up.
pub(crate) const TRIAL_OVERHEAD_MS: u64 = 100;

/// Assumed time to set up or restore one thing on a host, in milliseconds.
pub(crate) const STEP_MS: u64 = 100;

/// Assumed time to make file systems, exports and mounts again, in milliseconds.
pub(crate) const FRESH_MS: u64 = 2_000;

/// Assumed time to only mount them again, in milliseconds.
pub(crate) const REMOUNT_MS: u64 = 500;

/// The rates that an estimate assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Large reads and writes, in bytes per second.
    pub bytes_per_s: u64,
    /// Random ops per second, all workers together.
    pub random_ops_per_s: u64,
    /// Creates, stats or removes per second, all workers together.
    pub metadata_ops_per_s: u64,
    /// Time per trial outside its passes, in milliseconds.
    pub trial_ms: u64,
    /// Time to set up or restore one thing on a host, such as a mount, in milliseconds.
    pub step_ms: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            bytes_per_s: BYTES_PER_S,
            random_ops_per_s: RANDOM_OPS_PER_S,
            metadata_ops_per_s: METADATA_OPS_PER_S,
            trial_ms: TRIAL_OVERHEAD_MS,
            step_ms: STEP_MS,
        }
    }
}

impl Rates {
    /// Parses rates such as `bytes=500MiB,random=20000,metadata=8000,trial=2s,step=1s`; omitted
    /// ones keep their default.
    ///
    /// # Errors
    /// If a word is unknown, or a rate is 0 or not a number. The error is a complete sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rates = Self::default();
        for part in text.split(',') {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!(
                    "must be name=rate, not `{part}` (hint: bytes=500MiB,random=20000,\
                     metadata=8000,trial=2s,step=1s)"
                ));
            };
            let read = match name.trim() {
                name @ ("trial" | "step") => {
                    let time_ms = parse_time_ns(value).map_err(|e| e.to_string())? / NS_PER_MS;
                    let is_trial = name == "trial";
                    *(if is_trial { &mut rates.trial_ms } else { &mut rates.step_ms }) = time_ms;
                    continue;
                }
                "bytes" => &mut rates.bytes_per_s,
                "random" => &mut rates.random_ops_per_s,
                "metadata" => &mut rates.metadata_ops_per_s,
                other => {
                    return Err(format!(
                        "there is no rate `{other}` (hint: bytes, random, metadata, trial or \
                         step)"
                    ));
                }
            };
            *read = parse_size(value).map_err(|error| error.to_string())?;
            if *read == 0 {
                return Err(format!("{} must be more than 0", name.trim()));
            }
        }
        Ok(rates)
    }

    /// Returns these rates, limited by the load of a run and the link between its hosts.
    pub(super) fn within(&self, run: &RunSpec) -> Self {
        let mut rates = *self;
        if run.load.bytes_per_s > 0 {
            rates.bytes_per_s = rates.bytes_per_s.min(run.load.bytes_per_s);
        }
        if let Some(lab) = &run.lab
            && let Some(bits_per_s) = lab.tuning.rate_bits_per_s
        {
            rates.bytes_per_s = rates.bytes_per_s.min((bits_per_s / 8).max(1));
        }
        rates
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}/s, {} random and {} metadata op/s, {} around each trial",
            Size(self.bytes_per_s),
            self.random_ops_per_s,
            self.metadata_ops_per_s,
            Nanos(self.trial_ms.saturating_mul(NS_PER_MS)),
        )
    }
}

/// The cost of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// One estimate for each of the plan's runs.
    pub runs: Vec<RunEstimate>,
    /// The space that each target needs, in the order of their first use.
    pub targets: Vec<TargetEstimate>,
    /// Number of trials of all runs.
    pub trials: u64,
    /// Bytes written by all trials.
    pub bytes_written: u64,
    /// Bytes read by all trials.
    pub bytes_read: u64,
    /// Duration of all trials, in milliseconds.
    pub duration_ms: u64,
}

/// The cost of one trial of a run, including its preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEstimate {
    pub bytes_written: u64,
    pub bytes_read: u64,
    /// Number of measured ops, not counting syncs.
    pub ops: u64,
    pub duration_ms: u64,
}

/// The space that a target needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetEstimate {
    pub name: String,
    /// Size of the largest set of files that exists at one time, in bytes.
    pub peak_bytes: u64,
}

impl Estimate {
    /// The duration of all trials, for printing.
    pub fn duration(&self) -> Wait {
        Wait(self.duration_ms.saturating_mul(1_000_000))
    }
}

/// Estimates the cost of a plan at the default rates.
pub fn estimate(plan: &Plan) -> Estimate {
    estimate_at(plan, &Rates::default())
}

/// Estimates the cost of a plan at the given rates.
pub fn estimate_at(plan: &Plan, rates: &Rates) -> Estimate {
    let mut runs = Vec::with_capacity(plan.runs.len());
    for run in &plan.runs {
        runs.push(estimate_run(run, &rates.within(run)));
    }
    sum_up(plan, runs)
}

/// Adds up the estimates of a plan's runs.
pub(super) fn sum_up(plan: &Plan, runs: Vec<RunEstimate>) -> Estimate {
    let made_each = u64::from(plan.trials + plan.repetition.warmup_trials);
    let mut targets: Vec<TargetEstimate> = Vec::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (run, estimate) in plan.runs.iter().zip(&runs) {
        let keeps_files = !run.target.keeps_nothing() && run.impossible().is_none();
        let bytes = match run.workload {
            _ if !keeps_files => 0,
            // The stonewall limits it, too.
            Workload::Io500 => estimate.bytes_written,
            _ => set_bytes(run),
        };
        let index = *by_name.entry(&run.target_name).or_insert_with(|| {
            targets.push(TargetEstimate { name: run.target_name.clone(), peak_bytes: 0 });
            targets.len() - 1
        });
        let peak = &mut targets[index].peak_bytes;
        let bytes = bytes_together(plan, run).unwrap_or(bytes);
        // Each trial removes its files before the next one begins, so a target only needs room for
        // the largest set, unless removed files keep their space.
        *peak = if keeps_removed(run) {
            peak.saturating_add(bytes.saturating_mul(made_each))
        } else {
            bytes.max(*peak)
        };
    }
    let possible = plan.runs.iter().filter(|run| run.impossible().is_none()).count() as u64;
    let mut once = RunEstimate::NOTHING;
    let mut longest_ms: HashMap<u32, u64> = HashMap::new();
    for (run, estimate) in plan.runs.iter().zip(&runs) {
        once.add(estimate);
        // Loads that run at the same time take as long as the longest of them.
        if let Some(load) = &run.named_load
            && load.group > 0
        {
            let longest = longest_ms.entry(load.group).or_default();
            once.duration_ms -= estimate.duration_ms.min(*longest);
            *longest = estimate.duration_ms.max(*longest);
        }
    }
    Estimate {
        trials: possible * made_each,
        bytes_written: once.bytes_written.saturating_mul(made_each),
        bytes_read: once.bytes_read.saturating_mul(made_each),
        duration_ms: bounded_duration_ms(plan, once.duration_ms, made_each),
        runs,
        targets,
    }
}

/// Returns the size of the files of all loads that run at the same time as this one.
fn bytes_together(plan: &Plan, run: &RunSpec) -> Option<u64> {
    let group = |run: &RunSpec| run.named_load.as_ref().map_or(0, |load| load.group);
    let own = group(run);
    let together = plan.runs.iter().filter(|other| group(other) == own);
    let keeps_files = !run.target.keeps_nothing();
    (own > 0 && keeps_files).then(|| together.map(set_bytes).sum())
}

/// Returns the maximum total size of a run's files, in bytes.
fn set_bytes(run: &RunSpec) -> u64 {
    match run.workload {
        Workload::OpMix => {
            let set = OpMixSet::new(run);
            set.totals().1.saturating_add(set.appended_bytes(run))
        }
        Workload::Transactions => {
            let Transactions { count, create_percent, .. } = run.transactions;
            // The number of files grows if more are created than removed.
            let more = u64::from(create_percent).saturating_mul(2).saturating_sub(100);
            let files = u64::from(run.files).saturating_add(count.saturating_mul(more) / 100);
            files.saturating_mul(run.largest_file_bytes())
        }
        Workload::Developer => {
            DeveloperSet::new(run).totals(Trees::needed_by(Pass::RemoveTree), |_| true).1
        }
        _ if run.file_sizes.is_some() => FileSet::new(run).totals().1,
        _ => run.set_bytes(),
    }
}

/// Returns true if removed files keep their space during later trials.
fn keeps_removed(run: &RunSpec) -> bool {
    let Some(lab) = &run.lab else { return false };
    lab.fresh < Fresh::Trial
        && lab.system.as_ref().is_some_and(|system| system.recipe.keeps_removed)
}

/// Returns the duration of all trials; a budget ends the campaign once each run has its minimum.
fn bounded_duration_ms(plan: &Plan, each_ms: u64, made_each: u64) -> u64 {
    let all_ms = each_ms.saturating_mul(made_each);
    if plan.budget_ms == 0 {
        return all_ms;
    }
    let needed_ms = each_ms.saturating_mul(plan.trials_needed().into());
    all_ms.min(plan.budget_ms.max(needed_ms))
}

pub(super) fn estimate_run(run: &RunSpec, rates: &Rates) -> RunEstimate {
    if run.impossible().is_some() {
        return RunEstimate::NOTHING;
    }
    let passes = run.passes();
    let mut estimate = estimate_files(run, passes[0], rates);
    for pass in passes {
        estimate.add(&estimate_pass(run, *pass, rates));
    }
    if run.target == Target::Null {
        // The null target moves no data, so only passes with a time limit take time.
        let duration_ns: u64 = passes.iter().map(|pass| run.time_max_ns(*pass).unwrap_or(0)).sum();
        let duration_ms = duration_ns / NS_PER_MS;
        estimate = RunEstimate { bytes_written: 0, bytes_read: 0, duration_ms, ..estimate };
    }
    // Files that are left at the end of a trial must be removed.
    let mut removed_ms = 0;
    let removes = passes.contains(&Pass::Remove) || run.workload == Workload::Io500;
    if !run.target.keeps_nothing() && !removes {
        removed_ms = per_second_ms(run.files.into(), rates.metadata_ops_per_s);
    }
    let before_ms = run.warmup_ns() / NS_PER_MS + run.checkpoint.pause_ms;
    let before_ms = before_ms.saturating_mul(passes.len() as u64);
    let overhead = rates.trial_ms.saturating_add(removed_ms).saturating_add(before_ms);
    let overhead = overhead.saturating_add(making_again_ms(run));
    RunEstimate { duration_ms: estimate.duration_ms.saturating_add(overhead), ..estimate }
}

/// Time per trial in which hosts make file systems or mounts again.
fn making_again_ms(run: &RunSpec) -> u64 {
    let Some(lab) = &run.lab else { return 0 };
    let mut all_ms = if lab.fresh >= Fresh::Trial { FRESH_MS } else { 0 };
    for (index, pass) in run.passes().iter().enumerate() {
        let is_invalidated = pass.reads() && lab.invalidation >= Invalidation::Remount;
        if is_invalidated || (lab.fresh == Fresh::Pass && index > 0) {
            all_ms += REMOUNT_MS;
        }
    }
    all_ms
}

impl RunEstimate {
    const NOTHING: Self = Self { bytes_written: 0, bytes_read: 0, ops: 0, duration_ms: 0 };

    const fn add(&mut self, other: &Self) {
        self.bytes_written = self.bytes_written.saturating_add(other.bytes_written);
        self.bytes_read = self.bytes_read.saturating_add(other.bytes_read);
        self.ops = self.ops.saturating_add(other.ops);
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
    }
}

/// Estimates the files that must exist before the first pass.
pub(super) fn estimate_files(run: &RunSpec, first: Pass, rates: &Rates) -> RunEstimate {
    let bytes_written = match run.workload {
        Workload::OpMix => OpMixSet::new(run).totals().1,
        // What each of its passes needs follows from the one before it.
        Workload::Developer => DeveloperSet::new(run).totals(Trees::needed_by(first), |_| true).1,
        _ if first.reads() && !run.workload.is_external() => set_bytes(run),
        _ => 0,
    };
    let mut duration_ms = per_second_ms(bytes_written, rates.bytes_per_s);
    if run.workload == Workload::Developer {
        let (files, _) = DeveloperSet::new(run).totals(Trees::needed_by(first), |_| true);
        duration_ms = duration_ms.saturating_add(per_second_ms(files, rates.metadata_ops_per_s));
    }
    if run.workload == Workload::Listing {
        duration_ms = per_second_ms(run.files.into(), rates.metadata_ops_per_s);
    }
    if run.workload == Workload::OpMix {
        // Files, directories and links that the mix uses up are created in advance even for a small
        // set.
        let set = OpMixSet::new(run);
        let names = u64::from(set.files()) + u64::from(set.directories()) + u64::from(set.links());
        duration_ms = duration_ms.saturating_add(per_second_ms(names, rates.metadata_ops_per_s));
    }
    RunEstimate { bytes_written, duration_ms, ..RunEstimate::NOTHING }
}

pub(super) fn estimate_pass(run: &RunSpec, pass: Pass, rates: &Rates) -> RunEstimate {
    if pass.base() != pass {
        return estimate_pass(&sized_phase(run, pass, rates), pass.base(), rates);
    }
    if run.workload == Workload::App {
        return RunEstimate { ops: 1, ..RunEstimate::NOTHING };
    }
    let (ops, MovedBytes { read, written }) = ops_and_bytes(run, pass, rates);
    let duration_ms = match run.time_max_ns(pass) {
        Some(time_ns) => time_ns / NS_PER_MS,
        None if run.load.rate_per_s > 0 => per_second_ms(ops, run.load.rate_per_s),
        None if pass == Pass::Train => {
            let steps = TrainingSteps::new(&run.for_agents()).all;
            let computed_ms = steps.saturating_mul(run.training.compute_ns) / NS_PER_MS;
            computed_ms.max(per_second_ms(read, rates.bytes_per_s))
        }
        None if pass.is_byte_rate() => {
            per_second_ms(written.saturating_add(read), rates.bytes_per_s)
        }
        // A call returns the names of many files. Attributes may take a call for each.
        None if pass.lists() && pass != Pass::ListStat => {
            per_second_ms(ops.div_ceil(ENTRIES_PER_CALL), rates.metadata_ops_per_s)
        }
        None if matches!(pass, Pass::Seeks | Pass::Boot) => {
            per_second_ms(ops, rates.random_ops_per_s)
        }
        None => {
            per_second_ms(ops, rates.metadata_ops_per_s)
                + per_second_ms(written.saturating_add(read), rates.bytes_per_s)
        }
    };
    RunEstimate { bytes_written: written, bytes_read: read, ops, duration_ms }
}

/// Returns the run of a phase of io500, with as many files and bytes as are written until the
/// stonewall at the assumed rates.
fn sized_phase(run: &RunSpec, phase: Pass, rates: &Rates) -> RunSpec {
    let whole = run.for_agents();
    let time_ms = u128::from(run.load.time_max_ms);
    let sized = |part: Io500Part| {
        let mut run = whole.io500_part(part);
        run.load.time_max_ms = 0;
        let per_s = match part {
            Io500Part::IorEasy | Io500Part::IorHard => {
                rates.bytes_per_s / u64::from(run.io_size_bytes.max(1))
            }
            Io500Part::MdtestEasy | Io500Part::MdtestHard => rates.metadata_ops_per_s,
        };
        if time_ms > 0 {
            let each = u128::from(per_s) * time_ms / 1_000 / u128::from(run.workers.max(1));
            run.set_io500_level(part, u64::try_from(each).unwrap_or(u64::MAX));
        }
        run
    };
    let Some(part) = Io500Part::of_pass(phase) else {
        let count = |part| sized(part).files;
        return whole.io500_search(Io500Files {
            easy: count(Io500Part::MdtestEasy),
            hard: count(Io500Part::MdtestHard),
        });
    };
    let mut run = sized(part);
    if phase == Pass::IorRnd4kEasyRead {
        run.load.time_max_ms = whole.load.time_max_ms;
        run = run.in_io500_phase(phase);
        let all = run.set_bytes() / u64::from(run.io_size_bytes.max(1));
        if u128::from(per_second_ms(all, rates.random_ops_per_s)) < time_ms {
            run.load.time_max_ms = 0;
        }
    }
    run
}

/// Returns the ops and bytes of a pass; with a time limit, as many as the assumed rates allow.
fn ops_and_bytes(run: &RunSpec, pass: Pass, rates: &Rates) -> (u64, MovedBytes) {
    let size = pass_size(run, pass);
    let io_size = u64::from(run.io_size_bytes.max(1));
    // Small ops are limited by their number, large ones by their bytes.
    let rate = match run.load.rate_per_s {
        0 => {
            let thousand =
                mean_bytes(run, pass, 1_000).map_or(1_000 * io_size, |moved| moved.all());
            let by_bytes = u128::from(rates.bytes_per_s) * 1_000 / u128::from(thousand.max(1));
            u64::try_from(by_bytes).unwrap_or(u64::MAX).clamp(1, rates.random_ops_per_s.max(1))
        }
        rate => rate,
    };
    let time_ms = run.time_max_ns(pass).unwrap_or(0) / NS_PER_MS;
    let by_time = (u128::from(time_ms) * u128::from(rate) / 1_000) as u64;
    let ops = size.ops.unwrap_or(by_time);
    if let Some(moved) = mean_bytes(run, pass, ops) {
        return (ops, moved);
    }
    // A pass without data has no bytes, however long it takes.
    let has_data = pass.kinds().iter().any(|kind| kind.moves_data());
    let bytes = match size.bytes {
        Some(bytes) => bytes,
        None if has_data => ops.saturating_mul(io_size),
        None => 0,
    };
    let moved = match pass {
        Pass::Update => MovedBytes { read: bytes, written: bytes },
        _ if pass.reads() => MovedBytes { read: bytes, written: 0 },
        _ => MovedBytes { read: 0, written: bytes },
    };
    (ops, moved)
}

fn per_second_ms(amount: u64, rate: u64) -> u64 {
    (u128::from(amount) * 1_000 / u128::from(rate)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::OpKind;
    use model::testing::RunBuilder;
    use std::path::Path;

    #[test]
    fn adds_time_for_names_in_mix() {
        let mut run = RunBuilder::new(Workload::OpMix).on_directory(Path::new("/srv")).build();
        run.op_mix.set_bytes_per_rate = 4_096;
        run.load.rate_per_s = 100;
        let rates = Rates { metadata_ops_per_s: 100, ..Rates::default() };
        let cost = estimate_files(&run, Pass::OpMix, &rates);
        let set = OpMixSet::new(&run);
        let names = u64::from(set.files()) + u64::from(set.directories()) + u64::from(set.links());
        assert_eq!(cost.bytes_written, set.totals().1);
        assert!(names > 10 && cost.duration_ms >= names * 10, "{names} {}", cost.duration_ms);
        let stream = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv")).build();
        assert_eq!(estimate_files(&stream, Pass::Write, &rates).duration_ms, 0);
    }

    #[test]
    fn the_mix_decides_what_is_moved() {
        let mut run = RunBuilder::new(Workload::OpMix).on_directory(Path::new("/srv")).build();
        run.load.rate_per_s = 500;
        run.duration_ms = 30_000;
        run.io_size_bytes = 1 << 20;
        let mut moved = |shares| {
            run.op_mix.shares = shares;
            estimate_pass(&run, Pass::OpMix, &Rates::default())
        };
        let names = moved(vec![(OpKind::Getattr, 10_000)]);
        assert_eq!((names.ops, names.bytes_read, names.bytes_written), (15_000, 0, 0));
        // A tenth of a percent of 15,000 calls, of some 13 KiB each.
        let few = moved(vec![(OpKind::Getattr, 9_990), (OpKind::Read, 10)]);
        assert!((100_000..300_000).contains(&few.bytes_read) && few.bytes_written == 0, "{few:?}");
        let both = moved(vec![(OpKind::Write, 5_000), (OpKind::Read, 5_000)]);
        let mib = |bytes: u64| bytes >> 20;
        assert!((60..130).contains(&mib(both.bytes_read)), "{both:?}");
        assert!((60..130).contains(&mib(both.bytes_written)), "{both:?}");
    }

    #[test]
    fn passes_move_what_their_ops_do() {
        let rates = Rates::default();
        let pool = RunBuilder::new(Workload::Transactions).on_directory(Path::new("/srv"));
        let mut run = pool.build();
        run.transactions = Transactions { count: 2_000, ..Transactions::default() };
        let pool = estimate_pass(&run, Pass::Transactions, &rates);
        // 1000 reads of 5250 bytes; 1000 appends of a half of 4750, and 1000 files of 5250.
        assert_eq!((pool.bytes_read, pool.bytes_written), (5_250_000, 2_375_000 + 5_250_000));
        let mut seeks = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv")).build();
        seeks.io_size_bytes = 4_096;
        seeks.load.ops_max = 1_000;
        let seeks = estimate_pass(&seeks, Pass::Seeks, &rates);
        assert_eq!((seeks.bytes_read, seeks.bytes_written), (4_096_000, 409_600));
        // A metadata pass with a time limit has no data.
        let mut names = RunBuilder::new(Workload::Metadata).on_directory(Path::new("/srv")).build();
        names.load.time_max_ms = 1_000;
        let names = estimate_pass(&names, Pass::Stat, &rates);
        assert_eq!((names.ops > 0, names.bytes_written, names.bytes_read), (true, 0, 0));
    }

    #[test]
    fn lists_many_entries_per_call() {
        let mut run = RunBuilder::new(Workload::Listing).on_directory(Path::new("/srv")).build();
        run.files = 100_000;
        let rates = Rates { metadata_ops_per_s: 1_000, ..Rates::default() };
        assert_eq!(estimate_files(&run, Pass::List, &rates).duration_ms, 100_000);
        let passes = [Pass::List, Pass::ListStat, Pass::Find];
        let estimates = passes.map(|pass| estimate_pass(&run, pass, &rates));
        assert_eq!(estimates.map(|estimate| estimate.duration_ms), [1_000, 100_000, 1_000]);
        assert!(estimates.iter().all(|estimate| estimate.ops == 100_000));
        assert!(estimates.iter().all(|estimate| estimate.bytes_read == 0));
    }

    #[test]
    fn treats_durations_as_rates() {
        let rates = Rates::parse("trial=2s,step=300ms").unwrap();
        assert_eq!((rates.trial_ms, rates.step_ms), (2_000, 300));
        assert_eq!(rates.bytes_per_s, BYTES_PER_S);
        assert!(Rates::parse("steps=1s").unwrap_err().contains("trial or step"));
    }
}
