//! A statement that a campaign is expected to confirm, and the comparison behind it.
//!
//! A plan declares [`Conclusion`]s, such as those of a paper that it reproduces, and a report
//! judges each by the effect of its factor. They are part of the plan's text, which every campaign
//! stores and from which they are read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sentence, and the comparison that confirms or contradicts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// The sentence, as its author wrote it.
    pub text: String,
    /// The factor: a setting, `target`, `fact.NAME` or `label.NAME`. Empty for a ranking, and if no
    /// comparison can confirm the sentence.
    #[serde(default)]
    pub factor: String,
    /// The level to compare with; the first one if empty.
    #[serde(default)]
    pub from: String,
    /// The level to compare; the last one if empty.
    #[serde(default)]
    pub to: String,
    /// The passes that it applies to, such as `read` or `stream read`; all if empty.
    #[serde(default)]
    pub passes: Vec<String>,
    /// Settings with their allowed levels; a run must have one of each.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, Vec<String>>,
    /// The expected result.
    #[serde(default)]
    pub expect: Expectation,
    /// Why no comparison can confirm it, if there is no factor.
    #[serde(default)]
    pub why: String,
}

/// The expected result of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Expectation {
    /// The rate is higher by more than the smallest effect that matters.
    #[default]
    #[serde(rename = "faster")]
    Faster,
    /// The rate is lower by more than that.
    #[serde(rename = "slower")]
    Slower,
    /// The rate differs by less than that.
    #[serde(rename = "no difference")]
    NoDifference,
    /// The factor explains more of the variance than any other.
    #[serde(rename = "matters most")]
    MattersMost,
    /// Nothing: the sentence is a question, and all factors are ranked by their share of the
    /// variance.
    #[serde(rename = "ranking")]
    Ranking,
}

impl Expectation {
    /// All expectations.
    pub const ALL: [Self; 5] =
        [Self::Faster, Self::Slower, Self::NoDifference, Self::MattersMost, Self::Ranking];

    /// The names of all expectations.
    pub const NAMES: &[&str] = &["faster", "slower", "no difference", "matters most", "ranking"];

    /// Returns the name used in plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifference => "no difference",
            Self::MattersMost => "matters most",
            Self::Ranking => "ranking",
        }
    }

    /// Finds an expectation by name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|expected| expected.name() == name)
    }
}

impl Conclusion {
    /// Prefixes of factors that are not settings.
    pub const PROPERTIES: [&str; 2] = ["fact.", "label."];

    /// Other factors that are not settings.
    pub const IDENTITIES: [&str; 6] =
        ["target", "backend", "workload", "tags", "campaign", "dfsbench_version"];

    /// Returns true if this may be the name of a factor that is not a setting.
    pub fn is_property(name: &str) -> bool {
        let has_rest = |begin: &&str| name.len() > begin.len() && name.starts_with(*begin);
        Self::IDENTITIES.contains(&name) || Self::PROPERTIES.iter().any(has_rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_stored_names_of_expectations() {
        for (expected, name) in Expectation::ALL.into_iter().zip(Expectation::NAMES) {
            assert_eq!((expected.name(), Expectation::from_name(name)), (*name, Some(expected)));
            assert_eq!(serde_json::to_string(&expected).unwrap(), format!("\"{name}\""));
        }
    }

    #[test]
    fn names_factors_that_are_no_settings() {
        for name in ["target", "fact.kernel", "label.dram"] {
            assert!(Conclusion::is_property(name), "{name}");
        }
        for name in ["fact.", "label", "nfsvers", ""] {
            assert!(!Conclusion::is_property(name), "{name}");
        }
    }
}
