//! Splits Rust text into code, comments and literals, well enough to count and to search.
//!
//! Main type: [`Source`]. `code` is the text with the content of comments, strings and characters
//! blanked, line by line, so braces in it are real braces. A parser would be more precise, but
//! would add a dependency to learn what one pass over the bytes can tell. Limitations: braces
//! produced by macros, and code in doc comments.

use std::ops::RangeInclusive;

/// A text and its parts.
pub struct Source {
    /// The original lines.
    pub lines: Vec<String>,
    /// The same lines, with comments and the content of literals blanked.
    pub code: Vec<String>,
    /// 0-based line ranges of `#[cfg(test)]` items.
    tests: Vec<RangeInclusive<usize>>,
}

impl Source {
    /// Splits a text.
    pub fn new(text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let code: Vec<String> = mask(text).lines().map(str::to_owned).collect();
        let tests = test_items(&code);
        Self { lines, code, tests }
    }

    /// Returns true if a line (0-based) is in a `#[cfg(test)]` item.
    pub fn in_tests(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }
}

/// Returns the 0-based last line of the block that opens at or after `line`, `column`.
///
/// `None` if a `;` comes before any `{`: there is no body.
fn end_of_block(code: &[String], line: usize, column: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut parens = 0_usize;
    for (number, text) in code.iter().enumerate().skip(line) {
        let skip = if number == line { column } else { 0 };
        for character in text.chars().skip(skip) {
            match character {
                '(' | '[' => parens += 1,
                ')' | ']' => parens = parens.saturating_sub(1),
                ';' if depth == 0 && parens == 0 => return None,
                '{' => depth += 1,
                '}' if depth <= 1 => return (depth == 1).then_some(number),
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

fn test_items(code: &[String]) -> Vec<RangeInclusive<usize>> {
    let mut ranges = Vec::new();
    for (number, text) in code.iter().enumerate() {
        let Some(at) = text.find("#[cfg(test)]") else { continue };
        let end = end_of_block(code, number, at + "#[cfg(test)]".len());
        // Without a body it is `mod tests;` or a `use`: at most the next two lines.
        ranges.push(number..=end.unwrap_or(number + 1));
    }
    ranges
}

/// Blanks comments and the content of literals; newlines stay.
fn mask(text: &str) -> String {
    let mut masker = Masker { rest: text.chars().collect(), at: 0, out: String::new() };
    masker.out.reserve(text.len());
    while masker.at < masker.rest.len() {
        masker.step();
    }
    masker.out
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

struct Masker {
    rest: Vec<char>,
    at: usize,
    out: String,
}

impl Masker {
    fn peek(&self, ahead: usize) -> char {
        self.rest.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn keep(&mut self) {
        self.out.push(self.peek(0));
        self.at += 1;
    }

    fn blank(&mut self) {
        self.out.push(if self.peek(0) == '\n' { '\n' } else { ' ' });
        self.at += 1;
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.line_comment(),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('r', '"' | '#') if !self.after_word() => self.raw_string(),
            ('\'', _) => self.character(),
            _ => self.keep(),
        }
    }

    /// Returns true if the previous character is part of a word other than the prefixes `b` and
    /// `c`.
    fn after_word(&self) -> bool {
        let mut before = self.rest[..self.at].iter().rev();
        match before.next() {
            Some('b' | 'c') => before.next().copied().is_some_and(is_word_character),
            Some(other) => is_word_character(*other),
            None => false,
        }
    }

    fn line_comment(&mut self) {
        while self.at < self.rest.len() && self.peek(0) != '\n' {
            self.blank();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.rest.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.blank();
                    continue;
                }
            }
            self.blank();
            self.blank();
            if depth == 0 {
                break;
            }
        }
    }

    fn string(&mut self) {
        self.keep();
        while self.at < self.rest.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.blank();
            }
            self.blank();
        }
        self.keep_if_left();
    }

    fn raw_string(&mut self) {
        let hashes = self.rest[self.at + 1..].iter().take_while(|c| **c == '#').count();
        if self.peek(1 + hashes) != '"' {
            // `r#name`, a raw identifier.
            return self.keep();
        }
        for _ in 0..hashes + 2 {
            self.keep();
        }
        while self.at < self.rest.len() && !self.closes_raw_string(hashes) {
            self.blank();
        }
        for _ in 0..=hashes {
            self.keep_if_left();
        }
    }

    /// Returns true if a quote with the same number of hashes is next.
    fn closes_raw_string(&self, hashes: usize) -> bool {
        self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#')
    }

    fn character(&mut self) {
        let is_lifetime = self.peek(1) != '\\' && self.peek(2) != '\'';
        self.keep();
        if is_lifetime {
            return;
        }
        if self.peek(0) == '\\' {
            self.blank();
        }
        self.blank();
        while self.at < self.rest.len() && self.peek(0) != '\'' {
            self.blank();
        }
        self.keep_if_left();
    }

    fn keep_if_left(&mut self) {
        if self.at < self.rest.len() {
            self.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_braces_in_literals() {
        let text = "a /* { /* { */ */ b // {\n\"{\\\"{\" r#\"{\"{\"# b'{' '\\'' '{' 'x: &'a str }";
        let masked = mask(text);
        assert!(!masked.contains('{'), "{masked}");
        assert!(masked.ends_with("&'a str }"), "{masked}");
        assert_eq!(masked.chars().count(), text.chars().count());
    }

    #[test]
    fn recognizes_raw_identifiers() {
        assert_eq!(mask("r#type { for\"x\" br\"{\" }"), "r#type { for\" \" br\" \" }");
    }

    #[test]
    fn finds_end_of_nested_block() {
        let source = Source::new("fn a(x: [u8; 4]) -> u8 {\n if x { 1 } else { 2 }\n}\nfn b();\n");
        assert_eq!(end_of_block(&source.code, 0, 0), Some(2));
        assert_eq!(end_of_block(&source.code, 3, 0), None);
    }

    #[test]
    fn test_modules_are_known() {
        let source = Source::new("fn a() {}\n#[cfg(test)]\nmod tests {\n  x\n}\nfn b() {}\n");
        let in_tests: Vec<bool> = (0..6).map(|line| source.in_tests(line)).collect();
        assert_eq!(in_tests, [false, true, true, true, true, false]);
    }
}
