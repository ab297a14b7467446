//! Marks the best and worst results of a kind of pass.
//!
//! [`mark_rows`] is the entry point. A result is marked only if it is usable and has enough trials,
//! and if the intervals of the highest and lowest do not overlap. Results that overlap the highest
//! are marked, too, because it is unknown which of them is best.

use std::collections::HashMap;

use model::Target;
use stats::Summary;
use stats::criteria::TRIALS_MIN;

use super::rate_metric::RateMetric;
use super::row::{Mark, Row};
use crate::document::Extreme;

/// Explanation of the marks.
pub(crate) const READING: &str = "▲ ▼: the best and the worst of all rows with the same pass (for \
    commands: the same command), regardless of other settings, and those whose 95 % intervals \
    overlap theirs. Only usable figures with three trials are marked, and only if best and worst \
    don't overlap; mixes of several I/O sizes are ranked by bytes.";

/// Returns the mark of each row, in row order.
pub(crate) fn mark_rows(rows: &[Row<'_>]) -> Vec<Option<Mark>> {
    let mut marks = vec![None; rows.len()];
    let mut kinds: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, row) in rows.iter().enumerate() {
        // The null target measures only the tool, not a file system.
        if row.counts() && row.run.spec.target != Target::Null {
            kinds.entry(row.comparison_name()).or_default().push(number);
        }
    }
    for numbers in kinds.values() {
        let pass = rows[numbers[0]].judged.pass;
        let metric = RateMetric::for_rows(pass, numbers.iter().map(|number| &rows[*number]));
        let mut figures = Vec::new();
        for number in numbers {
            match metric.figure(&rows[*number].judged) {
                Some(summary) if summary.n >= TRIALS_MIN => figures.push((*number, *summary)),
                _ => {}
            }
        }
        for (number, extreme) in rank_figures(&figures) {
            marks[number] = Some(Mark { extreme, by_bytes: metric.is_other() });
        }
    }
    marks
}

/// Returns the results that are level with either end, but not those that overlap both.
pub(crate) fn rank_figures(figures: &[(usize, Summary)]) -> Vec<(usize, Extreme)> {
    let order = |a: &&(usize, Summary), b: &&(usize, Summary)| a.1.median.total_cmp(&b.1.median);
    let (Some((_, highest)), Some((_, lowest))) =
        (figures.iter().max_by(order), figures.iter().min_by(order))
    else {
        return Vec::new();
    };
    // If the ends overlap each other, any order of the results may be chance.
    if highest.overlaps(lowest) {
        return Vec::new();
    }
    let mut ranked = Vec::new();
    for (number, figure) in figures {
        match (figure.overlaps(highest), figure.overlaps(lowest)) {
            (true, false) => ranked.push((*number, Extreme::Best)),
            (false, true) => ranked.push((*number, Extreme::Worst)),
            _ => {}
        }
    }
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(number: usize, lo: f64, hi: f64) -> (usize, Summary) {
        let middle = f64::midpoint(lo, hi);
        let summary = stats::summary(&[lo, lo, middle, hi, hi]).unwrap();
        assert_eq!(summary.interval, (lo, hi));
        (number, summary)
    }

    #[test]
    fn marks_figures_level_with_one_end() {
        let figures = [
            figure(0, 10.0, 12.0),
            figure(1, 11.0, 15.0),
            figure(2, 16.0, 17.0),
            figure(3, 18.0, 20.0),
            figure(4, 19.0, 21.0),
        ];
        let best = Extreme::Best;
        let worst = Extreme::Worst;
        assert_eq!(rank_figures(&figures), [(0, worst), (1, worst), (3, best), (4, best)]);
        let wide = [figure(0, 10.0, 12.0), figure(1, 11.0, 19.0), figure(2, 18.0, 20.0)];
        assert_eq!(rank_figures(&wide), [(0, worst), (2, best)]);
    }

    #[test]
    fn marks_no_best_without_difference() {
        assert_eq!(rank_figures(&[figure(0, 10.0, 12.0), figure(1, 12.0, 14.0)]), []);
        assert_eq!(rank_figures(&[figure(0, 10.0, 12.0)]), []);
        assert_eq!(rank_figures(&[]), []);
    }
}
