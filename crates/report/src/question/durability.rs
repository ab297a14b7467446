//! Writes the results of `dfsbench durability` as text, Markdown, CSV and JSON.
//!
//! [`render_durability`] is the entry point. Reports and pages of stored campaigns share its
//! [`sentences`] and [`tables`], and a page adds a chart of each event.
//!
//! The first table is the ladder of durability levels with the tier of each. The second has a row
//! for each event and level, and the third breaks down losses by kind of work. CSV and JSON break
//! down every row by kind of work.

use std::collections::BTreeMap;

use maud::html;
use model::csv::quoted;
use model::durability::{DurabilityReport, DurabilityRow, MeasuredEvent, Tier};
use model::units::{Nanos, Size};
use model::{Campaign, Durability};
use stats::durability::stronger_loser;

use super::QuestionAnswer;
use crate::chart::{self, ChartRow, ChartText, Picture, STRIP, Tick, describe_strips, panel};
use crate::document::{Block, Cell, Column, Document, Form, Role, Section, Table, TableRow, text};
use crate::humanize::{listed, percent};
use crate::table::NOT_APPLICABLE;
use crate::{Format, Screen};

/// Columns of CSV.
const CSV_COLUMNS: &str = "target,event,how,promise,tier,work,is_promised,outcome,acked_ops,\
    acked_bytes,lost_ops,lost_bytes,window_ms,missing,unreadable,wrong_size,torn,zeros,\
    old_data,reordered,torn_in_flight,back_ms,unverified,crashes,last_write_crashes\n";

/// Explanation of the column `window`.
pub(crate) const WINDOW: &str = "window: age of the oldest acknowledged write that was lost.";

impl Format {
    /// Formats of the results of `dfsbench durability`.
    pub const DURABILITY: [Self; 5] =
        [Self::Table, Self::Markdown, Self::Csv, Self::Json, Self::Html];
}

/// Renders one or more durability measurements. JSON is a single object for one, and a list for
/// several.
pub fn render_durability(reports: &[DurabilityReport], format: Format, screen: Screen) -> String {
    if format == Format::Json {
        let text = match reports {
            [only] => serde_json::to_string_pretty(only),
            several => serde_json::to_string_pretty(several),
        };
        return text.unwrap_or_default() + "\n";
    }
    let mut text = String::new();
    if format == Format::Csv {
        text.push_str(CSV_COLUMNS);
    }
    for report in reports {
        if !text.is_empty() && format != Format::Csv {
            text.push('\n');
        }
        match format {
            Format::Csv => write_csv(&mut text, report),
            Format::Markdown => text.push_str(&document(report).render(Form::Markdown)),
            _ => text.push_str(&text::render(&document(report), screen.columns())),
        }
    }
    text
}

fn document(report: &DurabilityReport) -> Document {
    let mut document = Document {
        tool: "dfsbench durability",
        title: "Durability".to_owned(),
        about: vec![report.target.clone()],
        parts: Vec::new(),
    };
    let mut blocks = vec![Block::Lead(sentences(report))];
    blocks.extend(tables(report).into_iter().map(Block::Table));
    document.push(Section { id: "durability", is_answer: true, blocks, ..Section::default() });
    document
}

/// Renders the durability measurements of a campaign as CSV.
pub(crate) fn stored_csv(campaign: &Campaign) -> String {
    let mut text = CSV_COLUMNS.to_owned();
    for stored in &campaign.durability {
        write_csv(&mut text, &stored.report);
    }
    text
}

/// All tables of a measurement, starting with the one that answers it.
pub(crate) fn tables(report: &DurabilityReport) -> Vec<Table> {
    let mut tables = vec![ladder_table(report), events_table(report)];
    let lost = lost_table(report);
    if !lost.rows.is_empty() {
        tables.push(lost);
    }
    tables
}

