//! Counts the results without caveats and names the caveats of the others, in one or two sentences.
//!
//! Verdicts and caveats come from `stats`. Notes, which leave a result valid, are not counted. The
//! counts are rows, not trials.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::{CampaignState, CaveatCode, Severity, Verdict};

use crate::humanize::{counted, percent};
use crate::table::{Row, Sheet};

/// Maximum number of caveats to name; the table lists all of them.
const NAMED_MAX: usize = 4;

/// Counts the results that are valid, degraded, invalid and missing.
pub(super) fn remark(sheet: &Sheet<'_>) -> Option<String> {
    let mut valid = Vec::new();
    let mut degraded = Vec::new();
    let mut invalid = Vec::new();
    let mut missing = Vec::new();
    for row in &sheet.rows {
        match (row.judged.verdict, row.judged.rate.is_some()) {
            (Verdict::Valid, true) => valid.push(row),
            (Verdict::Degraded, true) => degraded.push(row),
            (Verdict::Invalid, true) => invalid.push(row),
            (Verdict::Invalid, false) => missing.push(row),
            // Cannot happen: a row without a rate is always invalid.
            (Verdict::Valid | Verdict::Degraded, false) => {}
        }
    }
    let total = sheet.rows.len();
    let mut parts = Vec::new();
    if valid.len() == total && total > 0 {
        let are = if total == 1 { "is" } else { "are" };
        parts.push(format!("{} {are} clean", name_all_results(total)));
    } else if !valid.is_empty() {
        let are = if valid.len() == 1 { "is" } else { "are" };
        parts.push(format!("{} of {} {are} clean", valid.len(), counted(total, "result")));
    }
    if !degraded.is_empty() {
        parts.push(describe_degraded(&degraded, total));
    }
    if !invalid.is_empty() {
        let codes = count_codes(&invalid, Severity::Invalid);
        parts.push(format!("{} must not be used: {}", invalid.len(), name_codes(&codes)));
    }
    if !missing.is_empty() {
        parts.push(describe_missing(&missing, total));
    }
    // The most important part comes first, for people who read only one line: how many results are
    // clean, why others are degraded, which are invalid, and which are missing.
    let mut sentences = Vec::new();
    if !parts.is_empty() {
        sentences.push(parts.join("; ") + ".");
    }
    sentences.extend(describe_accuracy(&degraded, total));
    if sheet.campaign.state != CampaignState::Complete {
        sentences.push("The campaign is not complete.".to_owned());
    }
    if sentences.is_empty() { None } else { Some(sentences.join(" ")) }
}

/// Describes degraded rows: `1 has caveats: wide-interval (1)`, or
/// `All 18 results have caveats, most often wide-interval (14), too-short (4)`.
fn describe_degraded(rows: &[&Row<'_>], total: usize) -> String {
    let codes = count_codes(rows, Severity::Degraded);
    let have = if rows.len() == 1 { "has caveats" } else { "have caveats" };
    let which = if rows.len() == total { name_all_results(total) } else { rows.len().to_string() };
    let lead = if codes.len() > NAMED_MAX { ", most often" } else { ":" };
    format!("{which} {have}{lead} {}", name_codes(&codes))
}

/// States the precision of the results if most of them have a wide interval; `None` otherwise.
fn describe_accuracy(rows: &[&Row<'_>], total: usize) -> Option<String> {
    let mut half_widths = Vec::new();
    for row in rows {
        let is_wide =
            row.judged.caveats.iter().any(|caveat| caveat.code == CaveatCode::WideInterval);
        if is_wide && let Some(share) = row.judged.rate.and_then(|rate| rate.half_width_share()) {
            half_widths.push(share);
        }
    }
    if half_widths.len() * 2 <= total {
        return None;
    }
    let typical = stats::median(&half_widths)?;
    Some(format!(
        "These numbers are good to about ±{}; smaller differences cannot be seen here.",
        percent(typical)
    ))
}

/// Caveats of the rows with the number of rows that have each, most frequent first.
pub(crate) fn count_codes(rows: &[&Row<'_>], least: Severity) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        for caveat in &row.judged.caveats {
            if caveat.severity >= least {
                *counts.entry(caveat.code.to_string()).or_default() += 1;
            }
        }
        // Failed trials also degrade a row, but have no caveat code of their own.
        if !row.judged.failures.is_empty() {
            *counts.entry("failed trials".to_owned()).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

fn name_codes(codes: &[(String, usize)]) -> String {
    let shown: Vec<_> =
        codes.iter().take(NAMED_MAX).map(|(code, count)| format!("{code} ({count})")).collect();
    shown.join(", ")
}

/// Counts the missing results, and gives the reason if all of them share it.
fn describe_missing(rows: &[&Row<'_>], total: usize) -> String {
    let mut reasons: Vec<&str> = rows.iter().filter_map(|row| row.judged.reason()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let why = match reasons.as_slice() {
        [one] => format!(": {}", one.trim_end_matches('.')),
        _ => format!(" for {} reasons", reasons.len()),
    };
    let are = if rows.len() == 1 { "is" } else { "are" };
    let which = if rows.len() == total { name_all_results(total) } else { rows.len().to_string() };
    format!("{which} {are} missing{why}")
}

/// Names all results: `The result`, `Both results`, `All 3 results`.
fn name_all_results(total: usize) -> String {
    match total {
        1 => "The result".to_owned(),
        2 => "Both results".to_owned(),
        more => format!("All {more} results"),
    }
}
