//! A limit that the results of a campaign must keep, such as `stream read.p99 < 20ms`.
//!
//! Plans declare [`Requirement`]s, and a report checks each against every result that it covers.
//! They are part of the plan's text, which is stored in every campaign; this is the form in which
//! they are read back from there.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::runs::pass::{Opens, Pass};
use crate::runs::workload::Workload;
use crate::text::units::{parse_size, parse_time_ns};

/// A limit, and the runs that it applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    /// The limit as it was written; see [`Limit::parse`].
    pub limit: String,
    /// Settings and the levels that a run must have one of.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, Vec<String>>,
}

/// A parsed limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Pass or workload that it is about, such as `read`, `stream read` or `mixed`; empty for all.
    pub pass: String,
    pub metric: LimitMetric,
    pub relation: LimitRelation,
    /// In bytes or ops per second, nanoseconds, or a number of errors.
    pub value: f64,
}

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LimitMetric {
    /// Bytes per second.
    ByteRate,
    /// Ops per second.
    OpRate,
    /// This quantile of the response times, between 0 and 1.
    ResponseTime(f64),
    /// The wall time of a command, or the time of the slowest rank.
    WallTime,
    /// The share of the time that accelerators compute, between 0 and 1.
    Utilization,
    /// Number of failed ops and of trials without a result.
    Errors,
    /// Number of frames that were not complete by their deadline.
    LateFrames,
}

/// How a result must relate to the value of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitRelation {
    Less,
    AtMost,
    Greater,
    AtLeast,
    /// Only for numbers of errors and late frames, which have no interval.
    Equal,
}

/// Why a limit could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (hint: {hint})")]
pub struct LimitError {
    /// What is wrong.
    pub what: String,
    /// How to write it.
    pub hint: &'static str,
}

const EXAMPLES: &str = "such as `read.p99 < 20ms`, `write.rate >= 2GB/s` or `errors == 0`";
const METRICS: &str = "rate, time, p50, p99, p99.9, max, au, errors or late";
const RATE_HINT: &str = "such as `500MB/s`, `2GB/s`, `300op/s` or `20kop/s`";
const SHARE_HINT: &str = "such as `90%` or `0.9`";
const TIME_HINT: &str = "such as `250us`, `20ms` or `1.5s`";

impl LimitRelation {
    /// All relations; those that begin with another one come before it.
    const ALL: [(&str, Self); 5] = [
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("==", Self::Equal),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    /// Returns true if an exact number keeps the limit.
    pub fn is_met(self, number: f64, value: f64) -> bool {
        match self {
            Self::Less => number < value,
            Self::AtMost => number <= value,
            Self::Greater => number > value,
            Self::AtLeast => number >= value,
            Self::Equal => number.total_cmp(&value).is_eq(),
        }
    }
}

impl LimitMetric {
    /// Returns true if it is a number without an interval.
    pub const fn is_count(self) -> bool {
        matches!(self, Self::Errors | Self::LateFrames)
    }

    /// Returns true if a pass has this metric.
    pub fn applies_to(self, pass: Pass) -> bool {
        match self {
            Self::WallTime => pass == Pass::App || pass.is_timed_by_rank(),
            Self::Utilization => pass == Pass::Train,
            Self::ByteRate => pass.opens() != Opens::Nothing || pass.is_byte_rate(),
            Self::OpRate | Self::ResponseTime(_) => pass != Pass::App,
            Self::Errors => true,
            Self::LateFrames => pass.moves_frames(),
        }
    }
}

impl Limit {
    /// Returns true if the limit is about this pass.
    pub fn covers(&self, workload: Workload, pass: Pass) -> bool {
        self.pass.is_empty() || workload.has_pass_named(&self.pass, pass)
    }