/// Summarizes the tiers, strongest first, with one sentence for the durability levels of each tier.
pub(crate) fn sentences(report: &DurabilityReport) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut broken = Vec::new();
    for event in &report.events {
        for row in sum_by_promise(event) {
            if row.breaks_promise() {
                broken.push(format!("{} after {}", row.promise, row.event));
            }
        }
    }
    if !broken.is_empty() {
        sentences.push(format!("Promises are BROKEN: {}.", listed(&broken)));
    }
    for event in &report.events {
        if let Some(why) = &event.unverified {
            sentences.push(format!("{} COULD NOT BE VERIFIED: {why}.", event.event));
        } else if let Some(why) = event.harmless() {
            sentences.push(format!("Nothing was at risk in {}: {why}.", event.event));
        }
    }
    for tier in Tier::STRONGEST_FIRST {
        // Levels of a tier, grouped by the stronger level that lost data if that is why the tier is
        // undecided.
        let mut groups: BTreeMap<Option<Durability>, Vec<String>> = BTreeMap::new();
        for one in report.tiers.iter().filter(|one| one.tier == tier) {
            let stronger = stronger_loser(one.promise, &report.events);
            let stronger = stronger.filter(|_| tier == Tier::Undecided);
            groups.entry(stronger).or_default().push(one.promise.name().to_owned());
        }
        for (stronger, promises) in groups {
            let promises = listed(&promises);
            sentences.push(match stronger {
                Some(stronger) => format!(
                    "Tier of {promises}: undecided; {stronger} promises more but lost data, so \
                     {promises} may have survived by chance."
                ),
                None if tier == Tier::Undecided => {
                    format!("Tier of {promises}: undecided after too few crashes.")
                }
                None => format!("Tier of {promises}: {tier}."),
            });
        }
    }
    sentences
}

/// Builds a row for each durability level, strongest first, with the outcome of each event.
fn ladder_table(report: &DurabilityReport) -> Table {
    let mut columns = Column::all(&[("promise", Role::Factor), ("tier", Role::Words)]);
    let events: Vec<&MeasuredEvent> =
        report.events.iter().filter(|event| event.unverified.is_none()).collect();
    columns.extend(events.iter().map(|event| Column::new(event.event.name(), Role::Words)));
    columns.push(Column::new("acknowledged when", Role::Prose));
    let mut rows = Vec::new();
    let mut has_missed = false;
    for promise in Durability::ALL.iter().rev() {
        let tier = report.tiers.iter().find(|one| one.promise == *promise);
        let tier = tier.map_or(Tier::Unknown, |one| one.tier);
        let mut cells = vec![Cell::text(promise.name()), Cell::text(tier.name())];
        for event in &events {
            let cell = ladder_cell(event, *promise);
            has_missed |= cell.one_line().contains("missed");
            cells.push(cell);
        }
        let prefix = format!("{promise}: ");
        let how = report.promises.iter().find_map(|line| line.strip_prefix(&prefix));
        cells.push(Cell::text(how.unwrap_or(NOT_APPLICABLE)));
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    let mut reading =
        vec!["The strongest promise comes first and is never rated below a weaker one.".to_owned()];
    if has_missed {
        reading.push(MISSED.to_owned());
    }
    let caption = "The ladder of promises".to_owned();
    Table { caption, has_page_caption: true, columns, rows, reading, ..Table::default() }
}

/// Explains how reliably repeated crashes reveal a loss.
const MISSED: &str = "last write: crashes in which the last acknowledged write was made under this \
    promise, with nothing in flight. missed: probability of missing a server that loses its last \
    write in every second crash; a server that loses it in every crash is caught by the first \
    crash.";

/// Outcome of an event for the ops under a durability level, in the ladder.
fn ladder_cell(event: &MeasuredEvent, promise: Durability) -> Cell {
    let rows = sum_by_promise(event);
    let Some(row) = rows.iter().find(|row| row.promise == promise) else {
        return Cell::text(NOT_APPLICABLE);
    };
    if row.lost_ops > 0 {
        let what = if row.is_promised { "LOST" } else { "lost" };
        let kind = if row.is_promised { None } else { Some("not promised".to_owned()) };
        return Cell::two_lines(format!("{what} {} of {} ops", row.lost_ops, row.acked_ops), kind);
    }
    let mut last = None;
    if event.last_writes_wanted > 0 && row.acked_ops > 0 {
        let writes = event.last_writes_of(promise);
        last = Some(format!(
            "last write in {} of {}, missed {}",
            writes.crashes,
            event.crashes,
            percent(f64::from(writes.missed_permille) / 1_000.0)
        ));
    }
    Cell::two_lines(describe_outcome(event, row).to_owned(), last)
}

/// Adds up the kinds of work for each durability level.
pub(crate) fn sum_by_promise(event: &MeasuredEvent) -> Vec<DurabilityRow> {
    let mut sums: BTreeMap<Durability, DurabilityRow> = BTreeMap::new();
    for row in &event.rows {
        // A promise is broken only by losses in the kinds of work it covers.
        let mut row = *row;
        row.is_promised = row.breaks_promise();
        match sums.get_mut(&row.promise) {
            Some(sum) => sum.add(&row),
            None => _ = sums.insert(row.promise, row),
        }
    }
    sums.into_values().collect()
}

/// Builds a row for each event and durability level.
fn events_table(report: &DurabilityReport) -> Table {
    let mut rows = Vec::new();
    for event in &report.events {
        for row in sum_by_promise(event) {
            let mut cells = head_cells(&row);
            if event.unverified.is_some() {
                cells.push(Cell::Reason("could not be verified".to_owned(), 5));
            } else {
                cells.push(Cell::text(describe_outcome(event, &row)));
                cells.extend(loss_cells(&row));
            }
            rows.push(TableRow { cells, ..TableRow::default() });
        }
    }
    Table {
        columns: Column::all(&[
            ("event", Role::Factor),
            ("promise", Role::Factor),
            ("acknowledged", Role::Number),
            ("outcome", Role::Words),
            ("lost ops", Role::Number),
            ("lost", Role::Number),
            ("window", Role::Number),
            ("found instead", Role::Words),
        ]),
        caption: "Events".to_owned(),
        rows,
        reading: reading(report),
        ..Table::default()
    }
}

fn reading(report: &DurabilityReport) -> Vec<String> {
    let mut lines = vec![
        "acknowledged: ops acknowledged under the promise before the event; lost: those of them \
         that were missing afterwards."
            .to_owned(),
        WINDOW.to_owned(),
    ];
    for event in &report.events {
        let mut line = format!("{}: {}", event.event, event.how);
        if event.crashes > 1 {
            line = format!("{line} ({} times)", event.crashes);
        }
        if event.unverified.is_none() {
            line = format!("{line}; everything was read back {} later", Nanos(event.back_ns));
        }
        lines.push(line + ".");
    }
    lines
}

fn head_cells(row: &DurabilityRow) -> Vec<Cell> {
    vec![
        Cell::text(row.event.name()),
        Cell::text(row.promise.name()),
        Cell::text(format!("{} ops, {}", row.acked_ops, Size(row.acked_bytes))),
    ]
}

/// Names the outcome of an event for a durability level, or for one kind of work.
const fn outcome(row: &DurabilityRow) -> &'static str {
    match (row.acked_ops, row.lost_ops, row.is_promised) {
        (0, ..) => "nothing acknowledged",
        (_, 0, _) => "kept",
        (_, _, true) => "LOST",
        (_, _, false) => "lost (not promised)",
    }
}

