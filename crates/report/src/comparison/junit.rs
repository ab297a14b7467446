//! Comparison as JUnit XML: each measure is a test case, so CI servers show which one failed.
//!
//! A measure beyond its bound is a failure, and one that could not be checked is an error, so a
//! suite is green exactly if the program exits with 0. Without bounds nothing can fail.
//!
//! **Source:** the schema of Apache Maven Surefire, `surefire-test-report-3.0.xsd`, which Jenkins,
//! GitLab and GitHub's actions read; Extensible Markup Language 1.0, 2.2 and 2.4 (characters).

use std::fmt::Write as _;

use super::curves::Check;
use super::{
    CampaignComparison, ComparedFigure, ComparisonRules, CurvePair, LeftOut, Measure, RowPair,
};

/// Outcome of a test case, with the text that CI servers show.
enum End {
    Passed,
    Failed(String),
    /// Undecided.
    Broken(String),
    Skipped(String),
}

struct Case {
    class: String,
    name: &'static str,
    end: End,
    /// Text with the numbers.
    out: String,
}

/// Renders the document.
pub(super) fn render(compared: &CampaignComparison) -> String {
    let cases = test_cases(compared);
    let mut failures = 0;
    let mut errors = 0;
    let mut skipped = 0;
    for case in &cases {
        match case.end {
            End::Passed => {}
            End::Failed(_) => failures += 1,
            End::Broken(_) => errors += 1,
            End::Skipped(_) => skipped += 1,
        }
    }
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" \
         time=\"0\"",
        cases.len()
    );
    let [before, after] = &compared.sides;
    let suite = escape_xml(&format!("{before} against {after}"));
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<testsuites name=\"dfsbench compare\" {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"{suite}\" {counts}>");
    for case in &cases {
        write_case(&mut out, case);
    }
    out + "  </testsuite>\n</testsuites>\n"
}

fn write_case(out: &mut String, case: &Case) {
    let class = escape_xml(&case.class);
    let _ = writeln!(out, "    <testcase classname=\"{class}\" name=\"{}\" time=\"0\">", case.name);
    let _ = match &case.end {
        End::Passed => Ok(()),
        End::Failed(why) => {
            let why = escape_xml(why);
            writeln!(out, "      <failure type=\"regression\" message=\"{why}\">{why}</failure>")
        }
        End::Broken(why) => {
            let why = escape_xml(why);
            writeln!(out, "      <error type=\"undecided\" message=\"{why}\">{why}</error>")
        }
        End::Skipped(why) => writeln!(out, "      <skipped message=\"{}\"/>", escape_xml(why)),
    };
    if !case.out.is_empty() {
        let _ = writeln!(out, "      <system-out>{}</system-out>", escape_xml(&case.out));
    }
    out.push_str("    </testcase>\n");
}

fn test_cases(compared: &CampaignComparison) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for curve in &compared.curves {
        cases.extend(curve.checks().map(|check| curve_case(curve, check)));
    }
    for pair in &compared.pairs {
        cases.extend(pair.figures.iter().map(|figure| figure_case(pair, figure)));
        cases.extend(compared.missing_measures(pair).into_iter().map(|measure| Case {
            class: pair.name.clone(),
            name: measure.name(),
            end: End::Broken(format!("{} was not timed on both sides", measure.name())),
            out: String::new(),
        }));
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
    Case { class: curve.name.clone(), name: check.name, end, out: curve.sentence() }
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
    Case { class: pair.name.clone(), name: figure.measure.name(), end, out }
}

/// Test case of a row that was not compared. If there are bounds, it is an error, because nothing
/// shows that the row meets them.
fn left_out_case(row: &LeftOut, rules: &ComparisonRules) -> Case {
    let why = format!("not compared: {}", row.why);
    let end =
        if row.matters && !rules.bounds.is_empty() { End::Broken(why) } else { End::Skipped(why) };
    Case { class: row.name.clone(), name: Measure::Rate.name(), end, out: String::new() }
}

/// Escapes markup, and replaces characters that XML does not allow.
fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}
