//! Parses the conclusions that the report tests against the data: each `[[conclusion]]` of a plan.
//!
//! Checks that the levels of a factor are valid for its setting, but not that any run has them:
//! flags may leave levels out, and the report then says that the data can't tell.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::setting::Setting;
use model::{Conclusion, Expectation, Pass};

use crate::parse::document::{Field, Table};
use crate::parse::section::Section;
use crate::syntax::error::{Fault, PlanError, value_or};
use crate::syntax::limits::SENTENCE_LENGTH_MAX;
use crate::syntax::suggestion::{known_word, unknown_word};
use crate::syntax::text::{list_of, quoted};

/// Parses every `[[conclusion]]`, in the order of the text.
pub(crate) fn read_conclusions(root: &Table<'_>) -> Result<Vec<Conclusion>, PlanError> {
    let mut conclusions = Vec::new();
    if let Some(field) = root.field("conclusion") {
        for table in field.tables(Section::Conclusion)? {
            conclusions.push(read_one(&table)?);
        }
    }
    Ok(conclusions)
}

fn read_one(table: &Table<'_>) -> Result<Conclusion, PlanError> {
    let text = table.required("text", "for example `text = \"Larger transfers are faster.\"`")?;
    let text = read_sentence(&text)?;
    let factor = table.read("factor", read_factor)?.unwrap_or_default();
    let expect = table.read("expect", |field| field.parse("\"faster\"", expectation_named))?;
    let is_ranking = expect.is_some_and(|expect| expect.value == Expectation::Ranking);
    if is_ranking {
        return read_ranking(table, text);
    }
    if factor.is_empty() {
        refuse_without_factor(table)?;
        let why = table.read("why", read_sentence)?.unwrap_or_default();
        return Ok(Conclusion { text, why, ..Conclusion::default() });
    }
    if let Some(field) = table.field("why") {
        let fault = Fault::new("cannot be combined with `factor`, whose comparison is the reason");
        return Err(field.error(fault.hint("remove one of them")));
    }
    table.required("expect", "for example `expect = \"faster\"`")?;
    let from = table.read("from", |field| read_level(&factor, field))?.unwrap_or_default();
    let to = table.read("to", |field| read_level(&factor, field))?.unwrap_or_default();
    if !to.is_empty() && to == from {
        let field = table.required("to", "a level of the factor")?;
        return Err(field.error(Fault::new(format!("`{to}` would be compared with itself"))));
    }
    Ok(Conclusion {
        text,
        from,
        to,
        passes: table.read_each("passes", read_pass)?.unwrap_or_default(),
        only: table.read("where", read_conditions)?.unwrap_or_default(),
        expect: value_or(expect, Expectation::Faster),
        factor,
        why: String::new(),
    })
}

/// Parses a question that is answered by ranking all factors.
fn read_ranking(table: &Table<'_>, text: String) -> Result<Conclusion, PlanError> {
    if let Some(field) = table.first_field(&["factor", "from", "to", "why"]) {
        let fault = Fault::new("a ranking always covers all factors").hint("leave it out");
        return Err(field.error(fault));
    }
    Ok(Conclusion {
        text,
        passes: table.read_each("passes", read_pass)?.unwrap_or_default(),
        only: table.read("where", read_conditions)?.unwrap_or_default(),
        expect: Expectation::Ranking,
        ..Conclusion::default()
    })
}

/// Refuses keys about a factor's comparison if no factor is named.
fn refuse_without_factor(table: &Table<'_>) -> Result<(), PlanError> {
    match table.first_field(&["from", "to", "passes", "where", "expect"]) {
        Some(field) => Err(field.error(
            Fault::new("no `factor` is named").hint("for example `factor = \"transfer_size\"`"),
        )),
        None => Ok(()),
    }
}

fn expectation_named(name: &str) -> Result<Expectation, Fault> {
    known_word(Expectation::from_name(name), "expectation", name, Expectation::NAMES)
}

fn read_sentence(field: &Field<'_>) -> Result<String, PlanError> {
    let text = field.text("\"Larger transfers are faster.\"")?.value;
    let length = text.chars().count();
    let fits = (1..=SENTENCE_LENGTH_MAX).contains(&length);
    if !fits || text.trim().is_empty() || text.contains(char::is_control) {
        let what = format!("must be 1 to {SENTENCE_LENGTH_MAX} characters on one line");
        return Err(field.error(Fault::new(what).hint("it is shown in a table")));
    }
    Ok(text.to_owned())
}