    /// Parses `[PASS.]METRIC RELATION VALUE`, such as `stream read.p99.9 <= 20ms`.
    ///
    /// # Errors
    /// If the metric, the relation or the value is missing, unknown, or of the wrong kind.
    pub fn parse(text: &str) -> Result<Self, LimitError> {
        let error = |what: String, hint| LimitError { what, hint };
        let found = text.find(['<', '>', '=']).and_then(|at| {
            let (subject, rest) = text.split_at(at);
            let (sign, relation) =
                LimitRelation::ALL.iter().find(|(sign, _)| rest.starts_with(sign))?;
            Some((subject.trim(), *relation, rest[sign.len()..].trim()))
        });
        let Some((subject, relation, value)) = found else {
            return Err(error(format!("`{text}` is not a limit"), EXAMPLES));
        };
        // A metric may contain a dot itself: `read.p99.9`.
        let (pass, metric) = match subject.split_once('.') {
            Some((pass, metric)) if !is_metric(subject) => (pass.trim(), metric.trim()),
            _ => ("", subject),
        };
        if !is_metric(metric) {
            let what = format!("`{metric}` is not a metric; it must be {METRICS}");
            return Err(error(what, EXAMPLES));
        }
        let (metric, value) = match metric {
            "errors" => (LimitMetric::Errors, parse_count(value)),
            "late" => (LimitMetric::LateFrames, parse_count(value)),
            "rate" => match parse_rate(value) {
                Some((metric, value)) => (metric, Some(value)),
                None => (LimitMetric::ByteRate, None),
            },
            "time" => (LimitMetric::WallTime, parse_time(value)),
            "au" => (LimitMetric::Utilization, parse_share(value)),
            quantile => (
                LimitMetric::ResponseTime(parse_quantile(quantile).unwrap_or(1.0)),
                parse_time(value),
            ),
        };
        let Some(value) = value else {
            return Err(match metric {
                LimitMetric::Errors | LimitMetric::LateFrames => {
                    error(format!("`{text}` needs a whole number"), "such as `0`")
                }
                LimitMetric::ByteRate | LimitMetric::OpRate => {
                    error(format!("`{text}` needs a rate with its unit"), RATE_HINT)
                }
                LimitMetric::Utilization => {
                    error(format!("`{text}` needs a share of at most 1"), SHARE_HINT)
                }
                _ => error(format!("`{text}` needs a time with its unit"), TIME_HINT),
            });
        };
        if relation == LimitRelation::Equal && !metric.is_count() {
            let what = format!("`{text}` can never be met: a measured value has an interval");
            return Err(error(what, "write <, <=, > or >="));
        }
        Ok(Self { pass: pass.to_owned(), metric, relation, value })
    }
}

fn is_metric(name: &str) -> bool {
    matches!(name, "errors" | "late" | "rate" | "time" | "au") || parse_quantile(name).is_some()
}

/// Parses `p99`, `p99.9` or `max` into a share.
fn parse_quantile(name: &str) -> Option<f64> {
    if name == "max" {
        return Some(1.0);
    }
    let digits = name.strip_prefix('p')?;
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let percent: f64 = digits.parse().ok()?;
    if percent > 0.0 && percent < 100.0 { Some(percent / 100.0) } else { None }
}

/// Parses a time that has a unit.
fn parse_time(text: &str) -> Option<f64> {
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    if has_unit { parse_time_ns(text).ok().map(|ns| ns as f64) } else { None }
}

/// Parses `90%` or `0.9`.
fn parse_share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

fn parse_count(text: &str) -> Option<f64> {
    text.parse::<u32>().ok().map(f64::from)
}

/// Parses `2GB/s` or `20kop/s`.
fn parse_rate(text: &str) -> Option<(LimitMetric, f64)> {
    let amount = text.strip_suffix("/s")?.trim_end();
    let Some(number) = amount.strip_suffix("ops").or_else(|| amount.strip_suffix("op")) else {
        let has_unit = amount.ends_with(['B', 'b']);
        let bytes = if has_unit { parse_size(amount).ok()? } else { return None };
        return Some((LimitMetric::ByteRate, bytes as f64));
    };
    let number = number.trim_end();
    let (number, factor) = match number.strip_suffix(['k', 'K']) {
        Some(thousands) => (thousands, 1e3),
        None => match number.strip_suffix('M') {
            Some(millions) => (millions, 1e6),
            None => (number, 1.0),
        },
    };
    let ops: f64 = number.trim_end().parse().ok()?;
    if ops.is_finite() && ops >= 0.0 { Some((LimitMetric::OpRate, ops * factor)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_limits() {
        let p99 = LimitMetric::ResponseTime(0.99);
        for (text, pass, metric, relation, value) in [
            ("read.p99 < 20ms", "read", p99, LimitRelation::Less, 20e6),
            ("stream read.p99<=1.5s", "stream read", p99, LimitRelation::AtMost, 1.5e9),
            ("p50 < 250us", "", LimitMetric::ResponseTime(0.5), LimitRelation::Less, 250e3),
            ("read.max < 1s", "read", LimitMetric::ResponseTime(1.0), LimitRelation::Less, 1e9),
            ("write.rate >= 2GB/s", "write", LimitMetric::ByteRate, LimitRelation::AtLeast, 2e9),
            (
                "rate > 1.5 GiB/s",
                "",
                LimitMetric::ByteRate,
                LimitRelation::Greater,
                1.5 * (1 << 30) as f64,
            ),
            ("create.rate >= 20kop/s", "create", LimitMetric::OpRate, LimitRelation::AtLeast, 20e3),
            ("stat.rate >= 300 ops/s", "stat", LimitMetric::OpRate, LimitRelation::AtLeast, 300.0),
            ("app.time < 2m", "app", LimitMetric::WallTime, LimitRelation::Less, 120e9),
            ("train.au >= 90%", "train", LimitMetric::Utilization, LimitRelation::AtLeast, 0.9),
            ("au > 0.85", "", LimitMetric::Utilization, LimitRelation::Greater, 0.85),
            ("errors == 0", "", LimitMetric::Errors, LimitRelation::Equal, 0.0),
            ("play.late == 0", "play", LimitMetric::LateFrames, LimitRelation::Equal, 0.0),
        ] {
            let limit = Limit { pass: pass.to_owned(), metric, relation, value };
            assert_eq!(Limit::parse(text), Ok(limit), "{text}");
        }
    }

    #[test]
    fn keeps_dot_of_percentile() {
        for (text, pass) in [("read.p99.9 < 1s", "read"), ("p99.9 < 1s", "")] {
            let limit = Limit::parse(text).unwrap();
            assert_eq!(limit.pass, pass);
            assert!(
                matches!(limit.metric, LimitMetric::ResponseTime(q) if (q - 0.999).abs() < 1e-9)
            );
        }
    }

    #[test]
    fn refuses_bad_limits() {
        for text in [
            "",
            "read.p99 20ms",
            "read.p99 =< 20ms",
            "read.p100 < 20ms",
            "read.median < 20ms",
            "read.p99 < 20",
            "read.rate > 500",
            "read.rate > 500MB",
            "read.rate > 20ms",
            "au >= 90",
            "errors == none",
            "errors == -1",
            "read.p99 == 20ms",
            "read.p99 <",
        ] {
            assert!(Limit::parse(text).is_err(), "{text}");
        }
    }
}
