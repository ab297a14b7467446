//! Builds the report of a campaign as a document: answer, results, caveats and conditions.
//!
//! [`document`] is the entry point. All formats have the same sections, with two exceptions: a
//! terminal leaves out the sentences that summarize the results, and only an HTML page has pictures
//! and every trial. Columns come from `table::columns`, sentences from `answer`, `question` and
//! `notes`.

pub(crate) mod answer;
pub(crate) mod cache_sizes;
pub(crate) mod catalog;
pub(crate) mod conclusions;
pub(crate) mod experiment;
pub(crate) mod host_activity;
pub(crate) mod host_settings;
pub(crate) mod next_step;
pub(crate) mod notes;
pub(crate) mod paths;
pub(crate) mod requirements;
pub(crate) mod row_excerpt;
pub(crate) mod scaling;
pub(crate) mod trials;

use std::cell::LazyCell;
use std::collections::HashSet;

use maud::{Markup, html};
use model::{Campaign, Pass, Question, Severity, Verdict};

use crate::comparison::loads::LoadCosts;
use crate::comparison::tools::ToolComparisons;
use crate::contenders;
use crate::document::terminal::Screen;
use crate::document::text::{self, fits, narrow};
use crate::document::{
    Block, Cell, Column, Document, DocumentPart, Form, Role, Section, Table, TableRow,
};
use crate::document::{Term, TermKind};
use crate::factor_effects::FactorEffects;
use crate::humanize;
use crate::page;
use crate::question;
use crate::table::Sheet;
use crate::table::best_and_worst;
use crate::table::columns::{self, TableKind};
use crate::table::pivot;
use crate::table::row::Row;
use crate::table::title;
use answer::answer;
use experiment::Experiment;
use row_excerpt::RowExcerpt;

/// Target names longer than this are wrapped in a terminal.
const TARGET_WIDTH_MAX: usize = 16;

/// Where the settings appear in a table of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settings {
    /// One column per setting.
    InColumns,
    /// On a line above the rows of each run.
    AboveRows,
}

/// Result columns in the order in which they are dropped if the terminal is too narrow. The rate
/// and its interval always stay; the 99th percentile is dropped last.
const LEAVING: [&str; 9] = ["max RSS", "max", "CPU", "sys", "user", "p50", "n", "slowest", "p99"];

/// Maximum number of result columns to drop before the settings move above the rows.
const LEAVING_MAX: usize = 4;

/// Renders the report of a campaign for a terminal.
pub(crate) fn text(sheet: &Sheet<'_>, screen: Screen) -> String {
    text::render(&document(sheet, Form::Text, screen), screen.columns())
}

