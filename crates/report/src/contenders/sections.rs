//! Comparison of contenders as sections: who they are, how they differ, ratios, results, failures.
//!
//! All formats show the same tables. Contenders are sorted by what their data survives.

use model::system::AccessWay;
use model::units::three_digits;
use stats::Rate;

use super::along_factor::FactorSeries;
use super::cost::Cost;
use super::work::{BaselineRatio, Work};
use super::{Contender, Contenders, access_paths, durability};
use crate::document::{Block, Cell, Column, Role, Section, Table, TableRow};
use crate::humanize;
use crate::table::NOT_APPLICABLE;
use crate::table::row::Row;

/// Maximum number of passes side by side in a table of ratios.
const PASSES_MAX: usize = 5;

const SCALING: &str = "In parentheses: the ratio to the figure with the fewest clients.";

const COLDNESS: &str = "none: files are read as the previous pass left them in caches; the others \
    name what was emptied first. In parentheses: the ratio to the warm figure. Close to 1: the \
    data was not cached, or it stayed in a cache that this plan does not empty.";

const COST: &str = "client CPU: of dfsbench, including the kernel; FUSE CPU: of the program that \
    mounts it; server CPU: of the server processes. disk B/B: bytes written by the server's disks \
    (in read-only passes: read) per user byte; network B/B: bytes sent by clients and servers, \
    also to themselves. Counted during the pass only: data that wasn't synced is written later.";

/// Id of the section that answers how safe and how fast each contender is.
pub(super) const ANSWER: &str = "contenders";

/// Builds all sections.
pub(super) fn all(contest: &Contenders<'_>) -> Vec<Section> {
    let mut sections = vec![
        section(
            ANSWER,
            "Contenders",
            vec![
                Block::Lead(lead(contest)),
                Block::Table(contenders_table(contest)),
                Block::Table(ways_table(contest)),
            ],
        ),
        section("fairness", "Differences besides the system", vec![differences_block(contest)]),
    ];
    let kept = durability::tables(contest);
    if !kept.is_empty() {
        sections.push(section("what-was-kept", "What survived", kept));
    }
    let baseline = &contest.contenders[contest.baseline].name;
    let ratios = ratio_tables(contest);
    if !ratios.is_empty() {
        let heading = format!("Ratios to {baseline}");
        sections.push(section("ratios", &heading, ratios.into_iter().map(Block::Table).collect()));
    }
    let scaling = contest.scaling.iter().map(|along| along_table(contest, along, "times"));
    push_tables(&mut sections, "scaling", "More clients", scaling.collect(), SCALING);
    let coldness = contest.coldness.iter().map(|along| along_table(contest, along, "of warm"));
    push_tables(&mut sections, "cold-and-warm", "Cold against warm", coldness.collect(), COLDNESS);
    let figures = contest.works.iter().map(|work| figures_table(contest, work)).collect();
    push_tables(&mut sections, "figures-of-contenders", "Figures of contenders", figures, "");
    let costs = contest.works.iter().map(|work| cost_table(contest, work)).collect();
    push_tables(&mut sections, "cost", "Cost", costs, COST);
    let failures = failures(contest);
    if !failures.is_empty() {
        sections.push(section("not-available", "Not available", vec![Block::List(failures)]));
    }
    sections
}

/// Adds a section of tables with an explanation below the last one, unless there are no tables.
fn push_tables(
    sections: &mut Vec<Section>,
    id: &'static str,
    heading: &str,
    mut tables: Vec<Table>,
    reading: &str,
) {
    let Some(last) = tables.last_mut() else { return };
    if !reading.is_empty() {
        last.reading = vec![reading.to_owned()];
    }
    sections.push(section(id, heading, tables.into_iter().map(Block::Table).collect()));
}

fn section(id: &'static str, heading: &str, blocks: Vec<Block>) -> Section {
    Section { id, heading: heading.to_owned(), blocks, ..Section::default() }
}

/// Describes what each contender preserves, the one whose data survives most first.
fn lead(contest: &Contenders<'_>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for number in contest.sort_by_tier() {
        let contender = &contest.contenders[number];
        let words = durability::tier_words(contender);
        let name = contender.name.clone();
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) => names.push(name),
            None => groups.push((words, vec![name])),
        }
    }
    let sentence =
        |(words, names): &(String, Vec<String>)| format!("{words}: {}.", humanize::listed(names));
    groups.iter().map(sentence).collect()
}

