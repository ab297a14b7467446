//! Writes verifications as text for a terminal and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Finding, RuleResult, RuleSeverity, Verification};
use crate::campaign::catalog::Verdicts;
use crate::document::terminal::Screen;
use crate::document::text::push_beside;
use crate::humanize::{self, counted};
use crate::text_grid::clean;

/// Version of the JSON of verifications.
const SCHEMA: u32 = 1;

/// Maximum number of findings of a rule to show in text.
const FINDINGS_MAX: usize = 5;

/// Width of ids and words to the left of titles.
const LEAD: usize = 16;

/// Renders verifications for a terminal. The text ends with a newline.
pub fn to_text(verifications: &[Verification<'_>], screen: Screen) -> String {
    let mut text = String::new();
    for verification in verifications {
        if !text.is_empty() {
            text.push('\n');
        }
        push_verification(&mut text, verification, screen.columns());
    }
    text
}

fn push_verification(text: &mut String, verification: &Verification<'_>, columns: usize) {
    let Verification { bundle, rules, results } = verification;
    let word = verification.word();
    let name = one_line(&bundle.name);
    // Writing to a String never fails.
    let _ = writeln!(text, "{word} {name} (rules: {})", one_line(rules));
    if let Ok(content) = &bundle.content {
        let campaign = content.campaign;
        let version = format!("dfsbench {}", campaign.tool_version);
        let about = format!(
            "{}, {}, measured by {version}; {}",
            campaign.name,
            humanize::utc(campaign.started_unix_ms),
            count_verdicts(Verdicts::from_campaign(campaign))
        );
        push_beside(text, "  campaign", LEAD, &one_line(&about), columns);
        push_beside(text, "  sha256", LEAD, &content.sha256, usize::MAX);
    }
    for result in results {
        push_result(text, result, columns);
    }
}

fn push_result(text: &mut String, result: &RuleResult, columns: usize) {
    let RuleResult { rule, findings, title, .. } = result;
    let lead = format!("  {}  {}", rule.id(), outcome(result));
    push_beside(text, &lead, LEAD, title, columns);
    if findings.is_empty() {
        return;
    }
    for finding in findings.iter().take(FINDINGS_MAX) {
        push_beside(text, "", LEAD + 2, &one_line(&sentence(finding)), columns);
    }
    if findings.len() > FINDINGS_MAX {
        let more = format!("and {} more (--format json lists all)", findings.len() - FINDINGS_MAX);
        push_beside(text, "", LEAD + 2, &more, columns);
    }
    push_beside(text, "", LEAD + 2, &format!("Reason for the rule: {}", rule.reason()), columns);
}

/// Returns the word for the outcome of a rule.
pub(super) fn outcome(result: &RuleResult) -> &'static str {
    match (result.is_met(), result.severity) {
        (true, _) => "met",
        (false, RuleSeverity::Required) => "BROKEN",
        (false, _) => "not met",
    }
}

/// Formats a finding with its row.
pub(super) fn sentence(finding: &Finding) -> String {
    let Finding { row, value } = finding;
    if row.is_empty() { value.clone() } else { format!("{row}: {value}") }
}

/// Counts the rows by verdict: `2 rows valid, 6 degraded, 0 invalid`.
fn count_verdicts(verdicts: Verdicts) -> String {
    let Verdicts { valid, degraded, invalid } = verdicts;
    format!("{} valid, {degraded} degraded, {invalid} invalid", counted(valid as usize, "row"))
}

fn one_line(text: &str) -> String {
    clean(text).replace('\n', " ")
}

#[derive(Serialize)]
struct VerificationDocument<'a> {
    schema: u32,
    /// True if all bundles are valid.
    valid: bool,
    bundles: Vec<BundlePart<'a>>,
}

#[derive(Serialize)]
struct BundlePart<'a> {
    bundle: &'a str,
    verdict: &'static str,
    rule_set: &'a str,
    sha256: Option<&'a str>,
    campaign: Option<CampaignPart<'a>>,
    rules: Vec<RulePart<'a>>,
}

#[derive(Serialize)]
struct CampaignPart<'a> {
    uuid: &'a str,
    name: &'a str,
    started_unix_ms: u64,
    measured_by: &'a str,
    packed_by: &'a str,
    rows: Verdicts,
}

#[derive(Serialize)]
struct RulePart<'a> {
    id: &'static str,
    title: &'a str,
    reason: &'static str,
    severity: &'static str,
    met: bool,
    findings: &'a [Finding],
}

/// Renders verifications as JSON. The text ends with a newline.
pub fn to_json(verifications: &[Verification<'_>]) -> String {
    render_json(&VerificationDocument {
        schema: SCHEMA,
        valid: verifications.iter().all(Verification::is_valid),
        bundles: verifications.iter().map(bundle_part).collect(),
    })
}

fn render_json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("text and numbers can be written") + "\n"
}

fn bundle_part<'a>(verification: &'a Verification<'_>) -> BundlePart<'a> {
    let Verification { bundle, rules, results } = verification;
    let content = bundle.content.as_ref().ok();
    BundlePart {
        bundle: &bundle.name,
        verdict: verification.word(),
        rule_set: rules,
        sha256: content.map(|content| content.sha256.as_str()),
        campaign: content.map(|content| CampaignPart {
            uuid: &content.uuid,
            name: &content.campaign.name,
            started_unix_ms: content.campaign.started_unix_ms,
            measured_by: &content.campaign.tool_version,
            packed_by: &content.packed_by,
            rows: Verdicts::from_campaign(content.campaign),
        }),
        rules: results.iter().map(rule_part).collect(),
    }
}

fn rule_part(result: &RuleResult) -> RulePart<'_> {
    RulePart {
        id: result.rule.id(),
        title: &result.title,
        reason: result.rule.reason(),
        severity: result.severity.name(),
        met: result.is_met(),
        findings: &result.findings,
    }
}
