//! The report for a terminal: a table of at most 100 columns, and notes below it.
//!
//! Settings that vary become columns while there is room; else each run gets a line with them
//! above its rows, and the rates stand side by side once more (`pivot`). The doubts of a figure
//! stand on the line below it.

use model::{Severity, Verdict};

use crate::found::{self, FoundTable};
use crate::grid::{Align, Grid, clean, width, wrap};
use crate::notes;
use crate::pivot;
use crate::sheet::{Row, Sheet, Table};
use crate::show;

/// The width that mails, logs and small terminals show without breaking lines.
const WIDTH_MAX: usize = 100;

/// Writes the table and its notes.
pub fn render(sheet: &Sheet<'_>) -> String {
    let mut out = String::new();
    let campaign = sheet.campaign;
    push(&mut out, "", &format!("{}: {}", campaign.name, notes::title(campaign)));
    out.push('\n');
    found_out(&mut out, sheet);
    if sheet.rows.is_empty() {
        out.push_str("No run was made.\n");
    } else {
        let wide: Vec<Grid> = sheet.tables().iter().map(|t| grid(sheet, t, true)).collect();
        let fits = wide.iter().all(|grid| grid.width() <= WIDTH_MAX);
        let narrow = || sheet.tables().iter().map(|t| grid(sheet, t, false)).collect();
        let grids: Vec<Grid> = if fits { wide } else { narrow() };
        let shown: Vec<String> = grids.iter().map(|grid| grid.render(WIDTH_MAX)).collect();
        out.push_str(&shown.join("\n"));
        let side_by_side = if fits { String::new() } else { pivot::render(sheet, WIDTH_MAX) };
        if !side_by_side.is_empty() {
            out.extend(["\n", &side_by_side]);
        }
    }
    notes(&mut out, sheet);
    out
}

/// The answer to the campaign's question, where one was asked.
fn found_out(out: &mut String, sheet: &Sheet<'_>) {
    let Some(found) = found::of(sheet) else { return };
    push(out, "", found.title);
    found.sentences.iter().for_each(|sentence| push(out, "  ", sentence));
    out.push('\n');
    found.tables.iter().for_each(|table| found_table(out, table));
}

/// Writes a table of an answer.
pub(crate) fn found_table(out: &mut String, table: &FoundTable) {
    push(out, "", &table.caption);
    out.push_str(&table.grid().render(WIDTH_MAX));
    table.reading.iter().for_each(|line| push(out, "  ", line));
    out.push('\n');
}

fn grid(sheet: &Sheet<'_>, table: &Table<'_, '_>, with_settings: bool) -> Grid {
    let settings: &[&str] = if with_settings { &sheet.columns } else { &[] };
    let mut columns = vec![("target", Align::Left), ("pass", Align::Left)];
    columns.extend(settings.iter().map(|name| (*name, Align::Right)));
    columns.extend(table.figures.map(|name| (name, Align::Right)));
    let mut grid = Grid::new(&columns);
    let mut last_run = None;
    for row in &table.rows {
        let factors = sheet.factors(row);
        if !with_settings && !factors.is_empty() && last_run != Some(row.run.index) {
            last_run = Some(row.run.index);
            grid.title(&format!("run {}: {factors}", row.run.index + 1));
        }
        let mut leading = vec![broken(&row.run.spec.target_name), row.pass_name()];
        if with_settings {
            leading.extend(row.values.clone());
        }
        match figures(row) {
            Some(figures) => grid.row(&[leading, figures].concat()),
            None => grid.reason(&leading, &row.missing()),
        }
        if !row.judged.caveats.is_empty() {
            grid.text(&doubts(row));
        }
    }
    grid
}

/// The cells from rate to n; `None` where there is no figure.
fn figures(row: &Row<'_>) -> Option<Vec<String>> {
    let judged = &row.judged;
    let rate = judged.rate.as_ref()?;
    if row.is_program() {
        let mut cells = show::program(judged, rate).to_vec();
        cells[0] = row.rates(rate.median).0;
        cells.push(show::trials(judged));
        return Some(cells);
    }
    let below = |first: String, second: Option<String>| match second {
        Some(second) => format!("{first}\n{second}"),
        None => first,
    };
    let [p50, p99, max] = show::times(&judged.response_time);
    let (first, second) = row.rates(rate.median);
    Some(vec![
        below(first, second),
        show::spread(rate),
        p50,
        p99,
        max,
        below(show::cpu(judged), show::server_cpu(judged)),
        show::trials(judged),
    ])
}

