//! `cargo xtask tidy --figures`: how the code reads, as counts for each crate.
//!
//! Principal type: [`Figures`]. Nothing is judged here; the figures are for comparing one commit
//! with another. What is counted and how is printed with them ([`HOW`]), so that they can be
//! counted again by other means.

use std::fmt::Write as _;

use super::docs::{self, Flaw};
use super::files::{self, SourceFile};
use super::signature;
use super::vocabulary;

/// How the figures are counted; printed above them.
const HOW: &str = "\
Counted are the files below `src` of each crate, without files and modules of tests.
  lines       lines that hold code: neither blank, nor a comment alone
  comments    lines that begin with `//` and are no documentation, per 1,000 lines
  combinators calls of all, and_then, any, chain, filter, filter_map, find, find_map, flat_map,
              flatten, fold, for_each, inspect, is_some_and, is_none_or, map, map_err, map_or,
              map_or_else, ok_or, ok_or_else, or_else, partition, position, scan, skip_while,
              take_while, then, then_some, transpose, try_fold, try_for_each, unwrap_or_else and
              zip after a dot, per 1,000 lines
  closures    lines with `let NAME = |..|`, also with `move` or `mut`, per 1,000 lines
  one word    share of the named functions without `_` in their name; `new`, `main`, `from`,
              `fmt`, `default`, `drop`, `next`, `eq`, `cmp`, `hash` and `clone` aside, which a
              trait or a habit prescribes
  of/as/what  documentation that begins with Of, As, What, Where or Which
  short docs  documentation whose first line has one or two words
  bools       parameters of type bool
  tuples      parameters whose type is a tuple
  words       words of the table in xtask/src/tidy/vocabulary.rs, tests included
Documentation is counted once for each item, by its first line.
";

/// Methods that are combinators.
const COMBINATORS: [&str; 34] = [
    "all",
    "and_then",
    "any",
    "chain",
    "filter",
    "filter_map",
    "find",
    "find_map",
    "flat_map",
    "flatten",
    "fold",
    "for_each",
    "inspect",
    "is_none_or",
    "is_some_and",
    "map",
    "map_err",
    "map_or",
    "map_or_else",
    "ok_or",
    "ok_or_else",
    "or_else",
    "partition",
    "position",
    "scan",
    "skip_while",
    "take_while",
    "then",
    "then_some",
    "transpose",
    "try_fold",
    "try_for_each",
    "unwrap_or_else",
    "zip",
];

/// Names of one word that aren't a choice.
const PRESCRIBED: [&str; 11] =
    ["new", "main", "from", "fmt", "default", "drop", "next", "eq", "cmp", "hash", "clone"];

/// Counts of one crate, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    lines: usize,
    comments: usize,
    combinators: usize,
    closures: usize,
    functions: usize,
    one_word: usize,
    relative_docs: usize,
    short_docs: usize,
    bools: usize,
    tuples: usize,
    words: usize,
}

impl Figures {
    /// Counts some files.
    fn count(files: &[&SourceFile]) -> Self {
        let mut figures = Self::default();
        for file in files {
            figures.count_lines(file);
            figures.count_functions(file);
            figures.count_documentation(file);
        }
        figures
    }

    fn count_lines(&mut self, file: &SourceFile) {
        for (number, line) in file.source.lines.iter().enumerate() {
            if file.source.in_tests(number) {
                continue;
            }
            let (line, code) = (line.trim(), file.source.code[number].trim());
            if !code.is_empty() {
                self.lines += 1;
                self.combinators += count_combinators(code);
                self.closures += usize::from(names_closure(code));
            }
            let is_documentation = line.starts_with("///") || line.starts_with("//!");
            self.comments += usize::from(line.starts_with("//") && !is_documentation);
        }
    }

    fn count_documentation(&mut self, file: &SourceFile) {
        for (_, first) in docs::first_lines(file) {
            match docs::flaw(first) {
                Some(Flaw::Relative) => self.relative_docs += 1,
                Some(Flaw::Short) => self.short_docs += 1,
                None => {}
            }
        }
    }

