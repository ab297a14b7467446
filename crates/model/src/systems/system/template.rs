//! Text with variables: `{name}` in a text, `{*name}` for several words of a command.
//!
//! A brace without a name is literal, so that configuration files need no escapes. `{{name}}` is
//! the literal text `{name}`.

use std::collections::BTreeMap;

use super::{RecipeError, has_secret};

/// Values of a recipe's variables in one context.
pub(super) type Values = BTreeMap<String, String>;

/// Fills in text using these values.
pub(super) struct Template<'a> {
    pub values: &'a Values,
}

impl Template<'_> {
    /// Fills in one text. `key` names it in errors.
    pub(super) fn text(&self, key: &str, text: &str) -> Result<String, RecipeError> {
        let filled = self.text_with_secrets(key, text)?;
        self.check_public(key, text, [&filled]).map(|()| filled)
    }

    /// Fills in one text that is shown to nobody.
    pub(super) fn text_with_secrets(&self, key: &str, text: &str) -> Result<String, RecipeError> {
        let mut unknown = Vec::new();
        let filled = self.fill(text, &mut unknown);
        self.check(key, &unknown).map(|()| filled)
    }

    /// Fills in several texts.
    pub(super) fn texts(&self, key: &str, texts: &[String]) -> Result<Vec<String>, RecipeError> {
        let mut unknown = Vec::new();
        let filled: Vec<_> = texts.iter().map(|text| self.fill(text, &mut unknown)).collect();
        self.check(key, &unknown)?;
        self.check_public(key, &texts.join(" "), &filled).map(|()| filled)
    }

    /// Fills in a command. `{*name}` expands to as many words as its value has.
    pub(super) fn words(&self, key: &str, words: &[String]) -> Result<Vec<String>, RecipeError> {
        let mut unknown = Vec::new();
        let mut filled = Vec::with_capacity(words.len());
        for word in words {
            match name_between(word, "{*", "}") {
                Some(name) if word.len() == name.len() + 3 => {
                    let value = self.value(name, &mut unknown);
                    filled.extend(value.split_ascii_whitespace().map(ToOwned::to_owned));
                }
                _ => filled.push(self.fill(word, &mut unknown)),
            }
        }
        self.check(key, &unknown)?;
        self.check_public(key, &words.join(" "), &filled).map(|()| filled)
    }

    /// Refuses secrets in filled-in texts that others can see.
    fn check_public<'f>(
        &self,
        key: &str,
        text: &str,
        filled: impl IntoIterator<Item = &'f String>,
    ) -> Result<(), RecipeError> {
        if !filled.into_iter().any(|filled| has_secret(filled)) {
            return Ok(());
        }
        let is_used = |name: &&str| {
            text.contains(&format!("{{{name}}}")) || text.contains(&format!("{{*{name}}}"))
        };
        let secrets = self.values.iter().filter(|(_, value)| has_secret(value));
        let name = secrets.map(|(name, _)| name.as_str()).find(is_used).unwrap_or_default();
        let what = format!("`{name}` is a secret, but every user of the host can see this text");
        let hint = "put secrets into a [[file]], or into [environment] for its commands";
        Err(RecipeError::new(key, what, hint))
    }

    /// Fills in one text; adds the names that aren't variables to `unknown`.
    fn fill(&self, text: &str, unknown: &mut Vec<String>) -> String {
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
                filled.push_str(self.value(name, unknown));
                rest = &rest[name.len() + 2..];
            } else {
                filled.push('{');
                rest = &rest[1..];
            }
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, name: &str, unknown: &mut Vec<String>) -> &str {
        if let Some(value) = self.values.get(name) {
            return value;
        }
        if !unknown.iter().any(|known| known == name) {
            unknown.push(name.to_owned());
        }
        ""
    }

    fn check(&self, key: &str, unknown: &[String]) -> Result<(), RecipeError> {
        let Some(name) = unknown.first() else { return Ok(()) };
        let names: Vec<&str> = self.values.keys().map(String::as_str).collect();
        let hint = match name.as_str() {
            "n" => "`{n}` counts copies: add `count` or `on`".to_owned(),
            "file" => "`{file}` is the probe file, only for [object]".to_owned(),
            "point" => "`{point}` is the mount point of a client, only for [access]".to_owned(),
            _ => format!("one of {}; write `{{{{{name}}}}}` for the text itself", names.join(", ")),
        };
        let shown: Vec<String> = unknown.iter().map(|name| format!("variable `{name}`")).collect();
        Err(RecipeError::new(key, format!("there is no {}", shown.join(" and no ")), hint))
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
