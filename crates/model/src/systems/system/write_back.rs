//! Data that a system holds back: until it has drained, in its own caches, and in front of the
//! object store that keeps it.

use serde::{Deserialize, Serialize};

use super::roles::Places;
use super::template::{Template, Values};
use super::{Recipe, RecipeError};

/// Default time limit for draining, in seconds.
const DRAIN_LIMIT_S: u64 = 300;
/// Default time limit for an object to appear, in seconds.
const OBJECT_LIMIT_S: u64 = 30;
/// Maximum time limit, in seconds.
const LIMIT_MAX_S: u64 = 86_400;
/// Variable for the path of the probe file.
pub(super) const PROBE_VARIABLE: &str = "file";

/// How to wait until all written data has reached its final place, such as an object store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Role on whose hosts the commands run, or `all` servers; empty for the main server.
    #[serde(default)]
    pub on: String,
    /// Command that is run once before the check; empty if the system drains by itself.
    #[serde(default)]
    pub run: Vec<String>,
    /// Command that is repeated until it exits with 0 and prints `until`.
    #[serde(default)]
    pub check: Vec<String>,
    /// Last line that `check` prints once the system is drained; empty if the exit code shows it.
    #[serde(default)]
    pub until: String,
    /// Time limit in seconds.
    #[serde(default = "drain_limit")]
    pub within_s: u64,
}

/// How to empty the caches of a system, and the counter that proves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evict {
    /// Role on whose hosts the commands run, or `all` servers; empty for the main server.
    #[serde(default)]
    pub on: String,
    /// Command that empties the caches.
    #[serde(default)]
    pub run: Vec<String>,
    /// Command that prints how much they contain.
    #[serde(default)]
    pub check: Vec<String>,
    /// Last line that `check` prints if they are empty.
    #[serde(default = "nothing")]
    pub empty: String,
}

/// How to tell that a file is in the object store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectCheck {
    /// Command on the main server that exits with 0 if the object of `{file}` is there.
    #[serde(default)]
    pub run: Vec<String>,
    /// How long to wait for it, in seconds.
    #[serde(default = "object_limit")]
    pub within_s: u64,
}

const fn drain_limit() -> u64 {
    DRAIN_LIMIT_S
}

const fn object_limit() -> u64 {
    OBJECT_LIMIT_S
}

fn nothing() -> String {
    "0".to_owned()
}

/// Commands with the indexes of their hosts.
pub type PlacedCommands = Vec<(usize, Vec<String>)>;

/// [`Drain`] without variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilledDrain {
    pub run: PlacedCommands,
    pub check: PlacedCommands,
    pub until: String,
    pub within_s: u64,
}

/// [`Evict`] without variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilledEvict {
    pub run: PlacedCommands,
    pub check: PlacedCommands,
    pub empty: String,
}

impl Recipe {
    /// Fills in a command once for each host.
    pub(super) fn place_command(
        key: &str,
        (on, words): (&str, &[String]),
        values: &Values,
        places: &Places,
        errors: &mut Vec<RecipeError>,
    ) -> PlacedCommands {
        if words.is_empty() {
            return Vec::new();
        }
        let mut placed = Vec::new();
        let copies = places.copies(values, &format!("{key}.on"), on, "");
        for copy in copies.map_err(|error| errors.push(error)).unwrap_or_default() {
            match (Template { values: &copy.values }).words(key, words) {
                Ok(words) => placed.push((copy.host, words)),
                Err(error) => errors.push(error),
            }
        }
        placed
    }

    pub(super) fn fill_in_drain(
        &self,
        values: &Values,
        places: &Places,
        errors: &mut Vec<RecipeError>,
    ) -> Option<FilledDrain> {
        let Drain { on, run, check, until, within_s } = self.drain.as_ref()?;
        Some(FilledDrain {
            run: Self::place_command("drain.run", (on, run), values, places, errors),
            check: Self::place_command("drain.check", (on, check), values, places, errors),
            until: until.clone(),
            within_s: *within_s,
        })
    }

    pub(super) fn fill_in_evict(
        &self,
        values: &Values,
        places: &Places,
        errors: &mut Vec<RecipeError>,
    ) -> Option<FilledEvict> {
        let Evict { on, run, check, empty } = self.evict.as_ref()?;
        Some(FilledEvict {
            run: Self::place_command("evict.run", (on, run), values, places, errors),
            check: Self::place_command("evict.check", (on, check), values, places, errors),
            empty: empty.clone(),
        })
    }

    /// Fills in the check of an object; `{file}` stays.
    pub(super) fn fill_in_object(
        &self,
        values: &Values,
        errors: &mut Vec<RecipeError>,
    ) -> Option<ObjectCheck> {
        let ObjectCheck { run, within_s } = self.object.as_ref()?;
        let mut values = values.clone();
        values.insert(PROBE_VARIABLE.to_owned(), format!("{{{PROBE_VARIABLE}}}"));
        let run = (Template { values: &values }).words("object.run", run);
        let run = run.map_err(|error| errors.push(error)).unwrap_or_default();
        Some(ObjectCheck { run, within_s: *within_s })
    }

    /// Checks what doesn't depend on values.
    pub(super) fn check_write_back(&self, problems: &mut Vec<RecipeError>) {
        let mut refuse = |key: &str, what: String, hint: &str| {
            problems.push(RecipeError::new(key, what, hint));
        };
        let mut check_limit = |key: &str, within_s: u64| {
            if !(1..=LIMIT_MAX_S).contains(&within_s) {
                let what = format!("must be 1 to {LIMIT_MAX_S}, not {within_s}");
                refuse(key, what, "seconds, such as 300");
            }
        };
        if let Some(drain) = &self.drain {
            check_limit("drain.within_s", drain.within_s);
        }
        if let Some(object) = &self.object {
            check_limit("object.within_s", object.within_s);
            if !object.run.iter().any(|word| word.contains("{file}")) {
                let hint = "a command with `{file}` that exits with 0 if its object is there";
                refuse("object.run", "does not contain the file".to_owned(), hint);
            }
        }
        if self.drain.as_ref().is_some_and(|drain| drain.check.is_empty()) {
            let hint = "a command that exits with 0, or prints `until`, once uploads are finished";
            refuse("drain.check", "nothing shows that it is drained".to_owned(), hint);
        }
        if let Some(evict) = &self.evict {
            if evict.run.is_empty() {
                let hint = "a command that empties the system's cache";
                refuse("evict.run", "is empty".to_owned(), hint);
            }
            if evict.check.is_empty() {
                let hint = "a command that prints how much the cache contains, such as its bytes";
                refuse("evict.check", "nothing proves that the cache is empty".to_owned(), hint);
            }
            if evict.empty.trim().is_empty() {
                let what = "must be what `check` prints for an empty cache".to_owned();
                refuse("evict.empty", what, "such as \"0\"");
            }
        }
    }
}
