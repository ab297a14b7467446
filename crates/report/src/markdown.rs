//! The report as GitHub Markdown: one table, then notes; for issues, wikis and mails.
//!
//! Names are escaped, so that markup and pipes in them stay what they are.
//!
//! **Source:** GitHub Flavored Markdown specification, 4.10 (tables) and 2.4 (escapes).

use std::fmt::Write as _;

use model::Verdict;

use crate::answer::{PassAnswer, answer};
use crate::found::{self, FoundTable};
use crate::hosts;
use crate::notes;
use crate::sheet::{Row, Sheet, Table};
use crate::show;

/// Writes title, answer, table and notes.
pub fn render(sheet: &Sheet<'_>) -> String {
    let campaign = sheet.campaign;
    let mut out = format!("# dfsbench: {}\n\n", escaped(&campaign.name));
    paragraph(&mut out, &notes::title(campaign));
    found_out(&mut out, sheet);
    answered(&mut out, sheet);
    if !sheet.rows.is_empty() {
        for of_kind in sheet.tables() {
            table(&mut out, sheet, &of_kind);
            out.push('\n');
            let reading: Vec<String> = of_kind.reading.iter().map(|l| (*l).to_owned()).collect();
            items(&mut out, &reading);
        }
    }
    caveats(&mut out, sheet);
    let failures = notes::partial_failures(sheet);
    if !failures.is_empty() {
        out.push_str("## Trials without a result\n\n");
        items(&mut out, &failures);
    }
    let loads = notes::load::lines(sheet);
    if !loads.is_empty() {
        let _ = writeln!(out, "## {}\n", notes::load::LOADS);
        items(&mut out, &loads);
    }
    let clients = notes::clients(sheet);
    if !clients.is_empty() {
        let _ = writeln!(out, "## {}\n", notes::CLIENTS);
        items(&mut out, &clients);
    }
    let hosts = notes::hosts::lines(sheet);
    if !hosts.is_empty() {
        let _ = writeln!(out, "## {}\n", notes::hosts::HOSTS);
        items(&mut out, &hosts);
    }
    conditions(&mut out, sheet);
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

/// The answer to the campaign's question, where one was asked.
fn found_out(out: &mut String, sheet: &Sheet<'_>) {
    let Some(found) = found::of(sheet) else { return };
    let _ = writeln!(out, "## {}\n", found.title);
    found.sentences.iter().for_each(|sentence| paragraph(out, sentence));
    found.tables.iter().for_each(|table| found_table(out, table));
}

/// Writes a table of an answer.
pub(crate) fn found_table(out: &mut String, table: &FoundTable) {
    paragraph(out, &table.caption);
    line(out, table.columns.iter().map(|(name, _)| escaped(name)));
    let rule = |number: bool| if number { "---:" } else { "---" };
    line(out, table.columns.iter().map(|(_, number)| rule(*number).to_owned()));
    for row in &table.rows {
        line(out, row.iter().map(|cell| escaped(cell)));
    }
    out.push('\n');
    items(out, &table.reading);
}

fn answered(out: &mut String, sheet: &Sheet<'_>) {
    let answer = answer(sheet);
    let line = |pass: &PassAnswer| {
        let finding = pass.finding.as_ref().map_or_else(String::new, |said| format!(" {said}"));
        format!("{}: {}.{finding}", pass.pass, pass.figures)
    };
    for sentence in &answer.lead {
        let _ = writeln!(out, "> {}", escaped(sentence));
    }
    out.push('\n');
    if !answer.passes.is_empty() {
        items(out, &answer.passes.iter().map(line).collect::<Vec<_>>());
    }
    if !answer.remarks.is_empty() {
        paragraph(out, &answer.remarks.join(" "));
    }
}

fn table(out: &mut String, sheet: &Sheet<'_>, table: &Table<'_, '_>) {
    let mut header = vec!["target", "pass"];
    header.extend(&sheet.columns);
    header.extend(table.figures);
    header.extend(["verdict", "caveats"]);
    let rule = header.iter().enumerate().map(|(column, name)| {
        let words = column < 2 || *name == "verdict" || *name == "caveats";
        if words { "---" } else { "---:" }
    });
    line(out, header.iter().map(|name| (*name).to_owned()));
    line(out, rule.map(str::to_owned));
    for row in &table.rows {
        let mut cells = vec![escaped(&row.run.spec.target_name), row.pass_name()];
        cells.extend(row.values.iter().map(|value| escaped(value)));
        cells.extend(figures(row));
        line(out, cells.into_iter());
    }
}

fn figures(row: &Row<'_>) -> Vec<String> {
    let judged = &row.judged;
    let codes = row.codes();
    let Some(rate) = &judged.rate else {
        let mut cells = vec![escaped(&row.missing())];
        cells.resize(6, "–".to_owned());
        cells.extend([show::trials(judged), Verdict::Invalid.name().to_owned(), codes]);
        return cells;
    };
    if row.is_program() {
        let mut cells = show::program(judged, rate).to_vec();
        cells[0] = row.rates(rate.median).0;
        cells.extend([show::trials(judged), judged.verdict.name().to_owned(), codes]);
        return cells;
    }
    let (mut shown, second) = row.rates(rate.median);
    if let Some(second) = second {
        shown = format!("{shown} ({second})");
    }
    let [p50, p99, max] = show::times(&judged.response_time);
    let cpu = [show::cpu(judged)].into_iter().chain(show::server_cpu(judged));
    let cpu = cpu.collect::<Vec<_>>().join(" ");
    let (spread, trials) = (show::spread(rate), show::trials(judged));
    vec![shown, spread, p50, p99, max, cpu, trials, judged.verdict.name().to_owned(), codes]
}

fn caveats(out: &mut String, sheet: &Sheet<'_>) {
    if sheet.caveats.is_empty() {
        return;
    }
    out.push_str("## Caveats\n\n");
    let shown = sheet.caveats.iter().map(|caveat| {
        let code = caveat.code;
        format!(
            "{code}: {} {}: {}{}. {}",
            code.sentence(),
            caveat.place,
            caveat.evidence.trim_end_matches('.'),
            notes::others(caveat.rows),
            code.advice()
        )
    });
    items(out, &shown.collect::<Vec<_>>());
}

fn conditions(out: &mut String, sheet: &Sheet<'_>) {
    let campaign = sheet.campaign;
    out.push_str("## Conditions\n\n");
    let mut lines: Vec<String> = notes::targets(campaign)
        .into_iter()
        .map(|(name, place)| format!("target {name}: {place}"))
        .collect();
    lines.extend(notes::settings(sheet).map(|settings| format!("settings: {settings}")));
    lines.extend(notes::durability(sheet));
    lines.extend(notes::load::processor(sheet).map(|busy| format!("processor time: {busy}")));
    lines.push(format!("ceiling: {}", notes::ceiling(campaign)));
    lines.push(format!("order: {}", notes::order(campaign)));
    lines.extend(notes::host(campaign, usize::MAX).map(|host| format!("host: {host}")));
    let hosts = hosts::in_force(campaign);
    lines.extend(hosts.iter().map(|host| format!("in force on {}: {}", host.host, host.line())));
    lines.push(format!("command: {}", campaign.command));
    items(out, &lines);
}

/// Writes a line of a table.
pub fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn paragraph(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}\n", escaped(text));
}

fn items(out: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(out, "- {}", escaped(line));
    }
    out.push('\n');
}

/// Puts a backslash before whatever Markdown or HTML would interpret; an underscore within a
/// word stays, as GitHub leaves it alone.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut last = ' ';
    while let Some(c) = letters.next() {
        let within = last.is_alphanumeric() && letters.peek().is_some_and(|c| c.is_alphanumeric());
        match c {
            '_' if within => out.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' => {
                out.extend(['\\', c]);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
        last = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(escaped("<i>|a_b`\n_[x]"), "\\<i\\>\\|a_b\\` \\_\\[x\\]");
    }
}
