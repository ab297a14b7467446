//! Result for programs: plain, without its unit.
//!
//! [`Value`] is the main type. CSV has as many digits as are significant, JSON has all of
//! them.

use serde::{Serialize, Serializer};
use serde_json::json;
use stats::Summary;

/// Value of a column in machine-readable formats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Unknown, or not applicable to the run.
    Unknown,
    /// Name or sentence.
    Text(String),
    /// Count, or amount in whole units.
    Count(u64),
    /// Number, and how many of its decimals are significant.
    Number(f64, usize),
}

/// Type of a column's values in JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueType {
    /// Name or sentence.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Non-negative integer.
    Count,
    /// Number with a fraction.
    Number,
}

impl ValueType {
    pub(crate) fn schema(self) -> serde_json::Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::OneOf(words) => json!({ "enum": words }),
            Self::Count => json!({ "type": "integer", "minimum": 0 }),
            Self::Number => json!({ "type": "number" }),
        }
    }

    /// JSON Schema of a value that is `null` if unknown.
    pub(crate) fn nullable_schema(self) -> serde_json::Value {
        json!({ "anyOf": [self.schema(), { "type": "null" }] })
    }
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Text that may be unknown.
    pub(crate) fn known_text(text: Option<&str>) -> Self {
        match text {
            Some(text) => Self::text(text),
            None => Self::Unknown,
        }
    }

    /// Count that may be unknown.
    pub(crate) fn count(count: Option<impl Into<u64>>) -> Self {
        match count {
            Some(count) => Self::Count(count.into()),
            None => Self::Unknown,
        }
    }

    /// Number that may be unknown, with the given number of decimals in CSV.
    pub(crate) const fn number(number: Option<f64>, digits: usize) -> Self {
        match number {
            Some(number) => Self::Number(number, digits),
            None => Self::Unknown,
        }
    }

    /// Rate; a thousandth of a byte or op per second is far below the precision of a measurement.
    pub(crate) const fn rate(per_s: Option<f64>) -> Self {
        Self::number(per_s, 3)
    }

    /// Share, or a similarly small number.
    pub(crate) const fn share(share: Option<f64>) -> Self {
        Self::number(share, 4)
    }

    /// Median of a result.
    pub(crate) fn median(summary: Option<&Summary>) -> Self {
        match summary {
            Some(summary) => Self::rate(Some(summary.median)),
            None => Self::Unknown,
        }
    }

    /// Text of a CSV cell, without quotes.
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
