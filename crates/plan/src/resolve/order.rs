//! The order in which trials are made.
//!
//! Unless another order is requested, trials of one run never stand together: trial `t` of all
//! runs is one block, in an order of its own, so that a slow drift of the machine falls on all
//! runs alike (a randomised complete block design). The order of block `t` depends on the seed,
//! `t` and the number of runs only; more trials leave earlier blocks as they are. It is part of
//! the results' meaning and never changes.
//!
//! Where hosts are set up, that would make and unmake file systems, servers and mounts for every
//! trial. Such a plan's default is to group: runs whose hosts are set up alike stand together, as
//! blocks among themselves, and the groups follow each other so that those share most that stand
//! side by side. What drifts then falls on groups, not on runs.
//!
//! **Source:** Knuth, TAOCP 2, 3.4.2, algorithm P, for the shuffle.

use model::random::{SplitMix64, mix};
use model::{LabSpec, Order};

use crate::resolve::plan::Plan;

/// One trial of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Index into [`Plan::runs`].
    pub run: usize,
    /// Number of the trial, from 0.
    pub trial: u32,
}

impl Plan {
    /// Every trial of every run that the plan allows, in the requested order.
    ///
    /// Trials of one run keep their order among themselves: those that warm up come first.
    pub fn order(&self) -> Vec<Step> {
        let trials = self.trials + self.repetition.warmup_trials;
        let all: Vec<usize> = (0..self.runs.len()).collect();
        let mut steps = Vec::with_capacity(all.len() * trials as usize);
        match self.order {
            Order::Blocks => self.add_blocks(&all, trials, &mut steps),
            Order::Grouped => {
                for group in self.groups() {
                    self.add_blocks(&group, trials, &mut steps);
                }
            }
            Order::Random => {
                self.add_blocks(&all, trials, &mut steps);
                shuffle_all(self.seed, &mut steps, all.len());
            }
            Order::Sequential => {
                for run in all {
                    steps.extend((0..trials).map(|trial| Step { run, trial }));
                }
            }
        }
        steps
    }

    /// The same trials in the same order, and those that may be made in place of disturbed ones:
    /// last of all, or of their group or run where those stand apart.
    pub fn order_with_repeats(&self) -> Vec<Step> {
        let planned = self.trials + self.repetition.warmup_trials;
        let repeats = planned..planned + self.repeats_max();
        let parts = match self.order {
            Order::Blocks | Order::Random => vec![(0..self.runs.len()).collect()],
            Order::Grouped => self.groups(),
            Order::Sequential => (0..self.runs.len()).map(|run| vec![run]).collect(),
        };
        let mut order = self.order().into_iter().peekable();
        let mut steps = Vec::new();
        for part in parts {
            while let Some(step) = order.next_if(|step| part.contains(&step.run)) {
                steps.push(step);
            }
            for trial in repeats.clone() {
                self.add_block(&part, trial, &mut steps);
            }
        }
        steps
    }

