//! One page of many bundles: a table of the bundles and one of all their results.

use model::{Fact, Verdict};

use super::render::{outcome, sentence};
use super::{BundleContent, Verification};
use crate::document::{Block, Cell, Column, Document, Role, Section, Table, TableRow};
use crate::document::{Term, TermKind};
use crate::humanize::{self, counted};
use crate::table::{Row, Sheet};
use crate::text_grid::clean;

/// Below the page.
const FOOTER: &str = "Written by dfsbench verify from the bundles; the same bundles and rules always \
                      give the same page. Hashes show that a bundle is as it was packed, not who \
                      packed it.";

/// Renders one self-contained page of verified bundles.
pub fn index_page(verifications: &[Verification<'_>]) -> String {
    let mut rows = Vec::new();
    // The number of results of each bundle.
    let mut counts = Vec::new();
    for verification in verifications {
        let before = rows.len();
        if let Ok(content) = &verification.bundle.content {
            let sheet = Sheet::from_campaign(content.campaign);
            rows.extend(
                sheet.rows.iter().map(|row| result_row(verification, content, &sheet, row)),
            );
        }
        counts.push(rows.len() - before);
    }
    let valid = verifications.iter().filter(|verification| verification.is_valid()).count();
    let rules = verifications.first().map_or("standard", |verification| &verification.rules);
    let mut document = Document {
        tool: "dfsbench verify",
        title: format!("{} from {}", counted(rows.len(), "result"), counted_bundles(verifications)),
        about: vec![format!(
            "{valid} of {} valid by the rules \"{}\".",
            counted(verifications.len(), "bundle"),
            clean(rules)
        )],
        parts: Vec::new(),
    };
    document.push(Section {
        id: "figures",
        heading: "Results".to_owned(),
        is_answer: true,
        blocks: vec![Block::Table(results_table(rows))],
    });
    document.push(Section {
        id: "bundles",
        heading: "Bundles".to_owned(),
        is_answer: false,
        blocks: vec![Block::Table(bundles_table(verifications, &counts))],
    });
    let terms = rule_terms(verifications);
    if !terms.is_empty() {
        document.push(Section {
            id: "rules",
            heading: "Rules".to_owned(),
            is_answer: false,
            blocks: vec![Block::Terms(TermKind::Conditions, terms)],
        });
    }
    document.page(FOOTER)
}

fn counted_bundles(verifications: &[Verification<'_>]) -> String {
    counted(verifications.len(), "bundle")
}

fn results_table(rows: Vec<TableRow>) -> Table {
    let columns = [
        ("system", Role::Factor),
        ("pass", Role::Factor),
        ("settings", Role::Words),
        ("rate", Role::Rate),
        ("p99", Role::Number),
        ("trials", Role::Number),
        ("verdict", Role::Verdict),
        ("caveats", Role::Words),
        ("bundle", Role::Factor),
        ("rules", Role::Factor),
        ("host", Role::Factor),
        ("measured", Role::Factor),
        ("dfsbench", Role::Factor),
    ];
    Table {
        id: "bundle-results".to_owned(),
        caption: "All results of all bundles; a heading sorts by its column.".to_owned(),
        columns: Column::all(&columns),
        rows,
        reading: vec![
            "rate: the median of the trials that count; bytes, ops or the time of a command."
                .to_owned(),
            "p99: the response time that 1 % of the ops exceeded.".to_owned(),
            "verdict: of this result, by its caveats. rules: of the whole bundle.".to_owned(),
            "measured: the day in UTC on which the campaign started.".to_owned(),
        ],
        ..Table::default()
    }
}

fn result_row(
    verification: &Verification<'_>,
    content: &BundleContent<'_>,
    sheet: &Sheet<'_>,
    row: &Row<'_>,
) -> TableRow {
    let campaign = content.campaign;
    let judged = &row.judged;
    let rate = match &judged.rate {
        Some(rate) => judged.shown(rate.median).to_string(),
        None => row.missing(),
    };
    let [_, p99, _] = humanize::times(&judged.response_time);
    let cells = [
        row.run.spec.target_name.clone(),
        row.pass_name(),
        sheet.factors(row),
        rate,
        p99,
        humanize::trials(judged),
    ];
    let after = [
        row.codes(),
        verification.bundle.name.clone(),
        verification.word().to_owned(),
        host_name(&campaign.facts),
        date(campaign.started_unix_ms),
        campaign.tool_version.clone(),
    ];
    let mut all: Vec<Cell> = cells.iter().map(|text| text_cell(text)).collect();
    all.push(Cell::Verdict(judged.verdict));
    all.extend(after.iter().map(|text| text_cell(text)));
    TableRow { cells: all, ..TableRow::default() }
}

fn text_cell(text: &str) -> Cell {
    Cell::text(clean(text))
}

/// Formats a day in UTC: `2026-11-29`.
fn date(unix_ms: u64) -> String {
    humanize::utc(unix_ms).chars().take("2026-11-29".len()).collect()
}

/// Returns the name of the host that ran the campaign; a dash if it is not recorded.
fn host_name(facts: &[Fact]) -> String {
    let name = facts.iter().find(|fact| fact.scope == "host" && fact.name == "host name");
    name.map_or_else(|| "–".to_owned(), |fact| fact.value.clone())
}

fn bundles_table(verifications: &[Verification<'_>], counts: &[usize]) -> Table {
    let columns = [
        ("bundle", Role::Words),
        ("rules", Role::Verdict),
        ("campaign", Role::Words),
        ("results", Role::Number),
        ("rules that are not met", Role::Prose),
        ("SHA-256", Role::Prose),
    ];
    let mut rows = Vec::new();
    for (verification, count) in std::iter::zip(verifications, counts) {
        let content = verification.bundle.content.as_ref().ok();
        let unmet: Vec<String> = verification
            .results
            .iter()
            .filter(|result| !result.is_met())
            .map(|result| {
                let first = sentence(&result.findings[0]);
                let more = match result.findings.len() {
                    1 => String::new(),
                    count => format!(" ({} more)", count - 1),
                };
                format!("{} {}: {first}{more}", result.rule.id(), outcome(result))
            })
            .collect();
        let state = if verification.is_valid() { Verdict::Valid } else { Verdict::Invalid };
        let texts = [
            content.map_or_else(|| "–".to_owned(), |content| content.campaign.name.clone()),
            count.to_string(),
            unmet.join("; "),
            content.map_or_else(|| "–".to_owned(), |content| content.sha256.clone()),
        ];
        let mut cells = vec![text_cell(&verification.bundle.name), Cell::Verdict(state)];
        cells.extend(texts.iter().map(|text| text_cell(text)));
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    Table {
        id: "bundle-list".to_owned(),
        caption: "All bundles, and the rules that they don't meet.".to_owned(),
        columns: Column::all(&columns),
        rows,
        ..Table::default()
    }
}

/// Explains the rules that were checked.
fn rule_terms(verifications: &[Verification<'_>]) -> Vec<Term> {
    let most = verifications.iter().max_by_key(|verification| verification.results.len());
    let mut terms = Vec::new();
    for result in most.iter().flat_map(|verification| &verification.results) {
        let line =
            format!("{} ({}): {}", result.title, result.severity.name(), result.rule.reason());
        terms.push(Term::new(result.rule.id(), line));
    }
    terms
}
