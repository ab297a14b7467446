//! Metrics in the text format of Prometheus: families, samples and labels.
//!
//! [`Exposition`] is the main type; its users choose the families. All samples of a family
//! must follow its header, and a family has only one header.
//!
//! **Source:** OpenMetrics 1.0 (draft-richih-opsawg-openmetrics-00), 4.1 to 5.

use std::fmt::Write as _;

/// Metrics text under construction.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    /// Starts a family. `unit` is the suffix of its name, or empty.
    pub(crate) fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }

    /// Adds a sample with labels formatted by [`labels`].
    pub(crate) fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{{labels}}} {value}");
    }

    /// Adds the end marker and returns the text.
    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

/// Formats labels, each a name and any text.
pub(crate) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        push_label(&mut text, name, value);
    }
    text
}

/// Appends a label.
pub(crate) fn push_label(labels: &mut String, name: &str, value: &str) {
    if !labels.is_empty() {
        labels.push(',');
    }
    let _ = write!(labels, "{name}=\"{}\"", escape_label(value));
}

/// Escapes a label value.
pub(crate) fn escape_label(text: &str) -> String {
    // OpenMetrics 1.0, 4.1 (escaped strings) only escapes backslash, quote and line feed. Other
    // control characters would end the line or file for some readers, so replace them.
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
