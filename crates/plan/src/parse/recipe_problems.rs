//! Reads the text of a recipe and finds all its problems, each with its position.
//!
//! A derived `Deserialize` is enough for recipes: they have no dfsbench settings, no flags and no
//! alternative spellings. But it stops at the first problem. So [`read`] repairs what it reports
//! (removes a wrong entry, adds a missing one) and tries again, until the recipe can be checked as
//! a whole. What a repair leads to is not reported.

use std::fmt::Write as _;
use std::ops::Range;

use model::system::{Recipe, RecipeError};
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue, Deserializer};

use crate::parse::document::{self, PlanText};
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::suggestion::unknown_word;

/// Maximum number of attempts; each removes or adds one entry.
const ATTEMPTS_MAX: usize = 1_000;

/// Values of which one is possible for each mandatory key, in the order in which they are tried.
const STAND_INS: [fn() -> DeValue<'static>; 6] = [
    || DeValue::String("".into()),
    || DeValue::String("choice".into()),
    || DeValue::String("none".into()),
    || DeValue::Integer(DeInteger::default()),
    || DeValue::Array(DeArray::new()),
    || DeValue::Table(DeTable::new()),
];

/// Part of the path of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Key(String),
    Index(usize),
}

/// A mandatory key that was missing, and the value that stands in for it.
struct StandIn {
    /// Path of the entry.
    path: Vec<Part>,
    /// Index of its value in [`STAND_INS`].
    tried: usize,
}

/// A recipe's text and what has been found in it so far.
struct Reader<'a> {
    text: &'a str,
    lines: PlanText<'a>,
    /// The text without wrong entries and with stand-ins for missing ones.
    root: Spanned<DeTable<'a>>,
    stand_ins: Vec<StandIn>,
    /// Paths of removed and added entries, formatted as in messages.
    repaired: Vec<String>,
    problems: Vec<PlanError>,
}

/// Reads a recipe.
///
/// # Errors
/// All its problems, in the order of the text.
pub(crate) fn read(text: &str) -> Result<Recipe, Vec<PlanError>> {
    let lines = PlanText::new(text);
    let written = document::parse(&lines).map_err(|error| vec![error])?;
    let root = written.clone();
    let lines = PlanText::new(text);
    let (stand_ins, repaired, problems) = (Vec::new(), Vec::new(), Vec::new());
    let mut reader = Reader { text, lines, root, stand_ins, repaired, problems };
    let recipe = reader.deserialize();
    if let Some(recipe) = &recipe {
        for problem in recipe.problems() {
            reader.add_problem(&written, problem);
        }
    }
    match recipe {
        Some(recipe) if reader.problems.is_empty() => Ok(recipe),
        _ => {
            reader.problems.sort_by_key(|problem| match problem.place {
                PlanPosition::Text { line, column } => (line, column),
                _ => (0, 0),
            });
            Err(reader.problems)
        }
    }
}