/// Builds the document of a campaign. Only terminal output is limited by `screen`; other formats
/// show everything.
pub(crate) fn document(sheet: &Sheet<'_>, form: Form, screen: Screen) -> Document {
    let campaign = sheet.campaign;
    // Shared by the answer and the pictures, since the effects of a large matrix are expensive to
    // compute.
    let effects = LazyCell::new(|| FactorEffects::from_sheet(sheet));
    let mut document = Document {
        tool: "dfsbench report",
        title: campaign.name.clone(),
        about: sheet.about(),
        parts: Vec::new(),
    };
    // A durability test has no runs that could name its target.
    if campaign.question == Question::Durability {
        document.about.extend(campaign.durability.iter().map(|kept| kept.report.target.clone()));
    }
    if form == Form::Html {
        document.title = page_title(campaign);
        if !campaign.runs.is_empty() {
            document.about.push(Experiment::from_sheet(sheet).extent);
        }
    }
    // A report has exactly one answer: the one to the campaign's question or, without a question,
    // the sentences about its results.
    let checks = requirements::check(sheet);
    // Whoever sets limits wants to know first whether they are met.
    let limits = requirements::sentence(&checks);
    let costs = LoadCosts::from_sheet(sheet);
    let tools = ToolComparisons::from_sheet(sheet);
    let has_question = push_found(&mut document, sheet, form, limits.clone());
    if !has_question && form != Form::Text {
        let lead = limits.into_iter().chain(costs.sentences()).chain(tools.sentences());
        document.push(answer_section(sheet, &effects, form, lead.collect()));
    } else if !has_question && !sheet.rows.is_empty() {
        let lead = limits.into_iter().chain(costs.sentences()).chain(tools.sentences());
        let lead = lead.chain(answer(sheet, &effects).lead).collect();
        let blocks = vec![Block::Lead(lead)];
        document.push(Section { id: "answer", is_answer: true, blocks, ..Section::default() });
    }
    if campaign.question == Question::Durability {
        push_surroundings(&mut document, sheet, form);
        return document;
    }
    document.parts.extend(requirements::section(&checks, form).map(DocumentPart::Section));
    document.parts.extend(costs.section(form).map(DocumentPart::Section));
    document.parts.extend(tools.section().map(DocumentPart::Section));
    document.parts.extend(conclusions::section::section(sheet, form).map(DocumentPart::Section));
    let contenders = contenders::report_sections(sheet);
    let has_contenders = !contenders.is_empty();
    document.parts.extend(contenders.into_iter().map(DocumentPart::Section));
    document.parts.extend(cache_sizes::section(sheet, form).map(DocumentPart::Section));
    if form == Form::Html {
        document.parts.push(DocumentPart::Page(page::before_figures(sheet, &effects)));
    }
    let excerpt = RowExcerpt::new(sheet, screen);
    document.push(figures_section(sheet, form, &excerpt, screen));
    let scaling = scaling::section(sheet, form, has_contenders);
    let more = [scaling, paths::data_servers(sheet, form), paths::section(sheet, form)];
    document.parts.extend(more.into_iter().flatten().map(DocumentPart::Section));
    if form == Form::Text && !screen.is_whole() {
        if !excerpt.is_whole {
            let factors = row_excerpt::dominant_factors(&effects);
            document.push_list("factors", "Dominant factors (share of the variance)", factors);
        }
        push_main_notes(&mut document, sheet, &excerpt);
        return document;
    }
    if form == Form::Html {
        document.parts.push(DocumentPart::Page(page::after_figures(sheet)));
    }
    push_notes(&mut document, sheet, form);
    push_surroundings(&mut document, sheet, form);
    document
}

/// Adds the conditions and, on a page, every trial and the command.
fn push_surroundings(document: &mut Document, sheet: &Sheet<'_>, form: Form) {
    let conditions = condition_section(sheet, form);
    if !conditions.blocks.is_empty() {
        document.push(conditions);
    }
    if form == Form::Html {
        document.parts.push(DocumentPart::Page(page::after_conditions(sheet)));
    }
}

/// Title of a campaign's page, with its targets and date.
fn page_title(campaign: &Campaign) -> String {
    // Targets that only measure the tool itself are left out unless there are no others.
    let runs = || campaign.runs.iter().map(|run| &run.spec);
    let kept: HashSet<&str> = runs()
        .filter(|spec| !spec.target.keeps_nothing())
        .map(|spec| spec.target_name.as_str())
        .collect();
    let mut targets = notes::targets(campaign);
    targets.retain(|(name, _)| kept.is_empty() || kept.contains(name.as_str()));
    let places: Vec<&str> = targets.iter().map(|(_, place)| place.as_str()).collect();
    title::page_title(&campaign.name, &places, &humanize::utc_minute(campaign.started_unix_ms))
}

