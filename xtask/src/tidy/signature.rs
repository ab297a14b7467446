//! Parses the functions of a file: name, line, and the parameters with their types.
//!
//! Main type: [`Function`]. Works on the masked code of [`super::source`], so braces and commas in
//! literals and comments don't count. Closures and function pointers have no name and are not
//! functions here; a receiver (`&self`) is not a parameter.

use super::source::Source;

/// One `fn` with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name after `fn`.
    pub name: String,
    /// 0-based line of the `fn`.
    pub line: usize,
    /// The parameters in order, without the receiver.
    pub parameters: Vec<Parameter>,
}

/// One parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The text before the colon: a name or a pattern.
    pub pattern: String,
    /// The text after the colon.
    pub type_name: String,
}

impl Parameter {
    /// Returns true if the type is a tuple of two or more, behind any number of references.
    ///
    /// A slice or an iterator of pairs is a table and doesn't count.
    pub fn is_tuple(&self) -> bool {
        let referenced = strip_references(&self.type_name);
        let Some(inner) = referenced.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
        else {
            return false;
        };
        split_at_commas(inner).len() > 1
    }

    /// Returns true if the type is `bool`.
    pub fn is_bool(&self) -> bool {
        self.type_name == "bool"
    }
}

/// Returns the functions of a file outside its tests, in order.
pub fn functions(source: &Source) -> Vec<Function> {
    let mut found = Vec::new();
    for (line, code) in source.code.iter().enumerate() {
        if source.in_tests(line) {
            continue;
        }
        let mut start = 0;
        while let Some(at) = find_fn(code, start) {
            start = at + 2;
            if let Some(function) = read_function(&source.code, line, start) {
                found.push(function);
            }
        }
    }
    found
}

/// Returns the byte offset of the next word `fn` of a line.
fn find_fn(code: &str, start: usize) -> Option<usize> {
    let mut from = start;
    while let Some(at) = code[from..].find("fn ") {
        let at = from + at;
        let before = code[..at].chars().next_back();
        if !before.is_some_and(is_word_character) {
            return Some(at);
        }
        from = at + 2;
    }
    None
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Parses a function whose name starts after byte `column` of a line.
fn read_function(code: &[String], line: usize, column: usize) -> Option<Function> {
    let first = code[line][column..].trim_start();
    let name: String = first.chars().take_while(|c| is_word_character(*c)).collect();
    if name.is_empty() {
        return None;
    }
    let mut rest = first[name.len()..].to_owned();
    for next in &code[line + 1..] {
        // A signature ends with its body or a semicolon; more text changes nothing.
        if rest.contains(['{', ';']) && parameter_list(&rest).is_some() {
            break;
        }
        rest.push(' ');
        rest.push_str(next.trim());
    }
    let mut parameters = Vec::new();
    for text in split_at_commas(parameter_list(&rest)?) {
        parameters.extend(read_parameter(text));
    }
    Some(Function { name, line, parameters })
}

/// Returns the text between the parentheses of a signature, after the generic parameters.
fn parameter_list(signature: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut opened = None;
    let mut before = ' ';
    for (at, character) in signature.char_indices() {
        match character {
            '(' if depth == 0 => {
                opened = Some(at + 1);
                depth = 1;
            }
            '<' | '(' | '[' | '{' => depth += 1,
            // The `>` of `->` closes nothing.
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && character == ')' {
                    return signature.get(opened?..at);
                }
            }
            _ => {}
        }
        before = character;
    }
    None
}

/// Splits a list at commas outside brackets; an empty last part is dropped.
pub fn split_at_commas(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    let mut before = ' ';
    for (at, character) in list.char_indices() {
        match character {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        before = character;
    }
    let last = list[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// Splits `pattern: Type`; `None` for a receiver.
fn read_parameter(text: &str) -> Option<Parameter> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && !text[at + 1..].starts_with(':') => {
                let (pattern, type_name) = (text[..at].trim(), text[at + 1..].trim());
                let is_receiver = pattern.trim_start_matches("mut ") == "self";
                if is_receiver {
                    return None;
                }
                return Some(Parameter {
                    pattern: pattern.to_owned(),
                    type_name: type_name.to_owned(),
                });
            }
            _ => {}
        }
    }
    None
}

/// Removes `&`, `&mut` and `&'a` from the front of a type.
fn strip_references(type_name: &str) -> &str {
    let mut rest = type_name.trim();
    while let Some(behind) = rest.strip_prefix('&') {
        rest = behind.trim_start();
        if let Some(lifetime) = rest.strip_prefix('\'') {
            rest = lifetime.trim_start_matches(is_word_character).trim_start();
        }
        rest = rest.strip_prefix("mut ").unwrap_or(rest).trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Function {
        let mut found = functions(&Source::new(text));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn names_lines_and_types_are_read_over_several_lines() {
        let text = "\npub fn a<T: Fn(u8) -> u8>(\n    &mut self,\n    x: Vec<(u8, u8)>,\n    \
                    (b, c): &'a mut (u8, T),\n) -> (u8, u8)\nwhere\n    T: Clone,\n{\n}\n";
        let function = only(text);
        assert_eq!((function.name.as_str(), function.line), ("a", 1));
        let patterns: Vec<&str> =
            function.parameters.iter().map(|one| one.pattern.as_str()).collect();
        assert_eq!(patterns, ["x", "(b, c)"]);
        let tuples: Vec<bool> = function.parameters.iter().map(Parameter::is_tuple).collect();
        assert_eq!(tuples, [false, true]);
    }

    #[test]
    fn only_a_tuple_is_a_tuple() {
        let refused = "fn a(x: ((u8, u8), u8)) {}";
        assert!(only(refused).parameters[0].is_tuple());
        let fine = "fn a(a: (), b: (u8), c: &[(u8, u8)], d: fn(u8, u8), e: Option<(u8, u8)>) {}";
        let function = only(fine);
        assert_eq!(function.parameters.len(), 5);
        assert!(!function.parameters.iter().any(Parameter::is_tuple), "{function:?}");
    }

    #[test]
    fn tests_closures_and_words_that_end_in_fn_are_no_functions() {
        let text = "const A: fn (u8) = b;\nlet often = xfn (1);\n#[cfg(test)]\nmod tests {\n    \
                    fn c(x: bool) {}\n}\n";
        assert_eq!(functions(&Source::new(text)), []);
    }
}
