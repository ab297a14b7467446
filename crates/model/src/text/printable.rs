//! Removes terminal control sequences from text.
//!
//! Names, messages and files from outside may contain escape sequences that move the cursor, change
//! the title, or make the terminal send input as if typed by the user. Bidirectional overrides
//! display text in a misleading order. Both are replaced before anything is printed.
//!
//! **Source:** ECMA-48 (C0, C1, DEL); Unicode Standard Annex 9, "Explicit directional formatting".

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns true if a character controls the terminal or changes the display order of text.
///
/// Line breaks and tabs are layout and count as text.
pub fn is_steering(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// Replaces each such character with U+FFFD, which preserves column widths.
pub fn to_printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_steering) {
        Cow::Owned(text.replace(is_steering, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Makes text printable on one line, by also replacing line breaks and tabs.
pub fn to_printable_line(text: &str) -> Cow<'_, str> {
    match to_printable(text) {
        line if line.contains(['\n', '\t']) => Cow::Owned(line.replace(['\n', '\t'], "\u{fffd}")),
        line => line,
    }
}

/// Escapes such characters in JSON text without changing its value.
///
/// JSON contains none of them outside of strings, and inside of strings each can be written as `\u`
/// with four digits. JSON writers only escape C0.
pub fn to_printable_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_steering) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_steering(c) {
            // Writing to a string never fails.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind: ESC, BEL, CR, DEL, CSI and OSC as C1, overrides and isolates.
    const STEERING: &str = "\u{1b}\u{7}\r\u{7f}\u{9b}\u{9d}\u{202a}\u{202e}\u{2066}\u{2069}";

    #[test]
    fn replaces_all_that_steers() {
        assert_eq!(to_printable(STEERING), "\u{fffd}".repeat(10));
        assert_eq!(to_printable_line("a\nb\tc"), "a\u{fffd}b\u{fffd}c");
    }

    #[test]
    fn leaves_other_text_alone() {
        for text in ["", "two\nlines\tand a tab", "Grüße, 日本語, שלום, e\u{301}, \u{200f}"]
        {
            assert!(matches!(to_printable(text), Cow::Borrowed(same) if same == text));
            assert!(matches!(to_printable_json(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let json = serde_json::to_string_pretty(&[STEERING]).unwrap();
        let escaped = to_printable_json(&json);
        assert!(!escaped.contains(is_steering), "{escaped:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&escaped).unwrap(), [STEERING]);
    }
}