/// Adds the answer to the campaign's question, after the sentence about limits. Returns false if
/// the campaign has no question.
fn push_found(
    document: &mut Document,
    sheet: &Sheet<'_>,
    form: Form,
    limits: Option<String>,
) -> bool {
    let Some(found) = question::answer(sheet) else { return false };
    let mut blocks = Vec::new();
    for sentence in limits.into_iter().chain(found.sentences) {
        blocks.push(Block::Paragraph(sentence));
    }
    // As with the sentences about results, say right here how far to trust the answer.
    if let Some(clean) = answer::trust(sheet) {
        blocks.push(Block::Paragraph(clean));
    }
    if form == Form::Html {
        blocks.push(Block::Page(render_tally(sheet)));
    }
    blocks.push(Block::Pictures(found.pictures));
    blocks.extend(found.tables.into_iter().map(Block::Table));
    let heading = found.title.to_owned();
    document.push(Section { id: "found", heading, is_answer: true, blocks });
    true
}

/// Builds the section with the sentences about results, after those about limits and loads.
fn answer_section(
    sheet: &Sheet<'_>,
    effects: &FactorEffects,
    form: Form,
    first: Vec<String>,
) -> Section {
    let answer = answer(sheet, effects);
    let mut terms = Vec::new();
    for pass in answer.passes {
        let mut lines = vec![format!("{}.", pass.figures)];
        lines.extend(pass.finding);
        terms.push(Term { name: pass.pass, code: None, lines });
    }
    let mut blocks = vec![Block::Lead(first.into_iter().chain(answer.lead).collect())];
    if !terms.is_empty() {
        blocks.push(Block::Terms(TermKind::Passes, terms));
    }
    if !answer.remarks.is_empty() {
        blocks.push(Block::Paragraph(answer.remarks.join(" ")));
    }
    if form == Form::Html {
        blocks.push(Block::Page(render_tally(sheet)));
    }
    // Markdown starts with the answer as a quotation, which needs no heading.
    let heading = if form == Form::Html { "The answer" } else { "" };
    Section { id: "answer", heading: heading.to_owned(), is_answer: true, blocks }
}

/// Counts the results that are valid, degraded, invalid and missing.
fn render_tally(sheet: &Sheet<'_>) -> Markup {
    let mut tally = [
        ("valid", "✓", 0, "valid"),
        ("degraded", "!", 0, "degraded"),
        ("invalid", "✕", 0, "not to be used"),
        ("invalid", "✕", 0, "without a figure"),
    ];
    for row in &sheet.rows {
        let part = match row.judged.verdict {
            _ if row.judged.rate.is_none() => 3,
            Verdict::Valid => 0,
            Verdict::Degraded => 1,
            Verdict::Invalid => 2,
        };
        tally[part].2 += 1;
    }
    html! {
        p.tally {
            @for (class, mark, count, what) in tally {
                @if count > 0 {
                    span.verdict.(class) {
                        span aria-hidden="true" { (mark) } " " (count) " " (what)
                    }
                    " "
                }
            }
        }
    }
}

/// Builds the tables of results. If a terminal is too narrow for columns of settings, these move
/// above the rows and the rates are repeated side by side.
fn figures_section(
    sheet: &Sheet<'_>,
    form: Form,
    excerpt: &RowExcerpt<'_, '_>,
    screen: Screen,
) -> Section {
    // The tables come first in text and Markdown; they need no heading there.
    let heading = if form == Form::Html { "Figures" } else { "" };
    let mut section = Section { id: "figures", heading: heading.to_owned(), ..Section::default() };
    if sheet.rows.is_empty() {
        // Markdown states this in the answer.
        if form != Form::Markdown {
            section.blocks.push(Block::Paragraph("There are no runs.".to_owned()));
        }
        return section;
    }
    let tables = match form {
        Form::Text => terminal_tables(sheet, excerpt, screen),
        Form::Markdown | Form::Html => figure_tables(sheet, &excerpt.rows, Settings::InColumns),
    };
    for table in tables {
        section.blocks.push(Block::Table(table));
    }
    section
}

