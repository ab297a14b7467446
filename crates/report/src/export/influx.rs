//! Report in InfluxDB's line protocol: a point for each row and for each trial.
//!
//! Tags identify a row, like labels do in OpenMetrics. Fields are its results, in seconds, bytes
//! and ops; invalid results are left out. The timestamp of a row is the start of its campaign, and
//! that of a trial its own start, in nanoseconds since 1970 UTC.
//!
//! **Source:** the line protocol reference of InfluxDB 2 (elements, special characters, comments).

use std::fmt::Write as _;

use crate::table::{Row, Sheet};

/// Comment line, so that a file without points is not empty.
const HEAD: &str = "# Results of dfsbench; times are nanoseconds since 1970 UTC\n";

/// Measurement for rows: one point for each run and pass.
const OF_ROWS: &str = "dfsbench";

/// Measurement for trials.
const OF_TRIALS: &str = "dfsbench_trial";

/// Quantiles of the times, with the suffix of their field names.
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p999")];

/// Writes one point per line.
pub(crate) fn render(sheet: &Sheet<'_>) -> String {
    let mut out = String::from(HEAD);
    for row in &sheet.rows {
        let tags = row_tags(sheet, row);
        write_row(&mut out, sheet, row, &tags);
        write_trials(&mut out, row, &tags);
    }
    out
}

/// Fields of a point, which needs at least one.
#[derive(Default)]
struct Fields {
    text: String,
}

impl Fields {
    /// Adds a number, unless it is missing or not finite.
    fn number(&mut self, key: &str, value: Option<f64>) {
        if let Some(value) = value
            && value.is_finite()
        {
            self.begin(key);
            // Rust writes all digits without an exponent, which the protocol accepts.
            let _ = write!(self.text, "{value}");
        }
    }

    /// Adds a count, which is a 64-bit integer in InfluxDB.
    fn count(&mut self, key: &str, value: u64) {
        self.begin(key);
        let _ = write!(self.text, "{}i", i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.begin(key);
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace(char::is_control, " ");
        let _ = write!(self.text, "\"{value}\"");
    }

    fn begin(&mut self, key: &str) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        let _ = write!(self.text, "{key}=");
    }
}

fn write_row(out: &mut String, sheet: &Sheet<'_>, row: &Row<'_>, tags: &str) {
    let judged = &row.judged;
    let mut fields = Fields::default();
    fields.text("verdict", judged.verdict.name());
    fields.count("trials", u64::from(judged.trials_used));
    let codes: Vec<_> = judged
        .caveats
        .iter()
        .filter(|caveat| !caveat.is_minor())
        .map(|caveat| caveat.code.code())
        .collect();
    fields.count("caveats", codes.len() as u64);
    if !codes.is_empty() {
        fields.text("caveat_codes", &codes.join(" "));
    }
    if row.counts() {
        let rates = [("bytes_per_s", &judged.bytes_per_s), ("ops_per_s", &judged.ops_per_s)];
        for (key, summary) in rates {
            let Some(summary) = summary else { continue };
            fields.number(key, Some(summary.median));
            if let Some((low, high)) = summary.confidence_interval() {
                fields.number(&format!("{key}_low"), Some(low));
                fields.number(&format!("{key}_high"), Some(high));
            }
        }
        fields.number("offered_ops_per_s", judged.offered_per_s);
        fields.number("client_cpu_percent", judged.cpu_percent);
        let times =
            [("service_time", &judged.service_time), ("response_time", &judged.response_time)];
        for (key, times) in times {
            if times.count() == 0 {
                continue;
            }
            for (quantile, end) in QUANTILES {
                let seconds = times.quantile(quantile) as f64 / 1e9;
                fields.number(&format!("{key}_{end}_s"), Some(seconds));
            }
            fields.number(&format!("{key}_max_s"), Some(times.max() as f64 / 1e9));
        }
    }
    let at_ns = u128::from(sheet.campaign.started_unix_ms) * 1_000_000;
    let _ = writeln!(out, "{OF_ROWS},{tags} {} {at_ns}", fields.text);
}

fn write_trials(out: &mut String, row: &Row<'_>, tags: &str) {
    for point in &row.judged.points {
        let Some(trial) = row.run.trials.iter().find(|it| it.index == point.trial_index) else {
            continue;
        };
        let mut fields = Fields::default();
        let is_bytes = row.judged.pass.is_byte_rate();
        fields.number(if is_bytes { "bytes_per_s" } else { "ops_per_s" }, Some(point.per_s));
        if fields.text.is_empty() {
            continue;
        }
        let _ = write!(fields.text, ",used={}", point.used);
        let at_ns = u128::from(trial.started_unix_ms) * 1_000_000;
        let index = trial.index;
        let _ = writeln!(out, "{OF_TRIALS},{tags},trial={index} {} {at_ns}", fields.text);
    }
}

/// Formats the tags that identify a row.
fn row_tags(sheet: &Sheet<'_>, row: &Row<'_>) -> String {
    let mut tags = String::new();
    for (key, value) in sheet.identify(row) {
        push_tag(&mut tags, &key, &value);
    }
    tags
}

/// Adds a tag, unless it is empty, which the protocol does not allow.
fn push_tag(tags: &mut String, key: &str, value: &str) {
    let value = escape_tag(value);
    if !value.is_empty() {
        if !tags.is_empty() {
            tags.push(',');
        }
        let _ = write!(tags, "{}={value}", escape_tag(key));
    }
}

/// Escapes commas, equal signs and spaces. Control characters are not allowed, and neither is a
/// trailing backslash, which would escape the next character.
fn escape_tag(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ',' | '=' | ' ' => out.extend(['\\', c]),
            '\\' => out.push('/'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_tags_and_texts() {
        assert_eq!(escape_tag("a b,c=d"), "a\\ b\\,c\\=d");
        assert_eq!(escape_tag("end\\\nx"), "end/\u{fffd}x");
        let mut tags = "campaign=1".to_owned();
        push_tag(&mut tags, "name", "");
        assert_eq!(tags, "campaign=1");
        let mut fields = Fields::default();
        fields.text("verdict", "a \"b\\\"\n");
        fields.number("none", Some(f64::NAN));
        fields.number("rate", Some(1.5e9));
        fields.count("ops", u64::MAX);
        let expected = format!("verdict=\"a \\\"b\\\\\\\" \",rate=1500000000,ops={}i", i64::MAX);
        assert_eq!(fields.text, expected);
    }
}
