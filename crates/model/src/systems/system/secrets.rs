//! Secrets of a recipe: where their values come from, and how they are kept out of everything that
//! is shown or stored.
//!
//! A recipe's text contains a [marker](SecretSource::marker) in place of a value. The controller
//! reads the values when it begins, and sends them to the agents as [`Secrets`]; these put them in
//! only when they write a file or start a program, and take them out of whatever they report.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Recipe, RecipeError};

/// Beginning of a marker.
const OPENING: &str = "<secret:";
/// End of a marker.
const CLOSING: char = '>';
/// What is shown in place of a value.
const REDACTED: &str = "***";

/// Minimum length of a value in bytes: anything shorter occurs in other text by chance, so it
/// cannot be kept out of messages.
pub const SECRET_MIN: usize = 6;
/// Maximum length of a value in bytes.
pub const SECRET_MAX: usize = 64 << 10;

/// Where the controller finds the value of a secret: either `env` or `file`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretSource {
    /// Name of an environment variable.
    #[serde(default)]
    pub env: String,
    /// Path of a file, absolute or below `~`.
    #[serde(default)]
    pub file: String,
}

impl SecretSource {
    /// Returns the text that stands for the value until it is used.
    pub fn marker(&self) -> String {
        let (kind, name) =
            if self.env.is_empty() { ("file", &self.file) } else { ("env", &self.env) };
        format!("{OPENING}{kind}:{name}{CLOSING}")
    }

    /// Returns the first problem of the source.
    pub fn problem(&self) -> Option<RecipeError> {
        let hint = "either { env = \"S3_KEY\" } or { file = \"~/.s3key\" }";
        if self.env.is_empty() == self.file.is_empty() {
            return Some(RecipeError::new("", "is incomplete or ambiguous", hint));
        }
        if !self.env.is_empty() && !is_variable_name(&self.env) {
            let what = format!("`{}` is not an environment variable", self.env);
            return Some(RecipeError::new("env", what, hint));
        }
        let is_path = self.file.starts_with('/') || self.file.starts_with("~/");
        if self.env.is_empty() && (!is_path || self.file.contains([CLOSING, '\n', '\0'])) {
            let what = format!("`{}` is not a path", self.file);
            let hint = "an absolute path, or one below the home directory: \"~/.s3key\"";
            return Some(RecipeError::new("file", what, hint));
        }
        None
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.env.is_empty() {
            write!(f, "file {}", self.file)
        } else {
            write!(f, "environment variable {}", self.env)
        }
    }
}

/// Returns true if a text is a possible name of an environment variable.
pub(super) fn is_variable_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(fits)
}

/// Returns true if a text contains a marker.
pub fn has_secret(text: &str) -> bool {
    text.contains(OPENING)
}

/// Values of secrets by their markers. Their debug output contains no value.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets(BTreeMap<String, String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Secrets {
    /// No secrets at all.
    pub const NONE: Self = Self(BTreeMap::new());

    /// Adds a value.
    pub fn insert(&mut self, source: &SecretSource, value: String) {
        self.0.insert(source.marker(), value);
    }

    /// Returns true if the value of a source is known.
    pub fn contains(&self, source: &SecretSource) -> bool {
        self.0.contains_key(&source.marker())
    }

    /// Replaces the markers in a text by their values.
    ///
    /// # Errors
    /// If a value is not known; the error is its marker.
    pub fn reveal<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        if !has_secret(text) {
            return Ok(Cow::Borrowed(text));
        }
        let mut revealed = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(OPENING) {
            revealed.push_str(&rest[..at]);
            rest = &rest[at..];
            let end = rest.find(CLOSING).map_or(rest.len(), |end| end + CLOSING.len_utf8());
            let (marker, after) = rest.split_at(end);
            revealed.push_str(self.0.get(marker).ok_or(marker)?);
            rest = after;
        }
        revealed.push_str(rest);
        Ok(Cow::Owned(revealed))
    }

    /// Replaces the values in a text, and their lines if they have several.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut parts: Vec<&str> = Vec::new();
        for value in self.0.values() {
            parts.push(value);
            parts.extend(value.lines().map(str::trim));
        }
        parts.retain(|part| part.len() >= SECRET_MIN && text.contains(part));
        // A value may contain another one.
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        let mut redacted = Cow::Borrowed(text);
        for part in parts {
            redacted = Cow::Owned(redacted.replace(part, REDACTED));
        }
        redacted
    }
}

impl Recipe {
    /// Checks the source that a plan gives a secret.
    ///
    /// # Errors
    /// If the recipe has no such secret, or the source is invalid.
    pub fn check_secret(&self, name: &str, source: &SecretSource) -> Result<(), RecipeError> {
        if !self.secrets.contains_key(name) {
            let names: Vec<&str> = self.secrets.keys().map(String::as_str).collect();
            let hint = if names.is_empty() { "it has none".into() } else { names.join(", ") };
            let what = format!("{} has no secret `{name}`", self.name);
            return Err(RecipeError::new("", what, hint));
        }
        source.problem().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> SecretSource {
        SecretSource { env: name.to_owned(), file: String::new() }
    }

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        secrets.insert(&env("KEY"), "hunter22".to_owned());
        let file = SecretSource { env: String::new(), file: "~/key".to_owned() };
        secrets.insert(&file, "first line\n}\nhunter22-and-more".to_owned());
        secrets
    }

    #[test]
    fn reveals_only_known_markers() {
        let text = format!("key = {}\n", env("KEY").marker());
        assert_eq!(secrets().reveal(&text).unwrap(), "key = hunter22\n");
        assert_eq!(secrets().reveal("plain <b>").unwrap(), "plain <b>");
        assert_eq!(secrets().reveal(&env("NONE").marker()).unwrap_err(), env("NONE").marker());
        assert_eq!(secrets().reveal("<secret:env").unwrap_err(), "<secret:env");
    }

    #[test]
    fn redacts_values_and_their_lines() {
        let said = "bad key hunter22, hunter22-and-more; first line\n}";
        assert_eq!(secrets().redact(said), "bad key ***, ***; ***\n}");
        assert_eq!(secrets().redact("nothing"), "nothing");
        assert!(!format!("{:?}", secrets()).contains("hunter22"));
    }

    #[test]
    fn rejects_wrong_sources() {
        let source = |env: &str, file: &str| SecretSource { env: env.into(), file: file.into() };
        for wrong in [
            source("", ""),
            source("A", "/b"),
            source("1A", ""),
            source("A=B", ""),
            source("", "key"),
            source("", "/a>b"),
        ] {
            assert!(wrong.problem().is_some(), "{wrong:?}");
        }
        for right in [source("A_1", ""), source("", "/b"), source("", "~/.key")] {
            assert_eq!(right.problem(), None);
        }
    }
}