/// Fits the tables into the width of the terminal.
fn terminal_tables(sheet: &Sheet<'_>, excerpt: &RowExcerpt<'_, '_>, screen: Screen) -> Vec<Table> {
    // First try one table with everything, dropping the least informative columns. If that is still
    // too wide, put the settings of each run above its rows, which leaves the whole width to the
    // results.
    let width = screen.columns();
    let mut tables = figure_tables(sheet, &excerpt.rows, Settings::InColumns);
    let mut has_room = true;
    for table in &mut tables {
        let removed = narrow(table, width);
        has_room &= fits(table, width) && removed <= LEAVING_MAX;
    }
    if !has_room {
        tables = figure_tables(sheet, &excerpt.rows, Settings::AboveRows);
        for table in &mut tables {
            narrow(table, width);
        }
        if excerpt.is_whole {
            tables.extend(pivot::tables(sheet, width));
        }
    }
    // The terminal explains the columns once, below all tables.
    for table in &mut tables {
        table.reading.clear();
    }
    tables
}

/// Builds one table for each kind of row that occurs.
fn figure_tables(sheet: &Sheet<'_>, rows: &[&Row<'_>], settings: Settings) -> Vec<Table> {
    let mut tables = Vec::new();
    for kind in TableKind::ALL {
        let rows = rows_of(rows, kind);
        if !rows.is_empty() {
            let mut table = figure_table(sheet, kind, &rows, settings);
            table.id = format!("figures-{}", tables.len());
            tables.push(table);
        }
    }
    tables
}

fn rows_of<'s, 'a>(rows: &[&'s Row<'a>], kind: TableKind) -> Vec<&'s Row<'a>> {
    let mut rows = rows.to_vec();
    rows.retain(|row| kind_of(row) == kind);
    rows
}

fn kind_of(row: &Row<'_>) -> TableKind {
    match row {
        _ if row.is_program() => TableKind::Programs,
        _ if row.judged.pass.is_of_developer() => TableKind::Tools,
        _ if row.is_timed_by_rank() => TableKind::Ranks,
        _ if row.judged.pass.moves_frames() => TableKind::Frames,
        _ if row.judged.pass == Pass::Train => TableKind::Training,
        _ => TableKind::Rates,
    }
}

