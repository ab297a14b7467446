//! Verifies a campaign from a bundle by rules: which are met, and what breaks the others.
//!
//! [`verify`] is the entry point and returns a [`Verification`]; [`RuleSet`] says how strict to be.
//! Everything that can be computed from stored samples is computed again. The outcome depends only
//! on the bundle and the rules, so everybody gets the same.

mod checks;
mod index_page;
mod render;
mod rule_set;
mod rules;
mod stated;

use model::Campaign;

use crate::Format;

pub use checks::name_run;
pub use index_page::index_page;
pub use render::{to_json, to_text};
pub use rule_set::{RuleSet, RuleSetError};
pub use rules::{Rule, RuleSeverity};
pub use stated::{StatedVerdict, state_facts, state_verdicts};

impl Format {
    /// Formats of a verification.
    pub const VERIFY: [Self; 3] = [Self::Table, Self::Json, Self::Html];
}

/// A bundle to verify, under the name by which the user called it.
pub struct BundleToVerify<'a> {
    pub name: String,
    /// What is known about its content; otherwise why it is damaged.
    pub content: Result<BundleContent<'a>, Vec<String>>,
}

/// The content of an intact bundle.
pub struct BundleContent<'a> {
    /// SHA-256 of the file.
    pub sha256: String,
    /// Version of dfsbench that packed it.
    pub packed_by: String,
    /// Version of the program that verifies it.
    pub verified_by: &'static str,
    pub campaign: &'a Campaign,
    /// Its UUID according to the results file.
    pub uuid: String,
    /// Descriptions of copies in the bundle that differ from the results file.
    pub differing_copies: Vec<String>,
    /// Verdicts that the bundle states.
    pub stated: Vec<StatedVerdict>,
    pub plan: PlanCheck,
}

/// What a comparison of the plan with the results gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanCheck {
    /// Number of runs in the plan; `None` if the campaign chose its runs while it was measured.
    pub runs: Option<usize>,
    /// Minimum number of trials of each run.
    pub trials: u32,
    /// Differences between plan and results, each with the run.
    pub differences: Vec<Finding>,
}

/// The outcome of a verification.
pub struct Verification<'a> {
    pub bundle: &'a BundleToVerify<'a>,
    /// Name of the rule set.
    pub rules: String,
    /// The outcomes of all rules that are not off. If the bundle is damaged, only the first rule.
    pub results: Vec<RuleResult>,
}

/// The outcome of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleResult {
    pub rule: Rule,
    pub severity: RuleSeverity,
    /// The title with the limits of the rule set.
    pub title: String,
    /// What breaks the rule; empty if it is met.
    pub findings: Vec<Finding>,
}

/// A value that breaks a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Name of the row or run; empty if it is about the whole bundle.
    pub row: String,
    /// The value and what was expected.
    pub value: String,
}

impl Finding {
    pub fn new(row: impl Into<String>, value: impl Into<String>) -> Self {
        Self { row: row.into(), value: value.into() }
    }

    /// Creates a finding about the whole bundle.
    pub fn whole(value: impl Into<String>) -> Self {
        Self::new("", value)
    }
}

impl RuleResult {
    pub fn is_met(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns true if the rule makes the bundle invalid.
    pub fn is_broken(&self) -> bool {
        !self.is_met() && self.severity == RuleSeverity::Required
    }
}

impl Verification<'_> {
    /// Returns true if all required rules are met.
    pub fn is_valid(&self) -> bool {
        !self.results.iter().any(RuleResult::is_broken)
    }

    /// Returns the word for the outcome.
    pub fn word(&self) -> &'static str {
        if self.is_valid() { "VALID" } else { "INVALID" }
    }
}

/// Verifies a bundle.
pub fn verify<'a>(bundle: &'a BundleToVerify<'a>, rules: &RuleSet) -> Verification<'a> {
    let results = match &bundle.content {
        Err(damage) => {
            let findings = damage.iter().map(Finding::whole).collect();
            vec![rules.result(Rule::Intact, findings)]
        }
        Ok(content) => checks::check_all(content, rules),
    };
    Verification { bundle, rules: rules.name.clone(), results }
}
