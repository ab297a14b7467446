//! Finds the best result of each column among runs with the same file size.
//!
//! Only files of the same size are compared, because small files are fast on any system whose
//! memory holds them, and results read from this host's memory never count. Results whose interval
//! overlaps that of the best are marked, too. If highest and lowest overlap, nothing is marked.

use std::collections::{BTreeMap, HashSet};

use model::{CaveatCode, Pass, RunSpec, Workload};
use stats::Summary;
use stats::criteria::TRIALS_MIN;

use super::OneRun;
use crate::document::Extreme;
use crate::table::best_and_worst::rank_figures;

/// Explanation of the mark.
pub(super) const READING: &str = "*: the best of its column among files of the same size and mixes \
    of the same kind, or not distinguishable from it by the 95 % intervals.";

/// Column of a result, and everything it must share with results it is compared with.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Column<'r> {
    workload: &'r str,
    pass: Pass,
    file_bytes: u64,
    /// Mix of a run with mixed work: order, share of reads, threads and I/O size.
    mix: Option<[u32; 4]>,
}

/// Marked cells, by run index and pass.
pub(super) struct BestCells(HashSet<(u32, Pass)>);

impl BestCells {
    /// Finds the best results of some runs.
    pub(super) fn new(runs: &[OneRun<'_>]) -> Self {
        let mut columns: BTreeMap<Column<'_>, Vec<(usize, Summary)>> = BTreeMap::new();
        for run in runs {
            for row in &run.rows {
                let Some(rate) = row.judged.rate else { continue };
                let pass = row.judged.pass;
                if !row.counts() || run.has(pass, CaveatCode::Cached) {
                    continue;
                }
                let spec = &row.run.spec;
                let column = Column {
                    workload: spec.workload.name(),
                    pass,
                    file_bytes: run.file_bytes(),
                    mix: mix_of(spec),
                };
                columns.entry(column).or_default().push((row.run.index as usize, rate));
            }
        }
        let mut marked = HashSet::new();
        for (column, figures) in columns {
            marked.extend(find_best(&figures).into_iter().map(|run| (run as u32, column.pass)));
        }
        Self(marked)
    }

    /// Returns the mark of a cell, or `otherwise` if it has none.
    pub(super) fn mark<'m>(&self, run: &OneRun<'_>, pass: Pass, otherwise: &'m str) -> &'m str {
        if self.0.contains(&(run.first().run.index, pass)) { "*" } else { otherwise }
    }

    /// Returns true if no cell is marked.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Settings that distinguish mixes; `None` for other workloads.
fn mix_of(spec: &RunSpec) -> Option<[u32; 4]> {
    if spec.workload != Workload::Mixed {
        return None;
    }
    Some([spec.layout.random_percent, spec.read_percent, spec.workers, spec.io_size_bytes])
}

/// Finds the best result and those level with it.
fn find_best(figures: &[(usize, Summary)]) -> Vec<usize> {
    let mut best = Vec::new();
    if figures.len() < 2 {
        return best;
    }
    if figures.iter().all(|(_, figure)| figure.n >= TRIALS_MIN) {
        for (run, extreme) in rank_figures(figures) {
            if extreme == Extreme::Best {
                best.push(run);
            }
        }
        return best;
    }
    // Without intervals, the highest result is the best, as in handwritten tables.
    let mut sorted = figures.to_vec();
    sorted.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
    if sorted[0].1.median > sorted[1].1.median {
        best.push(sorted[0].0);
    }
    best
}
