//! Text of metrics as Prometheus reads it: families, samples, labels.
//!
//! [`Exposition`] is the principal type; which families there are is the matter of its users. All
//! samples of a family follow its head, and no family has two heads.
//!
//! **Source:** OpenMetrics 1.0 (draft-richih-opsawg-openmetrics-00), 4.1 to 5.

use std::fmt::Write as _;

/// A text of metrics that grows.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a family; `unit` is the end of its name, or empty.
    pub(crate) fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // Writing to a String never fails, here and below.
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }

    /// Adds a sample; the labels are those of [`labels`].
    pub(crate) fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{{labels}}} {value}");
    }

    /// Ends the text with its mark.
    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

/// Writes labels, each a name and any text.
pub(crate) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        push_label(&mut text, name, value);
    }
    text
}

/// Adds a label to others, or to none.
pub(crate) fn push_label(labels: &mut String, name: &str, value: &str) {
    if !labels.is_empty() {
        labels.push(',');
    }
    let _ = write!(labels, "{name}=\"{}\"", escape_label(value));
}

/// A label's value: three characters have escapes, other control characters are replaced.
pub(crate) fn escape_label(text: &str) -> String {
    // OpenMetrics 1.0, 4.1 (escaped strings): backslash, quote and line feed; a raw control
    // character would end the line or the file for some readers.
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
