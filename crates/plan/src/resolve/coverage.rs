//! Selects runs of a matrix so that each pair of levels of two settings is still covered.
//!
//! A matrix of many factors may have a thousand runs when a hundred give the same information about
//! each factor and each pair of factors. [`select_covering`] only drops runs, without changing or
//! reordering them, and always makes the same choice for the same runs.
//!
//! **Source:** the greedy choice is that of AETG, without its random part: Cohen, Dalal, Fredman,
//! Patton, "The AETG System", IEEE Transactions on Software Engineering 23 (1997), section 4.

use std::collections::HashMap;

use model::RunSpec;

/// Keeps about `wanted` runs: of each workload its share of them, or more if its pairs of levels
/// need more. `starts` has the index of the first run of each workload. Rows without trials, whose
/// settings contradict each other, are all kept because they cost nothing.
pub(crate) fn select_covering(runs: Vec<RunSpec>, starts: &[usize], wanted: usize) -> Vec<RunSpec> {
    let all = runs.len();
    if wanted >= all {
        return runs;
    }
    let mut is_kept: Vec<bool> = runs.iter().map(|run| run.impossible().is_some()).collect();
    for (number, start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(all);
        let mut possible: Vec<usize> = (*start..end).collect();
        possible.retain(|run| !is_kept[*run]);
        let share = (wanted * possible.len()).div_ceil(all);
        for chosen in choose(&list_levels(&runs, &possible), share) {
            is_kept[possible[chosen]] = true;
        }
    }
    std::iter::zip(runs, is_kept).filter(|(_, is_kept)| *is_kept).map(|(run, _)| run).collect()
}

/// Returns the levels of each run as numbers, one for each setting that differs between runs. A
/// missing setting counts as a level of its own.
fn list_levels(runs: &[RunSpec], chosen: &[usize]) -> Vec<Vec<u32>> {
    let mut names: Vec<&'static str> = Vec::new();
    let mut shown: Vec<HashMap<&'static str, String>> = Vec::with_capacity(chosen.len());
    for run in chosen {
        let settings = runs[*run].settings();
        for (name, _) in &settings {
            if !names.contains(name) {
                names.push(name);
            }
        }
        shown.push(settings.into_iter().collect());
    }
    let mut levels = vec![Vec::new(); chosen.len()];
    for name in names {
        let mut numbers: HashMap<Option<&String>, u32> = HashMap::new();
        let mut of_name = Vec::with_capacity(chosen.len());
        for settings in &shown {
            let next = numbers.len() as u32;
            of_name.push(*numbers.entry(settings.get(name)).or_insert(next));
        }
        if numbers.len() > 1 {
            for (run, level) in std::iter::zip(&mut levels, of_name) {
                run.push(level);
            }
        }
    }
    levels
}

/// Chooses at least `wanted` runs that together contain each pair of levels of any run.
fn choose(levels: &[Vec<u32>], wanted: usize) -> Vec<usize> {
    let (pairs, pair_count) = list_pairs(levels);
    let mut uses = vec![0_u32; pair_count];
    let mut left: Vec<usize> = (0..levels.len()).collect();
    let mut uncovered = pair_count;
    let mut chosen = Vec::new();
    while !left.is_empty() && (uncovered > 0 || chosen.len() < wanted) {
        // The run with the most uncovered pairs; among equals, the one whose pairs are rarest so
        // far, so that all levels are used about equally often.
        let mut best = (0, 0, u32::MAX);
        for (place, run) in left.iter().enumerate() {
            let mut fresh = 0;
            let mut used = 0;
            for pair in &pairs[*run] {
                fresh += usize::from(uses[*pair] == 0);
                used += uses[*pair];
            }
            if fresh > best.1 || (fresh == best.1 && used < best.2) {
                best = (place, fresh, used);
            }
        }
        let run = left.remove(best.0);
        for pair in &pairs[run] {
            uncovered -= usize::from(uses[*pair] == 0);
            uses[*pair] += 1;
        }
        chosen.push(run);
    }
    chosen
}

/// Returns the pairs of levels in each run as numbers, and the number of different pairs. A single
/// setting is paired with itself, so that its levels are covered.
fn list_pairs(levels: &[Vec<u32>]) -> (Vec<Vec<usize>>, usize) {
    let mut numbers: HashMap<(usize, u32, usize, u32), usize> = HashMap::new();
    let mut pairs = Vec::with_capacity(levels.len());
    for run in levels {
        let mut of_run = Vec::new();
        for (first, one) in run.iter().enumerate() {
            for (second, other) in run.iter().enumerate().skip(first) {
                let next = numbers.len();
                of_run.push(*numbers.entry((first, *one, second, *other)).or_insert(next));
            }
        }
        pairs.push(of_run);
    }
    let count = numbers.len();
    (pairs, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every combination of levels; `sizes` has the number of levels of each setting.
    fn product(sizes: &[u32]) -> Vec<Vec<u32>> {
        let mut runs = vec![Vec::new()];
        for size in sizes {
            let mut longer = Vec::new();
            for run in &runs {
                longer.extend((0..*size).map(|level| [run.as_slice(), &[level]].concat()));
            }
            runs = longer;
        }
        runs
    }

    #[test]
    fn covers_pairs_with_few_runs() {
        // Targets, shares of reads and of random ops, threads, sizes of ops.
        let all = product(&[6, 3, 2, 2, 9]);
        let chosen = choose(&all, 0);
        // 54 is the minimum: each target with each size.
        assert!((54..=70).contains(&chosen.len()), "{}", chosen.len());
        let (pairs, count) = list_pairs(&all);
        let mut covered = vec![false; count];
        for run in &chosen {
            for pair in &pairs[*run] {
                covered[*pair] = true;
            }
        }
        assert!(covered.iter().all(|is_covered| *is_covered));
        let mut once = chosen.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), chosen.len());
    }

    #[test]
    fn balances_levels_of_further_runs() {
        let all = product(&[4, 3, 2, 2]);
        let chosen = choose(&all, 24);
        assert_eq!(chosen.len(), 24);
        for (setting, levels) in [4, 3, 2, 2].into_iter().enumerate() {
            for level in 0..levels {
                let uses = chosen.iter().filter(|run| all[**run][setting] == level).count();
                let fair = 24 / levels as usize;
                assert!(uses.abs_diff(fair) <= 2, "setting {setting}, level {level}: {uses}");
            }
        }
        assert_eq!(choose(&all, 1_000).len(), all.len());
    }

    #[test]
    fn keeps_all_levels_of_one_setting() {
        assert_eq!(choose(&product(&[5]), 2).len(), 5);
        assert_eq!(choose(&product(&[]), 0), [0; 0]);
    }
}
