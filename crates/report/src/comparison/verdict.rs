//! Verdict of a comparison, as the first sentence that a reader sees.
//!
//! With bounds, it states whether they are met, otherwise whether anything certainly changed. It
//! names the largest change with its ratio and interval, and the caveats of the rows involved.
//! Equality is a claim as well, so if the trials cannot decide, it says so.

use model::Severity;
use stats::Outcome;

use super::measure::Change;
use super::{CampaignComparison, ComparedFigure, RowPair};
use crate::humanize;

/// Compared measure with its row.
type ChangedMeasure<'a> = (&'a RowPair, &'a ComparedFigure);

/// Summarizes how the two sides compare.
pub(super) fn sentence(compared: &CampaignComparison) -> String {
    let figures: Vec<ChangedMeasure<'_>> = compared.figures().collect();
    if figures.is_empty() {
        return "Nothing could be compared: the two have no usable rows in common.".to_owned();
    }
    if !compared.rules.bounds.is_empty() {
        return judge_bounds(compared, &figures);
    }
    let worse = changed(&figures, Change::Worse);
    let better = changed(&figures, Change::Better);
    let all = humanize::counted(figures.len(), "figure");
    let begin = match (worse.as_slice(), better.as_slice()) {
        ([], []) => return describe_unchanged(compared, &figures),
        ([most, ..], []) => format!(
            "Worse afterwards: {} of {all} got measurably worse, none better; most of all {}.",
            worse.len(),
            describe(most.0, most.1)
        ),
        ([], [most, ..]) => format!(
            "Better afterwards: {} of {all} got measurably better, none worse; most of all {}.",
            better.len(),
            describe(most.0, most.1)
        ),
        ([worst, ..], [best, ..]) => format!(
            "Both worse and better: {} of {all} got measurably worse, most of all {}; {} got \
             better, most of all {}.",
            worse.len(),
            describe(worst.0, worst.1),
            better.len(),
            describe(best.0, best.1)
        ),
    };
    let open = figures.iter().filter(|(_, figure)| is_open(figure)).count();
    let undecided = match open {
        0 => String::new(),
        open => format!(" {open} undecided."),
    };
    let codes = list_reservations(worse.iter().chain(&better));
    let caveats = if codes.is_empty() { codes } else { format!(" Caveats of these: {codes}.") };
    begin + &undecided + &caveats
}

/// Describes measures without a certain change. They are equal only if everything their trials
/// leave possible is within the smallest effect.
fn describe_unchanged(compared: &CampaignComparison, figures: &[ChangedMeasure<'_>]) -> String {
    let margin = humanize::percent(compared.rules.effect);
    let all = humanize::counted(figures.len(), "figure");
    let mut open = figures.to_vec();
    open.retain(|(_, figure)| is_open(figure));
    let reach = |figure: &ComparedFigure| {
        let (lo, hi) = figure.comparison.possible_ratios();
        hi / lo
    };
    open.sort_by(|(_, one), (_, other)| reach(other).total_cmp(&reach(one)));
    let Some((pair, figure)) = open.first() else {
        return format!("No difference: all {all} are within {margin} of their old values.");
    };
    let (lo, hi) = figure.comparison.possible_ratios();
    let equal = match figures.len() - open.len() {
        0 => String::new(),
        equal => format!(" {equal} of {all} are within {margin} of their old values."),
    };
    format!(
        "Can't tell: changes from {} to {} are possible ({}, {}).{equal}",
        format_change(lo),
        format_change(hi),
        pair.name,
        figure.measure.name()
    )
}

/// Formats a ratio as a change in percent: `-63 %`, `+164 %`.
fn format_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 9.95 { format!("{percent:+.1} %") } else { format!("{percent:+.0} %") }
}

fn is_open(figure: &ComparedFigure) -> bool {
    figure.comparison.outcome() == Outcome::Unclear
}

/// Lists the caveats that degrade the rows. Notes are left out, because they only explain.
fn list_reservations<'a>(figures: impl Iterator<Item = &'a ChangedMeasure<'a>>) -> String {
    let mut codes = Vec::new();
    for (pair, _) in figures {
        for code in &pair.caveats {
            let name = code.code().to_owned();
            if code.severity() >= Severity::Degraded && !codes.contains(&name) {
                codes.push(name);
            }
        }
    }
    if codes.is_empty() { String::new() } else { humanize::listed(&codes) }
}

/// States whether the bounds are met.
fn judge_bounds(compared: &CampaignComparison, figures: &[ChangedMeasure<'_>]) -> String {
    let mut lost: Vec<ChangedMeasure<'_>> = compared.regressions().collect();
    sort_by_change(&mut lost);
    let mut bounded = 0;
    let mut undecided = 0;
    for (_, figure) in figures {
        bounded += usize::from(figure.bound.is_some());
        undecided += usize::from(figure.is_undecidable());
    }
    let all = humanize::counted(bounded, "figure");
    if let Some(most) = lost.first() {
        let limit = most.1.limit();
        let codes = list_reservations(lost.iter());
        let caveats = if codes.is_empty() { codes } else { format!(" Caveats of these: {codes}.") };
        return format!(
            "Regression: {} of {all} got worse by more than allowed; most of all {}; \
             {limit}.{caveats}",
            lost.len(),
            describe(most.0, most.1)
        );
    }
    let unpaired = compared.left_out.iter().filter(|row| row.matters).count();
    let mut open = Vec::new();
    if undecided > 0 {
        open.push(format!("the trials leave {undecided} of {all} undecided"));
    }
    if unpaired > 0 {
        open.push(format!("{} could not be compared", humanize::counted(unpaired, "row")));
    }
    if open.is_empty() && compared.is_undecided() {
        open.push("a bounded measure is missing".to_owned());
    }
    if open.is_empty() {
        return format!("All bounds are met: none of {all} got worse by more than allowed.");
    }
    format!("Inconclusive: no bound is clearly exceeded, but {}.", humanize::listed(&open))
}

fn describe(pair: &RowPair, figure: &ComparedFigure) -> String {
    format!("{}: {}", pair.name, figure.change())
}

/// Measures that certainly changed in this direction, largest change first.
fn changed<'a>(figures: &[ChangedMeasure<'a>], change: Change) -> Vec<ChangedMeasure<'a>> {
    let mut changed = figures.to_vec();
    changed.retain(|(_, figure)| figure.change_for_sure() == Some(change));
    sort_by_change(&mut changed);
    changed
}

fn sort_by_change(figures: &mut [ChangedMeasure<'_>]) {
    figures.sort_by(|(_, one), (_, other)| other.loss().abs().total_cmp(&one.loss().abs()));
}
