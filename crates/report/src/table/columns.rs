//! The columns of a report, in one list: what a run and pass have, for people and for programs.
//!
//! [`COLUMNS`] is that list. An entry names a figure for programs (CSV, the figures of JSON), with
//! its unit in the name, or for people (the tables of text, Markdown and pages), or for both, and
//! says how a row fills it. A new column is one new entry: add it at the end of the figures of its
//! kind, since programs may count columns of CSV from the left.
//!
//! Settings are no entries: they come from `model::setting`.

mod entries;
mod value;

use stats::Summary;

use super::row::Row;
use crate::document::{Cell, Role};

pub(crate) use entries::{COLUMNS, IDENTITY, REPETITION};
pub(crate) use value::{Value, ValueType};

/// A column of a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its name for programs, with the unit of its numbers; empty where it is for people alone.
    pub name: &'static str,
    /// The value in machine-readable formats.
    value: fn(&Row<'_>) -> Value,
    /// Whether, and under which name, it is a member of a figure in JSON.
    json: JsonMember,
    /// How people see it.
    pub shown: Option<ShownColumn>,
}

/// How a column becomes a member of a figure in JSON.
#[derive(Clone, Copy, Debug)]
enum JsonMember {
    /// Under its own name; each row has a value.
    Known(ValueType),
    /// Under its own name; `null` where nothing is known.
    Nullable(ValueType),
    /// Under this name, where anything is known.
    WhereKnown(&'static str, ValueType),
    /// It is a part of a member that holds more, such as `rate`.
    Within,
}

/// The schema of a column's member in JSON.
#[derive(Debug)]
pub(crate) struct MemberSchema {
    /// The name of the member.
    pub name: &'static str,
    /// The JSON Schema of its value.
    pub schema: serde_json::Value,
    /// Whether each figure has the member.
    pub is_required: bool,
}

/// How people see a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownColumn {
    /// Stands above it.
    pub heading: &'static str,
    /// The role of its cells.
    pub role: Role,
    /// The table that has it.
    table: TableKind,
    /// How it is to be read; empty where another column says it too.
    reading: &'static str,
    /// Its cell; cells of figures are made where a row has a rate.
    cell: ShownCell,
}

/// How the cell of a column for people is made.
#[derive(Clone, Copy, Debug)]
enum ShownCell {
    /// From the row and its rate; a row without one says there why.
    Figure(fn(&Row<'_>, &Summary) -> Cell),
    /// From any row.
    Always(fn(&Row<'_>) -> Cell),
}

/// The tables of figures that a report has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Rates of a file system.
    Rates,
    /// Times of commands.
    Programs,
}

impl Column {
    /// The value for programs.
    pub(crate) fn value(&self, row: &Row<'_>) -> Value {
        (self.value)(row)
    }

    /// The name and value of its member in JSON, where it has one for a row.
    pub(crate) fn member(&self, row: &Row<'_>) -> Option<(&'static str, Value)> {
        match self.json {
            JsonMember::Known(_) | JsonMember::Nullable(_) => Some((self.name, self.value(row))),
            JsonMember::WhereKnown(name, _) => {
                let value = self.value(row);
                if value == Value::Unknown { None } else { Some((name, value)) }
            }
            JsonMember::Within => None,
        }
    }

    /// The schema of its member in JSON, where it is one.
    pub(crate) fn member_schema(&self) -> Option<MemberSchema> {
        let (name, schema, is_required) = match self.json {
            JsonMember::Known(kind) => (self.name, kind.schema(), true),
            JsonMember::Nullable(kind) => (self.name, kind.nullable_schema(), true),
            JsonMember::WhereKnown(name, kind) => (name, kind.schema(), false),
            JsonMember::Within => return None,
        };
        Some(MemberSchema { name, schema, is_required })
    }
}

/// The columns that people see in a table of figures.
pub(crate) fn shown(kind: TableKind) -> impl Iterator<Item = &'static ShownColumn> {
    COLUMNS.iter().filter_map(move |column| column.shown.as_ref().filter(|s| s.table == kind))
}

/// How the columns of a table are to be read.
pub(crate) fn reading(kind: TableKind) -> Vec<String> {
    let mut lines = Vec::new();
    for shown in shown(kind) {
        if !shown.reading.is_empty() {
            lines.push(shown.reading.to_owned());
        }
    }
    lines
}

/// The cells of a row, from the rate on. Of a row without a rate, the reason stands in place of
/// its figures.
pub(crate) fn cells(kind: TableKind, row: &Row<'_>) -> Vec<Cell> {
    // The reason of a missing figure spans the columns of all figures; n, verdict and caveats stand
    // behind it in their own columns.
    let mut cells = Vec::new();
    let mut missing = 0;
    for shown in shown(kind) {
        match (shown.cell, &row.judged.rate) {
            (ShownCell::Figure(fill), Some(rate)) => cells.push(fill(row, rate)),
            (ShownCell::Figure(_), None) => missing += 1,
            (ShownCell::Always(fill), _) => cells.push(fill(row)),
        }
    }
    if missing > 0 {
        cells.insert(0, Cell::Reason(row.missing(), missing));
    }
    cells
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn has_unique_column_names() {
        let mut names = HashSet::new();
        for column in IDENTITY.iter().chain(REPETITION).chain(COLUMNS) {
            assert!(column.name.is_empty() || names.insert(column.name), "{}", column.name);
            assert!(
                !column.name.is_empty() || column.shown.is_some(),
                "no format shows {column:?}"
            );
        }
        for kind in [TableKind::Rates, TableKind::Programs] {
            let headings: Vec<&str> = shown(kind).map(|shown| shown.heading).collect();
            assert_eq!(headings.iter().collect::<HashSet<_>>().len(), headings.len());
            assert_eq!(shown(kind).filter(|shown| shown.role == Role::Rate).count(), 1);
            assert_eq!(headings.last(), Some(&"caveats"));
        }
    }

    #[test]
    fn writes_measured_digits_to_csv() {
        let number = Value::Number(2.0 / 3.0, 3);
        assert_eq!(number.plain(), "0.667");
        assert_eq!(serde_json::to_string(&number).unwrap(), "0.6666666666666666");
        assert_eq!((Value::Unknown.plain(), Value::Count(3).plain()), (String::new(), "3".into()));
        assert_eq!(serde_json::to_string(&Value::Unknown).unwrap(), "null");
    }
}
