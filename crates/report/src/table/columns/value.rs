//! A figure for programs: plain, without its unit.
//!
//! [`Value`] is the principal type. CSV writes so many digits as the figure was measured with; JSON
//! has all of them.

use serde::{Serialize, Serializer};
use serde_json::json;
use stats::Summary;

/// The value of a column in machine-readable formats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// It is not known, or the run has no such thing.
    Unknown,
    /// A name or a sentence.
    Text(String),
    /// A count, or an amount in whole units.
    Count(u64),
    /// A number, and how many digits after the point say something.
    Number(f64, usize),
}

/// The type of a column's values in JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueType {
    /// A name or a sentence.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An integer from 0.
    Count,
    /// A number with a fraction.
    Number,
}

impl ValueType {
    /// Makes the JSON Schema of a value.
    pub(crate) fn schema(self) -> serde_json::Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::OneOf(words) => json!({ "enum": words }),
            Self::Count => json!({ "type": "integer", "minimum": 0 }),
            Self::Number => json!({ "type": "number" }),
        }
    }

    /// Makes the JSON Schema of a value that is `null` where it is not known.
    pub(crate) fn nullable_schema(self) -> serde_json::Value {
        json!({ "anyOf": [self.schema(), { "type": "null" }] })
    }
}

impl Value {
    /// Makes a text value.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A text that may be unknown.
    pub(crate) fn known_text(text: Option<&str>) -> Self {
        match text {
            Some(text) => Self::text(text),
            None => Self::Unknown,
        }
    }

    /// A count that may be unknown.
    pub(crate) fn count(count: Option<impl Into<u64>>) -> Self {
        match count {
            Some(count) => Self::Count(count.into()),
            None => Self::Unknown,
        }
    }

    /// A number that may be unknown, with so many digits after the point in CSV.
    pub(crate) const fn number(number: Option<f64>, digits: usize) -> Self {
        match number {
            Some(number) => Self::Number(number, digits),
            None => Self::Unknown,
        }
    }

    /// A rate: a thousandth of a byte or op per second is far below what was measured.
    pub(crate) const fn rate(per_s: Option<f64>) -> Self {
        Self::number(per_s, 3)
    }

    /// A share, or what is as small as one.
    pub(crate) const fn share(share: Option<f64>) -> Self {
        Self::number(share, 4)
    }

    /// The median of a figure.
    pub(crate) fn median(summary: Option<&Summary>) -> Self {
        match summary {
            Some(summary) => Self::rate(Some(summary.median)),
            None => Self::Unknown,
        }
    }

    /// The text of a cell of CSV, without quotes.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number, digits) => format!("{number:.digits$}"),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown => serializer.serialize_none(),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Number(number, _) => serializer.serialize_f64(*number),
        }
    }
}
