//! A plan's text as tables and fields that know their line.
//!
//! Wraps the spanned values of the `toml` crate: a [`Table`] refuses unknown keys when it is
//! opened, and a [`Field`] hands out one type or an error that names key, line and value. Knows
//! nothing of what the keys mean.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::parse::keys;
use crate::parse::section::Section;
use crate::syntax::error::{Fault, Located, Place, PlanError};

/// Characters of a value that an error repeats.
const SHOWN_LENGTH_MAX: usize = 40;

/// A plan's text, and where its lines begin.
///
/// Every value that is read gets its line, so a plan of a hundred thousand lines must not be read
/// again for each.
pub(crate) struct PlanText<'a> {
    text: &'a str,
    /// Offsets of the first byte of each line.
    line_starts: Vec<usize>,
}

impl<'a> PlanText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let behind_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self { text, line_starts: std::iter::once(0).chain(behind_breaks).collect() }
    }

    /// Returns the line and the column at which a span begins.
    pub(crate) fn place_of(&self, span: &Range<usize>) -> Place {
        let offset = char_start(self.text, span.start);
        let line = self.line_starts.partition_point(|start| *start <= offset);
        // Editors count columns in characters, not in bytes.
        let column = self.text[self.line_starts[line - 1]..offset].chars().count() + 1;
        Place::Text { line: line as u32, column: column as u32 }
    }
}

/// A table whose keys are all known.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    text: &'a PlanText<'a>,
    entries: &'a DeTable<'a>,
    section: Section,
    /// The place where the table begins.
    pub place: Place,
}

/// A key and its value.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    text: &'a PlanText<'a>,
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

/// Reads TOML; what it means is left to the caller.
pub(crate) fn parse<'a>(text: &PlanText<'a>) -> Result<Spanned<DeTable<'a>>, PlanError> {
    let error = match DeTable::parse(text.text) {
        Ok(root) => return Ok(root),
        Err(error) => error,
    };
    let what = format!("not TOML: {}", error.message().trim().replace('\n', "; "));
    match error.span() {
        Some(span) => {
            let line = shown_line(text.text, &span);
            Err(Fault::new(format!("{what}{line}")).at(text.place_of(&span)))
        }
        None => Err(Fault::new(what).at(Place::Whole)),
    }
}

/// Repeats the line at fault, so that the error says the value too.
fn shown_line(text: &str, span: &Range<usize>) -> String {
    let begin = line_start(&text[..char_start(text, span.start)]);
    let line = text[begin..].lines().next().unwrap_or_default().trim();
    if line.is_empty() { String::new() } else { format!(" in `{}`", shortened(line)) }
}

/// Returns the offset at which the last line of `before` begins.
fn line_start(before: &str) -> usize {
    match before.rfind('\n') {
        Some(end) => end + 1,
        None => 0,
    }
}