impl Reader<'_> {
    /// Returns the recipe, if all that was wrong could be repaired.
    fn deserialize(&mut self) -> Option<Recipe> {
        for _ in 0..ATTEMPTS_MAX {
            let error = match Recipe::deserialize(Deserializer::from(self.root.clone())) {
                Ok(recipe) => return Some(recipe),
                Err(error) => error,
            };
            let span = error.span().unwrap_or_default();
            let message = error.message().replace('\n', "; ");
            let missing = quoted(&message, "missing field `");
            let is_repaired = match (missing, self.stand_in_at(&span)) {
                (Some(key), _) => self.add_missing(&span, &key),
                (None, Some(index)) => self.try_next_stand_in(index),
                (None, None) => self.remove_wrong(&span, message),
            };
            if !is_repaired {
                break;
            }
        }
        None
    }

    /// Reports a missing key, and adds a value for it.
    fn add_missing(&mut self, span: &Range<usize>, key: &str) -> bool {
        let mut path = Vec::new();
        if !find(self.root.get_ref(), &mut path, &|_, value| {
            matches!(value.get_ref(), DeValue::Table(_)) && value.span() == *span
        }) {
            path.clear();
        }
        let table = shown(&path);
        path.push(Part::Key(key.to_owned()));
        let name = shown(&path);
        if !self.repaired.iter().any(|repaired| is_within(&name, repaired)) {
            let (place, within) = match table.as_str() {
                "" => (PlanPosition::Whole, String::new()),
                table => (self.lines.place_of(span), format!(" in {table}")),
            };
            let fault = Fault::new(format!("key `{key}` is missing{within}"));
            let hint = "it is mandatory; `dfsbench systems new NAME` writes all keys";
            self.problems.push(fault.hint(hint).at(place));
            self.repaired.push(name);
        }
        self.stand_ins.push(StandIn { path, tried: 0 });
        self.put_stand_in(self.stand_ins.len() - 1)
    }

    /// Returns the index of the stand-in with this span: none of the text's spans begin behind it.
    fn stand_in_at(&self, span: &Range<usize>) -> Option<usize> {
        let index = span.start.checked_sub(self.text.len() + 1)?;
        (index < self.stand_ins.len()).then_some(index)
    }

    fn try_next_stand_in(&mut self, index: usize) -> bool {
        self.stand_ins[index].tried += 1;
        self.put_stand_in(index)
    }

    fn put_stand_in(&mut self, index: usize) -> bool {
        let StandIn { path, tried } = &self.stand_ins[index];
        let Some((Part::Key(key), parents)) = path.split_last() else { return false };
        let Some(value) = STAND_INS.get(*tried) else { return false };
        let Some(table) = table_at(self.root.get_mut(), parents) else { return false };
        let start = self.text.len() + 1 + index;
        let span = start..start;
        table.insert(Spanned::new(span.clone(), key.clone().into()), Spanned::new(span, value()));
        true
    }

    /// Reports an unknown key or a wrong value, and removes its entry.
    fn remove_wrong(&mut self, span: &Range<usize>, message: String) -> bool {
        let place = self.lines.place_of(span);
        let mut path = Vec::new();
        let is_key =
            find(self.root.get_ref(), &mut path, &|key, _| key.is_some_and(|key| key == *span));
        let is_found = is_key
            || find(self.root.get_ref(), &mut path, &|_, value| {
                let of_value = value.span();
                of_value.start <= span.start && span.end <= of_value.end
            });
        let name = shown(&path);
        let fault = if let Some(given) = quoted(&message, "unknown field `") {
            let known: Vec<&str> =
                message.split('`').skip(3).step_by(2).filter(|word| *word != given).collect();
            let mut fault = unknown_word("key", &given, &known);
            let table = shown(&path[..path.len().saturating_sub(1)]);
            if !table.is_empty() {
                fault.message = format!("{} in {table}", fault.message);
            }
            fault
        } else {
            let mut hint = "docs/design/recipes.md describes every key";
            let message = if name.is_empty() { message } else { format!("{name}: {message}") };
            // The message must not contain a value that is written here.
            let message = if is_within(&name, "secrets") {
                hint = "either { env = \"S3_KEY\" } or { file = \"~/.s3key\" }";
                format!("{name}: is not the source of a secret")
            } else {
                message
            };
            Fault::new(message).hint(hint)
        };
        self.problems.push(fault.at(place));
        while let Some(Part::Index(_)) = path.last() {
            path.pop();
        }
        let Some((Part::Key(key), parents)) = path.split_last() else { return false };
        self.repaired.push(shown(&path));
        is_found
            && table_at(self.root.get_mut(), parents)
                .is_some_and(|table| table.remove(key.as_str()).is_some())
    }

    /// Adds a problem of the recipe, unless a repair may have caused it.
    fn add_problem(&mut self, written: &Spanned<DeTable<'_>>, problem: RecipeError) {
        let is_below = |key: &str, table: &str| {
            key.strip_prefix(table)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']))
        };
        let is_consequence = |repaired: &String| {
            is_below(&problem.key, repaired) || is_below(repaired, &problem.key)
        };
        if self.repaired.iter().any(is_consequence) {
            return;
        }
        let place = match locate(written.get_ref(), &problem.key) {
            Some(span) => {
                let written = self.text.get(span.clone()).unwrap_or_default();
                let offset = problem.what.split('`').nth(1).and_then(|word| {
                    let patterns = [format!("{{{word}}}"), format!("{{*{word}}}"), word.to_owned()];
                    patterns.iter().find_map(|pattern| written.find(pattern.as_str()))
                });
                let start = span.start + offset.unwrap_or(0);
                self.lines.place_of(&(start..start))
            }
            None => PlanPosition::Whole,
        };
        let message = format!("{}: {}", problem.key, problem.what);
        self.problems.push(Fault::new(message).hint(problem.hint).at(place));
    }
}

