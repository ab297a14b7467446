//! A plan's text as tables and fields with line numbers.
//!
//! Wraps the spanned values of the `toml` crate: a [`Table`] refuses unknown keys when it is
//! opened, and a [`Field`] returns its value as one type or an error that names key, line and
//! value. Nothing here depends on the meaning of keys.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::parse::keys;
use crate::parse::section::Section;
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};

/// Maximum number of characters of a value to repeat in an error.
const SHOWN_LENGTH_MAX: usize = 40;

/// A plan's text with the offsets of its lines.
///
/// The offsets are collected once: every value needs its line number, and scanning a plan of a
/// hundred thousand lines for each of them would be quadratic.
pub(crate) struct PlanText<'a> {
    text: &'a str,
    /// Offset of the first byte of each line.
    line_starts: Vec<usize>,
}

impl<'a> PlanText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let behind_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self { text, line_starts: std::iter::once(0).chain(behind_breaks).collect() }
    }

    /// Returns the line and column where a span begins.
    pub(crate) fn place_of(&self, span: &Range<usize>) -> PlanPosition {
        let offset = char_start(self.text, span.start);
        let line = self.line_starts.partition_point(|start| *start <= offset);
        // Editors count columns in characters, not in bytes.
        let column = self.text[self.line_starts[line - 1]..offset].chars().count() + 1;
        PlanPosition::Text { line: line as u32, column: column as u32 }
    }
}

/// A table that contains only known keys.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    text: &'a PlanText<'a>,
    entries: &'a DeTable<'a>,
    section: Section,
    /// Position at which the table begins.
    pub place: PlanPosition,
}

/// A key and its value.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    text: &'a PlanText<'a>,
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

/// Parses TOML without interpreting it.
pub(crate) fn parse<'a>(text: &PlanText<'a>) -> Result<Spanned<DeTable<'a>>, PlanError> {
    let error = match DeTable::parse(text.text) {
        Ok(root) => return Ok(root),
        Err(error) => error,
    };
    let what = format!("not TOML: {}", error.message().trim().replace('\n', "; "));
    match error.span() {
        Some(span) => {
            let line = excerpt_line(text.text, &span);
            Err(Fault::new(format!("{what}{line}")).at(text.place_of(&span)))
        }
        None => Err(Fault::new(what).at(PlanPosition::Whole)),
    }
}

/// Returns the offending line, so that the error shows the value as well.
fn excerpt_line(text: &str, span: &Range<usize>) -> String {
    let begin = line_start(&text[..char_start(text, span.start)]);
    let line = text[begin..].lines().next().unwrap_or_default().trim();
    if line.is_empty() { String::new() } else { format!(" in `{}`", shortened(line)) }
}

/// Returns the offset at which the last line of `before` begins.
fn line_start(before: &str) -> usize {
    before.rfind('\n').map_or(0, |end| end + 1)
}

/// Moves an offset back to the nearest character boundary within the text.
///
/// The `toml` crate counts bytes, and the span of an error may end inside a character or after the
/// end of the text.
fn char_start(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN_LENGTH_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.len() < text.trim_end().len() => format!("{line}..."),
        None => line.to_owned(),
    }
}

impl<'a> Table<'a> {
    /// Opens the top-level table of a plan.
    pub(crate) fn root(
        text: &'a PlanText<'a>,
        root: &'a Spanned<DeTable<'a>>,
    ) -> Result<Self, PlanError> {
        Self { text, entries: root.get_ref(), section: Section::Plan, place: PlanPosition::Whole }
            .with_known_keys()
    }

    /// Refuses the first unknown key.
    fn with_known_keys(self) -> Result<Self, PlanError> {
        // The map is sorted by key, but people read a file from the top.
        let mut written: Vec<_> = self.entries.keys().collect();
        written.sort_by_key(|key| key.span().start);
        for key in written {
            self.text.place_of(&key.span()).accept(keys::check(self.section, key.get_ref()))?;
        }
        Ok(self)
    }

