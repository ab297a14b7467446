//! Test results as JUnit XML, which build servers show: of a comparison, and of a campaign.
//!
//! In a campaign, each result is a test case, and each requirement one for every result that it
//! covers. A requirement that is missed is a failure; one that is undecided, and a result that may
//! not be used, is an error.
//!
//! **Source:** the schema of Apache Maven Surefire, `surefire-test-report-3.0.xsd`, which Jenkins,
//! GitLab and GitHub's actions read; Extensible Markup Language 1.0, 2.2 and 2.4 (characters).

use std::fmt::Write as _;

use model::Verdict;

use crate::campaign::requirements::{self, RequirementOutcome};
use crate::table::{Row, Sheet};

/// Outcome of a test case, with the text that build servers show.
pub(crate) enum End {
    Passed,
    Failed(String),
    /// Undecided.
    Broken(String),
    Skipped(String),
}

/// One test case.
pub(crate) struct Case {
    pub class: String,
    pub name: String,
    pub end: End,
    /// Text with the numbers.
    pub out: String,
}

/// Renders the report of a campaign.
pub(crate) fn render(sheet: &Sheet<'_>) -> String {
    let mut cases: Vec<Case> = sheet.rows.iter().map(|row| result_case(sheet, row)).collect();
    for check in requirements::check(sheet) {
        if check.results.is_empty() {
            cases.push(Case {
                class: "requirements".to_owned(),
                name: check.limit.clone(),
                end: End::Broken("no run was made under these conditions".to_owned()),
                out: String::new(),
            });
        }
        for result in &check.results {
            let why = result.describe();
            cases.push(Case {
                class: result.row.clone(),
                name: check.limit.clone(),
                end: match result.outcome {
                    RequirementOutcome::Met => End::Passed,
                    RequirementOutcome::Missed => End::Failed(why),
                    RequirementOutcome::Undecided => End::Broken(why),
                },
                out: result.measured.clone(),
            });
        }
    }
    let suite = format!("{}: {}", sheet.campaign.name, sheet.about().join("; "));
    write("dfsbench report", &suite, "missed", &cases)
}

/// Test case of a row: was a result measured that may be used?
fn result_case(sheet: &Sheet<'_>, row: &Row<'_>) -> Case {
    let rate = row.judged.rate;
    let codes = row.codes();
    let end = match (row.judged.verdict, rate) {
        _ if row.judged.impossible.is_some() => End::Skipped(row.missing()),
        (_, None) => End::Broken(row.missing()),
        (Verdict::Invalid, _) => End::Broken(format!("must not be used: {codes}")),
        _ => End::Passed,
    };
    let mut out = String::new();
    if let Some(rate) = rate {
        out = stats::Rate::for_pass(row.judged.pass, rate.median).to_string();
        if !codes.is_empty() {
            let _ = write!(out, "; caveats: {codes}");
        }
    }
    Case { class: sheet.name(row), name: "measured".to_owned(), end, out }
}

/// Writes test cases as one suite; `failure` is the type of its failures.
pub(crate) fn write(tool: &str, suite: &str, failure: &str, cases: &[Case]) -> String {
    let mut failures = 0;
    let mut errors = 0;
    let mut skipped = 0;
    for case in cases {
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
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<testsuites name=\"{tool}\" {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"{}\" {counts}>", escape_xml(suite));
    for case in cases {
        write_case(&mut out, failure, case);
    }
    out + "  </testsuite>\n</testsuites>\n"
}

fn write_case(out: &mut String, failure: &str, case: &Case) {
    let class = escape_xml(&case.class);
    let _ = writeln!(
        out,
        "    <testcase classname=\"{class}\" name=\"{}\" time=\"0\">",
        escape_xml(&case.name)
    );
    let _ = match &case.end {
        End::Passed => Ok(()),
        End::Failed(why) => {
            let why = escape_xml(why);
            writeln!(out, "      <failure type=\"{failure}\" message=\"{why}\">{why}</failure>")
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