/// Names the outcome of an event for a durability level. Data that was never at risk proves
/// nothing.
pub(crate) fn describe_outcome(event: &MeasuredEvent, row: &DurabilityRow) -> &'static str {
    match outcome(row) {
        "kept" if event.harmless().is_some() => "kept, not at risk",
        outcome => outcome,
    }
}

pub(crate) fn loss_cells(row: &DurabilityRow) -> Vec<Cell> {
    if row.lost_ops == 0 {
        let mut cells = vec![Cell::text("0"), Cell::text("0 B"), Cell::text("–")];
        cells.push(Cell::text(describe_lost_data(row)));
        return cells;
    }
    vec![
        Cell::text(row.lost_ops.to_string()),
        Cell::text(Size(row.lost_bytes).to_string()),
        Cell::text(Nanos(row.window_ns).to_string()),
        Cell::text(describe_lost_data(row)),
    ]
}

/// Lists what was found in place of lost data.
fn describe_lost_data(row: &DurabilityRow) -> String {
    let parts: Vec<_> = [
        (row.missing, "missing"),
        (row.unreadable, "unreadable"),
        (row.wrong_size, "wrong size"),
        (row.torn, "torn"),
        (row.zeros, "zeros"),
        (row.old_data, "old data back"),
        (row.reordered, "reordered"),
        (row.torn_in_flight, "torn in flight"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    if parts.is_empty() { "–".to_owned() } else { parts.join(", ") }
}

fn lost_table(report: &DurabilityReport) -> Table {
    let mut rows = Vec::new();
    for event in &report.events {
        for row in event.rows.iter().filter(|row| row.lost_ops > 0) {
            let mut cells = vec![
                Cell::text(row.event.name()),
                Cell::text(row.promise.name()),
                Cell::text(row.kind.name()),
                Cell::text(format!("{} of {}", row.lost_ops, row.acked_ops)),
            ];
            cells.extend(loss_cells(row).into_iter().skip(1));
            rows.push(TableRow { cells, ..TableRow::default() });
        }
    }
    Table {
        columns: Column::all(&[
            ("event", Role::Factor),
            ("promise", Role::Factor),
            ("work", Role::Factor),
            ("lost ops", Role::Number),
            ("lost", Role::Number),
            ("window", Role::Number),
            ("found instead", Role::Words),
        ]),
        caption: "Lost, by kind of work".to_owned(),
        rows,
        ..Table::default()
    }
}

fn write_csv(text: &mut String, report: &DurabilityReport) {
    for event in &report.events {
        for row in &event.rows {
            let mut tier = Tier::Unknown;
            for one in &report.tiers {
                if one.promise == row.promise {
                    tier = one.tier;
                }
            }
            let outcome = if event.unverified.is_some() {
                "unverified"
            } else {
                describe_outcome(event, row)
            };
            let cells = [
                quoted(&report.target),
                row.event.to_string(),
                quoted(&event.how),
                row.promise.to_string(),
                tier.to_string(),
                row.kind.to_string(),
                row.is_promised.to_string(),
                quoted(outcome),
                row.acked_ops.to_string(),
                row.acked_bytes.to_string(),
                row.lost_ops.to_string(),
                row.lost_bytes.to_string(),
                format_ms(row.window_ns),
                row.missing.to_string(),
                row.unreadable.to_string(),
                row.wrong_size.to_string(),
                row.torn.to_string(),
                row.zeros.to_string(),
                row.old_data.to_string(),
                row.reordered.to_string(),
                row.torn_in_flight.to_string(),
                format_ms(event.back_ns),
                quoted(event.unverified.as_deref().unwrap_or_default()),
                event.crashes.to_string(),
                event.last_writes_of(row.promise).crashes.to_string(),
            ];
            text.push_str(&cells.join(","));
            text.push('\n');
        }
    }
}

/// Formats a time in milliseconds with microsecond digits.
fn format_ms(ns: u64) -> String {
    let us = ns / 1_000;
    format!("{}.{:03}", us / 1_000, us % 1_000)
}

/// Answers a campaign that measured durability.
pub(super) fn answer(campaign: &Campaign) -> QuestionAnswer {
    let mut found = QuestionAnswer { title: "What survives", ..QuestionAnswer::default() };
    if campaign.durability.is_empty() {
        found.sentences.push("No event was completed, so there is no result.".to_owned());
    }
    let several = campaign.durability.len() > 1;
    let mut reports = Vec::new();
    for (number, stored) in campaign.durability.iter().enumerate() {
        let report = &stored.report;
        for sentence in sentences(report) {
            found.sentences.push(if several {
                format!("{}: {sentence}", stored.contender)
            } else {
                sentence
            });
        }
        for mut table in tables(report) {
            if several {
                table.caption = format!("{}: {}", stored.contender, table.caption);
            }
            found.tables.push(table);
        }
        for event in &report.events {
            let has_lost = event.rows.iter().any(|row| row.lost_ops > 0);
            if has_lost && event.unverified.is_none() {
                found.pictures.push(loss_picture(report, event, number));
            }
        }
        reports.push(report);
    }
    found.json = serde_json::json!(reports);
    found
}

/// Draws the share of acknowledged ops that an event destroyed under each durability level.
fn loss_picture(report: &DurabilityReport, event: &MeasuredEvent, number: usize) -> Picture {
    let mut strips = Vec::new();
    for row in sum_by_promise(event).iter().rev() {
        let share = row.lost_ops as f64 / (row.acked_ops.max(1)) as f64;
        let class = if row.is_promised { "bar worse" } else { "bar" };
        let half = STRIP / 2 - 3;
        strips.push(ChartRow {
            name: row.promise.name().to_owned(),
            value: format!("{} of {} ops lost", row.lost_ops, row.acked_ops),
            lines: vec![("factors", describe_outcome(event, row).to_owned())],
            marks: html! {
                rect class=(class) x="0%" width=(chart::percent(share * 100.0)) y={"-" (half)}
                    height=(half * 2) {}
                line.median x1="0%" x2="0%" y1={"-" (STRIP / 2)} y2=(STRIP / 2) {}
            },
        });
    }
    let ticks: Vec<Tick> =
        [0_u32, 25, 50, 75, 100].map(|at| (f64::from(at), at.to_string())).into();
    let id = format!("lost-{number}-{}", event.event);
    let caption = format!("{}: acknowledged ops that were lost, {}", event.event, report.target);
    let about = ChartText {
        id: id.clone(),
        title: caption.clone(),
        description: describe_strips(&strips),
        unit: "%",
    };
    Picture { id, caption, svg: panel(&about, &strips, &ticks), notes: Vec::new() }
}