    /// The runs by how hosts are set up for them, as indices into [`Plan::runs`], groups that
    /// share most side by side.
    ///
    /// Within a group nothing has to be set up again. Runs that leave hosts alone are one, too.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups = vec![(0..self.runs.len()).collect::<Vec<_>>()];
        // Splitting by the outermost layer first leaves those side by side that share most:
        // groups that differ in the last layer only come from one group of the layer before.
        for layers in 0..=LabSpec::LAYERS {
            let mut split = Vec::new();
            for group in &groups {
                split.append(&mut self.split_group(group, layers));
            }
            groups = split;
        }
        groups
    }

    /// Splits runs by whether their hosts agree up to so many layers, in the order of the runs.
    fn split_group(&self, group: &[usize], layers: usize) -> Vec<Vec<usize>> {
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for &run in group {
            match parts.iter_mut().find(|part| self.agree(part[0], run, layers)) {
                Some(part) => part.push(run),
                None => parts.push(vec![run]),
            }
        }
        parts
    }

    /// Says whether the hosts of two runs agree up to so many layers.
    fn agree(&self, one: usize, other: usize, layers: usize) -> bool {
        match (&self.runs[one].lab, &self.runs[other].lab) {
            (Some(one), Some(other)) => one.agrees(other, layers),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Adds the blocks of some runs.
    fn add_blocks(&self, group: &[usize], trials: u32, steps: &mut Vec<Step>) {
        for trial in 0..trials {
            self.add_block(group, trial, steps);
        }
    }

    /// Adds one trial of each of some runs.
    fn add_block(&self, group: &[usize], trial: u32, steps: &mut Vec<Step>) {
        for step in block(self.seed, trial, group.len()) {
            // A block numbers the runs of its group from 0.
            steps.push(Step { run: group[step.run], ..step });
        }
    }
}

/// Shuffles all steps, and numbers the trials of each run again in their new order.
fn shuffle_all(seed: u64, steps: &mut [Step], runs: usize) {
    shuffle(&mut SplitMix64::new(mix(seed)), steps);
    let mut made = vec![0; runs];
    for step in steps {
        step.trial = made[step.run];
        made[step.run] += 1;
    }
}

/// Shuffles the runs of one trial index.
fn block(seed: u64, trial: u32, runs: usize) -> Vec<Step> {
    let mut random = SplitMix64::new(seed ^ mix(u64::from(trial) + 1));
    let mut steps: Vec<Step> = (0..runs).map(|run| Step { run, trial }).collect();
    shuffle(&mut random, &mut steps);
    steps
}

/// Shuffles steps, each order equally likely.
fn shuffle(random: &mut SplitMix64, steps: &mut [Step]) {
    // From the end, each place gets one of the steps that have none yet, itself included.
    for last in (1..steps.len()).rev() {
        let chosen = draw_below(random, last as u64 + 1) as usize;
        steps.swap(last, chosen);
    }
}

/// Draws from `0..bound` without bias: draws that would favour small numbers are repeated.
fn draw_below(random: &mut SplitMix64, bound: u64) -> u64 {
    // The largest multiple of `bound`: what lies beyond it would hit small remainders more often.
    let fair_end = u64::MAX - u64::MAX % bound;
    loop {
        let drawn = random.next();
        if drawn < fair_end {
            return drawn % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use model::InterferenceRule;

    use super::*;
    use crate::{RawPlan, Surroundings};

    #[test]
    fn keeps_order_of_seed() {
        let runs = |trial| block(42, trial, 9).iter().map(|step| step.run).collect::<Vec<_>>();
        // Computed by an independent implementation of the same description.
        assert_eq!(runs(0), [1, 7, 0, 6, 3, 2, 4, 8, 5]);
        assert_eq!(runs(1), [3, 7, 5, 6, 1, 4, 2, 8, 0]);
    }

    /// A plan of four runs with three trials and a warm-up trial each.
    fn plan_in(order: &str) -> Plan {
        let text = format!(
            "name = \"t\"\nseed = 4\ntrials = 3\nwarmup_trials = 1\norder = \"{order}\"\n\
             [[target]]\nname = \"n\"\nnull = true\n[[workload]]\nkind = \"mixed\"\n\
             queue_depth = [1, 2, 4, 8]\n"
        );
        let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 0, job: None };
        Plan::resolve(&RawPlan::parse(&text, "t").unwrap(), &around).unwrap()
    }

    #[test]
    fn other_orders_make_the_same_trials() {
        let order = |name: &str| {
            let steps = plan_in(name).order();
            steps.iter().map(|step| (step.run, step.trial)).collect::<Vec<_>>()
        };
        let all: Vec<(usize, u32)> =
            (0..4).flat_map(|run| (0..4).map(move |trial| (run, trial))).collect();
        assert_eq!(order("sequential"), all);
        for name in ["blocks", "random"] {
            let mut steps = order(name);
            for run in 0..4 {
                assert!(steps.iter().filter(|step| step.0 == run).is_sorted(), "{name} {steps:?}");
            }
            assert_eq!(steps.is_sorted_by_key(|step| step.1), name == "blocks", "{steps:?}");
            steps.sort_unstable();
            assert_eq!(steps, all);
        }
    }

    #[test]
    fn repeats_follow_the_planned_trials() {
        for order in ["blocks", "random", "sequential", "grouped"] {
            let mut plan = plan_in(order);
            let (planned, mut all) = (plan.order(), plan.order_with_repeats());
            assert_eq!((plan.repeats_max(), all.len()), (2, planned.len() + 8), "{order}");
            for run in 0..4 {
                assert!(all.iter().filter(|step| step.run == run).is_sorted_by_key(|it| it.trial));
            }
            all.retain(|step| step.trial < 4);
            assert_eq!(all, planned, "{order}");
            plan.repetition.interference = InterferenceRule::Keep;
            assert_eq!(plan.order_with_repeats(), planned, "{order}");
        }
    }

    /// How far the mean position of a run lies from that of all runs, at worst.
    fn unevenness(steps: &[Step], runs: usize) -> f64 {
        let middle = (steps.len() - 1) as f64 / 2.0;
        let mean = |run| {
            let places = steps.iter().enumerate().filter(|(_, step)| step.run == run);
            let (sum, count) = places.fold((0, 0), |(sum, count), (at, _)| (sum + at, count + 1));
            sum as f64 / f64::from(count)
        };
        (0..runs).map(|run| (mean(run) - middle).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn balances_positions_in_blocks() {
        // Six runs, twenty trials each, 300 seeds. A place within a block has a deviation of
        // sqrt((6^2 - 1) / 12) = 1.71, its mean over twenty blocks 0.38; five of those are 1.9.
        // A drift over 120 places then shifts no run by more than 1.6 % of itself against the mean;
        // in sequence it shifts the first and the last by 42 %.
        let text = "name = \"t\"\nseed = SEED\ntrials = 20\norder = \"ORDER\"\n[[target]]\n\
                    name = \"n\"\nnull = true\n[[workload]]\nkind = \"mixed\"\n\
                    queue_depth = [1, 2, 3, 4, 5, 6]\n";
        let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 0, job: None };
        let worst = |order: &str| {
            let of = |seed: u32| {
                let text = text.replace("ORDER", order).replace("SEED", &seed.to_string());
                let plan = Plan::resolve(&RawPlan::parse(&text, "t").unwrap(), &around).unwrap();
                unevenness(&plan.order(), 6)
            };
            (0..300).map(of).fold(0.0, f64::max)
        };
        let (blocks, random, sequential) = (worst("blocks"), worst("random"), worst("sequential"));
        assert!(blocks < 1.9, "{blocks}");
        assert!(blocks < random && random < sequential, "{blocks} {random} {sequential}");
        assert!((sequential - 50.0).abs() < 1e-9, "{sequential}");
    }

    #[test]
    fn every_place_is_equally_likely() {
        // 9000 shuffles of 9 runs: each run comes first 1000 times, give or take 6 sigma (180).
        let mut first = [0_i32; 9];
        for seed in 0..9_000 {
            first[block(seed, 0, 9)[0].run] += 1;
        }
        assert!(first.iter().all(|count| (count - 1_000).abs() < 180), "{first:?}");
    }
}
