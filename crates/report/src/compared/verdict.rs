//! The verdict of a comparison, in the sentence that a reader sees first.
//!
//! With bounds it says whether they are kept; without, whether anything changed for certain. The
//! largest change is named with its ratio and interval.

use super::measure::Change;
use super::{Compared, Figure, Pair};
use crate::show;

/// A figure with the row that it is of.
type Changed<'a> = (&'a Pair, &'a Figure);

/// Says how the two sides compare.
pub fn sentence(compared: &Compared) -> String {
    let figures: Vec<Changed<'_>> = compared.figures().collect();
    if figures.is_empty() {
        return "Nothing could be compared: the two have no row in common that counts.".to_owned();
    }
    if !compared.rules.bounds.is_empty() {
        return judge_bounds(compared, &figures);
    }
    let worse = changed(&figures, Change::Worse);
    let better = changed(&figures, Change::Better);
    let all = show::counted(figures.len(), "figure");
    match (worse.as_slice(), better.as_slice()) {
        ([], []) => format!("No difference for certain: none of {all} changed beyond the noise."),
        ([most, ..], []) => format!(
            "Worse afterwards: {} of {all} got worse for certain, none better; most of all {}.",
            worse.len(),
            describe(most.0, most.1)
        ),
        ([], [most, ..]) => format!(
            "Better afterwards: {} of {all} got better for certain, none worse; most of all {}.",
            better.len(),
            describe(most.0, most.1)
        ),
        ([worst, ..], [best, ..]) => format!(
            "Both worse and better: {} of {all} got worse for certain, most of all {}; {} got \
             better, most of all {}.",
            worse.len(),
            describe(worst.0, worst.1),
            better.len(),
            describe(best.0, best.1)
        ),
    }
}

/// Says whether the bounds are kept.
fn judge_bounds(compared: &Compared, figures: &[Changed<'_>]) -> String {
    let mut lost: Vec<Changed<'_>> = compared.regressions().collect();
    sort_by_change(&mut lost);
    let mut bounded = 0;
    let mut undecided = 0;
    for (_, figure) in figures {
        bounded += usize::from(figure.bound.is_some());
        undecided += usize::from(figure.is_undecidable());
    }
    let all = show::counted(bounded, "figure");
    if let Some(most) = lost.first() {
        let limit = most.1.limit();
        return format!(
            "Regression: {} of {all} got worse by more than allowed; most of all {}; {limit}.",
            lost.len(),
            describe(most.0, most.1)
        );
    }
    let unpaired = compared.left_out.iter().filter(|row| row.matters).count();
    let mut open = Vec::new();
    if undecided > 0 {
        open.push(format!("the trials do not decide {undecided} of {all}"));
    }
    if unpaired > 0 {
        open.push(format!("{} could not be compared", show::counted(unpaired, "row")));
    }
    if open.is_empty() && compared.is_undecided() {
        open.push("a measure with a bound is missing".to_owned());
    }
    if open.is_empty() {
        return format!("The bounds are kept: none of {all} got worse by more than allowed.");
    }
    format!("Inconclusive: no bound is broken for certain, but {}.", show::listed(&open))
}

fn describe(pair: &Pair, figure: &Figure) -> String {
    format!("{}: {}", pair.name, figure.change())
}

/// The figures that changed this way for certain, the largest change first.
fn changed<'a>(figures: &[Changed<'a>], change: Change) -> Vec<Changed<'a>> {
    let mut changed = figures.to_vec();
    changed.retain(|(_, figure)| figure.change_for_sure() == Some(change));
    sort_by_change(&mut changed);
    changed
}

fn sort_by_change(figures: &mut [Changed<'_>]) {
    figures.sort_by(|(_, one), (_, other)| other.loss().abs().total_cmp(&one.loss().abs()));
}