fn read_factor(field: &Field<'_>) -> Result<String, PlanError> {
    let name = field.text("\"transfer_size\"")?.value;
    match check_factor(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(fault) => Err(field.error(fault)),
    }
}

fn check_factor(name: &str) -> Result<(), Fault> {
    if setting_named(name).is_some() || Conclusion::is_property(name) {
        return Ok(());
    }
    let mut known = Setting::ALL.map(Setting::key).to_vec();
    known.extend(Conclusion::IDENTITIES);
    Err(unknown_word("factor", name, &known))
}

fn setting_named(name: &str) -> Option<Setting> {
    Setting::ALL.into_iter().find(|setting| setting.key() == name)
}

/// Parses a level as it is written; the level of a setting must be valid for it.
fn read_level(factor: &str, field: &Field<'_>) -> Result<String, PlanError> {
    let text = match field.as_text() {
        Some(text) => text.to_owned(),
        None if field.is_numeric() || field.as_flag().is_some() => field.shown(),
        None => return Err(field.wrong_type("a level", "\"32KiB\"")),
    };
    if text.trim().is_empty() {
        return Err(field.error(Fault::new("it is empty").hint("leave it out for the default")));
    }
    if let Some(setting) = setting_named(factor)
        && let Err(fault) = crate::parse::level::read(setting, &text)
    {
        return Err(field.error(fault));
    }
    Ok(text)
}

/// Parses the name of a pass, with or without its workload in front.
fn read_pass(field: &Field<'_>) -> Result<String, PlanError> {
    let text = field.text("\"read\"")?;
    Ok(field.accept(check_pass(text.value))?.value.to_owned())
}

/// Returns the name if it is that of a pass, with or without its workload, or of a workload.
pub(crate) fn check_pass(text: &str) -> Result<&str, Fault> {
    let name = text.rsplit(' ').next().unwrap_or(text);
    let names: Vec<&str> = Pass::ALL.iter().map(|pass| pass.name()).collect();
    if names.contains(&name) || model::Workload::NAMES.contains(&text) {
        return Ok(text);
    }
    Err(unknown_word("pass", name, &names))
}

pub(crate) fn read_conditions(
    field: &Field<'_>,
) -> Result<BTreeMap<String, Vec<String>>, PlanError> {
    let mut conditions = BTreeMap::new();
    for entry in field.entries("for example `where = { workers = 1 }`")? {
        if let Err(fault) = check_factor(entry.key()) {
            return Err(entry.error(fault));
        }
        let levels = entry
            .items()?
            .into_iter()
            .map(|item| read_level(entry.key(), &item))
            .collect::<Result<Vec<_>, _>>()?;
        conditions.insert(entry.key().to_owned(), levels);
    }
    Ok(conditions)
}

/// Writes conclusions in the form of a plan; the report parses them back from this form.
pub(crate) fn write(out: &mut String, conclusions: &[Conclusion]) {
    for one in conclusions {
        // Writing to a String can't fail.
        let _ = writeln!(out, "\n[[conclusion]]\ntext = {}", quoted(&one.text));
        for (key, value) in [("factor", &one.factor), ("from", &one.from), ("to", &one.to)] {
            if !value.is_empty() {
                let _ = writeln!(out, "{key} = {}", quoted(value));
            }
        }
        if !one.passes.is_empty() {
            let _ = writeln!(out, "passes = {}", list_of(&one.passes));
        }
        write_conditions(out, &one.only);
        if !one.factor.is_empty() || one.expect == Expectation::Ranking {
            let _ = writeln!(out, "expect = {}", quoted(one.expect.name()));
        }
        if !one.why.is_empty() {
            let _ = writeln!(out, "why = {}", quoted(&one.why));
        }
    }
}

/// Writes the conditions that runs must meet.
pub(crate) fn write_conditions(out: &mut String, only: &BTreeMap<String, Vec<String>>) {
    if !only.is_empty() {
        let written = |(name, levels): (&String, &Vec<String>)| {
            format!("{} = {}", quoted(name), list_of(levels))
        };
        let conditions: Vec<String> = only.iter().map(written).collect();
        let _ = writeln!(out, "where = {{ {} }}", conditions.join(", "));
    }
}