    fn count_functions(&mut self, file: &SourceFile) {
        for function in signature::functions(&file.source) {
            for parameter in &function.parameters {
                self.bools += usize::from(parameter.is_bool());
                self.tuples += usize::from(parameter.is_tuple());
            }
            if !PRESCRIBED.contains(&function.name.as_str()) {
                self.functions += 1;
                self.one_word += usize::from(!function.name.contains('_'));
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.comments += other.comments;
        self.combinators += other.combinators;
        self.closures += other.closures;
        self.functions += other.functions;
        self.one_word += other.one_word;
        self.relative_docs += other.relative_docs;
        self.short_docs += other.short_docs;
        self.bools += other.bools;
        self.tuples += other.tuples;
        self.words += other.words;
    }

    /// Returns how often something is there per 1,000 lines, with one decimal.
    fn per_thousand(&self, count: usize) -> String {
        format!("{:.1}", share(count, self.lines) * 1_000.0)
    }

    /// Writes them as a row of the table, under a name.
    fn row(&self, name: &str) -> String {
        format!(
            "{name:<12}{:>8}{:>10}{:>13}{:>10}{:>9.0}%{:>12}{:>12}{:>7}{:>8}{:>7}",
            self.lines,
            self.per_thousand(self.comments),
            self.per_thousand(self.combinators),
            self.per_thousand(self.closures),
            share(self.one_word, self.functions) * 100.0,
            self.relative_docs,
            self.short_docs,
            self.bools,
            self.tuples,
            self.words,
        )
    }
}

/// Counts the files of every crate and writes the table, with how it was counted.
pub fn table(files: &[SourceFile]) -> String {
    let mut text = format!(
        "{HOW}\n{:<12}{:>8}{:>10}{:>13}{:>10}{:>10}{:>12}{:>12}{:>7}{:>8}{:>7}\n",
        "crate",
        "lines",
        "comments",
        "combinators",
        "closures",
        "one word",
        "of/as/what",
        "short docs",
        "bools",
        "tuples",
        "words"
    );
    let mut all = Figures::default();
    let with_tests = files::all_by_crate(files);
    for (name, files) in files::product_code_by_crate(files) {
        let mut figures = Figures::count(&files);
        figures.words = vocabulary::count(&with_tests[name]);
        all.add(&figures);
        // Writing to a String can't fail.
        let _ = writeln!(text, "{}", figures.row(name));
    }
    let _ = writeln!(text, "{}", all.row("all"));
    text
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Counts the calls of combinators in a line of code.
fn count_combinators(code: &str) -> usize {
    let mut count = 0;
    for behind in code.split('.').skip(1) {
        let name = behind.split(['(', ':']).next().unwrap_or_default();
        count += usize::from(name.len() < behind.len() && COMBINATORS.contains(&name));
    }
    count
}

/// Tells whether a line of code binds a closure to a name.
fn names_closure(code: &str) -> bool {
    let Some(binding) = code.strip_prefix("let ") else { return false };
    let Some((name, value)) = binding.split_once('=') else { return false };
    let is_plain = !name.contains(['(', '{', '[']);
    let value = value.trim_start();
    is_plain && value.strip_prefix("move ").unwrap_or(value).starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Figures {
        Figures::count(&[&SourceFile::new("crates/shed/src/a.rs", text)])
    }

    #[test]
    fn each_figure_counts_what_is_planted_for_it() {
        let text = "\
//! Header.

/// What it is for.
/// Of more lines only the first counts.
struct A;

/// Short.
fn dug((a, b): (u8, u8), deep: bool) {
    // A comment.
    let double = |x: u8| x * 2; // and one behind code
    let mut first = move || list.iter().map(double).filter_map::<u8>(b).collect();
    let text = \".map(\";
}

/// Digs a hole.
fn dig_hole() {}
fn new() {}
";
        let want = Figures {
            lines: 8,
            comments: 1,
            combinators: 2,
            closures: 2,
            functions: 2,
            one_word: 1,
            relative_docs: 1,
            short_docs: 1,
            bools: 1,
            tuples: 1,
            words: 0,
        };
        assert_eq!(counted(text), want);
    }

    #[test]
    fn tests_are_not_counted() {
        let text = "#[cfg(test)]\nmod tests {\n    /// Of\n    fn a(x: bool) { b.map(c) }\n}\n";
        assert_eq!(counted(text), Figures::default());
    }

    #[test]
    fn what_only_looks_like_a_closure_or_a_combinator_is_none() {
        let text = "let a = b | c;\nlet (d, e) = (|| 1, 2);\nf.map;\ng.map_values(h);\n";
        let figures = counted(text);
        assert_eq!((figures.closures, figures.combinators), (0, 0));
    }

    #[test]
    fn the_table_has_a_row_for_each_crate_and_for_all_and_says_how() {
        let files = [
            SourceFile::new("crates/a/src/lib.rs", "fn dig() {}\n"),
            SourceFile::new("crates/b/src/lib.rs", "fn dig_hole() {}\n"),
        ];
        let text = table(&files);
        assert!(text.starts_with("Counted are"), "{text}");
        let shares: Vec<&str> =
            text.lines().rev().take(3).filter_map(|row| row.split_whitespace().nth(5)).collect();
        assert_eq!(shares, ["50%", "0%", "100%"]);
    }

    #[test]
    fn how_it_is_counted_names_every_combinator() {
        for name in COMBINATORS {
            let words = HOW.split([' ', '\n', ',']);
            assert!(words.clone().any(|word| word == name), "{name}");
        }
    }
}