fn reading_notes(rows: &[&Row<'_>], kind: TableKind) -> Vec<String> {
    let mut reading = columns::reading(kind);
    if !shows_wire(rows) {
        reading.retain(|line| !line.starts_with(columns::WIRE));
    }
    if rows.iter().any(|row| row.mark.is_some()) {
        reading.push(best_and_worst::READING.to_owned());
    }
    reading
}

/// Returns true if a pass shows what it did without the network: operations on ranges of files.
fn shows_wire(rows: &[&Row<'_>]) -> bool {
    rows.iter().any(|row| row.judged.pass.needs_data_ops() && row.judged.wire.is_some())
}

/// Heading of a setting. `rate` is renamed because tables also have a result column of that name.
fn setting_heading(name: &str) -> &str {
    if name == "rate" { "offered op/s" } else { name }
}

fn figure_table(
    sheet: &Sheet<'_>,
    kind: TableKind,
    shown: &[&Row<'_>],
    settings: Settings,
) -> Table {
    let mut columns = vec![Column::new("target", Role::Factor), Column::new("pass", Role::Factor)];
    columns[0].width_max = TARGET_WIDTH_MAX;
    if settings == Settings::InColumns {
        for name in &sheet.columns {
            columns.push(Column::new(setting_heading(name), Role::FactorNumber));
        }
    }
    for shown in columns::shown(kind) {
        columns.push(Column::new(shown.heading, shown.role));
    }
    // The column is one of the last, after a reason that may take the place of several others.
    let unused = columns.iter().rposition(|column| column.name == columns::WIRE);
    let unused = unused.filter(|_| !shows_wire(shown)).map(|at| columns.len() - at);
    if let Some(from_end) = unused {
        columns.remove(columns.len() - from_end);
    }
    Column::leave_in_order(&mut columns, &LEAVING);
    let mut rows = Vec::new();
    let mut last_run = None;
    for row in shown {
        let continues = last_run == Some(row.run.index);
        last_run = Some(row.run.index);
        let mut cells = vec![Cell::text(&row.run.spec.target_name), Cell::text(row.pass_name())];
        let mut title = String::new();
        match settings {
            Settings::InColumns => cells.extend(row.values.iter().map(Cell::text)),
            Settings::AboveRows if continues => {}
            Settings::AboveRows => {
                let factors = sheet.factors(row);
                if !factors.is_empty() {
                    title = format!("run {}: {factors}", row.run.index + 1);
                }
            }
        }
        cells.extend(columns::cells(kind, row));
        if let Some(from_end) = unused {
            cells.remove(cells.len() - from_end);
        }
        rows.push(TableRow { title, continues, cells });
    }
    let caption = match kind {
        TableKind::Rates => "All runs and passes, with caveats next to each figure.",
        TableKind::Ranks => "All times of slowest ranks, with caveats next to each figure.",
        TableKind::Training => "All trainings, with caveats next to each figure.",
        TableKind::Frames => "All streams, with caveats next to each figure.",
        TableKind::Tools => "All passes of tools, with caveats next to each figure.",
        TableKind::Programs => "All commands, with caveats next to each figure.",
    };
    Table {
        caption: caption.to_owned(),
        has_page_caption: true,
        columns,
        rows,
        reading: reading_notes(shown, kind),
        ..Table::default()
    }
}

/// Adds the notes below the main rows of a terminal: one line for each caveat and failure, and a
/// pointer to the rest of the report.
fn push_main_notes(document: &mut Document, sheet: &Sheet<'_>, excerpt: &RowExcerpt<'_, '_>) {
    document.push_list("io500", notes::io500::TITLE, notes::io500::lines(sheet));
    document.push_list("listings", notes::load::LISTINGS, notes::load::listings(sheet));
    let mut lines = Vec::new();
    for caveat in &sheet.caveats {
        // Caveats too small to affect a result are listed with the details.
        if caveat.is_minor() {
            continue;
        }
        let code = caveat.code;
        // An invalid result needs its evidence; for the others, the first clause is enough.
        let why = if caveat.severity == Severity::Invalid {
            format!("{}: {}", caveat.place, caveat.evidence)
        } else {
            let sentence = code.sentence().trim_end_matches('.');
            sentence.split([':', ';']).next().unwrap_or_default().to_owned()
        };
        lines.push(format!("{code} ({}): {why}", caveat.rows));
    }
    document.push_list("caveats", "Caveats (results that have them)", lines);
    document.push_list("failures", "Trials without a result", notes::partial_failures(sheet));
    let set_aside: Vec<String> = notes::interference::summary(sheet).into_iter().collect();
    document.push_list("set-aside", notes::interference::TITLE, set_aside);
    document.push_list("per-cpu", notes::load::PER_CPU, notes::load::per_cpu(sheet));
    let blocks = vec![Block::Paragraph(excerpt.describe_rest(sheet))];
    document.push(Section { id: "rest", blocks, ..Section::default() });
}

/// Adds the notes that qualify the results.
fn push_notes(document: &mut Document, sheet: &Sheet<'_>, form: Form) {
    if form == Form::Text && sheet.rows.iter().any(|row| row.judged.rate.is_some()) {
        let mut lines = Vec::new();
        for kind in TableKind::ALL {
            let all: Vec<&Row<'_>> = sheet.rows.iter().collect();
            let rows = rows_of(&all, kind);
            if !rows.is_empty() {
                for line in reading_notes(&rows, kind) {
                    if !lines.contains(&line) {
                        lines.push(line);
                    }
                }
            }
        }
        document.push_list("reading", "How to read it", lines);
    }
    if !sheet.caveats.is_empty() {
        document.push(caveat_section(sheet));
    }
    document.push_list("failures", "Trials without a result", notes::partial_failures(sheet));
    let set_aside = notes::interference::lines(sheet);
    document.push_list("set-aside", notes::interference::TITLE, set_aside);
    document.push_list("per-cpu", notes::load::PER_CPU, notes::load::per_cpu(sheet));
    if form == Form::Html {
        // On a page, the remaining notes are next to the response times.
        return;
    }
    document.push_list("loads", notes::load::LOADS, notes::load::lines(sheet));
    document.push_list("io500", notes::io500::TITLE, notes::io500::lines(sheet));
    document.push_list("listings", notes::load::LISTINGS, notes::load::listings(sheet));
    document.push_list("clients", notes::CLIENTS, notes::clients(sheet));
    document.push_list(
        "client-hosts",
        notes::host_balance::TITLE,
        notes::host_balance::lines(sheet),
    );
}

/// Added if a caveat is only a note in these rows but degrades others.
const MINOR: &str = " Here, its effect is smaller than the requested accuracy.";

/// Builds the section of caveats: one entry per code with its worst case, or two if the caveat is
/// only a note in some rows.
fn caveat_section(sheet: &Sheet<'_>) -> Section {
    let mut terms = Vec::new();
    for caveat in &sheet.caveats {
        let code = caveat.code;
        let others = notes::count_others(caveat.rows);
        let mut sentence = code.sentence().to_owned();
        if caveat.is_minor() {
            sentence.push_str(MINOR);
        }
        let lines = vec![
            sentence,
            format!("{}: {}{others}", caveat.place, caveat.evidence),
            caveat.advice.clone(),
        ];
        terms.push(Term { name: code.to_string(), code: Some((code, caveat.severity)), lines });
    }
    let blocks = vec![Block::Terms(TermKind::Caveats, terms)];
    Section { id: "caveats", heading: "Caveats".to_owned(), blocks, ..Section::default() }
}

/// Builds the section on conditions. Pages have tables of host settings, Markdown has one line per
/// host, and terminal output leaves them out.
fn condition_section(sheet: &Sheet<'_>, form: Form) -> Section {
    let campaign = sheet.campaign;
    let mut terms = Vec::new();
    let experiment = Experiment::from_sheet(sheet);
    if form == Form::Html {
        for (name, sentence) in &experiment.work {
            terms.push(Term::new(format!("workload {name}"), sentence));
        }
    }
    terms.extend(
        experiment.targets.iter().map(|(name, place)| Term::new(format!("target {name}"), place)),
    );
    if form == Form::Html {
        for (name, levels) in &experiment.factors {
            terms.push(Term::new(format!("varied: {name}"), levels));
        }
        terms.push(Term::new("altogether", &experiment.extent));
    } else if let Some(settings) = notes::settings(sheet) {
        terms.push(Term::new("settings", settings));
    }
    terms.extend(notes::durability(sheet));
    if let Some(busy) = notes::load::processor(sheet) {
        terms.push(Term::new("CPU time", busy));
    }
    if campaign.question != Question::Durability {
        terms.push(Term::new("ceiling", notes::ceiling(campaign)));
        terms.push(Term::new("order", notes::order(campaign)));
        if let Some(rule) = notes::interference::rule(sheet) {
            terms.push(Term::new("interference", rule));
        }
    }
    let mut tables = None;
    match form {
        Form::Text => {
            if let Some(host) = notes::host(campaign, 2 * text::WIDTH_MAX) {
                terms.push(Term::new("host", host));
            }
        }
        Form::Markdown => {
            if let Some(host) = notes::host(campaign, usize::MAX) {
                terms.push(Term::new("host", host));
            }
            for host in host_settings::effective(campaign) {
                terms.push(Term::new(format!("effective on {}", host.host), host.line()));
            }
            terms.push(Term::new("command", &campaign.command));
        }
        Form::Html => {
            let folds = html! { (page::settings(&sheet.stated)) (page::facts(campaign)) };
            tables = Some(Block::Page(folds));
        }
    }
    let mut blocks = Vec::new();
    if !terms.is_empty() {
        blocks.push(Block::Terms(TermKind::Conditions, terms));
    }
    blocks.extend(tables);
    Section { id: "conditions", heading: "Conditions".to_owned(), blocks, ..Section::default() }
}
