//! Settings of a recipe, and the variables derived from them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::template::Values;
use super::{Recipe, RecipeError};

/// The type of a recipe's setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingKind {
    /// One of `choices`.
    #[default]
    Choice,
    /// An integer from `min` to `max`.
    Number,
    /// Letters, digits and `_.:/-`.
    Text,
}

/// A setting of a recipe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeSetting {
    #[serde(rename = "type")]
    pub kind: SettingKind,
    /// Explains its effect to users.
    pub meaning: String,
    /// The value unless a plan sets another one.
    #[serde(deserialize_with = "read_scalar")]
    pub default: String,
    /// The allowed values of a choice.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Minimum of a number.
    #[serde(default)]
    pub min: u64,
    /// Maximum of a number.
    #[serde(default)]
    pub max: u64,
}

/// A text that depends on a setting (`by` and `values`) or is repeated (`repeat`, `count`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// The setting that it depends on.
    #[serde(default)]
    pub by: String,
    /// The text for each value of that setting.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// The text to repeat, with `{n}` counting from 1.
    #[serde(default)]
    pub repeat: String,
    /// Number of copies, as a number or a variable. If only `on` is given, there is one for each
    /// host.
    #[serde(default)]
    pub count: String,
    /// The role to whose hosts the copies are assigned in turn, or `all`. `{host}` is the address
    /// of each.
    #[serde(default)]
    pub on: String,
    /// Text between the copies.
    #[serde(default = "blank")]
    pub separator: String,
}

fn blank() -> String {
    " ".to_owned()
}

/// Reads a text, number or flag as text, so that `default = 4` needs no quotes.
fn read_scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Scalar;
    impl Visitor<'_> for Scalar {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string, a number, true or false")
        }

        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_i64<E>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_u64<E>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_bool<E>(self, yes: bool) -> Result<String, E> {
            Ok(yes.to_string())
        }
    }
    // Messages between processes contain no types, so the value is always a text there.
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(Scalar)
    } else {
        String::deserialize(deserializer)
    }
}

impl RecipeSetting {
    /// Describes the allowed values.
    pub fn legal(&self) -> String {
        match self.kind {
            SettingKind::Choice => self.choices.join(", "),
            SettingKind::Number => format!("{} to {}", self.min, self.max),
            SettingKind::Text => "letters, digits and `_.:/-`".to_owned(),
        }
    }

    /// Returns true if the value is allowed.
    pub(crate) fn allows(&self, value: &str) -> bool {
        match self.kind {
            SettingKind::Choice => self.choices.iter().any(|choice| choice == value),
            SettingKind::Number => {
                matches!(value.parse(), Ok(number) if (self.min..=self.max).contains(&number))
            }
            SettingKind::Text => {
                let fits = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
                !value.starts_with('-') && value.chars().all(fits)
            }
        }
    }
}

impl Recipe {
    /// Checks the values given in a plan.
    ///
    /// # Errors
    /// If a setting is unknown, given twice or out of range.
    pub fn check_settings(&self, given: &[(String, String)]) -> Result<(), RecipeError> {
        self.setting_values(given).map(drop)
    }

    /// Returns the value of each setting: the given one, or its default.
    pub(super) fn setting_values(&self, given: &[(String, String)]) -> Result<Values, RecipeError> {
        let mut values = Values::new();
        for (name, value) in given {
            let Some(setting) = self.settings.get(name) else {
                let names: Vec<&str> = self.settings.keys().map(String::as_str).collect();
                let what = format!("{} has no setting `{name}`", self.name);
                let hint = if names.is_empty() { "it has none".into() } else { names.join(", ") };
                return Err(RecipeError::new("", what, hint));
            };
            if !setting.allows(value) {
                let what = format!("{} can't have {name} `{value}`", self.name);
                return Err(RecipeError::new("", what, setting.legal()));
            }
            if values.insert(name.clone(), value.clone()).is_some() {
                let what = format!("setting `{name}` of {} is given twice", self.name);
                return Err(RecipeError::new("", what, "give each once"));
            }
        }
        for (name, setting) in &self.settings {
            if !values.contains_key(name) {
                values.insert(name.clone(), setting.default.clone());
            }
        }
        Ok(values)
    }
}