/// Returns true if an entry is the given one or is in its table.
fn is_within(entry: &str, table: &str) -> bool {
    entry.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']))
}

/// Returns the word in backticks after `lead`, if the message begins with it.
fn quoted(message: &str, lead: &str) -> Option<String> {
    let rest = message.strip_prefix(lead)?;
    Some(rest[..rest.find('`')?].to_owned())
}

/// Formats a path as in messages: `step 2.start`.
fn shown(path: &[Part]) -> String {
    let mut text = String::new();
    for part in path {
        // Writing to a `String` never fails.
        let _ = match part {
            Part::Key(key) if text.is_empty() => write!(text, "{key}"),
            Part::Key(key) => write!(text, ".{key}"),
            Part::Index(index) => write!(text, " {}", index + 1),
        };
    }
    text
}

/// Finds the innermost entry that fits, given the span of its key, if it has one, and its value.
fn find(
    table: &DeTable<'_>,
    path: &mut Vec<Part>,
    fits: &impl Fn(Option<Range<usize>>, &Spanned<DeValue<'_>>) -> bool,
) -> bool {
    for (key, value) in table {
        path.push(Part::Key(key.get_ref().to_string()));
        if find_in_value(value, path, fits) || fits(Some(key.span()), value) {
            return true;
        }
        path.pop();
    }
    false
}

fn find_in_value(
    value: &Spanned<DeValue<'_>>,
    path: &mut Vec<Part>,
    fits: &impl Fn(Option<Range<usize>>, &Spanned<DeValue<'_>>) -> bool,
) -> bool {
    match value.get_ref() {
        DeValue::Table(table) => find(table, path, fits),
        DeValue::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                path.push(Part::Index(index));
                if find_in_value(value, path, fits) || fits(None, value) {
                    return true;
                }
                path.pop();
            }
            false
        }
        _ => false,
    }
}

fn table_at<'t, 'a>(root: &'t mut DeTable<'a>, path: &[Part]) -> Option<&'t mut DeTable<'a>> {
    let mut parts = path.iter();
    let mut table = root;
    while let Some(part) = parts.next() {
        let Part::Key(key) = part else { return None };
        let mut value = table.get_mut(key.as_str())?.get_mut();
        while let DeValue::Array(values) = value {
            let Some(Part::Index(index)) = parts.next() else { return None };
            value = values.get_mut(*index)?.get_mut();
        }
        let DeValue::Table(inner) = value else { return None };
        table = inner;
    }
    Some(table)
}

