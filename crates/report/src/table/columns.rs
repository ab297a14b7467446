//! List of all report columns: the results of a run and pass, for people and programs.
//!
//! [`COLUMNS`] is that list. An entry defines a result for programs (CSV, the figures in JSON),
//! with its unit in the name, or for people (tables in text, Markdown and pages), or both, and how
//! to fill it from a row. To add a column, add one entry at the end of the results of its kind,
//! since programs may count CSV columns from the left.
//!
//! Settings are not entries; they come from `model::setting`.

mod entries;
mod value;

use stats::Summary;

use super::row::Row;
use crate::document::{Cell, Role};

pub(crate) use entries::{COLUMNS, IDENTITY, REPETITION, WIRE};
pub(crate) use value::{Value, ValueType};

/// Column of a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Name for programs, including the unit; empty if the column is only for people.
    pub name: &'static str,
    /// Value in machine-readable formats.
    value: fn(&Row<'_>) -> Value,
    /// Whether it is a member of a figure in JSON, and under which name.
    json: JsonMember,
    /// How it is shown to people.
    pub shown: Option<ShownColumn>,
}

/// How a column becomes a member of a figure in JSON.
#[derive(Clone, Copy, Debug)]
enum JsonMember {
    /// Under its own name, with a value in every row.
    Known(ValueType),
    /// Under its own name; `null` if unknown.
    Nullable(ValueType),
    /// Under this name; left out if unknown.
    WhereKnown(&'static str, ValueType),
    /// Part of another member, such as `rate`.
    Within,
}

/// Schema of a column's member in JSON.
#[derive(Debug)]
pub(crate) struct MemberSchema {
    pub name: &'static str,
    pub schema: serde_json::Value,
    /// True if every figure has the member.
    pub is_required: bool,
}

/// How a column is shown to people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownColumn {
    pub heading: &'static str,
    pub role: Role,
    /// Table that contains it.
    table: TableKind,
    /// Explanation; empty if another column has it.
    reading: &'static str,
    /// Function for its cell.
    cell: ShownCell,
}

/// How the cell of a column is created.
#[derive(Clone, Copy, Debug)]
enum ShownCell {
    /// From the row and its rate; a row without a rate shows the reason instead.
    Figure(fn(&Row<'_>, &Summary) -> Cell),
    /// From any row.
    Always(fn(&Row<'_>) -> Cell),
}

/// Tables of results in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Rates of a file system.
    Rates,
    /// Times of passes that are done when their slowest rank is.
    Ranks,
    /// Frames of streams, each of which has a deadline.
    Frames,
    /// Times of a developer's passes.
    Tools,
    /// How accelerators of trainings are used.
    Training,
    /// Times of commands.
    Programs,
}

impl TableKind {
    /// All kinds, in the order of their tables.
    pub(crate) const ALL: [Self; 6] =
        [Self::Rates, Self::Ranks, Self::Training, Self::Tools, Self::Frames, Self::Programs];
}

impl Column {
    /// Value for programs.
    pub(crate) fn value(&self, row: &Row<'_>) -> Value {
        (self.value)(row)
    }

    /// Name and value of its member in JSON, if the row has one.
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

    /// Schema of its member in JSON, if it has one.
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

/// Columns in a table for people.
pub(crate) fn shown(kind: TableKind) -> impl Iterator<Item = &'static ShownColumn> {
    COLUMNS.iter().filter_map(move |column| column.shown.as_ref().filter(|s| s.table == kind))
}

/// Explanations of the columns of a table.
pub(crate) fn reading(kind: TableKind) -> Vec<String> {
    shown(kind)
        .filter(|shown| !shown.reading.is_empty())
        .map(|shown| shown.reading.to_owned())
        .collect()
}

/// Cells of a row, starting with the rate. If the row has no rate, the reason replaces its results.
pub(crate) fn cells(kind: TableKind, row: &Row<'_>) -> Vec<Cell> {
    // The reason spans the columns of all results; n, verdict and caveats follow in their own
    // columns.
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
        for kind in TableKind::ALL {
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