/// Moves an offset back to the start of a character within the text.
///
/// Spans of the `toml` crate count bytes, and the one of an error may end within a character or
/// behind the text.
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
    /// Opens the whole plan.
    pub(crate) fn root(
        text: &'a PlanText<'a>,
        root: &'a Spanned<DeTable<'a>>,
    ) -> Result<Self, PlanError> {
        Self { text, entries: root.get_ref(), section: Section::Plan, place: Place::Whole }
            .with_known_keys()
    }

    /// Refuses the first key that isn't known here.
    fn with_known_keys(self) -> Result<Self, PlanError> {
        // The table is sorted by key; the user reads from the top.
        let mut written: Vec<_> = self.entries.keys().collect();
        written.sort_by_key(|key| key.span().start);
        for key in written {
            self.text.place_of(&key.span()).accept(keys::check(self.section, key.get_ref()))?;
        }
        Ok(self)
    }

    /// Returns the field of a key, if it is written.
    pub(crate) fn field(&self, key: &'a str) -> Option<Field<'a>> {
        let value = self.entries.get(key)?;
        Some(Field { text: self.text, key, value })
    }

    /// Finds the first of some keys that is written.
    pub(crate) fn first_field(&self, keys: &[&'a str]) -> Option<Field<'a>> {
        keys.iter().find_map(|key| self.field(key))
    }

    /// Returns the field of a key that must be written.
    pub(crate) fn required(&self, key: &'a str, hint: &str) -> Result<Field<'a>, PlanError> {
        if let Some(field) = self.field(key) {
            return Ok(field);
        }
        let what = format!("key `{key}` is missing {}", self.section.within());
        Err(Fault::new(what).hint(hint).at(self.place))
    }

    /// Reads the value of a key that may be left out.
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

    /// Reads each value of a list that may be left out.
    pub(crate) fn read_each<T>(
        &self,
        key: &'a str,
        read: impl Fn(&Field<'a>) -> Result<T, PlanError>,
    ) -> Result<Option<Vec<T>>, PlanError> {
        self.read(key, |field| field.items()?.iter().map(read).collect())
    }
}

impl<'a> Field<'a> {
    /// The key it stands under.
    pub(crate) fn key(&self) -> &'a str {
        self.key
    }

    /// Returns the place of the value.
    pub(crate) fn place(&self) -> Place {
        self.text.place_of(&self.value.span())
    }

    /// Makes a fault an error of this field.
    pub(crate) fn error(&self, fault: Fault) -> PlanError {
        fault.of_key(self.key, self.place())
    }

    /// Locates a value at this field.
    pub(crate) fn located<T>(&self, value: T) -> Located<T> {
        Located { value, place: self.place() }
    }

    /// Locates a value that was read from this field, or makes its fault an error of the field.
    pub(crate) fn accept<T>(&self, read: Result<T, Fault>) -> Result<Located<T>, PlanError> {
        match read {
            Ok(value) => Ok(self.located(value)),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// The value as it is written, shortened.
    pub(crate) fn shown(&self) -> String {
        let span = self.value.span();
        let text = self.text.text;
        shortened(&text[char_start(text, span.start)..char_start(text, span.end)])
    }

    /// Refuses the value for its type.
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

    /// The value if it is text.
    pub(crate) fn as_text(&self) -> Option<&'a str> {
        self.value.get_ref().as_str()
    }

    /// The value if it is a whole number of 64 bits without sign.
    pub(crate) fn as_number(&self) -> Option<u64> {
        let integer = self.value.get_ref().as_integer()?;
        u64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    /// Says whether the value is a whole number, of whatever size.
    pub(crate) fn is_integer(&self) -> bool {
        self.value.get_ref().is_integer()
    }

    /// Says whether the value is a number of whatever kind.
    pub(crate) fn is_numeric(&self) -> bool {
        self.value.get_ref().is_integer() || self.value.get_ref().is_float()
    }

    /// The value if it is true or false.
    pub(crate) fn as_flag(&self) -> Option<bool> {
        self.value.get_ref().as_bool()
    }

    /// Says whether the value is a table.
    pub(crate) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// Says whether the value is `true`.
    pub(crate) fn is_true(&self) -> bool {
        self.as_flag() == Some(true)
    }

    /// Reads true or false.
    pub(crate) fn flag(&self) -> Result<Located<bool>, PlanError> {
        match self.as_flag() {
            Some(yes) => Ok(self.located(yes)),
            None => Err(self.wrong_type("true or false", "true")),
        }
    }

    /// Reads a text and what it stands for.
    pub(crate) fn parse<T>(
        &self,
        example: &str,
        parse: impl FnOnce(&'a str) -> Result<T, Fault>,
    ) -> Result<Located<T>, PlanError> {
        self.accept(parse(self.text(example)?.value))
    }

    /// Reads a text.
    pub(crate) fn text(&self, example: &str) -> Result<Located<&'a str>, PlanError> {
        match self.as_text() {
            Some(text) => Ok(self.located(text)),
            None => Err(self.wrong_type("a string", example)),
        }
    }

    /// Reads a whole number; `legal` says the range, for those that 64 bits can't hold.
    pub(crate) fn number(&self, legal: &str, example: &str) -> Result<Located<u64>, PlanError> {
        match self.as_number() {
            Some(number) => Ok(self.located(number)),
            None if self.is_integer() => Err(self.out_of_range(legal)),
            None => Err(self.wrong_type("an integer", example)),
        }
    }

    /// Refuses a number that 64 bits without sign can't hold.
    pub(crate) fn out_of_range(&self, legal: &str) -> PlanError {
        self.error(Fault::new(format!("must be {legal}, not `{}`", self.shown())))
    }

    /// Reads the values of a list, or the one value that stands in its place.
    pub(crate) fn items(&self) -> Result<Vec<Self>, PlanError> {
        let Some(array) = self.value.get_ref().as_array() else { return Ok(vec![*self]) };
        if array.is_empty() {
            let fault = Fault::new("the list is empty")
                .hint("write at least one value, or leave the key out for its default");
            return Err(self.error(fault));
        }
        Ok(array.iter().map(|value| Self { value, ..*self }).collect())
    }

    /// Reads the fields of a table whose keys are not those of a plan, in the order of the text.
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
                .hint(format!("put {title} on a line of its own, its keys below")),
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
        assert_eq!(place(0), Place::Text { line: 1, column: 1 });
        assert_eq!(place(5), Place::Text { line: 1, column: 6 });
        assert_eq!(place(6), Place::Text { line: 2, column: 1 });
        assert_eq!(place(9), Place::Text { line: 2, column: 3 });
        assert_eq!(place(17), Place::Text { line: 3, column: 1 });
        assert_eq!(place(100), Place::Text { line: 4, column: 4 });
    }
}