/// Returns the span of the entry with this key, as in messages, or of the innermost table around
/// it that was written.
fn locate(root: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let mut table = root;
    let mut span = None;
    for part in key.split('.') {
        let (name, number) = match part.split_once(' ') {
            Some((name, number)) => (name, number.parse::<usize>().ok()),
            None => (part, None),
        };
        let Some(mut value) = table.get(name) else { break };
        if let (DeValue::Array(values), Some(number)) = (value.get_ref(), number) {
            let Some(element) = values.get(number.wrapping_sub(1)) else { break };
            value = element;
        }
        span = Some(value.span());
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::recipe::{RECIPES, new_recipe};

    fn problems(text: &str) -> String {
        let problems = read(text).unwrap_err().into_iter();
        let lines: Vec<String> =
            problems.map(|problem| problem.in_source("x.toml").to_string()).collect();
        lines.join("\n")
    }

    const WRONG: &str = r#"
name = "mine"
titel = "a title"
tried = 1
ports = [1, "x"]

[settings.layout]
type = "choice"
default = "one"
choices = ["one", "two"]

[[file]]
path = "{dir}/conf"
text = """
root {storage}
  parts {parst}
"""

[[step]]
start = ["server", "{laoyut}", "{*wrods}"]
within_s = 0

[[step]]
run = ["x"]
strat = ["y"]

[caches]
cold = "cold"

[access.fuse]
run = ["mounter"]
"#;

    /// Recipes that have most keys and little text.
    const SHORT: [&str; 2] = ["gfs2", "rclone"];

    #[test]
    fn reports_all_problems_with_positions() {
        insta::assert_snapshot!(problems(WRONG));
    }

    #[test]
    fn refuses_drain_without_check() {
        let (_, unfs3) = RECIPES.into_iter().find(|(name, _)| *name == "unfs3").unwrap();
        let line = unfs3.lines().count() + 2;
        for table in ["[drain]\nwithin_s = 9", "[drain]\nrun = [\"flush\"]\ncheck = []"] {
            let found = problems(&format!("{unfs3}\n{table}\n"));
            assert!(found.contains("drain.check: nothing shows that it is drained"), "{found}");
            assert!(
                found.starts_with(&format!("x.toml:{line}:")) || found.contains(":9:"),
                "{found}"
            );
        }
    }

    #[test]
    fn hides_secrets_written_into_recipe() {
        let (_, unfs3) = RECIPES.into_iter().find(|(name, _)| *name == "unfs3").unwrap();
        for wrong in ["key = \"hunter22\"", "key = { env = [\"hunter22\"] }"] {
            let found = problems(&format!("{unfs3}\n[secrets]\n{wrong}\n"));
            assert!(found.contains("secrets.key") && !found.contains("hunter22"), "{found}");
        }
    }

    #[test]
    fn reports_every_missing_key() {
        let mandatory = ["name", "title", "durability", "step", "caches", "access"];
        let found = problems("storage = true\n");
        for key in mandatory {
            assert!(found.contains(&format!("x.toml: key `{key}` is missing (")), "{found}");
        }
        assert!(found.contains("x.toml: tried: must be one line of text ("), "{found}");
        assert_eq!(found.lines().count(), mandatory.len() + 1, "{found}");
    }

    /// A recipe without any one of its lines is valid or has clear problems.
    #[test]
    fn explains_each_missing_line() {
        for (name, text) in RECIPES.into_iter().filter(|(name, _)| SHORT.contains(name)) {
            let lines: Vec<&str> = text.lines().collect();
            for (index, line) in lines.iter().enumerate() {
                let is_pair = line.split_once(" = ").is_some_and(|(key, value)| {
                    let is_key = key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                    is_key && !value.ends_with('[') && !value.contains("\"\"\"")
                });
                if !is_pair {
                    continue;
                }
                let mut rest = lines.clone();
                rest.remove(index);
                let Err(found) = read(&rest.join("\n")) else { continue };
                assert!(!found.is_empty(), "{name}: {line}");
                for problem in found {
                    let text = problem.to_string();
                    let is_plain = !text.contains("invalid type") && !text.contains("variant");
                    assert!(is_plain, "{name} without `{line}`: {text}");
                }
            }
        }
    }

    /// Fills in a new recipe from the examples in its comments.
    fn fill_in(skeleton: &str, with_optional: bool) -> String {
        let mut text = String::new();
        for line in skeleton.lines() {
            let filled = match line.split_once(" # FILL IN ") {
                Some((pair, hint)) => {
                    let example = hint.split_once("such as ").map_or("", |(_, example)| example);
                    let end = match example.chars().next() {
                        Some('"') => example[1..].find('"').map_or(0, |end| end + 2),
                        Some('[') => example.find(']').map_or(0, |end| end + 1),
                        _ => example.len(),
                    };
                    let (key, _) = pair.split_once(" = ").unwrap();
                    format!("{key} = {}", &example[..end])
                }
                None => match line.strip_prefix('#') {
                    Some(pair) if with_optional && !pair.starts_with(' ') => pair.to_owned(),
                    _ => line.to_owned(),
                },
            };
            text.push_str(&filled);
            text.push('\n');
        }
        text
    }

    #[test]
    fn accepts_new_recipe_once_filled_in() {
        let new = new_recipe("mine").unwrap();
        let marked = new.lines().filter(|line| line.contains("# FILL IN ")).count();
        let found = problems(&new);
        assert_eq!(found.lines().count(), marked, "{found}");
        for problem in found.lines() {
            let number: usize = problem.split(':').nth(1).unwrap().parse().unwrap();
            let at = new.lines().nth(number - 1).unwrap();
            assert!(at.contains("# FILL IN ") || at == "[[step]]", "{problem}: {at}");
        }
        for with_optional in [false, true] {
            let filled = fill_in(&new, with_optional);
            let recipe = read(&filled).unwrap_or_else(|_| panic!("{}", problems(&filled)));
            assert_eq!(
                (recipe.name.as_str(), recipe.settings.is_empty()),
                ("mine", !with_optional)
            );
        }
        assert!(new_recipe("A b").is_err() && new_recipe("ganesha").is_err());
    }
}
