//! Text with variables: `{name}` in a text, `{*name}` for several words of a command.
//!
//! A brace without a name is literal, so that configuration files need no escapes. `{{name}}` is
//! the literal text `{name}`.

use std::collections::BTreeMap;

use super::RecipeError;

/// Values of a recipe's variables in one context.
pub(super) type Values = BTreeMap<String, String>;

/// Fills in text using these values.
pub(super) struct Template<'a> {
    pub values: &'a Values,
}

impl Template<'_> {
    /// Fills in one text. `key` names it in errors.
    pub(super) fn text(&self, key: &str, text: &str) -> Result<String, RecipeError> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(name) = name_between(rest, "{{", "}}") {
                filled.push('{');
                filled.push_str(name);
                filled.push('}');
                rest = &rest[name.len() + 4..];
            } else if let Some(name) = name_between(rest, "{", "}") {
                filled.push_str(self.value(key, name)?);
                rest = &rest[name.len() + 2..];
            } else {
                filled.push('{');
                rest = &rest[1..];
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Fills in several texts.
    pub(super) fn texts(&self, key: &str, texts: &[String]) -> Result<Vec<String>, RecipeError> {
        texts.iter().map(|text| self.text(key, text)).collect()
    }

    /// Fills in a command. `{*name}` expands to as many words as its value has.
    pub(super) fn words(&self, key: &str, words: &[String]) -> Result<Vec<String>, RecipeError> {
        let mut filled = Vec::with_capacity(words.len());
        for word in words {
            match name_between(word, "{*", "}") {
                Some(name) if word.len() == name.len() + 3 => {
                    filled.extend(
                        self.value(key, name)?.split_ascii_whitespace().map(ToOwned::to_owned),
                    );
                }
                _ => filled.push(self.text(key, word)?),
            }
        }
        Ok(filled)
    }

    fn value(&self, key: &str, name: &str) -> Result<&str, RecipeError> {
        if let Some(value) = self.values.get(name) {
            return Ok(value);
        }
        let names: Vec<&str> = self.values.keys().map(String::as_str).collect();
        let hint = match name {
            "n" => "`{n}` counts copies: add `count` or `on`".to_owned(),
            "point" => "`{point}` is the mount point of a client, only for [access]".to_owned(),
            _ => format!("one of {}; write `{{{{{name}}}}}` for the text itself", names.join(", ")),
        };
        Err(RecipeError::new(format!("{key}: there is no variable `{name}`"), hint))
    }
}

/// Returns the name at the beginning of a text between the given delimiters.
fn name_between<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(open)?;
    let name = &rest[..rest.find(close)?];
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_name) {
        Some(name)
    } else {
        None
    }
}
