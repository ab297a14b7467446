//! Settings of a recipe, and the variables that follow from them.

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
    /// A whole number of `min` to `max`.
    Number,
    /// Letters, digits and `_.:/-`.
    Text,
}

/// A setting of a recipe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeSetting {
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: SettingKind,
    /// Its effect, for people.
    pub meaning: String,
    /// The value where a plan gives none.
    #[serde(deserialize_with = "read_scalar")]
    pub default: String,
    /// The values that a choice may have.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Smallest number that is legal.
    #[serde(default)]
    pub min: u64,
    /// Largest number that is legal.
    #[serde(default)]
    pub max: u64,
}

/// A text that follows from a setting (`by` and `values`), or is repeated (`repeat`, `count`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// The setting that decides.
    #[serde(default)]
    pub by: String,
    /// The text for each value of that setting.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// The text that is repeated, with `{n}` from 1.
    #[serde(default)]
    pub repeat: String,
    /// How often, as a number or a variable; with `on` alone once for each host.
    #[serde(default)]
    pub count: String,
    /// The role whose hosts the copies are on in turn, or `all`: `{host}` is the address of each.
    #[serde(default)]
    pub on: String,
    /// Text that stands between the copies.
    #[serde(default = "blank")]
    pub separator: String,
}

fn blank() -> String {
    " ".to_owned()
}

/// Reads a text, or a number or a flag as text, so that `default = 4` needs no quotes.
fn read_scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Scalar;
    impl Visitor<'_> for Scalar {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text, a number, true or false")
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
    // Messages between processes say nothing of types: there it is always a text.
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(Scalar)
    } else {
        String::deserialize(deserializer)
    }
}

impl RecipeSetting {
    /// Says which values it may have.
    pub fn legal(&self) -> String {
        match self.kind {
            SettingKind::Choice => self.choices.join(", "),
            SettingKind::Number => format!("{} to {}", self.min, self.max),
            SettingKind::Text => "letters, digits and `_.:/-`".to_owned(),
        }
    }

    /// Says whether it may have a value.
    pub fn allows(&self, value: &str) -> bool {
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
    /// Checks values that a plan gives to settings.
    ///
    /// # Errors
    /// Where a setting is none of the recipe's, stands twice or is out of its range.
    pub fn check_settings(&self, given: &[(String, String)]) -> Result<(), RecipeError> {
        self.setting_values(given).map(drop)
    }

    /// Returns the value of each setting: the one that is given, or its default.
    pub(super) fn setting_values(&self, given: &[(String, String)]) -> Result<Values, RecipeError> {
        let mut values = Values::new();
        for (name, value) in given {
            let Some(setting) = self.settings.get(name) else {
                let names: Vec<&str> = self.settings.keys().map(String::as_str).collect();
                let what = format!("{} has no setting `{name}`", self.name);
                let hint = if names.is_empty() { "it has none".into() } else { names.join(", ") };
                return Err(RecipeError::new(what, hint));
            };
            if !setting.allows(value) {
                let what = format!("{} can't have {name} `{value}`", self.name);
                return Err(RecipeError::new(what, setting.legal()));
            }
            if values.insert(name.clone(), value.clone()).is_some() {
                let what = format!("setting `{name}` of {} is given twice", self.name);
                return Err(RecipeError::new(what, "give each once"));
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
