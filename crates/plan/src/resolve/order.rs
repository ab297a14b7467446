//! The order of trials.
//!
//! By default, trials of one run are never adjacent: trial `t` of all runs forms a block with an
//! order of its own, so that a slow drift of the machine affects all runs alike (a randomized
//! complete block design). The order of block `t` depends only on the seed, `t` and the number of
//! runs, so adding trials does not change earlier blocks. The order is part of the meaning of
//! results and must never change.
//!
//! With hosts to set up, this would make and remove file systems, servers and mounts for every
//! trial, so such a plan groups its trials by default: runs with the same setup of hosts are
//! adjacent, with blocks of their own, and groups that share most of their setup are neighbors.
//! Drift then affects groups rather than runs.
//!
//! **Source:** Knuth, TAOCP 2, 3.4.2, algorithm P, for the shuffle.

use std::collections::BTreeMap;

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
    /// Returns every trial of every run, in the requested order.
    ///
    /// Trials of one run keep their relative order: warm-up trials come first. Loads that run at
    /// the same time follow each other.
    pub fn order(&self) -> Vec<Step> {
        self.join_loads(self.order_apart())
    }

    /// Moves the trials of loads that run at the same time behind that of the first one of them.
    ///
    /// The place of the first one is as random as that of a load that runs alone; the earliest of
    /// all places would not be.
    fn join_loads(&self, steps: Vec<Step>) -> Vec<Step> {
        let group_of = |run: usize| self.runs[run].named_load.as_ref().map_or(0, |it| it.group);
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for run in 0..self.runs.len() {
            groups.entry(group_of(run)).or_default().push(run);
        }
        let mut joined = Vec::with_capacity(steps.len());
        for step in steps {
            match groups[&group_of(step.run)].as_slice() {
                _ if group_of(step.run) == 0 => joined.push(step),
                [first, ..] if *first != step.run => {}
                runs => joined.extend(runs.iter().map(|&run| Step { run, ..step })),
            }
        }
        joined
    }

    /// Returns the order as if all loads ran alone.
    fn order_apart(&self) -> Vec<Step> {
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

    /// Returns the same trials in the same order, followed by those that may replace disturbed
    /// ones: at the end, or at the end of their group or run if the order keeps those apart.
    pub fn order_with_repeats(&self) -> Vec<Step> {
        let planned = self.trials + self.repetition.warmup_trials;
        let repeats = planned..planned + self.repeats_max();
        let parts = match self.order {
            Order::Blocks | Order::Random => vec![(0..self.runs.len()).collect()],
            Order::Grouped => self.groups(),
            Order::Sequential => (0..self.runs.len()).map(|run| vec![run]).collect(),
        };
        let mut order = self.order_apart().into_iter().peekable();
        let mut steps = Vec::new();
        for part in parts {
            while let Some(step) = order.next_if(|step| part.contains(&step.run)) {
                steps.push(step);
            }
            for trial in repeats.clone() {
                self.add_block(&part, trial, &mut steps);
            }
        }
        self.join_loads(steps)
    }

    /// Groups runs by the setup of their hosts, as indices into [`Plan::runs`]; groups that share
    /// most of their setup are neighbors.
    ///
    /// Nothing has to be set up again within a group. Runs without hosts to set up form one group.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups = vec![(0..self.runs.len()).collect::<Vec<_>>()];
        // Splitting by the outermost layer first makes such groups neighbors: groups that differ
        // only in the last layer come from the same group of the layer before.
        for layers in 0..=LabSpec::LAYERS {
            let mut split = Vec::new();
            for group in &groups {
                split.append(&mut self.split_group(group, layers));
            }
            groups = split;
        }
        groups
    }

    /// Splits runs by the first `layers` layers of their hosts' setup, in the order of the runs.
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

    /// Returns true if two runs agree in the first `layers` layers of their hosts' setup.
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

/// Shuffles all steps, and then renumbers the trials of each run in their new order.
fn shuffle_all(seed: u64, steps: &mut [Step], runs: usize) {
    shuffle(&mut SplitMix64::new(mix(seed)), steps);
    let mut made = vec![0; runs];
    for step in steps {
        step.trial = made[step.run];
        made[step.run] += 1;
    }
}

/// Returns one trial of each run in random order.
fn block(seed: u64, trial: u32, runs: usize) -> Vec<Step> {
    let mut random = SplitMix64::new(seed ^ mix(u64::from(trial) + 1));
    let mut steps: Vec<Step> = (0..runs).map(|run| Step { run, trial }).collect();
    shuffle(&mut random, &mut steps);
    steps
}

/// Shuffles steps so that each order is equally likely.
fn shuffle(random: &mut SplitMix64, steps: &mut [Step]) {
    // Fill the positions from the end, each with a random one of the remaining steps.
    for last in (1..steps.len()).rev() {
        let chosen = draw_below(random, last as u64 + 1) as usize;
        steps.swap(last, chosen);
    }
}

/// Draws from `0..bound` without bias, by repeating draws that would favor small numbers.
fn draw_below(random: &mut SplitMix64, bound: u64) -> u64 {
    // Numbers beyond the largest multiple of `bound` would make small remainders more likely.
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
            let planned = plan.order();
            let mut all = plan.order_with_repeats();
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

    /// Maximum distance between the mean position of a run and that of all runs.
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
        // Six runs, twenty trials each, 300 seeds. A position within a block has a standard
        // deviation of sqrt((6^2 - 1) / 12) = 1.71, its mean over twenty blocks 0.38; five of those
        // are 1.9. A drift over 120 positions then shifts no run by more than 1.6 % of the drift
        // against the mean; in sequence it shifts the first and the last by 42 %.
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
        let blocks = worst("blocks");
        let random = worst("random");
        let sequential = worst("sequential");
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