/// `x` marks what must not be used, `!` a doubt, `i` what only says how to read the figure.
fn doubts(row: &Row<'_>) -> String {
    let doubted = row.judged.caveats.iter().any(|c| c.code.severity() > Severity::Note);
    let mark = match row.judged.verdict {
        Verdict::Invalid => "x invalid:",
        Verdict::Degraded if doubted => "!",
        Verdict::Degraded | Verdict::Valid => "i",
    };
    format!("{mark} {}", row.codes())
}

/// Breaks a long name over several lines, or it would leave no room for the figures.
fn broken(name: &str) -> String {
    const LENGTH_MAX: usize = 16;
    let mut parts = vec![String::new()];
    for letter in name.chars().map(|c| if c == '\n' { ' ' } else { c }) {
        let part = parts.last_mut().expect("there is always a part");
        part.push(letter);
        if width(part) > LENGTH_MAX {
            part.pop();
            parts.push(letter.to_string());
        }
    }
    parts.join("\n")
}

fn notes(out: &mut String, sheet: &Sheet<'_>) {
    let campaign = sheet.campaign;
    if sheet.rows.iter().any(|row| row.judged.rate.is_some()) {
        heading(out, "How to read it");
        for line in sheet.tables().iter().flat_map(|table| &table.reading) {
            push(out, "  ", line);
        }
    }
    if !sheet.caveats.is_empty() {
        heading(out, "Caveats");
        for caveat in &sheet.caveats {
            let code = caveat.code;
            push(out, "  ", &format!("{code}: {}", code.sentence()));
            let others = notes::others(caveat.rows);
            push(out, "    ", &format!("{}: {}{others}", caveat.place, caveat.evidence));
            push(out, "    ", code.advice());
        }
    }
    let failures = notes::partial_failures(sheet);
    if !failures.is_empty() {
        heading(out, "Trials without a result");
        for line in &failures {
            push(out, "  ", line);
        }
    }
    let loads = notes::load::lines(sheet);
    if !loads.is_empty() {
        heading(out, notes::load::LOADS);
        for line in &loads {
            push(out, "  ", line);
        }
    }
    let clients = notes::clients(sheet);
    if !clients.is_empty() {
        heading(out, notes::CLIENTS);
        for line in &clients {
            push(out, "  ", line);
        }
    }
    let hosts = notes::hosts::lines(sheet);
    if !hosts.is_empty() {
        heading(out, notes::hosts::HOSTS);
        for line in &hosts {
            push(out, "  ", line);
        }
    }
    heading(out, "Conditions");
    for (name, place) in notes::targets(campaign) {
        push(out, "  ", &format!("target {name}: {place}"));
    }
    if let Some(settings) = notes::settings(sheet) {
        push(out, "  ", &format!("settings: {settings}"));
    }
    for line in notes::durability(sheet) {
        push(out, "  ", &line);
    }
    if let Some(line) = notes::load::processor(sheet) {
        push(out, "  ", &format!("processor time: {line}"));
    }
    push(out, "  ", &format!("ceiling: {}", notes::ceiling(campaign)));
    push(out, "  ", &format!("order: {}", notes::order(campaign)));
    if let Some(host) = notes::host(campaign, 2 * WIDTH_MAX) {
        push(out, "  ", &format!("host: {host}"));
    }
}

fn heading(out: &mut String, text: &str) {
    out.push('\n');
    push(out, "", text);
}

/// Adds a text, wrapped; continued lines are indented by two more columns.
fn push(out: &mut String, indent: &str, text: &str) {
    for (number, line) in wrap(&clean(text), WIDTH_MAX - indent.len() - 2).iter().enumerate() {
        let more = if number > 0 { "  " } else { "" };
        out.extend([indent, more, line, "\n"]);
    }
}