fn contenders_table(contest: &Contenders<'_>) -> Table {
    let mut rows = Vec::new();
    for number in contest.sort_by_tier() {
        let contender = &contest.contenders[number];
        let cells = vec![
            Cell::text(&contender.name),
            Cell::text(describe_version(contender)),
            Cell::text(describe_promises(contender)),
            Cell::text(contender.tier.name()),
            Cell::text(dashed(contest.promise_words(number))),
            Cell::text(dashed(&contender.documented)),
        ];
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    let mut columns = Column::all(&[
        ("contender", Role::Factor),
        ("version", Role::Words),
        ("promise requested", Role::Words),
        ("tier measured", Role::Words),
        ("relative to the baseline", Role::Words),
        ("documented promise", Role::Prose),
    ]);
    for (column, width) in columns.iter_mut().zip([20, 16, 0, 0, 0, 24]) {
        column.width_max = width;
    }
    let reading = vec![
        "promise requested: the durability of data in the runs; if the durability of created files \
         differs, it is listed below. tier measured: which of the tested events that promise \
         survived (dfsbench durability). Figures of different tiers must not be ranked."
            .to_owned(),
    ];
    Table { columns, rows, reading, ..Table::default() }
}

/// Builds the table of ways of access. If the site set up a way, nothing is known about the others.
fn ways_table(contest: &Contenders<'_>) -> Table {
    let mut columns = vec![Column::new("contender", Role::Factor)];
    columns.extend(
        AccessWay::ALL.iter().map(|way| Column::new(access_paths::heading(*way), Role::Words)),
    );
    let mut rows = Vec::new();
    for number in contest.sort_by_tier() {
        let contender = &contest.contenders[number];
        let mut cells = vec![Cell::text(&contender.name)];
        cells.extend(contender.ways.iter().map(|way| Cell::text(way.name())));
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    let reading = "used: in these runs; available: also offered by the recipe (`access` in a \
        target). Re-exported: the kernel's NFS server on its host exports a mount of it.";
    let caption = "Ways to access it".to_owned();
    Table { caption, columns, rows, reading: vec![reading.to_owned()], ..Table::default() }
}

fn describe_version(contender: &Contender) -> String {
    let version = dashed(&contender.version);
    if contender.not_tried.is_empty() {
        version.to_owned()
    } else {
        format!("{version} (not tried by the authors)")
    }
}

fn describe_promises(contender: &Contender) -> String {
    let names: Vec<_> = contender.promises.iter().map(|promise| promise.name()).collect();
    names.join(", ")
}

fn dashed(text: &str) -> &str {
    if text.is_empty() { NOT_APPLICABLE } else { text }
}

fn differences_block(contest: &Contenders<'_>) -> Block {
    if contest.differences.is_empty() {
        return Block::Paragraph("None: all settings and access ways are equal.".to_owned());
    }
    let mut columns = vec![Column::new("what differs", Role::Words)];
    for contender in &contest.contenders {
        let mut column = Column::new(contender.name.clone(), Role::Words);
        column.width_max = 24;
        columns.push(column);
    }
    let mut rows = Vec::new();
    for difference in &contest.differences {
        let mut cells = vec![Cell::text(&difference.what)];
        cells.extend(difference.shown().into_iter().map(|value| Cell::text(dashed(&value))));
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    let reading = vec!["Each of these may explain a ratio just as well as the system.".to_owned()];
    Block::Table(Table { columns, rows, reading, ..Table::default() })
}

/// Builds the matrices of system and work: one for each combination of the other factors.
fn ratio_tables(contest: &Contenders<'_>) -> Vec<Table> {
    let mut tables = Vec::new();
    let mut done: Vec<&str> = Vec::new();
    for work in &contest.works {
        if done.contains(&work.factors.as_str()) {
            continue;
        }
        done.push(&work.factors);
        let mut works: Vec<&Work<'_>> = Vec::new();
        for other in &contest.works {
            if other.factors == work.factors {
                works.push(other);
            }
        }
        tables.extend(works.chunks(PASSES_MAX).map(|works| ratio_table(contest, works)));
    }
    if let Some(last) = tables.last_mut() {
        last.reading = vec![
            "Speed relative to the baseline (medians; for commands, the baseline's time divided by \
             its own). ~: the 95 % intervals overlap, or there are fewer than three trials, so the \
             difference may be noise. x: a figure that must not be quoted."
                .to_owned(),
        ];
    }
    tables
}

fn ratio_table(contest: &Contenders<'_>, works: &[&Work<'_>]) -> Table {
    let mut columns =
        vec![Column::new("contender", Role::Factor), Column::new("promise", Role::Words)];
    columns[0].width_max = 24;
    for work in works {
        columns.push(Column::new(work.pass.clone(), Role::Number));
    }
    let mut rows = Vec::new();
    for number in contest.sort_by_tier() {
        let mut cells = vec![
            Cell::text(&contest.contenders[number].name),
            Cell::text(dashed(contest.promise_words(number))),
        ];
        for work in works {
            cells.push(Cell::text(ratio_text(work, number, contest.baseline)));
        }
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    Table { caption: works[0].factors.clone(), columns, rows, ..Table::default() }
}

/// Formats a ratio with its reservations: `1.52`, `~1.02`, `x 3.1`, `failed`.
fn ratio_text(work: &Work<'_>, number: usize, baseline: usize) -> String {
    match work.compare_to_baseline(number, baseline) {
        BaselineRatio::Baseline => "1".to_owned(),
        BaselineRatio::Ratio { ratio, is_apart, counts } => {
            let sign = match (counts, is_apart) {
                (false, _) => "x ",
                (true, false) => "~",
                (true, true) => "",
            };
            format!("{sign}{}", three_digits(ratio))
        }
        BaselineRatio::Missing => match work.rows[number] {
            Some(row) if !row.judged.failures.is_empty() => "failed".to_owned(),
            _ => NOT_APPLICABLE.to_owned(),
        },
    }
}

fn figures_table(contest: &Contenders<'_>, work: &Work<'_>) -> Table {
    let mut rows = Vec::new();
    for number in contest.sort_by_tier() {
        let Some(row) = work.rows[number] else { continue };
        let mut cells = vec![
            Cell::text(&contest.contenders[number].name),
            Cell::text(contest.contenders[number].tier.name()),
        ];
        match &row.judged.rate {
            None => cells.push(Cell::Reason(row.missing(), 3)),
            Some(rate) => {
                cells.push(Cell::text(row.judged.shown(rate.median).to_string()));
                cells.push(Cell::text(interval(row)));
                cells.push(Cell::text(humanize::trials(&row.judged)));
            }
        }
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    let mut columns = Column::all(&[
        ("contender", Role::Factor),
        ("tier", Role::Words),
        ("median", Role::Rate),
        ("95 % interval", Role::Words),
        ("n", Role::Number),
    ]);
    columns[0].width_max = 24;
    Table { caption: work.name(), columns, rows, ..Table::default() }
}

/// Builds the table of one pass along a factor. Each result after the first has its ratio to the
/// first.
fn along_table(contest: &Contenders<'_>, along: &FactorSeries<'_>, ratio_words: &str) -> Table {
    let mut columns =
        vec![Column::new("contender", Role::Factor), Column::new("tier", Role::Words)];
    columns[0].width_max = 24;
    for value in &along.values {
        columns.push(Column::new(format!("{} {value}", along.factor), Role::Number));
    }
    let mut rows = Vec::new();
    for number in contest.sort_by_tier() {
        let contender = &contest.contenders[number];
        let mut cells = vec![Cell::text(&contender.name), Cell::text(contender.tier.name())];
        let first = along.median(number, 0);
        for at in 0..along.values.len() {
            let Some((row, median)) = along.median(number, at) else {
                cells.push(Cell::text(NOT_APPLICABLE));
                continue;
            };
            let mut text = row.judged.shown(median).to_string();
            if let Some((_, first)) = first
                && at > 0
                && first > 0.0
            {
                let is_time = row.judged.shown(median).is_time();
                let ratio = if is_time { first / median } else { median / first };
                text = format!("{text} ({} {ratio_words})", three_digits(ratio));
            }
            cells.push(Cell::text(text));
        }
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    Table { caption: along.name(), columns, rows, ..Table::default() }
}

fn cost_table(contest: &Contenders<'_>, work: &Work<'_>) -> Table {
    let mut rows = Vec::new();
    for number in contest.sort_by_tier() {
        let Some(row) = work.rows[number].filter(|row| row.judged.rate.is_some()) else { continue };
        let cost = Cost::from_row(row);
        let mut cells = vec![Cell::text(&contest.contenders[number].name)];
        for cpu in [cost.cpu.map(|cpu| cpu.client), cost.program_cpu, cost.server_cpu] {
            let shown = cpu.zip(cost.cpu).map(|(amount, cpu)| cpu.unit.shown(amount));
            cells.push(Cell::text(shown.unwrap_or_else(|| NOT_APPLICABLE.to_owned())));
        }
        for bytes in [cost.disk_bytes_per_byte, cost.network_bytes_per_byte] {
            let shown = bytes.map_or_else(|| NOT_APPLICABLE.to_owned(), three_digits);
            cells.push(Cell::text(shown));
        }
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    let mut columns = Column::all(&[
        ("contender", Role::Factor),
        ("client CPU", Role::Number),
        ("FUSE CPU", Role::Number),
        ("server CPU", Role::Number),
        ("disk B/B", Role::Number),
        ("network B/B", Role::Number),
    ]);
    columns[0].width_max = 24;
    Table { caption: work.name(), columns, rows, ..Table::default() }
}

/// Formats the interval; a dash if there are too few trials.
fn interval(row: &Row<'_>) -> String {
    match row.judged.rate.as_ref().and_then(stats::Summary::confidence_interval) {
        Some((low, high)) => Rate::interval(row.judged.pass, low, high),
        None => NOT_APPLICABLE.to_owned(),
    }
}

/// Names each contender with missing results, and the reasons.
fn failures(contest: &Contenders<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for contender in &contest.contenders {
        lines.extend(contender.failures.iter().map(|why| format!("{}: {why}", contender.name)));
    }
    lines
}
