//! Comparison as JUnit XML: each measure is a test case, so build servers show which one failed.
//!
//! A measure beyond its bound is a failure, and one that could not be checked is an error, so a
//! suite is green exactly if the program exits with 0. Without bounds nothing can fail.

use std::fmt::Write as _;

use super::curves::Check;
use super::{
    CampaignComparison, ComparedFigure, ComparisonRules, CurvePair, LeftOut, Measure, RowPair,
};
use crate::export::junit::{self, Case, End};

/// Renders the document.
pub(super) fn render(compared: &CampaignComparison) -> String {
    let [before, after] = &compared.sides;
    let suite = format!("{before} against {after}");
    junit::write("dfsbench compare", &suite, "regression", &test_cases(compared))
}

fn test_cases(compared: &CampaignComparison) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for curve in &compared.curves {
        cases.extend(curve.checks().map(|check| curve_case(curve, check)));
    }
    for pair in &compared.pairs {
        for figure in &pair.figures {
            cases.push(figure_case(pair, figure));
        }
        for measure in compared.missing_measures(pair) {
            cases.push(Case {
                class: pair.name.clone(),
                name: measure.name().to_owned(),
                end: End::Broken(format!("{} was not timed on both sides", measure.name())),
                out: String::new(),
            });
        }
    }
    cases.extend(compared.left_out.iter().map(|row| left_out_case(row, &compared.rules)));
    cases
}

fn curve_case(curve: &CurvePair, check: Check) -> Case {
    let end = if check.is_regression {
        End::Failed(check.why)
    } else if check.is_undecidable {
        End::Broken(format!("inconclusive: {}", check.why))
    } else {
        End::Passed
    };
    Case { class: curve.name.clone(), name: check.name.to_owned(), end, out: curve.sentence() }
}

fn figure_case(pair: &RowPair, figure: &ComparedFigure) -> Case {
    let why = format!("{}; {}", figure.change(), figure.limit());
    // An undecided bound is an error, because a green suite must mean that all bounds are met.
    let end = if figure.is_regression() {
        End::Failed(why)
    } else if figure.is_undecidable() {
        End::Broken(format!("inconclusive: {why}: {}", pair.remedy(figure)))
    } else {
        End::Passed
    };
    let comparison = &figure.comparison;
    let mut out = format!(
        "before {}, after {}, {}, p {:.4}, trials {} and {}: {}",
        figure.shown(0),
        figure.shown(1),
        figure.change(),
        comparison.adjusted,
        comparison.trials.0,
        comparison.trials.1,
        comparison.outcome().name(),
    );
    if !pair.caveats.is_empty() {
        let codes: Vec<_> = pair.caveats.iter().map(|code| code.code()).collect();
        let _ = write!(out, "; caveats: {}", codes.join(", "));
    }
    Case { class: pair.name.clone(), name: figure.measure.name().to_owned(), end, out }
}

/// Test case of a row that was not compared. If there are bounds, it is an error, because nothing
/// shows that the row meets them.
fn left_out_case(row: &LeftOut, rules: &ComparisonRules) -> Case {
    let why = format!("not compared: {}", row.why);
    let end =
        if row.matters && !rules.bounds.is_empty() { End::Broken(why) } else { End::Skipped(why) };
    Case { class: row.name.clone(), name: Measure::Rate.name().to_owned(), end, out: String::new() }
}