    /// Returns the field of a key if it was written.
    pub(crate) fn field(&self, key: &'a str) -> Option<Field<'a>> {
        let value = self.entries.get(key)?;
        Some(Field { text: self.text, key, value })
    }

    /// Returns the first of several keys that was written.
    pub(crate) fn first_field(&self, keys: &[&'a str]) -> Option<Field<'a>> {
        keys.iter().find_map(|key| self.field(key))
    }

    pub(crate) fn required(&self, key: &'a str, hint: &str) -> Result<Field<'a>, PlanError> {
        if let Some(field) = self.field(key) {
            return Ok(field);
        }
        let what = format!("key `{key}` is missing {}", self.section.within());
        Err(Fault::new(what).hint(hint).at(self.place))
    }

    /// Parses the value of an optional key.
    pub(crate) fn read<T>(
        &self,
        key: &'a str,
        read: impl FnOnce(&Field<'a>) -> Result<T, PlanError>,
    ) -> Result<Option<T>, PlanError> {
        match self.field(key) {
            Some(field) => Ok(Some(read(&field)?)),
            None => Ok(None),
        }
    }

    /// Parses each item of an optional list.
    pub(crate) fn read_each<T>(
        &self,
        key: &'a str,
        read: impl Fn(&Field<'a>) -> Result<T, PlanError>,
    ) -> Result<Option<Vec<T>>, PlanError> {
        self.read(key, |field| field.items()?.iter().map(read).collect())
    }
}

impl<'a> Field<'a> {
    pub(crate) fn key(&self) -> &'a str {
        self.key
    }

    pub(crate) fn place(&self) -> PlanPosition {
        self.text.place_of(&self.value.span())
    }

    /// Turns a fault into an error at this field.
    pub(crate) fn error(&self, fault: Fault) -> PlanError {
        fault.of_key(self.key, self.place())
    }

    /// Attaches the place of this field to a value.
    pub(crate) fn located<T>(&self, value: T) -> Located<T> {
        Located { value, place: self.place() }
    }

    /// Attaches the place of this field to a parsed value, or to the fault.
    pub(crate) fn accept<T>(&self, read: Result<T, Fault>) -> Result<Located<T>, PlanError> {
        match read {
            Ok(value) => Ok(self.located(value)),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// The value as it was written, shortened.
    pub(crate) fn shown(&self) -> String {
        let span = self.value.span();
        let text = self.text.text;
        shortened(&text[char_start(text, span.start)..char_start(text, span.end)])
    }

    /// Refuses the value because of its type.
    pub(crate) fn wrong_type(&self, wanted: &str, example: &str) -> PlanError {
        let is = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        let what = format!("must be {wanted}, but `{}` is {is}", self.shown());
        self.error(Fault::new(what).hint(format!("for example `{} = {example}`", self.key)))
    }

    pub(crate) fn as_text(&self) -> Option<&'a str> {
        self.value.get_ref().as_str()
    }

    /// The value if it is an integer that fits 64 bits unsigned.
    pub(crate) fn as_number(&self) -> Option<u64> {
        let integer = self.value.get_ref().as_integer()?;
        u64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    /// Returns true if the value is an integer, even one that does not fit 64 bits.
    pub(crate) fn is_integer(&self) -> bool {
        self.value.get_ref().is_integer()
    }

    /// Returns true if the value is an integer or a float.
    pub(crate) fn is_numeric(&self) -> bool {
        self.value.get_ref().is_integer() || self.value.get_ref().is_float()
    }

    pub(crate) fn as_flag(&self) -> Option<bool> {
        self.value.get_ref().as_bool()
    }

    pub(crate) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    pub(crate) fn is_true(&self) -> bool {
        self.as_flag() == Some(true)
    }

    /// Parses true or false.
    pub(crate) fn flag(&self) -> Result<Located<bool>, PlanError> {
        match self.as_flag() {
            Some(yes) => Ok(self.located(yes)),
            None => Err(self.wrong_type("true or false", "true")),
        }
    }

    /// Parses a string value with `parse`.
    pub(crate) fn parse<T>(
        &self,
        example: &str,
        parse: impl FnOnce(&'a str) -> Result<T, Fault>,
    ) -> Result<Located<T>, PlanError> {
        self.accept(parse(self.text(example)?.value))
    }

    pub(crate) fn text(&self, example: &str) -> Result<Located<&'a str>, PlanError> {
        match self.as_text() {
            Some(text) => Ok(self.located(text)),
            None => Err(self.wrong_type("a string", example)),
        }
    }

    /// Parses an integer; `legal` describes the range for numbers that don't fit 64 bits.
    pub(crate) fn number(&self, legal: &str, example: &str) -> Result<Located<u64>, PlanError> {
        match self.as_number() {
            Some(number) => Ok(self.located(number)),
            None if self.is_integer() => Err(self.out_of_range(legal)),
            None => Err(self.wrong_type("an integer", example)),
        }
    }

    /// Refuses a number that does not fit 64 bits unsigned.
    pub(crate) fn out_of_range(&self, legal: &str) -> PlanError {
        self.error(Fault::new(format!("must be {legal}, not `{}`", self.shown())))
    }

    /// Returns the items of a list; a single value counts as a list of one.
    pub(crate) fn items(&self) -> Result<Vec<Self>, PlanError> {
        let Some(array) = self.value.get_ref().as_array() else { return Ok(vec![*self]) };
        if array.is_empty() {
            let fault = Fault::new("the list is empty")
                .hint("write at least one value, or leave the key out for its default");
            return Err(self.error(fault));
        }
        Ok(array.iter().map(|value| Self { value, ..*self }).collect())
    }

    /// Returns the fields of a table with free keys, in the order of the text.
    pub(crate) fn entries(&self, hint: &str) -> Result<Vec<Self>, PlanError> {
        let mut fields = Vec::new();
        if let Some(table) = self.value.get_ref().as_table() {
            for (key, value) in table {
                fields.push(Self { text: self.text, key: key.get_ref(), value });
            }
        }
        if fields.is_empty() {
            let what = format!("must be a table, not `{}`", self.shown());
            return Err(self.error(Fault::new(what).hint(hint)));
        }
        fields.sort_by_key(|field| field.value.span().start);
        Ok(fields)
    }

    /// Opens a table.
    pub(crate) fn table(&self, section: Section) -> Result<Table<'a>, PlanError> {
        match self.value.get_ref().as_table() {
            Some(entries) => {
                Table { text: self.text, entries, section, place: self.place() }.with_known_keys()
            }
            None => Err(self.not_a_table(section)),
        }
    }

    /// Opens each table of a list of tables.
    pub(crate) fn tables(&self, section: Section) -> Result<Vec<Table<'a>>, PlanError> {
        let Some(array) = self.value.get_ref().as_array() else {
            return Err(self.not_a_table(section));
        };
        array.iter().map(|value| Self { value, ..*self }.table(section)).collect()
    }

    fn not_a_table(&self, section: Section) -> PlanError {
        let title = section.title();
        self.error(
            Fault::new(format!("must be written as {title}"))
                .hint(format!("put {title} on its own line, with its keys below")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let text = PlanText::new("a = 1\nü = 2 # x\n\nend");
        let place = |offset| text.place_of(&(offset..offset));
        assert_eq!(place(0), PlanPosition::Text { line: 1, column: 1 });
        assert_eq!(place(5), PlanPosition::Text { line: 1, column: 6 });
        assert_eq!(place(6), PlanPosition::Text { line: 2, column: 1 });
        assert_eq!(place(9), PlanPosition::Text { line: 2, column: 3 });
        assert_eq!(place(17), PlanPosition::Text { line: 3, column: 1 });
        assert_eq!(place(100), PlanPosition::Text { line: 4, column: 4 });
    }
}
