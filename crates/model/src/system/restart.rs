//! How the servers of a system start again.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// How servers start again on the files that they have kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Not at all after their host has lost its power, or an invalidation has ended them: what they
    /// need for it is gone, and their steps make a new system.
    #[default]
    Never,
    /// By all steps.
    AllSteps,
    /// After a loss of power, by the steps that don't make the system: all that they need for it
    /// lies below `{storage}` and `{state}`. No invalidation ends them.
    OnState,
}

impl Restart {
    /// Every way with its name in recipes.
    const NAMED: [(&str, Self); 3] =
        [("never", Self::Never), ("all-steps", Self::AllSteps), ("on-state", Self::OnState)];
}

impl<'de> Deserialize<'de> for Restart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RestartVisitor)
    }
}

/// Reads a name, or a flag: what earlier versions wrote, whose key was `restarts`.
struct RestartVisitor;

impl Visitor<'_> for RestartVisitor {
    type Value = Restart;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"never\", \"all-steps\" or \"on-state\"")
    }

    fn visit_bool<E: Error>(self, restarts: bool) -> Result<Restart, E> {
        Ok(if restarts { Restart::AllSteps } else { Restart::Never })
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Restart, E> {
        match Restart::NAMED.iter().find(|(known, _)| *known == name) {
            Some((_, restart)) => Ok(*restart),
            None => Err(E::invalid_value(serde::de::Unexpected::Str(name), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_flags_of_earlier_versions_too() {
        for (name, restart) in Restart::NAMED {
            assert_eq!(serde_json::to_value(restart).unwrap(), json!(name));
            assert_eq!(serde_json::from_value::<Restart>(json!(name)).unwrap(), restart);
        }
        let read = |value| serde_json::from_value::<Restart>(value);
        assert_eq!(read(json!(true)).unwrap(), Restart::AllSteps);
        assert_eq!(read(json!(false)).unwrap(), Restart::Never);
        let wrong = read(json!("always")).unwrap_err().to_string();
        assert!(wrong.contains("`always`") || wrong.contains("\"always\""), "{wrong}");
        assert!(wrong.contains("all-steps"), "{wrong}");
    }
}
