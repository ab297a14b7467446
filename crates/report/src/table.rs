//! The report for a terminal: a table of at most 100 columns, and notes below it.
//!
//! Settings that vary become columns while there is room; else each run gets a line with them
//! above its rows. The doubts of a figure stand on the line below it.

use model::{Severity, Verdict};

use crate::grid::{Align, Grid, clean, wrap};
use crate::notes;
use crate::sheet::{Row, Sheet};
use crate::show;

/// The width that mails, logs and small terminals show without breaking lines.
const WIDTH_MAX: usize = 100;

/// Writes the table and its notes.
pub fn render(sheet: &Sheet<'_>) -> String {
    let mut out = String::new();
    push(&mut out, "", &notes::title(sheet.campaign));
    out.push('\n');
    if sheet.rows.is_empty() {
        out.push_str("No run was made.\n");
    } else {
        let wide = grid(sheet, true);
        let grid = if wide.width() <= WIDTH_MAX { wide } else { grid(sheet, false) };
        out.push_str(&grid.render(WIDTH_MAX));
    }
    notes(&mut out, sheet);
    out
}

fn grid(sheet: &Sheet<'_>, with_settings: bool) -> Grid {
    let settings: &[&str] = if with_settings { &sheet.columns } else { &[] };
    let mut columns = vec![("target", Align::Left), ("pass", Align::Left)];
    columns.extend(settings.iter().map(|name| (*name, Align::Right)));
    columns.extend(["rate", "±95 %", "p50", "p99", "max", "CPU", "n"].map(|c| (c, Align::Right)));
    let mut grid = Grid::new(&columns);
    let mut last_run = None;
    for row in &sheet.rows {
        if !with_settings && last_run != Some(row.run.index) {
            last_run = Some(row.run.index);
            grid.text(&format!("run {}: {}", row.run.index + 1, sheet.factors(row)));
        }
        let mut leading = vec![short(&row.run.spec.target_name), row.pass_name()];
        if with_settings {
            leading.extend(row.values.clone());
        }
        match figures(row) {
            Some(figures) => grid.row([leading, figures].concat()),
            None => grid.reason(&leading, &format!("failed: {}", reason(row))),
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
    let mut shown = judged.shown(rate.median).to_string();
    if let Some(second) = show::second_rate(judged) {
        shown = format!("{shown}\n{second}");
    }
    let [p50, p99, max] = show::times(&judged.response_time);
    Some(vec![
        shown,
        show::spread(rate),
        p50,
        p99,
        max,
        judged.cpu.as_ref().map_or_else(|| "–".to_owned(), show::cpu),
        show::trials(judged),
    ])
}

fn reason<'a>(row: &'a Row<'_>) -> &'a str {
    row.judged.reason().unwrap_or("no figure")
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

/// Long names are cut, or they would leave no room for the figures.
fn short(name: &str) -> String {
    const LENGTH_MAX: usize = 24;
    if name.chars().count() <= LENGTH_MAX {
        return name.replace('\n', " ");
    }
    let kept: String = name.chars().take(LENGTH_MAX - 1).collect();
    format!("{}…", kept.replace('\n', " "))
}

fn notes(out: &mut String, sheet: &Sheet<'_>) {
    let campaign = sheet.campaign;
    if !sheet.rows.is_empty() {
        heading(out, "How to read it");
        notes::READING.iter().for_each(|line| push(out, "  ", line));
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
        failures.iter().for_each(|line| push(out, "  ", line));
    }
    heading(out, "Conditions");
    for (name, place) in notes::targets(campaign) {
        push(out, "  ", &format!("target {name}: {place}"));
    }
    if let Some(settings) = notes::settings(sheet) {
        push(out, "  ", &format!("settings: {settings}"));
    }
    if let Some(durability) = notes::durability(campaign) {
        push(out, "  ", &durability);
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
